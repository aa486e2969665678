//! One histogram: counts by bucket, and what can be asked of them.

use correlate::buckets::{ZERO, bound};

/// Buckets with a count above 0, in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Counts(Vec<(i32, f64)>);

impl Counts {
    /// Counts so much in a bucket. What is no weight is not counted.
    pub(super) fn add(&mut self, idx: i32, weight: f64) {
        if !(weight > 0.0 && weight.is_finite()) {
            return;
        }
        match self.0.binary_search_by_key(&idx, |(idx, _)| *idx) {
            Ok(place) => {
                let count = &mut self.0[place].1;
                *count = (*count + weight).min(f64::MAX);
            }
            Err(place) => self.0.insert(place, (idx, weight)),
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (idx, count) in &other.0 {
            self.add(*idx, *count);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn buckets(&self) -> &[(i32, f64)] {
        &self.0
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.0.capacity() * size_of::<(i32, f64)>()
    }

    pub(super) fn total(&self) -> f64 {
        self.sum(|_| 1.0)
    }

    /// The value up to which there is a share `q` of all; `None` of nothing.
    pub(super) fn quantile(&self, q: f64) -> Option<f64> {
        let wanted = self.total() * q;
        let mut before = 0.0_f64;
        for (idx, count) in &self.0 {
            let after = (before + count).min(f64::MAX);
            // Sums of weights are not exact, as in the quantile of single values.
            if after >= wanted * (1.0 - 1e-12) {
                let part = ((wanted - before) / count).clamp(0.0, 1.0);
                return Some(inside(*idx, part));
            }
            before = after;
        }
        self.0.last().map(|(idx, _)| bound(*idx))
    }

    /// The share of all that is at most `seconds`; `None` of nothing, or for what is no number.
    pub(super) fn share_below(&self, seconds: f64) -> Option<f64> {
        if self.is_empty() || seconds.is_nan() {
            return None;
        }
        let below = self.sum(|idx| part_below(idx, seconds));
        Some(below / self.total())
    }

    /// The counts, of each bucket a part. Finite: weights may be as large as numbers are.
    fn sum(&self, part: impl Fn(i32) -> f64) -> f64 {
        let counts = self.0.iter().map(|(idx, count)| count * part(*idx));
        counts.fold(0.0, |sum: f64, count| (sum + count).min(f64::MAX))
    }
}

/// Where a bucket begins.
fn lower(idx: i32) -> f64 {
    if idx == ZERO { 0.0 } else { bound(idx - 1) }
}

/// The value behind a part of a bucket, whose times are spread evenly by their logarithm, in the zero bucket by themselves.
fn inside(idx: i32, part: f64) -> f64 {
    let (low, high) = (lower(idx), bound(idx));
    if part >= 1.0 {
        high
    } else if idx == ZERO {
        high * part
    } else {
        low * (high / low).powf(part)
    }
}

/// The part of a bucket up to a value.
fn part_below(idx: i32, seconds: f64) -> f64 {
    let (low, high) = (lower(idx), bound(idx));
    if seconds >= high {
        1.0
    } else if seconds < 0.0 || seconds <= low {
        0.0
    } else if idx == ZERO {
        seconds / high
    } else {
        (seconds / low).ln() / (high / low).ln()
    }
}
