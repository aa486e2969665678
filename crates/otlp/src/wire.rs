//! A bounded walk over the fields of a protobuf message, without allocation.
//!
//! Limits: lengths are checked against the bytes that are there; varints have at most ten bytes;
//! groups (deprecated, never written by OTLP) are skipped as unknown fields up to
//! [`GROUP_DEPTH_MAX`] levels. Every step consumes at least one byte.
//!
//! Follows prost where the protobuf specification leaves a choice: overlong varints are accepted
//! if the value fits into 64 bits, a field number of zero and unknown wire types are errors, a known
//! field with the wrong wire type is an error (and not an unknown field, as in C++).

use crate::error::{Error, Result, offset_u32};

/// How deeply groups may be nested; prost's own limit lies between 95 and 100, by place.
pub const GROUP_DEPTH_MAX: usize = 32;

/// Largest field number (protobuf language guide, "Assigning Field Numbers").
const FIELD_NUMBER_MAX: u64 = (1 << 29) - 1;

/// The fields of one message in wire order. After an error it is exhausted.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    rest: &'a [u8],
    /// Offset of the end of this message in what errors refer to.
    end: usize,
}

/// The content of a field by wire type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// Integers, booleans, enums.
    Varint(u64),
    /// Eight bytes: `fixed64`, `sfixed64`, `double`.
    Fixed64(u64),
    /// Strings, bytes, messages, packed numbers.
    Bytes(&'a [u8]),
    /// A group, skipped. No field of OTLP is one.
    Group,
    /// Four bytes: `fixed32`, `float`.
    Fixed32(u32),
}

impl<'a> Fields<'a> {
    /// Fields of `message`; errors count bytes from its start.
    #[inline]
    pub const fn new(message: &'a [u8]) -> Self {
        Self {
            rest: message,
            end: message.len(),
        }
    }

