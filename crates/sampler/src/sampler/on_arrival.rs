//! The strategy `span-ingest`: policies judge each batch of a trace as it arrives.

use otlp::span::SpanSummary;

use super::Sampler;
use crate::arrival::Arrival;
use crate::atoms::AtomSet;
use crate::pending::{Slot, Trace};
use crate::services::Services;
use crate::verdict::{Evidence, Policies};

impl Sampler {
    /// Judges what came of a trace, and puts it back to its due time if that decides nothing.
    pub(super) fn is_ready_on_arrival(&mut self, slot: Slot, now_unix_nano: u64) -> bool {
        let trace = self.pending.trace_mut(slot);
        judge_batch(&mut self.policies, &self.services, trace, now_unix_nano);
        let is_too_large = self.trace_bytes_max.is_some_and(|max| trace.n_bytes > max);
        match &trace.arrival {
            Some(arrival) if !is_too_large => match arrival.waits_until(now_unix_nano) {
                Some(due_unix_nano) => {
                    self.pending.postpone(slot, due_unix_nano);
                    false
                }
                None => true,
            },
            Some(_) | None => true,
        }
    }

    /// Does the trace have this span, or a version of it that stays? A batch of copies is none: without
    /// spans it would satisfy whatever is satisfied by nothing.
    pub(super) fn is_copy(&mut self, slot: Slot, summary: &SpanSummary<'_>) -> bool {
        let (trace, hash) = self.pending.trace_and_hash(slot);
        let place = trace.spans.find(summary.span_id, hash);
        place.is_some_and(|place| !trace.spans.is_superseded(place, summary))
    }

    /// Sees to it that the spans of a batch are judged together and alone.
    pub(super) fn begin_batch(&mut self, slot: Slot, batch: u32, now_unix_nano: u64) {
        let trace = self.pending.trace_mut(slot);
        match &trace.arrival {
            Some(arrival) if arrival.is_of(batch) => return,
            Some(_) => judge_batch(&mut self.policies, &self.services, trace, now_unix_nano),
            None => trace.arrival = Some(Box::new(Arrival::new(trace.due_unix_nano))),
        }
        trace.atoms = AtomSet::EMPTY;
        if let Some(arrival) = &mut trace.arrival {
            arrival.begin(batch);
        }
    }
}

/// Asks the policies about the batch that came last, if they have not been.
pub(super) fn judge_batch(
    policies: &mut Policies,
    services: &Services,
    trace: &mut Trace,
    now_unix_nano: u64,
) {
    if let Some(duration_ns) = trace
        .arrival
        .as_ref()
        .and_then(|arrival| arrival.open_duration_ns())
    {
        let verdict =
            policies.judge_on_arrival(Evidence::of(trace, services, duration_ns, now_unix_nano));
        if let Some(arrival) = &mut trace.arrival {
            arrival.close(verdict);
        }
    }
}
