//! `linked_traces`: a kept trace keeps the traces that link to it.
//!
//! A server that batches requests has a trace for each batch, with a span link to each request in it. What was
//! slow in a request is in that batch, so a kept request pulls its batches:
//!
//! - A trace B **links** to a trace T if a span of B has a span link with T's id. Links within a trace are none.
//! - If a policy has kept T, B is kept, whatever its own policies say of it, with no policy and the trigger `linked`;
//!   unless a `drop` policy drops it, or it is too large. If its own policies keep it, that is what is recorded.
//!   A trace that is decided early keeps that trigger (`memory`, `disk`, `shutdown`) also if it is pulled.
//! - Only what is decided can pull. A trace that is due while T is undecided, or has not come, therefore waits for T, at
//!   most `wait` (under `trigger` rules also no longer than `max_wait`), and is then decided without. It does not
//!   where a policy of its own keeps or drops it whatever comes.
//! - Pulled traces pull no others: where each trace links to the one before, one would keep all that follow.
//! - Nothing is pulled the other way, from B to T: a batch links to every request in it, so a kept batch would keep
//!   them all, and with a few batches kept nearly everything. For the same reason a link from a request to a batch's
//!   trace does not pull the batch.
//! - A trace that links to others has no `adjusted_count` and loses its `th`, unless it was certain to be kept: it is
//!   kept with theirs too, and how probable that was is unknown.
//! - With a `budget` it is kept whether it fits or not, also where its own policies asked for it and it did not fit: it
//!   belongs to a trace that did. What is kept only so takes nothing from the budget. What a policy asks for is then
//!   not settled before the round, so such a trace waits for others too. A trace that did not fit pulls nothing.
//!
//! **Too late** is a trace that was decided "not sampled" before T was kept, because T took longer than `wait`, or
//! because the link came in a late span. That is not undone, but counted ([`LinkCounts`]). T is also unknown where
//! its decision has been forgotten (`decision_cache`), or after a restart the part of the log with it is deleted.
//!
//! Not under `compat: collector`, which has nothing of the kind, nor under `span-ingest`, where a trace has no due time
//! to wait at.
//!
//! Limits: [`LINKS_PER_TRACE_MAX`] links of a trace are followed. About 100 bytes for each link to an undecided or
//! unknown trace, part of the heap of undecided traces; none for a trace without links.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use otlp::TraceId;
use serde::Deserialize;

use crate::config::{Config, SamplingStrategy, nanos};
use crate::decided::Remembered;
use crate::decision::Decision;
use crate::duration;
use crate::error::{Error, Result, ValueProblem};
use crate::keyed_hash::KeyedState;
use crate::pending::Trace;
use crate::policy::PolicyType;
use crate::services::Services;
use crate::threshold::ThresholdChange;
use crate::trigger;
use crate::verdict::{Judgement, Policies};

/// Links to other traces that are followed per trace; a batch has as many as requests.
pub const LINKS_PER_TRACE_MAX: usize = 256;

/// The section `linked_traces`; not a key of the Collector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LinkedTraces {
    /// Absent is yes, except under `compat: collector` and `sampling_strategy: span-ingest`, with which it cannot be
    /// written.
    pub enabled: Option<bool>,
    /// How long a trace that is due waits for the traces that it links to; 1 minute.
    #[serde(deserialize_with = "duration::deserialize")]
    pub wait: Duration,
}

impl Default for LinkedTraces {
    fn default() -> Self {
        Self {
            enabled: None,
            wait: Duration::from_secs(60),
        }
    }
}

/// What links could not do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkCounts {
    /// Traces not sampled while a trace that they link to was undecided or had not come.
    pub n_unresolved: u64,
    /// Late spans of traces not sampled, with a link to a trace that a policy had kept.
    pub n_late: u64,
    /// Links beyond [`LINKS_PER_TRACE_MAX`], which were not followed.
    pub n_over_limit: u64,
}

/// Who waits for whom.
#[derive(Debug)]
pub(crate) struct LinkIndex {
    wait_nanos: u64,
    /// Of undecided traces that link to others.
    by_trace: HashMap<TraceId, Links, KeyedState>,
    /// A trace whose decision is not known, and an undecided one that links to it.
    by_target: BTreeSet<(TraceId, TraceId)>,
    /// Heap of the lists in `by_trace`.
    list_bytes: usize,
    /// Policies, by their position, of which a match settles the decision.
    lasting: Vec<usize>,
    pub(crate) counts: LinkCounts,
}

/// The links of one undecided trace.
#[derive(Debug, Default)]
struct Links {
    /// Traces that were unknown or undecided when the link came.
    targets: Vec<TraceId>,
    /// How many of them still are.
    n_open: usize,
    is_pulled: bool,
    /// When the trace was due and began to wait.
    waits_since_unix_nano: Option<u64>,
}

/// The key with which links cannot be followed.
pub(crate) fn excluded_by(config: &Config) -> Option<&'static str> {
    if config.compat.is_collector() {
        Some("compat")
    } else if config.sampling_strategy == SamplingStrategy::SpanIngest {
        Some("sampling_strategy: span-ingest")
    } else {
        None
    }
}

/// With a budget only what drops a trace settles it.
fn settling(config: &Config) -> Vec<usize> {
    let mut lasting = trigger::lasting(&config.policies);
    lasting.retain(|position| {
        let policy_type = &config.policies[*position].policy_type;
        config.budget.is_none() || matches!(policy_type, PolicyType::Drop(_))
    });
    lasting
}

