//! What the log needs of the sampler: where undecided spans are, and how a replay repeats what was.

use otlp::TraceId;
use otlp::span::{SpanSummary, StatusCode};

use super::{ResourceFacts, Sampler};
use crate::decision::{Decided, Observed, PolicyIndex, RecordedDecision, SpanHandle};
use crate::spans::Reports;
use crate::verdict::Judgement;

impl Sampler {
    /// Where undecided spans are whose record is before this position, in no order. Looks at every undecided span.
    pub fn pending_before(&self, position: u64, out: &mut Vec<SpanHandle>) {
        let handles = self.pending.iter().flat_map(|trace| trace.spans.handles());
        out.extend(handles.filter(|handle| handle.position < position));
    }

    /// The bytes of an undecided span have another place now. Gives the one before; `None` if it is not pending.
    pub fn relocate(
        &mut self,
        summary: &SpanSummary<'_>,
        handle: SpanHandle,
    ) -> Option<SpanHandle> {
        let slot = self.pending.find(&summary.trace_id)?;
        let (trace, hash) = self.pending.trace_and_hash(slot);
        let place = trace.spans.find(summary.span_id, hash)?;
        Some(trace.replace(place, handle))
    }

    /// Recovery: takes note of a span that was received at this time, although its record is a later one. Its trace
    /// waits from that time on.
    pub fn observe_carried(
        &mut self,
        facts: &ResourceFacts,
        span: &[u8],
        summary: &SpanSummary<'_>,
        handle: SpanHandle,
        reports: Reports,
        received_unix_nano: u64,
    ) -> Observed {
        let observed = self.observe(facts, span, summary, handle, reports, received_unix_nano);
        if matches!(observed, Observed::Pending | Observed::Overflow)
            && let Some(slot) = self.pending.find(&summary.trace_id)
        {
            let trace = self.pending.trace_mut(slot);
            trace.first_seen_unix_nano = trace.first_seen_unix_nano.min(received_unix_nano);
            let due_unix_nano = self.due_after_first(received_unix_nano);
            self.pending.hasten(slot, due_unix_nano);
        }
        observed
    }

    /// Does a late span of this trace lose its `th`, because the other spans were given another one?
    pub fn erases_late_threshold(&mut self, trace_id: &TraceId) -> bool {
        let remembered = self.decided.recall(trace_id);
        remembered.is_some_and(|remembered| remembered.changes_threshold)
    }

    /// Recovery: a span followed the decision on its trace, as it was recorded, and is not observed.
    pub fn recall_late(&mut self, summary: &SpanSummary<'_>) {
        let is_error = summary.status_code == StatusCode::Error;
        self.recent
            .add_late(summary.trace_id, summary.span_id, is_error);
    }

    /// On replay: what comes of this trace is pending, whatever is remembered of it, as when it was received.
    ///
    /// What is remembered depends on all decisions before, of which a replay may know fewer.
    pub fn reopen(&mut self, trace_id: TraceId, now_unix_nano: u64) {
        if self.pending.find(&trace_id).is_none() {
            self.open(trace_id, now_unix_nano);
        }
    }

    /// Recovery: decides a trace as it was decided before, with the spans observed so far.
    ///
    /// A trace that is not pending is only remembered: its spans were released before.
    pub fn apply(&mut self, recorded: &RecordedDecision<'_>, out: &mut Vec<Decided>) {
        let judgement = Judgement {
            decision: recorded.decision,
            policy: recorded.policy.and_then(|name| self.intern_policy(name)),
            adjusted_count: recorded.adjusted_count,
            threshold: recorded.threshold,
        };
        match self.pending.take_by_id(&recorded.trace_id) {
            Some(trace) => out.push(self.close(trace, recorded.trigger, judgement)),
            None => self.remember(recorded.trace_id, judgement),
        }
    }

    /// `None` if a log names more policies than there are numbers for.
    pub(super) fn intern_policy(&mut self, name: &str) -> Option<PolicyIndex> {
        if let Some(idx) = self.policy_names.iter().position(|known| **known == *name) {
            return u16::try_from(idx).ok().map(PolicyIndex);
        }
        let idx = u16::try_from(self.policy_names.len()).ok()?;
        self.policy_names.push(name.into());
        Some(PolicyIndex(idx))
    }
}
