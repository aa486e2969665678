//! Engines, their spans, and spans that only look like theirs.

use otlp::{
    export::{self, Limits, SpanAt},
    span::SpanKind,
    testing::{AnyValue, Export, TimeSpan, trace},
};
use tables::requests::Outcome;

use super::{find, flags, is_request, requests, requests_of_file};
use crate::request;

fn text(text: &str) -> AnyValue {
    AnyValue::Str(text.to_owned())
}

#[test]
fn names_alone_do_not_make_a_request() {
    let latency = "gen_ai.latency.e2e";
    let cases: [(Export, bool); 11] = [
        (
            trace(1)
                .scope("vllm.llm_engine", "")
                .span("llm_request", 5.ms()),
            true,
        ),
        (
            trace(1)
                .scope("vllm.tracing.otel", "")
                .span("llm_request", 5.ms()),
            true,
        ),
        (
            trace(1)
                .span("llm_request", 5.ms())
                .attribute(latency, AnyValue::Double(1.0)),
            true,
        ),
        (
            trace(1)
                .scope("livekit-agents", "")
                .span("llm_request", 5.ms()),
            false,
        ),
        (trace(1).span("claude_code.llm_request", 5.ms()), false),
        (
            trace(1)
                .scope("vllm.tracing.otel", "")
                .span("Loading (GPU)", 90.s()),
            false,
        ),
        (trace(1).span("engine.generate", 5.ms()), true),
        (
            trace(1)
                .scope("sglang server", "")
                .span(" Req 5f1c2d3e", 5.ms()),
            true,
        ),
        (trace(1).span("GET Req 5f1c2d3e", 5.ms()), false),
        (
            trace(1)
                .scope("trt.llm", "")
                .span("generate", 5.ms())
                .kind(SpanKind::Server)
                .attribute(latency, AnyValue::Double(1.0)),
            true,
        ),
        (
            trace(1)
                .scope("trt.llm", "")
                .span("generate", 5.ms())
                .kind(SpanKind::Server),
            false,
        ),
    ];
    for (export, expected) in cases {
        let body = export.build();
        let at = export::spans(&body, &Limits::default())
            .next()
            .unwrap()
            .unwrap();
        assert_eq!(is_request(&at), expected, "{export:?}");
    }
}

#[test]
fn sglang_reports_one_request_among_its_stages() {
    let requests = requests_of_file("sglang-0.5.23-request-tree-level3.json");
    assert_eq!(requests.len(), 1);
    let request = find(&requests, "5f1c2d3e4b5a69788796a5b4c3d2e1f0");
    assert_eq!(request.engine, Some("sglang"));
    assert_eq!(request.model.as_deref(), Some("Qwen/Qwen3-8B"));
    assert_eq!(request.finish_reason.as_deref(), Some("length"));
    assert_eq!((request.cached_tokens, request.stage), (Some(128), None));
    assert_eq!(request.tpot_s, Some(0.0361 / 3.0));
    assert!(flags(request).is_empty(), "{:?}", flags(request));
}

#[test]
fn dynamo_measures_in_milliseconds_and_says_how_it_ended() {
    let body = trace(1)
        .span("engine.generate", 500.ms())
        .attribute("ttft_ms", AnyValue::Double(250.0))
        .attribute("input_tokens", text("100"))
        .attribute("output_tokens", AnyValue::Int(6))
        .attribute("model", text("m"))
        .attribute("disagg_role", text("decode"))
        .attribute("finish_reason", text("stop"))
        .attribute("cancelled", AnyValue::Bool(true))
        .build();
    let requests = requests(&body);
    let request = &requests[0];
    assert_eq!(
        (request.engine, request.stage),
        (Some("dynamo"), Some("decode"))
    );
    assert_eq!(
        (request.e2e_s, request.engine_ttft_s),
        (Some(0.5), Some(0.25))
    );
    assert_eq!(
        (request.input_tokens, request.tpot_s),
        (Some(100), Some(0.05))
    );
    assert_eq!(request.outcome, Outcome::Cancelled);
    assert_eq!(flags(request), ["e2e_from_span"]);
}

#[test]
fn an_sglang_half_names_its_stage_and_its_key() {
    let body = trace(1)
        .scope("sglang server", "")
        .span("prefill Req 5f1c2d3e", 5.ms())
        .attribute("bootstrap_room", text("1f"))
        .build();
    let requests = requests(&body);
    assert_eq!(requests[0].stage, Some("prefill"));
    assert_eq!(requests[0].bootstrap_room.as_deref(), Some("1f"));
}

#[test]
fn odd_tokens_and_times_are_absent_and_flagged() {
    let body = trace(1)
        .span("llm_request", 1.s())
        .attribute("gen_ai.latency.e2e", AnyValue::Double(1e6))
        .attribute("gen_ai.latency.time_to_first_token", text("soon"))
        .attribute("gen_ai.usage.prompt_tokens", AnyValue::Int(-1))
        .attribute("gen_ai.usage.completion_tokens", text("many"))
        .attribute("gen_ai.usage.cached_tokens", AnyValue::Double(3.0))
        .build();
    let requests = requests(&body);
    let expected = [
        "input_tokens_negative",
        "output_tokens_not_a_number",
        "e2e_over_span",
        "ttft_not_a_number",
    ];
    assert_eq!(flags(&requests[0]), expected);
    assert_eq!(
        (requests[0].e2e_s, requests[0].cached_tokens),
        (None, Some(3))
    );
}

#[test]
fn a_span_cut_anywhere_is_a_request_or_an_error() {
    let body = trace(1)
        .scope("vllm.tracing.otel", "")
        .span("llm_request", 1.s())
        .attribute("gen_ai.latency.e2e", AnyValue::Double(1.0))
        .attribute("gen_ai.request.id", text("chatcmpl-\u{e9}"))
        .event("e", 1.ms())
        .build();
    let at = export::spans(&body, &Limits::default())
        .next()
        .unwrap()
        .unwrap();
    let n_read = (0..=at.span.len())
        .filter(|n| {
            request(&SpanAt {
                span: &at.span[..*n],
                ..at
            })
            .is_ok()
        })
        .count();
    assert!(n_read > 0);
}
