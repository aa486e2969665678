//! Several sorted files into one, row by row, without decoding any of them whole.
//!
//! Limits first: in memory are the encoded input files (their sizes are bounded by the plan), the
//! encoded output, [`READ_ROWS`] decoded rows per input and [`WRITE_ROWS`] decoded rows of output.
//!
//! A file whose footer does not declare the order of the table was written by another program or
//! version; it is decoded whole and sorted. Columns that a file lacks are NULL, as they are when it
//! is read.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::SortColumn;
use arrow::compute::{
    concat_batches, interleave_record_batch, lexsort_to_indices, take_record_batch,
};
use arrow::error::ArrowError;
use arrow::row::{OwnedRow, RowConverter, Rows, SortField};
use bytes::Bytes;
use delta_kernel_default_engine::stats::FileStatsAccumulator;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::errors::ParquetError;

use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::parquet_file::uniform::{self, Leaves};
use crate::parquet_file::{self, Encoder, ZSTD_LEVEL_COMPACTION};

/// Rows of one input that are decoded at once.
const READ_ROWS: usize = 512;
/// Rows of the output that are encoded at once.
const WRITE_ROWS: usize = 8 << 10;

/// Merges encoded files; returns the encoded result and its number of rows.
pub(crate) fn merged(
    layout: &Layout,
    inputs: Vec<(Arc<str>, Bytes)>,
    stats: &mut FileStatsAccumulator,
) -> Result<(Bytes, u64)> {
    let mut n_expected = 0_u64;
    let mut plain = Vec::with_capacity(inputs.len());
    let mut cursors = Vec::with_capacity(inputs.len());
    for (path, bytes) in inputs {
        let input = open(layout, bytes).map_err(|source| layout.unreadable(&path, source))?;
        n_expected = n_expected.saturating_add(input.n_rows);
        plain.push(input.plain);
        cursors.push(Cursor::new(path, input.batches));
    }
    let mut merge = Merge::new(layout, cursors)?;
    let first = merge.next()?;
    // What is uniform in each of the files need not be so in all of them: the first rows are of several.
    if let Some(rows) = &first {
        plain.push(parquet_file::uniform_leaves(layout, rows)?);
    }
    let plain = uniform::common(plain);
    let mut encoder = Encoder::new(layout, ZSTD_LEVEL_COMPACTION, &plain)?;
    let mut n_rows = 0_u64;
    let mut next = first;
    while let Some(rows) = next {
        stats.merge(&rows).map_err(|source| Error::ReadLog {
            table: layout.name,
            source: Box::new(source),
        })?;
        encoder.write(&rows)?;
        n_rows = n_rows.saturating_add(u64::try_from(rows.num_rows()).unwrap_or(u64::MAX));
        next = merge.next()?;
    }
    if n_rows != n_expected {
        return Err(Error::RowCount {
            table: layout.name,
            expected: n_expected,
            found: n_rows,
        });
    }
    Ok((encoder.finish()?, n_rows))
}

type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>>>;

/// A file that is to be merged.
struct Input {
    /// By its footer.
    n_rows: u64,
    /// Its leaf columns without compression.
    plain: Leaves,
    /// Its rows in the order of the table.
    batches: Batches,
}

fn open(layout: &Layout, bytes: Bytes) -> Result<Input, ParquetError> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(bytes)?;
    let metadata = Arc::clone(builder.metadata());
    let n_rows = u64::try_from(metadata.file_metadata().num_rows()).unwrap_or_default();
    let plain = uniform::uncompressed(&metadata);
    let reader = builder.with_batch_size(READ_ROWS).build()?;
    if parquet_file::is_declared_sorted(layout, &metadata) {
        return Ok(Input {
            n_rows,
            plain,
            batches: Box::new(reader),
        });
    }
    let batches = reader
        .map(|batch| parquet_file::conformed(&layout.file_schema, &batch?))
        .collect::<Result<Vec<_>, ArrowError>>()?;
    let rows = sorted(layout, &concat_batches(&layout.file_schema, &batches)?)?;
    let starts = (0..rows.num_rows()).step_by(READ_ROWS);
    let slices: Vec<_> = starts
        .map(|start| Ok(rows.slice(start, READ_ROWS.min(rows.num_rows() - start))))
        .collect();
    Ok(Input {
        n_rows,
        plain,
        batches: Box::new(slices.into_iter()),
    })
}

fn sorted(layout: &Layout, rows: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let mut keys = Vec::with_capacity(layout.sort.len());
    for key in &layout.sort {
        keys.push(SortColumn {
            values: Arc::clone(rows.column(rows.schema_ref().index_of(key.column)?)),
            options: Some(parquet_file::sort_options(key)),
        });
    }
    take_record_batch(rows, &lexsort_to_indices(&keys, None)?)
}

/// One input and where the merge is in it.
struct Cursor {
    path: Arc<str>,
    batches: Batches,
    keys: Option<Rows>,
    /// Index of the current batch in [`Merge::held`].
    held_idx: usize,
    row_idx: usize,
    n_rows: usize,
}

