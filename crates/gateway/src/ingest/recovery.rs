//! Replay: the log's records are fed again, before any listener opens.
//!
//! Two passes. The first collects the late spans that decision records name. The second observes every
//! export at the time it was received, without ticking, and applies every recorded decision: what was
//! decided is never decided again. A release that storage has not committed is handed on again under the
//! same sequence; what stays undecided goes on as pending.
//!
//! Spans may be missing from a committed release, because their segments were deleted; they are never
//! missing from one that is not committed, because it holds them.

use sampler::RecordedDecision;
use wal::{Disk, Position};

use crate::{
    error::{Error, Result},
    ingest::{Effect, Effects, Ingest, index::LateHandles},
    metrics::Amount,
    record::{DecisionRecord, Record},
};

impl<D: Disk> Ingest<D> {
    /// Replays the log. Storage has committed the releases through `committed_through` (0: none).
    ///
    /// # Errors
    ///
    /// The log's, or a record that this program did not write.
    pub(crate) fn recover(
        &mut self,
        committed_through: i64,
        effects: &mut Effects<'_, D>,
    ) -> Result<()> {
        let mut late = self.find_recorded_late()?;
        let mut records = self.wal.iter();
        while let Some((position, bytes)) = records.next_record().map_err(unreadable)? {
            match Record::read(bytes).map_err(|problem| Error::Record { position, problem })? {
                Record::Export {
                    signal: otlp::export::Signal::Traces,
                    received_unix_nano,
                    body,
                } => {
                    self.index(position, received_unix_nano, body, Some(&late));
                }
                Record::Export { .. } => {}
                Record::Decision(record) => {
                    self.replay(position, record, committed_through, &mut late, effects);
                }
            }
        }
        // A new log folder beside old tables must not use a sequence that the tables skip.
        self.next_sequence = self.next_sequence.max(committed_through.saturating_add(1));
        let stats = self.sampler.stats();
        let n_late = self.late.len() as u64;
        let n_bytes_late = self.metrics.conservation().late.n_bytes;
        self.metrics.count_recovered(Amount {
            n_traces: stats.n_traces,
            n_spans: stats.n_spans.saturating_add(n_late),
            n_bytes: stats.n_bytes.saturating_add(n_bytes_late),
        });
        self.metrics.set_policies(&self.sampler);
        self.delete_committed();
        self.refresh();
        if cfg!(debug_assertions) {
            self.check_invariants();
        }
        Ok(())
    }

    fn find_recorded_late(&self) -> Result<LateHandles> {
        let mut late = LateHandles::default();
        let mut records = self.wal.iter();
        while let Some((position, bytes)) = records.next_record().map_err(unreadable)? {
            let record =
                Record::read(bytes).map_err(|problem| Error::Record { position, problem })?;
            if let Record::Decision(record) = record {
                late.extend(record.late.iter().map(|late| late.handle));
            }
        }
        Ok(late)
    }

    /// Applies one recorded release.
    fn replay(
        &mut self,
        position: Position,
        record: DecisionRecord,
        committed_through: i64,
        recorded_late: &mut LateHandles,
        effects: &mut Effects<'_, D>,
    ) {
        let DecisionRecord {
            sequence,
            decided_unix_nano,
            traces,
            mut late,
        } = record;
        let mut decided = Vec::with_capacity(traces.len());
        for trace in &traces {
            let recorded = RecordedDecision {
                trace_id: trace.trace_id,
                decision: trace.decision,
                policy: trace.policy.as_deref(),
                trigger: trace.trigger,
                adjusted_count: trace.adjusted_count,
            };
            self.sampler.apply(&recorded, &mut decided);
        }
        // Those whose segment was deleted hold nothing and were committed.
        let first_segment = self
            .wal
            .segments()
            .next()
            .map_or(0, |segment| segment.number);
        late.retain(|late| {
            let is_kept = Position::from_u64(late.handle.position).segment() >= first_segment;
            is_kept && recorded_late.remove(&late.handle)
        });
        self.last_decision = Some(position);
        let plan = self.plan(sequence, decided_unix_nano, decided, late);
        self.hold_until_committed(&plan);
        if sequence > committed_through {
            effects(Effect::Release(plan));
        } else {
            self.commit(sequence);
        }
    }
}

fn unreadable(source: wal::Error) -> Error {
    Error::Log {
        operation: "replay",
        source,
    }
}
