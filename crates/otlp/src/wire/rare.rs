//! What a walk seldom meets: long keys and varints, and errors. It takes its place by value and is called, so that the walk
//! itself stays in registers.

use crate::error::{Error, Result, offset_u32};

/// Largest field number (protobuf language guide, "Assigning Field Numbers").
const FIELD_NUMBER_MAX: u64 = (1 << 29) - 1;

/// A key of any length, and what follows it. `end` is the offset of the end of `rest`.
#[cold]
pub(super) fn long_key(rest: &[u8], end: usize) -> Result<(u32, &[u8])> {
    let (key, after) = long_varint(rest, end)?;
    let number = key >> 3;
    match u32::try_from(key) {
        Ok(key) if number <= FIELD_NUMBER_MAX => Ok((key, after)),
        Ok(_) | Err(_) => Err(Error::FieldKey {
            offset: offset_u32(end.saturating_sub(rest.len())),
        }),
    }
}

#[inline(never)]
pub(super) fn long_varint(bytes: &[u8], end: usize) -> Result<(u64, &[u8])> {
    let mut value = 0_u64;
    let mut shift = 0_u32;
    let mut rest = bytes;
    while let Some((&byte, after)) = rest.split_first() {
        // The tenth byte holds the 64th bit and nothing else.
        if shift == 63 && byte > 1 {
            return Err(Error::Varint {
                offset: offset_u32(end.saturating_sub(bytes.len())),
            });
        }
        value |= u64::from(byte & 0x7f).wrapping_shl(shift);
        shift = shift.saturating_add(7);
        rest = after;
        if byte < 0x80 {
            return Ok((value, rest));
        }
    }
    Err(Error::Truncated {
        offset: offset_u32(end),
    })
}

#[cold]
pub(super) fn wrong_wire_type(end: usize, field: u32) -> Error {
    Error::WireType {
        offset: offset_u32(end),
        field,
    }
}

#[cold]
pub(super) fn repeated(end: usize, field: u32) -> Error {
    Error::Repeated {
        offset: offset_u32(end),
        field,
    }
}

#[cold]
pub(super) fn not_utf8(begin: usize, field: u32) -> Error {
    Error::Utf8 {
        offset: offset_u32(begin),
        field,
    }
}
