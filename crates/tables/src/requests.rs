//! Table `requests`: every engine request, of kept and dropped traces alike.
//!
//! # Decided
//!
//! *One row per engine span.* Children of an n>1 request and prefill and decode halves share
//! `request_id_normalised`; `stage` and `bootstrap_room` tell halves apart. A row with `wrapper` set
//! restates a row below it (Dynamo around vLLM): leave it out of sums.
//!
//! *Impossible values are NULL* and leave a flag in `quality` that says which and why.
//!
//! *Time to first token is kept by position*: the column's name says where the clock was.
//! Values of different positions are never put into one column.
//!
//! *Bands* are fixed and on powers of two, so that requests of like size can be compared over time.

mod columns;
mod quality;

use std::sync::Arc;

use otlp::{SpanId, TraceId};

use crate::{
    error::Result,
    redact::cut,
    row::{Rows, offer_rows},
    time,
};

pub use columns::SPEC;
pub use quality::{Measure, Quality, Reason};

/// Longest stored text of a sender.
const TEXT_BYTES_MAX: usize = 1_024;

/// How a request ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It answered.
    #[default]
    Ok,
    /// It failed.
    Error,
    /// Its caller or the engine gave it up.
    Cancelled,
    /// It generates text and generated none, without saying that it failed.
    NoOutput,
}

impl Outcome {
    /// As stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
            Self::NoOutput => "no_output",
        }
    }
}

/// One row of `requests`. Times are nanoseconds since 1970 (UTC), 0 where unknown.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Trace of the engine span.
    pub trace_id: TraceId,
    /// The engine span.
    pub span_id: SpanId,
    /// Its parent.
    pub parent_span_id: Option<SpanId>,
    /// Request id as the engine says it.
    pub request_id: Option<String>,
    /// The part of it that other services know too.
    pub request_id_normalised: Option<String>,
    /// `vllm`, `sglang`, `dynamo`, `tensorrt_llm`; `None` if unknown.
    pub engine: Option<&'static str>,
    /// `chat`, `text_completion`, `embeddings` and so on.
    pub operation: Option<String>,
    /// Model.
    pub model: Option<String>,
    /// Half of a disaggregated request: `prefill` or `decode`.
    pub stage: Option<&'static str>,
    /// Key that the halves of an SGLang request share.
    pub bootstrap_room: Option<String>,
    /// `service.name`.
    pub service_name: Option<String>,
    /// `service.instance.id`.
    pub service_instance_id: Option<String>,
    /// `k8s.cluster.name`.
    pub k8s_cluster_name: Option<String>,
    /// `k8s.namespace.name`.
    pub k8s_namespace_name: Option<String>,
    /// `k8s.pod.name`.
    pub k8s_pod_name: Option<String>,
    /// `k8s.pod.uid`.
    pub k8s_pod_uid: Option<String>,
    /// `k8s.container.name`.
    pub k8s_container_name: Option<String>,
    /// `k8s.node.name`.
    pub k8s_node_name: Option<String>,
    /// `host.name`.
    pub host_name: Option<String>,
    /// Start of the engine span.
    pub start_time_unix_nano: u64,
    /// End of the engine span.
    pub end_time_unix_nano: u64,
    /// Arrival at the engine to completion, in seconds.
    pub e2e_s: Option<f64>,
    /// Arrival at the engine to first token, in seconds.
    pub engine_ttft_s: Option<f64>,
    /// The same from the application's position, in seconds.
    pub app_ttft_s: Option<f64>,
    /// The same from the gateway's position, in seconds.
    pub gateway_ttft_s: Option<f64>,
    /// The same from the client's position, in seconds.
    pub client_ttft_s: Option<f64>,
    /// Waiting to be scheduled, in seconds.
    pub queue_s: Option<f64>,
    /// Scheduled to first token, in seconds.
    pub prefill_s: Option<f64>,
    /// First to last token, in seconds.
    pub decode_s: Option<f64>,
    /// Scheduled to last token, in seconds.
    pub inference_s: Option<f64>,
    /// Time per output token after the first, in seconds.
    pub tpot_s: Option<f64>,
    /// Prompt tokens.
    pub input_tokens: Option<i64>,
    /// Generated tokens.
    pub output_tokens: Option<i64>,
    /// Prompt tokens found in a prefix cache.
    pub cached_tokens: Option<i64>,
    /// Largest number of tokens that was asked for.
    pub max_tokens: Option<i64>,
    /// Sampling temperature that was asked for.
    pub temperature: Option<f64>,
    /// Nucleus sampling that was asked for.
    pub top_p: Option<f64>,
    /// Why generation ended; of several choices, joined by commas.
    pub finish_reason: Option<String>,
    /// How it ended.
    pub outcome: Outcome,
    /// Class of the failure.
    pub error_type: Option<String>,
    /// Why values are missing or doubtful.
    pub quality: Vec<Quality>,
    /// Requests running on the same engine at its start.
    pub concurrent_requests: Option<i64>,
    /// Does another row of the trace restate it in more detail?
    pub wrapper: bool,
    /// Decision on its trace: `sampled`, `not_sampled` or `dropped`.
    pub decision: Option<&'static str>,
    /// Policy that decided.
    pub policy: Option<Arc<str>>,
    /// Did its span arrive after its trace was decided?
    pub late: bool,
    /// When its span was received.
    pub received_unix_nano: u64,
}