/// Does a decision pull those who link to its trace? A trace that is kept without a policy was pulled itself.
fn is_pulling(decision: Decision, has_policy: bool) -> bool {
    decision == Decision::Sampled && has_policy
}

impl Remembered {
    /// As [`is_pulling`].
    pub(crate) fn is_pulling(self) -> bool {
        is_pulling(self.decision, self.policy.is_some())
    }
}

impl LinkIndex {
    /// Checks the section; `None` where links are not followed.
    pub(crate) fn new(config: &Config) -> Result<Option<Self>> {
        let LinkedTraces { enabled, wait } = config.linked_traces;
        if let (Some(true), Some(other)) = (enabled, excluded_by(config)) {
            return Err(Error::KeyValue {
                key: "linked_traces.enabled",
                problem: ValueProblem::Excluded { other },
            });
        }
        Ok(config.follows_links().then(|| Self {
            wait_nanos: nanos(wait),
            by_trace: HashMap::with_hasher(KeyedState::new()),
            by_target: BTreeSet::new(),
            list_bytes: 0,
            lasting: settling(config),
            counts: LinkCounts::default(),
        }))
    }

    /// Takes note of a link of an undecided trace; `known` is the decision on the other trace.
    pub(crate) fn add(&mut self, trace_id: TraceId, target: TraceId, known: Option<Remembered>) {
        let links = self.by_trace.entry(trace_id).or_default();
        match known {
            Some(known) => links.is_pulled |= known.is_pulling(),
            None if self.by_target.contains(&(target, trace_id)) => {}
            None if links.targets.len() >= LINKS_PER_TRACE_MAX => self.counts.n_over_limit += 1,
            None => {
                self.by_target.insert((target, trace_id));
                let before = links.targets.capacity();
                links.targets.push(target);
                self.list_bytes += (links.targets.capacity() - before) * size_of::<TraceId>();
                links.n_open += 1;
            }
        }
    }

    /// Takes note of a decision; `ready` is told which traces need not wait any more, and when they were due.
    pub(crate) fn settle(
        &mut self,
        target: TraceId,
        known: Remembered,
        mut ready: impl FnMut(TraceId, u64),
    ) {
        while let Some(pair) = self.first_of(target) {
            self.by_target.remove(&pair);
            let Some(links) = self.by_trace.get_mut(&pair.1) else {
                continue;
            };
            links.n_open = links.n_open.saturating_sub(1);
            links.is_pulled |= known.is_pulling();
            if let Some(since) = links.waits_since_unix_nano
                && links.is_resolved()
            {
                ready(pair.1, since);
            }
        }
    }

    fn first_of(&self, target: TraceId) -> Option<(TraceId, TraceId)> {
        let mut from_target = self.by_target.range((target, TraceId::MIN)..);
        from_target.next().copied().filter(|pair| pair.0 == target)
    }

    /// Until when a trace that is due waits for others, if it does; no longer than `latest`.
    pub(crate) fn waits_until(
        &mut self,
        trace: &Trace,
        (policies, services): (&Policies, &Services),
        due_unix_nano: u64,
        latest_unix_nano: u64,
    ) -> Option<u64> {
        let links = self.by_trace.get_mut(&trace.trace_id)?;
        let mut lasting = self.lasting.iter();
        let mut is_settled =
            || lasting.any(|policy| trigger::matches(*policy, trace, policies, services));
        if links.is_resolved() || is_settled() {
            return None;
        }
        let since = *links.waits_since_unix_nano.get_or_insert(due_unix_nano);
        Some(since.saturating_add(self.wait_nanos).min(latest_unix_nano))
    }

    /// When a trace with links was due that waits for others.
    pub(crate) fn waits_since(&self, trace_id: &TraceId) -> Option<u64> {
        self.by_trace.get(trace_id)?.waits_since_unix_nano
    }

    /// What links make of a judgement on a trace that has some; was the trace pulled?
    pub(crate) fn amend(&mut self, trace_id: &TraceId, judgement: &mut Judgement) -> bool {
        let Some(links) = self.by_trace.get(trace_id) else {
            return false;
        };
        match judgement.decision {
            Decision::NotSampled if links.is_pulled => {
                *judgement = Judgement {
                    decision: Decision::Sampled,
                    policy: None,
                    adjusted_count: None,
                    threshold: ThresholdChange::Erased,
                };
                return true;
            }
            Decision::NotSampled if links.n_open > 0 => self.counts.n_unresolved += 1,
            Decision::NotSampled | Decision::Dropped => {}
            // Kept for certain, as far as this stage goes.
            Decision::Sampled if judgement.threshold == ThresholdChange::Unchanged => {}
            Decision::Sampled => {
                judgement.adjusted_count = None;
                judgement.threshold = ThresholdChange::Erased;
            }
        }
        false
    }

    /// A trace with links is decided.
    pub(crate) fn close(&mut self, trace_id: &TraceId) {
        if let Some(links) = self.by_trace.remove(trace_id) {
            self.list_bytes -= links.targets.capacity() * size_of::<TraceId>();
            for target in links.targets {
                self.by_target.remove(&(target, *trace_id));
            }
        }
    }

    /// Of what undecided traces use, estimated: a set's nodes are three quarters full.
    pub(crate) fn heap_bytes(&self) -> usize {
        let trace = size_of::<(TraceId, Links)>() + 1;
        let pair = size_of::<(TraceId, TraceId)>() * 4 / 3;
        self.by_trace.len() * trace * 8 / 7 + self.by_target.len() * pair + self.list_bytes
    }
}

impl Links {
    fn is_resolved(&self) -> bool {
        self.is_pulled || self.n_open == 0
    }
}
