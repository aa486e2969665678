//! Listeners: accept, within a number of connections; stop without cutting requests short.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use tokio::{net::TcpListener, sync::watch, task::JoinSet};

use crate::{
    connection::{self, Service, told_to},
    error::{Error, Result},
    metrics::{self, Metrics, Transport},
};

/// Pause after a failed accept: the usual cause, no free file descriptor, passes only with time.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// What a listener may do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Connections at once.
    pub(crate) connections_max: usize,
    /// How long open requests may take when it stops.
    pub(crate) grace: Duration,
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

    /// Serves until `stop` says so, then lets open requests finish for at most the grace time.
    ///
    /// A connection over the limit is closed at once: its peer tries again, where one in the queue would wait
    /// for peers that have nothing to say.
    pub(crate) async fn serve(
        self,
        transport: Transport,
        service: Service,
        mut stop: watch::Receiver<bool>,
        limits: Limits,
        metrics: Arc<Metrics>,
    ) {
        let mut connections = JoinSet::new();
        let mut is_over = false;
        loop {
            let accepted = tokio::select! {
                accepted = self.socket.accept() => accepted,
                Some(_) = connections.join_next(), if !connections.is_empty() => {
                    metrics::sub(&metrics.connections, 1);
                    continue;
                }
                () = told_to(&mut stop) => break,
            };
            match accepted {
                Ok((stream, _peer)) if connections.len() >= limits.connections_max => {
                    // Counted before the peer can see that it is closed.
                    metrics::add(&metrics.connections_refused, 1);
                    drop(stream);
                    if !is_over {
                        tracing::warn!(addr = %self.addr, connections_max = limits.connections_max,
                            "no more connections are accepted until some are closed");
                    }
                    is_over = true;
                }
                Ok((stream, _peer)) => {
                    is_over = false;
                    metrics::add(&metrics.connections, 1);
                    let (service, stop) = (service.clone(), stop.clone());
                    let metrics = Arc::clone(&metrics);
                    connections.spawn(async move {
                        let failures = metrics.handshakes_failed(transport);
                        connection::serve(stream, service, stop, failures).await;
                    });
                }
                Err(error) => {
                    tracing::warn!(addr = %self.addr, %error, "connection not accepted");
                    tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                }
            }
        }
        drop(self.socket);
        let n_open = connections.len() as u64;
        let all_ended = async { while connections.join_next().await.is_some() {} };
        if tokio::time::timeout(limits.grace, all_ended).await.is_err() {
            tracing::warn!(addr = %self.addr, "connections still open after the grace time were closed");
        }
        metrics::sub(&metrics.connections, n_open);
    }
}
