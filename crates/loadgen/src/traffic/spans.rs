//! One request as the spans that four services write of it.
//!
//! Names and keys: vLLM 0.33 (`vllm/v1/engine/output_processor.py`, `do_tracing`), OpenTelemetry's
//! generative AI and HTTP conventions for the gateway, OpenInference and the ASGI instrumentation for the
//! RAG service.

use std::time::Duration;

use super::batch::{Batches, Sender};
use super::course::{AUTH, Course, HOP, Interval, nanos};
use super::message::{Kind, Message, Value};
use super::plan::{Cause, Request};
use super::step::InSteps;
use crate::rng::Rng;

const HTTPX: &str = "opentelemetry.instrumentation.httpx";
const FASTAPI: &str = "opentelemetry.instrumentation.fastapi";
const LANGCHAIN: &str = "openinference.instrumentation.langchain";
const GATEWAY: &str = "llm-gateway";
pub(super) const VLLM: &str = "vllm.tracing.otel";

const ROUTE: &str = "/v1/chat/completions";

/// Tokens that reach the client in one chunk.
const TOKENS_PER_CHUNK: u32 = 16;
const CHUNKS_MAX: u32 = 24;

/// Trace and span of a request in an engine.
pub(crate) type EngineSpan = ([u8; 16], SpanId);

/// Writes the spans of one request into the batches of their senders; gives that of the engine.
pub(super) fn write(
    request: &Request,
    rng: &mut Rng,
    batches: &mut Batches,
    steps: InSteps<'_>,
) -> Option<EngineSpan> {
    let course = Course::of(request);
    let mut writer = Writer {
        request,
        rng,
        batches,
        steps,
    };
    let client = writer.client(&course);
    let gateway_call = writer.gateway(&course, client);
    let rag_call = writer.rag(&course, gateway_call);
    (!request.cause.is_failure()).then(|| writer.engine(&course, rag_call))
}

struct Writer<'a> {
    request: &'a Request,
    rng: &'a mut Rng,
    batches: &'a mut Batches,
    steps: InSteps<'a>,
}

/// What a span has besides its attributes.
struct Head<'a> {
    sender: Sender,
    scope: &'static str,
    name: &'a str,
    kind: Kind,
    parent: Option<SpanId>,
    interval: Interval,
    /// The status message of a span that ended in an error.
    error: Option<&'a str>,
}

type SpanId = [u8; 8];

