//! An OTLP client for whole export requests as protobuf bytes.
//!
//! The body is sent as it is over gRPC and HTTP protobuf, and turned into OTLP/JSON for HTTP JSON.
//! Answers are sorted the way the protocol asks (<https://opentelemetry.io/docs/specs/otlp/>):
//! accepted, accepted in part (never sent again), refused for good, or worth another attempt.
//!
//! Limits: [`Config::concurrency`] export requests at a time, [`Config::timeout`] per attempt,
//! [`Retry`] for the attempts, [`ANSWER_BYTES_MAX`] of an answer. An `https` endpoint is connected with
//! [`Config::tls`], and each request has the header of [`Config::token`].

mod endpoint;
mod failure;
mod grpc;
mod http;
mod reply;
mod retry;
#[cfg(test)]
mod tests;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use otlp::export::Signal;
use otlp::reply::Reply;
use tokio::sync::Semaphore;
use transport::{Alpn, ClientTls, Connector, TokenSource};

use crate::Result;
use crate::rng::Rng;

pub use endpoint::Endpoint;
pub use failure::{ExportError, Failure, Status};
pub use grpc::RawCodec;
pub use retry::Retry;

/// The largest answer that is read; the protocol tells servers to stay below it.
pub const ANSWER_BYTES_MAX: usize = 4 << 20;

/// How an export request travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// gRPC over HTTP/2.
    Grpc,
    /// `POST` with `application/x-protobuf`.
    HttpProtobuf,
    /// `POST` with `application/json`.
    HttpJson,
}

impl Protocol {
    /// The name that the command line uses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Grpc => "grpc",
            Self::HttpProtobuf => "http-protobuf",
            Self::HttpJson => "http-json",
        }
    }

    /// The port that OTLP assigns.
    pub const fn default_port(self) -> u16 {
        match self {
            Self::Grpc => 4317,
            Self::HttpProtobuf | Self::HttpJson => 4318,
        }
    }
}

/// Where to send and how.
#[derive(Debug, Clone)]
pub struct Config {
    /// The server.
    pub endpoint: Endpoint,
    /// How export requests travel.
    pub protocol: Protocol,
    /// Whether bodies are compressed with gzip.
    pub gzip: bool,
    /// How many export requests are on their way at once, those that wait for a retry included.
    pub concurrency: NonZeroUsize,
    /// The longest one attempt may take, connecting included.
    pub timeout: Duration,
    /// When to try again.
    pub retry: Retry,
    /// How an `https` endpoint is known, and what is shown to it.
    pub tls: ClientTls,
    /// What each request has to show.
    pub token: Option<Arc<TokenSource>>,
}

impl Config {
    /// One export request at a time, no compression, 10 s per attempt, no token.
    pub fn new(endpoint: Endpoint, protocol: Protocol) -> Self {
        Self {
            endpoint,
            protocol,
            gzip: false,
            concurrency: NonZeroUsize::MIN,
            timeout: Duration::from_secs(10),
            retry: Retry::default(),
            tls: ClientTls::default(),
            token: None,
        }
    }

    fn connector(&self, alpn: Alpn) -> Result<Connector> {
        let insecure = ClientTls::insecure();
        let tls = if self.endpoint.is_secure() {
            &self.tls
        } else {
            &insecure
        };
        Ok(Connector::new("client", tls, alpn)?.connect_timeout(self.timeout))
    }
}

/// The server took the export request, wholly or in part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exported {
    /// Spans, points or log records that the server says it rejected; 0 is full success.
    pub n_rejected: u64,
    /// What the server said beside it; a warning if nothing was rejected. Printable, at most a
    /// thousand characters.
    pub message: Option<String>,
    /// Attempts before this one.
    pub n_retries: u32,
}

/// Sends export requests to one endpoint; share it by reference.
#[derive(Debug)]
pub struct Client {
    transport: Transport,
    timeout: Duration,
    retry: Retry,
    permits: Semaphore,
    n_exports: AtomicU64,
}

#[derive(Debug)]
enum Transport {
    Grpc(grpc::Transport),
    Http(Box<http::Transport>),
}

impl Client {
    /// Prepares a client; the connection is made with the first export.
    ///
    /// Must be called inside a Tokio runtime.
    ///
    /// # Errors
    ///
    /// The endpoint has a path and the protocol is gRPC, or the key material for it cannot be used.
    pub fn new(config: &Config) -> Result<Self> {
        let transport = match config.protocol {
            Protocol::Grpc => Transport::Grpc(grpc::Transport::new(config)?),
            Protocol::HttpProtobuf | Protocol::HttpJson => {
                Transport::Http(Box::new(http::Transport::new(config)?))
            }
        };
        Ok(Self {
            transport,
            timeout: config.timeout,
            retry: config.retry,
            permits: Semaphore::new(config.concurrency.get().min(Semaphore::MAX_PERMITS)),
            n_exports: AtomicU64::new(0),
        })
    }

    /// Sends one export request, a protobuf `Export*ServiceRequest` of the signal, until it is
    /// answered for good.
    ///
    /// Waits while [`Config::concurrency`] others are on their way; waiters go in the order in
    /// which they came.
    ///
    /// # Errors
    ///
    /// The server refused, or no attempt succeeded; [`ExportError`] tells which.
    pub async fn export(&self, signal: Signal, body: Bytes) -> Result<Exported, ExportError> {
        let Ok(_permit) = self.permits.acquire().await else {
            return Err(ExportError::Closed);
        };
        // Any spread will do for the pauses; counting exports keeps a run repeatable.
        let mut rng = Rng::new(self.n_exports.fetch_add(1, Ordering::Relaxed));
        match &self.transport {
            Transport::Grpc(grpc) => {
                self.until_answered(&mut rng, || grpc.attempt(signal, body.clone()))
                    .await
            }
            Transport::Http(http) => {
                let payload = http.payload(signal, body)?;
                self.until_answered(&mut rng, || http.attempt(signal, payload.clone()))
                    .await
            }
        }
    }

    async fn until_answered<F, Attempt>(
        &self,
        rng: &mut Rng,
        mut attempt: F,
    ) -> Result<Exported, ExportError>
    where
        F: FnMut() -> Attempt,
        Attempt: Future<Output = Result<Reply, Failure>>,
    {
        let mut n_retries = 0;
        loop {
            let answer = tokio::time::timeout(self.timeout, attempt())
                .await
                .unwrap_or_else(|_elapsed| Err(Failure::timed_out(self.timeout)));
            let failure = match answer {
                Ok(Reply {
                    n_rejected,
                    message,
                }) => {
                    return Ok(Exported {
                        n_rejected,
                        message,
                        n_retries,
                    });
                }
                Err(failure) => failure,
            };
            if !failure.is_retryable() {
                return Err(ExportError::Refused { failure, n_retries });
            }
            match self.retry.pause(n_retries, failure.retry_after, rng) {
                retry::Pause::For(delay) => tokio::time::sleep(delay).await,
                retry::Pause::NoAttemptLeft => {
                    return Err(ExportError::Exhausted { failure, n_retries });
                }
                retry::Pause::TooLong(delay) => {
                    return Err(ExportError::DelayTooLong {
                        failure,
                        delay,
                        n_retries,
                    });
                }
            }
            n_retries += 1;
        }
    }
}
