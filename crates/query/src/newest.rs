//! Something of each file of a table, kept in memory for the newest files that fit.
//!
//! Limits first: what is kept takes at most the bytes that were allowed. What does not fit is of the files that were
//! written first: statements look at new rows more often, and old files are few, because they are merged.
//!
//! Read once for each file, however many statements ask at once, and kept as long as the file is live: files never
//! change under their name, so a new version of a table costs its new files and nothing else.
//!
//! Does not: know what is kept, or how it is read.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use async_trait::async_trait;
use futures::future::join_all;
use lake::DataFile;
use tokio::sync::Mutex;

/// Files that are read at a time.
const FILES_READ_AT_ONCE: usize = 16;

/// What can be kept.
pub(crate) trait Kept {
    /// Memory that it takes.
    fn n_bytes(&self) -> usize;
}

/// How it is read.
#[async_trait]
pub(crate) trait Reader<T>: Sync {
    /// What is to be kept of a file; `None` where it cannot be read.
    async fn read(&self, file: &DataFile) -> Option<T>;
}

/// Of each file a `T`, as far as there is room.
#[derive(Debug)]
pub(crate) struct Newest<T> {
    bytes_max: usize,
    /// Held while files are read: statements that come together read them once.
    reading: Mutex<()>,
    known: RwLock<Known<T>>,
}

/// By the path of the file.
#[derive(Debug)]
pub(crate) struct Known<T> {
    files: HashMap<Arc<str>, T>,
    n_bytes: usize,
    /// The newest live file for which there was no room: older ones need not be tried.
    left_out: Option<Arc<str>>,
}

/// Places of the live files in the list of the table, by their path: the higher, the newer.
type Ages<'a> = HashMap<&'a str, usize>;

impl<T: Kept> Newest<T> {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            reading: Mutex::default(),
            known: RwLock::new(Known {
                files: HashMap::new(),
                n_bytes: 0,
                left_out: None,
            }),
        }
    }

    /// Bytes that may be kept.
    pub(crate) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// What is known now. A panic while a lock was held leaves whole values.
    pub(crate) fn known(&self) -> RwLockReadGuard<'_, Known<T>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn known_mut(&self) -> RwLockWriteGuard<'_, Known<T>> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what is not known of `files`, which are among the `live` ones of the table: the newest first, as far as there
    /// is room. A file that cannot be read is tried again by the next who asks.
    pub(crate) async fn read_missing(
        &self,
        live: &[DataFile],
        files: &[&DataFile],
        reader: &dyn Reader<T>,
    ) {
        let missing = || {
            let known = self.known();
            let missing = files.iter().rev().copied();
            missing
                .filter(|file| !known.files.contains_key(&file.path))
                .collect::<Vec<_>>()
        };
        if self.bytes_max == 0 || missing().is_empty() {
            return;
        }
        let _one_at_a_time = self.reading.lock().await;
        let ages = live.iter().enumerate();
        let ages: Ages<'_> = ages.map(|(age, file)| (&*file.path, age)).collect();
        self.known_mut().forget_gone(&ages);
        for group in missing().chunks(FILES_READ_AT_ONCE) {
            let floor = self.known().floor(&ages);
            let group: Vec<&DataFile> = group
                .iter()
                .copied()
                .filter(|file| floor < ages.get(&*file.path).copied())
                .collect();
            if group.is_empty() {
                return;
            }
            let all = join_all(group.iter().map(|file| reader.read(file))).await;
            for (file, new) in group.into_iter().zip(all) {
                if let Some(new) = new {
                    self.known_mut().admit(&ages, self.bytes_max, file, new);
                }
            }
        }
    }
}

impl<T: Kept> Known<T> {
    /// What is kept of a file.
    pub(crate) fn get(&self, file: &DataFile) -> Option<&T> {
        self.files.get(&file.path)
    }

    /// Memory of what is kept.
    #[cfg(test)]
    pub(crate) fn n_bytes(&self) -> usize {
        self.n_bytes
    }

    /// Files that are not newer than this one do not come in.
    fn floor(&self, ages: &Ages<'_>) -> Option<usize> {
        ages.get(&**self.left_out.as_ref()?).copied()
    }

    /// Makes room where files are not live any more.
    fn forget_gone(&mut self, ages: &Ages<'_>) {
        let n_files = self.files.len();
        self.files.retain(|path, _| ages.contains_key(&**path));
        if self.files.len() < n_files {
            self.n_bytes = self.files.values().map(Kept::n_bytes).sum();
            self.left_out = None;
        }
    }

    /// Keeps what is new of a file; the oldest go for it, itself where it is the oldest.
    fn admit(&mut self, ages: &Ages<'_>, bytes_max: usize, file: &DataFile, new: T) {
        let age = |path: &str| ages.get(path).copied();
        self.n_bytes += new.n_bytes();
        if let Some(before) = self.files.insert(Arc::clone(&file.path), new) {
            self.n_bytes -= before.n_bytes();
        }
        while self.n_bytes > bytes_max {
            let oldest = self.files.keys().min_by_key(|path| age(path)).cloned();
            let Some(oldest) = oldest else {
                return;
            };
            if let Some(gone) = self.files.remove(&oldest) {
                self.n_bytes -= gone.n_bytes();
            }
            if self.floor(ages) < age(&oldest) {
                self.left_out = Some(oldest);
            }
        }
    }
}
