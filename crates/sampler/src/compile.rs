//! Checking policies and compiling them into tests over atoms.

mod ours;

use std::collections::HashSet;

use otlp::span::StatusCode;

use crate::atoms::{AtomSet, AtomsBuilder, Condition, DurationRange, Entry};
use crate::compat::Compat;
use crate::error::{Error, Result, ValueProblem};
use crate::limits::{Bucket, CountPerSecond, Limit};
use crate::number::Number;
use crate::policy::{
    self, BooleanAttribute, Latency, NumericAttribute, Policy, PolicyType, RateLimiting, SpanCount,
    StringAttribute,
};
use crate::verdict::{Composite, Invert, Sub, Test};

use self::ours::{compile_adaptive, compile_probabilistic, compile_sql};

/// Top-level policies; the rest of a [`crate::PolicyIndex`]'s range is for names that only recorded
/// decisions know.
pub const POLICIES_MAX: usize = 32_768;

/// There are policies, and each has a name of its own.
pub(crate) fn check_names(policies: &[Policy]) -> Result<()> {
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

/// What `span-ingest` demands: a verdict on a batch that no later batch can make wrong.
pub(crate) fn check_stateless(path: &str, policy: &Policy) -> Result<()> {
    let is_stateful = match &policy.policy_type {
        PolicyType::RateLimiting(_)
        | PolicyType::BytesLimiting(_)
        | PolicyType::Composite(_)
        | PolicyType::Adaptive(_)
        | PolicyType::SqlCondition(_) => true,
        PolicyType::Latency(latency) => latency.upper_threshold_ms != 0,
        PolicyType::SpanCount(count) => count.max_spans != 0,
        PolicyType::AlwaysSample
        | PolicyType::NumericAttribute(_)
        | PolicyType::Probabilistic(_)
        | PolicyType::StatusCode(_)
        | PolicyType::StringAttribute(_)
        | PolicyType::BooleanAttribute(_)
        | PolicyType::TraceState(_)
        | PolicyType::TraceFlags
        | PolicyType::OttlCondition(_)
        | PolicyType::And(_)
        | PolicyType::Not(_)
        | PolicyType::Drop(_) => false,
    };
    if is_stateful {
        return Err(Error::Stateful {
            policy: path.to_owned(),
            policy_type: policy.policy_type.name(),
        });
    }
    let subs = policy.policy_type.sub_policies();
    subs.iter()
        .try_for_each(|sub| check_stateless(&format!("{path}/{}", sub.name), sub))
}

/// `policy` is the path of names that errors name.
pub(crate) fn compile(
    policy: &str,
    policy_type: &PolicyType,
    compat: Compat,
    atoms: &mut AtomsBuilder,
) -> Result<Test> {
    match policy_type {
        PolicyType::AlwaysSample => Ok(Test::Always),
        PolicyType::Latency(latency) => compile_latency(policy, latency, compat, atoms),
        PolicyType::NumericAttribute(numeric) => compile_numeric(policy, numeric, compat, atoms),
        PolicyType::Probabilistic(config) => compile_probabilistic(policy, config),
        PolicyType::StatusCode(config) => compile_status(policy, &config.status_codes),
        PolicyType::StringAttribute(string) => compile_string(policy, string, compat, atoms),
        PolicyType::BooleanAttribute(boolean) => compile_boolean(policy, boolean, compat, atoms),
        PolicyType::TraceState(config) => compile_trace_state(policy, config, atoms),
        PolicyType::TraceFlags => Ok(any_of(atoms.flags(policy)?)),
        PolicyType::SpanCount(count) => compile_span_count(policy, count),
        PolicyType::RateLimiting(config) => Ok(Test::SpanLimit(span_limit(config, compat))),
        PolicyType::BytesLimiting(config) => {
            let bucket = Bucket::new(config.bytes_per_second, config.burst_capacity);
            Ok(Test::ByteLimit(Limit::Bucket(bucket)))
        }
        PolicyType::OttlCondition(config) => {
            if config.span.is_empty() && config.spanevent.is_empty() {
                return Err(wrong(policy, "ottl_condition.span", ValueProblem::Empty));
            }
            let first_wins = compat.is_collector();
            Ok(Test::Ottl(atoms.ottl(policy, config, first_wins)?))
        }
        PolicyType::And(and) => {
            let subs = &and.and_sub_policy;
            let key = "and.and_sub_policy";
            compile_subs((policy, "and", key), subs, compat, atoms).map(Test::AllOf)
        }
        PolicyType::Not(not) => {
            let sub = &not.not_sub_policy;
            let test = compile_sub((policy, "not"), sub, compat, atoms)?;
            Ok(Test::Not(Box::new(test)))
        }
        PolicyType::Drop(drop) => {
            let subs = &drop.drop_sub_policy;
            let key = "drop.drop_sub_policy";
            compile_subs((policy, "drop", key), subs, compat, atoms).map(Test::Drop)
        }
        PolicyType::Composite(composite) => compile_composite(policy, composite, compat, atoms),
        PolicyType::Adaptive(config) => compile_adaptive(policy, config, atoms),
        PolicyType::SqlCondition(config) => compile_sql(policy, config),
    }
}

fn wrong(policy: &str, key: &'static str, problem: ValueProblem) -> Error {
    Error::PolicyValue {
        policy: policy.to_owned(),
        key,
        problem,
    }
}

fn any_of(atoms: AtomSet) -> Test {
    Test::AnyOf {
        atoms,
        invert: Invert::No,
    }
}

fn invert(invert_match: bool, compat: Compat) -> Invert {
    match (invert_match, compat.inverts_decisions()) {
        (false, _) => Invert::No,
        (true, false) => Invert::Negation,
        (true, true) => Invert::OwnVerdict,
    }
}

/// `parent` is its path and its type.
fn compile_sub(
    (policy, within): (&str, &'static str),
    sub: &Policy,
    compat: Compat,
    atoms: &mut AtomsBuilder,
) -> Result<Test> {
    let path = format!("{policy}/{}", sub.name);
    let sub_type = &sub.policy_type;
    let is_and_too_deep =
        matches!(sub_type, PolicyType::And(_)) && matches!(within, "and" | "drop");
    let is_double_not = matches!(sub_type, PolicyType::Not(_)) && within == "not";
    let is_top_level_only = matches!(sub_type, PolicyType::Drop(_) | PolicyType::Composite(_));
    if is_and_too_deep || is_double_not || is_top_level_only {
        return Err(Error::TypeNested {
            policy: path,
            policy_type: sub.policy_type.name(),
            within,
        });
    }
    compile(&path, &sub.policy_type, compat, atoms)
}

/// `parent` is its path, its type, and the key of the list.
fn compile_subs(
    (policy, within, key): (&str, &'static str, &'static str),
    subs: &[Policy],
    compat: Compat,
    atoms: &mut AtomsBuilder,
) -> Result<Vec<Test>> {
    if subs.is_empty() {
        return Err(wrong(policy, key, ValueProblem::Empty));
    }
    subs.iter()
        .map(|sub| compile_sub((policy, within), sub, compat, atoms))
        .collect()
}

fn compile_latency(
    policy: &str,
    latency: &Latency,
    compat: Compat,
    atoms: &mut AtomsBuilder,
) -> Result<Test> {
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
    if let Some(up_to_ms) = upper_threshold_ms.filter(|_| compat.is_collector()) {
        let range = DurationRange {
            above_ms: threshold_ms,
            up_to_ms,
        };
        return Ok(any_of(atoms.running_duration(policy, range)?));
    }
    Ok(Test::Latency {
        threshold_ms,
        is_inclusive: compat.latency_is_inclusive(),
        upper_threshold_ms,
    })
}

fn compile_numeric(
    policy: &str,
    numeric: &NumericAttribute,
    compat: Compat,
    atoms: &mut AtomsBuilder,
) -> Result<Test> {
    let key = &numeric.key;
    if key.is_empty() {
        return Err(wrong(policy, "numeric_attribute.key", ValueProblem::Empty));
    }
    let as_collector = compat.is_collector();
    let (mut min, mut max) = (numeric.min_value, numeric.max_value);
    if as_collector {
        let is_whole = |bound: Number| matches!(bound, Number::Int(_));
        if !min.is_none_or(is_whole) || !max.is_none_or(is_whole) {
            return Err(wrong(policy, "numeric_attribute", ValueProblem::NotWhole));
        }
        min = min.filter(|bound| *bound != Number::Int(0));
        max = max.filter(|bound| *bound != Number::Int(0));
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
        (Some(min), Some(max)) if min.compare(max).is_some_and(|order| order.is_gt()) => {
            let problem = ValueProblem::EmptyRange {
                min: min.to_string(),
                max: max.to_string(),
            };
            Err(wrong(policy, "numeric_attribute", problem))
        }
        (min, max) => {
            let condition = Condition::Within {
                min,
                max,
                as_collector,
            };
            Ok(Test::AnyOf {
                atoms: atoms.attribute(policy, key, condition)?,
                invert: invert(numeric.invert_match, compat),
            })
        }
    }
}

fn compile_string(
    policy: &str,
    string: &StringAttribute,
    compat: Compat,
    atoms: &mut AtomsBuilder,
) -> Result<Test> {
    if string.key.is_empty() {
        return Err(wrong(policy, "string_attribute.key", ValueProblem::Empty));
    }
    let values = string.values.clone();
    let condition = if string.enabled_regex_matching {
        Condition::Patterns {
            patterns: values,
            as_collector: compat.is_collector(),
        }
    } else {
        Condition::OneOf(values)
    };
    Ok(Test::AnyOf {
        atoms: atoms.attribute(policy, &string.key, condition)?,
        invert: invert(string.invert_match, compat),
    })
}

fn compile_boolean(
    policy: &str,
    boolean: &BooleanAttribute,
    compat: Compat,
    atoms: &mut AtomsBuilder,
) -> Result<Test> {
    if boolean.key.is_empty() {
        return Err(wrong(policy, "boolean_attribute.key", ValueProblem::Empty));
    }
    let condition = Condition::Is {
        value: boolean.value,
        as_collector: compat.is_collector(),
    };
    Ok(Test::AnyOf {
        atoms: atoms.attribute(policy, &boolean.key, condition)?,
        invert: invert(boolean.invert_match, compat),
    })
}

fn compile_trace_state(
    policy: &str,
    config: &policy::TraceState,
    atoms: &mut AtomsBuilder,
) -> Result<Test> {
    /// Characters of key and value together, with the `=` between them.
    const ENTRY_CHARS_MAX: usize = 256;
    if config.key.is_empty() {
        return Err(wrong(policy, "trace_state.key", ValueProblem::Empty));
    }
    let is_possible =
        |value: &&String| !value.is_empty() && config.key.len() + value.len() < ENTRY_CHARS_MAX;
    let entry = Entry {
        key: config.key.clone(),
        values: config.values.iter().filter(is_possible).cloned().collect(),
    };
    Ok(any_of(atoms.trace_state(policy, entry)?))
}

fn compile_status(policy: &str, status_codes: &[String]) -> Result<Test> {
    let key = "status_code.status_codes";
    if status_codes.is_empty() {
        return Err(wrong(policy, key, ValueProblem::Empty));
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
                return Err(wrong(policy, key, problem));
            }
        });
    }
    Ok(any_of(atoms))
}

