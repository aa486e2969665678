//! An OTLP client: one export request to one server, one attempt.
//!
//! The body is sent as it is, compressed, over gRPC or HTTP. What a failure means for another attempt is
//! [`SendError::is_retryable`], by the OTLP specification; when to make it is the caller's matter
//! ([`super::retry`]).
//!
//! Limits: [`Settings::timeout`] for an attempt with everything in it, [`ANSWER_BYTES_MAX`] of an answer.
//! Redirects are not followed.
//!
//! Compression is done by the task that sends, not by the connection's: it takes milliseconds for each MiB.

mod failure;
mod grpc;
mod http;

use std::{
    io::Write,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use ::http::{HeaderMap, HeaderValue, Request, Response, Uri, header};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::{
    client::legacy,
    rt::{TokioExecutor, TokioTimer},
};
use otlp::reply::Reply;
use transport::{Connector, TokenSource};

pub use self::failure::{SendError, Status};

/// The largest answer that is read; the protocol tells servers to stay below it.
pub const ANSWER_BYTES_MAX: usize = 4 << 20;

/// An idle connection is closed after this.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

const USER_AGENT: &str = concat!("whyslow/", env!("CARGO_PKG_VERSION"));

/// How export requests travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// OTLP/gRPC over HTTP/2.
    Grpc,
    /// OTLP/HTTP, protobuf bodies.
    Http,
}

/// How bodies are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// Not at all.
    #[serde(alias = "")]
    None,
    /// The Collector's default.
    #[default]
    Gzip,
    /// Smaller and faster, where the server takes it.
    Zstd,
}

impl Compression {
    fn name(self) -> Option<HeaderValue> {
        match self {
            Compression::None => None,
            Compression::Gzip => Some(HeaderValue::from_static("gzip")),
            Compression::Zstd => Some(HeaderValue::from_static("zstd")),
        }
    }

    /// Appends the compressed bytes to `out`.
    fn compress(self, bytes: &[u8], out: Vec<u8>) -> Vec<u8> {
        let written = match self {
            Compression::None => {
                let mut out = out;
                out.extend_from_slice(bytes);
                Ok(out)
            }
            Compression::Gzip => {
                let level = flate2::Compression::fast();
                let mut encoder = flate2::write::GzEncoder::new(out, level);
                encoder.write_all(bytes).and_then(|()| encoder.finish())
            }
            Compression::Zstd => zstd::Encoder::new(out, ZSTD_LEVEL)
                .and_then(|mut encoder| encoder.write_all(bytes).and_then(|()| encoder.finish())),
        };
        // Writing into memory does not fail; an empty body would be refused by the server.
        written.unwrap_or_default()
    }
}

/// As fast as gzip's fastest, and smaller.
const ZSTD_LEVEL: i32 = 1;

/// Pings on a connection of HTTP/2. None are sent unless they are configured: servers of grpc-go end connections
/// that ping more often than every five minutes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pings {
    /// After this time without a sign of life.
    pub time: Duration,
    /// The connection is closed when the answer takes longer.
    pub timeout: Duration,
    /// Also while no export is on its way.
    pub while_idle: bool,
}

/// Where to send and how.
#[derive(Debug)]
pub struct Settings {
    /// How export requests travel.
    pub protocol: Protocol,
    /// What is posted to; for gRPC its path is ignored.
    pub url: Uri,
    /// Sent with each request.
    pub headers: HeaderMap,
    /// How bodies are compressed.
    pub compression: Compression,
    /// The longest one attempt may take, connecting included.
    pub timeout: Duration,
    /// Pings on the connection.
    pub pings: Option<Pings>,
    /// Connects, with or without TLS.
    pub connector: Connector,
    /// The token that each request shows.
    pub token: Option<TokenSource>,
}

type Pool = legacy::Client<Connector, Full<Bytes>>;

/// Sends export requests to one server; share it by reference. Connections are made when they are needed.
#[derive(Debug)]
pub struct Client {
    settings: Settings,
    /// Replaced after an attempt that timed out: its connection may be dead without anybody having been told.
    pool: Mutex<Pool>,
}

impl Client {
    /// Prepares a client.
    pub fn new(settings: Settings) -> Client {
        let pool = Mutex::new(pool(&settings));
        Client { settings, pool }
    }

    /// Sends one `ExportTraceServiceRequest`, protobuf and not compressed, and gives what the server said.
    ///
    /// Must be called inside a Tokio runtime.
    ///
    /// # Errors
    ///
    /// The server refused or did not answer; it may have taken the request where no answer came.
    pub async fn send(&self, body: Bytes) -> Result<Reply, SendError> {
        let timeout = self.settings.timeout;
        let answered = match self.settings.protocol {
            Protocol::Grpc => {
                let request = grpc::request(&self.settings, &body)?;
                tokio::time::timeout(timeout, async {
                    grpc::read(self.exchange(request).await?).await
                })
                .await
            }
            Protocol::Http => {
                let request = http::request(&self.settings, body)?;
                tokio::time::timeout(timeout, async {
                    http::read(self.exchange(request).await?).await
                })
                .await
            }
        };
        answered.unwrap_or_else(|_elapsed| {
            *self.pool.lock().unwrap_or_else(PoisonError::into_inner) = pool(&self.settings);
            Err(SendError::timed_out(timeout))
        })
    }

    async fn exchange(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, SendError> {
        let pool = self
            .pool
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        pool.request(request)
            .await
            .map_err(|error| SendError::no_answer(&error))
    }
}

fn pool(settings: &Settings) -> Pool {
    let mut builder = legacy::Client::builder(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .http2_only(settings.protocol == Protocol::Grpc);
    if let Some(pings) = settings.pings {
        builder
            .http2_keep_alive_interval(pings.time)
            .http2_keep_alive_timeout(pings.timeout)
            .http2_keep_alive_while_idle(pings.while_idle);
    }
    builder.build(settings.connector.clone())
}

/// The head that both protocols share.
fn post(settings: &Settings, url: Uri, content_type: &'static str) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::default());
    *request.method_mut() = ::http::Method::POST;
    *request.uri_mut() = url;
    let headers = request.headers_mut();
    headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
    headers.extend(settings.headers.clone());
    if let Some(token) = &settings.token {
        token.add_to(headers);
    }
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    request
}

#[cfg(test)]
mod tests;
