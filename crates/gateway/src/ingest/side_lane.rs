//! The side lane: exports of metrics and reports are not decided. The next decision record names each by its position,
//! as it names late spans, and the release carries it to storage; it holds its segment until that is committed.
//!
//! So they are stored under a release sequence, exactly once, like everything else. A release may carry nothing else.
//! Where nothing is stored, nobody reads them, and they are counted as lost.

use std::collections::VecDeque;

use otlp::export::Signal;
use wal::{Disk, Position};

use crate::{
    holds::SegmentCounter,
    ingest::Ingest,
    metrics::{LossReason, Metrics},
    record::Content,
};

/// Items of one release.
const ITEMS_PER_RELEASE_MAX: usize = 4096;

/// Bytes of them: a release is in memory as a whole.
const BYTES_PER_RELEASE_MAX: usize = 16 << 20;

/// About what the row of one scrape and device (or engine) is made of; for the backlog, which counts rows.
const POINTS_PER_ROW: u64 = 16;

/// An export of metrics or a report in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SideItem {
    pub(super) position: Position,
    content: Content,
    /// Points, or entries of a report.
    n_entries: u64,
    n_bytes: usize,
}

/// What no decision record names, in the order of the log.
#[derive(Debug, Default)]
pub(super) struct SideLane {
    waiting: VecDeque<SideItem>,
}

impl SideLane {
    /// How many of the first are one release's worth.
    pub(super) fn n_next(&self) -> usize {
        let mut n_bytes = 0_usize;
        let fits = |item: &&SideItem| {
            let is_first = n_bytes == 0;
            n_bytes = n_bytes.saturating_add(item.n_bytes.max(1));
            is_first || n_bytes <= BYTES_PER_RELEASE_MAX
        };
        let waiting = self.waiting.iter().take(ITEMS_PER_RELEASE_MAX);
        waiting.take_while(fits).count()
    }

    /// Is there more than one release's worth?
    pub(super) fn is_full(&self) -> bool {
        self.n_next() < self.waiting.len()
    }

    /// Where the first of them are.
    pub(super) fn positions(&self, n: usize) -> Vec<Position> {
        let first = self.waiting.iter().take(n);
        first.map(|item| item.position).collect()
    }

    pub(super) fn take_first(&mut self, n: usize) -> Vec<SideItem> {
        self.waiting.drain(..n.min(self.waiting.len())).collect()
    }

    /// Those that a record of the log names; the ones whose segment was deleted are not here.
    pub(super) fn take_recorded(&mut self, named: &[Position]) -> Vec<SideItem> {
        let Some(last) = named.last() else {
            return Vec::new();
        };
        let n = self.waiting.partition_point(|item| item.position <= *last);
        self.take_first(n)
    }

    pub(super) fn n_items(&self) -> u64 {
        self.waiting.len() as u64
    }

    /// Counts those of a replay.
    pub(super) fn count_recovered(&self, metrics: &Metrics) {
        for item in &self.waiting {
            let lane = metrics.lane(item.content);
            lane.count_recovered(item.n_entries);
        }
    }
}

/// What storage has to write for them, about.
pub(super) fn n_rows(items: &[SideItem]) -> u64 {
    items.iter().fold(0, |sum, item| {
        let n_rows = match item.content {
            Content::Export(_) => item.n_entries.div_ceil(POINTS_PER_ROW),
            Content::Report(_) => item.n_entries,
        };
        sum.saturating_add(n_rows)
    })
}

/// Counts them per segment.
pub(super) fn count(items: &[SideItem], counter: &mut SegmentCounter) {
    for item in items {
        counter.count(item.position.as_u64());
    }
}

impl<D: Disk> Ingest<D> {
    /// Metrics or a report are in the log.
    pub(super) fn take_aside(
        &mut self,
        content: Content,
        position: Position,
        n_entries: u64,
        n_bytes: usize,
    ) {
        if !self.settings.is_storing {
            self.metrics
                .count_lost(content, LossReason::NoConsumer, n_entries);
            return;
        }
        self.decided.add(position.segment(), 1, n_bytes as u64);
        self.side_lane.waiting.push_back(SideItem {
            position,
            content,
            n_entries,
            n_bytes,
        });
        self.metrics.lane(content).count_waiting(n_entries);
    }

    /// The same in a replay.
    pub(super) fn recall_aside(
        &mut self,
        content: Content,
        position: Position,
        received_unix_nano: u64,
        body: &[u8],
    ) {
        if !self.settings.is_storing {
            return;
        }
        // The same bytes passed the check, so a failure is our fault, not the sender's.
        let unreadable = |error: &(dyn std::error::Error + 'static)| {
            tracing::error!(error, "metrics or a report of the log are not readable");
            self.metrics.count_lost(content, LossReason::Unreadable, 1);
        };
        let n_entries = match content {
            Content::Export(_) => {
                let limits = self.settings.window.limits(received_unix_nano);
                let checked = otlp::export::check(Signal::Metrics, body, &limits);
                checked
                    .map(|checked| checked.n_items)
                    .inspect_err(|error| unreadable(error))
                    .ok()
            }
            Content::Report(kind) => reports::check(kind, body)
                .map(|checked| checked.n_entries)
                .inspect_err(|error| unreadable(error))
                .ok(),
        };
        if let Some(n_entries) = n_entries {
            self.take_aside(content, position, n_entries, body.len());
        }
    }

    /// A decision record names these now.
    pub(super) fn count_aside_released(&self, items: &[SideItem]) {
        for item in items {
            let lane = self.metrics.lane(item.content);
            lane.count_released(item.n_entries);
        }
    }

    /// A decision record that is replayed names these: the process that wrote it has released them.
    pub(super) fn count_aside_replayed(&self, items: &[SideItem]) {
        for item in items {
            let lane = self.metrics.lane(item.content);
            lane.count_gone(item.n_entries);
        }
    }
}
