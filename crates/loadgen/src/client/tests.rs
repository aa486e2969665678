//! The client against a server that answers from a script.

use std::collections::VecDeque;
use std::io::Read as _;
use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Response};
use bytes::Bytes;
use expect_test::{Expect, expect};
use flate2::read::GzDecoder;
use http_body_util::{BodyExt as _, StreamBody};
use otlp::export::Signal;
use tokio::net::TcpListener;

use super::{Client, Config, Endpoint, Protocol, Retry};

/// One resource with one scope with no spans.
const BODY: &[u8] = b"\x0a\x02\x12\x00";
const PARTIAL: &[u8] = b"\x0a\x08\x08\x03\x12\x04oops";
/// `google.rpc.Status` with a `RetryInfo` of one millisecond.
const RETRY_DETAILS: &[u8] =
    b"\x08\x08\x1a\x32\x0a\x28type.googleapis.com/google.rpc.RetryInfo\x12\x06\x0a\x04\x10\xc0\x84\x3d";

/// How the server answers one request.
#[derive(Clone)]
enum Answer {
    Http(u16, &'static [(&'static str, &'static str)], &'static [u8]),
    /// A message, then `grpc-status: 0`.
    GrpcOk(&'static [u8]),
    Grpc(&'static str, &'static str, Option<&'static [u8]>),
    /// Closes the connection.
    Break,
}

#[derive(Default)]
struct Server {
    answers: Mutex<VecDeque<Answer>>,
    /// Path, content type and encoding, and body of what came, inflated and without gRPC's frame.
    seen: Mutex<Vec<(String, Vec<u8>)>>,
}

async fn answer(State(server): State<Arc<Server>>, request: Request) -> Response<Body> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let header = |name: &str| {
        head.headers
            .get(name)
            .map_or("-", |value| value.to_str().unwrap())
            .to_owned()
    };
    let is_grpc = header("content-type").starts_with("application/grpc");
    let (compressed, body) = if is_grpc {
        (body[0] == 1, body.slice(5..))
    } else {
        (header("content-encoding") == "gzip", body)
    };
    let mut content = Vec::new();
    if compressed {
        GzDecoder::new(&body[..]).read_to_end(&mut content).unwrap();
    } else {
        content.extend_from_slice(&body);
    }
    let line = format!(
        "{} {} gzip={compressed}",
        head.uri.path(),
        header("content-type")
    );
    server.seen.lock().unwrap().push((line, content));
    let next = server
        .answers
        .lock()
        .unwrap()
        .pop_front()
        .expect("one answer per request");
    match next {
        Answer::Http(code, headers, body) => {
            let mut builder = Response::builder().status(code);
            for (name, value) in headers {
                builder = builder.header(*name, *value);
            }
            builder.body(Body::from(body)).unwrap()
        }
        Answer::GrpcOk(message) => {
            let mut framed = vec![0];
            framed.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
            framed.extend(message);
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", "0".parse().unwrap());
            let frames = [
                Ok::<_, std::io::Error>(http_body::Frame::data(Bytes::from(framed))),
                Ok(http_body::Frame::trailers(trailers)),
            ];
            Response::builder()
                .header("content-type", "application/grpc")
                .body(Body::new(StreamBody::new(tokio_stream::iter(frames))))
                .unwrap()
        }
        Answer::Grpc(code, message, details) => {
            let mut builder = Response::builder()
                .header("content-type", "application/grpc")
                .header("grpc-status", code)
                .header("grpc-message", message);
            if let Some(details) = details {
                builder = builder.header("grpc-status-details-bin", base64(details));
            }
            builder.body(Body::empty()).unwrap()
        }
        Answer::Break => {
            let broken = tokio_stream::iter([Err::<Bytes, _>(std::io::Error::other("break"))]);
            // The declared length is never sent, so the connection must close.
            Response::builder()
                .status(503)
                .header("content-length", "10")
                .body(Body::from_stream(broken))
                .unwrap()
        }
    }
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let number = group
            .iter()
            .fold(0_usize, |number, byte| number << 8 | usize::from(*byte))
            << (8 * (3 - group.len()));
        for digit in 0..=group.len() {
            text.push(char::from(ALPHABET[number >> (18 - 6 * digit) & 63]));
        }
    }
    text
}

async fn start(answers: Vec<Answer>) -> (Arc<Server>, String) {
    let server = Arc::new(Server {
        answers: Mutex::new(answers.into()),
        ..Server::default()
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let router = axum::Router::new()
        .fallback(answer)
        .with_state(Arc::clone(&server));
    tokio::spawn(async move { axum::serve(listener, router).await });
    (server, address)
}

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
