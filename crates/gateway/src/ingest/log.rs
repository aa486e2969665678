//! The log from the core's side: what is synced when, what is deleted, and what a failure means.

use wal::{Disk, Position};

use crate::{
    config::SyncPolicy,
    error,
    holds::Holds,
    ingest::{Effect, Effects, Ingest, SyncState},
    metrics,
    status::{Overload, Refusal},
};

impl<D: Disk> Ingest<D> {
    /// Hands on the releases whose decision record survives a power failure.
    pub(super) fn hand_on_synced(&mut self, effects: &mut Effects<'_, D>) {
        let synced = self.wal.synced_position();
        while let Some((_, plan)) = self
            .unsynced
            .pop_front_if(|(position, _)| *position < synced)
        {
            effects(Effect::Release(plan));
        }
        self.leave_old_places();
    }

    /// A sync is due when a release or a carried span waits for it, else after the interval.
    pub(super) fn sync_if_due(&mut self, now_unix_nano: u64, effects: &mut Effects<'_, D>) {
        let interval = match self.settings.sync {
            SyncPolicy::Never => u64::MAX,
            SyncPolicy::Interval(interval) => {
                u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX)
            }
            SyncPolicy::Always => 0,
        };
        // A clock that was set back counts as time passed.
        let since = now_unix_nano.checked_sub(self.sync.started_unix_nano);
        let is_over = interval < u64::MAX && since.is_none_or(|since| since >= interval);
        let is_clean = self.wal.synced_position() >= self.wal.flushed_position();
        let is_due = !self.unsynced.is_empty() || !self.carrying.is_empty() || is_over;
        if self.sync.is_running || is_clean || !is_due || self.gate.failure().is_some() {
            return;
        }
        match self.wal.sync_handle() {
            Ok(handle) => {
                self.sync = SyncState {
                    is_running: true,
                    started_unix_nano: now_unix_nano,
                };
                effects(Effect::Sync(handle));
            }
            Err(source) => self.fail("sync", &source),
        }
    }

    /// Deletes the segments that nothing holds. The last decision is kept, because it holds the sequence.
    pub(super) fn delete_committed(&mut self) {
        let next = self.wal.next_position().segment();
        let first = [&self.pending, &self.decided, &self.carrying_holds].map(Holds::first_segment);
        let held = first.into_iter().flatten().min().unwrap_or(next);
        let sequence = self.last_decision.map_or(next, Position::segment);
        let low_water = Position::from_u64(u64::from(held.min(sequence).min(next)) << 32);
        match self.wal.delete_below(low_water) {
            Ok(n_deleted) => metrics::add(&self.metrics.segments_deleted, n_deleted.into()),
            Err(source) => self.note_log_error("delete from", &source),
        }
    }

    /// A full disk passes; everything else closes the intake until a restart.
    pub(super) fn note_log_error(&mut self, operation: &'static str, source: &wal::Error) {
        if source.is_full() {
            if self.full_warning.is_due(self.now_unix_nano) {
                tracing::warn!(
                    error = source as &dyn std::error::Error,
                    "no room on the disk for the log; exports are refused until there is"
                );
            }
            self.gate.set(Some(Overload::DiskFull));
        } else if !matches!(source, wal::Error::RecordTooLarge { .. }) {
            self.fail(operation, source);
        }
    }

    pub(super) fn fail(&mut self, operation: &'static str, source: &wal::Error) {
        self.fail_with(format!(
            "cannot {operation} the log: {}",
            error::chain(source)
        ));
    }

    /// Closes the intake until a restart.
    pub(super) fn fail_with(&mut self, reason: String) {
        if self.gate.failure().is_none() {
            tracing::error!(reason, "exports are refused until a restart");
        }
        self.gate.fail(reason);
        self.metrics.set_unhealthy();
    }
}

/// What a sender is told when the log refuses.
pub(super) fn refusal(source: &wal::Error) -> Refusal {
    if let wal::Error::RecordTooLarge {
        record_bytes_max, ..
    } = source
    {
        Refusal::TooLarge {
            limit_bytes: u64::from(*record_bytes_max),
        }
    } else if source.is_full() {
        Refusal::Overloaded(Overload::DiskFull)
    } else {
        Refusal::Unavailable
    }
}
