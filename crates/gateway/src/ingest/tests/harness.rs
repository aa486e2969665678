//! A core on a simulated disk: exports in, releases out.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use otlp::{
    export::{Limits, Signal, SpanAt},
    prometheus,
    reframe::Reframer,
    span::SpanSummary,
    testing::{self, TimeSpan},
};
use sampler::Sampler;
use tokio::sync::oneshot;
use wal::{Wal, sim::SimDisk};

use crate::{
    admission::{Budget, Gate},
    config::{Shutdown, SyncPolicy},
    export::Queue,
    ingest::{Effect, Ingest, Input, Request, Settings},
    metrics::{Conservation, Metrics},
    progress::Progress,
    record::{Content, SpanWindow},
    release::{Release, Releaser},
    status::Refusal,
};

use super::reported;

pub(super) use otlp::testing::T0;

pub(super) const SECOND: u64 = 1_000_000_000;

/// Errors are sampled; a trace is decided a second after its root or ten after its first span.
pub(super) const ERRORS: &str = "{decision_wait: 10s, decision_wait_after_root_received: 1s, \
     policies: [{name: errors, type: status_code, status_code: {status_codes: [ERROR]}}]}";

/// Everything is sampled, at the same times.
pub(super) const ALL: &str = "{decision_wait: 10s, decision_wait_after_root_received: 1s, \
     policies: [{name: all, type: always_sample}]}";

/// The span `sid(id)` of the trace `tid(trace)`.
#[derive(Clone, Debug)]
pub(super) struct TestSpan {
    pub(super) trace: u8,
    pub(super) id: u8,
    parent: Option<u8>,
    is_error: bool,
    name: &'static str,
    trace_state: &'static str,
}

pub(super) fn root(trace: u8, id: u8) -> TestSpan {
    TestSpan {
        trace,
        id,
        parent: None,
        is_error: false,
        name: "root",
        trace_state: "",
    }
}

pub(super) fn child(trace: u8, id: u8, parent: u8) -> TestSpan {
    TestSpan {
        trace,
        id,
        parent: Some(parent),
        is_error: false,
        name: "child",
        trace_state: "",
    }
}

/// A span that `is_request` of the harness recognises.
pub(super) fn request(trace: u8, id: u8, parent: u8) -> TestSpan {
    TestSpan {
        name: "llm_request",
        ..child(trace, id, parent)
    }
}

impl TestSpan {
    pub(super) fn error(self) -> TestSpan {
        TestSpan {
            is_error: true,
            ..self
        }
    }

    pub(super) fn trace_state(self, trace_state: &'static str) -> TestSpan {
        TestSpan {
            trace_state,
            ..self
        }
    }
}

pub(super) const RESOURCE_SCHEMA_URL: &str = "https://example.org/resource";
pub(super) const SCOPE_SCHEMA_URL: &str = "https://example.org/scope";

/// An export request of these spans, from the service `vllm` and the scope `test`.
pub(super) fn export(spans: &[TestSpan]) -> Bytes {
    let mut export = testing::trace(1).service("vllm").scope("test", "1");
    for span in spans {
        export = export
            .trace(span.trace.into())
            .span(span.name, 5.ms())
            .trace_state(span.trace_state)
            .id(span.id.into());
        export = match span.parent {
            Some(parent) => export.parent(parent.into()),
            None => export.root(),
        };
        if span.is_error {
            export = export.error();
        }
    }
    let mut reframer = Reframer::new();
    for at in otlp::export::spans(&export.build(), &Limits::default()) {
        reframer.push(&SpanAt {
            resource_schema_url: RESOURCE_SCHEMA_URL,
            scope_schema_url: SCOPE_SCHEMA_URL,
            ..at.unwrap()
        });
    }
    reframer.finish().into()
}

/// An export request of the metric `n` with one point.
fn metric(n: u8) -> Bytes {
    let scrape = prometheus::Scrape {
        resource: &[],
        scope: "test",
        time_unix_nano: T0,
    };
    let text = format!("m{n} 1\n");
    let limits = prometheus::Limits::default();
    prometheus::to_protobuf(text.as_bytes(), prometheus::Format::Text, &scrape, &limits)
        .body
        .into()
}

/// The numbers of the metrics that a release carries.
pub(super) fn metrics_of(release: &Release) -> Vec<u8> {
    let numbers = release.metrics.iter().map(|record| {
        let metric = otlp::metrics::metrics(record.body()).next();
        let name = metric.expect("a metric").expect("readable").name;
        let number = name.strip_prefix('m').and_then(|n| n.parse().ok());
        number.expect("`m` and a number")
    });
    numbers.collect()
}

/// `n` of `tid(n)` or `sid(n)`.
pub(super) fn number_of(id: &[u8]) -> u8 {
    id[3]
}

fn is_request(summary: &SpanSummary<'_>, _scope: &[u8], _span: &[u8]) -> bool {
    summary.name == "llm_request"
}

