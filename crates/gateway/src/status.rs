//! Why an export is refused, and what its sender is told: the only outward mapping of this crate.
//!
//! | refusal | gRPC | HTTP | retry |
//! | --- | --- | --- | --- |
//! | malformed, bad report, bad compression | `INVALID_ARGUMENT` | 400 | no |
//! | bad gRPC framing | `INTERNAL` | 400 | no |
//! | too large, before or after inflating | `RESOURCE_EXHAUSTED` without `RetryInfo` | 413 | no |
//! | media type or encoding not known | `UNIMPLEMENTED` | 415 | no |
//! | no token, or a wrong one | `UNAUTHENTICATED` | 401 with `WWW-Authenticate` | no |
//! | path or method not known | `UNIMPLEMENTED` | 404 | no |
//! | wrong verb | `UNIMPLEMENTED` | 405 | no |
//! | over a limit of the intake | `UNAVAILABLE` with `RetryInfo` | 429 with `Retry-After` | yes |
//! | log failed, or stopping | `UNAVAILABLE` with `RetryInfo` | 503 with `Retry-After` | yes |
//! | body not received in time | `DEADLINE_EXCEEDED` with `RetryInfo` | 503 with `Retry-After` | yes |
//! | sender went away | `CANCELLED` | 400 | nobody reads it |
//!
//! `RESOURCE_EXHAUSTED` therefore always means "do not send this again", and a client that retries on
//! `UNAVAILABLE` alone (the smallest retryable set in use) still retries what it should. Source:
//! opentelemetry-proto docs/specification.md, "OTLP/gRPC Response" and "OTLP/HTTP Response".

use std::{fmt, time::Duration};

use http::StatusCode;
use tonic::Code;
use transport::Unauthenticated;

/// How long a refused sender is asked to wait, unless the gate stays closed (`Gate::retry_delay`). Decisions and deletions happen many times a second, so that
/// a longer pause would leave capacity unused.
pub(crate) const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Why an export was not accepted.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// A token is asked for, and the request has none that is known.
    Unauthenticated(Unauthenticated),
    /// The bytes are not an export request of this signal.
    Malformed(otlp::Error),
    /// An entry of a report cannot be used.
    BadReport(reports::Error),
    /// The compressed body cannot be inflated.
    BadCompression(std::io::Error),
    /// The gRPC message framing is wrong.
    BadFrame(&'static str),
    /// The body, or what it inflates or converts to, is over the configured limit.
    TooLarge {
        /// The limit.
        limit_bytes: u64,
    },
    /// The media type is not one of OTLP's.
    UnknownMediaType,
    /// The content encoding is not one of ours.
    UnknownEncoding,
    /// No such path or gRPC method.
    UnknownPath,
    /// The path exists, but not for this verb.
    WrongVerb,
    /// A limit of the intake is reached; it will pass.
    Overloaded(Overload),
    /// Nothing is accepted: the log failed or the process is stopping.
    Unavailable,
    /// The body did not arrive in time.
    BodyTimedOut,
    /// The connection broke while the body was read.
    BodyBroken,
}

/// Which limit of the intake is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overload {
    /// `intake.bytes_in_flight_max`.
    BytesInFlight,
    /// `intake.log_bytes_max`.
    LogBytes,
    /// The disk has no room.
    DiskFull,
    /// `intake.release_backlog_spans_max`: decided spans wait for storage.
    ReleaseBacklog,
    /// `intake.pending_heap_bytes_max`.
    PendingHeap,
}

/// A refusal as the sender sees it.
pub(crate) struct Outward {
    pub(crate) grpc: Code,
    pub(crate) http: StatusCode,
    pub(crate) retry_after: Option<Duration>,
}

impl Refusal {
    /// The one mapping to gRPC and HTTP.
    pub(crate) fn outward(&self) -> Outward {
        let (grpc, http, retry_after) = match self {
            Refusal::Unauthenticated(_) => (Code::Unauthenticated, StatusCode::UNAUTHORIZED, None),
            Refusal::Malformed(_) | Refusal::BadReport(_) | Refusal::BadCompression(_) => {
                (Code::InvalidArgument, StatusCode::BAD_REQUEST, None)
            }
            Refusal::BadFrame(_) => (Code::Internal, StatusCode::BAD_REQUEST, None),
            Refusal::TooLarge { .. } => {
                (Code::ResourceExhausted, StatusCode::PAYLOAD_TOO_LARGE, None)
            }
            Refusal::UnknownMediaType | Refusal::UnknownEncoding => (
                Code::Unimplemented,
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                None,
            ),
            Refusal::UnknownPath => (Code::Unimplemented, StatusCode::NOT_FOUND, None),
            Refusal::WrongVerb => (Code::Unimplemented, StatusCode::METHOD_NOT_ALLOWED, None),
            Refusal::Overloaded(_) => (
                Code::Unavailable,
                StatusCode::TOO_MANY_REQUESTS,
                Some(RETRY_DELAY),
            ),
            Refusal::Unavailable => (
                Code::Unavailable,
                StatusCode::SERVICE_UNAVAILABLE,
                Some(RETRY_DELAY),
            ),
            // 408 says what happened, but OTLP senders drop what it answers.
            Refusal::BodyTimedOut => (
                Code::DeadlineExceeded,
                StatusCode::SERVICE_UNAVAILABLE,
                Some(RETRY_DELAY),
            ),
            Refusal::BodyBroken => (Code::Cancelled, StatusCode::BAD_REQUEST, None),
        };
        Outward {
            grpc,
            http,
            retry_after,
        }
    }

