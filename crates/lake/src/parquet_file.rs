//! How rows become Parquet files.
//!
//! Limits first: a file is made from at most [`CHUNK_BYTES_MAX`] of Arrow memory, so that 32 bit
//! string offsets cannot overflow and a commit never holds more than one chunk twice.
//!
//! Per file: one partition (`date`, which is not a column of the file), rows sorted by the
//! specification's order with that order in the footer's `sorting_columns`, row groups of 64 Ki rows
//! (one unit of pruning and of a top-N scan), pages of 8 Ki rows (some Ki where values are distinct), zstd 1 (6 when files are merged, but for ids; none where
//! it gains nothing, see [`uniform`]),
//! bloom filters of 0.1 % on the id columns. Page statistics on the columns that sort, prune or look up;
//! row group statistics on other plain columns; none inside of maps and lists, where no reader uses
//! them. Dictionaries everywhere but in columns whose values hardly ever come twice
//! ([`tables::Column::distinct`]).

pub(crate) mod uniform;

use std::sync::Arc;

use arrow::array::{
    Array as _, ArrayRef, AsArray as _, RecordBatch, RecordBatchOptions, new_null_array,
};
use arrow::compute::{
    SortColumn, SortOptions, cast, concat_batches, lexsort_to_indices, partition, take_record_batch,
};
use arrow::datatypes::{DataType, Date32Type, SchemaRef};
use arrow::error::ArrowError;
use bytes::Bytes;
use parquet::arrow::{ArrowSchemaConverter, ArrowWriter};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, SortingColumn};
use parquet::file::properties::{BloomFilterPosition, EnabledStatistics, WriterProperties};
use parquet::schema::types::{ColumnPath, SchemaDescriptor};

use crate::error::{Error, Result};
use crate::layout::{Layout, SortBy};
use uniform::{Empty, Leaves};

/// Arrow memory from which one file per partition is made.
pub(crate) const CHUNK_BYTES_MAX: usize = 512 << 20;
const ROW_GROUP_ROWS: usize = 64 << 10;
const PAGE_ROWS: usize = 8 << 10;
/// A page of a column without a dictionary holds fewer rows: to find a row, a page is decompressed up to it, and these columns
/// are the large ones. With smaller pages, the smallest and largest id of each say more, too.
const DISTINCT_TEXT_PAGE_BYTES: usize = 64 << 10;
/// Ids that statements look for: all pages whose bounds allow one are read before any other column, and one in a row group
/// has rows of several minutes, each with its own order.
const SOUGHT_TEXT_PAGE_BYTES: usize = 32 << 10;
/// The same for numbers and times, of which a difference of some bytes is stored.
const DISTINCT_PAGE_BYTES: usize = 16 << 10;
const ZSTD_LEVEL_FLUSH: i32 = 1;
/// Rows that stay are worth the time.
pub(crate) const ZSTD_LEVEL_COMPACTION: i32 = 6;
/// Texts of which hardly any comes twice are ids in hex digits: higher levels look for longer matches, which these do not
/// have, and the columns become larger.
const ZSTD_LEVEL_IDS: i32 = 1;
/// A trace is sought in every row group there is: at one in a hundred, one of ten million spans would be looked for in two or
/// three row groups more than have it.
const BLOOM_FALSE_POSITIVES: f64 = 0.001;
const CREATED_BY: &str = concat!("whyslow ", env!("CARGO_PKG_VERSION"));

/// The rows of one file, in their order, without the partition column.
#[derive(Debug)]
pub(crate) struct SortedRows {
    /// Days since 1970.
    pub(crate) date: Option<i32>,
    pub(crate) batch: RecordBatch,
}

/// Groups batches into chunks of at most [`CHUNK_BYTES_MAX`] (or one batch, if it is larger).
pub(crate) fn chunks(batches: &[RecordBatch]) -> Vec<&[RecordBatch]> {
    let mut chunks = Vec::new();
    let mut start = 0;
    let mut bytes = 0_usize;
    for (idx, batch) in batches.iter().enumerate() {
        let batch_bytes = batch.get_array_memory_size();
        if idx > start && bytes.saturating_add(batch_bytes) > CHUNK_BYTES_MAX {
            chunks.push(&batches[start..idx]);
            (start, bytes) = (idx, 0);
        }
        bytes = bytes.saturating_add(batch_bytes);
    }
    if start < batches.len() {
        chunks.push(&batches[start..]);
    }
    chunks
}

