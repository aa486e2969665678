//! Nanoseconds per span from bytes to Arrow, on captured traffic and on one engine span.
//!
//! Run with `cargo bench -p tables`. The best of several rounds is printed, because the machine's
//! other load only ever adds.

#![expect(clippy::print_stdout, reason = "prints its result")]

use std::{
    hint::black_box,
    io::Read,
    path::Path,
    time::{Duration, Instant},
};

use flate2::read::GzDecoder;
use otlp::{
    export::{self, Limits},
    testing::{AnyValue, TimeSpan, trace},
};
use tables::{
    redact::{Config, Redaction},
    spans::{SpanInput, SpansBuilder, TraceContext},
};

const ROUNDS: usize = 7;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let captured = captured()?;
    report("captured traffic", &captured)?;
    let engine: Vec<Vec<u8>> = vec![engine_spans(2_000)];
    report("engine spans", &engine)?;
    Ok(())
}

fn report(what: &str, bodies: &[Vec<u8>]) -> Result<(), Box<dyn std::error::Error>> {
    let mut best = Duration::MAX;
    let mut n_spans = 0_u32;
    for _ in 0..ROUNDS {
        let (elapsed, n) = round(bodies)?;
        best = best.min(elapsed);
        n_spans = n;
    }
    let per_span = best.checked_div(n_spans).unwrap_or_default();
    println!("{what}: {n_spans} spans, {} ns/span", per_span.as_nanos());
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn round(bodies: &[Vec<u8>]) -> Result<(Duration, u32), Box<dyn std::error::Error>> {
    let mut builder = SpansBuilder::new(&Redaction::new(&Config::default())?);
    let mut n_spans = 0;
    let started = Instant::now();
    for body in bodies {
        for at in export::spans(body, &Limits::default()) {
            builder.append(&SpanInput {
                at: &at?,
                trace: &TraceContext {
                    start_time_unix_nano: otlp::testing::T0,
                },
                late: false,
                received_unix_nano: otlp::testing::T0,
            })?;
            n_spans += 1;
        }
        black_box(builder.finish());
    }
    Ok((started.elapsed(), n_spans))
}

fn captured() -> Result<Vec<Vec<u8>>, Box<dyn std::error::Error>> {
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/real-chain/traces");
    let mut bodies = Vec::new();
    for file in std::fs::read_dir(traces)? {
        let mut body = Vec::new();
        GzDecoder::new(std::fs::File::open(file?.path())?).read_to_end(&mut body)?;
        bodies.push(body);
    }
    Ok(bodies)
}

/// vLLM's attribute set.
fn engine_spans(n: u32) -> Vec<u8> {
    let mut export = trace(1)
        .resource_attribute("k8s.pod.name", AnyValue::Str("vllm-0".into()))
        .resource_attribute("k8s.node.name", AnyValue::Str("gpu-node-1".into()))
        .scope("vllm.tracing.otel", "");
    for i in 0..n {
        export = export.span("llm_request", 350.ms());
        for (key, value) in [
            ("time_to_first_token", 0.0579),
            ("e2e", 0.3552),
            ("time_in_queue", 0.0001),
            ("time_in_model_prefill", 0.0408),
            ("time_in_model_decode", 0.2974),
            ("time_in_model_inference", 0.3382),
        ] {
            export = export.attribute(&format!("gen_ai.latency.{key}"), AnyValue::Double(value));
        }
        export = export
            .attribute("gen_ai.usage.prompt_tokens", AnyValue::Int(340))
            .attribute("gen_ai.usage.completion_tokens", AnyValue::Int(16))
            .attribute(
                "gen_ai.request.id",
                AnyValue::Str(format!("chatcmpl-{i:016x}")),
            )
            .attribute("gen_ai.request.max_tokens", AnyValue::Int(16))
            .attribute("gen_ai.request.temperature", AnyValue::Double(1.0))
            .attribute("gen_ai.request.top_p", AnyValue::Double(1.0))
            .attribute("gen_ai.request.n", AnyValue::Int(1));
    }
    export.build()
}
