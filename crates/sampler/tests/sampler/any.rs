//! Any policies of every type, and any small trace.

use proptest::prelude::*;
use sampler::{
    And, BooleanAttribute, BytesLimiting, Composite, DropTraces, ErrorMode, Latency, Not, Number,
    NumericAttribute, OttlCondition, Policy, PolicyType, Probabilistic, ProbabilisticMode,
    RateAllocation, RateLimiting, SpanCount, SqlCondition, StatusCodes, StringAttribute,
    TraceState,
};

use crate::bytes::{Attributes, Span, Value};
use crate::oracle::last;
use crate::run::{MS, T0};

/// A pattern and what it means, written as plain code.
pub(crate) type Pattern = (&'static str, fn(&str) -> bool);

pub(crate) const PATTERNS: [Pattern; 4] = [
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

/// A condition on a whole trace and what it means, written as plain code.
pub(crate) type SqlText = (&'static str, fn(&[Span]) -> bool);

pub(crate) const SQL: [SqlText; 3] = [
    ("duration_ns > 15000000 AND span_count > 1", |spans| {
        let start = spans.iter().map(|span| span.start_unix_nano).min();
        let end = spans.iter().map(|span| span.end_unix_nano).max();
        spans.len() > 1
            && start
                .zip(end)
                .is_some_and(|(start, end)| end - start > 15 * MS)
    }),
    (
        "error IS NOT TRUE OR error_span_count * 2 >= span_count",
        |spans| {
            let n_errors = spans.iter().filter(|span| span.status == 2).count();
            n_errors == 0 || n_errors * 2 >= spans.len()
        },
    ),
    ("complete AND orphan_count + root_count = 1", |spans| {
        // Every span but the first has its parent among them.
        spans.iter().filter(|span| span.parent == 0).count() == 1
    }),
];

/// A condition and what it means, written as plain code.
pub(crate) type Condition = (&'static str, fn(&Span) -> bool);

pub(crate) const CONDITIONS: [Condition; 6] = [
    ("attributes[\"k\"] == \"a\"", |span| {
        last(&span.attributes, "k") == Some(&Value::Str("a".to_owned()))
    }),
    ("attributes[\"key\"] > 1", |span| {
        match last(&span.attributes, "key") {
            Some(Value::Int(int)) => *int > 1,
            Some(Value::Double(double)) => *double > 1.0,
            _ => false,
        }
    }),
    (
        "attributes[\"k\"] != nil and attributes[\"kex\"] == nil",
        |span| last(&span.attributes, "k").is_some() && last(&span.attributes, "kex").is_none(),
    ),
    (
        "resource.attributes[\"k\"] == \"b\" or status.code == STATUS_CODE_ERROR",
        |span| last(&span.resource, "k") == Some(&Value::Str("b".to_owned())) || span.status == 2,
    ),
    (
        "not IsMatch(attributes[\"k\"], \"^a\") and IsRootSpan()",
        |span| {
            let is_match = match last(&span.attributes, "k") {
                Some(Value::Str(text)) => text.starts_with('a'),
                _ => false,
            };
            !is_match && span.parent == 0
        },
    ),
    ("end_time - start_time > Duration(\"10ms\")", |span| {
        span.end_unix_nano - span.start_unix_nano > 10 * MS
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

/// Attributes of span and resource, start and duration in ms, status, flags, `tracestate`.
type Parts = (Attributes, Attributes, u64, u64, u8, u32, &'static str);

pub(crate) fn any_spans() -> impl Strategy<Value = Vec<Span>> {
    let parts = (
        any_attributes(),
        any_attributes(),
        0_u64..20,
        0_u64..20,
        0_u8..3,
        prop::sample::select(vec![0_u32, 0, 0x300, 0x101]),
        prop::sample::select(vec!["", "", "t=a", "t=b,u=a", "t=a,=", "u=a"]),
    );
    prop::collection::vec(parts, 1..6).prop_map(|spans| {
        spans
            .into_iter()
            .zip(1..)
            .map(|(parts, number)| span(parts, number))
            .collect()
    })
}

fn span(parts: Parts, number: u64) -> Span {
    let (attributes, resource, start_ms, dur_ms, status, flags, trace_state) = parts;
    Span {
        trace: 1,
        span_id: number,
        parent: number / 2,
        start_unix_nano: T0 + start_ms * MS,
        end_unix_nano: T0 + (start_ms + dur_ms) * MS + MS / 2,
        status,
        attributes,
        resource,
        flags,
        trace_state: trace_state.to_owned(),
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
        any_probabilistic(),
    ]
}

fn any_probabilistic() -> impl Strategy<Value = PolicyType> {
    (
        prop::sample::select(vec![0.0, 30.0, 100.0]),
        prop::sample::select(vec![
            ProbabilisticMode::HashSeed,
            ProbabilisticMode::Equalizing,
            ProbabilisticMode::Proportional,
        ]),
    )
        .prop_map(|(sampling_percentage, mode)| {
            PolicyType::Probabilistic(Probabilistic {
                sampling_percentage,
                hash_salt: String::new(),
                mode,
                sampling_precision: None,
            })
        })
}

fn any_other_policy() -> impl Strategy<Value = PolicyType> {
    prop_oneof![
        (any_key(), any::<bool>(), any::<bool>()).prop_map(|(key, value, invert_match)| {
            PolicyType::BooleanAttribute(BooleanAttribute {
                key,
                value,
                invert_match,
            })
        }),
        prop::sample::subsequence(vec!["a", "b"], 1..3).prop_map(|values| {
            PolicyType::TraceState(TraceState {
                key: "t".to_owned(),
                values: values.into_iter().map(str::to_owned).collect(),
            })
        }),
        prop::sample::select(SQL.to_vec()).prop_map(|(condition, _)| {
            PolicyType::SqlCondition(SqlCondition {
                condition: condition.to_owned(),
            })
        }),
        Just(PolicyType::TraceFlags),
        (0_u32..4, prop_oneof![Just(0_u32), 4_u32..6]).prop_map(|(min_spans, max_spans)| {
            PolicyType::SpanCount(SpanCount {
                min_spans,
                max_spans,
            })
        }),
        (1_u64..3).prop_map(|spans_per_second| {
            PolicyType::RateLimiting(RateLimiting {
                spans_per_second,
                burst_capacity: 0,
            })
        }),
        (50_u64..200).prop_map(|bytes_per_second| {
            PolicyType::BytesLimiting(BytesLimiting {
                bytes_per_second,
                burst_capacity: 250,
            })
        }),
        prop::sample::subsequence((0..CONDITIONS.len()).collect::<Vec<_>>(), 1..3).prop_map(
            |conditions| {
                let conditions = conditions.into_iter();
                PolicyType::OttlCondition(OttlCondition {
                    error_mode: ErrorMode::Propagate,
                    span: conditions.map(|idx| CONDITIONS[idx].0.to_owned()).collect(),
                    spanevent: Vec::new(),
                })
            }
        ),
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

fn unnamed(policy_type: PolicyType) -> Policy {
    Policy {
        name: String::new(),
        policy_type,
    }
}

/// Two sub-policies, asked in the other order than defined.
fn composite((first, second, percent): (PolicyType, PolicyType, u64)) -> PolicyType {
    let named = |name: &str, policy_type| Policy {
        name: name.to_owned(),
        policy_type,
    };
    PolicyType::Composite(Composite {
        max_total_spans_per_second: 4,
        policy_order: vec!["second".to_owned(), "first".to_owned()],
        composite_sub_policy: vec![named("first", first), named("second", second)],
        rate_allocation: vec![RateAllocation {
            policy: "first".to_owned(),
            percent,
        }],
    })
}

pub(crate) fn any_policies() -> impl Strategy<Value = Vec<Policy>> {
    let leaf = || prop_oneof![any_simple_policy(), any_other_policy()];
    let subs = || prop::collection::vec(leaf().prop_map(unnamed), 1..4);
    let policy = prop_oneof![
        6 => leaf(),
        2 => subs().prop_map(|and_sub_policy| PolicyType::And(And { and_sub_policy })),
        1 => leaf().prop_map(|sub| {
            PolicyType::Not(Not { not_sub_policy: Box::new(unnamed(sub)) })
        }),
        1 => subs().prop_map(|drop_sub_policy| PolicyType::Drop(DropTraces { drop_sub_policy })),
        1 => (leaf(), leaf(), prop::sample::select(vec![0_u64, 50, 75, 100])).prop_map(composite),
    ];
    prop::collection::vec(policy, 1..6).prop_map(|types| {
        let name = |(policy_type, number): (_, usize)| Policy {
            name: format!("p{number}"),
            policy_type,
        };
        types.into_iter().zip(0..).map(name).collect()
    })
}
