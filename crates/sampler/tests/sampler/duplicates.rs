//! Spans that come more than once.

use std::collections::HashSet;

use proptest::prelude::*;
use sampler::{Decision, Observed, SpanHandle, Trigger, Version};
use serde_json::json;

use crate::bytes::{Span, Value};
use crate::run::{MS, Run, T0, sampler_of};

const FIRST: Observed = Observed::Duplicate(Version::First);
const DECIDED: Observed = Observed::Duplicate(Version::Decided);

fn span(trace: u64, span_id: u64, status: u8) -> Span {
    Span {
        trace,
        span_id,
        parent: span_id - 1,
        start_unix_nano: T0,
        end_unix_nano: T0 + MS,
        status,
        ..Span::default()
    }
}

fn errors() -> Run {
    let policies = json!([{
        "name": "errors", "type": "status_code", "status_code": {"status_codes": ["ERROR"]}
    }]);
    Run::new(sampler_of(policies, json!({"decision_wait": "1s"})))
}

/// Guarantee: a copy of a span of an undecided trace changes neither the trace nor a count.
#[test]
fn a_copy_before_the_decision_counts_nowhere() {
    let mut run = errors();
    for number in 1..=100 {
        assert_eq!(run.send(0, &span(1, number, 0)), Observed::Pending);
    }
    let before = run.sampler.stats();
    for number in 1..=100 {
        assert_eq!(run.send(10, &span(1, number, 0)), FIRST, "span {number}");
    }
    assert_eq!(run.sampler.stats(), before);
    // The same span id in another trace is another span.
    assert_eq!(run.send(10, &span(2, 1, 0)), Observed::Pending);
    run.tick(1_100);
    let decided = run.decision_on(&span(1, 1, 0));
    assert_eq!((decided.summary.n_spans, decided.summary.n_roots), (100, 1));
}

/// Guarantee: a copy of a span of a decided trace is known, sampled or not; another span is late, once.
#[test]
fn a_copy_after_the_decision_is_no_late_span() {
    let mut run = errors();
    run.send(0, &span(1, 1, 2));
    run.send(0, &span(2, 1, 0));
    run.tick(1_000);
    for (trace, status, decision) in [(1, 2, Decision::Sampled), (2, 0, Decision::NotSampled)] {
        assert_eq!(run.send(2_000, &span(trace, 1, status)), DECIDED);
        let late = run.send(2_000, &span(trace, 2, 0));
        assert!(matches!(late, Observed::Late(found, _) if found == decision));
        assert_eq!(run.send(2_000, &span(trace, 2, 0)), DECIDED);
    }
    assert_eq!(run.sampler.stats().n_traces, 0);
}

/// Guarantee: also where the decision itself is forgotten, a copy does not begin a trace of its own.
#[test]
fn a_copy_of_a_forgotten_trace_begins_none() {
    let policies = json!([{"name": "all", "type": "always_sample"}]);
    let mut run = Run::new(sampler_of(
        policies,
        json!({"decision_wait": "1s", "num_traces": 1}),
    ));
    run.send(0, &span(1, 1, 0));
    run.send(0, &span(2, 1, 0));
    run.tick(1_000);
    assert_eq!(run.decided.len(), 2, "and the cache holds one");
    assert_eq!(run.send(2_000, &span(1, 1, 0)), DECIDED);
    assert_eq!(run.send(2_000, &span(2, 1, 0)), DECIDED);
    assert_eq!(run.send(2_000, &span(1, 2, 0)), Observed::Pending);
}

