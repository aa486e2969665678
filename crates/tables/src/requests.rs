//! Table `requests`: every engine request, and every call to a model that no engine request of its own trace
//! answered; of kept and dropped traces alike.
//!
//! # Decided
//!
//! *One row per engine span* (`position` = `engine`). Choices of an n>1 request (`choice`), prefill and decode halves
//! (`stage`) and repeated attempts (`attempt`) are rows of their own. So that sums are not multiplied:
//! - a row with `wrapper` set restates another row: leave it out of every sum;
//! - a row with `superseded` set was replaced by a later attempt, or is the prefill half of a decode half: what it computed
//!   was computed, and its caller did not get it. Tokens computed are sums over `NOT wrapper`; tokens delivered are
//!   sums over `NOT wrapper AND NOT superseded`;
//! - prompt tokens stand in each choice: of one prompt they are those of `choice` 1, or of a row without `choice`.
//!
//! *A call leaves a row* (`position` = `gateway` or `app`) where no engine request stands below it in its own trace: it was
//! refused, aborted, answered by an engine that reports nothing, or its context was lost on the way. In the last case it is
//! stitched to the engine requests of other traces by request id, says which (`engine_span_ids`) and how
//! (`link_method`), and restates them (`wrapper`). A call that an engine request of its trace answered has no row: that
//! request's row names it (`call_span_id`) and has its measurements.
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

/// Where a request was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Position {
    /// In the engine.
    #[default]
    Engine,
    /// In what routes to engines or stands in front of them.
    Gateway,
    /// In a program that called a model.
    App,
}

impl Position {
    /// As stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Engine => "engine",
            Self::Gateway => "gateway",
            Self::App => "app",
        }
    }
}

/// How a call and an engine request are known to belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkMethod {
    /// The call's span is an ancestor of the engine's, in one trace.
    Trace,
    /// Both are in one trace, and the engine's span lies in the time of no other call: its parent is a caller further up.
    TraceTime,
    /// Both name the same request id, and the engine's span lies in the call's time.
    RequestId,
}

impl LinkMethod {
    /// As stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::TraceTime => "trace_time",
            Self::RequestId => "request_id",
        }
    }
}

/// One row of `requests`. Times are nanoseconds since 1970 (UTC), 0 where unknown.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Trace of the span.
    pub trace_id: TraceId,
    /// The span of the engine, or of the call.
    pub span_id: SpanId,
    /// Its parent.
    pub parent_span_id: Option<SpanId>,
    /// Where it was measured.
    pub position: Position,
    /// The call that an engine request answers, in the same trace.
    pub call_span_id: Option<SpanId>,
    /// What arrived at the gateway's door and led to it, perhaps in several attempts: a call of the same trace.
    pub operation_span_id: Option<SpanId>,
    /// The engine requests that answer a call, by trace and span.
    pub engine_spans: Vec<(TraceId, SpanId)>,
    /// How that is known.
    pub link_method: Option<LinkMethod>,
    /// Seconds that the engine's clock seems ahead of the call's.
    pub clock_skew_s: Option<f64>,
    /// Number of this attempt at its operation, from 1.
    pub attempt: Option<i64>,
    /// Attempts that were made.
    pub attempts: Option<i64>,
    /// Number of this choice of its request, from 1.
    pub choice: Option<i64>,
    /// Did its caller get another request's output instead?
    pub superseded: bool,
    /// Request id as its span says it.
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
    /// Start of the span.
    pub start_time_unix_nano: u64,
    /// End of the span.
    pub end_time_unix_nano: u64,
    /// Arrival to completion at its position, in seconds.
    pub e2e_s: Option<f64>,
    /// Arrival at the engine to first token, in seconds.
    pub engine_ttft_s: Option<f64>,
    /// The same from the application's position, in seconds.
    pub app_ttft_s: Option<f64>,
    /// The same from the gateway's position, in seconds.
    pub gateway_ttft_s: Option<f64>,
    /// The same from the client's position, in seconds.
    pub client_ttft_s: Option<f64>,
    /// Start of the operation to the engine's first token, on their two clocks, in seconds.
    pub operation_ttft_s: Option<f64>,
    /// Chunks of the answer that were sent on, as far as their spans are known.
    pub chunks: Option<Chunks>,
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
    /// HTTP status of the answer to a call.
    pub http_status_code: Option<i64>,
    /// Why values are missing or doubtful.
    pub quality: Vec<Quality>,
    /// Requests running on the same engine at its start.
    pub concurrent_requests: Option<i64>,
    /// Does another row restate it in more detail?
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

/// The chunks of an answer at one position.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chunks {
    /// Where they were seen.
    pub position: Position,
    /// How many.
    pub n: i64,
    /// Longest time from one to the next, in seconds.
    pub gap_max_s: Option<f64>,
}

impl Request {
    /// A request of which nothing but the ids is known.
    pub const fn new(trace_id: TraceId, span_id: SpanId) -> Self {
        Self {
            trace_id,
            span_id,
            parent_span_id: None,
            position: Position::Engine,
            call_span_id: None,
            operation_span_id: None,
            engine_spans: Vec::new(),
            link_method: None,
            clock_skew_s: None,
            attempt: None,
            attempts: None,
            choice: None,
            superseded: false,
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
            operation_ttft_s: None,
            chunks: None,
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
            http_status_code: None,
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
        self.rows.int("http_status_code", request.http_status_code);
        let quality: Vec<String> = request.quality.iter().map(Quality::to_string).collect();
        let rows = &mut self.rows;
        rows.texts("quality", Some(quality.iter().map(String::as_str)));
        rows.int("concurrent_requests", request.concurrent_requests);
        rows.bool("wrapper", Some(request.wrapper));
        rows.bool("superseded", Some(request.superseded));
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
        self.append_links(request);
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

    fn append_links(&mut self, request: &Request) {
        let rows = &mut self.rows;
        rows.text("position", Some(request.position.as_str()));
        rows.span_id("call_span_id", request.call_span_id);
        rows.span_id("operation_span_id", request.operation_span_id);
        let ids = |id: fn(&(TraceId, SpanId)) -> String| -> Vec<String> {
            request.engine_spans.iter().map(id).collect()
        };
        let traces = ids(|(trace_id, _)| trace_id.to_hex());
        let spans = ids(|(_, span_id)| span_id.to_hex());
        let some = |ids: &[String]| !ids.is_empty();
        rows.texts(
            "engine_trace_ids",
            some(&traces).then(|| traces.iter().map(String::as_str)),
        );
        rows.texts(
            "engine_span_ids",
            some(&spans).then(|| spans.iter().map(String::as_str)),
        );
        rows.text("link_method", request.link_method.map(LinkMethod::as_str));
        rows.float("clock_skew_s", request.clock_skew_s);
        rows.int("attempt", request.attempt);
        rows.int("attempts", request.attempts);
        rows.int("choice", request.choice);
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
        rows.float("operation_ttft_s", request.operation_ttft_s);
        let chunks = request.chunks;
        rows.text(
            "chunk_position",
            chunks.map(|chunks| chunks.position.as_str()),
        );
        rows.int("chunk_count", chunks.map(|chunks| chunks.n));
        rows.float(
            "chunk_gap_max_s",
            chunks.and_then(|chunks| chunks.gap_max_s),
        );
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
