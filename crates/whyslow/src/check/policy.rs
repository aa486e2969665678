//! Policies in words, and when traces are decided.

use std::fmt::Write as _;

use sampler::{
    Adaptive, Budget, Composite, NumericAttribute, Policy, PolicyTrigger, PolicyType,
    ProbabilisticMode, ROOT_GRACE, SpanCount, StringAttribute,
};

use crate::show;

/// When a trace is decided.
pub(super) fn waits(sampler: &sampler::Config) -> String {
    let after_root = sampler.decision_wait_after_root_received;
    let Some(rules) = &sampler.trigger else {
        let mut out = format!("{:?} after a trace's first span", sampler.decision_wait);
        if let Some(wait) = after_root.filter(|wait| !wait.is_zero()) {
            // Writing to a `String` cannot fail.
            write!(out, ", or {wait:?} after its root").ok();
        }
        return out;
    };
    let root_grace = rules.root_grace.or(after_root).unwrap_or(ROOT_GRACE);
    let mut out = format!("{root_grace:?} after a trace's root");
    if !rules.idle.is_zero() {
        write!(out, ", or {:?} after its last span", rules.idle).ok();
    }
    write!(out, ", at the latest {:?} after its first", rules.max_wait).ok();
    out
}

/// What holds for the traces that a policy matches.
pub(super) fn exceptions(sampler: &sampler::Config) -> impl Iterator<Item = String> {
    let rules = sampler.trigger.iter().flat_map(|rules| &rules.policies);
    rules.map(|rule| {
        let PolicyTrigger {
            policy,
            match_grace,
            idle,
            max_wait,
        } = rule;
        let times = [
            match_grace.map(|grace| format!("{grace:?} after the first match")),
            idle.map(|idle| {
                if idle.is_zero() {
                    "however long no span comes".to_owned()
                } else {
                    format!("{idle:?} after the last span")
                }
            }),
            max_wait.map(|max_wait| format!("at the latest {max_wait:?} after the first")),
        ];
        let times: Vec<String> = times.into_iter().flatten().collect();
        format!("if `{policy}` matches: {}", times.join(", "))
    })
}

/// Which traces a policy matches.
pub(crate) fn describe(policy: &PolicyType) -> String {
    match policy {
        PolicyType::AlwaysSample => "every trace".to_owned(),
        PolicyType::Latency(latency) if latency.upper_threshold_ms > 0 => format!(
            "longer than {} ms, at most {} ms",
            latency.threshold_ms, latency.upper_threshold_ms
        ),
        PolicyType::Latency(latency) => format!("longer than {} ms", latency.threshold_ms),
        PolicyType::NumericAttribute(numeric) => describe_numeric(numeric),
        PolicyType::Probabilistic(p) => {
            let by = match p.mode {
                ProbabilisticMode::HashSeed => "by trace id",
                ProbabilisticMode::Equalizing => {
                    "of all traces, what samplers before this one dropped included"
                }
                ProbabilisticMode::Proportional => "of what arrives, by trace id",
            };
            format!("{} % {by}", p.sampling_percentage)
        }
        PolicyType::StatusCode(codes) => {
            format!("a span with status {}", codes.status_codes.join(" or "))
        }
        PolicyType::StringAttribute(string) => describe_string(string),
        PolicyType::BooleanAttribute(boolean) => format!(
            "{}the attribute `{}` being {}",
            no_span_with(boolean.invert_match),
            boolean.key,
            boolean.value
        ),
        PolicyType::TraceState(state) => format!(
            "`{}` in the tracestate being {}",
            state.key,
            state.values.join(" or ")
        ),
        PolicyType::TraceFlags => "a span with the W3C flag `sampled`".to_owned(),
        PolicyType::SpanCount(count) => describe_count(count),
        PolicyType::RateLimiting(limit) => format!(
            "up to {} a second",
            show::text::counted(limit.spans_per_second, "span")
        ),
        PolicyType::BytesLimiting(limit) => {
            format!(
                "up to {} a second",
                show::text::bytes(limit.bytes_per_second)
            )
        }
        PolicyType::OttlCondition(ottl) => {
            let conditions = ottl.span.iter().chain(&ottl.spanevent);
            let conditions: Vec<&str> = conditions.map(String::as_str).collect();
            conditions.join(" or ")
        }
        PolicyType::And(and) => all(&and.and_sub_policy),
        PolicyType::Not(not) => format!("not: {}", describe(&not.not_sub_policy.policy_type)),
        PolicyType::Drop(drop) => all(&drop.drop_sub_policy),
        PolicyType::Composite(composite) => describe_composite(composite),
        PolicyType::Adaptive(adaptive) => describe_adaptive(adaptive),
        PolicyType::SqlCondition(sql) => sql.condition.clone(),
    }
}

