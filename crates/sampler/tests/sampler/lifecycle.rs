//! Time, late spans, recovery, shutdown, summaries, memory.

use sampler::{
    Decision, Observed, PendingSpan, RecordedDecision, Reports, SERVICES_PER_TRACE_MAX, SpanHandle,
    ThresholdChange, Trigger,
};
use serde_json::json;

use crate::bytes::{Span, Value};
use crate::run::{MS, Run, T0, sampler_of};

fn span(trace: u64, span_id: u64, parent: u64) -> Span {
    Span {
        trace,
        span_id,
        parent,
        start_unix_nano: T0 + span_id * MS,
        end_unix_nano: T0 + (span_id + 5) * MS,
        ..Span::default()
    }
}

fn all() -> serde_json::Value {
    json!([{"name": "all", "type": "always_sample"}])
}

fn errors() -> serde_json::Value {
    json!([{"name": "errors", "type": "status_code", "status_code": {"status_codes": ["ERROR"]}}])
}

#[test]
fn a_trace_is_decided_at_decision_wait_after_its_first_span_and_not_before() {
    let mut run = Run::new(sampler_of(all(), json!({"decision_wait": "500ms"})));
    run.send(0, &span(1, 2, 1));
    run.send(400, &span(1, 3, 1));
    run.tick(499);
    assert!(run.decided.is_empty());
    run.tick(500);
    let decided = run.decision_on(&span(1, 1, 0));
    assert_eq!(
        (decided.trigger, decided.summary.n_roots),
        (Trigger::Waited, 0)
    );
    assert_eq!(decided.summary.first_seen_unix_nano, T0);
}

#[test]
fn a_root_moves_the_decision_earlier_and_a_late_root_never_later() {
    let keys = json!({"decision_wait": "10s", "decision_wait_after_root_received": "2s"});
    let mut run = Run::new(sampler_of(all(), keys));
    run.send(0, &span(1, 2, 1));
    run.send(1_000, &span(1, 1, 0));
    run.send(2_900, &span(1, 9, 0));
    run.send(0, &span(2, 2, 1));
    run.send(9_000, &span(2, 1, 0));
    run.tick(2_999);
    assert!(run.decided.is_empty());
    run.tick(3_000);
    assert_eq!(run.decision_on(&span(1, 1, 0)).trigger, Trigger::RootEnded);
    assert_eq!(run.decision_on(&span(1, 1, 0)).summary.n_roots, 2);
    run.tick(9_999);
    assert_eq!(run.decided.len(), 1);
    run.tick(10_000);
    assert_eq!(run.decision_on(&span(2, 1, 0)).trigger, Trigger::Waited);
}

#[test]
fn a_tick_decides_at_most_what_it_is_asked_for_oldest_first() {
    let mut run = Run::new(sampler_of(all(), json!({"decision_wait": "1s"})));
    for trace in 0..10 {
        run.send(trace * 100, &span(trace, 1, 0));
    }
    for n_decided in 1..=10 {
        run.sampler.tick(T0 + 10_000 * MS, 1, &mut run.decided);
        assert_eq!(run.decided.len(), n_decided);
    }
    let order: Vec<u8> = run
        .decided
        .iter()
        .map(|d| d.trace_id.as_bytes()[15])
        .collect();
    assert_eq!(order, (0..10).collect::<Vec<u8>>());
}

#[test]
fn a_clock_that_jumped_ahead_for_a_while_delays_no_other_trace() {
    let mut run = Run::new(sampler_of(all(), json!({"decision_wait": "1s"})));
    run.send(3_600_000, &span(1, 1, 0));
    run.send(0, &span(2, 1, 0));
    run.tick(1_000);
    assert_eq!(run.decided.len(), 1);
    run.decision_on(&span(2, 1, 0));
}

