//! Accepts connections where nobody else has a loop for it: axum's and tonic's servers take one that is ready.
//!
//! Handshakes run beside each other and beside the accepting, so that silent peers are in nobody's way.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time,
};

use crate::{
    server::{Acceptor, HandshakeFailure, HandshakeFailures},
    stream::Stream,
};

/// Handshakes at once; over it, a connection is closed as it comes. Each takes a file descriptor.
const HANDSHAKES_MAX: usize = 1024;

/// Pause after a failed accept: the usual cause, no free file descriptor, passes only with time.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// A bound socket, and the handshakes of those who connect to it.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    tls: Option<Arc<Acceptor>>,
    handshakes: JoinSet<Option<(Stream, SocketAddr)>>,
    failures: Arc<HandshakeFailures>,
}

impl Listener {
    /// Without `tls` every connection is taken as it is.
    pub fn new(
        socket: TcpListener,
        tls: Option<Arc<Acceptor>>,
        failures: Arc<HandshakeFailures>,
    ) -> Listener {
        Listener {
            socket,
            tls,
            handshakes: JoinSet::new(),
            failures,
        }
    }

    /// Where it listens.
    ///
    /// # Errors
    ///
    /// The operating system does not say.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }
    /// The next connection that is ready to be spoken on. Failures are counted, and nobody waits for them.
    pub async fn accept(&mut self) -> (Stream, SocketAddr) {
        loop {
            let accepted = tokio::select! {
                accepted = self.socket.accept() => accepted,
                Some(shaken) = self.handshakes.join_next(), if !self.handshakes.is_empty() => {
                    match shaken {
                        Ok(Some(ready)) => return ready,
                        Ok(None) | Err(_) => continue,
                    }
                }
            };
            match (accepted, &self.tls) {
                (Ok((tcp, peer)), None) => {
                    tcp.set_nodelay(true).ok();
                    return (Stream::Plain(tcp), peer);
                }
                (Ok((tcp, peer)), Some(tls)) if self.handshakes.len() < HANDSHAKES_MAX => {
                    let (tls, failures) = (Arc::clone(tls), Arc::clone(&self.failures));
                    self.handshakes.spawn(shake_hands(tls, failures, tcp, peer));
                }
                (Ok((tcp, _peer)), Some(_)) => {
                    drop(tcp);
                    self.failures.count(HandshakeFailure::TooMany);
                }
                (Err(error), _) => {
                    tracing::warn!(%error, "connection not accepted");
                    time::sleep(ACCEPT_RETRY_DELAY).await;
                }
            }
        }
    }
}

async fn shake_hands(
    tls: Arc<Acceptor>,
    failures: Arc<HandshakeFailures>,
    tcp: TcpStream,
    peer: SocketAddr,
) -> Option<(Stream, SocketAddr)> {
    tcp.set_nodelay(true).ok();
    match tls.accept(tcp).await {
        Ok(stream) => Some((stream, peer)),
        Err(error) => {
            failures.count(error.reason);
            None
        }
    }
}