impl Writer<'_> {
    fn client(&mut self, course: &Course) -> SpanId {
        let url = "http://llm-gateway:8080/v1/chat/completions";
        self.call(Sender::ChatWeb, url, "llm-gateway", None, course.client)
    }

    /// Returns the span that the RAG service sees as its parent.
    fn gateway(&mut self, course: &Course, client: SpanId) -> SpanId {
        let sender = Sender::LlmGateway;
        let server = self.server(sender, GATEWAY, client, course.gateway);
        let auth = Interval {
            start: course.gateway.start,
            end: course.gateway.start + AUTH - HOP,
        };
        self.internal(sender, GATEWAY, "auth", server, auth);
        self.gateway_call(course, server)
    }

    fn gateway_call(&mut self, course: &Course, server: SpanId) -> SpanId {
        let request = self.request;
        let tokens_max = Value::Int(request.output_tokens_max);
        let mut attributes = vec![
            ("gen_ai.operation.name", Value::Str("chat")),
            ("gen_ai.provider.name", Value::Str("vllm")),
            ("gen_ai.request.model", Value::Str(request.model)),
            ("gen_ai.request.max_tokens", tokens_max),
            ("http.response.status_code", self.http_status()),
        ];
        if request.cause.is_failure() {
            attributes.push(("error.type", Value::Str(self.error_type())));
        } else {
            let first_chunk = course.first_token + 4 * HOP - course.gateway_call.start;
            let first_chunk = Value::Double(seconds(first_chunk));
            let (input, output) = (request.input_tokens, request.output_tokens);
            let reason = Value::OneStr(finish_reason(request));
            attributes.extend([
                ("gen_ai.response.id", Value::Str(&request.request_id)),
                ("gen_ai.response.model", Value::Str(request.model)),
                ("gen_ai.response.finish_reasons", reason),
                ("gen_ai.response.time_to_first_chunk", first_chunk),
                ("gen_ai.usage.input_tokens", Value::Int(input)),
                ("gen_ai.usage.output_tokens", Value::Int(output)),
            ]);
        }
        let name = format!("chat {}", request.model);
        let head = Head {
            sender: Sender::LlmGateway,
            scope: GATEWAY,
            name: &name,
            kind: Kind::Client,
            parent: Some(server),
            interval: course.gateway_call,
            error: self.error(),
        };
        self.span(&head, &attributes)
    }

    /// Returns the span that the engine sees as its parent.
    fn rag(&mut self, course: &Course, gateway_call: SpanId) -> SpanId {
        let sender = Sender::RagApi;
        let server = self.server(sender, FASTAPI, gateway_call, course.rag);
        let head = Head {
            sender,
            scope: LANGCHAIN,
            name: "retrieve",
            kind: Kind::Internal,
            parent: Some(server),
            interval: course.retrieval,
            error: None,
        };
        self.span(
            &head,
            &[
                ("openinference.span.kind", Value::Str("RETRIEVER")),
                ("retrieval.documents.0.document.id", Value::Str("doc-17")),
                ("retrieval.documents.0.document.score", Value::Double(0.83)),
            ],
        );
        let request = self.request;
        let (input, output) = (request.input_tokens, request.output_tokens);
        let head = Head {
            name: "ChatOpenAI",
            interval: course.chat_model,
            error: self.error(),
            ..head
        };
        let chat_model = self.span(
            &head,
            &[
                ("openinference.span.kind", Value::Str("LLM")),
                ("llm.model_name", Value::Str(request.model)),
                ("llm.token_count.prompt", Value::Int(input)),
                ("llm.token_count.completion", Value::Int(output)),
            ],
        );
        self.chunks(course, server);
        let url = "http://vllm:8000/v1/chat/completions";
        self.call(sender, url, "vllm", Some(chat_model), course.rag_call)
    }

    /// One span per chunk of the stream, as the ASGI instrumentation writes them.
    fn chunks(&mut self, course: &Course, server: SpanId) {
        let (first, n_chunks) = if self.request.cause.is_failure() {
            (course.rag.end - HOP, 1)
        } else {
            let n_chunks = self.request.output_tokens / TOKENS_PER_CHUNK + 1;
            (course.first_token + 2 * HOP, n_chunks.min(CHUNKS_MAX))
        };
        let step = (course.rag.end - HOP - first) / u64::from(n_chunks);
        for chunk_idx in 0..u64::from(n_chunks) {
            let start = first + step * chunk_idx;
            let interval = Interval {
                start,
                end: start + HOP / 8,
            };
            let name = "POST /v1/chat/completions http send";
            self.internal(Sender::RagApi, FASTAPI, name, server, interval);
        }
    }

    fn engine(&mut self, course: &Course, rag_call: SpanId) -> EngineSpan {
        let request = self.request;
        let first_token = course.first_token - course.engine.start;
        let e2e = course.engine.end - course.engine.start;
        let ahead = nanos(request.outside.engine_clock_ahead);
        let interval = Interval {
            start: course.engine.start + ahead,
            end: course.engine.end + ahead,
        };
        let trace_id = if request.outside.context_lost {
            lost_trace_id(request.trace_id)
        } else {
            request.trace_id
        };
        let id = self.span_of(
            trace_id,
            &Head {
                sender: Sender::Vllm {
                    replica_idx: request.replica_idx,
                },
                scope: VLLM,
                name: "llm_request",
                kind: Kind::Server,
                parent: Some(rag_call).filter(|_| !request.outside.context_lost),
                interval,
                error: None,
            },
            &[
                (
                    "gen_ai.latency.time_to_first_token",
                    Value::Double(seconds(first_token)),
                ),
                ("gen_ai.latency.e2e", Value::Double(seconds(e2e))),
                (
                    "gen_ai.latency.time_in_queue",
                    Value::Double(request.queue.as_secs_f64()),
                ),
                (
                    "gen_ai.usage.prompt_tokens",
                    Value::Int(request.input_tokens),
                ),
                (
                    "gen_ai.usage.completion_tokens",
                    Value::Int(request.output_tokens),
                ),
                (
                    "gen_ai.latency.time_in_model_prefill",
                    Value::Double(request.prefill.as_secs_f64()),
                ),
                (
                    "gen_ai.latency.time_in_model_decode",
                    Value::Double(request.decode.as_secs_f64()),
                ),
                (
                    "gen_ai.latency.time_in_model_inference",
                    Value::Double((request.prefill + request.decode).as_secs_f64()),
                ),
                ("gen_ai.request.id", Value::Str(&request.request_id)),
                ("gen_ai.request.top_p", Value::Double(0.95)),
                (
                    "gen_ai.request.max_tokens",
                    Value::Int(request.output_tokens_max),
                ),
                ("gen_ai.request.temperature", Value::Double(0.7)),
                ("gen_ai.request.n", Value::Int(1)),
            ],
            self.steps,
        );
        (trace_id, id)
    }

    /// An incoming HTTP request; by convention a 4xx is not an error of the server.
    fn server(
        &mut self,
        sender: Sender,
        scope: &'static str,
        parent: SpanId,
        interval: Interval,
    ) -> SpanId {
        let is_own_fault = self.request.cause.http_status() >= 500;
        let head = Head {
            sender,
            scope,
            name: "POST /v1/chat/completions",
            kind: Kind::Server,
            parent: Some(parent),
            interval,
            error: self.error().filter(|_message| is_own_fault),
        };
        self.span(
            &head,
            &[
                ("http.request.method", Value::Str("POST")),
                ("http.route", Value::Str(ROUTE)),
                ("http.response.status_code", self.http_status()),
            ],
        )
    }

    /// An outgoing HTTP request.
    fn call(
        &mut self,
        sender: Sender,
        url: &str,
        server: &str,
        parent: Option<SpanId>,
        interval: Interval,
    ) -> SpanId {
        let head = Head {
            sender,
            scope: HTTPX,
            name: "POST",
            kind: Kind::Client,
            parent,
            interval,
            error: self.error(),
        };
        self.span(
            &head,
            &[
                ("http.request.method", Value::Str("POST")),
                ("url.full", Value::Str(url)),
                ("server.address", Value::Str(server)),
                ("http.response.status_code", self.http_status()),
            ],
        )
    }

    fn internal(
        &mut self,
        sender: Sender,
        scope: &'static str,
        name: &str,
        parent: SpanId,
        interval: Interval,
    ) {
        let kind = Kind::Internal;
        let parent = Some(parent);
        self.span(
            &Head {
                sender,
                scope,
                name,
                kind,
                parent,
                interval,
                error: None,
            },
            &[],
        );
    }

    fn span(&mut self, head: &Head<'_>, attributes: &[(&str, Value<'_>)]) -> SpanId {
        self.span_of(self.request.trace_id, head, attributes, InSteps::default())
    }

    fn span_of(
        &mut self,
        trace_id: [u8; 16],
        head: &Head<'_>,
        attributes: &[(&str, Value<'_>)],
        steps: InSteps<'_>,
    ) -> SpanId {
        let id = (self.rng.next_u64() | 1).to_be_bytes();
        let mut span = Message::default().bytes(1, &trace_id).bytes(2, &id);
        if let Some(parent) = head.parent {
            span = span.bytes(4, &parent);
        }
        span = span
            .bytes(5, head.name.as_bytes())
            .varint(6, head.kind.number())
            .fixed64(7, head.interval.start)
            .fixed64(8, head.interval.end)
            .attributes(9, attributes);
        span = steps.write(span);
        if let Some(message) = head.error {
            let status = Message::default().bytes(2, message.as_bytes()).varint(3, 2);
            span = span.message(15, &status);
        }
        // The context is known to come from another process or not, and the trace is sampled.
        let flags = if head.kind == Kind::Server {
            0x301
        } else {
            0x101
        };
        self.batches.add(
            head.sender,
            head.scope,
            head.interval.end,
            span.fixed32(16, flags),
        );
        id
    }

    fn http_status(&self) -> Value<'static> {
        Value::Int(self.request.cause.http_status().into())
    }

    fn error(&self) -> Option<&'static str> {
        match self.request.cause {
            Cause::ContextTooLong => Some("maximum context length is 32768 tokens"),
            Cause::EngineUnavailable => Some("engine is not ready"),
            Cause::Ordinary | Cause::LongQueue | Cause::LongPrompt | Cause::LongOutput => None,
        }
    }

    fn error_type(&self) -> &'static str {
        if self.request.cause == Cause::ContextTooLong {
            "400"
        } else {
            "503"
        }
    }
}

/// The trace that an engine begins when it gets no context; never all zero.
fn lost_trace_id(mut trace_id: [u8; 16]) -> [u8; 16] {
    trace_id.iter_mut().for_each(|byte| *byte = !*byte);
    trace_id[15] |= 1;
    trace_id
}

fn finish_reason(request: &Request) -> &'static str {
    if request.output_tokens >= request.output_tokens_max {
        "length"
    } else {
        "stop"
    }
}

/// Exact enough below a hundred days.
fn seconds(nanos: u64) -> f64 {
    Duration::from_nanos(nanos).as_secs_f64()
}
