//! A slow evaluator over whole, decoded spans must agree with the folds over bytes.

use proptest::prelude::*;
use sampler::{
    Composite, Config, Decision, Number, Policy, PolicyType, ProbabilisticMode, Sampler,
    StringAttribute,
};

use crate::any::{CONDITIONS, PATTERNS, SQL, any_policies, any_spans};
use crate::bytes::{Attributes, Span, Value};
use crate::run::{MS, Run};

/// Of repeated keys the last counts.
pub(crate) fn last<'a>(attributes: &'a Attributes, key: &str) -> Option<&'a Value> {
    attributes
        .iter()
        .rev()
        .find(|(name, _)| name == key)
        .map(|(_, value)| value)
}

fn any_attribute(spans: &[Span], key: &str, matches: impl Fn(&Value) -> bool) -> bool {
    spans
        .iter()
        .flat_map(|span| [&span.attributes, &span.resource])
        .filter_map(|attributes| last(attributes, key))
        .any(matches)
}

fn votes_sampled(policy: &PolicyType, spans: &[Span]) -> bool {
    match policy {
        PolicyType::AlwaysSample => true,
        PolicyType::Latency(latency) => {
            let start = spans.iter().map(|span| span.start_unix_nano).min().unwrap();
            let end = spans.iter().map(|span| span.end_unix_nano).max().unwrap();
            let ms = i64::try_from((end - start) / MS).unwrap();
            let upper = latency.upper_threshold_ms;
            ms > latency.threshold_ms && (upper == 0 || ms <= upper)
        }
        PolicyType::NumericAttribute(numeric) => {
            let as_f64 = |number: Number| match number {
                Number::Int(int) => int as f64,
                Number::Double(double) => double,
            };
            let matches = |value: &Value| {
                let value = match value {
                    Value::Int(int) => *int as f64,
                    Value::Double(double) => *double,
                    Value::Str(_) | Value::Bool(_) => return false,
                };
                numeric.min_value.is_none_or(|min| value >= as_f64(min))
                    && numeric.max_value.is_none_or(|max| value <= as_f64(max))
            };
            any_attribute(spans, &numeric.key, matches) != numeric.invert_match
        }
        PolicyType::Probabilistic(probabilistic)
            if probabilistic.mode != ProbabilisticMode::HashSeed =>
        {
            let [.., a, b, c, d, e, f, g] = spans[0].trace_id();
            let randomness = u64::from_be_bytes([0, a, b, c, d, e, f, g]);
            let share = randomness as f64 / (1_u64 << 56) as f64;
            // The last digit of the threshold is 1 / 65,536.
            let percentage = probabilistic.sampling_percentage;
            percentage > 0.0 && share * 100.0 > 100.0 - percentage - 0.001
        }
        PolicyType::Probabilistic(probabilistic) => {
            let hash = b"default-hash-seed"
                .iter()
                .chain(&spans[0].trace_id())
                .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                    (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
                });
            hash as f64 / u64::MAX as f64 * 100.0 <= probabilistic.sampling_percentage
        }
        PolicyType::StatusCode(codes) => spans.iter().any(|span| {
            let code = ["UNSET", "OK", "ERROR"][usize::from(span.status)];
            codes.status_codes.iter().any(|name| name == code)
        }),
        PolicyType::StringAttribute(string) => string_matches(string, spans),
        PolicyType::And(_) | PolicyType::Drop(_) => policy
            .sub_policies()
            .iter()
            .all(|sub| votes_sampled(&sub.policy_type, spans)),
        PolicyType::Not(not) => !votes_sampled(&not.not_sub_policy.policy_type, spans),
        PolicyType::BooleanAttribute(_)
        | PolicyType::TraceState(_)
        | PolicyType::TraceFlags
        | PolicyType::SpanCount(_)
        | PolicyType::RateLimiting(_)
        | PolicyType::BytesLimiting(_)
        | PolicyType::OttlCondition(_)
        | PolicyType::Composite(_)
        | PolicyType::Adaptive(_)
        | PolicyType::SqlCondition(_) => others_vote_sampled(policy, spans),
    }
}

fn string_matches(string: &StringAttribute, spans: &[Span]) -> bool {
    let matches_one = |text: &str, value: &String| {
        if !string.enabled_regex_matching {
            return text == value;
        }
        PATTERNS
            .iter()
            .any(|(pattern, matches)| pattern == value && matches(text))
    };
    let matches = |value: &Value| match value {
        Value::Str(text) if !text.is_empty() => {
            string.values.iter().any(|value| matches_one(text, value))
        }
        _ => false,
    };
    any_attribute(spans, &string.key, matches) != string.invert_match
}

