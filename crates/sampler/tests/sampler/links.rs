//! `linked_traces`: what a kept trace pulls, what comes too late, and all of it against a slow oracle.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use sampler::{Config, Decision, LINKS_PER_TRACE_MAX, LinkCounts, Observed, Trigger};
use serde_json::{Value as Json, json};

use crate::bytes::{Span, Value};
use crate::recorded::{Recorded, number_of};
use crate::run::{MS, Run, T0, config, sampler_of};

/// Times are multiples of this, and the wait of a link is not: no two things are due within a bucket of timers.
const GRID_MS: u64 = 200;
const WAIT_MS: u64 = 2_100;

fn policies() -> Json {
    let string = |key: &str| json!({"key": key, "values": ["yes"]});
    json!([
        {"name": "errors", "type": "status_code", "status_code": {"status_codes": ["ERROR"]}},
        {"name": "probes", "type": "drop", "drop": {"drop_sub_policy": [
            {"name": "probe", "type": "string_attribute", "string_attribute": string("probe")}]}},
    ])
}

fn keys() -> Json {
    json!({"decision_wait": "1s", "decision_wait_after_root_received": "400ms",
        "linked_traces": {"wait": "2100ms"}})
}

fn run_with(other_keys: &Json) -> Run {
    let mut keys = keys();
    for (key, value) in other_keys.as_object().unwrap() {
        keys[key] = value.clone();
    }
    Run::new(sampler_of(policies(), keys))
}

fn span(trace: u64, span_id: u64) -> Span {
    Span {
        trace,
        span_id,
        parent: 1_000,
        start_unix_nano: T0,
        end_unix_nano: T0 + MS,
        ..Span::default()
    }
}

/// As the batching server of TGI sends it: a trace of its own, with a link to each request in it.
fn batch(trace: u64, requests: &[u64]) -> Span {
    Span {
        name: "batch".to_owned(),
        parent: 0,
        links: requests.to_vec(),
        ..span(trace, 1)
    }
}

fn failed(span: Span) -> Span {
    Span { status: 2, ..span }
}

fn probe(span: Span) -> Span {
    Span {
        attributes: vec![("probe".to_owned(), Value::Str("yes".to_owned()))],
        ..span
    }
}

/// All decisions so far: trace, answer, whether a policy gave it, trigger.
fn decided(run: &Run) -> Vec<(u64, Decision, bool, Trigger)> {
    let facts = run.decided.iter();
    facts
        .map(|d| {
            (
                number_of(d.trace_id),
                d.decision,
                d.policy.is_some(),
                d.trigger,
            )
        })
        .collect()
}

const KEPT: (Decision, bool) = (Decision::Sampled, true);

#[test]
fn a_kept_request_pulls_a_batch_that_is_due_before_it() {
    let mut run = run_with(&json!({}));
    run.send(0, &batch(9, &[1, 2]));
    run.send(200, &span(2, 1));
    run.tick(400);
    run.send(600, &failed(span(1, 1)));
    run.tick(1_200);
    assert_eq!(
        decided(&run),
        [(2, Decision::NotSampled, false, Trigger::Waited)]
    );
    run.tick(1_600);
    let both = [
        (1, KEPT.0, KEPT.1, Trigger::Waited),
        (9, Decision::Sampled, false, Trigger::Linked),
    ];
    assert_eq!(decided(&run)[1..], both);
    assert_eq!(run.sampler.stats().links, LinkCounts::default());
    assert_eq!(run.sampler.stats().pending_heap_bytes, 0);
    // What comes of the batch later is kept too.
    assert_eq!(
        run.send(1_800, &span(9, 2)),
        Observed::Late(Decision::Sampled, None)
    );
}

#[test]
fn a_batch_that_comes_after_the_decision_on_its_request_is_kept() {
    let mut run = run_with(&json!({}));
    run.send(0, &failed(span(1, 1)));
    run.tick(1_000);
    run.send(1_200, &batch(9, &[5, 1]));
    run.tick(1_600);
    assert_eq!(
        decided(&run)[1],
        (9, Decision::Sampled, false, Trigger::Linked)
    );
}

