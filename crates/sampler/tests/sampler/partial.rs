//! What is answered of a trace that is known in part never contradicts what the sampler decides of the
//! whole trace.

use otlp::TraceId;
use proptest::prelude::*;
use sampler::partial::{Facts, Judged, Known, Part, PartialTrace, Reading, Replay, Said, Why};
use sampler::{Compat, Config, Decided, Policy, PolicyCounts, Sampler};
use serde_json::{Value as Json, json};

use crate::any::{any_policies, any_spans};
use crate::bytes::{Span, Value};
use crate::run::{MS, Run, T0, config, one_policy};

/// What storage does to one span.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Whole,
    Gone,
    /// Attributes with this key are lost.
    Lost(&'static str),
    /// The value of this key may be another; the true one is the first or the second reading.
    TwoReadings(&'static str, bool),
}

fn any_fate() -> impl Strategy<Value = Fate> {
    let key = || prop::sample::select(vec!["k", "key", "kex", "a.much.longer.attribute.key"]);
    prop_oneof![
        3 => Just(Fate::Whole),
        1 => Just(Fate::Gone),
        2 => key().prop_map(Fate::Lost),
        2 => (key(), any::<bool>()).prop_map(|(key, is_first)| Fate::TwoReadings(key, is_first)),
    ]
}

fn any_compat() -> impl Strategy<Value = Compat> {
    prop_oneof![
        3 => Just(Compat::None),
        1 => Just(Compat::COLLECTOR),
        1 => Just(Compat::Collector { minor: 143 }),
    ]
}

fn facts(decided: &Decided) -> Facts {
    let summary = &decided.summary;
    Facts {
        trace_id: decided.trace_id,
        start_time_unix_nano: Some(summary.start_time_unix_nano).filter(|nanos| *nanos > 0),
        end_time_unix_nano: Some(summary.end_time_unix_nano).filter(|nanos| *nanos > 0),
        duration_ns: summary.duration_ns(),
        n_spans: summary.n_spans.into(),
        n_error_spans: summary.n_error_spans.into(),
        n_bytes: summary.n_bytes,
        n_roots: summary.n_roots.into(),
        n_orphans: summary.n_orphans.into(),
        n_requests: 0,
        decided_unix_nano: T0 + 30_000 * MS,
    }
}

fn store(replay: &Replay, trace: &mut PartialTrace, span: &Span, fate: Fate) {
    let mut lost = Vec::new();
    let mut readings = vec![span.clone()];
    match fate {
        Fate::Whole => {}
        Fate::Gone => return,
        Fate::Lost(key) => {
            let stored = &mut readings[0];
            for attributes in [&mut stored.attributes, &mut stored.resource] {
                attributes.retain(|(name, _)| name != key);
            }
            lost.push((Part::SpanAttribute(key.into()), Why::Redacted));
            lost.push((Part::ResourceAttribute(key.into()), Why::Cut));
        }
        Fate::TwoReadings(key, is_first) => {
            let mut other = span.clone();
            other.attributes.push((key.to_owned(), Value::Int(2)));
            readings.insert(usize::from(is_first), other);
        }
    }
    let bytes: Vec<_> = readings
        .iter()
        .map(|span| (span.encode_resource(), span.encode()))
        .collect();
    let readings: Vec<_> = bytes
        .iter()
        .map(|(resource, span)| Reading { resource, span })
        .collect();
    replay.add_span(trace, &readings, &lost).unwrap();
}

/// The sampler's decision on the only trace, and what its policies said.
fn decide(config: &Config, spans: &[Span]) -> (Decided, Vec<PolicyCounts>, Option<usize>) {
    let mut run = Run::new(Sampler::new(config).unwrap());
    for span in spans {
        run.send(0, span);
    }
    run.tick(30_000);
    let decided = run.decided.pop().unwrap();
    let counts = run
        .sampler
        .policy_counts()
        .map(|(_, counts)| counts)
        .collect();
    let policy = decided.policy.map(|policy| {
        let name = run.sampler.policy_name(policy);
        config
            .policies
            .iter()
            .position(|known| known.name == name)
            .unwrap()
    });
    (decided, counts, policy)
}

fn is_in(said: Said, counts: &PolicyCounts) -> bool {
    1 == match said {
        Said::Sampled | Said::InvertSampled => counts.n_sampled,
        Said::NotSampled | Said::InvertNotSampled => counts.n_not_sampled,
        Said::Dropped => counts.n_dropped,
        Said::Failed => counts.n_failed,
    }
}

/// The answer, checked against the sampler's as far as it is exact.
fn check(
    policies: &[Policy],
    keys: (Compat, bool),
    spans: &[Span],
    fates: &[Fate],
) -> Option<Judged> {
    let config = Config {
        policies: policies.to_vec(),
        compat: keys.0,
        sample_on_first_match: keys.1,
        ..Config::default()
    };
    // Some bounds are refused under `compat: collector`.
    let mut replay = Replay::new(&config).ok()?;
    let (decided, counts, policy) = decide(&config, spans);
    let mut trace = replay.begin(facts(&decided));
    for (span, fate) in spans.iter().zip(fates) {
        store(&replay, &mut trace, span, *fate);
    }
    let judged = replay.judge(&trace);
    if let Known::Exact(decision) = judged.decision {
        assert_eq!(decision, decided.decision);
    }
    if let Known::Exact(credited) = judged.policy {
        assert_eq!(Some(credited), policy);
    }
    for (number, (asked, counts)) in judged.verdicts.iter().zip(&counts).enumerate() {
        if let (Known::Exact(said), 1) = (asked.said, counts.n_checks()) {
            assert!(
                is_in(said, counts),
                "policy {number}: {said:?}, not {counts:?}"
            );
        } else if !asked.said.is_exact() {
            assert!(
                !replay.doubts(&trace, number).is_empty(),
                "policy {number} has no doubt"
            );
        }
    }
    if fates.iter().all(|fate| matches!(fate, Fate::Whole)) && keys.0 == Compat::None {
        assert_eq!(judged.decision.value(), Some(decided.decision));
        assert_eq!(judged.policy.value(), policy);
        let of_policies = 0..judged.verdicts.len();
        let mut doubts = of_policies.flat_map(|number| replay.doubts(&trace, number));
        let may_be_open = doubts.any(|doubt| matches!(doubt.why, Why::Budget | Why::Restated));
        assert!(judged.decision.is_exact() || may_be_open);
    }
    Some(judged)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any policies on any trace of which any part is lost: an exact answer is the sampler's, and of a
    /// whole trace there is always an answer.
    #[test]
    fn an_exact_answer_is_that_of_the_sampler(
        policies in any_policies(),
        spans in any_spans(),
        fates in prop::collection::vec(any_fate(), 6),
        keys in (any_compat(), any::<bool>()),
    ) {
        check(&policies, keys, &spans, &fates);
        check(&policies, keys, &spans, &[Fate::Whole; 6]);
        check(&policies, keys, &spans, &[Fate::Gone; 6]);
    }
}

/// Two spans of 2.5 s with an error, as stored without spans.
fn unstored(replay: &Replay) -> PartialTrace {
    replay.begin(Facts {
        trace_id: TraceId::from_slice(&[7; 16]).unwrap(),
        start_time_unix_nano: Some(T0),
        end_time_unix_nano: Some(T0 + 2_500 * MS),
        duration_ns: 2_500 * MS,
        n_spans: 2,
        n_error_spans: 1,
        n_bytes: 700,
        n_roots: 1,
        n_orphans: 0,
        n_requests: 1,
        decided_unix_nano: T0,
    })
}

#[track_caller]
fn check_unstored(policies: Json, want: &str) {
    let mut replay = Replay::new(&config(json!({ "policies": policies }))).unwrap();
    let trace = unstored(&replay);
    let judged = replay.judge(&trace);
    let doubts: Vec<String> = (0..judged.verdicts.len())
        .flat_map(|number| replay.doubts(&trace, number))
        .map(|doubt| format!("{} ({:?})", doubt.what, doubt.why))
        .collect();
    assert_eq!(
        format!("{:?}; {}", judged.decision, doubts.join(", ")),
        want
    );
}

#[test]
fn without_spans_facts_decide_and_the_rest_is_named() {
    let string = json!({"key": "http.route", "values": ["/"]});
    check_unstored(
        one_policy("latency", &json!({"threshold_ms": 2000})),
        "Exact(Sampled); ",
    );
    check_unstored(
        one_policy("latency", &json!({"threshold_ms": 2500})),
        "Exact(NotSampled); ",
    );
    check_unstored(
        one_policy("span_count", &json!({"min_spans": 3})),
        "Exact(NotSampled); ",
    );
    check_unstored(
        one_policy("status_code", &json!({"status_codes": ["ERROR"]})),
        "Exact(Sampled); ",
    );
    check_unstored(
        one_policy("status_code", &json!({"status_codes": ["OK"]})),
        "Unknown; status OK (NotStored)",
    );
    check_unstored(
        one_policy("string_attribute", &string),
        "Unknown; attribute `http.route` (NotStored)",
    );
    check_unstored(
        one_policy("rate_limiting", &json!({"spans_per_second": 10})),
        "Likely(Sampled); budget (Budget)",
    );
    check_unstored(
        one_policy(
            "probabilistic",
            &json!({"sampling_percentage": 10, "mode": "equalizing"}),
        ),
        "Likely(NotSampled); `th` and `rv` of its tracestate (Restated)",
    );
    check_unstored(
        one_policy(
            "adaptive",
            &json!({"keys": ["http.route"], "target_traces_per_second": 1}),
        ),
        "Unknown; rates (Rates)",
    );
    // One side of an `and` is enough.
    let sub = |policy_type: &str, section: Json| json!({"name": policy_type, "type": policy_type, policy_type: section});
    let and = |threshold_ms: i64| json!({"and_sub_policy": [sub("string_attribute", string.clone()), sub("latency", json!({"threshold_ms": threshold_ms}))]});
    check_unstored(
        one_policy("and", &and(3000)),
        "Exact(NotSampled); attribute `http.route` (NotStored)",
    );
    check_unstored(
        one_policy("and", &and(1000)),
        "Unknown; attribute `http.route` (NotStored)",
    );
}

#[test]
fn a_condition_on_the_row_is_decided_where_the_row_is_known() {
    let keys = |condition: &str| {
        let section = json!({ "condition": condition });
        config(json!({"policies": one_policy("sql_condition", &section)}))
    };
    for (condition, want, want_with_services) in [
        (
            "error AND root_count = 1",
            "Exact(Sampled)",
            "Exact(Sampled)",
        ),
        ("NOT complete", "Exact(NotSampled)", "Exact(NotSampled)"),
        (
            "duration_ns > 2000000000",
            "Exact(Sampled)",
            "Exact(Sampled)",
        ),
        (
            "request_count + orphan_count > 1",
            "Exact(NotSampled)",
            "Exact(NotSampled)",
        ),
        ("array_has(services, 'vllm')", "Unknown", "Exact(Sampled)"),
        (
            "NOT array_has(services, 'vllm')",
            "Unknown",
            "Exact(NotSampled)",
        ),
        (
            "start_time_unix_nano IS NULL",
            "Exact(NotSampled)",
            "Exact(NotSampled)",
        ),
    ] {
        let mut replay = Replay::new(&keys(condition)).unwrap();
        let mut trace = unstored(&replay);
        let judged = replay.judge(&trace);
        assert_eq!(format!("{:?}", judged.decision), want, "{condition}");
        assert!(judged.decision.is_exact() || !replay.doubts(&trace, 0).is_empty());
        trace.set_services(&["vllm".to_owned()]);
        let judged = replay.judge(&trace);
        assert_eq!(
            format!("{:?}", judged.decision),
            want_with_services,
            "{condition}"
        );
    }
    let error = Replay::new(&keys("nonsense = 1")).unwrap_err();
    assert!(error.to_string().contains("nonsense"), "{error}");
}

/// What is asked for may not have fitted, what is not asked for is not kept.
#[test]
fn with_a_budget_a_kept_trace_is_likely_kept() {
    for (threshold_ms, want) in [(1_000, "Likely(Sampled)"), (3_000, "Exact(NotSampled)")] {
        let mut replay = Replay::new(&config(json!({
            "policies": one_policy("latency", &json!({"threshold_ms": threshold_ms})),
            "budget": {"traces_per_second": 1},
        })))
        .unwrap();
        let trace = unstored(&replay);
        let judged = replay.judge(&trace);
        assert_eq!(format!("{:?}", judged.decision), want);
        assert!(replay.has_budget());
    }
}

#[test]
fn a_claim_is_believed_and_marked_unless_it_is_certain() {
    let policy = |value: &str| {
        one_policy(
            "string_attribute",
            &json!({"key": "service.name", "values": [value]}),
        )
    };
    let resource = Span {
        resource: vec![("service.name".to_owned(), Value::Str("vllm".to_owned()))],
        ..Span::default()
    };
    for (value, is_certain, want) in [
        ("vllm", true, "Exact(Sampled)"),
        ("vllm", false, "Likely(Sampled)"),
        ("other", true, "Likely(NotSampled)"),
    ] {
        let mut replay = Replay::new(&config(json!({"policies": policy(value)}))).unwrap();
        let mut trace = unstored(&replay);
        replay
            .claim(&mut trace, &resource.encode_resource(), is_certain)
            .unwrap();
        let judged = replay.judge(&trace);
        assert_eq!(format!("{:?}", judged.decision), want, "{value}");
    }
}
