//! All rows of one file, for a reader that keeps small files in memory.
//!
//! Limits first: the caller says how much Arrow memory the rows may take; at most [`READ_ROWS`] more are decoded before
//! it is noticed that they take more.

use std::sync::Arc;

use arrow::array::{ArrayRef, Date32Array, RecordBatch, RecordBatchOptions};
use arrow::compute::concat_batches;
use futures::StreamExt as _;
use parquet::arrow::ParquetRecordBatchStreamBuilder;
use parquet::errors::ParquetError;

use crate::data_file::DataFile;
use crate::error::Result;
use crate::object::Object;
use crate::parquet_file;
use crate::table::{Inner, Table};

/// Rows that are decoded at once.
const READ_ROWS: usize = 512;

impl Table {
    /// The rows of a file with all columns, the partition column included, in the file's order; `None` where they take
    /// more than `bytes_max` of Arrow memory. A column that the file lacks is NULL.
    ///
    /// # Errors
    ///
    /// [`Error::ReadFile`](crate::Error::ReadFile) where the file is damaged or missing, or the store does not answer.
    pub async fn file_rows(
        &self,
        file: &DataFile,
        bytes_max: usize,
    ) -> Result<Option<RecordBatch>> {
        let object = Object::of(&self.inner, file)?;
        let rows = rows(&self.inner, file, object, bytes_max).await;
        rows.map_err(|source| self.inner.read_file(file, source))
    }
}

async fn rows(
    table: &Inner,
    file: &DataFile,
    object: Object,
    bytes_max: usize,
) -> Result<Option<RecordBatch>, ParquetError> {
    let builder = ParquetRecordBatchStreamBuilder::new(object).await?;
    let mut stream = builder.with_batch_size(READ_ROWS).build()?;
    let mut batches = Vec::new();
    let mut n_bytes = 0_usize;
    while let Some(batch) = stream.next().await {
        let batch = parquet_file::conformed(&table.layout.file_schema, &batch?)?;
        n_bytes = n_bytes.saturating_add(batch.get_array_memory_size());
        if n_bytes > bytes_max {
            return Ok(None);
        }
        batches.push(batch);
    }
    let in_file = concat_batches(&table.layout.file_schema, &batches)?;
    let n_rows = in_file.num_rows();
    let date: ArrayRef = Arc::new(std::iter::repeat_n(file.date, n_rows).collect::<Date32Array>());
    let mut columns = in_file.columns().to_vec();
    columns.insert(table.layout.partition_idx, date);
    let options = RecordBatchOptions::new().with_row_count(Some(n_rows));
    let schema = Arc::clone(&table.layout.schema);
    Ok(Some(RecordBatch::try_new_with_options(
        schema, columns, &options,
    )?))
}
