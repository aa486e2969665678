//! The side lane in numbers: metric points and entries of reports on their way from the log into a release.

use std::sync::atomic::{AtomicU64, Ordering};

use reports::Kind;
use tonic::Code;

use super::{LossReason, N_CODES, Text, add, load, render::code_name, sub};
use crate::status::RefusedReason;

/// Where the metric points, or the entries of reports, are that came in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Points {
    /// Accepted from the network since the start.
    pub received: u64,
    /// Found in the log at the start, in no release.
    pub recovered: u64,
    /// In releases.
    pub released: u64,
    /// For the next release.
    pub pending: u64,
    /// Where there are no tables.
    pub no_consumer: u64,
}

impl Points {
    /// Does everything that came in stand in exactly one place?
    pub const fn is_conserved(&self) -> bool {
        let came = self.received.saturating_add(self.recovered);
        let is = self.released.saturating_add(self.pending);
        came == is.saturating_add(self.no_consumer)
    }
}

/// What waits for a release, and what has waited.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    recovered: AtomicU64,
    released: AtomicU64,
    pending: AtomicU64,
}

impl Lane {
    pub(crate) fn count_waiting(&self, n: u64) {
        add(&self.pending, n);
    }

    pub(crate) fn count_released(&self, n: u64) {
        sub(&self.pending, n);
        add(&self.released, n);
    }

    /// Found in the log, where they wait.
    pub(crate) fn count_recovered(&self, n: u64) {
        add(&self.recovered, n);
    }

    /// Wait no more, as somebody else has released them.
    pub(crate) fn count_gone(&self, n: u64) {
        sub(&self.pending, n);
    }

    pub(super) fn points(&self) -> Points {
        Points {
            recovered: load(&self.recovered),
            released: load(&self.released),
            pending: load(&self.pending),
            ..Points::default()
        }
    }
}

/// Reports of one kind.
#[derive(Debug, Default)]
struct OfKind {
    answers: [AtomicU64; N_CODES],
    received: AtomicU64,
    refused: [AtomicU64; RefusedReason::ALL.len()],
    lost: [AtomicU64; LossReason::ALL.len()],
    lane: Lane,
}

/// Reports.
#[derive(Debug, Default)]
pub(super) struct Reporting([OfKind; Kind::ALL.len()]);

impl Reporting {
    fn of(&self, kind: Kind) -> &OfKind {
        let [placements, batches] = &self.0;
        match kind {
            Kind::Placements => placements,
            Kind::Batches => batches,
        }
    }

    pub(super) fn count_answer(&self, kind: Kind, code: Code) {
        if let Some(answers) = self.of(kind).answers.get(code as usize) {
            add(answers, 1);
        }
    }

    pub(super) fn count_received(&self, kind: Kind, n_entries: u64) {
        add(&self.of(kind).received, n_entries);
    }

    pub(super) fn refused(&self, kind: Kind) -> &[AtomicU64; RefusedReason::ALL.len()] {
        &self.of(kind).refused
    }

    pub(super) fn lost(&self, kind: Kind) -> &[AtomicU64; LossReason::ALL.len()] {
        &self.of(kind).lost
    }

    pub(super) fn lane(&self, kind: Kind) -> &Lane {
        &self.of(kind).lane
    }

    pub(super) fn entries(&self) -> Points {
        let each = Kind::ALL.into_iter().map(|kind| self.of(kind));
        each.fold(Points::default(), |sum, of_kind| {
            let points = of_kind.lane.points();
            let lost = &of_kind.lost[LossReason::NoConsumer as usize];
            Points {
                received: sum.received.saturating_add(load(&of_kind.received)),
                recovered: sum.recovered.saturating_add(points.recovered),
                released: sum.released.saturating_add(points.released),
                pending: sum.pending.saturating_add(points.pending),
                no_consumer: sum.no_consumer.saturating_add(load(lost)),
            }
        })
    }

    pub(super) fn render(&self, text: &mut Text) {
        let name = "gateway_reports_total";
        text.counter(name, "Reports answered, by gRPC status code.");
        for kind in Kind::ALL {
            let answers = (0_i32..).zip(&self.of(kind).answers);
            for (number, n) in answers.filter(|(_, n)| n.load(Ordering::Relaxed) > 0) {
                let code = code_name(Code::from(number));
                let labels = [("report", kind.as_str()), ("code", code)];
                text.sample(name, &labels, load(n));
            }
        }
        let name = "gateway_report_entries_received_total";
        text.counter(
            name,
            "Placements and batches accepted: in the log and acknowledged.",
        );
        for kind in Kind::ALL {
            let labels = [("report", kind.as_str())];
            text.sample(name, &labels, load(&self.of(kind).received));
        }
        let name = "gateway_report_entries_refused_total";
        text.counter(
            name,
            "Placements and batches of valid reports refused by the intake.",
        );
        for kind in Kind::ALL {
            let refused = RefusedReason::ALL.iter().zip(self.refused(kind));
            for (reason, n) in refused.filter(|(_, n)| load(n) > 0) {
                let labels = [("report", kind.as_str()), ("reason", reason.as_str())];
                text.sample(name, &labels, load(n));
            }
        }
        let name = "gateway_report_entries_lost_total";
        text.counter(name, "Accepted placements and batches that reach no table.");
        for kind in Kind::ALL {
            for (reason, n) in LossReason::ALL.iter().zip(self.lost(kind)) {
                let labels = [("report", kind.as_str()), ("reason", reason.as_str())];
                text.sample(name, &labels, load(n));
            }
        }
        let entries = self.entries();
        let name = "gateway_report_entries_released_total";
        let help = "Placements and batches that a release carries to the tables.";
        text.single_counter(name, help, entries.released);
        let name = "gateway_report_entries_pending";
        let help = "Placements and batches for the next release.";
        text.gauge(name, help, entries.pending);
    }
}
