//! Protobuf bytes to canonical OTLP/JSON, by the tables of [`crate::schema`].

use std::borrow::Cow;

use crate::{
    attribute::DEPTH_CEILING,
    base64,
    error::{Error, Result, offset_u32},
    export::Signal,
    ids::push_hex,
    json::write::{push_double, push_fmt, push_string},
    schema::{self, Field, Kind, Label, Message},
    wire::{Fields, Value, low_half},
};

/// Turns the protobuf bytes of an export request into canonical OTLP/JSON. Unknown fields are left
/// out, also inside of values. Of two members of a oneof, which [`crate::export::check`] refuses in
/// values, both are written.
///
/// # Errors
/// Broken framing, text that is not UTF-8, values nested deeper than [`DEPTH_CEILING`].
pub fn from_protobuf(signal: Signal, body: &[u8]) -> Result<String> {
    let mut out = String::new();
    message(&Fields::new(body), schema::request(signal), 0, &mut out)?;
    Ok(out)
}

/// Writes a message inside of `depth` values. Each of its fields is looked for in a scan of its own,
/// so that repeated fields which lie apart become one list.
fn message(fields: &Fields<'_>, message: &Message, depth: u32, out: &mut String) -> Result<()> {
    let is_value = std::ptr::eq(message, &raw const schema::ANY_VALUE);
    let depth = depth.saturating_add(u32::from(is_value));
    if depth > DEPTH_CEILING {
        let offset = offset_u32(fields.offset());
        return Err(Error::Depth {
            offset,
            depth_max: DEPTH_CEILING,
        });
    }
    out.push('{');
    let mut is_first = true;
    for field in message.fields {
        let before = out.len();
        if !is_first {
            out.push(',');
        }
        push_string(field.name, out);
        out.push(':');
        let is_written = match field.label {
            Label::Repeated => list(fields.clone(), field, depth, out)?,
            Label::Plain | Label::Optional => single(fields.clone(), field, depth, out)?,
        };
        if is_written {
            is_first = false;
        } else {
            out.truncate(before);
        }
    }
    out.push('}');
    Ok(())
}

/// Writes a repeated field; says whether it has elements.
fn list(mut fields: Fields<'_>, field: &Field, depth: u32, out: &mut String) -> Result<bool> {
    out.push('[');
    let mut is_empty = true;
    while let Some((number, value)) = fields.step()? {
        if number != field.number {
            continue;
        }
        let mut separate = |out: &mut String| {
            if !std::mem::take(&mut is_empty) {
                out.push(',');
            }
        };
        match (field.kind, value) {
            (Kind::Message(inner), _) => {
                separate(out);
                message(&fields.message_of(number, value)?, inner, depth, out)?;
            }
            (Kind::String, _) => {
                separate(out);
                scalar(&fields, field, value, out)?;
            }
            (kind, Value::Bytes(packed)) => {
                let mut numbers = fields.child(packed);
                while let Some(value) = numbers.packed_step(kind.wire_type())? {
                    separate(out);
                    scalar(&numbers, field, value, out)?;
                }
            }
            _ => {
                separate(out);
                scalar(&fields, field, value, out)?;
            }
        }
    }
    out.push(']');
    Ok(!is_empty)
}

/// Writes a field that occurs at most once; says whether it is there.
fn single(mut fields: Fields<'_>, field: &Field, depth: u32, out: &mut String) -> Result<bool> {
    let mut last = None;
    let mut merged: Cow<'_, [u8]> = Cow::Borrowed(&[]);
    while let Some((number, value)) = fields.step()? {
        if number != field.number {
            continue;
        }
        if let Kind::Message(_) = field.kind {
            // Messages that occur again are merged, which is to read them one after the other.
            let bytes = fields.bytes_of(number, value)?;
            match last {
                None => merged = Cow::Borrowed(bytes),
                Some(_) => merged.to_mut().extend_from_slice(bytes),
            }
        }
        last = Some((value, fields.clone()));
    }
    let Some((value, at)) = last else {
        return Ok(false);
    };
    if let Kind::Message(inner) = field.kind {
        let nested = match &merged {
            Cow::Borrowed(bytes) => at.child(bytes),
            Cow::Owned(bytes) => Fields::new(bytes),
        };
        message(&nested, inner, depth, out)?;
        return Ok(true);
    }
    let is_zero = match value {
        Value::Varint(number) | Value::Fixed64(number) => number == 0,
        Value::Fixed32(number) => number == 0,
        Value::Bytes(bytes) => bytes.is_empty(),
        Value::Group => false,
    };
    scalar(&at, field, value, out)?;
    Ok(field.label == Label::Optional || !is_zero)
}

/// Writes the value of the field just read.
fn scalar(fields: &Fields<'_>, field: &Field, value: Value<'_>, out: &mut String) -> Result<()> {
    let number = field.number;
    match field.kind {
        Kind::String => push_string(fields.str_of(number, value)?, out),
        Kind::Id(_) => {
            out.push('"');
            push_hex(fields.bytes_of(number, value)?, out);
            out.push('"');
        }
        Kind::Bytes => {
            out.push('"');
            base64::encode(fields.bytes_of(number, value)?, out);
            out.push('"');
        }
        Kind::Double => {
            let double = f64::from_bits(fields.fixed64_of(number, value)?);
            let quote = if double.is_finite() { "" } else { "\"" };
            out.push_str(quote);
            push_double(double, out);
            out.push_str(quote);
        }
        Kind::Bool => {
            let is_set = fields.varint_of(number, value)? != 0;
            out.push_str(if is_set { "true" } else { "false" });
        }
        Kind::Uint32 => push_fmt(format_args!("{}", fields.uint32_of(number, value)?), out),
        Kind::Fixed32 => push_fmt(format_args!("{}", fields.fixed32_of(number, value)?), out),
        Kind::Int32 | Kind::Enum(_) => {
            let int = fields.uint32_of(number, value)?.cast_signed();
            push_fmt(format_args!("{int}"), out);
        }
        Kind::Sint32 => {
            let zigzag = low_half(fields.varint_of(number, value)?);
            let int = (zigzag >> 1).cast_signed() ^ (zigzag & 1).cast_signed().wrapping_neg();
            push_fmt(format_args!("{int}"), out);
        }
        Kind::Int64 => {
            let int = fields.varint_of(number, value)?.cast_signed();
            push_fmt(format_args!("\"{int}\""), out);
        }
        Kind::Uint64 => push_fmt(
            format_args!("\"{}\"", fields.varint_of(number, value)?),
            out,
        ),
        Kind::Fixed64 => push_fmt(
            format_args!("\"{}\"", fields.fixed64_of(number, value)?),
            out,
        ),
        Kind::Sfixed64 => {
            let int = fields.fixed64_of(number, value)?.cast_signed();
            push_fmt(format_args!("\"{int}\""), out);
        }
        Kind::Message(_) => return Err(fields.wrong_wire_type(number)),
    }
    Ok(())
}
