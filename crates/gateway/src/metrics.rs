//! Counters and gauges of the gateway and of the sampler that it drives.
//!
//! Conservation: for traces, spans and bytes,
//! `received + recovered = sampled + not sampled + dropped + late + duplicate + pending`, where late spans and
//! copies belong to no new trace. [`Metrics::conservation`] gives the terms; it is exact while the ingest thread is idle, and
//! off by at most the inputs at work otherwise. What was refused or rejected is outside of it: its sender
//! was told. Of metric points and of entries of reports,
//! `received + recovered = released + pending + lost for want of a consumer`.

mod collector;
mod lane;
mod render;
mod text;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use otlp::export::{Checked, Signal};
use sampler::{Decided, Decision, LinkCounts, PolicyCounts, Sampler, Stats};
use tonic::Code;
use transport::HandshakeFailures;

use crate::{
    export::Exporting,
    record::Content,
    scrape::Scraping,
    status::{Refusal, RefusedReason},
};

pub use self::lane::Points;
pub(crate) use self::{lane::Lane, text::Text};

use self::lane::Reporting;

/// How an export came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Grpc,
    Http,
}

impl Transport {
    const ALL: [Transport; 2] = [Transport::Grpc, Transport::Http];

    fn as_str(self) -> &'static str {
        match self {
            Transport::Grpc => "grpc",
            Transport::Http => "http",
        }
    }
}

/// Why accepted data is not in any table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LossReason {
    /// No stage reads this signal: logs, and metrics where there are no tables. The export is in the log until its segment is deleted.
    NoConsumer,
    /// A checked export could not be indexed to its end: an error of this program.
    Unreadable,
}

impl LossReason {
    const ALL: [LossReason; 2] = [LossReason::NoConsumer, LossReason::Unreadable];

    fn as_str(self) -> &'static str {
        match self {
            LossReason::NoConsumer => "no_consumer",
            LossReason::Unreadable => "unreadable",
        }
    }
}

const SIGNALS: [Signal; 3] = [Signal::Traces, Signal::Metrics, Signal::Logs];
const DECISIONS: [Decision; 3] = [Decision::Sampled, Decision::NotSampled, Decision::Dropped];
const N_CODES: usize = 17;

/// Traces, spans and bytes of span messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Traces.
    pub n_traces: u64,
    /// Spans.
    pub n_spans: u64,
    /// Bytes of the span messages, without their resource and scope.
    pub n_bytes: u64,
}

/// Where the spans that came in are now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conservation {
    /// Accepted from the network since the start.
    pub received: Amount,
    /// Undecided or late spans found in the log at the start.
    pub recovered: Amount,
    /// In traces decided `sampled`.
    pub sampled: Amount,
    /// In traces decided `not_sampled`.
    pub not_sampled: Amount,
    /// In traces decided `dropped`.
    pub dropped: Amount,
    /// Came after the decision on their trace, which they follow.
    pub late: Amount,
    /// Came more than once: copies of spans that stand elsewhere here.
    pub duplicate: Amount,
    /// Undecided.
    pub pending: Amount,
}

impl Conservation {
    /// Does everything that came in stand in exactly one place?
    pub fn is_conserved(&self) -> bool {
        let sum = |field: fn(&Amount) -> u64, amounts: &[&Amount]| {
            amounts
                .iter()
                .fold(0_u64, |sum, amount| sum.saturating_add(field(amount)))
        };
        let fields: [fn(&Amount) -> u64; 3] = [
            |amount| amount.n_traces,
            |amount| amount.n_spans,
            |amount| amount.n_bytes,
        ];
        fields.into_iter().all(|field| {
            let came = sum(field, &[&self.received, &self.recovered]);
            let decided = [&self.sampled, &self.not_sampled, &self.dropped];
            let rest = [&self.late, &self.duplicate, &self.pending];
            let is = sum(field, &decided).saturating_add(sum(field, &rest));
            came == is
        })
    }
}

/// An [`Amount`] that grows (or, for pending, is set).
#[derive(Debug, Default)]
pub(crate) struct AmountCell {
    n_traces: AtomicU64,
    n_spans: AtomicU64,
    n_bytes: AtomicU64,
}

impl AmountCell {
    fn add(&self, amount: Amount) {
        self.n_traces.fetch_add(amount.n_traces, Ordering::Relaxed);
        self.n_spans.fetch_add(amount.n_spans, Ordering::Relaxed);
        self.n_bytes.fetch_add(amount.n_bytes, Ordering::Relaxed);
    }

    fn set(&self, amount: Amount) {
        self.n_traces.store(amount.n_traces, Ordering::Relaxed);
        self.n_spans.store(amount.n_spans, Ordering::Relaxed);
        self.n_bytes.store(amount.n_bytes, Ordering::Relaxed);
    }

    fn amount(&self) -> Amount {
        Amount {
            n_traces: self.n_traces.load(Ordering::Relaxed),
            n_spans: self.n_spans.load(Ordering::Relaxed),
            n_bytes: self.n_bytes.load(Ordering::Relaxed),
        }
    }
}