/// Sorts the rows of a chunk and splits them by date.
pub(crate) fn sorted_by_date(layout: &Layout, chunk: &[RecordBatch]) -> Result<Vec<SortedRows>> {
    let sort = |source| Error::Sort {
        table: layout.name,
        source,
    };
    let rows = concat_batches(&layout.schema, chunk).map_err(sort)?;
    let keys = sort_keys(layout, &rows).map_err(sort)?;
    let order = lexsort_to_indices(&keys, None).map_err(sort)?;
    let rows = take_record_batch(&rows, &order).map_err(sort)?;
    let dates = rows.column(layout.partition_idx);
    let ranges = partition(std::slice::from_ref(dates))
        .map_err(sort)?
        .ranges();
    let dates = dates.as_primitive::<Date32Type>().clone();
    let mut columns = rows;
    columns.remove_column(layout.partition_idx);
    let batch = RecordBatch::try_new(Arc::clone(&layout.file_schema), columns.columns().to_vec())
        .map_err(sort)?;
    let sorted = ranges.into_iter().map(|range| SortedRows {
        date: dates
            .is_valid(range.start)
            .then(|| dates.value(range.start)),
        batch: batch.slice(range.start, range.len()),
    });
    Ok(sorted.collect())
}

/// The partition first, then the specification's order. NULLs go where SQL puts them by default
/// (last when ascending, first when descending), so that readers need no sort of their own.
fn sort_keys(layout: &Layout, rows: &RecordBatch) -> Result<Vec<SortColumn>, ArrowError> {
    let partition = SortColumn {
        values: Arc::clone(rows.column(layout.partition_idx)),
        options: None,
    };
    let mut keys = vec![partition];
    for key in &layout.sort {
        let values = Arc::clone(rows.column(rows.schema_ref().index_of(key.column)?));
        keys.push(SortColumn {
            values,
            options: Some(sort_options(key)),
        });
    }
    Ok(keys)
}

/// How the values of one key are compared.
pub(crate) fn sort_options(key: &SortBy) -> SortOptions {
    SortOptions {
        descending: key.descending,
        nulls_first: key.descending,
    }
}

/// Encodes the rows of one file, as they are flushed.
pub(crate) fn encoded(layout: &Layout, rows: &RecordBatch) -> Result<Bytes> {
    let plain = uniform_leaves(layout, rows)?;
    let mut encoder = Encoder::new(layout, ZSTD_LEVEL_FLUSH, &plain)?;
    encoder.write(rows)?;
    encoder.finish()
}

/// Leaf columns of a file with these rows that need no compression.
pub(crate) fn uniform_leaves(layout: &Layout, rows: &RecordBatch) -> Result<Leaves> {
    let descriptor = ArrowSchemaConverter::new().convert(&layout.file_schema);
    let descriptor = descriptor.map_err(|source| Error::Encode {
        table: layout.name,
        source,
    })?;
    Ok(uniform::leaves(layout, &descriptor, rows))
}

/// Encodes one file whose rows come in pieces, in their order.
pub(crate) struct Encoder {
    table: &'static str,
    writer: ArrowWriter<Vec<u8>>,
    empty: Empty,
}

impl Encoder {
    /// Leaf columns of `plain` are not compressed.
    pub(crate) fn new(layout: &Layout, zstd_level: i32, plain: &Leaves) -> Result<Self> {
        let table = layout.name;
        let writer = writer_properties(layout, zstd_level, plain)
            .and_then(|properties| {
                let schema = Arc::clone(&layout.file_schema);
                ArrowWriter::try_new(Vec::new(), schema, Some(properties))
            })
            .map_err(|source| Error::Encode { table, source })?;
        Ok(Self {
            table,
            writer,
            empty: Empty::default(),
        })
    }

    pub(crate) fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        let table = self.table;
        self.empty.take(rows);
        self.writer
            .write(rows)
            .map_err(|source| Error::Encode { table, source })
    }

    pub(crate) fn finish(mut self) -> Result<Bytes> {
        let table = self.table;
        if let Some(said) = self.empty.said() {
            self.writer.append_key_value_metadata(said);
        }
        let bytes = self
            .writer
            .into_inner()
            .map_err(|source| Error::Encode { table, source })?;
        Ok(bytes.into())
    }
}

