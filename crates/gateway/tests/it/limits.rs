//! Sizes: the limit holds before and after inflating, on both transports, chunked bodies included.

use std::io::Write;

use bytes::Bytes;
use gateway::Config;
use http::{Method, StatusCode};
use otlp::export::Signal;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tonic::{Code, codec::CompressionEncoding};

use crate::harness::{Fixture, TRACES, config, testdata, trace_export};

const PROTOBUF: &str = "application/x-protobuf";

/// As in C13: 4 MiB over gRPC, 20 MiB over HTTP.
fn small_limits() -> Config {
    let mut config = config();
    config
        .otlp
        .protocols
        .grpc
        .as_mut()
        .unwrap()
        .max_recv_msg_size_mib = 4;
    config
        .otlp
        .protocols
        .http
        .as_mut()
        .unwrap()
        .max_request_body_size = 20 << 20;
    config
}

#[tokio::test(flavor = "multi_thread")]
async fn c13_a_bomb_is_refused_and_the_next_request_works() {
    let gateway = Fixture::new(small_limits()).await;
    let bomb = testdata("C13-bomb-24MiB.json.gz");
    let headers = [
        ("content-type", "application/json"),
        ("content-encoding", "gzip"),
    ];
    let answer = gateway
        .send(Method::POST, "/v1/traces", &headers, bomb)
        .await;
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(answer.header("retry-after"), "");
    assert_eq!(answer.json()["code"], Code::ResourceExhausted as i32);
    let answer = gateway
        .post("/v1/traces", PROTOBUF, trace_export(1, 10))
        .await;
    assert_eq!(answer.status, StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn c13_grpc_messages_over_the_limit_are_not_retryable_plain_or_compressed() {
    let gateway = Fixture::new(small_limits()).await;
    let large = trace_export(1, (4 << 20) + 1);
    let all = [
        None,
        Some(CompressionEncoding::Gzip),
        Some(CompressionEncoding::Zstd),
    ];
    for compression in all {
        let status = gateway
            .export(TRACES, large.clone(), compression)
            .await
            .unwrap_err();
        assert_eq!(
            status.code(),
            Code::ResourceExhausted,
            "{compression:?}: {status:?}"
        );
        assert!(status.details().is_empty(), "no RetryInfo");
        assert!(
            gateway
                .export(TRACES, trace_export(2, 10), compression)
                .await
                .is_ok()
        );
    }
    let mut config = small_limits();
    config
        .otlp
        .protocols
        .grpc
        .as_mut()
        .unwrap()
        .max_recv_msg_size_mib = 16;
    let gateway = Fixture::new(config).await;
    for compression in all {
        assert!(
            gateway
                .export(TRACES, large.clone(), compression)
                .await
                .is_ok(),
            "{compression:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_at_the_limit_is_taken_and_one_byte_more_is_not() {
    let mut config = config();
    let body = trace_export(1, 1000);
    config
        .otlp
        .protocols
        .http
        .as_mut()
        .unwrap()
        .max_request_body_size = body.len() as u64;
    let gateway = Fixture::new(config).await;
    assert_eq!(
        gateway.post("/v1/traces", PROTOBUF, body).await.status,
        StatusCode::OK
    );
    let longer = gateway
        .post("/v1/traces", PROTOBUF, trace_export(1, 1001))
        .await;
    assert_eq!(longer.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(longer.header("content-type"), PROTOBUF);
}

#[tokio::test(flavor = "multi_thread")]
async fn compressed_bodies_are_taken_in_every_encoding() {
    let gateway = Fixture::new(config()).await;
    let body = trace_export(1, 100_000);
    let gzip = {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&body).unwrap();
        encoder.finish().unwrap()
    };
    let deflate = {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&body).unwrap();
        encoder.finish().unwrap()
    };
    let zstd = zstd::encode_all(&body[..], 3).unwrap();
    let bodies = [
        ("gzip", gzip),
        ("deflate", deflate),
        ("zstd", zstd),
        ("identity", body.to_vec()),
    ];
    for (encoding, compressed) in bodies {
        let headers = [("content-type", PROTOBUF), ("content-encoding", encoding)];
        let answer = gateway
            .send(Method::POST, "/v1/traces", &headers, compressed.into())
            .await;
        assert_eq!(answer.status, StatusCode::OK, "{encoding}");
    }
    assert_eq!(gateway.handle.metrics.n_items_received(Signal::Traces), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn c13_a_chunked_body_that_never_fits_is_answered_413() {
    let gateway = Fixture::new(small_limits()).await;
    let mut socket = tokio::net::TcpStream::connect(gateway.http_addr())
        .await
        .unwrap();
    let head = "POST /v1/traces HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-protobuf\r\n\
        transfer-encoding: chunked\r\n\r\n";
    socket.write_all(head.as_bytes()).await.unwrap();
    let chunk = Bytes::from(vec![b'x'; 1 << 20]);
    let (mut reader, mut writer) = socket.split();
    let write = async {
        for _ in 0..38 {
            writer.write_all(b"100000\r\n").await?;
            writer.write_all(&chunk).await?;
            writer.write_all(b"\r\n").await?;
        }
        writer.write_all(b"0\r\n\r\n").await
    };
    let mut answer = [0; 12];
    let (_, read) = tokio::join!(write, reader.read_exact(&mut answer));
    read.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413");
}
