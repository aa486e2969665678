//! Configuration: the keys of the Collector's `tail_sampling` processor, and two of our own (`compat`,
//! `budget`).
//!
//! Every key is accepted. Differences in meaning, each because ours can do better: `num_traces`
//! counts undecided traces only and the next due are decided early instead of evicted;
//! `decision_wait` is exact to a tenth of a second (there: whole seconds, plus up to one). Keys that
//! are moot here say why at their field, and [`Config::findings`] says so to the user.

use std::time::Duration;

use serde::Deserialize;

use crate::budget::{Budget, Rounds};
use crate::compat::Compat;
use crate::duration;
use crate::error::{Error, Result, ValueProblem};
use crate::linked::{self, LinkIndex, LinkedTraces};
use crate::policy::Policy;
use crate::trigger::{self, Rules, TriggerRules};
use crate::verdict::Policies;

/// Largest `num_traces`: undecided traces are numbered with 32 bits, and at 256 bytes each this is
/// already 25 GiB.
pub const NUM_TRACES_MAX: u64 = 100_000_000;

/// Largest `num_shards`, as in the Collector.
pub const NUM_SHARDS_MAX: u64 = 256;

/// Largest size of one decision cache: about 3 GB.
pub const CACHE_SIZE_MAX: u64 = 100_000_000;

/// What the sampler is to do.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The policies in order; at least one.
    pub policies: Vec<Policy>,
    /// Whose behaviour is followed where the Collector's is wrong; not a key of the Collector.
    pub compat: Compat,
    /// When policies are asked.
    pub sampling_strategy: SamplingStrategy,
    /// From the arrival of a trace's first span to its decision; 30 s. A trace whose root has not
    /// arrived by then is decided on what is there. 0 decides at the next opportunity.
    #[serde(deserialize_with = "duration::deserialize")]
    pub decision_wait: Duration,
    /// From the arrival of a root span to the decision, if that is earlier than `decision_wait`;
    /// absent or 0 is off.
    #[serde(deserialize_with = "duration::deserialize_optional")]
    pub decision_wait_after_root_received: Option<Duration>,
    /// Rules for long traces in place of `decision_wait`; not a key of the Collector. Absent is off.
    #[serde(deserialize_with = "trigger::deserialize_present")]
    pub trigger: Option<TriggerRules>,
    /// A kept trace keeps the traces that link to it; not a key of the Collector.
    pub linked_traces: LinkedTraces,
    /// Undecided traces held at most; 50,000. Beyond it those next due are decided early (trigger
    /// `memory`).
    pub num_traces: u64,
    /// Moot: no trace is evicted undecided here, so there is nothing to block for. What is too much
    /// for memory is refused when it is received, with a retryable answer.
    pub block_on_overflow: bool,
    /// Moot: a hint how much memory to prepare, which is not needed here.
    pub expected_new_traces_per_sec: u64,
    /// Credit and stop at the first policy in file order that says sampled.
    pub sample_on_first_match: bool,
    /// At shutdown, traces that are not yet due are not sampled, instead of decided on what is
    /// there (trigger `shutdown` in both cases).
    pub drop_pending_traces_on_shutdown: bool,
    /// A trace whose spans are together larger than this many bytes is not sampled, at once
    /// (trigger `too_large`); 0 is no limit. Counted are the span messages, without their
    /// resources.
    pub maximum_trace_size_bytes: u64,
    /// How many decisions are remembered for late spans.
    pub decision_cache: DecisionCache,
    /// From 1 to [`NUM_SHARDS_MAX`]. Moot for one sampler, which is one shard: sizes and rates are
    /// those written here, where each of the Collector's shards has its part of them.
    pub num_shards: u64,
    /// Moot: spans wait in the write-ahead log, which outlives a restart.
    pub tail_storage: Option<String>,
    /// How much of what policies ask for is kept; absent is all. With it traces are decided in rounds, up to a
    /// second later than otherwise. Not a key of the Collector.
    pub budget: Option<Budget>,
}

