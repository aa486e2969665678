//! The builder of export requests.

use std::time::Duration;

use super::{AnyValue, T0, sid, tid, values::write_all};
use crate::{
    encode::Writer,
    ids::{SpanId, TraceId},
    span::{SpanKind, StatusCode},
};

/// An `ExportTraceServiceRequest` under construction. What follows a span describes it; the first
/// span of a trace is its root, the others are children of the root unless [`Export::parent`] says
/// otherwise.
#[derive(Clone, Debug)]
pub struct Export {
    resources: Vec<Resource>,
    trace_id: TraceId,
    root: Option<SpanId>,
    next_span: u32,
}

#[derive(Clone, Debug, Default)]
struct Resource {
    attributes: Vec<(String, AnyValue)>,
    scopes: Vec<Scope>,
}

#[derive(Clone, Debug, Default)]
struct Scope {
    name: String,
    version: String,
    spans: Vec<Span>,
}

#[derive(Clone, Debug, Default)]
struct Span {
    trace_id: Vec<u8>,
    span_id: Vec<u8>,
    parent_span_id: Vec<u8>,
    trace_state: String,
    flags: u32,
    name: String,
    kind: SpanKind,
    start: u64,
    end: u64,
    status: Option<(StatusCode, String)>,
    attributes: Vec<(String, AnyValue)>,
    events: Vec<Event>,
    links: Vec<Link>,
}

#[derive(Clone, Debug)]
struct Event {
    name: String,
    time_unix_nano: u64,
    attributes: Vec<(String, AnyValue)>,
}

#[derive(Clone, Debug)]
struct Link {
    trace_id: TraceId,
    span_id: SpanId,
    attributes: Vec<(String, AnyValue)>,
}

/// Begins a request whose spans belong to the trace `tid(n)`, from a service called `test`.
pub fn trace(n: u32) -> Export {
    let export = Export {
        resources: Vec::new(),
        trace_id: tid(n),
        root: None,
        next_span: 1,
    };
    export.service("test")
}

impl Export {
    /// The spans that follow belong to the trace `tid(n)`; the first is its root.
    #[must_use]
    pub fn trace(mut self, n: u32) -> Self {
        self.trace_id = tid(n);
        self.root = None;
        self
    }

    /// The spans that follow come from this service: a new `ResourceSpans`.
    #[must_use]
    pub fn service(mut self, name: &str) -> Self {
        if self
            .resources
            .last()
            .is_some_and(|resource| resource.scopes.is_empty())
        {
            self.resources.pop();
        }
        let attributes = vec![("service.name".to_owned(), name.into())];
        self.resources.push(Resource {
            attributes,
            scopes: Vec::new(),
        });
        self
    }

    /// Adds an attribute to the resource of the spans around here.
    #[must_use]
    pub fn resource_attribute(mut self, key: &str, value: impl Into<AnyValue>) -> Self {
        if let Some(resource) = self.resources.last_mut() {
            resource.attributes.push((key.to_owned(), value.into()));
        }
        self
    }

    /// The spans that follow come from this instrumentation scope: a new `ScopeSpans`.
    #[must_use]
    pub fn scope(mut self, name: &str, version: &str) -> Self {
        let (name, version) = (name.to_owned(), version.to_owned());
        if let Some(resource) = self.resources.last_mut() {
            resource.scopes.push(Scope {
                name,
                version,
                spans: Vec::new(),
            });
        }
        self
    }

    /// Adds a span that starts at [`T0`]. Its id is `sid(1)` for the first in the request, then
    /// counts up.
    #[must_use]
    pub fn span(mut self, name: &str, duration: Duration) -> Self {
        let span_id = sid(self.next_span);
        self.next_span = self.next_span.saturating_add(1);
        let parent = self
            .root
            .map_or_else(Vec::new, |root| root.as_bytes().to_vec());
        self.root.get_or_insert(span_id);
        let span = Span {
            trace_id: self.trace_id.as_bytes().to_vec(),
            span_id: span_id.as_bytes().to_vec(),
            parent_span_id: parent,
            name: name.to_owned(),
            kind: SpanKind::Internal,
            start: T0,
            end: T0.saturating_add(nanos(duration)),
            ..Span::default()
        };
        if let Some(resource) = self.resources.last_mut() {
            if resource.scopes.is_empty() {
                resource.scopes.push(Scope::default());
            }
            if let Some(scope) = resource.scopes.last_mut() {
                scope.spans.push(span);
            }
        }
        self
    }

    /// The span has the id `sid(n)`, the next ones count from there.
    #[must_use]
    pub fn id(mut self, n: u32) -> Self {
        self.next_span = n.saturating_add(1);
        let new = sid(n);
        let mut old = Vec::new();
        self = self.with_span(|span| {
            old = std::mem::replace(&mut span.span_id, new.as_bytes().to_vec());
        });
        if self
            .root
            .is_some_and(|root| root.as_bytes().as_slice() == old)
        {
            self.root = Some(new);
        }
        self
    }

    /// The span is a child of `sid(n)`, wherever that is.
    #[must_use]
    pub fn parent(self, n: u32) -> Self {
        self.with_span(|span| span.parent_span_id = sid(n).as_bytes().to_vec())
    }

    /// The span has no parent.
    #[must_use]
    pub fn root(self) -> Self {
        self.with_span(|span| span.parent_span_id.clear())
    }

    /// The span has these bytes as ids, valid or not.
    #[must_use]
    pub fn raw_ids(self, trace_id: &[u8], span_id: &[u8]) -> Self {
        self.with_span(|span| {
            span.trace_id = trace_id.to_vec();
            span.span_id = span_id.to_vec();
        })
    }

