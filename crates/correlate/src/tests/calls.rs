//! Calls and the engine requests that answered them: known trouble and captured traffic, trace by trace and stitched.

use std::collections::BTreeMap;

use otlp::{Signal, SpanId, TraceId, attribute, export, export::Limits, span::SpanSummary};
use tables::requests::{LinkMethod, Outcome, Position, Request};

use super::{assert_close, flags, real};
use crate::{Call, Stitching, TraceSpan, call, is_call_span, is_request_span, link, request};

/// What a trace leaves.
#[derive(Debug, Default)]
struct Linked {
    requests: Vec<Request>,
    calls: Vec<Call>,
}

/// Every trace of these exports, linked; `is_kept`: with all its spans.
fn linked(bodies: &[Vec<u8>], is_kept: bool) -> BTreeMap<TraceId, Linked> {
    let mut traces: BTreeMap<TraceId, (Linked, Vec<TraceSpan>)> = BTreeMap::new();
    let limits = Limits::default();
    for body in bodies {
        for at in export::spans(body, &limits).map(Result::unwrap) {
            let summary = SpanSummary::read(at.span).unwrap();
            let (linked, others) = traces.entry(summary.trace_id).or_default();
            if is_request_span(&summary, at.scope, at.span) {
                linked.requests.push(request(&at).unwrap());
            } else if is_call_span(&summary, at.span) {
                linked.calls.push(call(&at).unwrap());
            } else if is_kept || summary.parent_span_id.is_none() {
                others.push(TraceSpan::read(&at).unwrap());
            }
        }
    }
    let linked = traces.into_iter().map(|(trace_id, (mut linked, others))| {
        let calls = std::mem::take(&mut linked.calls);
        linked.calls = link(&mut linked.requests, calls, &others);
        (trace_id, linked)
    });
    linked.collect()
}

/// The rows of calls, after all engine requests are known.
fn stitched(traces: &BTreeMap<TraceId, Linked>) -> Vec<Request> {
    let mut stitching = Stitching::new(i64::MAX);
    for linked in traces.values() {
        for request in &linked.requests {
            stitching.take_request(request, 0);
        }
        for call in &linked.calls {
            stitching.take_call(call, 0);
        }
    }
    let calls = traces.values().flat_map(|linked| &linked.calls);
    calls.map(|call| stitching.row(call.clone())).collect()
}

fn file(name: &str) -> Vec<Vec<u8>> {
    let path = format!("{}/testdata/{name}", env!("CARGO_MANIFEST_DIR"));
    let json = std::fs::read(path).unwrap();
    vec![otlp::json::to_protobuf(Signal::Traces, &json, &Limits::default()).unwrap()]
}

fn trace(traces: &BTreeMap<TraceId, Linked>, number: u64) -> &Linked {
    let id = format!("7c00{number:04x}a1b2c3d4e5f60718293a4b5c");
    &traces[&TraceId::parse_hex(&id).unwrap()]
}

fn span(number: u64) -> SpanId {
    SpanId::parse_hex(&format!("b{number:07x}c0ffee11")).unwrap()
}

fn sum(rows: &[Request], count: fn(&Request) -> Option<i64>) -> i64 {
    rows.iter().filter_map(count).sum()
}

/// Output that callers got, and prompts, each once.
fn delivered(rows: &[Request]) -> (i64, i64) {
    let counts = |row: &&Request| !row.wrapper && !row.superseded;
    let rows: Vec<Request> = rows.iter().filter(counts).cloned().collect();
    let prompts = rows.iter().filter(|row| row.choice.unwrap_or(1) == 1);
    (
        prompts.filter_map(|row| row.input_tokens).sum(),
        sum(&rows, |row| row.output_tokens),
    )
}

#[test]
fn c37_three_attempts_are_one_operation_and_only_the_last_is_delivered() {
    for is_kept in [true, false] {
        let traces = linked(&file("C37.json"), is_kept);
        let linked = trace(&traces, 37);
        assert!(linked.calls.is_empty(), "the operation was answered");
        let rows = &linked.requests;
        let attempts: Vec<_> = rows
            .iter()
            .map(|row| {
                let pod = row.k8s_pod_name.as_deref().unwrap();
                (row.attempt, row.attempts, row.outcome, row.superseded, pod)
            })
            .collect();
        assert_eq!(
            attempts,
            [
                (Some(1), Some(3), Outcome::Error, true, "vllm-qwen-0"),
                (Some(2), Some(3), Outcome::Cancelled, true, "vllm-qwen-0"),
                (Some(3), Some(3), Outcome::Ok, false, "vllm-qwen-1"),
            ]
        );
        assert!(
            rows.iter()
                .all(|row| row.operation_span_id == Some(span(1)))
        );
        let (computed, asked) = (
            sum(rows, |row| row.output_tokens),
            sum(rows, |row| row.input_tokens),
        );
        assert_eq!((computed, asked), (157, 300));
        assert_eq!(delivered(rows), (100, 120));
        assert_eq!(rows[2].engine_ttft_s, Some(0.21));
        assert_close(rows[2].operation_ttft_s, Some(2.02));
        assert_eq!(rows[0].operation_ttft_s, None);
        assert_eq!(crate::main_request(rows), Some(&rows[2]));
    }
}

