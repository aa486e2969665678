//! Reads what an OTLP server answers: `Export*ServiceResponse` and `google.rpc.Status`, as protobuf
//! or JSON.
//!
//! Sources: `opentelemetry/proto/collector/trace/v1/trace_service.proto` (the other signals use the
//! same numbers), `google/rpc/status.proto`, `google/rpc/error_details.proto`,
//! `google/protobuf/duration.proto`. An answer is a stranger's: every text from it is made
//! [`printable`], and what cannot be read is left out.

use std::time::Duration;

use otlp::reply::{
    Reply, RpcStatus, printable, read_export_response, read_status as status_from_protobuf,
};
use serde_json::Value as Json;

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

/// An `Export*ServiceResponse`; `None` if it is none.
pub(super) fn read(encoding: Encoding, body: &[u8]) -> Option<Reply> {
    match encoding {
        Encoding::Protobuf => read_export_response(body),
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

fn message_from_json(json: &Json) -> Option<String> {
    json.as_str().map(printable).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Encoding, Reply, RpcStatus, read, read_status};

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
}
