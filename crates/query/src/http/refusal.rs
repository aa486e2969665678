//! Why a request has no answer, and the one place where errors become statuses and codes.

use arrow::error::ArrowError;
use axum::extract::rejection::QueryRejection;
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use otlp::TraceId;
use serde::Serialize;

use crate::error::Error;
use crate::explain;
use crate::format::Problem;
use crate::trace::{self, Absence, IdError};

/// Seconds after which a refused client may try again.
const RETRY_AFTER_S: &str = "1";

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("the address is not understood; {known} the only parameters")]
    Address {
        known: &'static str,
        source: QueryRejection,
    },
    #[error(transparent)]
    TraceId(#[from] IdError),
    #[error("`span` is the id of an engine span: 16 hex digits")]
    SpanId { source: otlp::IdError },
    /// No span of the trace is there.
    #[error("{}", .why.explanation(*.trace_id))]
    Absent { trace_id: TraceId, why: Absence },
    #[error("{0}")]
    NoRequest(explain::Error),
    #[error(transparent)]
    Trace(#[from] trace::Error),
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
    #[error("none of `{given}` can be made: {known} can")]
    Accept { given: String, known: &'static str },
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
            Self::Address { source, .. } => {
                let message = with_cause(&source.body_text());
                (
                    StatusCode::BAD_REQUEST,
                    Problem {
                        code: "bad_address",
                        message,
                    },
                )
            }
            Self::TraceId(_) => (StatusCode::BAD_REQUEST, problem("bad_trace_id", &self)),
            Self::SpanId { .. } => (StatusCode::BAD_REQUEST, problem("bad_span_id", &self)),
            Self::Absent { why, .. } => (StatusCode::NOT_FOUND, problem(why.code(), &self)),
            Self::NoRequest(_) => (StatusCode::NOT_FOUND, problem("unknown_request", &self)),
            Self::Trace(error) => outward_of_trace(error),
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
pub(super) struct ProblemBody {
    pub(super) error: Problem,
}

pub(super) fn problem(code: &'static str, error: &dyn std::fmt::Display) -> Problem {
    Problem {
        code,
        message: error.to_string(),
    }
}

/// The one place where errors of statements become statuses and codes. What only we can act on goes
/// to the log.
pub(super) fn outward(error: &Error) -> (StatusCode, Problem) {
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

fn outward_of_trace(error: &trace::Error) -> (StatusCode, Problem) {
    let (status, code) = match error {
        trace::Error::Statement(error) => return outward(error),
        trace::Error::TooManySpans { .. } | trace::Error::TooManyRows { .. } => {
            (StatusCode::UNPROCESSABLE_ENTITY, "too_many_spans")
        }
        trace::Error::TooLarge { .. } => (StatusCode::UNPROCESSABLE_ENTITY, "trace_too_large"),
        trace::Error::Rows(_) | trace::Error::Write { .. } => {
            (StatusCode::INTERNAL_SERVER_ERROR, "internal")
        }
    };
    if status == StatusCode::INTERNAL_SERVER_ERROR {
        log_fault(error);
    }
    (status, problem(code, error))
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
