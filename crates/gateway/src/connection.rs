//! One connection: its limits in time, and its end.
//!
//! | peer | cut after |
//! | --- | --- |
//! | does not end its TLS handshake | `tls.handshake_timeout` |
//! | sends nothing, or an HTTP/1.1 head that does not end | `read_header_timeout` |
//! | has no request open | `idle_timeout`, `max_connection_idle` |
//! | sends a body that does not end | `intake.body_timeout` (in `body`) |
//! | is dead, over HTTP/2 | a ping every `keepalive.server_parameters.time` and no answer for `timeout` |
//! | is old, over HTTP/2 | `max_connection_age`, when its requests are answered or `max_connection_age_grace` is over |
//!
//! An idle connection is closed between one and two times its limit: only every such time is looked.

use std::{
    future::Future,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{Router, body::Body, extract::Request};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
    service::TowerToHyperService,
};
use tokio::{net::TcpStream, sync::watch, time};
use tower::Service as _;
use transport::{Acceptor, HandshakeFailures, Stream};

use crate::config;

/// HTTP/2 flow control: one large export fits the window of its stream, a few the one of the connection.
const HTTP2_STREAM_WINDOW_BYTES: u32 = 4 << 20;
const HTTP2_CONNECTION_WINDOW_BYTES: u32 = 16 << 20;
const HTTP2_FRAME_BYTES_MAX: u32 = 1 << 20;

/// A peer that is told to go has at most this long to say goodbye, over and over while it has requests open.
const GOODBYE_MAX: Duration = Duration::from_secs(5);

/// What a listener speaks, with the limits of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Protocol {
    /// HTTP/2 with prior knowledge, as gRPC has it.
    Http2 {
        streams_max: u32,
        keepalive: config::ServerParameters,
    },
    /// HTTP/1.0 and 1.1.
    Http1 {
        header_timeout: Duration,
        idle_timeout: Duration,
    },
}

impl Protocol {
    pub(crate) fn of_grpc(grpc: &config::Grpc) -> Protocol {
        Protocol::Http2 {
            streams_max: grpc.max_concurrent_streams,
            keepalive: grpc.keepalive.server_parameters,
        }
    }

    pub(crate) fn of_http(http: &config::Http) -> Protocol {
        Protocol::Http1 {
            header_timeout: http.read_header_timeout,
            idle_timeout: http.idle_timeout,
        }
    }

    fn first_byte_timeout(self) -> Option<Duration> {
        match self {
            Protocol::Http2 { keepalive, .. } => limit(keepalive.max_connection_idle),
            Protocol::Http1 { header_timeout, .. } => Some(header_timeout),
        }
    }

    fn idle_timeout(self) -> Option<Duration> {
        match self {
            Protocol::Http2 { keepalive, .. } => limit(keepalive.max_connection_idle),
            Protocol::Http1 { idle_timeout, .. } => limit(idle_timeout),
        }
    }

    fn age(self) -> Option<(Duration, Option<Duration>)> {
        match self {
            Protocol::Http2 { keepalive, .. } => limit(keepalive.max_connection_age)
                .map(|age| (age, limit(keepalive.max_connection_age_grace))),
            Protocol::Http1 { .. } => None,
        }
    }

    fn builder(self) -> auto::Builder<TokioExecutor> {
        let builder = auto::Builder::new(TokioExecutor::new());
        match self {
            Protocol::Http2 {
                streams_max,
                keepalive,
            } => {
                let mut builder = builder.http2_only();
                builder
                    .http2()
                    .timer(TokioTimer::new())
                    .initial_stream_window_size(HTTP2_STREAM_WINDOW_BYTES)
                    .initial_connection_window_size(HTTP2_CONNECTION_WINDOW_BYTES)
                    .max_frame_size(HTTP2_FRAME_BYTES_MAX)
                    .max_concurrent_streams(streams_max)
                    .keep_alive_interval(keepalive.time)
                    .keep_alive_timeout(keepalive.timeout);
                builder
            }
            Protocol::Http1 { header_timeout, .. } => {
                let mut builder = builder.http1_only();
                builder
                    .http1()
                    .timer(TokioTimer::new())
                    .header_read_timeout(header_timeout);
                builder
            }
        }
    }
}

/// 0 is no limit, as in the Collector.
fn limit(time: Duration) -> Option<Duration> {
    (!time.is_zero()).then_some(time)
}

/// Requests of one connection.
#[derive(Debug, Default)]
struct Activity {
    n_open: AtomicUsize,
    n_begun: AtomicU64,
}

/// An open request.
struct OpenRequest(Arc<Activity>);

impl Activity {
    fn begin(self: &Arc<Self>) -> OpenRequest {
        self.n_open.fetch_add(1, Ordering::Relaxed);
        self.n_begun.fetch_add(1, Ordering::Relaxed);
        OpenRequest(Arc::clone(self))
    }