#[test]
fn late_spans_follow_the_decision_with_its_policy() {
    let mut run = Run::new(sampler_of(errors(), json!({"decision_wait": "1s"})));
    run.send(
        0,
        &Span {
            status: 2,
            ..span(1, 1, 0)
        },
    );
    run.send(0, &span(2, 1, 0));
    run.tick(1_000);
    let policy = run.decision_on(&span(1, 1, 0)).policy;
    assert_eq!(
        policy
            .map(|policy| run.sampler.policy_name(policy).to_owned())
            .as_deref(),
        Some("errors")
    );
    assert_eq!(
        run.send(1_100, &span(1, 2, 1)),
        Observed::Late(Decision::Sampled, policy)
    );
    // Even an error no longer changes it.
    let late_error = Span {
        status: 2,
        ..span(2, 2, 1)
    };
    assert_eq!(
        run.send(1_100, &late_error),
        Observed::Late(Decision::NotSampled, None)
    );
    assert_eq!(run.sampler.stats().n_traces, 0);
}

#[test]
fn a_cache_forgets_the_trace_not_asked_for_longest() {
    let keys = json!({"decision_wait": "1s", "decision_cache": {"sampled_cache_size": 3}});
    let mut run = Run::new(sampler_of(all(), keys));
    for trace in 0..3 {
        run.send(0, &span(trace, 1, 0));
    }
    run.tick(1_000);
    assert!(matches!(
        run.send(1_000, &span(0, 2, 1)),
        Observed::Late(..)
    ));
    run.send(1_000, &span(3, 1, 0));
    run.tick(2_000);
    assert_eq!(run.send(2_000, &span(1, 2, 1)), Observed::Pending);
    for trace in [0, 2, 3] {
        assert!(
            matches!(run.send(2_000, &span(trace, 3, 1)), Observed::Late(..)),
            "{trace}"
        );
    }
}

#[test]
fn a_recorded_decision_is_repeated_and_never_made_again() {
    let mut run = Run::new(sampler_of(errors(), json!({"decision_wait": "1s"})));
    run.send(0, &span(1, 1, 0));
    let recorded = RecordedDecision {
        trace_id: run_trace_id(1),
        decision: Decision::Sampled,
        policy: Some("a policy of the old configuration"),
        trigger: Trigger::RootEnded,
        adjusted_count: Some(20.0),
        threshold: ThresholdChange::Erased,
    };
    run.sampler.apply(&recorded, &mut run.decided);
    let decided = run.decision_on(&span(1, 1, 0));
    assert_eq!(decided.decision, Decision::Sampled);
    assert_eq!(
        (decided.trigger, decided.adjusted_count),
        (Trigger::RootEnded, Some(20.0))
    );
    assert_eq!(decided.spans.len(), 1);
    let policy = decided.policy.unwrap();
    assert_eq!(
        run.sampler.policy_name(policy),
        "a policy of the old configuration"
    );
    run.tick(5_000);
    assert_eq!(run.decided.len(), 1);
    assert_eq!(
        run.send(5_000, &span(1, 2, 1)),
        Observed::Late(Decision::Sampled, Some(policy))
    );
    // The same name is the same policy, and a trace without pending spans is only remembered.
    let again = RecordedDecision {
        trace_id: run_trace_id(2),
        ..recorded
    };
    run.sampler.apply(&again, &mut run.decided);
    assert_eq!(run.decided.len(), 1);
    assert_eq!(
        run.send(5_000, &span(2, 2, 1)),
        Observed::Late(Decision::Sampled, Some(policy))
    );
}

fn run_trace_id(trace: u64) -> otlp::TraceId {
    otlp::TraceId::from_slice(&span(trace, 1, 0).trace_id()).unwrap()
}

#[test]
fn recovery_may_exceed_num_traces_and_the_next_tick_brings_it_down() {
    let mut run = Run::new(sampler_of(all(), json!({"num_traces": 2})));
    for trace in 0..5 {
        run.send(trace, &span(trace, 1, 0));
    }
    assert_eq!(run.sampler.stats().n_traces, 5);
    run.tick(5);
    assert_eq!(run.decided.len(), 3);
    assert!(
        run.decided
            .iter()
            .all(|decided| decided.trigger == Trigger::Memory)
    );
}

#[test]
fn shutdown_decides_everything_on_what_is_there() {
    let mut run = Run::new(sampler_of(errors(), json!({"decision_wait": "1s"})));
    run.send(0, &span(1, 1, 0));
    run.send(
        900,
        &Span {
            status: 2,
            ..span(2, 1, 0)
        },
    );
    let mut decided = Vec::new();
    run.sampler.drain(T0 + 1_000 * MS, &mut decided);
    let triggers: Vec<_> = decided.iter().map(|d| (d.decision, d.trigger)).collect();
    assert_eq!(
        triggers,
        [
            (Decision::NotSampled, Trigger::Waited),
            (Decision::Sampled, Trigger::Shutdown)
        ]
    );
    assert_eq!(run.sampler.stats().n_traces, 0);
}

