//! `loadbalancing`: every span of a trace to the same backend of a second tier, which decides on whole traces.
//!
//! In reading order: `config` (the Collector's keys), `ring` (which backend has a trace), `members` (which backends there
//! are), and here: a request is split by its traces, and each part sent to its backend.
//!
//! It does not look at anything but trace ids, and knows nothing of decisions.
//!
//! # Decided
//!
//! **A backend that is down keeps its share.** Its part is tried again until it is taken, because a second tier that
//! got half of a trace would decide wrongly. Only when the resolver no longer names the backend is its part given to
//! those that have the share then, as in the Collector; other than there nothing of it is lost on the way.
//!
//! **The others go on** for [`REQUESTS_AHEAD`] requests, whose parts for the backend that is down wait in memory (at most
//! 128 MiB where one backend has everything); then the exporter waits, and everything waits in the log. With a `dns`
//! resolver a backend that is gone leaves the list long before. Rejected: a cursor per backend. A change of the list would
//! need the history of rings beside the log to know who lacks what.
//!
//! **A kill, or a change of the list, can send up to those requests twice.** A second tier of Whyslows drops the copies.
//!
//! **A change of the list splits traces that are on their way**, as in the Collector: their spans from then on have
//! another backend, for the share that moves and nothing else.

mod config;
mod members;
mod ring;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, stream::FuturesUnordered};
use otlp::{
    TraceId,
    export::{Limits, SpanAt},
    reframe::Reframer,
    span::SpanSummary,
};

use super::{Delivery, LossReason, Metrics, Request, Stop};

use self::members::{Backend, Members};
pub use self::{
    config::{Dns, Loadbalancing, Protocol, Resolver, Static},
    members::{Balanced, Lookup, SystemLookup},
};

/// Requests on their way at once: how far the others may be ahead of a backend that is down.
pub const REQUESTS_AHEAD: usize = 32;

/// What became of one backend's part of a request.
enum Sent {
    Delivered(Delivery),
    /// Its backend has left the list; nothing is known to be taken.
    Left(Request),
}

impl Balanced {
    /// Sends each trace's spans to its backend. Returns when all are answered for good, or the process stops.
    pub(super) async fn deliver(
        &self,
        request: Request,
        metrics: &Metrics,
        stop: &Stop,
    ) -> Delivery {
        let mut on_their_way = FuturesUnordered::new();
        let mut to_split = Some(request);
        let mut delivery = Delivery::Done;
        loop {
            if let Some(request) = to_split.take() {
                let Some(members) = self.members(stop).await else {
                    delivery = Delivery::Interrupted;
                    continue;
                };
                for (backend, part) in split(&request, &members, metrics) {
                    on_their_way.push(self.send(backend, part, metrics, stop));
                }
            }
            match on_their_way.next().await {
                None => return delivery,
                Some(Sent::Left(request)) => to_split = Some(request),
                Some(Sent::Delivered(Delivery::Done)) => {}
                Some(Sent::Delivered(Delivery::Interrupted)) => delivery = Delivery::Interrupted,
            }
        }
    }

    /// Sends a part when it is its turn, unless its backend leaves.
    async fn send(
        &self,
        backend: Arc<Backend>,
        part: Request,
        metrics: &Metrics,
        stop: &Stop,
    ) -> Sent {
        let deliver = async {
            tokio::select! {
                // Never closed.
                _turn = backend.turns.acquire() => {
                    backend.otlp.deliver(part.clone(), metrics, stop).await
                }
                () = stop.requested() => Delivery::Interrupted,
            }
        };
        tokio::select! {
            delivery = deliver => Sent::Delivered(delivery),
            () = self.left(&backend) => Sent::Left(part),
        }
    }
}

/// The request's spans by backend, in their order.
fn split(request: &Request, members: &Members, metrics: &Metrics) -> Vec<(Arc<Backend>, Request)> {
    if let [backend] = members.backends.as_slice() {
        return vec![(Arc::clone(backend), request.clone())];
    }
    let mut parts: Vec<Reframer> = Vec::new();
    parts.resize_with(members.backends.len(), Reframer::new);
    let mut last: Option<(TraceId, usize)> = None;
    let mut n_split = 0_u64;
    let result = each_span(&request.body, |at, trace_id| {
        let idx = match last {
            Some((known, idx)) if known == trace_id => idx,
            Some(_) | None => members.ring.endpoint_of(&trace_id).unwrap_or_default(),
        };
        last = Some((trace_id, idx));
        if let Some(part) = parts.get_mut(idx) {
            part.push(&at);
            n_split = n_split.saturating_add(1);
        }
    });
    let n_lost = request.n_spans.saturating_sub(n_split);
    if n_lost > 0 {
        // The same bytes passed the check at the receiver, so this is our fault.
        tracing::error!(
            exporter = metrics.id(),
            n_lost,
            error = result.err().map(|error| error.to_string()),
            "spans of a request cannot be read and are lost"
        );
        metrics.count_lost(LossReason::Refused, n_lost);
    }
    let parts = members.backends.iter().zip(parts);
    parts
        .filter(|(_, part)| !part.is_empty())
        .map(|(backend, part)| {
            let n_spans = part.n_spans() as u64;
            let body = Bytes::from(part.finish());
            (Arc::clone(backend), Request { body, n_spans })
        })
        .collect()
}

fn each_span(body: &[u8], mut take: impl FnMut(SpanAt<'_>, TraceId)) -> otlp::Result<()> {
    for at in otlp::export::spans(body, &Limits::default()) {
        let at = at?;
        let trace_id = SpanSummary::read(at.span)?.trace_id;
        take(at, trace_id);
    }
    Ok(())
}
