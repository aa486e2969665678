//! What a client sees when there is no answer, or not all of it.

use std::num::NonZeroUsize;
use std::time::Duration;

use axum::http::{Method, Request, StatusCode};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

use super::served;
use crate::Config;
use crate::tests::support::config;

const JSON: &str = "application/json";

/// Runs until it is stopped, and has no row before its end: a limit on rows cannot end it.
const ENDLESS: &str =
    "SELECT count(*) FROM generate_series(1, 100000000000) AS a WHERE value % 7 = 3";

/// Content type, address and body of a request; status, code and a part of the text of the answer.
type Refusal<'a> = (&'a str, &'a str, &'a str, u16, &'a str, &'a str);

const REFUSALS: &[Refusal<'static>] = &[
    (
        JSON,
        "/v1/sql",
        r#"{"sql": "DROP TABLE spans"}"#,
        400,
        "not_read_only",
        "`DROP` is refused",
    ),
    (
        JSON,
        "/v1/sql",
        r#"{"sql": "SELECT 1; SELECT 2"}"#,
        400,
        "several_statements",
        "only one",
    ),
    (
        JSON,
        "/v1/sql",
        r#"{"sql": ""}"#,
        400,
        "no_statement",
        "no statement",
    ),
    (
        JSON,
        "/v1/sql",
        r#"{"sql": "SELEC 1"}"#,
        400,
        "syntax",
        "SELEC",
    ),
    (
        JSON,
        "/v1/sql",
        r#"{"sql": "SELECT traceId FROM spans"}"#,
        400,
        "unknown_column",
        "write trace_id",
    ),
    (
        JSON,
        "/v1/sql",
        r#"{"sql": "SELECT * FROM span"}"#,
        400,
        "unknown_table",
        "`span`",
    ),
    (
        JSON,
        "/v1/sql",
        r#"{"sql": "SELECT 1/0"}"#,
        400,
        "unanswerable",
        "ivide",
    ),
    (
        JSON,
        "/v1/sql",
        r#"{"sql": "SELECT trace_id FROM spans WHERE name ~ '('"}"#,
        400,
        "unanswerable",
        "regex",
    ),
    (
        JSON,
        "/v1/sql",
        r#"{"sq": "SELECT 1"}"#,
        400,
        "bad_body",
        "sq",
    ),
    (
        JSON,
        "/v1/sql",
        r#"{"sql": "SELECT 1", "limit": -1}"#,
        400,
        "bad_body",
        "limit",
    ),
    (
        JSON,
        "/v1/sql",
        r#"{"sql": "SELECT 1", "format": "xml"}"#,
        400,
        "bad_body",
        "xml",
    ),
    (JSON, "/v1/sql", "", 400, "bad_body", "JSON"),
    (
        "text/plain",
        "/v1/sql?form=csv",
        "SELECT 1",
        400,
        "bad_address",
        "form",
    ),
    (
        "application/x-www-form-urlencoded",
        "/v1/sql",
        "SELECT 1",
        415,
        "bad_content_type",
        "application/json",
    ),
];

#[tokio::test]
async fn refusals_have_a_status_a_stable_code_and_a_clear_text() {
    let served = served(&Config {
        statement_kib: 64,
        ..config()
    })
    .await;
    let long = json!({"sql": format!("SELECT '{}'", "x".repeat(65 * 1024))}).to_string();
    let huge = "x".repeat(400 * 1024);
    let too_long = [
        (
            JSON,
            "/v1/sql",
            long.as_str(),
            413,
            "too_long",
            "limit of 65536",
        ),
        (
            "text/plain",
            "/v1/sql",
            huge.as_str(),
            413,
            "body_too_large",
            "bytes",
        ),
    ];
    for (content_type, path, body, status, code, text) in REFUSALS.iter().chain(&too_long) {
        let headers = [("content-type", *content_type)];
        let reply = served
            .send(Method::POST, path, &headers, (*body).to_owned())
            .await
            .unwrap();
        assert_eq!(reply.status.as_u16(), *status, "{body}: {}", reply.text());
        assert_eq!(reply.code(), *code, "{body}: {}", reply.text());
        assert!(reply.text().contains(text), "{body}: {}", reply.text());
    }
    let headers = [("content-type", JSON), ("accept", "text/html")];
    let body = r#"{"sql": "SELECT 1"}"#;
    let reply = served
        .send(Method::POST, "/v1/sql", &headers, body)
        .await
        .unwrap();
    assert_eq!(
        (reply.status.as_u16(), reply.code().as_str()),
        (406, "not_acceptable")
    );
    let reply = served.send(Method::GET, "/v1/sql", &[], "").await.unwrap();
    assert_eq!(reply.status.as_u16(), 405);
}