#[test]
fn c38_each_call_of_an_agent_counts_once_at_its_lowest_span_with_usage() {
    for is_kept in [true, false] {
        let traces = linked(&file("C38.json"), is_kept);
        let agent = trace(&traces, 38);
        assert_eq!(agent.requests.len(), 2);
        assert!(agent.calls.is_empty(), "{:?}", agent.calls);
        assert_eq!(delivered(&agent.requests), (130, 20));
        let calls: Vec<_> = agent.requests.iter().map(|row| row.call_span_id).collect();
        assert_eq!(calls, [Some(span(2)), Some(span(5))]);
        let is_trace = |row: &Request| row.link_method == Some(LinkMethod::Trace);
        assert!(agent.requests.iter().all(is_trace));
        assert!(agent.requests.iter().all(|row| row.attempts == Some(1)));

        let alone = trace(&traces, 3802);
        assert!(alone.requests.is_empty());
        let [call] = alone.calls.as_slice() else {
            panic!("one row from the agent's span")
        };
        let tokens = (call.row.input_tokens, call.row.output_tokens);
        assert_eq!(tokens, (Some(11), Some(7)));
        assert_eq!(call.row.position, Position::App);
    }
}

#[test]
fn c41_halves_in_two_pods_are_one_request_with_the_first_token_of_the_prefill_half() {
    for is_kept in [true, false] {
        let traces = linked(&file("C41.json"), is_kept);
        let linked = trace(&traces, 41);
        let [prefill, decode] = linked.requests.as_slice() else {
            panic!("two halves")
        };
        assert_eq!((prefill.stage, prefill.superseded), (Some("prefill"), true));
        assert_eq!((decode.stage, decode.superseded), (Some("decode"), false));
        assert_eq!(delivered(&linked.requests), (4_000, 129));
        assert_close(decode.operation_ttft_s, Some(0.56));
        assert_eq!(decode.engine_ttft_s, Some(0.05));
        let of_both = [prefill, decode].map(|half| (half.operation_span_id, half.attempts));
        assert_eq!(of_both, [(Some(span(1)), Some(1)); 2]);
        assert!(linked.calls.is_empty());

        let lost = &trace(&traces, 4199).requests[0];
        assert_eq!(lost.request_id_normalised.as_deref(), Some("lost"));
        assert_eq!(
            (lost.call_span_id, lost.link_method, lost.attempt),
            (None, None, None)
        );
        assert_eq!(lost.stage, None);
    }
}

#[test]
fn c43_ids_link_what_lost_its_context_and_time_tells_reused_ones_apart() {
    let traces = linked(&file("C43.json"), true);
    let rows = stitched(&traces);
    let of = |number: u64| {
        let id = TraceId::parse_hex(&format!("7c00{number:04x}a1b2c3d4e5f60718293a4b5c")).unwrap();
        rows.iter().find(|row| row.trace_id == id).unwrap()
    };
    assert!(
        traces
            .values()
            .all(|linked| linked.requests.iter().all(|row| row.link_method.is_none()))
    );
    let engine = |number: u64| trace(&traces, number).requests[0].trace_id;
    assert_eq!(of(4301).engine_spans, [(engine(4302), span(2))]);
    assert_eq!(of(4301).link_method, Some(LinkMethod::RequestId));
    assert!(of(4301).wrapper, "it restates the engine's row");
    assert_eq!(of(4304).engine_spans, [(engine(4305), span(5))]);
    assert_eq!((of(4303).link_method, of(4303).wrapper), (None, false));
    assert_eq!(flags(of(4303)), ["engine_span_missing"]);
}

