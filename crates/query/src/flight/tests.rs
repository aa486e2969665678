//! Arrow's own client against a listener on the loopback.

use std::net::SocketAddr;
use std::sync::Arc;

use arrow::array::{AsArray, Int64Array, RecordBatch};
use arrow::util::pretty::pretty_format_batches;
use arrow_flight::FlightInfo;
use arrow_flight::sql::client::FlightSqlServiceClient;
use arrow_flight::sql::{CommandGetDbSchemas, CommandGetTables, SqlInfo};
use futures::TryStreamExt;
use tokio::net::TcpListener;
use tonic::transport::{Channel, Endpoint};
use transport::{Alpn, Auth, Authenticators, BearerTokenAuth, Door, HandshakeFailures, Secret};

use super::serve;
use crate::metrics::Connections;
use crate::tests::attacks::{N_SPANS, attack, fill, tight};
use crate::tests::statement_log::{Log, ON, leak, logged};
use crate::tests::support::{Fixture, config, fixture};

const TOKEN: &str = "a-token-of-a-reader";

struct Served {
    fixture: Fixture,
    address: SocketAddr,
    connections: Arc<Connections>,
}

async fn listen(fixture: Fixture, door: Door) -> Served {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let connections = Arc::<Connections>::default();
    let failures = Arc::<HandshakeFailures>::default();
    let serving = serve(
        Arc::clone(&fixture.engine),
        door,
        Arc::clone(&connections),
        failures,
        listener,
        std::future::pending(),
    );
    tokio::spawn(serving);
    Served {
        fixture,
        address,
        connections,
    }
}

async fn connect(address: SocketAddr) -> FlightSqlServiceClient<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    FlightSqlServiceClient::new(endpoint.connect().await.unwrap())
}

async fn read(
    client: &mut FlightSqlServiceClient<Channel>,
    info: FlightInfo,
) -> Result<Vec<RecordBatch>, String> {
    let mut batches = Vec::new();
    for endpoint in info.endpoint {
        let rows = client.do_get(endpoint.ticket.unwrap()).await;
        let rows = rows.map_err(|error| error.to_string())?;
        let rows: Vec<_> = rows
            .try_collect()
            .await
            .map_err(|error| error.to_string())?;
        batches.extend(rows);
    }
    Ok(batches)
}

async fn ask(
    client: &mut FlightSqlServiceClient<Channel>,
    sql: &str,
) -> Result<Vec<RecordBatch>, String> {
    let info = client.execute(sql.to_owned(), None).await;
    read(client, info.map_err(|error| error.to_string())?).await
}

#[tokio::test]
async fn a_statement_is_answered_in_columns() {
    let fixture = fixture(&config()).await;
    fill(&fixture);
    let served = listen(fixture, Door::default()).await;
    let mut client = connect(served.address).await;
    let info = client
        .execute("SELECT trace_id, start_time FROM spans".to_owned(), None)
        .await
        .unwrap();
    let told = info.clone().try_decode_schema().unwrap();
    let batches = read(&mut client, info).await.unwrap();
    assert_eq!(batches[0].schema().as_ref(), &told);
    let n_rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    assert_eq!(i64::try_from(n_rows).unwrap(), N_SPANS);
    let empty = ask(&mut client, "SELECT trace_id FROM spans LIMIT 0")
        .await
        .unwrap();
    assert_eq!(empty.iter().map(RecordBatch::num_rows).sum::<usize>(), 0);
    assert!(
        served
            .fixture
            .engine
            .metrics()
            .render()
            .contains("query_statements_total{door=\"flight_sql\",outcome=\"answered\"} 2")
    );
}

#[tokio::test]
async fn a_prepared_statement_takes_parameters_and_is_kept_nowhere() {
    let fixture = fixture(&config()).await;
    fill(&fixture);
    let served = listen(fixture, Door::default()).await;
    let mut client = connect(served.address).await;
    let sql = "SELECT count(*) FROM spans WHERE trace_id >= $1 AND start_time_unix_nano > $2";
    let mut prepared = client.prepare(sql.to_owned(), None).await.unwrap();
    let parameters = prepared.parameter_schema().unwrap();
    assert_eq!(parameters.fields().len(), 2, "{parameters}");
    let id: arrow::array::ArrayRef = Arc::new(arrow::array::StringArray::from(vec![
        "00000000000000000000000000000100",
    ]));
    let number: arrow::array::ArrayRef = Arc::new(Int64Array::from(vec![0]));
    let row = RecordBatch::try_from_iter([("$1", id), ("$2", number)]).unwrap();
    prepared.set_parameters(row.clone()).unwrap();
    let info = prepared.execute().await.unwrap();
    let batches = read(&mut client, info).await.unwrap();
    let count = batches[0]
        .column(0)
        .as_primitive::<arrow::datatypes::Int64Type>()
        .value(0);
    assert_eq!(count, N_SPANS - 0x100);
    // Another row of parameters would be another statement.
    let mut prepared = client.prepare(sql.to_owned(), None).await.unwrap();
    let rows = arrow::compute::concat_batches(&row.schema(), [&row, &row]).unwrap();
    prepared.set_parameters(rows).unwrap();
    let error = prepared.execute().await.unwrap_err().to_string();
    assert!(error.contains("2 rows"), "{error}");
    prepared.close().await.unwrap();
}

