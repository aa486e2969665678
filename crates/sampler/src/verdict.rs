//! Verdicts of policies, and the decision that they make together.
//!
//! # Decided
//!
//! Precedence is dropped, then sampled, then not sampled (contrib `processor.go`); the policy that
//! is credited is the first in file order with the winning verdict, and none where nothing asked
//! to keep the trace. `invert_match` is a plain negation, as in the Collector since v0.144.
//!
//! `adjusted_count` is 1 / (probability that a trace with these spans is kept), over the choice of
//! trace ids. A trace that any policy keeps for certain has 1. One that only `probabilistic`
//! policies keep has 100 / the largest of their percentages, as long as they share a salt: their
//! choices are then nested. Policies of different salts choose independently, and the chances that
//! none of them keeps the trace multiply. All policies take part, also those that voted against
//! it and those behind the first match: otherwise the estimate would be biased by the outcome.

use std::collections::HashSet;

use otlp::TraceId;
use otlp::span::StatusCode;

use crate::atoms::{AtomSet, Atoms, AtomsBuilder, Condition};
use crate::config::Config;
use crate::decision::{Decision, PolicyIndex};
use crate::error::{Error, Result, ValueProblem};
use crate::policy::{Latency, NumericAttribute, Policy, PolicyType, StringAttribute};
use crate::probability::{Salt, Share};

/// Top-level policies; the rest of a [`PolicyIndex`]'s range is for names that only recorded
/// decisions know.
pub const POLICIES_MAX: usize = 32_768;

/// What policies look at: a trace as it is at its decision.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Evidence<'a> {
    pub(crate) trace_id: &'a TraceId,
    pub(crate) atoms: AtomSet,
    pub(crate) duration_ns: u64,
}

/// What one policy says of one trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Sampled,
    NotSampled,
}

/// A compiled policy.
#[derive(Debug)]
enum Test {
    Always,
    /// Any of these atoms, or with `invert` none of them.
    AnyOf {
        atoms: AtomSet,
        invert: bool,
    },
    Latency {
        threshold_ms: i64,
        upper_threshold_ms: Option<i64>,
    },
    Probabilistic {
        salt: Salt,
        share: Share,
    },
    AllOf(Vec<Self>),
}

/// All policies of a configuration, compiled.
#[derive(Debug)]
pub(crate) struct Policies {
    pub(crate) atoms: Atoms,
    /// In file order.
    tests: Vec<Test>,
    sample_on_first_match: bool,
}

/// A decision and what is credited for it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Judgement {
    pub(crate) decision: Decision,
    pub(crate) policy: Option<PolicyIndex>,
    pub(crate) adjusted_count: Option<f64>,
}

impl Judgement {
    pub(crate) const NOT_SAMPLED: Self = Self {
        decision: Decision::NotSampled,
        policy: None,
        adjusted_count: None,
    };
}

impl Policies {
    /// Checks and compiles.
    pub(crate) fn compile(config: &Config) -> Result<Self> {
        check_names(&config.policies)?;
        let mut atoms = AtomsBuilder::default();
        let mut tests = Vec::with_capacity(config.policies.len());
        for policy in &config.policies {
            tests.push(compile(&policy.name, &policy.policy_type, &mut atoms)?);
        }
        let atoms = atoms.build();
        Ok(Self {
            atoms,
            tests,
            sample_on_first_match: config.sample_on_first_match,
        })
    }

    /// Asks every policy.
    pub(crate) fn judge(&self, evidence: Evidence<'_>) -> Judgement {
        let mut credited = None;
        for (test, idx) in self.tests.iter().zip(0..) {
            if test.verdict(evidence) == Verdict::Sampled {
                credited = credited.or(Some(PolicyIndex(idx)));
                if self.sample_on_first_match {
                    break;
                }
            }
        }
        match credited {
            None => Judgement::NOT_SAMPLED,
            Some(_) => Judgement {
                decision: Decision::Sampled,
                policy: credited,
                adjusted_count: Some(self.adjusted_count(evidence)),
            },
        }
    }

