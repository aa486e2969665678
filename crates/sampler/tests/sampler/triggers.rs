//! `trigger`: each rule, and all of them against an evaluator that looks at every span again.

use std::collections::BTreeMap;

use proptest::prelude::*;
use sampler::{Config, Decision, Observed, Trigger};
use serde_json::{Value as Json, json};

use crate::bytes::{Span, Value};
use crate::recorded::{Recorded, number_of};
use crate::run::{MS, Run, T0, config, sampler_of};

/// Times are multiples of this: buckets of timers are narrower, so that decisions are exact.
const GRID_MS: u64 = 100;

fn policies() -> Json {
    let string = |name: &str, value: &str| json!({"name": name, "type": "string_attribute", "string_attribute": {"key": "k", "values": [value]}});
    json!([
        {"name": "errors", "type": "status_code", "status_code": {"status_codes": ["ERROR"]}},
        {"name": "slow", "type": "latency", "latency": {"threshold_ms": 1_000}},
        string("agents", "agent"),
        string("batches", "batch"),
    ])
}

fn rules() -> Json {
    json!({
        "root_grace": "500ms", "idle": "800ms", "max_wait": "3s",
        "policies": [
            {"policy": "errors", "match_grace": "300ms"},
            {"policy": "agents", "idle": "2s", "max_wait": "6s"},
            {"policy": "batches", "idle": "0s"},
        ],
    })
}

fn span(trace: u64, span_id: u64, parent: u64) -> Span {
    Span {
        trace,
        span_id,
        parent,
        start_unix_nano: T0,
        end_unix_nano: T0 + MS,
        ..Span::default()
    }
}

fn with(span: Span, value: &str) -> Span {
    Span {
        attributes: vec![("k".to_owned(), Value::Str(value.to_owned()))],
        ..span
    }
}

/// Sends spans at these times and ticks on the grid; when the trace was decided, and why then.
fn check(spans: &[(u64, Span)], want: (u64, Trigger)) {
    let mut run = Run::new(sampler_of(policies(), json!({"trigger": rules()})));
    let mut at_ms = 0;
    while run.decided.is_empty() {
        for (_, span) in spans.iter().filter(|(sent_ms, _)| *sent_ms == at_ms) {
            run.send(at_ms, span);
        }
        run.tick(at_ms);
        at_ms += GRID_MS;
        assert!(at_ms < 100_000, "it is decided at some time");
    }
    assert_eq!((at_ms - GRID_MS, run.decided[0].trigger), want);
}

#[test]
fn a_root_ends_the_waiting_after_its_grace() {
    check(
        &[
            (0, span(1, 2, 1)),
            (400, span(1, 1, 0)),
            (500, span(1, 9, 0)),
        ],
        (900, Trigger::RootEnded),
    );
}

#[test]
fn without_a_root_a_trace_is_decided_when_nothing_comes_any_more() {
    check(
        &[
            (0, span(1, 2, 1)),
            (700, span(1, 3, 1)),
            (1_400, span(1, 4, 1)),
        ],
        (2_200, Trigger::Idle),
    );
}

#[test]
fn a_copy_of_a_span_is_no_news() {
    check(
        &[(0, span(1, 2, 1)), (700, span(1, 2, 1))],
        (800, Trigger::Idle),
    );
}

#[test]
fn a_trace_that_never_ends_is_decided_at_the_limit() {
    let spans: Vec<_> = (0..100).map(|n| (n * 500, span(1, n + 2, 1))).collect();
    check(&spans, (3_000, Trigger::MaxWait));
}

#[test]
fn a_match_ends_the_waiting_after_its_grace() {
    let error = Span {
        status: 2,
        ..span(1, 3, 1)
    };
    check(
        &[
            (0, span(1, 2, 1)),
            (600, error.clone()),
            (800, span(1, 4, 1)),
        ],
        (900, Trigger::Matched),
    );
    // Also where only a later version of a span has the error.
    check(&[(0, span(1, 3, 1)), (600, error)], (600, Trigger::Matched));
}

