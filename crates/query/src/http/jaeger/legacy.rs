//! The paths without a version: `{"data":..,"total":..,"limit":0,"offset":0,"errors":null}`.

use std::sync::Arc;

use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use otlp::TraceId;
use serde::Serialize;
use serde_json::{Value as JsonValue, json};

use super::super::peers::{Fault, Parameter, Wanted, later};
use super::{TRACES, TRACES_MAX, model, tags};
use crate::engine::Engine;
use crate::find::window::{LOOKBACK, parse_duration};
use crate::find::{Condition, Window, names, traces};
use crate::trace::{self, StoredTrace, parse_id};

/// Ids in one request for several traces.
const IDS_MAX: usize = 100;

const MICRO: i64 = 1_000;
const MILLI: i64 = 1_000_000;

pub(super) fn routes() -> Router<Arc<Engine>> {
    Router::new()
        .route("/api/services", get(services))
        .route("/api/services/{service}/operations", get(operations_of))
        .route("/api/operations", get(operations))
        .route("/api/traces/{id}", get(trace_by_id))
        .route("/api/traces", get(search))
        .route("/api/dependencies", get(dependencies))
        .route(
            "/api/archive/{id}",
            post(|| async { not_built("the archive") }),
        )
        .route(
            "/api/transform",
            post(|| async { not_built("a trace that is sent") }),
        )
        .route(
            "/api/metrics/{metric}",
            get(|| async { not_built("a metric") }),
        )
}

#[derive(Debug, Serialize)]
struct Envelope {
    data: JsonValue,
    total: usize,
    limit: u64,
    offset: u64,
    errors: Option<Vec<JsonValue>>,
}

impl Envelope {
    fn of(data: JsonValue, total: usize) -> Self {
        Self {
            data,
            total,
            limit: 0,
            offset: 0,
            errors: None,
        }
    }
}

type Answer = Result<Envelope, Failed>;

/// A fault in the form of these paths.
#[derive(Debug)]
struct Failed(Fault);

impl<E: Into<Fault>> From<E> for Failed {
    fn from(fault: E) -> Self {
        Self(fault.into())
    }
}

impl IntoResponse for Envelope {
    fn into_response(self) -> Response {
        Json(self).into_response()
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        let (status, message) = self.0.outward();
        let error = json!({"code": status.as_u16(), "msg": message});
        let envelope = Envelope {
            errors: Some(vec![error]),
            ..Envelope::of(JsonValue::Null, 0)
        };
        later(status, (status, envelope).into_response())
    }
}

fn not_built(what: &'static str) -> Failed {
    Failed(Fault::NotBuilt { what })
}

async fn services(wanted: Wanted) -> Answer {
    let window = wanted.window(None, None, LOOKBACK)?;
    let names = names::services(wanted.asked(), window).await?;
    let total = names.len();
    Ok(Envelope::of(names.into(), total))
}

async fn operations_of(Path(service): Path<String>, wanted: Wanted) -> Answer {
    let window = wanted.window(None, None, LOOKBACK)?;
    let condition = tags::service(&service);
    let operations = names::operations(wanted.asked(), &condition, window).await?;
    let mut names: Vec<String> = operations
        .into_iter()
        .map(|operation| operation.name)
        .collect();
    names.dedup();
    let total = names.len();
    Ok(Envelope::of(names.into(), total))
}

async fn operations(wanted: Wanted) -> Answer {
    let service = wanted.parameters.get("service");
    let service = service.ok_or(Fault::Missing { name: "service" })?;
    let mut conditions = vec![tags::service(service.text)];
    if let Some(kind) = wanted.parameters.get("spanKind") {
        conditions.push(tags::kind(kind)?);
    }
    let window = wanted.window(None, None, LOOKBACK)?;
    let condition = Condition::All(conditions);
    let operations = names::operations(wanted.asked(), &condition, window).await?;
    let total = operations.len();
    let operations = operations.into_iter().map(
        |operation| json!({"name": operation.name, "spanKind": operation.kind.to_lowercase()}),
    );
    Ok(Envelope::of(operations.collect(), total))
}

