//! Version 3: `{"result":..}` or `{"error":{"httpCode":..,"message":..}}`, as the gateway of its gRPC service gives it.

use std::sync::Arc;

use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value as JsonValue, json};

use super::super::peers::{Fault, Parameter, Wanted, later, otlp_of};
use super::{TRACES, TRACES_MAX, tags};
use crate::engine::Engine;
use crate::find::window::LOOKBACK;
use crate::find::{Condition, Window, names, traces};
use crate::trace::parse_id;

pub(super) fn routes() -> Router<Arc<Engine>> {
    Router::new()
        .route("/api/v3/services", get(services))
        .route("/api/v3/operations", get(operations))
        .route("/api/v3/traces/{id}", get(trace_by_id))
        .route("/api/v3/traces", get(search))
        .route("/api/v3/trace-summaries", get(summaries))
}

/// A fault in the form of version 3.
#[derive(Debug)]
struct Failed(Fault);

impl<E: Into<Fault>> From<E> for Failed {
    fn from(fault: E) -> Self {
        Self(fault.into())
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        let (status, message) = self.0.outward();
        let error = json!({"error": {"httpCode": status.as_u16(), "message": message}});
        later(status, (status, Json(error)).into_response())
    }
}

async fn services(wanted: Wanted) -> Result<Json<JsonValue>, Failed> {
    let window = wanted.window(None, None, LOOKBACK)?;
    let services = names::services(wanted.asked(), window).await?;
    Ok(Json(json!({"services": services})))
}

async fn operations(wanted: Wanted) -> Result<Json<JsonValue>, Failed> {
    let service = wanted.parameters.get("service");
    let service = service.ok_or(Fault::Missing { name: "service" })?;
    let mut conditions = vec![tags::service(service.text)];
    if let Some(kind) = wanted.parameters.first(&["spanKind", "span_kind"]) {
        conditions.push(tags::kind(kind)?);
    }
    let window = wanted.window(None, None, LOOKBACK)?;
    let condition = Condition::All(conditions);
    let operations = names::operations(wanted.asked(), &condition, window).await?;
    let operations = operations.into_iter().map(
        |operation| json!({"name": operation.name, "spanKind": operation.kind.to_lowercase()}),
    );
    Ok(Json(
        json!({"operations": operations.collect::<JsonValue>()}),
    ))
}

/// What stands around the items of the only list.
const BEFORE: &str = "{\"result\":{\"resourceSpans\":[";
const AFTER: &str = "]}}";

/// The times that a client may name beside the id are not needed to find it.
async fn trace_by_id(Path(id): Path<String>, wanted: Wanted) -> Result<Response, Failed> {
    let trace = wanted.trace(parse_id(&id)?).await?;
    Ok(otlp_of(BEFORE, &[trace], AFTER).await?)
}

async fn search(wanted: Wanted) -> Result<Response, Failed> {
    let (condition, window, limit) = searched(&wanted)?;
    let found = traces::search(wanted.asked(), &condition, window, limit).await?;
    if found.is_empty() {
        return Err(Failed(Fault::NothingFound));
    }
    let traces = wanted.traces(&found).await?;
    Ok(otlp_of(BEFORE, &traces, AFTER).await?)
}

async fn summaries(wanted: Wanted) -> Result<Json<JsonValue>, Failed> {
    let (condition, window, limit) = searched(&wanted)?;
    let asked = wanted.asked();
    let found = traces::search(asked, &condition, window, limit).await?;
    let orphans = traces::orphans(asked, &found).await?;
    let summaries = traces::summaries(asked, &found).await?;
    let summaries = summaries.iter().map(|summary| {
        let n_orphans = orphans.get(&summary.trace_id).copied();
        in_short(summary, n_orphans.unwrap_or_default())
    });
    Ok(Json(json!({"summaries": summaries.collect::<JsonValue>()})))
}

fn in_short(summary: &traces::Summary, n_orphans: u64) -> JsonValue {
    let services = summary.services.iter().map(|service| {
        let name = service.name.as_deref().unwrap_or(super::model::NO_SERVICE);
        json!({"name": name, "spanCount": service.n_spans, "errorSpanCount": service.n_errors})
    });
    let mut short = json!({
        "traceId": summary.trace_id,
        "spanCount": summary.n_spans(),
        "errorSpanCount": summary.n_errors(),
        "orphanSpanCount": n_orphans,
        "services": services.collect::<JsonValue>(),
    });
    let root = summary.root.as_ref();
    let texts = [
        (
            "rootServiceName",
            root.and_then(|root| root.service_name.clone()),
        ),
        ("rootOperationName", root.and_then(|root| root.name.clone())),
        (
            "minStartTimeUnixNano",
            summary.start_unix_nano.map(|nanos| nanos.to_string()),
        ),
        (
            "maxEndTimeUnixNano",
            summary.end_unix_nano.map(|nanos| nanos.to_string()),
        ),
    ];
    for (key, text) in texts {
        if let Some(text) = text {
            short[key] = text.into();
        }
    }
    short
}

/// Conditions, time and number of a search. Each parameter has a name of today and one of before.
fn searched(wanted: &Wanted) -> Result<(Condition, Window, u64), Fault> {
    let parameters = &wanted.parameters;
    parameters.refuse(&[
        "query.filter",
        "query.orderBy",
        "query.order_by",
        "query.pagination.pageSize",
        "query.pagination.pageToken",
    ])?;
    let mut conditions = Vec::new();
    let service = parameters.first(&["query.serviceName", "query.service_name"]);
    conditions.extend(service.map(|service| tags::service(service.text)));
    let names = [
        "query.operationName",
        "query.operation_name",
        "query.spanName",
        "query.span_name",
    ];
    let operation = parameters.first(&names);
    conditions.extend(operation.map(|operation| tags::operation(operation.text)));
    if let Some(attributes) = parameters.get("query.attributes") {
        conditions.append(&mut tags::of_json(attributes)?);
    }
    let min = parameters.first(&["query.durationMin", "query.duration_min"]);
    let max = parameters.first(&["query.durationMax", "query.duration_max"]);
    conditions.append(&mut tags::durations(min, max)?);

    let start = parameters.first(&["query.startTimeMin", "query.start_time_min"]);
    let start = start.map(Parameter::rfc3339).transpose()?;
    let end = parameters.first(&["query.startTimeMax", "query.start_time_max"]);
    let end = end.map(Parameter::rfc3339).transpose()?;
    let window = wanted.window(start, end, LOOKBACK)?;

    let names = [
        "query.searchDepth",
        "query.search_depth",
        "query.numTraces",
        "query.num_traces",
    ];
    let limit = parameters
        .first(&names)
        .map(|limit| limit.count(TRACES_MAX));
    Ok((
        Condition::All(conditions),
        window,
        limit.transpose()?.unwrap_or(TRACES),
    ))
}