#[test]
fn traces_that_a_policy_matches_are_given_longer() {
    check(&[(0, with(span(1, 2, 1), "agent"))], (2_000, Trigger::Idle));
    let spans: Vec<_> = (0..100)
        .map(|n| (n * 500, with(span(1, n + 2, 1), "agent")))
        .collect();
    check(&spans, (6_000, Trigger::MaxWait));
    check(
        &[(0, with(span(1, 2, 1), "batch"))],
        (3_000, Trigger::MaxWait),
    );
    let both = [
        (0, with(span(1, 2, 1), "batch")),
        (0, with(span(1, 3, 1), "agent")),
    ];
    check(&both, (6_000, Trigger::MaxWait));
}

#[test]
fn a_trace_that_is_too_large_or_too_many_is_decided_at_once() {
    let keys = json!({"trigger": rules(), "maximum_trace_size_bytes": 190, "num_traces": 2});
    let mut run = Run::new(sampler_of(policies(), keys));
    for span_id in 2..6 {
        run.send(0, &span(1, span_id, 1));
    }
    for trace in 2..5 {
        run.send(0, &span(trace, 1, 2));
    }
    // News of the second make its timer stale: the third is due next.
    run.send(100, &with(span(2, 2, 1), "agent"));
    run.tick(100);
    let decided: Vec<_> = run
        .decided
        .iter()
        .map(|d| (number_of(d.trace_id), d.trigger))
        .collect();
    assert_eq!(decided, [(1, Trigger::TooLarge), (3, Trigger::Memory)]);
}

#[test]
fn the_oldest_are_decided_for_the_sake_of_the_disk_though_they_are_due_last() {
    let mut run = Run::new(sampler_of(policies(), json!({"trigger": rules()})));
    run.send(0, &with(span(1, 2, 1), "agent"));
    run.send(0, &span(2, 1, 0));
    run.send(100, &with(span(1, 3, 1), "agent"));
    let mut decided = Vec::new();
    let n = run
        .sampler
        .decide_before(1, 10, Trigger::Disk, T0 + 100 * MS, &mut decided);
    assert_eq!(
        (n, number_of(decided[0].trace_id), decided[0].trigger),
        (1, 1, Trigger::Disk)
    );
    assert_eq!(
        run.sampler
            .decide_before(1, 10, Trigger::Disk, T0, &mut decided),
        0
    );
}

#[derive(Debug, Clone)]
enum Step {
    Span {
        trace: u64,
        is_root: bool,
        is_error: bool,
        value: &'static str,
    },
    Wait {
        n_grid: u64,
    },
    Tick,
    Carry {
        n: usize,
    },
    Restart,
}

fn any_step() -> impl Strategy<Value = Step> {
    let value = prop::sample::select(vec!["", "", "", "", "", "agent", "batch"]);
    prop_oneof![
        8 => (0_u64..4, prop::bool::weighted(0.1), prop::bool::weighted(0.05), value).prop_map(
            |(trace, is_root, is_error, value)| Step::Span { trace, is_root, is_error, value }),
        5 => (0_u64..9).prop_map(|n_grid| Step::Wait { n_grid }),
        4 => Just(Step::Tick),
        1 => (0_usize..40).prop_map(|n| Step::Carry { n }),
        1 => Just(Step::Restart),
    ]
}

/// A span as the slow evaluator remembers it.
#[derive(Debug, Clone, Copy)]
struct Seen {
    at_ms: u64,
    is_root: bool,
    is_error: bool,
    value: &'static str,
}

