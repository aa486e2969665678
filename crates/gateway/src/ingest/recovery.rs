//! Replay: the log's records are fed again, before any listener opens.
//!
//! Two passes. The first collects the late spans and the copies that decision records name. The second observes every
//! export at the time it was received, without ticking, and applies every recorded decision: what was
//! decided is never decided again. A release that storage has not committed is handed on again under the
//! same sequence; what stays undecided goes on as pending.
//!
//! A span that was carried forward has two records for a while; the later one only tells where it is now.
//!
//! A trace can be decided again, when a span comes after its decision was forgotten. How long a decision is
//! remembered depends on all decisions before it, and the log no longer has them all. So a span of the log is
//! pending, not late, if a later record decides its trace again.
//!
//! Spans may be missing from a committed release, because their segments were deleted; they are never
//! missing from one that is not committed, because it holds them.

use std::collections::{HashMap, HashSet};

use otlp::{TraceId, export::Signal};
use rustc_hash::FxBuildHasher;
use sampler::RecordedDecision;
use wal::{Disk, Position};

use crate::{
    error::{Error, Result},
    ingest::{
        Effect, Effects, Ingest,
        index::{Recorded, Source},
        pressure,
    },
    metrics::Amount,
    progress::Progress,
    record::{Content, DecisionRecord, Record},
    release::{KeptList, Plan},
};

/// Traces that several records of the log decide, and the last of them.
pub(super) type DecidedAgain = HashMap<TraceId, Position, FxBuildHasher>;

impl<D: Disk> Ingest<D> {
    /// Replays the log, and says how far it is. Whoever takes releases is done with those through
    /// `committed_through` (0: with none); `None`: nobody wants any of the log.
    ///
    /// # Errors
    ///
    /// The log's, or a record that this program did not write.
    pub(crate) fn recover(
        &mut self,
        committed_through: Option<i64>,
        progress: &Progress,
        effects: &mut Effects<'_, D>,
    ) -> Result<()> {
        // Each record is read twice.
        progress.begin(self.wal.bytes_on_disk().saturating_mul(2));
        let mut recorded = self.find_recorded(progress)?;
        let mut records = self.wal.iter();
        let mut kept = None;
        while let Some((position, bytes)) = records.next_record().map_err(unreadable)? {
            progress.advance(bytes.len() as u64);
            match Record::read(bytes).map_err(|problem| Error::Record { position, problem })? {
                Record::Content {
                    content,
                    received_unix_nano,
                    body,
                } => match content {
                    Content::Export(Signal::Traces) => {
                        let source = Source::Replay(&recorded);
                        self.index(position, received_unix_nano, body, source);
                    }
                    Content::Export(Signal::Metrics) | Content::Report(_) => {
                        self.recall_aside(content, position, received_unix_nano, body);
                    }
                    Content::Export(Signal::Logs) => {}
                },
                Record::Carried {
                    received_unix_nano,
                    body,
                } => {
                    self.index(position, received_unix_nano, body, Source::Carried);
                }
                Record::Sequence(sequence) => {
                    self.last_decision = Some(position);
                    self.next_sequence = self.next_sequence.max(sequence.saturating_add(1));
                }
                Record::Kept(list) => {
                    let found = KeptList {
                        position,
                        n_spans: list.n_spans,
                        n_bytes: list.n_bytes,
                    };
                    kept = Some((list.sequence, found));
                }
                Record::Decision(record) => {
                    // A list of the same release that was not finished stands before.
                    let kept = kept.take_if(|(sequence, _)| *sequence == record.sequence);
                    let plan = self.replay(position, record, &mut recorded);
                    let plan = Plan {
                        kept: kept.map(|(_, list)| list),
                        ..plan
                    };
                    if committed_through.is_some_and(|through| plan.sequence > through) {
                        effects(Effect::Release(plan));
                    } else {
                        self.commit(plan.sequence);
                    }
                }
            }
        }
        self.decided_again = DecidedAgain::default();
        self.skip_sequences_through(committed_through.unwrap_or_default());
        let stats = self.sampler.stats();
        let n_late = self.late.len() as u64;
        let n_bytes_late = self.metrics.conservation().late.n_bytes;
        self.metrics.count_recovered(Amount {
            n_traces: stats.n_traces,
            n_spans: stats.n_spans.saturating_add(n_late),
            n_bytes: stats.n_bytes.saturating_add(n_bytes_late),
        });
        self.side_lane.count_recovered(&self.metrics);
        self.metrics.set_policies(&self.sampler);
        self.delete_committed();
        self.refresh();
        if cfg!(debug_assertions) {
            self.check_invariants();
        }
        Ok(())
    }

    /// A new log folder beside old tables must not use a sequence that the tables skip.
    pub(crate) fn skip_sequences_through(&mut self, sequence: i64) {
        self.next_sequence = self.next_sequence.max(sequence.saturating_add(1));
    }

    /// The release before the next one; 0 for none.
    pub(crate) fn last_sequence(&self) -> i64 {
        self.next_sequence.saturating_sub(1)
    }

    /// Must a span of this trace in a replayed record have been pending? A late one is named by a record.
    pub(super) fn is_decided_again(&self, trace_id: &TraceId, position: Position) -> bool {
        let last = self.decided_again.get(trace_id);
        last.is_some_and(|last| *last > position)
    }

    fn find_recorded(&mut self, progress: &Progress) -> Result<Recorded> {
        let mut recorded = Recorded::default();
        let mut decided = HashSet::<TraceId, FxBuildHasher>::default();
        let mut records = self.wal.iter();
        while let Some((position, bytes)) = records.next_record().map_err(unreadable)? {
            progress.advance(bytes.len() as u64);
            let record =
                Record::read(bytes).map_err(|problem| Error::Record { position, problem })?;
            if let Record::Decision(record) = record {
                recorded
                    .late
                    .extend(record.late.iter().map(|late| late.handle));
                recorded.duplicates.extend(record.duplicates);
                for trace in &record.traces {
                    if !decided.insert(trace.trace_id) {
                        self.decided_again.insert(trace.trace_id, position);
                    }
                }
            }
        }
        Ok(recorded)
    }

    /// Applies one recorded release.
    fn replay(
        &mut self,
        position: Position,
        record: DecisionRecord,
        recorded: &mut Recorded,
    ) -> Plan {
        let DecisionRecord {
            sequence,
            decided_unix_nano,
            traces,
            mut late,
            duplicates: _,
            side_lane,
        } = record;
        let mut decided = Vec::with_capacity(traces.len());
        for trace in &traces {
            let recorded = RecordedDecision {
                trace_id: trace.trace_id,
                decision: trace.decision,
                policy: trace.policy.as_deref(),
                trigger: trace.trigger,
                adjusted_count: trace.adjusted_count,
                threshold: trace.threshold,
            };
            self.sampler.apply(&recorded, &mut decided);
        }
        let counts = pressure::count(&decided).into_counts();
        self.pending.remove(&counts);
        self.decided.add_all(&counts);
        // Those whose segment was deleted hold nothing and were committed.
        let first_segment = self
            .wal
            .segments()
            .next()
            .map_or(0, |segment| segment.number);
        late.retain(|late| {
            let is_kept = Position::from_u64(late.handle.position).segment() >= first_segment;
            is_kept && recorded.late.remove(&late.handle)
        });
        self.last_decision = Some(position);
        let aside = self.side_lane.take_recorded(&side_lane);
        self.count_aside_replayed(&aside);
        self.plan(sequence, decided_unix_nano, decided, late, &aside)
    }
}

fn unreadable(source: wal::Error) -> Error {
    Error::Log {
        operation: "replay",
        source,
    }
}