fn compile_span_count(policy: &str, count: &SpanCount) -> Result<Test> {
    let SpanCount {
        min_spans,
        max_spans,
    } = *count;
    if max_spans != 0 && max_spans < min_spans {
        let problem = ValueProblem::EmptyRange {
            min: min_spans.to_string(),
            max: max_spans.to_string(),
        };
        return Err(wrong(policy, "span_count", problem));
    }
    Ok(Test::SpanCount {
        min: min_spans.into(),
        max: (max_spans != 0).then_some(max_spans.into()),
    })
}

fn span_limit(config: &RateLimiting, compat: Compat) -> Limit {
    if compat.rate_is_per_clock_second() {
        return Limit::ClockSecond {
            below: config.spans_per_second,
            count: CountPerSecond::default(),
        };
    }
    Limit::Bucket(Bucket::new(config.spans_per_second, config.burst_capacity))
}

fn compile_composite(
    policy: &str,
    composite: &policy::Composite,
    compat: Compat,
    atoms: &mut AtomsBuilder,
) -> Result<Test> {
    let names = check_composite(policy, composite)?;
    let key = "composite.composite_sub_policy";
    let subs = &composite.composite_sub_policy;
    let tests = compile_subs((policy, "composite", key), subs, compat, atoms)?;
    let mut subs: Vec<(usize, Sub)> = Vec::with_capacity(tests.len());
    for (test, name) in tests.into_iter().zip(&names) {
        let in_order = composite
            .policy_order
            .iter()
            .position(|ordered| ordered == name);
        let place = in_order.filter(|_| !compat.is_collector());
        let sub = Sub {
            test,
            allocated: allocated(composite, name, compat),
            used: CountPerSecond::default(),
        };
        subs.push((place.unwrap_or(usize::MAX), sub));
    }
    if !compat.is_collector() {
        // Stable: those without a place keep their order, at the end.
        subs.sort_by_key(|(place, _)| *place);
    }
    Ok(Test::Composite(Composite {
        subs: subs.into_iter().map(|(_, sub)| sub).collect(),
        max_total: composite.max_total_spans_per_second,
        is_total_of_all: !compat.is_collector(),
        total: CountPerSecond::default(),
    }))
}

