//! How far an exporter is, on the disk beside the log.
//!
//! One file per exporter, written in place: two slots in sectors of their own, used in turn, so that a write that is
//! torn leaves the other one. Numbers are little-endian.
//!
//! ```text
//! slot at 0 and at 512, 44 bytes
//!  0  magic "WHYSCURS"
//!  8  generation    u64   the higher one counts
//! 16  sequence      i64   of the last release that is sent to its end
//! 24  n_spans       u64   spans of the next release that are sent
//! 32  reserved      u64   0
//! 40  checksum      u32   CRC-32 (IEEE) of 0..40
//! ```
//!
//! A file without any byte that is not 0 was being created when a crash came: nobody had been sent anything.

use std::{
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use wal::{Disk, DiskFile};

use crate::error::{Error, Result};

/// A disk writes a sector whole or not at all.
const SLOT_BYTES: u64 = 512;

const SLOT_LEN: usize = 44;

const MAGIC: [u8; 8] = *b"WHYSCURS";

/// Ending of the files' names.
pub(crate) const SUFFIX: &str = ".cursor";

/// How far an exporter is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The last release that is sent to its end.
    pub(crate) sequence: i64,
    /// Spans of the next one that are sent.
    pub(crate) n_spans: u64,
}

impl Mark {
    /// At the end of a release.
    pub(crate) fn after(sequence: i64) -> Mark {
        Mark {
            sequence,
            n_spans: 0,
        }
    }
}

/// A cursor's file, open.
#[derive(Debug)]
pub(crate) struct Cursor<D: Disk> {
    file: D::File,
    path: PathBuf,
    generation: u64,
    mark: Mark,
}

/// The name of the file for an exporter: what is not a letter, a digit, `_` or `-` is written as `%` and its code.
pub(crate) fn file_name(id: &str) -> String {
    let mut name = String::new();
    for byte in id.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-') {
            name.push(char::from(byte));
        } else {
            name.push_str(&format!("%{byte:02x}"));
        }
    }
    name + SUFFIX
}

impl<D: Disk> Cursor<D> {
    /// Opens the cursor of this name; `None` if there is none.
    ///
    /// # Errors
    ///
    /// The disk's, or a file that is damaged.
    pub(crate) fn open(disk: &D, directory: &Path, name: &str) -> Result<Option<Cursor<D>>> {
        let path = directory.join(name);
        let file = match disk.open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(failed("open", &path, source)),
        };
        let mut is_blank = true;
        let mut best: Option<(u64, Mark)> = None;
        for offset in [0, SLOT_BYTES] {
            let mut slot = [0; SLOT_LEN];
            match file.read_exact_at(&mut slot, offset) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => continue,
                Err(source) => return Err(failed("read", &path, source)),
            }
            is_blank &= slot.iter().all(|byte| *byte == 0);
            best = best.max_by_generation(decode(&slot));
        }
        match best {
            Some((generation, mark)) => Ok(Some(Cursor {
                file,
                path,
                generation,
                mark,
            })),
            None if is_blank => {
                drop(file);
                disk.remove(&path)
                    .map_err(|source| failed("remove", &path, source))?;
                Ok(None)
            }
            None => Err(Error::CursorDamaged { path }),
        }
    }

    /// Creates the cursor of this name; it survives a power failure.
    ///
    /// # Errors
    ///
    /// The disk's.
    pub(crate) fn create(disk: &D, directory: &Path, name: &str, mark: Mark) -> Result<Cursor<D>> {
        let path = directory.join(name);
        let file = disk
            .create(&path)
            .map_err(|source| failed("create", &path, source))?;
        let mut cursor: Cursor<D> = Cursor {
            file,
            path,
            generation: 0,
            mark,
        };
        // Room for both, so that a full disk is met here and not later.
        let whole = [0; SLOT_BYTES as usize * 2];
        let written = cursor.file.write_all_at(&whole, 0);
        written.map_err(|source| failed("write", &cursor.path, source))?;
        cursor.write(mark)?;
        disk.sync_directory(directory)
            .map_err(|source| failed("sync the folder of", &cursor.path, source))?;
        Ok(cursor)
    }

    /// How far it is.
    pub(crate) fn mark(&self) -> Mark {
        self.mark
    }

    /// Moves it; that survives a power failure.
    ///
    /// # Errors
    ///
    /// The disk's; the mark before is still there then.
    pub(crate) fn write(&mut self, mark: Mark) -> Result<()> {
        let generation = self.generation.wrapping_add(1);
        let offset = if generation.is_multiple_of(2) {
            0
        } else {
            SLOT_BYTES
        };
        let written = self.file.write_all_at(&encode(generation, mark), offset);
        written
            .and_then(|()| self.file.sync())
            .map_err(|source| failed("write", &self.path, source))?;
        self.generation = generation;
        self.mark = mark;
        Ok(())
    }
}