/// Whether every row group of a file says that its rows are in the order of the table.
pub(crate) fn is_declared_sorted(layout: &Layout, file: &ParquetMetaData) -> bool {
    let expected = sorting_columns(layout, file.file_metadata().schema_descr());
    expected.len() == layout.sort.len()
        && file
            .row_groups()
            .iter()
            .all(|group| group.sorting_columns() == Some(&expected))
}

/// The columns of a schema, in its order and types, of rows that were read; one that a file of another version lacks is
/// NULL.
pub(crate) fn conformed(schema: &SchemaRef, rows: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let columns = schema
        .fields()
        .iter()
        .map(|field| match rows.column_by_name(field.name()) {
            Some(column) if column.data_type() == field.data_type() => Ok(Arc::clone(column)),
            Some(column) => cast(column, field.data_type()),
            None => Ok(new_null_array(field.data_type(), rows.num_rows())),
        })
        .collect::<Result<Vec<ArrayRef>, ArrowError>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
}

fn writer_properties(
    layout: &Layout,
    zstd_level: i32,
    plain: &Leaves,
) -> Result<WriterProperties, ParquetError> {
    let descriptor = ArrowSchemaConverter::new().convert(&layout.file_schema)?;
    let mut properties = WriterProperties::builder()
        .set_created_by(CREATED_BY.to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(zstd_level)?))
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_statistics_enabled(EnabledStatistics::None)
        // Beside the footer, so that a reader gets them in one piece.
        .set_bloom_filter_position(BloomFilterPosition::End)
        .set_sorting_columns(Some(sorting_columns(layout, &descriptor)));
    for field in layout.file_schema.fields() {
        let name = field.name().as_str();
        let path = ColumnPath::from(name);
        let is_key = layout.sort.iter().any(|key| key.column == name)
            || layout.stats.contains(&name)
            || layout.bloom.contains(&name);
        if is_key {
            properties =
                properties.set_column_statistics_enabled(path.clone(), EnabledStatistics::Page);
        } else if !field.data_type().is_nested() {
            properties =
                properties.set_column_statistics_enabled(path.clone(), EnabledStatistics::Chunk);
        }
        if layout.distinct.contains(&name) {
            properties = properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path.clone(), distinct_encoding(field.data_type()))
                .set_column_data_page_size_limit(path.clone(), DISTINCT_PAGE_BYTES);
            if field.data_type() == &DataType::Utf8 {
                let level = ZstdLevel::try_new(ZSTD_LEVEL_IDS)?;
                let page_bytes = if layout.bloom.contains(&name) {
                    SOUGHT_TEXT_PAGE_BYTES
                } else {
                    DISTINCT_TEXT_PAGE_BYTES
                };
                properties = properties
                    .set_column_compression(path.clone(), Compression::ZSTD(level))
                    .set_column_data_page_size_limit(path.clone(), page_bytes);
            }
        }
        if layout.bloom.contains(&name) {
            properties = properties
                .set_column_bloom_filter_enabled(path.clone(), true)
                .set_column_bloom_filter_fpp(path, BLOOM_FALSE_POSITIVES);
        }
    }
    for leaf in plain {
        properties = properties.set_column_compression(leaf.clone(), Compression::UNCOMPRESSED);
    }
    Ok(properties.build())
}

/// How values are stored of which hardly any comes twice in a file: as differences, texts apart from their lengths, the
/// bytes of fractions by their place.
fn distinct_encoding(data_type: &DataType) -> Encoding {
    match data_type {
        DataType::Int64 | DataType::Timestamp(_, _) => Encoding::DELTA_BINARY_PACKED,
        DataType::Utf8 => Encoding::DELTA_LENGTH_BYTE_ARRAY,
        DataType::Float64 => Encoding::BYTE_STREAM_SPLIT,
        _ => Encoding::PLAIN,
    }
}

/// The footer counts leaf columns: maps and lists before a column shift its index.
fn sorting_columns(layout: &Layout, descriptor: &SchemaDescriptor) -> Vec<SortingColumn> {
    let leaf_of = |name: &str| {
        let leaf = descriptor
            .columns()
            .iter()
            .position(|leaf| leaf.path().parts() == [name])?;
        i32::try_from(leaf).ok()
    };
    // A key without a leaf (a nested column) ends the order that can be declared.
    layout
        .sort
        .iter()
        .map_while(|key| {
            Some(SortingColumn {
                column_idx: leaf_of(key.column)?,
                descending: key.descending,
                nulls_first: key.descending,
            })
        })
        .collect()
}
