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
//! It is unknown, which is not 1, where a budget had a say that mattered (`rate_limiting`,
//! `bytes_limiting`, `composite`), where a `not` is around a `probabilistic`, and where
//! `invert_match` has a precedence of its own.

use crate::probability::{Salt, Share};
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
    Unknown,
}

/// The chances of all policies together.
#[derive(Debug, Default)]
pub(crate) struct Chances {
    /// Per salt the largest chance to be kept and to be dropped; a configuration has one or two.
    of_salts: Vec<(Option<Salt>, f64, f64)>,
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
            Chance::Unknown => self.may_be_dropped_unknown = true,
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

    pub(crate) fn adjusted_count(&self) -> Option<f64> {
        if self.may_be_dropped_unknown || (self.is_unknown && !self.is_certain) {
            return None;
        }
        // Kept is: not dropped, less neither dropped nor chosen.
        let product = |of: fn(f64, f64) -> f64| -> f64 {
            self.of_salts
                .iter()
                .map(|(_, keep, drop)| 1.0 - of(*keep, *drop))
                .product()
        };
        let not_dropped = product(|_, drop| drop);
        if self.is_certain {
            return Some(1.0 / not_dropped);
        }
        if let [(_, keep, drop)] = self.of_salts.as_slice() {
            return Some(1.0 / (keep - drop));
        }
        Some(1.0 / (not_dropped - product(f64::max)))
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
            Self::AllOf(tests) => Self::chance_of_all(tests, evidence),
            Self::Not(test) => match test.chance(evidence) {
                Chance::Never => Chance::Certain,
                Chance::Certain => Chance::Never,
                Chance::Of { .. } | Chance::Unknown => Chance::Unknown,
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
            | Self::SpanCount { .. } => {
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
