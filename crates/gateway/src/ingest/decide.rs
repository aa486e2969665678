//! Deciding: what is due becomes a decision record, then a release.

use sampler::{Decided, Decision, PendingSpan};
use wal::{Disk, Position};

use crate::{
    config::SyncPolicy,
    holds::{SegmentCounter, SegmentCounts},
    ingest::{
        Effects, Ingest, Uncommitted, pressure,
        side_lane::{self, SideItem},
    },
    metrics,
    record::{DecidedTrace, DecisionRecord, KEPT_PER_RECORD_MAX, Kept, KeptSpan, LateSpan},
    release::{KeptList, Plan, PlannedTrace},
};

/// Traces of one release. Bounds the work between two inputs and what a release holds in memory.
pub(super) const TRACES_PER_RELEASE_MAX: usize = 4096;

/// Late spans of one release, and copies; with the traces above, a decision record stays under 4 MiB.
pub(super) const LATE_PER_RELEASE_MAX: usize = 65_536;

impl<D: Disk> Ingest<D> {
    /// Decides what is due, oldest first, at most one release's worth.
    pub(super) fn decide(&mut self, now_unix_nano: u64, effects: &mut Effects<'_, D>) {
        if self.gate.failure().is_some() {
            // No decision can be recorded any more; what is pending is pending after the restart.
            self.is_behind = false;
            return;
        }
        if self.unrecorded.is_empty() {
            self.sampler
                .tick(now_unix_nano, TRACES_PER_RELEASE_MAX, &mut self.unrecorded);
            self.hold_as_decided(0);
            self.decide_early();
        }
        let is_full = self.unrecorded.len() >= TRACES_PER_RELEASE_MAX
            || self.late.len() > LATE_PER_RELEASE_MAX
            || self.duplicates.len() > LATE_PER_RELEASE_MAX
            || self.side_lane.is_full();
        let mut is_recorded = self.record_next(now_unix_nano, effects);
        // A round of a budget is decided as a whole, and may take several releases.
        while is_recorded && !self.unrecorded.is_empty() {
            is_recorded = self.record_next(now_unix_nano, effects);
        }
        self.is_behind = is_recorded && is_full;
    }

    /// Brings the gauges of what is undecided up to date.
    pub(crate) fn show_pending(&self) {
        self.metrics
            .set_pending(&self.sampler.stats(), &self.unrecorded);
    }

    /// Records everything that is decided.
    pub(super) fn record_all(&mut self, now_unix_nano: u64, effects: &mut Effects<'_, D>) {
        while self.record_next(now_unix_nano, effects) {}
    }

    /// Records one release's worth of what is decided and hands it on; was there something, and did it work?
    fn record_next(&mut self, now_unix_nano: u64, effects: &mut Effects<'_, D>) -> bool {
        let n_traces = self.unrecorded.len().min(TRACES_PER_RELEASE_MAX);
        let n_late = self.late.len().min(LATE_PER_RELEASE_MAX);
        let n_duplicates = self.duplicates.len().min(LATE_PER_RELEASE_MAX);
        let n_aside = self.side_lane.n_next();
        if n_traces == 0 && n_late == 0 && n_duplicates == 0 && n_aside == 0 {
            return false;
        }
        let mut traces = Vec::with_capacity(n_traces);
        for decided in self.unrecorded.iter().take(n_traces) {
            traces.push(DecidedTrace {
                trace_id: decided.trace_id,
                decision: decided.decision,
                trigger: decided.trigger,
                policy: self.names.policy(&self.sampler, decided.policy),
                adjusted_count: decided.adjusted_count,
                threshold: decided.threshold,
            });
        }
        let late = self.late.iter().take(n_late).cloned().collect();
        let sequence = self.next_sequence;
        let record = DecisionRecord {
            sequence,
            decided_unix_nano: now_unix_nano,
            traces,
            late,
            duplicates: self.duplicates.iter().take(n_duplicates).copied().collect(),
            side_lane: self.side_lane.positions(n_aside),
        };
        let mut bytes = Vec::new();
        record.write(&mut bytes);
        let is_synced_first = self.settings.sync == SyncPolicy::Always;
        let kept = self.append_kept(sequence, n_traces, n_late);
        let appended = kept.and_then(|kept| {
            let position = self.wal.append(&[&bytes])?;
            if is_synced_first {
                self.wal.sync()?;
            } else {
                self.wal.flush()?;
            }
            Ok((position, kept))
        });
        match appended {
            Ok((position, kept)) => {
                self.last_decision = Some(position);
                let decided: Vec<Decided> = self.unrecorded.drain(..n_traces).collect();
                let late: Vec<LateSpan> = self.late.drain(..n_late).collect();
                self.duplicates.drain(..n_duplicates);
                let aside = self.side_lane.take_first(n_aside);
                self.count_aside_released(&aside);
                for decided in &decided {
                    let policy = self.names.policy(&self.sampler, decided.policy);
                    self.metrics.count_decided(decided, policy);
                }
                self.metrics.set_policies(&self.sampler);
                let plan = Plan {
                    kept,
                    ..self.plan(sequence, now_unix_nano, decided, late, &aside)
                };
                self.unsynced.push_back((position, plan));
                self.hand_on_synced(effects);
                true
            }
            Err(source) => {
                // Nothing is handed on, and with a full disk the same is tried at the next tick.
                self.note_log_error("record a decision in", &source);
                false
            }
        }
    }

