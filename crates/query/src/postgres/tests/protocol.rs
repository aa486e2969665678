//! Statements, parameters, portals, and what ends them.

use std::time::Duration;

use super::client::{Client, bind, connect, describe, execute, first, message, open, parse, sync};
use crate::Config;
use crate::tests::attacks::{N_SPANS, fill};
use crate::tests::support::{Cell, NEW_YEAR, batch, config, fixture, row};

const CANCEL: i32 = 80_877_102;

/// The kinds of the answers to some messages, up to the last `Sync`.
async fn kinds<S>(client: &mut Client<S>, messages: &[Vec<u8>]) -> String
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    for message in messages {
        client.send(message).await;
    }
    let told = client.ready().await;
    told.iter().map(|told| told.kind).collect()
}

#[tokio::test]
async fn a_text_has_one_query_and_any_number_of_what_clients_say_beside() {
    let served = open(fixture(&config()).await).await;
    let mut client = connect(served.address).await;
    for (sql, expected) in [
        ("SELECT 1 AS a, NULL, 'x'", &["1|NULL|x", "SELECT 1"][..]),
        (
            "BEGIN; SELECT 1; COMMIT",
            &["BEGIN", "1", "SELECT 1", "COMMIT"],
        ),
        ("", &["I"]),
        ("-- ping", &["I"]),
        ("SET extra_float_digits = 3", &["SET"]),
        ("SHOW transaction_isolation", &["read committed", "SHOW"]),
        ("SHOW application_name", &["test", "SHOW"]),
        ("DISCARD ALL", &["DISCARD ALL"]),
        (
            "SELECT 1; SELECT 2",
            &["ERROR 42601 2 statements in one text, only one is allowed"],
        ),
        (
            "SELECT 1/0",
            &["ERROR 42000 the statement cannot be answered: Arrow error: Divide by zero error"],
        ),
        (
            "SELECT x FROM nothing",
            &["ERROR 42P01 there is no table `nothing`"],
        ),
        (
            "SELECT nothing FROM spans",
            &["ERROR 42703 there is no column `nothing`"],
        ),
        ("SELEC", &["ERROR 42601 the statement is not valid SQL"]),
        ("DROP TABLE spans", &["ERROR 25006"]),
        (
            "SHOW work_mem",
            &["ERROR 42704 there is no setting `work_mem`"],
        ),
    ] {
        let told = client.ask(sql).await;
        let is_equal = told.len() == expected.len()
            && told
                .iter()
                .zip(expected)
                .all(|(told, expected)| told.starts_with(expected));
        assert!(is_equal, "{sql}: {told:?}");
    }
}

#[tokio::test]
async fn a_transaction_is_said_to_be_open_failed_and_over() {
    let served = open(fixture(&config()).await).await;
    let mut client = connect(served.address).await;
    for (sql, expected) in [
        ("SELECT 1", b'I'),
        ("BEGIN", b'T'),
        ("SELECT 1", b'T'),
        ("SELEC", b'E'),
        ("SELECT 1", b'E'),
        ("ROLLBACK", b'I'),
        ("BEGIN", b'T'),
        ("SELEC", b'E'),
        ("COMMIT", b'I'),
    ] {
        client
            .send(&message('Q', format!("{sql}\0").as_bytes()))
            .await;
        let told = client.ready().await;
        assert_eq!(told.last().unwrap().body, [expected], "{sql}");
    }
}

#[tokio::test]
async fn values_arrive_as_text_with_the_types_that_clients_know() {
    let fixture = fixture(&config()).await;
    let cells = [
        ("model", Cell::Text("qwen")),
        ("e2e_s", Cell::Float(2.5)),
        ("output_tokens", Cell::Int(7)),
    ];
    fixture.append("requests", 1, batch("requests", &[row(NEW_YEAR, &cells)]));
    let served = open(fixture).await;
    let mut client = connect(served.address).await;
    let told = client
        .query(
            "SELECT start_time, date, model, e2e_s, output_tokens, quality, make_array(1, NULL) AS list, \
             named_struct('a', 1) AS struct, MAP {'k': 'v'} AS map, NULL AS nothing, true AS yes, \
             arrow_cast(1, 'UInt64') AS large, interval '1 day' AS span, CAST(NULL AS INTERVAL) AS no_span FROM requests",
        )
        .await;
    let names: Vec<_> = told[0].columns();
    let oids: Vec<u32> = names.iter().map(|(_, oid)| *oid).collect();
    assert_eq!(
        oids,
        [
            1184, 1082, 25, 701, 20, 1009, 1016, 114, 114, 25, 16, 1700, 1186, 1186
        ],
        "{names:?}"
    );
    let values = told[1].shown();
    assert!(
        values.starts_with("2026-01-01 00:00:00")
            && values
                .contains("|2026-01-01|qwen|2.5|7|NULL|{1,NULL}|{\"a\":1}|{\"k\":\"v\"}|NULL|t|1|"),
        "{values}"
    );
    assert!(values.ends_with("|NULL"), "{values}");
}

