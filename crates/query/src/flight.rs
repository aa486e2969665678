//! Arrow Flight SQL: ADBC, JDBC, pyarrow, and whoever wants columns instead of rows.
//!
//! In reading order: `guard` (who may), `service` (statements, prepared or not), `encode` (answers and errors), `handle` (what a ticket says),
//! `names` (catalogs, schemas, tables, types, and what this server can).
//!
//! # What is there
//!
//! Statements, prepared statements with one row of parameters, catalogs, schemas, tables with their columns, table
//! types, information about the server and about types, the handshake. Refused: updates, ingestion, transactions,
//! savepoints, Substrait. There are no keys to list, so that lists of keys are empty.
//!
//! # Decided
//!
//! **Nothing is kept between calls.** A ticket and the handle of a prepared statement are the statement itself, so that
//! there is nothing to run full or to expire, and any replica can answer. Each call is checked as if it were the first:
//! who asks, the statement, the limits.
//!
//! **Rows are made as they are read.** A batch is encoded when the client takes it; a client that goes away or takes
//! too long ends its statement.

mod encode;
mod guard;
mod handle;
mod names;
mod service;

#[cfg(test)]
mod tests;

use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use arrow_flight::flight_service_server::FlightServiceServer;
use futures::stream;
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpListener;
use tonic::transport::server::Connected;
use transport::{Auth, Door, HandshakeFailures, Listener, ServerTls, Stream};

use crate::engine::Engine;
use crate::metrics::{Connections, Open};
use guard::Guarded;
use service::Sql;

/// What a message may have beside a statement and its parameters.
const BESIDE_STATEMENT: usize = 1024 * 1024;

/// Calls at once on one connection.
const STREAMS_MAX: u32 = 64;

/// How often a silent peer is asked whether it is still there, and how long it may take to answer.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// `flight_sql` of the extension `query`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Is there such a listener? Default `true`.
    pub enabled: bool,
    /// Where it listens. Default `127.0.0.1:7071`.
    pub endpoint: SocketAddr,
    /// TLS, and the authorities of clients' certificates. Unset: plain text.
    #[serde(deserialize_with = "crate::config::named")]
    pub tls: Option<ServerTls>,
    /// What each call must prove. Unset: nothing.
    pub auth: Option<Auth>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            enabled: true,
            endpoint: SocketAddr::from((Ipv4Addr::LOCALHOST, 7071)),
            tls: None,
            auth: None,
        }
    }
}

/// Answers with `engine` whoever comes through `door`, until `stop`; then calls that have begun are finished.
///
/// # Errors
///
/// The listener breaks.
pub async fn serve(
    engine: Arc<Engine>,
    door: Door,
    connections: Arc<Connections>,
    handshakes_failed: Arc<HandshakeFailures>,
    listener: TcpListener,
    stop: impl Future<Output = ()>,
) -> Result<(), tonic::transport::Error> {
    let bytes_max = engine.config().statement_bytes();
    let bytes_max = bytes_max.saturating_mul(2).saturating_add(BESIDE_STATEMENT);
    let service = Guarded::new(Sql::new(engine), door.tokens, Arc::clone(&connections));
    let service = FlightServiceServer::new(service).max_decoding_message_size(bytes_max);

    let listener = Listener::new(listener, door.tls, handshakes_failed);
    let incoming = stream::unfold(listener, move |mut listener| {
        let connections = Arc::clone(&connections);
        async move {
            let (stream, peer) = listener.accept().await;
            let connection = Connection {
                stream,
                peer,
                _open: connections.accept(),
            };
            Some((Ok::<_, io::Error>(connection), listener))
        }
    });
    tonic::transport::Server::builder()
        .max_concurrent_streams(STREAMS_MAX)
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE))
        .add_service(service)
        .serve_with_incoming_shutdown(incoming, stop)
        .await
}

/// A connection as tonic wants it.
struct Connection {
    stream: Stream,
    peer: SocketAddr,
    _open: Open,
}

/// Where a call comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) SocketAddr);

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        Peer(self.peer)
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
