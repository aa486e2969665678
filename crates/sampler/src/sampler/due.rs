//! When a trace is decided, and what it waits for.

use std::time::Duration;

use otlp::TraceId;
use otlp::span::SpanSummary;

use super::Sampler;
use crate::decided::Remembered;
use crate::decision::{Decided, Decision, Observed, SpanHandle, Trigger};
use crate::pending::{Slot, Trace};
use crate::verdict::Judgement;

impl Sampler {
    /// From a trace's first span to its decision at least, unless a limit or a policy hastens it.
    #[must_use]
    pub fn shortest_wait(&self) -> Duration {
        Duration::from_nanos(match &self.rules {
            Some(rules) => rules.shortest(),
            None => {
                let root_wait_nanos = self.root_wait_nanos.unwrap_or(u64::MAX);
                root_wait_nanos.min(self.decision_wait_nanos)
            }
        })
    }

    /// Opens a trace whose first span arrives.
    pub(super) fn open(&mut self, trace_id: TraceId, now_unix_nano: u64) -> Slot {
        let due_unix_nano = self.due_after_first(now_unix_nano);
        self.pending.open(trace_id, now_unix_nano, due_unix_nano)
    }

    /// When a trace is to be looked at whose first span arrives then.
    pub(super) fn due_after_first(&self, first_seen_unix_nano: u64) -> u64 {
        match &self.rules {
            Some(rules) => rules.first_due(first_seen_unix_nano),
            None => first_seen_unix_nano.saturating_add(self.decision_wait_nanos),
        }
    }

    /// Sees to the due time of a trace with a new span.
    pub(super) fn schedule(
        &mut self,
        slot: Slot,
        summary: &SpanSummary<'_>,
        handle: SpanHandle,
        now_unix_nano: u64,
    ) {
        let is_root = summary.parent_span_id.is_none();
        let trace = self.pending.trace_mut(slot);
        if is_root {
            trace.add_root(summary.start_time_unix_nano, handle);
        }
        if let Some(rules) = &self.rules {
            rules.note_span(trace, is_root, now_unix_nano);
        } else if let Some(root_wait_nanos) = self.root_wait_nanos
            && is_root
        {
            let due_unix_nano = now_unix_nano.saturating_add(root_wait_nanos);
            let is_sooner = match &mut trace.arrival {
                Some(arrival) => arrival.hasten(due_unix_nano),
                None => self.pending.hasten(slot, due_unix_nano),
            };
            if is_sooner {
                self.pending.trace_mut(slot).is_due_by_root = true;
            }
        }
        self.rearm(slot);
        if self.is_too_large(self.pending.trace(slot)) {
            self.pending.hasten(slot, now_unix_nano);
        }
    }

    /// Moves the timer of a trace forward, if a span that has come makes it due sooner: by a `trigger` rule, or because
    /// it waits for others and need not any more.
    pub(super) fn rearm(&mut self, slot: Slot) {
        let trace = self.pending.trace_mut(slot);
        let links = self.links.as_ref().filter(|_| trace.has_links);
        let waits_since = links.and_then(|links| links.waits_since(&trace.trace_id));
        let due = self.rules.as_ref().map(|rules| {
            rules.note_matches(trace, &self.policies, &self.services);
            rules.due(trace, &self.policies, &self.services).0
        });
        if let Some(due_unix_nano) = due.into_iter().chain(waits_since).min() {
            self.pending.hasten(slot, due_unix_nano);
        }
    }

    pub(super) fn is_too_large(&self, trace: &Trace) -> bool {
        self.trace_bytes_max.is_some_and(|max| trace.n_bytes > max)
    }

