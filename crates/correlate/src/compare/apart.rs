//! What the slow ones have in common that the rest has not.
//!
//! Each value of each attribute is counted among the slow ones and among the rest, after. Slow is a request above the
//! quantile that was before: once that of all requests, which finds the traffic that is slow (long prompts), and once that
//! of its own cohort, which finds what made it slow (a pod). How often chance makes any share differ as much is told for all
//! values together, by signs of blocks. Values that the same requests have (a pod and its node) are one finding.

use std::collections::BTreeMap;

use super::blocks::Blocks;
use super::family::probabilities_by_sign;
use super::groups::Groups;
use super::quantile::{self, Estimate, Interval};
use super::samples::{Attribute, Latency, NULL, Samples, Side};
use super::{Settings, chance::Rng};

/// Values of an attribute above which it names requests rather than kinds of them.
const VALUES_MAX: usize = 200;

/// Requests that a group needs to be compared.
const REQUESTS_MIN: usize = 10;

/// Signs that are drawn.
const DRAWS: usize = 1_999;

/// Which requests are called slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slow {
    /// Above the quantile of its own cohort before.
    ForItsKind,
    /// Above the quantile of all requests before.
    OfAll,
}

/// A value that sets the slow ones apart, or does not.
#[derive(Clone, Debug, PartialEq)]
pub struct Trait {
    /// Column of `requests`.
    pub attribute: String,
    /// Its value; `None` for requests that have none.
    pub value: Option<String>,
    /// Others that exactly the same requests have.
    pub also: Vec<(String, Option<String>)>,
    /// Slow requests with it.
    pub n_slow: usize,
    /// Other requests with it.
    pub n_rest: usize,
    /// Share of the slow ones that have it.
    pub share_of_slow: Estimate,
    /// Share of the rest.
    pub share_of_rest: Estimate,
    /// The former minus the latter.
    pub difference: Interval,
    /// Correlation of having it and being slow.
    pub correlation: f64,
    /// How often chance makes any of these differ as much.
    pub probability: f64,
    /// Do the slow ones have it more often, for sure?
    pub sets_apart: bool,
}

/// The slow ones and the rest.
#[derive(Clone, Debug, PartialEq)]
pub struct Apart {
    /// What they are slow by.
    pub latency: Latency,
    /// Who is called slow.
    pub slow: Slow,
    /// The quantile before, where it is one for all.
    pub limit: Option<f64>,
    /// Slow requests, after.
    pub n_slow: usize,
    /// The others.
    pub n_rest: usize,
    /// Requests of cohorts that had too few before to say what is slow for them.
    pub n_unjudged: usize,
    /// The strongest first.
    pub traits: Vec<Trait>,
    /// Attributes with too many values.
    pub left_out: Vec<String>,
}

/// Sets the slow ones apart; `None` where there are too few of them, or nothing to compare them with.
pub(super) fn apart(
    samples: &Samples,
    blocks: &Blocks,
    groups: &Groups<'_>,
    settings: &Settings,
    (latency, slow): (Latency, Slow),
) -> Option<Apart> {
    let limits = limits(samples, groups, settings, latency, slow);
    let mut n_unjudged = 0;
    let mut judged: Vec<(usize, bool)> = Vec::new();
    for row in (0..samples.len()).filter(|row| samples.sides[*row] == Side::After) {
        let Some(value) = samples.latency(latency, row) else {
            continue;
        };
        let group = match slow {
            Slow::ForItsKind => groups.of_row[row],
            Slow::OfAll => 0,
        };
        match limits.get(&group) {
            Some(limit) => judged.push((row, value > *limit)),
            None => n_unjudged += 1,
        }
    }
    let n_slow = judged.iter().filter(|(_, is_slow)| *is_slow).count();
    let n_rest = judged.len() - n_slow;
    if n_slow < REQUESTS_MIN || n_rest < REQUESTS_MIN {
        return None;
    }
    let range = blocks.range(Side::After);
    let counts = Counts::new(&judged, blocks, &range);
    let (mut traits, mut scores): (Vec<Trait>, Vec<Vec<f64>>) = (Vec::new(), Vec::new());
    let mut left_out = Vec::new();
    for attribute in &samples.attributes {
        if attribute.values.len() > VALUES_MAX || attribute.n_beyond > 0 {
            left_out.push(attribute.name.clone());
            continue;
        }
        for (found, own) in counts.traits(&judged, blocks, attribute, settings.confidence) {
            match scores.iter().position(|other| *other == own) {
                Some(same) => traits[same].also.push((found.attribute, found.value)),
                None => {
                    scores.push(own);
                    traits.push(found);
                }
            }
        }
    }
    let seed = Rng::new(settings.seed).next_u64();
    let probabilities = probabilities_by_sign(&scores, DRAWS, seed);
    for (found, probability) in traits.iter_mut().zip(probabilities) {
        found.probability = probability;
        found.sets_apart = probability <= 1.0 - settings.confidence && found.difference.low > 0.0;
    }
    traits.sort_by(|one, other| {
        let key = |found: &Trait| (found.sets_apart, found.correlation);
        let (one, other) = (key(one), key(other));
        other.0.cmp(&one.0).then(other.1.total_cmp(&one.1))
    });
    Some(Apart {
        latency,
        slow,
        limit: limits.get(&0).copied().filter(|_| slow == Slow::OfAll),
        n_slow,
        n_rest,
        n_unjudged,
        traits,
        left_out,
    })
}

