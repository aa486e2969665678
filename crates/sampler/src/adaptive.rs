//! `adaptive`: a rate per key of traffic, so that rare keys are kept whole and frequent ones thinned.
//!
//! Traces are counted per key. Every `adjustment_interval` the counts become rates per second, smoothed by an
//! exponentially weighted moving average, and the target is shared out equally: a key with less traffic than its part
//! is kept whole, and what it leaves is for the others. A key is then kept with the probability part / traffic until
//! the next adjustment, by the trace's randomness (see `threshold`), so that the weight of what is kept is known and
//! can be written as `th`.
//!
//! Limits: `max_keys` keys, all others share one part and are counted; nothing is kept over a restart.
//!
//! # Decided
//!
//! - Rates depend on traces that came before and never on which of them were kept: so the estimate 1 / probability
//!   has no bias.
//! - A key that is new is kept whole until the next adjustment, and one comes early, whenever as much is kept as the
//!   target allows for an interval. So a flood of one key costs the target of an interval times the logarithm of the
//!   flood, and no clock is needed to see it; a flood of new keys costs `max_keys` traces beside that.
//! - Equal parts, and not parts that grow with the logarithm of the traffic as elsewhere: whoever is below the equal
//!   part is kept whole, which is a promise that can be checked and that frequent keys cannot take away.

mod keys;

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;

use crate::threshold::Threshold;

pub use self::keys::ADAPTIVE_KEYS_MAX;
pub(crate) use self::keys::{KeyHashes, Keys};

const NANOS_PER_SECOND: f64 = 1e9;

/// A key whose average falls below this many traces a second is forgotten.
const FORGOTTEN_BELOW: f64 = 1e-3;

/// Of a trace's weight that is written as a threshold.
const PRECISION: u32 = 4;

/// What the rates are to achieve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Target {
    /// So many traces kept per second.
    PerSecond(f64),
    /// This share of all traces.
    Share(f64),
}

/// How rates are found.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Settings {
    /// Places of the keys.
    pub(crate) places: Vec<usize>,
    pub(crate) target: Target,
    pub(crate) interval_nanos: u64,
    /// Of the newest interval in the average, above 0, at most 1.
    pub(crate) weight: f64,
    pub(crate) keys_max: usize,
}

/// The state of one policy.
#[derive(Debug)]
pub(crate) struct Adaptive {
    settings: Settings,
    keys: HashMap<u64, Traffic, FxBuildHasher>,
    /// Of the keys beyond `keys_max`.
    others: Traffic,
    /// Of the interval that is being counted; `None` before the first trace.
    started_unix_nano: Option<u64>,
    /// Traces in it.
    n_counted: u64,
    /// Traces kept in it, on average over all randomness, since the last early adjustment.
    n_kept: f64,
    n_overflowed: u64,
}

/// One key.
#[derive(Debug, Clone, Copy, Default)]
struct Traffic {
    /// In the interval that is being counted.
    count: u64,
    /// Traces per second, over the intervals before; `None` for a new key.
    average: Option<f64>,
    threshold: Threshold,
}

