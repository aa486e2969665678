//! What is asked of the two sides: every latency's quantiles and every kind of failure, over all and by cohort; the mix.
//!
//! Over all requests a quantile also changes when only the mix does. Its change over all is therefore that within cohorts:
//! requests after count as if each cohort had the share that it had before, and scores are taken from the mean of their own
//! cohort. What is left of the plain change is due to the mix. Quantiles of cohorts are never averaged: there is one
//! distribution, with weights.

use super::blocks::Blocks;
use super::family::Family;
use super::groups::Groups;
use super::quantile::{self, Estimate, Interval, Item};
use super::samples::{Ended, Failure, Latency, Samples, Side};
use super::{Change, Measure, Settings, Standing};

/// Quantiles that are compared.
pub const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];

/// Requests that a cohort needs on each side to be looked at, and to be given another weight.
pub(super) const COHORT_REQUESTS_MIN: usize = 20;

/// Cohorts that are looked at, the largest ones; the number of hypotheses is not free.
pub(super) const COHORTS_MAX: usize = 300;

/// Values of an attribute whose share is looked at.
const SHARES_MAX: usize = 50;

/// Share of a side that must be in cohorts of both sides for the rest to be left out.
const COVERAGE_MIN: f64 = 0.5;

/// Hypotheses in the making; a change and its scores have the same number.
#[derive(Debug)]
pub(super) struct Drafts<'a> {
    samples: &'a Samples,
    blocks: &'a Blocks,
    settings: &'a Settings,
    pub(super) family: Family,
    pub(super) changes: Vec<Change>,
    /// Latencies of cohorts of which a quantile could not be told, by quantile.
    pub(super) n_unbounded: [usize; QUANTILES.len()],
}

impl<'a> Drafts<'a> {
    pub(super) fn new(samples: &'a Samples, blocks: &'a Blocks, settings: &'a Settings) -> Self {
        Self {
            samples,
            blocks,
            settings,
            family: Family::new(blocks.n),
            changes: Vec::new(),
            n_unbounded: [0; QUANTILES.len()],
        }
    }

    fn push(
        &mut self,
        cohort: Vec<(String, Option<String>)>,
        measure: Measure,
        (before, after): (Estimate, Estimate),
        scores: Vec<f64>,
    ) {
        self.family.push(scores);
        self.changes.push(Change {
            cohort,
            measure,
            difference: quantile::difference(&before, &after),
            ratio: quantile::ratio(&before, &after),
            before,
            after,
            overall: None,
            probability: 1.0,
            standing: Standing::Unclear,
        });
    }

    /// All latencies and failures, over all requests and by cohort. Gives how many cohorts were looked at.
    pub(super) fn add_all(&mut self, groups: &Groups<'_>, asked: &Groups<'_>) -> usize {
        self.add_latencies_over_all(groups);
        self.add_failures_over_all(asked);
        // A single cohort is all.
        let n_groups = if groups.len() > 1 { COHORTS_MAX } else { 0 };
        let mut n_looked_at = 0;
        for (group, rows) in groups.rows(n_groups).iter().enumerate() {
            if groups.is_on_both(group, COHORT_REQUESTS_MIN) {
                n_looked_at += 1;
                for latency in Latency::ALL {
                    let items = self.items(rows.iter().map(|row| *row as usize), latency);
                    self.add_quantiles(&groups.name(group), latency, &items);
                }
            }
        }
        let n_groups = if asked.len() > 1 { COHORTS_MAX } else { 0 };
        for (group, rows) in asked.rows(n_groups).iter().enumerate() {
            if asked.is_on_both(group, COHORT_REQUESTS_MIN) {
                for failure in Failure::ALL {
                    let rows = rows.iter().map(|row| (*row as usize, 0));
                    self.add_failure(&asked.name(group), failure, rows, &[1.0]);
                }
            }
        }
        n_looked_at.max(usize::from(groups.len() == 1))
    }

    /// Values of a latency in order of size.
    fn items(&self, rows: impl Iterator<Item = usize>, latency: Latency) -> Vec<Item> {
        let item = |row: usize| {
            Some(Item {
                value: self.samples.latency(latency, row)?,
                weight: 1.0,
                block: self.blocks.of_row[row],
                cohort: 0,
            })
        };
        let mut items: Vec<Item> = rows.filter_map(item).collect();
        items.sort_by(|one, other| one.value.total_cmp(&other.value));
        items
    }

