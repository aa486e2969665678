//! Refusals that pass: what the sender is told, and that nothing is lost with them.

use http::StatusCode;
use tonic::Code;

use crate::harness::{Fixture, TRACES, config, trace_export};

const PROTOBUF: &str = "application/x-protobuf";

#[tokio::test(flavor = "multi_thread")]
async fn over_the_byte_budget_senders_are_told_to_wait() {
    let mut config = config();
    config
        .otlp
        .protocols
        .grpc
        .as_mut()
        .unwrap()
        .max_recv_msg_size_mib = 1;
    config
        .otlp
        .protocols
        .http
        .as_mut()
        .unwrap()
        .max_request_body_size = 1 << 20;
    config.intake.bytes_in_flight_max = 2 << 20;
    let gateway = Fixture::new(config).await;
    // Senders that have sent all but the last byte hold their bytes.
    let slow = trace_export(1, 1_000_000);
    let mut held = Vec::new();
    for _ in 0..2 {
        held.push(hold(&gateway, &slow).await);
    }
    let answer = crate::harness::eventually(async || {
        let answer = gateway.post("/v1/traces", PROTOBUF, slow.clone()).await;
        (answer.status == StatusCode::TOO_MANY_REQUESTS).then_some(answer)
    })
    .await;
    assert_eq!(answer.header("retry-after"), "1");
    assert_eq!(answer.header("content-type"), PROTOBUF);
    let status = gateway
        .export(TRACES, slow.clone(), None)
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(!status.details().is_empty(), "RetryInfo");

    drop(held);
    crate::harness::eventually(async || {
        let answer = gateway.post("/v1/traces", PROTOBUF, slow.clone()).await;
        (answer.status == StatusCode::OK).then_some(())
    })
    .await;
}

/// Sends a body but for its last byte.
async fn hold(gateway: &Fixture, body: &[u8]) -> tokio::net::TcpStream {
    use tokio::io::AsyncWriteExt;
    let mut socket = tokio::net::TcpStream::connect(gateway.http_addr())
        .await
        .unwrap();
    let head = format!(
        "POST /v1/traces HTTP/1.1\r\nhost: x\r\ncontent-type: {PROTOBUF}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    socket.write_all(&body[..body.len() - 1]).await.unwrap();
    socket
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_does_not_arrive_in_time_is_answered_and_frees_its_bytes() {
    use tokio::io::AsyncReadExt;
    let mut config = config();
    config.intake.body_timeout = std::time::Duration::from_millis(50);
    let gateway = Fixture::new(config).await;
    let mut socket = hold(&gateway, &trace_export(1, 1000)).await;
    let mut answer = [0; 12];
    socket.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 503");
    let status = gateway
        .post("/v1/traces", PROTOBUF, trace_export(1, 10))
        .await
        .status;
    assert_eq!(status, StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storage_stage_that_stands_still_stops_neither_intake_nor_decisions() {
    let mut config = config();
    config.intake.release_backlog_spans_max = 10;
    let gateway = Fixture::new(config).await;
    // Nobody takes releases: they wait, and then exports are refused.
    for trace in 1..=50 {
        let answer = gateway
            .post("/v1/traces", PROTOBUF, trace_export(trace, 10))
            .await;
        assert_eq!(answer.status, StatusCode::OK);
    }
    gateway.advance(2);
    let answer = crate::harness::eventually(async || {
        let answer = gateway
            .post("/v1/traces", PROTOBUF, trace_export(200, 10))
            .await;
        (answer.status == StatusCode::TOO_MANY_REQUESTS).then_some(answer)
    })
    .await;
    assert_eq!(answer.header("retry-after"), "1");
    let sequence = i64::MAX;
    gateway.handle.committed(sequence);
    crate::harness::eventually(async || {
        let answer = gateway
            .post("/v1/traces", PROTOBUF, trace_export(201, 10))
            .await;
        (answer.status == StatusCode::OK).then_some(())
    })
    .await;
}
