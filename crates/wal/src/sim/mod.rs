//! A simulated disk for tests: it forgets what was not synced, tears writes, and fails when told to.
//!
//! It models what POSIX allows, not what one file system does. Until a file is synced, each 512-byte piece of a write
//! may or may not be there after a power failure, in any order, and an unwritten piece before a written one reads as
//! zeros. Until the folder is synced, each created or removed file may be there or not, whatever its content's state.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

mod check;
mod random;

pub use self::check::check_recovery;
pub(crate) use self::random::Random;
use crate::disk::{Disk, DiskFile};

/// A write is torn at multiples of this; a disk writes a sector whole or not at all.
const SECTOR_BYTES: usize = 512;

/// A disk in memory. Clones are the same disk.
#[derive(Clone, Debug, Default)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
}

/// How a disk call fails, see [`SimDisk::fail_call`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The disk is full after this many bytes of the write; any other call does nothing.
    Full {
        /// Bytes that are written before it fails.
        written_bytes: usize,
    },
    /// An input/output error; nothing is done.
    Broken,
}

#[derive(Clone, Debug, Default)]
struct State {
    /// What a process sees.
    names: BTreeMap<PathBuf, usize>,
    /// What is found after a power failure for certain.
    synced_names: BTreeMap<PathBuf, usize>,
    /// Indexed by the values of `names`; removed files stay for who has them open.
    files: Vec<Content>,
    locks: BTreeSet<PathBuf>,
    n_calls: u64,
    stop_at: Option<u64>,
    faults: BTreeMap<u64, Fault>,
    capacity_bytes: Option<usize>,
    random: Random,
}

#[derive(Clone, Debug, Default)]
struct Content {
    now: Vec<u8>,
    synced: Vec<u8>,
    /// What was done since the last sync.
    changes: Vec<Change>,
}

#[derive(Clone, Debug)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Truncate { size_bytes: usize },
}

impl SimDisk {
    /// An empty disk; everything random on it follows from the seed.
    pub fn new(seed: u64) -> Self {
        let disk = Self::default();
        disk.state().random = Random(seed);
        disk
    }

    /// How many calls have changed something or synced so far.
    pub fn n_calls(&self) -> u64 {
        self.state().n_calls
    }

    /// The call with this number (counted from 0) and all later ones fail, as if the process ended inside that call:
    /// it may have taken effect.
    pub fn stop_at(&self, call: u64) {
        self.state().stop_at = Some(call);
    }

    /// The call with this number (counted from 0) fails.
    pub fn fail_call(&self, call: u64, fault: Fault) {
        self.state().faults.insert(call, fault);
    }

    /// Limits the bytes in all files; writes that go past it are done in part and fail.
    pub fn set_capacity(&self, capacity_bytes: Option<usize>) {
        self.state().capacity_bytes = capacity_bytes;
    }

