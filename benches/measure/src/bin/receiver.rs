//! A gRPC server that takes OTLP exports and does nothing with them: what one core could receive at most.
//!
//! `receiver ADDRESS [count]` prints where it listens, and once it is asked to end, as JSON, what came: exports, bytes
//! and, with `count`, spans and the sum of their trace ids, which is equal for equal sets of spans in any order. With
//! `count` it is the backend of the programs that are measured; without, the ceiling for them.
#![expect(clippy::print_stdout, reason = "its result is what it prints")]

use std::{
    convert::Infallible,
    env,
    error::Error,
    future::{Future, Ready, ready},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response};
use loadgen::client::RawCodec;
use tokio::signal::unix::{SignalKind, signal};
use tonic::{
    Status,
    body::Body,
    codec::CompressionEncoding,
    server::{Grpc, NamedService, UnaryService},
    transport::{Server, server::TcpIncoming},
};
use tower_service::Service;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Larger than any export of the load.
const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// Room for several exports on their way, so that senders need not wait for leave to send.
const STREAM_WINDOW_BYTES: u32 = 4 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;
const FRAME_BYTES_MAX: u32 = 1 << 20;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let address = arguments.next().ok_or("usage: receiver ADDRESS [count]")?;
    let receiver = Receiver {
        is_counting: arguments.next().as_deref() == Some("count"),
        came: Arc::default(),
    };
    let incoming = TcpIncoming::bind(address.parse()?)?.with_nodelay(Some(true));
    println!("listening on {}", incoming.local_addr()?);
    let mut terminate = signal(SignalKind::terminate())?;
    let came = Arc::clone(&receiver.came);
    let serving = Server::builder()
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_frame_size(FRAME_BYTES_MAX)
        .add_service(receiver)
        .serve_with_incoming(incoming);
    tokio::select! {
        served = serving => served?,
        _ = terminate.recv() => {}
    }
    let [n_exports, n_bytes, n_spans, trace_ids] = [
        &came.n_exports,
        &came.n_bytes,
        &came.n_spans,
        &came.trace_ids,
    ]
    .map(|counter| counter.load(Ordering::Relaxed));
    println!(
        "{{\"exports\": {n_exports}, \"bytes\": {n_bytes}, \"spans\": {n_spans}, \"trace_ids\": {trace_ids}}}"
    );
    Ok(())
}

/// What came.
#[derive(Debug, Default)]
struct Came {
    n_exports: AtomicU64,
    n_bytes: AtomicU64,
    n_spans: AtomicU64,
    trace_ids: AtomicU64,
}

#[derive(Debug, Clone)]
struct Receiver {
    is_counting: bool,
    came: Arc<Came>,
}

impl NamedService for Receiver {
    const NAME: &'static str = "opentelemetry.proto.collector.trace.v1.TraceService";
}

impl Service<Request<Body>> for Receiver {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let receiver = self.clone();
        let mut grpc = Grpc::new(RawCodec)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .accept_compressed(CompressionEncoding::Gzip);
        Box::pin(async move { Ok(grpc.unary(receiver, request).await) })
    }
}

impl UnaryService<Bytes> for Receiver {
    type Response = Bytes;
    type Future = Ready<Result<tonic::Response<Bytes>, Status>>;

    fn call(&mut self, request: tonic::Request<Bytes>) -> Self::Future {
        let body = request.into_inner();
        self.came.n_exports.fetch_add(1, Ordering::Relaxed);
        let n_bytes = u64::try_from(body.len()).unwrap_or(u64::MAX);
        self.came.n_bytes.fetch_add(n_bytes, Ordering::Relaxed);
        if self.is_counting {
            let (n_spans, trace_ids) = measure::tally(&body);
            self.came.n_spans.fetch_add(n_spans, Ordering::Relaxed);
            self.came.trace_ids.fetch_add(trace_ids, Ordering::Relaxed);
        }
        // An empty answer: all of it was taken.
        ready(Ok(tonic::Response::new(Bytes::new())))
    }
}