    /// Decides what is due, in order of due time, at most `max_traces` traces; then, while more
    /// than `num_traces` are undecided, those that are due next.
    ///
    /// Those due next are those whose decision is nearest anyway: the oldest, or traces whose root
    /// has arrived and which are likely to be complete.
    ///
    /// With a `budget` what is due is decided once a second, and then all of it.
    pub fn tick(&mut self, now_unix_nano: u64, max_traces: usize, out: &mut Vec<Decided>) {
        if self.rounds.is_some() {
            return self.tick_in_rounds(now_unix_nano, out);
        }
        let mut n_decided = 0;
        while n_decided < max_traces {
            if let Some(slot) = self.pending.first_due(now_unix_nano) {
                if !self.is_ready(slot, now_unix_nano) {
                    continue;
                }
                let trigger = self.trigger_of(self.pending.trace(slot));
                let trace = self.pending.take(slot);
                out.push(self.decide(trace, trigger, now_unix_nano));
            } else if self.pending.len() <= self.n_traces_max
                || !self.decide_next(Trigger::Memory, now_unix_nano, out)
            {
                return;
            }
            n_decided += 1;
        }
    }

    /// Decides the trace that is due next, early, for this reason; is there one?
    pub fn decide_next(
        &mut self,
        trigger: Trigger,
        now_unix_nano: u64,
        out: &mut Vec<Decided>,
    ) -> bool {
        let Some(trace) = self.take_next() else {
            return false;
        };
        self.decide_alone(trace, trigger, now_unix_nano, out);
        true
    }

    /// Decides the oldest traces that have a span in a record before this position, early, for this reason, at most
    /// `max_traces`; how many?
    ///
    /// The trace that is due next need not be one of them: with `trigger` rules a long one may be due last. Looks at
    /// every undecided trace.
    pub fn decide_before(
        &mut self,
        position: u64,
        max_traces: usize,
        trigger: Trigger,
        now_unix_nano: u64,
        out: &mut Vec<Decided>,
    ) -> usize {
        let is_before = |handle: SpanHandle| handle.position < position;
        let of = |trace: &Trace| (trace.first_seen_unix_nano, trace.trace_id);
        let begins = |trace: &&Trace| trace.spans.handles().next().is_some_and(is_before);
        let mut oldest: Vec<_> = self.pending.iter().filter(begins).map(of).collect();
        if oldest.is_empty() {
            // A first span can have moved, to where it was carried or to a copy of it.
            let has_any = |trace: &&Trace| trace.spans.handles().any(is_before);
            oldest.extend(self.pending.iter().filter(has_any).map(of));
        }
        oldest.sort_unstable();
        oldest.truncate(max_traces);
        for (_, trace_id) in &oldest {
            if let Some(trace) = self.pending.take_by_id(trace_id) {
                self.decide_alone(trace, trigger, now_unix_nano, out);
            }
        }
        oldest.len()
    }

    /// Shutdown: decides everything that is pending, on what is there, or as not sampled with
    /// `drop_pending_traces_on_shutdown`.
    pub fn drain(&mut self, now_unix_nano: u64, out: &mut Vec<Decided>) {
        if self.rounds.is_some() && !self.drops_pending_on_shutdown {
            return self.drain_in_rounds(now_unix_nano, out);
        }
        self.tick(now_unix_nano, usize::MAX, out);
        while let Some(trace) = self.take_next() {
            out.push(if self.drops_pending_on_shutdown {
                self.close(trace, Trigger::Shutdown, Judgement::NOT_SAMPLED)
            } else {
                self.decide(trace, Trigger::Shutdown, now_unix_nano)
            });
        }
    }

    /// Takes out the trace that is due next.
    pub(super) fn take_next(&mut self) -> Option<Trace> {
        loop {
            let slot = self.pending.first()?;
            let trace = self.pending.trace(slot);
            match &self.rules {
                Some(rules) if !self.is_too_large(trace) => {
                    let (due_unix_nano, _) = rules.due(trace, &self.policies, &self.services);
                    if due_unix_nano > trace.due_unix_nano {
                        self.pending.postpone(slot, due_unix_nano);
                        continue;
                    }
                }
                Some(_) | None => {}
            }
            return Some(self.pending.take(slot));
        }
    }

