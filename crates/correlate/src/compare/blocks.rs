//! Requests of one time resemble each other; blocks of time do so less.
//!
//! Requests that share an engine share its queue and its steps, so that a hundred of a bad minute say hardly more than one.
//! What is counted as independent are therefore blocks of time, over all pods (which share gateways and bursts). A block
//! is several times as long as most requests; where neighbouring blocks still resemble each other, on both sides, blocks
//! are made longer as long as enough are left, and what then remains is reported. Where they do so on one side only, something
//! happened there for a while: that is what is looked for, and is said.

use super::samples::{Samples, Side};
use super::{Latency, quantile};

/// Fewest blocks of a side that say anything.
pub(super) const BLOCKS_MIN: usize = 8;

/// Most blocks of a side that is cut freely: enough for every test, few enough for many of them.
const BLOCKS_MAX: usize = 48;

/// Most blocks of the longer side where the other one is short.
const BLOCKS_LONG_MAX: usize = 192;

/// What a request was part of is over after a few times its length.
const E2E_PER_BLOCK: f64 = 6.0;

/// Where no length is known.
const BLOCK_LEAST_NANOS: i64 = 5_000_000_000;

/// A resemblance of neighbours on both sides that is more than chance, if there are many blocks.
const RESEMBLANCE_LEAST: f64 = 0.15;

/// A resemblance on one side that says that something happened there for a while.
const UNEVEN_LEAST: f64 = 0.4;

/// In which block each request is; those of `before` come first.
#[derive(Debug)]
pub(super) struct Blocks {
    pub(super) of_row: Vec<u32>,
    /// Of each side.
    pub(super) n: [usize; 2],
    /// Length, in seconds.
    pub(super) seconds: [f64; 2],
    /// How much neighbouring blocks resemble each other (correlation) on both sides, if more than chance makes them.
    pub(super) resemblance: Option<f64>,
    /// Did something happen for a while, by side?
    pub(super) is_uneven: [bool; 2],
}

/// First and last beginning of a side.
fn extent(samples: &Samples, side: Side) -> Option<(i64, i64)> {
    let starts = || {
        let rows = samples.sides.iter().zip(&samples.starts);
        rows.filter(|(other, _)| **other == side)
            .map(|(_, start)| *start)
    };
    Some((starts().min()?, starts().max()?))
}

impl Blocks {
    /// Cuts both sides; `None` if one is empty.
    pub(super) fn cut(samples: &Samples) -> Option<Self> {
        let extents = [
            extent(samples, Side::Before)?,
            extent(samples, Side::After)?,
        ];
        let usual = Side::BOTH.map(|side| median(samples, side));
        let usual = usual[0].min(usual[1]);
        let shorter = extents.map(|(from, to)| to.saturating_sub(from));
        let shorter = shorter.into_iter().min()?;
        let least = ((usual * E2E_PER_BLOCK * 1e9) as i64).max(BLOCK_LEAST_NANOS);
        let mut length = least.max(shorter / BLOCKS_MAX as i64);
        // Rather short blocks than none: the resemblance tells.
        length = length.min(shorter / BLOCKS_MIN as i64).max(1);
        loop {
            let mut blocks = Self::of_length(samples, extents, length);
            let found = Side::BOTH.map(|side| blocks.measure(samples, side));
            let least = |least: f64, side: usize| least.max(1.0 / (blocks.n[side] as f64).sqrt());
            let both = found[0].min(found[1]);
            let is_alike = |side: usize| found[side] > least(RESEMBLANCE_LEAST, side);
            let resemblance = Some(both).filter(|_| is_alike(0) && is_alike(1));
            let is_uneven = [0, 1].map(|side| found[side] > least(UNEVEN_LEAST, side));
            blocks.resemblance = resemblance;
            blocks.is_uneven = is_uneven.map(|is_uneven| is_uneven && resemblance.is_none());
            let next = length.saturating_mul(2);
            if blocks.resemblance.is_none() || shorter / next < BLOCKS_MIN as i64 {
                return Some(blocks);
            }
            length = next;
        }
    }

