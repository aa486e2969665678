//! The body of an answer: pieces of rows, made as the client takes them.

use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, TRAILER};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use http_body::Frame;
use http_body_util::StreamBody;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::yield_now;
use tokio::time::timeout_at;

use super::refusal::{Refusal, log_fault, outward};
use crate::answer::Answer;
use crate::error::Error;
use crate::format::{Encoder, Format, Summary};
use crate::trace;

const ROW_LIMIT: HeaderName = HeaderName::from_static("whyslow-row-limit");
const ROW_COUNT: HeaderName = HeaderName::from_static("whyslow-row-count");
const TRUNCATED: HeaderName = HeaderName::from_static("whyslow-truncated");

/// Rows that are encoded into one piece of the body.
const ROWS_PER_PIECE: usize = 1024;

/// Time since a statement arrived.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock(Instant);

impl Clock {
    #[expect(
        clippy::disallowed_methods,
        reason = "the HTTP edge measures what it reports"
    )]
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    /// When a time limit that began then is over.
    pub(super) fn until(self, limit: Duration) -> Instant {
        self.0 + limit
    }

    fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

/// Waits for the first batch, so that most errors still get a status of their own.
pub(super) async fn stream_answer(mut answer: Answer, format: Format, clock: Clock) -> Response {
    let first = match answer.next().await.transpose() {
        Ok(first) => first,
        Err(error) => return Refusal::from(error).into_response(),
    };
    let encoder = match Encoder::new(format, answer.schema()) {
        Ok(encoder) => encoder,
        Err(error) => return Refusal::Encode { source: error }.into_response(),
    };
    let rows_max = answer.rows_max();
    let writer = Writer {
        answer,
        encoder,
        clock,
        pending: first,
        step: Step::Begin,
    };
    let mut response = Response::new(Body::new(StreamBody::new(writer.frames())));
    let headers = response.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static(format.content_type()),
    );
    headers.insert(ROW_LIMIT, HeaderValue::from(rows_max));
    let trailers = HeaderValue::from_static("whyslow-row-count, whyslow-truncated");
    headers.insert(TRAILER, trailers);
    response
}

/// What of a body comes next.
#[derive(Debug, Clone, Copy)]
enum Step {
    Begin,
    Rows,
    Trailers,
    Done,
}

/// Makes the body, piece by piece as the client takes it.
struct Writer {
    answer: Answer,
    encoder: Encoder,
    clock: Clock,
    pending: Option<RecordBatch>,
    step: Step,
}

impl Writer {
    fn frames(self) -> impl Stream<Item = Result<Frame<Bytes>, BrokenOff>> + Send {
        stream::unfold(self, |mut writer| async move {
            let frame = writer.next().await?;
            Some((frame, writer))
        })
    }

    async fn next(&mut self) -> Option<Result<Frame<Bytes>, BrokenOff>> {
        match self.step {
            Step::Begin => {
                self.step = Step::Rows;
                let bytes = self.encoder.begin();
                Some(self.frame(bytes))
            }
            Step::Rows => Some(self.rows().await),
            Step::Trailers => {
                self.step = Step::Done;
                Some(Ok(Frame::trailers(self.trailers())))
            }
            Step::Done => None,
        }
    }

    /// The next piece of rows, or what follows the last one.
    async fn rows(&mut self) -> Result<Frame<Bytes>, BrokenOff> {
        let batch = match self.pending.take() {
            Some(batch) => batch,
            None => match self.answer.next().await {
                Some(Ok(batch)) => batch,
                Some(Err(error)) => return self.fail(&error),
                None => {
                    self.step = Step::Trailers;
                    let bytes = self.encoder.end(self.summary());
                    return self.frame(bytes);
                }
            },
        };
        let n_rows = batch.num_rows().min(ROWS_PER_PIECE);
        let n_left = batch.num_rows() - n_rows;
        self.pending = (n_left > 0).then(|| batch.slice(n_rows, n_left));
        let bytes = self.encoder.batch(&batch.slice(0, n_rows));
        self.frame(bytes)
    }

    fn frame(&mut self, bytes: Result<Bytes, ArrowError>) -> Result<Frame<Bytes>, BrokenOff> {
        bytes.map(Frame::data).map_err(|error| {
            self.step = Step::Done;
            log_fault(&error);
            BrokenOff
        })
    }

    fn fail(&mut self, error: &Error) -> Result<Frame<Bytes>, BrokenOff> {
        self.step = Step::Done;
        let (_, problem) = outward(error);
        match self.encoder.fail(self.summary(), &problem) {
            Some(bytes) => Ok(Frame::data(bytes)),
            None => Err(BrokenOff),
        }
    }

    fn summary(&self) -> Summary {
        Summary {
            n_rows: self.answer.n_rows(),
            is_truncated: self.answer.is_truncated(),
            elapsed: self.clock.elapsed(),
        }
    }

    fn trailers(&self) -> HeaderMap {
        let mut trailers = HeaderMap::new();
        trailers.insert(ROW_COUNT, HeaderValue::from(self.answer.n_rows()));
        let truncated = if self.answer.is_truncated() {
            "true"
        } else {
            "false"
        };
        trailers.insert(TRUNCATED, HeaderValue::from_static(truncated));
        trailers
    }
}

/// Ends the connection, so that half an answer does not look whole.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the answer broke off")]
pub(super) struct BrokenOff;

/// A body of parts that are made as the client takes them, on a task of its own: what they hold is given back at `until`,
/// also if the client neither reads nor goes away. The first part is made before there is a status.
pub(super) fn stream_parts(
    mut parts: trace::Parts,
    held: OwnedSemaphorePermit,
    until: Instant,
) -> Result<Body, Refusal> {
    let first = parts.next().transpose()?.unwrap_or_default();
    let (sender, receiver) = mpsc::channel(1);
    let _detached = tokio::spawn(async move {
        let made = async move {
            let _held = held;
            for part in std::iter::once(Ok(first)).chain(parts) {
                let part = part.map(Some).map_err(|error| {
                    log_fault(&error);
                    BrokenOff
                });
                if sender.send(part).await.is_err() {
                    return;
                }
                yield_now().await;
            }
            // The reader may be gone.
            sender.send(Ok(None)).await.ok();
        };
        // Past it, the sender is dropped and the body breaks off.
        timeout_at(until.into(), made).await.ok();
    });
    let parts = stream::unfold(Some(receiver), |receiver| async move {
        let mut receiver = receiver?;
        match receiver.recv().await {
            Some(Ok(Some(bytes))) => Some((Ok(bytes), Some(receiver))),
            Some(Ok(None)) => None,
            Some(Err(BrokenOff)) | None => Some((Err(BrokenOff), None)),
        }
    });
    Ok(Body::from_stream(parts))
}
