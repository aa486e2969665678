//! Redaction of export requests that go on to other backends: bytes in, bytes out.
//!
//! The same attributes go as from the tables. What is not looked at is copied as it is, unknown fields included; with
//! `content: keep`, no `keys` and no limit, a request stays the same byte for byte.
//!
//! Limits: texts are cut where they are the whole value of an attribute, or a status message; inside of lists and
//! maps they are kept whole. A part that cannot be read is dropped.

use otlp::{
    attribute::{Attributes, Value},
    wire::{Fields, Value as Field},
};

use super::{Action, Place, Redaction, cut, strip_url};

/// What happens to a field with bytes in it.
enum Edit {
    Keep,
    Drop,
    Replace(Vec<u8>),
}

/// Field numbers of the messages on the way to attributes (`trace.proto`, `common.proto`, `resource.proto`).
const RESOURCE_SPANS: u32 = 1;
const RESOURCE: u32 = 1;
const SCOPE_SPANS: u32 = 2;
const SCOPE: u32 = 1;
const SPAN: u32 = 2;
const RESOURCE_ATTRIBUTE: u32 = 1;
const SCOPE_ATTRIBUTE: u32 = 3;
const SPAN_NAME: u32 = 5;
const SPAN_ATTRIBUTE: u32 = 9;
const SPAN_EVENT: u32 = 11;
const SPAN_LINK: u32 = 13;
const SPAN_STATUS: u32 = 15;
const STATUS_MESSAGE: u32 = 2;
const EVENT_NAME: u32 = 2;
const EVENT_ATTRIBUTE: u32 = 3;
const LINK_ATTRIBUTE: u32 = 4;
const STRING_VALUE: u32 = 1;

/// What `keys` calls the text of a span's status.
const STATUS_MESSAGE_KEY: &str = "status.message";

impl Redaction {
    /// An `ExportTraceServiceRequest` without what is to be dropped.
    pub fn request(&self, request: &[u8]) -> Vec<u8> {
        edit(request, |field, resource_spans| match field {
            RESOURCE_SPANS => Edit::Replace(edit(resource_spans, |field, bytes| match field {
                RESOURCE => Edit::Replace(self.attributes(bytes, RESOURCE_ATTRIBUTE, Place::Plain)),
                SCOPE_SPANS => Edit::Replace(edit(bytes, |field, bytes| match field {
                    SCOPE => Edit::Replace(self.attributes(bytes, SCOPE_ATTRIBUTE, Place::Plain)),
                    SPAN => Edit::Replace(self.span(bytes)),
                    _ => Edit::Keep,
                })),
                _ => Edit::Keep,
            })),
            _ => Edit::Keep,
        })
    }

    fn span(&self, span: &[u8]) -> Vec<u8> {
        let place = self.place_of_span(text(span, SPAN_NAME));
        edit(span, |field, bytes| match field {
            SPAN_ATTRIBUTE => self.attribute(bytes, place),
            SPAN_EVENT => {
                let place = self.place_of_event(text(bytes, EVENT_NAME));
                Edit::Replace(self.attributes(bytes, EVENT_ATTRIBUTE, place))
            }
            SPAN_LINK => Edit::Replace(self.attributes(bytes, LINK_ATTRIBUTE, Place::Plain)),
            SPAN_STATUS => Edit::Replace(edit(bytes, |field, message| match field {
                STATUS_MESSAGE => self.status_message(message),
                _ => Edit::Keep,
            })),
            _ => Edit::Keep,
        })
    }

    fn attributes(&self, message: &[u8], attribute: u32, place: Place) -> Vec<u8> {
        edit(message, |field, bytes| {
            if field == attribute {
                self.attribute(bytes, place)
            } else {
                Edit::Keep
            }
        })
    }

    fn attribute(&self, key_value: &[u8], place: Place) -> Edit {
        // As the only field of a message, it is read as attributes are read everywhere.
        let mut message = Vec::with_capacity(key_value.len() + 8);
        put(&mut message, RESOURCE_ATTRIBUTE, key_value);
        let Some(Ok((key, value))) = Attributes::new(&message, RESOURCE_ATTRIBUTE).next() else {
            return Edit::Drop;
        };
        let action = self.action(place, key);
        let Value::Str(text) = value else {
            return match action {
                Action::Drop => Edit::Drop,
                Action::Keep | Action::StripUrl => Edit::Keep,
            };
        };
        let kept = match action {
            Action::Drop => return Edit::Drop,
            Action::Keep => text.into(),
            Action::StripUrl => strip_url(text),
        };
        let mut scratch = String::new();
        let (kept, _) = cut(&kept, self.value_bytes_max(), &mut scratch);
        if kept == text {
            return Edit::Keep;
        }
        let mut value = Vec::new();
        put(&mut value, STRING_VALUE, kept.as_bytes());
        let mut attribute = Vec::new();
        put(&mut attribute, 1, key.as_bytes());
        put(&mut attribute, 2, &value);
        Edit::Replace(attribute)
    }

