//! An attempt that was not accepted, and whether another one is allowed.

use std::{fmt, time::Duration};

use http::StatusCode;
use otlp::reply::printable;
use tonic::Code;

use crate::error;

/// How the server, or the way to it, answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// A gRPC status.
    Grpc(Code),
    /// An HTTP status.
    Http(StatusCode),
    /// The connection failed or broke before an answer.
    NoAnswer,
    /// No answer in time.
    TimedOut,
    /// The request cannot be sent at all.
    Unsendable,
}

/// One attempt that was not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendError {
    /// How it was answered.
    pub status: Status,
    /// What the server said, or why there was no answer; printable, may be empty.
    pub message: String,
    /// How long the server wants to be left alone (`RetryInfo`, `Retry-After`).
    pub retry_after: Option<Duration>,
}

impl SendError {
    pub(super) fn timed_out(timeout: Duration) -> SendError {
        SendError {
            status: Status::TimedOut,
            message: format!("nothing within {timeout:?}"),
            retry_after: None,
        }
    }

    pub(super) fn no_answer(source: &dyn std::error::Error) -> SendError {
        SendError {
            status: Status::NoAnswer,
            message: printable(&error::chain(source)),
            retry_after: None,
        }
    }

    pub(super) fn unsendable(source: &dyn std::error::Error) -> SendError {
        SendError {
            status: Status::Unsendable,
            ..SendError::no_answer(source)
        }
    }

    /// Whether OTLP lets a client send the same request again.
    ///
    /// OTLP specification, "Failures" of OTLP/gRPC (`RESOURCE_EXHAUSTED` only with `RetryInfo`) and
    /// "Retryable Response Codes" of OTLP/HTTP.
    pub fn is_retryable(&self) -> bool {
        match self.status {
            Status::Grpc(code) => match code {
                Code::Cancelled
                | Code::DeadlineExceeded
                | Code::Aborted
                | Code::OutOfRange
                | Code::Unavailable
                | Code::DataLoss => true,
                Code::ResourceExhausted => self.retry_after.is_some(),
                Code::Ok
                | Code::Unknown
                | Code::InvalidArgument
                | Code::NotFound
                | Code::AlreadyExists
                | Code::PermissionDenied
                | Code::FailedPrecondition
                | Code::Unimplemented
                | Code::Internal
                | Code::Unauthenticated => false,
            },
            Status::Http(status) => matches!(status.as_u16(), 429 | 502 | 503 | 504),
            Status::NoAnswer | Status::TimedOut => true,
            Status::Unsendable => false,
        }
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            Status::Grpc(code) => write!(f, "gRPC {code:?}")?,
            Status::Http(status) => write!(f, "HTTP {}", status.as_u16())?,
            Status::NoAnswer => f.write_str("no answer")?,
            Status::TimedOut => f.write_str("timed out")?,
            Status::Unsendable => f.write_str("cannot be sent")?,
        }
        if self.message.is_empty() {
            return Ok(());
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for SendError {}
