//! What a comparison cannot say, and why.

use super::blocks::BLOCKS_MIN;
use super::changes::{COHORT_REQUESTS_MIN, COHORTS_MAX, QUANTILES};
use super::quantile::requests_needed;
use super::samples::{Ended, Samples};
use super::{Comparison, Measure, Settings, Standing};

/// Of comparisons with an empty side.
pub(super) fn of_empty(comparison: &Comparison) -> Vec<String> {
    let names = ["before", "after"];
    let sides = names.iter().zip(comparison.n_requests);
    sides
        .filter(|(_, n)| *n == 0)
        .map(|(name, _)| format!("there is no request {name}: nothing can be compared"))
        .collect()
}

/// Of others.
pub(super) fn of(
    samples: &Samples,
    settings: &Settings,
    comparison: &Comparison,
    n_unbounded: [usize; QUANTILES.len()],
) -> Vec<String> {
    let mut open = Vec::new();
    about_time(comparison, &mut open);
    about_cohorts(samples, settings, comparison, &mut open);
    let unsaid = QUANTILES.into_iter().zip(n_unbounded);
    for (p, n) in unsaid.filter(|(_, n)| *n > 0) {
        open.push(format!(
            "p{:.0} of {n} latencies of cohorts cannot be said: it needs {:.0} independent requests on each side",
            p * 100.0,
            requests_needed(p, settings.confidence).ceil()
        ));
    }
    about_values(samples, comparison, &mut open);
    open
}

fn about_time(comparison: &Comparison, open: &mut Vec<String>) {
    let Some(cut) = comparison.cut else {
        return;
    };
    if cut.n_blocks.iter().any(|n| *n < BLOCKS_MIN) {
        open.push(format!(
            "the time is short for how long requests take: {} and {} blocks of time before and after are hardly enough to know \
             what chance does; compare longer stretches",
            cut.n_blocks[0], cut.n_blocks[1]
        ));
    }
    for (name, _) in ["before", "after"]
        .iter()
        .zip(cut.is_uneven)
        .filter(|(_, is_uneven)| *is_uneven)
    {
        open.push(format!(
            "{name} is not alike all the time: slow requests stand together. A part of it differs from the rest, and whether that \
             lasts or comes back these times do not say"
        ));
    }
    if let Some(resemblance) = cut.resemblance {
        open.push(format!(
            "neighbouring stretches of {:.0} s resemble each other (correlation {resemblance:.2}): what drifts slowly cannot be \
             told from a change; compare longer stretches, or the same hours of other days",
            cut.block_s[1]
        ));
    }
}

fn about_cohorts(
    samples: &Samples,
    settings: &Settings,
    comparison: &Comparison,
    open: &mut Vec<String>,
) {
    for name in &settings.by {
        match samples.attribute(name) {
            None => open.push(format!("requests have no `{name}` to make cohorts by")),
            Some(attribute) if attribute.n_beyond > 0 => open.push(format!(
                "`{name}` has more values than are told apart: {} requests count as without it",
                attribute.n_beyond
            )),
            Some(_) => {}
        }
    }
    let [n_looked_at, n_all] = comparison.n_cohorts;
    if n_looked_at < n_all {
        open.push(format!(
            "{} of {n_all} cohorts are not compared by themselves: fewer than {COHORT_REQUESTS_MIN} requests on a side, or not \
             among the {COHORTS_MAX} largest",
            n_all - n_looked_at
        ));
    }
    let covered = comparison.coverage;
    if covered.iter().any(|covered| *covered < 0.5) {
        open.push(format!(
            "only {:.0} % of requests before and {:.0} % after are in cohorts of both sides: the change over all requests \
             includes that of the mix; choose coarser cohorts with `by`",
            covered[0] * 100.0,
            covered[1] * 100.0
        ));
    } else if covered.iter().any(|covered| *covered < 0.95) {
        open.push(format!(
            "{:.0} % of requests before and {:.0} % after are in cohorts that are too small on one side; the change over all \
             requests leaves them out",
            (1.0 - covered[0]) * 100.0,
            (1.0 - covered[1]) * 100.0
        ));
    }
}

fn about_values(samples: &Samples, comparison: &Comparison, open: &mut Vec<String>) {
    if samples.n_impossible > 0 {
        open.push(format!(
            "{} values are negative or not finite and count as absent",
            samples.n_impossible
        ));
    }
    let n_unknown = samples
        .ended
        .iter()
        .filter(|ended| **ended == Ended::Unknown)
        .count();
    if n_unknown > 0 {
        open.push(format!(
            "of {n_unknown} requests it is not known how they ended: they are in no latency and no rate"
        ));
    }
    let has_failures = comparison.changes.iter().any(|change| {
        change.standing == Standing::Changed && matches!(change.measure, Measure::Rate(_))
    });
    if has_failures {
        open.push(
            "failures changed: latencies are of requests that answered, and the slowest may have left them or come to them that \
             way"
                .to_owned(),
        );
    }
}
