//! The rows of one statement, under its time limit and its row limit.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{Stream, StreamExt};
use tokio::time::{Instant, Sleep};

use crate::engine::Started;
use crate::error::{Error, Phase, Result};
use crate::metrics::Tally;
use crate::produced;
use crate::stop::StopOnDrop;

/// A stream of batches. Dropping it stops the statement.
#[derive(Debug)]
pub struct Answer {
    schema: SchemaRef,
    produced: produced::Receiver,
    stop: StopOnDrop,
    tally: Tally,
    deadline: Pin<Box<Sleep>>,
    timeout: Duration,
    rows_max: u64,
    is_finished: bool,
}

impl Answer {
    pub(crate) fn new(
        started: Started,
        deadline: Pin<Box<Sleep>>,
        timeout: Duration,
        rows_max: u64,
        tally: Tally,
    ) -> Self {
        Self {
            schema: started.schema,
            produced: started.produced,
            stop: started.stop,
            tally,
            deadline,
            timeout,
            rows_max,
            is_finished: false,
        }
    }

    /// Columns of every batch.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Rows given so far.
    pub fn n_rows(&self) -> u64 {
        self.tally.rows().n_rows
    }

    /// Most rows that this answer may have.
    pub fn rows_max(&self) -> u64 {
        self.rows_max
    }

    /// Were there more rows than `rows_max`? Final once the stream has ended.
    pub fn is_truncated(&self) -> bool {
        self.tally.rows().is_truncated
    }

    /// When its time is over.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline.deadline()
    }

    /// As DataFusion's stream type; an [`Error`] becomes the external error of DataFusion's.
    pub fn into_stream(self) -> SendableRecordBatchStream {
        let schema = Arc::clone(&self.schema);
        let batches = self.map(|batch| batch.map_err(|e| DataFusionError::External(Box::new(e))));
        Box::pin(RecordBatchStreamAdapter::new(schema, batches))
    }

    /// `None`: with all its rows, or as many as were wanted.
    fn finish(&mut self, error: Option<&Error>) {
        self.is_finished = true;
        match error {
            Some(error) => self.tally.failed(error),
            None => self.tally.answered(),
        }
        // Stops the statement at once; a reader may keep the answer for its counts.
        self.stop.stop();
        self.produced.close();
    }

    fn fail(&mut self, error: Error) -> Error {
        self.finish(Some(&error));
        error
    }

    fn timed_out(&self) -> Error {
        let (limit, phase) = (self.timeout, Phase::Streaming);
        Error::TimedOut { limit, phase }
    }

    /// The executing side keeps the same time, and may be the first to notice that it is over.
    fn unless_over(&self, error: Error) -> Error {
        if Instant::now() >= self.deadline.deadline() {
            self.timed_out()
        } else {
            error
        }
    }

    /// The part of a batch that the row limit leaves; `None` if that is nothing.
    fn admit(&mut self, batch: RecordBatch) -> Option<RecordBatch> {
        let rows_left = self.rows_max.saturating_sub(self.n_rows());
        let n_rows = batch.num_rows();
        let n_admitted = usize::try_from(rows_left).map_or(n_rows, |left| n_rows.min(left));
        self.tally.add_rows(n_admitted);
        if n_admitted < n_rows {
            self.tally.truncate();
            self.finish(None);
        }
        match n_admitted {
            0 => None,
            n if n == n_rows => Some(batch),
            n => Some(batch.slice(0, n)),
        }
    }
}

impl Stream for Answer {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        while !this.is_finished {
            if Instant::now() >= this.deadline.deadline() {
                return Poll::Ready(Some(Err(this.fail(this.timed_out()))));
            }
            match this.produced.poll_next(cx) {
                Poll::Ready(Some(Ok(batch))) => {
                    if let Some(batch) = this.admit(batch) {
                        return Poll::Ready(Some(Ok(batch)));
                    }
                }
                Poll::Ready(Some(Err(error))) => {
                    let error = this.unless_over(error);
                    return Poll::Ready(Some(Err(this.fail(error))));
                }
                Poll::Ready(None) => this.finish(None),
                // Only what has to wait needs a timer.
                Poll::Pending => {
                    ready!(this.deadline.as_mut().poll(cx));
                }
            }
        }
        Poll::Ready(None)
    }
}