    fn adjusted_count(&self, evidence: Evidence<'_>) -> f64 {
        // Per salt the largest chance; a configuration has one or two.
        let mut chances: Vec<(Option<Salt>, f64)> = Vec::new();
        for test in &self.tests {
            match test.chance(evidence) {
                Chance::Never => {}
                Chance::Certain => return 1.0,
                Chance::Of { salt, probability } => {
                    match chances
                        .iter_mut()
                        .find(|(known, _)| salt.is_some() && *known == salt)
                    {
                        Some((_, largest)) => *largest = largest.max(probability),
                        None => chances.push((salt, probability)),
                    }
                }
            }
        }
        if let [(_, probability)] = chances.as_slice() {
            return 1.0 / probability;
        }
        let kept_by_none: f64 = chances
            .iter()
            .map(|(_, probability)| 1.0 - probability)
            .product();
        1.0 / (1.0 - kept_by_none)
    }
}

fn check_names(policies: &[Policy]) -> Result<()> {
    if policies.is_empty() {
        return Err(Error::NoPolicies);
    }
    if policies.len() > POLICIES_MAX {
        return Err(Error::TooManyPolicies {
            n_policies: policies.len(),
            limit: POLICIES_MAX,
        });
    }
    let mut names = HashSet::new();
    for (policy, number) in policies.iter().zip(1..) {
        if policy.name.is_empty() {
            return Err(Error::NameEmpty { number });
        }
        if !names.insert(policy.name.as_str()) {
            return Err(Error::NameDuplicate {
                policy: policy.name.clone(),
            });
        }
    }
    Ok(())
}

/// `policy` is the path of names that errors name.
fn compile(policy: &str, policy_type: &PolicyType, atoms: &mut AtomsBuilder) -> Result<Test> {
    match policy_type {
        PolicyType::AlwaysSample => Ok(Test::Always),
        PolicyType::Latency(latency) => compile_latency(policy, latency),
        PolicyType::NumericAttribute(numeric) => compile_numeric(policy, numeric, atoms),
        PolicyType::Probabilistic(config) => {
            if !config.sampling_percentage.is_finite() {
                let key = "probabilistic.sampling_percentage";
                return Err(wrong(policy, key, ValueProblem::NotFinite));
            }
            let share = Share::new(config.sampling_percentage);
            Ok(Test::Probabilistic {
                salt: Salt::new(&config.hash_salt),
                share,
            })
        }
        PolicyType::StatusCode(config) => compile_status(policy, &config.status_codes),
        PolicyType::StringAttribute(string) => compile_string(policy, string, atoms),
        PolicyType::And(and) => {
            if and.and_sub_policy.is_empty() {
                return Err(wrong(policy, "and.and_sub_policy", ValueProblem::Empty));
            }
            let mut tests = Vec::with_capacity(and.and_sub_policy.len());
            for sub in &and.and_sub_policy {
                let path = format!("{policy}/{}", sub.name);
                if matches!(sub.policy_type, PolicyType::And(_)) {
                    let policy_type = sub.policy_type.name();
                    return Err(Error::TypeNested {
                        policy: path,
                        policy_type,
                    });
                }
                tests.push(compile(&path, &sub.policy_type, atoms)?);
            }
            Ok(Test::AllOf(tests))
        }
    }
}

fn wrong(policy: &str, key: &'static str, problem: ValueProblem) -> Error {
    Error::PolicyValue {
        policy: policy.to_owned(),
        key,
        problem,
    }
}

fn compile_latency(policy: &str, latency: &Latency) -> Result<Test> {
    let Latency {
        threshold_ms,
        upper_threshold_ms,
    } = *latency;
    if upper_threshold_ms < 0 {
        return Err(wrong(
            policy,
            "latency.upper_threshold_ms",
            ValueProblem::Negative,
        ));
    }
    let upper_threshold_ms = (upper_threshold_ms != 0).then_some(upper_threshold_ms);
    if let Some(upper) = upper_threshold_ms.filter(|upper| *upper <= threshold_ms) {
        let problem = ValueProblem::EmptyRange {
            min: threshold_ms.to_string(),
            max: upper.to_string(),
        };
        return Err(wrong(policy, "latency", problem));
    }
    Ok(Test::Latency {
        threshold_ms,
        upper_threshold_ms,
    })
}

