//! Attribute values as text and as numbers.

use std::collections::BTreeMap;

use super::{DEPTH_CEILING, Value, elements, of_kvlist};
use crate::{
    base64,
    error::Result,
    json::write::{push_double, push_fmt, push_string},
};

impl Value<'_> {
    /// Appends the value as text: strings as they are, numbers in decimal, bytes in base64, arrays
    /// and kvlists as JSON (keys sorted, of repeated keys the last, empty values `null`, NaN and
    /// infinities as strings). An empty value appends nothing.
    ///
    /// Nested values that are broken or deeper than [`DEPTH_CEILING`] become `null`; a body that
    /// passed [`crate::export::check`] has none.
    pub fn write_text(&self, out: &mut String) {
        match self {
            Self::Empty => {}
            Self::Str(text) => out.push_str(text),
            Self::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Self::Int(value) => push_fmt(format_args!("{value}"), out),
            Self::Double(value) => push_double(*value, out),
            Self::Bytes(bytes) => base64::encode(bytes, out),
            Self::Array(_) | Self::KvList(_) => self.write_json(out, 0),
        }
    }

    /// The value as a number: integers, doubles, and strings that hold one.
    pub fn as_f64_lenient(&self) -> Option<f64> {
        match self {
            #[expect(clippy::cast_precision_loss, reason = "lenient: nearest double")]
            Self::Int(value) => Some(*value as f64),
            Self::Double(value) => Some(*value),
            Self::Str(text) => text.trim().parse().ok(),
            Self::Empty | Self::Bool(_) | Self::Bytes(_) | Self::Array(_) | Self::KvList(_) => None,
        }
    }

    /// The value as an integer: integers, doubles without a fraction, and strings that hold one.
    pub fn as_i64_lenient(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            Self::Double(value) => whole(*value),
            Self::Str(text) => {
                let text = text.trim();
                text.parse().ok().or_else(|| whole(text.parse().ok()?))
            }
            Self::Empty | Self::Bool(_) | Self::Bytes(_) | Self::Array(_) | Self::KvList(_) => None,
        }
    }

    fn write_json(&self, out: &mut String, depth: u32) {
        match self {
            Self::Empty => out.push_str("null"),
            Self::Str(text) => push_string(text, out),
            Self::Bool(_) | Self::Int(_) => self.write_text(out),
            Self::Double(value) if value.is_finite() => push_double(*value, out),
            Self::Double(_) | Self::Bytes(_) => {
                out.push('"');
                self.write_text(out);
                out.push('"');
            }
            Self::Array(_) | Self::KvList(_) if depth >= DEPTH_CEILING => out.push_str("null"),
            Self::Array(array) => {
                out.push('[');
                for (i, element) in elements(array).enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    element
                        .unwrap_or(Value::Empty)
                        .write_json(out, depth.saturating_add(1));
                }
                out.push(']');
            }
            Self::KvList(kvlist) => match of_kvlist(kvlist).collect::<Result<BTreeMap<_, _>>>() {
                Ok(entries) => {
                    out.push('{');
                    for (i, (key, value)) in entries.iter().enumerate() {
                        if i > 0 {
                            out.push(',');
                        }
                        push_string(key, out);
                        out.push(':');
                        value.write_json(out, depth.saturating_add(1));
                    }
                    out.push('}');
                }
                Err(_) => out.push_str("null"),
            },
        }
    }
}

/// A double without a fraction as an integer, if it is in range.
pub(crate) fn whole(value: f64) -> Option<i64> {
    // 2^63: the first double past the range; its negative is in range.
    const END: f64 = 9_223_372_036_854_775_808.0;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "in range and without a fraction"
    )]
    (value.fract() == 0.0 && (-END..END).contains(&value)).then_some(value as i64)
}
