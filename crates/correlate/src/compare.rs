//! Did it help: requests of two sides, before and after, compared for what is sure and what is not.
//!
//! In reading order: `samples` (what is known of each request), `blocks` (what counts as independent), `quantile`
//! (values with intervals), `family` (what chance does), `groups` and `changes` (what is asked, over all and by cohort),
//! `apart` (what slow requests have in common).
//!
//! # Decided
//!
//! *A change is reported* if chance makes any of all statistics that large with at most `1 - confidence`, and its own interval
//! leaves out "no change", and it is not too small to matter. All of latencies, failures, mix and load are one family:
//! where nothing changed, nothing at all is reported, in a share `confidence` of comparisons. Intervals are each at that
//! confidence by itself.
//!
//! *Blocks of time are independent, requests are not.* A comparison of rows would call every busy minute a regression. What
//! drifts over more than a block cannot be told from a change; that neighbouring blocks resemble each other is said.
//!
//! *No shape is assumed*: latencies have several modes and heavy tails. Percentiles are never averaged.
//!
//! *Latencies are of requests that answered* (`ok`). Failures are counted apart, and where they changed it is said that the
//! slowest may have left the latencies that way.
//!
//! *Failures make no cohorts of themselves*: attributes that tell how a request ended do not group them.
//!
//! Pure: requests in, comparison out. It does not know where they come from, and draws no random numbers but from a seed.

mod apart;
mod blocks;
mod chance;
mod changes;
mod family;
mod groups;
mod open;
mod quantile;
mod samples;

#[cfg(test)]
mod tests;

pub use apart::{Apart, Slow, Trait};
pub use changes::QUANTILES;
pub use quantile::{Estimate, Interval, requests_needed, weighted_quantile};
pub use samples::{Failure, Latency, Sample, Samples, Side};

use blocks::Blocks;
use changes::{COHORT_REQUESTS_MIN, Drafts};
use groups::Groups;

/// How to compare.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Attributes that make cohorts.
    pub by: Vec<String>,
    /// Of intervals, and that nothing is reported where nothing changed; above 0.5 and below 1.
    pub confidence: f64,
    /// Least change of a latency, a failure rate or the load that is reported, relative to before.
    pub change_least: f64,
    /// Least change of a share of traffic that is reported.
    pub share_least: f64,
    /// Requests above this quantile of before are slow.
    pub slow_from: f64,
    /// What they are slow by; without it, the latency that changed most.
    pub slow_by: Option<Latency>,
    /// Are the sides stretches of time, so that requests a second can be compared?
    pub has_load: bool,
    /// Random calls of blocks before and after.
    pub permutations: usize,
    /// Of random numbers.
    pub seed: u64,
}

impl Default for Settings {
    /// By model and bands, at 95 %.
    fn default() -> Self {
        Self {
            by: ["model", "input_band", "output_band"]
                .map(str::to_owned)
                .to_vec(),
            confidence: 0.95,
            change_least: 0.05,
            share_least: 0.01,
            slow_from: 0.95,
            slow_by: None,
            has_load: false,
            permutations: 2_999,
            seed: 1,
        }
    }
}

/// What was measured.
#[derive(Clone, Debug, PartialEq)]
pub enum Measure {
    /// A quantile of a latency, in seconds.
    Quantile {
        /// Which.
        latency: Latency,
        /// Its quantile, 0 to 1.
        p: f64,
    },
    /// Share of requests that ended so.
    Rate(Failure),
    /// Share of traffic with this value.
    Share {
        /// Column of `requests`.
        attribute: String,
        /// Its value; `None` where requests have none.
        value: Option<String>,
    },
    /// Requests a second.
    Load,
}

/// How sure a change is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Chance does not make it, and it is large enough to matter.
    Changed,
    /// Chance does not make it, but it is smaller than was asked for.
    Small,
    /// It cannot be told from chance.
    Unclear,
}

impl Standing {
    /// In snake case.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::Small => "small",
            Self::Unclear => "unclear",
        }
    }
}

/// One measure of one cohort, before and after.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Names and values; empty for all requests.
    pub cohort: Vec<(String, Option<String>)>,
    /// What was measured.
    pub measure: Measure,
    /// Before.
    pub before: Estimate,
    /// After; over all requests as if cohorts had the shares that they had before.
    pub after: Estimate,
    /// After minus before.
    pub difference: Interval,
    /// After over before, where both are surely positive.
    pub ratio: Option<Interval>,
    /// Of latencies over all requests: the plain values before and after, with the mix as it was on each side.
    pub overall: Option<(f64, f64)>,
    /// How often chance makes any statistic of the comparison as large, if nothing changed.
    pub probability: f64,
    /// How sure it is.
    pub standing: Standing,
}

impl Change {
    /// Relative to before; `None` where that was 0.
    #[must_use]
    pub fn relative(&self) -> Option<f64> {
        changes::relative(self)
    }

    /// How far it moved, for sorting: a doubling is as far as a halving.
    fn size(&self) -> f64 {
        let (before, after) = (self.before.value, self.after.value);
        if before > 0.0 && after > 0.0 {
            (after / before).ln().abs()
        } else {
            self.difference.value.abs()
        }
    }
}