#[test]
fn c43_a_reused_id_that_fits_two_calls_links_neither_and_says_so() {
    let mut traces = linked(&file("C43.json"), true);
    for linked in traces.values_mut() {
        for call in linked.calls.iter_mut().filter(|call| call.ids == ["dup"]) {
            // Both as long as the later one.
            call.row.end_time_unix_nano = 1_772_366_405_400_000_000;
        }
    }
    let rows = stitched(&traces);
    let of_dup: Vec<_> = rows
        .iter()
        .filter(|row| row.request_id.as_deref() == Some("dup"))
        .map(|row| (row.link_method, row.wrapper, flags(row)))
        .collect();
    let ambiguous = (None, false, vec!["request_id_ambiguous".to_owned()]);
    assert_eq!(of_dup, [ambiguous.clone(), ambiguous]);
}

#[test]
fn every_engine_request_of_the_broken_capture_is_stitched_to_its_gateways_call() {
    for is_kept in [true, false] {
        let traces = linked(&real::bodies("real-broken"), is_kept);
        let requests: Vec<&Request> = traces
            .values()
            .flat_map(|linked| &linked.requests)
            .collect();
        assert_eq!(requests.len(), 60);
        assert!(
            requests.iter().all(|row| row.link_method.is_none()),
            "the context is lost"
        );
        let rows = stitched(&traces);
        let (answered, alone): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.wrapper);
        assert_eq!((answered.len(), alone.len()), (56, 6));
        let mut engines: Vec<_> = answered.iter().flat_map(|row| &row.engine_spans).collect();
        engines.sort();
        engines.dedup();
        assert_eq!(engines.len(), 60, "each once");
        for row in &rows {
            assert_eq!(row.position, Position::Gateway);
            assert_eq!(row.service_name.as_deref(), Some("llm-gateway"));
        }
        for row in answered {
            assert_eq!(
                (row.link_method, row.clock_skew_s),
                (Some(LinkMethod::RequestId), None)
            );
            assert_eq!(row.outcome, Outcome::Ok);
        }
        let mut outcomes: Vec<_> = alone
            .iter()
            .map(|row| {
                let error = row.error_type.as_deref().unwrap_or("-");
                (
                    row.outcome.as_str(),
                    error,
                    row.http_status_code,
                    flags(row),
                )
            })
            .collect();
        outcomes.sort();
        let refused = (
            "error",
            "ContextWindowExceededError",
            Some(400),
            Vec::<String>::new(),
        );
        let aborted = ("cancelled", "ConnectionError", Some(200), Vec::new());
        let expected = [aborted, refused].map(|each| vec![each; 3]).concat();
        assert_eq!(outcomes, expected);
    }
}

#[test]
fn the_connected_capture_is_linked_in_its_traces_and_measured_at_every_position() {
    let traces = linked(&real::bodies("real-chain"), true);
    let requests: Vec<&Request> = traces
        .values()
        .flat_map(|linked| &linked.requests)
        .collect();
    assert_eq!(requests.len(), 146);
    for row in &requests {
        // The gateway passes on its caller's context: engine and gateway are siblings.
        assert_eq!(row.link_method, Some(LinkMethod::RequestId));
        assert_eq!((row.attempt, row.attempts), (Some(1), Some(1)));
        let (Some(client), Some(app)) = (row.client_ttft_s, row.app_ttft_s) else {
            panic!("{row:?}")
        };
        assert!(app <= client, "{app} {client}");
        assert_eq!(row.gateway_ttft_s, None, "it does not say");
        let chunks = row.chunks.unwrap();
        assert_eq!(chunks.position, Position::App);
        assert_eq!(
            chunks.gap_max_s.is_some(),
            chunks.n > 1,
            "one is not streamed"
        );
        assert!(row.operation_ttft_s.unwrap() >= row.engine_ttft_s.unwrap());
    }
    let choices = requests.iter().filter(|row| row.choice.is_some()).count();
    assert_eq!(choices, 8, "four requests of two choices");
    let rows = stitched(&traces);
    assert_eq!(rows.len(), 16);
    assert!(
        rows.iter()
            .all(|row| !row.wrapper && row.outcome != Outcome::Ok)
    );
}

/// What is asked of every span at intake knows calls by their names.
#[test]
fn few_spans_of_the_captures_are_calls() {
    let mut names: BTreeMap<String, usize> = BTreeMap::new();
    for body in real::bodies("real-broken") {
        for at in export::spans(&body, &Limits::default()).map(Result::unwrap) {
            let summary = SpanSummary::read(at.span).unwrap();
            if is_call_span(&summary, at.span) {
                *names.entry(summary.name.to_owned()).or_default() += 1;
            }
            assert!(attribute::of_span(at.span).all(|attribute| attribute.is_ok()));
        }
    }
    let expected = [("POST /v1/chat/completions", 62), ("litellm_request", 62)];
    let expected = expected.map(|(name, n)| (name.to_owned(), n));
    assert_eq!(names, BTreeMap::from(expected));
}
