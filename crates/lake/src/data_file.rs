//! The live files of a table, read from the Delta log: all at once, or what changed since.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray as _, MapArray, RecordBatch, StringArray, StructArray,
};
use arrow::compute::kernels::cast_utils::Parser as _;
use arrow::datatypes::{Date32Type, Int64Type};
use delta_kernel::engine::arrow_data::EngineDataArrowExt as _;
use delta_kernel::engine_data::FilteredEngineData;
use delta_kernel::{KernelError, SnapshotRef};
use tables::PARTITION;

use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::layout::Layout;
use crate::statistics::{self, ColumnStatistics};

/// One Parquet file of a table. Cheap to clone.
#[derive(Debug, Clone, PartialEq)]
pub struct DataFile {
    /// Relative to the table's root and URL-encoded, as in the log. For the place in the object
    /// store ask [`Table::object_path`](crate::Table::object_path).
    pub path: Arc<str>,
    /// Size of the file.
    pub size_bytes: u64,
    /// The partition: days since 1970, or none for rows without a date.
    pub date: Option<i32>,
    /// Rows in the file, where the log says so.
    pub n_rows: Option<u64>,
    /// One entry per column of the specification's `stats`, in its order; empty when the log has
    /// none for this file.
    pub statistics: Arc<[ColumnStatistics]>,
}

/// Reads all live files of a snapshot, in the order of the log.
pub(crate) fn all(
    kernel: &Kernel,
    layout: &Layout,
    snapshot: &SnapshotRef,
) -> Result<Vec<DataFile>> {
    let read = |source| read_log(layout, source);
    let scan = Arc::clone(snapshot)
        .scan_builder()
        .without_row_transforms()
        .build()
        .map_err(read)?;
    let mut files = Vec::new();
    for metadata in scan.scan_metadata(kernel.engine()).map_err(read)? {
        let (batch, selected) = rows(metadata.map_err(read)?.scan_files).map_err(read)?;
        let row = StructArray::from(batch);
        let constants = row
            .column_by_name("fileConstantValues")
            .and_then(|a| a.as_struct_opt());
        let partition = constants.and_then(|a| a.column_by_name("partitionValues"));
        push_files(layout, &row, partition, &selected, &mut files)?;
    }
    Ok(files)
}

/// Advances a list of files from the version `base` to `snapshot`, reading only the commits in
/// between. Falls back to [`all`] when those commits were folded into a checkpoint.
pub(crate) fn advanced(
    kernel: &Kernel,
    layout: &Layout,
    files: &[DataFile],
    base: u64,
    snapshot: &SnapshotRef,
) -> Result<Vec<DataFile>> {
    let read = |source| read_log(layout, source);
    let stream = Arc::clone(snapshot)
        .incremental_scan_builder(base)
        .build(kernel.engine())
        .map_err(read)?;
    let Some(stream) = stream else {
        return all(kernel, layout, snapshot);
    };
    let listing = stream.into_listing().map_err(read)?;
    let gone: HashSet<&str> = listing
        .summary
        .removes
        .iter()
        .chain(&listing.summary.live_adds)
        .map(|key| key.path())
        .collect();
    let mut advanced: Vec<_> = files
        .iter()
        .filter(|file| !gone.contains(&*file.path))
        .cloned()
        .collect();
    // Newest commit first; appended oldest first, as a full read would give them.
    for adds in listing.add_files.into_iter().rev() {
        let (batch, selected) = rows(adds).map_err(read)?;
        let Some(add) = batch.column_by_name("add").and_then(|a| a.as_struct_opt()) else {
            continue;
        };
        let partition = add.column_by_name("partitionValues");
        push_files(layout, add, partition, &selected, &mut advanced)?;
    }
    Ok(advanced)
}

fn read_log(layout: &Layout, source: KernelError) -> Error {
    Error::ReadLog {
        table: layout.name,
        source: Box::new(source),
    }
}

fn rows(data: FilteredEngineData) -> Result<(RecordBatch, Vec<bool>), KernelError> {
    let (data, selected) = data.into_parts();
    Ok((data.try_into_record_batch()?, selected))
}

/// Appends the files of the selected rows; rows past the end of `selected` are selected.
fn push_files(
    layout: &Layout,
    row: &StructArray,
    partition: Option<&ArrayRef>,
    selected: &[bool],
    files: &mut Vec<DataFile>,
) -> Result<()> {
    let strings = |name| {
        row.column_by_name(name)
            .and_then(|a| a.as_string_opt::<i32>())
    };
    let (paths, stats) = (strings("path"), strings("stats"));
    let sizes = row
        .column_by_name("size")
        .and_then(|a| a.as_primitive_opt::<Int64Type>());
    let vectors = row.column_by_name("deletionVector");
    let partition = partition.and_then(|a| a.as_map_opt());
    for idx in 0..row.len() {
        let path = text_at(paths, idx);
        let (true, Some(path)) = (selected.get(idx).copied().unwrap_or(true), path) else {
            continue;
        };
        let unsupported = |what: &str| Error::UnsupportedTable {
            table: layout.name,
            feature: format!("{what} (file `{path}`)"),
        };
        if vectors.is_some_and(|vectors| vectors.is_valid(idx)) {
            return Err(unsupported("deletion vectors"));
        }
        if path.contains("://") || path.starts_with('/') {
            return Err(unsupported("files outside of its folder"));
        }
        let size = sizes
            .filter(|sizes| sizes.is_valid(idx))
            .map(|sizes| sizes.value(idx));
        let size_bytes = size
            .and_then(|size| u64::try_from(size).ok())
            .ok_or_else(|| unsupported("a file without a size"))?;
        let date = match partition.and_then(|map| map_value(map, idx, PARTITION)) {
            Some(text) => Some(
                Date32Type::parse(&text).ok_or_else(|| unsupported("an unknown date format"))?,
            ),
            None => None,
        };
        let known = text_at(stats, idx)
            .map(|text| statistics::from_json(text, &layout.stats, &layout.schema))
            .unwrap_or_default();
        files.push(DataFile {
            path: path.into(),
            size_bytes,
            date,
            n_rows: known.n_rows,
            statistics: known.columns.into(),
        });
    }
    Ok(())
}

fn text_at(array: Option<&StringArray>, idx: usize) -> Option<&str> {
    array
        .filter(|array| array.is_valid(idx))
        .map(|array| array.value(idx))
}

fn map_value(map: &MapArray, idx: usize, key: &str) -> Option<String> {
    if map.is_null(idx) {
        return None;
    }
    let entries = map.value(idx);
    let keys = entries.column(0).as_string_opt::<i32>()?;
    let values = entries.column(1).as_string_opt::<i32>()?;
    (0..keys.len())
        .find(|&entry| keys.value(entry) == key && values.is_valid(entry))
        .map(|entry| values.value(entry).to_owned())
        .filter(|value| !value.is_empty())
}
