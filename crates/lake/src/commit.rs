//! Moving rows from memory into a table, exactly once.
//!
//! Order of one commit, and what a crash after each step leaves:
//!
//! 1. read the newest version of the log and the writer's sequence in it; rows up to that sequence
//!    are in the table already and leave memory;
//! 2. write Parquet files under fresh names (left over: files that no log names; harmless);
//! 3. read the log again, compare the sequence again;
//! 4. put the next version, with the files and `txn(app_id, through)`, if nobody has put it yet
//!    (left over: a complete commit; the next start reads its sequence and skips it);
//! 5. show the files and drop the rows in one instant;
//! 6. now and then write a checkpoint (failing changes nothing).
//!
//! **Unknown outcomes.** A put can fail for its client and be made all the same, even later. That is
//! safe: it is for one version, and each further attempt is for that version or a newer one. Either
//! the late put is first, then the next attempt conflicts and step 1 finds the sequence; or it finds
//! its version taken and fails. What an unknown outcome is, and why files are not deleted after one,
//! is told in `attempts`.

use std::sync::{Arc, PoisonError};

use delta_kernel::committer::FileSystemCommitter;
use delta_kernel::transaction::{
    CommitResult, CommittedTransaction, UpdateTableOperation, UpdateTableTransactionBuilder,
};
use delta_kernel::{KernelError, SnapshotRef};

use crate::attempts::{Attempt, Doubt, until_settled};
use crate::checkpoint;
use crate::create::ENGINE_INFO;
use crate::error::{Error, Result};
use crate::lake::Mode;
use crate::table::{Inner, Table, Tip};
use crate::written::{self, Written};

/// What a commit stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// The Delta version.
    pub version: u64,
    /// Rows in the new files.
    pub rows: u64,
    /// Size of the new files.
    pub bytes: u64,
    /// Number of new files, one or more per date.
    pub files: usize,
}

/// Files for the rows above the sequence `after`.
struct Prepared {
    after: Option<i64>,
    files: Vec<Written>,
}

impl Table {
    /// Stores all rows that this writer appended with a sequence up to `through` in one Delta version, together with
    /// the application transaction `(app_id, through)`. Rows that the table holds already, by that
    /// transaction, only leave memory. Gives `None` when there was nothing to store; no version is
    /// made then.
    ///
    /// On an error no row is lost: all are in memory and in [`Table::view`], once, and calling again
    /// is safe even when the outcome is unknown. The work goes on when the future is dropped.
    ///
    /// # Errors
    ///
    /// [`Error::is_retryable`] for an outage or when other writers are always faster; not for rows
    /// that cannot be encoded or a table that was opened for reading.
    pub async fn commit(&self, app_id: &str, through: i64) -> Result<Option<Commit>> {
        let app_id = app_id.to_owned();
        self.blocking(move |inner| inner.commit(&app_id, through))
            .await
    }
}

impl Inner {
    fn commit(&self, app_id: &str, through: i64) -> Result<Option<Commit>> {
        if self.mode == Mode::ReadOnly {
            return Err(Error::ReadOnly {
                table: self.layout.name,
            });
        }
        let _one_at_a_time = self
            .committing
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut prepared = None;
        let mut doubt = Doubt::default();
        let result = until_settled(self.layout.name, &mut doubt, |doubt| {
            self.attempt(app_id, through, &mut prepared, doubt)
        });
        if !doubt.is_set() {
            // What is still prepared is in no version.
            self.discard(prepared);
        }
        if let Ok(Some(commit)) = &result {
            self.checkpoint_when_due(commit.version);
        }
        result
    }

    fn attempt(
        &self,
        app_id: &str,
        through: i64,
        prepared: &mut Option<Prepared>,
        doubt: &mut Doubt,
    ) -> Result<Attempt<Option<Commit>>> {
        if prepared.is_none() {
            *prepared = self.prepare(app_id, through)?;
        }
        let Some(files) = prepared.as_ref() else {
            return Ok(Attempt::Done(None));
        };
        let mut tip = self.tip();
        if self.committed(&mut tip, app_id)? != files.after {
            // An earlier attempt was made after all, or another process writes as `app_id`: some
            // of these rows are in the table. Start again with the rest.
            drop(tip);
            let stale = prepared.take();
            if !doubt.is_set() {
                self.discard(stale);
            }
            return Ok(Attempt::Lost);
        }
        doubt.set();
        let Some(commit) = self.put_version(&mut tip, app_id, through, &files.files)? else {
            return Ok(Attempt::Lost);
        };
        *prepared = None;
        Ok(Attempt::Done(Some(commit)))
    }

