//! Reads what a server answers to an export: `Export*ServiceResponse` and `google.rpc.Status`, as protobuf.
//!
//! Sources: `opentelemetry/proto/collector/trace/v1/trace_service.proto` (the other signals use the
//! same numbers), `google/rpc/status.proto`, `google/rpc/error_details.proto`,
//! `google/protobuf/duration.proto`. An answer is a stranger's: every text from it is made
//! [`printable`], and what cannot be read is left out.

use std::time::Duration;

use crate::wire::{Fields, Value};

/// The most characters of a server's message that are kept.
const MESSAGE_CHARS_MAX: usize = 1_000;

/// An accepted export as the server reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// Spans, points or log records that it did not take; 0 is full success.
    pub n_rejected: u64,
    /// What it said beside that. Printable, at most a thousand characters.
    pub message: Option<String>,
}

/// The parts of a `google.rpc.Status` that a client acts on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RpcStatus {
    /// Printable; `None` if empty.
    pub message: Option<String>,
    /// From a `RetryInfo` detail.
    pub retry_after: Option<Duration>,
}

/// An `Export*ServiceResponse`; `None` if it is none.
pub fn read_export_response(body: &[u8]) -> Option<Reply> {
    let mut reply = Reply::default();
    for field in Fields::new(body) {
        let (1, Value::Bytes(partial_success)) = field.ok()? else {
            continue;
        };
        for field in Fields::new(partial_success) {
            match field.ok()? {
                (1, Value::Varint(n_rejected)) => reply.n_rejected = clamp_negative(n_rejected),
                (2, Value::Bytes(message)) => reply.message = message_from(message),
                _ => {}
            }
        }
    }
    Some(reply)
}

/// A `google.rpc.Status`; `None` if it is none.
pub fn read_status(body: &[u8]) -> Option<RpcStatus> {
    let mut status = RpcStatus::default();
    for field in Fields::new(body) {
        match field.ok()? {
            (2, Value::Bytes(message)) => status.message = message_from(message),
            (3, Value::Bytes(detail)) => {
                status.retry_after = retry_delay(detail).or(status.retry_after);
            }
            _ => {}
        }
    }
    Some(status)
}

/// The delay of a `google.protobuf.Any` if it is a `RetryInfo`.
fn retry_delay(any: &[u8]) -> Option<Duration> {
    let (mut is_retry_info, mut content) = (false, &[][..]);
    for field in Fields::new(any) {
        match field.ok()? {
            (1, Value::Bytes(type_url)) => {
                is_retry_info = type_url.ends_with(b"/google.rpc.RetryInfo");
            }
            (2, Value::Bytes(value)) => content = value,
            _ => {}
        }
    }
    if !is_retry_info {
        return None;
    }
    let (mut seconds, mut nanos) = (0, 0);
    for field in Fields::new(content) {
        let (1, Value::Bytes(delay)) = field.ok()? else {
            continue;
        };
        for field in Fields::new(delay) {
            match field.ok()? {
                (1, Value::Varint(value)) => seconds = clamp_negative(value),
                (2, Value::Varint(value)) => nanos = clamp_negative(value),
                _ => {}
            }
        }
    }
    Some(Duration::from_secs(seconds).saturating_add(Duration::from_nanos(nanos)))
}

/// A negative `int64` of the wire as zero.
fn clamp_negative(value: u64) -> u64 {
    if i64::try_from(value).is_ok() {
        value
    } else {
        0
    }
}

fn message_from(bytes: &[u8]) -> Option<String> {
    let text = printable(&String::from_utf8_lossy(bytes));
    (!text.is_empty()).then_some(text)
}

/// A stranger's text on one line: control characters are escaped so that it cannot steer a
/// terminal, and a long text is cut with a mark.
pub fn printable(text: &str) -> String {
    let text = text.trim();
    let mut shown = String::with_capacity(text.len().min(MESSAGE_CHARS_MAX));
    for (n_shown, character) in text.chars().enumerate() {
        if n_shown == MESSAGE_CHARS_MAX {
            shown.push_str("...");
            break;
        }
        if character.is_control() {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Reply, RpcStatus, printable, read_export_response, read_status};
    use crate::{
        Signal,
        reply::{Encoding, export_response, status},
    };

    #[test]
    fn what_is_written_is_read() {
        for (n_rejected, message) in [(0, None), (3, Some("oops")), (0, Some("warning"))] {
            let body = export_response(Signal::Traces, Encoding::Protobuf, n_rejected, message);
            let message = message.map(str::to_owned);
            let reply = Reply {
                n_rejected,
                message,
            };
            assert_eq!(read_export_response(&body), Some(reply));
        }
        for delay in [None, Some(Duration::from_millis(1_500))] {
            let expected = RpcStatus {
                message: Some("full".to_owned()),
                retry_after: delay,
            };
            let body = status(Encoding::Protobuf, 14, "full", delay);
            assert_eq!(read_status(&body), Some(expected));
        }
    }

    #[test]
    fn a_message_cannot_steer_a_terminal_and_is_bounded() {
        assert_eq!(printable(" a\u{1b}[2Jb\nc "), "a\\u{1b}[2Jb\\nc");
        assert_eq!(printable(&"x".repeat(5_000)).len(), 1_003);
    }
}
