//! Spans per second of the intake core: append, flush, acknowledge, index, fold five policies, decide.
//!
//! No network. Spans are about 690 bytes, ten to a trace, 500 to an export, 5 % of the traces sampled; time
//! is given, so that a trace waits two seconds of it. The log is on the disk of the temporary folder
//! (`TMPDIR`). Run with `cargo bench -p gateway --features testing`.
#![expect(clippy::print_stdout, reason = "a bench prints its numbers")]

use std::{error::Error, time::Instant};

use bytes::Bytes;
use gateway::testing::Core;
use otlp::{
    export::{Limits, Signal},
    span::{SpanKind, SpanSummary},
    testing::{self, TimeSpan},
};
use sampler::Reports;

/// As in the service.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const SPANS_PER_EXPORT: u64 = 500;
const SPANS_PER_TRACE: u64 = 10;
const N_EXPORTS: u64 = 400;
const N_ROUNDS: u64 = 10;

/// Time between two exports: 500,000 spans per second of given time.
const EXPORT_INTERVAL_NS: u64 = 1_000_000;
const EXPORTS_PER_TICK: u64 = 100;

const POLICIES: &str = "{decision_wait: 2s, num_traces: 1000000, policies: [\
    {name: errors, type: status_code, status_code: {status_codes: [ERROR]}}, \
    {name: slow, type: latency, latency: {threshold_ms: 5000}}, \
    {name: ttft, type: numeric_attribute, numeric_attribute: {key: gen_ai.latency.time_to_first_token_ms, min_value: 2000}}, \
    {name: tenant, type: string_attribute, string_attribute: {key: tenant, values: [canary]}}, \
    {name: rest, type: probabilistic, probabilistic: {sampling_percentage: 5}}]}";

fn main() -> Result<(), Box<dyn Error>> {
    let sampler: sampler::Config = serde_saphyr::from_str(POLICIES)?;
    let folder = tempfile::tempdir()?;
    let log = wal::Config::in_directory(folder.path().join("wal"));
    let mut core = Core::open(log, &sampler, |summary: &SpanSummary<'_>, _, _| {
        if summary.name == "llm_request" {
            Reports::Request
        } else {
            Reports::Itself
        }
    })?;
    let bodies: Vec<Vec<u8>> = (0..N_EXPORTS).map(export).collect();
    let n_bytes: usize = bodies.iter().map(Vec::len).sum();
    let n_spans = N_EXPORTS * SPANS_PER_EXPORT;
    println!(
        "{} bytes per span, {n_spans} spans per round",
        n_bytes as u64 / n_spans
    );

    let limits = Limits::default();
    let started = now();
    let mut n_checked = 0;
    for body in &bodies {
        n_checked += otlp::export::check(Signal::Traces, body, &limits)?.n_items;
    }
    print("check", n_checked, started);

    let mut n_exports = 0;
    for round in 0..N_ROUNDS {
        let bodies: Vec<Bytes> = bodies.iter().map(|body| renumbered(body, round)).collect();
        let started = now();
        for body in bodies {
            n_exports += 1;
            let time = testing::T0 + n_exports * EXPORT_INTERVAL_NS;
            core.export(body, SPANS_PER_EXPORT, time);
            if n_exports % EXPORTS_PER_TICK == 0 {
                core.tick(time);
            }
        }
        print("append, index, fold, decide", n_spans, started);
    }
    println!("{:#?}", core.conservation());
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a bench measures time")]
fn now() -> Instant {
    Instant::now()
}

fn print(what: &str, n_spans: u64, started: Instant) {
    let seconds = started.elapsed().as_secs_f64();
    println!("{what}: {:.0} spans/s", n_spans as f64 / seconds);
}

/// The same export with trace ids of its own.
fn renumbered(body: &[u8], round: u64) -> Bytes {
    let mut renumbered = body.to_vec();
    for at in otlp::export::spans(body, &Limits::default()).flatten() {
        // The id is the first field: tag, length, then its 16 bytes; the last 8 are free.
        let start = at.offset as usize + 2 + 8;
        renumbered[start..start + 8].copy_from_slice(&(round + 1).to_be_bytes());
    }
    renumbered.into()
}

fn export(n: u64) -> Vec<u8> {
    let mut export = testing::trace(1)
        .service("vllm-decode")
        .resource_attribute("k8s.pod.name", "vllm-decode-6f7d9c-x2x4q")
        .resource_attribute("k8s.namespace.name", "llm-serving");
    for idx in 0..SPANS_PER_EXPORT {
        let n = n * SPANS_PER_EXPORT + idx;
        let (trace, place) = (n / SPANS_PER_TRACE + 1, n % SPANS_PER_TRACE);
        let trace_id = [trace.to_be_bytes(), [0; 8]].concat();
        export = export
            .span("llm_request", 4512.ms())
            .raw_ids(&trace_id, &(n + 1).to_be_bytes())
            .kind(SpanKind::Server)
            .attribute("gen_ai.request.model", "meta-llama/Llama-3.3-70B-Instruct")
            .attribute(
                "gen_ai.request.id",
                "chatcmpl-0f2d1c9b8a7e4d6f9c3b2a1e0d9f8c7b",
            )
            .attribute("gen_ai.operation.name", "chat")
            .attribute("tenant", "team-search")
            .attribute(
                "server.address",
                "vllm-decode.llm-serving.svc.cluster.local",
            )
            .attribute("gen_ai.usage.prompt_tokens", 1_843_i64)
            .attribute("gen_ai.usage.completion_tokens", 212_i64)
            .attribute("gen_ai.request.max_tokens", 1_024_i64)
            .attribute("gen_ai.request.temperature", 0.7)
            .attribute("gen_ai.request.top_p", 0.95)
            .attribute("gen_ai.latency.time_in_queue", 0.013)
            .attribute("gen_ai.latency.time_to_first_token", 0.214)
            .attribute("gen_ai.latency.e2e", 4.512);
        if place == 0 {
            export = export.root();
        }
    }
    export.build()
}
