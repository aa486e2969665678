//! A file of a table as the Parquet reader asks for it.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt as _, TryFutureExt as _};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _};
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};

use crate::create;
use crate::data_file::DataFile;
use crate::error::Result;
use crate::table::Inner;

/// Bytes read from the end of a file at first; holds the footer of most files.
const FOOTER_BYTES: usize = 64 << 10;

/// One file; its size is known, so that its end is found without asking.
pub(crate) struct Object {
    store: Arc<dyn ObjectStore>,
    path: Path,
    size_bytes: u64,
}

impl Object {
    /// A file that the log of the table names.
    pub(crate) fn of(table: &Inner, file: &DataFile) -> Result<Self> {
        Ok(Self {
            store: Arc::clone(table.kernel.store()),
            path: create::object_path(&table.root, &file.path)?,
            size_bytes: file.size_bytes,
        })
    }
}

impl AsyncFileReader for Object {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, Result<Bytes, ParquetError>> {
        self.store
            .get_range(&self.path, range)
            .map_err(of_store)
            .boxed()
    }

    fn get_byte_ranges(
        &mut self,
        ranges: Vec<Range<u64>>,
    ) -> BoxFuture<'_, Result<Vec<Bytes>, ParquetError>> {
        async move {
            let bytes = self.store.get_ranges(&self.path, &ranges).await;
            bytes.map_err(of_store)
        }
        .boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, Result<Arc<ParquetMetaData>, ParquetError>> {
        async move {
            let size_bytes = self.size_bytes;
            let reader = ParquetMetaDataReader::new()
                .with_arrow_reader_options(options)
                .with_prefetch_hint(Some(FOOTER_BYTES));
            Ok(Arc::new(reader.load_and_finish(self, size_bytes).await?))
        }
        .boxed()
    }
}

fn of_store(error: object_store::Error) -> ParquetError {
    ParquetError::External(Box::new(error))
}