    /// The disk as the next process finds it after this one was killed: nothing is lost.
    pub fn after_kill(&self) -> Self {
        let mut state = self.state().clone();
        state.locks.clear();
        state.faults.clear();
        state.stop_at = None;
        Self {
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// The disk as it may be found after a power failure; the seed decides what of the unsynced is lost.
    pub fn after_power_failure(&self, seed: u64) -> Self {
        let mut state = self.state().clone();
        let mut random = Random(seed);
        for content in &mut state.files {
            content.lose_unsynced(&mut random);
        }
        let paths: BTreeSet<PathBuf> = state
            .names
            .keys()
            .chain(state.synced_names.keys())
            .cloned()
            .collect();
        let mut names = BTreeMap::new();
        for path in paths {
            let (now, synced) = (state.names.get(&path), state.synced_names.get(&path));
            let file = if random.is_heads() { now } else { synced };
            if let Some(&file) = file {
                names.insert(path, file);
            }
        }
        state.synced_names.clone_from(&names);
        state.names = names;
        state.random = random;
        let disk = Self {
            state: Arc::new(Mutex::new(state)),
        };
        disk.after_kill()
    }

    /// The files and their bytes, as a process sees them.
    pub fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let state = self.state();
        let content = |file: usize| state.files.get(file).map(|content| content.now.clone());
        state
            .names
            .iter()
            .filter_map(|(path, &file)| Some((path.clone(), content(file)?)))
            .collect()
    }

    /// Puts a file on the disk, or replaces its bytes, as if they had always been there; who has it open sees them.
    pub fn put_file(&self, path: impl Into<PathBuf>, bytes: Vec<u8>) {
        let mut state = self.state();
        let path = path.into();
        let known = state.names.get(&path).copied();
        let file = known.unwrap_or_else(|| state.add(Content::default()));
        if let Some(content) = state.files.get_mut(file) {
            *content = Content {
                now: bytes.clone(),
                synced: bytes,
                changes: Vec::new(),
            };
        }
        state.synced_names.insert(path.clone(), file);
        state.names.insert(path, file);
    }

    /// Takes a file off the disk, as if it had never been there.
    pub fn take_file(&self, path: &Path) {
        let mut state = self.state();
        state.names.remove(path);
        state.synced_names.remove(path);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a call is carried out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Succeeds,
    /// Takes effect, but nobody hears of it.
    Stops,
    Fails(Fault),
}

impl Fate {
    fn result(self) -> io::Result<()> {
        match self {
            Self::Succeeds => Ok(()),
            Self::Stops => Err(io::Error::other("the process has ended")),
            Self::Fails(Fault::Full { .. }) => Err(io::ErrorKind::StorageFull.into()),
            Self::Fails(Fault::Broken) => Err(io::Error::other("simulated disk error")),
        }
    }
}

impl State {
    /// Counts a call and says what becomes of it; an error if it does nothing at all.
    fn call(&mut self) -> io::Result<Fate> {
        let call = self.n_calls;
        self.n_calls = call.saturating_add(1);
        let fate = match (self.stop_at, self.faults.get(&call)) {
            (Some(stop_at), _) if call > stop_at => return Err(io::Error::other("no process")),
            (Some(stop_at), _) if call == stop_at => Fate::Stops,
            (_, Some(&fault)) => Fate::Fails(fault),
            (_, None) => Fate::Succeeds,
        };
        Ok(fate)
    }

    fn add(&mut self, content: Content) -> usize {
        self.files.push(content);
        self.files.len().saturating_sub(1)
    }

    fn file(&mut self, file: usize) -> io::Result<&mut Content> {
        self.files
            .get_mut(file)
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// How much of a write that makes a file `grown_bytes` larger fits the disk.
    fn room_bytes(&self) -> usize {
        let Some(capacity_bytes) = self.capacity_bytes else {
            return usize::MAX;
        };
        let used = self.names.values().filter_map(|&file| self.files.get(file));
        let used_bytes = used.fold(0, |sum: usize, file| sum.saturating_add(file.now.len()));
        capacity_bytes.saturating_sub(used_bytes)
    }
}

impl Content {
    fn change(&mut self, change: Change) {
        change.apply(&mut self.now);
        self.changes.push(change);
    }

    fn sync(&mut self) {
        self.synced.clone_from(&self.now);
        self.changes.clear();
    }

    fn lose_unsynced(&mut self, random: &mut Random) {
        let mut found = self.synced.clone();
        for change in std::mem::take(&mut self.changes) {
            match change {
                Change::Write { offset, bytes } => {
                    for (offset, sector) in sectors(offset, &bytes) {
                        if random.is_heads() {
                            write(&mut found, offset, sector);
                        }
                    }
                }
                Change::Truncate { .. } if random.is_heads() => change.apply(&mut found),
                Change::Truncate { .. } => {}
            }
        }
        // The size is written apart from the content, and may be that of any moment.
        let unsynced_bytes = found.len().saturating_sub(self.synced.len());
        if unsynced_bytes > 0 && random.is_heads() {
            let lost_bytes = random.below(unsynced_bytes.saturating_add(1));
            found.truncate(found.len().saturating_sub(lost_bytes));
        }
        self.now.clone_from(&found);
        self.synced = found;
    }
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Write {
                offset,
                bytes: written,
            } => write(bytes, *offset, written),
            Self::Truncate { size_bytes } => bytes.resize(*size_bytes, 0),
        }
    }
}

fn write(bytes: &mut Vec<u8>, offset: usize, written: &[u8]) {
    let end = offset.saturating_add(written.len());
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    if let Some(place) = bytes.get_mut(offset..end) {
        place.copy_from_slice(written);
    }
}

/// A write in the pieces in which a disk carries it out.
fn sectors(offset: usize, mut bytes: &[u8]) -> Vec<(usize, &[u8])> {
    let mut pieces = Vec::new();
    let mut at = offset;
    while !bytes.is_empty() {
        let room = SECTOR_BYTES.saturating_sub(at.checked_rem(SECTOR_BYTES).unwrap_or(0));
        let (piece, rest) = bytes.split_at(room.min(bytes.len()));
        pieces.push((at, piece));
        at = at.saturating_add(piece.len());
        bytes = rest;
    }
    pieces
}

impl Disk for SimDisk {
    type File = SimFile;
    type Lock = SimLock;