/// What is slow, by cohort (0 for all), from before.
fn limits(
    samples: &Samples,
    groups: &Groups<'_>,
    settings: &Settings,
    latency: Latency,
    slow: Slow,
) -> BTreeMap<u32, f64> {
    let mut values: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for row in (0..samples.len()).filter(|row| samples.sides[*row] == Side::Before) {
        if let Some(value) = samples.latency(latency, row) {
            let group = match slow {
                Slow::ForItsKind => groups.of_row[row],
                Slow::OfAll => 0,
            };
            values.entry(group).or_default().push(value);
        }
    }
    let needed = quantile::requests_needed(settings.slow_from, settings.confidence);
    values.retain(|_, values| values.len() as f64 >= needed);
    let limit = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        quantile::at(&values, settings.slow_from)
    };
    let limits = values.into_iter();
    limits
        .filter_map(|(group, values)| Some((group, limit(values)?)))
        .collect()
}

/// Slow ones and all, by block.
struct Counts {
    first: usize,
    slow: Vec<f64>,
    all: Vec<f64>,
    n_slow: f64,
    n_all: f64,
}

impl Counts {
    fn new(judged: &[(usize, bool)], blocks: &Blocks, range: &std::ops::Range<usize>) -> Self {
        let (mut slow, mut all) = (vec![0.0; range.len()], vec![0.0; range.len()]);
        for (row, is_slow) in judged {
            let block = blocks.of_row[*row] as usize - range.start;
            slow[block] += f64::from(u8::from(*is_slow));
            all[block] += 1.0;
        }
        Self {
            first: range.start,
            n_slow: slow.iter().sum(),
            n_all: all.iter().sum(),
            slow,
            all,
        }
    }

    /// Values of an attribute that some requests have and some have not, with their scores by block.
    fn traits(
        &self,
        judged: &[(usize, bool)],
        blocks: &Blocks,
        attribute: &Attribute,
        confidence: f64,
    ) -> Vec<(Trait, Vec<f64>)> {
        let n_blocks = self.all.len();
        let mut by_value: BTreeMap<u32, (Vec<f64>, Vec<f64>)> = BTreeMap::new();
        for (row, is_slow) in judged {
            let (slow, all) = by_value
                .entry(attribute.codes[*row])
                .or_insert_with(|| (vec![0.0; n_blocks], vec![0.0; n_blocks]));
            let block = blocks.of_row[*row] as usize - self.first;
            slow[block] += f64::from(u8::from(*is_slow));
            all[block] += 1.0;
        }
        let found = by_value.into_iter().filter_map(|(code, (slow, all))| {
            let value = match code {
                NULL => None,
                code => attribute.value(code).map(str::to_owned),
            };
            let (found, scores) = self.one(&slow, &all, confidence)?;
            let named = Trait {
                attribute: attribute.name.clone(),
                value,
                ..found
            };
            Some((named, scores))
        });
        found.collect()
    }

    fn one(&self, slow: &[f64], all: &[f64], confidence: f64) -> Option<(Trait, Vec<f64>)> {
        let (with_slow, with): (f64, f64) = (slow.iter().sum(), all.iter().sum());
        let is_small = |n: f64| n < REQUESTS_MIN as f64;
        if is_small(with) || is_small(self.n_all - with) {
            return None;
        }
        let (slow_share, share) = (self.n_slow / self.n_all, with / self.n_all);
        let scores: Vec<f64> = (0..all.len())
            .map(|block| {
                slow[block] - slow_share * all[block] - share * self.slow[block]
                    + slow_share * share * self.all[block]
            })
            .collect();
        let covariance = with_slow / self.n_all - slow_share * share;
        let spread = slow_share * (1.0 - slow_share) * share * (1.0 - share);
        let minus = |all: &[f64], slow: &[f64]| -> Vec<f64> {
            all.iter().zip(slow).map(|(all, slow)| all - slow).collect()
        };
        let of_slow = quantile::share(slow, &self.slow, self.n_slow as usize, confidence)?;
        let of_rest = quantile::share(
            &minus(all, slow),
            &minus(&self.all, &self.slow),
            (self.n_all - self.n_slow) as usize,
            confidence,
        )?;
        let found = Trait {
            attribute: String::new(),
            value: None,
            also: Vec::new(),
            n_slow: with_slow as usize,
            n_rest: (with - with_slow) as usize,
            share_of_slow: of_slow,
            share_of_rest: of_rest,
            difference: quantile::difference(&of_rest, &of_slow),
            correlation: covariance / spread.sqrt(),
            probability: 1.0,
            sets_apart: false,
        };
        Some((found, scores))
    }
}
