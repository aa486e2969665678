//! Many small files of a date into few large ones.
//!
//! The plan, per date: files below half of the target size are taken from the smallest on, as long
//! as none is more than twice as large as all before it together. A row is therefore rewritten only
//! into a file at least half as large again, a few times in all, however often maintenance runs. The
//! files are split, in the order of the log, into groups of at most the target size and
//! [`GROUP_FILES_MAX`] files; each group becomes one file, in one version.
//!
//! What a crash leaves, after each step of one group:
//!
//! 1. read the files (nothing);
//! 2. write the new file (an orphan, which vacuum finds when it is old enough);
//! 3. put the version that removes the files and adds the new one (complete: the old files stay in
//!    the store, for queries that planned on them, until vacuum).

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use delta_kernel::committer::FileSystemCommitter;
use object_store::ObjectStoreExt as _;

use super::Compacted;
use super::merge;
use super::replace::{Replaced, Replacement};
use crate::create;
use crate::data_file::DataFile;
use crate::error::{Error, Result};
use crate::table::Inner;
use crate::written::{self, EncodedFile};

/// Files that are merged at once: each has decoded rows in memory.
const GROUP_FILES_MAX: usize = 128;

/// Groups of files to merge, each of one date.
pub(crate) fn plan(
    files: &[DataFile],
    target_bytes: u64,
    left_alone: &HashSet<Arc<str>>,
) -> Vec<Vec<DataFile>> {
    let mut dates: BTreeMap<Option<i32>, Vec<&DataFile>> = BTreeMap::new();
    for file in files {
        if file.size_bytes < target_bytes / 2 && !left_alone.contains(&file.path) {
            dates.entry(file.date).or_default().push(file);
        }
    }
    dates
        .into_values()
        .flat_map(|files| groups(worthwhile(&files), target_bytes))
        .collect()
}

/// Of the files of one date those that are worth rewriting, in their order.
fn worthwhile<'a>(files: &[&'a DataFile]) -> Vec<&'a DataFile> {
    let mut sizes: Vec<u64> = files.iter().map(|file| file.size_bytes).collect();
    sizes.sort_unstable();
    let mut before = 0_u64;
    let mut size_max = None;
    for (idx, size) in sizes.into_iter().enumerate() {
        if idx > 0 && size <= before.saturating_mul(2) {
            size_max = Some(size);
        }
        before = before.saturating_add(size);
    }
    let is_small = |file: &&&DataFile| size_max.is_some_and(|max| file.size_bytes <= max);
    files.iter().filter(is_small).copied().collect()
}

fn groups(files: Vec<&DataFile>, target_bytes: u64) -> Vec<Vec<DataFile>> {
    let mut groups = Vec::new();
    let mut group: Vec<DataFile> = Vec::new();
    let mut bytes = 0_u64;
    for file in files {
        let is_full =
            bytes.saturating_add(file.size_bytes) > target_bytes || group.len() == GROUP_FILES_MAX;
        if is_full {
            groups.push(std::mem::take(&mut group));
            bytes = 0;
        }
        bytes = bytes.saturating_add(file.size_bytes);
        group.push(file.clone());
    }
    groups.push(group);
    groups.retain(|group| group.len() > 1);
    groups
}

impl Inner {
    /// Merges the files of a group. `None` when somebody else has removed one of them meanwhile.
    pub(crate) fn compact(&self, group: &[DataFile]) -> Result<Option<Compacted>> {
        let Some(first) = group.first() else {
            return Ok(None);
        };
        let snapshot = Arc::clone(&self.tip().snapshot);
        let state = snapshot
            .update_table(
                delta_kernel::transaction::UpdateTableOperation::Optimize,
                create::ENGINE_INFO,
                false,
            )
            .build(self.kernel.engine(), Box::new(FileSystemCommitter::new()))
            .and_then(|transaction| transaction.write_state())
            .map_err(|source| self.read_log(source))?;
        let inputs = group
            .iter()
            .map(|file| Ok((Arc::clone(&file.path), self.content(file)?)))
            .collect::<Result<Vec<_>>>()?;
        let mut stats = written::stats_of(&self.layout, &state, first.date)?;
        let (bytes, n_rows) = merge::merged(&self.layout, inputs, &mut stats)?;
        self.check_rows(group, n_rows)?;
        let encoded = EncodedFile {
            date: first.date,
            bytes,
            n_rows,
            stats,
        };
        let added = [written::write_encoded(
            &self.kernel,
            &self.layout,
            &state,
            encoded,
        )?];
        let replacement = Replacement {
            removed: group,
            added: &added,
        };
        Ok(match self.replace(&replacement)? {
            Replaced::Stale => None,
            Replaced::Done => Some(Compacted {
                files: group.len(),
                into_files: added.len(),
                rows: n_rows,
                bytes: group.iter().map(|file| file.size_bytes).sum(),
                into_bytes: added.iter().map(written::Written::size_bytes).sum(),
            }),
        })
    }