#[test]
fn a_batch_waits_no_longer_than_it_may_and_what_was_too_late_is_counted() {
    let mut run = run_with(&json!({}));
    run.send(0, &batch(9, &[1]));
    run.tick(2_400);
    assert!(run.decided.is_empty());
    run.tick(2_600);
    assert_eq!(
        decided(&run),
        [(9, Decision::NotSampled, false, Trigger::RootEnded)]
    );
    run.send(2_600, &failed(span(1, 1)));
    run.tick(3_600);
    run.send(
        3_600,
        &Span {
            links: vec![1],
            ..span(9, 7)
        },
    );
    run.send(
        3_600,
        &Span {
            links: vec![9],
            ..span(9, 8)
        },
    );
    let missed = LinkCounts {
        n_unresolved: 1,
        n_late: 1,
        n_over_limit: 0,
    };
    assert_eq!(run.sampler.stats().links, missed);
}

#[test]
fn a_batch_goes_on_at_once_when_none_of_its_requests_was_kept() {
    let mut run = run_with(&json!({}));
    run.send(0, &batch(9, &[1, 2]));
    run.send(0, &span(1, 1));
    run.send(0, &probe(failed(span(2, 1))));
    run.tick(1_000);
    let last = (9, Decision::NotSampled, false, Trigger::RootEnded);
    assert_eq!(decided(&run)[2], last);
    assert_eq!(run.sampler.stats().links, LinkCounts::default());
}

#[test]
fn what_a_policy_drops_is_dropped_and_what_is_too_large_is_not_sampled() {
    let mut run = run_with(&json!({"maximum_trace_size_bytes": 150}));
    run.send(0, &failed(span(1, 1)));
    run.send(0, &probe(batch(8, &[1])));
    run.send(0, &batch(9, &[1]));
    run.send(
        0,
        &Span {
            name: "x".repeat(150),
            ..span(9, 2)
        },
    );
    run.tick(1_000);
    let decided: BTreeMap<u64, (Decision, Trigger)> = run
        .decided
        .iter()
        .map(|d| (number_of(d.trace_id), (d.decision, d.trigger)))
        .collect();
    assert_eq!(decided[&8], (Decision::Dropped, Trigger::RootEnded));
    assert_eq!(decided[&9], (Decision::NotSampled, Trigger::TooLarge));
}

#[test]
fn pulled_traces_pull_no_others_and_nothing_is_pulled_the_other_way() {
    let mut run = run_with(&json!({}));
    // 1 is kept; 2 links to it, 3 to 2; 1 links to 4.
    run.send(
        0,
        &failed(Span {
            links: vec![4],
            ..span(1, 1)
        }),
    );
    run.send(0, &batch(2, &[1]));
    run.send(0, &batch(3, &[2]));
    run.send(0, &span(4, 1));
    run.tick(1_000);
    run.tick(4_000);
    let kept: BTreeSet<u64> = run
        .decided
        .iter()
        .filter(|d| d.decision == Decision::Sampled)
        .map(|d| number_of(d.trace_id))
        .collect();
    assert_eq!(kept, [1, 2].into());
}

#[test]
fn early_decisions_do_not_wait_and_keep_their_trigger() {
    let mut run = run_with(&json!({"num_traces": 1}));
    run.send(0, &failed(span(1, 1)));
    run.tick(1_000);
    run.send(1_200, &batch(8, &[1]));
    run.send(1_200, &batch(9, &[2]));
    run.send(1_200, &span(3, 1));
    run.tick(1_200);
    assert_eq!(
        decided(&run)[1..],
        [
            (8, Decision::Sampled, false, Trigger::Memory),
            (9, Decision::NotSampled, false, Trigger::Memory),
        ]
    );
    assert_eq!(run.sampler.stats().links.n_unresolved, 1);
}

#[test]
fn a_trace_with_links_stands_for_an_unknown_number_unless_it_is_certain_to_be_kept() {
    let half = json!([{"name": "half", "type": "probabilistic", "probabilistic": {"sampling_percentage": 99.99}}]);
    for (policies, want) in [
        (half, [Some(1.0 / 0.9999), None]),
        (
            json!([{"name": "all", "type": "always_sample"}]),
            [Some(1.0), Some(1.0)],
        ),
    ] {
        let mut run = Run::new(sampler_of(policies, keys()));
        run.send(0, &batch(1, &[]));
        run.send(0, &batch(2, &[1]));
        run.tick(4_000);
        for (trace, want) in [(1, want[0]), (2, want[1])] {
            let decided = run.decision_on(&span(trace, 1));
            assert_eq!(decided.decision, Decision::Sampled);
            let near = |(is, want): (f64, f64)| (is - want).abs() < 1e-6;
            assert!(
                decided
                    .adjusted_count
                    .zip(want)
                    .map_or(decided.adjusted_count == want, near)
            );
        }
    }
}

