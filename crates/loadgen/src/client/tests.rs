//! The client against a server that answers from a script.

mod server;

use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use expect_test::{Expect, expect};
use otlp::export::Signal;
use tokio::net::TcpListener;

use self::server::{Answer, Server, start};
use super::{Client, Config, Endpoint, Protocol, Retry};

/// One resource with one scope with no spans.
const BODY: &[u8] = b"\x0a\x02\x12\x00";
const PARTIAL: &[u8] = b"\x0a\x08\x08\x03\x12\x04oops";
/// `google.rpc.Status` with a `RetryInfo` of one millisecond.
const RETRY_DETAILS: &[u8] =
    b"\x08\x08\x1a\x32\x0a\x28type.googleapis.com/google.rpc.RetryInfo\x12\x06\x0a\x04\x10\xc0\x84\x3d";

fn config(address: &str, protocol: Protocol) -> Config {
    let endpoint = Endpoint::parse(address, protocol).unwrap();
    let retry = Retry {
        attempts_max: NonZeroU32::new(4).unwrap(),
        delay_first: Duration::ZERO,
        ..Retry::default()
    };
    Config {
        retry,
        ..Config::new(endpoint, protocol)
    }
}

/// Exports [`BODY`] once and prints what the server saw and what the client says of it.
async fn check_with(
    protocol: Protocol,
    gzip: bool,
    answers: Vec<Answer>,
    expected: Expect,
) -> Arc<Server> {
    let (server, address) = start(answers).await;
    let client = Client::new(&Config {
        gzip,
        ..config(&address, protocol)
    })
    .unwrap();
    let outcome = match client
        .export(Signal::Traces, Bytes::from_static(BODY))
        .await
    {
        Ok(exported) => format!("{exported:?}"),
        Err(error) => {
            let unavailable = if error.is_unavailable() {
                "unavailable: "
            } else {
                ""
            };
            format!("{unavailable}{error}; {} retries", error.n_retries())
        }
    };
    let mut text = String::new();
    for (line, _) in server.seen.lock().unwrap().iter() {
        text.push_str(line);
        text.push('\n');
    }
    expected.assert_eq(&(text + &outcome + "\n"));
    assert!(
        server.answers.lock().unwrap().is_empty(),
        "an answer was not asked for"
    );
    server
}

async fn check(protocol: Protocol, answers: Vec<Answer>, expected: Expect) {
    check_with(protocol, false, answers, expected).await;
}

