//! An attempt that was not accepted, and an export that failed for good.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

/// How the server, or the way to it, answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// A gRPC status code.
    Grpc(i32),
    /// An HTTP status code.
    Http(u16),
    /// The connection failed or broke before an answer.
    NoAnswer,
    /// No answer in time.
    TimedOut,
}

impl fmt::Display for Status {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Grpc(code) => write!(formatter, "gRPC {}", grpc_code_name(*code)),
            Self::Http(code) => write!(formatter, "HTTP {code}"),
            Self::NoAnswer => formatter.write_str("no answer"),
            Self::TimedOut => formatter.write_str("timed out"),
        }
    }
}

/// One attempt that was not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// How it was answered.
    pub status: Status,
    /// What the server said, or why there was no answer; printable, may be empty.
    pub message: String,
    /// How long the server wants to be left alone.
    pub retry_after: Option<Duration>,
}

impl Failure {
    pub(super) fn timed_out(timeout: Duration) -> Self {
        Self {
            status: Status::TimedOut,
            message: format!("nothing within {} s", timeout.as_secs_f64()),
            retry_after: None,
        }
    }

    pub(super) fn no_answer(error: &dyn StdError) -> Self {
        Self {
            status: Status::NoAnswer,
            message: chain(error),
            retry_after: None,
        }
    }

    /// Whether OTLP lets a client send the same export request again.
    ///
    /// OTLP specification, "Failures" of OTLP/gRPC (`RESOURCE_EXHAUSTED` only with `RetryInfo`) and
    /// "Retryable Response Codes" of OTLP/HTTP.
    pub fn is_retryable(&self) -> bool {
        match self.status {
            Status::Grpc(code) => match code {
                // CANCELLED, DEADLINE_EXCEEDED, ABORTED, OUT_OF_RANGE, UNAVAILABLE, DATA_LOSS
                1 | 4 | 10 | 11 | 14 | 15 => true,
                // RESOURCE_EXHAUSTED
                8 => self.retry_after.is_some(),
                _ => false,
            },
            Status::Http(code) => matches!(code, 429 | 502 | 503 | 504),
            Status::NoAnswer | Status::TimedOut => true,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.status)?;
        if !self.message.is_empty() {
            write!(formatter, ": {}", self.message)?;
        }
        Ok(())
    }
}

/// An export request that will not be accepted.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The server said no in a way that another attempt would not change.
    #[error("refused ({failure})")]
    Refused {
        /// The last answer.
        failure: Failure,
        /// Attempts before it.
        n_retries: u32,
    },
    /// Every attempt failed.
    #[error("gave up after {} attempts ({failure})", .n_retries.saturating_add(1))]
    Exhausted {
        /// The last answer.
        failure: Failure,
        /// Attempts before it.
        n_retries: u32,
    },
    /// The server asked for a longer pause than this client is willing to make.
    #[error("server asks to wait {} s ({failure})", .delay.as_secs_f64())]
    DelayTooLong {
        /// The last answer.
        failure: Failure,
        /// What the server asked for.
        delay: Duration,
        /// Attempts before it.
        n_retries: u32,
    },
    /// The body cannot be turned into OTLP/JSON, so nothing was sent.
    #[error("turn the export request into JSON")]
    Encode {
        /// What is wrong and where.
        source: otlp::Error,
    },
    /// The client was closed while the export waited for its turn.
    #[error("client is closed")]
    Closed,
}

impl ExportError {
    /// Attempts before the last one.
    pub fn n_retries(&self) -> u32 {
        match self {
            Self::Refused { n_retries, .. }
            | Self::Exhausted { n_retries, .. }
            | Self::DelayTooLong { n_retries, .. } => *n_retries,
            Self::Encode { .. } | Self::Closed => 0,
        }
    }

    /// Whether the fault lies with the server or the way to it, so that other export requests will
    /// fare no better now.
    pub fn is_unavailable(&self) -> bool {
        matches!(
            self,
            Self::Exhausted { .. } | Self::DelayTooLong { .. } | Self::Closed
        )
    }
}

/// An error with its causes, each once: many libraries repeat the cause in the text of the outer
/// error.
fn chain(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = error.source();
    }
    otlp::reply::printable(&text)
}

fn grpc_code_name(code: i32) -> &'static str {
    match code {
        0 => "OK",
        1 => "CANCELLED",
        2 => "UNKNOWN",
        3 => "INVALID_ARGUMENT",
        4 => "DEADLINE_EXCEEDED",
        5 => "NOT_FOUND",
        6 => "ALREADY_EXISTS",
        7 => "PERMISSION_DENIED",
        8 => "RESOURCE_EXHAUSTED",
        9 => "FAILED_PRECONDITION",
        10 => "ABORTED",
        11 => "OUT_OF_RANGE",
        12 => "UNIMPLEMENTED",
        13 => "INTERNAL",
        14 => "UNAVAILABLE",
        15 => "DATA_LOSS",
        16 => "UNAUTHENTICATED",
        _ => "code without a name",
    }
}
