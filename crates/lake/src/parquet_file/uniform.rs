//! Columns that compression makes larger.
//!
//! A column with one value in all rows, or with none, takes some bytes for each page: compressed it takes more. And a reader
//! makes a decompressor for each compressed column that it opens, whatever is in it, which costs some microseconds of a
//! statement that reads a few rows: zstd asks the processor what it can do, and a virtual machine answers slowly. Half of
//! the columns of `spans` are like that in most fleets.

use std::collections::HashSet;

use arrow::array::{Array, ArrayRef, AsArray as _, RecordBatch, make_comparator};
use arrow::compute::SortOptions;
use arrow::datatypes::DataType;
use parquet::basic::Compression;
use parquet::file::metadata::ParquetMetaData;
use parquet::schema::types::{ColumnPath, SchemaDescriptor};

use crate::layout::Layout;

/// Leaf columns, by their path.
pub(crate) type Leaves = HashSet<ColumnPath>;

/// The leaf columns with one value or none in all of these rows.
pub(crate) fn leaves(layout: &Layout, descriptor: &SchemaDescriptor, rows: &RecordBatch) -> Leaves {
    let schema = rows.schema();
    let columns = schema.fields().iter().zip(rows.columns());
    let uniform: HashSet<&str> = columns
        .filter(|(field, column)| {
            // Values that are not in a dictionary stand in the file as often as they come.
            let is_plain = layout.distinct.contains(&field.name().as_str());
            is_uniform(column, is_plain)
        })
        .map(|(field, _)| field.name().as_str())
        .collect();
    let all = descriptor.columns().iter().map(|leaf| leaf.path());
    let is_uniform = |path: &&ColumnPath| {
        let root = path.parts().first();
        root.is_some_and(|root| uniform.contains(root.as_str()))
    };
    all.filter(is_uniform).cloned().collect()
}

fn is_uniform(column: &ArrayRef, is_plain: bool) -> bool {
    if column.null_count() == column.len() {
        return true;
    }
    if column.null_count() > 0 || is_plain {
        return false;
    }
    match column.data_type() {
        // A bit for each row: there is no dictionary of two values.
        DataType::Boolean => false,
        DataType::List(_) => column
            .as_list_opt::<i32>()
            .is_some_and(|lists| is_empty(lists.offsets())),
        DataType::Map(_, _) => column
            .as_map_opt()
            .is_some_and(|maps| is_empty(maps.offsets())),
        _ => make_comparator(column, column, SortOptions::default())
            .is_ok_and(|compare| (1..column.len()).all(|row| compare(0, row).is_eq())),
    }
}

fn is_empty(offsets: &[i32]) -> bool {
    offsets.first() == offsets.last()
}

/// The leaf columns that are not compressed in any row group of a file.
pub(crate) fn uncompressed(file: &ParquetMetaData) -> Leaves {
    let mut leaves: Option<Leaves> = None;
    for group in file.row_groups() {
        let plain = group
            .columns()
            .iter()
            .filter(|chunk| chunk.compression() == Compression::UNCOMPRESSED)
            .map(|chunk| chunk.column_path().clone());
        let plain: Leaves = plain.collect();
        leaves = Some(match leaves {
            None => plain,
            Some(before) => before.intersection(&plain).cloned().collect(),
        });
    }
    leaves.unwrap_or_default()
}
