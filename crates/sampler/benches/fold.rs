//! Cost of one span: policies over LLM-sized spans, undecoded, until decided; five simple ones, and
//! the same with conditions in the Collector's language.
//!
//! Prints ns per span: the attribute pass when policies find nothing (the expensive and the usual
//! case), the summary that precedes it, and the decisions.

#![expect(clippy::print_stdout, reason = "a benchmark prints its numbers")]
#![expect(
    clippy::disallowed_methods,
    reason = "a benchmark measures with a clock"
)]
#![expect(
    clippy::unwrap_used,
    reason = "wrong input here is a bug of the benchmark"
)]

#[path = "../tests/sampler/bytes.rs"]
#[expect(dead_code, reason = "shared with the tests, which use more of it")]
mod bytes;

use std::hint::black_box;
use std::time::Instant;

use otlp::span::SpanSummary;
use sampler::{Config, Reports, Sampler, SpanHandle};
use serde_json::json;

use crate::bytes::{Span, Value};

const N_TRACES: u64 = 20_000;
const SPANS_PER_TRACE: u64 = 8;
const T0: u64 = 1_772_366_400_000_000_000;

fn config(with_ottl: bool) -> Config {
    let mut keys = json!({
        "num_traces": 1_000_000,
        "policies": [
            {"name": "errors", "type": "status_code", "status_code": {"status_codes": ["ERROR"]}},
            {"name": "slow", "type": "latency", "latency": {"threshold_ms": 30000}},
            {"name": "slow-ttft", "type": "numeric_attribute",
             "numeric_attribute": {"key": "gen_ai.latency.time_to_first_token", "min_value": 10}},
            {"name": "tenant", "type": "string_attribute",
             "string_attribute": {"key": "gen_ai.request.model", "values": ["no-such-model"]}},
            {"name": "share", "type": "probabilistic", "probabilistic": {"sampling_percentage": 5}},
        ]
    });
    if with_ottl {
        let policies = keys["policies"].as_array_mut().unwrap();
        policies.push(json!({
            "name": "ottl", "type": "ottl_condition", "ottl_condition": {
                "error_mode": "ignore",
                "span": [
                    "attributes[\"gen_ai.response.finish_reasons\"] == \"abort\"",
                    "attributes[\"gen_ai.usage.completion_tokens\"] > 1000",
                    "IsMatch(name, \"^chat\") and end_time - start_time > Duration(\"30s\")",
                ],
                "spanevent": ["name == \"exception\""],
            }
        }));
        policies.push(json!({"name": "flags", "type": "trace_flags"}));
    }
    serde_json::from_value(keys).unwrap()
}

fn main() {
    let spans: Vec<Vec<u8>> = (0..N_TRACES)
        .flat_map(|trace| (1..=SPANS_PER_TRACE).map(move |id| llm_span(trace, id)))
        .collect();
    let n_spans = spans.len();
    let n_bytes: usize = spans.iter().map(Vec::len).sum();
    println!(
        "{n_spans} spans of {} bytes, {SPANS_PER_TRACE} per trace",
        n_bytes / n_spans
    );
    for with_ottl in [false, true] {
        println!("with ottl: {with_ottl}");
        for round in 1..=5 {
            run(&config(with_ottl), &spans, round);
        }
    }
}

fn run(config: &Config, spans: &[Vec<u8>], round: usize) {
    let mut sampler = Sampler::new(config).unwrap();
    let resource = Span {
        resource: vec![("service.name".to_owned(), Value::Str("vllm".to_owned()))],
        ..Span::default()
    };
    let facts = sampler.read_resource(&resource.encode_resource()).unwrap();

    let start = Instant::now();
    for span in spans {
        black_box(SpanSummary::read(black_box(span)).unwrap());
    }
    let summaries = start.elapsed();

    let start = Instant::now();
    for (span, position) in spans.iter().zip(0..) {
        let summary = SpanSummary::read(span).unwrap();
        let handle = SpanHandle {
            position,
            offset: 0,
        };
        black_box(sampler.observe(
            &facts,
            span,
            &summary,
            handle,
            Reports::Request,
            T0 + position * 100,
        ));
    }
    let observed = start.elapsed();
    let stats = sampler.stats();

    let mut decided = Vec::new();
    let start = Instant::now();
    sampler.tick(T0 + 60_000_000_000, usize::MAX, &mut decided);
    let ticked = start.elapsed();

    let per_span = |elapsed: std::time::Duration| elapsed.as_nanos() / spans.len() as u128;
    println!(
        "round {round}: summary {} ns, summary + observe {} ns, decide {} ns per span; heap {} B per span",
        per_span(summaries),
        per_span(observed),
        per_span(ticked),
        stats.heap_bytes / stats.n_spans,
    );
}

/// About 690 bytes and 14 attributes, as vLLM's `llm_request`.
fn llm_span(trace: u64, id: u64) -> Vec<u8> {
    let text = |key: &str, value: &str| (key.to_owned(), Value::Str(value.to_owned()));
    let int = |key: &str, value| (key.to_owned(), Value::Int(value));
    let double = |key: &str, value| (key.to_owned(), Value::Double(value));
    let span = Span {
        trace,
        span_id: trace << 8 | id,
        parent: if id == 1 { 0 } else { trace << 8 | 1 },
        name: "llm_request".to_owned(),
        start_unix_nano: T0 + id,
        end_unix_nano: T0 + 900_000_000,
        status: 1,
        attributes: vec![
            text("gen_ai.request.model", "Qwen/Qwen2.5-72B-Instruct"),
            text("gen_ai.response.model", "Qwen/Qwen2.5-72B-Instruct"),
            text(
                "gen_ai.request.id",
                "chatcmpl-6f0c1de21b7d4a2f9a5e0f7f6b3b1c55",
            ),
            int("gen_ai.request.max_tokens", 1024),
            double("gen_ai.request.temperature", 0.7),
            double("gen_ai.request.top_p", 0.95),
            int("gen_ai.request.n", 1),
            int("gen_ai.usage.prompt_tokens", 812),
            int("gen_ai.usage.completion_tokens", 214),
            double("gen_ai.latency.time_in_queue", 0.013),
            double("gen_ai.latency.time_to_first_token", 0.213),
            double("gen_ai.latency.e2e", 3.9),
            double("gen_ai.latency.time_in_model_prefill", 0.18),
            double("gen_ai.latency.time_in_model_decode", 3.7),
        ],
        ..Span::default()
    };
    span.encode()
}