/// Why a link to a kept trace may not have kept a trace, and its part of the sampler's counts.
type LinkMissed = (&'static str, fn(&LinkCounts) -> u64);

const LINKS_MISSED: [LinkMissed; 3] = [
    ("unresolved", |counts| counts.n_unresolved),
    ("late", |counts| counts.n_late),
    ("over_limit", |counts| counts.n_over_limit),
];

/// Decided traces by decision, policy and trigger.
type DecidedKey = (&'static str, Option<Arc<str>>, &'static str);

/// All counters; shared by every thread, written without locks except once per release.
#[derive(Debug, Default)]
pub struct Metrics {
    exports: [[[AtomicU64; N_CODES]; 3]; 2],
    exports_refused: [AtomicU64; RefusedReason::ALL.len()],
    items_received: [AtomicU64; 3],
    items_rejected: [AtomicU64; 3],
    items_refused: [[AtomicU64; RefusedReason::ALL.len()]; 3],
    items_lost: [[AtomicU64; LossReason::ALL.len()]; 3],
    body_bytes: AtomicU64,
    received: AmountCell,
    recovered: AmountCell,
    decided: [AmountCell; 3],
    late: [AmountCell; 3],
    duplicate: AmountCell,
    pending: AmountCell,
    decided_traces: Mutex<BTreeMap<DecidedKey, u64>>,
    /// Names of the policies and what they have said, in file order.
    policies: Mutex<Vec<(Box<str>, PolicyCounts)>>,
    pub(crate) released_spans: AtomicU64,
    points: Lane,
    reporting: Reporting,
    pub(crate) release_backlog_spans: AtomicU64,
    pub(crate) release_sequence: AtomicU64,
    pub(crate) committed_sequence: AtomicU64,
    pub(crate) log_bytes: AtomicU64,
    pub(crate) segments_deleted: AtomicU64,
    pub(crate) spans_carried: AtomicU64,
    pub(crate) sampler_heap_bytes: AtomicU64,
    links_missed: [AtomicU64; LINKS_MISSED.len()],
    pub(crate) sampler_keys_overflowed: AtomicU64,
    pub(crate) connections: AtomicU64,
    pub(crate) connections_refused: AtomicU64,
    handshakes_failed: [HandshakeFailures; 2],
    is_unhealthy: AtomicU64,
    pub(crate) exporting: Exporting,
    pub(crate) scraping: Scraping,
}

impl Metrics {
    /// The terms of the conservation law.
    pub fn conservation(&self) -> Conservation {
        let [sampled, not_sampled, dropped] = self.decided.each_ref().map(AmountCell::amount);
        let late = self
            .late
            .each_ref()
            .map(AmountCell::amount)
            .into_iter()
            .fold(Amount::default(), |sum, late| Amount {
                n_traces: 0,
                n_spans: sum.n_spans.saturating_add(late.n_spans),
                n_bytes: sum.n_bytes.saturating_add(late.n_bytes),
            });
        Conservation {
            received: self.received.amount(),
            recovered: self.recovered.amount(),
            sampled,
            not_sampled,
            dropped,
            late,
            duplicate: self.duplicate.amount(),
            pending: self.pending.amount(),
        }
    }

    /// Spans, points or log records that were rejected while the rest of their export was accepted.
    pub fn n_items_rejected(&self, signal: Signal) -> u64 {
        self.items_rejected[signal_idx(signal)].load(Ordering::Relaxed)
    }

    /// Metric points: where those are that came in.
    pub fn points(&self) -> Points {
        let lost = &self.items_lost[signal_idx(Signal::Metrics)];
        Points {
            received: self.n_items_received(Signal::Metrics),
            no_consumer: load(&lost[LossReason::NoConsumer as usize]),
            ..self.points.points()
        }
    }

    /// Entries of reports: where those are that came in.
    pub fn report_entries(&self) -> Points {
        self.reporting.entries()
    }

    /// What counts the metric points, or the entries of reports, on their way to a release.
    pub(crate) fn lane(&self, content: Content) -> &Lane {
        match content {
            Content::Export(_) => &self.points,
            Content::Report(kind) => self.reporting.lane(kind),
        }
    }

    /// Spans, points or log records in the log.
    pub fn n_items_received(&self, signal: Signal) -> u64 {
        self.items_received[signal_idx(signal)].load(Ordering::Relaxed)
    }

    pub(crate) fn count_answer(
        &self,
        transport: Transport,
        content: Content,
        outcome: Result<(), &Refusal>,
    ) {
        let code = match outcome {
            Ok(()) => Code::Ok,
            Err(refusal) => {
                add(&self.exports_refused[refusal.reason() as usize], 1);
                refusal.outward().grpc
            }
        };
        match content {
            Content::Export(signal) => add(
                &self.exports[transport as usize][signal_idx(signal)][code as usize],
                1,
            ),
            Content::Report(kind) => self.reporting.count_answer(kind, code),
        }
    }

    /// Failed TLS handshakes of one listener.
    pub(crate) fn handshakes_failed(&self, transport: Transport) -> &HandshakeFailures {
        &self.handshakes_failed[transport as usize]
    }

    /// A report is taken as a whole or not at all.
    pub(crate) fn count_checked(&self, content: Content, checked: &Checked) {
        if let Content::Export(signal) = content {
            add(&self.items_rejected[signal_idx(signal)], checked.n_rejected);
        }
    }

    pub(crate) fn count_refused_items(
        &self,
        content: Content,
        reason: RefusedReason,
        n_items: u64,
    ) {
        let refused = match content {
            Content::Export(signal) => &self.items_refused[signal_idx(signal)],
            Content::Report(kind) => self.reporting.refused(kind),
        };
        add(&refused[reason as usize], n_items);
    }

    pub(crate) fn count_appended(&self, content: Content, n_items: u64, n_body_bytes: usize) {
        match content {
            Content::Export(signal) => add(&self.items_received[signal_idx(signal)], n_items),
            Content::Report(kind) => self.reporting.count_received(kind, n_items),
        }
        add(&self.body_bytes, n_body_bytes as u64);
    }

    pub(crate) fn count_lost(&self, content: Content, reason: LossReason, n_items: u64) {
        let lost = match content {
            Content::Export(signal) => &self.items_lost[signal_idx(signal)],
            Content::Report(kind) => self.reporting.lost(kind),
        };
        add(&lost[reason as usize], n_items);
    }

    pub(crate) fn count_received(&self, amount: Amount) {
        self.received.add(amount);
    }

    pub(crate) fn count_recovered(&self, amount: Amount) {
        self.recovered.add(amount);
    }

    pub(crate) fn count_late(&self, decision: Decision, n_bytes: usize) {
        let n_bytes = n_bytes as u64;
        self.late[decision_idx(decision)].add(Amount {
            n_traces: 0,
            n_spans: 1,
            n_bytes,
        });
    }

    /// Counts a copy of a span that was there before.
    pub(crate) fn count_duplicate(&self, n_bytes: usize) {
        self.duplicate.add(Amount {
            n_traces: 0,
            n_spans: 1,
            n_bytes: n_bytes as u64,
        });
    }

    /// Counts decided traces; `policy` is the name of the policy that decided.
    pub(crate) fn count_decided(&self, decided: &Decided, policy: Option<Arc<str>>) {
        self.decided[decision_idx(decided.decision)].add(Amount {
            n_traces: 1,
            n_spans: decided.spans.len() as u64,
            n_bytes: decided.summary.n_bytes,
        });
        let key = (decided.decision.as_str(), policy, decided.trigger.as_str());
        let mut traces = self
            .decided_traces
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let n_traces = traces.entry(key).or_default();
        *n_traces = n_traces.saturating_add(1);
    }

    /// Takes over what the policies have said.
    pub(crate) fn set_policies(&self, sampler: &Sampler) {
        let mut policies = self.policies.lock().unwrap_or_else(PoisonError::into_inner);
        for (place, (name, counts)) in sampler.policy_counts().enumerate() {
            // One that a reload has removed keeps its line, so that no counter disappears.
            let is_here = policies.get(place).is_some_and(|known| *known.0 == *name);
            let known = match is_here {
                true => Some(place),
                false => policies.iter().position(|known| *known.0 == *name),
            };
            match known.and_then(|place| policies.get_mut(place)) {
                Some(known) => known.1 = counts,
                None => policies.push((Box::from(name), counts)),
            }
        }
    }

    /// `unrecorded` are decided, but nobody has been told.
    pub(crate) fn set_pending(&self, stats: &Stats, unrecorded: &[Decided]) {
        let mut pending = Amount {
            n_traces: stats.n_traces,
            n_spans: stats.n_spans,
            n_bytes: stats.n_bytes,
        };
        for decided in unrecorded {
            pending.n_traces = pending.n_traces.saturating_add(1);
            pending.n_spans = pending.n_spans.saturating_add(decided.spans.len() as u64);
            pending.n_bytes = pending.n_bytes.saturating_add(decided.summary.n_bytes);
        }
        self.pending.set(pending);
        set(&self.sampler_heap_bytes, stats.heap_bytes);
        for ((_, count), cell) in LINKS_MISSED.iter().zip(&self.links_missed) {
            set(cell, count(&stats.links));
        }
        set(&self.sampler_keys_overflowed, stats.n_keys_overflowed);
    }

    pub(crate) fn set_unhealthy(&self) {
        set(&self.is_unhealthy, 1);
    }
}

pub(crate) fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

pub(crate) fn sub(gauge: &AtomicU64, n: u64) {
    gauge.fetch_sub(n, Ordering::Relaxed);
}

pub(crate) fn set(gauge: &AtomicU64, value: u64) {
    gauge.store(value, Ordering::Relaxed);
}

pub(crate) fn load(cell: &AtomicU64) -> u64 {
    cell.load(Ordering::Relaxed)
}

fn signal_idx(signal: Signal) -> usize {
    match signal {
        Signal::Traces => 0,
        Signal::Metrics => 1,
        Signal::Logs => 2,
    }
}

fn decision_idx(decision: Decision) -> usize {
    match decision {
        Decision::Sampled => 0,
        Decision::NotSampled => 1,
        Decision::Dropped => 2,
    }
}
