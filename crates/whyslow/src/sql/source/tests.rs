//! Answers of a scripted server, without a socket.

use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch};
use arrow::ipc::writer::StreamWriter;
use axum::Router;
use axum::body::Body;
use axum::routing::post;
use bytes::Bytes;
use expect_test::{Expect, expect};
use http::{HeaderMap, Response};
use http_body_util::{BodyExt as _, Full};

use super::{Answer, Source, Statement, sql_url};

#[test]
fn an_address_of_a_server_becomes_that_of_its_sql() {
    for (server, expected) in [
        ("127.0.0.1:7070", "http://127.0.0.1:7070/v1/sql"),
        ("http://[::1]:7070/", "http://[::1]:7070/v1/sql"),
        ("http://proxy/whyslow", "http://proxy/whyslow/v1/sql"),
        ("http://proxy/whyslow/v1/sql", "http://proxy/whyslow/v1/sql"),
    ] {
        assert_eq!(sql_url(server, false).unwrap().to_string(), expected);
    }
    let secure = sql_url("host:7070", true).unwrap();
    assert_eq!(secure.to_string(), "https://host:7070/v1/sql");
    let plain = sql_url("http://host:7070", true).unwrap();
    assert_eq!(plain.to_string(), "http://host:7070/v1/sql");
    for server in ["", "ftp://host", "http://host?x=1", "a b"] {
        let error = sql_url(server, false).unwrap_err().to_string();
        assert!(error.contains("is not `HOST:PORT`"), "{server}: {error}");
    }
    let error = sql_url("http://me:secret@host", false)
        .unwrap_err()
        .to_string();
    assert!(!error.contains("secret"), "{error}");
}

/// Asks a server that always gives this answer.
async fn ask(
    code: u16,
    headers: &[(&'static str, &'static str)],
    body: Body,
) -> anyhow::Result<Answer> {
    let mut builder = Response::builder().status(code);
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    let response = builder.body(body).unwrap();
    let answer = Arc::new(std::sync::Mutex::new(Some(response)));
    let handler = move || {
        let answer = answer.lock().unwrap().take().unwrap();
        std::future::ready(answer)
    };
    let source = Source::Data {
        router: Router::new().route("/v1/sql", post(handler)),
    };
    source
        .ask(&Statement {
            sql: "SELECT 1",
            format: "arrow",
            limit: None,
        })
        .await
}

fn arrow_stream() -> Vec<u8> {
    let numbers = Arc::new(Int64Array::from(vec![1, 2, 3]));
    let batch = RecordBatch::try_from_iter(vec![("n", numbers as _)]).unwrap();
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

async fn check_refusal(code: u16, body: &'static str, expected: Expect) {
    let Err(error) = ask(code, &[], Body::from(body)).await else {
        panic!("not refused")
    };
    expected.assert_eq(&format!("{error:#}"));
}

#[tokio::test]
async fn a_refused_statement_tells_what_the_server_says() {
    let ours = r#"{"error":{"code":"unknown_column","message":"there is no column `e2e`"}}"#;
    check_refusal(400, ours, expect!["there is no column `e2e`"]).await;
    let expected = expect!["the server answered 502 Bad Gateway: <html>\\u{1b}"];
    check_refusal(502, "<html>\u{1b}\n", expected).await;
    check_refusal(404, "", expect!["the server answered 404 Not Found: "]).await;
}

#[tokio::test]
async fn rows_come_whole_and_the_mark_of_a_cut_is_read() {
    let mut trailers = HeaderMap::new();
    trailers.insert("whyslow-truncated", "true".parse().unwrap());
    let body = Full::new(Bytes::from(arrow_stream()))
        .with_trailers(std::future::ready(Some(Ok(trailers))));
    let mut answer = ask(200, &[], Body::new(body)).await.unwrap();
    let (schema, batches) = answer.batches().await.unwrap();
    assert_eq!(schema.field(0).name(), "n");
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 6);
    assert!(answer.is_truncated(6));
}

#[tokio::test]
async fn without_trailers_an_answer_as_long_as_the_limit_counts_as_cut() {
    let headers = [("whyslow-row-limit", "6")];
    let answer = ask(200, &headers, Body::empty()).await.unwrap();
    assert!(answer.is_truncated(6));
    assert!(!answer.is_truncated(5));
    assert!(!ask(200, &[], Body::empty()).await.unwrap().is_truncated(6));
}

#[tokio::test]
async fn half_an_answer_is_an_error() {
    let whole = arrow_stream();
    // Behind a whole message the stream looks complete; there, the broken connection tells.
    let mut n_errors = 0;
    for end in 0..whole.len() {
        let mut answer = ask(200, &[], Body::from(whole[..end].to_vec()))
            .await
            .unwrap();
        match answer.batches().await {
            Ok((_, batches)) => assert!(batches.len() <= 2),
            Err(_) => n_errors += 1,
        }
    }
    assert!(
        n_errors > whole.len() * 9 / 10,
        "{n_errors} of {}",
        whole.len()
    );
}
