//! A histogram of times with two kinds of buckets from one count.
//!
//! *Native* buckets are those of [`correlate::buckets`]; only those with a count exist. *Classic* buckets end at powers of two
//! from about a millisecond to 17 minutes: each such bound is also the end of a native bucket, so that their counts are exact
//! sums.
//!
//! # Limits
//!
//! Those of the native buckets. One exemplar per classic bucket, the newest.

use std::collections::BTreeMap;

use correlate::buckets::{PER_DOUBLING, ZERO, bucket};
use otlp::TraceId;

/// Bounds of the classic buckets: 2 to the power of these.
const CLASSIC: std::ops::RangeInclusive<i32> = -10..=10;

/// Times in seconds.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Histogram {
    n_zero: u64,
    sum: f64,
    /// By number.
    native: BTreeMap<i32, u64>,
    /// By the power of two that the classic bucket ends at; behind the last, the bucket without end.
    exemplars: BTreeMap<i32, Exemplar>,
}

/// One of the measured requests, whose trace is kept.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Exemplar {
    pub(crate) trace_id: TraceId,
    /// In seconds.
    pub(crate) value: f64,
    /// When the request ended.
    pub(crate) time_unix_nano: u64,
}

impl Exemplar {
    /// Seconds since 1970, and nanoseconds beside them.
    pub(crate) fn time(&self) -> (u64, u64) {
        const SECOND: u64 = 1_000_000_000;
        (self.time_unix_nano / SECOND, self.time_unix_nano % SECOND)
    }
}

/// A classic bucket.
#[derive(Debug)]
pub(crate) struct Bucket<'a> {
    pub(crate) upper_bound: f64,
    /// Measured times up to the bound.
    pub(crate) cumulative_count: u64,
    pub(crate) exemplar: Option<&'a Exemplar>,
}

impl Histogram {
    /// Counts a time; `kept` names the request's trace where it is kept. What is no time is not counted.
    pub(super) fn add(&mut self, seconds: f64, kept: Option<(TraceId, u64)>) {
        let Some(idx) = bucket(seconds) else {
            return;
        };
        let power = if idx == ZERO {
            self.n_zero = self.n_zero.saturating_add(1);
            *CLASSIC.start()
        } else {
            let count = self.native.entry(idx).or_default();
            *count = count.saturating_add(1);
            let power = idx.div_euclid(PER_DOUBLING) + i32::from(idx.rem_euclid(PER_DOUBLING) > 0);
            power.clamp(*CLASSIC.start(), *CLASSIC.end() + 1)
        };
        self.sum += seconds;
        if let Some((trace_id, time_unix_nano)) = kept {
            let known = self.exemplars.get(&power);
            if known.is_none_or(|known| known.time_unix_nano <= time_unix_nano) {
                let exemplar = Exemplar {
                    trace_id,
                    value: seconds,
                    time_unix_nano,
                };
                self.exemplars.insert(power, exemplar);
            }
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.native
            .values()
            .sum::<u64>()
            .saturating_add(self.n_zero)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.n_zero == 0 && self.native.is_empty()
    }

    pub(crate) fn sum(&self) -> f64 {
        self.sum
    }

    pub(crate) fn n_zero(&self) -> u64 {
        self.n_zero
    }

    /// The native buckets with a count, by number.
    pub(crate) fn native(&self) -> impl Iterator<Item = (i32, u64)> {
        self.native.iter().map(|(idx, count)| (*idx, *count))
    }

    /// The classic buckets, the last of them without end.
    pub(crate) fn classic(&self) -> impl Iterator<Item = Bucket<'_>> {
        let mut cumulative_count = self.n_zero;
        let mut native = self.native.iter().peekable();
        let bounded = CLASSIC.map(move |power| {
            while let Some((_, count)) = native.next_if(|(idx, _)| **idx <= power * PER_DOUBLING) {
                cumulative_count = cumulative_count.saturating_add(*count);
            }
            Bucket {
                upper_bound: 2_f64.powi(power),
                cumulative_count,
                exemplar: self.exemplars.get(&power),
            }
        });
        bounded.chain(std::iter::once_with(|| Bucket {
            upper_bound: f64::INFINITY,
            cumulative_count: self.count(),
            exemplar: self.exemplars.get(&(*CLASSIC.end() + 1)),
        }))
    }
}