/// How the core of a [`Sim`] is set up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    pub(super) policies: &'static str,
    pub(super) segment_bytes: u64,
    pub(super) sync: SyncPolicy,
    pub(super) shutdown: Shutdown,
    pub(super) log_bytes_max: u64,
    pub(super) pending_heap_bytes_max: u64,
    pub(super) is_exporting: bool,
    pub(super) release_backlog_spans_max: u64,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            policies: ERRORS,
            segment_bytes: 64 << 20,
            sync: SyncPolicy::Interval(Duration::from_secs(1)),
            shutdown: Shutdown::Keep,
            log_bytes_max: u64::MAX,
            pending_heap_bytes_max: u64::MAX,
            is_exporting: false,
            release_backlog_spans_max: u64::MAX,
        }
    }
}

/// A core and what came out of it.
pub(super) struct Sim {
    pub(super) disk: SimDisk,
    pub(super) ingest: Ingest<SimDisk>,
    pub(super) now: u64,
    pub(super) releases: Vec<Release>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) gate: Arc<Gate>,
    queue: Arc<Queue>,
    releaser: Releaser<SimDisk>,
    budget: Budget,
}

impl Sim {
    pub(super) fn new(setup: Setup) -> Sim {
        Sim::open(setup, SimDisk::new(1), 0, T0).expect("an empty disk opens")
    }

    /// Opens what is on the disk, as a new process does.
    pub(super) fn open(
        setup: Setup,
        disk: SimDisk,
        committed_through: i64,
        now: u64,
    ) -> crate::Result<Sim> {
        let queue = Arc::new(Queue::new(Vec::new()));
        Sim::open_with(setup, disk, Some(committed_through), now, queue)
    }

    /// The same with exporters, who find releases in the queue.
    pub(super) fn open_with(
        setup: Setup,
        disk: SimDisk,
        committed_through: Option<i64>,
        now: u64,
        queue: Arc<Queue>,
    ) -> crate::Result<Sim> {
        let config = wal::Config {
            segment_bytes: setup.segment_bytes,
            ..wal::Config::in_directory("log")
        };
        let (wal, _) = Wal::open(config, disk.clone()).map_err(|source| crate::Error::Log {
            operation: "open",
            source,
        })?;
        let config: sampler::Config = serde_saphyr::from_str(setup.policies).unwrap();
        let settings = Settings {
            window: SpanWindow {
                age_max: Duration::from_secs(3600),
                ahead_max: Duration::from_secs(3600),
            },
            sync: setup.sync,
            log_bytes_max: setup.log_bytes_max,
            pending_heap_bytes_max: setup.pending_heap_bytes_max,
            release_backlog_spans_max: setup.release_backlog_spans_max,
            shutdown: setup.shutdown,
            is_request,
            is_exporting: setup.is_exporting,
            is_storing: committed_through.is_some(),
        };
        let (metrics, gate) = (Arc::new(Metrics::default()), Arc::new(Gate::default()));
        let sampler = Sampler::new(&config).unwrap();
        let ingest = Ingest::new(
            wal,
            sampler,
            settings,
            Arc::clone(&metrics),
            Arc::clone(&gate),
        );
        let releaser = Releaser {
            reader: ingest.reader(),
        };
        let budget = Budget::new(1 << 30);
        let mut sim = Sim {
            disk,
            ingest,
            now,
            releases: Vec::new(),
            metrics,
            gate,
            queue,
            releaser,
            budget,
        };
        let mut effects = Vec::new();
        let progress = Progress::default();
        sim.ingest
            .recover(committed_through, &progress, &mut |effect| {
                effects.push(effect);
            })?;
        assert!(progress.percent() > 0 || sim.ingest.reader().flushed_position().offset() <= 40);
        sim.perform(effects);
        Ok(sim)
    }

    /// The same process killed and started again.
    pub(super) fn reopen(self, setup: Setup, committed_through: i64) -> Sim {
        let (disk, now) = (self.disk.after_kill(), self.now);
        drop(self);
        Sim::open(setup, disk, committed_through, now).expect("what a kill leaves opens")
    }

    /// Sends an export of so many spans and settles; what the sender is told.
    pub(super) fn send_export(&mut self, body: Vec<u8>, n_spans: u64) -> Result<(), Refusal> {
        let mut reply = self.request(Signal::Traces, body.into(), n_spans);
        self.settle();
        reply.try_recv().expect("a settled export is answered")
    }

    /// Sends an export and settles; what the sender is told.
    pub(super) fn send(&mut self, spans: &[TestSpan]) -> Result<(), Refusal> {
        self.send_body(export(spans), spans.len() as u64)
    }

    /// The same with an export that was built elsewhere.
    pub(super) fn send_body(&mut self, body: Bytes, n_spans: u64) -> Result<(), Refusal> {
        let mut reply = self.request(Signal::Traces, body, n_spans);
        self.settle();
        reply.try_recv().expect("a settled export is answered")
    }

    /// Sends the metric `n`, one point, and settles; what the sender is told.
    pub(super) fn send_metric(&mut self, n: u8) -> Result<(), Refusal> {
        let mut reply = self.request(Signal::Metrics, metric(n), 1);
        self.settle();
        reply.try_recv().expect("a settled export is answered")
    }