    /// What the release thread is to read. All spans go on holding their segments until it is committed.
    pub(super) fn plan(
        &mut self,
        sequence: i64,
        decided_unix_nano: u64,
        decided: Vec<Decided>,
        late: Vec<LateSpan>,
        aside: &[SideItem],
    ) -> Plan {
        let segments = self.hold_as_recorded(&decided, &late, aside);
        let (mut n_decided, mut n_rows) = (0_u64, 0_u64);
        let mut traces = Vec::with_capacity(decided.len());
        for mut decided in decided {
            n_decided = n_decided.saturating_add(decided.spans.len() as u64);
            let spans = released_spans(&mut decided);
            // A trace of which no span is stored has a row in `traces` all the same.
            n_rows = n_rows.saturating_add(spans.len().max(1) as u64);
            let policy = self.names.policy(&self.sampler, decided.policy);
            let services = decided.summary.services.iter();
            let services = services
                .map(|service| self.names.service(&self.sampler, *service))
                .collect();
            traces.push(PlannedTrace {
                trace_id: decided.trace_id,
                decision: decided.decision,
                policy,
                trigger: decided.trigger,
                adjusted_count: decided.adjusted_count,
                threshold: decided.threshold,
                summary: decided.summary,
                services,
                spans,
            });
        }
        let n_pending = self.sampler.stats().n_spans;
        self.backlog.add_decided(n_decided, n_rows, n_pending);
        let n_late = late.iter().filter(|late| late.is_released()).count();
        let n_rows = n_rows
            .saturating_add(n_late as u64)
            .saturating_add(side_lane::n_rows(aside));
        // Where nothing is stored, nothing waits for it.
        let n_rows = if sequence > self.stored { n_rows } else { 0 };
        self.backlog.add_waiting(n_rows);
        self.uncommitted.push_back(Uncommitted {
            sequence,
            segments,
            n_rows,
            recorded_unix_nano: self.now_unix_nano,
        });
        self.next_sequence = sequence.saturating_add(1);
        metrics::set(
            &self.metrics.release_sequence,
            u64::try_from(sequence).unwrap_or_default(),
        );
        Plan {
            sequence,
            decided_unix_nano,
            traces,
            late,
            side_lane: aside.iter().map(|item| item.position).collect(),
            kept: None,
        }
    }

    /// Lists the spans that the next release keeps, for the exporters; nothing without exporters.
    ///
    /// The list stands in front of the decision record, so a decision that is in the log has its list. It is sorted
    /// by place: so each export of the log is read once, and its spans share their resource.
    fn append_kept(
        &mut self,
        sequence: i64,
        n_traces: usize,
        n_late: usize,
    ) -> wal::Result<Option<KeptList>> {
        if !self.settings.is_exporting {
            return Ok(None);
        }
        let mut spans: Vec<KeptSpan> = Vec::new();
        let mut n_bytes = 0_u64;
        let traces = self.unrecorded.iter().take(n_traces);
        for trace in traces.filter(|trace| trace.decision == Decision::Sampled) {
            spans.extend(trace.spans.iter().map(|span| KeptSpan {
                handle: span.handle,
                threshold: trace.threshold,
            }));
            n_bytes = n_bytes.saturating_add(trace.summary.n_bytes);
        }
        let late = self.late.iter().take(n_late);
        let late = late.filter(|late| late.decision == Decision::Sampled);
        spans.extend(late.map(|late| KeptSpan {
            handle: late.handle,
            threshold: late.threshold(),
        }));
        spans.sort_unstable_by_key(|span| span.handle);
        let mut list = None;
        let (mut previous, mut n_spans) = (Position::MIN, 0_u64);
        for part in spans.chunks(KEPT_PER_RECORD_MAX) {
            n_spans = n_spans.saturating_add(part.len() as u64);
            let kept = Kept {
                sequence,
                previous,
                n_spans,
                n_bytes,
                spans: part.to_vec(),
            };
            let mut bytes = Vec::new();
            kept.write(&mut bytes);
            previous = self.wal.append(&[&bytes])?;
            list = Some(KeptList {
                position: previous,
                n_spans,
                n_bytes,
            });
        }
        Ok(list)
    }

    /// What a release holds, per segment. Late spans were held as pending until now.
    fn hold_as_recorded(
        &mut self,
        decided: &[Decided],
        late: &[LateSpan],
        aside: &[SideItem],
    ) -> SegmentCounts {
        let mut counter = pressure::count(decided);
        let mut late_counter = SegmentCounter::default();
        for span in late {
            late_counter.count(span.handle.position);
            counter.count(span.handle.position);
        }
        side_lane::count(aside, &mut counter);
        let late = late_counter.into_counts();
        self.pending.remove(&late);
        self.decided.add_all(&late);
        counter.into_counts()
    }
}

/// A sampled trace is released with all its spans, any other with its root and its request spans.
fn released_spans(decided: &mut Decided) -> Vec<PendingSpan> {
    let mut spans = std::mem::take(&mut decided.spans);
    if decided.decision != Decision::Sampled {
        let root = decided.summary.root;
        spans.retain(|span| span.is_request || root == Some(span.handle));
        // Many may wait for long.
        spans.shrink_to_fit();
    }
    spans
}
