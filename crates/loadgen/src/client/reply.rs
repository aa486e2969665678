//! Reads what an OTLP server answers: `Export*ServiceResponse` and `google.rpc.Status`, as protobuf
//! or JSON.
//!
//! Sources: `opentelemetry/proto/collector/trace/v1/trace_service.proto` (the other signals use the
//! same numbers), `google/rpc/status.proto`, `google/rpc/error_details.proto`,
//! `google/protobuf/duration.proto`. An answer is a stranger's: every text from it is made
//! [`printable`], and what cannot be read is left out.

use std::time::Duration;

use otlp::wire::{Fields, Value};
use serde_json::Value as Json;

use super::Reply;

/// The most characters of a server's message that are kept.
const MESSAGE_CHARS_MAX: usize = 1_000;

/// How a body over HTTP is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Protobuf,
    Json,
}

impl Encoding {
    pub(super) const fn content_type(self) -> &'static str {
        match self {
            Self::Protobuf => "application/x-protobuf",
            Self::Json => "application/json",
        }
    }

    pub(super) fn from_content_type(value: &str) -> Option<Self> {
        let media_type = value.split(';').next().unwrap_or_default().trim();
        [Self::Protobuf, Self::Json]
            .into_iter()
            .find(|encoding| media_type.eq_ignore_ascii_case(encoding.content_type()))
    }
}

/// The parts of a `google.rpc.Status` that a client acts on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct RpcStatus {
    /// `None` if empty.
    pub(super) message: Option<String>,
    /// From a `RetryInfo` detail.
    pub(super) retry_after: Option<Duration>,
}

/// An `Export*ServiceResponse`; `None` if it is none.
pub(super) fn read(encoding: Encoding, body: &[u8]) -> Option<Reply> {
    match encoding {
        Encoding::Protobuf => from_protobuf(body),
        Encoding::Json => from_json(body),
    }
}

/// A `google.rpc.Status`; `None` if it is none.
pub(super) fn read_status(encoding: Encoding, body: &[u8]) -> Option<RpcStatus> {
    match encoding {
        Encoding::Protobuf => status_from_protobuf(body),
        Encoding::Json => status_from_json(body),
    }
}