#[tokio::test]
async fn names_types_and_abilities_are_listed() {
    let served = listen(fixture(&config()).await, Door::default()).await;
    let mut client = connect(served.address).await;
    let info = client.get_catalogs().await.unwrap();
    let catalogs = read(&mut client, info).await.unwrap();
    assert!(
        pretty_format_batches(&catalogs)
            .unwrap()
            .to_string()
            .contains("whyslow")
    );
    let info = client
        .get_db_schemas(CommandGetDbSchemas::default())
        .await
        .unwrap();
    let schemas = read(&mut client, info).await.unwrap();
    assert!(
        pretty_format_batches(&schemas)
            .unwrap()
            .to_string()
            .contains("public")
    );
    let wanted = CommandGetTables {
        table_name_filter_pattern: Some("slow_r%".to_owned()),
        include_schema: true,
        ..CommandGetTables::default()
    };
    let info = client.get_tables(wanted).await.unwrap();
    let tables = read(&mut client, info).await.unwrap();
    assert_eq!(tables[0].num_rows(), 1);
    assert_eq!(tables[0].column(3).as_string::<i32>().value(0), "VIEW");
    assert!(tables[0].column(4).as_binary::<i32>().value(0).len() > 100);
    let info = client.get_table_types().await.unwrap();
    assert_eq!(read(&mut client, info).await.unwrap()[0].num_rows(), 2);
    let info = client
        .get_sql_info(vec![SqlInfo::FlightSqlServerReadOnly])
        .await
        .unwrap();
    assert_eq!(read(&mut client, info).await.unwrap()[0].num_rows(), 1);
    let info = client
        .get_xdbc_type_info(arrow_flight::sql::CommandGetXdbcTypeInfo::default())
        .await
        .unwrap();
    assert!(read(&mut client, info).await.unwrap()[0].num_rows() > 3);
}

#[tokio::test]
async fn what_would_change_something_is_refused() {
    let served = listen(fixture(&config()).await, Door::default()).await;
    let mut client = connect(served.address).await;
    let error = client
        .execute_update("DELETE FROM spans".to_owned(), None)
        .await;
    assert!(
        error
            .unwrap_err()
            .to_string()
            .contains("nothing can be changed here")
    );
    let error = client.begin_transaction().await.unwrap_err().to_string();
    assert!(error.contains("no transactions"), "{error}");
    assert_eq!(ask(&mut client, "SELECT 1").await.unwrap()[0].num_rows(), 1);
}

/// A door that asks for [`TOKEN`].
fn guarded() -> Door {
    let settings = BearerTokenAuth {
        token: Secret::new(TOKEN),
        ..BearerTokenAuth::default()
    };
    let known = Authenticators([("bearertokenauth".to_owned(), settings)].into());
    let auth = Auth {
        authenticator: "bearertokenauth".to_owned(),
    };
    Door::open("flight_sql", None, Some(&auth), &known, Alpn::Http2).unwrap()
}

#[tokio::test]
async fn every_call_needs_a_token_and_the_handshake_gives_one_for_a_password() {
    let served = listen(fixture(&config()).await, guarded()).await;
    let mut client = connect(served.address).await;
    for token in [None, Some("wrong")] {
        if let Some(token) = token {
            client.set_token(token.to_owned());
        }
        let error = ask(&mut client, "SELECT 1").await.unwrap_err();
        assert!(error.contains("token"), "{error}");
        assert!(client.get_catalogs().await.is_err());
        assert!(client.prepare("SELECT 1".to_owned(), None).await.is_err());
    }
    let mut client = connect(served.address).await;
    assert!(client.handshake("anybody", "wrong").await.is_err());
    client.handshake("anybody", TOKEN).await.unwrap();
    assert_eq!(ask(&mut client, "SELECT 1").await.unwrap()[0].num_rows(), 1);
    // A ticket of one who may is worth nothing to one who may not.
    let info = client.execute("SELECT 1".to_owned(), None).await.unwrap();
    let mut stranger = connect(served.address).await;
    assert!(read(&mut stranger, info).await.is_err());
    assert!(
        served
            .connections
            .render(crate::Entrance::FlightSql)
            .contains("query_unauthenticated_total{door=\"flight_sql\"} 8")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn attacks_are_refused_or_stopped_and_a_neighbour_is_answered() {
    let fixture = fixture(&tight()).await;
    fill(&fixture);
    let served = listen(fixture, Door::default()).await;
    let client = connect(served.address).await;
    attack(&served.fixture, |sql| {
        let mut client = client.clone();
        async move {
            let batches = ask(&mut client, &sql).await?;
            let n_rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
            Ok(u64::try_from(n_rows).unwrap())
        }
    })
    .await;
}

/// The token of the caller is in no line either.
#[tokio::test]
async fn no_value_leaves_by_the_log_of_statements() {
    let log = Log::new();
    let served = listen(fixture(&logged(ON)).await, guarded()).await;
    let mut client = connect(served.address).await;
    client.handshake("anybody", TOKEN).await.unwrap();
    leak("flight_sql", &log, |sql| {
        let mut client = client.clone();
        async move {
            let batches = ask(&mut client, &sql).await?;
            let n_rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
            Ok(u64::try_from(n_rows).unwrap())
        }
    })
    .await;
    let lines = log.statements();
    assert_eq!(lines[0]["user"], "the token number 1");
    log.assert_without(&[TOKEN]);
}
