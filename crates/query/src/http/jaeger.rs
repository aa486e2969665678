//! The query API of Jaeger: version 3, and the legacy paths that Grafana's data source and the Jaeger UI call.
//!
//! | path | answer |
//! |---|---|
//! | `/api/v3/services` | `{"services":[..]}` |
//! | `/api/v3/operations?service=&span_kind=` | `{"operations":[{"name","spanKind"}]}` |
//! | `/api/v3/traces/{id}` | `{"result":{"resourceSpans":[..]}}`, OTLP JSON |
//! | `/api/v3/traces?query.service_name=..` | the same of all traces found |
//! | `/api/v3/trace-summaries?query.service_name=..` | `{"summaries":[..]}` |
//! | `/api/traces/{id}`, `/api/traces?service=..`, `/api/traces?traceID=..` | legacy model, see [`model`] |
//! | `/api/services`, `/api/services/{service}/operations`, `/api/operations?service=&spanKind=` | names |
//! | `/api/dependencies?endTs=&lookback=` | `{"data":[{"parent","child","callCount"}]}` |
//!
//! Parameters of version 3 are understood as `query.serviceName` and as `query.service_name`.
//!
//! A search finds traces with a span that meets all conditions (service, operation, tags, duration of the span), the
//! newest first; without a time, among spans that started within the last [`LOOKBACK`]. Tags are compared with the
//! span's attributes, or else with the resource's. The tags that stand for fields of a span in the legacy model are
//! understood too (`error=true`, `span.kind`, `otel.status_code` and so on).
//!
//! # What it cannot answer
//!
//! - Only stored spans are found, those of kept traces. What was not kept is in `traces` and `requests`, by SQL.
//! - Attributes of events and links are not searched, except the type and message of an exception.
//! - `/api/metrics/..`, `/api/archive/..` and `/api/transform` are answered by 501; filters, orders and pages of
//!   version 3 (`query.filter`, `query.order_by`, `query.pagination..`) by 400.
//! - Calls between services are counted in the newest [`CALLS_TRACES_MAX`] stored traces of the time asked for, and are
//!   not extrapolated to traces that were not kept.
//! - A search whose traces together exceed `trace_spans_max` spans is refused; ask for fewer traces.
//!
//! [`LOOKBACK`]: crate::find::window::LOOKBACK
//! [`CALLS_TRACES_MAX`]: crate::find::names::CALLS_TRACES_MAX

mod legacy;
mod model;
mod tags;
mod v3;

use std::sync::Arc;

use axum::Router;

use crate::engine::Engine;

/// Traces of one search; the Jaeger UI asks for at most 1,500.
const TRACES_MAX: u64 = 1_500;

/// Traces of a search that names no number.
const TRACES: u64 = 100;

/// Routes below `/api`.
pub(super) fn routes() -> Router<Arc<Engine>> {
    v3::routes().merge(legacy::routes())
}
