//! Connections that say nothing, too little or nothing any more, and too many of them.

use std::time::Duration;

use gateway::Config;
use http::StatusCode;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::harness::{Fixture, TRACES, config, eventually, trace_export};

const PROTOBUF: &str = "application/x-protobuf";
const SHORT: Duration = Duration::from_millis(100);
/// The client's part of an HTTP/2 handshake: preface and empty settings.
const HTTP2_HELLO: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// Connections are cut soon.
fn impatient() -> Config {
    let mut config = config();
    let protocols = &mut config.otlp.protocols;
    let http = protocols.http.as_mut().unwrap();
    (http.read_header_timeout, http.idle_timeout) = (SHORT, SHORT);
    let grpc = protocols.grpc.as_mut().unwrap();
    grpc.keepalive.server_parameters.max_connection_idle = SHORT;
    config
}

/// Opens a connection, sends `bytes` and nothing more, and waits for its end.
async fn is_cut(addr: std::net::SocketAddr, bytes: &[u8]) {
    let mut socket = TcpStream::connect(addr).await.unwrap();
    socket.write_all(bytes).await.unwrap();
    let mut rest = Vec::new();
    let end = tokio::time::timeout(Duration::from_secs(60), socket.read_to_end(&mut rest));
    // A reset is an end as well.
    end.await.expect("the connection is cut").ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_and_slow_connections_are_cut() {
    let gateway = Fixture::new(impatient()).await;
    let whole = b"POST /v1/traces HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
                  content-length: 2\r\n\r\n{}";
    let http = gateway.http_addr();
    is_cut(http, b"").await;
    is_cut(http, b"POST /v1/tr").await;
    is_cut(http, b"POST /v1/traces HTTP/1.1\r\nhost: x\r\nx-slow: ").await;
    // Served, and silent after it.
    is_cut(http, whole).await;

    let grpc = gateway.handle.grpc_addr.unwrap();
    is_cut(grpc, b"").await;
    is_cut(grpc, &HTTP2_HELLO[..10]).await;
    is_cut(grpc, HTTP2_HELLO).await;
    // The head of a request that never ends: HEADERS without END_HEADERS.
    is_cut(
        grpc,
        &[HTTP2_HELLO, b"\0\0\x01\x01\0\0\0\0\x01\x82"].concat(),
    )
    .await;
    check_is_served(&gateway).await;
}

/// Nobody else is disturbed: an export over each transport is taken.
async fn check_is_served(gateway: &Fixture) {
    let answer = gateway
        .post("/v1/traces", PROTOBUF, trace_export(1, 10))
        .await;
    assert_eq!(answer.status, StatusCode::OK);
    gateway
        .export(TRACES, trace_export(2, 10), None)
        .await
        .unwrap();
}

/// The step of C73: many connections that send nothing.
#[tokio::test(flavor = "multi_thread")]
async fn c73_two_hundred_silent_connections_are_closed_and_others_are_served() {
    let mut config = impatient();
    config.intake.connections_max = 100;
    let gateway = Fixture::new(config).await;
    let grpc = gateway.handle.grpc_addr.unwrap();
    for addr in [gateway.http_addr(), grpc] {
        let mut silent = Vec::new();
        for _ in 0..200 {
            silent.push(TcpStream::connect(addr).await.unwrap());
        }
        for socket in &mut silent {
            let mut rest = Vec::new();
            let end = tokio::time::timeout(Duration::from_secs(60), socket.read_to_end(&mut rest));
            end.await.expect("the connection is cut").ok();
        }
    }
    check_is_served(&gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_over_the_limit_is_closed_at_once_and_counted() {
    let mut config = config();
    config.intake.connections_max = 2;
    let gateway = Fixture::new(config).await;
    let addr = gateway.http_addr();
    let held = [
        TcpStream::connect(addr).await.unwrap(),
        TcpStream::connect(addr).await.unwrap(),
    ];
    eventually(async || {
        let text = gateway.handle.metrics.render_prometheus();
        text.contains("gateway_connections 2\n").then_some(())
    })
    .await;
    let mut third = TcpStream::connect(addr).await.unwrap();
    let mut byte = [0];
    assert!(matches!(third.read(&mut byte).await, Ok(0) | Err(_)));
    let text = gateway.handle.metrics.render_prometheus();
    assert!(
        text.contains("gateway_connections_refused_total 1\n"),
        "{text}"
    );
    drop(held);
    // The peers have gone, so there is room.
    eventually(async || {
        let mut socket = TcpStream::connect(addr).await.ok()?;
        let request = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        socket.write_all(request).await.ok()?;
        let mut answer = [0; 12];
        socket.read_exact(&mut answer).await.ok()?;
        (&answer == b"HTTP/1.1 404").then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_is_told_how_many_streams_it_may_open() {
    let mut config = config();
    let grpc = config.otlp.protocols.grpc.as_mut().unwrap();
    grpc.max_concurrent_streams = 17;
    let gateway = Fixture::new(config).await;
    let mut socket = TcpStream::connect(gateway.handle.grpc_addr.unwrap())
        .await
        .unwrap();
    socket.write_all(HTTP2_HELLO).await.unwrap();
    let mut head = [0; 9];
    socket.read_exact(&mut head).await.unwrap();
    assert_eq!(head[3], 4, "settings come first");
    let mut settings = vec![0; usize::from(u16::from_be_bytes([head[1], head[2]]))];
    socket.read_exact(&mut settings).await.unwrap();
    assert!(settings.chunks(6).any(|entry| entry == [0, 3, 0, 0, 0, 17]));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_connection_is_closed_and_its_client_goes_on() {
    let mut config = config();
    let grpc = config.otlp.protocols.grpc.as_mut().unwrap();
    grpc.keepalive.server_parameters.max_connection_age = SHORT;
    let gateway = Fixture::new(config).await;
    is_cut(gateway.handle.grpc_addr.unwrap(), HTTP2_HELLO).await;
    for trace in 1..=20 {
        let mut sent = gateway.export(TRACES, trace_export(trace, 10), None).await;
        if sent.is_err() {
            // It was about to use the connection that is going away, and sends again on a new one.
            sent = gateway.export(TRACES, trace_export(trace, 10), None).await;
        }
        sent.unwrap();
    }
}

/// Scenario: a sender's body comes a byte at a time and never ends.
/// Guarantee: it is answered when its time is over, and its bytes are free for others.
#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_never_ends_is_cut() {
    let mut config = config();
    config.intake.body_timeout = Duration::from_millis(200);
    let gateway = Fixture::new(config).await;
    let socket = TcpStream::connect(gateway.http_addr()).await.unwrap();
    let (mut reader, mut writer) = socket.into_split();
    let head = "POST /v1/traces HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-protobuf\r\n\
        transfer-encoding: chunked\r\n\r\n";
    writer.write_all(head.as_bytes()).await.unwrap();
    let trickle = tokio::spawn(async move {
        while writer.write_all(b"1\r\nx\r\n").await.is_ok() {
            tokio::task::yield_now().await;
        }
    });
    let mut answer = [0; 12];
    reader.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 503");
    drop(reader);
    trickle.await.unwrap();
}