    /// The one folder is always there.
    fn create_directory(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Option<SimLock>> {
        let is_new = self.state().locks.insert(path.to_owned());
        Ok(is_new.then(|| SimLock {
            disk: self.clone(),
            path: path.to_owned(),
        }))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        let state = self.state();
        let inside = state
            .names
            .keys()
            .filter(|path| path.parent() == Some(directory));
        let names = inside.filter_map(|path| path.file_name()?.to_str());
        Ok(names.map(str::to_owned).collect())
    }

    fn create(&self, path: &Path) -> io::Result<SimFile> {
        let mut state = self.state();
        let fate = state.call()?;
        if state.names.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if let Fate::Fails(_) = fate {
            fate.result()?;
        }
        let file = state.add(Content::default());
        state.names.insert(path.to_owned(), file);
        fate.result()?;
        Ok(SimFile {
            disk: self.clone(),
            file,
        })
    }

    fn open(&self, path: &Path) -> io::Result<SimFile> {
        let file = self.state().names.get(path).copied();
        file.map(|file| SimFile {
            disk: self.clone(),
            file,
        })
        .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        let fate = state.call()?;
        if !matches!(fate, Fate::Fails(_)) && state.names.remove(path).is_none() {
            return Err(io::ErrorKind::NotFound.into());
        }
        fate.result()
    }

    fn sync_directory(&self, _: &Path) -> io::Result<()> {
        let mut state = self.state();
        let fate = state.call()?;
        if fate == Fate::Succeeds {
            state.synced_names = state.names.clone();
        }
        fate.result()
    }

    fn salt(&self) -> u32 {
        let [a, b, c, d, ..] = self.state().random.next().to_le_bytes();
        u32::from_le_bytes([a, b, c, d])
    }
}

/// A file of a [`SimDisk`].
#[derive(Debug)]
pub struct SimFile {
    disk: SimDisk,
    file: usize,
}

impl DiskFile for SimFile {
    fn size_bytes(&self) -> io::Result<u64> {
        let size_bytes = self.disk.state().file(self.file)?.now.len();
        u64::try_from(size_bytes).map_err(io::Error::other)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let offset = usize::try_from(offset).map_err(io::Error::other)?;
        let mut state = self.disk.state();
        let end = offset.saturating_add(buffer.len());
        let bytes = state.file(self.file)?.now.get(offset..end);
        buffer.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let offset = usize::try_from(offset).map_err(io::Error::other)?;
        let mut state = self.disk.state();
        let mut fate = state.call()?;
        let room_bytes = state.room_bytes();
        let file = state.file(self.file)?;
        let end = offset.saturating_add(bytes.len());
        if end.saturating_sub(file.now.len()) > room_bytes && fate == Fate::Succeeds {
            let written_bytes = file
                .now
                .len()
                .saturating_add(room_bytes)
                .saturating_sub(offset);
            fate = Fate::Fails(Fault::Full { written_bytes });
        }
        let done = match fate {
            Fate::Succeeds | Fate::Stops => bytes,
            Fate::Fails(Fault::Full { written_bytes }) => {
                bytes.get(..written_bytes).unwrap_or(bytes)
            }
            Fate::Fails(Fault::Broken) => &[],
        };
        if !done.is_empty() {
            file.change(Change::Write {
                offset,
                bytes: done.to_vec(),
            });
        }
        fate.result()
    }

    fn truncate(&self, size_bytes: u64) -> io::Result<()> {
        let size_bytes = usize::try_from(size_bytes).map_err(io::Error::other)?;
        let mut state = self.disk.state();
        let fate = state.call()?;
        if !matches!(fate, Fate::Fails(_)) {
            state
                .file(self.file)?
                .change(Change::Truncate { size_bytes });
        }
        fate.result()
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        let fate = state.call()?;
        if fate == Fate::Succeeds {
            state.file(self.file)?.sync();
        }
        fate.result()
    }
}

/// Holds a [`SimDisk`]'s lock file.
#[derive(Debug)]
pub struct SimLock {
    disk: SimDisk,
    path: PathBuf,
}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.disk.state().locks.remove(&self.path);
    }
}
