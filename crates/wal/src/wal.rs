//! The writer: one for a log, it owns the folder.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::config::Config;
use crate::disk::{Disk, DiskFile, RealDisk};
use crate::error::{self, Error, Operation, Result};
use crate::position::Position;
use crate::reader::Reader;
use crate::record::{self, DURABLE_UNKNOWN, RECORD_HEADER_BYTES};
use crate::records::Records;
use crate::recover::{Kept, Recovered, Recovery, recover};
use crate::segment::{SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::shared::{OpenSegment, Shared};
use crate::sync::SyncHandle;
use crate::window::usize_from;

const LOCK_FILE: &str = "LOCK";
/// The buffer is flushed when it would grow past this: a write call costs little per byte then, and the bytes are
/// still in the processor's cache when they are copied to the operating system.
const BUFFER_BYTES: usize = 1024 * 1024;
/// Sealed segments that may wait for a sync. Bounds what a sync has to do, and the open files.
const UNSYNCED_SEGMENTS_MAX: usize = 8;

/// Appends records to the log in one folder.
#[derive(Debug)]
pub struct Wal<D: Disk = RealDisk> {
    segment_bytes: u64,
    record_bytes_max: u32,
    shared: Arc<Shared<D>>,
    /// In order of their numbers; not the active one.
    sealed: VecDeque<Kept>,
    /// The segment that is appended to.
    active: Arc<OpenSegment<D::File>>,
    /// Bytes of the active segment that are with the operating system.
    written_bytes: u32,
    /// Records that follow them. Together they fit a segment: `append` rotates before they do not.
    buffer: Vec<u8>,
    /// Sealed segments that may not be synced, the oldest first, each with its end.
    unsynced: VecDeque<(Arc<OpenSegment<D::File>>, Position)>,
    /// The last field: the folder is free when all else is dropped.
    _lock: D::Lock,
}

/// A segment of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its number, [`Position::segment`] of its records.
    pub number: u32,
    /// Size of its file in bytes.
    pub size_bytes: u64,
    /// Is it complete? Only sealed segments are deleted.
    pub is_sealed: bool,
}

impl<D: Disk> Wal<D> {
    /// Locks the folder, recovers what is in it and continues it.
    ///
    /// Everything that was recovered is synced when this returns.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidConfig`]; [`Error::Locked`] if the log is open already; [`Error::Corrupt`] or
    /// [`Error::UnsupportedVersion`] where a file is not what a crash can have left, the folder is unchanged then; or
    /// the disk's.
    pub fn open(config: Config, disk: D) -> Result<(Self, Recovery)> {
        config.validate()?;
        let folder = Folder::lock(&config.directory, disk)?;
        Self::open_in(folder, config)
    }

    /// As [`Wal::open`], in a folder that is locked already; that of the configuration is not looked at.
    ///
    /// # Errors
    ///
    /// As [`Wal::open`].
    pub fn open_in(folder: Folder<D>, config: Config) -> Result<(Self, Recovery)> {
        config.validate()?;
        let Config {
            directory: _,
            segment_bytes,
            record_bytes_max,
        } = config;
        let Folder {
            disk,
            directory,
            lock,
        } = folder;
        let Recovered {
            kept,
            next_segment,
            recovery,
        } = recover(&disk, &directory)?;

        let mut sealed = VecDeque::from(kept);
        let last = sealed.pop_back();
        let first_segment = sealed
            .front()
            .or(last.as_ref())
            .map_or(next_segment, |kept| kept.number);
        let end = match last {
            Some(Kept { number, end }) => Position::new(number, end),
            None => Position::new(next_segment, SEGMENT_HEADER_BYTES),
        };
        let shared = Arc::new(Shared::new(disk, directory, first_segment, end));
        let active = if last.is_some() {
            shared.segment(end.segment())?
        } else {
            let segment = create_segment(&shared, next_segment, Position::MIN, Position::MIN)?;
            segment
                .file
                .sync()
                .map_err(|source| Error::io(Operation::Sync, shared.path(next_segment), source))?;
            segment
        };
        shared.sync_directory()?;
        let wal = Self {
            segment_bytes,
            record_bytes_max,
            shared,
            sealed,
            active,
            written_bytes: end.offset(),
            buffer: Vec::with_capacity(BUFFER_BYTES),
            unsynced: VecDeque::new(),
            _lock: lock,
        };
        Ok((wal, recovery))
    }