async fn dependencies(wanted: Wanted) -> Answer {
    let parameters = &wanted.parameters;
    let time = |parameter: Parameter<'_>| parameter.time(MILLI);
    let end = parameters.get("endTs").map(time).transpose()?;
    let end = end.unwrap_or(wanted.now_unix_nano);
    let lookback = parameters.get("lookback").map(time).transpose()?;
    let start = lookback.map(|lookback| end.saturating_sub(lookback));
    let window = wanted.window(start, Some(end), LOOKBACK)?;
    let calls = names::calls(wanted.asked(), window).await?;
    let service = parameters.get("service").map(|service| service.text);
    let calls = calls.into_iter().filter(|calls| {
        service.is_none_or(|service| calls.parent == service || calls.child == service)
    });
    let links = calls.map(
        |calls| json!({"parent": calls.parent, "child": calls.child, "callCount": calls.n_calls}),
    );
    Ok(Envelope::of(links.collect(), 0))
}

async fn trace_by_id(Path(id): Path<String>, wanted: Wanted) -> Answer {
    let trace = wanted.trace(parse_id(&id)?).await?;
    let trace = in_model(trace).await?;
    Ok(Envelope::of(json!([trace]), 0))
}

async fn search(wanted: Wanted) -> Answer {
    let ids: Vec<TraceId> = wanted
        .parameters
        .all("traceID")
        .map(|id| parse_id(id.text))
        .collect::<Result<_, _>>()?;
    if !ids.is_empty() {
        return traces_by_id(&wanted, ids).await;
    }
    let (condition, window) = searched(&wanted)?;
    let limit = wanted
        .parameters
        .get("limit")
        .map(|limit| limit.count(TRACES_MAX));
    let limit = limit.transpose()?.unwrap_or(TRACES);
    let found = traces::search(wanted.asked(), &condition, window, limit).await?;
    let mut data = Vec::with_capacity(found.len());
    for trace in wanted.traces(&found).await? {
        data.push(json!(in_model(trace).await?));
    }
    Ok(Envelope::of(data.into(), 0))
}

/// Conditions and time of a search.
fn searched(wanted: &Wanted) -> Result<(Condition, Window), Fault> {
    let parameters = &wanted.parameters;
    let service = parameters.get("service");
    let service = service.ok_or(Fault::Missing { name: "service" })?;
    let mut conditions = vec![tags::service(service.text)];
    let operation = parameters
        .get("operation")
        .filter(|operation| operation.text != "all");
    conditions.extend(operation.map(|operation| tags::operation(operation.text)));
    for tag in parameters.all("tag").take(tags::TAGS_MAX) {
        conditions.push(tags::of_pair(tag)?);
    }
    if let Some(all) = parameters.get("tags") {
        conditions.append(&mut tags::of_json(all)?);
    }
    let (min, max) = (parameters.get("minDuration"), parameters.get("maxDuration"));
    conditions.append(&mut tags::durations(min, max)?);

    let time = |parameter: Parameter<'_>| parameter.time(MICRO);
    let start = parameters.get("start").map(time).transpose()?;
    let end = parameters.get("end").map(time).transpose()?;
    // The UI sends what was chosen beside the times that it made of it; `custom` is none.
    let lookback = parameters
        .get("lookback")
        .and_then(|text| parse_duration(text.text));
    let lookback = lookback.and_then(|nanos| u64::try_from(nanos).ok());
    let lookback = lookback.map_or(LOOKBACK, std::time::Duration::from_nanos);
    Ok((
        Condition::All(conditions),
        wanted.window(start, end, lookback)?,
    ))
}

/// The traces with these ids; those that are not stored are named in `errors`.
async fn traces_by_id(wanted: &Wanted, ids: Vec<TraceId>) -> Answer {
    let (mut data, mut errors) = (Vec::new(), Vec::new());
    for id in ids.into_iter().take(IDS_MAX) {
        match wanted.trace(id).await {
            Ok(trace) => data.push(json!(in_model(trace).await?)),
            Err(Fault::NotFound { why }) => {
                errors.push(json!({"code": 404, "msg": why, "traceID": id.to_string()}));
            }
            Err(fault) => return Err(Failed(fault)),
        }
    }
    Ok(Envelope {
        errors: Some(errors).filter(|errors| !errors.is_empty()),
        ..Envelope::of(data.into(), 0)
    })
}

async fn in_model(stored: StoredTrace) -> trace::Result<model::Trace> {
    let id = stored.trace_id.to_string();
    Ok(model::trace(id, stored.resource_spans().await?))
}
