//! A version that removes files, and adds those that hold the same rows.
//!
//! Every attempt looks at the newest version first: files that are not live any more were removed by
//! somebody else, and a commit that removed them again could double or revive rows. Such a commit is
//! given up, never repeated as it is. Otherwise the version after that one is put, if nobody has put
//! it yet; so every version was checked against exactly the version before it.
//!
//! Unknown outcomes are found like those of `commit`: a version that was made after all shows its
//! new files at the next look.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array as _, AsArray as _, RecordBatch};
use delta_kernel::committer::FileSystemCommitter;
use delta_kernel::engine::arrow_data::{ArrowEngineData, EngineDataArrowExt as _};
use delta_kernel::engine_data::FilteredEngineData;
use delta_kernel::transaction::{CommitResult, UpdateTableOperation};
use delta_kernel::{KernelError, KernelResult, SnapshotRef};

use crate::attempts::{Attempt, Doubt, until_settled};
use crate::create::ENGINE_INFO;
use crate::data_file::DataFile;
use crate::error::{Error, Result};
use crate::table::{Inner, Tip};
use crate::written::{self, Written};

/// Files that leave the table in one version, and files that take their place.
pub(crate) struct Replacement<'a> {
    pub(crate) removed: &'a [DataFile],
    /// Hold all rows of `removed`, or are none.
    pub(crate) added: &'a [Written],
}

/// What became of a replacement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replaced {
    /// It is in the log.
    Done,
    /// Somebody else has removed one of the files; the new files are deleted again.
    Stale,
}

impl Inner {
    /// Puts a replacement into the log, or gives it up.
    pub(crate) fn replace(&self, replacement: &Replacement<'_>) -> Result<Replaced> {
        let mut doubt = Doubt::default();
        let result = until_settled(self.layout.name, &mut doubt, |doubt| {
            self.try_replace(replacement, doubt)
        });
        if !doubt.is_set() {
            written::discard(&self.kernel, replacement.added);
        }
        result
    }

    fn try_replace(
        &self,
        replacement: &Replacement<'_>,
        doubt: &mut Doubt,
    ) -> Result<Attempt<Replaced>> {
        let mut tip = self.tip();
        self.advance(&mut tip, None)?;
        let live = self.live_files();
        let live: HashSet<&str> = live.iter().map(|file| &*file.path).collect();
        let is_live = |file: &DataFile| live.contains(&*file.path);
        if !replacement.removed.iter().all(is_live) {
            let root = tip.snapshot.table_root();
            let is_added = |file: &Written| {
                file.data_file(&self.layout, root)
                    .is_some_and(|file| is_live(&file))
            };
            // An earlier attempt was made after all.
            let is_ours = doubt.is_set()
                && !replacement.added.is_empty()
                && replacement.added.iter().all(is_added);
            let replaced = if is_ours {
                Replaced::Done
            } else {
                Replaced::Stale
            };
            return Ok(Attempt::Done(replaced));
        }
        doubt.set();
        Ok(if self.put_replacement(&mut tip, replacement)? {
            Attempt::Done(Replaced::Done)
        } else {
            Attempt::Lost
        })
    }

    /// Puts the version after the tip; false when another writer has put it.
    fn put_replacement(&self, tip: &mut Tip, replacement: &Replacement<'_>) -> Result<bool> {
        let version = tip.snapshot.version().saturating_add(1);
        let failed = |source: KernelError| Error::CommitLog {
            table: self.layout.name,
            version,
            source: Box::new(source),
        };
        // Without new files rows leave the table; with them no row changes.
        let is_change = replacement.added.is_empty();
        let operation = if is_change {
            UpdateTableOperation::Delete
        } else {
            UpdateTableOperation::Optimize
        };
        let mut transaction = Arc::clone(&tip.snapshot)
            .update_table(operation, ENGINE_INFO, is_change)
            .build(self.kernel.engine(), Box::new(FileSystemCommitter::new()))
            .map_err(failed)?;
        let removals = self
            .removals(&tip.snapshot, replacement.removed)
            .map_err(|source| self.read_log(source))?;
        for removal in removals {
            transaction.remove_files(removal);
        }
        for file in replacement.added {
            file.add_to(&mut transaction).map_err(failed)?;
        }
        match transaction.commit(self.kernel.engine()).map_err(failed)? {
            CommitResult::Conflicted(_) => Ok(false),
            CommitResult::Retryable(retryable) => Err(failed(retryable.error)),
            CommitResult::Committed(_) => {
                // It is done whether or not it can be read again now; the next refresh shows it.
                if let Err(error) = self.advance(tip, None) {
                    tracing::debug!(table = self.layout.name, %error, "a new version is not read yet");
                }
                Ok(true)
            }
        }
    }

    /// The rows of the log that add the files, for the kernel to remove.
    fn removals(
        &self,
        snapshot: &SnapshotRef,
        removed: &[DataFile],
    ) -> KernelResult<Vec<FilteredEngineData>> {
        let paths: HashSet<&str> = removed.iter().map(|file| &*file.path).collect();
        let scan = Arc::clone(snapshot)
            .scan_builder()
            .without_row_transforms()
            .build()?;
        let mut removals = Vec::new();
        let mut n_found = 0;
        for metadata in scan.scan_metadata(self.kernel.engine())? {
            let (data, selected) = metadata?.scan_files.into_parts();
            let batch: RecordBatch = data.try_into_record_batch()?;
            let column = batch
                .column_by_name("path")
                .and_then(|column| column.as_string_opt::<i32>());
            let Some(column) = column else {
                return Err(KernelError::missing_column("path"));
            };
            let is_wanted = |idx: usize| {
                selected.get(idx).copied().unwrap_or(true)
                    && column.is_valid(idx)
                    && paths.contains(column.value(idx))
            };
            let wanted: Vec<bool> = (0..batch.num_rows()).map(is_wanted).collect();
            let n_wanted = wanted.iter().filter(|wanted| **wanted).count();
            if n_wanted > 0 {
                n_found += n_wanted;
                let data = Box::new(ArrowEngineData::new(batch));
                removals.push(FilteredEngineData::try_new(data, wanted)?);
            }
        }
        if n_found == paths.len() {
            Ok(removals)
        } else {
            Err(KernelError::generic(format!(
                "{n_found} of {} live files are in the log",
                paths.len()
            )))
        }
    }
}
