//! Whole gateways in front of servers that fail as told.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use otlp::testing::{T0, TimeSpan, trace};
use tempfile::TempDir;
use tonic::Code;
use transport::Authenticators;

use super::{
    Destination, Exporter, Otlp,
    client::{Client, Protocol},
    config::{OtlpGrpc, OtlpHttp},
    retry::RetryOnFailure,
};
use crate::{
    Clock, Config, Handle, Start,
    testing::{Backend, BackendAnswer as Answer},
};

fn no_requests(_: &otlp::span::SpanSummary<'_>, _: &[u8], _: &[u8]) -> sampler::Reports {
    sampler::Reports::Itself
}

/// Retries at once, for ever.
pub(super) const AT_ONCE: RetryOnFailure = RetryOnFailure {
    enabled: true,
    initial_interval: Duration::from_millis(20),
    randomization_factor: 0.0,
    multiplier: 1.0,
    max_interval: Duration::from_millis(20),
    max_elapsed_time: Duration::ZERO,
};

fn client(backend: &Backend, protocol: Protocol) -> Client {
    let endpoint = format!("http://{}", backend.addr());
    let timeout = Duration::from_millis(500);
    match protocol {
        Protocol::Grpc => OtlpGrpc {
            endpoint,
            timeout,
            ..OtlpGrpc::default()
        }
        .client(&Authenticators::default()),
        Protocol::Http => OtlpHttp {
            endpoint,
            timeout,
            ..OtlpHttp::default()
        }
        .client(&Authenticators::default()),
    }
    .unwrap()
}

fn exporter(id: &str, backend: &Backend, retry: RetryOnFailure) -> Exporter {
    let protocol = if id.starts_with("otlp_http") {
        Protocol::Http
    } else {
        Protocol::Grpc
    };
    Exporter {
        id: id.to_owned(),
        destination: Destination::Otlp(Box::new(Otlp::new(client(backend, protocol), retry))),
        request_max: (1 << 20, 10),
        n_requests_max: 1,
        rewrite: None,
    }
}

/// A gateway without tables that keeps everything, a second after the root.
pub(super) struct Gateway {
    pub(super) handle: Handle,
    now: Arc<AtomicU64>,
}

impl Gateway {
    pub(super) async fn start(folder: &Path, exporters: Vec<Exporter>) -> Gateway {
        let sampler = "{decision_wait: 10s, decision_wait_after_root_received: 1s, \
             policies: [{name: all, type: always_sample}]}";
        let now = Arc::new(AtomicU64::new(T0));
        let mut config = Config::default();
        if let Some(grpc) = &mut config.otlp.protocols.grpc {
            grpc.endpoint = "127.0.0.1:0".to_owned();
        }
        if let Some(http) = &mut config.otlp.protocols.http {
            http.endpoint = "127.0.0.1:0".to_owned();
        }
        let start = Start {
            config,
            log: wal::Config {
                segment_bytes: 1 << 16,
                ..wal::Config::in_directory(folder)
            },
            folder: None,
            sampler: serde_saphyr::from_str(sampler).unwrap(),
            reports_of: no_requests,
            committed_through: None,
            scrapers: Vec::new(),
            pod_resources: Vec::new(),
            exporters,
            clock: Clock::given({
                let now = Arc::clone(&now);
                move || now.load(Ordering::SeqCst)
            }),
            progress: Arc::default(),
        };
        let (handle, releases) = crate::start(start).await.unwrap();
        drop(releases);
        Gateway { handle, now }
    }

    /// Sends traces of two spans, and lets the time pass in which they are decided.
    async fn send(&self, traces: std::ops::Range<u32>) {
        let export = |n| trace(n).span("root", 5.ms()).root().span("child", 1.ms());
        self.send_all(traces.map(|n| export(n).build())).await;
    }

    /// Sends exports, and lets the time pass in which whole traces are decided.
    pub(super) async fn send_all(&self, exports: impl Iterator<Item = Vec<u8>>) {
        let endpoint = format!("http://{}", self.handle.http_addr.unwrap());
        let http = OtlpHttp {
            endpoint,
            ..OtlpHttp::default()
        };
        let client = http.client(&Authenticators::default()).unwrap();
        for export in exports {
            client.send(Bytes::from(export)).await.unwrap();
        }
        self.pass(2);
    }

    pub(super) fn pass(&self, seconds: u64) {
        self.now
            .fetch_add(seconds * 1_000_000_000, Ordering::SeqCst);
    }

    fn metric(&self, line: &str) -> u64 {
        let text = self.handle.metrics.render_prometheus();
        let value = text
            .lines()
            .find_map(|found| found.strip_prefix(line)?.trim().parse().ok());
        value.unwrap_or_else(|| panic!("no `{line}` in {text}"))
    }

    async fn until(&self, what: &str, is_so: impl Fn(&Gateway) -> bool) {
        eventually(what, || is_so(self)).await;
    }
}

pub(super) async fn eventually(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..6000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("not within a minute: {what}");
}