#[test]
fn links_are_followed_up_to_a_number_and_their_memory_is_counted_and_given_back() {
    let mut run = run_with(&json!({}));
    let many: Vec<u64> = (100..100 + LINKS_PER_TRACE_MAX as u64 + 10).collect();
    run.send(0, &batch(9, &many));
    run.send(
        0,
        &Span {
            links: many.clone(),
            ..span(9, 2)
        },
    );
    let stats = run.sampler.stats();
    assert_eq!(stats.links.n_over_limit, 20);
    assert!(stats.pending_heap_bytes > 40 * LINKS_PER_TRACE_MAX as u64);
    run.tick(10_000);
    assert_eq!(run.sampler.stats().pending_heap_bytes, 0);
}

#[test]
fn nothing_is_pulled_where_links_are_not_followed() {
    for keys in [
        json!({"compat": "collector"}),
        json!({"sampling_strategy": "span-ingest"}),
        json!({"linked_traces": {"enabled": false}}),
    ] {
        let mut run = run_with(&json!({"linked_traces": {}}));
        run.sampler = sampler_of(policies(), keys);
        run.send(0, &failed(span(1, 1)));
        run.tick(30_000);
        run.send(30_000, &batch(9, &[1]));
        run.tick(60_000);
        assert_eq!(run.decision_on(&span(9, 1)).decision, Decision::NotSampled);
    }
}

#[derive(Debug, Clone)]
enum Step {
    Span {
        trace: u64,
        is_root: bool,
        kind: u64,
        links: Vec<u64>,
    },
    Wait {
        n_grid: u64,
    },
    Tick,
    Restart,
}

const N_TRACES: u64 = 7;

fn any_step() -> impl Strategy<Value = Step> {
    let links = prop_oneof![
        3 => Just(Vec::new()),
        2 => prop::collection::vec(0..N_TRACES, 1..4),
    ];
    prop_oneof![
        8 => (0..N_TRACES, prop::bool::weighted(0.3), 0_u64..9, links)
            .prop_map(|(trace, is_root, kind, links)| Step::Span { trace, is_root, kind, links }),
        5 => (0_u64..6).prop_map(|n_grid| Step::Wait { n_grid }),
        4 => Just(Step::Tick),
        1 => Just(Step::Restart),
    ]
}

#[derive(Debug, Clone, Default)]
struct Pending {
    due_ms: u64,
    is_error: bool,
    is_probe: bool,
    links: BTreeSet<u64>,
    waits_since_ms: Option<u64>,
}

/// What the oracle remembers of a decision: its answer, and whether a policy kept it.
type Known = (Decision, bool);

#[derive(Debug, Default)]
struct Oracle {
    pending: BTreeMap<u64, Pending>,
    decided: BTreeMap<u64, Known>,
    missed: LinkCounts,
}

impl Oracle {
    fn is_pulling(&self, trace: u64) -> bool {
        self.decided.get(&trace) == Some(&(Decision::Sampled, true))
    }

    fn add(&mut self, (trace, is_root, kind, links): (u64, bool, u64, &[u64]), now_ms: u64) {
        let links = links.iter().copied().filter(|target| *target != trace);
        if let Some((decision, _)) = self.decided.get(&trace) {
            let is_late = links.clone().any(|target| self.is_pulling(target));
            self.missed.n_late += u64::from(is_late && *decision == Decision::NotSampled);
            return;
        }
        let new = Pending {
            due_ms: now_ms + 1_000,
            ..Pending::default()
        };
        let pending = self.pending.entry(trace).or_insert(new);
        if is_root {
            pending.due_ms = pending.due_ms.min(now_ms + 400);
        }
        pending.is_error |= kind == 1;
        pending.is_probe |= kind == 2;
        pending.links.extend(links);
    }

    /// When a trace is looked at next.
    fn looked_at_ms(&self, pending: &Pending) -> u64 {
        match pending.waits_since_ms {
            Some(since) if self.is_open(pending) => since + WAIT_MS,
            Some(since) => since,
            None => pending.due_ms,
        }
    }

