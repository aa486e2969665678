//! Verdicts of policies, and the decision that they make together.
//!
//! # Decided
//!
//! Precedence is dropped, then sampled, then not sampled (contrib `processor.go`); the policy that
//! is credited is the first in file order with the winning verdict, and none where nothing asked
//! to keep the trace. `drop` policies are asked first, wherever they stand, and one that drops ends
//! the asking; so does the first that samples under `sample_on_first_match`. All others are asked
//! every time, which matters to those that have a budget. A policy that fails has no verdict. What
//! each says is counted.
//!
//! `invert_match` is a plain negation, as in the Collector since v0.144; what it was before
//! ([`crate::Compat`]) are two more verdicts, below dropped and below sampled.

mod evidence;
mod judgement;

use crate::adaptive::Adaptive;
use crate::atoms::{AtomSet, Atoms, AtomsBuilder, whole_ms};
use crate::budget::{Class, Classes};
use crate::chance::{Chances, Weight};
use crate::compile;
use crate::config::{Config, SamplingStrategy};
use crate::counts::{PolicyCounts, Stopwatch};
use crate::decision::PolicyIndex;
use crate::error::Result;
use crate::limits::{CountPerSecond, Limit};
use crate::ottl::Outcome;
use crate::probability::{Passing, Salt, Share};
use crate::sql::Condition;

pub(crate) use self::evidence::Evidence;
pub(crate) use self::judgement::{Judged, Judgement, OnArrival};

/// What one policy says of one trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Sampled,
    NotSampled,
    Dropped,
    /// An inverted policy that nothing matched, where that is a verdict of its own.
    InvertSampled,
    /// An inverted policy that something matched, where that is a verdict of its own.
    InvertNotSampled,
}

/// A policy that has no verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Failed;

/// What `invert_match` makes of a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Invert {
    No,
    Negation,
    /// A verdict of its own precedence.
    OwnVerdict,
}

/// A compiled policy.
#[derive(Debug)]
pub(crate) enum Test {
    Always,
    /// Any of these atoms, or inverted none of them.
    AnyOf {
        atoms: AtomSet,
        invert: Invert,
    },
    Ottl(Outcome),
    Latency {
        threshold_ms: i64,
        /// A duration of exactly the threshold is enough.
        is_inclusive: bool,
        upper_threshold_ms: Option<i64>,
    },
    Probabilistic {
        salt: Salt,
        share: Share,
    },
    Passing(Passing),
    Adaptive(Box<Adaptive>),
    Sql(Condition),
    SpanCount {
        min: u64,
        max: Option<u64>,
    },
    SpanLimit(Limit),
    ByteLimit(Limit),
    AllOf(Vec<Self>),
    Not(Box<Self>),
    Drop(Vec<Self>),
    Composite(Composite),
}

/// Sub-policies that share a budget.
#[derive(Debug)]
pub(crate) struct Composite {
    /// In the order in which they are asked.
    pub(crate) subs: Vec<Sub>,
    pub(crate) max_total: u64,
    /// The total bounds the sum of all sub-policies, and not each of them alone.
    pub(crate) is_total_of_all: bool,
    pub(crate) total: CountPerSecond,
}

/// A sub-policy with its share of the budget.
#[derive(Debug)]
pub(crate) struct Sub {
    pub(crate) test: Test,
    pub(crate) allocated: u64,
    pub(crate) used: CountPerSecond,
}

/// All policies of a configuration, compiled.
#[derive(Debug)]
pub(crate) struct Policies {
    pub(crate) atoms: Atoms,
    /// In file order.
    pub(crate) tests: Vec<Test>,
    /// What each is credited by.
    numbers: Vec<PolicyIndex>,
    /// Positions in `tests` in the order of asking.
    pub(crate) order: Vec<usize>,
    pub(crate) sample_on_first_match: bool,
    pub(crate) classes: Classes,
    /// What each has said so far, in file order.
    counts: Vec<PolicyCounts>,
    /// For metrics alone: no verdict depends on it.
    pub(crate) stopwatch: Option<Stopwatch>,
}

