//! The columns of `requests`.

use crate::column::{Column, ColumnType::*, SortKey, Spec};

/// Table `requests`.
pub static SPEC: Spec = Spec {
    name: "requests",
    doc: "One row per engine request, and per call to a model without one in its trace; of kept and dropped traces alike.",
    columns: COLUMNS,
    sort: &[SortKey::descending("start_time_unix_nano")],
    bloom: &["trace_id", "request_id", "request_id_normalised"],
    stats: &["start_time", "e2e_s", "engine_ttft_s", "outcome"],
    retention_days: 30,
};

const COLUMNS: &[Column] = &[
    Column::new(
        "date",
        Date,
        "Day of the request's start (UTC); the partition.",
    )
    .key()
    .source("start_time_unix_nano"),
    Column::new("trace_id", Text, "Trace, 32 hex digits.").distinct()
        .key()
        .source("trace_id"),
    Column::new("span_id", Text, "Span of the engine, or of the call; 16 hex digits.").distinct()
        .key()
        .source("span_id"),
    Column::new("parent_span_id", Text, "Its parent.").distinct().source("parent_span_id"),
    Column::new(
        "position",
        Text,
        "Where it was measured: engine; gateway or app for a call that no engine request of its trace answered.",
    )
    .key()
    .source("span name, scope and attributes"),
    Column::new(
        "call_span_id",
        Text,
        "The call that an engine request answers, in the same trace.",
    )
    .source("parent_span_id, request ids, time"),
    Column::new(
        "operation_span_id",
        Text,
        "What arrived at the gateway's door and led to it, perhaps in several attempts; a call of the same trace.",
    )
    .source("computed"),
    Column::new(
        "engine_trace_ids",
        TextList,
        "Traces of the engine requests that answered a call.",
    )
    .source("request ids"),
    Column::new(
        "engine_span_ids",
        TextList,
        "Spans of these engine requests, in the same order.",
    )
    .source("request ids"),
    Column::new(
        "link_method",
        Text,
        "How call and engine request are known to belong together: trace (ancestor), trace_time (in one trace, \
         by time) or request_id (stitched); NULL where neither is known.",
    )
    .source("computed"),
    Column::new(
        "clock_skew_s",
        Float,
        "How far the engine's clock seems ahead of the call's; NULL where nothing contradicts equal clocks.",
    ).distinct()
    .unit("s")
    .source("computed from containment"),
    Column::new(
        "attempt",
        Int,
        "Number of this attempt at its operation, from 1; NULL where no call is known.",
    )
    .source("computed"),
    Column::new("attempts", Int, "Attempts at its operation.").source("computed"),
    Column::new(
        "choice",
        Int,
        "Number of this choice of its request (n > 1), from 1: each repeats the prompt's tokens.",
    )
    .source("computed"),
    Column::new("request_id", Text, "Request id as the span says it.").distinct()
        .source("gen_ai.request.id; of a call gen_ai.response.id, else x-request-id"),
    Column::new(
        "request_id_normalised",
        Text,
        "The part of it that other services know too.",
    ).distinct()
    .source("gen_ai.request.id without the prefix and suffix that the engine adds"),
    Column::new("engine", Text, "vllm, sglang, dynamo or tensorrt_llm.")
        .source("span name and scope"),
    Column::new(
        "operation",
        Text,
        "chat, text_completion, embeddings, score, classify or pooling.",
    )
    .source("gen_ai.operation.name, else the prefix of the request id"),
    Column::new("model", Text, "Model.").source("gen_ai.response.model, else gen_ai.request.model"),
    Column::new(
        "stage",
        Text,
        "Half of a disaggregated request: prefill or decode.",
    )
    .source("disagg_role, span name"),
    Column::new(
        "bootstrap_room",
        Text,
        "Key that the halves of an SGLang request share.",
    )
    .source("bootstrap_room"),
    Column::new("service_name", Text, "Service.").source("service.name"),
    Column::new(
        "service_instance_id",
        Text,
        "Instance (process) of the service.",
    )
    .source("service.instance.id"),
    Column::new("k8s_cluster_name", Text, "Kubernetes cluster.").source("k8s.cluster.name"),
    Column::new("k8s_namespace_name", Text, "Kubernetes namespace.").source("k8s.namespace.name"),
    Column::new("k8s_pod_name", Text, "Pod.").source("k8s.pod.name"),
    Column::new("k8s_pod_uid", Text, "Pod, unique over time.").source("k8s.pod.uid"),
    Column::new("k8s_container_name", Text, "Container in the pod.").source("k8s.container.name"),
    Column::new("k8s_node_name", Text, "Kubernetes node.").source("k8s.node.name"),
    Column::new("host_name", Text, "Host.").source("host.name"),
    Column::new("start_time", Time, "Start of the span.").distinct().source("start_time_unix_nano"),
    Column::new("start_time_unix_nano", Int, "The same, exact.").distinct()
        .unit("ns")
        .source("start_time_unix_nano"),
    Column::new("end_time", Time, "End of the span.").distinct().source("end_time_unix_nano"),
    Column::new("duration_ns", Int, "Length of the span.").distinct()
        .unit("ns")
        .source("computed"),
    Column::new("e2e_s", Float, "Arrival to completion at its position.").distinct()
        .unit("s")
        .source("gen_ai.latency.e2e, else the span"),
    Column::new(
        "engine_ttft_s",
        Float,
        "Arrival at the engine to first token.",
    ).distinct()
    .unit("s")
    .source("gen_ai.latency.time_to_first_token, ttft_ms"),
    Column::new(
        "app_ttft_s",
        Float,
        "Time to first token, measured in the application.",
    ).distinct()
    .unit("s")
    .source("time_to_first_chunk, first chunk's http send span"),
    Column::new(
        "gateway_ttft_s",
        Float,
        "Time to first token, measured in the gateway.",
    ).distinct()
    .unit("s")
    .source("gen_ai.response.time_to_first_chunk, first chunk's http send span or event"),
    Column::new(
        "client_ttft_s",
        Float,
        "Time to first token, measured in the client.",
    ).distinct()
    .unit("s")
    .source("first_content or first_token event, client.ttft_s"),
    Column::new(
        "operation_ttft_s",
        Float,
        "Start of the operation (its first attempt's) to the engine's first token, on two clocks less clock_skew_s.",
    ).distinct()
    .unit("s")
    .source("computed"),
    Column::new(
        "chunk_position",
        Text,
        "Where the chunks of the answer were seen: gateway or app.",
    )
    .source("http send spans, chunk events"),
    Column::new("chunk_count", Int, "Chunks of the answer; a chunk is no token.")
        .unit("chunks")
        .source("http send spans, chunk events"),
    Column::new(
        "chunk_gap_max_s",
        Float,
        "Longest time from one chunk to the next.",
    ).distinct()
    .unit("s")
    .source("http send spans, chunk events"),
    Column::new("queue_s", Float, "Waiting to be scheduled.").distinct()
        .unit("s")
        .source("gen_ai.latency.time_in_queue"),
    Column::new(
        "prefill_s",
        Float,
        "Scheduled to first token; SGLang includes the queue.",
    ).distinct()
    .unit("s")
    .source("gen_ai.latency.time_in_model_prefill"),
    Column::new("decode_s", Float, "First to last token.").distinct()
        .unit("s")
        .source("gen_ai.latency.time_in_model_decode"),
    Column::new("inference_s", Float, "Scheduled to last token.").distinct()
        .unit("s")
        .source("gen_ai.latency.time_in_model_inference"),
    Column::new(
        "tpot_s",
        Float,
        "Time per output token after the first; NULL unless there are two.",
    ).distinct()
    .unit("s")
    .source("decode_s / (output_tokens - 1), else (e2e_s - engine_ttft_s) / (output_tokens - 1)"),
    Column::new("input_tokens", Int, "Prompt tokens.")
        .unit("tokens")
        .source("gen_ai.usage.prompt_tokens"),
    Column::new("output_tokens", Int, "Generated tokens.")
        .unit("tokens")
        .source("gen_ai.usage.completion_tokens"),
    Column::new(
        "cached_tokens",
        Int,
        "Prompt tokens found in a prefix cache.",
    )
    .unit("tokens")
    .source("gen_ai.usage.cached_tokens"),
    Column::new(
        "input_band",
        Text,
        "lt_128, lt_512, lt_2k, lt_8k, lt_32k or ge_32k prompt tokens.",
    )
    .source("input_tokens"),
    Column::new("output_band", Text, "The same of generated tokens.").source("output_tokens"),
    Column::new("max_tokens", Int, "Tokens asked for at most.")
        .unit("tokens")
        .source("gen_ai.request.max_tokens"),
    Column::new(
        "temperature",
        Float,
        "NULL where not sent: vLLM leaves out 0.",
    )
    .source("gen_ai.request.temperature"),
    Column::new("top_p", Float, "Nucleus sampling.").source("gen_ai.request.top_p"),
    Column::new("finish_reason", Text, "Why generation ended.")
        .source("gen_ai.response.finish_reasons"),
    Column::new("outcome", Text, "ok, error, cancelled or no_output.")
        .source("status, finish reason, tokens"),
    Column::new("error_type", Text, "Class of the failure.").source("error.type"),
    Column::new("http_status_code", Int, "HTTP status of the answer to a call.")
        .source("http.response.status_code, http.status_code"),
    Column::new("quality", TextList, "Why values are missing or doubtful.").source("normalisation"),
    Column::new(
        "concurrent_requests",
        Int,
        "Requests running on the same engine at its start.",
    )
    .unit("requests"),
    Column::new(
        "wrapper",
        Bool,
        "Another row restates it in more detail: leave it out of sums.",
    )
    .key(),
    Column::new(
        "superseded",
        Bool,
        "Its caller got another request's output: that of a later attempt, or of the decode half.",
    )
    .key()
    .source("computed"),
    Column::new("decision", Text, "Decision on its trace.").source("sampling"),
    Column::new("policy", Text, "Policy that decided.").source("sampling"),
    Column::new("late", Bool, "Arrived after its trace was decided.")
        .key()
        .source("sampling"),
    Column::new("received_time", Time, "When its span was received.").source("intake"),
];
