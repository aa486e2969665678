//! Rows of a trace as the OTLP that it was.

use ::arrow::array::RecordBatch;
use ::otlp::Signal;
use ::otlp::json::from_protobuf;
use ::otlp::reframe::Reframer;
use bytes::Bytes;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, TracesData};
use prost::Message as _;
use tables::spans::StoredSpans;
use tokio::task::yield_now;

use super::{Error, Parts, Result, StoredTrace};

/// Levels of lists and maps that a value may have, itself included. Readers of protobuf stop at 100 messages, a level
/// is three of them at most, and a span's event has seven around its values.
pub(super) const NESTING_MAX: usize = 30;

/// Rows that are turned into OTLP at once: a few milliseconds of work.
const ROWS_PER_PIECE: usize = 256;

/// What stands around the spans in OTLP/JSON.
const JSON_HEAD: &str = "{\"resourceSpans\":[";
const JSON_TAIL: &str = "]}";

/// The trace as `TracesData` (`trace.proto`), the same on the wire as an `ExportTraceServiceRequest`. Of
/// [`super::Order::Resource`], neighbours share their resource.
pub(crate) fn protobuf(trace: StoredTrace) -> Parts {
    Box::new(trace.pieces().map(|piece| piece.map(Bytes::from)))
}

/// The same as OTLP/JSON.
pub(crate) fn json(trace: StoredTrace) -> Parts {
    let pieces = trace.json_items().enumerate().map(|(number, items)| {
        let between = if number == 0 { "" } else { "," };
        Ok(Bytes::from(format!("{between}{}", items?)))
    });
    let head = std::iter::once(Ok(Bytes::from_static(JSON_HEAD.as_bytes())));
    let tail = std::iter::once(Ok(Bytes::from_static(JSON_TAIL.as_bytes())));
    Box::new(head.chain(pieces).chain(tail))
}

/// The rows, some hundred at a time.
fn slices(batches: Vec<RecordBatch>) -> impl Iterator<Item = RecordBatch> + Send {
    batches.into_iter().flat_map(|batch| {
        let n_rows = batch.num_rows();
        let starts = (0..n_rows).step_by(ROWS_PER_PIECE);
        starts.map(move |start| batch.slice(start, ROWS_PER_PIECE.min(n_rows - start)))
    })
}

/// Rows as bytes of `TracesData`.
fn piece(rows: &RecordBatch) -> Result<Vec<u8>> {
    let mut piece = Reframer::new();
    for span in StoredSpans::over(rows)?.iter() {
        piece.push(&span?.restore_within(NESTING_MAX).at());
    }
    Ok(piece.finish())
}

impl StoredTrace {
    /// The trace as bytes of `TracesData`, some hundred spans in each; one after the other they are one message.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = Result<Vec<u8>>> + Send + use<> {
        slices(self.batches.clone()).map(|rows| piece(&rows))
    }

    /// The items of the list `resourceSpans` in OTLP/JSON, of some hundred spans each, without a comma around them.
    pub(crate) fn json_items(&self) -> impl Iterator<Item = Result<String>> + Send + use<> {
        self.pieces().map(|piece| {
            let text = from_protobuf(Signal::Traces, &piece?).map_err(Error::writing)?;
            let items = text.strip_prefix(JSON_HEAD);
            let items = items.and_then(|text| text.strip_suffix(JSON_TAIL));
            let items = items.ok_or_else(|| Error::writing("a piece without spans"))?;
            Ok(items.to_owned())
        })
    }

    /// The trace as messages; other tasks get their turn between pieces.
    pub(crate) async fn resource_spans(&self) -> Result<Vec<ResourceSpans>> {
        let mut all = Vec::new();
        for piece in self.pieces() {
            let decoded = TracesData::decode(piece?.as_slice()).map_err(Error::writing)?;
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
