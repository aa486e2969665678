//! Trace and span ids: fixed width, never all zero.
//!
//! An all-zero id or one of another length is invalid (`trace.proto`, `Span.trace_id` and
//! `Span.span_id`), so that it cannot be made here. Text is hex in any case and exact length:
//! leading zeros count, a 64-bit id is not the same as the 128-bit id that ends with it.

use std::fmt;

/// Why bytes or text are not an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// Another number of bytes, or of hex digits.
    #[error("id has {found} bytes or digits, expected {expected}")]
    Length {
        /// How many there are.
        found: usize,
        /// How many there must be.
        expected: usize,
    },
    /// All bytes are zero.
    #[error("id is all zero")]
    Zero,
    /// A character that is no hex digit.
    #[error("id has a character that is not a hex digit")]
    Hex,
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $n_bytes:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name([u8; $n_bytes]);

        impl $name {
            /// Number of bytes.
            pub const LEN: usize = $n_bytes;

            /// The lowest id: 1. All zero is none.
            pub const MIN: Self = {
                let mut id = [0; $n_bytes];
                id[$n_bytes - 1] = 1;
                Self(id)
            };

            /// The id in these bytes.
            ///
            /// # Errors
            /// Wrong length or all zero.
            #[inline]
            pub fn from_slice(bytes: &[u8]) -> Result<Self, IdError> {
                match <[u8; $n_bytes]>::try_from(bytes) {
                    Ok(id) if id != [0; $n_bytes] => Ok(Self(id)),
                    Ok(_) => Err(IdError::Zero),
                    Err(_) => Err(IdError::Length { found: bytes.len(), expected: $n_bytes }),
                }
            }

            /// The id in hex digits of any case.
            ///
            /// # Errors
            /// Wrong number of digits, another character, or all zero.
            pub fn parse_hex(text: &str) -> Result<Self, IdError> {
                let (pairs, rest) = text.as_bytes().as_chunks::<2>();
                if pairs.len() != $n_bytes || !rest.is_empty() {
                    let expected = Self::LEN.saturating_mul(2);
                    return Err(IdError::Length { found: text.len(), expected });
                }
                let mut id = [0; $n_bytes];
                for (byte, [high, low]) in id.iter_mut().zip(pairs) {
                    *byte = hex_byte(*high, *low).ok_or(IdError::Hex)?;
                }
                Self::from_slice(&id)
            }

            /// The bytes.
            #[inline]
            pub const fn as_bytes(&self) -> &[u8; $n_bytes] {
                &self.0
            }

            /// Lower-case hex digits, leading zeros included.
            pub fn to_hex(&self) -> String {
                let mut text = String::with_capacity(Self::LEN.saturating_mul(2));
                push_hex(&self.0, &mut text);
                text
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                for byte in self.0 {
                    write!(f, "{byte:02x}")?;
                }
                Ok(())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl std::str::FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::parse_hex(text)
            }
        }
    };
}

id! {
    /// Id of a trace: 16 bytes, not all zero.
    TraceId, 16
}
id! {
    /// Id of a span in its trace: 8 bytes, not all zero.
    SpanId, 8
}

/// Appends `bytes` as lower-case hex.
pub(crate) fn push_hex(bytes: &[u8], out: &mut String) {
    for byte in bytes {
        for digit in [byte >> 4, byte & 0xf] {
            out.extend(char::from_digit(u32::from(digit), 16));
        }
    }
}

/// The byte that two hex digits of any case stand for.
pub(crate) fn hex_byte(high: u8, low: u8) -> Option<u8> {
    let digit = |c: u8| {
        char::from(c)
            .to_digit(16)
            .and_then(|d| u8::try_from(d).ok())
    };
    Some((digit(high)? << 4) | digit(low)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upper_and_lower_case_are_one_id_and_leading_zeros_are_kept() {
        let upper = TraceId::parse_hex("00000000000000005B8EFFF798038103").unwrap();
        let lower = TraceId::parse_hex("00000000000000005b8efff798038103").unwrap();
        assert_eq!(upper, lower);
        assert_eq!(upper.to_hex(), "00000000000000005b8efff798038103");
        assert_eq!(
            format!("{upper} {upper:?}"),
            format!("{0} {0}", upper.to_hex())
        );
    }

    #[test]
    fn what_is_not_an_id_is_refused_with_its_reason() {
        let check = |text: &str, want: IdError| assert_eq!(SpanId::parse_hex(text), Err(want));
        check(
            "",
            IdError::Length {
                found: 0,
                expected: 16,
            },
        );
        check(
            "5b8efff79803810",
            IdError::Length {
                found: 15,
                expected: 16,
            },
        );
        check(
            "5b8efff7980381031",
            IdError::Length {
                found: 17,
                expected: 16,
            },
        );
        check("0000000000000000", IdError::Zero);
        check("5b8efff79803810g", IdError::Hex);
        check("+b8efff798038103", IdError::Hex);
        assert_eq!(SpanId::from_slice(&[0; 8]), Err(IdError::Zero));
        assert_eq!(
            TraceId::from_slice(&[1; 15]),
            Err(IdError::Length {
                found: 15,
                expected: 16
            })
        );
    }
}