/// What counted as independent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cut {
    /// Blocks of time, of each side.
    pub n_blocks: [usize; 2],
    /// Their length in seconds.
    pub block_s: [f64; 2],
    /// How much neighbouring blocks resemble each other on both sides, where that is more than chance makes.
    pub resemblance: Option<f64>,
    /// Did something happen for a while on a side, so that it is not alike all the time?
    pub is_uneven: [bool; 2],
}

/// The answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Requests of each side.
    pub n_requests: [usize; 2],
    /// Those that answered.
    pub n_ok: [usize; 2],
    /// `None` where a side is empty.
    pub cut: Option<Cut>,
    /// Confidence of intervals and of the whole.
    pub confidence: f64,
    /// Cohorts that were looked at, of how many.
    pub n_cohorts: [usize; 2],
    /// Share of each side's requests in cohorts that are large enough on both.
    pub coverage: [f64; 2],
    /// Share of traffic that is in other cohorts than before.
    pub mix_distance: f64,
    /// Statistics that were looked at together.
    pub n_hypotheses: usize,
    /// Permutations that told what chance does.
    pub n_permutations: usize,
    /// All measures: those that changed first, over all requests before cohorts, the largest first.
    pub changes: Vec<Change>,
    /// What sets the slow ones apart.
    pub apart: Vec<Apart>,
    /// What cannot be said, and why.
    pub open: Vec<String>,
}

impl Comparison {
    /// What changed for sure and enough to matter.
    pub fn reported(&self) -> impl Iterator<Item = &Change> {
        self.changes
            .iter()
            .filter(|change| change.standing == Standing::Changed)
    }
}

/// Compares.
#[must_use]
pub fn compare(samples: &Samples, settings: &Settings) -> Comparison {
    let mut comparison = nothing(samples, settings);
    let Some(blocks) = Blocks::cut(samples) else {
        comparison.open = open::of_empty(&comparison);
        return comparison;
    };
    comparison.cut = Some(Cut {
        n_blocks: blocks.n,
        block_s: blocks.seconds,
        resemblance: blocks.resemblance,
        is_uneven: blocks.is_uneven,
    });
    let groups = Groups::new(samples, &settings.by);
    let asked = Groups::by_what_was_asked(samples, &settings.by);
    let mut drafts = Drafts::new(samples, &blocks, settings);
    let n_looked_at = drafts.add_all(&groups, &asked);
    drafts.add_mix();
    comparison.n_cohorts = [n_looked_at, groups.len()];
    comparison.coverage = groups.coverage(COHORT_REQUESTS_MIN);
    comparison.mix_distance = groups.distance();
    comparison.n_hypotheses = drafts.family.len();
    let (probabilities, n_permutations) = drafts
        .family
        .probabilities(settings.permutations, settings.seed);
    comparison.n_permutations = n_permutations;
    let n_unbounded = drafts.n_unbounded;
    comparison.changes = judge(drafts.changes, &probabilities, settings);
    let latency = settings
        .slow_by
        .unwrap_or_else(|| most_changed(&comparison));
    comparison.apart = [Slow::ForItsKind, Slow::OfAll]
        .into_iter()
        .filter_map(|slow| apart::apart(samples, &blocks, &groups, settings, (latency, slow)))
        .collect();
    comparison.open = open::of(samples, settings, &comparison, n_unbounded);
    comparison
}

fn nothing(samples: &Samples, settings: &Settings) -> Comparison {
    let count = |is_counted: &dyn Fn(usize) -> bool| {
        Side::BOTH.map(|side| {
            let rows = (0..samples.len()).filter(|row| samples.sides[*row] == side);
            rows.filter(|row| is_counted(*row)).count()
        })
    };
    Comparison {
        n_requests: count(&|_| true),
        n_ok: count(&|row| samples.ended[row] == samples::Ended::Ok),
        cut: None,
        confidence: settings.confidence,
        n_cohorts: [0, 0],
        coverage: [0.0, 0.0],
        mix_distance: 0.0,
        n_hypotheses: 0,
        n_permutations: 0,
        changes: Vec::new(),
        apart: Vec::new(),
        open: Vec::new(),
    }
}

fn judge(mut changes: Vec<Change>, probabilities: &[f64], settings: &Settings) -> Vec<Change> {
    for (change, probability) in changes.iter_mut().zip(probabilities) {
        change.probability = *probability;
        change.standing = changes::standing(change, settings);
    }
    changes.sort_by(|one, other| {
        let key = |change: &Change| (change.standing as u8, !change.cohort.is_empty());
        key(one)
            .cmp(&key(other))
            .then(other.size().total_cmp(&one.size()))
    });
    changes
}

/// The latency that grew most, of those that are felt if one did; where nothing changed, that of the whole request.
fn most_changed(comparison: &Comparison) -> Latency {
    let grown = || {
        comparison
            .reported()
            .filter_map(|change| match change.measure {
                Measure::Quantile { latency, .. } if change.difference.value > 0.0 => Some(latency),
                _ => None,
            })
    };
    let felt = grown().find(|latency| latency.is_felt());
    felt.or_else(|| grown().next()).unwrap_or(Latency::E2e)
}
