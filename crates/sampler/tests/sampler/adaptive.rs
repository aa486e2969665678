//! `adaptive`: simulated traffic of keys.

use sampler::{Decision, Sampler};
use serde_json::{Value as Json, json};

use crate::bytes::{Span, Value};
use crate::run::{Run, config};
use crate::weights::numbers;

fn adaptive(mut section: Json) -> Run {
    if section["keys"].is_null() {
        section["keys"] = json!(["route"]);
    }
    let policies = json!([{"name": "a", "type": "adaptive", "adaptive": section}]);
    Run::new(
        Sampler::new(&config(
            json!({"decision_wait": "0s", "policies": policies}),
        ))
        .unwrap(),
    )
}

fn trace(randomness: u64, route: &str) -> Span {
    Span {
        trace: randomness,
        span_id: 1,
        attributes: vec![("route".to_owned(), Value::Str(route.to_owned()))],
        ..Span::default()
    }
}

/// What came and what was kept of one key.
#[derive(Debug, Default, Clone, Copy)]
struct Kept {
    n_traces: u64,
    n_kept: u64,
    weights: f64,
    /// Of the estimate from the weights.
    variance: f64,
}

/// A second of traffic: so many traces of each key, decided at its end. Adds to what each key has had.
fn second(
    run: &mut Run,
    at_s: u64,
    traffic: &[u64],
    ids: &mut impl Iterator<Item = u64>,
    out: &mut [Kept],
) {
    for (key, n_traces) in traffic.iter().enumerate() {
        for randomness in ids.take(*n_traces as usize) {
            run.send(at_s * 1_000, &trace(randomness, &key.to_string()));
            run.tick(at_s * 1_000);
            let decided = run.decided.pop().unwrap();
            out[key].n_traces += 1;
            if decided.decision == Decision::Sampled {
                let weight = decided.adjusted_count.unwrap();
                out[key].n_kept += 1;
                out[key].weights += weight;
                // (1 - p) / p, times the chance p to be seen, is (1 - p) / p / p / weight.
                out[key].variance += weight * (weight - 1.0);
            }
        }
    }
}

/// One key with 200 traces a second, one with 30, eight with one; the target is 40.
fn mixed() -> Vec<u64> {
    [vec![200, 30], vec![1; 8]].concat()
}

#[test]
fn rare_keys_are_kept_whole_frequent_ones_thinned_and_the_target_is_met() {
    let mut run = adaptive(json!({"target_traces_per_second": 40, "adjustment_interval": "5s"}));
    let mut ids = numbers(3);
    let traffic = mixed();
    let mut start = vec![Kept::default(); 10];
    for at_s in 0..10 {
        second(&mut run, at_s, &traffic, &mut ids, &mut start);
    }
    let mut later = vec![Kept::default(); 10];
    for at_s in 10..130 {
        second(&mut run, at_s, &traffic, &mut ids, &mut later);
    }
    for key in &later[2..] {
        assert_eq!(key.n_kept, key.n_traces);
    }
    // 32 are left for two keys, 16 for each.
    let n_kept: u64 = later.iter().map(|key| key.n_kept).sum();
    // 4,800 in 120 s; the number of kept ones deviates by at most the square root of that, and a threshold of four
    // digits by far less.
    assert!((4_450..=5_150).contains(&n_kept), "{n_kept}");
    // 1,920 each, five times their square root.
    for key in &later[..2] {
        assert!((1_700..2_140).contains(&key.n_kept), "{later:?}");
    }
}

/// From the first trace on, floods included. Bounds: 5 standard deviations, estimated from the kept traces.
#[test]
fn weights_add_up_to_the_traces_that_there_were() {
    for target in [
        json!({"target_traces_per_second": 20, "adjustment_interval": "2s"}),
        json!({"target_percentage": 10, "adjustment_interval": "2s", "weight": 1}),
    ] {
        let mut run = adaptive(target);
        let mut ids = numbers(11);
        let mut kept = vec![Kept::default(); 10];
        for at_s in 0..60 {
            let mut traffic = mixed();
            if at_s % 20 == 7 {
                traffic[2] = 1_000;
            }
            second(&mut run, at_s, &traffic, &mut ids, &mut kept);
        }
        let sum = |of: fn(&Kept) -> f64| kept.iter().map(of).sum::<f64>();
        let (n_traces, weights) = (sum(|key| key.n_traces as f64), sum(|key| key.weights));
        let bound = 5.0 * sum(|key| key.variance).sqrt();
        assert!(
            (weights - n_traces).abs() < bound,
            "{weights} of {n_traces}, bound {bound}"
        );
        // And so tight that an estimate that is off by a quarter is found.
        assert!(bound < n_traces / 4.0, "{bound}");
    }
}

