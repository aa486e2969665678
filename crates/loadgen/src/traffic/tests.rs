//! The traffic is the same each time, adds up, and is well-formed OTLP.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use expect_test::{Expect, expect};
use otlp::attribute;
use otlp::export::{self, Limits, Signal};
use otlp::span::SpanSummary;
use otlp::{SpanId, TraceId};

use super::{Cause, Config, Traffic, generate};

/// A span as it is found in the exports.
struct Found {
    service: &'static str,
    parent: Option<SpanId>,
    name: String,
    start: u64,
    end: u64,
    is_error: bool,
    latency: BTreeMap<String, f64>,
}

fn find(traffic: &Traffic) -> BTreeMap<(TraceId, SpanId), Found> {
    let mut found = BTreeMap::new();
    let limits = Limits::default();
    for sent in &traffic.exports {
        let checked = export::check(Signal::Traces, &sent.body, &limits).unwrap();
        assert_eq!(
            (checked.n_items, checked.n_rejected),
            (sent.n_spans.into(), 0)
        );
        for at in export::spans(&sent.body, &limits) {
            let at = at.unwrap();
            let summary = SpanSummary::read(at.span).unwrap();
            let latency = attribute::of_span(at.span)
                .map(Result::unwrap)
                .filter_map(|(key, value)| {
                    let key = key.strip_prefix("gen_ai.latency.")?;
                    Some((key.to_owned(), value.as_f64_lenient()?))
                })
                .collect();
            assert!(
                summary.end_time_unix_nano <= sent.due_unix_nano,
                "sent before its end"
            );
            let span = Found {
                service: sent.service,
                parent: summary.parent_span_id,
                name: summary.name.to_owned(),
                start: summary.start_time_unix_nano,
                end: summary.end_time_unix_nano,
                is_error: summary.status_code == otlp::span::StatusCode::Error,
                latency,
            };
            let before = found.insert((summary.trace_id, summary.span_id), span);
            assert!(before.is_none(), "a span id is there twice");
        }
    }
    found
}

/// Prints the spans of the first request that has the cause, times in microseconds from its start.
fn check(cause: Cause, expected: Expect) {
    let config = Config {
        n_requests: 200,
        failed_share: 0.2,
        slow_share: 0.3,
        ..Config::default()
    };
    let traffic = generate(&config);
    let request = traffic
        .requests
        .iter()
        .find(|request| request.cause == cause)
        .unwrap();
    let found = find(&traffic);
    let mut spans: Vec<_> = found
        .iter()
        .filter(|((trace_id, _), _)| *trace_id.as_bytes() == request.trace_id)
        .map(|(_, span)| span)
        .filter(|span| !span.name.ends_with("http send"))
        .collect();
    spans.sort_by_key(|span| (span.start, Reverse(span.end)));
    let mut text = String::new();
    for span in spans {
        let from = (span.start - request.start_unix_nano) / 1_000;
        let to = (span.end - request.start_unix_nano) / 1_000;
        let error = if span.is_error { " ERROR" } else { "" };
        let (service, name) = (span.service, &span.name);
        writeln!(text, "{from}..{to} {service}: {name}{error}").unwrap();
    }
    expected.assert_eq(&text);
}

