//! C74 at the receivers: who has no token is told so in the words of the transport, before its body is read.

use gateway::Config;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tonic::Code;
use transport::{BearerTokenAuth, Secret};

use crate::harness::{Fixture, TRACES, config, export_with, trace_export};

const PROTOBUF: &str = "application/x-protobuf";

fn guarded() -> Config {
    let mut config = config();
    let auth = Some(transport::Auth {
        authenticator: "bearertokenauth".to_owned(),
    });
    config.otlp.protocols.grpc.as_mut().unwrap().auth = auth.clone();
    config.otlp.protocols.http.as_mut().unwrap().auth = auth;
    let settings = BearerTokenAuth {
        tokens: vec![Secret::new("s3cr3t-A"), Secret::new("s3cr3t-B")],
        ..BearerTokenAuth::default()
    };
    let known = &mut config.authenticators.0;
    known.insert("bearertokenauth".to_owned(), settings);
    config
}

fn head(authorization: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if !authorization.is_empty() {
        let value = HeaderValue::from_str(authorization).unwrap();
        headers.insert(HeaderName::from_static("authorization"), value);
    }
    headers
}

#[tokio::test(flavor = "multi_thread")]
async fn c74_both_transports_look_at_the_same_header_in_the_same_way() {
    let gateway = Fixture::new(guarded()).await;
    for (authorization, is_let_in) in [
        ("", false),
        ("Bearer wrong", false),
        ("Bearer s3cr3t-A", true),
        ("Bearer s3cr3t-B", true),
        ("bearer s3cr3t-A", true),
        ("Basic czNjcjN0LUE=", false),
        ("Bearer s3cr3t-A,Bearer wrong", false),
    ] {
        let mut headers = vec![("content-type", PROTOBUF)];
        if !authorization.is_empty() {
            headers.push(("authorization", authorization));
        }
        let body = trace_export(1, 10);
        let answer = gateway
            .send(Method::POST, "/v1/traces", &headers, body.clone())
            .await;
        let channel = gateway.channel().await;
        let exported = export_with(channel, TRACES, &head(authorization), body, None).await;
        if is_let_in {
            assert_eq!(answer.status, StatusCode::OK, "{authorization}");
            exported.unwrap();
        } else {
            assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{authorization}");
            assert_eq!(answer.header("www-authenticate"), "Bearer");
            assert_eq!(exported.unwrap_err().code(), Code::Unauthenticated);
        }
    }
    let text = gateway.handle.metrics.render_prometheus();
    for line in [
        "gateway_exports_refused_total{reason=\"unauthenticated\"} 8\n",
        "gateway_exports_total{transport=\"grpc\",signal=\"traces\",code=\"UNAUTHENTICATED\"} 4\n",
        "gateway_exports_total{transport=\"http\",signal=\"traces\",code=\"UNAUTHENTICATED\"} 4\n",
    ] {
        assert!(text.contains(line), "{line} is not in {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c74_the_answer_is_a_status_in_the_encoding_of_the_request() {
    let gateway = Fixture::new(guarded()).await;
    let answer = gateway.post("/v1/traces", "application/json", "{}").await;
    assert_eq!(answer.header("content-type"), "application/json");
    assert_eq!(answer.json()["code"], 16);
    assert_eq!(answer.json()["message"], "no token was sent");
    let answer = gateway.post("/v1/traces", PROTOBUF, "").await;
    assert_eq!(answer.header("content-type"), PROTOBUF);
    // Field 1 is the code, field 2 the message.
    assert_eq!(&answer.body[..4], b"\x08\x10\x12\x11");
    assert_eq!(&answer.body[4..], b"no token was sent");
    // Nobody without a token learns which paths there are.
    let answer = gateway.post("/elsewhere", PROTOBUF, "").await;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
    let channel = gateway.channel().await;
    let exported = export_with(channel, "/elsewhere", &head(""), "", None).await;
    assert_eq!(exported.unwrap_err().code(), Code::Unauthenticated);
}

/// The request with 19 MiB, and the same where the body never comes or is not even right.
#[tokio::test(flavor = "multi_thread")]
async fn c74_a_large_body_is_refused_before_it_is_read() {
    let gateway = Fixture::new(guarded()).await;
    let body = vec![0xff; 19 << 20];
    let answer = gateway.post("/v1/traces", PROTOBUF, body.clone()).await;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
    let channel = gateway.channel().await;
    let exported = export_with(channel, TRACES, &head(""), body, None).await;
    assert_eq!(exported.unwrap_err().code(), Code::Unauthenticated);

    for more in ["", "expect: 100-continue\r\n"] {
        let mut socket = TcpStream::connect(gateway.http_addr()).await.unwrap();
        let head = format!(
            "POST /v1/traces HTTP/1.1\r\nhost: x\r\ncontent-type: {PROTOBUF}\r\n{more}\
             content-length: 19922944\r\n\r\n"
        );
        socket.write_all(head.as_bytes()).await.unwrap();
        let mut answer = [0; 12];
        socket.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 401");
    }
}
