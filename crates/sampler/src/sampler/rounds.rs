//! Deciding in rounds, for a budget.

use super::Sampler;
use crate::budget::Candidate;
use crate::decision::{Decided, Trigger};
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
            let trace = self.pending.take(slot);
            let trigger = trace.due_trigger();
            candidates.push(self.candidate(trace, trigger, now_unix_nano));
        }
        while self.pending.len() > self.n_traces_max
            && let Some(trace) = self.pending.take_next()
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
                    let trace = self.pending.take(slot);
                    let trigger = trace.due_trigger();
                    (trace, trigger)
                }
                None => match self.pending.take_next() {
                    Some(trace) => (trace, Trigger::Shutdown),
                    None => break,
                },
            };
            candidates.push(self.candidate(trace, trigger, now_unix_nano));
        }
        self.settle(candidates, true, now_unix_nano, out);
    }

    pub(super) fn candidate(
        &mut self,
        mut trace: Trace,
        trigger: Trigger,
        now_unix_nano: u64,
    ) -> Candidate {
        let (trigger, judged) = self.judge(&mut trace, trigger, now_unix_nano);
        Candidate {
            trace,
            trigger,
            judged,
        }
    }

    /// Decides them together, in the order in which they are given.
    pub(super) fn settle(
        &mut self,
        mut candidates: Vec<Candidate>,
        is_ranked: bool,
        now_unix_nano: u64,
        out: &mut Vec<Decided>,
    ) {
        if let Some(rounds) = &mut self.rounds {
            rounds.cut(&mut candidates, is_ranked, now_unix_nano);
        }
        for candidate in candidates {
            let Candidate {
                trace,
                trigger,
                judged,
            } = candidate;
            out.push(self.close(trace, trigger, judged.judgement));
        }
    }
}
