//! `budget`: what is kept of what policies ask for, and with which weight.

use proptest::prelude::*;
use sampler::{Config, Decided, Decision, Sampler, Threshold, ThresholdChange, Trigger};
use serde_json::{Value as Json, json};

use crate::bytes::Span;
use crate::run::{MS, Run, T0, config};
use crate::weights::numbers;

/// Failed, longer than a second, and all the rest; in file order the rest comes first.
fn policies() -> Json {
    json!([
        {"name": "rest", "type": "always_sample"},
        {"name": "slow", "type": "latency", "latency": {"threshold_ms": 1000}},
        {"name": "failed", "type": "and", "and": {"and_sub_policy": [
            {"name": "f", "type": "status_code", "status_code": {"status_codes": ["ERROR"]}},
        ]}},
    ])
}

fn keys(budget: Json) -> Json {
    json!({"decision_wait": "1s", "policies": policies(), "budget": budget})
}

fn run(budget: Json) -> Run {
    Run::new(Sampler::new(&config(keys(budget))).unwrap())
}

/// A trace of this randomness; in ms.
fn trace(randomness: u64, is_error: bool, duration_ms: u64) -> Span {
    Span {
        trace: randomness,
        span_id: 1,
        status: if is_error { 2 } else { 0 },
        start_unix_nano: T0,
        end_unix_nano: T0 + duration_ms * MS,
        ..Span::default()
    }
}

/// Randomness of a decided trace.
fn randomness(decided: &Decided) -> u64 {
    let id = decided.trace_id.as_bytes();
    u64::from_be_bytes([0, id[9], id[10], id[11], id[12], id[13], id[14], id[15]])
}

fn kept(run: &Run) -> impl Iterator<Item = &Decided> {
    run.decided
        .iter()
        .filter(|decided| decided.decision == Decision::Sampled)
}

#[test]
fn failed_traces_come_first_then_the_longest_then_the_rest_by_randomness() {
    // Of 20 the rest never takes the half.
    let mut run = run(json!({"traces_per_second": 10}));
    let rest = (1..=9).map(|n| trace(n << 52, false, 10));
    let slow = (1..=3).map(|n| trace(n, false, 1000 + n));
    let failed = (4..=7).map(|n| trace(n, true, 2000));
    for span in rest.chain(slow).chain(failed) {
        run.send(0, &span);
    }
    // The first tick begins a round, the next one is a second later.
    run.tick(500);
    run.tick(1_400);
    assert!(run.decided.is_empty());
    run.tick(1_500);
    let mut found: Vec<u64> = kept(&run).map(randomness).collect();
    found.sort_unstable();
    // 4 failed, 3 slow, and for 3 of the rest there is room above the half.
    assert_eq!(found, [1, 2, 3, 4, 5, 6, 7, 7 << 52, 8 << 52, 9 << 52]);
    for decided in &run.decided {
        let is_of_rest = randomness(decided) > 100;
        let policy = decided.policy.map(|policy| run.sampler.policy_name(policy));
        // Credited is the first in file order, whatever the class.
        assert_eq!(policy, Some("rest"));
        if decided.decision == Decision::NotSampled {
            assert_eq!(decided.trigger, Trigger::Budget);
            assert_eq!(
                (decided.adjusted_count, decided.threshold),
                (None, ThresholdChange::Unchanged)
            );
        } else if is_of_rest {
            // The first that did not fit.
            let cut = Threshold::from_bits(6 << 52);
            assert_eq!(decided.threshold, ThresholdChange::RaisedTo(cut));
            assert_eq!(decided.adjusted_count, Some(16.0 / 10.0));
        } else {
            assert_eq!(
                (decided.adjusted_count, decided.threshold),
                (Some(1.0), ThresholdChange::Unchanged)
            );
        }
    }
}

#[test]
fn a_class_that_does_not_fit_is_thinned_and_leaves_nothing_to_those_behind_it() {
    let mut run = run(json!({"traces_per_second": 2}));
    for n in 0..8 {
        run.send(0, &trace(n << 53, true, 10));
        run.send(0, &trace(n << 53 | 1, false, 1_001 + n));
        run.send(0, &trace(n << 53 | 2, false, 10));
    }
    run.tick(1_000);
    let found: Vec<u64> = kept(&run).map(randomness).collect();
    assert_eq!(found, [4 << 53, 5 << 53, 6 << 53, 7 << 53]);
    assert!(kept(&run).all(|decided| decided.adjusted_count == Some(8.0 / 5.0)));

    // In the next round no trace has failed: the two longest are kept for certain, and stand for no other.
    for n in 10..20 {
        run.send(1_000, &trace(n, false, 1_001 + n));
    }
    run.decided.clear();
    run.tick(2_000);
    let found: Vec<u64> = kept(&run).map(randomness).collect();
    assert_eq!(found, [18, 19]);
    let unknown = (None, ThresholdChange::Erased);
    assert!(kept(&run).all(|decided| (decided.adjusted_count, decided.threshold) == unknown));
}

