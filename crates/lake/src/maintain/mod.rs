//! Maintenance of a table: retention, compaction, checkpoint, vacuum.
//!
//! Safe beside writers and queries, in this process and in others. Limits first: one maintainer per
//! table at a time (module `lease`), one merged file in memory at a time (module `merge`).
//!
//! Steps, each of which leaves a whole table when the process stops in its middle:
//!
//! 1. **Retention**: files of dates that are entirely older than the retention are removed, in one
//!    version. A file without a date stays.
//! 2. **Compaction** of small files, one version per merged file, until nothing is worth merging.
//! 3. **Checkpoint**, if one is overdue: commits write it, and one of them may have failed.
//! 4. **Vacuum** of removed files, orphans, staged files, and the old part of the log.
//!
//! A failed step is reported and the next is tried: data that cannot be merged must not keep old data
//! from being removed.

mod compact;
mod lease;
mod merge;
mod replace;
mod vacuum;

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, TryLockError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use object_store::ObjectMeta;

use crate::checkpoint;
use crate::data_file::DataFile;
use crate::error::{Error, Result};
use crate::lake::Mode;
use crate::table::{Inner, Table};
use lease::Lease;
use replace::{Replaced, Replacement};

const DAY_MS: i64 = 86_400_000;

/// Rounds of compaction in one run: each merges what the one before made. Eight rounds of 128 files
/// are more than any table has.
const ROUNDS_MAX: usize = 8;

/// What maintenance aims at.
#[derive(Clone)]
pub struct Maintenance {
    /// Files below half of this size are merged into files of up to this size.
    pub target_file_bytes: u64,
    /// Rows whose date is older than this many days are removed; `None` keeps them.
    pub retention_days: Option<u32>,
    /// Files are deleted this long after they were removed from the table, and files that are in no
    /// version when they are this old. Longer than any query and any commit takes; not longer than
    /// the table's `delta.deletedFileRetentionDuration` (one day), after which the log forgets
    /// removed files.
    pub vacuum_after: Duration,
    /// Who does it, for others to see in the lease.
    pub owner: String,
    /// Tells the time.
    pub clock: Arc<dyn Fn() -> SystemTime + Send + Sync>,
}

/// What was done, or with [`Table::plan_maintenance`] would be done.
#[derive(Debug, Default)]
pub struct Report {
    /// Another process, or another task of this one, maintains the table at the moment; nothing was
    /// done.
    pub is_busy: bool,
    /// Files that left the table because of their age.
    pub expired: Expired,
    /// Files that were merged.
    pub compacted: Compacted,
    /// Groups of files that another writer changed meanwhile; the next run looks again.
    pub groups_stale: usize,
    /// The version of the checkpoint that was written.
    pub checkpoint: Option<u64>,
    /// Data files that no query needs any more, and orphans.
    pub vacuumed: Deleted,
    /// Half written files of a crash.
    pub staged: Deleted,
    /// Files of the log that no kept version needs.
    pub log_files: Deleted,
    /// What went wrong; all other steps were made.
    pub failures: Vec<Error>,
}

/// Files that left the table because of their age.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Expired {
    /// Number of files.
    pub files: usize,
    /// Rows, where the log says how many.
    pub rows: u64,
    /// Their size; it is freed by vacuum.
    pub bytes: u64,
}

/// Files that were merged into others.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Compacted {
    /// Number of files before.
    pub files: usize,
    /// Number of files after.
    pub into_files: usize,
    /// Rows in them.
    pub rows: u64,
    /// Size before.
    pub bytes: u64,
    /// Size after; not known to a plan.
    pub into_bytes: u64,
}

/// Files that were deleted from the store.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Deleted {
    /// Number of files.
    pub files: usize,
    /// Their size.
    pub bytes: u64,
}

impl Deleted {
    fn of(files: &[ObjectMeta]) -> Self {
        Self {
            files: files.len(),
            bytes: files.iter().map(|file| file.size).sum(),
        }
    }
}

impl Table {
    /// Maintains the table. `on_step` hears of each step when it is done, with a short text.
    ///
    /// The work goes on when the future is dropped; the end of the process may cut it anywhere.
    ///
    /// # Errors
    ///
    /// The table is open for reading only, or the lease cannot be asked for. What goes wrong later is
    /// in [`Report::failures`].
    pub async fn maintain(
        &self,
        settings: &Maintenance,
        on_step: impl Fn(&str) + Send + 'static,
    ) -> Result<Report> {
        let settings = settings.clone();
        self.blocking(move |inner| inner.maintain(&settings, &on_step))
            .await
    }