impl Policies {
    /// Checks and compiles.
    pub(crate) fn compile(config: &Config) -> Result<Self> {
        compile::check_names(&config.policies)?;
        let mut atoms = AtomsBuilder::default();
        if config.compat.is_collector() {
            atoms.count_first();
        }
        let mut tests = Vec::with_capacity(config.policies.len());
        for policy in &config.policies {
            if config.sampling_strategy == SamplingStrategy::SpanIngest {
                compile::check_stateless(&policy.name, policy)?;
            }
            let test =
                compile::compile(&policy.name, &policy.policy_type, config.compat, &mut atoms)?;
            tests.push(test);
        }
        let classes = Classes::of(&config.policies, config.budget.as_ref())?;
        let is_drop = |position: &usize| matches!(tests.get(*position), Some(Test::Drop(_)));
        let (drops, others): (Vec<_>, Vec<_>) = (0..tests.len()).partition(is_drop);
        Ok(Self {
            atoms: atoms.build(),
            order: [drops, others].concat(),
            counts: vec![PolicyCounts::default(); tests.len()],
            stopwatch: None,
            numbers: (0..tests.len()).map(policy_index).collect(),
            tests,
            sample_on_first_match: config.sample_on_first_match,
            classes,
        })
    }

    /// What each policy has said so far, in file order.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (PolicyIndex, PolicyCounts)> {
        let numbers = self.numbers.iter().copied();
        numbers.zip(self.counts.iter().copied())
    }

    /// Gives the policies other numbers, in file order.
    pub(crate) fn renumber(&mut self, numbers: Vec<PolicyIndex>) {
        self.numbers = numbers;
    }

    /// The policy at this place of the file, and what it has said so far.
    pub(crate) fn at(&mut self, position: usize) -> Option<(&mut Test, &mut PolicyCounts)> {
        self.tests
            .get_mut(position)
            .zip(self.counts.get_mut(position))
    }

    /// Of a policy that has no budget and cannot fail: whether it matches. Nothing is counted.
    pub(crate) fn holds(&self, position: usize, evidence: &Evidence<'_>) -> bool {
        self.tests[position].holds(evidence)
    }

    /// Traces whose key was one too many for an `adaptive` policy.
    pub(crate) fn n_keys_overflowed(&self) -> u64 {
        self.tests.iter().map(Test::n_keys_overflowed).sum()
    }

    /// Asks every policy about a whole trace.
    pub(crate) fn judge(&mut self, evidence: Evidence<'_>) -> Judged {
        let mut first = Firsts::default();
        let mut class = Class::MAX;
        for place in 0..self.order.len() {
            let position = self.order[place];
            let policy = self.numbers[position];
            let verdict = self.ask(position, &evidence);
            match verdict {
                Ok(Verdict::Dropped) => return Judgement::dropped(policy).into(),
                Ok(verdict) => {
                    first.note(verdict, policy);
                    if matches!(verdict, Verdict::Sampled | Verdict::InvertSampled) {
                        class = class.min(self.classes.of_policy(position));
                    }
                    if self.sample_on_first_match && verdict == Verdict::Sampled {
                        break;
                    }
                }
                Err(Failed) => {}
            }
        }
        match first.credited() {
            None => Judgement::NOT_SAMPLED.into(),
            policy @ Some(_) => {
                let weight = self.weight(&evidence);
                Judged {
                    judgement: Judgement::sampled(policy, weight),
                    class,
                    weight: Some(weight),
                }
            }
        }
    }

    /// Asks the policies about one batch of a trace.
    pub(crate) fn judge_on_arrival(&mut self, evidence: Evidence<'_>) -> OnArrival {
        let mut may_be_dropped = false;
        for place in 0..self.order.len() {
            let position = self.order[place];
            let policy = self.numbers[position];
            let is_drop = matches!(self.tests[position], Test::Drop(_));
            match self.ask(position, &evidence) {
                Ok(Verdict::Dropped) => return OnArrival::Decided(Judgement::dropped(policy)),
                Ok(Verdict::Sampled) => {
                    let judgement = Judgement::sampled(Some(policy), self.weight(&evidence));
                    return if may_be_dropped {
                        OnArrival::Deferred(judgement)
                    } else {
                        OnArrival::Decided(judgement)
                    };
                }
                Ok(Verdict::NotSampled | Verdict::InvertSampled | Verdict::InvertNotSampled) => {
                    may_be_dropped |= is_drop;
                }
                Err(Failed) => {}
            }
        }
        OnArrival::Pending
    }

    fn ask(&mut self, position: usize, evidence: &Evidence<'_>) -> Result<Verdict, Failed> {
        let counts = &mut self.counts[position];
        let begun = counts.begin(self.stopwatch);
        let verdict = self.tests[position].verdict(evidence);
        counts.end(begun);
        counts.note(verdict);
        verdict
    }

    fn weight(&self, evidence: &Evidence<'_>) -> Weight {
        let mut chances = Chances::default();
        for test in &self.tests {
            if let Test::Drop(tests) = test {
                chances.drop(Test::chance_of_all(tests, evidence));
            } else {
                chances.keep(test.chance(evidence));
            }
        }
        chances.weight(evidence.trace.upstream().threshold())
    }
}