#[test]
fn named_policies_are_classes_of_their_own_and_thresholds_before_this_one_count() {
    let budget = json!({"traces_per_second": 1, "order": ["slow"]});
    let mut run = run(budget);
    run.send(0, &trace(1, false, 5_000));
    for n in 8..16 {
        let span = Span {
            trace_state: "ot=th:8".to_owned(),
            ..trace(n << 52, n % 2 == 0, 10)
        };
        run.send(0, &span);
    }
    run.tick(1_000);
    let found: Vec<u64> = kept(&run).map(randomness).collect();
    assert_eq!(found, [1], "half of two is kept back");
    run.decided.clear();
    for n in 8..16 {
        let span = Span {
            trace_state: "ot=th:8".to_owned(),
            ..trace(n << 52 | 7, n % 2 == 0, 10)
        };
        run.send(1_000, &span);
    }
    run.tick(2_000);
    let found: Vec<u64> = kept(&run).map(randomness).collect();
    assert_eq!(found, [15 << 52 | 7]);
    // The cut, of which 15 in 16 were dropped before or here, is above what had been passed.
    let cut = Threshold::from_bits(14 << 52 | 7);
    let decided = kept(&run).next().unwrap();
    assert_eq!(decided.threshold, ThresholdChange::RaisedTo(cut));
    assert_eq!(decided.adjusted_count, Some(1.0 / cut.probability()));
}

#[test]
fn a_trace_larger_than_the_bucket_takes_all_of_it() {
    let mut run = run(json!({"spans_per_second": 10}));
    for span_id in 1..=500 {
        run.send(
            0,
            &Span {
                span_id,
                ..trace(1, true, 10)
            },
        );
    }
    run.send(0, &trace(2, false, 10));
    run.tick(1_000);
    let found: Vec<u64> = kept(&run).map(randomness).collect();
    assert_eq!(found, [1]);
}

#[test]
fn what_is_decided_early_alone_has_no_weight() {
    let mut run = run(json!({"traces_per_second": 2}));
    for n in 0..3 {
        run.send(0, &trace(n, true, 10));
        run.send(0, &trace(n + 10, false, 10));
    }
    while run.sampler.decide_next(Trigger::Disk, T0, &mut run.decided) {}
    let found: Vec<_> = run
        .decided
        .iter()
        .map(|decided| (decided.decision, decided.trigger, decided.adjusted_count))
        .collect();
    let (kept, cut) = (
        (Decision::Sampled, Trigger::Disk, None),
        (Decision::NotSampled, Trigger::Budget, None),
    );
    // The rest finds room for two of four.
    assert_eq!(found, [kept, kept, kept, cut, kept, cut]);
}

#[test]
fn shutdown_is_the_last_round() {
    let mut run = run(json!({"traces_per_second": 1}));
    run.send(0, &trace(5, false, 10));
    run.send(900, &trace(6, true, 10));
    run.send(900, &trace(7, false, 10));
    run.sampler.drain(T0 + 1_000 * MS, &mut run.decided);
    let found: Vec<_> = run
        .decided
        .iter()
        .map(|d| (randomness(d), d.trigger))
        .collect();
    assert_eq!(
        found,
        [
            (5, Trigger::Budget),
            (6, Trigger::Shutdown),
            (7, Trigger::Budget)
        ]
    );
    assert_eq!(run.sampler.stats().n_spans, 0);
}

