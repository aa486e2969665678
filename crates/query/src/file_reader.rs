//! Readers of Parquet files that get a footer with its page index, once for each file.
//!
//! DataFusion asks for a footer without page index first and reads the index when a file is opened, for each statement
//! anew: only what the first look returned is kept in its cache. Here the first look returns both, so that the cache
//! has both. With 84 columns in a file, decoding the index is a tenth of the cost of one trace by its id.
//!
//! Does not: know which pages are wanted.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::common::Result as DataFusionResult;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::ParquetFileReaderFactory;
use datafusion::datasource::physical_plan::parquet::CachedParquetFileReaderFactory;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::future::BoxFuture;
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::errors::Result as ParquetResult;
use parquet::file::metadata::ParquetMetaData;

/// Makes the readers.
#[derive(Debug)]
pub(crate) struct ReaderFactory {
    cached: CachedParquetFileReaderFactory,
}

impl ReaderFactory {
    /// Over what keeps footers.
    pub(crate) fn new(cached: CachedParquetFileReaderFactory) -> Self {
        Self { cached }
    }
}

impl ParquetFileReaderFactory for ReaderFactory {
    fn create_reader(
        &self,
        partition_index: usize,
        file: PartitionedFile,
        metadata_size_hint: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> DataFusionResult<Box<dyn AsyncFileReader + Send>> {
        let reader =
            self.cached
                .create_reader(partition_index, file, metadata_size_hint, metrics)?;
        Ok(Box::new(Reader { reader }))
    }
}

struct Reader {
    reader: Box<dyn AsyncFileReader + Send>,
}

impl AsyncFileReader for Reader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, ParquetResult<Bytes>> {
        self.reader.get_bytes(range)
    }

    fn get_byte_ranges(
        &mut self,
        ranges: Vec<Range<u64>>,
    ) -> BoxFuture<'_, ParquetResult<Vec<Bytes>>> {
        self.reader.get_byte_ranges(ranges)
    }

    fn get_metadata<'a>(
        &'a mut self,
        _options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, ParquetResult<Arc<ParquetMetaData>>> {
        // The options ask to skip the index. Without any, the cache decides, and it wants it.
        self.reader.get_metadata(None)
    }
}
