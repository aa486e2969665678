//! `adjusted_count`: for how many traces a kept one stands.
//!
//! It is 1 / (probability that a trace with these spans is kept), over the choice of trace ids. A
//! trace that any policy keeps for certain has 1. One that only `probabilistic` policies keep has
//! 100 / the largest of their percentages, as long as they share a salt: their choices are then
//! nested. Policies of different salts choose independently, and the chances that none of them
//! keeps the trace multiply. A `drop` policy with a `probabilistic` in it takes its share away in
//! the same way. All policies take part, also those that voted against the trace and those behind
//! the first match: otherwise the estimate would be biased by the outcome.
//!
//! Policies that choose by the trace's randomness (`mode: equalizing | proportional`, `adaptive`)
//! are nested among each other, in what samplers before this one have chosen (`th`), and in what
//! passes a `budget`: of all these thresholds the highest counts, and the weight contains what was
//! thinned before. Hashes of salts are independent of the randomness.
//!
//! It is unknown, which is not 1, where a budget of a policy had a say that mattered
//! (`rate_limiting`, `bytes_limiting`, `composite`), where a `not` or a `drop` is around a choice by
//! randomness or a `not` around a `probabilistic`, where an `and` demands choices of both kinds,
//! where what a `th` says cannot be true, and where `invert_match` has a precedence of its own.
//!
//! The threshold that spans carry on (`th`) is the highest of those above, where the randomness alone
//! has decided. Where something else had a say, it is erased, also if the weight is known.

use crate::probability::{Salt, Share};
use crate::threshold::{Threshold, ThresholdChange};
use crate::verdict::{Evidence, Invert, Test};

/// How likely a test is to say sampled, over the choice of trace ids with everything else given.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Chance {
    Never,
    Certain,
    /// `salt` is `None` for a conjunction over several salts, which is nested in nothing.
    Of {
        salt: Option<Salt>,
        probability: f64,
    },
    /// Of what passes this.
    Passing(Threshold),
    Unknown,
}

/// The chances of all policies together.
#[derive(Debug, Default)]
pub(crate) struct Chances {
    /// Per salt the largest chance to be kept and to be dropped; a configuration has one or two.
    of_salts: Vec<(Option<Salt>, f64, f64)>,
    /// The lowest threshold that is enough to be kept.
    passing: Option<Threshold>,
    is_certain: bool,
    is_unknown: bool,
    may_be_dropped_unknown: bool,
}

impl Chances {
    pub(crate) fn keep(&mut self, chance: Chance) {
        match chance {
            Chance::Never => {}
            Chance::Certain => self.is_certain = true,
            Chance::Unknown => self.is_unknown = true,
            Chance::Passing(threshold) => {
                let lowest = self
                    .passing
                    .map_or(threshold, |lowest| lowest.min(threshold));
                self.passing = Some(lowest);
            }
            Chance::Of { salt, probability } => {
                let (_, keep, _) = self.of_salt(salt);
                *keep = keep.max(probability);
            }
        }
    }

    /// A trace that is kept was not dropped for certain.
    pub(crate) fn drop(&mut self, chance: Chance) {
        match chance {
            Chance::Never | Chance::Certain => {}
            Chance::Unknown | Chance::Passing(_) => self.may_be_dropped_unknown = true,
            Chance::Of { salt, probability } => {
                let (_, _, drop) = self.of_salt(salt);
                *drop = drop.max(probability);
            }
        }
    }

    fn of_salt(&mut self, salt: Option<Salt>) -> &mut (Option<Salt>, f64, f64) {
        let known = self
            .of_salts
            .iter()
            .position(|(known, ..)| salt.is_some() && *known == salt);
        let position = known.unwrap_or_else(|| {
            self.of_salts.push((salt, 0.0, 0.0));
            self.of_salts.len() - 1
        });
        &mut self.of_salts[position]
    }

    /// Of a trace that has passed `upstream` before; `None` where that is unknown.
    pub(crate) fn weight(&self, upstream: Option<Threshold>) -> Weight {
        let product = |of: fn(f64, f64) -> f64| -> f64 {
            self.of_salts
                .iter()
                .map(|(_, keep, drop)| 1.0 - of(*keep, *drop))
                .product()
        };
        let not_dropped = product(|_, drop| drop);
        // Kept is: not dropped, less neither dropped nor chosen.
        let kept = match self.of_salts.as_slice() {
            _ if self.is_certain => not_dropped,
            [(_, keep, drop)] => keep - drop,
            _ => not_dropped - product(f64::max),
        };
        Weight {
            before: upstream.unwrap_or_default(),
            passed: upstream.unwrap_or_default(),
            passing: if self.is_certain {
                Some(Threshold::ZERO)
            } else {
                self.passing
            },
            not_dropped,
            kept,
            is_kept_unknown: self.is_unknown && !self.is_certain,
            is_unknown: self.may_be_dropped_unknown || upstream.is_none(),
        }
    }
}

