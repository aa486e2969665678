//! Pieces of JSON text.

use std::fmt::{Arguments, Write as _};

/// Appends `text` as a JSON string, quotes included.
pub(crate) fn push_string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' => push_fmt(format_args!("\\u{:04x}", u32::from(c)), out),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Appends a double so that reading it gives the same one; `NaN`, `Infinity` and `-Infinity` as
/// proto3's JSON names them, without quotes.
pub(crate) fn push_double(value: f64, out: &mut String) {
    let magnitude = value.abs();
    if value.is_nan() {
        out.push_str("NaN");
    } else if value.is_infinite() {
        out.push_str(if value > 0.0 { "Infinity" } else { "-Infinity" });
    } else if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) {
        // The bounds of ECMAScript and of Go's JSON: without them 1e300 has 301 digits.
        push_fmt(format_args!("{value:e}"), out);
    } else {
        push_fmt(format_args!("{value}"), out);
    }
}

/// Appends formatted text.
pub(crate) fn push_fmt(text: Arguments<'_>, out: &mut String) {
    let result = out.write_fmt(text);
    debug_assert!(result.is_ok(), "a String takes everything");
}