    /// What [`Table::maintain`] would do, as far as it can be known before: compaction may have
    /// further rounds. Changes nothing, and works on a table that is open for reading only.
    ///
    /// # Errors
    ///
    /// The log or the store cannot be read.
    pub async fn plan_maintenance(&self, settings: &Maintenance) -> Result<Report> {
        let settings = settings.clone();
        self.blocking(move |inner| inner.plan_maintenance(&settings))
            .await
    }
}

/// A run: the lease and how to go on.
struct Run<'a> {
    settings: &'a Maintenance,
    lease: &'a Lease,
    on_step: &'a dyn Fn(&str),
}

impl Inner {
    fn maintain(&self, settings: &Maintenance, on_step: &dyn Fn(&str)) -> Result<Report> {
        if self.mode == Mode::ReadOnly {
            return Err(Error::ReadOnly {
                table: self.layout.name,
            });
        }
        let busy = Report {
            is_busy: true,
            ..Report::default()
        };
        let _one_at_a_time = match self.maintaining.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(busy),
        };
        let Some(lease) = self.take_lease(&settings.owner, settings.now_ms())? else {
            return Ok(busy);
        };
        let run = Run {
            settings,
            lease: &lease,
            on_step,
        };
        let mut report = Report::default();
        for step in [
            Self::expire,
            Self::compact_all,
            Self::checkpoint_if_overdue,
            Self::vacuum,
            Self::shorten_log,
        ] {
            // Another process goes on with the rest. A lease that could not be extended is no reason
            // to stop: it only saves work.
            if let Ok(false) = self.extend_lease(&lease, settings.now_ms()) {
                break;
            }
            if let Err(error) = step(self, &run, &mut report) {
                report.failures.push(error);
            }
        }
        self.end_lease(&lease);
        Ok(report)
    }

    fn plan_maintenance(&self, settings: &Maintenance) -> Result<Report> {
        self.advance(&mut self.tip(), None)?;
        let files = self.live_files();
        let (expired, kept): (Vec<DataFile>, Vec<DataFile>) = files
            .iter()
            .cloned()
            .partition(|file| settings.is_expired(file));
        let groups = compact::plan(&kept, settings.target_file_bytes, &HashSet::new());
        let mut report = Report {
            expired: Expired::of(&expired),
            ..Report::default()
        };
        for group in &groups {
            report.compacted.add(Compacted {
                files: group.len(),
                into_files: 1,
                rows: group.iter().filter_map(|file| file.n_rows).sum(),
                bytes: group.iter().map(|file| file.size_bytes).sum(),
                into_bytes: 0,
            });
        }
        let cutoff_ms = settings.vacuum_cutoff_ms();
        report.vacuumed = Deleted::of(&self.unneeded_files(cutoff_ms)?);
        report.staged = staged(&self.staged_files(cutoff_ms)?);
        report.log_files = Deleted::of(&self.old_log_files(settings.now_ms())?);
        Ok(report)
    }

    fn expire(&self, run: &Run<'_>, report: &mut Report) -> Result<()> {
        self.advance(&mut self.tip(), None)?;
        let files = self.live_files();
        let is_expired = |file: &&DataFile| run.settings.is_expired(file);
        let expired: Vec<DataFile> = files.iter().filter(is_expired).cloned().collect();
        if expired.is_empty() {
            return Ok(());
        }
        let replacement = Replacement {
            removed: &expired,
            added: &[],
        };
        if self.replace(&replacement)? == Replaced::Done {
            report.expired = Expired::of(&expired);
            (run.on_step)(&format!("removed {} files by age", expired.len()));
        }
        Ok(())
    }

    fn compact_all(&self, run: &Run<'_>, report: &mut Report) -> Result<()> {
        let n_columns = self.tip().snapshot.schema().fields().len();
        if n_columns != self.layout.delta_schema.fields().len() {
            // Merging would lose what a newer version has written into them.
            return Err(Error::UnsupportedTable {
                table: self.layout.name,
                feature: "columns that this version cannot merge".to_owned(),
            });
        }
        let mut left_alone: HashSet<Arc<str>> = HashSet::new();
        for _ in 0..ROUNDS_MAX {
            self.advance(&mut self.tip(), None)?;
            let target = run.settings.target_file_bytes;
            let groups = compact::plan(&self.live_files(), target, &left_alone);
            if groups.is_empty() {
                break;
            }
            for (idx, group) in groups.iter().enumerate() {
                if let Ok(false) = self.extend_lease(run.lease, run.settings.now_ms()) {
                    return Ok(());
                }
                match self.compact(group) {
                    Ok(Some(compacted)) => report.compacted.add(compacted),
                    Ok(None) => report.groups_stale += 1,
                    Err(error) if error.is_file_bad() => {
                        // One of them cannot be read: all wait for somebody to look.
                        left_alone.extend(group.iter().map(|file| Arc::clone(&file.path)));
                        report.failures.push(error);
                    }
                    Err(error) => return Err(error),
                }
                let n_files = group.len();
                (run.on_step)(&format!(
                    "merged {n_files} files, {}/{}",
                    idx + 1,
                    groups.len()
                ));
            }
        }
        Ok(())
    }

    fn checkpoint_if_overdue(&self, run: &Run<'_>, report: &mut Report) -> Result<()> {
        let snapshot = {
            let mut tip = self.tip();
            self.advance(&mut tip, None)?;
            Arc::clone(&tip.snapshot)
        };
        let last = self.hinted_checkpoint()?.unwrap_or_default();
        let version = snapshot.version();
        if version.saturating_sub(last) < checkpoint::interval(&snapshot) {
            return Ok(());
        }
        self.write_checkpoint(&snapshot)
            .map_err(|source| self.read_log(source))?;
        report.checkpoint = Some(version);
        (run.on_step)(&format!("wrote a checkpoint of version {version}"));
        Ok(())
    }

    fn vacuum(&self, run: &Run<'_>, report: &mut Report) -> Result<()> {
        let cutoff_ms = run.settings.vacuum_cutoff_ms();
        let staged_files = self.staged_files(cutoff_ms)?;
        self.delete_staged(&staged_files)?;
        report.staged = staged(&staged_files);
        report.vacuumed = self.delete(&self.unneeded_files(cutoff_ms)?)?;
        if report.vacuumed.files > 0 {
            (run.on_step)(&format!("deleted {} files", report.vacuumed.files));
        }
        Ok(())
    }

    fn shorten_log(&self, run: &Run<'_>, report: &mut Report) -> Result<()> {
        report.log_files = self.delete(&self.old_log_files(run.settings.now_ms())?)?;
        if report.log_files.files > 0 {
            (run.on_step)(&format!(
                "deleted {} files of the log",
                report.log_files.files
            ));
        }
        Ok(())
    }
}