    /// Appends one record, the concatenation of `parts`, and returns its position.
    ///
    /// The record is in memory only, and can be read, when it was flushed. The buffer is flushed by itself when it is
    /// full, and a new segment is begun when the record does not fit this one.
    ///
    /// # Errors
    ///
    /// The record is not appended and takes no position; those before it keep theirs. [`Error::RecordTooLarge`],
    /// [`Error::Poisoned`], [`Error::OutOfSegments`], or the disk's from a flush or a new segment: if
    /// [`Error::is_full`], the next append tries it again.
    pub fn append(&mut self, parts: &[&[u8]]) -> Result<Position> {
        self.shared.check_poison()?;
        let record_bytes = parts
            .iter()
            .fold(0_usize, |sum, part| sum.saturating_add(part.len()));
        let payload_bytes = match u32::try_from(record_bytes) {
            Ok(bytes) if bytes <= self.record_bytes_max => bytes,
            Ok(_) | Err(_) => {
                return Err(Error::RecordTooLarge {
                    record_bytes: u64::try_from(record_bytes).unwrap_or(u64::MAX),
                    record_bytes_max: self.record_bytes_max,
                });
            }
        };
        let needed = payload_bytes.saturating_add(RECORD_HEADER_BYTES);
        let end = u64::from(self.next_position().offset()).saturating_add(needed.into());
        let is_empty = self.next_position().offset() <= SEGMENT_HEADER_BYTES;
        if end > self.segment_bytes && !is_empty {
            self.rotate()?;
        } else if self.buffer.len().saturating_add(usize_from(needed)) > BUFFER_BYTES {
            self.write_buffer()?;
        }

        let position = self.next_position();
        let seed = record::seed(self.active.salt, position.offset());
        let durable = self.durable_bytes();
        record::encode(&mut self.buffer, parts, payload_bytes, durable, seed);
        Ok(position)
    }

    /// Hands all appended records to the operating system: they survive the end of this process, and can be read.
    ///
    /// # Errors
    ///
    /// After [`Error::is_full`] the records that were appended since [`Wal::flushed_position`] are not in the log, now
    /// or later, their positions are given to others, and the log goes on. Any other failure poisons it; the next
    /// [`Wal::open`] may find those records or not.
    pub fn flush(&mut self) -> Result<()> {
        self.shared.check_poison()?;
        let result = self.write_buffer();
        if result.is_err() {
            // Their senders are told that they failed; they must not appear with a later flush.
            self.buffer.clear();
        }
        result
    }

    /// Flushes, and returns when all records survive a power failure.
    ///
    /// # Errors
    ///
    /// As [`Wal::flush`]; a failed sync poisons the log.
    pub fn sync(&mut self) -> Result<()> {
        self.flush()?;
        if self.shared.durable() >= self.shared.flushed() {
            return Ok(());
        }
        self.sync_handle()?.sync()?;
        self.forget_synced();
        Ok(())
    }

    /// Takes what was flushed so far, to be synced on another thread while this one appends.
    ///
    /// # Errors
    ///
    /// [`Error::Poisoned`].
    pub fn sync_handle(&self) -> Result<SyncHandle<D>> {
        self.shared.check_poison()?;
        let durable = self.shared.durable();
        let sealed = self.unsynced.iter().filter(|(_, end)| *end > durable);
        let segments = sealed
            .map(|(segment, _)| segment)
            .chain([&self.active])
            .map(Arc::clone)
            .collect();
        Ok(SyncHandle {
            shared: Arc::clone(&self.shared),
            segments,
            has_new_files: self.active.number > durable.segment(),
            through: self.shared.flushed(),
        })
    }

