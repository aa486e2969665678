//! Stored traces for the answers of other APIs.

use std::collections::HashMap;

use arrow::array::{AsArray as _, RecordBatch};
use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use datafusion::common::utils::memory::get_record_batch_memory_size;
use futures::StreamExt;
use otlp::TraceId;

use super::{Fault, Wanted};
use crate::find::Draft;
use crate::find::traces::{Found, IDS_PER_STATEMENT, rows_of};
use crate::trace::{self, Order, StoredTrace, why_absent};

impl Wanted {
    /// One trace, or why it is not there.
    pub(in super::super) async fn trace(&self, id: TraceId) -> Result<StoredTrace, Fault> {
        let trace = trace::read(&self.engine, id, self.caller, Order::Resource).await?;
        if trace.is_empty() {
            let absence = why_absent(&self.engine, id, self.caller).await?;
            let why = absence.explanation(id);
            return Err(Fault::NotFound { why });
        }
        Ok(trace)
    }

    /// The traces that a search has found, in the same order; together they may be as large as a single one.
    pub(in super::super) async fn traces(
        &self,
        found: &[Found],
    ) -> Result<Vec<StoredTrace>, Fault> {
        let mut traces: HashMap<String, StoredTrace> = HashMap::new();
        let (mut spans_left, mut bytes_left) = {
            let config = self.engine.config();
            (config.trace_spans_max, config.memory_bytes())
        };
        for part in found.chunks(IDS_PER_STATEMENT) {
            let mut draft = Draft::default();
            let rows = rows_of(part, &mut draft);
            let columns = Order::Resource.columns();
            let text = format!("SELECT * FROM spans WHERE {rows} ORDER BY trace_id, {columns}");
            let mut question = self.caller.question(text, draft.parameters);
            question.rows = Some(spans_left);
            let mut answer = self.engine.ask(question).await?;
            while let Some(batch) = answer.next().await {
                let batch = batch?;
                let n_bytes = get_record_batch_memory_size(&batch);
                bytes_left = bytes_left
                    .checked_sub(n_bytes)
                    .ok_or(self.too_much(found))?;
                add(&mut traces, &batch)?;
            }
            if answer.is_truncated() {
                return Err(self.too_much(found));
            }
            spans_left -= answer.n_rows();
        }
        let in_order = found
            .iter()
            .filter_map(|found| traces.remove(&found.trace_id));
        Ok(in_order.collect())
    }

    fn too_much(&self, found: &[Found]) -> Fault {
        let config = self.engine.config();
        Fault::TooMuch {
            n_traces: found.len(),
            spans_max: config.trace_spans_max,
            memory_mib: config.memory_mib,
        }
    }
}

/// Adds rows, which are sorted by trace, each to its trace.
fn add(traces: &mut HashMap<String, StoredTrace>, batch: &RecordBatch) -> Result<(), Fault> {
    let ids = batch.column_by_name("trace_id");
    let ids = ids.and_then(|ids| ids.as_string_opt::<i32>());
    let ids = ids.ok_or(tables::spans::ReadError::Column { column: "trace_id" });
    let ids = ids.map_err(trace::Error::from)?;
    let mut start = 0;
    while start < batch.num_rows() {
        let id = ids.value(start);
        let n_rows = (start..batch.num_rows())
            .take_while(|row| ids.value(*row) == id)
            .count();
        let trace_id = TraceId::parse_hex(id);
        let trace_id = trace_id
            .map_err(|_none| trace::Error::from(tables::spans::ReadError::Id { row: start }))?;
        let trace = traces.entry(id.to_owned()).or_insert_with(|| StoredTrace {
            trace_id,
            batches: Vec::new(),
            n_spans: 0,
        });
        trace.batches.push(batch.slice(start, n_rows));
        trace.n_spans += n_rows;
        start += n_rows;
    }
    Ok(())
}

/// The `ResourceSpans` of all traces as OTLP JSON, between what comes before and after the items of their list. Other
/// tasks get their turn meanwhile.
pub(in super::super) async fn otlp_of(
    before: &str,
    traces: &[StoredTrace],
    after: &str,
) -> Result<Response, Fault> {
    let mut body = before.to_owned();
    for items in traces.iter().flat_map(StoredTrace::json_items) {
        body.extend((!body.ends_with('[')).then_some(','));
        body.push_str(&items?);
        tokio::task::yield_now().await;
    }
    body.push_str(after);
    Ok(([(CONTENT_TYPE, "application/json")], Body::from(body)).into_response())
}
