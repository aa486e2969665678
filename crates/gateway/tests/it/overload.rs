//! Refusals that pass: what the sender is told, and that nothing is lost with them.

use std::time::Duration;

use bytes::Bytes;
use gateway::Config;
use http::StatusCode;
use tokio::net::TcpStream;
use tonic::{Code, Status};

use crate::harness::{Answer, Fixture, TRACES, config, eventually, trace_export};

const PROTOBUF: &str = "application/x-protobuf";

/// The byte budget holds two exports of the largest size, 1 MiB.
pub(crate) fn room_for_two() -> Config {
    let mut config = config();
    let protocols = &mut config.otlp.protocols;
    protocols.grpc.as_mut().unwrap().max_recv_msg_size_mib = 1;
    protocols.http.as_mut().unwrap().max_request_body_size = 1 << 20;
    config.intake.bytes_in_flight_max = 2 << 20;
    config
}

#[tokio::test(flavor = "multi_thread")]
async fn over_the_byte_budget_senders_are_told_to_wait() {
    let gateway = Fixture::new(room_for_two()).await;
    let slow = trace_export(1, 1_000_000);
    let (held, answer, status) = answers_over_the_byte_budget(&gateway, &slow).await;
    assert_eq!(answer.header("retry-after"), "1");
    assert_eq!(answer.header("content-type"), PROTOBUF);
    assert_eq!(status.code(), Code::Unavailable);
    assert!(!status.details().is_empty(), "RetryInfo");
    let alone = status.metadata().get_bin("google.rpc.retryinfo-bin");
    let alone = alone.unwrap().to_bytes().unwrap();
    assert_eq!(&alone[..], [10, 2, 8, 1], "one second");

    drop(held);
    eventually(async || {
        let answer = gateway.post("/v1/traces", PROTOBUF, slow.clone()).await;
        (answer.status == StatusCode::OK).then_some(())
    })
    .await;
}

/// What HTTP and gRPC senders are told while two others hold all there is room for.
pub(crate) async fn answers_over_the_byte_budget(
    gateway: &Fixture,
    slow: &Bytes,
) -> ([TcpStream; 2], Answer, Status) {
    // Senders that have sent all but the last byte hold their bytes. Which of those that come at the same time is
    // refused is open, so they may have to come again.
    eventually(async || {
        let held = [hold(gateway, slow).await, hold(gateway, slow).await];
        let answer = gateway.post("/v1/traces", PROTOBUF, slow.clone()).await;
        let status = gateway.export(TRACES, slow.clone(), None).await.err()?;
        (answer.status == StatusCode::TOO_MANY_REQUESTS).then_some((held, answer, status))
    })
    .await
}

/// Sends a body but for its last byte.
async fn hold(gateway: &Fixture, body: &[u8]) -> TcpStream {
    use tokio::io::AsyncWriteExt;
    let mut socket = TcpStream::connect(gateway.http_addr()).await.unwrap();
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
    let mut config = room_for_two();
    config.intake.body_timeout = Duration::from_millis(200);
    let gateway = Fixture::new(config).await;
    let large = trace_export(1, 1_000_000);
    let mut sockets = [hold(&gateway, &large).await, hold(&gateway, &large).await];
    for socket in &mut sockets {
        let mut answer = [0; 12];
        socket.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 503");
    }
    // Again and again, because a slow machine may need longer than the timeout.
    eventually(async || {
        let answer = gateway.post("/v1/traces", PROTOBUF, large.clone()).await;
        (answer.status == StatusCode::OK).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storage_stage_that_stands_still_stops_neither_intake_nor_decisions() {
    let mut config = config();
    // What is undecided counts as well: three quarters of this are what is sent at first.
    config.intake.release_backlog_spans_max = 67;
    let mut gateway = Fixture::new(config).await;
    // Nobody takes releases: they wait, and then exports are refused.
    for trace in 1..=50 {
        let answer = gateway
            .post("/v1/traces", PROTOBUF, trace_export(trace, 10))
            .await;
        assert_eq!(answer.status, StatusCode::OK);
    }
    gateway.advance(2);
    let answer = eventually(async || {
        let answer = gateway
            .post("/v1/traces", PROTOBUF, trace_export(200, 10))
            .await;
        (answer.status == StatusCode::TOO_MANY_REQUESTS).then_some(answer)
    })
    .await;
    assert_eq!(answer.header("retry-after"), "1");
    // The longer it stays closed, the longer is the pause.
    for (seconds, told) in [(1, "1"), (6, "7"), (90, "30")] {
        gateway.advance(seconds);
        let answer = gateway
            .post("/v1/traces", PROTOBUF, trace_export(200, 10))
            .await;
        assert_eq!(answer.header("retry-after"), told);
    }
    // Refused already for what is undecided, perhaps; decided it is all the same.
    let sequence = gateway.next_release().await.sequence;
    gateway.handle.committed(sequence);
    eventually(async || {
        let answer = gateway
            .post("/v1/traces", PROTOBUF, trace_export(201, 10))
            .await;
        (answer.status == StatusCode::OK).then_some(())
    })
    .await;
}
