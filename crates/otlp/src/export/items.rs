//! Checks any message of OTLP by its table; counts points and log records.

use crate::{
    attribute,
    error::Result,
    export::Signal,
    schema::{self, Field, Kind, Label, Message},
    wire::{Fields, Value},
};

/// Checks a whole export request and counts its items.
pub(super) fn count(signal: Signal, body: &[u8], depth_max: u32) -> Result<u64> {
    message(Fields::new(body), schema::request(signal), depth_max)
}

/// Checks one message and counts the items in it, itself included. Only `AnyValue` nests without
/// end, and it has its own limit.
pub(super) fn message(mut fields: Fields<'_>, schema: &Message, depth_max: u32) -> Result<u64> {
    if std::ptr::eq(schema, &raw const schema::KEY_VALUE) {
        attribute::check_key_value(fields, 1, depth_max)?;
        return Ok(0);
    }
    if std::ptr::eq(schema, &raw const schema::ANY_VALUE) {
        attribute::check_any(fields, 1, depth_max)?;
        return Ok(0);
    }
    let mut n_items = u64::from(schema.is_item);
    let mut seen = 0_u64;
    while let Some((number, value)) = fields.step()? {
        let Some(field) = schema.field(number) else {
            continue;
        };
        let Kind::Message(inner) = field.kind else {
            scalar(&fields, field, value)?;
            continue;
        };
        if field.label != Label::Repeated {
            let bit = 1_u64.wrapping_shl(number);
            if seen & bit != 0 {
                return Err(fields.repeated(number));
            }
            seen |= bit;
        }
        let within = message(fields.message_of(number, value)?, inner, depth_max)?;
        n_items = n_items.saturating_add(within);
    }
    Ok(n_items)
}

fn scalar(fields: &Fields<'_>, field: &Field, value: Value<'_>) -> Result<()> {
    let number = field.number;
    match field.kind {
        Kind::String => return fields.check_str(number, value),
        Kind::Bytes | Kind::Id(_) => return fields.bytes_of(number, value).map(drop),
        _ => {}
    }
    if let (Label::Repeated, Value::Bytes(packed)) = (field.label, value) {
        return self::packed(fields.child(packed), field.kind);
    }
    match field.kind {
        Kind::Fixed64 | Kind::Sfixed64 | Kind::Double => fields.fixed64_of(number, value).map(drop),
        Kind::Fixed32 => fields.fixed32_of(number, value).map(drop),
        _ => fields.varint_of(number, value).map(drop),
    }
}

fn packed(mut numbers: Fields<'_>, kind: Kind) -> Result<()> {
    while numbers.packed_step(kind.wire_type())?.is_some() {}
    Ok(())
}
