//! Finds the valid end of a log and cuts what a crash left after it. The rules are in the crate's head.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{Disk, DiskFile};
use crate::error::{Defect, Error, Operation, Result};
use crate::position::Position;
use crate::record::{self, DURABLE_UNKNOWN, Found, RECORD_HEADER_BYTES};
use crate::segment::{self, HEADER_LEN, HeaderError, SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::shared::{corrupt, header_error};
use crate::window::Window;

/// What [`Wal::open`](crate::Wal::open) found in the folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Segments that are kept.
    pub n_segments: u32,
    /// Whole records in them.
    pub n_records: u64,
    /// Bytes of these records' payloads.
    pub record_bytes: u64,
    /// Where the torn tail was cut, if there was one.
    pub cut_at: Option<Position>,
    /// Bytes that were cut: the torn tail, and what came after it and was not synced.
    pub torn_bytes: u64,
}

/// A segment that is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    pub(crate) number: u32,
    pub(crate) end: u32,
}

/// The outcome of [`recover`].
#[derive(Debug)]
pub(crate) struct Recovered {
    /// In order; the last one is appended to. Empty where the log has to start anew.
    pub(crate) kept: Vec<Kept>,
    /// The number of the next segment.
    pub(crate) next_segment: u32,
    pub(crate) recovery: Recovery,
}

/// A segment as far as it could be read.
#[derive(Debug)]
struct Scan<F> {
    number: u32,
    path: PathBuf,
    file: Arc<F>,
    size_bytes: u32,
    /// `None` where the file holds no more than a torn header.
    header: Option<SegmentHeader>,
    /// The end of the last whole record.
    end: u32,
    /// What is wrong at `end`, and where to look for records after it.
    damage: Option<(Defect, u32)>,
    n_records: u64,
    record_bytes: u64,
    /// A record says that all segments before this one were synced.
    proves_previous: bool,
}

/// Where the run of whole records ends before the files do.
#[derive(Debug)]
struct Tear {
    at: Position,
    path: PathBuf,
    defect: Defect,
    /// The first of the segments after it.
    n_before: usize,
}

/// Reads all segments, syncs them, and cuts a torn tail.
pub(crate) fn recover<D: Disk>(disk: &D, directory: &Path) -> Result<Recovered> {
    let numbers = list(disk, directory)?;
    let mut kept: Vec<Kept> = Vec::with_capacity(numbers.len());
    let mut recovery = Recovery::default();
    let mut tear = None;
    for (idx, &number) in numbers.iter().enumerate() {
        let scan = scan(disk, directory, number)?;
        if let Some(previous) = kept.last() {
            tear = tear_between(directory, *previous, &scan, idx)?;
            if tear.is_some() {
                break;
            }
        }
        if let Some((defect, resume)) = scan.damage {
            if has_durable_record(&scan, resume)? {
                return Err(corrupt(scan.path, scan.end, defect));
            }
            let at = Position::new(number, scan.end);
            tear = Some(Tear {
                at,
                path: scan.path,
                defect,
                n_before: idx.saturating_add(1),
            });
        }
        if scan.header.is_some() {
            kept.push(Kept {
                number,
                end: scan.end,
            });
            recovery.n_records = recovery.n_records.saturating_add(scan.n_records);
            recovery.record_bytes = recovery.record_bytes.saturating_add(scan.record_bytes);
        }
        if tear.is_some() {
            break;
        }
    }
    if let Some(tear) = tear {
        let later = numbers.get(tear.n_before..).unwrap_or_default();
        check_not_durable(disk, directory, &tear, later)?;
        recovery.cut_at = Some(tear.at);
        recovery.torn_bytes = cut(disk, directory, &tear, later)?;
    }
    recovery.n_segments = u32::try_from(kept.len()).unwrap_or(u32::MAX);
    let next_segment = match kept.last() {
        Some(last) => last.number.saturating_add(1),
        // Never a lower number than one that was used.
        None => numbers.first().copied().unwrap_or(1),
    };
    Ok(Recovered {
        kept,
        next_segment,
        recovery,
    })
}