#[test]
fn a_share_of_all_traces_is_met_whatever_the_traffic() {
    for factor in [1, 10] {
        let mut run = adaptive(json!({"target_percentage": 20, "adjustment_interval": "2s"}));
        let mut ids = numbers(5);
        let mut kept = vec![Kept::default(); 2];
        for at_s in 0..10 {
            second(
                &mut run,
                at_s,
                &[30 * factor, 2 * factor],
                &mut ids,
                &mut kept,
            );
        }
        let mut kept = vec![Kept::default(); 2];
        for at_s in 10..60 {
            second(
                &mut run,
                at_s,
                &[30 * factor, 2 * factor],
                &mut ids,
                &mut kept,
            );
        }
        let n_traces: u64 = kept.iter().map(|key| key.n_traces).sum();
        let n_kept: u64 = kept.iter().map(|key| key.n_kept).sum();
        let share = n_kept as f64 / n_traces as f64;
        // 1,600 traces at least: a deviation of 0.01, five times.
        assert!((0.15..0.25).contains(&share), "{share}");
        // A sixteenth of the traffic, and entitled to half of a fifth of it.
        assert_eq!(kept[1].n_kept, kept[1].n_traces);
    }
}

/// 20,000 traces in one instant, of one key that was not there before.
#[test]
fn a_flood_costs_the_target_times_its_logarithm() {
    let mut run = adaptive(json!({"target_traces_per_second": 20, "adjustment_interval": "15s"}));
    for randomness in numbers(2).take(20_000) {
        run.send(0, &trace(randomness, "flood"));
    }
    run.tick(0);
    let is_kept = |decided: &&sampler::Decided| decided.decision == Decision::Sampled;
    let n_kept = run.decided.iter().filter(is_kept).count();
    // The target of an interval is 300; 20,000 is 67 times that, 6.1 doublings.
    assert!((300..300 * 9).contains(&n_kept), "{n_kept}");
}

#[test]
fn a_clock_that_was_ahead_for_a_while_stops_no_adjustment() {
    let mut run = adaptive(json!({"target_traces_per_second": 5, "adjustment_interval": "1s"}));
    let mut ids = numbers(6);
    let mut kept = vec![Kept::default(); 1];
    second(&mut run, 1_000_000, &[1], &mut ids, &mut kept);
    for at_s in 0..20 {
        second(&mut run, at_s, &[50], &mut ids, &mut kept);
    }
    // 5 a second, and more before the first adjustment; in an interval that never ends the rate would go on falling.
    assert!((60..300).contains(&kept[0].n_kept), "{kept:?}");
}

#[test]
fn equal_input_gives_equal_decisions() {
    let decide = || {
        let mut run = adaptive(
            json!({"target_traces_per_second": 5, "adjustment_interval": "1s", "max_keys": 20}),
        );
        for (number, randomness) in (0..3_000_u64).zip(numbers(9)) {
            run.send(
                number * 7,
                &trace(randomness, &(randomness % 40).to_string()),
            );
            run.tick(number * 7);
        }
        run.decided
    };
    assert_eq!(decide(), decide());
}

#[test]
fn keys_beyond_the_limit_share_a_rate_and_are_counted() {
    let mut run = adaptive(
        json!({"target_traces_per_second": 3, "adjustment_interval": "1s", "max_keys": 2}),
    );
    let mut ids = numbers(4);
    let mut kept = vec![Kept::default(); 6];
    for at_s in 0..5 {
        second(&mut run, at_s, &[1, 1, 50, 50, 50, 50], &mut ids, &mut kept);
    }
    assert_eq!(run.sampler.stats().n_keys_overflowed, 5 * 200);
    let mut kept = vec![Kept::default(); 6];
    for at_s in 5..25 {
        second(&mut run, at_s, &[1, 1, 50, 50, 50, 50], &mut ids, &mut kept);
    }
    assert_eq!((kept[0].n_kept, kept[1].n_kept), (20, 20));
    let others: u64 = kept[2..].iter().map(|key| key.n_kept).sum();
    // One a second for 20 s; a deviation of 4.5, five times.
    assert!(others <= 43, "{others}");
}