    /// Is there still something to wait for? Not where its own policies settle it.
    fn is_open(&self, pending: &Pending) -> bool {
        if pending.is_error || pending.is_probe {
            return false;
        }
        let is_pulled = pending.links.iter().any(|target| self.is_pulling(*target));
        !is_pulled
            && pending
                .links
                .iter()
                .any(|target| !self.decided.contains_key(target))
    }

    fn tick(&mut self, now_ms: u64) -> BTreeMap<u64, (Decision, bool, bool)> {
        let mut out = BTreeMap::new();
        loop {
            let looked_at = self.pending.iter();
            let looked_at = looked_at.map(|(trace, pending)| (self.looked_at_ms(pending), *trace));
            let next = looked_at.min().filter(|(at_ms, _)| *at_ms <= now_ms);
            let Some((_, trace)) = next else {
                return out;
            };
            let pending = self.pending[&trace].clone();
            if self.is_open(&pending) && pending.waits_since_ms.is_none() {
                let since = Some(pending.due_ms);
                self.pending.get_mut(&trace).unwrap().waits_since_ms = since;
                continue;
            }
            self.pending.remove(&trace);
            let is_pulled = pending.links.iter().any(|target| self.is_pulling(*target));
            let (decision, has_policy) = match (pending.is_probe, pending.is_error, is_pulled) {
                (true, ..) => (Decision::Dropped, true),
                (_, true, _) => (Decision::Sampled, true),
                (_, _, true) => (Decision::Sampled, false),
                _ => (Decision::NotSampled, false),
            };
            let is_open = decision == Decision::NotSampled && self.is_open(&pending);
            self.missed.n_unresolved += u64::from(is_open);
            self.decided.insert(trace, (decision, has_policy));
            out.insert(
                trace,
                (
                    decision,
                    has_policy,
                    decision == Decision::Sampled && !has_policy,
                ),
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// Scenario: requests, batches with links to each other, ticks, and restarts from the log.
    /// Guarantee: each trace is decided at the tick at which a slow oracle decides it, and kept for the same reason.
    #[test]
    fn what_is_pulled_agrees_with_a_slow_oracle(steps in prop::collection::vec(any_step(), 1..100)) {
        let mut with_policies = keys();
        with_policies["policies"] = policies();
        let keys: Config = config(with_policies);
        let mut recorded = Recorded::new(keys);
        let mut oracle = Oracle::default();
        let mut now_ms = 0;
        let mut has_restarted = false;
        let steps = steps.into_iter().chain([Step::Wait { n_grid: 1_000 }, Step::Tick]);
        for (step, id) in steps.zip(1_u64..) {
            match step {
                Step::Span { trace, is_root, kind, links } => {
                    let parent = if is_root { 0 } else { 1_000 };
                    let sent = Span { parent, links: links.clone(), ..span(trace, id) };
                    let sent = match kind {
                        1 => failed(sent),
                        2 => probe(sent),
                        _ => sent,
                    };
                    recorded.send(now_ms, &sent);
                    oracle.add((trace, is_root, kind, &links), now_ms);
                }
                Step::Wait { n_grid } => now_ms += n_grid * GRID_MS,
                Step::Tick => {
                    let want = oracle.tick(now_ms);
                    let decided: BTreeMap<u64, (Decision, bool, bool)> = recorded.tick(now_ms)
                        .into_iter()
                        .map(|(d, policy)| {
                            let facts = (d.decision, policy.is_some(), d.trigger == Trigger::Linked);
                            (number_of(d.trace_id), facts)
                        })
                        .collect();
                    prop_assert_eq!(decided, want, "at {} ms", now_ms);
                }
                Step::Restart => {
                    has_restarted = true;
                    recorded.restart();
                }
            }
        }
        let stats = recorded.run.sampler.stats();
        prop_assert_eq!((stats.n_traces, stats.pending_heap_bytes), (0, 0));
        // Counts begin anew with a process.
        if !has_restarted {
            let (is, want) = (stats.links, oracle.missed);
            prop_assert_eq!(is.n_late, want.n_late);
            // How many depends on which of two goes first that have waited equally long.
            prop_assert_eq!(is.n_unresolved > 0, want.n_unresolved > 0);
        }
    }
}