impl Request {
    /// A request of which nothing but the ids is known.
    pub const fn new(trace_id: TraceId, span_id: SpanId) -> Self {
        Self {
            trace_id,
            span_id,
            parent_span_id: None,
            request_id: None,
            request_id_normalised: None,
            engine: None,
            operation: None,
            model: None,
            stage: None,
            bootstrap_room: None,
            service_name: None,
            service_instance_id: None,
            k8s_cluster_name: None,
            k8s_namespace_name: None,
            k8s_pod_name: None,
            k8s_pod_uid: None,
            k8s_container_name: None,
            k8s_node_name: None,
            host_name: None,
            start_time_unix_nano: 0,
            end_time_unix_nano: 0,
            e2e_s: None,
            engine_ttft_s: None,
            app_ttft_s: None,
            gateway_ttft_s: None,
            client_ttft_s: None,
            queue_s: None,
            prefill_s: None,
            decode_s: None,
            inference_s: None,
            tpot_s: None,
            input_tokens: None,
            output_tokens: None,
            cached_tokens: None,
            max_tokens: None,
            temperature: None,
            top_p: None,
            finish_reason: None,
            outcome: Outcome::Ok,
            error_type: None,
            quality: Vec::new(),
            concurrent_requests: None,
            wrapper: false,
            decision: None,
            policy: None,
            late: false,
            received_unix_nano: 0,
        }
    }
}

/// The band of a number of tokens, as stored in `input_band` and `output_band`.
pub const fn band(n_tokens: i64) -> &'static str {
    match n_tokens {
        ..128 => "lt_128",
        128..512 => "lt_512",
        512..2_048 => "lt_2k",
        2_048..8_192 => "lt_8k",
        8_192..32_768 => "lt_32k",
        _ => "ge_32k",
    }
}

/// Builds batches of [`SPEC`].
#[derive(Debug)]
pub struct RequestsBuilder {
    rows: Rows,
    scratch: String,
}

offer_rows!(RequestsBuilder);

impl RequestsBuilder {
    /// An empty builder.
    pub fn new() -> Self {
        Self {
            rows: Rows::new(&SPEC),
            scratch: String::new(),
        }
    }

