//! What the writer, its readers and its sync handles share.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::disk::{Disk, DiskFile};
use crate::error::{Defect, Error, Operation, Result};
use crate::position::Position;
use crate::segment::{self, FORMAT_VERSION, HEADER_LEN, HeaderError, SegmentHeader};

/// Open files that are kept for reading: 2 GiB of log at the default segment size, few of a process's descriptors.
const OPEN_SEGMENTS_MAX: usize = 32;

/// State of one open log.
#[derive(Debug)]
pub(crate) struct Shared<D: Disk> {
    pub(crate) disk: D,
    pub(crate) directory: PathBuf,
    /// The first segment that is kept.
    first_segment: AtomicU32,
    /// Records before it are with the operating system.
    flushed: AtomicU64,
    /// Records before it are synced.
    durable: AtomicU64,
    /// The first failure after which the disk's content is not known.
    poison: OnceLock<(Operation, PathBuf)>,
    /// The least recently used one first.
    open_segments: Mutex<VecDeque<Arc<OpenSegment<D::File>>>>,
    /// Held while a file is synced.
    syncing: Mutex<()>,
}

/// A segment's file with what is needed to read records from it.
#[derive(Debug)]
pub(crate) struct OpenSegment<F> {
    pub(crate) number: u32,
    pub(crate) salt: u32,
    pub(crate) file: Arc<F>,
}

impl<D: Disk> Shared<D> {
    pub(crate) fn new(disk: D, directory: PathBuf, first_segment: u32, end: Position) -> Self {
        Self {
            disk,
            directory,
            first_segment: AtomicU32::new(first_segment),
            flushed: AtomicU64::new(end.as_u64()),
            durable: AtomicU64::new(end.as_u64()),
            poison: OnceLock::new(),
            open_segments: Mutex::default(),
            syncing: Mutex::default(),
        }
    }

    pub(crate) fn path(&self, number: u32) -> PathBuf {
        self.directory.join(segment::file_name(number))
    }

    pub(crate) fn first_segment(&self) -> u32 {
        self.first_segment.load(Ordering::Acquire)
    }

    pub(crate) fn flushed(&self) -> Position {
        Position::from_u64(self.flushed.load(Ordering::Acquire))
    }

    pub(crate) fn set_flushed(&self, end: Position) {
        self.flushed.store(end.as_u64(), Ordering::Release);
    }

    pub(crate) fn durable(&self) -> Position {
        Position::from_u64(self.durable.load(Ordering::Acquire))
    }

    /// Handles may return in any order; a lower position adds nothing.
    pub(crate) fn raise_durable(&self, end: Position) {
        self.durable.fetch_max(end.as_u64(), Ordering::AcqRel);
    }

    /// After this, nothing is appended any more. Returns the error to report.
    pub(crate) fn poison(
        &self,
        operation: Operation,
        path: PathBuf,
        source: std::io::Error,
    ) -> Error {
        self.poison.get_or_init(|| (operation, path.clone()));
        Error::io(operation, path, source)
    }

    pub(crate) fn check_poison(&self) -> Result<()> {
        match self.poison.get() {
            None => Ok(()),
            Some((operation, path)) => Err(Error::Poisoned {
                operation: *operation,
                path: path.clone(),
            }),
        }
    }

    /// Syncs a segment's file. One at a time: the operating system reports a lost page to one caller only, and the
    /// others must not take their success for granted.
    pub(crate) fn sync_segment(&self, segment: &OpenSegment<D::File>) -> Result<()> {
        let _turn = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        self.check_poison()?;
        segment
            .file
            .sync()
            .map_err(|source| self.poison(Operation::Sync, self.path(segment.number), source))
    }

    pub(crate) fn sync_directory(&self) -> Result<()> {
        self.disk
            .sync_directory(&self.directory)
            .map_err(|source| self.poison(Operation::Sync, self.directory.clone(), source))
    }

    /// Removes a segment's file and forgets its handle; readers that hold it may finish.
    pub(crate) fn remove_segment(&self, number: u32) -> Result<()> {
        let path = self.path(number);
        match self.disk.remove(&path) {
            // Somebody else removed it: what was wanted.
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::io(Operation::Remove, path, source));
            }
            Ok(()) | Err(_) => {}
        }
        self.first_segment
            .fetch_max(number.saturating_add(1), Ordering::AcqRel);
        self.open_segments().retain(|open| open.number != number);
        Ok(())
    }

    /// The file of a segment, from the cache or opened.
    pub(crate) fn segment(&self, number: u32) -> Result<Arc<OpenSegment<D::File>>> {
        {
            let mut open = self.open_segments();
            if let Some(idx) = open.iter().position(|open| open.number == number)
                && let Some(found) = open.remove(idx)
            {
                open.push_back(Arc::clone(&found));
                return Ok(found);
            }
        }
        // Outside of the lock: a slow disk does not stop the readers of other segments.
        let path = self.path(number);
        let file = match self.disk.open(&path) {
            Ok(file) => file,
            Err(source) if source.kind() == std::io::ErrorKind::NotFound => {
                return Err(self.missing(number, source));
            }
            Err(source) => return Err(Error::io(Operation::Open, path, source)),
        };
        let mut header = [0; HEADER_LEN];
        file.read_exact_at(&mut header, 0)
            .map_err(|source| Error::io(Operation::Read, &path, source))?;
        let header = SegmentHeader::decode(&header).map_err(|error| header_error(path, error))?;
        let found = Arc::new(OpenSegment {
            number,
            salt: header.salt,
            file: Arc::new(file),
        });
        self.keep_open(Arc::clone(&found));
        Ok(found)
    }

    fn missing(&self, number: u32, source: std::io::Error) -> Error {
        let first_segment = self.first_segment();
        if number < first_segment {
            return Error::Deleted {
                position: Position::new(number, 0),
                first_segment,
            };
        }
        Error::io(Operation::Open, self.path(number), source)
    }

    pub(crate) fn keep_open(&self, segment: Arc<OpenSegment<D::File>>) {
        let mut open = self.open_segments();
        open.retain(|other| other.number != segment.number);
        if open.len() >= OPEN_SEGMENTS_MAX {
            open.pop_front();
        }
        open.push_back(segment);
    }

    fn open_segments(&self) -> MutexGuard<'_, VecDeque<Arc<OpenSegment<D::File>>>> {
        // The list is whole after each statement, so a panic elsewhere does not spoil it.
        self.open_segments
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says which file a bad header is in.
pub(crate) fn header_error(path: PathBuf, error: HeaderError) -> Error {
    match error {
        HeaderError::Damaged(defect) => Error::Corrupt {
            path,
            offset: 0,
            defect,
        },
        HeaderError::Version(found) => Error::UnsupportedVersion {
            path,
            found,
            supported: FORMAT_VERSION,
        },
    }
}

/// Damage at a place of a segment.
pub(crate) fn corrupt(path: PathBuf, offset: u32, defect: Defect) -> Error {
    Error::Corrupt {
        path,
        offset: offset.into(),
        defect,
    }
}