    /// Is it the gate that refuses, and not what this request asks for?
    pub(crate) fn is_of_gate(&self) -> bool {
        match self {
            Refusal::Overloaded(limit) => *limit != Overload::BytesInFlight,
            Refusal::Unavailable => true,
            Refusal::Unauthenticated(_)
            | Refusal::Malformed(_)
            | Refusal::BadReport(_)
            | Refusal::BadCompression(_)
            | Refusal::BadFrame(_)
            | Refusal::TooLarge { .. }
            | Refusal::UnknownMediaType
            | Refusal::UnknownEncoding
            | Refusal::UnknownPath
            | Refusal::WrongVerb
            | Refusal::BodyTimedOut
            | Refusal::BodyBroken => false,
        }
    }

    /// The reason under which it is counted.
    pub(crate) fn reason(&self) -> RefusedReason {
        match self {
            Refusal::Unauthenticated(_) => RefusedReason::Unauthenticated,
            Refusal::Malformed(_)
            | Refusal::BadReport(_)
            | Refusal::BadCompression(_)
            | Refusal::BadFrame(_) => RefusedReason::Malformed,
            Refusal::TooLarge { .. } => RefusedReason::TooLarge,
            Refusal::UnknownMediaType
            | Refusal::UnknownEncoding
            | Refusal::UnknownPath
            | Refusal::WrongVerb => RefusedReason::Unsupported,
            Refusal::Overloaded(Overload::BytesInFlight) => RefusedReason::BytesInFlight,
            Refusal::Overloaded(Overload::LogBytes) => RefusedReason::LogBytes,
            Refusal::Overloaded(Overload::DiskFull) => RefusedReason::DiskFull,
            Refusal::Overloaded(Overload::ReleaseBacklog) => RefusedReason::ReleaseBacklog,
            Refusal::Overloaded(Overload::PendingHeap) => RefusedReason::PendingHeap,
            Refusal::Unavailable => RefusedReason::Unavailable,
            Refusal::BodyTimedOut | Refusal::BodyBroken => RefusedReason::BodyIncomplete,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Unauthenticated(error) => write!(f, "{error}"),
            Refusal::Malformed(error) => write!(f, "malformed export request: {error}"),
            Refusal::BadReport(error) => write!(f, "report refused: {error}"),
            Refusal::BadCompression(error) => write!(f, "body cannot be inflated: {error}"),
            Refusal::BadFrame(what) => write!(f, "malformed gRPC message: {what}"),
            Refusal::TooLarge { limit_bytes } => write!(
                f,
                "export request is larger than {limit_bytes} bytes (the limit counts uncompressed bytes); \
                 send smaller batches"
            ),
            Refusal::UnknownMediaType => f.write_str(
                "unsupported media type: use `application/x-protobuf` or `application/json`, \
                 or `application/grpc` on the gRPC port",
            ),
            Refusal::UnknownEncoding => {
                f.write_str("unsupported encoding: use gzip, zstd, deflate or none")
            }
            Refusal::UnknownPath => f.write_str("no such path or method"),
            Refusal::WrongVerb => f.write_str("exports are sent by POST"),
            Refusal::Overloaded(Overload::BytesInFlight) => {
                f.write_str("too many bytes in flight (`bytes_in_flight_max`); retry later")
            }
            Refusal::Overloaded(Overload::LogBytes) => {
                f.write_str("the log is full (`log_bytes_max`); retry later")
            }
            Refusal::Overloaded(Overload::DiskFull) => {
                f.write_str("the disk has no room for the log; retry later")
            }
            Refusal::Overloaded(Overload::ReleaseBacklog) => {
                f.write_str("storage is behind (`release_backlog_spans_max`); retry later")
            }
            Refusal::Overloaded(Overload::PendingHeap) => f.write_str(
                "undecided traces take too much memory (`pending_heap_bytes_max`); retry later",
            ),
            Refusal::Unavailable => f.write_str("not accepting exports at the moment; retry later"),
            Refusal::BodyTimedOut => f.write_str("the body did not arrive in time"),
            Refusal::BodyBroken => f.write_str("the connection broke while the body was read"),
        }
    }
}

/// The closed set of reasons under which refused exports and spans are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefusedReason {
    Unauthenticated,
    Malformed,
    TooLarge,
    Unsupported,
    BytesInFlight,
    LogBytes,
    DiskFull,
    ReleaseBacklog,
    PendingHeap,
    Unavailable,
    BodyIncomplete,
}

impl RefusedReason {
    pub(crate) const ALL: [RefusedReason; 11] = [
        RefusedReason::Unauthenticated,
        RefusedReason::Malformed,
        RefusedReason::TooLarge,
        RefusedReason::Unsupported,
        RefusedReason::BytesInFlight,
        RefusedReason::LogBytes,
        RefusedReason::DiskFull,
        RefusedReason::ReleaseBacklog,
        RefusedReason::PendingHeap,
        RefusedReason::Unavailable,
        RefusedReason::BodyIncomplete,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            RefusedReason::Unauthenticated => "unauthenticated",
            RefusedReason::Malformed => "malformed",
            RefusedReason::TooLarge => "too_large",
            RefusedReason::Unsupported => "unsupported",
            RefusedReason::BytesInFlight => "bytes_in_flight",
            RefusedReason::LogBytes => "log_bytes",
            RefusedReason::DiskFull => "disk_full",
            RefusedReason::ReleaseBacklog => "release_backlog",
            RefusedReason::PendingHeap => "pending_heap",
            RefusedReason::Unavailable => "unavailable",
            RefusedReason::BodyIncomplete => "body_incomplete",
        }
    }
}