    fn is_idle(&self) -> bool {
        self.n_open.load(Ordering::Relaxed) == 0
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.n_open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Why a connection is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Stopping,
    Idle,
    Old { grace: Option<Duration> },
}

/// What a listener does with each of its connections.
#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) protocol: Protocol,
    pub(crate) tls: Option<Arc<Acceptor>>,
    pub(crate) router: Router,
}

/// Serves a connection to its end. When the listener stops, open requests finish for as long as it waits.
pub(crate) async fn serve(
    stream: TcpStream,
    service: Service,
    mut stop: watch::Receiver<bool>,
    failures: &HandshakeFailures,
) {
    // Small answers must not wait for more bytes; a socket that cannot be told still works.
    stream.set_nodelay(true).ok();
    let begun = tokio::select! {
        begun = begin(stream, &service, failures) => begun,
        () = told_to(&mut stop) => return,
    };
    if let Some(stream) = begun {
        serve_requests(stream, service, stop).await;
    }
}

/// Waits for the peer's first byte, or its whole handshake, within the time for it.
async fn begin(
    stream: TcpStream,
    service: &Service,
    failures: &HandshakeFailures,
) -> Option<Stream> {
    let Some(tls) = &service.tls else {
        let first_byte = within(service.protocol.first_byte_timeout(), stream.readable());
        return first_byte.await.map(|_| Stream::Plain(stream));
    };
    match tls.accept(stream).await {
        Ok(stream) => Some(stream),
        Err(error) => {
            failures.count(error.reason);
            tracing::debug!(error = crate::error::chain(&error), "connection ended");
            None
        }
    }
}

async fn serve_requests(stream: Stream, service: Service, mut stop: watch::Receiver<bool>) {
    let Service {
        protocol, router, ..
    } = service;
    let activity = Arc::new(Activity::default());
    let counted = {
        let activity = Arc::clone(&activity);
        tower::service_fn(move |request: Request<hyper::body::Incoming>| {
            let open = activity.begin();
            let answer = router.clone().call(request.map(Body::new));
            async move {
                let answer = answer.await;
                drop(open);
                answer
            }
        })
    };
    let builder = protocol.builder();
    let connection =
        builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(counted));
    let mut connection = pin!(connection);
    let end = tokio::select! {
        result = connection.as_mut() => return note(result),
        () = idle(protocol.idle_timeout(), &activity) => End::Idle,
        grace = old(protocol) => End::Old { grace },
        () = told_to(&mut stop) => End::Stopping,
    };
    connection.as_mut().graceful_shutdown();
    // Who was silent for a shorter time than that is not given it.
    let goodbye = GOODBYE_MAX.min(protocol.idle_timeout().unwrap_or(GOODBYE_MAX));
    let forced = async {
        match end {
            // The listener waits for as long as it may, and then ends this.
            End::Stopping => std::future::pending().await,
            End::Old { grace: Some(grace) } => time::sleep(grace).await,
            End::Idle | End::Old { grace: None } => loop {
                time::sleep(goodbye).await;
                if activity.is_idle() {
                    break;
                }
            },
        }
    };
    tokio::select! {
        result = connection.as_mut() => note(result),
        () = forced => {}
    }
}

/// A peer's broken connection is its own business; nothing was acknowledged on it after the break.
fn note<E: std::fmt::Display>(result: Result<(), E>) {
    if let Err(error) = result {
        tracing::debug!(%error, "connection ended");
    }
}

/// The output, unless it takes longer.
async fn within<F: Future>(limit: Option<Duration>, work: F) -> Option<F::Output> {
    match limit {
        Some(limit) => time::timeout(limit, work).await.ok(),
        None => Some(work.await),
    }
}

/// Ends when no request was open, or begun, for the given time.
async fn idle(limit: Option<Duration>, activity: &Activity) {
    let Some(limit) = limit else {
        return std::future::pending().await;
    };
    let mut n_begun = 0;
    loop {
        time::sleep(limit).await;
        let n_begun_now = activity.n_begun.load(Ordering::Relaxed);
        if n_begun_now == n_begun && activity.is_idle() {
            return;
        }
        n_begun = n_begun_now;
    }
}

/// Ends when the connection is too old; gives the time that its requests have then.
async fn old(protocol: Protocol) -> Option<Duration> {
    match protocol.age() {
        Some((age, grace)) => {
            time::sleep(age).await;
            grace
        }
        None => std::future::pending().await,
    }
}

/// Waits until the listener is to stop. The gateway that is gone without a word has stopped too.
pub(crate) async fn told_to(stop: &mut watch::Receiver<bool>) {
    drop(stop.wait_for(|is_stopping| *is_stopping).await);
}
