//! The legacy JSON model of Jaeger, made from OTLP.
//!
//! | here | from |
//! |---|---|
//! | `processes` | resources; `serviceName` is `service.name`, else [`NO_SERVICE`] as Jaeger writes it |
//! | `references` | the parent as `CHILD_OF`, links as `FOLLOWS_FROM` |
//! | `startTime`, `duration`, `timestamp` | microseconds, cut |
//! | `tags` | attributes, and `span.kind`, `otel.status_code`, `otel.status_description`, `error`, `otel.scope.name`, `otel.scope.version`, `w3c.tracestate` |
//! | `logs` | events; the name is the field `event` |
//! | `warnings` | a span without a start, or without an end after its start: its duration is then written as 0 |
//!
//! A list or a map is JSON text, an integer that JavaScript cannot hold is text of its digits.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link, SpanKind};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, Span as OtlpSpan};
use serde::Serialize;
use serde_json::json;

/// Service of spans whose resource names none.
pub(super) const NO_SERVICE: &str = "OTLPResourceNoServiceName";

/// Largest integer that a number of JavaScript holds exactly.
const SAFE_INTEGER_MAX: i64 = (1 << 53) - 1;

#[derive(Debug, Serialize)]
pub(super) struct Trace {
    #[serde(rename = "traceID")]
    trace_id: String,
    spans: Vec<Span>,
    processes: BTreeMap<String, Process>,
    warnings: Option<Vec<String>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Span {
    #[serde(rename = "traceID")]
    trace_id: String,
    #[serde(rename = "spanID")]
    span_id: String,
    #[serde(skip_serializing_if = "is_zero")]
    flags: u32,
    operation_name: String,
    references: Vec<Reference>,
    start_time: u64,
    duration: u64,
    tags: Vec<Tag>,
    logs: Vec<Log>,
    #[serde(rename = "processID")]
    process_id: String,
    warnings: Option<Vec<&'static str>>,
}

fn is_zero(flags: &u32) -> bool {
    *flags == 0
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Reference {
    ref_type: &'static str,
    #[serde(rename = "traceID")]
    trace_id: String,
    #[serde(rename = "spanID")]
    span_id: String,
}

#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Process {
    service_name: String,
    tags: Vec<Tag>,
}

#[derive(Debug, PartialEq, Serialize)]
struct Tag {
    key: String,
    r#type: &'static str,
    value: serde_json::Value,
}

#[derive(Debug, Serialize)]
struct Log {
    timestamp: u64,
    fields: Vec<Tag>,
}

/// Spans of one trace.
pub(super) fn trace(trace_id: String, resource_spans: Vec<ResourceSpans>) -> Trace {
    let mut trace = Trace {
        trace_id,
        spans: Vec::new(),
        processes: BTreeMap::new(),
        warnings: None,
    };
    for resource_spans in resource_spans {
        let process = process(resource_spans.resource.unwrap_or_default());
        let process_id = trace.process_id(process);
        for scope_spans in resource_spans.scope_spans {
            let scope = scope_spans.scope.unwrap_or_default();
            let spans = scope_spans.spans.into_iter();
            let spans = spans.map(|made| span(made, &scope, process_id.clone()));
            trace.spans.extend(spans);
        }
    }
    trace.spans.sort_by_key(|span| span.start_time);
    trace
}

impl Trace {
    /// The key of a process, which is added if it is new.
    fn process_id(&mut self, process: Process) -> String {
        let known = self.processes.iter().find(|(_, known)| **known == process);
        if let Some((key, _)) = known {
            return key.clone();
        }
        let key = format!("p{}", self.processes.len() + 1);
        self.processes.insert(key.clone(), process);
        key
    }
}

fn process(resource: Resource) -> Process {
    let (mut service_name, mut tags) = (None, Vec::new());
    for attribute in resource.attributes {
        match attribute
            .value
            .as_ref()
            .and_then(|value| value.value.as_ref())
        {
            Some(Value::StringValue(name)) if attribute.key == "service.name" => {
                service_name = Some(name.clone());
            }
            _ => tags.push(tag(attribute)),
        }
    }
    Process {
        service_name: service_name.unwrap_or_else(|| NO_SERVICE.to_owned()),
        tags,
    }
}

fn span(span: OtlpSpan, scope: &InstrumentationScope, process_id: String) -> Span {
    let mut warnings = Vec::new();
    if span.start_time_unix_nano == 0 {
        warnings.push("the span has no start time");
    }
    let duration = span
        .end_time_unix_nano
        .checked_sub(span.start_time_unix_nano);
    if duration.is_none() {
        warnings.push("the span has no end after its start; its duration is not known");
    }
    let trace_id = hex::encode(&span.trace_id);
    let mut references = Vec::new();
    if !span.parent_span_id.is_empty() {
        references.push(Reference {
            ref_type: "CHILD_OF",
            trace_id: trace_id.clone(),
            span_id: hex::encode(&span.parent_span_id),
        });
    }
    references.extend(span.links.iter().filter_map(follows));
    let tags = tags(&span, scope);
    Span {
        trace_id,
        span_id: hex::encode(&span.span_id),
        // The flags of W3C; the higher bits are OTLP's own.
        flags: span.flags & 0xff,
        operation_name: span.name,
        references,
        start_time: span.start_time_unix_nano / 1_000,
        duration: duration.unwrap_or_default() / 1_000,
        tags: span.attributes.into_iter().map(tag).chain(tags).collect(),
        logs: span.events.into_iter().map(log).collect(),
        process_id,
        warnings: Some(warnings).filter(|warnings| !warnings.is_empty()),
    }
}

fn follows(link: &Link) -> Option<Reference> {
    let is_valid = !link.trace_id.is_empty() && !link.span_id.is_empty();
    is_valid.then(|| Reference {
        ref_type: "FOLLOWS_FROM",
        trace_id: hex::encode(&link.trace_id),
        span_id: hex::encode(&link.span_id),
    })
}

/// Tags that stand for fields of a span.
fn tags(span: &OtlpSpan, scope: &InstrumentationScope) -> Vec<Tag> {
    let mut tags = Vec::new();
    let mut add = |key: &str, text: &str| {
        if !text.is_empty() {
            tags.push(text_tag(key, text));
        }
    };
    add("otel.scope.name", &scope.name);
    add("otel.scope.version", &scope.version);
    let kind = match span.kind() {
        SpanKind::Unspecified => "",
        SpanKind::Internal => "internal",
        SpanKind::Server => "server",
        SpanKind::Client => "client",
        SpanKind::Producer => "producer",
        SpanKind::Consumer => "consumer",
    };
    add("span.kind", kind);
    add("w3c.tracestate", &span.trace_state);
    let status = span.status.clone().unwrap_or_default();
    match status.code() {
        StatusCode::Unset => {}
        StatusCode::Ok => add("otel.status_code", "OK"),
        StatusCode::Error => add("otel.status_code", "ERROR"),
    }
    add("otel.status_description", &status.message);
    if status.code() == StatusCode::Error {
        tags.push(Tag {
            key: "error".to_owned(),
            r#type: "bool",
            value: true.into(),
        });
    }
    tags
}

fn log(event: Event) -> Log {
    let mut fields = Vec::with_capacity(event.attributes.len() + 1);
    let names_itself = event
        .attributes
        .iter()
        .any(|attribute| attribute.key == "event");
    if !event.name.is_empty() && !names_itself {
        fields.push(text_tag("event", &event.name));
    }
    fields.extend(event.attributes.into_iter().map(tag));
    Log {
        timestamp: event.time_unix_nano / 1_000,
        fields,
    }
}

fn text_tag(key: &str, text: &str) -> Tag {
    Tag {
        key: key.to_owned(),
        r#type: "string",
        value: text.into(),
    }
}

fn tag(attribute: KeyValue) -> Tag {
    let value = attribute.value.and_then(|value| value.value);
    let (r#type, value) = match value {
        None | Some(Value::StringValueStrindex(_)) => ("string", "".into()),
        Some(Value::StringValue(text)) => ("string", text.into()),
        Some(Value::BoolValue(value)) => ("bool", value.into()),
        Some(Value::IntValue(value)) if value.abs_diff(0) > SAFE_INTEGER_MAX.unsigned_abs() => {
            ("int64", value.to_string().into())
        }
        Some(Value::IntValue(value)) => ("int64", value.into()),
        // JSON has no NaN and no infinity.
        Some(Value::DoubleValue(value)) if !value.is_finite() => {
            ("string", value.to_string().into())
        }
        Some(Value::DoubleValue(value)) => ("float64", value.into()),
        Some(Value::BytesValue(bytes)) => ("binary", STANDARD.encode(&bytes).into()),
        Some(value) => ("string", plain(value).to_string().into()),
    };
    Tag {
        key: attribute.key,
        r#type,
        value,
    }
}

/// A value as JSON without the names of its types.
fn plain(value: Value) -> serde_json::Value {
    let inner = |value: AnyValue| value.value.map_or(serde_json::Value::Null, plain);
    match value {
        Value::StringValue(text) => text.into(),
        Value::BoolValue(value) => value.into(),
        Value::IntValue(value) => value.into(),
        Value::DoubleValue(value) if value.is_finite() => json!(value),
        Value::DoubleValue(value) => value.to_string().into(),
        Value::BytesValue(bytes) => STANDARD.encode(&bytes).into(),
        Value::StringValueStrindex(_) => serde_json::Value::Null,
        Value::ArrayValue(array) => array.values.into_iter().map(inner).collect(),
        Value::KvlistValue(list) => {
            let entries = list.values.into_iter();
            let entries = entries.map(|entry| {
                (
                    entry.key,
                    entry.value.map_or(serde_json::Value::Null, inner),
                )
            });
            serde_json::Value::Object(entries.collect())
        }
    }
}