trait Best {
    fn max_by_generation(self, other: Self) -> Self;
}

impl Best for Option<(u64, Mark)> {
    fn max_by_generation(self, other: Self) -> Self {
        match (self, other) {
            (Some(a), Some(b)) if a.0 > b.0 => Some(a),
            (Some(_), Some(b)) => Some(b),
            (a, b) => a.or(b),
        }
    }
}

fn encode(generation: u64, mark: Mark) -> [u8; SLOT_LEN] {
    let mut slot = [0; SLOT_LEN];
    let parts = [
        MAGIC,
        generation.to_le_bytes(),
        mark.sequence.to_le_bytes(),
        mark.n_spans.to_le_bytes(),
        [0; 8],
    ];
    for (to, part) in slot.chunks_exact_mut(8).zip(parts) {
        to.copy_from_slice(&part);
    }
    let checksum = checksum(&slot);
    if let Some(end) = slot.last_chunk_mut::<4>() {
        *end = checksum.to_le_bytes();
    }
    slot
}

fn decode(slot: &[u8; SLOT_LEN]) -> Option<(u64, Mark)> {
    let word = |idx: usize| -> Option<[u8; 8]> { slot.chunks_exact(8).nth(idx)?.try_into().ok() };
    let is_whole = slot.last_chunk() == Some(&checksum(slot).to_le_bytes());
    if word(0)? != MAGIC || !is_whole {
        return None;
    }
    let mark = Mark {
        sequence: i64::from_le_bytes(word(2)?),
        n_spans: u64::from_le_bytes(word(3)?),
    };
    Some((u64::from_le_bytes(word(1)?), mark))
}

fn checksum(slot: &[u8; SLOT_LEN]) -> u32 {
    crc32fast::hash(slot.get(..SLOT_LEN - 4).unwrap_or_default())
}

fn failed(operation: &'static str, path: &Path, source: io::Error) -> Error {
    Error::Cursor {
        operation,
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use wal::{Disk, DiskFile, sim::SimDisk};

    use super::{Cursor, Mark, SLOT_BYTES, file_name};
    use crate::error::Error;

    const NAME: &str = "otlp.cursor";

    fn folder() -> &'static Path {
        Path::new("log")
    }

    fn disk() -> SimDisk {
        let disk = SimDisk::new(1);
        disk.create_directory(folder()).unwrap();
        disk
    }

    fn mark(sequence: i64, n_spans: u64) -> Mark {
        Mark { sequence, n_spans }
    }

    #[test]
    fn ids_become_names_of_files() {
        assert_eq!(file_name("otlp"), "otlp.cursor");
        assert_eq!(file_name("otlp/../x y"), "otlp%2f%2e%2e%2fx%20y.cursor");
    }

    /// Scenario: a process creates a cursor and moves it, and ends in each disk call, by a kill or a power failure.
    /// Guarantee: the next one finds the last mark whose write returned, or the one that was being written.
    #[test]
    fn a_mark_survives_whatever_ends_the_process() {
        let marks = [mark(0, 0), mark(3, 0), mark(3, 500), mark(4, 0)];
        let run = |disk: &SimDisk| -> usize {
            let Ok(mut cursor) = Cursor::create(disk, folder(), NAME, marks[0]) else {
                return 0;
            };
            let moved = marks[1..]
                .iter()
                .take_while(|mark| cursor.write(**mark).is_ok());
            1 + moved.count()
        };
        let whole = disk();
        let before = whole.n_calls();
        run(&whole);
        for call in before..whole.n_calls() + 1 {
            let disk = disk();
            disk.stop_at(call);
            let n_written = run(&disk);
            let mut after = vec![disk.after_kill()];
            after.extend((0..8).map(|seed| disk.after_power_failure(seed)));
            for disk in after {
                let found = Cursor::open(&disk, folder(), NAME).unwrap();
                let found = found.map(|cursor| cursor.mark());
                let allowed = [
                    n_written.checked_sub(1).map(|n| marks[n]),
                    marks.get(n_written).copied(),
                ];
                assert!(
                    allowed.contains(&found),
                    "call {call}: {found:?} of {allowed:?}"
                );
            }
        }
    }

    #[test]
    fn a_damaged_slot_leaves_the_other_and_two_are_an_error() {
        let disk = disk();
        let mut cursor = Cursor::create(&disk, folder(), NAME, mark(1, 0)).unwrap();
        cursor.write(mark(2, 0)).unwrap();
        let file = disk.open(&folder().join(NAME)).unwrap();
        let open = || Cursor::open(&disk, folder(), NAME);
        file.write_all_at(&[7], 20).unwrap();
        assert_eq!(open().unwrap().unwrap().mark(), mark(1, 0));
        file.write_all_at(&[7], SLOT_BYTES + 30).unwrap();
        assert!(matches!(open(), Err(Error::CursorDamaged { .. })));
    }
}