/// Values stand on different spans, and the root's name and service count for all.
#[test]
fn a_key_is_made_of_a_whole_trace_in_any_order() {
    let keys = json!(["root.service", "root.name", "model", "tenant"]);
    let of = |order: usize, service: &str, name: &str, model: &str, tenant: &str| {
        let mut run = adaptive(
            json!({"keys": keys, "target_traces_per_second": 1, "adjustment_interval": "1s", "max_keys": 1}),
        );
        let text = |key: &str, value: &str| (key.to_owned(), Value::Str(value.to_owned()));
        let spans = |trace: u64, service: &str, name: &str, model: &str, tenant: &str| {
            let root = Span {
                trace,
                span_id: 1,
                name: name.to_owned(),
                resource: vec![text("service.name", service)],
                ..Span::default()
            };
            let engine = Span {
                trace,
                span_id: 2,
                parent: 1,
                name: "llm_request".to_owned(),
                resource: vec![text("service.name", "vllm"), text("tenant", tenant)],
                attributes: vec![text("model", "first"), text("model", model)],
                ..Span::default()
            };
            [root, engine]
        };
        for span in spans(1, "gateway", "chat", "qwen", "a") {
            run.send(0, &span);
        }
        let mut second = spans(2, service, name, model, tenant);
        second.rotate_left(order);
        for span in second {
            run.send(0, &span);
        }
        run.tick(0);
        // There is room for one key: another one is counted as one too many.
        run.sampler.stats().n_keys_overflowed == 0
    };
    for order in 0..2 {
        assert!(of(order, "gateway", "chat", "qwen", "a"));
        assert!(!of(order, "rag", "chat", "qwen", "a"));
        assert!(!of(order, "gateway", "search", "qwen", "a"));
        assert!(!of(order, "gateway", "chat", "llama", "a"));
        assert!(!of(order, "gateway", "chat", "qwen", "b"));
    }
}

#[test]
fn settings_are_checked_when_they_are_loaded() {
    let many: Vec<String> = (0..9).map(|n| n.to_string()).collect();
    for (section, want) in [
        (json!({"keys": ["k"]}), "needs exactly one of"),
        (
            json!({"keys": ["k"], "target_percentage": 1, "target_traces_per_second": 1}),
            "needs exactly one of",
        ),
        (
            json!({"keys": [], "target_percentage": 1}),
            "`adaptive.keys` is empty",
        ),
        (
            json!({"keys": [""], "target_percentage": 1}),
            "`adaptive.keys` is empty",
        ),
        (
            json!({"keys": many, "target_percentage": 1}),
            "more than 8 distinct keys",
        ),
        (
            json!({"keys": ["k"], "target_percentage": 0}),
            "above 0 and at most 100",
        ),
        (
            json!({"keys": ["k"], "target_percentage": 101}),
            "above 0 and at most 100",
        ),
        (
            json!({"keys": ["k"], "target_traces_per_second": -1}),
            "above 0",
        ),
        (
            json!({"keys": ["k"], "target_percentage": 1, "weight": 1.5}),
            "at most 1",
        ),
        (
            json!({"keys": ["k"], "target_percentage": 1, "max_keys": 0}),
            "`adaptive.max_keys`",
        ),
        (
            json!({"keys": ["k"], "target_percentage": 1, "adjustment_interval": "0s"}),
            "`adaptive.adjustment_interval",
        ),
        (
            json!({"keys": ["k"], "target_percentage": 1, "goal": 1}),
            "unknown field `goal`",
        ),
    ] {
        let keys = json!({"policies": crate::run::one_policy("adaptive", &section)});
        let error = match serde_json::from_value::<sampler::Config>(keys) {
            Ok(config) => config.validate().unwrap_err().to_string(),
            Err(error) => error.to_string(),
        };
        assert!(error.contains(want), "{section}: {error}");
    }
}
