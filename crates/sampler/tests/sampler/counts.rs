//! What each policy has said.

use std::sync::atomic::{AtomicU64, Ordering};

use sampler::PolicyCounts;
use serde_json::{Value as Json, json};

use crate::bytes::Span;
use crate::run::{Run, sampler_of};

/// Two traces of one span, the first with an error, under these policies.
fn counts(policies: Json, keys: Json) -> Vec<(String, PolicyCounts)> {
    let mut run = Run::new(sampler_of(policies, keys));
    for (trace, status) in [(1, 2), (2, 0)] {
        let span = Span {
            trace,
            span_id: 1,
            status,
            ..Span::default()
        };
        run.send(0, &span);
    }
    run.tick(60_000);
    assert_eq!(run.decided.len(), 2);
    let counts = run.sampler.policy_counts();
    counts
        .map(|(name, counts)| (name.to_owned(), counts))
        .collect()
}

fn said(n_sampled: u64, n_not_sampled: u64, n_dropped: u64) -> PolicyCounts {
    PolicyCounts {
        n_sampled,
        n_not_sampled,
        n_dropped,
        n_failed: 0,
        n_nanos: 0,
    }
}

fn policies() -> Json {
    let errors = || json!({"status_codes": ["ERROR"]});
    json!([
        {"name": "all", "type": "always_sample"},
        {"name": "errors", "type": "status_code", "status_code": errors()},
        {"name": "none", "type": "drop", "drop": {"drop_sub_policy": [
            {"name": "no span", "type": "span_count", "span_count": {"min_spans": 9}},
        ]}},
    ])
}

#[test]
fn every_policy_that_is_asked_is_counted_by_what_it_says() {
    let found = counts(policies(), json!({}));
    let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["all", "errors", "none"]);
    let found: Vec<PolicyCounts> = found.into_iter().map(|(_, counts)| counts).collect();
    assert_eq!(found, [said(2, 0, 0), said(1, 1, 0), said(0, 2, 0)]);
    assert_eq!(found[1].n_checks(), 2);
}

#[test]
fn a_policy_that_is_not_asked_is_not_counted() {
    let first = counts(policies(), json!({"sample_on_first_match": true}));
    assert_eq!(first[1].1, said(0, 0, 0));
    let mut dropping = policies();
    dropping[2]["drop"]["drop_sub_policy"][0]["span_count"]["min_spans"] = json!(1);
    let dropped = counts(dropping, json!({}));
    assert_eq!(dropped[2].1, said(0, 0, 2));
    assert_eq!(dropped[0].1, said(0, 0, 0));
}

#[test]
fn a_policy_without_a_verdict_is_counted_as_failed() {
    let fails = json!([{"name": "p", "type": "ottl_condition", "ottl_condition": {
        "error_mode": "propagate", "span": ["Len(1) == 1"],
    }}]);
    let found = counts(fails, json!({}));
    assert_eq!(found[0].1.n_failed, 2);
    assert_eq!(found[0].1.n_checks(), 2);
}

/// The first time that a policy is asked is timed and stands for 64.
#[test]
fn the_time_of_policies_is_estimated_where_there_is_a_stopwatch() {
    static TICKS: AtomicU64 = AtomicU64::new(0);
    let mut run = Run::new(sampler_of(policies(), json!({})));
    run.sampler
        .time_policies(|| TICKS.fetch_add(10, Ordering::Relaxed));
    let span = Span {
        trace: 1,
        span_id: 1,
        ..Span::default()
    };
    run.send(0, &span);
    run.tick(60_000);
    let counts = run.sampler.policy_counts();
    let nanos: Vec<u64> = counts.map(|(_, counts)| counts.n_nanos).collect();
    assert_eq!(nanos, [640; 3]);
}
