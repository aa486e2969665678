//! The steps that the request was in, and who was in them too.
//!
//! These are facts about the request itself, not about its time: the engine named who ran together. They do not decide a
//! hypothesis, because steps are often known only in part; they stand beside what does.

use super::{Cause, FactRows, Hypothesis, Phase, PhaseTime, Strength, hypotheses::fact};

/// Tokens of another in one step from which on it is a prompt that is computed there.
const PROMPT_TOKENS: i64 = 256;

/// A step that the request was in: a row of `batches`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchFact {
    /// Its start, nanoseconds since 1970.
    pub start_unix_nano: Option<i64>,
    /// Its length.
    pub duration_ns: Option<i64>,
    /// The request's share of it.
    pub share_ns: Option<i64>,
    /// Does the share rest on an assumption?
    pub estimated: bool,
    /// Participants, named or not.
    pub participant_count: Option<i64>,
    /// Most tokens of another participant.
    pub other_tokens_max: Option<i64>,
    /// That one's request id, or its trace.
    pub other: Option<String>,
}

/// Another request and what it shared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Companion {
    /// Its request id, or its trace.
    pub name: String,
    /// Steps that both were in.
    pub n_batches: i64,
    /// Its tokens in them, where known.
    pub tokens: Option<i64>,
}

/// What `batches` says of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchFacts {
    /// Its steps, in order of time.
    pub batches: Vec<BatchFact>,
    /// Others in them, those with most tokens first.
    pub companions: Vec<Companion>,
}

/// The steps of a request together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchSums {
    /// Steps.
    pub n_batches: usize,
    /// Time of all steps whose length is known.
    pub duration_ns: i64,
    /// The request's share of it, where known.
    pub share_ns: i64,
    /// Part of the share that rests on an assumption.
    pub estimated_ns: i64,
    /// Steps of which its share is not known.
    pub n_unshared: usize,
    /// Most participants of one.
    pub participants_max: Option<i64>,
}

impl BatchFacts {
    /// All steps together; `None` where none is known.
    #[must_use]
    pub fn sums(&self) -> Option<BatchSums> {
        if self.batches.is_empty() {
            return None;
        }
        let mut sums = BatchSums {
            n_batches: self.batches.len(),
            ..BatchSums::default()
        };
        for batch in &self.batches {
            let share = batch.share_ns.unwrap_or(0);
            let duration = batch.duration_ns.unwrap_or(0);
            sums.duration_ns = sums.duration_ns.saturating_add(duration);
            sums.share_ns = sums.share_ns.saturating_add(share);
            if batch.estimated {
                sums.estimated_ns = sums.estimated_ns.saturating_add(share);
            }
            sums.n_unshared += usize::from(batch.share_ns.is_none());
            sums.participants_max = sums.participants_max.max(batch.participant_count);
        }
        Some(sums)
    }
}

/// Puts what was observed in the steps of the slow phase beside the hypothesis that it speaks about.
pub(super) fn observe(facts: &BatchFacts, slow: PhaseTime, hypotheses: &mut [Hypothesis]) {
    if !matches!(slow.phase, Phase::Prefill | Phase::Decode) {
        return;
    }
    let within = facts.batches.iter().filter(|batch| {
        let is_in = |start: i64| (slow.start_unix_nano..slow.end_unix_nano).contains(&start);
        batch.start_unix_nano.is_some_and(is_in)
    });
    let (mut n, mut n_long, mut nanos) = (0_usize, 0_usize, 0_i64);
    let mut longest: Option<(i64, &str)> = None;
    for batch in within {
        n += 1;
        let Some(tokens) = batch
            .other_tokens_max
            .filter(|tokens| *tokens >= PROMPT_TOKENS)
        else {
            continue;
        };
        n_long += 1;
        nanos = nanos.saturating_add(batch.duration_ns.unwrap_or(0));
        if longest.is_none_or(|(most, _)| tokens > most) {
            longest = Some((tokens, batch.other.as_deref().unwrap_or("another request")));
        }
    }
    let found = hypotheses
        .iter_mut()
        .find(|hypothesis| hypothesis.cause == Cause::LongPrefill);
    let (Some((tokens, other)), Some(hypothesis)) = (longest, found) else {
        return;
    };
    let text = format!(
        "{n_long} of its {n} steps in the phase also computed prompts of others, {:.3} s in all; up to {tokens} tokens, of {other}",
        nanos as f64 / 1e9
    );
    let said = fact(Strength::Observed, FactRows::Batches, text);
    hypothesis.facts_for.push(said);
}

#[cfg(test)]
mod tests {
    use super::{BatchFact, BatchFacts, observe};
    use crate::explain::{Cause, Hypothesis, Phase, PhaseTime, Standing, Strength};

    fn facts() -> BatchFacts {
        let step = |start: i64, others: Option<i64>, share: Option<i64>| BatchFact {
            start_unix_nano: Some(start),
            duration_ns: Some(500_000_000),
            share_ns: share,
            estimated: others.is_none(),
            participant_count: Some(3 + start),
            other_tokens_max: others,
            other: Some("long-one".to_owned()),
        };
        BatchFacts {
            batches: vec![
                step(1, Some(1), Some(100)),
                step(2, Some(2_000), Some(20)),
                step(3, None, Some(30)),
                step(90, Some(4_000), None),
            ],
            companions: Vec::new(),
        }
    }

    #[test]
    fn sums_say_what_is_known_and_how_much_is_not() {
        let sums = facts().sums().unwrap();
        assert_eq!((sums.n_batches, sums.n_unshared), (4, 1));
        assert_eq!(
            (sums.duration_ns, sums.share_ns, sums.estimated_ns),
            (2_000_000_000, 150, 30)
        );
        assert_eq!(sums.participants_max, Some(93));
        assert_eq!(BatchFacts::default().sums(), None);
    }

    #[test]
    fn steps_with_prompts_of_others_are_observed_and_decide_nothing() {
        let slow = |phase| PhaseTime {
            phase,
            start_unix_nano: 0,
            end_unix_nano: 50,
            seconds: 1.0,
            usual_s: None,
        };
        let mut all = [
            Hypothesis::new(Cause::KvCache),
            Hypothesis::new(Cause::LongPrefill),
        ];
        observe(&facts(), slow(Phase::Queue), &mut all);
        assert!(all[1].facts_for.is_empty());
        observe(&facts(), slow(Phase::Decode), &mut all);
        assert!(all[0].facts_for.is_empty());
        assert_eq!(all[1].standing, Standing::Undecided);
        let [said] = &all[1].facts_for[..] else {
            panic!("{all:?}");
        };
        assert_eq!(said.strength, Strength::Observed);
        assert_eq!(
            said.text,
            "1 of its 3 steps in the phase also computed prompts of others, 0.500 s in all; up to 2000 tokens, of long-one"
        );
    }
}