/// When a trace is due, and why then, from all its spans.
fn evaluate(spans: &[Seen]) -> (u64, Trigger) {
    let first = |is: fn(&Seen) -> bool| {
        spans
            .iter()
            .filter(|seen| is(seen))
            .map(|seen| seen.at_ms)
            .min()
    };
    let has = |value| spans.iter().any(|seen| seen.value == value);
    let idle_ms = match (has("batch"), has("agent")) {
        (true, _) => None,
        (false, true) => Some(2_000),
        (false, false) => Some(800),
    };
    let max_wait_ms = if has("agent") { 6_000 } else { 3_000 };
    let last = spans.iter().map(|seen| seen.at_ms).max().unwrap();
    let candidates = [
        (
            first(|seen| seen.is_root).map(|at| at + 500),
            Trigger::RootEnded,
        ),
        (
            first(|seen| seen.is_error).map(|at| at + 300),
            Trigger::Matched,
        ),
        (idle_ms.map(|idle_ms| last + idle_ms), Trigger::Idle),
        (first(|_| true).map(|at| at + max_wait_ms), Trigger::MaxWait),
    ];
    let known = candidates
        .into_iter()
        .filter_map(|(at, trigger)| Some((at?, trigger)));
    // Of several at once the first in the list.
    known.min_by_key(|(at, _)| *at).unwrap()
}

/// What the sampler has decided must be what is due, and nothing else.
fn check_tick(pending: &mut BTreeMap<u64, Vec<Seen>>, recorded: &mut Recorded, now_ms: u64) {
    let mut due: BTreeMap<u64, (Trigger, usize, Decision)> = BTreeMap::new();
    for (trace, spans) in &*pending {
        let (at, trigger) = evaluate(spans);
        if at <= now_ms {
            let is_kept = spans
                .iter()
                .any(|seen| seen.is_error || !seen.value.is_empty());
            let decision = if is_kept {
                Decision::Sampled
            } else {
                Decision::NotSampled
            };
            due.insert(*trace, (trigger, spans.len(), decision));
        }
    }
    pending.retain(|trace, _| !due.contains_key(trace));
    let decided = recorded.tick(now_ms);
    let decided: BTreeMap<u64, (Trigger, usize, Decision)> = decided
        .iter()
        .map(|(d, _)| {
            (
                number_of(d.trace_id),
                (d.trigger, d.spans.len(), d.decision),
            )
        })
        .collect();
    assert_eq!(decided, due, "at {now_ms} ms");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// Scenario: spans, time, ticks, spans that are carried forward in the log, and restarts from it.
    /// Guarantee: at each tick exactly those traces are decided that a slow evaluator finds due, for its reason.
    #[test]
    fn decisions_agree_with_a_slow_evaluator_of_the_rules(
        steps in prop::collection::vec(any_step(), 1..120),
    ) {
        let keys: Config = config(json!({"policies": policies(), "trigger": rules()}));
        let mut recorded = Recorded::new(keys);
        let mut pending: BTreeMap<u64, Vec<Seen>> = BTreeMap::new();
        let mut now_ms = 0;
        let mut has_match = false;
        for (step, id) in steps.into_iter().zip(1_u64..) {
            match step {
                Step::Span { trace, is_root, is_error, value } => {
                    let parent = if is_root { 0 } else { 1_000 };
                    let status = if is_error { 2 } else { 0 };
                    let sent = Span { status, ..with(span(trace, id, parent), value) };
                    if let Observed::Pending = recorded.send(now_ms, &sent) {
                        let seen = Seen { at_ms: now_ms, is_root, is_error, value };
                        pending.entry(trace).or_default().push(seen);
                        has_match |= is_error;
                    }
                }
                Step::Wait { n_grid } => now_ms += n_grid * GRID_MS,
                Step::Tick => check_tick(&mut pending, &mut recorded, now_ms),
                // When a policy matched first is not known to the nanosecond if its span was carried.
                Step::Carry { n } => if !has_match { recorded.carry(n) },
                Step::Restart => recorded.restart(),
            }
        }
        check_tick(&mut pending, &mut recorded, now_ms + 10_000);
        prop_assert!(pending.is_empty());
    }
}
