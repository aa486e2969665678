//! Traces by conditions.

use axum::Json;
use serde_json::{Value as JsonValue, json};

use super::super::peers::{Fault, Parameter, Wanted};
use super::{Failed, condition, logfmt, window};
use crate::find::traces::{self, MatchingSpan, Summary};
use crate::find::window::LOOKBACK;
use crate::find::{Condition, Field, Operator, Scope, Value};

/// Traces of one search, and of one that names no number.
const TRACES_MAX: u64 = 1_000;
const TRACES: u64 = 20;

/// Matching spans that are shown of a trace, and without a number.
const SPANS_MAX: u64 = 100;
const SPANS: u64 = 3;

/// What Tempo says of a trace whose root it does not have.
const NO_ROOT: &str = "<root span not yet received>";

pub(super) async fn search(wanted: Wanted) -> Result<Json<JsonValue>, Failed> {
    let parameters = &wanted.parameters;
    let window = window(&wanted, LOOKBACK)?;
    let limit = parameters.get("limit").map(|limit| limit.count(TRACES_MAX));
    let limit = limit.transpose()?.unwrap_or(TRACES);
    let spans_max = parameters.get("spss").map(|spans| spans.count(SPANS_MAX));
    let spans_max = spans_max.transpose()?.unwrap_or(SPANS);
    let condition = match parameters.get("q") {
        Some(_) => condition(&wanted)?,
        None => by_tags(&wanted)?,
    };
    let asked = wanted.asked();
    let found = traces::search(asked, &condition, window, limit).await?;
    let summaries = traces::summaries(asked, &found).await?;
    let fields = condition.fields();
    let mut spans =
        traces::matching_spans(asked, &found, &condition, window, spans_max, &fields).await?;
    let traces = found.iter().zip(&summaries).map(|(found, summary)| {
        let spans = spans.remove(&found.trace_id).unwrap_or_default();
        trace(summary, found.n_matched, spans, &fields)
    });
    let traces: JsonValue = traces.collect();
    Ok(Json(json!({"traces": traces, "metrics": {}})))
}

fn trace(
    summary: &Summary,
    n_matched: u64,
    spans: Vec<MatchingSpan>,
    fields: &[&Field],
) -> JsonValue {
    let spans: JsonValue = spans
        .into_iter()
        .map(|matching| span(matching, fields))
        .collect();
    let root = summary.root.as_ref();
    let root_service = root.and_then(|root| root.service_name.as_deref());
    let root_name = root.map_or(NO_ROOT, |root| root.name.as_deref().unwrap_or_default());
    let services = summary.services.iter().map(|service| {
        let name = service.name.clone().unwrap_or_default();
        let stats = json!({"spanCount": service.n_spans, "errorCount": service.n_errors});
        (name, stats)
    });
    let services: serde_json::Map<String, JsonValue> = services.collect();
    let mut trace = json!({
        "traceID": summary.trace_id,
        "rootServiceName": root_service.unwrap_or_default(),
        "rootTraceName": root_name,
        "spanSets": [{"matched": n_matched, "spans": spans}],
        "serviceStats": services,
    });
    if let Some(nanos) = summary.start_unix_nano {
        trace["startTimeUnixNano"] = nanos.to_string().into();
    }
    if let Some(nanos) = summary.duration_ns() {
        trace["durationMs"] = (nanos / 1_000_000).into();
    }
    trace
}

fn span(span: MatchingSpan, fields: &[&Field]) -> JsonValue {
    let attributes = fields.iter().zip(span.fields).filter_map(|(field, text)| {
        let text = match field {
            // They stand beside the attributes.
            Field::Name | Field::Duration | Field::SpanId | Field::TraceId => return None,
            Field::Status | Field::Kind => text?.to_lowercase(),
            _ => text?,
        };
        Some(json!({"key": key(field), "value": {"stringValue": text}}))
    });
    let attributes: JsonValue = attributes.collect();
    let mut json = json!({
        "spanID": span.span_id,
        "name": span.name.unwrap_or_default(),
        "attributes": attributes,
    });
    if let Some(nanos) = span.start_time_unix_nano {
        json["startTimeUnixNano"] = nanos.to_string().into();
    }
    if let Some(nanos) = span.duration_ns {
        json["durationNanos"] = nanos.to_string().into();
    }
    json
}

/// Name of a field in a result.
fn key(field: &Field) -> &str {
    match field {
        Field::Name => "name",
        Field::Status => "status",
        Field::StatusMessage => "statusMessage",
        Field::Kind => "kind",
        Field::Duration => "duration",
        Field::TraceId => "trace:id",
        Field::SpanId => "span:id",
        Field::ParentSpanId => "span:parentID",
        Field::ScopeName => "instrumentation:name",
        Field::ScopeVersion => "instrumentation:version",
        Field::TraceDuration => "traceDuration",
        Field::RootName => "rootName",
        Field::RootServiceName => "rootServiceName",
        Field::Attribute(_, key) => key,
    }
}

/// The condition of `tags`, `minDuration` and `maxDuration`.
fn by_tags(wanted: &Wanted) -> Result<Condition, Fault> {
    let mut conditions = Vec::new();
    if let Some(tags) = wanted.parameters.get("tags") {
        let pairs = logfmt::parse(tags.text).map_err(|source| Fault::Condition {
            name: "tags",
            source: Box::new(source),
        })?;
        conditions.extend(pairs.into_iter().map(|(key, value)| by_tag(&key, value)));
    }
    let bounds = [
        (
            wanted.parameters.get("minDuration"),
            Operator::GreaterOrEqual,
        ),
        (wanted.parameters.get("maxDuration"), Operator::LessOrEqual),
    ];
    for (bound, operator) in bounds {
        if let Some(nanos) = bound.map(Parameter::duration).transpose()? {
            let field = Field::TraceDuration;
            conditions.push(Condition::test(field, operator, Value::Int(nanos)));
        }
    }
    Ok(Condition::All(conditions))
}

/// Besides attributes there are names for fields of a span and of its trace.
fn by_tag(key: &str, value: String) -> Condition {
    let contains = |field| Condition::test(field, Operator::Contains, Value::Text(value.clone()));
    let status = |status: String| {
        let status = Value::Text(status.to_uppercase());
        Condition::test(Field::Status, Operator::Equal, status)
    };
    match key {
        "name" => contains(Field::Name),
        "status.code" | "status" => status(value),
        "error" if value == "true" => status("error".to_owned()),
        "root.name" => contains(Field::RootName),
        "root.service.name" => contains(Field::RootServiceName),
        key => contains(Field::Attribute(Scope::Either, key.to_owned())),
    }
}
