//! Spans per second from bytes to Arrow: on captured traffic, on generated LLM traffic, and on one engine span.
//!
//! `cargo bench -p tables --features criterion --bench wire_to_arrow`.

use std::{hint::black_box, io::Read, path::Path};

use flate2::read::GzDecoder;
use measure::{
    Shape, Template,
    criterion::{Criterion, Throughput},
};
use otlp::{
    export::{self, Limits},
    testing::{AnyValue, TimeSpan, trace},
};
use tables::{
    redact::{Config, Redaction},
    spans::{SpanInput, SpansBuilder, TraceContext},
};

/// As in the service.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// Of generated traffic.
const N_EXPORTS: u64 = 20;

fn main() -> Result<()> {
    let mut criterion = Criterion::default().configure_from_args();
    let template = Template::new(Shape::USUAL, 1);
    let generated: Vec<Vec<u8>> = (0..N_EXPORTS).map(|n| template.export(n).body).collect();
    bench(&mut criterion, "captured traffic", &captured()?)?;
    bench(&mut criterion, "generated traffic", &generated)?;
    bench(&mut criterion, "engine spans", &[engine_spans(2_000)])?;
    criterion.final_summary();
    Ok(())
}

fn bench(criterion: &mut Criterion, name: &str, bodies: &[Vec<u8>]) -> Result<()> {
    let mut builder = SpansBuilder::new(&Redaction::new(&Config::default())?);
    let n_spans = build(&mut builder, bodies)?;
    let mut group = criterion.benchmark_group("wire to Arrow");
    group.throughput(Throughput::Elements(n_spans));
    group.bench_function(name, |bencher| {
        bencher.iter(|| build(&mut builder, bodies));
    });
    group.finish();
    Ok(())
}

/// A batch per export.
fn build(builder: &mut SpansBuilder, bodies: &[Vec<u8>]) -> Result<u64> {
    let mut n_spans = 0;
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
    Ok(n_spans)
}

fn captured() -> Result<Vec<Vec<u8>>> {
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