/// A trace in which each count of the summary differs.
fn spans_to_count() -> [Span; 7] {
    let of = |service: &str, span: Span| {
        let resource = vec![("service.name".to_owned(), Value::Str(service.to_owned()))];
        Span { resource, ..span }
    };
    let failed = Span {
        status: 2,
        ..span(1, 3, 2)
    };
    let without_times = Span {
        start_unix_nano: 0,
        end_unix_nano: 0,
        ..span(1, 5, 1)
    };
    let ends_before_it_starts = Span {
        end_unix_nano: T0,
        ..span(1, 6, 1)
    };
    [
        of("vllm", failed),
        of("rag", span(1, 2, 1)),
        of("vllm", span(1, 4, 77)),
        of("gateway", span(1, 1, 0)),
        // The same span again.
        of("gateway", span(1, 1, 0)),
        of("", without_times),
        of("rag", ends_before_it_starts),
    ]
}

#[test]
fn the_summary_counts_roots_orphans_errors_services_and_bytes() {
    let mut run = Run::new(sampler_of(all(), json!({"decision_wait": "1s"})));
    let spans = spans_to_count();
    let sizes = spans.iter().map(|span| span.encode().len());
    // The copy counts nowhere.
    let n_bytes = sizes.sum::<usize>() - spans[4].encode().len();
    for span in &spans {
        run.send(0, span);
    }
    assert_eq!(run.sampler.stats().n_bytes, n_bytes as u64);
    run.tick(1_000);
    let decided = run.decision_on(&spans[0]);
    let summary = &decided.summary;
    assert_eq!(summary.start_time_unix_nano, T0 + MS);
    assert_eq!(summary.end_time_unix_nano, T0 + 9 * MS);
    assert_eq!(
        (summary.n_spans, summary.n_error_spans, summary.n_roots),
        (6, 1, 1)
    );
    assert_eq!(summary.n_orphans, 1);
    assert_eq!(summary.n_bytes, n_bytes as u64);
    assert_eq!(
        summary.root,
        Some(SpanHandle {
            position: 3,
            offset: 7
        })
    );
    let services: Vec<&str> = summary
        .services
        .iter()
        .map(|service| run.sampler.service_name(*service))
        .collect();
    assert_eq!(services, ["vllm", "rag", "gateway"]);
    let third = PendingSpan {
        span_id: otlp::SpanId::from_slice(&4_u64.to_be_bytes()).unwrap(),
        parent_span_id: Some(otlp::SpanId::from_slice(&77_u64.to_be_bytes()).unwrap()),
        handle: SpanHandle {
            position: 2,
            offset: 7,
        },
        reports: Reports::Itself,
    };
    assert_eq!(decided.spans[2], third);
}

#[test]
fn a_trace_of_spans_without_times_has_no_duration() {
    let policies = json!([{"name": "slow", "type": "latency", "latency": {"threshold_ms": 0}}]);
    let mut run = Run::new(sampler_of(policies, json!({"decision_wait": "1s"})));
    run.send(
        0,
        &Span {
            start_unix_nano: 0,
            ..span(1, 1, 0)
        },
    );
    run.tick(1_000);
    let decided = run.decision_on(&span(1, 1, 0));
    assert_eq!(decided.decision, Decision::NotSampled);
    assert_eq!(decided.summary.start_time_unix_nano, 0);
}

#[test]
fn of_a_repeated_attribute_the_last_counts() {
    let policies = json!([{
        "name": "p", "type": "string_attribute", "string_attribute": {"key": "k", "values": ["a"]}
    }]);
    let mut run = Run::new(sampler_of(policies, json!({"decision_wait": "1s"})));
    let with = |values: [&str; 2]| {
        values
            .map(|value| ("k".to_owned(), Value::Str(value.to_owned())))
            .to_vec()
    };
    run.send(
        0,
        &Span {
            attributes: with(["a", "b"]),
            ..span(1, 1, 0)
        },
    );
    run.send(
        0,
        &Span {
            attributes: with(["b", "a"]),
            ..span(2, 1, 0)
        },
    );
    run.tick(1_000);
    assert_eq!(
        run.decision_on(&span(1, 1, 0)).decision,
        Decision::NotSampled
    );
    assert_eq!(run.decision_on(&span(2, 1, 0)).decision, Decision::Sampled);
}

