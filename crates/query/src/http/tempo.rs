//! The query API of Tempo, as Grafana's data source calls it.
//!
//! | path | answer |
//! |---|---|
//! | `/api/echo`, `/ready`, `/api/status/buildinfo` | that something is there, and what it is |
//! | `/api/v2/traces/{id}` | `TraceByIDResponse`: protobuf where `Accept` says `application/protobuf`, else JSON |
//! | `/api/traces/{id}` | `Trace`: the same two; only below `/tempo`, see below |
//! | `/api/search?q=` or `?tags=&minDuration=&maxDuration=` | traces with their matching spans, with `start`, `end`, `limit`, `spss` |
//! | `/api/search/tags`, `/api/v2/search/tags` | keys of attributes by scope, with `scope`, `start`, `end`, `limit` |
//! | `/api/search/tag/{tag}/values`, `/api/v2/search/tag/{tag}/values` | values, the most frequent first, with `q` |
//!
//! `q` is the part of TraceQL that [`traceql`] describes. `tags` is logfmt: values are parts of what the attribute has,
//! in whatever case; `minDuration` and `maxDuration` are then of the whole trace.
//!
//! In JSON ids are hex, as OTLP has it; Tempo itself writes base64 there.
//!
//! # What it cannot answer
//!
//! - Only stored spans are found, those of kept traces. What was not kept is in `traces` and `requests`, by SQL.
//! - Metrics of TraceQL (`/api/metrics/query_range`) are answered by 501, other TraceQL than the subset by 400.
//! - A map holds text, so every value of an attribute without a column of its own is offered as a text.
//! - Without `start` and `end` a search looks at the last [`LOOKBACK`], keys and values at the last [`RECENT`].
//! - Streaming (gRPC) is not offered; leave it off in the data source.
//!
//! # Decided
//!
//! **Prefixes.** Jaeger and Tempo both have `/api/traces/{id}`. Below `/jaeger` and `/tempo` each API is whole. At the
//! root are both, and that one path is Jaeger's there: Grafana's data source of Tempo asks `/api/v2/traces/{id}` first.
//!
//! [`LOOKBACK`]: crate::find::window::LOOKBACK
//! [`RECENT`]: crate::find::window::RECENT

mod logfmt;
mod search;
mod tags;
mod trace;
pub(crate) mod traceql;

use std::sync::Arc;

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value as JsonValue, json};

use super::peers::{Fault, Parameter, Wanted, later};
use crate::engine::Engine;
use crate::find::{Condition, Window};

/// The version of Tempo whose API this is, for clients that switch features by it.
const VERSION: &str = "2.9.0";

/// Routes below the prefix.
pub(super) fn routes() -> Router<Arc<Engine>> {
    shared_routes()
        .route("/api/traces/{id}", get(trace::first_version))
        .route("/ready", get(|| async { "ready\n" }))
}

/// Those that no other API has.
pub(super) fn shared_routes() -> Router<Arc<Engine>> {
    Router::new()
        .route("/api/echo", get(|| async { "echo" }))
        .route("/api/status/buildinfo", get(build))
        .route("/api/v2/traces/{id}", get(trace::second_version))
        .route("/api/search", get(search::search))
        .route("/api/search/tags", get(tags::keys))
        .route("/api/v2/search/tags", get(tags::scoped_keys))
        .route("/api/search/tag/{tag}/values", get(tags::values))
        .route("/api/v2/search/tag/{tag}/values", get(tags::typed_values))
        .route("/api/metrics/query_range", get(metrics))
        .route("/api/metrics/query", get(metrics))
}

async fn build() -> Json<JsonValue> {
    Json(json!({
        "version": VERSION,
        "revision": concat!("whyslow-", env!("CARGO_PKG_VERSION")),
        "branch": "",
        "buildDate": "",
        "buildUser": "",
        "goVersion": "",
    }))
}

async fn metrics() -> Failed {
    Failed(Fault::NotBuilt {
        what: "a metric made by TraceQL",
    })
}

/// A fault in Tempo's form: its text alone.
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
        let plain = [(CONTENT_TYPE, "text/plain; charset=utf-8")];
        later(status, (status, plain, message).into_response())
    }
}

/// The time that a request names in seconds, or the last `lookback`.
fn window(wanted: &Wanted, lookback: std::time::Duration) -> Result<Window, Fault> {
    let seconds = |parameter: Parameter<'_>| parameter.time(1_000_000_000);
    let start = wanted.parameters.get("start").map(seconds).transpose()?;
    let end = wanted.parameters.get("end").map(seconds).transpose()?;
    // Whole seconds: the last one belongs to it.
    let end = end.map(|end| end.saturating_add(999_999_999));
    wanted.window(start, end, lookback)
}

/// The condition of `q`; every span without one.
fn condition(wanted: &Wanted) -> Result<Condition, Fault> {
    let Some(query) = wanted.parameters.get("q") else {
        return Ok(Condition::All(Vec::new()));
    };
    traceql::parse(query.text).map_err(|source| Fault::Condition {
        name: "q",
        source: Box::new(source),
    })
}