/// Limited to [`crate::POLICIES_MAX`] when compiled.
pub(crate) fn policy_index(position: usize) -> PolicyIndex {
    PolicyIndex(u16::try_from(position).unwrap_or(u16::MAX))
}

/// The first policy with each verdict.
#[derive(Debug, Default)]
struct Firsts {
    sampled: Option<PolicyIndex>,
    invert_sampled: Option<PolicyIndex>,
    is_vetoed: bool,
    is_any_not_sampled: bool,
}

impl Firsts {
    fn note(&mut self, verdict: Verdict, policy: PolicyIndex) {
        match verdict {
            Verdict::Sampled => self.sampled = self.sampled.or(Some(policy)),
            Verdict::InvertSampled => self.invert_sampled = self.invert_sampled.or(Some(policy)),
            Verdict::InvertNotSampled => self.is_vetoed = true,
            Verdict::NotSampled | Verdict::Dropped => self.is_any_not_sampled = true,
        }
    }

    /// The policy that keeps the trace.
    fn credited(&self) -> Option<PolicyIndex> {
        if self.is_vetoed {
            return None;
        }
        let inverted = self.invert_sampled.filter(|_| !self.is_any_not_sampled);
        self.sampled.or(inverted)
    }
}

impl Test {
    pub(crate) fn verdict(&mut self, evidence: &Evidence<'_>) -> Result<Verdict, Failed> {
        let is_sampled = match self {
            Self::AnyOf {
                atoms,
                invert: Invert::OwnVerdict,
            } => {
                return Ok(if evidence.atoms.intersects(*atoms) {
                    Verdict::InvertNotSampled
                } else {
                    Verdict::InvertSampled
                });
            }
            Self::Ottl(outcome) => {
                let is_matched = evidence.atoms.intersects(outcome.matched);
                if !is_matched && evidence.atoms.intersects(outcome.failed) {
                    return Err(Failed);
                }
                is_matched
            }
            Self::Adaptive(adaptive) => {
                adaptive.count(&evidence.keys(), evidence.now_unix_nano);
                self.holds(evidence)
            }
            Self::SpanLimit(limit) => limit.take(evidence.n_spans, evidence.now_unix_nano),
            Self::ByteLimit(limit) => limit.take(evidence.n_bytes, evidence.now_unix_nano),
            Self::AllOf(tests) => Self::all_hold(tests, evidence)?,
            Self::Drop(tests) => {
                return Ok(if Self::all_hold(tests, evidence)? {
                    Verdict::Dropped
                } else {
                    Verdict::NotSampled
                });
            }
            Self::Not(test) => match test.verdict(evidence)? {
                Verdict::Sampled => false,
                Verdict::NotSampled => true,
                other @ (Verdict::Dropped | Verdict::InvertSampled | Verdict::InvertNotSampled) => {
                    return Ok(other);
                }
            },
            Self::Composite(composite) => composite.holds(evidence)?,
            Self::Always
            | Self::AnyOf { .. }
            | Self::Latency { .. }
            | Self::Probabilistic { .. }
            | Self::Passing(_)
            | Self::Sql(_)
            | Self::SpanCount { .. } => self.holds(evidence),
        };
        Ok(if is_sampled {
            Verdict::Sampled
        } else {
            Verdict::NotSampled
        })
    }

