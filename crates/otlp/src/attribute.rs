//! Attributes read straight from the bytes, without allocation.
//!
//! Values are OTLP's `AnyValue` (`common.proto`). An attribute without a value, with an empty
//! `AnyValue`, or with a variant that this version does not know, is [`Value::Empty`]. Keys may
//! repeat on the wire although the specification forbids it: [`Attributes`] yields what is there,
//! [`lookup`] answers the last, and everything that keeps one value per key must do the same.
//!
//! Refused, though protobuf would merge: a `KeyValue` with two values and an `AnyValue` with two
//! variants set. No encoder writes them, and reading them needs a copy.

pub(crate) mod text;

use crate::{
    error::{Error, Result, offset_u32},
    wire::{self, Fields},
};

/// Nesting that is never exceeded, whatever a configured limit says: checking, reading as text and
/// JSON recurse, and must fit on a small thread's stack.
pub const DEPTH_CEILING: u32 = 128;

/// Attributes in wire order, repeated keys included. Ends after the first error.
#[derive(Clone, Debug)]
pub struct Attributes<'a> {
    fields: Fields<'a>,
    /// Key of the repeated `KeyValue` field in the message that is walked.
    key: u32,
}

/// One attribute value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// No value, or one of an unknown kind.
    Empty,
    /// `string_value`.
    Str(&'a str),
    /// `bool_value`.
    Bool(bool),
    /// `int_value`.
    Int(i64),
    /// `double_value`.
    Double(f64),
    /// `bytes_value`.
    Bytes(&'a [u8]),
    /// `array_value`: the bytes of an `ArrayValue` message, for [`elements`].
    Array(&'a [u8]),
    /// `kvlist_value`: the bytes of a `KeyValueList` message, for [`of_kvlist`].
    KvList(&'a [u8]),
}

/// Attributes of the bytes of a `Span`.
#[inline]
pub const fn of_span(span: &[u8]) -> Attributes<'_> {
    Attributes::new(span, 9)
}

/// Attributes of the bytes of a `Resource`.
#[inline]
pub const fn of_resource(resource: &[u8]) -> Attributes<'_> {
    Attributes::new(resource, 1)
}

/// Attributes of the bytes of an `InstrumentationScope`.
#[inline]
pub const fn of_scope(scope: &[u8]) -> Attributes<'_> {
    Attributes::new(scope, 3)
}

/// Entries of [`Value::KvList`].
#[inline]
pub const fn of_kvlist(kvlist: &[u8]) -> Attributes<'_> {
    Attributes::new(kvlist, 1)
}

/// Elements of [`Value::Array`].
pub fn elements(array: &[u8]) -> impl Iterator<Item = Result<Value<'_>>> {
    let mut fields = Fields::new(array);
    std::iter::from_fn(move || {
        loop {
            match fields.next()? {
                Ok((1, value)) => return Some(fields.message_of(1, value).and_then(read_any)),
                Ok(_) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    })
}

/// The value of `key`; of repeated keys, that of the last. The search ends at broken bytes.
pub fn lookup<'a>(mut attributes: Attributes<'a>, key: &str) -> Option<Value<'a>> {
    let mut found = None;
    while let Ok(Some((name, value))) = attributes.step() {
        if name == key.as_bytes() {
            found = Some(value);
        }
    }
    read_any(found?).ok()
}

impl<'a> Attributes<'a> {
    /// Attributes in the repeated field `field` of `message`; for the messages of metrics and logs.
    #[inline]
    pub const fn new(message: &'a [u8], field: u32) -> Self {
        Self {
            fields: Fields::new(message),
            key: wire::bytes_key(field),
        }
    }