    fn sides(&self, items: &[Item]) -> (Vec<Item>, Vec<Item>) {
        let is_before = |item: &Item| (item.block as usize) < self.blocks.n[0];
        items.iter().partition(|item| is_before(item))
    }

    fn add_quantiles(
        &mut self,
        cohort: &[(String, Option<String>)],
        latency: Latency,
        items: &[Item],
    ) {
        let (before, after) = self.sides(items);
        if before.is_empty() || after.is_empty() {
            return;
        }
        for (idx, p) in QUANTILES.into_iter().enumerate() {
            match self.estimates(&before, &after, p) {
                Some(estimates) => {
                    let scores = scores(items, &lower(&before, &after, p, estimates), self.blocks);
                    let measure = Measure::Quantile { latency, p };
                    self.push(cohort.to_vec(), measure, estimates, scores);
                }
                None => self.n_unbounded[idx] += 1,
            }
        }
    }

    fn estimates(&self, before: &[Item], after: &[Item], p: f64) -> Option<(Estimate, Estimate)> {
        let of = |items: &[Item], side| {
            quantile::quantile(items, p, &self.blocks.range(side), self.settings.confidence)
        };
        Some((of(before, Side::Before)?, of(after, Side::After)?))
    }

    fn add_latencies_over_all(&mut self, groups: &Groups<'_>) {
        for latency in Latency::ALL {
            let mut items: Vec<Item> = (0..self.samples.len())
                .filter_map(|row| {
                    Some(Item {
                        value: self.samples.latency(latency, row)?,
                        weight: 1.0,
                        block: self.blocks.of_row[row],
                        cohort: groups.of_row[row],
                    })
                })
                .collect();
            items.sort_by(|one, other| one.value.total_cmp(&other.value));
            let (before, after) = self.sides(&items);
            if before.is_empty() || after.is_empty() {
                continue;
            }
            let plain = |p| {
                let of = |items: &[Item]| quantile::weighted_at(items, items.len() as f64, p);
                Some((of(&before)?, of(&after)?))
            };
            let (weights, is_standardised) = weights(&before, &after, groups.len());
            let standardised = standardise(&items, &weights, self.blocks.n[0], is_standardised);
            let first = self.changes.len();
            self.add_quantiles(&[], latency, &standardised);
            for change in &mut self.changes[first..] {
                if let Measure::Quantile { p, .. } = change.measure {
                    change.overall = plain(p).filter(|_| is_standardised);
                }
            }
        }
    }

    fn add_failures_over_all(&mut self, asked: &Groups<'_>) {
        let is_kept = |group: usize| asked.is_on_both(group, COHORT_REQUESTS_MIN);
        let coverage = asked.coverage(COHORT_REQUESTS_MIN);
        let is_standardised = coverage.iter().all(|covered| *covered >= COVERAGE_MIN);
        let weights: Vec<f64> = (0..asked.len())
            .map(|group| match is_standardised {
                true if is_kept(group) => asked.n[group][0] as f64 / asked.n[group][1] as f64,
                true => 0.0,
                false => 1.0,
            })
            .collect();
        for failure in Failure::ALL {
            let rows = asked.of_row.iter().enumerate();
            let rows = rows.map(|(row, group)| (row, if is_standardised { *group } else { 0 }));
            let one = [1.0];
            let weights = if is_standardised {
                weights.as_slice()
            } else {
                &one
            };
            self.add_failure(&[], failure, rows, weights);
        }
    }