impl Maintenance {
    fn now_ms(&self) -> i64 {
        let since = (self.clock)()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }

    fn vacuum_cutoff_ms(&self) -> i64 {
        vacuum::before(self.now_ms(), self.vacuum_after)
    }

    /// Whether the last moment of the file's date is longer ago than the retention.
    fn is_expired(&self, file: &DataFile) -> bool {
        let today = self.now_ms().div_euclid(DAY_MS);
        match (self.retention_days, file.date) {
            (Some(days), Some(date)) => i64::from(date) < today - i64::from(days),
            _ => false,
        }
    }
}

impl Expired {
    fn of(files: &[DataFile]) -> Self {
        Self {
            files: files.len(),
            rows: files.iter().filter_map(|file| file.n_rows).sum(),
            bytes: files.iter().map(|file| file.size_bytes).sum(),
        }
    }
}

impl Compacted {
    fn add(&mut self, other: Self) {
        self.files += other.files;
        self.into_files += other.into_files;
        self.rows += other.rows;
        self.bytes += other.bytes;
        self.into_bytes += other.into_bytes;
    }
}

fn staged(files: &[(std::path::PathBuf, u64)]) -> Deleted {
    Deleted {
        files: files.len(),
        bytes: files.iter().map(|(_, bytes)| bytes).sum(),
    }
}

impl fmt::Debug for Maintenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Maintenance")
            .field("target_file_bytes", &self.target_file_bytes)
            .field("retention_days", &self.retention_days)
            .field("vacuum_after", &self.vacuum_after)
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}
