//! What was measured between the engine and whoever waited for its answer: in the application, in the gateway's web
//! server, in the client.
//!
//! Only of kept traces: of others these spans are not read. A trace with more than one operation says nothing here: whose
//! answer the chunks are of cannot be told.
//!
//! - Web servers that leave a span per chunk (`http send` of ASGI) say when each chunk was sent on.
//! - The root's own attributes and events are the client's, if it serves nobody.

use std::collections::HashMap;

use otlp::{
    SpanId,
    attribute::{self, Value},
    export::SpanAt,
    span::{SpanKind, SpanSummary},
};
use tables::requests::{Position, Request};

use super::{attempts::Operations, holds};
use crate::call::{Kind, chunks_of, first_chunk_s, place_ttft, seconds};
use crate::error::{Error, Result};
use crate::join::interval;

/// A span of a trace that reports neither a request nor a call.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceSpan {
    pub(super) span_id: SpanId,
    pub(super) parent_span_id: Option<SpanId>,
    start_unix_nano: u64,
    end_unix_nano: u64,
    /// It serves, under this name of its service.
    serves: Option<String>,
    /// It sent a chunk of an answer's body on.
    is_chunk: bool,
    /// What a root that serves nobody says of its time to first content, in seconds.
    client_ttft_s: Option<f64>,
}

impl TraceSpan {
    /// Reads a span, and little of it.
    ///
    /// # Errors
    /// [`Error::Span`] if the bytes are not a span that `otlp::export::check` accepts.
    pub fn read(at: &SpanAt<'_>) -> Result<Self> {
        let summary = SpanSummary::read(at.span).map_err(|source| Error::Span {
            offset: at.offset,
            source,
        })?;
        let is_server = summary.kind == SpanKind::Server;
        let service =
            || match attribute::lookup(attribute::of_resource(at.resource), "service.name") {
                Some(Value::Str(name)) => name.to_owned(),
                _ => String::new(),
            };
        let is_chunk = || {
            let event = attribute::lookup(attribute::of_span(at.span), "asgi.event.type");
            event == Some(Value::Str("http.response.body"))
        };
        let is_client = summary.parent_span_id.is_none() && !is_server;
        Ok(Self {
            span_id: summary.span_id,
            parent_span_id: summary.parent_span_id,
            start_unix_nano: summary.start_time_unix_nano,
            end_unix_nano: summary.end_time_unix_nano,
            serves: is_server.then(service),
            is_chunk: summary.name.ends_with(" http send") && is_chunk(),
            client_ttft_s: is_client
                .then(|| first_chunk_s(at.span, &summary))
                .flatten(),
        })
    }
}

/// A server that sent chunks.
struct Sender {
    position: Position,
    start: u64,
    end: u64,
    chunks: Vec<u64>,
}

impl Sender {
    fn interval(&self) -> (i64, i64) {
        let nanos = |at: u64| i64::try_from(at).unwrap_or(i64::MAX);
        (nanos(self.start), nanos(self.end))
    }
}

/// Sets what positions around the engine measured.
pub(super) fn measure(requests: &mut [Request], operations: &Operations<'_>, spans: &[TraceSpan]) {
    if spans.is_empty() || !is_one(requests, operations) {
        return;
    }
    let client_ttft_s = spans.iter().find_map(|span| span.client_ttft_s);
    let mut senders = senders(requests, operations, spans);
    senders.sort_by_key(|sender| sender.end.saturating_sub(sender.start));
    for request in requests.iter_mut().filter(|request| !request.superseded) {
        request.client_ttft_s = request.client_ttft_s.or(client_ttft_s);
        for sender in &senders {
            let (start, _) = interval(request);
            let first = sender.chunks.iter().min();
            if let Some(first) = first
                && holds(sender.interval(), (start, start))
            {
                let ttft_s = first.checked_sub(sender.start).map(seconds);
                place_ttft(request, ttft_s, sender.position);
                let chunks = || chunks_of(sender.chunks.clone(), sender.position);
                request.chunks = request.chunks.or_else(chunks);
            }
        }
    }
}

/// Is all of the trace one operation?
fn is_one(requests: &[Request], operations: &Operations<'_>) -> bool {
    let mut last: Option<Option<usize>> = None;
    let mut n_without = 0;
    for (request, operation) in requests.iter().zip(operations.of_requests()) {
        if request.wrapper {
            continue;
        }
        n_without += usize::from(operation.is_none());
        if last.is_some_and(|last| last != operation) || n_without > 1 {
            return false;
        }
        last = Some(operation);
    }
    // Requests of one operation that went well one after the other have answers of their own.
    let mut answers = requests
        .iter()
        .filter(|request| !request.wrapper && !request.superseded);
    let first = answers.next();
    first.is_some_and(|first| answers.all(|other| other.request_id == first.request_id))
}

fn senders(requests: &[Request], operations: &Operations<'_>, spans: &[TraceSpan]) -> Vec<Sender> {
    let mut chunks: HashMap<SpanId, Vec<u64>> = HashMap::new();
    for span in spans.iter().filter(|span| span.is_chunk) {
        if let Some(parent) = span.parent_span_id {
            chunks.entry(parent).or_default().push(span.start_unix_nano);
        }
    }
    let is_engine = |service: &str| {
        requests
            .iter()
            .any(|request| request.service_name.as_deref() == Some(service))
    };
    let mut senders = Vec::new();
    for span in spans {
        if let Some(service) = span.serves.as_deref().filter(|service| !is_engine(service))
            && let Some(chunks) = chunks.remove(&span.span_id)
        {
            let is_gateway = operations.calls.iter().any(|call| {
                call.row.position == Position::Gateway
                    && call.row.service_name.as_deref() == Some(service)
            });
            senders.push(Sender {
                position: if is_gateway {
                    Position::Gateway
                } else {
                    Position::App
                },
                start: span.start_unix_nano,
                end: span.end_unix_nano,
                chunks,
            });
        }
    }
    for call in operations
        .calls
        .iter()
        .filter(|call| call.kind == Kind::Door)
    {
        if let Some(chunks) = chunks.remove(&call.row.span_id) {
            senders.push(Sender {
                position: Position::Gateway,
                start: call.row.start_time_unix_nano,
                end: call.row.end_time_unix_nano,
                chunks,
            });
        }
    }
    senders
}