fn describe_numeric(numeric: &NumericAttribute) -> String {
    let bounds = match (numeric.min_value, numeric.max_value) {
        (Some(min), Some(max)) => format!("from {min} to {max}"),
        (Some(min), None) => format!("of {min} or more"),
        (None, Some(max)) => format!("of {max} or less"),
        (None, None) => "of any size".to_owned(),
    };
    format!(
        "{}a number {bounds} in the attribute `{}`",
        no_span_with(numeric.invert_match),
        numeric.key
    )
}

fn describe_string(string: &StringAttribute) -> String {
    format!(
        "{}the attribute `{}` {} {}",
        no_span_with(string.invert_match),
        string.key,
        if string.enabled_regex_matching {
            "matching"
        } else {
            "being"
        },
        string.values.join(" or ")
    )
}

fn describe_count(count: &SpanCount) -> String {
    match count.max_spans {
        0 => format!("{} or more spans", count.min_spans),
        max => format!("{} to {max} spans", count.min_spans),
    }
}

fn describe_composite(composite: &Composite) -> String {
    let subs = composite.composite_sub_policy.iter();
    let subs: Vec<String> = subs.map(|sub| describe(&sub.policy_type)).collect();
    format!(
        "up to {} a second of: {}",
        show::text::counted(composite.max_total_spans_per_second, "span"),
        subs.join("; ")
    )
}

fn describe_adaptive(adaptive: &Adaptive) -> String {
    let target = match (
        adaptive.target_traces_per_second,
        adaptive.target_percentage,
    ) {
        (Some(per_second), _) => format!("about {per_second} traces a second"),
        (None, percentage) => format!("about {} % of all traces", percentage.unwrap_or_default()),
    };
    format!(
        "{target}, rare values of {} first",
        adaptive.keys.join(", ")
    )
}

/// How much is kept of what the policies match.
pub(super) fn describe_budget(budget: &Budget) -> String {
    let (unit, per_second) = match (budget.spans_per_second, budget.traces_per_second) {
        (Some(spans), _) => ("span", spans),
        (None, traces) => ("trace", traces.unwrap_or_default()),
    };
    let burst = match budget.burst_capacity {
        0 => per_second.saturating_mul(2),
        burst => burst,
    };
    let burst = show::text::count(burst);
    let order = match &budget.order {
        None => "errors, then the slowest".to_owned(),
        Some(names) if names.is_empty() => {
            return format!(
                "at most {} a second in all, up to {burst} at once, by trace id",
                show::text::counted(per_second, unit)
            );
        }
        Some(names) => names
            .iter()
            .map(|name| format!("`{name}`"))
            .collect::<Vec<_>>()
            .join(", then "),
    };
    format!(
        "at most {} a second in all, up to {burst} at once: first {order}, then the rest",
        show::text::counted(per_second, unit)
    )
}

fn all(subs: &[Policy]) -> String {
    let subs: Vec<String> = subs.iter().map(|sub| describe(&sub.policy_type)).collect();
    subs.join(" and ")
}

fn no_span_with(is_inverted: bool) -> &'static str {
    if is_inverted { "no span with " } else { "" }
}

#[cfg(test)]
mod tests {
    use super::{describe, describe_budget, exceptions, waits};

    #[test]
    fn waits_are_put_in_words() {
        const ALL: &str = "policies: [{name: p, type: always_sample}]\n";
        for (yaml, expected) in [
            ("", "30s after a trace's first span"),
            (
                "decision_wait_after_root_received: 5s",
                "30s after a trace's first span, or 5s after its root",
            ),
            (
                "trigger: {}",
                "10s after a trace's root, or 300s after its last span, at the latest 3600s after its first",
            ),
            (
                "decision_wait_after_root_received: 5s\ntrigger: {idle: 0s, policies: [\
                 {policy: p, match_grace: 1s, idle: 2s}, {policy: p, idle: 0s, max_wait: 3s}]}",
                "5s after a trace's root, at the latest 3600s after its first\n\
                 if `p` matches: 1s after the first match, 2s after the last span\n\
                 if `p` matches: however long no span comes, at the latest 3s after the first",
            ),
        ] {
            let config: sampler::Config = serde_saphyr::from_str(&format!("{ALL}{yaml}")).unwrap();
            let lines: Vec<String> = std::iter::once(waits(&config))
                .chain(exceptions(&config))
                .collect();
            assert_eq!(lines.join("\n"), expected);
        }
    }