    /// The bytes of a live file, as many as the log says.
    fn content(&self, file: &DataFile) -> Result<Bytes> {
        let path = create::object_path(&self.root, &file.path)?;
        let failed = |source| Error::store("read", &path, source);
        let bytes = self
            .kernel
            .wait(async { self.kernel.store().get(&path).await?.bytes().await })
            .map_err(failed)?;
        let found = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        if found == file.size_bytes {
            Ok(bytes)
        } else {
            Err(Error::SizeMismatch {
                path: path.to_string(),
                expected: file.size_bytes,
                found,
            })
        }
    }

    /// No row is lost or doubled by a merge: the log's counts are another witness than the footers.
    fn check_rows(&self, group: &[DataFile], found: u64) -> Result<()> {
        let expected: Option<u64> = group.iter().map(|file| file.n_rows).sum();
        match expected {
            Some(expected) if expected != found => Err(Error::RowCount {
                table: self.layout.name,
                expected,
                found,
            }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{DataFile, GROUP_FILES_MAX, plan};
    use std::collections::HashSet;
    use std::sync::Arc;

    fn file(date: i32, idx: usize, size_bytes: u64) -> DataFile {
        DataFile {
            path: format!("date={date}/{idx}").into(),
            size_bytes,
            date: Some(date),
            n_rows: Some(1),
            statistics: [].into(),
        }
    }

    fn check(sizes: &[u64], expected: &[&[u64]]) {
        let files: Vec<_> = sizes
            .iter()
            .enumerate()
            .map(|(idx, size)| file(1, idx, *size))
            .collect();
        let groups: Vec<Vec<u64>> = plan(&files, 100, &HashSet::new())
            .iter()
            .map(|group| group.iter().map(|file| file.size_bytes).collect())
            .collect();
        assert_eq!(groups, expected, "{sizes:?}");
    }

    #[test]
    fn files_are_merged_only_into_one_at_least_half_as_large_again() {
        check(&[], &[]);
        check(&[1], &[]);
        check(&[1, 1], &[&[1, 1]]);
        check(&[2, 1], &[&[2, 1]]);
        check(&[3, 1], &[]);
        check(&[2, 1, 1], &[&[2, 1, 1]]);
        check(&[40, 1, 2, 1], &[&[1, 2, 1]]);
        check(&[49, 49, 1], &[&[49, 49, 1]]);
        check(&[49, 49, 49, 49], &[&[49, 49], &[49, 49]]);
        check(&[50, 50, 99, 200], &[]);
    }

    #[test]
    fn a_row_is_rewritten_a_few_times_however_often_maintenance_runs() {
        let (mut files, mut written): (Vec<DataFile>, u64) = (Vec::new(), 0);
        for idx in 0..1_000 {
            files.push(file(1, idx, 1));
            for group in plan(&files, 128, &HashSet::new()) {
                let bytes: u64 = group.iter().map(|file| file.size_bytes).sum();
                written += bytes;
                files.retain(|file| group.iter().all(|merged| merged.path != file.path));
                files.push(file(1, 10_000 + idx, bytes));
            }
        }
        assert!(written <= 8 * 1_000, "{written} bytes for 1000");
        assert!(files.len() <= 24, "{} files", files.len());
    }

    #[test]
    fn dates_are_apart_and_groups_are_bounded() {
        let mut files: Vec<_> = (0..300).map(|idx| file(1, idx, 0)).collect();
        files.push(file(2, 0, 1));
        let groups = plan(&files, 100, &HashSet::new());
        let sizes: Vec<_> = groups.iter().map(Vec::len).collect();
        assert_eq!(sizes, [GROUP_FILES_MAX, GROUP_FILES_MAX, 44]);
        let left_alone = files.iter().map(|file| Arc::clone(&file.path)).collect();
        assert_eq!(plan(&files, 100, &left_alone), Vec::<Vec<DataFile>>::new());
    }
}
