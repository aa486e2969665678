//! Streams the records in order.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::disk::{Disk, RealDisk};
use crate::error::{Defect, Error, Operation, Result};
use crate::position::Position;
use crate::record::{self, Found};
use crate::segment::SEGMENT_HEADER_BYTES;
use crate::shared::{Shared, corrupt};
use crate::window::Window;

/// The records of a log in the order of their positions, as far as they were flushed when it was made.
///
/// [`Records::next_record`] lends each record without a copy; as an [`Iterator`] it gives each one as a `Vec`. It ends
/// after the first error. Holds 1 MiB of the log, or one record if that is larger.
#[derive(Debug)]
pub struct Records<D: Disk = RealDisk> {
    shared: Arc<Shared<D>>,
    /// Segments still to be opened, with their sizes; the next one last.
    segments: Vec<(u32, u32)>,
    current: Option<Current<D::File>>,
}

#[derive(Debug)]
struct Current<F> {
    number: u32,
    salt: u32,
    window: Window<F>,
    offset: u32,
}

impl<D: Disk> Records<D> {
    /// `segments` are numbers and sizes, in order.
    pub(crate) fn new(shared: Arc<Shared<D>>, mut segments: Vec<(u32, u32)>) -> Self {
        segments.reverse();
        Self {
            shared,
            segments,
            current: None,
        }
    }

    /// The next record and its position; `None` after the last one.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`], [`Error::Deleted`] if its segment was deleted meanwhile, or the disk's. There are no
    /// more records then.
    pub fn next_record(&mut self) -> Result<Option<(Position, &[u8])>> {
        let found = self.find_next();
        if !matches!(found, Ok(Some(_))) {
            self.segments.clear();
            self.current = None;
        }
        let Some((position, header)) = found? else {
            return Ok(None);
        };
        let Some(current) = self.current.as_mut() else {
            return Ok(None);
        };
        let path = self.shared.path(current.number);
        record::payload_at(&mut current.window, position.offset(), header)
            .map(|payload| Some((position, payload)))
            .map_err(|source| Error::io(Operation::Read, path, source))
    }

    fn find_next(&mut self) -> Result<Option<(Position, record::RecordHeader)>> {
        loop {
            let Some(current) = self.current.as_mut() else {
                let Some((number, end)) = self.segments.pop() else {
                    return Ok(None);
                };
                let segment = self.shared.segment(number)?;
                self.current = Some(Current {
                    number,
                    salt: segment.salt,
                    window: Window::new(Arc::clone(&segment.file), end),
                    offset: SEGMENT_HEADER_BYTES,
                });
                continue;
            };
            let offset = current.offset;
            match record::find(&mut current.window, current.salt, offset) {
                Ok(Found::Record { header, next }) => {
                    current.offset = next;
                    return Ok(Some((Position::new(current.number, offset), header)));
                }
                Ok(Found::End) => self.current = None,
                Ok(Found::Damage { defect, .. }) => {
                    return Err(corrupt(self.shared.path(current.number), offset, defect));
                }
                Err(source) => {
                    return Err(read_error(self.shared.path(current.number), offset, source));
                }
            }
        }
    }
}

/// The file was long enough when it was recovered or written, so a shorter one is damaged.
fn read_error(path: PathBuf, offset: u32, source: io::Error) -> Error {
    if source.kind() == io::ErrorKind::UnexpectedEof {
        return corrupt(path, offset, Defect::RecordLength);
    }
    Error::io(Operation::Read, path, source)
}

impl<D: Disk> Iterator for Records<D> {
    type Item = Result<(Position, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_record()
            .map(|record| record.map(|(position, payload)| (position, payload.to_vec())))
            .transpose()
    }
}
