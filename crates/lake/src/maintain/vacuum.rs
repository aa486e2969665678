//! Deleting what no query can need: data files, staged files, and the old part of the log.
//!
//! A data file is needed while it is live, and after its removal until `vacuum_after` has passed: a
//! query that planned on the version before still reads it. A file that the log does not know was
//! written by a commit that failed or is still on its way; it is left alone until it is as old as
//! that. So `vacuum_after` must be longer than any query and any commit.
//!
//! Deleting can stop after any file: what is left is found again. Before anything is deleted, every
//! live file must have been listed; else names were misunderstood, or data is missing, and nothing is
//! deleted.
//!
//! The old part of the log are the files before a checkpoint that is older than the table's
//! `delta.logRetentionDuration`: no version from that checkpoint on needs them.

use std::collections::HashSet;
use std::path::{Path as FsPath, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Array as _, AsArray as _, RecordBatch, StructArray};
use arrow::datatypes::Int64Type;
use delta_kernel::SnapshotRef;
use delta_kernel::engine::arrow_data::EngineDataArrowExt as _;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStoreExt as _};
use serde_json::Value;

use super::Deleted;
use crate::create;
use crate::error::{Error, Result};
use crate::synced;
use crate::table::Inner;

/// Delta's default for tables that do not say it.
const LOG_RETENTION: Duration = Duration::from_secs(30 * 86_400);

/// What the log says of data files.
struct Known {
    live: HashSet<Path>,
    /// Removed not long enough ago.
    kept: HashSet<Path>,
}

impl Inner {
    /// Data files that can go: unknown to the log or removed from it, and older than `cutoff_ms`.
    pub(crate) fn unneeded_files(&self, cutoff_ms: i64) -> Result<Vec<ObjectMeta>> {
        let snapshot = {
            let mut tip = self.tip();
            self.advance(&mut tip, None)?;
            Arc::clone(&tip.snapshot)
        };
        let known = self.known_files(&snapshot, cutoff_ms)?;
        let root = create::object_path(&self.root, "")?;
        let mut n_live = 0;
        let mut unneeded = Vec::new();
        for file in self.list(&root)? {
            if known.live.contains(&file.location) {
                n_live += 1;
            } else if is_data_file(&root, &file.location)
                && !known.kept.contains(&file.location)
                && file.last_modified.timestamp_millis() < cutoff_ms
            {
                unneeded.push(file);
            }
        }
        if n_live == known.live.len() {
            Ok(unneeded)
        } else {
            Err(Error::FilesMissing {
                table: self.layout.name,
                expected: known.live.len(),
                found: n_live,
            })
        }
    }

    /// The kernel's reconciled actions, which are those of a checkpoint.
    fn known_files(&self, snapshot: &SnapshotRef, cutoff_ms: i64) -> Result<Known> {
        let read = |source| self.read_log(source);
        let writer = Arc::clone(snapshot)
            .create_checkpoint_writer(self.kernel.engine())
            .map_err(read)?;
        let mut known = Known {
            live: HashSet::new(),
            kept: HashSet::new(),
        };
        for actions in writer.checkpoint_data(self.kernel.engine()).map_err(read)? {
            let (data, selected) = actions.map_err(read)?.into_parts();
            let batch: RecordBatch = data.try_into_record_batch().map_err(read)?;
            let is_selected = |idx: usize| selected.get(idx).copied().unwrap_or(true);
            for idx in (0..batch.num_rows()).filter(|idx| is_selected(*idx)) {
                if let Some(path) = action_path(&batch, "add", idx) {
                    known.live.insert(create::object_path(&self.root, path)?);
                }
                if let Some(path) = action_path(&batch, "remove", idx)
                    && removed_ms(&batch, idx).is_none_or(|removed| removed >= cutoff_ms)
                {
                    known.kept.insert(create::object_path(&self.root, path)?);
                }
            }
        }
        Ok(known)
    }

    /// Files of the log that no version in the table's retention needs, oldest version first.
    pub(crate) fn old_log_files(&self, now_ms: i64) -> Result<Vec<ObjectMeta>> {
        let properties = self.tip().snapshot.table_properties().clone();
        if properties.enable_expired_log_cleanup == Some(false) {
            return Ok(Vec::new());
        }
        let retention = properties.log_retention_duration.unwrap_or(LOG_RETENTION);
        let cutoff_ms = before(now_ms, retention);
        let is_old = |file: &ObjectMeta| file.last_modified.timestamp_millis() < cutoff_ms;
        let Some(hinted) = self.hinted_checkpoint()? else {
            return Ok(Vec::new());
        };
        let folder = create::object_path(&self.root, "_delta_log")?;
        let mut files: Vec<(u64, ObjectMeta)> = self
            .list(&folder)?
            .into_iter()
            .filter_map(|file| Some((log_version(&file.location)?, file)))
            .collect();
        let oldest_needed = files
            .iter()
            .filter(|(version, file)| *version <= hinted && is_checkpoint(file) && is_old(file))
            .map(|(version, _)| *version)
            .max();
        files.retain(|(version, file)| {
            oldest_needed.is_some_and(|needed| *version < needed) && is_old(file)
        });
        files.sort_unstable_by_key(|(version, _)| *version);
        Ok(files.into_iter().map(|(_, file)| file).collect())
    }

