//! HTTP: `POST /v1/sql`, `GET /v1/tables`, and the web page ([`page()`]).
//!
//! # `POST /v1/sql`
//!
//! - Body `application/json`: `{"sql": "SELECT ..", "format": "json|csv|arrow|parquet", "limit": 100}`; only
//!   `sql` is needed, unknown members are refused.
//! - Body `text/plain` or `application/sql`: the statement itself.
//! - `format` and `limit` can also be in the address (`?format=csv&limit=100`); a member of the body
//!   wins over the address, the address over the `Accept` header, JSON is the default.
//! - Answers are streamed; `format` describes the four of them.
//!
//! # Tokens
//!
//! [`guarded`] asks each request for a token, by its head alone; without a known one the answer is 401 with
//! `WWW-Authenticate` and the code `unauthenticated`.
//!
//! # Errors
//!
//! `{"error":{"code":"unknown_column","message":".."}}` with a status by whose fault it is: 401 without a
//! token, 400 for the statement, 413 and 422 for its size and its need of memory, 504 for the time limit, 503 with
//! `Retry-After` if too many run, 429 if too many of one user do, 500 for us. Codes are stable, messages are for people.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, TRAILER};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use http_body::Frame;
use http_body_util::StreamBody;
use serde::{Deserialize, Serialize};

use crate::answer::Answer;
use crate::asker::Asker;
use crate::engine::Engine;
use crate::error::Error;
use crate::format::{Encoder, Format, Problem, Summary};
use crate::metrics::Entrance;
use crate::question::Question;
use crate::reference;

mod guard;
mod page;

pub use guard::{Guard, guarded};
pub use page::page;

const ROW_LIMIT: HeaderName = HeaderName::from_static("whyslow-row-limit");
const ROW_COUNT: HeaderName = HeaderName::from_static("whyslow-row-count");
const TRUNCATED: HeaderName = HeaderName::from_static("whyslow-truncated");

/// Rows that are encoded into one piece of the body.
const ROWS_PER_PIECE: usize = 1024;

/// Seconds after which a refused client may try again.
const RETRY_AFTER_S: &str = "1";

/// Routes of the query listener.
pub fn router(engine: Arc<Engine>) -> Router {
    Router::new()
        .route("/v1/sql", post(run))
        .route("/v1/tables", get(list_tables))
        .with_state(engine)
}

async fn list_tables() -> Response {
    axum::Json(reference::tables()).into_response()
}

/// Answers a statement.
async fn run(
    State(engine): State<Arc<Engine>>,
    address: Result<Query<Choices>, QueryRejection>,
    request: Request,
) -> Response {
    let clock = Clock::start();
    match answer(&engine, address, request).await {
        Ok((answer, format)) => stream_answer(answer, format, clock).await,
        Err(refusal) => refusal.into_response(),
    }
}

async fn answer(
    engine: &Engine,
    address: Result<Query<Choices>, QueryRejection>,
    request: Request,
) -> Result<(Answer, Format), Refusal> {
    let Query(address) = address.map_err(|source| Refusal::Address { source })?;
    let (head, body) = request.into_parts();
    let asker = head.extensions.get::<Asker>().copied();
    // JSON may escape each byte of the statement with six.
    let bytes_max = engine.config().statement_bytes().saturating_mul(6);
    let body = to_bytes(body, bytes_max)
        .await
        .map_err(|_cut| Refusal::Body { bytes_max })?;
    let wanted = Wanted::read(&head.headers, &body)?;
    let format = match wanted.format.or(address.format) {
        Some(format) => format,
        None => accepted(&head.headers)?,
    };
    let question = Question {
        rows: wanted.limit.or(address.limit),
        asker,
        entrance: Entrance::Http,
        ..Question::new(wanted.sql)
    };
    let answer = engine.ask(question).await?;
    Ok((answer, format))
}

/// Choices that can be in the address.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Choices {
    format: Option<Format>,
    limit: Option<u64>,
}

/// A body.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    sql: String,
    format: Option<Format>,
    limit: Option<u64>,
}

impl Wanted {
    fn read(headers: &HeaderMap, body: &[u8]) -> Result<Self, Refusal> {
        let content_type = headers
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok());
        let content_type = content_type.unwrap_or_default();
        let media_type = content_type.split(';').next().unwrap_or_default().trim();
        match media_type.to_ascii_lowercase().as_str() {
            "application/json" => {
                serde_json::from_slice(body).map_err(|source| Refusal::Json { source })
            }
            "text/plain" | "application/sql" => {
                let sql = std::str::from_utf8(body).map_err(|source| Refusal::Utf8 { source })?;
                Ok(Self {
                    sql: sql.to_owned(),
                    format: None,
                    limit: None,
                })
            }
            _ => Err(Refusal::ContentType {
                given: content_type.to_owned(),
            }),
        }
    }
}

fn accepted(headers: &HeaderMap) -> Result<Format, Refusal> {
    let Some(accept) = headers.get(ACCEPT) else {
        return Ok(Format::Json);
    };
    let accept = accept.to_str().unwrap_or_default();
    Format::of_accept(accept).ok_or_else(|| Refusal::Accept {
        given: accept.to_owned(),
    })
}

/// Time since a statement arrived.
#[derive(Debug, Clone, Copy)]
struct Clock(Instant);

impl Clock {
    #[expect(
        clippy::disallowed_methods,
        reason = "the HTTP edge measures what it reports"
    )]
    fn start() -> Self {
        Self(Instant::now())
    }

    fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