/// The rate holds in the long run, and the weights of what is kept add up to what there was. Bounds: a round of 50 of
/// which k are kept has an estimate with a relative deviation of at most 1 / sqrt(k - 1); 5 standard deviations over
/// all rounds.
#[test]
fn the_rate_holds_and_weights_add_up_to_all_traces() {
    const ROUNDS: u64 = 200;
    let policies = json!([{"name": "all", "type": "always_sample"}]);
    let budget = json!({"traces_per_second": 10, "burst_capacity": 10});
    let keys = json!({"decision_wait": "0s", "policies": policies, "budget": budget});
    let mut run = Run::new(Sampler::new(&config(keys)).unwrap());
    let mut ids = numbers(7);
    for round in 0..ROUNDS {
        for randomness in ids.by_ref().take(50) {
            run.send(round * 1_000, &trace(randomness, false, 1));
        }
        run.tick(round * 1_000);
    }
    let n_traces = (ROUNDS * 50) as f64;
    assert_eq!(kept(&run).count() as u64, ROUNDS * 10);
    let sum: f64 = kept(&run)
        .filter_map(|decided| decided.adjusted_count)
        .sum();
    let deviation = n_traces / f64::sqrt(ROUNDS as f64 * 9.0);
    assert!(
        (sum - n_traces).abs() < 5.0 * deviation,
        "{sum} of {n_traces}"
    );
    // Every kept trace passes the threshold that is written.
    for decided in kept(&run) {
        let ThresholdChange::RaisedTo(threshold) = decided.threshold else {
            panic!("{decided:?}");
        };
        assert!(randomness(decided) >= threshold.bits());
    }
}

#[test]
fn a_budget_that_cannot_be_is_refused() {
    for (budget, want) in [
        (json!({}), "needs exactly one of"),
        (
            json!({"spans_per_second": 1, "traces_per_second": 1}),
            "needs exactly one of",
        ),
        (json!({"spans_per_second": 0}), "is 0"),
        (
            json!({"spans_per_second": 1, "order": ["slwo"]}),
            "names the policy `slwo`, which is not there, did you mean `slow`?",
        ),
        (json!({"spans_per_secnod": 1}), "unknown field"),
    ] {
        let error = match serde_json::from_value::<Config>(keys(budget)) {
            Ok(config) => config.validate().unwrap_err().to_string(),
            Err(error) => error.to_string(),
        };
        assert!(error.contains(want), "{error}");
    }
    let mut on_arrival = keys(json!({"spans_per_second": 1}));
    on_arrival["sampling_strategy"] = json!("span-ingest");
    on_arrival["policies"] = json!([{"name": "all", "type": "always_sample"}]);
    let error = config(on_arrival).validate().unwrap_err().to_string();
    assert!(error.contains("trace-complete"), "{error}");
}

/// Randomness, failed, duration and number of spans.
type Parts = (u64, bool, u64, u64);

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// What is kept does not depend on the order in which traces or spans came, is a prefix of each class, and never
    /// more than the bucket held.
    #[test]
    fn a_round_is_the_same_in_every_order(
        parts in prop::collection::hash_map(0_u64..1 << 56, (any::<bool>(), 500_u64..1500, 1_u64..6), 1..24),
        per_second in 1_u64..20,
        seed in any::<u64>(),
    ) {
        let parts: Vec<Parts> = parts.into_iter().map(|(r, (e, d, n))| (r, e, d, n)).collect();
        let mut spans: Vec<Span> = parts
            .iter()
            .flat_map(|(randomness, is_error, duration_ms, n_spans)| {
                (1..=*n_spans).map(|span_id| Span {
                    span_id,
                    ..trace(*randomness, *is_error, *duration_ms)
                })
            })
            .collect();
        let mut outcomes: Vec<Vec<u64>> = Vec::new();
        for order in 0..3_u64 {
            spans.sort_by_key(|span| {
                (span.trace.wrapping_mul(7) ^ span.span_id ^ seed).wrapping_mul(seed | 1).rotate_left(order as u32 * 9)
            });
            let mut run = run(json!({"spans_per_second": per_second}));
            for span in &spans {
                run.send(0, span);
            }
            run.tick(1_000);
            prop_assert_eq!(run.decided.len(), parts.len());
            let n_spans: usize = kept(&run).map(|decided| decided.spans.len().min(2 * per_second as usize)).sum();
            prop_assert!(n_spans as u64 <= 2 * per_second);
            let mut found: Vec<u64> = kept(&run).map(randomness).collect();
            found.sort_unstable();
            outcomes.push(found);
        }
        prop_assert!(outcomes.iter().all(|outcome| *outcome == outcomes[0]));
        let is_kept = |randomness: u64| outcomes[0].contains(&randomness);
        for (a, a_failed, ..) in &parts {
            for (b, b_failed, ..) in &parts {
                if *a_failed && *b_failed && a > b && is_kept(*b) {
                    prop_assert!(is_kept(*a));
                }
                // Nothing behind a class that was thinned.
                if *a_failed && !is_kept(*a) && !*b_failed {
                    prop_assert!(!is_kept(*b));
                }
            }
        }
    }
}