#[tokio::test]
async fn parameters_come_as_text_or_binary_with_or_without_a_type() {
    let fixture = fixture(&config()).await;
    fill(&fixture);
    let served = open(fixture).await;
    let mut client = connect(served.address).await;
    let count = "SELECT count(*) FROM spans WHERE trace_id = $1";
    let id = "00000000000000000000000000000007";
    let time = "SELECT count(*) FROM spans WHERE start_time >= $1";
    let micros_to_2000 = NEW_YEAR / 1000 - 946_684_800_000_000;
    for (sql, oid, format, value, expected) in [
        (count, 0, 0, id.as_bytes(), "1"),
        (count, 25, 1, id.as_bytes(), "1"),
        (time, 0, 0, &b"2026-01-01T00:00:00Z"[..], "2000"),
        (time, 1184, 1, &micros_to_2000.to_be_bytes(), "2000"),
        ("SELECT $1 + 1", 20, 0, b"41", "42"),
        ("SELECT 1 + $1", 0, 1, &41i64.to_be_bytes(), "42"),
        (
            "SELECT count(*) FROM spans WHERE trace_id = ANY($1)",
            1009,
            0,
            format!("{{{id},x}}").as_bytes(),
            "1",
        ),
        ("SELECT $1", 0, 0, b"text", "text"),
        (
            "SELECT v FROM generate_series(1, 9) AS t(v) ORDER BY v DESC LIMIT $1",
            20,
            0,
            b"1",
            "9",
        ),
    ] {
        for message in [
            parse("", sql, &[oid]),
            bind("", "", format, &[Some(value)], 0),
            describe('P', ""),
            execute("", 0),
            sync(),
        ] {
            client.send(&message).await;
        }
        let told = client.ready().await;
        let row = told.iter().find(|told| told.kind == 'D');
        assert_eq!(
            row.map(|row| row.shown()),
            Some(expected.to_owned()),
            "{sql}: {:?}",
            told.last_chunk::<3>()
                .map(|told| told.each_ref().map(super::client::Told::shown))
        );
    }
    // What is no value of its type is an error of the statement, and the connection goes on.
    let messages = [
        parse("", "SELECT 1 + $1", &[20]),
        bind("", "", 0, &[Some(b"x")], 0),
        execute("", 0),
        sync(),
    ];
    assert_eq!(kinds(&mut client, &messages).await, "1EZ");
    assert_eq!(client.ask("SELECT 1").await, ["1", "SELECT 1"]);
}

#[tokio::test]
async fn a_statement_is_described_before_it_has_values() {
    let served = open(fixture(&config()).await).await;
    let mut client = connect(served.address).await;
    for message in [
        parse(
            "s",
            "SELECT model, e2e_s FROM requests WHERE e2e_s > $1 AND model = $2",
            &[],
        ),
        describe('S', "s"),
        sync(),
    ] {
        client.send(&message).await;
    }
    let told = client.ready().await;
    assert_eq!(told[1].kind, 't');
    assert_eq!(told[1].body, [0, 2, 0, 0, 2, 189, 0, 0, 0, 25]);
    assert_eq!(
        told[2]
            .columns()
            .iter()
            .map(|(_, oid)| *oid)
            .collect::<Vec<_>>(),
        [25, 701]
    );
    let closed = message('C', b"Ss\0");
    let messages = [closed, bind("", "s", 0, &[None, None], 0), sync()];
    assert_eq!(kinds(&mut client, &messages).await, "3EZ");
}

#[tokio::test]
async fn a_portal_is_read_in_parts_and_results_come_as_binary() {
    let fixture = fixture(&config()).await;
    fill(&fixture);
    let served = open(fixture).await;
    let mut client = connect(served.address).await;
    client.ask("BEGIN").await;
    let sql = "SELECT duration_ns, start_time_unix_nano FROM spans";
    let messages = [
        parse("", sql, &[]),
        bind("p", "", 0, &[], 1),
        execute("p", 3),
        sync(),
    ];
    assert_eq!(kinds(&mut client, &messages).await, "12DDDsZ");
    client.send(&execute("p", 2)).await;
    client.send(&sync()).await;
    let told = client.ready().await;
    assert_eq!(told[0].body[10..], NEW_YEAR.to_be_bytes());
    client.send(&execute("p", 0)).await;
    client.send(&sync()).await;
    let told = client.ready().await;
    assert_eq!(i64::try_from(told.len()).unwrap(), N_SPANS - 5 + 2);
    assert_eq!(told[told.len() - 2].shown(), format!("SELECT {N_SPANS}"));
    // The end of the transaction is the end of its portals.
    client.ask("COMMIT").await;
    assert_eq!(kinds(&mut client, &[execute("p", 0), sync()]).await, "EZ");
}