    /// Writes the rows that the table lacks; `None` when it lacks none.
    fn prepare(&self, app_id: &str, through: i64) -> Result<Option<Prepared>> {
        let (after, builder) = {
            let mut tip = self.tip();
            (self.committed(&mut tip, app_id)?, self.append_builder(&tip))
        };
        let rows = self.fresh_between(app_id, after, through);
        if rows.is_empty() {
            return Ok(None);
        }
        let state = builder
            .build(self.kernel.engine(), Box::new(FileSystemCommitter::new()))
            .and_then(|transaction| transaction.write_state())
            .map_err(|source| self.read_log(source))?;
        let files = written::write(&self.kernel, &self.layout, &state, &rows)?;
        Ok(Some(Prepared { after, files }))
    }

    /// The writer's sequence in the newest version of the log; rows up to it leave memory.
    fn committed(&self, tip: &mut Tip, app_id: &str) -> Result<Option<i64>> {
        self.advance(tip, Some(app_id))?;
        // Also without a new version: rows may have been appended that the table held already.
        self.show(tip, |_files| ());
        Ok(tip.writers.get(app_id).copied().flatten())
    }

    fn append_builder(&self, tip: &Tip) -> UpdateTableTransactionBuilder {
        Arc::clone(&tip.snapshot)
            .update_table(UpdateTableOperation::Write, ENGINE_INFO, true)
            .with_blind_append()
    }

    /// Puts the version after the tip. `None` when another writer has put it.
    fn put_version(
        &self,
        tip: &mut Tip,
        app_id: &str,
        through: i64,
        files: &[Written],
    ) -> Result<Option<Commit>> {
        let version = tip.snapshot.version().saturating_add(1);
        let failed = |source: KernelError| Error::CommitLog {
            table: self.layout.name,
            version,
            source: Box::new(source),
        };
        let mut transaction = self
            .append_builder(tip)
            .with_transaction_id(app_id, through)
            .build(self.kernel.engine(), Box::new(FileSystemCommitter::new()))
            .map_err(failed)?;
        for file in files {
            file.add_to(&mut transaction).map_err(failed)?;
        }
        match transaction.commit(self.kernel.engine()).map_err(failed)? {
            CommitResult::Conflicted(_) => Ok(None),
            CommitResult::Retryable(retryable) => Err(failed(retryable.error)),
            CommitResult::Committed(committed) => {
                self.take_over(tip, (app_id, through), files, &committed)?;
                Ok(Some(Commit {
                    version: committed.commit_version(),
                    rows: files.iter().map(|file| file.n_rows).sum(),
                    bytes: files.iter().map(Written::size_bytes).sum(),
                    files: files.len(),
                }))
            }
        }
    }

    /// Makes a version that was just put the tip and shows its files instead of the rows.
    fn take_over(
        &self,
        tip: &mut Tip,
        (app_id, through): (&str, i64),
        files: &[Written],
        committed: &CommittedTransaction,
    ) -> Result<()> {
        let added = |snapshot: &SnapshotRef| -> Option<Vec<_>> {
            let root = snapshot.table_root();
            files
                .iter()
                .map(|file| file.data_file(&self.layout, root))
                .collect()
        };
        let known = committed.post_commit_snapshot();
        let Some((snapshot, added)) = known.and_then(|known| Some((known, added(known)?))) else {
            return self.advance(tip, Some(app_id));
        };
        tip.snapshot = Arc::clone(snapshot);
        tip.writers.insert(Arc::from(app_id), Some(through));
        self.show(tip, |files| Arc::make_mut(files).extend(added));
        Ok(())
    }

    fn discard(&self, prepared: Option<Prepared>) {
        if let Some(prepared) = prepared {
            written::discard(&self.kernel, &prepared.files);
        }
    }

    /// Writes a checkpoint after every interval of versions.
    fn checkpoint_when_due(&self, version: u64) {
        let snapshot = Arc::clone(&self.tip().snapshot);
        if !version.is_multiple_of(checkpoint::interval(&snapshot)) {
            return;
        }
        // The table is whole without it; the next interval tries again.
        if let Err(error) = self.write_checkpoint(&snapshot) {
            tracing::warn!(table = self.layout.name, %error, "no checkpoint was written");
        }
    }
}
