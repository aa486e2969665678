//! Deciding in rounds, for a budget.

use super::Sampler;
use crate::budget::Candidate;
use crate::decided::Remembered;
use crate::decision::{Decided, Decision, Trigger};
use crate::pending::Trace;

impl Sampler {
    /// Decides everything that is due if it is time for a round; in any case what is more than `num_traces`.
    pub(super) fn tick_in_rounds(&mut self, now_unix_nano: u64, out: &mut Vec<Decided>) {
        let is_round = self
            .rounds
            .as_mut()
            .is_some_and(|rounds| rounds.begins(now_unix_nano));
        let mut candidates = Vec::new();
        while is_round && let Some(slot) = self.pending.first_due(now_unix_nano) {
            if !self.is_ready(slot, now_unix_nano) {
                continue;
            }
            let trigger = self.trigger_of(self.pending.trace(slot));
            let trace = self.pending.take(slot);
            candidates.push(self.candidate(trace, trigger, now_unix_nano));
        }
        while self.pending.len() > self.n_traces_max
            && let Some(trace) = self.take_next()
        {
            candidates.push(self.candidate(trace, Trigger::Memory, now_unix_nano));
        }
        self.settle(candidates, true, now_unix_nano, out);
    }

    /// Everything that is pending is the last round.
    pub(super) fn drain_in_rounds(&mut self, now_unix_nano: u64, out: &mut Vec<Decided>) {
        let mut candidates = Vec::new();
        loop {
            let (trace, trigger) = match self.pending.first_due(now_unix_nano) {
                Some(slot) => {
                    if !self.is_ready(slot, now_unix_nano) {
                        continue;
                    }
                    let trigger = self.trigger_of(self.pending.trace(slot));
                    (self.pending.take(slot), trigger)
                }
                None => match self.take_next() {
                    Some(trace) => (trace, Trigger::Shutdown),
                    None => break,
                },
            };
            candidates.push(self.candidate(trace, trigger, now_unix_nano));
        }
        self.settle(candidates, true, now_unix_nano, out);
    }

    fn candidate(&mut self, mut trace: Trace, trigger: Trigger, now_unix_nano: u64) -> Candidate {
        let (trigger, judged) = self.judge(&mut trace, trigger, now_unix_nano);
        Candidate {
            trace,
            trigger,
            judged,
            is_cut: false,
        }
    }

    /// Decides a trace that is in no round.
    pub(super) fn decide_alone(
        &mut self,
        trace: Trace,
        trigger: Trigger,
        now_unix_nano: u64,
        out: &mut Vec<Decided>,
    ) {
        if self.rounds.is_some() {
            let candidate = self.candidate(trace, trigger, now_unix_nano);
            self.settle(vec![candidate], false, now_unix_nano, out);
        } else {
            out.push(self.decide(trace, trigger, now_unix_nano));
        }
    }

    /// Decides them together, in the order in which they are given.
    fn settle(
        &mut self,
        mut candidates: Vec<Candidate>,
        is_ranked: bool,
        now_unix_nano: u64,
        out: &mut Vec<Decided>,
    ) {
        if let Some(rounds) = &mut self.rounds {
            rounds.cut(&mut candidates, is_ranked, now_unix_nano);
        }
        // Before one of them is closed: what links to a trace of this round may stand before it.
        for Candidate { trace, judged, .. } in &candidates {
            let remembered = Remembered::from(judged.judgement);
            self.settle_links(trace.trace_id, remembered);
        }
        for candidate in candidates {
            let mut judgement = candidate.judged.judgement;
            let mut trigger = self.pull(&candidate.trace, candidate.trigger, &mut judgement);
            if candidate.is_cut && judgement.decision == Decision::NotSampled {
                trigger = Trigger::Budget;
            }
            out.push(self.close(candidate.trace, trigger, judgement));
        }
    }
}
