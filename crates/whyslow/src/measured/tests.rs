//! Counts against naive ones, limits, and what counts nowhere.

use std::collections::BTreeMap;

use correlate::buckets::{ZERO_THRESHOLD, bound};
use otlp::{SpanId, TraceId};
use proptest::prelude::{Just, Strategy, any, prop_assert_eq, prop_oneof, proptest};
use tables::requests::{Outcome, Position, Request};

use super::histogram::Histogram;
use super::{Measured, OTHER};
use crate::config::{Slo, parse};
use crate::exposition::{Format, Value, render};

fn request(idx: u8) -> Request {
    let trace_id = TraceId::from_slice(&[idx.max(1); 16]).unwrap();
    let span_id = SpanId::from_slice(&[idx.max(1); 8]).unwrap();
    Request {
        end_time_unix_nano: 1_700_000_000_000_000_000 + u64::from(idx) * 1_500_000_000,
        ..Request::new(trace_id, span_id)
    }
}

fn slo(text: &str) -> Slo {
    let yaml = format!(
        "receivers: {{otlp: {{protocols: {{grpc: {{}}}}}}}}
exporters: {{lake: {{}}}}
extensions: {{slo: {{{text}}}}}
service: {{extensions: [slo], pipelines: {{traces: {{receivers: [otlp], exporters: [lake]}}}}}}
"
    );
    parse(&yaml, &|_| None).unwrap().config.slo.unwrap()
}

fn page(measured: &Measured) -> String {
    let page = render(Format::Text, String::new(), &measured.families(), 0);
    String::from_utf8(page).unwrap()
}