#[tokio::test]
async fn grpc_bytes_arrive_as_they_are_and_partial_success_is_told() {
    let answers = vec![Answer::GrpcOk(PARTIAL)];
    let server = check_with(
        Protocol::Grpc,
        false,
        answers,
        expect![[r#"
        /opentelemetry.proto.collector.trace.v1.TraceService/Export application/grpc gzip=false
        Exported { n_rejected: 3, message: Some("oops"), n_retries: 0 }
    "#]],
    )
    .await;
    assert_eq!(server.seen.lock().unwrap()[0].1, BODY);
    let server = check_with(
        Protocol::Grpc,
        true,
        vec![Answer::GrpcOk(b"")],
        expect![[r#"
            /opentelemetry.proto.collector.trace.v1.TraceService/Export application/grpc gzip=true
            Exported { n_rejected: 0, message: None, n_retries: 0 }
        "#]],
    )
    .await;
    assert_eq!(server.seen.lock().unwrap()[0].1, BODY);
}

#[tokio::test]
async fn http_bytes_arrive_as_they_are_and_partial_success_is_told() {
    let protobuf = &[("content-type", "application/x-protobuf")];
    let answers = vec![Answer::Http(200, protobuf, PARTIAL)];
    let server = check_with(
        Protocol::HttpProtobuf,
        true,
        answers,
        expect![[r#"
        /v1/traces application/x-protobuf gzip=true
        Exported { n_rejected: 3, message: Some("oops"), n_retries: 0 }
    "#]],
    )
    .await;
    assert_eq!(server.seen.lock().unwrap()[0].1, BODY);
    let json = &[("content-type", "application/json; charset=utf-8")];
    let reply = br#"{"partialSuccess":{"errorMessage":"slow down"}}"#;
    let answers = vec![Answer::Http(200, json, reply)];
    let server = check_with(
        Protocol::HttpJson,
        false,
        answers,
        expect![[r#"
        /v1/traces application/json gzip=false
        Exported { n_rejected: 0, message: Some("slow down"), n_retries: 0 }
    "#]],
    )
    .await;
    let seen = server.seen.lock().unwrap();
    expect![[r#"{"resourceSpans":[{"scopeSpans":[{}]}]}"#]]
        .assert_eq(std::str::from_utf8(&seen[0].1).unwrap());
}

#[tokio::test]
async fn an_unreadable_answer_of_success_is_success() {
    let answers = vec![Answer::Http(200, &[], b"<html>fine</html>")];
    check(
        Protocol::HttpProtobuf,
        answers,
        expect![[r#"
        /v1/traces application/x-protobuf gzip=false
        Exported { n_rejected: 0, message: None, n_retries: 0 }
    "#]],
    )
    .await;
    check(
        Protocol::Grpc,
        vec![Answer::GrpcOk(b"\xff\xff")],
        expect![[r#"
            /opentelemetry.proto.collector.trace.v1.TraceService/Export application/grpc gzip=false
            Exported { n_rejected: 0, message: None, n_retries: 0 }
        "#]],
    )
    .await;
}

#[tokio::test]
async fn retryable_grpc_codes_are_tried_again() {
    let answers = vec![
        Answer::Grpc("14", "busy", None),
        Answer::Grpc("8", "full", Some(RETRY_DETAILS)),
        Answer::Grpc("10", "", None),
        Answer::GrpcOk(b""),
    ];
    check(
        Protocol::Grpc,
        answers,
        expect![[r#"
        /opentelemetry.proto.collector.trace.v1.TraceService/Export application/grpc gzip=false
        /opentelemetry.proto.collector.trace.v1.TraceService/Export application/grpc gzip=false
        /opentelemetry.proto.collector.trace.v1.TraceService/Export application/grpc gzip=false
        /opentelemetry.proto.collector.trace.v1.TraceService/Export application/grpc gzip=false
        Exported { n_rejected: 0, message: None, n_retries: 3 }
    "#]],
    )
    .await;
}

#[tokio::test]
async fn resource_exhausted_without_retry_info_is_final() {
    check(
        Protocol::Grpc,
        vec![Answer::Grpc("8", "too%20large", None)],
        expect![[r#"
            /opentelemetry.proto.collector.trace.v1.TraceService/Export application/grpc gzip=false
            refused (gRPC RESOURCE_EXHAUSTED: too large); 0 retries
        "#]],
    )
    .await;
}

#[tokio::test]
async fn a_final_grpc_code_is_not_tried_again() {
    check(
        Protocol::Grpc,
        vec![Answer::Grpc("3", "bad", None)],
        expect![[r#"
            /opentelemetry.proto.collector.trace.v1.TraceService/Export application/grpc gzip=false
            refused (gRPC INVALID_ARGUMENT: bad); 0 retries
        "#]],
    )
    .await;
}

#[tokio::test]
async fn retryable_http_statuses_are_tried_again() {
    let answers = vec![
        Answer::Http(429, &[("retry-after", "0")], b""),
        Answer::Http(502, &[], b"bad gateway"),
        Answer::Http(504, &[], b""),
        Answer::Http(202, &[], b""),
    ];
    check(
        Protocol::HttpProtobuf,
        answers,
        expect![[r#"
        /v1/traces application/x-protobuf gzip=false
        /v1/traces application/x-protobuf gzip=false
        /v1/traces application/x-protobuf gzip=false
        /v1/traces application/x-protobuf gzip=false
        Exported { n_rejected: 0, message: None, n_retries: 3 }
    "#]],
    )
    .await;
}

#[tokio::test]
async fn final_http_statuses_tell_the_servers_message() {
    let json = &[("content-type", "application/json")];
    let answers = vec![Answer::Http(
        400,
        json,
        br#"{"code":3,"message":"bad span"}"#,
    )];
    check(
        Protocol::HttpJson,
        answers,
        expect![[r#"
        /v1/traces application/json gzip=false
        refused (HTTP 400: bad span); 0 retries
    "#]],
    )
    .await;
    let answers = vec![Answer::Http(500, &[], b"Internal\x1b[31m oops\n")];
    check(
        Protocol::HttpProtobuf,
        answers,
        expect![[r#"
        /v1/traces application/x-protobuf gzip=false
        refused (HTTP 500: Internal\u{1b}[31m oops); 0 retries
    "#]],
    )
    .await;
    let answers = vec![Answer::Http(413, &[], b"")];
    check(
        Protocol::HttpProtobuf,
        answers,
        expect![[r#"
        /v1/traces application/x-protobuf gzip=false
        refused (HTTP 413: Payload Too Large); 0 retries
    "#]],
    )
    .await;
}

#[tokio::test]
async fn attempts_are_bounded() {
    let answers = vec![Answer::Http(503, &[], b""); 4];
    check(
        Protocol::HttpProtobuf,
        answers,
        expect![[r#"
        /v1/traces application/x-protobuf gzip=false
        /v1/traces application/x-protobuf gzip=false
        /v1/traces application/x-protobuf gzip=false
        /v1/traces application/x-protobuf gzip=false
        unavailable: gave up after 4 attempts (HTTP 503: Service Unavailable); 3 retries
    "#]],
    )
    .await;
}

#[tokio::test]
async fn a_server_that_asks_for_an_hour_is_not_visited_earlier() {
    let answers = vec![Answer::Http(503, &[("retry-after", "3600")], b"closed")];
    check(
        Protocol::HttpProtobuf,
        answers,
        expect![[r#"
        /v1/traces application/x-protobuf gzip=false
        unavailable: server asks to wait 3600 s (HTTP 503: closed); 0 retries
    "#]],
    )
    .await;
}

#[tokio::test]
async fn a_broken_answer_is_tried_again() {
    let answers = vec![Answer::Break, Answer::Http(200, &[], b"")];
    check(
        Protocol::HttpProtobuf,
        answers,
        expect![[r#"
        /v1/traces application/x-protobuf gzip=false
        /v1/traces application/x-protobuf gzip=false
        Exported { n_rejected: 0, message: None, n_retries: 1 }
    "#]],
    )
    .await;
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unavailable() {
    let free = TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap()
        .to_string();
    for protocol in [Protocol::Grpc, Protocol::HttpProtobuf, Protocol::HttpJson] {
        let client = Client::new(&config(&free, protocol)).unwrap();
        let error = client
            .export(Signal::Traces, Bytes::from_static(BODY))
            .await
            .unwrap_err();
        assert!(error.is_unavailable(), "{error}");
        assert_eq!(error.n_retries(), 3);
        let text = error.to_string();
        assert!(
            text.contains("no answer") && text.contains("refused"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn exports_beyond_the_allowed_number_wait_for_their_turn() {
    let (server, address) = start(vec![Answer::Http(200, &[], b""); 20]).await;
    let concurrency = NonZeroUsize::new(3).unwrap();
    let config = Config {
        concurrency,
        ..config(&address, Protocol::HttpProtobuf)
    };
    let client = Client::new(&config).unwrap();
    let exports = (0..20).map(|_| client.export(Signal::Traces, Bytes::from_static(BODY)));
    for outcome in futures::future::join_all(exports).await {
        outcome.unwrap();
    }
    assert_eq!(server.seen.lock().unwrap().len(), 20);
    assert_eq!(client.permits.available_permits(), 3);
}

#[tokio::test]
async fn a_body_that_is_no_export_request_is_not_sent_as_json() {
    let (server, address) = start(Vec::new()).await;
    let client = Client::new(&config(&address, Protocol::HttpJson)).unwrap();
    let error = client
        .export(Signal::Traces, Bytes::from_static(b"\xff"))
        .await
        .unwrap_err();
    assert!(!error.is_unavailable());
    assert!(server.seen.lock().unwrap().is_empty());
}