    /// Appends one request. Texts longer than 1,024 bytes are cut.
    ///
    /// # Errors
    /// [`crate::Error::Full`] if the batch must be finished first; it is unchanged then.
    pub fn append(&mut self, request: &Request) -> Result<()> {
        self.rows.check_room()?;
        let start = request.start_time_unix_nano;
        self.rows.date(
            "date",
            time::partition_date(start, request.received_unix_nano),
        );
        self.append_ids(request);
        self.append_times(request);
        self.append_sizes(request);
        let rows = &mut self.rows;
        rows.text("outcome", Some(request.outcome.as_str()));
        self.text("error_type", request.error_type.as_deref());
        let quality: Vec<String> = request.quality.iter().map(Quality::to_string).collect();
        let rows = &mut self.rows;
        rows.texts("quality", Some(quality.iter().map(String::as_str)));
        rows.int("concurrent_requests", request.concurrent_requests);
        rows.bool("wrapper", Some(request.wrapper));
        rows.text("decision", request.decision);
        self.text("policy", request.policy.as_deref());
        let rows = &mut self.rows;
        rows.bool("late", Some(request.late));
        rows.time("received_time", request.received_unix_nano);
        rows.end_row();
        Ok(())
    }

    fn append_ids(&mut self, request: &Request) {
        let rows = &mut self.rows;
        rows.trace_id("trace_id", request.trace_id);
        rows.span_id("span_id", Some(request.span_id));
        rows.span_id("parent_span_id", request.parent_span_id);
        self.text("request_id", request.request_id.as_deref());
        self.text(
            "request_id_normalised",
            request.request_id_normalised.as_deref(),
        );
        self.text("engine", request.engine);
        self.text("operation", request.operation.as_deref());
        self.text("model", request.model.as_deref());
        self.text("stage", request.stage);
        self.text("bootstrap_room", request.bootstrap_room.as_deref());
        self.text("service_name", request.service_name.as_deref());
        self.text(
            "service_instance_id",
            request.service_instance_id.as_deref(),
        );
        self.text("k8s_cluster_name", request.k8s_cluster_name.as_deref());
        self.text("k8s_namespace_name", request.k8s_namespace_name.as_deref());
        self.text("k8s_pod_name", request.k8s_pod_name.as_deref());
        self.text("k8s_pod_uid", request.k8s_pod_uid.as_deref());
        self.text("k8s_container_name", request.k8s_container_name.as_deref());
        self.text("k8s_node_name", request.k8s_node_name.as_deref());
        self.text("host_name", request.host_name.as_deref());
    }

    fn append_times(&mut self, request: &Request) {
        let (start, end) = (request.start_time_unix_nano, request.end_time_unix_nano);
        let rows = &mut self.rows;
        rows.time("start_time", start);
        rows.int("start_time_unix_nano", time::nanos(start));
        rows.time("end_time", end);
        rows.int("duration_ns", time::duration_ns(start, end));
        rows.float("e2e_s", request.e2e_s);
        rows.float("engine_ttft_s", request.engine_ttft_s);
        rows.float("app_ttft_s", request.app_ttft_s);
        rows.float("gateway_ttft_s", request.gateway_ttft_s);
        rows.float("client_ttft_s", request.client_ttft_s);
        rows.float("queue_s", request.queue_s);
        rows.float("prefill_s", request.prefill_s);
        rows.float("decode_s", request.decode_s);
        rows.float("inference_s", request.inference_s);
        rows.float("tpot_s", request.tpot_s);
    }

    fn append_sizes(&mut self, request: &Request) {
        let rows = &mut self.rows;
        rows.int("input_tokens", request.input_tokens);
        rows.int("output_tokens", request.output_tokens);
        rows.int("cached_tokens", request.cached_tokens);
        rows.text("input_band", request.input_tokens.map(band));
        rows.text("output_band", request.output_tokens.map(band));
        rows.int("max_tokens", request.max_tokens);
        rows.float("temperature", request.temperature);
        rows.float("top_p", request.top_p);
        self.text("finish_reason", request.finish_reason.as_deref());
    }

    fn text(&mut self, column: &str, text: Option<&str>) {
        let text = text.map(|text| cut(text, TEXT_BYTES_MAX, &mut self.scratch).0);
        self.rows.text(column, text);
    }
}
