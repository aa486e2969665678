//! `budget`: how much of what policies ask for is kept, the most important first.
//!
//! With a budget, traces that are due are decided in rounds, one a second (a trace is decided up to a second later
//! than without). All policies are asked about every trace of a round. Those that they would keep are ranked: first
//! by class, in the order of `order`, then by randomness, and in a class that a `latency` policy makes the longest
//! first; equals by trace id. In that order they take from a bucket that fills by the rate, until one does not fit:
//! it and all behind it are not sampled, with the policy that asked for them and the trigger `budget`.
//!
//! Half of the bucket is for the classes that are named, if a policy is in one; the rest never takes it. So a failed
//! trace finds room although the rest was using up all that the rate allows. A trace that is larger than what its class
//! can ever have takes all of it: it is not impossible to keep, as it is with `rate_limiting`.
//!
//! # Decided
//!
//! - **Randomness ranks**, the same 56 bits that thresholds are compared with, and no hash of ours. The first trace
//!   that does not fit is then a threshold: what is kept of the class has passed it, so its weight is
//!   2^56 / (2^56 - threshold), which has no bias because the threshold does not depend on where a kept trace stands
//!   before it (priority sampling; Ting, arXiv 1708.04970), and it can be written as `th`. That is also why
//!   nothing behind the first that does not fit is tried, although something smaller may fit.
//! - **A class ranked by duration that was thinned has no weight** (`adjusted_count` NULL): its kept traces were kept
//!   for certain and stand for none of the shorter ones.
//! - Of a class that got nothing in a round nothing stands for it either: `traces` has a row of each, with the trigger.
//! - Traces that are decided before they are due, for memory or the disk one at a time, are in no round: what is kept
//!   of them has no weight.
//! - A trace that links to a kept one is kept with it (`linked`), whether it fits or not. Where no policy asks for it, it
//!   takes nothing from the bucket.

use std::cmp::Reverse;

use serde::Deserialize;

use crate::decision::{Decision, Trigger};
use crate::error::{Error, Result, ValueProblem};
use crate::limits::Bucket;
use crate::nearest::nearest;
use crate::pending::Trace;
use crate::policy::{Policy, PolicyType};
use crate::threshold::Threshold;
use crate::verdict::{Judged, Judgement};

/// Between two rounds.
const ROUND_NANOS: u64 = 1_000_000_000;

/// What may be kept of what policies ask for; not a key of the Collector.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Spans kept per second in the long run. Either this or `traces_per_second`.
    #[serde(default)]
    pub spans_per_second: Option<u64>,
    /// Traces kept per second in the long run.
    #[serde(default)]
    pub traces_per_second: Option<u64>,
    /// Spans or traces kept at once; absent or 0 is twice the rate.
    #[serde(default)]
    pub burst_capacity: u64,
    /// Names of policies, the most important first; what none of them asks for comes last. Absent are two classes:
    /// first all policies of type `status_code` with ERROR, then all of type `latency`, also within an `and`.
    #[serde(default)]
    pub order: Option<Vec<String>>,
}

/// The place of a class, the most important first.
pub(crate) type Class = usize;

/// The state of a budget.
#[derive(Debug)]
pub(crate) struct Rounds {
    bucket: Bucket,
    counts_traces: bool,
    /// Of each named class, whether it is ranked by duration; the rest is not.
    by_duration: Vec<bool>,
    /// What the rest leaves in the bucket.
    reserve: u64,
    next_unix_nano: Option<u64>,
}

/// A trace of a round.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) trace: Trace,
    pub(crate) trigger: Trigger,
    pub(crate) judged: Judged,
    /// Policies asked for it, and it did not fit.
    pub(crate) is_cut: bool,
}

/// The classes of a configuration.
#[derive(Debug, Default)]
pub(crate) struct Classes {
    /// Of each policy in file order.
    of_policies: Vec<Class>,
    by_duration: Vec<bool>,
}

impl Classes {
    pub(crate) fn of(policies: &[Policy], budget: Option<&Budget>) -> Result<Self> {
        let Some(budget) = budget else {
            return Ok(Self {
                of_policies: vec![0; policies.len()],
                by_duration: Vec::new(),
            });
        };
        let Some(order) = &budget.order else {
            return Ok(Self::by_type(policies));
        };
        let mut by_duration = Vec::with_capacity(order.len());
        for found in order {
            let Some(policy) = policies.iter().find(|policy| policy.name == *found) else {
                let problem = ValueProblem::UnknownPolicy {
                    found: found.clone(),
                    nearest: nearest(found, policies.iter().map(|known| known.name.as_str()))
                        .map(str::to_owned),
                };
                return Err(wrong("budget.order", problem));
            };
            by_duration.push(is_about(&policy.policy_type, is_latency));
        }
        let place = |policy: &Policy| order.iter().position(|name| *name == policy.name);
        let of_policies = policies
            .iter()
            .map(|policy| place(policy).unwrap_or(order.len()));
        Ok(Self {
            of_policies: of_policies.collect(),
            by_duration,
        })
    }

    fn by_type(policies: &[Policy]) -> Self {
        let class = |policy: &Policy| {
            if is_about(&policy.policy_type, is_error) {
                0
            } else if is_about(&policy.policy_type, is_latency) {
                1
            } else {
                2
            }
        };
        Self {
            of_policies: policies.iter().map(class).collect(),
            by_duration: vec![false, true],
        }
    }

    /// Of a policy, by its place in the file.
    pub(crate) fn of_policy(&self, position: usize) -> Class {
        self.of_policies.get(position).copied().unwrap_or_default()
    }
}

