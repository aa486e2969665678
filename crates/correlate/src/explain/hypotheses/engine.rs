//! Hypotheses about the engine: others' prompts, the KV cache, the queue.

use super::{Cause, FactRows, FactSource, Hypothesis, Standing, Strength, fact, samples_of};
use crate::explain::{
    EngineSample, Facts, Neighbour,
    phases::{Phase, PhaseTime},
};

/// Prompts of this length take several steps, in which others wait.
const LONG_PROMPT_TOKENS: i64 = 8_192;

/// Share of the excess that others' prefills must cover.
const COVERED_MIN: f64 = 0.3;

/// Use of the KV cache at which there is no room for another prompt.
const KV_FULL: f64 = 0.9;

/// Of the most requests that ever ran at once: then all slots are taken.
const SLOTS_FULL: f64 = 0.95;

pub(super) fn judge(facts: &Facts, slow: PhaseTime, open: &mut Vec<String>) -> Vec<Hypothesis> {
    let samples = samples_of(&facts.engine_samples, slow);
    if samples.is_empty() {
        open.push("nothing can be said about the engine's queue and KV cache: no sample of it is near that time".to_owned());
    }
    let mut all = vec![
        long_prefill(&facts.neighbours, slow),
        kv_cache(samples, facts.running_max, slow.phase),
    ];
    all.push(if slow.phase == Phase::Queue {
        queueing(samples, slow)
    } else {
        saturated(samples)
    });
    all
}

/// Nanoseconds of the phase in which some long prompt was computed.
fn covered(neighbours: &[Neighbour], slow: PhaseTime) -> (i64, Vec<&Neighbour>) {
    let mut long: Vec<&Neighbour> = neighbours
        .iter()
        .filter(|other| {
            other.input_tokens >= LONG_PROMPT_TOKENS
                && other.prefill_from_unix_nano < slow.end_unix_nano
                && other.prefill_to_unix_nano > slow.start_unix_nano
        })
        .collect();
    long.sort_by_key(|other| other.prefill_from_unix_nano);
    let (mut total, mut reached) = (0, slow.start_unix_nano);
    for other in &long {
        let from = other.prefill_from_unix_nano.max(reached);
        let to = other.prefill_to_unix_nano.min(slow.end_unix_nano);
        total += (to - from).max(0);
        reached = reached.max(to);
    }
    (total, long)
}

fn long_prefill(neighbours: &[Neighbour], slow: PhaseTime) -> Hypothesis {
    let hypothesis = Hypothesis::new(Cause::LongPrefill);
    let (nanos, long) = covered(neighbours, slow);
    let seconds = nanos as f64 / 1e9;
    let Some(longest) = long.iter().max_by_key(|other| other.input_tokens) else {
        let text = format!(
            "no prompt of {LONG_PROMPT_TOKENS} tokens or more was computed on the engine then"
        );
        return hypothesis.contradicted(fact(Strength::CoTemporal, FactRows::Neighbours, text));
    };
    let said = fact(
        Strength::CoTemporal,
        FactSource::one(FactRows::Neighbours, &longest.request_id),
        format!(
            "prompts of up to {} tokens were computed on the engine during {seconds:.3} s of the phase",
            longest.input_tokens
        ),
    );
    if seconds >= slow.excess_s() * COVERED_MIN {
        hypothesis.supported(said)
    } else {
        hypothesis.contradicted(said)
    }
}

fn largest(samples: &[EngineSample], pick: impl Fn(&EngineSample) -> Option<f64>) -> Option<f64> {
    samples.iter().filter_map(pick).reduce(f64::max)
}

/// A full cache holds up the queue where there were slots left; where all were taken, it was the slots.
fn kv_cache(samples: &[EngineSample], running_max: Option<f64>, phase: Phase) -> Hypothesis {
    let hypothesis = Hypothesis::new(Cause::KvCache);
    let Some(usage) = largest(samples, |sample| sample.kv_cache_usage) else {
        return hypothesis;
    };
    let preemptions: f64 = samples.iter().filter_map(|sample| sample.preemptions).sum();
    let running: Vec<f64> = samples.iter().filter_map(|sample| sample.running).collect();
    let mean = (!running.is_empty()).then(|| running.iter().sum::<f64>() / running.len() as f64);
    let said = fact(
        Strength::CoTemporal,
        FactRows::EngineSamples,
        format!(
            "KV cache in use up to {:.0} %, {preemptions:.0} preemptions",
            usage * 100.0
        ),
    );
    if usage < KV_FULL {
        return hypothesis.contradicted(said);
    }
    match mean.zip(running_max) {
        Some((mean, most)) if phase == Phase::Queue && mean >= most * SLOTS_FULL => {
            let text = format!(
                "{mean:.1} requests ran on average, of {most:.0} at most ever: slots were missing, not room"
            );
            let mut hypothesis =
                hypothesis.contradicted(fact(Strength::CoTemporal, FactRows::EngineSamples, text));
            hypothesis.facts_for.push(said);
            hypothesis
        }
        Some(_) | None => hypothesis.supported(said),
    }
}

fn queueing(samples: &[EngineSample], slow: PhaseTime) -> Hypothesis {
    let waited = fact(
        Strength::Observed,
        FactRows::Request,
        format!(
            "waited {:.3} s in the engine's queue, usually {:.3} s",
            slow.seconds,
            slow.usual_s.unwrap_or(0.0)
        ),
    );
    let mut hypothesis = Hypothesis::new(Cause::Queueing).supported(waited);
    let waiting = largest(samples, |sample| sample.waiting);
    let running = largest(samples, |sample| sample.running);
    let preemptions: f64 = samples.iter().filter_map(|sample| sample.preemptions).sum();
    if let Some(waiting) = waiting {
        let text = format!(
            "up to {waiting:.0} requests waited and {:.0} ran, {preemptions:.0} preemptions",
            running.unwrap_or(0.0)
        );
        let said = fact(Strength::CoTemporal, FactRows::EngineSamples, text);
        if waiting >= 1.0 {
            hypothesis.facts_for.push(said);
        } else {
            // The request says that it waited, the engine that nobody did: what held it was something else.
            hypothesis.facts_against.push(said);
            hypothesis.standing = Standing::Undecided;
        }
    }
    hypothesis
}

/// While others wait, every slot is taken, and steps are as long as they get. Somebody who waits for a step now and then
/// does not show that: it must have been so at most samples.
fn saturated(samples: &[EngineSample]) -> Hypothesis {
    let hypothesis = Hypothesis::new(Cause::Queueing);
    let waiting: Vec<f64> = samples.iter().filter_map(|sample| sample.waiting).collect();
    if waiting.is_empty() {
        return hypothesis;
    }
    let n_samples = waiting.len();
    let n_waiting = waiting.iter().filter(|waiting| **waiting >= 1.0).count();
    let running = largest(samples, |sample| sample.running).unwrap_or(0.0);
    let text = format!(
        "up to {running:.0} requests ran at once, and in {n_waiting} of {n_samples} samples others waited"
    );
    let said = fact(Strength::CoTemporal, FactRows::EngineSamples, text);
    if n_waiting * 2 > n_samples {
        hypothesis.supported(said)
    } else {
        hypothesis.contradicted(said)
    }
}