/// The lines of a page with this text, without bounds of buckets that hold nothing new.
fn lines(page: &str, text: &str) -> String {
    let lines = page
        .lines()
        .filter(|line| line.contains(text) && !line.starts_with('#'));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn only_what_answered_is_in_a_time_and_the_rest_is_counted_by_outcome() {
    let measured = Measured::new(Slo::default(), 0);
    for (idx, outcome) in [
        Outcome::Ok,
        Outcome::Ok,
        Outcome::Error,
        Outcome::Cancelled,
        Outcome::NoOutput,
    ]
    .into_iter()
    .enumerate()
    {
        measured.count(&Request {
            outcome,
            e2e_s: Some(1.5),
            engine_ttft_s: (idx == 0).then_some(0.25),
            model: Some("m\"1\\\n".to_owned()),
            input_tokens: Some(300),
            ..request(1)
        });
    }
    for (wrapper, superseded, position) in [
        (true, false, Position::Engine),
        (false, true, Position::Engine),
        (false, false, Position::Gateway),
    ] {
        measured.count(&Request {
            wrapper,
            superseded,
            position,
            e2e_s: Some(9.0),
            gateway_ttft_s: Some(4.0),
            ..request(2)
        });
    }
    let page = page(&measured);
    expect_test::expect![[r#"
        llm_requests_total{model="",input_band="",outcome="ok"} 1
        llm_requests_total{model="",input_band="",outcome="error"} 0
        llm_requests_total{model="",input_band="",outcome="cancelled"} 0
        llm_requests_total{model="",input_band="",outcome="no_output"} 0
        llm_requests_total{model="",input_band="",outcome="superseded"} 1
        llm_requests_total{model="m\"1\\\n",input_band="lt_512",outcome="ok"} 2
        llm_requests_total{model="m\"1\\\n",input_band="lt_512",outcome="error"} 1
        llm_requests_total{model="m\"1\\\n",input_band="lt_512",outcome="cancelled"} 1
        llm_requests_total{model="m\"1\\\n",input_band="lt_512",outcome="no_output"} 1"#]]
    .assert_eq(&lines(&page, "llm_requests_total"));
    expect_test::expect![[r#"
        llm_request_ttft_seconds_sum{position="gateway",model="",input_band=""} 4
        llm_request_ttft_seconds_sum{position="engine",model="m\"1\\\n",input_band="lt_512"} 0.25
        llm_request_e2e_seconds_sum{model="m\"1\\\n",input_band="lt_512"} 3"#]]
    .assert_eq(&lines(&page, "_sum"));
}

#[test]
fn beyond_the_limit_of_label_sets_everything_is_other() {
    let measured = Measured::new(slo("label_sets_max: 3"), 0);
    for n in 0..500_u16 {
        measured.count(&Request {
            model: Some(format!("model-{}", n % 100)),
            input_tokens: Some(i64::from(n % 7) * 3_000),
            e2e_s: Some(1.0),
            ..request(1)
        });
    }
    measured.count(&Request {
        model: Some("x".repeat(1_000)),
        e2e_s: Some(1.0),
        ..request(1)
    });
    let mut counts = BTreeMap::new();
    for family in measured.families() {
        for series in family.series {
            let Value::Histogram(histogram) = series.value else {
                continue;
            };
            *counts.entry(series.labels).or_insert(0) += histogram.count();
        }
    }
    assert_eq!(counts.len(), 4, "{counts:#?}");
    assert_eq!(counts.values().sum::<u64>(), 501);
    let label = |name: &str| (name.to_owned(), OTHER.to_owned());
    assert!(counts[&vec![label("model"), label("input_band")]] > 400);
}

#[test]
fn a_promise_counts_what_it_is_about() {
    let measured = Measured::new(
        slo("objectives: [
            {name: fast, ttft: {threshold: 500ms, target: 0.99}, errors: {target: 0.9}},
            {name: one, model: 'a*', e2e: {threshold: 2s, target: 0.5}}]"),
        0,
    );
    for (model, outcome, ttft_s, e2e_s) in [
        (None, Outcome::Ok, Some(0.5), Some(1.0)),
        (None, Outcome::Ok, Some(0.500_000_1), None),
        (Some("a1"), Outcome::Ok, None, Some(2.0)),
        (Some("a2"), Outcome::Ok, None, Some(2.1)),
        (Some("a3"), Outcome::Error, Some(0.1), Some(0.1)),
        (Some("b1"), Outcome::NoOutput, Some(0.1), Some(0.1)),
        (Some("b2"), Outcome::Cancelled, Some(0.1), Some(0.1)),
    ] {
        measured.count(&Request {
            model: model.map(str::to_owned),
            outcome,
            engine_ttft_s: ttft_s,
            e2e_s,
            ..request(1)
        });
    }
    expect_test::expect![[r#"
        slo_requests_total{objective="fast",measure="ttft"} 2
        slo_requests_total{objective="fast",measure="errors"} 6
        slo_requests_total{objective="one",measure="e2e"} 2
        slo_requests_good_total{objective="fast",measure="ttft"} 1
        slo_requests_good_total{objective="fast",measure="errors"} 4
        slo_requests_good_total{objective="one",measure="e2e"} 1
        slo_requests_unmeasured_total{objective="fast",measure="ttft"} 2
        slo_requests_unmeasured_total{objective="one",measure="e2e"} 0
        slo_target_ratio{objective="fast",measure="ttft"} 0.99
        slo_target_ratio{objective="fast",measure="errors"} 0.9
        slo_target_ratio{objective="one",measure="e2e"} 0.5
        slo_threshold_seconds{objective="fast",measure="ttft"} 0.5
        slo_threshold_seconds{objective="one",measure="e2e"} 2
        slo_window_seconds{objective="fast",measure="ttft"} 2592000
        slo_window_seconds{objective="fast",measure="errors"} 2592000
        slo_window_seconds{objective="one",measure="e2e"} 2592000"#]]
    .assert_eq(&lines(&page(&measured), "slo_"));
}

#[test]
fn an_exemplar_is_the_newest_kept_trace_of_its_bucket() {
    let measured = Measured::new(Slo::default(), 0);
    for (idx, decision) in [
        (3, "sampled"),
        (2, "sampled"),
        (4, "not_sampled"),
        (5, "dropped"),
    ] {
        measured.count(&Request {
            e2e_s: Some(1.5),
            decision: Some(decision),
            ..request(idx)
        });
    }
    let page = render(Format::OpenMetrics, String::new(), &measured.families(), 0);
    let page = String::from_utf8(page).unwrap();
    expect_test::expect![[r#"llm_request_e2e_seconds_bucket{model="",input_band="",le="2.0"} 4 # {trace_id="03030303030303030303030303030303"} 1.5 1700000004.500"#]]
        .assert_eq(&lines(&page, " # {"));
}

#[test]
fn what_is_no_time_is_not_counted() {
    let mut histogram = Histogram::default();
    for seconds in [-1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        histogram.add(seconds, None);
    }
    assert!(histogram.is_empty());
    for seconds in [0.0, -0.0, f64::MIN_POSITIVE, ZERO_THRESHOLD, f64::MAX] {
        histogram.add(seconds, None);
    }
    assert_eq!((histogram.n_zero(), histogram.count()), (4, 5));
    assert_eq!(histogram.native().collect::<Vec<_>>(), [(160, 1)]);
}

/// Times that matter: bounds, their neighbours, and any.
fn seconds() -> impl Strategy<Value = f64> {
    prop_oneof![
        (-110..170_i32).prop_map(bound),
        (-110..170_i32).prop_map(|idx| bound(idx).next_up()),
        (-110..170_i32).prop_map(|idx| bound(idx).next_down()),
        Just(0.0),
        0.0..10_000.0_f64,
        (any::<u32>()).prop_map(|nanos| f64::from(nanos) / 1e9),
    ]
}

proptest! {
    /// Each time is in the one native bucket whose bounds it lies between, and each classic count is that of all times
    /// that are not longer.
    #[test]
    fn buckets_hold_what_a_comparison_with_their_bounds_says(
        times in proptest::collection::vec(seconds(), 0..200),
    ) {
        let mut histogram = Histogram::default();
        for time in &times {
            histogram.add(*time, None);
        }
        prop_assert_eq!(histogram.count(), times.len() as u64);
        for bucket in histogram.classic() {
            let n = times.iter().filter(|time| **time <= bucket.upper_bound).count();
            prop_assert_eq!(bucket.cumulative_count, n as u64, "le {}", bucket.upper_bound);
        }
        for (idx, count) in histogram.native() {
            let is_first = idx == -103;
            let is_last = idx == 160;
            let n = times.iter().filter(|time| {
                (**time > if is_first { ZERO_THRESHOLD } else { bound(idx - 1) })
                    && (is_last || **time <= bound(idx))
            });
            prop_assert_eq!(count, n.count() as u64, "bucket {}", idx);
        }
    }
}