impl Cursor {
    fn new(path: Arc<str>, batches: Batches) -> Self {
        Self {
            path,
            batches,
            keys: None,
            held_idx: 0,
            row_idx: 0,
            n_rows: 0,
        }
    }

    fn key(&self) -> Option<OwnedRow> {
        let keys = self.keys.as_ref()?;
        (self.row_idx < self.n_rows).then(|| keys.row(self.row_idx).owned())
    }
}

struct Merge<'a> {
    layout: &'a Layout,
    converter: RowConverter,
    cursors: Vec<Cursor>,
    /// The next row of every cursor that has one.
    heads: BinaryHeap<Reverse<(OwnedRow, usize)>>,
    /// Batches that hold pending rows, or rows still to come.
    held: Vec<RecordBatch>,
    /// Batch and row of the output that is not handed on yet.
    pending: Vec<(usize, usize)>,
}

impl<'a> Merge<'a> {
    fn new(layout: &'a Layout, cursors: Vec<Cursor>) -> Result<Self> {
        let fields = layout
            .sort
            .iter()
            .map(|key| {
                let field = layout.file_schema.field_with_name(key.column)?;
                let options = parquet_file::sort_options(key);
                Ok(SortField::new_with_options(
                    field.data_type().clone(),
                    options,
                ))
            })
            .collect::<Result<Vec<_>, ArrowError>>();
        let converter = fields
            .and_then(RowConverter::new)
            .map_err(|source| unsortable(layout, source))?;
        let mut merge = Self {
            layout,
            converter,
            heads: BinaryHeap::with_capacity(cursors.len()),
            held: Vec::new(),
            pending: Vec::with_capacity(WRITE_ROWS),
            cursors,
        };
        for cursor_idx in 0..merge.cursors.len() {
            merge.load(cursor_idx)?;
        }
        Ok(merge)
    }

    /// The next rows of the output.
    fn next(&mut self) -> Result<Option<RecordBatch>> {
        while self.pending.len() < WRITE_ROWS {
            let Some(Reverse((_, cursor_idx))) = self.heads.pop() else {
                break;
            };
            self.take_run(cursor_idx)?;
        }
        if self.pending.is_empty() {
            return Ok(None);
        }
        let held: Vec<&RecordBatch> = self.held.iter().collect();
        let rows = interleave_record_batch(&held, &self.pending)
            .map_err(|source| unsortable(self.layout, source))?;
        self.pending.clear();
        self.let_go();
        Ok(Some(rows))
    }

    /// Takes rows of a cursor up to the next row of any other, or to the end of its batch.
    fn take_run(&mut self, cursor_idx: usize) -> Result<()> {
        let limit = self.heads.peek().map(|Reverse((key, _))| key.row());
        let cursor = &mut self.cursors[cursor_idx];
        let Some(keys) = &cursor.keys else {
            return Ok(());
        };
        let room = WRITE_ROWS.saturating_sub(self.pending.len()).max(1);
        let end = cursor.n_rows.min(cursor.row_idx.saturating_add(room));
        let first = cursor.row_idx;
        while cursor.row_idx < end
            && (cursor.row_idx == first
                || limit.is_none_or(|limit| keys.row(cursor.row_idx) <= limit))
        {
            self.pending.push((cursor.held_idx, cursor.row_idx));
            cursor.row_idx += 1;
        }
        if let Some(key) = cursor.key() {
            self.heads.push(Reverse((key, cursor_idx)));
            Ok(())
        } else {
            self.load(cursor_idx)
        }
    }

    /// Reads the next batch of a cursor; at its end it has no next row.
    fn load(&mut self, cursor_idx: usize) -> Result<()> {
        let cursor = &mut self.cursors[cursor_idx];
        for batch in cursor.batches.by_ref() {
            let rows = batch
                .and_then(|batch| parquet_file::conformed(&self.layout.file_schema, &batch))
                .map_err(|source| self.layout.unreadable(&cursor.path, source.into()))?;
            if rows.num_rows() == 0 {
                continue;
            }
            let columns: Vec<_> = self
                .layout
                .sort
                .iter()
                .filter_map(|key| rows.column_by_name(key.column).cloned())
                .collect();
            let keys = self
                .converter
                .convert_columns(&columns)
                .map_err(|source| unsortable(self.layout, source))?;
            cursor.keys = Some(keys);
            cursor.held_idx = self.held.len();
            cursor.row_idx = 0;
            cursor.n_rows = rows.num_rows();
            self.held.push(rows);
            if let Some(key) = cursor.key() {
                self.heads.push(Reverse((key, cursor_idx)));
            }
            return Ok(());
        }
        cursor.keys = None;
        Ok(())
    }

    /// Lets go of all batches but the current ones.
    fn let_go(&mut self) {
        let mut held = Vec::with_capacity(self.cursors.len());
        for cursor in self
            .cursors
            .iter_mut()
            .filter(|cursor| cursor.keys.is_some())
        {
            held.push(self.held[cursor.held_idx].clone());
            cursor.held_idx = held.len() - 1;
        }
        self.held = held;
    }
}

fn unsortable(layout: &Layout, source: ArrowError) -> Error {
    Error::Sort {
        table: layout.name,
        source,
    }
}