fn others_vote_sampled(policy: &PolicyType, spans: &[Span]) -> bool {
    match policy {
        PolicyType::BooleanAttribute(boolean) => {
            let matches = |value: &Value| *value == Value::Bool(boolean.value);
            any_attribute(spans, &boolean.key, matches) != boolean.invert_match
        }
        PolicyType::TraceState(config) => spans.iter().any(|span| {
            let has = |value: &String| match span.trace_state.as_str() {
                "t=a" => value == "a",
                "t=b,u=a" => value == "b",
                _ => false,
            };
            config.values.iter().any(has)
        }),
        PolicyType::TraceFlags => spans.iter().any(|span| span.flags & 1 == 1),
        PolicyType::SpanCount(count) => {
            let n_spans = spans.len() as u32;
            n_spans >= count.min_spans && (count.max_spans == 0 || n_spans <= count.max_spans)
        }
        // The only trace there is finds a full bucket.
        PolicyType::RateLimiting(limit) => spans.len() as u64 <= 2 * limit.spans_per_second,
        PolicyType::BytesLimiting(limit) => {
            let n_bytes: usize = spans.iter().map(|span| span.encode().len()).sum();
            n_bytes as u64 <= limit.burst_capacity
        }
        PolicyType::OttlCondition(ottl) => spans.iter().any(|span| {
            let holds = |condition: &String| {
                CONDITIONS
                    .iter()
                    .any(|(text, holds)| text == condition && holds(span))
            };
            ottl.span.iter().any(holds)
        }),
        PolicyType::Composite(composite) => composite_has_room(composite, spans),
        PolicyType::SqlCondition(sql) => SQL
            .iter()
            .any(|(text, holds)| *text == sql.condition && holds(spans)),
        other => panic!("{other:?}"),
    }
}

fn composite_has_room(composite: &Composite, spans: &[Span]) -> bool {
    let [first, second] = composite.composite_sub_policy.as_slice() else {
        return false;
    };
    let percent = match composite.rate_allocation[0].percent {
        0 => 50,
        percent => percent,
    };
    let room = if votes_sampled(&second.policy_type, spans) {
        2
    } else if votes_sampled(&first.policy_type, spans) {
        4 * percent / 100
    } else {
        return false;
    };
    spans.len() as u64 <= room
}

/// The decision, and the number of the policy that is credited.
fn judge(policies: &[Policy], spans: &[Span]) -> (Decision, Option<usize>) {
    let first = |is_drop: bool| {
        policies.iter().position(|policy| {
            matches!(policy.policy_type, PolicyType::Drop(_)) == is_drop
                && votes_sampled(&policy.policy_type, spans)
        })
    };
    match (first(true), first(false)) {
        (dropped @ Some(_), _) => (Decision::Dropped, dropped),
        (None, sampled @ Some(_)) => (Decision::Sampled, sampled),
        (None, None) => (Decision::NotSampled, None),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any policies on any trace, its spans in any order: the decision and the credited policy are
    /// those of the slow evaluator.
    #[test]
    fn folds_agree_with_a_slow_evaluator_in_every_order(
        policies in any_policies(),
        spans in any_spans(),
        seed in any::<u64>(),
        trace_id in any::<[u8; 15]>(),
        is_first_match in any::<bool>(),
    ) {
        let mut id = [1; 16];
        id[..15].copy_from_slice(&trace_id);
        let spans: Vec<Span> =
            spans.into_iter().map(|span| Span { trace_id: Some(id), ..span }).collect();
        let (decision, want) = judge(&policies, &spans);
        let config = Config {
            policies: policies.clone(),
            sample_on_first_match: is_first_match,
            ..Config::default()
        };
        for order in 0..3 {
            let mut run = Run::new(Sampler::new(&config).unwrap());
            let mut spans = spans.clone();
            spans.sort_by_key(|span| (span.span_id ^ seed).wrapping_mul(seed | 1).rotate_left(order * 7));
            for span in &spans {
                run.send(0, span);
            }
            run.tick(30_000);
            prop_assert_eq!(run.decided.len(), 1);
            let decided = &run.decided[0];
            let credited = decided.policy.map(|policy| run.sampler.policy_name(policy).to_owned());
            prop_assert_eq!(credited, want.map(|idx| format!("p{idx}")));
            prop_assert_eq!(decided.decision, decision);
            prop_assert!(decided.adjusted_count.is_none() || decision == Decision::Sampled);
            prop_assert!(decided.adjusted_count.is_none_or(|count| count >= 1.0));
            prop_assert_eq!(decided.spans.len(), spans.len());
        }
    }
}