pub(super) fn from_protobuf(body: &[u8]) -> Option<Reply> {
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

pub(super) fn status_from_protobuf(body: &[u8]) -> Option<RpcStatus> {
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

fn from_json(body: &[u8]) -> Option<Reply> {
    let json: Json = serde_json::from_slice(body).ok()?;
    let partial_success = &json["partialSuccess"];
    let rejected = ["rejectedSpans", "rejectedDataPoints", "rejectedLogRecords"]
        .into_iter()
        .find_map(|key| partial_success.get(key));
    let n_rejected = match rejected {
        Some(Json::String(text)) => text.parse().unwrap_or(0),
        Some(number) => number.as_u64().unwrap_or(0),
        None => 0,
    };
    Some(Reply {
        n_rejected,
        message: message_from_json(&partial_success["errorMessage"]),
    })
}

fn status_from_json(body: &[u8]) -> Option<RpcStatus> {
    let json: Json = serde_json::from_slice(body).ok()?;
    json.as_object()?;
    let details = json["details"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let retry_after = details
        .iter()
        .filter(|detail| {
            detail["@type"]
                .as_str()
                .is_some_and(|url| url.ends_with("/google.rpc.RetryInfo"))
        })
        .find_map(|detail| {
            let seconds: f64 = detail["retryDelay"]
                .as_str()?
                .strip_suffix('s')?
                .parse()
                .ok()?;
            Duration::try_from_secs_f64(seconds).ok()
        });
    Some(RpcStatus {
        message: message_from_json(&json["message"]),
        retry_after,
    })
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

fn message_from_json(json: &Json) -> Option<String> {
    json.as_str().map(printable).filter(|text| !text.is_empty())
}

/// A stranger's text on one line: control characters are escaped so that it cannot steer a
/// terminal, and a long text is cut with a mark.
pub(super) fn printable(text: &str) -> String {
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
    use super::{Duration, Encoding, Reply, RpcStatus, printable, read, read_status};

    const RETRY_INFO: &[u8] = b"\x0a\x28type.googleapis.com/google.rpc.RetryInfo";

    fn status_with_retry(delay: &[u8]) -> Vec<u8> {
        let mut any = RETRY_INFO.to_vec();
        any.extend([0x12, u8::try_from(delay.len() + 2).unwrap()]);
        any.extend([0x0a, u8::try_from(delay.len()).unwrap()]);
        any.extend(delay);
        let mut status = b"\x08\x0e\x12\x04full\x1a".to_vec();
        status.push(u8::try_from(any.len()).unwrap());
        status.extend(any);
        status
    }

    fn reply(n_rejected: u64, message: Option<&str>) -> Option<Reply> {
        Some(Reply {
            n_rejected,
            message: message.map(str::to_owned),
        })
    }

    #[test]
    fn partial_success_is_read_from_both_encodings() {
        for (encoding, body, expected) in [
            (Encoding::Protobuf, &b""[..], reply(0, None)),
            (
                Encoding::Protobuf,
                b"\x0a\x08\x08\x03\x12\x04oops",
                reply(3, Some("oops")),
            ),
            (
                Encoding::Protobuf,
                b"\x0a\x06\x12\x04oops",
                reply(0, Some("oops")),
            ),
            (
                Encoding::Protobuf,
                b"\x0a\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
                reply(0, None),
            ),
            (Encoding::Protobuf, b"<html>", None),
            (Encoding::Json, b"{}", reply(0, None)),
            (
                Encoding::Json,
                br#"{"partialSuccess":{"rejectedSpans":"3","errorMessage":"oops"}}"#,
                reply(3, Some("oops")),
            ),
            (
                Encoding::Json,
                br#"{"partialSuccess":{"rejectedDataPoints":4}}"#,
                reply(4, None),
            ),
            (Encoding::Json, br#"{"partialSuccess":[1]}"#, reply(0, None)),
            (Encoding::Json, b"<html>", None),
        ] {
            assert_eq!(
                read(encoding, body),
                expected,
                "{}",
                String::from_utf8_lossy(body)
            );
        }
    }

    #[test]
    fn a_status_gives_its_message_and_the_delay_of_its_retry_info() {
        let json = br#"{"code":14,"message":"full","details":[
            {"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"1.5s"}]}"#;
        let delay = Duration::from_millis(1_500);
        let expected = RpcStatus {
            message: Some("full".to_owned()),
            retry_after: Some(delay),
        };
        let protobuf = status_with_retry(b"\x08\x01\x10\x80\xca\xb5\xee\x01");
        assert_eq!(
            read_status(Encoding::Protobuf, &protobuf),
            Some(expected.clone())
        );
        assert_eq!(read_status(Encoding::Json, json), Some(expected));
        assert_eq!(read_status(Encoding::Json, b"\"text\""), None);
        for delay in ["1.5", "-1s", "NaNs", "1e300s"] {
            let json = format!(
                r#"{{"details":[{{"@type":"t/google.rpc.RetryInfo","retryDelay":"{delay}"}}]}}"#
            );
            assert_eq!(
                read_status(Encoding::Json, json.as_bytes()),
                Some(RpcStatus::default())
            );
        }
    }

    #[test]
    fn answers_cut_at_any_byte_do_no_harm() {
        let whole = status_with_retry(b"\x08\x01\x10\x80\xca\xb5\xee\x01");
        for end in 0..whole.len() {
            for encoding in [Encoding::Protobuf, Encoding::Json] {
                let (_reply, _status) = (
                    read(encoding, &whole[..end]),
                    read_status(encoding, &whole[..end]),
                );
            }
        }
    }

    #[test]
    fn a_message_cannot_steer_a_terminal_and_is_bounded() {
        assert_eq!(printable(" a\u{1b}[2Jb\nc "), "a\\u{1b}[2Jb\\nc");
        assert_eq!(printable(&"x".repeat(5_000)).len(), 1_003);
    }
}
