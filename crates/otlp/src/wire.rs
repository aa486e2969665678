//! A bounded walk over the fields of a protobuf message, without allocation.
//!
//! Limits: lengths are checked against the bytes that are there; varints have at most ten bytes;
//! groups (deprecated, never written by OTLP) are skipped as unknown fields up to
//! [`GROUP_DEPTH_MAX`] levels. Every step consumes at least one byte.
//!
//! Follows prost where the protobuf specification leaves a choice: overlong varints are accepted
//! if the value fits into 64 bits, a field number of zero and unknown wire types are errors, a known
//! field with the wrong wire type is an error (and not an unknown field, as in C++).

mod rare;
mod text;

use crate::error::{Error, Result, offset_u32};

use rare::{long_key, long_varint, not_utf8, repeated, wrong_wire_type};
pub(crate) use text::{is_text, text};

/// How deeply groups may be nested; prost's own limit lies between 95 and 100, by place.
pub const GROUP_DEPTH_MAX: usize = 32;

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
        match self.key()? {
            Some(key) => Ok(Some((key >> 3, self.value(key)?))),
            None => Ok(None),
        }
    }

    /// What the next field is: its number and wire type in one, as [`bytes_key`] and its like have them. `None` at the
    /// end. What reads every span matches on it, which is one jump where [`Self::step`] takes two.
    #[inline(always)]
    pub(crate) fn key(&mut self) -> Result<Option<u32>> {
        let Some((&first, rest)) = self.rest.split_first() else {
            return Ok(None);
        };
        let key = if first < 0x80 {
            self.rest = rest;
            u32::from(first)
        } else {
            let (key, rest) = long_key(self.rest, self.end)?;
            self.rest = rest;
            key
        };
        if key >> 3 == 0 {
            return Err(Error::FieldKey {
                offset: offset_u32(self.offset()),
            });
        }
        Ok(Some(key))
    }

    /// The content of the field whose [`Self::key`] was read.
    #[inline(always)]
    pub(crate) fn value(&mut self, key: u32) -> Result<Value<'a>> {
        Ok(match key & 7 {
            0 => Value::Varint(self.varint()?),
            1 => Value::Fixed64(self.fixed64()?),
            2 => Value::Bytes(self.delimited()?),
            3 => {
                let mut group = self.clone();
                group.skip_group(key >> 3)?;
                *self = group;
                Value::Group
            }
            5 => Value::Fixed32(self.fixed32()?),
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
        })
    }

    /// Steps over the fields with this key that follow each other. One that is broken is left where it is.
    #[inline(always)]
    pub(crate) fn skip_run(&mut self, bytes_key: u32) {
        self.skip_run_while(bytes_key, |_| true);
    }

    /// The same up to one whose content is not to be skipped.
    #[inline(always)]
    pub(crate) fn skip_run_while(
        &mut self,
        bytes_key: u32,
        mut is_skipped: impl FnMut(&'a [u8]) -> bool,
    ) {
        let mut rest = self.rest;
        while let [key, len, after @ ..] = rest
            && u32::from(*key) == bytes_key
        {
            let split = if *len < 0x80 {
                after.split_at_checked(usize::from(*len))
            } else if let [high, after @ ..] = after
                && *high < 0x80
            {
                after.split_at_checked(usize::from(*len & 0x7f) | (usize::from(*high) << 7))
            } else {
                None
            };
            match split {
                Some((content, after)) if is_skipped(content) => rest = after,
                Some(_) | None => break,
            }
        }
        self.rest = rest;
    }

    /// Steps over a field that its reader has not matched by its key; bit n of `known` says that field n is one that it
    /// reads, so that it must have another wire type.
    #[inline(always)]
    pub(crate) fn skip_other(&mut self, key: u32, known: u32) -> Result<()> {
        let number = key >> 3;
        self.value(key)?;
        if known.checked_shr(number).is_some_and(|bits| bits & 1 != 0) {
            return Err(self.wrong_wire_type(number));
        }
        Ok(())
    }

    /// The next number of a packed repeated field whose numbers have this wire type.
    pub(crate) fn packed_step(&mut self, wire_type: u8) -> Result<Option<Value<'a>>> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        Ok(Some(match wire_type {
            1 => Value::Fixed64(self.fixed64()?),
            5 => Value::Fixed32(self.fixed32()?),
            _ => Value::Varint(self.varint()?),
        }))
    }

    /// A field's content: an integer, boolean or enum.
    #[inline(always)]
    pub(crate) fn varint(&mut self) -> Result<u64> {
        match self.rest {
            [a, rest @ ..] if *a < 0x80 => {
                self.rest = rest;
                Ok(u64::from(*a))
            }
            [a, b, rest @ ..] if *b < 0x80 => {
                self.rest = rest;
                Ok(u64::from(*a & 0x7f) | (u64::from(*b) << 7))
            }
            rest => {
                let (value, rest) = long_varint(rest, self.end)?;
                self.rest = rest;
                Ok(value)
            }
        }
    }

    /// A field's content: eight bytes.
    #[inline(always)]
    pub(crate) fn fixed64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.take_array()?))
    }

    /// A field's content: four bytes.
    #[inline(always)]
    pub(crate) fn fixed32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.take_array()?))
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

    /// A field's content: a string, bytes or a message.
    #[inline(always)]
    pub(crate) fn delimited(&mut self) -> Result<&'a [u8]> {
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
    fn skip_group(&mut self, number: u32) -> Result<()> {
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
            let Some(key) = self.key()? else {
                return Err(Error::Truncated {
                    offset: offset_u32(self.end),
                });
            };
            let number = key >> 3;
            match key & 7 {
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
                        return Ok(());
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

    #[inline(always)]
    pub(crate) fn wrong_wire_type(&self, field: u32) -> Error {
        wrong_wire_type(self.offset(), field)
    }

    #[inline(always)]
    pub(crate) fn repeated(&self, field: u32) -> Error {
        repeated(self.offset(), field)
    }

    /// A field's content: a string.
    #[inline(always)]
    pub(crate) fn text(&mut self, field: u32) -> Result<&'a str> {
        let bytes = self.delimited()?;
        text(bytes).ok_or_else(|| self.not_utf8(field, bytes))
    }

    /// A field's content: a string, which is checked and not given.
    #[inline(always)]
    pub(crate) fn check_text(&mut self, field: u32) -> Result<()> {
        let bytes = self.delimited()?;
        if is_text(bytes) {
            Ok(())
        } else {
            Err(self.not_utf8(field, bytes))
        }
    }

    /// A field's content: a message.
    #[inline(always)]
    pub(crate) fn message(&mut self) -> Result<Self> {
        let bytes = self.delimited()?;
        Ok(self.child(bytes))
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
        match value {
            Value::Bytes(bytes) if is_text(bytes) => Ok(()),
            Value::Bytes(bytes) => Err(self.not_utf8(field, bytes)),
            _ => Err(self.wrong_wire_type(field)),
        }
    }

    #[inline(always)]
    pub(crate) fn not_utf8(&self, field: u32, bytes: &[u8]) -> Error {
        not_utf8(self.offset_of(bytes), field)
    }
}

/// The key of a field of strings, bytes or messages.
pub(crate) const fn bytes_key(number: u32) -> u32 {
    number << 3 | 2
}

/// The key of a field of integers, booleans or enums.
pub(crate) const fn varint_key(number: u32) -> u32 {
    number << 3
}

/// The key of a field of eight bytes.
pub(crate) const fn fixed64_key(number: u32) -> u32 {
    number << 3 | 1
}

/// The key of a field of four bytes.
pub(crate) const fn fixed32_key(number: u32) -> u32 {
    number << 3 | 5
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