    /// Sends an export that waits for its group.
    pub(super) fn queue(&mut self, spans: &[TestSpan]) -> oneshot::Receiver<Result<(), Refusal>> {
        self.request(Signal::Traces, export(spans), spans.len() as u64)
    }

    /// Fills the log with so many bytes that hold nothing: the core does not read logs.
    pub(super) fn fill(&mut self, n_bytes: usize) {
        drop(self.request(Signal::Logs, vec![0; n_bytes].into(), 1));
        self.settle();
    }

    /// Sends the report `n`, and settles; what the sender is told.
    pub(super) fn send_report(&mut self, n: u8) -> Result<(), Refusal> {
        let (kind, body) = reported::report(n);
        let mut reply = self.request(Content::Report(kind), body, 1);
        self.settle();
        reply.try_recv().expect("a settled report is answered")
    }

    fn request(
        &mut self,
        content: impl Into<Content>,
        body: Bytes,
        n_items: u64,
    ) -> oneshot::Receiver<Result<(), Refusal>> {
        let (reply, replied) = oneshot::channel();
        let request = Request {
            content: content.into(),
            received_unix_nano: self.now,
            body,
            n_items,
            permit: self.budget.permit(),
            reply,
        };
        self.apply(Input::Request(request));
        replied
    }

    pub(super) fn settle(&mut self) {
        let mut effects = Vec::new();
        self.ingest.settle(&mut |effect| effects.push(effect));
        self.perform(effects);
    }

    /// Lets time pass, then ticks.
    pub(super) fn tick_after(&mut self, seconds: u64) {
        self.now += seconds * SECOND;
        self.apply(Input::Tick);
    }

    pub(super) fn apply(&mut self, input: Input) {
        let mut effects = Vec::new();
        self.ingest
            .apply(input, self.now, &mut |effect| effects.push(effect));
        self.perform(effects);
    }

    /// A reader of the log, as each exporter has one.
    pub(super) fn releaser(&self) -> Releaser<SimDisk> {
        Releaser {
            reader: self.ingest.reader(),
        }
    }

    pub(super) fn conservation(&self) -> Conservation {
        let conservation = self.metrics.conservation();
        assert!(conservation.is_conserved(), "{conservation:#?}");
        let points = self.metrics.points();
        assert!(points.is_conserved(), "{points:#?}");
        let entries = self.metrics.report_entries();
        assert!(entries.is_conserved(), "{entries:#?}");
        conservation
    }

    fn perform(&mut self, effects: Vec<Effect<SimDisk>>) {
        for effect in effects {
            match effect {
                Effect::Reply(reply, outcome) => {
                    reply.send(outcome).ok();
                }
                Effect::Release(plan) => {
                    self.queue.push(plan.sequence, plan.kept);
                    // A stopped disk cannot be read; the release is repeated by the next process.
                    if let Ok(release) = self.releaser.release(plan) {
                        self.releases.push(release);
                    }
                }
                Effect::Sync(handle) => {
                    let synced = handle.sync();
                    self.apply(Input::Synced(synced));
                }
                Effect::Reloaded(reply, reloaded) => {
                    reply.send(reloaded).ok();
                }
                Effect::Stopped => {}
            }
        }
    }
}

/// Releases as text: what must be the same whenever they are repeated.
pub(super) fn print(releases: &[Release]) -> String {
    use std::fmt::Write;
    let mut text = String::new();
    for release in releases {
        writeln!(text, "release {}", release.sequence).unwrap();
        for trace in &release.decided {
            writeln!(
                text,
                "  trace {:02x} {} policy={} trigger={} count={:?} spans={} bytes={} orphans={} services={:?}",
                number_of(trace.trace_id.as_bytes()),
                trace.decision.as_str(),
                trace.policy.as_deref().unwrap_or("-"),
                trace.trigger.as_str(),
                trace.adjusted_count,
                trace.summary.n_spans,
                trace.summary.n_bytes,
                trace.summary.n_orphans,
                trace.services,
            )
            .unwrap();
            for span in &trace.spans {
                writeln!(text, "    {}", print_span(span)).unwrap();
            }
        }
        if !release.reports.is_empty() {
            writeln!(text, "  reports {:?}", reported::reports_of(release)).unwrap();
        }
        if !release.metrics.is_empty() {
            writeln!(text, "  metrics {:?}", metrics_of(release)).unwrap();
        }
        for late in &release.late {
            writeln!(
                text,
                "  late of {:02x} {}: {}",
                number_of(late.trace_id.as_bytes()),
                late.decision.as_str(),
                print_span(&late.span)
            )
            .unwrap();
        }
    }
    text
}

fn print_span(span: &crate::release::ReleasedSpan) -> String {
    let at = span.at();
    let summary = SpanSummary::read(at.span).unwrap();
    let marks = [(span.is_root, " root"), (span.is_request, " request")];
    let marks: String = marks
        .iter()
        .filter(|(is, _)| *is)
        .map(|(_, mark)| *mark)
        .collect();
    format!(
        "{:02x} {}{marks}",
        number_of(summary.span_id.as_bytes()),
        summary.name
    )
}