#[test]
fn an_ordinary_request_crosses_four_services() {
    check(
        Cause::Ordinary,
        expect![[r#"
            0..465082 chat-web: POST
            400..464682 llm-gateway: POST /v1/chat/completions
            400..2000 llm-gateway: auth
            2400..464282 llm-gateway: chat meta-llama/Llama-3.1-8B-Instruct
            2800..463882 rag-api: POST /v1/chat/completions
            3200..25266 rag-api: retrieve
            25666..463482 rag-api: ChatOpenAI
            26066..463082 rag-api: POST
            26466..462682 vllm: llm_request
        "#]],
    );
}

#[test]
fn a_request_that_the_engine_refuses_leaves_no_engine_span() {
    check(
        Cause::ContextTooLong,
        expect![[r#"
            0..59996 chat-web: POST ERROR
            400..59596 llm-gateway: POST /v1/chat/completions
            400..2000 llm-gateway: auth
            2400..59196 llm-gateway: chat meta-llama/Llama-3.1-8B-Instruct ERROR
            2800..58796 rag-api: POST /v1/chat/completions
            3200..53396 rag-api: retrieve
            53796..58396 rag-api: ChatOpenAI ERROR
            54196..57996 rag-api: POST ERROR
        "#]],
    );
    check(
        Cause::EngineUnavailable,
        expect![[r#"
            0..25577 chat-web: POST ERROR
            400..25177 llm-gateway: POST /v1/chat/completions ERROR
            400..2000 llm-gateway: auth
            2400..24777 llm-gateway: chat meta-llama/Llama-3.1-8B-Instruct ERROR
            2800..24377 rag-api: POST /v1/chat/completions ERROR
            3200..18977 rag-api: retrieve
            19377..23977 rag-api: ChatOpenAI ERROR
            19777..23577 rag-api: POST ERROR
        "#]],
    );
}

#[test]
fn equal_seeds_give_equal_bytes_and_other_seeds_do_not() {
    let config = Config::default();
    assert_eq!(generate(&config), generate(&config));
    assert_ne!(
        generate(&config),
        generate(&Config {
            seed: 2,
            ..config.clone()
        })
    );
    let more = generate(&Config {
        n_requests: 101,
        ..config.clone()
    });
    assert_eq!(more.requests[..100], generate(&config).requests);
}

#[test]
fn every_child_lies_within_its_parent() {
    let traffic = generate(&Config {
        failed_share: 0.2,
        slow_share: 0.3,
        ..Config::default()
    });
    let found = find(&traffic);
    for ((trace_id, _), span) in &found {
        assert!(span.start <= span.end);
        let Some(parent) = span.parent else { continue };
        let parent = &found[&(*trace_id, parent)];
        let is_within = parent.start <= span.start && span.end <= parent.end;
        assert!(is_within, "{} in {}", span.name, parent.name);
    }
}

#[test]
fn the_engines_phases_add_up_to_its_latency() {
    let traffic = generate(&Config {
        slow_share: 0.5,
        ..Config::default()
    });
    let found = find(&traffic);
    let engine: Vec<_> = found
        .values()
        .filter(|span| span.name == "llm_request")
        .collect();
    let n_answered = traffic
        .requests
        .iter()
        .filter(|one| !one.cause.is_failure())
        .count();
    assert_eq!(engine.len(), n_answered);
    for span in engine {
        let latency = |key: &str| span.latency[key];
        let (queue, prefill) = (latency("time_in_queue"), latency("time_in_model_prefill"));
        let (decode, e2e) = (latency("time_in_model_decode"), latency("e2e"));
        assert!((latency("time_in_model_inference") - prefill - decode).abs() < 1e-6);
        let first_token = latency("time_to_first_token");
        assert!((0.0..0.01).contains(&(first_token - queue - prefill)));
        assert!((0.0..0.01).contains(&(e2e - first_token - decode)));
    }
}

#[test]
fn shares_and_times_at_their_ends_are_taken_as_they_are() {
    let config = Config {
        failed_share: 1.0,
        ..Config::default()
    };
    assert!(
        generate(&config)
            .requests
            .iter()
            .all(|request| request.cause.is_failure())
    );
    let config = Config {
        failed_share: 0.0,
        slow_share: 0.0,
        ..Config::default()
    };
    assert!(
        generate(&config)
            .requests
            .iter()
            .all(|request| request.cause == Cause::Ordinary)
    );
    let config = Config {
        start_unix_nano: u64::MAX,
        ..Config::default()
    };
    assert_eq!(generate(&config).requests.len(), 100);
    let gap_mean = std::time::Duration::MAX;
    assert_eq!(
        generate(&Config {
            gap_mean,
            ..Config::default()
        })
        .requests
        .len(),
        100
    );
    let config = Config {
        n_requests: 0,
        ..Config::default()
    };
    assert!(generate(&config).exports.is_empty());
}
