//! Attribute values to build.

use crate::encode::Writer;

/// An attribute value.
#[derive(Clone, Debug, PartialEq)]
pub enum AnyValue {
    /// No value.
    Empty,
    /// `string_value`.
    Str(String),
    /// `bool_value`.
    Bool(bool),
    /// `int_value`.
    Int(i64),
    /// `double_value`.
    Double(f64),
    /// `bytes_value`.
    Bytes(Vec<u8>),
    /// `array_value`.
    Array(Vec<AnyValue>),
    /// `kvlist_value`.
    KvList(Vec<(String, AnyValue)>),
}

impl AnyValue {
    /// Writes the fields of an `AnyValue` message.
    fn write(&self, out: &mut Writer) {
        match self {
            Self::Empty => {}
            Self::Str(text) => out.bytes(1, text.as_bytes()),
            Self::Bool(value) => out.varint(2, u64::from(*value)),
            Self::Int(value) => out.varint(3, value.cast_unsigned()),
            Self::Double(value) => out.fixed64(4, value.to_bits()),
            Self::Array(values) => {
                out.open(5);
                for value in values {
                    out.open(1);
                    value.write(out);
                    out.close();
                }
                out.close();
            }
            Self::KvList(entries) => {
                out.open(6);
                write_all(entries, 1, out);
                out.close();
            }
            Self::Bytes(bytes) => out.bytes(7, bytes),
        }
    }
}

/// Writes attributes into the repeated field `field`.
pub(super) fn write_all(attributes: &[(String, AnyValue)], field: u32, out: &mut Writer) {
    for (key, value) in attributes {
        out.open(field);
        out.bytes(1, key.as_bytes());
        out.open(2);
        value.write(out);
        out.close();
        out.close();
    }
}

impl From<&str> for AnyValue {
    fn from(text: &str) -> Self {
        Self::Str(text.to_owned())
    }
}

impl From<String> for AnyValue {
    fn from(text: String) -> Self {
        Self::Str(text)
    }
}

impl From<bool> for AnyValue {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for AnyValue {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<f64> for AnyValue {
    fn from(value: f64) -> Self {
        Self::Double(value)
    }
}

impl From<Vec<AnyValue>> for AnyValue {
    fn from(values: Vec<AnyValue>) -> Self {
        Self::Array(values)
    }
}
