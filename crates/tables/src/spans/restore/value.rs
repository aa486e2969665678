//! Values that can have left a stored text.

use otlp::attribute::{self, Value};
use otlp::base64;
use otlp::encode::Writer;

/// An attribute value that owns its content.
#[derive(Clone, Debug, PartialEq)]
pub enum StoredValue {
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
    Array(Vec<Self>),
    /// `kvlist_value`.
    KvList(Vec<(String, Self)>),
}

/// Was the text shortened by [`crate::redact`]?
pub(super) fn is_cut(text: &str) -> bool {
    let mark = text.strip_suffix(" bytes]");
    let number = mark.and_then(|text| text.rsplit_once("...[cut from "));
    number.is_some_and(|(_, number)| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

impl StoredValue {
    /// Every value whose text is this one, the likely one first.
    pub(super) fn readings(text: Option<&str>) -> Vec<Self> {
        let Some(text) = text else {
            return vec![Self::Empty];
        };
        let mut readings = Vec::with_capacity(1);
        match text.as_bytes().first() {
            Some(b't' | b'f') => readings.extend(text.parse().map(Self::Bool)),
            Some(b'0'..=b'9' | b'-') => {
                readings.extend(text.parse().map(Self::Int));
                readings.extend(text.parse().map(Self::Double));
            }
            Some(b'N' | b'I') => {
                let text = text.replace("Infinity", "inf");
                readings.extend(text.parse().map(Self::Double));
            }
            Some(b'[' | b'{') => {
                let json: Result<serde_json::Value, _> = serde_json::from_str(text);
                readings.extend(json.map(Self::of_json));
            }
            _ => {}
        }
        readings.retain(|reading| reading.leaves(text));
        readings.push(Self::Str(text.to_owned()));
        if let Some(bytes) = base64::decode(text.as_bytes()).map(Self::Bytes)
            && bytes.leaves(text)
        {
            readings.push(bytes);
        }
        readings
    }

    fn of_json(json: serde_json::Value) -> Self {
        match json {
            serde_json::Value::Null => Self::Empty,
            serde_json::Value::Bool(value) => Self::Bool(value),
            serde_json::Value::Number(number) => match number.as_i64() {
                Some(int) => Self::Int(int),
                None => Self::Double(number.as_f64().unwrap_or(f64::NAN)),
            },
            serde_json::Value::String(text) => Self::Str(text),
            serde_json::Value::Array(values) => {
                Self::Array(values.into_iter().map(Self::of_json).collect())
            }
            serde_json::Value::Object(entries) => {
                let entries = entries.into_iter();
                Self::KvList(
                    entries
                        .map(|(key, value)| (key, Self::of_json(value)))
                        .collect(),
                )
            }
        }
    }

    /// Is this the text that is stored for it?
    fn leaves(&self, text: &str) -> bool {
        self.to_text() == text
    }

    /// Its text, as it is stored where it has no column of its own.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        self.with(|value| value.write_text(&mut text));
        text
    }

    /// Shows it as it is read from bytes.
    pub(crate) fn with<T>(&self, read: impl FnOnce(&Value<'_>) -> T) -> Option<T> {
        let mut out = Writer::default();
        self.write_attribute(1, "", &mut out);
        let bytes = out.finish();
        let (_, value) = attribute::of_resource(&bytes).next()?.ok()?;
        Some(read(&value))
    }

    /// Writes an attribute (`KeyValue`) into the repeated field `field` of a message.
    pub fn write_attribute(&self, field: u32, key: &str, out: &mut Writer) {
        out.open(field);
        out.bytes(1, key.as_bytes());
        out.open(2);
        self.write(out);
        out.close();
        out.close();
    }

    /// Writes the fields of an `AnyValue`.
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
                for (key, value) in entries {
                    value.write_attribute(1, key, out);
                }
                out.close();
            }
            Self::Bytes(bytes) => out.bytes(7, bytes),
        }
    }

    /// Levels of lists and maps in it, itself included; a scalar has one.
    pub(super) fn levels(&self) -> usize {
        let within = match self {
            Self::Array(values) => values.iter().map(Self::levels).max(),
            Self::KvList(entries) => entries.iter().map(|(_, value)| value.levels()).max(),
            Self::Empty
            | Self::Str(_)
            | Self::Bool(_)
            | Self::Int(_)
            | Self::Double(_)
            | Self::Bytes(_) => None,
        };
        1 + within.unwrap_or_default()
    }

    pub(super) fn is_cut(&self) -> bool {
        match self {
            Self::Str(text) => is_cut(text),
            Self::Array(values) => values.iter().any(Self::is_cut),
            Self::Empty
            | Self::Bool(_)
            | Self::Int(_)
            | Self::Double(_)
            | Self::Bytes(_)
            | Self::KvList(_) => false,
        }
    }
}
