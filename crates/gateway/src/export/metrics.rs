//! What an exporter has done.
//!
//! Conservation, for each exporter since the start: spans of the releases that it has passed =
//! `otelcol_exporter_sent_spans` + `otelcol_exporter_send_failed_spans`; what it has not passed is
//! `exporter_queue_spans`.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use super::queue::{Backlog, Queue};
use crate::metrics::{Text, add, load};

/// Why a kept span did not reach a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossReason {
    /// The server refused the request in a way that another attempt would not change.
    Refused,
    /// The server took the request but for this span.
    Rejected,
    /// Attempts ended by `retry_on_failure`.
    GaveUp,
}

impl LossReason {
    const ALL: [LossReason; 3] = [
        LossReason::Refused,
        LossReason::Rejected,
        LossReason::GaveUp,
    ];

    /// As on the metrics page.
    pub fn as_str(self) -> &'static str {
        match self {
            LossReason::Refused => "refused",
            LossReason::Rejected => "rejected",
            LossReason::GaveUp => "gave_up",
        }
    }
}

/// Counters of one exporter.
#[derive(Debug, Default)]
pub struct Metrics {
    id: String,
    sent_spans: AtomicU64,
    lost_spans: [AtomicU64; LossReason::ALL.len()],
    retried_spans: AtomicU64,
    requests: AtomicU64,
    failed_requests: AtomicU64,
}

impl Metrics {
    /// Of the exporter with this id.
    pub fn new(id: &str) -> Metrics {
        Metrics {
            id: id.to_owned(),
            ..Metrics::default()
        }
    }

    /// The exporter's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// A request was taken, with so many spans.
    pub fn count_sent(&self, n_spans: u64) {
        add(&self.sent_spans, n_spans);
        add(&self.requests, 1);
    }

    /// Spans are lost for this exporter.
    pub fn count_lost(&self, reason: LossReason, n_spans: u64) {
        if let Some(lost) = self.lost_spans.get(reason as usize) {
            add(lost, n_spans);
        }
    }

    /// An attempt failed.
    pub fn count_failed_request(&self) {
        add(&self.failed_requests, 1);
    }

    /// Spans are sent again.
    pub fn count_retried(&self, n_spans: u64) {
        add(&self.retried_spans, n_spans);
    }

    /// Spans that were taken.
    pub fn n_sent(&self) -> u64 {
        load(&self.sent_spans)
    }

    /// Spans that are lost for this exporter.
    pub fn n_lost(&self) -> u64 {
        let lost = self
            .lost_spans
            .iter()
            .map(|lost| lost.load(Ordering::Relaxed));
        lost.fold(0, u64::saturating_add)
    }
}

/// All exporters of a process, for the metrics page.
#[derive(Debug, Default)]
pub(crate) struct Exporting(Mutex<Vec<Exporter>>);

#[derive(Debug)]
struct Exporter {
    metrics: Arc<Metrics>,
    queue: Arc<Queue>,
}

impl Exporting {
    /// Adds the next exporter of the queue.
    pub(crate) fn add(&self, queue: &Arc<Queue>, id: &str) -> Arc<Metrics> {
        let metrics = Arc::new(Metrics::new(id));
        self.exporters().push(Exporter {
            metrics: Arc::clone(&metrics),
            queue: Arc::clone(queue),
        });
        metrics
    }

    fn exporters(&self) -> MutexGuard<'_, Vec<Exporter>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Name, help, value.
type Counter = (&'static str, &'static str, fn(&Metrics) -> u64);

const COUNTERS: [Counter; 6] = [
    (
        "otelcol_exporter_sent_spans",
        "Spans that the server has taken.",
        Metrics::n_sent,
    ),
    (
        "otelcol_exporter_send_failed_spans",
        "Spans that are lost for this exporter; exporter_spans_lost_total has the reasons.",
        Metrics::n_lost,
    ),
    (
        "otelcol_exporter_enqueue_failed_spans",
        "Always 0: the queue is the log, and what is not in it was refused to its sender.",
        |_| 0,
    ),
    (
        "exporter_spans_retried_total",
        "Spans times further attempts to send them.",
        |metrics| load(&metrics.retried_spans),
    ),
    (
        "exporter_requests_sent_total",
        "Requests that the server has taken.",
        |metrics| load(&metrics.requests),
    ),
    (
        "exporter_requests_failed_total",
        "Attempts that failed.",
        |metrics| load(&metrics.failed_requests),
    ),
];

/// Name, help, value.
type Gauge = (&'static str, &'static str, fn(&Backlog) -> u64);

const GAUGES: [Gauge; 3] = [
    (
        "exporter_queue_releases",
        "Releases in the log that are not sent to their end.",
        |backlog| backlog.n_releases,
    ),
    (
        "exporter_queue_spans",
        "Kept spans in these releases.",
        |backlog| backlog.n_spans,
    ),
    (
        "exporter_queue_bytes",
        "Bytes of the kept traces' spans in these releases, without resource and scope.",
        |backlog| backlog.n_bytes,
    ),
];

impl Exporting {
    pub(crate) fn render(&self, text: &mut Text) {
        let exporters = self.exporters();
        if exporters.is_empty() {
            return;
        }
        let all = || exporters.iter().map(|exporter| &*exporter.metrics);
        for (name, help, value) in COUNTERS {
            text.counter(name, help);
            for metrics in all() {
                text.sample(name, &[("exporter", metrics.id())], value(metrics));
            }
        }
        const LOST: &str = "exporter_spans_lost_total";
        text.counter(LOST, "Spans that are lost for this exporter.");
        for metrics in all() {
            for (reason, lost) in LossReason::ALL.iter().zip(&metrics.lost_spans) {
                let labels = [("exporter", metrics.id()), ("reason", reason.as_str())];
                text.sample(LOST, &labels, load(lost));
            }
        }
        let backlogs = exporters.iter().enumerate();
        let backlogs: Vec<Backlog> = backlogs
            .map(|(idx, exporter)| exporter.queue.backlog(idx))
            .collect();
        for (name, help, value) in GAUGES {
            text.gauges(name, help);
            for (metrics, backlog) in all().zip(&backlogs) {
                text.sample(name, &[("exporter", metrics.id())], value(backlog));
            }
        }
    }
}