    fn status_message(&self, message: &[u8]) -> Edit {
        let Ok(message) = std::str::from_utf8(message) else {
            return Edit::Drop;
        };
        if self.action(Place::Plain, STATUS_MESSAGE_KEY) == Action::Drop {
            return Edit::Drop;
        }
        let mut scratch = String::new();
        match cut(message, self.value_bytes_max(), &mut scratch) {
            (_, false) => Edit::Keep,
            (cut, true) => Edit::Replace(cut.as_bytes().to_vec()),
        }
    }
}

/// The message with its fields edited. What comes behind a field that cannot be read is dropped.
fn edit(message: &[u8], mut edit: impl FnMut(u32, &[u8]) -> Edit) -> Vec<u8> {
    let mut out = Vec::with_capacity(message.len());
    let mut fields = Fields::new(message);
    let mut start = fields.offset();
    while let Some(Ok((number, value))) = fields.next() {
        let end = fields.offset();
        let raw = message.get(start..end).unwrap_or_default();
        start = end;
        let edited = match value {
            Field::Bytes(bytes) => edit(number, bytes),
            _ => Edit::Keep,
        };
        match edited {
            Edit::Keep => out.extend_from_slice(raw),
            Edit::Drop => {}
            Edit::Replace(bytes) => put(&mut out, number, &bytes),
        }
    }
    out
}

/// The last text in this field of a message; empty for none.
fn text(message: &[u8], field: u32) -> &str {
    let mut last = "";
    for found in Fields::new(message) {
        let Ok(found) = found else { break };
        if let (number, Field::Bytes(bytes)) = found
            && number == field
        {
            last = std::str::from_utf8(bytes).unwrap_or_default();
        }
    }
    last
}

/// Appends a field with bytes.
fn put(out: &mut Vec<u8>, field: u32, bytes: &[u8]) {
    varint(out, u64::from(field) << 3 | 2);
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use otlp::{
        Signal,
        json::from_protobuf,
        span::StatusCode,
        testing::{TimeSpan, trace},
    };

    use super::Redaction;
    use crate::redact::{Config, Content};

    fn redacted(config: &Config, request: &[u8]) -> String {
        let request = Redaction::new(config).unwrap().request(request);
        from_protobuf(Signal::Traces, &request).unwrap()
    }

    fn request() -> Vec<u8> {
        let export = trace(1)
            .service("vllm")
            .resource_attribute("metadata", "SECRET");
        let export = export.scope("s", "1").span("chat", 5.ms());
        let export = export
            .status(StatusCode::Error, &"e".repeat(300))
            .attribute("gen_ai.prompt.0.content", "SECRET")
            .attribute("gen_ai.request.model", "m")
            .attribute("gen_ai.usage.input_tokens", 7_i64)
            .attribute("url.full", "https://u:SECRET@h/p?q=SECRET")
            .attribute("long", "x".repeat(300))
            .event("gen_ai.user.message", 1.ms())
            .event_attribute("content", "SECRET")
            .event_attribute("role", "user")
            .event("exception", 1.ms())
            .event_attribute("exception.message", "boom")
            .link(2, 3)
            .link_attribute("input.value", "SECRET")
            .link_attribute("kind", "retry");
        let export = export.span("raw_gen_ai_request", 1.ms());
        export.attribute("llm.openai.anything", "SECRET").build()
    }

    #[test]
    fn content_goes_and_everything_else_stays() {
        let config = Config {
            value_bytes_max: Some(100),
            ..Config::default()
        };
        let text = redacted(&config, &request());
        assert!(!text.contains("SECRET"), "{text}");
        for kept in [
            "\"vllm\"",
            "gen_ai.request.model",
            "gen_ai.usage.input_tokens",
            "https://h/p\"",
            "xxx...[cut from 300 bytes]",
            "eee...[cut from 300 bytes]",
            "\"role\"",
            "boom",
            "\"retry\"",
            "raw_gen_ai_request",
        ] {
            assert!(text.contains(kept), "{kept}: {text}");
        }
    }

    #[test]
    fn the_keys_of_the_configuration_are_followed() {
        let config = Config {
            content: Content::Keep,
            keys: vec!["status.message".to_owned(), "gen_ai.request.*".to_owned()],
            ..Config::default()
        };
        let text = redacted(&config, &request());
        assert!(text.contains("SECRET"));
        assert!(
            !text.contains("gen_ai.request.model") && !text.contains("eee"),
            "{text}"
        );
    }

    #[test]
    fn with_nothing_to_do_a_request_stays_the_same() {
        let config = Config {
            content: Content::Keep,
            value_bytes_max: None,
            ..Config::default()
        };
        let redaction = Redaction::new(&config).unwrap();
        let mut request = request();
        // A field of a later version.
        request.extend([0xf8, 0x07, 0x01]);
        assert_eq!(redaction.request(&request), request);
    }

    /// What cannot be read does not get through, and does no harm.
    #[test]
    fn a_request_that_is_cut_or_changed_gives_no_content() {
        let redaction = Redaction::new(&Config::default()).unwrap();
        let request = request();
        for end in 0..request.len() {
            let out = redaction.request(&request[..end]);
            assert!(
                !out.windows(6).any(|bytes| bytes == b"SECRET"),
                "cut at {end}"
            );
        }
        for at in 0..request.len() {
            let mut changed = request.clone();
            changed[at] ^= 0x10;
            drop(redaction.request(&changed));
        }
    }
}