/// When policies are evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SamplingStrategy {
    /// Once per trace, at its decision.
    #[default]
    TraceComplete,
    /// On every arriving batch alone, that is the spans of the trace below one resource of one
    /// request; only the number of spans goes on counting. The first batch that a policy samples or
    /// drops decides the trace (trigger `matched`), at the next tick; a trace without one is not
    /// sampled when it is due. While a `drop` policy may still match a later batch, sampling waits
    /// until the trace is due (and never happens under `compat: collector`). Policies that judge a
    /// trace as a whole are refused.
    SpanIngest,
}

/// How many decisions are remembered, least recently used first to go.
///
/// A size that is absent or 0 does not mean that decisions are forgotten at once: those decisions
/// share a memory of the last `num_traces` decided traces, because that is how long the Collector
/// knows a trace that is still in its map. Configure sizes much greater than `num_traces`; an entry
/// takes about 30 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DecisionCache {
    /// Sampled traces.
    pub sampled_cache_size: u64,
    /// Traces not sampled or dropped.
    pub non_sampled_cache_size: u64,
}

impl Default for Config {
    /// The Collector's defaults, and no policy: as it is, it does not validate.
    fn default() -> Self {
        Self {
            policies: Vec::new(),
            compat: Compat::None,
            sampling_strategy: SamplingStrategy::TraceComplete,
            decision_wait: Duration::from_secs(30),
            decision_wait_after_root_received: None,
            trigger: None,
            linked_traces: LinkedTraces::default(),
            num_traces: 50_000,
            block_on_overflow: false,
            expected_new_traces_per_sec: 0,
            sample_on_first_match: false,
            drop_pending_traces_on_shutdown: false,
            maximum_trace_size_bytes: 0,
            decision_cache: DecisionCache::default(),
            num_shards: 1,
            tail_storage: None,
            budget: None,
        }
    }
}

impl Config {
    /// Checks everything that [`crate::Sampler::new`] would refuse.
    ///
    /// # Errors
    /// The first thing that is wrong, in file order.
    pub fn validate(&self) -> Result<()> {
        self.check_keys()?;
        let policies = Policies::compile(self)?;
        self.rounds(&policies)?;
        Rules::compile(self)?;
        LinkIndex::new(self).map(|_| ())
    }

    /// Do kept traces keep those that link to them?
    #[must_use]
    pub fn follows_links(&self) -> bool {
        let is_possible = linked::excluded_by(self).is_none();
        self.linked_traces.enabled.unwrap_or(is_possible)
    }

    /// The budget, if there is one.
    pub(crate) fn rounds(&self, policies: &Policies) -> Result<Option<Rounds>> {
        let Some(budget) = &self.budget else {
            return Ok(None);
        };
        if self.sampling_strategy == SamplingStrategy::SpanIngest {
            let key = "budget";
            let other = "`sampling_strategy: trace-complete`";
            let problem = ValueProblem::OnlyWith { other };
            return Err(Error::KeyValue { key, problem });
        }
        Rounds::new(budget, &policies.classes).map(Some)
    }

    /// The top-level keys, without the policies.
    pub(crate) fn check_keys(&self) -> Result<()> {
        check_range("num_shards", self.num_shards, 1, NUM_SHARDS_MAX)?;
        check_range("num_traces", self.num_traces, 1, NUM_TRACES_MAX)?;
        let cache = self.decision_cache;
        check_range(
            "decision_cache.sampled_cache_size",
            cache.sampled_cache_size,
            0,
            CACHE_SIZE_MAX,
        )?;
        check_range(
            "decision_cache.non_sampled_cache_size",
            cache.non_sampled_cache_size,
            0,
            CACHE_SIZE_MAX,
        )
    }
}

fn check_range(key: &'static str, found: u64, min: u64, max: u64) -> Result<()> {
    if (min..=max).contains(&found) {
        return Ok(());
    }
    Err(Error::KeyValue {
        key,
        problem: ValueProblem::OutOfRange { found, min, max },
    })
}

/// Beyond 584 years is never.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