    /// The value of the next attribute of which `find` makes something by its key, and that. Into the others nobody
    /// looks; whether keys are text, nobody asks. Ends after the first error.
    #[inline]
    pub fn find_next<T>(
        &mut self,
        mut find: impl FnMut(&'a [u8]) -> Option<T>,
    ) -> Option<Result<(T, Value<'a>)>> {
        loop {
            self.skip_usual(&mut find);
            let next = match self.step() {
                Ok(Some((key, value))) => match find(key) {
                    Some(found) => read_any(value).map(|value| (found, value)),
                    None => continue,
                },
                Ok(None) => return None,
                Err(error) => Err(error),
            };
            if next.is_err() {
                self.fields = Fields::new(&[]);
            }
            return Some(next);
        }
    }

    /// Steps over the attributes that follow, as encoders write them, up to one that is found.
    #[inline(always)]
    fn skip_usual<T>(&mut self, find: &mut impl FnMut(&'a [u8]) -> Option<T>) {
        self.fields.skip_run_while(self.key, |attribute| {
            split_usual(attribute).is_some_and(|(key, _)| find(key).is_none())
        });
    }

    /// Key and `AnyValue` of the next one, not yet looked into.
    #[inline(always)]
    fn step(&mut self) -> Result<Option<(&'a [u8], Fields<'a>)>> {
        while let Some(key) = self.fields.key()? {
            if key == self.key {
                return split(self.fields.message()?).map(Some);
            }
            let known = 1_u32.wrapping_shl(self.key >> 3);
            self.fields.skip_other(key, known)?;
        }
        Ok(None)
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = Result<(&'a str, Value<'a>)>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let read = |attributes: &mut Self| {
            let Some((key, value)) = attributes.step()? else {
                return Ok(None);
            };
            let key = wire::text(key).ok_or_else(|| attributes.fields.not_utf8(1, key))?;
            Ok(Some((key, read_any(value)?)))
        };
        let next = read(self);
        if next.is_err() {
            self.fields = Fields::new(&[]);
        }
        next.transpose()
    }
}

/// Checks a `KeyValue` message whose value is nested `depth` deep (an attribute's own value: 1).
#[inline]
pub(crate) fn check_key_value(fields: Fields<'_>, depth: u32, depth_max: u32) -> Result<()> {
    if depth <= depth_max && is_usual(fields.rest()) {
        return Ok(());
    }
    check_any_layout(fields, depth, depth_max)
}

/// Is a `KeyValue` message valid and in the layout that encoders write, with a scalar for its value?
#[inline(always)]
pub(crate) fn is_usual(key_value: &[u8]) -> bool {
    split_usual(key_value)
        .is_some_and(|(key, any)| check_usual(any) == Some(true) && wire::is_text(key))
}

/// Checks an `AnyValue` message that is nested `depth` deep.
pub(crate) fn check_any(fields: Fields<'_>, depth: u32, depth_max: u32) -> Result<()> {
    if depth > depth_max {
        return Err(Error::Depth {
            offset: offset_u32(fields.offset()),
            depth_max,
        });
    }
    let Some(set) = set_variant(fields)? else {
        return Ok(());
    };
    let deeper = depth.saturating_add(1);
    match (set.number, set.value) {
        (1, wire::Value::Bytes(_)) => set.at.check_str(1, set.value),
        (5, wire::Value::Bytes(array)) => {
            let mut fields = set.at.child(array);
            while let Some((number, value)) = fields.step()? {
                if number == 1 {
                    check_any(fields.message_of(number, value)?, deeper, depth_max)?;
                }
            }
            Ok(())
        }
        (6, wire::Value::Bytes(kvlist)) => {
            let mut fields = set.at.child(kvlist);
            while let Some((number, value)) = fields.step()? {
                if number == 1 {
                    check_key_value(fields.message_of(number, value)?, deeper, depth_max)?;
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

#[inline(never)]
fn check_any_layout(fields: Fields<'_>, depth: u32, depth_max: u32) -> Result<()> {
    let at = fields.clone();
    let (key, value) = split(fields)?;
    if !wire::is_text(key) {
        return Err(at.not_utf8(1, &[]));
    }
    check_any(value, depth, depth_max)
}

/// Key and `AnyValue` of a `KeyValue` message; both may be missing.
#[inline]
fn split(fields: Fields<'_>) -> Result<(&[u8], Fields<'_>)> {
    if let Some((key, any)) = split_usual(fields.rest()) {
        // The value is the last field, so that it ends where the message ends.
        let mut end = fields;
        end.skip_to_end();
        return Ok((key, end.child(any)));
    }
    split_any_layout(fields)
}

#[inline(never)]
fn split_any_layout(mut fields: Fields<'_>) -> Result<(&[u8], Fields<'_>)> {
    let mut key: &[u8] = &[];
    let mut any = None;
    while let Some((number, value)) = fields.step()? {
        match number {
            1 => {
                // Of repeated keys the last counts, and all must be text.
                fields.check_str(number, value)?;
                key = fields.bytes_of(number, value)?;
            }
            2 => {
                let message = fields.message_of(number, value)?;
                if any.replace(message).is_some() {
                    return Err(fields.repeated(number));
                }
            }
            // `key_strindex`: an index into a table that only profiles have.
            3 => drop(fields.varint_of(number, value)?),
            _ => {}
        }
    }
    Ok((key, any.unwrap_or_else(|| fields.child(&[]))))
}

/// The layout that encoders write: key, then value, then nothing.
#[inline(always)]
fn split_usual(key_value: &[u8]) -> Option<(&[u8], &[u8])> {
    let [0x0a, len, rest @ ..] = key_value else {
        return None;
    };
    if *len >= 0x80 {
        return None;
    }
    let (key, rest) = rest.split_at_checked(usize::from(*len))?;
    let [0x12, rest @ ..] = rest else {
        return None;
    };
    Some((key, sole(rest)?))
}

/// The content that follows a length of one or two bytes and fills the message.
#[inline(always)]
fn sole(bytes: &[u8]) -> Option<&[u8]> {
    match bytes {
        [len, content @ ..] if *len < 0x80 && content.len() == usize::from(*len) => Some(content),
        [low, high, content @ ..] if *low >= 0x80 && *high < 0x80 => {
            let len = usize::from(*low & 0x7f) | (usize::from(*high) << 7);
            (content.len() == len).then_some(content)
        }
        _ => None,
    }
}

/// Is an `AnyValue` valid? `None` if it is not one scalar in the layout that encoders write.
#[inline(always)]
fn check_usual(any: &[u8]) -> Option<bool> {
    match any {
        [0x0a, rest @ ..] => sole(rest).map(wire::is_text),
        // Booleans, and integers below 2^21.
        [0x10 | 0x18, last] => Some(*last < 0x80),
        [0x18, a, last] => (*a >= 0x80).then_some(*last < 0x80),
        [0x18, a, b, last] => (*a >= 0x80 && *b >= 0x80).then_some(*last < 0x80),
        [0x21, number @ ..] => (number.len() == 8).then_some(true),
        _ => None,
    }
}

/// The variant of an `AnyValue` that is set.
struct Variant<'a> {
    number: u32,
    value: wire::Value<'a>,
    /// The walk just behind the field.
    at: Fields<'a>,
}

fn set_variant(mut fields: Fields<'_>) -> Result<Option<Variant<'_>>> {
    let mut set = None;
    while let Some((number, value)) = fields.step()? {
        match number {
            1 | 5..=7 => drop(fields.bytes_of(number, value)?),
            2 | 3 | 8 => drop(fields.varint_of(number, value)?),
            4 => drop(fields.fixed64_of(number, value)?),
            _ => continue,
        }
        let variant = Variant {
            number,
            value,
            at: fields.clone(),
        };
        if set.replace(variant).is_some() {
            return Err(fields.repeated(number));
        }
    }
    Ok(set)
}

/// Reads an `AnyValue` message.
#[inline]
pub(crate) fn read_any(any: Fields<'_>) -> Result<Value<'_>> {
    match any.rest() {
        [0x0a, rest @ ..] => {
            if let Some(string) = sole(rest).and_then(wire::text) {
                return Ok(Value::Str(string));
            }
        }
        [0x18, small] if *small < 0x80 => return Ok(Value::Int(i64::from(*small))),
        [0x18, low, high] if *low >= 0x80 && *high < 0x80 => {
            let int = i64::from(*low & 0x7f) | (i64::from(*high) << 7);
            return Ok(Value::Int(int));
        }
        [0x21, rest @ ..] => {
            if let Ok(bits) = <[u8; 8]>::try_from(rest) {
                return Ok(Value::Double(f64::from_le_bytes(bits)));
            }
        }
        [] => return Ok(Value::Empty),
        _ => {}
    }
    let Some(set) = set_variant(any)? else {
        return Ok(Value::Empty);
    };
    Ok(match (set.number, set.value) {
        (1, value) => Value::Str(set.at.str_of(1, value)?),
        (2, wire::Value::Varint(number)) => Value::Bool(number != 0),
        (3, wire::Value::Varint(number)) => Value::Int(number.cast_signed()),
        (4, wire::Value::Fixed64(bits)) => Value::Double(f64::from_bits(bits)),
        (5, wire::Value::Bytes(array)) => Value::Array(array),
        (6, wire::Value::Bytes(kvlist)) => Value::KvList(kvlist),
        (7, wire::Value::Bytes(bytes)) => Value::Bytes(bytes),
        // `string_value_strindex`: an index into a table that only profiles have.
        _ => Value::Empty,
    })
}

#[cfg(test)]
mod tests;
