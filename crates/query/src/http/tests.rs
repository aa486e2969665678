//! Real requests to a listener on the loopback.

mod attacks;
mod paths;
mod peers;
mod refusals;
mod statement_log;
mod traces;

use std::net::SocketAddr;
use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch};
use arrow::ipc::reader::StreamReader;
use axum::http::{HeaderMap, Method, Request, StatusCode};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::{Value, json};

use super::router;
use crate::tests::support::{Cell, Fixture, NEW_YEAR, SECOND, batch, config, fixture, row};
use crate::{Config, Engine};

struct Served {
    fixture: Fixture,
    address: SocketAddr,
}

struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    trailers: HeaderMap,
    body: Bytes,
}

impl Reply {
    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    fn code(&self) -> String {
        self.json()["error"]["code"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }
}

async fn served(config: &Config) -> Served {
    let fixture = fixture(config).await;
    let rows = [
        row(
            NEW_YEAR + SECOND + 1000,
            &[
                ("model", Cell::Text("a \"b\", c")),
                ("e2e_s", Cell::Float(2.5)),
            ],
        ),
        row(
            NEW_YEAR,
            &[
                ("model", Cell::Text("qwen")),
                ("output_tokens", Cell::Int(7)),
            ],
        ),
    ];
    fixture.append("requests", 1, batch("requests", &rows));
    let address = listen(Arc::clone(&fixture.engine)).await;
    Served { fixture, address }
}

async fn listen(engine: Arc<Engine>) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let _detached = tokio::spawn(async move { axum::serve(listener, router(engine)).await });
    address
}

impl Served {
    async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Result<Reply, String> {
        let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
        let mut request = Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.address))
            .header("te", "trailers");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into())).unwrap();
        let response = client
            .request(request)
            .await
            .map_err(|error| error.to_string())?;
        let (head, body) = response.into_parts();
        let collected = body.collect().await.map_err(|error| error.to_string())?;
        let trailers = collected.trailers().cloned().unwrap_or_default();
        let (status, headers) = (head.status, head.headers);
        Ok(Reply {
            status,
            headers,
            trailers,
            body: collected.to_bytes(),
        })
    }

    async fn ask(&self, body: Value) -> Reply {
        let headers = [("content-type", "application/json")];
        self.send(Method::POST, "/v1/sql", &headers, body.to_string())
            .await
            .unwrap()
    }
}

const THREE: &str = "SELECT start_time, date, model, e2e_s, output_tokens, quality FROM requests ORDER BY start_time";

#[tokio::test]
async fn json_has_columns_rows_counts_and_times_with_a_zone() {
    let served = served(&config()).await;
    let reply = served.ask(json!({"sql": THREE})).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text());
    assert_eq!(reply.headers["content-type"], "application/json");
    let mut body = reply.json();
    assert!(body["elapsed_ms"].is_u64(), "{body}");
    body["elapsed_ms"] = Value::Null;
    assert_eq!(
        body,
        json!({
            "columns": [
                {"name": "start_time", "type": "timestamp_utc"},
                {"name": "date", "type": "date"},
                {"name": "model", "type": "string"},
                {"name": "e2e_s", "type": "float64"},
                {"name": "output_tokens", "type": "int64"},
                {"name": "quality", "type": "list"},
            ],
            "rows": [
                ["2026-01-01T00:00:00Z", "2026-01-01", "qwen", null, 7, null],
                ["2026-01-01T00:00:01.000001Z", "2026-01-01", "a \"b\", c", 2.5, null, null],
            ],
            "row_count": 2,
            "truncated": false,
            "elapsed_ms": null,
        })
    );
}

#[tokio::test]
async fn csv_quotes_has_a_header_and_nested_values_as_json() {
    let served = served(&config()).await;
    let sql = "SELECT start_time, model, e2e_s, make_array(1, 2) AS list FROM requests \
               ORDER BY start_time";
    let reply = served.ask(json!({"sql": sql, "format": "csv"})).await;
    assert_eq!(reply.headers["content-type"], "text/csv; charset=utf-8");
    assert_eq!(
        reply.text(),
        "start_time,model,e2e_s,list\n\
         2026-01-01T00:00:00Z,qwen,,\"[1,2]\"\n\
         2026-01-01T00:00:01.000001Z,\"a \"\"b\"\", c\",2.5,\"[1,2]\"\n"
    );
    let reply =
        served.ask(json!({"sql": "SELECT model FROM requests WHERE false", "format": "csv"}));
    assert_eq!(reply.await.text(), "model\n");
}

fn arrow_rows(body: &[u8]) -> Vec<RecordBatch> {
    let reader = StreamReader::try_new(body, None).unwrap();
    reader.collect::<Result<_, _>>().unwrap()
}

