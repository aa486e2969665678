//! The side lane: an export of metrics is not decided. The next decision record names it by its position, as it names
//! late spans, and the release carries it to storage; it holds its segment until that is committed.
//!
//! So metrics are stored under a release sequence, exactly once, like everything else. A release may carry nothing but
//! metrics. Where nothing is stored, nobody reads them, and they are counted as lost.

use std::collections::VecDeque;

use otlp::export::Signal;
use wal::{Disk, Position};

use crate::{
    holds::SegmentCounter,
    ingest::Ingest,
    metrics::{self, LossReason},
};

/// Exports of one release.
const EXPORTS_PER_RELEASE_MAX: usize = 4096;

/// Bytes of them: a release is in memory as a whole.
const BYTES_PER_RELEASE_MAX: usize = 16 << 20;

/// About what the row of one scrape and device (or engine) is made of; for the backlog, which counts rows.
const POINTS_PER_ROW: u64 = 16;

/// An export of metrics in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MetricsExport {
    pub(super) position: Position,
    pub(super) n_points: u64,
    pub(super) n_bytes: usize,
}

/// Exports of metrics that no decision record names, in the order of the log.
#[derive(Debug, Default)]
pub(super) struct SideLane {
    waiting: VecDeque<MetricsExport>,
}

impl SideLane {
    /// How many of the first are one release's worth.
    pub(super) fn n_next(&self) -> usize {
        let mut n_bytes = 0_usize;
        let fits = |export: &&MetricsExport| {
            let is_first = n_bytes == 0;
            n_bytes = n_bytes.saturating_add(export.n_bytes.max(1));
            is_first || n_bytes <= BYTES_PER_RELEASE_MAX
        };
        let waiting = self.waiting.iter().take(EXPORTS_PER_RELEASE_MAX);
        waiting.take_while(fits).count()
    }

    /// Is there more than one release's worth?
    pub(super) fn is_full(&self) -> bool {
        self.n_next() < self.waiting.len()
    }

    /// Where the first of them are.
    pub(super) fn positions(&self, n: usize) -> Vec<Position> {
        let first = self.waiting.iter().take(n);
        first.map(|export| export.position).collect()
    }

    pub(super) fn take_first(&mut self, n: usize) -> Vec<MetricsExport> {
        self.waiting.drain(..n.min(self.waiting.len())).collect()
    }

    /// Those that a record of the log names; the ones whose segment was deleted are not here.
    pub(super) fn take_recorded(&mut self, named: &[Position]) -> Vec<MetricsExport> {
        let Some(last) = named.last() else {
            return Vec::new();
        };
        let n = self
            .waiting
            .partition_point(|export| export.position <= *last);
        self.take_first(n)
    }

    pub(super) fn n_exports(&self) -> u64 {
        self.waiting.len() as u64
    }

    pub(super) fn n_points(&self) -> u64 {
        n_points(self.waiting.iter())
    }
}

/// Points of these exports.
pub(super) fn n_points<'a>(exports: impl Iterator<Item = &'a MetricsExport>) -> u64 {
    exports.fold(0, |sum, export| sum.saturating_add(export.n_points))
}

/// What storage has to write for them, about.
pub(super) fn n_rows(exports: &[MetricsExport]) -> u64 {
    exports.iter().fold(0, |sum, export| {
        sum.saturating_add(export.n_points.div_ceil(POINTS_PER_ROW))
    })
}

/// Counts them per segment.
pub(super) fn count(exports: &[MetricsExport], counter: &mut SegmentCounter) {
    for export in exports {
        counter.count(export.position.as_u64());
    }
}

impl<D: Disk> Ingest<D> {
    /// An export of metrics is in the log.
    pub(super) fn take_metrics(&mut self, position: Position, n_points: u64, n_bytes: usize) {
        if !self.settings.is_storing {
            self.metrics
                .count_lost(Signal::Metrics, LossReason::NoConsumer, n_points);
            return;
        }
        self.decided.add(position.segment(), 1, n_bytes as u64);
        self.side_lane.waiting.push_back(MetricsExport {
            position,
            n_points,
            n_bytes,
        });
        metrics::add(&self.metrics.points_pending, n_points);
    }

    /// The same in a replay.
    pub(super) fn recall_metrics(
        &mut self,
        position: Position,
        received_unix_nano: u64,
        body: &[u8],
    ) {
        if !self.settings.is_storing {
            return;
        }
        let limits = self.settings.window.limits(received_unix_nano);
        match otlp::export::check(Signal::Metrics, body, &limits) {
            Ok(checked) => self.take_metrics(position, checked.n_items, body.len()),
            Err(error) => {
                // The same bytes passed the check, so this is our fault, not the sender's.
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "metrics of the log are not readable"
                );
                self.metrics
                    .count_lost(Signal::Metrics, LossReason::Unreadable, 1);
            }
        }
    }

    /// A decision record names these now.
    pub(super) fn count_points_released(&self, exports: &[MetricsExport]) {
        let n_points = n_points(exports.iter());
        metrics::sub(&self.metrics.points_pending, n_points);
        metrics::add(&self.metrics.points_released, n_points);
    }
}
