//! Rows of a trace as the OTLP that it was.

use ::otlp::reframe::Reframer;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, TracesData};
use prost::Message as _;
use tables::spans::StoredSpans;
use tokio::task::yield_now;

use super::{Error, Result, StoredTrace};

/// Levels of lists and maps that a value may have, itself included. Readers of protobuf stop at 100 messages, a level
/// is three of them at most, and a span's event has seven around its values.
pub(crate) const NESTING_MAX: usize = 30;

/// Rows that are turned into OTLP at once: a few milliseconds of work.
const ROWS_PER_PIECE: usize = 256;

impl StoredTrace {
    /// The trace as bytes of `TracesData` (`trace.proto`), in pieces that together are the whole, some hundred spans
    /// each. Of [`super::Order::Resource`], neighbours share their resource.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = Result<Vec<u8>>> + Send + '_ {
        let rows = self.batches.iter().flat_map(|batch| {
            let starts = (0..batch.num_rows()).step_by(ROWS_PER_PIECE);
            starts.map(|start| {
                let n_rows = ROWS_PER_PIECE.min(batch.num_rows() - start);
                batch.slice(start, n_rows)
            })
        });
        rows.map(|rows| {
            let mut piece = Reframer::new();
            for span in StoredSpans::over(&rows)?.iter() {
                piece.push(&span?.restore_within(NESTING_MAX).at());
            }
            Ok(piece.finish())
        })
    }

    /// The trace as messages; other tasks get their turn between pieces.
    pub(crate) async fn resource_spans(&self) -> Result<Vec<ResourceSpans>> {
        let mut all = Vec::new();
        for piece in self.pieces() {
            let decoded = TracesData::decode(piece?.as_slice()).map_err(|source| Error::Otlp {
                source: Box::new(source),
            })?;
            for resource_spans in decoded.resource_spans {
                add(&mut all, resource_spans);
            }
            yield_now().await;
        }
        Ok(all)
    }
}

/// Adds spans, to the last resource and scope where they are of these.
fn add(all: &mut Vec<ResourceSpans>, mut more: ResourceSpans) {
    let is_last = |last: &&mut ResourceSpans| {
        last.resource == more.resource && last.schema_url == more.schema_url
    };
    let Some(last) = all.last_mut().filter(is_last) else {
        all.push(more);
        return;
    };
    for scope_spans in more.scope_spans.drain(..) {
        let is_last = |last: &&mut ScopeSpans| {
            last.scope == scope_spans.scope && last.schema_url == scope_spans.schema_url
        };
        match last.scope_spans.last_mut().filter(is_last) {
            Some(last) => last.spans.extend(scope_spans.spans),
            None => last.scope_spans.push(scope_spans),
        }
    }
}