#[tokio::test]
async fn an_error_is_followed_by_nothing_until_the_client_begins_anew() {
    let served = open(fixture(&config()).await).await;
    let mut client = connect(served.address).await;
    let messages = [
        parse("", "SELECT 1", &[]),
        bind("", "unknown", 0, &[], 0),
        execute("", 0),
        parse("", "SELECT 2", &[]),
        sync(),
    ];
    assert_eq!(kinds(&mut client, &messages).await, "1EZ");
    let messages = [bind("", "", 0, &[], 0), execute("", 0), sync()];
    assert_eq!(kinds(&mut client, &messages).await, "2DCZ");
}

#[tokio::test]
async fn an_answer_that_is_cut_says_so() {
    let config = Config {
        rows_max: 2,
        ..config()
    };
    let served = open(fixture(&config).await).await;
    let mut client = connect(served.address).await;
    let told = client.ask("SELECT * FROM generate_series(1, 5)").await;
    let warning = "WARNING 01000 the answer was cut after 2 rows, there are more";
    assert_eq!(told, ["1", "2", warning, "SELECT 2"]);
}

const ENDLESS: &str =
    "SELECT count(*) FROM generate_series(1, 1000000000000) AS t(v) WHERE v % 7 = 8";

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_request_stops_the_statement_of_its_connection_alone() {
    let config = Config {
        timeout: Duration::from_secs(600),
        ..config()
    };
    let served = open(fixture(&config).await).await;
    let mut client = connect(served.address).await;
    let mut other = connect(served.address).await;
    client
        .send(&message('Q', format!("{ENDLESS}\0").as_bytes()))
        .await;
    other
        .send(&message('Q', format!("{ENDLESS}\0").as_bytes()))
        .await;
    let (process, secret) = (client.process, client.secret);
    let asking = tokio::spawn(async move {
        let told = client.ready().await;
        (client, told)
    });
    // Which arrives first is not known: asked until it is heard.
    while !asking.is_finished() {
        let wrong = [process.to_be_bytes(), (secret ^ 1).to_be_bytes()].concat();
        let right = [process.to_be_bytes(), secret.to_be_bytes()].concat();
        for body in [wrong, right] {
            let stream = tokio::net::TcpStream::connect(served.address)
                .await
                .unwrap();
            let mut canceller = Client::new(stream);
            canceller.send(&first(CANCEL, &body)).await;
            assert_eq!(canceller.next().await, None);
        }
    }
    let (mut client, told) = asking.await.unwrap();
    assert!(
        told[0].shown().starts_with("ERROR 57014"),
        "{}",
        told[0].shown()
    );
    assert_eq!(client.ask("SELECT 1").await, ["1", "SELECT 1"]);
    drop(other);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_away_or_stands_still_gives_its_place_back() {
    let config = Config {
        statements_max: 1.try_into().unwrap(),
        timeout: Duration::from_secs(600),
        ..config()
    };
    let served = open(fixture(&config).await).await;
    let mut gone = connect(served.address).await;
    gone.send(&message('Q', format!("{ENDLESS}\0").as_bytes()))
        .await;
    drop(gone);
    let mut client = connect(served.address).await;
    assert_eq!(client.ask("SELECT 1").await, ["1", "SELECT 1"]);

    let config = Config {
        timeout: Duration::from_secs(2),
        ..config
    };
    let served = open(fixture(&config).await).await;
    let mut idle = connect(served.address).await;
    idle.ask("BEGIN").await;
    let sql = "SELECT * FROM generate_series(1, 1000000)";
    let messages = [
        parse("", sql, &[]),
        bind("p", "", 0, &[], 0),
        execute("p", 1),
        sync(),
    ];
    assert!(kinds(&mut idle, &messages).await.ends_with("DsZ"));
    let mut client = connect(served.address).await;
    while client.ask("SELECT 1").await != ["1", "SELECT 1"] {}
    client.ask("SELECT 1").await;
    idle.send(&execute("p", 1)).await;
    idle.send(&sync()).await;
    assert!(idle.ready().await[0].shown().starts_with("ERROR 57014"));
}

#[tokio::test]
async fn one_user_may_have_no_more_statements_than_are_theirs() {
    let config = Config {
        statements_per_user_max: Some(1.try_into().unwrap()),
        ..config()
    };
    let served = open(fixture(&config).await).await;
    let mut holder = connect(served.address).await;
    holder.ask("BEGIN").await;
    let sql = "SELECT * FROM generate_series(1, 1000000)";
    let messages = [
        parse("", sql, &[]),
        bind("p", "", 0, &[], 0),
        execute("p", 1),
        sync(),
    ];
    assert!(kinds(&mut holder, &messages).await.ends_with("DsZ"));
    let mut client = connect(served.address).await;
    let told = client.ask("SELECT 1").await;
    assert!(
        told[0].starts_with("ERROR 53300 1 statements of 127.0.0.1"),
        "{told:?}"
    );
    holder.ask("ROLLBACK").await;
    while client.ask("SELECT 1").await != ["1", "SELECT 1"] {}
}