    /// Rows come with their cohort, cohorts with the weight of their requests after; those of weight 0 are left out.
    fn add_failure(
        &mut self,
        cohort: &[(String, Option<String>)],
        failure: Failure,
        rows: impl Iterator<Item = (usize, u32)>,
        weights: &[f64],
    ) {
        let n_blocks = self.blocks.total();
        // By cohort and block, not weighted: scores need the plain counts.
        let mut counts: Vec<(Vec<f64>, Vec<f64>)> = vec![Default::default(); weights.len()];
        let mut n_requests = [0, 0];
        let mut n_failed = 0;
        for (row, group) in rows {
            let group = group as usize;
            if weights[group] == 0.0 || self.samples.ended[row] == Ended::Unknown {
                continue;
            }
            let (hits, totals) = &mut counts[group];
            if totals.is_empty() {
                *hits = vec![0.0; n_blocks];
                *totals = vec![0.0; n_blocks];
            }
            let is_hit = self.samples.ended[row] == Ended::Failed(failure);
            let block = self.blocks.of_row[row] as usize;
            hits[block] += f64::from(u8::from(is_hit));
            totals[block] += 1.0;
            n_requests[self.samples.sides[row] as usize] += 1;
            n_failed += usize::from(is_hit);
        }
        if n_failed == 0 {
            return;
        }
        let mut scores = vec![0.0; n_blocks];
        let (mut hits, mut totals) = (vec![0.0; n_blocks], vec![0.0; n_blocks]);
        for ((own_hits, own_totals), weight) in counts.iter().zip(weights) {
            let n: f64 = own_totals.iter().sum();
            let share = own_hits.iter().sum::<f64>() / n.max(1.0);
            for block in 0..own_totals.len() {
                let weight = if block < self.blocks.n[0] {
                    1.0
                } else {
                    *weight
                };
                scores[block] += own_hits[block] - share * own_totals[block];
                hits[block] += weight * own_hits[block];
                totals[block] += weight * own_totals[block];
            }
        }
        if let Some(estimates) = self.shares(&hits, &totals, n_requests) {
            self.push(cohort.to_vec(), Measure::Rate(failure), estimates, scores);
        }
    }

    fn shares(&self, hits: &[f64], totals: &[f64], n: [usize; 2]) -> Option<(Estimate, Estimate)> {
        let of = |side: Side| {
            let range = self.blocks.range(side);
            let confidence = self.settings.confidence;
            quantile::share(
                &hits[range.clone()],
                &totals[range],
                n[side as usize],
                confidence,
            )
        };
        Some((of(Side::Before)?, of(Side::After)?))
    }

    /// Shares of the values of the cohorts' attributes, and how many requests came.
    pub(super) fn add_mix(&mut self) {
        let n_blocks = self.blocks.total();
        let mut totals = vec![0.0; n_blocks];
        for block in &self.blocks.of_row {
            totals[*block as usize] += 1.0;
        }
        let n = Side::BOTH.map(|side| totals[self.blocks.range(side)].iter().sum::<f64>() as usize);
        for name in &self.settings.by {
            let Some(attribute) = self.samples.attribute(name) else {
                continue;
            };
            let one = [name.clone()];
            let groups = Groups::new(self.samples, &one);
            let n_values = groups.len().min(SHARES_MAX);
            if groups.len() < 2 {
                continue;
            }
            for (value, rows) in groups.rows(n_values).iter().enumerate() {
                let mut hits = vec![0.0; n_blocks];
                for row in rows {
                    hits[self.blocks.of_row[*row as usize] as usize] += 1.0;
                }
                let share = rows.len() as f64 / self.samples.len() as f64;
                let pairs = hits.iter().zip(&totals);
                let scores = pairs.map(|(hits, total)| hits - share * total).collect();
                let value = groups.name(value).pop().and_then(|(_, value)| value);
                let measure = Measure::Share {
                    attribute: attribute.name.clone(),
                    value,
                };
                if let Some(estimates) = self.shares(&hits, &totals, n) {
                    self.push(Vec::new(), measure, estimates, scores);
                }
            }
        }
        if self.settings.has_load {
            self.add_load(&totals);
        }
    }

    fn add_load(&mut self, totals: &[f64]) {
        let seconds = |block: usize| self.blocks.seconds[usize::from(block >= self.blocks.n[0])];
        let all: f64 = (0..totals.len()).map(seconds).sum();
        let rate = totals.iter().sum::<f64>() / all;
        let scores = totals
            .iter()
            .enumerate()
            .map(|(block, total)| total - rate * seconds(block))
            .collect();
        let of = |side: Side| {
            quantile::rate(
                &totals[self.blocks.range(side)],
                self.blocks.seconds[side as usize],
                self.settings.confidence,
            )
        };
        if let (Some(before), Some(after)) = (of(Side::Before), of(Side::After)) {
            self.push(Vec::new(), Measure::Load, (before, after), scores);
        }
    }
}

