//! Policies in words.

use sampler::{Composite, NumericAttribute, Policy, PolicyType, SpanCount, StringAttribute};

use crate::show;

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
        PolicyType::Probabilistic(p) => format!("{} % by trace id", p.sampling_percentage),
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

fn all(subs: &[Policy]) -> String {
    let subs: Vec<String> = subs.iter().map(|sub| describe(&sub.policy_type)).collect();
    subs.join(" and ")
}

fn no_span_with(is_inverted: bool) -> &'static str {
    if is_inverted { "no span with " } else { "" }
}

#[cfg(test)]
mod tests {
    use super::describe;

    #[test]
    fn every_type_is_put_in_words() {
        for (policy, expected) in [
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
        ] {
            let yaml = format!("{{name: p, {policy}}}");
            let policy: sampler::Policy = serde_saphyr::from_str(&yaml).unwrap();
            assert_eq!(describe(&policy.policy_type), expected);
        }
    }
}
