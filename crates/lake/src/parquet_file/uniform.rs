//! Columns that compression makes larger, and columns that need not be read at all.
//!
//! A column with one value in all rows, or with none, takes some bytes for each page: compressed it takes more. And a reader
//! makes a decompressor for each compressed column that it opens, whatever is in it, which costs some microseconds of a
//! statement that reads a few rows: zstd asks the processor what it can do, and a virtual machine answers slowly. Half of
//! the columns of `spans` are like that in most fleets.
//!
//! A list or map that is empty in every row has up to seven leaf columns, and no statistics that say so: they count what is
//! absent, not why. So the footer names such columns ([`EMPTY_COLUMNS`]), for readers that know it.

use std::collections::HashSet;

use arrow::array::{Array, ArrayRef, AsArray as _, RecordBatch, make_comparator};
use arrow::compute::SortOptions;
use arrow::datatypes::DataType;
use parquet::basic::Compression;
use parquet::file::metadata::{KeyValue, ParquetMetaData, RowGroupMetaData};
use parquet::schema::types::{ColumnPath, SchemaDescriptor};

use crate::layout::Layout;

/// Key in the metadata of a footer: names of the columns that have an empty list or map in every row, and NULL in none, with
/// commas between them.
pub(crate) const EMPTY_COLUMNS: &str = "whyslow.empty_columns";

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
        DataType::List(_) | DataType::Map(_, _) => is_empty(column),
        _ => make_comparator(column, column, SortOptions::default())
            .is_ok_and(|compare| (1..column.len()).all(|row| compare(0, row).is_eq())),
    }
}

/// Is there a list or map without items in every row?
fn is_empty(column: &ArrayRef) -> bool {
    let offsets = match column.data_type() {
        DataType::List(_) => column.as_list_opt::<i32>().map(|lists| lists.offsets()),
        DataType::Map(_, _) => column.as_map_opt().map(|maps| maps.offsets()),
        _ => None,
    };
    column.null_count() == 0 && offsets.is_some_and(|offsets| offsets.first() == offsets.last())
}

/// The columns that have been empty in all rows of a file so far.
#[derive(Debug, Default)]
pub(crate) struct Empty {
    /// `None` before the first row.
    columns: Option<Vec<String>>,
}

impl Empty {
    pub(crate) fn take(&mut self, rows: &RecordBatch) {
        if rows.num_rows() == 0 {
            return;
        }
        let is_empty_in = |name: &str| rows.column_by_name(name).is_some_and(is_empty);
        match &mut self.columns {
            Some(columns) => columns.retain(|name| is_empty_in(name)),
            None => {
                let schema = rows.schema();
                let names = schema.fields().iter().map(|field| field.name());
                self.columns = Some(names.filter(|name| is_empty_in(name)).cloned().collect());
            }
        }
    }

    /// What the footer says of them, if there are any.
    pub(crate) fn said(&self) -> Option<KeyValue> {
        let columns = self
            .columns
            .as_ref()
            .filter(|columns| !columns.is_empty())?;
        Some(KeyValue::new(EMPTY_COLUMNS.to_owned(), columns.join(",")))
    }
}

/// The columns with an empty list or map in every row, and NULL in none, as far as the footer of a file says: every
/// file that this crate writes does.
pub fn empty_columns(file: &ParquetMetaData) -> impl Iterator<Item = &str> {
    let said = file.file_metadata().key_value_metadata();
    let said = said.into_iter().flatten();
    let names = said.filter(|said| said.key == EMPTY_COLUMNS);
    names
        .filter_map(|said| said.value.as_deref())
        .flat_map(|names| names.split(','))
        .filter(|name| !name.is_empty())
}

/// The leaf columns that are not compressed in any row group of a file.
pub(crate) fn uncompressed(file: &ParquetMetaData) -> Leaves {
    let plain = |group: &RowGroupMetaData| -> Leaves {
        let chunks = group.columns().iter();
        let plain = chunks.filter(|chunk| chunk.compression() == Compression::UNCOMPRESSED);
        plain.map(|chunk| chunk.column_path().clone()).collect()
    };
    common(file.row_groups().iter().map(plain))
}

/// The leaf columns that are in all of these.
pub(crate) fn common(all: impl IntoIterator<Item = Leaves>) -> Leaves {
    let both = |some: Leaves, others: Leaves| some.intersection(&others).cloned().collect();
    all.into_iter().reduce(both).unwrap_or_default()
}
