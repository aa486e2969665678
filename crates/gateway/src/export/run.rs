//! The loop of one exporter, on a thread of its own: reading the log, compressing and syncing the cursor keep it busy.

use std::{sync::Arc, thread::JoinHandle, time::Duration};

use bytes::Bytes;
use futures::{StreamExt, stream::FuturesOrdered};
use tokio::{runtime::Handle, sync::watch, time::Instant};
use wal::Disk;

use super::{
    Delivery, Destination, Exporter, Latest, Metrics, Queue, Request, Rewrite, Stop,
    cursor::{Cursor, Mark},
    tail::{Batch, Tail},
};
use crate::{
    admission::Gate,
    error::{self, Result},
    release::Releaser,
    threads,
};

/// An exporter with its place.
#[derive(Debug)]
pub(crate) struct Running<D: Disk> {
    pub(crate) exporter: Exporter,
    pub(crate) idx: usize,
    pub(crate) cursor: Cursor<D>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) metrics: Arc<Metrics>,
    /// How long it goes on after a stop.
    pub(crate) grace: Duration,
}

/// Starts an exporter. Its thread ends when the queue is closed and empty, or some time after it was closed.
pub(crate) fn spawn<D: Disk>(
    running: Running<D>,
    releaser: Releaser<D>,
    gate: &Arc<Gate>,
) -> Result<JoinHandle<()>> {
    let runtime = Handle::current();
    let failed = Arc::clone(gate);
    let work = move || {
        let id = running.exporter.id.clone();
        if let Err(error) = runtime.block_on(running.run(releaser)) {
            // Skipping would lose spans for good; as it is they are in the log, for a person to help.
            let reason = error::chain(&error);
            tracing::error!(exporter = id, reason, "the exporter has stopped");
            failed.fail(reason);
        }
    };
    threads::spawn("export", Arc::clone(gate), work)
}

impl<D: Disk> Running<D> {
    pub(crate) async fn run(self, releaser: Releaser<D>) -> Result<()> {
        let Running {
            exporter,
            idx,
            mut cursor,
            queue,
            metrics,
            grace,
        } = self;
        let mut at = cursor.mark();
        let mut latest = queue.subscribe();
        let sending = Sending {
            destination: exporter.destination,
            rewrite: exporter.rewrite,
            metrics,
            stop: Stop(latest.clone()),
        };
        let mut tail = Tail::new(releaser, Arc::clone(&queue), exporter.request_max, at);
        let mut on_their_way = FuturesOrdered::new();
        let mut deadline: Option<Instant> = None;
        loop {
            let is_closed = latest.borrow_and_update().is_closed;
            if is_closed && deadline.is_none() {
                deadline = Some(Instant::now() + grace);
            }
            while on_their_way.len() < exporter.n_requests_max {
                match tail.next_batch()? {
                    Some(batch) => on_their_way.push_back(sending.send(batch)),
                    None => break,
                }
            }
            if is_closed && on_their_way.is_empty() {
                break;
            }
            tokio::select! {
                Some((mark, delivery)) = on_their_way.next(), if !on_their_way.is_empty() => {
                    let Some(delivered) = delivery else {
                        // Passing empty releases is worth no sync; a restart passes them again.
                        at = mark;
                        queue.done(idx, mark.sequence);
                        continue;
                    };
                    if delivered == Delivery::Interrupted {
                        break;
                    }
                    at = mark;
                    keep(&mut cursor, mark, &sending.metrics);
                    queue.done(idx, mark.sequence);
                }
                () = changed(&mut latest), if !is_closed => {}
                () = passed(deadline), if is_closed => break,
            }
        }
        if at != cursor.mark() {
            keep(&mut cursor, at, &sending.metrics);
        }
        Ok(())
    }
}

/// What each request needs.
struct Sending {
    destination: Destination,
    rewrite: Option<Rewrite>,
    metrics: Arc<Metrics>,
    stop: Stop,
}

impl Sending {
    /// Delivers a batch; gives how far one is then, and what became of it if there was anything to send.
    async fn send(&self, batch: Batch) -> (Mark, Option<Delivery>) {
        let Batch {
            body,
            n_spans,
            after,
        } = batch;
        if n_spans == 0 {
            return (after, None);
        }
        let body = match &self.rewrite {
            Some(rewrite) => rewrite(&body),
            None => body,
        };
        let body = Bytes::from(body);
        let request = Request { body, n_spans };
        let delivery = self
            .destination
            .deliver(request, &self.metrics, &self.stop)
            .await;
        (after, Some(delivery))
    }
}

/// A cursor that cannot be kept makes a restart send more again, which is no reason to stop now.
fn keep<D: Disk>(cursor: &mut Cursor<D>, mark: Mark, metrics: &Metrics) {
    if let Err(error) = cursor.write(mark) {
        tracing::error!(
            exporter = metrics.id(),
            error = &error as &dyn std::error::Error,
            "a restart would send again what is sent from now on"
        );
    }
}

async fn changed(latest: &mut watch::Receiver<Latest>) {
    // The queue lives as long as this loop.
    latest.changed().await.ok();
}

async fn passed(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