/// Waits for the first batch, so that most errors still get a status of their own.
async fn stream_answer(mut answer: Answer, format: Format, clock: Clock) -> Response {
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
struct BrokenOff;

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("the address is not understood; `format` and `limit` are the only parameters")]
    Address { source: QueryRejection },
    #[error("the body has more than {bytes_max} bytes, or was cut on its way")]
    Body { bytes_max: usize },
    #[error("the body is not a JSON object with `sql` and, as you like, `format` and `limit`")]
    Json { source: serde_json::Error },
    #[error("the body is not UTF-8")]
    Utf8 { source: std::str::Utf8Error },
    #[error(
        "content type `{given}` is not understood: send `application/json` with {{\"sql\": ..}}, or \
         the statement alone as `text/plain`"
    )]
    ContentType { given: String },
    #[error(
        "none of `{given}` can be made: `application/json`, `text/csv`, \
         `application/vnd.apache.arrow.stream` and `application/vnd.apache.parquet` can"
    )]
    Accept { given: String },
    #[error("the columns of the answer cannot be written in this format")]
    Encode { source: ArrowError },
    #[error(transparent)]
    Statement(#[from] Error),
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let with_cause = |cause: &dyn std::fmt::Display| format!("{self}: {cause}");
        let (status, problem) = match &self {
            Self::Statement(error) => outward(error),
            Self::Address { source } => {
                let message = with_cause(&source.body_text());
                (
                    StatusCode::BAD_REQUEST,
                    Problem {
                        code: "bad_address",
                        message,
                    },
                )
            }
            Self::Body { .. } => (
                StatusCode::PAYLOAD_TOO_LARGE,
                problem("body_too_large", &self),
            ),
            Self::Json { source } => (
                StatusCode::BAD_REQUEST,
                Problem {
                    code: "bad_body",
                    message: with_cause(source),
                },
            ),
            Self::Utf8 { source } => (
                StatusCode::BAD_REQUEST,
                Problem {
                    code: "bad_body",
                    message: with_cause(source),
                },
            ),
            Self::ContentType { .. } => (
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                problem("bad_content_type", &self),
            ),
            Self::Accept { .. } => (StatusCode::NOT_ACCEPTABLE, problem("not_acceptable", &self)),
            Self::Encode { source } => {
                let message = with_cause(source);
                (
                    StatusCode::NOT_ACCEPTABLE,
                    Problem {
                        code: "not_acceptable",
                        message,
                    },
                )
            }
        };
        let body = axum::Json(ProblemBody { error: problem });
        let mut response = (status, body).into_response();
        let is_for_later = [
            StatusCode::SERVICE_UNAVAILABLE,
            StatusCode::TOO_MANY_REQUESTS,
        ];
        if is_for_later.contains(&status) {
            response
                .headers_mut()
                .insert(RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_S));
        }
        response
    }
}

#[derive(Debug, Serialize)]
struct ProblemBody {
    error: Problem,
}

fn problem(code: &'static str, error: &dyn std::fmt::Display) -> Problem {
    Problem {
        code,
        message: error.to_string(),
    }
}

/// The one place where errors of statements become statuses and codes. What only we can act on goes
/// to the log.
fn outward(error: &Error) -> (StatusCode, Problem) {
    let (status, code) = match error {
        Error::NoStatement => (StatusCode::BAD_REQUEST, "no_statement"),
        Error::SeveralStatements { .. } => (StatusCode::BAD_REQUEST, "several_statements"),
        Error::NotReadOnly { .. } => (StatusCode::BAD_REQUEST, "not_read_only"),
        Error::Syntax { .. } => (StatusCode::BAD_REQUEST, "syntax"),
        Error::UnknownTable { .. } => (StatusCode::BAD_REQUEST, "unknown_table"),
        Error::UnknownColumn { .. } => (StatusCode::BAD_REQUEST, "unknown_column"),
        Error::Unanswerable { .. } => (StatusCode::BAD_REQUEST, "unanswerable"),
        Error::TooLong { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "too_long"),
        Error::TooComplex { .. } => (StatusCode::UNPROCESSABLE_ENTITY, "too_complex"),
        Error::OutOfMemory { .. } => (StatusCode::UNPROCESSABLE_ENTITY, "out_of_memory"),
        Error::TimedOut { .. } => (StatusCode::GATEWAY_TIMEOUT, "timed_out"),
        Error::Busy { .. } => (StatusCode::SERVICE_UNAVAILABLE, "busy"),
        Error::BusyUser { .. } => (StatusCode::TOO_MANY_REQUESTS, "busy_user"),
        Error::Storage { .. } => (StatusCode::INTERNAL_SERVER_ERROR, "storage"),
        Error::Internal { .. }
        | Error::Ended { .. }
        | Error::Threads { .. }
        | Error::View { .. } => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
    };
    if status == StatusCode::INTERNAL_SERVER_ERROR {
        log_fault(error);
    }
    (
        status,
        Problem {
            code,
            message: error.explanation(),
        },
    )
}

pub(crate) fn log_fault(error: &(dyn std::error::Error + 'static)) {
    let mut causes = String::new();
    let mut source = error.source();
    while let Some(cause) = source {
        causes.push_str(": ");
        causes.push_str(&cause.to_string());
        source = cause.source();
    }
    tracing::error!("a statement failed: {error}{causes}");
}

#[cfg(test)]
mod tests;
