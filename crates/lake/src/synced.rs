//! A local object store whose writes survive a power failure.
//!
//! `object_store`'s local file system writes, then renames or links, and leaves the rest to the
//! operating system: after a power failure a name can point at an empty file, and a commit that was
//! reported done can be gone. The write-ahead log is deleted after a commit, so here every put
//!
//! 1. writes a staged file `NAME#DIGITS` (hidden from listings by `object_store`'s own rule),
//! 2. syncs it,
//! 3. links it to its name (create: fails when the name is taken) or renames it (overwrite),
//! 4. syncs the folder, and the parents of folders that were made.
//!
//! Reading what is not in memory, listing and deleting are `object_store`'s.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path as FsPath, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use async_trait::async_trait;
use futures::stream::BoxStream;
use futures::{FutureExt as _, future};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
    UploadPart,
};
use uuid::Uuid;

use crate::page_cache;

const STORE: &str = "SyncedFolder";

/// The whole local file system as an object store with synced writes.
#[derive(Debug, Clone)]
pub(crate) struct SyncedFolder {
    files: Arc<LocalFileSystem>,
}

impl SyncedFolder {
    pub(crate) fn new() -> Self {
        Self {
            files: Arc::new(LocalFileSystem::new()),
        }
    }

    async fn put_synced(&self, location: &Path, payload: PutPayload, mode: PutMode) -> Result<()> {
        let path = self.files.path_to_filesystem(location)?;
        let shown = location.to_string();
        let write = move || {
            write_synced(&path, &payload, &mode).map_err(|source| match source.kind() {
                io::ErrorKind::AlreadyExists => Error::AlreadyExists {
                    path: shown,
                    source: source.into(),
                },
                _ => Error::Generic {
                    store: STORE,
                    source: source.into(),
                },
            })
        };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => runtime.spawn_blocking(write).await?,
            Err(_) => write(),
        }
    }
}

/// Staged files below a folder that were last written before `cutoff_ms`, with their sizes: their
/// writer was killed between two of the steps above.
pub(crate) fn staged_files(folder: &FsPath, cutoff_ms: i64) -> io::Result<Vec<(PathBuf, u64)>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let entry = entry?;
            let metadata = match entry.metadata() {
                Ok(metadata) => metadata,
                // It was renamed to what it is for.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            if metadata.is_dir() {
                folders.push(entry.path());
            } else if is_staged(&entry.path()) && modified_ms(&metadata) < cutoff_ms {
                found.push((entry.path(), metadata.len()));
            }
        }
    }
    Ok(found)
}

fn is_staged(path: &FsPath) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.rsplit_once('#').is_some_and(|(_, digits)| {
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    })
}

fn modified_ms(metadata: &std::fs::Metadata) -> i64 {
    let since = metadata
        .modified()
        .ok()
        .and_then(|modified| modified.duration_since(UNIX_EPOCH).ok());
    since.map_or(i64::MAX, |since| {
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    })
}

fn write_synced(path: &FsPath, payload: &PutPayload, mode: &PutMode) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    create_folder_synced(folder)?;
    let mut staged = path.as_os_str().to_owned();
    staged.push(format!("#{}", Uuid::new_v4().as_u128()));
    let staged = PathBuf::from(staged);
    let result = write_staged(&staged, payload).and_then(|()| match mode {
        PutMode::Create => std::fs::hard_link(&staged, path),
        PutMode::Overwrite | PutMode::Update(_) => std::fs::rename(&staged, path),
    });
    if result.is_err() || matches!(mode, PutMode::Create) {
        // A staged file that stays is hidden from listings and harms nobody.
        std::fs::remove_file(&staged).ok();
    }
    result?;
    sync_folder(folder)
}

fn write_staged(staged: &FsPath, payload: &PutPayload) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(staged)?;
    for part in payload {
        file.write_all(part)?;
    }
    file.sync_all()
}

/// Makes `folder` and its missing parents, and syncs the entries that were made.
fn create_folder_synced(folder: &FsPath) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let missing: Vec<_> = folder
        .ancestors()
        .take_while(|path| !path.exists())
        .collect();
    std::fs::create_dir_all(folder)?;
    missing
        .iter()
        .filter_map(|path| path.parent())
        .try_for_each(sync_folder)
}

fn sync_folder(folder: &FsPath) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

impl fmt::Display for SyncedFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(STORE)
    }
}

#[async_trait]
impl ObjectStore for SyncedFolder {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        if matches!(opts.mode, PutMode::Update(_)) || !opts.attributes.is_empty() {
            return self.files.put_opts(location, payload, opts).await;
        }
        self.put_synced(location, payload, opts.mode).await?;
        Ok(PutResult {
            e_tag: None,
            version: None,
        })
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        _opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        Ok(Box::new(BufferedUpload {
            store: self.clone(),
            location: location.clone(),
            parts: Mutex::new(Vec::new()),
        }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.files.get_opts(location, options).await
    }

    async fn get_ranges(
        &self,
        location: &Path,
        ranges: &[std::ops::Range<u64>],
    ) -> Result<Vec<bytes::Bytes>> {
        let path = self.files.path_to_filesystem(location)?;
        match page_cache::ranges(&path, ranges) {
            Some(parts) => Ok(parts),
            None => self.files.get_ranges(location, ranges).await,
        }
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.files.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.files.list(prefix)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.files.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.files.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.files.copy_opts(from, to, options).await
    }
}

/// An upload in parts that is written at once when it completes. Only checkpoints come this way;
/// they are a few MiB.
#[derive(Debug)]
struct BufferedUpload {
    store: SyncedFolder,
    location: Path,
    parts: Mutex<Vec<PutPayload>>,
}

impl BufferedUpload {
    fn parts(&self) -> std::sync::MutexGuard<'_, Vec<PutPayload>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl MultipartUpload for BufferedUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        self.parts().push(data);
        future::ready(Ok(())).boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let parts = std::mem::take(&mut *self.parts());
        let payload: PutPayload = parts.iter().flatten().cloned().collect();
        self.store
            .put_synced(&self.location, payload, PutMode::Overwrite)
            .await?;
        Ok(PutResult {
            e_tag: None,
            version: None,
        })
    }

    async fn abort(&mut self) -> Result<()> {
        self.parts().clear();
        Ok(())
    }
}
