//! Requests against a server that answers as told.

use std::time::Duration;

use bytes::Bytes;
use otlp::{
    reply::Reply,
    testing::{TimeSpan, trace},
};
use tonic::Code;
use transport::Authenticators;

use super::{Client, Compression, Protocol, SendError, Status};
use crate::{
    export::config::{OtlpGrpc, OtlpHttp},
    testing::{Backend, BackendAnswer as Answer},
};

const TIMEOUT: Duration = Duration::from_millis(500);

const PROTOCOLS: [Protocol; 2] = [Protocol::Grpc, Protocol::Http];

fn client(protocol: Protocol, backend: &Backend, compression: Compression) -> Client {
    let addr = backend.addr();
    let headers = r#"{"x-tenant": "t1"}"#;
    match protocol {
        Protocol::Grpc => OtlpGrpc {
            endpoint: format!("http://{addr}"),
            headers: serde_saphyr::from_str(headers).unwrap(),
            compression,
            timeout: TIMEOUT,
            ..OtlpGrpc::default()
        }
        .client(&Authenticators::default()),
        Protocol::Http => OtlpHttp {
            endpoint: format!("http://{addr}"),
            headers: serde_saphyr::from_str(headers).unwrap(),
            compression,
            timeout: TIMEOUT,
            ..OtlpHttp::default()
        }
        .client(&Authenticators::default()),
    }
    .unwrap()
}

fn body() -> Bytes {
    let export = trace(1).span("a", 1.ms()).span("b", 2.ms());
    export.build().into()
}

/// What becomes of one request that is answered so.
async fn send(protocol: Protocol, answer: Answer) -> Result<Reply, SendError> {
    let backend = Backend::start().await.unwrap();
    backend.script([answer]);
    client(protocol, &backend, Compression::Gzip)
        .send(body())
        .await
}

#[tokio::test]
async fn a_request_arrives_byte_for_byte_in_every_compression() {
    for protocol in PROTOCOLS {
        for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
            let backend = Backend::start().await.unwrap();
            let client = client(protocol, &backend, compression);
            for _ in 0..2 {
                assert_eq!(client.send(body()).await, Ok(Reply::default()));
            }
            let received = backend.received();
            assert_eq!(received.len(), 2);
            for received in received {
                assert_eq!(received.body, body(), "{protocol:?} {compression:?}");
                assert_eq!(received.headers["x-tenant"], "t1");
                assert!(
                    received.headers["user-agent"]
                        .to_str()
                        .unwrap()
                        .starts_with("whyslow/")
                );
                let (path, name) = match protocol {
                    Protocol::Grpc => (
                        "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
                        "grpc-encoding",
                    ),
                    Protocol::Http => ("/v1/traces", "content-encoding"),
                };
                assert_eq!(received.path, path);
                let name = received.headers.get(name).cloned();
                assert_eq!(name, compression.name());
            }
            assert_eq!(backend.spans().into_values().collect::<Vec<_>>(), [2, 2]);
        }
    }
}

#[tokio::test]
async fn a_partial_success_is_a_success_with_a_count() {
    for protocol in PROTOCOLS {
        let reply = send(protocol, Answer::Partial(3)).await.unwrap();
        assert_eq!(reply.n_rejected, 3);
        assert_eq!(reply.message.as_deref(), Some("some were too old"));
    }
}

/// OTLP specification, the tables of "OTLP/gRPC Response" and "OTLP/HTTP Response".
#[tokio::test]
async fn what_may_be_sent_again_is_what_the_specification_says() {
    let delay = Some(Duration::from_secs(7));
    let codes = [
        (Code::Cancelled, None, true),
        (Code::Unknown, None, false),
        (Code::InvalidArgument, None, false),
        (Code::DeadlineExceeded, None, true),
        (Code::NotFound, None, false),
        (Code::PermissionDenied, None, false),
        (Code::ResourceExhausted, None, false),
        (Code::ResourceExhausted, delay, true),
        (Code::Aborted, None, true),
        (Code::OutOfRange, None, true),
        (Code::Unimplemented, None, false),
        (Code::Internal, None, false),
        (Code::Unavailable, delay, true),
        (Code::DataLoss, None, true),
        (Code::Unauthenticated, None, false),
    ];
    for (code, delay, is_retryable) in codes {
        let refused = send(Protocol::Grpc, Answer::Refuse(code, 200, delay)).await;
        let error = refused.unwrap_err();
        assert_eq!(error.status, Status::Grpc(code));
        assert_eq!(error.is_retryable(), is_retryable, "{error}");
        assert_eq!(error.retry_after, delay);
        assert_eq!(error.message, "told to refuse");
    }
    let statuses = [
        (400, None, false),
        (401, None, false),
        (404, None, false),
        (413, None, false),
        (429, delay, true),
        (500, None, false),
        (502, None, true),
        (503, delay, true),
        (504, None, true),
    ];
    for (status, delay, is_retryable) in statuses {
        let refused = send(Protocol::Http, Answer::Refuse(Code::Unknown, status, delay)).await;
        let error = refused.unwrap_err();
        assert_eq!(error.to_string(), format!("HTTP {status}: told to refuse"));
        assert_eq!(error.is_retryable(), is_retryable, "{error}");
        assert_eq!(error.retry_after, delay);
    }
}

#[test]
fn a_proxy_that_is_not_grpc_is_understood_by_its_status() {
    for (status, code) in [
        (400, Code::Internal),
        (401, Code::Unauthenticated),
        (404, Code::Unimplemented),
        (429, Code::Unavailable),
        (503, Code::Unavailable),
        (500, Code::Unknown),
    ] {
        let status = ::http::StatusCode::from_u16(status).unwrap();
        assert_eq!(super::grpc::code_of(status), code);
    }
}

#[tokio::test]
async fn no_answer_is_a_reason_to_try_again() {
    for protocol in PROTOCOLS {
        let error = send(protocol, Answer::Hang).await.unwrap_err();
        assert_eq!(error.status, Status::TimedOut);
        assert!(error.is_retryable());

        let error = send(protocol, Answer::AcceptAndBreak).await.unwrap_err();
        assert_eq!(error.status, Status::NoAnswer, "{error}");
        assert!(error.is_retryable());

        let backend = Backend::start().await.unwrap();
        let client = client(protocol, &backend, Compression::Gzip);
        client.send(body()).await.unwrap();
        backend.down();
        let error = client.send(body()).await.unwrap_err();
        assert_eq!(error.status, Status::NoAnswer, "{error}");
        assert!(error.is_retryable());
        backend.up().await.unwrap();
        client.send(body()).await.unwrap();
    }
}
