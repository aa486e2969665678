//! Hypotheses about the request's own prompt: how much of it was computed, and why so much.
//!
//! Requests like it have prompts of the same band, which differ by up to a factor of two, and some of each may come out
//! of the prefix cache. Prefill takes time by the tokens that are computed; so many more tokens explain so much more time,
//! and whether they were not cached or not usual tells the two causes apart.

use super::{Cause, FactRows, Hypothesis, SHARE_MIN, Strength, fact};
use crate::explain::{Facts, phases::PhaseTime};

/// A share of the prompt out of the cache that is lower than the usual by this much is a drop.
const DROP_MIN: f64 = 0.1;

pub(super) fn judge(facts: &Facts, slow: PhaseTime) -> Vec<Hypothesis> {
    let (cache, length) = (
        Hypothesis::new(Cause::PrefixCache),
        Hypothesis::new(Cause::InputLength),
    );
    let engine = facts.engine.as_ref();
    let tokens = engine.and_then(|engine| engine.input_tokens);
    let Some((tokens, usual)) = tokens.zip(facts.cohort.input_tokens) else {
        return vec![cache, length];
    };
    let tokens = tokens as f64;
    let share = engine
        .and_then(|engine| engine.cached_tokens)
        .filter(|_| tokens > 0.0)
        .map(|cached| cached as f64 / tokens);
    let shares = share.zip(facts.cohort.cached_share);
    vec![
        cache_drop(cache, tokens, shares, slow),
        longer(length, tokens, usual, slow),
    ]
}

/// Does `ratio` times the usual time explain half of what is above it?
fn explains(ratio: f64, slow: PhaseTime) -> bool {
    let more = slow.usual_s.unwrap_or(0.0) * (ratio - 1.0);
    more > 0.0 && more >= slow.excess_s() * SHARE_MIN
}

fn cache_drop(
    hypothesis: Hypothesis,
    tokens: f64,
    shares: Option<(f64, f64)>,
    slow: PhaseTime,
) -> Hypothesis {
    let Some((share, usual)) = shares else {
        return hypothesis;
    };
    let said = fact(
        Strength::Observed,
        FactRows::Request,
        format!(
            "{:.0} % of its {tokens:.0} prompt tokens came out of the prefix cache, usually {:.0} %",
            share * 100.0,
            usual * 100.0
        ),
    );
    if usual - share < DROP_MIN {
        return hypothesis.contradicted(said);
    }
    // Of a prompt that is usually cached whole, one token is computed.
    let usually_computed = (tokens * (1.0 - usual)).max(1.0);
    if explains(tokens * (1.0 - share) / usually_computed, slow) {
        hypothesis.supported(said)
    } else {
        Hypothesis {
            facts_for: vec![said],
            ..hypothesis
        }
    }
}

fn longer(hypothesis: Hypothesis, tokens: f64, usual: f64, slow: PhaseTime) -> Hypothesis {
    let text = format!("its prompt has {tokens:.0} tokens, usually {usual:.0}");
    let said = fact(Strength::Observed, FactRows::Request, text);
    if usual > 0.0 && explains(tokens / usual, slow) {
        hypothesis.supported(said)
    } else {
        hypothesis.contradicted(said)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Standing;
    use super::{Facts, PhaseTime, judge};
    use crate::explain::{Cohort, EngineFact, Phase};

    /// A prefill of `seconds`, usually 0.4 s for 4,000 tokens of which 3,000 are cached.
    fn standings(seconds: f64, tokens: i64, cached: Option<i64>) -> [Standing; 2] {
        let facts = Facts {
            engine: Some(EngineFact {
                input_tokens: Some(tokens),
                cached_tokens: cached,
                ..EngineFact::default()
            }),
            cohort: Cohort {
                input_tokens: Some(4_000.0),
                cached_share: Some(0.75),
                ..Cohort::default()
            },
            ..Facts::default()
        };
        let slow = PhaseTime {
            phase: Phase::Prefill,
            start_unix_nano: 0,
            end_unix_nano: 0,
            seconds,
            usual_s: Some(0.4),
        };
        let judged = judge(&facts, slow);
        [judged[0].standing, judged[1].standing]
    }

    #[test]
    fn what_was_not_in_the_cache_is_told_from_what_is_longer() {
        use Standing::{Contradicted, Supported, Undecided};
        // Nothing cached: four times the usual.
        assert_eq!(standings(1.6, 4_000, Some(0)), [Supported, Contradicted]);
        // Twice as long, and as much of it cached.
        assert_eq!(
            standings(0.8, 8_000, Some(6_000)),
            [Contradicted, Supported]
        );
        // Neither explains ten seconds.
        assert_eq!(standings(10.0, 4_000, Some(0)), [Undecided, Contradicted]);
        assert_eq!(standings(1.6, 4_000, None), [Undecided, Contradicted]);
        assert_eq!(standings(1.6, 0, Some(0))[0], Undecided);
    }

    #[test]
    fn without_tokens_nothing_is_said() {
        let slow = PhaseTime {
            phase: Phase::Prefill,
            start_unix_nano: 0,
            end_unix_nano: 0,
            seconds: 1.0,
            usual_s: None,
        };
        for hypothesis in judge(&Facts::default(), slow) {
            assert_eq!(hypothesis.standing, Standing::Undecided);
            assert!(hypothesis.facts_for.is_empty() && hypothesis.facts_against.is_empty());
        }
    }
}