    /// In order, up to the first that does not match: what is behind it keeps its budget.
    fn all_hold(tests: &mut [Self], evidence: &Evidence<'_>) -> Result<bool, Failed> {
        for test in tests {
            match test.verdict(evidence)? {
                Verdict::Sampled | Verdict::InvertSampled | Verdict::Dropped => {}
                Verdict::NotSampled | Verdict::InvertNotSampled => return Ok(false),
            }
        }
        Ok(true)
    }

    fn n_keys_overflowed(&self) -> u64 {
        match self {
            Self::Adaptive(adaptive) => adaptive.n_overflowed(),
            Self::AllOf(tests) | Self::Drop(tests) => {
                tests.iter().map(Self::n_keys_overflowed).sum()
            }
            Self::Not(test) => test.n_keys_overflowed(),
            Self::Composite(composite) => {
                let subs = composite.subs.iter();
                subs.map(|sub| sub.test.n_keys_overflowed()).sum()
            }
            Self::Always
            | Self::AnyOf { .. }
            | Self::Ottl(_)
            | Self::Latency { .. }
            | Self::Probabilistic { .. }
            | Self::Passing(_)
            | Self::Sql(_)
            | Self::SpanCount { .. }
            | Self::SpanLimit(_)
            | Self::ByteLimit(_) => 0,
        }
    }

    /// Of a test that has no budget and cannot fail: whether it matches.
    pub(crate) fn holds(&self, evidence: &Evidence<'_>) -> bool {
        match self {
            Self::Always => true,
            Self::AnyOf { atoms, invert } => {
                evidence.atoms.intersects(*atoms) == (*invert == Invert::No)
            }
            Self::Ottl(outcome) => evidence.atoms.intersects(outcome.matched),
            Self::Latency {
                threshold_ms,
                is_inclusive,
                upper_threshold_ms,
            } => {
                let ms = whole_ms(evidence.duration_ns);
                let is_above = ms > *threshold_ms || (*is_inclusive && ms == *threshold_ms);
                is_above && upper_threshold_ms.is_none_or(|upper| ms <= upper)
            }
            Self::Probabilistic { salt, share } => share.holds(salt.hash(evidence.trace_id)),
            Self::Passing(choice) => {
                let threshold = choice.threshold(evidence.upstream());
                threshold.is_some_and(|threshold| threshold.keeps(evidence.trace.randomness()))
            }
            Self::Adaptive(adaptive) => {
                let threshold = adaptive.threshold(&evidence.keys());
                threshold.keeps(evidence.trace.randomness())
            }
            Self::Sql(condition) => condition.holds(evidence),
            Self::SpanCount { min, max } => {
                evidence.n_spans >= *min && max.is_none_or(|max| evidence.n_spans <= max)
            }
            Self::AllOf(tests) | Self::Drop(tests) => tests.iter().all(|test| test.holds(evidence)),
            Self::Not(test) => !test.holds(evidence),
            Self::SpanLimit(_) | Self::ByteLimit(_) | Self::Composite(_) => false,
        }
    }
}

impl Composite {
    fn holds(&mut self, evidence: &Evidence<'_>) -> Result<bool, Failed> {
        for idx in 0..self.subs.len() {
            match self.subs[idx].test.verdict(evidence)? {
                Verdict::NotSampled | Verdict::InvertNotSampled | Verdict::Dropped => {}
                Verdict::Sampled | Verdict::InvertSampled => return Ok(self.take(idx, evidence)),
            }
        }
        Ok(false)
    }

    /// Takes the spans of a trace that this sub-policy matches out of the budget, if there is room for all of them.
    pub(crate) fn take(&mut self, idx: usize, evidence: &Evidence<'_>) -> bool {
        let Evidence {
            n_spans,
            now_unix_nano,
            ..
        } = *evidence;
        let sub = &mut self.subs[idx];
        let used = sub.used.at(now_unix_nano).saturating_add(n_spans);
        let total = if self.is_total_of_all {
            self.total.at(now_unix_nano).saturating_add(n_spans)
        } else {
            used
        };
        if used > sub.allocated || total > self.max_total {
            return false;
        }
        sub.used.add(n_spans);
        self.total.add(n_spans);
        true
    }
}