fn once_each(backend: &Backend, n_spans: usize) {
    let spans: BTreeMap<_, _> = backend.spans();
    assert_eq!(spans.len(), n_spans);
    assert!(spans.values().all(|n_times| *n_times == 1), "{spans:?}");
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn while_a_server_is_down_the_others_get_theirs_and_it_gets_all_afterwards() {
    let folder = folder();
    let (steady, shaky) = (
        Backend::start().await.unwrap(),
        Backend::start().await.unwrap(),
    );
    let exporters = || {
        vec![
            exporter("otlp", &steady, AT_ONCE),
            exporter("otlp_http/shaky", &shaky, AT_ONCE),
        ]
    };
    let gateway = Gateway::start(folder.path(), exporters()).await;
    gateway.send(0..20).await;
    eventually("both have the first", || {
        shaky.spans().len() == 40 && steady.spans().len() == 40
    })
    .await;

    shaky.down();
    gateway.send(20..60).await;
    eventually("the other has all", || steady.spans().len() == 120).await;
    gateway
        .until("what waits is told", |gateway| {
            gateway.metric("exporter_queue_spans{exporter=\"otlp_http/shaky\"}") == 80
                && gateway.metric("exporter_queue_spans{exporter=\"otlp\"}") == 0
        })
        .await;
    // A restart in between changes nothing.
    gateway.handle.shutdown().await.unwrap();
    let gateway = Gateway::start(folder.path(), exporters()).await;
    gateway.send(60..70).await;
    eventually("the other has all", || steady.spans().len() == 140).await;

    shaky.up().await.unwrap();
    eventually("nothing waits", || shaky.spans().len() == 140).await;
    once_each(&steady, 140);
    once_each(&shaky, 140);
    gateway
        .until("the log knows", |gateway| {
            gateway.metric("gateway_committed_sequence")
                == gateway.metric("gateway_release_sequence")
                && gateway.metric("exporter_queue_releases{exporter=\"otlp_http/shaky\"}") == 0
        })
        .await;
    assert!(gateway.handle.metrics.conservation().is_conserved());
    gateway.handle.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_refuses_for_good_is_counted_and_the_rest_goes_on() {
    let folder = folder();
    let backend = Backend::start().await.unwrap();
    backend.script([
        Answer::Refuse(Code::InvalidArgument, 400, None),
        Answer::Refuse(Code::Unavailable, 503, None),
        Answer::Partial(3),
        Answer::Hang,
    ]);
    let gateway = Gateway::start(folder.path(), vec![exporter("otlp", &backend, AT_ONCE)]).await;
    gateway.send(0..20).await;
    gateway
        .until("all is sent or lost", |gateway| {
            gateway.metric("otelcol_exporter_sent_spans{exporter=\"otlp\"}") == 27
        })
        .await;
    let lost = |reason: &str| {
        let labels = format!("{{exporter=\"otlp\",reason=\"{reason}\"}}");
        gateway.metric(&format!("exporter_spans_lost_total{labels}"))
    };
    assert_eq!(
        (lost("refused"), lost("rejected"), lost("gave_up")),
        (10, 3, 0)
    );
    assert_eq!(
        gateway.metric("otelcol_exporter_send_failed_spans{exporter=\"otlp\"}"),
        13
    );
    assert_eq!(
        gateway.metric("exporter_spans_retried_total{exporter=\"otlp\"}"),
        20
    );
    assert_eq!(
        gateway.metric("exporter_requests_failed_total{exporter=\"otlp\"}"),
        3
    );
    gateway.handle.shutdown().await.unwrap();
    once_each(&backend, 30);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_never_answers_is_given_up_where_that_is_configured() {
    let folder = folder();
    let backend = Backend::start().await.unwrap();
    backend.script(vec![Answer::Refuse(Code::Unavailable, 503, None); 4]);
    let limited = RetryOnFailure {
        max_elapsed_time: Duration::from_millis(1),
        ..AT_ONCE
    };
    let gateway = Gateway::start(
        folder.path(),
        vec![exporter("otlp_http", &backend, limited)],
    )
    .await;
    gateway.send(0..20).await;
    const GAVE_UP: &str = "exporter_spans_lost_total{exporter=\"otlp_http\",reason=\"gave_up\"}";
    gateway
        .until("all of it", |gateway| gateway.metric(GAVE_UP) == 40)
        .await;
    gateway.handle.shutdown().await.unwrap();
    assert_eq!(backend.spans().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_lost_costs_one_request_twice() {
    let folder = folder();
    let backend = Backend::start().await.unwrap();
    backend.script([Answer::Accept, Answer::AcceptAndBreak]);
    let gateway = Gateway::start(folder.path(), vec![exporter("otlp", &backend, AT_ONCE)]).await;
    gateway.send(0..20).await;
    eventually("all is there", || backend.spans().len() == 40).await;
    gateway.handle.shutdown().await.unwrap();
    let twice = backend
        .spans()
        .into_values()
        .filter(|n_times| *n_times == 2);
    assert_eq!(twice.count(), 10, "the spans of one request");
}

#[tokio::test(flavor = "multi_thread")]
async fn several_requests_at_once_end_in_order() {
    let folder = folder();
    let backend = Backend::start().await.unwrap();
    backend.script(vec![Answer::Refuse(Code::Unavailable, 503, None); 3]);
    let several = Exporter {
        n_requests_max: 4,
        ..exporter("otlp", &backend, AT_ONCE)
    };
    let gateway = Gateway::start(folder.path(), vec![several]).await;
    gateway.send(0..50).await;
    eventually("all is there", || backend.spans().len() == 100).await;
    gateway.handle.shutdown().await.unwrap();
    once_each(&backend, 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_passes_through_the_redaction() {
    let folder = folder();
    let backend = Backend::start().await.unwrap();
    let redacted = Exporter {
        rewrite: Some(Arc::new(|body: &[u8]| {
            let mut body = body.to_vec();
            while let Some(at) = body.windows(4).position(|bytes| bytes == b"root") {
                body[at..at + 4].copy_from_slice(b"xxxx");
            }
            body
        })),
        ..exporter("otlp", &backend, AT_ONCE)
    };
    let gateway = Gateway::start(folder.path(), vec![redacted]).await;
    gateway.send(0..1).await;
    eventually("it is there", || backend.spans().len() == 2).await;
    gateway.handle.shutdown().await.unwrap();
    let body = &backend.received()[0].body;
    assert!(body.windows(4).all(|bytes| bytes != b"root"));
}