    /// A policy of each type, and its words.
    const WORDS: &[(&str, &str)] = &[
        ("type: always_sample", "every trace"),
        (
            "type: latency, latency: {threshold_ms: 5}",
            "longer than 5 ms",
        ),
        (
            "type: numeric_attribute, numeric_attribute: {key: k, min_value: 0.5, max_value: 2}",
            "a number from 0.5 to 2 in the attribute `k`",
        ),
        (
            "type: probabilistic, probabilistic: {sampling_percentage: 2.5}",
            "2.5 % by trace id",
        ),
        (
            "type: string_attribute, string_attribute: {key: k, values: [a, b], invert_match: true}",
            "no span with the attribute `k` being a or b",
        ),
        (
            "type: boolean_attribute, boolean_attribute: {key: k, value: true}",
            "the attribute `k` being true",
        ),
        (
            "type: trace_state, trace_state: {key: k, values: [a]}",
            "`k` in the tracestate being a",
        ),
        ("type: trace_flags", "a span with the W3C flag `sampled`"),
        (
            "type: span_count, span_count: {min_spans: 3, max_spans: 5}",
            "3 to 5 spans",
        ),
        (
            "type: rate_limiting, rate_limiting: {spans_per_second: 1}",
            "up to 1 span a second",
        ),
        (
            "type: bytes_limiting, bytes_limiting: {bytes_per_second: 1024}",
            "up to 1.0 KiB a second",
        ),
        (
            "type: ottl_condition, ottl_condition: {span: ['name == \"a\"'], spanevent: ['name == \"b\"']}",
            "name == \"a\" or name == \"b\"",
        ),
        (
            "type: not, not: {not_sub_policy: {name: s, type: status_code, status_code: {status_codes: [OK]}}}",
            "not: a span with status OK",
        ),
        (
            "type: drop, drop: {drop_sub_policy: [{name: a, type: trace_flags}, {name: b, type: always_sample}]}",
            "a span with the W3C flag `sampled` and every trace",
        ),
        (
            "type: composite, composite: {max_total_spans_per_second: 9, composite_sub_policy: [{name: a, type: trace_flags}, {name: b, type: always_sample}]}",
            "up to 9 spans a second of: a span with the W3C flag `sampled`; every trace",
        ),
        (
            "type: probabilistic, probabilistic: {sampling_percentage: 5, mode: proportional}",
            "5 % of what arrives, by trace id",
        ),
        (
            "type: adaptive, adaptive: {keys: [root.name, tenant], target_traces_per_second: 50}",
            "about 50 traces a second, rare values of root.name, tenant first",
        ),
        (
            "type: sql_condition, sql_condition: {condition: duration_ns > 5}",
            "duration_ns > 5",
        ),
    ];

    #[test]
    fn every_type_is_put_in_words() {
        for (policy, expected) in WORDS {
            let yaml = format!("{{name: p, {policy}}}");
            let policy: sampler::Policy = serde_saphyr::from_str(&yaml).unwrap();
            assert_eq!(describe(&policy.policy_type), *expected);
        }
    }

    #[test]
    fn a_budget_says_how_much_and_in_which_order() {
        for (budget, expected) in [
            (
                "{spans_per_second: 100}",
                "at most 100 spans a second in all, up to 200 at once: first errors, then the slowest, then the rest",
            ),
            (
                "{traces_per_second: 1, burst_capacity: 5, order: [a, b]}",
                "at most 1 trace a second in all, up to 5 at once: first `a`, then `b`, then the rest",
            ),
            (
                "{traces_per_second: 1, order: []}",
                "at most 1 trace a second in all, up to 2 at once, by trace id",
            ),
        ] {
            let budget: sampler::Budget = serde_saphyr::from_str(budget).unwrap();
            assert_eq!(describe_budget(&budget), expected);
        }
    }
}