#[tokio::test]
async fn arrow_is_a_whole_stream_also_without_rows() {
    let served = served(&config()).await;
    let sql = "SELECT value FROM generate_series(1, 20000)";
    let reply = served.ask(json!({"sql": sql, "format": "arrow"})).await;
    assert_eq!(
        reply.headers["content-type"],
        "application/vnd.apache.arrow.stream"
    );
    let batches = arrow_rows(&reply.body);
    let sum: i64 = batches
        .iter()
        .map(|batch| {
            let values = batch
                .column(0)
                .as_any()
                .downcast_ref::<Int64Array>()
                .unwrap();
            values.values().iter().sum::<i64>()
        })
        .sum();
    assert_eq!(sum, 20_000 * 20_001 / 2);

    let reply = served
        .ask(json!({"sql": "SELECT 1 AS a WHERE false", "format": "arrow"}))
        .await;
    assert!(arrow_rows(&reply.body).is_empty());
}

#[tokio::test]
async fn parquet_is_a_whole_file_in_several_row_groups_or_without_rows() {
    let served = served(&config()).await;
    for (sql, n_rows, n_groups) in [
        ("SELECT value FROM generate_series(1, 100000)", 100_000, 2),
        (THREE, 2, 1),
        ("SELECT start_time FROM requests WHERE false", 0, 0),
    ] {
        let reply = served.ask(json!({"sql": sql, "format": "parquet"})).await;
        assert_eq!(
            reply.headers["content-type"],
            "application/vnd.apache.parquet"
        );
        let reader = ParquetRecordBatchReaderBuilder::try_new(reply.body).unwrap();
        assert_eq!(reader.metadata().num_row_groups(), n_groups, "{sql}");
        let batches = reader.build().unwrap();
        let found: usize = batches.map(|batch| batch.unwrap().num_rows()).sum();
        assert_eq!(found, n_rows, "{sql}");
    }
}

#[tokio::test]
async fn the_format_comes_from_body_address_or_accept_in_this_order() {
    let served = served(&config()).await;
    let sql = "SELECT 1 AS a";
    for (content_type, path, accept, body, expected) in [
        (
            "text/plain",
            "/v1/sql",
            "*/*",
            sql.to_owned(),
            "application/json",
        ),
        (
            "application/sql",
            "/v1/sql",
            "text/csv",
            sql.to_owned(),
            "text/csv; charset=utf-8",
        ),
        (
            "text/plain; charset=utf-8",
            "/v1/sql?format=csv",
            "application/json",
            sql.to_owned(),
            "text/csv; charset=utf-8",
        ),
        (
            "application/json",
            "/v1/sql?format=csv",
            "application/json",
            json!({"sql": sql, "format": "arrow"}).to_string(),
            "application/vnd.apache.arrow.stream",
        ),
        (
            "application/json",
            "/v1/sql",
            "text/html, application/vnd.apache.arrow.stream;q=0.9, */*;q=0.1",
            json!({"sql": sql}).to_string(),
            "application/vnd.apache.arrow.stream",
        ),
    ] {
        let headers = [("content-type", content_type), ("accept", accept)];
        let reply = served
            .send(Method::POST, path, &headers, body)
            .await
            .unwrap();
        assert_eq!(reply.status, StatusCode::OK, "{}", reply.text());
        assert_eq!(reply.headers["content-type"], expected, "{path} {accept}");
    }
}

#[tokio::test]
async fn tables_are_listed_with_units_and_meaning() {
    let served = served(&config()).await;
    let reply = served
        .send(Method::GET, "/v1/tables", &[], "")
        .await
        .unwrap();
    let body = reply.json();
    let names: Vec<_> = body["tables"]
        .as_array()
        .unwrap()
        .iter()
        .map(|table| table["name"].clone())
        .collect();
    assert_eq!(names, tables::all().map(|spec| spec.name));
    let columns = body["tables"][2]["columns"].as_array().unwrap();
    let e2e = columns
        .iter()
        .find(|column| column["name"] == "e2e_s")
        .unwrap();
    assert_eq!(
        (&e2e["type"], &e2e["unit"]),
        (&json!("float64"), &json!("s"))
    );
    assert!(
        body["views"][0]["example"]
            .as_str()
            .unwrap()
            .starts_with("SELECT")
    );
    let functions = body["functions"].as_array().unwrap();
    let told = functions
        .iter()
        .find(|function| function["name"] == "weighted_quantile")
        .unwrap();
    assert_eq!(
        (&told["kind"], &told["type"], &told["signature"]),
        (
            &json!("aggregate"),
            &json!("float64"),
            &json!("weighted_quantile(value DOUBLE, weight DOUBLE, q DOUBLE)")
        )
    );
    for view in body["views"].as_array().unwrap() {
        for column in view["columns"].as_array().unwrap() {
            assert!(column["type"].is_string(), "{} {column}", view["name"]);
        }
    }
    let others = body["other_functions"].as_array().unwrap();
    for (name, kind) in [
        ("date_bin", "scalar"),
        ("approx_percentile_cont", "aggregate"),
        ("mean", "aggregate"),
        ("row_number", "window"),
        ("generate_series", "table"),
    ] {
        let told = json!({"name": name, "kind": kind});
        assert!(others.contains(&told), "{name}");
    }
    let is_listed = |name: &str| others.iter().any(|other| other["name"] == name);
    // What does not exist here, and what is told above.
    assert!(!is_listed("repeat") && !is_listed("weighted_quantile"));
    drop(served.fixture);
}
