//! For how many traces a kept one stands, and what its spans say of it: thresholds of OTEP 235.

use sampler::{Decision, Sampler, Threshold, ThresholdChange};
use serde_json::{Value as Json, json};

use crate::bytes::Span;
use crate::run::{Run, config};

/// Well-mixed numbers, the same in every run.
pub(crate) fn numbers(seed: u64) -> impl Iterator<Item = u64> {
    let mut state = seed;
    std::iter::repeat_with(move || {
        // splitmix64: an odd step, then a mix of which each step can be undone.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    })
}

/// A trace of one span with this randomness in its id.
pub(crate) fn span(randomness: u64, trace_state: &str) -> Span {
    Span {
        trace: randomness,
        span_id: 1,
        trace_state: trace_state.to_owned(),
        ..Span::default()
    }
}

fn by_chance(mode: &str, percentage: f64) -> Json {
    json!({"name": mode, "type": "probabilistic",
           "probabilistic": {"sampling_percentage": percentage, "mode": mode}})
}

fn errors() -> Json {
    json!({"name": "errors", "type": "status_code", "status_code": {"status_codes": ["ERROR"]}})
}

/// What becomes of one trace: its weight and the change, or `None` if it is not kept.
fn decide(policies: &Json, span: &Span) -> Option<(Option<f64>, ThresholdChange)> {
    let mut run = Run::new(Sampler::new(&config(json!({"policies": policies}))).unwrap());
    run.send(0, span);
    run.tick(30_000);
    let decided = &run.decided[0];
    (decided.decision == Decision::Sampled).then_some((decided.adjusted_count, decided.threshold))
}

fn raised(threshold: &str) -> ThresholdChange {
    ThresholdChange::RaisedTo(Threshold::parse(threshold).unwrap())
}

/// 56 bits from the two highest digits on.
fn high(digits: u64) -> u64 {
    digits << 48
}

#[test]
fn thresholds_of_samplers_before_this_one_are_respected() {
    use ThresholdChange::{Erased, Unchanged};
    let all = json!([{"name": "all", "type": "always_sample"}]);
    let equal = json!([by_chance("equalizing", 25.0)]);
    let part = json!([by_chance("proportional", 25.0)]);
    let limit =
        json!([{"name": "l", "type": "rate_limiting", "rate_limiting": {"spans_per_second": 9}}]);
    for (policies, randomness, trace_state, want) in [
        (&all, 0, "", Some((Some(1.0), Unchanged))),
        (&all, high(0x80), "ot=th:8", Some((Some(2.0), Unchanged))),
        (
            &all,
            high(0x80),
            "v=1,ot=th:0",
            Some((Some(1.0), Unchanged)),
        ),
        // It would not have passed what it says that it passed.
        (&all, high(0x7f), "ot=th:8", Some((None, Erased))),
        (
            &all,
            high(0x7f),
            "ot=th:8;rv:80000000000000",
            Some((Some(2.0), Unchanged)),
        ),
        (
            &all,
            high(0xff),
            "ot=th:8;rv:70000000000000",
            Some((None, Erased)),
        ),
        (&equal, high(0xc0), "", Some((Some(4.0), raised("c")))),
        (&equal, high(0xbf), "", None),
        (
            &equal,
            high(0xc0),
            "ot=th:8",
            Some((Some(4.0), raised("c"))),
        ),
        (&equal, high(0xbf), "ot=th:8", None),
        // Thinned more than this already.
        (&equal, high(0xe0), "ot=th:e", Some((Some(8.0), Unchanged))),
        (
            &equal,
            0,
            "ot=rv:c0000000000000",
            Some((Some(4.0), raised("c"))),
        ),
        (&equal, high(0xff), "ot=rv:bfffffffffffff", None),
        (&part, high(0xc0), "", Some((Some(4.0), raised("c")))),
        (&part, high(0xdf), "ot=th:8", None),
        (&part, high(0xe0), "ot=th:8", Some((Some(8.0), raised("e")))),
        // Nothing is known of the weight, so none is claimed.
        (&limit, high(0x80), "ot=th:8", Some((None, Erased))),
        (&limit, 0, "", Some((None, Erased))),
    ] {
        let found = decide(policies, &span(randomness, trace_state));
        assert_eq!(found, want, "{policies} {randomness:x} {trace_state}");
    }
}

#[test]
fn policies_that_choose_by_randomness_are_nested_and_a_hash_is_not() {
    use ThresholdChange::{Erased, Unchanged};
    let equal = |percentage| by_chance("equalizing", percentage);
    let hash = |percentage: f64| json!({"name": "h", "type": "probabilistic", "probabilistic": {"sampling_percentage": percentage}});
    let within =
        |name: &str, key: &str, subs: Json| json!({"name": name, "type": name, name: {key: subs}});
    let all = json!({"name": "all", "type": "always_sample"});
    let failed = Span {
        status: 2,
        ..span(high(0x10), "")
    };
    // The hash of this one is far up: no hash below 99 % keeps it.
    let top = span(high(0xff), "ot=th:8");
    for (policies, span, want) in [
        // The lower threshold is enough, the higher one is demanded.
        (
            json!([equal(50.0), errors()]),
            &failed,
            Some((Some(1.0), Unchanged)),
        ),
        (
            json!([within(
                "and",
                "and_sub_policy",
                json!([equal(50.0), equal(25.0)])
            )]),
            &top,
            Some((Some(4.0), raised("c"))),
        ),
        // 1 of 4 passes, and of the other 3 the hash keeps half; all of it of the half that came.
        (
            json!([equal(25.0), hash(50.0)]),
            &top,
            Some((Some(1.0 / 0.375), Erased)),
        ),
        // 0.5 of what came.
        (
            json!([errors(), hash(100.0)]),
            &top,
            Some((Some(2.0), Unchanged)),
        ),
        // Neither can be told.
        (
            json!([within(
                "and",
                "and_sub_policy",
                json!([equal(50.0), hash(99.9)])
            )]),
            &top,
            Some((None, Erased)),
        ),
        (
            json!([within("not", "not_sub_policy", equal(50.0))]),
            &failed,
            Some((None, Erased)),
        ),
        (
            json!([within("drop", "drop_sub_policy", json!([equal(50.0)])), all]),
            &failed,
            Some((None, Erased)),
        ),
        (
            json!([within("drop", "drop_sub_policy", json!([equal(50.0)])), all]),
            &top,
            None,
        ),
    ] {
        assert_eq!(decide(&policies, span), want, "{policies}");
    }
}

/// The spans of one trace may have passed different thresholds, and come in any order.
#[test]
fn the_lowest_threshold_of_a_trace_counts_whatever_comes_first() {
    let policies = json!([{"name": "all", "type": "always_sample"}]);
    let states = ["ot=th:c", "", "ot=th:8", "v=1"];
    for first in 0..states.len() {
        let mut run = Run::new(Sampler::new(&config(json!({"policies": policies}))).unwrap());
        for place in 0..states.len() {
            let span_id = place as u64 + 1;
            let trace_state = states[(first + place) % states.len()];
            run.send(
                0,
                &Span {
                    span_id,
                    ..span(high(0xff), trace_state)
                },
            );
        }
        run.tick(30_000);
        assert_eq!(run.decided[0].adjusted_count, Some(2.0));
    }
}

#[test]
fn late_spans_of_a_trace_whose_threshold_changed_lose_theirs() {
    let policies = json!([by_chance("equalizing", 25.0), errors()]);
    let mut run = Run::new(Sampler::new(&config(json!({"policies": policies}))).unwrap());
    let chosen = span(high(0xff), "");
    let failed = Span {
        status: 2,
        ..span(high(0x10), "")
    };
    for span in [&chosen, &failed] {
        run.send(0, span);
    }
    run.tick(30_000);
    for (span, want) in [(&chosen, true), (&failed, false), (&span(7, ""), false)] {
        let trace_id = otlp::TraceId::from_slice(&span.trace_id()).unwrap();
        assert_eq!(run.sampler.erases_late_threshold(&trace_id), want);
    }
}

/// Services thin with thresholds of their own; what arrives is thinned again. The weights of what is kept add up to
/// what there was. Bounds: 5 standard deviations of the sum of weights, each of variance (1 - p) / p.
#[test]
fn weights_of_two_stages_add_up_to_the_traces_that_there_were() {
    const N_TRACES: u64 = 20_000;
    for mode in ["equalizing", "proportional"] {
        let policies = json!([by_chance(mode, 25.0), errors()]);
        let mut run = Run::new(Sampler::new(&config(json!({"policies": policies}))).unwrap());
        let mut variance = 0.0;
        for (number, randomness) in (0..N_TRACES).zip(numbers(1)) {
            let text = ["", "0", "8", "e"][number as usize % 4];
            let before = Threshold::parse(text).map_or(1.0, Threshold::probability);
            let is_error = number % 10 == 0;
            let kept = match (is_error, mode) {
                (true, _) => before,
                (false, "equalizing") => before.min(0.25),
                (false, _) => before * 0.25,
            };
            variance += (1.0 - kept) / kept;
            let passed = Threshold::parse(text).map_or(0, Threshold::bits);
            if randomness & ((1 << 56) - 1) < passed {
                continue;
            }
            let trace_state = if text.is_empty() {
                String::new()
            } else {
                format!("ot=th:{text}")
            };
            let status = if is_error { 2 } else { 0 };
            run.send(
                0,
                &Span {
                    status,
                    ..span(randomness, &trace_state)
                },
            );
        }
        run.tick(30_000);
        let sum: f64 = run
            .decided
            .iter()
            .filter_map(|decided| decided.adjusted_count)
            .sum();
        let bound = 5.0 * f64::sqrt(variance);
        assert!(
            (sum - N_TRACES as f64).abs() < bound,
            "{mode}: {sum} of {N_TRACES}, bound {bound}"
        );
    }
}

#[test]
fn modes_are_checked_when_they_are_loaded() {
    for (section, want) in [
        (
            json!({"mode": "equalizing", "hash_salt": "x"}),
            "`probabilistic.hash_salt`",
        ),
        (
            json!({"sampling_precision": 4}),
            "only with `mode: equalizing`",
        ),
        (
            json!({"mode": "proportional", "sampling_precision": 15}),
            "must be from 1 to 14",
        ),
        (
            json!({"mode": "proportional", "sampling_precision": 0}),
            "must be from 1 to 14",
        ),
        (json!({"mode": "hash"}), "unknown variant `hash`"),
    ] {
        let mut section = section;
        section["sampling_percentage"] = json!(10);
        let keys = json!({"policies": crate::run::one_policy("probabilistic", &section)});
        let loaded = serde_json::from_value::<sampler::Config>(keys);
        let error = match loaded {
            Ok(config) => config.validate().unwrap_err().to_string(),
            Err(error) => error.to_string(),
        };
        assert!(error.contains(want), "{error}");
    }
}
