//! A slow evaluator over whole, decoded spans must agree with the folds over bytes.

use proptest::prelude::*;
use sampler::{
    And, Config, Decision, Latency, Number, NumericAttribute, Policy, PolicyType, Probabilistic,
    Sampler, StatusCodes, StringAttribute,
};

use crate::bytes::{Attributes, Span, Value};
use crate::run::{MS, Run, T0};

/// A pattern and what it means, written as plain code.
type Pattern = (&'static str, fn(&str) -> bool);

const PATTERNS: [Pattern; 4] = [
    ("^a", |text| text.starts_with('a')),
    ("b$", |text| text.ends_with('b')),
    ("a.*b", |text| {
        text.split_once('a')
            .is_some_and(|(_, rest)| rest.contains('b'))
    }),
    ("^[0-9]+$", |text| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
    }),
];

fn any_key() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["k", "key", "kex", "a.much.longer.attribute.key"])
        .prop_map(str::to_owned)
}

fn any_text() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["", "a", "b", "ab", "ba", "42", "\u{e9}a"]).prop_map(str::to_owned)
}

fn any_number() -> impl Strategy<Value = Number> {
    prop_oneof![
        (-3_i64..4).prop_map(Number::Int),
        (-7_i32..8).prop_map(|half| Number::Double(f64::from(half) / 2.0)),
        Just(Number::Int(i64::MAX)),
    ]
}

fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        any_text().prop_map(Value::Str),
        any_number().prop_map(|number| match number {
            Number::Int(int) => Value::Int(int),
            Number::Double(double) => Value::Double(double),
        }),
        any::<bool>().prop_map(Value::Bool),
        Just(Value::Double(f64::NAN)),
    ]
}

fn any_attributes() -> impl Strategy<Value = Attributes> {
    prop::collection::vec((any_key(), any_value()), 0..4)
}

/// Attributes of span and resource, start and duration in ms, status.
type Parts = (Attributes, Attributes, u64, u64, u8);

fn any_spans() -> impl Strategy<Value = Vec<Span>> {
    let parts = (
        any_attributes(),
        any_attributes(),
        0_u64..20,
        0_u64..20,
        0_u8..3,
    );
    prop::collection::vec(parts, 1..6).prop_map(|spans| {
        spans
            .into_iter()
            .zip(1..)
            .map(|(parts, number)| span(parts, number))
            .collect()
    })
}

fn span((attributes, resource, start_ms, dur_ms, status): Parts, number: u64) -> Span {
    Span {
        trace: 1,
        span_id: number,
        parent: number / 2,
        start_unix_nano: T0 + start_ms * MS,
        end_unix_nano: T0 + (start_ms + dur_ms) * MS + MS / 2,
        status,
        attributes,
        resource,
        ..Span::default()
    }
}

fn any_simple_policy() -> impl Strategy<Value = PolicyType> {
    prop_oneof![
        (0_i64..30, prop_oneof![Just(0_i64), 30_i64..40]).prop_map(
            |(threshold_ms, upper_threshold_ms)| {
                PolicyType::Latency(Latency {
                    threshold_ms,
                    upper_threshold_ms,
                })
            }
        ),
        (any_key(), any_number(), any_number(), 0..3, any::<bool>()).prop_filter_map(
            "empty range",
            |(key, min, max, bounds, invert_match)| {
                let min_value = (bounds != 0).then_some(min);
                let max_value = (bounds != 1).then_some(max);
                if bounds == 2 && min.compare(max)?.is_gt() {
                    return None;
                }
                let numeric = NumericAttribute {
                    key,
                    min_value,
                    max_value,
                    invert_match,
                };
                Some(PolicyType::NumericAttribute(numeric))
            }
        ),
        prop::sample::subsequence(vec!["OK", "ERROR", "UNSET"], 1..3).prop_map(|codes| {
            let status_codes = codes.into_iter().map(str::to_owned).collect();
            PolicyType::StatusCode(StatusCodes { status_codes })
        }),
        (
            any_key(),
            prop::collection::vec(any_text(), 0..3),
            any::<bool>()
        )
            .prop_map(|(key, values, invert_match)| string_policy(
                key,
                values,
                false,
                invert_match
            )),
        (
            any_key(),
            prop::sample::subsequence((0..PATTERNS.len()).collect::<Vec<_>>(), 0..3),
            any::<bool>()
        )
            .prop_map(|(key, patterns, invert_match)| {
                let values = patterns
                    .into_iter()
                    .map(|idx| PATTERNS[idx].0.to_owned())
                    .collect();
                string_policy(key, values, true, invert_match)
            }),
        prop::sample::select(vec![0.0, 30.0, 100.0]).prop_map(|sampling_percentage| {
            PolicyType::Probabilistic(Probabilistic {
                sampling_percentage,
                hash_salt: String::new(),
            })
        }),
    ]
}

fn string_policy(
    key: String,
    values: Vec<String>,
    enabled_regex_matching: bool,
    invert_match: bool,
) -> PolicyType {
    PolicyType::StringAttribute(StringAttribute {
        key,
        values,
        enabled_regex_matching,
        cache_max_size: 0,
        invert_match,
    })
}

fn any_policies() -> impl Strategy<Value = Vec<Policy>> {
    let and = prop::collection::vec(any_simple_policy(), 1..4).prop_map(|subs| {
        let sub = |policy_type| Policy {
            name: String::new(),
            policy_type,
        };
        PolicyType::And(And {
            and_sub_policy: subs.into_iter().map(sub).collect(),
        })
    });
    let policy = prop_oneof![6 => any_simple_policy(), 2 => and];
    prop::collection::vec(policy, 1..6).prop_map(|types| {
        let name = |(policy_type, number): (_, usize)| Policy {
            name: format!("p{number}"),
            policy_type,
        };
        types.into_iter().zip(0..).map(name).collect()
    })
}

/// Of repeated keys the last counts.
fn last<'a>(attributes: &'a Attributes, key: &str) -> Option<&'a Value> {
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
        PolicyType::StringAttribute(string) => {
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
        PolicyType::And(and) => and
            .and_sub_policy
            .iter()
            .all(|sub| votes_sampled(&sub.policy_type, spans)),
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
        let want = policies.iter().position(|policy| votes_sampled(&policy.policy_type, &spans));
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
            prop_assert_eq!(decided.decision == Decision::Sampled, want.is_some());
            prop_assert_eq!(decided.adjusted_count.is_some(), want.is_some());
            prop_assert_eq!(decided.spans.len(), spans.len());
        }
    }
}
