//! The spans of one undecided trace: 32 bytes each.

use otlp::SpanId;

use crate::decision::SpanHandle;

/// A span that waited for its trace's decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PendingSpan {
    /// Its id.
    pub span_id: SpanId,
    /// Its parent; `None` for a root.
    pub parent_span_id: Option<SpanId>,
    /// Where its bytes are.
    pub handle: SpanHandle,
    /// Given with the span: it describes a request to an engine.
    pub is_request: bool,
}

/// A span as it waits. The same facts as [`PendingSpan`], without the padding that a nested handle
/// brings.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    position: u64,
    offset: u32,
    span_id: SpanId,
    parent_span_id: Option<SpanId>,
    is_request: bool,
}

const _: () = assert!(
    size_of::<Waiting>() == 32,
    "the budget is 32 bytes per span"
);

/// Spans in order of arrival.
#[derive(Debug, Default)]
pub(crate) struct SpanList(Vec<Waiting>);

impl SpanList {
    pub(crate) fn push(&mut self, span: PendingSpan) {
        if self.0.len() == self.0.capacity() {
            // By half, not by doubling: at most 48 bytes per span, where doubling may take 64.
            self.0.reserve_exact((self.0.len() / 2).max(2));
        }
        self.0.push(Waiting {
            position: span.handle.position,
            offset: span.handle.offset,
            span_id: span.span_id,
            parent_span_id: span.parent_span_id,
            is_request: span.is_request,
        });
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Heap that is held.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.0.capacity() * size_of::<Waiting>()
    }

    /// Spans whose parent is not among these. `scratch` is only kept to save an allocation.
    pub(crate) fn count_orphans(&self, scratch: &mut Vec<SpanId>) -> usize {
        scratch.clear();
        scratch.extend(self.0.iter().map(|span| span.span_id));
        scratch.sort_unstable();
        let is_orphan = |span: &&Waiting| {
            span.parent_span_id
                .is_some_and(|id| scratch.binary_search(&id).is_err())
        };
        self.0.iter().filter(is_orphan).count()
    }

    pub(crate) fn into_pending_spans(self) -> Vec<PendingSpan> {
        self.0
            .into_iter()
            .map(|span| PendingSpan {
                span_id: span.span_id,
                parent_span_id: span.parent_span_id,
                handle: SpanHandle {
                    position: span.position,
                    offset: span.offset,
                },
                is_request: span.is_request,
            })
            .collect()
    }
}
