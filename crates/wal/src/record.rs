//! One record in a segment: encoding beside decoding. The layout is in the crate's head.

use std::io;

use crate::disk::DiskFile;
use crate::error::Defect;
use crate::segment::Fields;
use crate::window::Window;

/// Bytes before a record's payload.
pub(crate) const RECORD_HEADER_BYTES: u32 = 16;
/// The same size, to index with.
pub(crate) const HEADER_LEN: usize = 16;
/// The value of `durable` when nothing is known of the segments before. It is not 0, so that zeros are no record.
pub(crate) const DURABLE_UNKNOWN: u32 = 1;

/// The header of a record, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    /// Bytes of the payload.
    pub(crate) payload_bytes: u32,
    /// How many bytes of this segment were synced when the record was appended, and with them all segments before;
    /// or [`DURABLE_UNKNOWN`].
    pub(crate) durable: u32,
    header_checksum: u32,
    payload_checksum: u32,
}

impl RecordHeader {
    /// `seed` is the one of the place it was read from, see [`seed`].
    pub(crate) fn decode(bytes: &[u8; HEADER_LEN], seed: u32) -> Option<Self> {
        let mut fields = Fields(bytes);
        let header = Self {
            payload_bytes: fields.u32()?,
            durable: fields.u32()?,
            header_checksum: fields.u32()?,
            payload_checksum: fields.u32()?,
        };
        let (checked, _) = bytes.split_first_chunk::<8>()?;
        (header.durable >= DURABLE_UNKNOWN && checksum(seed, checked) == header.header_checksum)
            .then_some(header)
    }

    pub(crate) fn matches(&self, payload: &[u8]) -> bool {
        checksum(self.header_checksum, payload) == self.payload_checksum
    }
}

/// Where a record's checksum starts: it holds at this place of this segment only.
///
/// A sender cannot guess the salt. So a payload that looks like a record is not taken for one when the log is searched
/// behind a damaged place, nor is an old record whose disk blocks were given to a new segment.
pub(crate) const fn seed(salt: u32, offset: u32) -> u32 {
    salt ^ offset
}

fn checksum(seed: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(seed);
    hasher.update(bytes);
    hasher.finalize()
}

/// Appends one record to `buffer`. `payload_bytes` is the sum of the parts' lengths.
pub(crate) fn encode(
    buffer: &mut Vec<u8>,
    parts: &[&[u8]],
    payload_bytes: u32,
    durable: u32,
    seed: u32,
) {
    let mut checked = [0; 8];
    let (length, synced) = checked.split_at_mut(4);
    length.copy_from_slice(&payload_bytes.to_le_bytes());
    synced.copy_from_slice(&durable.to_le_bytes());
    let header_checksum = checksum(seed, &checked);

    buffer.extend_from_slice(&checked);
    buffer.extend_from_slice(&header_checksum.to_le_bytes());
    let checksum_at = buffer.len();
    buffer.extend_from_slice(&[0; 4]);
    for part in parts {
        buffer.extend_from_slice(part);
    }
    if let Some((field, payload)) = buffer
        .get_mut(checksum_at..)
        .and_then(|rest| rest.split_first_chunk_mut::<4>())
    {
        *field = checksum(header_checksum, payload).to_le_bytes();
    }
}

/// What is stored at an offset of a segment.
#[derive(Debug)]
pub(crate) enum Found {
    /// A whole record that matches its checksums; the next one starts at `next`.
    Record { header: RecordHeader, next: u32 },
    /// The segment ends here.
    End,
    /// Anything else. No record that was whole starts before `resume`.
    Damage { defect: Defect, resume: u32 },
}

/// Reads the record at `offset`; [`payload_at`] has its bytes then.
pub(crate) fn find<F: DiskFile>(
    window: &mut Window<F>,
    salt: u32,
    offset: u32,
) -> io::Result<Found> {
    let end = window.end();
    if offset >= end {
        return Ok(Found::End);
    }
    let Some(bytes) = window.bytes(offset, RECORD_HEADER_BYTES)? else {
        return Ok(Found::Damage {
            defect: Defect::RecordHeader,
            resume: end,
        });
    };
    let header = bytes
        .first_chunk::<HEADER_LEN>()
        .and_then(|bytes| RecordHeader::decode(bytes, seed(salt, offset)));
    let Some(header) = header else {
        let resume = offset.saturating_add(1);
        return Ok(Found::Damage {
            defect: Defect::RecordHeader,
            resume,
        });
    };
    let payload_at = offset.saturating_add(RECORD_HEADER_BYTES);
    let Some(payload) = window.bytes(payload_at, header.payload_bytes)? else {
        return Ok(Found::Damage {
            defect: Defect::RecordLength,
            resume: end,
        });
    };
    let next = payload_at.saturating_add(header.payload_bytes);
    if header.matches(payload) {
        Ok(Found::Record { header, next })
    } else {
        Ok(Found::Damage {
            defect: Defect::RecordPayload,
            resume: next,
        })
    }
}

/// The payload of a record that [`find`] has just found at `offset`.
pub(crate) fn payload_at<F: DiskFile>(
    window: &mut Window<F>,
    offset: u32,
    header: RecordHeader,
) -> io::Result<&[u8]> {
    let payload = window.bytes(
        offset.saturating_add(RECORD_HEADER_BYTES),
        header.payload_bytes,
    )?;
    payload.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}