    /// The span starts so long after [`T0`] and is as long as before.
    #[must_use]
    pub fn at(self, after_t0: Duration) -> Self {
        self.with_span(|span| {
            let duration = span.end.saturating_sub(span.start);
            span.start = T0.saturating_add(nanos(after_t0));
            span.end = span.start.saturating_add(duration);
        })
    }

    /// The span has these times, in nanoseconds since 1970.
    #[must_use]
    pub fn times(self, start_time_unix_nano: u64, end_time_unix_nano: u64) -> Self {
        self.with_span(|span| {
            span.start = start_time_unix_nano;
            span.end = end_time_unix_nano;
        })
    }

    /// The span has this kind; without, it is internal.
    #[must_use]
    pub fn kind(self, kind: SpanKind) -> Self {
        self.with_span(|span| span.kind = kind)
    }

    /// The span failed.
    #[must_use]
    pub fn error(self) -> Self {
        self.status(StatusCode::Error, "")
    }

    /// The span has this status.
    #[must_use]
    pub fn status(self, code: StatusCode, message: &str) -> Self {
        self.with_span(|span| span.status = Some((code, message.to_owned())))
    }

    /// The span has these W3C trace flags.
    #[must_use]
    pub fn flags(self, flags: u32) -> Self {
        self.with_span(|span| span.flags = flags)
    }

    /// The span has this W3C `tracestate`.
    #[must_use]
    pub fn trace_state(self, trace_state: &str) -> Self {
        self.with_span(|span| trace_state.clone_into(&mut span.trace_state))
    }

    /// The span has this attribute too.
    #[must_use]
    pub fn attribute(self, key: &str, value: impl Into<AnyValue>) -> Self {
        self.with_span(|span| span.attributes.push((key.to_owned(), value.into())))
    }

    /// The span has this event so long after its start.
    #[must_use]
    pub fn event(self, name: &str, after_start: Duration) -> Self {
        self.with_span(|span| {
            let time_unix_nano = span.start.saturating_add(nanos(after_start));
            let name = name.to_owned();
            span.events.push(Event {
                name,
                time_unix_nano,
                attributes: Vec::new(),
            });
        })
    }

    /// The last event has this attribute too.
    #[must_use]
    pub fn event_attribute(self, key: &str, value: impl Into<AnyValue>) -> Self {
        self.with_span(|span| {
            if let Some(event) = span.events.last_mut() {
                event.attributes.push((key.to_owned(), value.into()));
            }
        })
    }

    /// The span links to `sid(span)` of `tid(trace)`.
    #[must_use]
    pub fn link(self, trace: u32, span: u32) -> Self {
        let link = Link {
            trace_id: tid(trace),
            span_id: sid(span),
            attributes: Vec::new(),
        };
        self.with_span(|span| span.links.push(link))
    }

    /// The last link has this attribute too.
    #[must_use]
    pub fn link_attribute(self, key: &str, value: impl Into<AnyValue>) -> Self {
        self.with_span(|span| {
            if let Some(link) = span.links.last_mut() {
                link.attributes.push((key.to_owned(), value.into()));
            }
        })
    }

    /// The protobuf bytes of the request.
    pub fn build(&self) -> Vec<u8> {
        let mut out = Writer::default();
        for resource in &self.resources {
            out.open(1);
            out.open(1);
            write_all(&resource.attributes, 1, &mut out);
            out.close();
            for scope in &resource.scopes {
                out.open(2);
                out.open(1);
                out.bytes(1, scope.name.as_bytes());
                out.bytes(2, scope.version.as_bytes());
                out.close();
                for span in &scope.spans {
                    out.open(2);
                    span.write(&mut out);
                    out.close();
                }
                out.close();
            }
            out.close();
        }
        out.finish()
    }

    fn with_span(mut self, change: impl FnOnce(&mut Span)) -> Self {
        let scope = self
            .resources
            .last_mut()
            .and_then(|resource| resource.scopes.last_mut());
        let span = scope.and_then(|scope| scope.spans.last_mut());
        debug_assert!(span.is_some(), "describes a span before there is one");
        span.map(change);
        self
    }
}

impl Span {
    /// Writes the fields of a `Span` message, ascending, zeros left out.
    fn write(&self, out: &mut Writer) {
        let not_empty = |out: &mut Writer, field: u32, content: &[u8]| {
            if !content.is_empty() {
                out.bytes(field, content);
            }
        };
        not_empty(out, 1, &self.trace_id);
        not_empty(out, 2, &self.span_id);
        not_empty(out, 3, self.trace_state.as_bytes());
        not_empty(out, 4, &self.parent_span_id);
        not_empty(out, 5, self.name.as_bytes());
        out.varint(6, u64::from(self.kind.number()));
        out.fixed64(7, self.start);
        out.fixed64(8, self.end);
        write_all(&self.attributes, 9, out);
        for event in &self.events {
            out.open(11);
            out.fixed64(1, event.time_unix_nano);
            out.bytes(2, event.name.as_bytes());
            write_all(&event.attributes, 3, out);
            out.close();
        }
        for link in &self.links {
            out.open(13);
            out.bytes(1, link.trace_id.as_bytes());
            out.bytes(2, link.span_id.as_bytes());
            write_all(&link.attributes, 4, out);
            out.close();
        }
        if let Some((code, message)) = &self.status {
            out.open(15);
            not_empty(out, 2, message.as_bytes());
            out.varint(3, u64::from(code.number()));
            out.close();
        }
        if self.flags != 0 {
            out.fixed32(16, self.flags);
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
