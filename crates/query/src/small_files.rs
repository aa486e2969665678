//! Rows of small files, kept in memory as they are.
//!
//! Limits first: rows take at most [`Config::small_files_mib`](crate::Config::small_files_mib), shared evenly by the tables.
//! A file is small up to [`ROWS_MAX`] rows and [`FILE_BYTES_MAX`], if its rows take at most [`SHARE_OF_FILE`] of
//! what its table may keep. Other files, and those for which there is no room ([`Newest`]), are read by each statement.
//!
//! A commit every half minute leaves files of some hundred rows, until they are merged. To open one costs a statement a
//! millisecond for a table of sixty columns, whatever is in it, and a list of the last hour opens twenty of each
//! table. Their rows are less work than that: a scan takes them from here, beside the rows that are in no file yet.
//!
//! A file whose rows cannot be read here is read by the statement, and its error is the statement's then.

use std::collections::HashMap;

use arrow::array::RecordBatch;
use async_trait::async_trait;
use lake::{DataFile, Lake, Table};

use crate::id_index::Candidate;
use crate::newest::{Kept, Newest, Reader};

/// Rows of a small file.
const ROWS_MAX: u64 = 4096;

/// Bytes of a small file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// What one file may take of the memory of its table: one in so many.
const SHARE_OF_FILE: usize = 4;

/// Small files of all tables of a lake.
#[derive(Debug)]
pub(crate) struct SmallFiles {
    tables: HashMap<&'static str, Newest<Rows>>,
}

/// What is known of a small file.
#[derive(Debug)]
enum Rows {
    /// All rows, all columns of the table.
    All(RecordBatch, usize),
    /// The file is small and its rows are not.
    TooLarge,
}

impl Kept for Rows {
    fn n_bytes(&self) -> usize {
        let rows = match self {
            Self::All(_, n_bytes) => *n_bytes,
            Self::TooLarge => 0,
        };
        size_of::<Self>() + rows
    }
}

impl SmallFiles {
    pub(crate) fn new(lake: &Lake, bytes_max: usize) -> Self {
        let share = bytes_max
            .checked_div(lake.tables().len())
            .unwrap_or_default();
        let tables = lake.tables().iter();
        Self {
            tables: tables
                .map(|table| (table.spec().name, Newest::new(share)))
                .collect(),
        }
    }

    /// Takes the small ones out of `files`, which are among the `live` ones of the table: their rows, oldest commit first.
    pub(crate) async fn taken_from(
        &self,
        files: &mut Vec<Candidate<'_>>,
        table: &Table,
        live: &[DataFile],
    ) -> Vec<RecordBatch> {
        let Some(kept) = self.tables.get(table.spec().name) else {
            return Vec::new();
        };
        let small: Vec<&DataFile> = files
            .iter()
            .map(|candidate| candidate.file)
            .filter(|file| is_small(file))
            .collect();
        if small.is_empty() {
            return Vec::new();
        }
        let reader = RowReader {
            table,
            bytes_max: kept.bytes_max() / SHARE_OF_FILE,
        };
        kept.read_missing(live, &small, &reader).await;
        let known = kept.known();
        let mut taken = Vec::new();
        files.retain(|candidate| match known.get(candidate.file) {
            Some(Rows::All(rows, _)) => {
                taken.push(rows.clone());
                false
            }
            Some(Rows::TooLarge) | None => true,
        });
        tracing::debug!(n_files = taken.len(), "small files taken from memory");
        taken
    }

    /// Memory of all rows.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.tables
            .values()
            .map(|kept| kept.known().n_bytes())
            .sum()
    }
}

fn is_small(file: &DataFile) -> bool {
    file.size_bytes <= FILE_BYTES_MAX && file.n_rows.is_some_and(|n_rows| n_rows <= ROWS_MAX)
}

struct RowReader<'a> {
    table: &'a Table,
    bytes_max: usize,
}

#[async_trait]
impl Reader<Rows> for RowReader<'_> {
    async fn read(&self, file: &DataFile) -> Option<Rows> {
        match self.table.file_rows(file, self.bytes_max).await {
            Ok(Some(rows)) => {
                let n_bytes = rows.get_array_memory_size();
                Some(Rows::All(rows, n_bytes))
            }
            Ok(None) => Some(Rows::TooLarge),
            Err(error) => {
                tracing::debug!(path = %file.path, %error, "a small file cannot be read");
                None
            }
        }
    }
}