/// The numbers of the segments in the folder, in order.
fn list<D: Disk>(disk: &D, directory: &Path) -> Result<Vec<u32>> {
    let names = disk
        .list(directory)
        .map_err(|source| Error::io(Operation::List, directory, source))?;
    let mut numbers: Vec<u32> = names
        .iter()
        .filter_map(|name| segment::parse_file_name(name))
        .collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Opens a segment, syncs it and reads it up to its end or the first damage.
fn scan<D: Disk>(disk: &D, directory: &Path, number: u32) -> Result<Scan<D::File>> {
    let path = directory.join(segment::file_name(number));
    let file = Arc::new(
        disk.open(&path)
            .map_err(|source| Error::io(Operation::Open, &path, source))?,
    );
    // A process that was killed may have left pages that are with the operating system only.
    file.sync()
        .map_err(|source| Error::io(Operation::Sync, &path, source))?;
    let size_bytes = file
        .size_bytes()
        .map_err(|source| Error::io(Operation::Read, &path, source))?;
    let Ok(size_bytes) = u32::try_from(size_bytes) else {
        return Err(corrupt(path, u32::MAX, Defect::SegmentTooLong));
    };
    let mut scan = Scan {
        number,
        path,
        file,
        size_bytes,
        header: None,
        end: 0,
        damage: None,
        n_records: 0,
        record_bytes: 0,
        proves_previous: false,
    };
    scan.read_header()?;
    scan.read_records()?;
    Ok(scan)
}

impl<F: DiskFile> Scan<F> {
    fn io(&self, source: std::io::Error) -> Error {
        Error::io(Operation::Read, &self.path, source)
    }

    /// A header that is cut short, or that no record follows, or that is an unwritten page, was torn by a crash.
    fn read_header(&mut self) -> Result<()> {
        let torn = Some((Defect::SegmentHeader, self.size_bytes));
        if self.size_bytes < SEGMENT_HEADER_BYTES {
            self.damage = torn;
            return Ok(());
        }
        let mut bytes = [0; HEADER_LEN];
        self.file
            .read_exact_at(&mut bytes, 0)
            .map_err(|source| self.io(source))?;
        match SegmentHeader::decode(&bytes) {
            Ok(header) if header.number != self.number => {
                Err(corrupt(self.path.clone(), 0, Defect::SegmentNumber))
            }
            Ok(header) => {
                self.header = Some(header);
                self.end = SEGMENT_HEADER_BYTES;
                Ok(())
            }
            Err(HeaderError::Damaged(_))
                if self.size_bytes == SEGMENT_HEADER_BYTES || bytes == [0; HEADER_LEN] =>
            {
                self.damage = torn;
                Ok(())
            }
            Err(error) => Err(header_error(self.path.clone(), error)),
        }
    }

    fn read_records(&mut self) -> Result<()> {
        let Some(SegmentHeader { salt, .. }) = self.header else {
            return Ok(());
        };
        let mut window = Window::new(Arc::clone(&self.file), self.size_bytes);
        loop {
            match record::find(&mut window, salt, self.end).map_err(|source| self.io(source))? {
                Found::Record { header, next } => {
                    self.end = next;
                    self.n_records = self.n_records.saturating_add(1);
                    self.record_bytes = self
                        .record_bytes
                        .saturating_add(header.payload_bytes.into());
                    self.proves_previous |= header.durable > DURABLE_UNKNOWN;
                }
                Found::End => return Ok(()),
                Found::Damage { defect, resume } => {
                    self.damage = Some((defect, resume));
                    return Ok(());
                }
            }
        }
    }
}

/// Does the segment begin where the one before ends? Otherwise records between them are lost.
fn tear_between<F>(
    directory: &Path,
    previous: Kept,
    scan: &Scan<F>,
    n_before: usize,
) -> Result<Option<Tear>> {
    // A torn header is found as damage of its own segment.
    let Some(header) = scan.header else {
        return Ok(None);
    };
    let at = Position::new(previous.number, previous.end);
    if header.previous_end == at {
        return Ok(None);
    }
    let path = directory.join(segment::file_name(previous.number));
    if header.previous_end < at {
        // Nothing is appended to a sealed segment.
        return Err(corrupt(path, previous.end, Defect::SegmentEnd));
    }
    let defect = if header.previous_end.segment() == previous.number {
        Defect::SegmentEnd
    } else {
        Defect::SegmentMissing
    };
    Ok(Some(Tear {
        at,
        path,
        defect,
        n_before,
    }))
}

/// Is there a whole record from `resume` on that was appended when the end of `scan` had been synced?
fn has_durable_record<F: DiskFile>(scan: &Scan<F>, resume: u32) -> Result<bool> {
    let Some(SegmentHeader { salt, .. }) = scan.header else {
        return Ok(false);
    };
    let mut window = Window::new(Arc::clone(&scan.file), scan.size_bytes);
    let mut offset = resume;
    while let Some(bytes) = window
        .bytes(offset, RECORD_HEADER_BYTES)
        .map_err(|source| scan.io(source))?
    {
        // Most places are told by this field alone, which no record can have larger than its offset.
        let durable = segment::Fields(bytes.get(4..).unwrap_or_default())
            .u32()
            .unwrap_or(0);
        offset = if durable <= scan.end || durable > offset {
            offset.saturating_add(1)
        } else {
            match record::find(&mut window, salt, offset).map_err(|source| scan.io(source))? {
                Found::Record { .. } => return Ok(true),
                Found::Damage { .. } | Found::End => offset.saturating_add(1),
            }
        };
    }
    Ok(false)
}

/// Fails if a later segment says that the tear was synced: then it is damage.
fn check_not_durable<D: Disk>(
    disk: &D,
    directory: &Path,
    tear: &Tear,
    later: &[u32],
) -> Result<()> {
    for &number in later {
        let scan = scan(disk, directory, number)?;
        let Some(header) = scan.header else {
            continue;
        };
        if header.durable > tear.at || scan.proves_previous {
            return Err(corrupt(tear.path.clone(), tear.at.offset(), tear.defect));
        }
    }
    Ok(())
}

/// Removes everything from the tear on and returns how many bytes that were.
fn cut<D: Disk>(disk: &D, directory: &Path, tear: &Tear, later: &[u32]) -> Result<u64> {
    let mut cut_bytes = 0_u64;
    let torn = tear.at.segment();
    let is_headless = tear.at.offset() < SEGMENT_HEADER_BYTES;
    let removed = is_headless.then_some(torn);
    // The last one first: what is left in a crash is cut the same way by the next start.
    for number in later.iter().rev().copied().chain(removed) {
        let path = directory.join(segment::file_name(number));
        let size_bytes = file_of(disk, &path)?
            .size_bytes()
            .map_err(|source| Error::io(Operation::Read, &path, source))?;
        cut_bytes = cut_bytes.saturating_add(size_bytes);
        disk.remove(&path)
            .map_err(|source| Error::io(Operation::Remove, &path, source))?;
    }
    disk.sync_directory(directory)
        .map_err(|source| Error::io(Operation::Sync, directory, source))?;
    if is_headless {
        return Ok(cut_bytes);
    }
    let path = directory.join(segment::file_name(torn));
    let file = file_of(disk, &path)?;
    let size_bytes = file
        .size_bytes()
        .map_err(|source| Error::io(Operation::Read, &path, source))?;
    let end = u64::from(tear.at.offset());
    if size_bytes > end {
        file.truncate(end)
            .map_err(|source| Error::io(Operation::Truncate, &path, source))?;
        file.sync()
            .map_err(|source| Error::io(Operation::Sync, &path, source))?;
    }
    Ok(cut_bytes.saturating_add(size_bytes.saturating_sub(end)))
}

fn file_of<D: Disk>(disk: &D, path: &Path) -> Result<D::File> {
    disk.open(path)
        .map_err(|source| Error::io(Operation::Open, path, source))
}
