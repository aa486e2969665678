//! One file of the log: its name and its header. The layout is in the crate's head.

use crate::error::Defect;
use crate::position::Position;

/// Bytes of a segment's header; the first record starts there.
pub(crate) const SEGMENT_HEADER_BYTES: u32 = 40;
/// The version of the format that is written and read.
pub(crate) const FORMAT_VERSION: u32 = 1;
/// The same size, to index with.
pub(crate) const HEADER_LEN: usize = 40;
const MAGIC: [u8; 8] = *b"WHYSLWAL";
const CHECKED_LEN: usize = 36;
const EXTENSION: &str = ".wal";
const NAME_DIGITS: usize = 10;

/// The header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) number: u32,
    /// Where the segment before ended; [`Position::MIN`] in the first segment of a log.
    pub(crate) previous_end: Position,
    /// Everything before this was synced when the segment was created.
    pub(crate) durable: Position,
    /// Goes into the checksum of each record, see [`crate::record`].
    pub(crate) salt: u32,
}

/// Why bytes are no segment header of this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderError {
    Damaged(Defect),
    Version(u32),
}

impl SegmentHeader {
    pub(crate) fn encode(&self) -> [u8; HEADER_LEN] {
        let mut bytes = Vec::with_capacity(HEADER_LEN);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes.extend_from_slice(&self.number.to_le_bytes());
        bytes.extend_from_slice(&self.previous_end.as_u64().to_le_bytes());
        bytes.extend_from_slice(&self.durable.as_u64().to_le_bytes());
        bytes.extend_from_slice(&self.salt.to_le_bytes());
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
        let mut header = [0; HEADER_LEN];
        header.copy_from_slice(&bytes);
        header
    }

    /// Reads what [`SegmentHeader::encode`] wrote.
    pub(crate) fn decode(bytes: &[u8; HEADER_LEN]) -> Result<Self, HeaderError> {
        let damaged = HeaderError::Damaged(Defect::SegmentHeader);
        let mut rest = Fields(bytes);
        if rest.array() != Some(MAGIC) {
            return Err(damaged);
        }
        let version = rest.u32().ok_or(damaged)?;
        if version != FORMAT_VERSION {
            return Err(HeaderError::Version(version));
        }
        let header = Self {
            number: rest.u32().ok_or(damaged)?,
            previous_end: Position::from_u64(rest.u64().ok_or(damaged)?),
            durable: Position::from_u64(rest.u64().ok_or(damaged)?),
            salt: rest.u32().ok_or(damaged)?,
        };
        let checked = bytes.first_chunk::<CHECKED_LEN>().ok_or(damaged)?;
        if rest.u32() != Some(crc32fast::hash(checked)) {
            return Err(damaged);
        }
        Ok(header)
    }
}

/// Takes little-endian fields from the front.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl Fields<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*field)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}

/// The name of a segment's file: its number with leading zeros, so that names sort as numbers do.
pub(crate) fn file_name(number: u32) -> String {
    format!("{number:0NAME_DIGITS$}{EXTENSION}")
}

/// The number in a segment's file name; `None` for any other file.
pub(crate) fn parse_file_name(name: &str) -> Option<u32> {
    let digits = name.strip_suffix(EXTENSION)?;
    if digits.len() != NAME_DIGITS || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok().filter(|&number| number > 0)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::{
        HEADER_LEN, HeaderError, SEGMENT_HEADER_BYTES, SegmentHeader, file_name, parse_file_name,
    };
    use crate::error::Defect;
    use crate::position::Position;

    fn header() -> SegmentHeader {
        SegmentHeader {
            number: 7,
            previous_end: Position::new(6, 0x0102),
            durable: Position::new(5, 40),
            salt: 0xa1b2_c3d4,
        }
    }

    #[test]
    fn the_header_is_written_as_documented() {
        check(
            &header().encode(),
            &expect![[r#"
                57 48 59 53 4c 57 41 4c
                01 00 00 00 07 00 00 00
                02 01 00 00 06 00 00 00
                28 00 00 00 05 00 00 00
                d4 c3 b2 a1 0e 48 58 11
            "#]],
        );
        assert_eq!(SegmentHeader::decode(&header().encode()), Ok(header()));
        assert_eq!(usize::try_from(SEGMENT_HEADER_BYTES), Ok(HEADER_LEN));
    }

    fn check(bytes: &[u8], expected: &Expect) {
        let mut text = String::new();
        for row in bytes.chunks(8) {
            let row: Vec<_> = row.iter().map(|byte| format!("{byte:02x}")).collect();
            text.push_str(&row.join(" "));
            text.push('\n');
        }
        expected.assert_eq(&text);
    }

    #[test]
    fn a_flipped_bit_in_the_header_is_refused() {
        for byte in 0..HEADER_LEN {
            for bit in 0..8 {
                let mut bytes = header().encode();
                bytes[byte] ^= 1 << bit;
                let expected = if (8..12).contains(&byte) {
                    HeaderError::Version(1 ^ (1 << (bit + 8 * (byte - 8))))
                } else {
                    HeaderError::Damaged(Defect::SegmentHeader)
                };
                assert_eq!(
                    SegmentHeader::decode(&bytes),
                    Err(expected),
                    "byte {byte} bit {bit}"
                );
            }
        }
    }

    #[test]
    fn file_names_sort_as_numbers_and_nothing_else_is_a_segment() {
        for number in [1, 9, 10, 4_294_967_295] {
            assert_eq!(parse_file_name(&file_name(number)), Some(number));
        }
        assert!(file_name(9) < file_name(10));
        let others = [
            "LOCK",
            "1.wal",
            "0000000000.wal",
            "0000000001.wal.bak",
            "4294967296.wal",
            "+000000001.wal",
            "00000000001.wal",
            ".wal",
            "",
        ];
        for name in others {
            assert_eq!(parse_file_name(name), None, "{name}");
        }
    }
}