/// The names of the sub-policies, which are distinct and the only ones that are named.
fn check_composite<'a>(policy: &str, composite: &'a policy::Composite) -> Result<Vec<&'a str>> {
    let subs = composite.composite_sub_policy.iter();
    let names: Vec<&str> = subs.map(|sub| sub.name.as_str()).collect();
    let mut known = HashSet::new();
    for name in &names {
        if !known.insert(*name) {
            return Err(Error::NameDuplicate {
                policy: format!("{policy}/{name}"),
            });
        }
    }
    let ordered = composite.policy_order.iter();
    let ordered = ordered.map(|name| ("composite.policy_order", name));
    let allocated = composite.rate_allocation.iter();
    let allocated = allocated.map(|rate| ("composite.rate_allocation", &rate.policy));
    for (key, name) in ordered.chain(allocated) {
        if !known.contains(name.as_str()) {
            let found = name.clone();
            return Err(wrong(policy, key, ValueProblem::UnknownSubPolicy { found }));
        }
    }
    Ok(names)
}

/// Spans per second of one sub-policy.
fn allocated(composite: &policy::Composite, name: &str, compat: Compat) -> u64 {
    let max_total = composite.max_total_spans_per_second;
    let equal_share = max_total / composite.composite_sub_policy.len().max(1) as u64;
    let rates = composite.rate_allocation.iter();
    match rates.rev().find(|rate| rate.policy == name) {
        None if compat.omitted_allocation_is_zero() => 0,
        None => equal_share,
        Some(rate) if rate.percent == 0 => equal_share,
        Some(rate) => {
            let share = u128::from(max_total) * u128::from(rate.percent) / 100;
            u64::try_from(share).unwrap_or(u64::MAX)
        }
    }
}