    /// Deletes the segments whose records are all below `low_water`, the oldest first, and returns how many.
    ///
    /// The segment that is appended to is kept. Each deletion is synced to the folder before the next: a power failure
    /// must not leave an older segment without a newer one.
    ///
    /// # Errors
    ///
    /// [`Error::Poisoned`], or the disk's. Those already deleted stay so; what failed is tried again by the next call,
    /// except that a failed sync poisons.
    pub fn delete_below(&mut self, low_water: Position) -> Result<u32> {
        self.shared.check_poison()?;
        let mut n_deleted = 0_u32;
        while let Some(oldest) = self.sealed.front().copied()
            && oldest.number < low_water.segment()
        {
            self.shared.remove_segment(oldest.number)?;
            self.sealed.pop_front();
            self.unsynced
                .retain(|(segment, _)| segment.number != oldest.number);
            self.shared.sync_directory()?;
            n_deleted = n_deleted.saturating_add(1);
        }
        Ok(n_deleted)
    }

    /// Reads single records by position.
    pub fn reader(&self) -> Reader<D> {
        Reader {
            shared: Arc::clone(&self.shared),
        }
    }

    /// Streams the records from the first kept one to the last flushed one.
    pub fn iter(&self) -> Records<D> {
        let sealed = self.sealed.iter().map(|kept| (kept.number, kept.end));
        let active = (self.active.number, self.written_bytes);
        Records::new(Arc::clone(&self.shared), sealed.chain([active]).collect())
    }

    /// The position of the next record, if it still fits this segment.
    pub fn next_position(&self) -> Position {
        let buffered = u32::try_from(self.buffer.len()).unwrap_or(u32::MAX);
        Position::new(
            self.active.number,
            self.written_bytes.saturating_add(buffered),
        )
    }

    /// Records before this position are with the operating system.
    pub fn flushed_position(&self) -> Position {
        self.shared.flushed()
    }

    /// Records before this position are synced.
    pub fn synced_position(&self) -> Position {
        self.shared.durable()
    }

    /// Bytes of all segments' files, headers included; not the buffer.
    pub fn bytes_on_disk(&self) -> u64 {
        self.segments()
            .fold(0, |sum, segment| sum.saturating_add(segment.size_bytes))
    }