/// Guarantee: of two versions of a span the one with an error counts, so that the error is not lost.
#[test]
fn a_version_with_an_error_takes_the_place_of_one_without() {
    let mut run = errors();
    run.send(0, &span(1, 1, 0));
    run.send(0, &span(1, 2, 0));
    let at = |position| SpanHandle {
        position,
        offset: 7,
    };
    let replaces = Observed::Duplicate(Version::Replaces(at(0)));
    assert_eq!(run.send(0, &span(1, 1, 2)), replaces);
    assert_eq!(run.send(0, &span(1, 1, 2)), FIRST);
    assert_eq!(run.send(0, &span(1, 1, 0)), FIRST);
    run.tick(1_000);
    let decided = run.decision_on(&span(1, 1, 0));
    assert_eq!(decided.decision, Decision::Sampled);
    assert_eq!(
        (decided.summary.n_spans, decided.summary.n_error_spans),
        (2, 1)
    );
    assert_eq!(decided.summary.root, Some(at(2)));
    let handles: Vec<_> = decided.spans.iter().map(|span| span.handle).collect();
    assert_eq!(handles, [at(2), at(1)]);

    // After the decision the error follows it, once.
    assert!(matches!(
        run.send(2_000, &span(1, 2, 2)),
        Observed::Late(..)
    ));
    assert_eq!(run.send(2_000, &span(1, 2, 2)), DECIDED);
    assert_eq!(run.send(2_000, &span(1, 2, 0)), DECIDED);
}

/// 100,000 spans twice: a search of the whole list for each would be ten thousand million steps.
#[test]
fn a_very_large_trace_is_sent_twice_in_little_time() {
    let mut run = errors();
    for round in 0..2 {
        for number in 1..=100_000 {
            let observed = run.send(0, &span(1, number, 0));
            let want = if round == 0 { Observed::Pending } else { FIRST };
            assert_eq!(observed, want);
        }
    }
    let stats = run.sampler.stats();
    assert_eq!((stats.n_traces, stats.n_spans), (1, 100_000));
    assert!(stats.pending_heap_bytes <= 256 + 64 * 100_000);
    run.tick(1_000);
    for number in 1..=100_000 {
        assert_eq!(run.send(2_000, &span(1, number, 0)), DECIDED);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Against a set of ids: each span is new once, whatever the order, before and after the decision.
    #[test]
    fn each_span_is_new_once(
        sent in prop::collection::vec((1_u64..4, 1_u64..60), 1..300),
        tick_at in 0_usize..300,
    ) {
        let mut run = errors();
        let mut seen = HashSet::new();
        let mut decided = HashSet::new();
        for (idx, (trace, number)) in sent.into_iter().enumerate() {
            if idx == tick_at {
                run.tick(1_000);
                decided.extend(run.decided.iter().map(|trace| u64::from(trace.trace_id.as_bytes()[15])));
            }
            let is_new = seen.insert((trace, number));
            let observed = run.send(0, &span(trace, number, 0));
            match (is_new, decided.contains(&trace)) {
                (true, false) => prop_assert_eq!(observed, Observed::Pending),
                (true, true) => prop_assert!(matches!(observed, Observed::Late(..))),
                (false, false) => prop_assert_eq!(observed, FIRST),
                (false, true) => prop_assert_eq!(observed, DECIDED),
            }
        }
        run.sampler.drain(T0, &mut run.decided);
        prop_assert!(run.decided.iter().all(|trace| trace.trigger != Trigger::Late));
    }
}

/// Scenario: policies judge each batch as it arrives, and a batch is sent again.
/// Guarantee: the copy is no batch of its own, which would satisfy whatever is satisfied by nothing.
#[test]
fn a_copy_is_no_batch_to_judge() {
    let policies = json!([{
        "name": "others", "type": "string_attribute",
        "string_attribute": {"key": "k", "values": ["v"], "invert_match": true}
    }]);
    let keys = json!({"decision_wait": "1s", "sampling_strategy": "span-ingest"});
    let sent = Span {
        attributes: vec![("k".to_owned(), Value::Str("v".to_owned()))],
        ..span(1, 1, 0)
    };
    for n_copies in [0, 1, 2] {
        let mut run = Run::new(sampler_of(policies.clone(), keys.clone()));
        run.send(0, &sent);
        run.tick(100);
        for _ in 0..n_copies {
            assert_eq!(run.send(200, &sent), FIRST);
            run.tick(300);
        }
        run.tick(1_100);
        let decided = run.decision_on(&sent);
        assert_eq!(
            (decided.decision, decided.trigger),
            (Decision::NotSampled, Trigger::Waited),
            "{n_copies} copies"
        );
    }
}
