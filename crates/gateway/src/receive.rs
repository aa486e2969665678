//! The edge that gRPC and HTTP share: from the bytes of a body to an acknowledged export or report.
//!
//! Inflating, JSON and the check of every byte happen on the connection's task, so that they use all cores
//! and the ingest thread only appends and indexes. Bodies that take longer than a task may hold its
//! thread go to the blocking pool.

use std::sync::Arc;

use bytes::Bytes;
use otlp::{
    export::{Checked, Limits, Signal},
    reply::Encoding,
};
use tokio::sync::{mpsc, oneshot};

use crate::{
    admission::{Budget, Gate, Permit},
    body::{self, Compression},
    clock::Clock,
    ingest::{Input, Request},
    metrics::{Metrics, Transport},
    record::{Content, SpanWindow},
    status::Refusal,
};

/// Above this many plain bytes the check (about 1 GB/s) would hold a task's thread for too long.
const INLINE_BYTES_MAX: usize = 256 * 1024;

/// The same for compressed and JSON bodies, which cost many times more per byte.
const INLINE_COSTLY_BYTES_MAX: usize = 8 * 1024;

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Edge {
    pub(crate) inputs: mpsc::Sender<Input>,
    pub(crate) budget: Budget,
    pub(crate) gate: Arc<Gate>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) clock: Clock,
    pub(crate) window: SpanWindow,
}

/// A body as it came from the network, within its limit.
pub(crate) struct Received {
    pub(crate) content: Content,
    pub(crate) encoding: Encoding,
    pub(crate) compression: Compression,
    pub(crate) bytes: Bytes,
    pub(crate) permit: Permit,
    pub(crate) limit_bytes: u64,
}

/// What the sender of an accepted export is told.
#[derive(Debug, Default)]
pub(crate) struct Accepted {
    /// Items (spans, points, log records) that were not taken.
    pub(crate) n_rejected: u64,
    /// Names the first of them.
    pub(crate) message: Option<String>,
}

/// A checked protobuf body.
struct Prepared {
    body: Bytes,
    permit: Permit,
    checked: Checked,
}

impl Edge {
    /// Takes one export or report: in the log when this returns `Ok`.
    pub(crate) async fn export(&self, received: Received) -> Result<Accepted, Refusal> {
        let received_unix_nano = self.clock.unix_nano();
        let limits = self.window.limits(received_unix_nano);
        let content = received.content;
        let Prepared {
            body,
            permit,
            checked,
        } = if is_costly(&received) {
            tokio::task::spawn_blocking(move || prepare(received, &limits))
                .await
                .map_err(|_| Refusal::Unavailable)??
        } else {
            prepare(received, &limits)?
        };
        self.metrics.count_checked(content, &checked);
        let accepted = Accepted {
            n_rejected: checked.n_rejected,
            message: checked.message,
        };
        if checked.n_items == 0 {
            // An empty envelope is a success that leaves nothing behind.
            return Ok(accepted);
        }
        let (reply, replied) = oneshot::channel();
        let n_items = checked.n_items;
        let request = Request {
            content,
            received_unix_nano,
            body,
            n_items,
            permit,
            reply,
        };
        let outcome = match self.inputs.send(Input::Request(request)).await {
            Ok(()) => replied.await.unwrap_or(Err(Refusal::Unavailable)),
            Err(_) => Err(Refusal::Unavailable),
        };
        if let Err(refusal) = &outcome {
            self.metrics
                .count_refused_items(content, refusal.reason(), n_items);
        }
        outcome.map(|()| accepted)
    }

    /// Counts the answer of one export or report.
    pub(crate) fn count_answer(
        &self,
        transport: Transport,
        content: Content,
        outcome: &Result<Accepted, Refusal>,
    ) {
        self.metrics
            .count_answer(transport, content, outcome.as_ref().map(|_| ()));
    }
}

fn is_costly(received: &Received) -> bool {
    let is_plain = received.compression == Compression::None
        && matches!(received.encoding, Encoding::Protobuf);
    let inline_max = if is_plain {
        INLINE_BYTES_MAX
    } else {
        INLINE_COSTLY_BYTES_MAX
    };
    received.bytes.len() > inline_max
}

/// Inflates, converts and checks.
fn prepare(received: Received, limits: &Limits) -> Result<Prepared, Refusal> {
    let Received {
        content,
        encoding,
        compression,
        bytes,
        mut permit,
        limit_bytes,
    } = received;
    let bytes = body::inflate(compression, bytes, limit_bytes, &mut permit)?;
    let (body, checked) = match content {
        Content::Export(signal) => {
            let body = match encoding {
                Encoding::Protobuf => bytes,
                Encoding::Json => of_json(signal, &bytes, limits, limit_bytes, &mut permit)?,
            };
            let checked = otlp::export::check(signal, &body, limits).map_err(Refusal::Malformed)?;
            (body, checked)
        }
        Content::Report(kind) => {
            let checked = reports::check(kind, &bytes).map_err(Refusal::BadReport)?;
            let checked = Checked {
                n_items: checked.n_entries,
                ..Checked::default()
            };
            (bytes, checked)
        }
    };
    Ok(Prepared {
        body,
        permit,
        checked,
    })
}

fn of_json(
    signal: Signal,
    json: &[u8],
    limits: &Limits,
    limit_bytes: u64,
    permit: &mut Permit,
) -> Result<Bytes, Refusal> {
    let body = otlp::json::to_protobuf(signal, json, limits).map_err(Refusal::Malformed)?;
    // Packed numbers can be larger in protobuf than in JSON.
    if body.len() as u64 > limit_bytes {
        return Err(Refusal::TooLarge { limit_bytes });
    }
    permit.grow(body.len())?;
    permit.shrink_to(body.len());
    Ok(Bytes::from(body))
}
