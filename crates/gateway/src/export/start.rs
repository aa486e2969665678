//! Which cursors are beside the log, and which there should be.

use std::path::{Path, PathBuf};

use wal::Disk;

use super::cursor::{Cursor, Mark, SUFFIX, file_name};
use crate::error::{Error, Result};

/// Of the tables: from which release on they are given releases. Ids of exporters name a type, which this is none of.
const STORAGE: &str = "storage";

/// The cursors of a start.
#[derive(Debug)]
pub(crate) struct Cursors<D: Disk> {
    disk: D,
    directory: PathBuf,
    /// By exporter; `None`: it is new.
    exporters: Vec<(String, Option<Cursor<D>>)>,
    storage: Option<Storage<D>>,
    /// Of exporters that are there no more.
    stale: Vec<String>,
}

#[derive(Debug)]
struct Storage<D: Disk> {
    /// `None`: the log was without tables until now.
    cursor: Option<Cursor<D>>,
    committed_through: i64,
}

impl<D: Disk> Cursors<D> {
    /// Opens those of these exporters, and that of the tables where there are any.
    ///
    /// # Errors
    ///
    /// The disk's, or a cursor that is damaged.
    pub(crate) fn open(
        disk: D,
        directory: &Path,
        ids: &[String],
        committed_through: Option<i64>,
    ) -> Result<Cursors<D>> {
        let listed = disk.list(directory).map_err(|source| Error::Cursor {
            operation: "list the folder of",
            path: directory.to_owned(),
            source,
        })?;
        let mut stale: Vec<String> = listed
            .into_iter()
            .filter(|name| name.ends_with(SUFFIX))
            .collect();
        let is_first = stale.is_empty();
        let mut open = |id: &str| {
            let name = file_name(id);
            stale.retain(|stale| *stale != name);
            Cursor::open(&disk, directory, &name)
        };
        let mut exporters = Vec::with_capacity(ids.len());
        for id in ids {
            exporters.push((id.clone(), open(id)?));
        }
        let storage = match committed_through {
            None => None,
            Some(committed_through) => {
                let mut cursor = open(STORAGE)?;
                if cursor.is_none() && is_first {
                    // A new log, or one from before there were exporters.
                    let mark = Mark::after(0);
                    cursor = Some(Cursor::create(&disk, directory, &file_name(STORAGE), mark)?);
                }
                Some(Storage {
                    cursor,
                    committed_through,
                })
            }
        };
        Ok(Cursors {
            disk,
            directory: directory.to_owned(),
            exporters,
            storage,
            stale,
        })
    }

    /// From which release on the tables are given releases; `None`: from those that are decided from now on.
    pub(crate) fn stored_through(&self) -> Option<i64> {
        let storage = self.storage.as_ref()?;
        let from = storage.cursor.as_ref()?.mark().sequence;
        Some(from.max(storage.committed_through))
    }

    /// Everybody is done with the releases through this one; `None`: nobody wants any of the log.
    pub(crate) fn done_through(&self) -> Option<i64> {
        let cursors = self
            .exporters
            .iter()
            .filter_map(|(_, cursor)| cursor.as_ref());
        let done = cursors.map(|cursor| cursor.mark().sequence);
        done.chain(self.stored_through()).min()
    }

    /// How far each exporter is; new ones want nothing of the log.
    pub(crate) fn done(&self) -> Vec<i64> {
        let done = |cursor: &Option<Cursor<D>>| {
            cursor
                .as_ref()
                .map_or(i64::MAX, |cursor| cursor.mark().sequence)
        };
        self.exporters
            .iter()
            .map(|(_, cursor)| done(cursor))
            .collect()
    }

    /// No release before this one is new; 0 for none.
    pub(crate) fn known_through(&self) -> i64 {
        let cursors = self
            .exporters
            .iter()
            .filter_map(|(_, cursor)| cursor.as_ref());
        let done = cursors.map(|cursor| cursor.mark().sequence);
        let committed = self
            .storage
            .as_ref()
            .map(|storage| storage.committed_through);
        done.chain(committed).max().unwrap_or_default()
    }

    /// Creates those that are missing at the last release, and removes those of exporters that are there no more.
    /// Gives the tables' place and the exporters' cursors.
    ///
    /// # Errors
    ///
    /// The disk's.
    pub(crate) fn settle(self, last_sequence: i64) -> Result<(Option<i64>, Vec<Cursor<D>>)> {
        let stored_through = self.stored_through();
        let Cursors {
            disk,
            directory,
            exporters,
            storage,
            stale,
        } = self;
        let last = Mark::after(last_sequence);
        let mut cursors = Vec::with_capacity(exporters.len());
        for (id, cursor) in exporters {
            cursors.push(match cursor {
                Some(cursor) => cursor,
                None => {
                    if last_sequence > 0 {
                        tracing::info!(
                            exporter = id,
                            "a new exporter gets what is decided from now on"
                        );
                    }
                    Cursor::create(&disk, &directory, &file_name(&id), last)?
                }
            });
        }
        let stored_through = match storage {
            Some(Storage { cursor: None, .. }) => {
                Cursor::create(&disk, &directory, &file_name(STORAGE), last)?;
                Some(last_sequence)
            }
            Some(_) | None => stored_through,
        };
        for name in &stale {
            tracing::info!(
                name,
                "removing the cursor of an exporter that is not used any more"
            );
            let path = directory.join(name);
            disk.remove(&path).map_err(|source| Error::Cursor {
                operation: "remove",
                path,
                source,
            })?;
        }
        Ok((stored_through, cursors))
    }
}
