//! Puts spans of several requests into one new request without decoding them.

use crate::{encode::Writer, export::SpanAt};

/// An `ExportTraceServiceRequest` under construction. Spans are copied as they are; neighbours with
/// equal resource and schema URL share a `ResourceSpans`, and likewise a `ScopeSpans`.
///
/// Unknown fields inside of resources, scopes and spans are kept; those of `ResourceSpans` and
/// `ScopeSpans` themselves are not.
#[derive(Debug, Default)]
pub struct Reframer {
    out: Writer,
    current: Option<Group>,
    n_spans: usize,
}

/// What the spans of the open `ScopeSpans` share.
#[derive(Debug)]
struct Group {
    resource: Vec<u8>,
    resource_schema_url: String,
    scope: Vec<u8>,
    scope_schema_url: String,
}

impl Reframer {
    /// An empty request.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a span with what surrounds it.
    pub fn push(&mut self, at: &SpanAt<'_>) {
        let open = self.current.as_ref();
        let is_same_resource = open.is_some_and(|group| {
            group.resource == at.resource && group.resource_schema_url == at.resource_schema_url
        });
        let is_same_scope = is_same_resource
            && open.is_some_and(|group| {
                group.scope == at.scope && group.scope_schema_url == at.scope_schema_url
            });
        if !is_same_scope {
            self.close(is_same_resource);
            self.open(at, is_same_resource);
        }
        self.out.bytes(2, at.span);
        self.n_spans = self.n_spans.saturating_add(1);
    }

    /// Spans added so far.
    pub const fn n_spans(&self) -> usize {
        self.n_spans
    }

    /// Has no span been added?
    pub const fn is_empty(&self) -> bool {
        self.n_spans == 0
    }

    /// About how large the request is now, in bytes; exact up to the lengths and schema URLs of the
    /// group that is still open.
    pub const fn n_bytes(&self) -> usize {
        self.out.len()
    }

    /// The request; an empty one has no bytes.
    pub fn finish(mut self) -> Vec<u8> {
        self.close(false);
        self.out.finish()
    }

    fn open(&mut self, at: &SpanAt<'_>, is_same_resource: bool) {
        if !is_same_resource {
            self.out.open(1);
            // An empty resource and an absent one mean the same.
            if !at.resource.is_empty() {
                self.out.bytes(1, at.resource);
            }
        }
        self.out.open(2);
        if !at.scope.is_empty() {
            self.out.bytes(1, at.scope);
        }
        self.current = Some(Group {
            resource: at.resource.to_vec(),
            resource_schema_url: at.resource_schema_url.to_owned(),
            scope: at.scope.to_vec(),
            scope_schema_url: at.scope_schema_url.to_owned(),
        });
    }

    /// Closes the open `ScopeSpans`, and the `ResourceSpans` unless it goes on.
    fn close(&mut self, goes_on: bool) {
        let Some(group) = self.current.take() else {
            return;
        };
        if !group.scope_schema_url.is_empty() {
            self.out.bytes(3, group.scope_schema_url.as_bytes());
        }
        self.out.close();
        if !goes_on {
            if !group.resource_schema_url.is_empty() {
                self.out.bytes(3, group.resource_schema_url.as_bytes());
            }
            self.out.close();
        }
    }
}

#[cfg(test)]
mod tests;
