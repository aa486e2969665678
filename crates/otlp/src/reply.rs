//! What a receiver answers, and how a sender reads it: export responses and `google.rpc.Status`, in protobuf and JSON.
//!
//! Response and error go in the encoding of the request (OTLP specification, "OTLP/HTTP Response").
//! `partial_success` is left unset when everything was accepted ("Full Success"). Texts are cut to
//! [`MESSAGE_BYTES_MAX`], far below the 4 MiB that clients accept.

mod read;
mod retry_after;

use std::time::Duration;

use crate::{
    encode::Writer,
    export::Signal,
    json::write::{push_fmt, push_string},
};

pub use read::{Reply, RpcStatus, printable, read_export_response, read_status};
pub use retry_after::retry_after;

/// Longest text in a reply; cut at a character boundary.
pub const MESSAGE_BYTES_MAX: usize = 4096;

const RETRY_INFO: &str = "type.googleapis.com/google.rpc.RetryInfo";

/// How a reply is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// `application/x-protobuf`, and gRPC.
    Protobuf,
    /// `application/json`.
    Json,
}

impl Encoding {
    /// Its content type in HTTP.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Protobuf => "application/x-protobuf",
            Self::Json => "application/json",
        }
    }
}

/// An `Export*ServiceResponse`: full success if nothing is `rejected` and there is no `message`; a
/// message alone is a warning.
pub fn export_response(
    signal: Signal,
    encoding: Encoding,
    rejected: u64,
    message: Option<&str>,
) -> Vec<u8> {
    let message = cut(message.unwrap_or_default());
    let is_full_success = rejected == 0 && message.is_empty();
    match encoding {
        Encoding::Protobuf => {
            let mut out = Writer::default();
            if !is_full_success {
                out.open(1);
                if rejected != 0 {
                    out.varint(1, rejected);
                }
                if !message.is_empty() {
                    out.bytes(2, message.as_bytes());
                }
                out.close();
            }
            out.finish()
        }
        Encoding::Json if is_full_success => b"{}".to_vec(),
        Encoding::Json => {
            let count = match signal {
                Signal::Traces => "rejectedSpans",
                Signal::Metrics => "rejectedDataPoints",
                Signal::Logs => "rejectedLogRecords",
            };
            let mut out = format!("{{\"partialSuccess\":{{\"{count}\":\"{rejected}\"");
            if !message.is_empty() {
                out.push_str(",\"errorMessage\":");
                push_string(message, &mut out);
            }
            out.push_str("}}");
            out.into_bytes()
        }
    }
}

/// A `google.rpc.Status`; with a `RetryInfo` detail if the client shall try again after
/// `retry_after`. The protobuf form is also the value of gRPC's `grpc-status-details-bin`.
pub fn status(
    encoding: Encoding,
    grpc_code: i32,
    message: &str,
    retry_after: Option<Duration>,
) -> Vec<u8> {
    let message = cut(message);
    match encoding {
        Encoding::Protobuf => status_protobuf(grpc_code, message, retry_after),
        Encoding::Json => status_json(grpc_code, message, retry_after),
    }
}

/// `Status { int32 code = 1; string message = 2; repeated Any details = 3; }`
fn status_protobuf(grpc_code: i32, message: &str, retry_after: Option<Duration>) -> Vec<u8> {
    let mut out = Writer::default();
    if grpc_code != 0 {
        out.varint(1, i64::from(grpc_code).cast_unsigned());
    }
    if !message.is_empty() {
        out.bytes(2, message.as_bytes());
    }
    if let Some(delay) = retry_after {
        // `Any { string type_url = 1; bytes value = 2; }`
        out.open(3);
        out.bytes(1, RETRY_INFO.as_bytes());
        out.bytes(2, &retry_info(delay));
        out.close();
    }
    out.finish()
}

/// A `google.rpc.RetryInfo` by itself, protobuf: the Python SDK looks for it in the trailer
/// `google.rpc.retryinfo-bin` and not among the details of the status.
pub fn retry_info(retry_after: Duration) -> Vec<u8> {
    let mut out = Writer::default();
    // `RetryInfo { Duration retry_delay = 1; }`, `Duration { int64 seconds = 1; int32 nanos = 2; }`
    out.open(1);
    if retry_after.as_secs() != 0 {
        out.varint(1, retry_after.as_secs());
    }
    if retry_after.subsec_nanos() != 0 {
        out.varint(2, u64::from(retry_after.subsec_nanos()));
    }
    out.close();
    out.finish()
}

fn status_json(grpc_code: i32, message: &str, retry_after: Option<Duration>) -> Vec<u8> {
    let mut out = format!("{{\"code\":{grpc_code},\"message\":");
    push_string(message, &mut out);
    if let Some(delay) = retry_after {
        out.push_str(",\"details\":[{\"@type\":");
        push_string(RETRY_INFO, &mut out);
        let (secs, nanos) = (delay.as_secs(), delay.subsec_nanos());
        // Proto3's JSON writes a duration with 0, 3, 6 or 9 digits.
        match nanos {
            0 => push_fmt(format_args!(",\"retryDelay\":\"{secs}s\""), &mut out),
            _ => push_fmt(
                format_args!(",\"retryDelay\":\"{secs}.{nanos:09}s\""),
                &mut out,
            ),
        }
        out.push_str("}]");
    }
    out.push('}');
    out.into_bytes()
}

fn cut(message: &str) -> &str {
    message
        .get(..message.floor_char_boundary(MESSAGE_BYTES_MAX))
        .unwrap_or(message)
}

#[cfg(test)]
mod tests;
