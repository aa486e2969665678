//! Quantiles and shares with intervals that assume nothing about the shape of what is measured.
//!
//! A quantile is an observed value, its interval lies between two observed values: those whose ranks bound the share of
//! requests below it (Woodruff). The bounds of the share are exact binomial ones (Clopper and Pearson) for as many requests
//! as are worth independent ones: the variance between blocks says how many these are, and that itself was estimated from
//! so many blocks (Korn and Graubard). A difference of two sides takes over their intervals (MOVER, Newcombe's method).
//! Where even the largest value does not bound a quantile with the wished confidence, there is none.

use super::chance::{beta_quantile, student};

/// From so many expected on either side on, the binomial distribution is as good as normal.
const NORMAL_FROM: f64 = 500.0;

/// A measured value, its block, what it counts for, and which cohort it is compared within.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Item {
    pub(super) value: f64,
    pub(super) weight: f64,
    pub(super) block: u32,
    pub(super) cohort: u32,
}

/// A value with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// What was seen.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Requests that it stands on.
    pub n_requests: usize,
}

/// How far a value moved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// What was seen.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Does it leave out this value?
    #[must_use]
    pub fn excludes(&self, value: f64) -> bool {
        self.low > value || self.high < value
    }
}

/// The smallest of the sorted values that is not below a share `p` of them.
pub(super) fn at(sorted: &[f64], p: f64) -> Option<f64> {
    let rank = (sorted.len() as f64 * p).ceil() as usize;
    sorted
        .get(rank.max(1).min(sorted.len()).checked_sub(1)?)
        .copied()
}

/// Independent requests that an interval of this quantile needs at least.
#[must_use]
pub fn requests_needed(p: f64, confidence: f64) -> f64 {
    let rarest = p.max(1.0 - p);
    ((1.0 - confidence) / 2.0).ln() / rarest.ln()
}

/// How many independent requests those of a side are worth for a share, given by how much each block exceeds it.
fn n_independent(n: f64, share: f64, excess: &[f64], weight: f64, confidence: f64) -> f64 {
    let n_blocks = excess.len() as f64;
    let simple = share * (1.0 - share) / n;
    let between = excess.iter().map(|value| value * value).sum::<f64>() * n_blocks
        / (n_blocks - 1.0).max(1.0)
        / (weight * weight);
    let inflation = if simple > 0.0 {
        (between / simple).max(1.0)
    } else {
        1.0
    };
    let wider = student(confidence, n_blocks - 1.0) / student(confidence, n - 1.0);
    n / inflation / (wider * wider).max(1.0)
}

/// Bounds of a share of which `n` independent ones were seen.
fn share_bounds(share: f64, n: f64, confidence: f64) -> (f64, f64) {
    let tail = (1.0 - confidence) / 2.0;
    let (hits, misses) = (n * share, n * (1.0 - share));
    if hits > NORMAL_FROM && misses > NORMAL_FROM {
        let half = student(confidence, n) * (share * (1.0 - share) / n).sqrt();
        return (share - half, share + half);
    }
    let low = match hits {
        ..=0.0 => 0.0,
        _ => beta_quantile(tail, hits, misses + 1.0),
    };
    let high = match misses {
        ..=0.0 => 1.0,
        _ => beta_quantile(1.0 - tail, hits + 1.0, misses),
    };
    (low.min(share), high.max(share))
}

/// A quantile of one side's items, which are sorted by value; `None` where they do not bound it.
pub(super) fn quantile(
    items: &[Item],
    p: f64,
    blocks: &std::ops::Range<usize>,
    confidence: f64,
) -> Option<Estimate> {
    if (items.len() as f64) < requests_needed(p, confidence) {
        return None;
    }
    let weight: f64 = items.iter().map(|item| item.weight).sum();
    let value = weighted_at(items, weight, p)?;
    let hit = |item: &Item| f64::from(u8::from(item.value <= value));
    let below: f64 = items.iter().map(|item| item.weight * hit(item)).sum();
    let share = (below / weight).min(1.0);
    let mut excess = vec![0.0; blocks.len()];
    for item in items {
        excess[item.block as usize - blocks.start] += item.weight * (hit(item) - share);
    }
    let n = n_independent(items.len() as f64, share, &excess, weight, confidence);
    if n < requests_needed(p, confidence) {
        return None;
    }
    let (low, high) = share_bounds(p, n, confidence);
    Some(Estimate {
        value,
        low: weighted_at(items, weight, low)?,
        high: weighted_at(items, weight, high)?,
        n_requests: items.len(),
    })
}

