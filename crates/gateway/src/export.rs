//! Exporters: kept spans leave for other backends.
//!
//! ```text
//! decide -> log: the list of kept spans, then the decision -> queue: where the list is
//!                                                              |
//!   per exporter: tail (reads the log) -> redaction -> destination -> cursor (on the disk) -> the log may go
//! ```
//!
//! **The queue is the log.** An exporter reads the kept spans of each release back from the log, re-frames their
//! bytes as they are into requests, and moves its cursor when a request is answered. A server that is down or slow
//! costs 40 bytes of memory per release and nothing else: no other exporter waits for it, the log keeps what it
//! lacks. What then happens, in this order: the log grows; at `intake.log_bytes_max` senders are told to retry;
//! nothing that was acknowledged is lost. The log keeps everything that came since the first release that somebody
//! lacks, kept or not, so its size is bounded by what is received and not by what is kept.
//!
//! # Guarantee
//!
//! Every kept span is sent at least once, whatever is killed; a late span of a kept trace too. It is sent **exactly
//! once** unless a request was on its way when the process or the connection ended: the server may have taken it and
//! nobody was told. That is at most `sending_queue.num_consumers` requests (default 1) per kill, sent again with the
//! same spans in the same order. After a power failure the same holds, because the cursor is synced. A span
//! is not sent, and counted with a reason ([`LossReason`]), only if the server refuses it for good or
//! `retry_on_failure` ends the attempts; by default nothing ends them.
//!
//! # Decided
//!
//! **An exporter that is new, or was removed for a while, starts with what is decided from then on.** The log may
//! have lost parts of what was decided before.
//!
//! **At a stop** an exporter goes on while its server takes requests, for `intake.shutdown_timeout` at most. The rest
//! is in the log.
//!
//! Rejected: a queue of requests in memory or in files of its own, which is bounded by heap or written twice; waiting
//! in the release thread, which stops every exporter and SQL for one.

pub mod balance;
pub mod client;
pub mod config;
pub mod retry;

mod cursor;
mod debug;
mod metrics;
mod otlp;
mod queue;
mod run;
mod start;
mod tail;
#[cfg(test)]
mod tests;

use std::{fmt, sync::Arc};

use bytes::Bytes;
use tokio::sync::watch;

#[cfg(test)]
pub(crate) use self::tail::Tail;
pub(crate) use self::{
    cursor::Cursor,
    metrics::Exporting,
    queue::{Latest, Queue},
    run::{Running, spawn},
    start::Cursors,
};
pub use self::{
    debug::Debug,
    metrics::{LossReason, Metrics},
    otlp::Otlp,
};

/// Changes the body of a request, such as by redaction.
pub type Rewrite = Arc<dyn Fn(&[u8]) -> Vec<u8> + Send + Sync>;

/// An exporter before it runs.
pub struct Exporter {
    /// As in the configuration, `type/name`: names its cursor.
    pub id: String,
    /// Where its spans go.
    pub destination: Destination,
    /// The largest request, in bytes before compression and in spans.
    pub request_max: (usize, usize),
    /// Requests on their way at once; at least 1.
    pub n_requests_max: usize,
    /// Applied to each request.
    pub rewrite: Option<Rewrite>,
}

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exporter")
            .field("id", &self.id)
            .field("destination", &self.destination)
            .finish_non_exhaustive()
    }
}

/// Where spans go.
#[derive(Debug)]
pub enum Destination {
    /// An OTLP server.
    Otlp(Box<Otlp>),
    /// The OTLP servers of a second tier.
    Balanced(balance::Balanced),
    /// The program's log.
    Debug(Debug),
}

/// Kept spans for a destination.
#[derive(Clone, Debug)]
pub struct Request {
    /// An `ExportTraceServiceRequest`.
    pub body: Bytes,
    /// Spans in it.
    pub n_spans: u64,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Each of its spans was taken, or is lost and counted.
    Done,
    /// The process stops; the next one sends it again.
    Interrupted,
}

impl Destination {
    async fn deliver(&self, request: Request, metrics: &Metrics, stop: &Stop) -> Delivery {
        match self {
            Destination::Otlp(otlp) => otlp.deliver(request, metrics, stop).await,
            Destination::Balanced(balanced) => balanced.deliver(request, metrics, stop).await,
            Destination::Debug(debug) => debug.deliver(&request, metrics),
        }
    }
}

/// Tells a destination that the process stops.
#[derive(Clone, Debug)]
pub struct Stop(watch::Receiver<Latest>);

impl Stop {
    /// Returns when the process stops.
    pub async fn requested(&self) {
        let mut latest = self.0.clone();
        // The other end is gone: there is nothing to wait for either.
        latest.wait_for(|latest| latest.is_closed).await.ok();
    }
}
