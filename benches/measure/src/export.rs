//! One export request of several whole traces of LLM traffic.
//!
//! As in a real fleet, spans of a trace come from three services (gateway, RAG service, engine) and so do not stand
//! side by side: an export has a `ResourceSpans` per service, with the spans of all its traces. The attributes of an
//! engine's span are those of vLLM's `llm_request`, about 690 bytes with the framing.

use otlp::encode::Writer;

/// The name of the root of each trace.
pub const ROOT_SPAN_NAME: &str = "POST /v1/chat/completions";

/// A start of spans: a moment in 2026, nanoseconds since 1970.
pub const T0: u64 = 1_772_366_400_000_000_000;

/// What the traffic is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Traces in an export.
    pub n_traces: usize,
    /// Spans in a trace; the first is the gateway's, the second the RAG service's, the third the engine's, and so on.
    pub spans_per_trace: usize,
    /// Bytes of prompt in each span beyond the attributes that every span has.
    pub prompt_bytes: usize,
    /// Start of all spans in nanoseconds since 1970.
    pub start_time_unix_nano: u64,
}

impl Shape {
    /// As the service is measured: 170 traces of 3 spans in an export.
    pub const USUAL: Self = Self {
        n_traces: 170,
        spans_per_trace: 3,
        prompt_bytes: 0,
        start_time_unix_nano: T0,
    };

    /// Spans in an export.
    pub const fn n_spans(&self) -> usize {
        self.n_traces * self.spans_per_trace
    }
}

const SERVICES: [&str; 3] = ["llm-gateway", "rag-api", "vllm-decode"];
const SCOPES: [&str; 3] = ["gateway.http", "rag.pipeline", "vllm.tracing.otel"];

/// The id of a trace in [`marked`].
fn trace_mark(trace_idx: usize) -> [u8; 16] {
    (trace_idx as u128 + 1).to_be_bytes()
}

/// The trace that has this [`trace_mark`].
pub(crate) fn marked_trace(mark: &[u8]) -> Option<usize> {
    let number = u128::from_be_bytes(mark.try_into().ok()?);
    usize::try_from(number.checked_sub(1)?).ok()
}

/// An export whose trace ids are marks, which [`marked_trace`] knows.
pub(crate) fn marked(shape: &Shape) -> Vec<u8> {
    let mut out = Writer::default();
    for (service_idx, service) in SERVICES.iter().enumerate() {
        let span_idxs = || (service_idx..shape.spans_per_trace).step_by(SERVICES.len());
        if span_idxs().next().is_none() {
            continue;
        }
        out.open(1);
        out.open(1);
        string_attribute(&mut out, 1, "service.name", service);
        string_attribute(&mut out, 1, "k8s.namespace.name", "llm-serving");
        string_attribute(&mut out, 1, "k8s.pod.name", "6f7d9c-x2x4q");
        out.close();
        out.open(2);
        out.open(1);
        out.bytes(1, SCOPES[service_idx].as_bytes());
        out.close();
        for trace_idx in 0..shape.n_traces {
            for span_idx in span_idxs() {
                span(&mut out, shape, trace_idx, span_idx);
            }
        }
        out.close();
        out.close();
    }
    out.finish()
}

fn span(out: &mut Writer, shape: &Shape, trace_idx: usize, span_idx: usize) {
    const SPAN_KIND_SERVER: u64 = 2;
    let span_id = |span_idx: usize| (span_idx as u64 + 1).to_be_bytes();
    let service_idx = span_idx % SERVICES.len();
    out.open(2);
    out.bytes(1, &trace_mark(trace_idx));
    out.bytes(2, &span_id(span_idx));
    if span_idx > 0 {
        out.bytes(4, &span_id(0));
    }
    let name = match service_idx {
        _ if span_idx == 0 => ROOT_SPAN_NAME,
        0 => "chat",
        1 => "retrieve",
        _ => "llm_request",
    };
    out.bytes(5, name.as_bytes());
    out.varint(6, SPAN_KIND_SERVER);
    out.fixed64(7, shape.start_time_unix_nano);
    out.fixed64(8, shape.start_time_unix_nano + 900_000_000);
    attributes(out, service_idx);
    if shape.prompt_bytes > 0 {
        let prompt = "Answer briefly. ".repeat(shape.prompt_bytes.div_ceil(16));
        let prompt = prompt.get(..shape.prompt_bytes).unwrap_or_default();
        string_attribute(out, 9, "gen_ai.input.messages", prompt);
    }
    out.open(15);
    out.varint(3, 1);
    out.close();
    out.close();
}

fn attributes(out: &mut Writer, service_idx: usize) {
    let model = "meta-llama/Llama-3.3-70B-Instruct";
    string_attribute(out, 9, "gen_ai.request.model", model);
    let id = "chatcmpl-0f2d1c9b8a7e4d6f9c3b2a1e0d9f8c7b";
    string_attribute(
        out,
        9,
        ["gen_ai.response.id", "app.request.id", "gen_ai.request.id"][service_idx],
        id,
    );
    string_attribute(out, 9, "gen_ai.operation.name", "chat");
    string_attribute(out, 9, "tenant", "team-search");
    let server = "vllm-decode.llm-serving.svc.cluster.local";
    string_attribute(out, 9, "server.address", server);
    for (key, value) in [
        ("gen_ai.usage.prompt_tokens", 1_843),
        ("gen_ai.usage.completion_tokens", 212),
        ("gen_ai.request.max_tokens", 1_024),
    ] {
        attribute(out, 9, key, |out| out.varint(3, value));
    }
    for (key, value) in [
        ("gen_ai.request.temperature", 0.7_f64),
        ("gen_ai.request.top_p", 0.95),
        ("gen_ai.latency.time_in_queue", 0.013),
        ("gen_ai.latency.time_to_first_token", 0.214),
        ("gen_ai.latency.e2e", 0.9),
    ] {
        attribute(out, 9, key, |out| out.fixed64(4, value.to_bits()));
    }
}

fn string_attribute(out: &mut Writer, field: u32, key: &str, value: &str) {
    attribute(out, field, key, |out| out.bytes(1, value.as_bytes()));
}

fn attribute(out: &mut Writer, field: u32, key: &str, value: impl FnOnce(&mut Writer)) {
    out.open(field);
    out.bytes(1, key.as_bytes());
    out.open(2);
    value(out);
    out.close();
    out.close();
}
