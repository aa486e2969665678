//! Rows as a Parquet file.
//!
//! A row group goes out when it has [`GROUP_ROWS`] rows or [`GROUP_BYTES`] of memory, so that an answer of any length
//! needs memory for one.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

/// Rows of a row group at most, as in the tables of `lake`.
const GROUP_ROWS: usize = 64 * 1024;

/// Memory that a row group takes before it is written.
const GROUP_BYTES: usize = 32 * 1024 * 1024;

pub(crate) struct Encoder {
    writer: ArrowWriter<Vec<u8>>,
}

impl Encoder {
    pub(crate) fn new(schema: &SchemaRef) -> Result<Self, ArrowError> {
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_max_row_group_row_count(Some(GROUP_ROWS))
            .build();
        let writer = ArrowWriter::try_new(Vec::new(), SchemaRef::clone(schema), Some(properties))?;
        Ok(Self { writer })
    }

    /// What is finished after this batch; mostly nothing.
    pub(crate) fn batch(&mut self, batch: &RecordBatch) -> Result<Bytes, ArrowError> {
        self.writer.write(batch)?;
        if self.writer.in_progress_size() >= GROUP_BYTES {
            self.writer.flush()?;
        }
        Ok(self.take())
    }

    /// The last row group and the footer.
    pub(crate) fn end(&mut self) -> Result<Bytes, ArrowError> {
        self.writer.finish()?;
        Ok(self.take())
    }

    fn take(&mut self) -> Bytes {
        Bytes::from(std::mem::take(self.writer.inner_mut()))
    }
}