    /// The content of the field just read, `bytes`, as a message with the same origin for offsets.
    #[inline]
    pub const fn child(&self, bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            end: self.offset(),
        }
    }

    /// Offset of the next field.
    #[inline]
    pub const fn offset(&self) -> usize {
        self.end.saturating_sub(self.rest.len())
    }

    /// Offset of the content of the field just read.
    #[inline]
    pub(crate) const fn offset_of(&self, bytes: &[u8]) -> usize {
        self.offset().saturating_sub(bytes.len())
    }

    /// Leaves what is not yet read.
    #[inline]
    pub(crate) const fn skip_to_end(&mut self) {
        self.rest = &[];
    }

    /// The bytes that are not yet read.
    #[inline]
    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next field; `None` at the end.
    ///
    /// # Errors
    /// Bytes that are not a field.
    #[inline(always)]
    pub(crate) fn step(&mut self) -> Result<Option<(u32, Value<'a>)>> {
        let Some((&first, rest)) = self.rest.split_first() else {
            return Ok(None);
        };
        let (number, wire_type) = if first < 0x80 {
            self.rest = rest;
            (u32::from(first >> 3), first & 7)
        } else {
            self.long_key()?
        };
        if number == 0 {
            return Err(Error::FieldKey {
                offset: offset_u32(self.offset()),
            });
        }
        let value = match wire_type {
            0 => Value::Varint(self.varint()?),
            1 => Value::Fixed64(u64::from_le_bytes(self.take_array()?)),
            2 => Value::Bytes(self.delimited()?),
            3 => self.skip_group(number)?,
            5 => Value::Fixed32(u32::from_le_bytes(self.take_array()?)),
            4 => {
                return Err(Error::Group {
                    offset: offset_u32(self.offset()),
                });
            }
            _ => {
                return Err(Error::FieldKey {
                    offset: offset_u32(self.offset()),
                });
            }
        };
        Ok(Some((number, value)))
    }

    /// The next number of a packed repeated field whose numbers have this wire type.
    pub(crate) fn packed_step(&mut self, wire_type: u8) -> Result<Option<Value<'a>>> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        Ok(Some(match wire_type {
            1 => Value::Fixed64(u64::from_le_bytes(self.take_array()?)),
            5 => Value::Fixed32(u32::from_le_bytes(self.take_array()?)),
            _ => Value::Varint(self.varint()?),
        }))
    }

    #[cold]
    fn long_key(&mut self) -> Result<(u32, u8)> {
        let offset = self.offset();
        let key = self.varint()?;
        let invalid = Error::FieldKey {
            offset: offset_u32(offset),
        };
        if key >> 3 > FIELD_NUMBER_MAX {
            return Err(invalid);
        }
        let number = u32::try_from(key >> 3).map_err(|_| invalid)?;
        let wire_type = u8::try_from(key & 7).map_err(|_| invalid)?;
        Ok((number, wire_type))
    }

    #[inline(always)]
    fn varint(&mut self) -> Result<u64> {
        match self.rest {
            [a, rest @ ..] if *a < 0x80 => {
                self.rest = rest;
                Ok(u64::from(*a))
            }
            [a, b, rest @ ..] if *b < 0x80 => {
                self.rest = rest;
                Ok(u64::from(*a & 0x7f) | (u64::from(*b) << 7))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64> {
        let mut value = 0_u64;
        let mut shift = 0_u32;
        let mut rest = self.rest;
        while let Some((&byte, after)) = rest.split_first() {
            // The tenth byte holds the 64th bit and nothing else.
            if shift == 63 && byte > 1 {
                return Err(Error::Varint {
                    offset: offset_u32(self.offset()),
                });
            }
            value |= u64::from(byte & 0x7f).wrapping_shl(shift);
            shift = shift.saturating_add(7);
            rest = after;
            if byte < 0x80 {
                self.rest = rest;
                return Ok(value);
            }
        }
        Err(Error::Truncated {
            offset: offset_u32(self.end),
        })
    }

    #[inline(always)]
    fn take_array<const N: usize>(&mut self) -> Result<[u8; N]> {
        match self.rest.split_first_chunk::<N>() {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(*taken)
            }
            None => Err(Error::Truncated {
                offset: offset_u32(self.end),
            }),
        }
    }

    #[inline(always)]
    fn delimited(&mut self) -> Result<&'a [u8]> {
        let n_bytes = self.varint()?;
        let split = usize::try_from(n_bytes)
            .ok()
            .and_then(|n| self.rest.split_at_checked(n));
        match split {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => Err(Error::Truncated {
                offset: offset_u32(self.end),
            }),
        }
    }

    /// Skips what follows the opening key of a group, up to its closing key.
    #[cold]
    fn skip_group(&mut self, number: u32) -> Result<Value<'a>> {
        let mut open = [0_u32; GROUP_DEPTH_MAX];
        let mut depth = 0_usize;
        let mut opened = Some(number);
        loop {
            let mismatch = Error::Group {
                offset: offset_u32(self.offset()),
            };
            if let Some(number) = opened.take() {
                *open.get_mut(depth).ok_or(mismatch)? = number;
                depth = depth.saturating_add(1);
            }
            let (number, wire_type) = self.long_key()?;
            if number == 0 {
                return Err(Error::FieldKey {
                    offset: offset_u32(self.offset()),
                });
            }
            match wire_type {
                0 => drop(self.varint()?),
                1 => drop(self.take_array::<8>()?),
                2 => drop(self.delimited()?),
                3 => opened = Some(number),
                4 => {
                    depth = depth.saturating_sub(1);
                    if open.get(depth) != Some(&number) {
                        return Err(mismatch);
                    }
                    if depth == 0 {
                        return Ok(Value::Group);
                    }
                }
                5 => drop(self.take_array::<4>()?),
                _ => {
                    return Err(Error::FieldKey {
                        offset: offset_u32(self.offset()),
                    });
                }
            }
        }
    }

    #[cold]
    pub(crate) fn wrong_wire_type(&self, field: u32) -> Error {
        Error::WireType {
            offset: offset_u32(self.offset()),
            field,
        }
    }

    #[cold]
    pub(crate) fn repeated(&self, field: u32) -> Error {
        Error::Repeated {
            offset: offset_u32(self.offset()),
            field,
        }
    }

    /// `value` of the field just read as an integer, boolean or enum.
    #[inline(always)]
    pub(crate) fn varint_of(&self, field: u32, value: Value<'a>) -> Result<u64> {
        match value {
            Value::Varint(number) => Ok(number),
            _ => Err(self.wrong_wire_type(field)),
        }
    }

    /// The same as `uint32`: the lower half, as protobuf demands.
    #[inline(always)]
    pub(crate) fn uint32_of(&self, field: u32, value: Value<'a>) -> Result<u32> {
        Ok(low_half(self.varint_of(field, value)?))
    }

    /// `value` of the field just read as `fixed64`.
    #[inline(always)]
    pub(crate) fn fixed64_of(&self, field: u32, value: Value<'a>) -> Result<u64> {
        match value {
            Value::Fixed64(number) => Ok(number),
            _ => Err(self.wrong_wire_type(field)),
        }
    }

    /// `value` of the field just read as `fixed32`.
    #[inline(always)]
    pub(crate) fn fixed32_of(&self, field: u32, value: Value<'a>) -> Result<u32> {
        match value {
            Value::Fixed32(number) => Ok(number),
            _ => Err(self.wrong_wire_type(field)),
        }
    }

    /// `value` of the field just read as bytes.
    #[inline(always)]
    pub(crate) fn bytes_of(&self, field: u32, value: Value<'a>) -> Result<&'a [u8]> {
        match value {
            Value::Bytes(bytes) => Ok(bytes),
            _ => Err(self.wrong_wire_type(field)),
        }
    }

    /// `value` of the field just read as a message.
    #[inline(always)]
    pub(crate) fn message_of(&self, field: u32, value: Value<'a>) -> Result<Fields<'a>> {
        Ok(self.child(self.bytes_of(field, value)?))
    }

    /// `value` of the field just read as a string.
    #[inline(always)]
    pub(crate) fn str_of(&self, field: u32, value: Value<'a>) -> Result<&'a str> {
        let bytes = self.bytes_of(field, value)?;
        text(bytes).ok_or_else(|| self.not_utf8(field, bytes))
    }

    /// Checks that `value` of the field just read is a string.
    #[inline(always)]
    pub(crate) fn check_str(&self, field: u32, value: Value<'a>) -> Result<()> {
        let bytes = self.bytes_of(field, value)?;
        if is_text(bytes) {
            Ok(())
        } else {
            Err(self.not_utf8(field, bytes))
        }
    }

    #[cold]
    pub(crate) fn not_utf8(&self, field: u32, bytes: &[u8]) -> Error {
        Error::Utf8 {
            offset: offset_u32(self.offset_of(bytes)),
            field,
        }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Value<'a>)>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let step = self.step();
        if step.is_err() {
            self.rest = &[];
        }
        step.transpose()
    }
}

/// Strings up to here are checked by the standard library, which is the faster for them.
const SHORT_BYTES_MAX: usize = 64;

/// `bytes` as text, if they are UTF-8.
#[inline]
pub(crate) fn text(bytes: &[u8]) -> Option<&str> {
    if bytes.len() <= SHORT_BYTES_MAX {
        std::str::from_utf8(bytes).ok()
    } else {
        simdutf8::basic::from_utf8(bytes).ok()
    }
}

/// Are `bytes` UTF-8?
#[inline(always)]
pub(crate) fn is_text(bytes: &[u8]) -> bool {
    if bytes.len() <= SHORT_BYTES_MAX {
        is_short_text(bytes)
    } else {
        is_long_text(bytes)
    }
}

#[inline(always)]
fn is_short_text(bytes: &[u8]) -> bool {
    let (words, tail) = bytes.as_chunks::<8>();
    let mut seen = words
        .iter()
        .fold(0, |seen, word| seen | u64::from_le_bytes(*word));
    // The last eight bytes overlap the words before them: cheaper than a loop over the tail.
    match bytes.last_chunk::<8>() {
        Some(last) => seen |= u64::from_le_bytes(*last),
        None => seen |= u64::from(tail.iter().fold(0, |seen, byte| seen | byte)),
    }
    seen & 0x8080_8080_8080_8080 == 0 || is_long_text(bytes)
}

#[inline(never)]
fn is_long_text(bytes: &[u8]) -> bool {
    simdutf8::basic::from_utf8(bytes).is_ok()
}

/// The lower 32 bits: what protobuf makes of a varint in a 32-bit field.
#[inline(always)]
#[expect(
    clippy::cast_possible_truncation,
    reason = "protobuf cuts to the lower half"
)]
pub(crate) const fn low_half(number: u64) -> u32 {
    number as u32
}

#[cfg(test)]
mod tests;
