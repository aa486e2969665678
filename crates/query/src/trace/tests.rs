//! Traces that are stored, and what comes back of them.

mod absent;
mod limits;
mod round_trip;

use ::otlp::TraceId;
use opentelemetry_proto::tonic::trace::v1::ResourceSpans;

use super::{Caller, Order, Result, StoredTrace, read};
use crate::metrics::Entrance;
use crate::tests::support::Fixture;

const CALLER: Caller = Caller {
    asker: None,
    entrance: Entrance::Inside,
};

async fn stored(fixture: &Fixture, trace_id: TraceId) -> Result<StoredTrace> {
    read(&fixture.engine, trace_id, CALLER, Order::Resource).await
}

async fn restored(fixture: &Fixture, trace_id: TraceId) -> Vec<ResourceSpans> {
    let trace = stored(fixture, trace_id).await.unwrap();
    trace.resource_spans().await.unwrap()
}