/// Itself, or one of those that it demands.
fn is_about(policy: &PolicyType, is_it: fn(&PolicyType) -> bool) -> bool {
    let subs = if let PolicyType::And(and) = policy {
        and.and_sub_policy.as_slice()
    } else {
        &[]
    };
    is_it(policy) || subs.iter().any(|sub| is_about(&sub.policy_type, is_it))
}

fn is_error(policy: &PolicyType) -> bool {
    matches!(policy, PolicyType::StatusCode(codes) if codes.status_codes.iter().any(|code| code == "ERROR"))
}

fn is_latency(policy: &PolicyType) -> bool {
    matches!(policy, PolicyType::Latency(_))
}

fn wrong(key: &'static str, problem: ValueProblem) -> Error {
    Error::KeyValue { key, problem }
}

impl Rounds {
    pub(crate) fn new(budget: &Budget, classes: &Classes) -> Result<Self> {
        let (per_second, counts_traces) = match (budget.spans_per_second, budget.traces_per_second)
        {
            (Some(spans), None) => (spans, false),
            (None, Some(traces)) => (traces, true),
            (None, None) | (Some(_), Some(_)) => {
                let keys = "`spans_per_second` and `traces_per_second`";
                return Err(wrong("budget", ValueProblem::NotOneOf { keys }));
            }
        };
        if per_second == 0 {
            let (found, min, max) = (0, 1, u64::MAX);
            let problem = ValueProblem::OutOfRange { found, min, max };
            return Err(wrong("budget", problem));
        }
        let bucket = Bucket::new(per_second, budget.burst_capacity);
        let n_named = classes.by_duration.len();
        let has_named = classes.of_policies.iter().any(|class| *class < n_named);
        Ok(Self {
            reserve: if has_named { bucket.capacity() / 2 } else { 0 },
            bucket,
            counts_traces,
            by_duration: classes.by_duration.clone(),
            next_unix_nano: None,
        })
    }

    /// Goes on with what the same budget has left before a reload.
    pub(crate) fn go_on(&mut self, before: &mut Self) {
        std::mem::swap(&mut self.bucket, &mut before.bucket);
        self.next_unix_nano = before.next_unix_nano;
    }

    /// Is it time for a round? A clock that was set back counts as time passed.
    pub(crate) fn begins(&mut self, now_unix_nano: u64) -> bool {
        let after = now_unix_nano.saturating_add(ROUND_NANOS);
        let begins = self
            .next_unix_nano
            .is_none_or(|next| next <= now_unix_nano || next > after);
        if begins {
            self.next_unix_nano = Some(after);
        }
        begins
    }

    /// Takes back what does not fit. Without a ranking, because traces come one at a time, nothing is known of the
    /// weight of what does.
    pub(crate) fn cut(&mut self, traces: &mut [Candidate], is_ranked: bool, now_unix_nano: u64) {
        let mut order: Vec<usize> = (0..traces.len())
            .filter(|idx| traces[*idx].judged.judgement.decision == Decision::Sampled)
            .collect();
        order.sort_unstable_by_key(|idx| self.rank(&traces[*idx]));
        let mut fits = true;
        let mut rest = order.as_slice();
        while let Some(first) = rest.first() {
            let of_class = traces[*first].judged.class;
            let n_of_class = rest
                .iter()
                .take_while(|idx| traces[**idx].judged.class == of_class)
                .count();
            let class;
            (class, rest) = rest.split_at(n_of_class);
            let n_kept = class
                .iter()
                .position(|idx| !(fits && self.take(&traces[*idx], now_unix_nano)))
                .unwrap_or(class.len());
            let (kept, cut) = class.split_at(n_kept);
            if let [first, ..] = cut {
                fits = false;
                let threshold = self.threshold(of_class, &traces[*first]);
                for idx in kept {
                    traces[*idx].judged.pass(threshold);
                }
            }
            if !is_ranked {
                for idx in kept {
                    traces[*idx].judged.pass(None);
                }
            }
            for idx in cut {
                let candidate = &mut traces[*idx];
                candidate.is_cut = true;
                candidate.judged.judgement = Judgement {
                    policy: candidate.judged.judgement.policy,
                    ..Judgement::NOT_SAMPLED
                };
            }
        }
    }

    fn is_by_duration(&self, class: Class) -> bool {
        self.by_duration.get(class).copied().unwrap_or(false)
    }

    /// Smaller is better.
    fn rank(&self, candidate: &Candidate) -> impl Ord + use<> {
        let class = candidate.judged.class;
        let duration_ns = if self.is_by_duration(class) {
            candidate.trace.duration_ns()
        } else {
            0
        };
        let trace = &candidate.trace;
        (
            class,
            Reverse(duration_ns),
            Reverse(trace.randomness()),
            *trace.trace_id.as_bytes(),
        )
    }

    fn take(&mut self, candidate: &Candidate, now_unix_nano: u64) -> bool {
        let is_named = candidate.judged.class < self.by_duration.len();
        let floor = if is_named { 0 } else { self.reserve };
        let amount = if self.counts_traces {
            1
        } else {
            candidate.trace.spans.len() as u64
        };
        let amount = amount.min(self.bucket.capacity() - floor);
        self.bucket.take_above(floor, amount, now_unix_nano)
    }

    /// What the kept traces of a class have passed, given the first that was not kept; `None` if no chance decided.
    fn threshold(&self, class: Class, first_cut: &Candidate) -> Option<Threshold> {
        if self.is_by_duration(class) {
            return None;
        }
        Some(Threshold::passed_by(first_cut.trace.randomness()))
    }
}
