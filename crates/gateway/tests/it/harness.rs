//! A gateway in a temporary folder, and clients for it.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::{Buf, BufMut, Bytes};
use gateway::{Clock, Config, Handle, Release, Start};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use otlp::{span::SpanSummary, testing::TimeSpan};
use sampler::Reports;

pub(crate) use otlp::testing::T0;

use tempfile::TempDir;
use tokio::sync::mpsc;
use tonic::{
    Status,
    codec::{Codec, CompressionEncoding, DecodeBuf, Decoder, EncodeBuf, Encoder},
    transport::Channel,
};

pub(crate) const TRACES: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

/// A gateway with its folder and its time.
pub(crate) struct Fixture {
    pub(crate) handle: Handle,
    pub(crate) releases: mpsc::Receiver<Release>,
    pub(crate) folder: TempDir,
    pub(crate) now: Arc<AtomicU64>,
    config: Config,
}

fn reports_of(summary: &SpanSummary<'_>, _scope: &[u8], _span: &[u8]) -> Reports {
    match summary.name {
        "llm_request" => Reports::Request,
        _ => Reports::Itself,
    }
}

/// Both receivers on ports of their own.
pub(crate) fn config() -> Config {
    let mut config = Config::default();
    if let Some(grpc) = &mut config.otlp.protocols.grpc {
        grpc.endpoint = "127.0.0.1:0".to_owned();
    }
    if let Some(http) = &mut config.otlp.protocols.http {
        http.endpoint = "127.0.0.1:0".to_owned();
    }
    config
}

/// What a gateway in this folder is started with: everything is sampled, a second after the root.
pub(crate) fn start_of(config: Config, folder: &TempDir, now: &Arc<AtomicU64>) -> Start {
    let sampler = "{decision_wait: 10s, decision_wait_after_root_received: 1s, \
         policies: [{name: all, type: always_sample}]}";
    let now = Arc::clone(now);
    Start {
        config,
        log: wal::Config::in_directory(folder.path().join("wal")),
        folder: None,
        sampler: serde_saphyr::from_str(sampler).unwrap(),
        reports_of,
        committed_through: Some(0),
        scrapers: Vec::new(),
        pod_resources: Vec::new(),
        exporters: Vec::new(),
        clock: Clock::given(move || now.load(Ordering::SeqCst)),
        progress: Arc::default(),
    }
}