/// The quantile of sorted items with weights.
pub(super) fn weighted_at(items: &[Item], weight: f64, p: f64) -> Option<f64> {
    weighted_quantile(
        items.iter().map(|item| (item.value, item.weight)),
        weight,
        p,
    )
}

/// The quantile of values with positive weights, sorted by value: the first up to which there is a share `p` of `weight`,
/// the sum of all weights. `None` of no values.
#[must_use]
pub fn weighted_quantile(
    sorted: impl IntoIterator<Item = (f64, f64)>,
    weight: f64,
    p: f64,
) -> Option<f64> {
    // Sums of weights are not exact; equal weights must find the rank that counting finds.
    let wanted = weight * p * (1.0 - 1e-12);
    let mut sum = 0.0;
    let mut last = None;
    for (value, weight) in sorted {
        sum += weight;
        last = Some(value);
        if sum >= wanted {
            break;
        }
    }
    last
}

/// A share of one side, of hits and totals by block, which may be weighted, of so many requests; `None` of nothing.
pub(super) fn share(
    hits: &[f64],
    totals: &[f64],
    n_requests: usize,
    confidence: f64,
) -> Option<Estimate> {
    let weight: f64 = totals.iter().sum();
    if n_requests == 0 || weight <= 0.0 {
        return None;
    }
    let share = (hits.iter().sum::<f64>() / weight).clamp(0.0, 1.0);
    let pairs = hits.iter().zip(totals);
    let excess: Vec<f64> = pairs.map(|(hits, total)| hits - share * total).collect();
    let n = n_independent(n_requests as f64, share, &excess, weight, confidence);
    let (low, high) = share_bounds(share, n, confidence);
    Some(Estimate {
        value: share,
        low,
        high,
        n_requests,
    })
}

/// Events in a second, by block of so many seconds; blocks are as good as independent.
pub(super) fn rate(counts: &[f64], seconds: f64, confidence: f64) -> Option<Estimate> {
    let n_blocks = counts.len() as f64;
    if counts.len() < 2 || seconds <= 0.0 {
        return None;
    }
    let mean = counts.iter().sum::<f64>() / n_blocks;
    let squares: f64 = counts.iter().map(|count| (count - mean).powi(2)).sum();
    let error = (squares / (n_blocks - 1.0) / n_blocks).sqrt();
    let half = student(confidence, n_blocks - 1.0) * error;
    Some(Estimate {
        value: mean / seconds,
        low: (mean - half).max(0.0) / seconds,
        high: (mean + half) / seconds,
        n_requests: counts.iter().sum::<f64>() as usize,
    })
}

/// After minus before.
pub(super) fn difference(before: &Estimate, after: &Estimate) -> Interval {
    let value = after.value - before.value;
    let down = (after.value - after.low).hypot(before.high - before.value);
    let up = (after.high - after.value).hypot(before.value - before.low);
    Interval {
        value,
        low: value - down,
        high: value + up,
    }
}

/// After over before, where both are surely positive.
pub(super) fn ratio(before: &Estimate, after: &Estimate) -> Option<Interval> {
    if before.low <= 0.0 || after.low <= 0.0 {
        return None;
    }
    let ln = |estimate: &Estimate| Estimate {
        value: estimate.value.ln(),
        low: estimate.low.ln(),
        high: estimate.high.ln(),
        ..*estimate
    };
    let moved = difference(&ln(before), &ln(after));
    Some(Interval {
        value: moved.value.exp(),
        low: moved.low.exp(),
        high: moved.high.exp(),
    })
}