    fn of_length(samples: &Samples, extents: [(i64, i64); 2], length: i64) -> Self {
        let spans = extents.map(|(from, to)| to.saturating_sub(from).saturating_add(1).max(1));
        let n = spans.map(|span| {
            let n = (span as f64 / length as f64).round();
            (n as usize).clamp(1, BLOCKS_LONG_MAX)
        });
        let place = |(side, start): (&Side, &i64)| {
            let side = *side as usize;
            let since = start.saturating_sub(extents[side].0) as f64;
            let block = (since / spans[side] as f64 * n[side] as f64) as usize;
            (side * n[0] + block.min(n[side] - 1)) as u32
        };
        Self {
            of_row: samples
                .sides
                .iter()
                .zip(&samples.starts)
                .map(place)
                .collect(),
            n,
            seconds: [0, 1].map(|side| spans[side] as f64 / 1e9 / n[side] as f64),
            resemblance: None,
            is_uneven: [false; 2],
        }
    }

    pub(super) fn total(&self) -> usize {
        self.n[0] + self.n[1]
    }

    /// Blocks of a side.
    pub(super) fn range(&self, side: Side) -> std::ops::Range<usize> {
        match side {
            Side::Before => 0..self.n[0],
            Side::After => self.n[0]..self.total(),
        }
    }

    /// Mean correlation of neighbouring blocks of a side, over the middle and the upper end of what engines measure.
    fn measure(&self, samples: &Samples, side: Side) -> f64 {
        let (mut sum, mut n) = (0.0, 0.0);
        for latency in [Latency::E2e, Latency::EngineTtft, Latency::Queue] {
            let values = self.values(samples, latency, side);
            for p in [0.5, 0.9] {
                let excess = self.excess(&values, p, side);
                let own: f64 = excess.iter().map(|value| value * value).sum();
                let next: f64 = excess.windows(2).map(|pair| pair[0] * pair[1]).sum();
                if own > 0.0 {
                    sum += next / own;
                    n += 1.0;
                }
            }
        }
        if n > 0.0 { sum / n } else { 0.0 }
    }

    /// Values of a side in order of size, with their blocks from the side's first on.
    fn values(&self, samples: &Samples, latency: Latency, side: Side) -> Vec<(f64, usize)> {
        let first = self.range(side).start;
        let rows = (0..samples.len()).filter(|row| samples.sides[*row] == side);
        let value = |row: usize| {
            let block = self.of_row[row] as usize - first;
            Some((samples.latency(latency, row)?, block))
        };
        let mut values: Vec<(f64, usize)> = rows.filter_map(value).collect();
        values.sort_by(|one, other| one.0.total_cmp(&other.0));
        values
    }

    /// By how many more than expected each block of a side is above the side's quantile.
    fn excess(&self, values: &[(f64, usize)], p: f64, side: Side) -> Vec<f64> {
        let mut excess = vec![0.0; self.range(side).len()];
        let rank = (values.len() as f64 * p) as usize;
        let Some((limit, _)) = values.get(rank) else {
            return excess;
        };
        let n_above = values.iter().filter(|(value, _)| value > limit).count();
        let share = n_above as f64 / values.len() as f64;
        for (value, block) in values {
            excess[*block] += f64::from(u8::from(value > limit)) - share;
        }
        excess
    }
}

/// Length of half of a side's requests; 0 where none is known.
fn median(samples: &Samples, side: Side) -> f64 {
    let rows = (0..samples.len()).filter(|row| samples.sides[*row] == side);
    let mut e2e: Vec<f64> = rows
        .filter_map(|row| samples.latency(Latency::E2e, row))
        .collect();
    e2e.sort_by(f64::total_cmp);
    quantile::at(&e2e, 0.5).unwrap_or(0.0)
}