impl Fixture {
    pub(crate) async fn new(config: Config) -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        let now = Arc::new(AtomicU64::new(T0));
        Fixture::in_folder(config, folder, now).await
    }

    pub(crate) async fn in_folder(config: Config, folder: TempDir, now: Arc<AtomicU64>) -> Fixture {
        let start = start_of(config, &folder, &now);
        Box::pin(Fixture::of(start, folder, now)).await
    }

    pub(crate) async fn of(start: Start, folder: TempDir, now: Arc<AtomicU64>) -> Fixture {
        let config = start.config.clone();
        let starting = Box::pin(gateway::start(start));
        let (handle, releases) = starting.await.unwrap();
        Fixture {
            handle,
            releases,
            folder,
            now,
            config,
        }
    }

    /// Stops it and starts another one in the same folder.
    pub(crate) async fn restart(self) -> Fixture {
        self.handle.shutdown().await.unwrap();
        let Fixture {
            folder,
            now,
            config,
            releases,
            ..
        } = self;
        drop(releases);
        Fixture::in_folder(config, folder, now).await
    }

    pub(crate) fn advance(&self, seconds: u64) {
        self.now
            .fetch_add(seconds * 1_000_000_000, Ordering::SeqCst);
    }

    pub(crate) async fn next_release(&mut self) -> Release {
        let next = tokio::time::timeout(Duration::from_secs(60), self.releases.recv());
        next.await
            .expect("a release comes")
            .expect("the gateway runs")
    }

    pub(crate) fn http_addr(&self) -> SocketAddr {
        self.handle.http_addr.unwrap()
    }

    pub(crate) async fn post(
        &self,
        path: &str,
        content_type: &str,
        body: impl Into<Bytes>,
    ) -> Answer {
        self.send(
            Method::POST,
            path,
            &[("content-type", content_type)],
            body.into(),
        )
        .await
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> Answer {
        let uri = format!("http://{}{path}", self.http_addr());
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let client = Client::builder(TokioExecutor::new()).build_http();
        let response = client
            .request(request.body(Full::new(body)).unwrap())
            .await
            .unwrap();
        let (head, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Answer {
            status: head.status,
            headers: head.headers,
            body,
        }
    }

    pub(crate) async fn channel(&self) -> Channel {
        let addr = self.handle.grpc_addr.unwrap();
        Channel::from_shared(format!("http://{addr}"))
            .unwrap()
            .connect()
            .await
            .unwrap()
    }

    /// Exports over gRPC; the reply's bytes.
    pub(crate) async fn export(
        &self,
        path: &'static str,
        body: impl Into<Bytes>,
        compression: Option<CompressionEncoding>,
    ) -> Result<Bytes, Status> {
        export_over(self.channel().await, path, body, compression).await
    }
}

/// Exports over this channel; the reply's bytes.
pub(crate) async fn export_over(
    channel: Channel,
    path: &'static str,
    body: impl Into<Bytes>,
    compression: Option<CompressionEncoding>,
) -> Result<Bytes, Status> {
    export_with(channel, path, &HeaderMap::new(), body, compression).await
}

/// The same, with more headers.
pub(crate) async fn export_with(
    channel: Channel,
    path: &'static str,
    headers: &HeaderMap,
    body: impl Into<Bytes>,
    compression: Option<CompressionEncoding>,
) -> Result<Bytes, Status> {
    let mut client = tonic::client::Grpc::new(channel);
    if let Some(compression) = compression {
        client = client.send_compressed(compression);
    }
    let path = http::uri::PathAndQuery::from_static(path);
    let mut request = tonic::Request::new(body.into());
    request.metadata_mut().as_mut().extend(headers.clone());
    let no_answer = |error: tonic::transport::Error| Status::unavailable(error.to_string());
    client.ready().await.map_err(no_answer)?;
    let response = client.unary(request, path, RawCodec).await?;
    Ok(response.into_inner())
}

/// An HTTP answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }
}

/// Messages as bytes.
#[derive(Clone, Copy, Default)]
struct RawCodec;

impl Codec for RawCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = RawCodec;
    type Decoder = RawCodec;

    fn encoder(&mut self) -> RawCodec {
        RawCodec
    }

    fn decoder(&mut self) -> RawCodec {
        RawCodec
    }
}

impl Encoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, dst: &mut EncodeBuf<'_>) -> Result<(), Status> {
        dst.put(item);
        Ok(())
    }
}

impl Decoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, src: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(src.copy_to_bytes(src.remaining())))
    }
}

/// An export of one root span of the trace `tid(trace)`, with a string attribute of so many bytes.
pub(crate) fn trace_export(trace: u32, n_attribute_bytes: usize) -> Bytes {
    let export = otlp::testing::trace(trace).span("root", 1.ms());
    export
        .attribute("padding", "x".repeat(n_attribute_bytes))
        .build()
        .into()
}

/// The root span of [`trace_export`] again, and a second span.
pub(crate) fn longer_trace_export(trace: u32) -> Bytes {
    let export = otlp::testing::trace(trace).span("root", 1.ms());
    export.span("second", 1.ms()).build().into()
}

pub(crate) fn testdata(name: &str) -> Bytes {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("testdata")
        .join(name);
    std::fs::read(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        .into()
}

/// Asks until there is an answer; fails after a minute.
pub(crate) async fn eventually<T>(mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let asked = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), asked)
        .await
        .expect("it happens within a minute")
}
