//! The protocol of Postgres, version 3: psql, DBeaver, Grafana, and the drivers of every language.
//!
//! In reading order: `wire` (messages of clients), `startup` (encryption and who it is), `connection` (what is done
//! with a message), `extended` (prepared statements), `noise` (what clients say beside queries), `portal` (an answer under way), `parameters` and `rows`
//! (values in and out), `problem` (errors as SQLSTATE), `cancel` (stopping a statement from outside).
//!
//! # What is there
//!
//! - The simple protocol, with one query in a text and any number of statements that are `noise`.
//! - The extended protocol: prepared statements, parameters, portals that are read in parts (`max_rows`), results as
//!   text or binary.
//! - `pg_catalog` and `information_schema`, as far as tools ask for them ([`crate::Engine`] has them for this door).
//! - Cancel requests, and the same when a client goes away: the statement stops.
//!
//! No `COPY`, no cursors in SQL (`DECLARE`), no notifications, no functions by number: refused with a code that says
//! so. A statement is answered in a session of its own, as at the other doors: nothing that is set lasts.
//!
//! # Decided
//!
//! **Our own loop, not that of `pgwire`.** While a statement runs it has to notice that the client is gone, a portal
//! must give its place back when its time is over, and before anybody is known nobody may make us keep more than
//! `wire::STARTUP_BYTES_MAX`. What `pgwire` and `arrow-pg` know about types and about what we send is used.
//!
//! **No way back.** A certificate that cannot be used is an error at the start; with TLS configured there are no
//! connections without.

mod cancel;
mod connection;
mod extended;
mod noise;
mod parameters;
mod portal;
mod problem;
mod rows;
mod startup;
mod wire;

#[cfg(test)]
mod tests;

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use transport::{Auth, Door, HandshakeFailures, ServerTls, Stream};

use crate::engine::Engine;
use crate::metrics::Connections;
use cancel::Cancels;
use problem::Problem;

/// Pause after a failed accept: the usual cause, no free file descriptor, passes only with time.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// As many as Postgres takes by itself.
const CONNECTIONS_MAX: NonZeroUsize = NonZeroUsize::MIN.saturating_add(99);

/// `postgres` of the extension `query`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Is there such a listener? Default `true`.
    pub enabled: bool,
    /// Where it listens. Default `127.0.0.1:5433`, beside a Postgres on the same machine.
    pub endpoint: SocketAddr,
    /// TLS, and the authorities of clients' certificates. With it, connections in clear text are refused. Unset: plain
    /// text.
    #[serde(deserialize_with = "crate::config::named")]
    pub tls: Option<ServerTls>,
    /// Whose tokens are passwords. Unset: nobody is asked for one.
    pub auth: Option<Auth>,
    /// Connections at once; one more is refused. Default 100.
    pub connections_max: NonZeroUsize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            enabled: true,
            endpoint: SocketAddr::from((Ipv4Addr::LOCALHOST, 5433)),
            tls: None,
            auth: None,
            connections_max: CONNECTIONS_MAX,
        }
    }
}

/// What the connections of a listener share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) engine: Arc<Engine>,
    pub(crate) door: Door,
    pub(crate) cancels: Arc<Cancels>,
    pub(crate) connections: Arc<Connections>,
    pub(crate) handshakes_failed: Arc<HandshakeFailures>,
}

/// A listener that is not running yet.
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    connections_max: NonZeroUsize,
}

impl Server {
    /// Answers with `engine` whoever comes through `door`.
    pub fn new(
        engine: Arc<Engine>,
        door: Door,
        connections_max: NonZeroUsize,
        connections: Arc<Connections>,
        handshakes_failed: Arc<HandshakeFailures>,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                engine,
                door,
                cancels: Arc::default(),
                connections,
                handshakes_failed,
            }),
            connections_max,
        }
    }

    /// Serves until `stop`; then idle connections are closed, and those that answer a statement when it is over.
    pub async fn serve(self, listener: TcpListener, stop: impl Future<Output = ()>) {
        let places = Arc::new(Semaphore::new(self.connections_max.get()));
        let (stopping, stopped) = watch::channel(false);
        let mut open = JoinSet::new();
        tokio::pin!(stop);
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                Some(_over) = open.join_next(), if !open.is_empty() => continue,
                () = &mut stop => break,
            };
            match accepted {
                Ok((tcp, peer)) => match Arc::clone(&places).try_acquire_owned() {
                    Ok(place) => {
                        let shared = Arc::clone(&self.shared);
                        open.spawn(talk(tcp, peer, shared, place, stopped.clone()));
                    }
                    Err(_full) => {
                        self.shared.connections.refuse();
                        turn_away(&tcp);
                    }
                },
                Err(error) => {
                    tracing::warn!(%error, "connection not accepted");
                    tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                }
            }
        }
        drop(listener);
        // Nobody may be left to hear it.
        stopping.send(true).ok();
        while open.join_next().await.is_some() {}
    }
}

/// One connection, from its first byte to its last.
async fn talk(
    tcp: TcpStream,
    peer: SocketAddr,
    shared: Arc<Shared>,
    place: OwnedSemaphorePermit,
    stopped: watch::Receiver<bool>,
) {
    let _open = shared.connections.accept();
    // Worth a try, and no reason to refuse anybody.
    tcp.set_nodelay(true).ok();
    let mut on_stop = stopped.clone();
    let admitted = tokio::select! {
        admitted = startup::admit(tcp, peer, &shared) => admitted,
        () = connection::stop(&mut on_stop) => None,
    };
    if let Some(admitted) = admitted {
        connection::Connection::new(admitted, Arc::clone(&shared))
            .run(stopped)
            .await;
    }
    drop(place);
}

/// Tells a client that there is no room, as far as that fits without waiting.
fn turn_away(tcp: &TcpStream) {
    let mut out = bytes::BytesMut::new();
    let problem = Problem::new("53300", "too many connections; try again later");
    problem.write(problem::Severity::Fatal, &mut out);
    // Whoever does not read it is closed all the same.
    tcp.try_write(&out).ok();
}

/// What a connection is read from and written to.
pub(crate) type Wire = wire::Wire<Stream>;