    /// Is a trace to be decided whose timer is due? If not, its timer is set to when it may be.
    pub(super) fn is_ready(&mut self, slot: Slot, now_unix_nano: u64) -> bool {
        if self.judges_on_arrival {
            return self.is_ready_on_arrival(slot, now_unix_nano);
        }
        let trace = self.pending.trace(slot);
        if self.is_too_large(trace) {
            return true;
        }
        let timer_unix_nano = trace.due_unix_nano;
        let (mut due_unix_nano, mut latest_unix_nano) = (timer_unix_nano, u64::MAX);
        if let Some(rules) = &self.rules {
            (due_unix_nano, _) = rules.due(trace, &self.policies, &self.services);
            latest_unix_nano = rules.latest(trace);
        }
        if due_unix_nano <= timer_unix_nano
            && trace.has_links
            && let Some(links) = &mut self.links
            && let Some(until) = links.waits_until(
                trace,
                (&self.policies, &self.services),
                due_unix_nano,
                latest_unix_nano,
            )
        {
            due_unix_nano = until;
        }
        // Also where that has passed, so that traces are decided in the order of their due times.
        if due_unix_nano > timer_unix_nano {
            self.pending.postpone(slot, due_unix_nano);
            return false;
        }
        true
    }

    /// Why a trace that is due is decided now.
    pub(super) fn trigger_of(&self, trace: &Trace) -> Trigger {
        match &self.rules {
            Some(rules) => rules.due(trace, &self.policies, &self.services).1,
            None if trace.is_due_by_root => Trigger::RootEnded,
            None => Trigger::Waited,
        }
    }

    /// Takes note of the links of a span of an undecided trace.
    pub(super) fn note_links(&mut self, slot: Slot, span: &[u8]) {
        let Some(links) = &mut self.links else {
            return;
        };
        let trace = self.pending.trace_mut(slot);
        let targets = otlp::span::links(span).filter_map(|link| link.ok()?.trace_id);
        for target in targets.filter(|target| *target != trace.trace_id) {
            trace.has_links = true;
            links.add(trace.trace_id, target, self.decided.peek(&target));
        }
    }

    /// A span that follows the decision "not sampled" may link to a trace that was kept.
    pub(super) fn note_late_links(
        &mut self,
        observed: Observed,
        span: &[u8],
        summary: &SpanSummary<'_>,
    ) {
        if let Observed::Late(Decision::NotSampled, _) = observed
            && summary.has_links
            && let Some(links) = &mut self.links
        {
            let mut targets = otlp::span::links(span).filter_map(|link| link.ok()?.trace_id);
            let is_kept = |target| {
                self.decided
                    .peek(&target)
                    .is_some_and(Remembered::is_pulling)
            };
            links.counts.n_late += u64::from(targets.any(is_kept));
        }
    }

    /// Lets go on the traces that waited for this decision.
    pub(super) fn settle_links(&mut self, trace_id: TraceId, remembered: Remembered) {
        if let Some(links) = &mut self.links {
            links.settle(trace_id, remembered, |waiting, due_unix_nano| {
                if let Some(slot) = self.pending.find(&waiting) {
                    self.pending.hasten(slot, due_unix_nano);
                }
            });
        }
    }

    /// Keeps a trace that links to a kept one, unless it is too large; gives the trigger.
    pub(super) fn pull(
        &mut self,
        trace: &Trace,
        trigger: Trigger,
        judgement: &mut Judgement,
    ) -> Trigger {
        let Some(links) = self.links.as_mut().filter(|_| trace.has_links) else {
            return trigger;
        };
        match trigger {
            Trigger::TooLarge => trigger,
            _ if !links.amend(&trace.trace_id, judgement) => trigger,
            Trigger::Memory | Trigger::Disk | Trigger::Shutdown => trigger,
            Trigger::RootEnded
            | Trigger::Waited
            | Trigger::Idle
            | Trigger::MaxWait
            | Trigger::Matched
            | Trigger::Late
            | Trigger::Budget
            | Trigger::Linked => Trigger::Linked,
        }
    }
}
