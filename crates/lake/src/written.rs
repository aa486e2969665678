//! Parquet files that are in the store and not in the log yet.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{RecordBatch, StructArray};
use bytes::Bytes;
use delta_kernel::expressions::Scalar;
use delta_kernel::schema::DataType;
use delta_kernel::transaction::{BoundWriteContext, Transaction, WriteState};
use delta_kernel::{EngineData, FileMeta, KernelError, KernelResult};
use delta_kernel_default_engine::build_add_file_metadata;
use delta_kernel_default_engine::parquet::DataFileMetadata;
use delta_kernel_default_engine::stats::FileStatsAccumulator;
use object_store::ObjectStoreExt as _;
use object_store::path::Path;
use tables::PARTITION;
use url::Url;
use uuid::Uuid;

use crate::data_file::DataFile;
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::layout::Layout;
use crate::parquet_file::{self, SortedRows};
use crate::statistics;

/// One file that was written and checked.
#[derive(Debug)]
pub(crate) struct Written {
    date: Option<i32>,
    meta: FileMeta,
    path: Path,
    /// As the kernel's collector gives them: `numRecords`, `minValues`, ...
    stats: StructArray,
    pub(crate) n_rows: u64,
}

/// Writes rows as Parquet files, at least one per date; on an error those already written are
/// deleted again.
pub(crate) fn write(
    kernel: &Kernel,
    layout: &Layout,
    state: &Arc<WriteState>,
    rows: &[RecordBatch],
) -> Result<Vec<Written>> {
    let mut files = Vec::new();
    for chunk in parquet_file::chunks(rows) {
        let result = parquet_file::sorted_by_date(layout, chunk).and_then(|parts| {
            parts.iter().try_for_each(|part| {
                files.push(write_file(kernel, layout, state, part)?);
                Ok(())
            })
        });
        if let Err(error) = result {
            discard(kernel, &files);
            return Err(error);
        }
    }
    Ok(files)
}

fn write_file(
    kernel: &Kernel,
    layout: &Layout,
    state: &Arc<WriteState>,
    rows: &SortedRows,
) -> Result<Written> {
    let mut stats = stats_of(layout, state, rows.date)?;
    stats.merge(&rows.batch).map_err(refused(layout))?;
    let encoded = EncodedFile {
        date: rows.date,
        bytes: parquet_file::encoded(layout, &rows.batch)?,
        n_rows: u64::try_from(rows.batch.num_rows()).unwrap_or(u64::MAX),
        stats,
    };
    write_encoded(kernel, layout, state, encoded)
}

/// The content of a file that is not in the store yet.
pub(crate) struct EncodedFile {
    pub(crate) date: Option<i32>,
    pub(crate) bytes: Bytes,
    pub(crate) n_rows: u64,
    pub(crate) stats: FileStatsAccumulator,
}

/// Collects the statistics that the log wants of a file.
pub(crate) fn stats_of(
    layout: &Layout,
    state: &Arc<WriteState>,
    date: Option<i32>,
) -> Result<FileStatsAccumulator> {
    let context = write_context(state, date).map_err(refused(layout))?;
    let schema = context.physical_data_schema();
    Ok(FileStatsAccumulator::new(context.stats_columns(), schema))
}

fn refused(layout: &Layout) -> impl Fn(KernelError) -> Error {
    let table = layout.name;
    move |source| Error::ReadLog {
        table,
        source: Box::new(source),
    }
}

/// Writes one file under a fresh name.
pub(crate) fn write_encoded(
    kernel: &Kernel,
    layout: &Layout,
    state: &Arc<WriteState>,
    file: EncodedFile,
) -> Result<Written> {
    let refused = refused(layout);
    let context = write_context(state, file.date).map_err(&refused)?;
    let url = context
        .write_dir()
        .join(&format!("{}.parquet", Uuid::new_v4()))
        .map_err(|error| refused(error.into()))?;
    let path = Path::from_url_path(url.path()).map_err(|error| refused(error.into()))?;
    let stats = file
        .stats
        .finish()
        .and_then(|stats| stats.ok_or_else(|| KernelError::generic("a file without rows")))
        .map_err(refused)?;
    let meta = put_file(kernel, &path, url, file.bytes)?;
    Ok(Written {
        date: file.date,
        meta,
        path,
        stats,
        n_rows: file.n_rows,
    })
}

/// Puts a data file and asks the store for it: the log must not name a file that is cut, and the
/// modification time has to be the store's, not this machine's.
fn put_file(kernel: &Kernel, path: &Path, url: Url, bytes: Bytes) -> Result<FileMeta> {
    let store = kernel.store();
    let failed = |operation, source| Error::Store {
        operation,
        path: path.to_string(),
        source,
    };
    let expected = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    kernel
        .wait(store.put(path, bytes.into()))
        .map_err(|source| failed("write", source))?;
    let found = kernel
        .wait(store.head(path))
        .map_err(|source| failed("check", source))?;
    if found.size != expected {
        return Err(Error::SizeMismatch {
            path: path.to_string(),
            expected,
            found: found.size,
        });
    }
    Ok(FileMeta::new(
        url,
        found.last_modified.timestamp_millis(),
        found.size,
    ))
}

/// Deletes files that no version names. What cannot be deleted stays; it costs only space.
pub(crate) fn discard(kernel: &Kernel, files: &[Written]) {
    for file in files {
        if let Err(error) = kernel.wait(kernel.store().delete(&file.path)) {
            tracing::debug!(path = %file.path, %error, "an unused data file stays");
        }
    }
}

fn write_context(state: &Arc<WriteState>, date: Option<i32>) -> KernelResult<BoundWriteContext> {
    let date = date.map_or(Scalar::Null(DataType::DATE), Scalar::Date);
    state
        .write_context_builder()
        .with_partition_values(HashMap::from([(PARTITION.to_owned(), date)]))
        .build()
}

impl Written {
    /// Size in the store.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.meta.size
    }

    /// Adds the file to a transaction.
    pub(crate) fn add_to(&self, transaction: &mut Transaction) -> KernelResult<()> {
        let add: Box<dyn EngineData> = {
            let context = write_context(&transaction.write_state()?, self.date)?;
            let metadata = DataFileMetadata::new(self.meta.clone(), self.stats.clone());
            build_add_file_metadata(metadata, &context)?
        };
        transaction.add_files(add);
        Ok(())
    }

    /// The file as a reader of the log sees it; `root` is the table's root by the kernel. `None`
    /// when the file is not below the root.
    pub(crate) fn data_file(&self, layout: &Layout, root: &Url) -> Option<DataFile> {
        let known = statistics::from_collected(&self.stats, &layout.stats);
        Some(DataFile {
            path: root.make_relative(&self.meta.location)?.into(),
            size_bytes: self.meta.size,
            date: self.date,
            n_rows: known.n_rows,
            statistics: known.columns.into(),
        })
    }
}