#[tokio::test]
async fn limits_have_a_status_of_their_own() {
    let limited = Config {
        timeout: Duration::from_secs(1),
        statements_max: NonZeroUsize::MIN,
        statements_waiting_max: 0,
        ..config()
    };
    let served = served(&limited).await;
    let (first, second) = tokio::join!(
        served.ask(json!({"sql": ENDLESS})),
        served.ask(json!({"sql": ENDLESS}))
    );
    let mut statuses = [first.status.as_u16(), second.status.as_u16()];
    statuses.sort_unstable();
    assert_eq!(statuses, [503, 504], "{} {}", first.text(), second.text());
    let busy = if first.status.as_u16() == 503 {
        first
    } else {
        second
    };
    assert_eq!(busy.headers["retry-after"], "1");
}

#[tokio::test]
async fn an_answer_that_is_cut_says_so_in_every_format() {
    let served = served(&config()).await;
    let sql = "SELECT value FROM generate_series(1, 5000)";
    for format in ["json", "csv", "arrow"] {
        let reply = served
            .ask(json!({"sql": sql, "format": format, "limit": 3000}))
            .await;
        assert_eq!(reply.headers["whyslow-row-limit"], "3000");
        assert_eq!(reply.trailers["whyslow-truncated"], "true", "{format}");
        assert_eq!(reply.trailers["whyslow-row-count"], "3000", "{format}");
        if format == "json" {
            let body = reply.json();
            assert_eq!(body["truncated"], json!(true));
            assert_eq!(body["row_count"], json!(3000));
            assert_eq!(body["rows"].as_array().unwrap().len(), 3000);
        }
    }
}

/// The divisor 0 comes after the first batches have gone out. Threads make the batches, so some of
/// those after it may be out too.
#[tokio::test]
async fn an_error_after_the_first_row_cannot_be_taken_for_an_end() {
    let served = served(&config()).await;
    let sql = "SELECT 1000 / (30000 - value) AS a FROM generate_series(1, 40000)";
    let reply = served.ask(json!({"sql": sql})).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text());
    let body = reply.json();
    assert_eq!(body["error"]["code"], json!("unanswerable"));
    assert!(body["rows"].as_array().unwrap().len() < 40_000);

    for format in ["csv", "arrow"] {
        let headers = [("content-type", "application/json")];
        let body = json!({"sql": sql, "format": format}).to_string();
        let broken = served.send(Method::POST, "/v1/sql", &headers, body).await;
        assert!(broken.is_err(), "{format}");
    }
}

/// With a body that the sockets cannot hold, so that it is in its middle when the engine stops.
#[tokio::test]
async fn an_answer_that_is_ended_by_a_stop_is_json_that_says_so() {
    let served = served(&config()).await;
    let sql = format!(
        "SELECT value, '{}' AS text FROM generate_series(1, 900000)",
        "x".repeat(200)
    );
    let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    let request = Request::post(format!("http://{}/v1/sql", served.address))
        .header("content-type", "text/plain")
        .header("connection", "close")
        .body(Full::new(Bytes::from(sql)))
        .unwrap();
    let mut body = client.request(request).await.unwrap().into_body();
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    served.fixture.engine.stop();
    let rest = body.collect().await.unwrap().to_bytes();
    let whole: Value = serde_json::from_slice(&[&first[..], &rest[..]].concat()).unwrap();
    assert_eq!(whole["error"]["code"], json!("internal"));
    assert!(whole["rows"].as_array().unwrap().len() < 900_000);

    let after = served.ask(json!({"sql": "SELECT 1 AS a"})).await;
    assert_eq!(after.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(after.code(), "internal");
}

#[tokio::test]
async fn a_client_that_leaves_frees_its_place() {
    let limited = Config {
        statements_max: NonZeroUsize::MIN,
        statements_waiting_max: 8,
        ..config()
    };
    let served = served(&limited).await;
    let left = served.ask(json!({"sql": ENDLESS}));
    let left = tokio::time::timeout(Duration::from_millis(200), left).await;
    assert!(left.is_err());
    let reply = served.ask(json!({"sql": "SELECT 1 AS a"})).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text());
}