    /// The version of the checkpoint that readers start from.
    pub(crate) fn hinted_checkpoint(&self) -> Result<Option<u64>> {
        let path = create::object_path(&self.root, "_delta_log/_last_checkpoint")?;
        let hint = self
            .kernel
            .wait(async { self.kernel.store().get(&path).await?.bytes().await });
        match hint {
            Ok(hint) => {
                let hint: Value = serde_json::from_slice(&hint).unwrap_or_default();
                Ok(hint["version"].as_u64())
            }
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(source) => Err(Error::store("read", &path, source)),
        }
    }

    /// Deletes files of this table. One that is gone already counts as deleted.
    pub(crate) fn delete(&self, files: &[ObjectMeta]) -> Result<Deleted> {
        let paths: Vec<_> = files.iter().map(|file| Ok(file.location.clone())).collect();
        let mut deleting = self
            .kernel
            .store()
            .delete_stream(stream::iter(paths).boxed());
        self.kernel.wait(async {
            while let Some(result) = deleting.next().await {
                match result {
                    Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                    Err(source) => {
                        let root = create::object_path(&self.root, "")?;
                        return Err(Error::store("delete files below", &root, source));
                    }
                }
            }
            Ok(())
        })?;
        Ok(Deleted::of(files))
    }

    /// Files that a put of this program left half written in a local folder.
    pub(crate) fn staged_files(&self, cutoff_ms: i64) -> Result<Vec<(PathBuf, u64)>> {
        let Some(root) = (self.root.scheme() == "file")
            .then(|| self.root.to_file_path().ok())
            .flatten()
        else {
            return Ok(Vec::new());
        };
        synced::staged_files(&root, cutoff_ms)
            .map_err(|source| staged_failed("list", &root, source))
    }

    pub(crate) fn delete_staged(&self, files: &[(PathBuf, u64)]) -> Result<()> {
        for (path, _) in files {
            match std::fs::remove_file(path) {
                Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                    return Err(staged_failed("delete", path, source));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn list(&self, folder: &Path) -> Result<Vec<ObjectMeta>> {
        self.kernel
            .wait(self.kernel.store().list(Some(folder)).try_collect())
            .map_err(|source| Error::store("list", folder, source))
    }
}

/// `now_ms` less a time.
pub(crate) fn before(now_ms: i64, time: Duration) -> i64 {
    now_ms.saturating_sub(i64::try_from(time.as_millis()).unwrap_or(i64::MAX))
}

/// Parquet files below the root that no folder hides: readers of Delta leave out names that begin
/// with `_` or `.`.
fn is_data_file(root: &Path, path: &Path) -> bool {
    let Some(mut parts) = path.prefix_match(root) else {
        return false;
    };
    path.extension() == Some("parquet") && parts.all(|part| !part.as_ref().starts_with(['_', '.']))
}

fn log_version(path: &Path) -> Option<u64> {
    let (version, _) = path.filename()?.split_once('.')?;
    (version.len() == 20)
        .then(|| version.parse().ok())
        .flatten()
}

/// A checkpoint in one file; that is what this program writes.
fn is_checkpoint(file: &ObjectMeta) -> bool {
    let name = file.location.filename().unwrap_or_default();
    name.split_once('.')
        .is_some_and(|(_, ending)| ending == "checkpoint.parquet")
}

fn action<'a>(batch: &'a RecordBatch, action: &str, idx: usize) -> Option<&'a StructArray> {
    let column = batch.column_by_name(action)?.as_struct_opt()?;
    column.is_valid(idx).then_some(column)
}

fn action_path<'a>(batch: &'a RecordBatch, name: &str, idx: usize) -> Option<&'a str> {
    let paths = action(batch, name, idx)?
        .column_by_name("path")?
        .as_string_opt::<i32>()?;
    paths.is_valid(idx).then(|| paths.value(idx))
}

fn removed_ms(batch: &RecordBatch, idx: usize) -> Option<i64> {
    let times = action(batch, "remove", idx)?
        .column_by_name("deletionTimestamp")?
        .as_primitive_opt::<Int64Type>()?;
    times.is_valid(idx).then(|| times.value(idx))
}

fn staged_failed(operation: &'static str, path: &FsPath, source: std::io::Error) -> Error {
    let source = object_store::Error::Generic {
        store: "SyncedFolder",
        source: source.into(),
    };
    Error::store(operation, path.display(), source)
}