/// What a request after counts for, by cohort, so that cohorts have the shares that they had before; 0 where a cohort is too
/// small on a side. Where that leaves out too much, all count alike, and that is said.
fn weights(before: &[Item], after: &[Item], n_groups: usize) -> (Vec<f64>, bool) {
    let count = |items: &[Item]| {
        let mut n = vec![0_usize; n_groups];
        for item in items {
            n[item.cohort as usize] += 1;
        }
        n
    };
    let (n_before, n_after) = (count(before), count(after));
    let is_kept = |group: &usize| n_before[*group].min(n_after[*group]) >= COHORT_REQUESTS_MIN;
    let covered = |n: &[usize], all: usize| {
        let kept: usize = (0..n_groups).filter(is_kept).map(|group| n[group]).sum();
        kept as f64 >= COVERAGE_MIN * all as f64
    };
    if !covered(&n_before, before.len()) || !covered(&n_after, after.len()) {
        return (vec![1.0; n_groups], false);
    }
    let weight = |group: usize| {
        if is_kept(&group) {
            n_before[group] as f64 / n_after[group] as f64
        } else {
            0.0
        }
    };
    ((0..n_groups).map(weight).collect(), true)
}

/// Items with their weights; without standardisation they are one cohort.
fn standardise(items: &[Item], weights: &[f64], n_before: usize, by_cohort: bool) -> Vec<Item> {
    let kept = items
        .iter()
        .filter(|item| weights[item.cohort as usize] > 0.0);
    kept.map(|item| Item {
        weight: if (item.block as usize) < n_before {
            1.0
        } else {
            weights[item.cohort as usize]
        },
        cohort: if by_cohort { item.cohort } else { 0 },
        ..*item
    })
    .collect()
}

/// A value that requests are above or not, and what one equal to it counts for.
struct Limit {
    value: f64,
    equal: f64,
}

/// The quantile of the side where it is lower: who is above it, is asked of both. A common quantile would lie where only the
/// worst minutes of the slower side reach, and one side's own is as good a limit as any fixed one: how many of the other side are
/// above it is distributed as if it were (the precedence test). Requests equal to it count as far as it takes for the share above
/// to be that of the quantile.
fn lower(before: &[Item], after: &[Item], p: f64, estimates: (Estimate, Estimate)) -> Limit {
    let (value, side) = if estimates.0.value <= estimates.1.value {
        (estimates.0.value, before)
    } else {
        (estimates.1.value, after)
    };
    let weigh = |is_counted: &dyn Fn(f64) -> bool| -> f64 {
        let counted = side.iter().filter(|item| is_counted(item.value));
        counted.map(|item| item.weight).sum()
    };
    let above = weigh(&|other| other > value);
    let equal = weigh(&|other| other == value);
    let wanted = (1.0 - p) * weigh(&|_| true);
    Limit {
        value,
        equal: ((wanted - above) / equal).clamp(0.0, 1.0),
    }
}

/// By how much more than the rest of its cohort each block is above a limit.
fn scores(items: &[Item], limit: &Limit, blocks: &Blocks) -> Vec<f64> {
    let hit = |item: &Item| match item.value.total_cmp(&limit.value) {
        std::cmp::Ordering::Greater => 1.0,
        std::cmp::Ordering::Equal => limit.equal,
        std::cmp::Ordering::Less => 0.0,
    };
    let n_cohorts = items.iter().map(|item| item.cohort as usize + 1).max();
    let mut means = vec![(0.0, 0.0); n_cohorts.unwrap_or(0)];
    for item in items {
        let (sum, n) = &mut means[item.cohort as usize];
        *sum += hit(item);
        *n += 1.0;
    }
    let mut scores = vec![0.0; blocks.total()];
    for item in items {
        let (sum, n) = means[item.cohort as usize];
        scores[item.block as usize] += hit(item) - sum / n;
    }
    scores
}

/// Is a change sure, and is it worth a line?
pub(super) fn standing(change: &Change, settings: &Settings) -> Standing {
    let is_sure =
        change.probability <= 1.0 - settings.confidence && change.difference.excludes(0.0);
    let is_large = match change.measure {
        Measure::Share { .. } => change.difference.value.abs() >= settings.share_least,
        Measure::Quantile { .. } | Measure::Rate(_) | Measure::Load => {
            relative(change).is_none_or(|relative| relative.abs() >= settings.change_least)
        }
    };
    match (is_sure, is_large) {
        (true, true) => Standing::Changed,
        (true, false) => Standing::Small,
        (false, _) => Standing::Unclear,
    }
}

/// Change relative to before; `None` where that was 0.
pub(super) fn relative(change: &Change) -> Option<f64> {
    let Interval { value, .. } = change.difference;
    (change.before.value > 0.0).then(|| value / change.before.value)
}
