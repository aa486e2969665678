//! `sql_condition` on real traces: what each column is.

use sampler::{Decision, Reports, Sampler, SpanHandle};
use serde_json::json;

use crate::bytes::{Span, Value};
use crate::run::{MS, Run, T0, config, one_policy};

/// Two spans of 300 and 1,000 ms, one a call, the other failed and a request, one without its parent; 1.2 s in all.
fn spans() -> [(Span, Reports); 2] {
    let service = |name: &str| vec![("service.name".to_owned(), Value::Str(name.to_owned()))];
    let root = Span {
        trace: 1,
        span_id: 1,
        start_unix_nano: T0,
        end_unix_nano: T0 + 300 * MS,
        resource: service("gateway"),
        ..Span::default()
    };
    let engine = Span {
        span_id: 2,
        parent: 77,
        status: 2,
        start_unix_nano: T0 + 200 * MS,
        end_unix_nano: T0 + 1_200 * MS,
        resource: service("vllm"),
        ..root.clone()
    };
    [(root, Reports::Call), (engine, Reports::Request)]
}

fn is_sampled(condition: &str, spans: &[(Span, Reports)]) -> bool {
    let policies = one_policy("sql_condition", &json!({"condition": condition}));
    let mut run = Run::new(Sampler::new(&config(json!({"policies": policies}))).unwrap());
    for (place, (span, reports)) in spans.iter().enumerate() {
        let facts = run.sampler.read_resource(&span.encode_resource()).unwrap();
        let bytes = span.encode();
        let summary = otlp::span::SpanSummary::read(&bytes).unwrap();
        let position = place as u64;
        let handle = SpanHandle {
            position,
            offset: 0,
        };
        run.sampler
            .observe(&facts, &bytes, &summary, handle, *reports, T0);
    }
    run.tick(30_000);
    let decided = &run.decided[0];
    assert!(decided.adjusted_count.is_none_or(|count| count == 1.0));
    decided.decision == Decision::Sampled
}

#[test]
fn columns_are_those_of_the_row_that_the_trace_leaves() {
    let spans = spans();
    for condition in [
        "duration_ns = 1200000000",
        "span_count = 2 AND error_span_count = 1 AND error",
        "root_count = 1 AND orphan_count = 1 AND NOT complete",
        "request_count = 1",
        "array_has(services, 'gateway') AND array_has(services, 'vllm') AND NOT array_has(services, 'rag')",
        "start_time_unix_nano = 1772366400000000000 AND end_time_unix_nano - start_time_unix_nano = duration_ns",
        "size_bytes > 100 AND size_bytes < 400",
    ] {
        assert!(is_sampled(condition, &spans), "{condition}");
        assert!(
            !is_sampled(&format!("NOT ({condition})"), &spans),
            "{condition}"
        );
    }
    assert!(is_sampled(
        "complete AND NOT error AND request_count = 0",
        &spans[..1]
    ));
}

#[test]
fn times_that_were_not_sent_are_null() {
    let (mut span, _) = spans()[0].clone();
    (span.start_unix_nano, span.end_unix_nano) = (0, 0);
    let spans = [(span, Reports::Itself)];
    assert!(!is_sampled("duration_ns < 1000", &spans));
    assert!(!is_sampled("duration_ns >= 1000", &spans));
    assert!(is_sampled(
        "duration_ns IS NULL AND start_time_unix_nano IS NULL",
        &spans
    ));
}

#[test]
fn an_error_names_the_policy_and_what_to_write() {
    for (condition, want) in [
        (
            "root_service_name = 'x'",
            "policy `p`: `sql_condition.condition` has the column `root_service_name`",
        ),
        ("spancount > 1", "did you mean `span_count`?"),
        (
            "sum(span_count) > 1",
            "has `sum(span_count)`, which is not known here",
        ),
    ] {
        let policies = one_policy("sql_condition", &json!({"condition": condition}));
        let config = config(json!({"policies": policies}));
        let error = config.validate().unwrap_err();
        assert!(error.to_string().contains(want), "{error}");
        assert_eq!(error.position_in(&config.policies), Some(0));
    }
}
