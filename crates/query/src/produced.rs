//! Batches on their way from the thread that makes them to their reader.
//!
//! Limits first: [`BATCHES_AHEAD`] wait for the reader.
//!
//! The end is said aloud: a channel that just closes means that the thread is gone, and an answer must not look complete
//! then. It is said beside the channel, so that it needs no place in it: an answer of one batch is whole before its
//! reader comes for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use arrow::array::RecordBatch;
use tokio::sync::mpsc;

use crate::error::{Error, Phase, Result};

/// One is enough to keep both busy; more would be memory that no limit counts.
const BATCHES_AHEAD: usize = 1;

/// The two ends of a new channel.
pub(crate) fn channel() -> (Sender, Receiver) {
    let (sender, receiver) = mpsc::channel(BATCHES_AHEAD);
    let is_whole = Arc::new(AtomicBool::new(false));
    let sender = Sender {
        batches: sender,
        is_whole: Arc::clone(&is_whole),
    };
    let receiver = Receiver {
        batches: receiver,
        is_whole,
    };
    (sender, receiver)
}

/// The end of the thread that makes the batches.
#[derive(Debug)]
pub(crate) struct Sender {
    batches: mpsc::Sender<Result<RecordBatch>>,
    is_whole: Arc<AtomicBool>,
}

/// The end of the reader.
#[derive(Debug)]
pub(crate) struct Receiver {
    batches: mpsc::Receiver<Result<RecordBatch>>,
    is_whole: Arc<AtomicBool>,
}

impl Sender {
    /// Waits for room. `false`: the reader is gone.
    pub(crate) async fn send(&self, batch: RecordBatch) -> bool {
        self.batches.send(Ok(batch)).await.is_ok()
    }

    /// Nothing follows, because of an error. The reader may be gone; then nobody needs it.
    pub(crate) async fn fail(self, error: Error) {
        self.batches.send(Err(error)).await.ok();
    }

    /// Nothing follows: that was all.
    pub(crate) fn end(self) {
        // Seen by whoever sees the channel closed, which happens after it.
        self.is_whole.store(true, Ordering::Release);
    }

    /// Waits until the reader is gone.
    pub(crate) async fn closed(&self) {
        self.batches.closed().await;
    }
}

impl Receiver {
    /// The next batch; `None` after the last one.
    ///
    /// # Errors
    ///
    /// What the thread failed with, [`Error::Ended`] if it is gone.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        Poll::Ready(match ready!(self.batches.poll_recv(cx)) {
            Some(next) => Some(next),
            None if self.is_whole.load(Ordering::Acquire) => None,
            None => Some(Err(Error::Ended {
                phase: Phase::Streaming,
            })),
        })
    }

    /// Wants no more, and frees what waits.
    pub(crate) fn close(&mut self) {
        self.batches.close();
        while self.batches.try_recv().is_ok() {}
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use arrow::datatypes::Schema;

    use super::*;

    fn batch() -> RecordBatch {
        RecordBatch::new_empty(Arc::new(Schema::empty()))
    }

    async fn next(receiver: &mut Receiver) -> Option<Result<RecordBatch>> {
        poll_fn(|cx| receiver.poll_next(cx)).await
    }

    #[tokio::test]
    async fn a_whole_answer_waits_for_its_reader() {
        let (sender, mut receiver) = channel();
        assert!(sender.send(batch()).await);
        sender.end();
        assert!(matches!(next(&mut receiver).await, Some(Ok(_))));
        assert!(next(&mut receiver).await.is_none());
    }

    #[tokio::test]
    async fn a_thread_that_is_gone_is_no_end() {
        let (sender, mut receiver) = channel();
        assert!(sender.send(batch()).await);
        drop(sender);
        assert!(matches!(next(&mut receiver).await, Some(Ok(_))));
        let ended = next(&mut receiver).await;
        assert!(matches!(ended, Some(Err(Error::Ended { .. }))), "{ended:?}");
    }

    #[tokio::test]
    async fn a_reader_that_is_gone_is_told() {
        let (sender, mut receiver) = channel();
        assert!(sender.send(batch()).await);
        receiver.close();
        assert!(!sender.send(batch()).await);
        sender.closed().await;
        sender.end();
        assert!(next(&mut receiver).await.is_none());
    }
}