/// How likely a trace was to come this far, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Weight {
    /// The threshold that it came with.
    before: Threshold,
    /// What it must have passed, whatever policies say.
    passed: Threshold,
    /// What is enough to be kept if nothing else keeps it.
    passing: Option<Threshold>,
    /// Chance not to be dropped.
    not_dropped: f64,
    /// Chance to be neither dropped nor left to `passing`.
    kept: f64,
    /// `kept` is unknown.
    is_kept_unknown: bool,
    /// All is unknown.
    is_unknown: bool,
}

impl Weight {
    /// It has also passed this; `None` is something of which the chance is unknown.
    pub(crate) fn pass(&mut self, threshold: Option<Threshold>) {
        match threshold {
            Some(threshold) => self.passed = self.passed.max(threshold),
            None => self.is_unknown = true,
        }
    }

    /// Does everything that has passed so far also pass what is enough?
    fn is_randomness_enough(&self) -> bool {
        self.passing.is_some_and(|passing| passing <= self.passed)
    }

    /// `None` where it is unknown.
    pub(crate) fn adjusted_count(&self) -> Option<f64> {
        let is_enough = self.is_randomness_enough();
        if self.is_unknown || (self.is_kept_unknown && !is_enough) {
            return None;
        }
        let all = self.passed.probability();
        if is_enough {
            return Some(1.0 / (all * self.not_dropped));
        }
        let passing = self
            .passing
            .map_or(0.0, |passing| passing.max(self.passed).probability());
        Some(1.0 / (passing * self.not_dropped + (all - passing) * self.kept))
    }

    /// What its spans have to say of it.
    pub(crate) fn threshold(&self) -> ThresholdChange {
        let only_randomness_decides =
            self.is_randomness_enough() || (self.kept == 0.0 && !self.is_kept_unknown);
        let after = self.passed.max(self.passing.unwrap_or_default());
        if self.is_unknown || self.not_dropped < 1.0 || !only_randomness_decides {
            ThresholdChange::Erased
        } else if self.is_randomness_enough() && self.passed == self.before {
            ThresholdChange::Unchanged
        } else {
            ThresholdChange::RaisedTo(after)
        }
    }
}

impl Test {
    /// The chance to say sampled.
    pub(crate) fn chance(&self, evidence: &Evidence<'_>) -> Chance {
        match self {
            Self::Probabilistic { salt, share } => match share {
                Share::Nothing => Chance::Never,
                Share::Everything => Chance::Certain,
                Share::UpTo { .. } => Chance::Of {
                    salt: Some(*salt),
                    probability: share.probability(),
                },
            },
            Self::Passing(choice) => match choice.threshold(evidence.upstream()) {
                None => Chance::Never,
                Some(Threshold::ZERO) => Chance::Certain,
                Some(threshold) => Chance::Passing(threshold),
            },
            Self::Adaptive(adaptive) => match adaptive.threshold(&evidence.keys()) {
                Threshold::ZERO => Chance::Certain,
                threshold => Chance::Passing(threshold),
            },
            Self::AllOf(tests) => Self::chance_of_all(tests, evidence),
            Self::Not(test) => match test.chance(evidence) {
                Chance::Never => Chance::Certain,
                Chance::Certain => Chance::Never,
                Chance::Of { .. } | Chance::Passing(_) | Chance::Unknown => Chance::Unknown,
            },
            Self::SpanLimit(_)
            | Self::ByteLimit(_)
            | Self::AnyOf {
                invert: Invert::OwnVerdict,
                ..
            } => Chance::Unknown,
            Self::Composite(composite) => {
                let is_never = |test: &Self| test.chance(evidence) == Chance::Never;
                if composite.subs.iter().all(|sub| is_never(&sub.test)) {
                    Chance::Never
                } else {
                    Chance::Unknown
                }
            }
            Self::Always
            | Self::AnyOf { .. }
            | Self::Ottl(_)
            | Self::Latency { .. }
            | Self::SpanCount { .. }
            | Self::Sql(_) => {
                if self.holds(evidence) {
                    Chance::Certain
                } else {
                    Chance::Never
                }
            }
            // Its say is another one, see `Chances::drop`.
            Self::Drop(_) => Chance::Never,
        }
    }

    pub(crate) fn chance_of_all(tests: &[Self], evidence: &Evidence<'_>) -> Chance {
        tests
            .iter()
            .fold(Chance::Certain, |all, test| all.and(test.chance(evidence)))
    }
}

impl Chance {
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Never, _) | (_, Self::Never) => Self::Never,
            (Self::Unknown, _) | (_, Self::Unknown) => Self::Unknown,
            (Self::Certain, chance) | (chance, Self::Certain) => chance,
            (Self::Passing(left), Self::Passing(right)) => Self::Passing(left.max(right)),
            (Self::Passing(_), Self::Of { .. }) | (Self::Of { .. }, Self::Passing(_)) => {
                Self::Unknown
            }
            (
                Self::Of {
                    salt: left,
                    probability: p,
                },
                Self::Of {
                    salt: right,
                    probability: q,
                },
            ) => {
                if left.is_some() && left == right {
                    Self::Of {
                        salt: left,
                        probability: p.min(q),
                    }
                } else {
                    Self::Of {
                        salt: None,
                        probability: p * q,
                    }
                }
            }
        }
    }
}