impl Adaptive {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            keys: HashMap::default(),
            others: Traffic::default(),
            started_unix_nano: None,
            n_counted: 0,
            n_kept: 0.0,
            n_overflowed: 0,
        }
    }

    /// Goes on with the rates of the same policy before a reload.
    pub(crate) fn go_on(&mut self, before: &mut Self) {
        std::mem::swap(self, before);
        // The places of its keys may be others.
        std::mem::swap(&mut self.settings, &mut before.settings);
    }

    /// Counts a trace; what it has to pass is then [`Self::threshold`].
    pub(crate) fn count(&mut self, hashes: &KeyHashes, now_unix_nano: u64) {
        // A clock that was set back begins the interval anew.
        let started = self
            .started_unix_nano
            .unwrap_or(now_unix_nano)
            .min(now_unix_nano);
        self.started_unix_nano = Some(started);
        let elapsed = now_unix_nano.saturating_sub(started);
        if elapsed >= self.settings.interval_nanos {
            self.adjust(elapsed);
            self.started_unix_nano = Some(now_unix_nano);
        } else if self.n_kept > self.target_of(self.n_counted as f64, self.interval_seconds()) {
            self.adjust_early();
        }
        let key = hashes.combined(&self.settings.places);
        let has_room = self.keys.len() < self.settings.keys_max;
        let traffic = match self.keys.get_mut(&key) {
            Some(traffic) => traffic,
            None if has_room => self.keys.entry(key).or_default(),
            None => {
                self.n_overflowed += 1;
                &mut self.others
            }
        };
        traffic.count += 1;
        self.n_kept += traffic.threshold.probability();
        self.n_counted += 1;
    }

    /// Of the trace that was counted last, or any other with this key until the next is counted.
    pub(crate) fn threshold(&self, hashes: &KeyHashes) -> Threshold {
        let key = hashes.combined(&self.settings.places);
        self.keys.get(&key).unwrap_or(&self.others).threshold
    }

    /// Traces whose key was one too many.
    pub(crate) fn n_overflowed(&self) -> u64 {
        self.n_overflowed
    }

    fn interval_seconds(&self) -> f64 {
        self.settings.interval_nanos as f64 / NANOS_PER_SECOND
    }

    /// Traces to keep of `n_traces` in this time.
    fn target_of(&self, n_traces: f64, seconds: f64) -> f64 {
        match self.settings.target {
            Target::PerSecond(per_second) => per_second * seconds,
            // While nothing is known the share of what has come: the first traces are kept.
            Target::Share(share) => (share * n_traces).max(1.0),
        }
    }

    /// The interval is over.
    fn adjust(&mut self, elapsed_nanos: u64) {
        let seconds = elapsed_nanos as f64 / NANOS_PER_SECOND;
        let weight = self.settings.weight;
        for traffic in self.keys.values_mut().chain([&mut self.others]) {
            let newest = std::mem::take(&mut traffic.count) as f64 / seconds;
            let before = traffic.average.unwrap_or(newest);
            traffic.average = Some(before * (1.0 - weight) + newest * weight);
        }
        self.keys.retain(|_, traffic| {
            traffic
                .average
                .is_none_or(|average| average >= FORGOTTEN_BELOW)
        });
        self.n_counted = 0;
        self.n_kept = 0.0;
        self.share_out();
    }

    /// Too much was kept in the part of the interval that is over: what has come in it is the least that the whole
    /// interval brings.
    fn adjust_early(&mut self) {
        self.n_kept = 0.0;
        self.share_out();
    }

    /// Gives each key its threshold.
    fn share_out(&mut self) {
        let seconds = self.interval_seconds();
        // Order and sums must not depend on where a key lies in the map.
        let mut traffic: Vec<(u64, f64)> = self
            .keys
            .iter()
            .map(|(key, traffic)| (*key, traffic.per_second(seconds)))
            .collect();
        traffic.sort_unstable_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
        let others = self.others.per_second(seconds);
        let at = traffic.partition_point(|(_, per_second)| *per_second < others);
        traffic.insert(at, (u64::MAX, others));
        let mut left = match self.settings.target {
            Target::PerSecond(per_second) => per_second,
            Target::Share(share) => share * traffic.iter().map(|(_, all)| all).sum::<f64>(),
        };
        let n_parts = traffic.len();
        // From the rarest on, so that those that leave something come first.
        for (idx, (key, per_second)) in traffic.iter().enumerate() {
            let part = left / (n_parts - idx) as f64;
            let kept = part.min(*per_second);
            let probability = if kept < *per_second {
                kept / per_second
            } else {
                1.0
            };
            let threshold =
                Threshold::of_probability(probability, PRECISION).unwrap_or(Threshold::HIGHEST);
            left -= kept;
            match self.keys.get_mut(key) {
                Some(traffic) if idx != at => traffic.threshold = threshold,
                Some(_) | None => self.others.threshold = threshold,
            }
        }
    }
}

impl Traffic {
    /// The average, or what has come in an interval that may not be over if that is more.
    fn per_second(&self, interval_seconds: f64) -> f64 {
        let newest = self.count as f64 / interval_seconds;
        self.average.unwrap_or(0.0).max(newest)
    }
}