    /// The segments in order; the last one is appended to.
    pub fn segments(&self) -> impl Iterator<Item = Segment> + '_ {
        let active = Segment {
            number: self.active.number,
            size_bytes: self.written_bytes.into(),
            is_sealed: false,
        };
        let sealed = self.sealed.iter().map(|kept| Segment {
            number: kept.number,
            size_bytes: kept.end.into(),
            is_sealed: true,
        });
        sealed.chain([active])
    }

    /// How much of this segment is synced, as records tell it to the next recovery.
    fn durable_bytes(&self) -> u32 {
        let durable = self.shared.durable();
        if durable.segment() == self.active.number {
            durable.offset()
        } else {
            DURABLE_UNKNOWN
        }
    }

    /// Writes the buffer; after an error it is unchanged.
    fn write_buffer(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let end = self.next_position();
        let file = &self.active.file;
        if let Err(source) = file.write_all_at(&self.buffer, self.written_bytes.into()) {
            let path = self.shared.path(self.active.number);
            if !error::is_full(&source) {
                return Err(self.shared.poison(Operation::Write, path, source));
            }
            return Err(match file.truncate(self.written_bytes.into()) {
                Ok(()) => {
                    // Or a power failure could bring it back behind what is written next.
                    self.shared.sync_segment(&self.active)?;
                    Error::io(Operation::Write, path, source)
                }
                Err(cause) => self.shared.poison(Operation::Truncate, path, cause),
            });
        }
        self.written_bytes = end.offset();
        self.buffer.clear();
        // One very large record does not keep its memory.
        self.buffer.shrink_to(BUFFER_BYTES);
        self.shared.set_flushed(end);
        Ok(())
    }

    /// Seals the active segment and begins the next one.
    fn rotate(&mut self) -> Result<()> {
        self.write_buffer()?;
        self.forget_synced();
        if self.unsynced.len() >= UNSYNCED_SEGMENTS_MAX {
            self.sync_oldest()?;
        }
        let sealed_end = Position::new(self.active.number, self.written_bytes);
        let number = self
            .active
            .number
            .checked_add(1)
            .ok_or_else(|| Error::OutOfSegments {
                directory: self.shared.directory.clone(),
            })?;
        let segment = create_segment(&self.shared, number, sealed_end, self.shared.durable())?;
        let sealed = std::mem::replace(&mut self.active, segment);
        self.sealed.push_back(Kept {
            number: sealed.number,
            end: self.written_bytes,
        });
        if sealed_end > self.shared.durable() {
            self.unsynced.push_back((sealed, sealed_end));
        }
        self.written_bytes = SEGMENT_HEADER_BYTES;
        self.shared.set_flushed(self.next_position());
        Ok(())
    }

    fn forget_synced(&mut self) {
        let durable = self.shared.durable();
        self.unsynced.retain(|(_, end)| *end > durable);
    }

    fn sync_oldest(&mut self) -> Result<()> {
        let Some((segment, end)) = self.unsynced.front() else {
            return Ok(());
        };
        let handle = SyncHandle {
            shared: Arc::clone(&self.shared),
            segments: vec![Arc::clone(segment)],
            has_new_files: segment.number > self.shared.durable().segment(),
            through: *end,
        };
        handle.sync()?;
        self.forget_synced();
        Ok(())
    }
}

/// A log's folder that no other process can open.
#[derive(Debug)]
pub struct Folder<D: Disk = RealDisk> {
    disk: D,
    directory: PathBuf,
    lock: D::Lock,
}

impl<D: Disk> Folder<D> {
    /// Creates the folder if it is not there, and locks it.
    ///
    /// # Errors
    ///
    /// [`Error::Locked`] if another process has it, or the disk's.
    pub fn lock(directory: &Path, disk: D) -> Result<Self> {
        disk.create_directory(directory)
            .map_err(|source| Error::io(Operation::Create, directory, source))?;
        let lock = lock(&disk, directory)?;
        let directory = directory.to_owned();
        Ok(Self {
            disk,
            directory,
            lock,
        })
    }
}

fn lock<D: Disk>(disk: &D, directory: &Path) -> Result<D::Lock> {
    let path = directory.join(LOCK_FILE);
    match disk.lock(&path) {
        Ok(Some(lock)) => Ok(lock),
        Ok(None) => Err(Error::Locked {
            directory: directory.to_owned(),
        }),
        Err(source) => Err(Error::io(Operation::Lock, path, source)),
    }
}

/// Creates a segment's file with its header; neither it nor the folder is synced.
fn create_segment<D: Disk>(
    shared: &Shared<D>,
    number: u32,
    previous_end: Position,
    durable: Position,
) -> Result<Arc<OpenSegment<D::File>>> {
    let path = shared.path(number);
    let file = shared
        .disk
        .create(&path)
        .map_err(|source| Error::io(Operation::Create, &path, source))?;
    let header = SegmentHeader {
        number,
        previous_end,
        durable,
        salt: shared.disk.salt(),
    };
    if let Err(source) = file.write_all_at(&header.encode(), 0) {
        // The next attempt creates the same file.
        return Err(match shared.disk.remove(&path) {
            Ok(()) if error::is_full(&source) => Error::io(Operation::Write, path, source),
            Ok(()) => shared.poison(Operation::Write, path, source),
            Err(cause) => shared.poison(Operation::Remove, path, cause),
        });
    }
    let segment = Arc::new(OpenSegment {
        number,
        salt: header.salt,
        file: Arc::new(file),
    });
    shared.keep_open(Arc::clone(&segment));
    Ok(segment)
}
