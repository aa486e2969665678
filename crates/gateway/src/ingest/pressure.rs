//! Pressure: what happens before a limit is reached, and what is refused when it is.
//!
//! | limit | before it is reached | over it |
//! | --- | --- | --- |
//! | `pending_heap_bytes_max` | | the traces that are due next are decided early, trigger `memory`; where that is not enough, exports are refused |
//! | `log_bytes_max` | over a quarter of it: undecided spans that keep the first segments almost alone are carried forward (`carry`) | |
//! | | over half of it from the first undecided span on: the traces that keep its first segment are decided early, trigger `disk` | exports are refused until commits give room |
//! | `release_backlog_spans_max` | by a forecast (`backlog`): | exports are refused until commits give room |
//! | room on the disk | | exports are refused, decisions wait |
//!
//! Half of the log for what is undecided leaves the other half for what is decided and not stored: so a slow storage
//! alone is no reason to decide anything early.

use sampler::{Decided, Trigger};
use wal::Disk;

use crate::{
    holds::SegmentCounter,
    ingest::{Ingest, decide::TRACES_PER_RELEASE_MAX},
    metrics,
    status::Overload,
};

impl<D: Disk> Ingest<D> {
    /// Decides traces that are not due while they take too much heap or too much of the log, at most one release's
    /// worth in all.
    pub(super) fn decide_early(&mut self) {
        let mut pinned = self.pinned();
        while self.unrecorded.len() < TRACES_PER_RELEASE_MAX {
            let heap_bytes = self.sampler.stats().pending_heap_bytes;
            let n_before = self.unrecorded.len();
            let (trigger, is_any) = if heap_bytes > self.settings.pending_heap_bytes_max {
                let trigger = Trigger::Memory;
                let out = &mut self.unrecorded;
                (
                    trigger,
                    self.sampler.decide_next(trigger, self.now_unix_nano, out),
                )
            } else if pinned.n_bytes > self.settings.log_bytes_max / 2 {
                (Trigger::Disk, self.decide_first_segment(&pinned))
            } else {
                return;
            };
            if !is_any {
                return;
            }
            self.hold_as_decided(n_before);
            if self.pending.first_segment() != pinned.first_segment {
                pinned = self.pinned();
            }
            if self.early_warning.is_due(self.now_unix_nano) {
                tracing::warn!(
                    trigger = trigger.as_str(),
                    "traces are decided before they are complete, to make room"
                );
            }
        }
    }

    /// Decides traces that keep the first segment; is there one? Late spans may keep it too, until they are recorded.
    fn decide_first_segment(&mut self, pinned: &Pinned) -> bool {
        let Some(first_segment) = pinned.first_segment else {
            return false;
        };
        let n_decided = self.sampler.decide_before(
            (u64::from(first_segment) + 1) << 32,
            TRACES_PER_RELEASE_MAX.saturating_sub(self.unrecorded.len()),
            Trigger::Disk,
            self.now_unix_nano,
            &mut self.unrecorded,
        );
        n_decided > 0
    }

    /// What undecided spans keep of the log.
    pub(super) fn pinned(&self) -> Pinned {
        let first_segment = self.pending.first_segment();
        let segments = self.wal.segments();
        let pinned = segments
            .filter(|segment| first_segment.is_some_and(|first| segment.number >= first))
            .fold(0_u64, |sum, segment| sum.saturating_add(segment.size_bytes));
        Pinned {
            first_segment,
            n_bytes: pinned,
        }
    }

    /// Spans of `unrecorded` from this one on were undecided until now.
    pub(super) fn hold_as_decided(&mut self, n_before: usize) {
        let decided = self.unrecorded.get(n_before..).unwrap_or_default();
        let counts = count(decided).into_counts();
        self.pending.remove(&counts);
        self.decided.add_all(&counts);
    }

    /// Brings gauges and gate up to date.
    pub(super) fn refresh(&mut self) {
        let log_bytes = self.wal.bytes_on_disk();
        metrics::set(&self.metrics.log_bytes, log_bytes);
        metrics::set(&self.metrics.release_backlog_spans, self.backlog.n_rows());
        self.show_pending();
        let stats = self.sampler.stats();
        self.backlog.look_ahead(stats.n_spans, self.now_unix_nano);
        let is_storage_behind = self.is_storage_behind();
        self.gate.set(if log_bytes > self.settings.log_bytes_max {
            Some(Overload::LogBytes)
        } else if is_storage_behind {
            Some(Overload::ReleaseBacklog)
        } else if stats.pending_heap_bytes > self.settings.pending_heap_bytes_max {
            Some(Overload::PendingHeap)
        } else if !self.unrecorded.is_empty() {
            Some(Overload::DiskFull)
        } else {
            None
        });
    }

    /// Closes the gate for what came in since the last tick; only a tick or a commit opens it.
    pub(super) fn close_if_storage_is_behind(&mut self) {
        if self.is_storage_behind() {
            self.gate.set(Some(Overload::ReleaseBacklog));
        }
    }

    fn is_storage_behind(&mut self) -> bool {
        let limit = self.settings.release_backlog_spans_max;
        // Asked in any case, as it remembers.
        let is_closing = self.backlog.is_closing(limit);
        is_closing && self.stored < i64::MAX
    }
}

/// The part of the log from the first undecided span on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pinned {
    pub(super) first_segment: Option<u32>,
    pub(super) n_bytes: u64,
}

/// Something that is said once a minute at most.
#[derive(Debug, Default)]
pub(super) struct Reminder {
    last_unix_nano: Option<u64>,
}

const MINUTE_NANOS: u64 = 60_000_000_000;

impl Reminder {
    /// Is it time to say it? A clock that was set back counts as time passed.
    pub(super) fn is_due(&mut self, now_unix_nano: u64) -> bool {
        let since = self
            .last_unix_nano
            .and_then(|last| now_unix_nano.checked_sub(last));
        let is_due = since.is_none_or(|since| since >= MINUTE_NANOS);
        if is_due {
            self.last_unix_nano = Some(now_unix_nano);
        }
        is_due
    }
}

/// The spans of these traces per segment.
pub(super) fn count(decided: &[Decided]) -> SegmentCounter {
    let mut counter = SegmentCounter::default();
    for span in decided.iter().flat_map(|decided| &decided.spans) {
        counter.count(span.handle.position);
    }
    counter
}
