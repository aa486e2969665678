//! The columns of `spans`.

use crate::column::{Column, ColumnType::*, SortKey, Spec};

/// Table `spans`.
pub static SPEC: Spec = Spec {
    name: "spans",
    doc: "One row per span of a kept trace. Content is redacted and long values are cut.",
    columns: COLUMNS,
    sort: &[
        SortKey::ascending("minute"),
        SortKey::ascending("trace_id"),
        SortKey::ascending("start_time_unix_nano"),
    ],
    bloom: &["trace_id", "gen_ai_request_id"],
    stats: &[
        "minute",
        "start_time",
        "end_time",
        "duration_ns",
        "status_code",
    ],
    retention_days: 7,
};

const COLUMNS: &[Column] = &[
    Column::new(
        "date",
        Date,
        "Day of the span's start (UTC); the partition.",
    )
    .key()
    .source("start_time_unix_nano"),
    Column::new(
        "minute",
        Time,
        "Minute of the start of the span's trace, so that a trace stays together.",
    )
    .key()
    .source("start of the trace"),
    Column::new("trace_id", Text, "Trace, 32 hex digits.")
        .distinct()
        .key()
        .source("trace_id"),
    Column::new("span_id", Text, "Span, 16 hex digits.")
        .distinct()
        .key()
        .source("span_id"),
    Column::new("parent_span_id", Text, "Parent span; NULL for a root.")
        .distinct()
        .source("parent_span_id"),
    Column::new(
        "trace_state",
        Text,
        "W3C tracestate as sent; `th` is raised or erased where sampling made it untrue.",
    )
    .source("trace_state"),
    Column::new(
        "flags",
        Int,
        "W3C trace flags in the low 8 bits, OTLP's own above.",
    )
    .source("flags"),
    Column::new("name", Text, "Name of the operation.").source("name"),
    Column::new(
        "kind",
        Text,
        "UNSPECIFIED, INTERNAL, SERVER, CLIENT, PRODUCER or CONSUMER.",
    )
    .source("kind"),
    Column::new("start_time", Time, "Start, as the sender's clock said.")
        .distinct()
        .source("start_time_unix_nano"),
    Column::new("start_time_unix_nano", Int, "Start, exact.")
        .distinct()
        .unit("ns")
        .source("start_time_unix_nano"),
    Column::new("end_time", Time, "End, as the sender's clock said.")
        .distinct()
        .source("end_time_unix_nano"),
    Column::new("end_time_unix_nano", Int, "End, exact.")
        .distinct()
        .unit("ns")
        .source("end_time_unix_nano"),
    Column::new(
        "duration_ns",
        Int,
        "End minus start; NULL if the end is missing or earlier.",
    )
    .distinct()
    .unit("ns")
    .source("end_time_unix_nano - start_time_unix_nano"),
    Column::new("status_code", Text, "UNSET, OK or ERROR.").source("status.code"),
    Column::new("status_message", Text, "Text of the status.").source("status.message"),
    Column::new("scope_name", Text, "Instrumentation scope.").source("scope.name"),
    Column::new("scope_version", Text, "Its version.").source("scope.version"),
    // Promoted from the resource.
    Column::new("service_name", Text, "Service.").resource("service.name", &[]),
    Column::new("service_namespace", Text, "Namespace of the service.")
        .resource("service.namespace", &[]),
    Column::new("service_version", Text, "Version of the service.")
        .resource("service.version", &[]),
    Column::new(
        "service_instance_id",
        Text,
        "Instance (process) of the service.",
    )
    .resource("service.instance.id", &[]),
    Column::new(
        "deployment_environment_name",
        Text,
        "Environment, such as production.",
    )
    .resource("deployment.environment.name", &["deployment.environment"]),
    Column::new("k8s_cluster_name", Text, "Kubernetes cluster.").resource("k8s.cluster.name", &[]),
    Column::new("k8s_namespace_name", Text, "Kubernetes namespace.")
        .resource("k8s.namespace.name", &[]),
    Column::new("k8s_pod_name", Text, "Pod.").resource("k8s.pod.name", &[]),
    Column::new("k8s_pod_uid", Text, "Pod, unique over time.").resource("k8s.pod.uid", &[]),
    Column::new("k8s_container_name", Text, "Container in the pod.")
        .resource("k8s.container.name", &[]),
    Column::new("k8s_node_name", Text, "Kubernetes node.").resource("k8s.node.name", &[]),
    Column::new("host_name", Text, "Host.").resource("host.name", &[]),
    // Promoted from the span.
    Column::new("http_request_method", Text, "HTTP method.")
        .span("http.request.method", &["http.method"]),
    Column::new("http_response_status_code", Int, "HTTP status code.")
        .span("http.response.status_code", &["http.status_code"]),
    Column::new("http_route", Text, "Route template.").span("http.route", &[]),
    Column::new("url_path", Text, "Path of the URL.").span("url.path", &[]),
    Column::new("error_type", Text, "Class of the failure.")
        .span("error.type", &["error.reason", "error_kind"]),
    Column::new(
        "exception_type",
        Text,
        "Class of the exception; of several events, the last.",
    )
    .span_or_event("exception.type", &[], ("exception", "exception.type")),
    Column::new(
        "exception_message",
        Text,
        "Text of the exception; of several events, the last.",
    )
    .span_or_event("exception.message", &[], ("exception", "exception.message")),
    Column::new(
        "gen_ai_operation_name",
        Text,
        "Kind of the model call, such as chat or embeddings.",
    )
    .span("gen_ai.operation.name", &["llm.request.type"]),
    Column::new("gen_ai_provider_name", Text, "Provider of the model.").span(
        "gen_ai.provider.name",
        &["gen_ai.system", "llm.system", "llm.provider"],
    ),
    Column::new("gen_ai_request_model", Text, "Model that was asked for.").span(
        "gen_ai.request.model",
        &[
            "llm.request.model_name",
            "llm.model_name",
            "embedding.model_name",
            "ai.model.id",
        ],
    ),
    Column::new("gen_ai_response_model", Text, "Model that answered.")
        .span("gen_ai.response.model", &["llm.response.model_name"]),
    Column::new(
        "gen_ai_request_id",
        Text,
        "Id of the inference request as the span's service knows it.",
    )
    .distinct()
    .span(
        "gen_ai.request.id",
        &[
            "rid",
            "llm_d.pd_proxy.request_id",
            "x_request_id",
            "request_id",
            "guid:x-request-id",
            "http.request.header.x-request-id",
        ],
    ),
    Column::new(
        "gen_ai_response_id",
        Text,
        "Id in the answer; at a gateway, the engine's request id.",
    )
    .distinct()
    .span("gen_ai.response.id", &[]),
    Column::new("gen_ai_conversation_id", Text, "Conversation or session.")
        .span("gen_ai.conversation.id", &["session.id", "thread.id"]),
    Column::new(
        "gen_ai_response_finish_reasons",
        TextList,
        "Why generation ended, one per choice.",
    )
    .span(
        "gen_ai.response.finish_reasons",
        &[
            "gen_ai.response.finish_reason",
            "llm.response.finish_reason",
            "llm.finish_reason",
            "finish_reason",
        ],
    ),
    Column::new("gen_ai_usage_input_tokens", Int, "Prompt tokens.")
        .unit("tokens")
        .span(
            "gen_ai.usage.input_tokens",
            &[
                "gen_ai.usage.prompt_tokens",
                "llm.token_count.prompt",
                "llm.usage.prompt_tokens",
                "ai.usage.promptTokens",
                "input_tokens",
            ],
        ),
    Column::new("gen_ai_usage_output_tokens", Int, "Generated tokens.")
        .unit("tokens")
        .span(
            "gen_ai.usage.output_tokens",
            &[
                "gen_ai.usage.completion_tokens",
                "llm.token_count.completion",
                "llm.usage.completion_tokens",
                "ai.usage.completionTokens",
                "output_tokens",
            ],
        ),
    Column::new(
        "gen_ai_usage_cache_read_input_tokens",
        Int,
        "Prompt tokens found in a prefix cache.",
    )
    .unit("tokens")
    .span(
        "gen_ai.usage.cache_read.input_tokens",
        &[
            "gen_ai.usage.cache_read_input_tokens",
            "gen_ai.usage.cached_tokens",
            "llm.token_count.prompt_details.cache_read",
        ],
    ),
    Column::new(
        "gen_ai_latency_e2e",
        Float,
        "Engine: arrival to last token.",
    )
    .distinct()
    .unit("s")
    .span("gen_ai.latency.e2e", &[]),
    Column::new(
        "gen_ai_latency_time_to_first_token",
        Float,
        "Engine: arrival to first token.",
    )
    .distinct()
    .unit("s")
    .span("gen_ai.latency.time_to_first_token", &[]),
    Column::new(
        "gen_ai_latency_time_in_queue",
        Float,
        "Engine: waiting to be scheduled.",
    )
    .distinct()
    .unit("s")
    .span("gen_ai.latency.time_in_queue", &[]),
    Column::new(
        "gen_ai_latency_time_in_model_prefill",
        Float,
        "Engine: scheduled to first token.",
    )
    .distinct()
    .unit("s")
    .span("gen_ai.latency.time_in_model_prefill", &[]),
    Column::new(
        "gen_ai_latency_time_in_model_decode",
        Float,
        "Engine: first to last token.",
    )
    .distinct()
    .unit("s")
    .span("gen_ai.latency.time_in_model_decode", &[]),
    Column::new(
        "gen_ai_latency_time_in_model_inference",
        Float,
        "Engine: scheduled to last token.",
    )
    .distinct()
    .unit("s")
    .span("gen_ai.latency.time_in_model_inference", &[]),
    Column::new(
        "gen_ai_response_time_to_first_chunk",
        Float,
        "Caller: call to first chunk of the stream.",
    )
    .distinct()
    .unit("s")
    .span(
        "gen_ai.response.time_to_first_chunk",
        &["gen_ai.client.operation.time_to_first_chunk"],
    ),
    Column::new(
        "openinference_span_kind",
        Text,
        "LLM, RETRIEVER, RERANKER, CHAIN and so on.",
    )
    .span("openinference.span.kind", &[]),
    Column::new("hw_id", Text, "Device (GPU UUID).").span("hw.id", &["gpu.uuid"]),
    Column::new(
        "batch_id",
        Text,
        "Engine scheduling step; SGLang puts it into its `schedule` event.",
    )
    .span_or_event(
        "batch_id",
        &["batch.id", "gen_ai.batch.id", "vllm.batch_id"],
        ("schedule", "bid"),
    ),
    Column::new(
        "response_flags",
        Text,
        "Envoy's reason for ending a response early, such as DC or UT.",
    )
    .span("response_flags", &[]),
    Column::new("retry_count", Int, "Attempts after the first.")
        .span("retry.count", &["http.request.resend_count"]),
    // The rest.
    Column::new(
        "attributes",
        Attributes,
        "Other attributes of the span as text.",
    )
    .source("attributes"),
    Column::new(
        "resource_attributes",
        Attributes,
        "Other attributes of the resource as text.",
    )
    .source("resource.attributes"),
    Column::new("events", Events, "Events in the order sent.").source("events"),
    Column::new(
        "links",
        Links,
        "Links in the order sent; invalid ids are NULL.",
    )
    .source("links"),
    Column::new(
        "dropped_attributes_count",
        Int,
        "Attributes that the sender discarded.",
    )
    .source("dropped_attributes_count"),
    Column::new(
        "dropped_events_count",
        Int,
        "Events that the sender discarded.",
    )
    .source("dropped_events_count"),
    Column::new(
        "dropped_links_count",
        Int,
        "Links that the sender discarded.",
    )
    .source("dropped_links_count"),
    Column::new(
        "redacted_attributes_count",
        Int,
        "Attributes of span, resource, events and links dropped or stripped as content.",
    )
    .source("redaction"),
    Column::new(
        "truncated_attributes_count",
        Int,
        "Attributes of span, resource, events and links, names and messages cut to the limit.",
    )
    .source("redaction"),
    Column::new("late", Bool, "Arrived after its trace was decided.")
        .key()
        .source("sampling"),
    Column::new("received_time", Time, "When we received it.").source("intake"),
    Column::new("resource_schema_url", Text, "Schema of the resource.")
        .source("resource_spans.schema_url"),
];
