//! Reads single records by position.

use std::io;
use std::sync::Arc;

use crate::disk::{Disk, DiskFile, RealDisk};
use crate::error::{Defect, Error, Operation, Result};
use crate::position::Position;
use crate::record::{HEADER_LEN, RECORD_HEADER_BYTES, RecordHeader, seed};
use crate::shared::{OpenSegment, Shared, corrupt};
use crate::window::usize_from;

/// Reads records by position, from any thread, while the log is appended to.
///
/// Cheap to clone; clones share up to 32 open files.
#[derive(Debug)]
pub struct Reader<D: Disk = RealDisk> {
    pub(crate) shared: Arc<Shared<D>>,
}

impl<D: Disk> Clone for Reader<D> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<D: Disk> Reader<D> {
    /// Puts the payload of the record at `position` into `payload`, in place of what was there.
    ///
    /// After an error `payload` is empty.
    ///
    /// # Errors
    ///
    /// [`Error::NotFlushed`], [`Error::Deleted`], [`Error::Corrupt`] where the stored bytes do not match their
    /// checksums or no record starts there, or the disk's.
    pub fn read(&self, position: Position, payload: &mut Vec<u8>) -> Result<()> {
        payload.clear();
        let result = self.fill(position, payload);
        if result.is_err() {
            payload.clear();
        }
        result
    }

    /// Records before this position can be read.
    pub fn flushed_position(&self) -> Position {
        self.shared.flushed()
    }

    fn fill(&self, position: Position, payload: &mut Vec<u8>) -> Result<()> {
        let flushed = self.shared.flushed();
        if position >= flushed {
            return Err(Error::NotFlushed { position, flushed });
        }
        let first_segment = self.shared.first_segment();
        if position.segment() < first_segment {
            return Err(Error::Deleted {
                position,
                first_segment,
            });
        }
        let segment = self.shared.segment(position.segment())?;
        let offset = position.offset();

        let mut header = [0; HEADER_LEN];
        self.read_exact(&segment, offset, &mut header, Defect::RecordHeader)?;
        let header = RecordHeader::decode(&header, seed(segment.salt, offset))
            .ok_or_else(|| self.corrupt(&segment, offset, Defect::RecordHeader))?;

        payload.resize(usize_from(header.payload_bytes), 0);
        let payload_at = offset.saturating_add(RECORD_HEADER_BYTES);
        self.read_exact(&segment, payload_at, payload, Defect::RecordLength)?;
        if header.matches(payload) {
            Ok(())
        } else {
            Err(self.corrupt(&segment, offset, Defect::RecordPayload))
        }
    }

    /// A file that is too short is damaged: the position was flushed.
    fn read_exact(
        &self,
        segment: &OpenSegment<D::File>,
        offset: u32,
        buffer: &mut [u8],
        defect: Defect,
    ) -> Result<()> {
        segment
            .file
            .read_exact_at(buffer, offset.into())
            .map_err(|source| {
                if source.kind() == io::ErrorKind::UnexpectedEof {
                    self.corrupt(segment, offset, defect)
                } else {
                    Error::io(Operation::Read, self.shared.path(segment.number), source)
                }
            })
    }

    fn corrupt(&self, segment: &OpenSegment<D::File>, offset: u32, defect: Defect) -> Error {
        corrupt(self.shared.path(segment.number), offset, defect)
    }
}
