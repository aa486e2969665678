//! Policies and keys that the Collector's `tail_sampling` does not have.

use std::time::Duration;

use serde::Deserialize;

use crate::duration;

/// What chooses the share that `probabilistic` keeps. The names are those of the Collector's `probabilistic_sampler`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbabilisticMode {
    /// A hash of `hash_salt` and the trace id, as in the Collector's `tail_sampling`.
    #[default]
    HashSeed,
    /// The trace's randomness (OpenTelemetry's `rv`, or the last 56 bits of the trace id): kept is what passes the
    /// threshold of the percentage. What samplers before this one have thinned is thinned less, so that all that
    /// comes out has been kept with one probability.
    Equalizing,
    /// The same randomness, and the percentage of what arrives: thresholds of samplers before this one multiply.
    Proportional,
}

/// A rate per key of traffic: rare keys are kept whole, frequent ones thinned. The module `adaptive` says how.
///
/// A trace's key is made of the values that these attributes have on its spans and resources.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adaptive {
    /// Attribute keys of spans or resources; `root.service` and `root.name` are service and name of the root span. At
    /// least one, and at most [`crate::ADAPTIVE_KEYS_MAX`] distinct ones in all policies.
    pub keys: Vec<String>,
    /// Traces kept per second in the long run. Either this or `target_percentage`.
    #[serde(default)]
    pub target_traces_per_second: Option<f64>,
    /// Percent of all traces kept in the long run, above 0 and at most 100.
    #[serde(default)]
    pub target_percentage: Option<f64>,
    /// How often rates are found anew, from 1 s to 1 h; absent is 15 s.
    #[serde(
        default = "default_interval",
        deserialize_with = "duration::deserialize"
    )]
    pub adjustment_interval: Duration,
    /// Of the last interval in the moving average: above 0, and 1 forgets everything before. Absent is 0.5.
    #[serde(default = "default_weight")]
    pub weight: f64,
    /// Keys that are told apart, from 1 to [`Self::KEYS_MAX`]; absent is 500. All others share one rate.
    #[serde(default = "default_max_keys")]
    pub max_keys: u64,
}

impl Adaptive {
    /// Largest `max_keys`: a key takes about 60 bytes, and all are looked at in every interval.
    pub const KEYS_MAX: u64 = 100_000;
}

fn default_interval() -> Duration {
    Duration::from_secs(15)
}

const fn default_weight() -> f64 {
    0.5
}

const fn default_max_keys() -> u64 {
    500
}

/// A condition in SQL on a trace's row in `traces`, as far as it is known when the trace is decided. The module `sql`
/// says what can be written.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SqlCondition {
    /// For example `duration_ns > 2000000000 AND span_count > 10`.
    pub condition: String,
}
