//! Listeners: accept, serve connections with time limits, stop without cutting requests short.

use std::{net::SocketAddr, time::Duration};

use axum::Router;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{
        conn::auto,
        graceful::{GracefulShutdown, Watcher},
    },
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};

use crate::error::{Error, Result};

/// HTTP/2 flow control: one large export fits the window of its stream, a few the one of the connection.
const HTTP2_STREAM_WINDOW_BYTES: u32 = 4 << 20;
const HTTP2_CONNECTION_WINDOW_BYTES: u32 = 16 << 20;
const HTTP2_FRAME_BYTES_MAX: u32 = 1 << 20;

/// Streams that one connection may have open.
const HTTP2_STREAMS_MAX: u32 = 256;

/// A dead peer is noticed by an unanswered ping.
const HTTP2_PING_INTERVAL: Duration = Duration::from_secs(20);

/// How long a connection may take until its first bytes, and an HTTP/1.1 head (idle connections included);
/// the Collector's default.
const HEADER_TIMEOUT: Duration = Duration::from_secs(60);

/// Pause after a failed accept: the usual cause, no free file descriptor, passes only with time.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// What a listener speaks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Protocol {
    /// HTTP/2 with prior knowledge, as gRPC has it.
    Http2,
    /// HTTP/1.0 and 1.1.
    Http1,
}

/// A bound socket.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: TcpListener,
    /// Where it really listens, with the port that was chosen for port 0.
    pub(crate) addr: SocketAddr,
}

impl Listener {
    /// Binds `endpoint` (`host:port`, an empty host means all interfaces, as in the Collector).
    pub(crate) async fn bind(key: &'static str, endpoint: &str) -> Result<Listener> {
        let named = |source| Error::Bind {
            endpoint: endpoint.to_owned(),
            key,
            source,
        };
        let target = match endpoint.strip_prefix(':') {
            Some(port) => format!("0.0.0.0:{port}"),
            None => endpoint.to_owned(),
        };
        let socket = TcpListener::bind(target).await.map_err(named)?;
        let addr = socket.local_addr().map_err(named)?;
        Ok(Listener { socket, addr })
    }

    /// Serves until `stop` says so, then lets open requests finish for at most `grace`.
    pub(crate) async fn serve(
        self,
        protocol: Protocol,
        service: Router,
        mut stop: watch::Receiver<bool>,
        grace: Duration,
    ) {
        let graceful = GracefulShutdown::new();
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = self.socket.accept() => accepted,
                Some(_) = connections.join_next(), if !connections.is_empty() => continue,
                () = told_to(&mut stop) => break,
            };
            match accepted {
                Ok((stream, _peer)) => {
                    connections.spawn(serve_connection(
                        stream,
                        protocol,
                        service.clone(),
                        graceful.watcher(),
                        stop.clone(),
                    ));
                }
                Err(error) => {
                    tracing::warn!(addr = %self.addr, %error, "connection not accepted");
                    tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                }
            }
        }
        drop(self.socket);
        if tokio::time::timeout(grace, graceful.shutdown())
            .await
            .is_err()
        {
            tracing::warn!(addr = %self.addr, "connections still open after the grace time were closed");
        }
    }
}

/// Waits until the listener is to stop. The gateway that is gone without a word has stopped too.
async fn told_to(stop: &mut watch::Receiver<bool>) {
    drop(stop.wait_for(|is_stopping| *is_stopping).await);
}

async fn serve_connection(
    stream: TcpStream,
    protocol: Protocol,
    service: Router,
    watcher: Watcher,
    mut stop: watch::Receiver<bool>,
) {
    // Small answers must not wait for more bytes; a socket that cannot be told still works.
    stream.set_nodelay(true).ok();
    let first_byte = tokio::time::timeout(HEADER_TIMEOUT, stream.readable());
    tokio::select! {
        readable = first_byte => if readable.is_err() { return },
        () = told_to(&mut stop) => return,
    }
    let builder = match protocol {
        Protocol::Http2 => {
            let mut builder = auto::Builder::new(TokioExecutor::new()).http2_only();
            builder
                .http2()
                .timer(TokioTimer::new())
                .initial_stream_window_size(HTTP2_STREAM_WINDOW_BYTES)
                .initial_connection_window_size(HTTP2_CONNECTION_WINDOW_BYTES)
                .max_frame_size(HTTP2_FRAME_BYTES_MAX)
                .max_concurrent_streams(HTTP2_STREAMS_MAX)
                .keep_alive_interval(HTTP2_PING_INTERVAL)
                .keep_alive_timeout(HTTP2_PING_INTERVAL);
            builder
        }
        Protocol::Http1 => {
            let mut builder = auto::Builder::new(TokioExecutor::new()).http1_only();
            builder
                .http1()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIMEOUT);
            builder
        }
    };
    let service = TowerToHyperService::new(service);
    let connection = builder
        .serve_connection(TokioIo::new(stream), service)
        .into_owned();
    if let Err(error) = watcher.watch(connection).await {
        // A peer's broken connection is its own business; nothing was acknowledged on it after the break.
        tracing::debug!(%error, "connection ended");
    }
}
