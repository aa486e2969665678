//! Writes the few protobuf messages that a trace export request consists of.
//!
//! Field numbers: `opentelemetry/proto/trace/v1/trace.proto`, `common/v1/common.proto`,
//! `resource/v1/resource.proto`.

/// A protobuf message in the making.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Message(Vec<u8>);

/// An attribute value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value<'a> {
    Str(&'a str),
    Int(u32),
    Long(u64),
    Double(f64),
    /// An array with one string in it.
    OneStr(&'a str),
}

/// `Span.SpanKind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Internal,
    Server,
    Client,
}

impl Kind {
    pub(super) const fn number(self) -> u64 {
        match self {
            Self::Internal => 1,
            Self::Server => 2,
            Self::Client => 3,
        }
    }
}

impl Message {
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    pub(super) fn varint(mut self, number: u8, value: u64) -> Self {
        self.key(number, 0);
        self.raw_varint(value);
        self
    }

    pub(super) fn fixed64(mut self, number: u8, value: u64) -> Self {
        self.key(number, 1);
        self.0.extend(value.to_le_bytes());
        self
    }

    pub(super) fn fixed32(mut self, number: u8, value: u32) -> Self {
        self.key(number, 5);
        self.0.extend(value.to_le_bytes());
        self
    }

    /// A string, bytes, or a message that is already written.
    pub(super) fn bytes(mut self, number: u8, value: &[u8]) -> Self {
        self.key(number, 2);
        // A slice's length fits into 64 bits everywhere.
        self.raw_varint(u64::try_from(value.len()).unwrap_or(u64::MAX));
        self.0.extend_from_slice(value);
        self
    }

    pub(super) fn message(self, number: u8, value: &Self) -> Self {
        self.bytes(number, &value.0)
    }

    /// Appends `KeyValue`s as the given field.
    pub(super) fn attributes(self, number: u8, attributes: &[(&str, Value<'_>)]) -> Self {
        attributes.iter().fold(self, |message, (key, value)| {
            let pair = Self::default()
                .bytes(1, key.as_bytes())
                .message(2, &any_value(*value));
            message.message(number, &pair)
        })
    }

    fn key(&mut self, number: u8, wire_type: u64) {
        self.raw_varint((u64::from(number) << 3) | wire_type);
    }

    fn raw_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            // Seven bits always fit.
            self.0.push(u8::try_from(value & 0x7f).unwrap_or(0) | 0x80);
            value >>= 7;
        }
        self.0.push(u8::try_from(value).unwrap_or(0));
    }
}

fn any_value(value: Value<'_>) -> Message {
    let message = Message::default();
    match value {
        Value::Str(text) => message.bytes(1, text.as_bytes()),
        Value::Int(number) => message.varint(3, number.into()),
        Value::Long(number) => message.varint(3, number),
        Value::Double(number) => message.fixed64(4, number.to_bits()),
        Value::OneStr(text) => message.message(
            5,
            &Message::default().message(1, &any_value(Value::Str(text))),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::{Message, Value};

    #[test]
    fn fields_are_written_as_the_protobuf_encoding_says() {
        let message = Message::default()
            .varint(1, 300)
            .bytes(2, b"ab")
            .fixed32(16, 1);
        assert_eq!(
            message.into_bytes(),
            [
                0x08, 0xac, 0x02, 0x12, 0x02, b'a', b'b', 0x85, 0x01, 1, 0, 0, 0
            ]
        );
        let attribute = Message::default().attributes(9, &[("k", Value::Int(5))]);
        assert_eq!(
            attribute.into_bytes(),
            [0x4a, 0x07, 0x0a, 0x01, b'k', 0x12, 0x02, 0x18, 0x05]
        );
        let array = Message::default().attributes(1, &[("k", Value::OneStr("v"))]);
        let expected = b"\x0a\x0c\x0a\x01k\x12\x07\x2a\x05\x0a\x03\x0a\x01v";
        assert_eq!(array.into_bytes(), expected);
    }
}
