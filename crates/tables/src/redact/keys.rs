//! Keys that carry prompts, completions, documents or secrets, by the convention that names them.

/// Dropped. `*` stands for any text, so it also covers list indexes.
pub(super) const CONTENT: &[&str] = &[
    // OpenTelemetry GenAI, current and deprecated.
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.system_instructions",
    "gen_ai.tool.definitions",
    "gen_ai.tool.call.arguments",
    "gen_ai.tool.call.result",
    "gen_ai.tool.description",
    "gen_ai.tool.message",
    "gen_ai.retrieval.query.text",
    "gen_ai.retrieval.documents",
    "gen_ai.retrieval.documents.*",
    "gen_ai.evaluation.explanation",
    "gen_ai.request.stop_sequences",
    "gen_ai.request.messages",
    "gen_ai.request.structured_output_schema",
    "gen_ai.prompt",
    "gen_ai.prompt.*",
    "gen_ai.completion",
    "gen_ai.completion.*",
    "gen_ai.memory.*",
    "gen_ai.system.message",
    "gen_ai.user.message",
    "gen_ai.assistant.message",
    "gen_ai.choice",
    "gen_ai.headers",
    "gen_ai.task.input",
    "gen_ai.task.output",
    // OpenInference.
    "input.value",
    "output.value",
    "llm.input_messages*",
    "llm.output_messages*",
    "llm.prompts*",
    "llm.choices*",
    "llm.prompt_template.template",
    "llm.prompt_template.variables",
    "llm.function_call",
    "llm.invocation_parameters",
    "llm.tools*",
    "tool.parameters",
    "tool.json_schema",
    "tool_call.function.arguments",
    "message.content",
    "message.contents*",
    "message.function_call_arguments_json",
    "message_content.*",
    "retrieval.documents.*.document.content",
    "retrieval.documents.*.document.metadata",
    "document.content",
    "document.metadata",
    "reranker.query",
    "reranker.*_documents.*",
    "embedding.embeddings.*.embedding.text",
    "embedding.embeddings.*.embedding.vector",
    "embedding.text",
    "embedding.vector",
    "image.url",
    "audio.url",
    "audio.transcript",
    "metadata",
    "annotation.*",
    "evaluation.explanation",
    // OpenLLMetry and Traceloop.
    "traceloop.entity.input",
    "traceloop.entity.output",
    "traceloop.prompt.template",
    "traceloop.prompt.template_variables",
    "traceloop.association.properties.*",
    "llm.headers",
    "llm.request.functions*",
    "mcp.request.argument",
    "mcp.response.value",
    "pinecone.query.filter",
    "db.chroma.*where*",
    "db.marqo.search.query",
    "db.query.result.document",
    "db.query.result.metadata",
    "db.query.result.vector",
    "db.query.embeddings.vector",
    // Vercel AI SDK.
    "ai.prompt*",
    "ai.response.text",
    "ai.response.object",
    "ai.response.toolCalls",
    "ai.response.reasoning",
    "ai.toolCall.args",
    "ai.toolCall.result",
    "ai.value",
    "ai.values",
    "ai.embedding*",
    "ai.request.headers.*",
    // LiteLLM; `llm.<provider>.<parameter>` on other spans than the raw one.
    "llm.*.messages",
    "llm.*.prompt_text",
    "llm.*.choices",
    "llm.*.input",
    "llm.*.tools",
    "llm.*.stringified_raw_response",
    "metadata.*",
    "hidden_params",
    "litellm.guardrail.response",
    "litellm.provider.error.stack_trace",
    // Higress, TGI.
    "question",
    "answer",
    "reasoning",
    "tool_calls",
    "rag_docs",
    "parameters",
    // Generic HTTP and databases.
    "http.request.body",
    "http.response.body",
    "http.request.header.*",
    "http.response.header.*",
    "url.query",
    "db.query.text",
    "db.query.parameter.*",
    "db.statement",
];

/// Kept although a pattern of [`CONTENT`] matches: what joins services without a trace context.
pub(super) const KEEP: &[&str] = &[
    "http.request.header.x-request-id",
    "http.response.header.x-request-id",
];

/// URLs, kept without query, fragment and credentials.
pub(super) const URLS: &[&str] = &["url.full", "http.url", "http.target"];

/// Events that exist to carry content.
pub(super) const CONTENT_EVENTS: &[&str] = &[
    "gen_ai.system.message",
    "gen_ai.user.message",
    "gen_ai.assistant.message",
    "gen_ai.tool.message",
    "gen_ai.choice",
    "gen_ai.content.prompt",
    "gen_ai.content.completion",
    "gen_ai.content.completion.chunk",
    "gen_ai.client.inference.operation.details",
    "gen_ai.evaluation.result",
    "llm.content.completion.chunk",
    "db.query.result",
    "db.query.embeddings",
    "db.search.*",
];

/// What such an event is about; everything else on it is dropped.
pub(super) const CONTENT_EVENT_KEEP: &[&str] = &[
    "gen_ai.system",
    "gen_ai.provider.name",
    "gen_ai.operation.name",
    "gen_ai.conversation.id",
    "gen_ai.request.*",
    "gen_ai.response.*",
    "gen_ai.usage.*",
    "gen_ai.evaluation.name",
    "gen_ai.evaluation.score.*",
    "error.type",
    "finish_reason",
    "index",
    "role",
    "id",
    "db.*.id",
    "db.*.score",
    "db.*.distance",
];

/// LiteLLM's span that repeats provider request and reply, one attribute per parameter.
pub(super) const RAW_REQUEST_SPAN: &str = "raw_gen_ai_request";

/// Is it `llm.<provider>.<parameter>`? Which parameters carry content depends on the provider, so
/// on the raw span none is kept.
pub(super) fn is_raw_parameter(key: &str) -> bool {
    key.strip_prefix("llm.")
        .is_some_and(|rest| rest.contains('.'))
}