fn compile_numeric(
    policy: &str,
    numeric: &NumericAttribute,
    atoms: &mut AtomsBuilder,
) -> Result<Test> {
    let NumericAttribute {
        key,
        min_value: min,
        max_value: max,
        invert_match,
    } = numeric;
    if key.is_empty() {
        return Err(wrong(policy, "numeric_attribute.key", ValueProblem::Empty));
    }
    if [min, max]
        .into_iter()
        .flatten()
        .any(|bound| !bound.is_finite())
    {
        return Err(wrong(policy, "numeric_attribute", ValueProblem::NotFinite));
    }
    match (min, max) {
        (None, None) => Err(wrong(policy, "numeric_attribute", ValueProblem::NoBound)),
        (Some(min), Some(max)) if min.compare(*max).is_some_and(|order| order.is_gt()) => {
            let problem = ValueProblem::EmptyRange {
                min: min.to_string(),
                max: max.to_string(),
            };
            Err(wrong(policy, "numeric_attribute", problem))
        }
        (min, max) => {
            let condition = Condition::Within {
                min: *min,
                max: *max,
            };
            Ok(Test::AnyOf {
                atoms: atoms.add(policy, key, condition)?,
                invert: *invert_match,
            })
        }
    }
}

fn compile_string(
    policy: &str,
    string: &StringAttribute,
    atoms: &mut AtomsBuilder,
) -> Result<Test> {
    if string.key.is_empty() {
        return Err(wrong(policy, "string_attribute.key", ValueProblem::Empty));
    }
    let values = string.values.clone();
    let condition = if string.enabled_regex_matching {
        Condition::Patterns(values)
    } else {
        Condition::OneOf(values)
    };
    let atoms = atoms.add(policy, &string.key, condition)?;
    Ok(Test::AnyOf {
        atoms,
        invert: string.invert_match,
    })
}

fn compile_status(policy: &str, status_codes: &[String]) -> Result<Test> {
    if status_codes.is_empty() {
        return Err(wrong(
            policy,
            "status_code.status_codes",
            ValueProblem::Empty,
        ));
    }
    let mut atoms = AtomSet::EMPTY;
    for name in status_codes {
        atoms |= AtomSet::of_status(match name.as_str() {
            "OK" => StatusCode::Ok,
            "ERROR" => StatusCode::Error,
            "UNSET" => StatusCode::Unset,
            _ => {
                let problem = ValueProblem::UnknownName {
                    found: name.clone(),
                    known: "OK, ERROR, UNSET",
                };
                return Err(wrong(policy, "status_code.status_codes", problem));
            }
        });
    }
    Ok(Test::AnyOf {
        atoms,
        invert: false,
    })
}

/// How likely a test is to say sampled, over the choice of trace ids with everything else given.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Chance {
    Never,
    Certain,
    /// `salt` is `None` for a conjunction over several salts, which is nested in nothing.
    Of {
        salt: Option<Salt>,
        probability: f64,
    },
}

impl Test {
    fn verdict(&self, evidence: Evidence<'_>) -> Verdict {
        if self.holds(evidence) {
            Verdict::Sampled
        } else {
            Verdict::NotSampled
        }
    }

    fn holds(&self, evidence: Evidence<'_>) -> bool {
        match self {
            Self::Always => true,
            Self::AnyOf { atoms, invert } => evidence.atoms.intersects(*atoms) != *invert,
            Self::Latency {
                threshold_ms,
                upper_threshold_ms,
            } => {
                // Whole milliseconds, as Go's `Duration.Milliseconds`; u64 nanoseconds fit.
                let ms = i64::try_from(evidence.duration_ns / 1_000_000).unwrap_or(i64::MAX);
                ms > *threshold_ms && upper_threshold_ms.is_none_or(|upper| ms <= upper)
            }
            Self::Probabilistic { salt, share } => share.holds(salt.hash(evidence.trace_id)),
            Self::AllOf(tests) => tests.iter().all(|test| test.holds(evidence)),
        }
    }

    fn chance(&self, evidence: Evidence<'_>) -> Chance {
        match self {
            Self::Probabilistic {
                share: Share::Nothing,
                ..
            } => Chance::Never,
            Self::Probabilistic {
                share: Share::Everything,
                ..
            } => Chance::Certain,
            Self::Probabilistic { salt, share } => Chance::Of {
                salt: Some(*salt),
                probability: share.probability(),
            },
            Self::AllOf(tests) => tests
                .iter()
                .fold(Chance::Certain, |all, test| all.and(test.chance(evidence))),
            Self::Always | Self::AnyOf { .. } | Self::Latency { .. } => {
                if self.holds(evidence) {
                    Chance::Certain
                } else {
                    Chance::Never
                }
            }
        }
    }
}

impl Chance {
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Never, _) | (_, Self::Never) => Self::Never,
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
