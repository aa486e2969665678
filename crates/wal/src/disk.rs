//! The disk as the log needs it, and the real one.

use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A disk with one folder level.
///
/// [`RealDisk`] is the operating system's; the simulated one forgets what was not synced.
pub trait Disk: fmt::Debug + Send + Sync + 'static {
    /// An open file.
    type File: DiskFile;
    /// Keeps the folder locked until it is dropped.
    type Lock: fmt::Debug + Send + Sync + 'static;

    /// Creates the folder, and the ones above it, where they are missing; they survive a power failure.
    ///
    /// # Errors
    ///
    /// The operating system's.
    fn create_directory(&self, path: &Path) -> io::Result<()>;
    /// Takes the lock file, creating it if needed; `None` if another process has it.
    ///
    /// # Errors
    ///
    /// The operating system's.
    fn lock(&self, path: &Path) -> io::Result<Option<Self::Lock>>;
    /// The names of the files in the folder, in any order; names that are not UTF-8 may be left out.
    ///
    /// # Errors
    ///
    /// The operating system's.
    fn list(&self, directory: &Path) -> io::Result<Vec<String>>;
    /// Creates a file that is not there yet, for reading and writing.
    ///
    /// # Errors
    ///
    /// The operating system's; `AlreadyExists` where the file is there.
    fn create(&self, path: &Path) -> io::Result<Self::File>;
    /// Opens a file for reading and writing.
    ///
    /// # Errors
    ///
    /// The operating system's.
    fn open(&self, path: &Path) -> io::Result<Self::File>;
    /// Removes a file.
    ///
    /// # Errors
    ///
    /// The operating system's.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Syncs the folder: created files are found and removed ones are gone after a power failure.
    ///
    /// # Errors
    ///
    /// The operating system's.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;
    /// A number that who sends the records cannot guess.
    fn salt(&self) -> u32;
}

/// A file of a [`Disk`]; all access is by offset, so that threads share it without a lock.
pub trait DiskFile: fmt::Debug + Send + Sync + 'static {
    /// The file's size in bytes.
    ///
    /// # Errors
    ///
    /// The operating system's.
    fn size_bytes(&self) -> io::Result<u64>;
    /// Fills `buffer` from `offset`.
    ///
    /// # Errors
    ///
    /// The operating system's; `UnexpectedEof` where the file is shorter.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
    /// Writes all of `bytes` at `offset`. After an error, any part of them may be written.
    ///
    /// # Errors
    ///
    /// The operating system's.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Cuts the file off at this size.
    ///
    /// # Errors
    ///
    /// The operating system's.
    fn truncate(&self, size_bytes: u64) -> io::Result<()>;
    /// Returns when content and size survive a power failure.
    ///
    /// # Errors
    ///
    /// The operating system's. What the file holds is not known then.
    fn sync(&self) -> io::Result<()>;
}

/// The operating system's disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    type File = File;
    type Lock = File;

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        // From the top down, each new folder synced into the one above it.
        let missing: Vec<&Path> = path
            .ancestors()
            .take_while(|folder| !folder.as_os_str().is_empty() && !folder.is_dir())
            .collect();
        for folder in missing.into_iter().rev() {
            match std::fs::create_dir(folder) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists || !folder.is_dir() => {
                    return Err(error);
                }
                Ok(()) | Err(_) => {}
            }
            match folder.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => self.sync_directory(parent)?,
                Some(_) => self.sync_directory(Path::new("."))?,
                None => {}
            }
        }
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Option<File>> {
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(directory)? {
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn create(&self, path: &Path) -> io::Result<File> {
        OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)
    }

    fn open(&self, path: &Path) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).open(path)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn salt(&self) -> u32 {
        // The standard library's hash keys come from the operating system's random source.
        let [a, b, c, d, ..] = RandomState::new().hash_one(0_u8).to_le_bytes();
        u32::from_le_bytes([a, b, c, d])
    }
}

impl DiskFile for File {
    fn size_bytes(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, buffer, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        FileExt::write_all_at(self, bytes, offset)
    }

    fn truncate(&self, size_bytes: u64) -> io::Result<()> {
        self.set_len(size_bytes)
    }

    fn sync(&self) -> io::Result<()> {
        // The size is synced with it, times are not: nobody needs them.
        self.sync_data()
    }
}