#[test]
fn a_trace_with_endless_services_lists_the_first() {
    let mut run = Run::new(sampler_of(all(), json!({"decision_wait": "1s"})));
    for number in 0..SERVICES_PER_TRACE_MAX as u64 + 50 {
        let name = Value::Str(format!("service-{number}"));
        let resource = vec![("service.name".to_owned(), name)];
        run.send(
            0,
            &Span {
                resource,
                ..span(1, number + 1, 0)
            },
        );
    }
    run.tick(1_000);
    assert_eq!(
        run.decided[0].summary.services.len(),
        SERVICES_PER_TRACE_MAX
    );
}

#[test]
fn the_adjusted_count_is_one_over_the_probability_of_being_kept() {
    let share = |name: &str, percentage: f64, salt: &str| {
        json!({"name": name, "type": "probabilistic",
               "probabilistic": {"sampling_percentage": percentage, "hash_salt": salt}})
    };
    let error = errors()[0].clone();
    let of_errors = json!({"name": "some errors", "type": "and",
                           "and": {"and_sub_policy": [error, share("s", 80.0, "")]}});
    for (policies, is_error, want) in [
        (
            json!([share("a", 50.0, ""), share("b", 80.0, "")]),
            false,
            1.25,
        ),
        (
            json!([share("a", 50.0, "x"), share("b", 80.0, "y")]),
            false,
            1.0 / 0.9,
        ),
        (json!([share("a", 80.0, ""), error]), true, 1.0),
        (json!([share("a", 80.0, ""), error]), false, 1.25),
        (json!([share("a", 50.0, ""), of_errors]), true, 1.25),
        (json!([share("a", 50.0, ""), of_errors]), false, 2.0),
        (json!([share("a", 100.0, "")]), false, 1.0),
    ] {
        let mut run = Run::new(sampler_of(policies.clone(), json!({"decision_wait": "1s"})));
        for trace in 0..200 {
            run.send(
                0,
                &Span {
                    status: if is_error { 2 } else { 0 },
                    ..span(trace, 1, 0)
                },
            );
        }
        run.tick(1_000);
        let mut n_sampled = 0;
        for decided in &run.decided {
            if decided.decision == Decision::Sampled {
                n_sampled += 1;
                let count = decided.adjusted_count.unwrap();
                assert!(
                    (count - want).abs() < 1e-12,
                    "{policies} {is_error}: {count}"
                );
            } else {
                assert_eq!(decided.adjusted_count, None);
            }
        }
        assert!(n_sampled > 50, "{policies}");
    }
}

#[test]
fn heap_stays_within_256_bytes_per_trace_and_64_per_span() {
    for n_spans_each in [1, 2, 5, 13, 100] {
        let mut run = Run::new(sampler_of(all(), json!({"num_traces": 1_000_000})));
        let empty = run.sampler.stats().heap_bytes;
        let n_traces = 20_000 / n_spans_each + 500;
        for number in 1..=n_spans_each {
            for trace in 0..n_traces {
                let name = Value::Str(format!("service-{}", number % 5));
                let resource = vec![("service.name".to_owned(), name)];
                run.send(
                    trace / 100,
                    &Span {
                        resource,
                        ..span(trace, number, number - 1)
                    },
                );
            }
        }
        let stats = run.sampler.stats();
        assert_eq!(
            (stats.n_traces, stats.n_spans),
            (n_traces, n_traces * n_spans_each)
        );
        let bound = 256 * stats.n_traces + 64 * stats.n_spans;
        let heap = stats.heap_bytes - empty;
        assert!(heap <= bound, "{n_spans_each} spans each: {heap} > {bound}");
        run.tick(100_000);
        // What was used stays for the next traces, and their spans are gone.
        let after = run.sampler.stats();
        assert_eq!((after.n_traces, after.n_spans, after.n_bytes), (0, 0, 0));
        assert_eq!(after.pending_heap_bytes, 0);
    }
}
