//! Which files and row groups can hold an identifier, known without asking the store.
//!
//! Limits first: filters take at most [`Config::id_filters_mib`](crate::Config::id_filters_mib), shared evenly by the id
//! columns of the tables. Files for which there is no room ([`Newest`]) are asked as if there were no index. An `IN` list of more than [`IDS_MAX`] identifiers is not looked up.
//!
//! A row group has a bloom filter for each id column (`trace_id`, `request_id`, ..). Read by statements, they are what
//! one trace by its id costs: a read for each row group of each file. Here they are read once for each file and asked in memory: files that cannot hold an identifier are not in the plan, and of the
//! others only the row groups that can. The same look at a footer says which columns need not be opened ([`Constants`]).
//!
//! # Decided
//!
//! **Filters, not times.** A time range for a trace, looked up in `traces`, would be narrower, but is right only as long as
//! no span of the trace comes later and no writer lags. A filter has no false "no": whatever is in a file is found there,
//! late spans, other writers and merged files alike. It costs one false row group in a thousand.
//!
//! Does not: know what an identifier means, or keep a row from an answer (a file that cannot be read here is asked
//! later, and its error is the statement's then).

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, LazyLock};

use arrow::array::{AsArray as _, RecordBatch};
use arrow::datatypes::Schema;
use async_trait::async_trait;
use datafusion::common::{DataFusionError, Result as DataFusionResult, ScalarValue};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::ParquetAccessPlan;
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use datafusion::physical_expr::utils::{Guarantee, LiteralGuarantee};
use lake::{DataFile, Lake, Table};
use object_store::ObjectStore;
use object_store::path::Path;
use parquet::bloom_filter::Sbbf;
use parquet::file::metadata::{ColumnChunkMetaData, PageIndexPolicy, RowGroupMetaData};

use crate::constants::Constants;
use crate::newest::{Kept, Newest, Reader};
use crate::scan::FOOTER_BYTES;

/// Identifiers of one list that are looked up. A longer list is in nearly every row group anyway.
const IDS_MAX: usize = 500;

/// Identifiers that are compared with each row in memory. More take longer than to filter the rows later.
const IDS_IN_ROWS_MAX: usize = 8;

/// Columns that hold identifiers, of all tables: they have filters. Views hand them on under their names.
pub(crate) static ID_COLUMNS: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    let specs = tables::all();
    specs
        .iter()
        .flat_map(|spec| spec.bloom.iter().copied())
        .collect()
});

/// Filters of all tables of a lake.
#[derive(Debug)]
pub(crate) struct IdIndex {
    store: Arc<dyn ObjectStore>,
    tables: HashMap<&'static str, TableFilters>,
}

/// Files of a scan, as far as the index could narrow them.
#[derive(Debug)]
pub(crate) struct Narrowed<'a> {
    pub(crate) files: Vec<Candidate<'a>>,
    /// Every file was judged: nobody has to read a filter again.
    pub(crate) is_judged: bool,
    sought: Vec<Sought>,
}

/// A file that can hold an answer.
#[derive(Debug)]
pub(crate) struct Candidate<'a> {
    pub(crate) file: &'a DataFile,
    /// The row groups that can; all of them where this is unknown.
    pub(crate) row_groups: Option<ParquetAccessPlan>,
    /// Columns with one value in all rows.
    pub(crate) constants: Arc<Constants>,
}

impl IdIndex {
    pub(crate) fn new(lake: &Lake, bytes_max: usize) -> Self {
        let with_ids: Vec<_> = lake
            .tables()
            .iter()
            .map(|table| table.spec())
            .filter(|spec| !spec.bloom.is_empty())
            .collect();
        // Each identifier of a row takes the same.
        let n_columns = with_ids.iter().map(|spec| spec.bloom.len()).sum();
        let of_column = bytes_max.checked_div(n_columns).unwrap_or_default();
        let tables = with_ids.into_iter().map(|spec| {
            let filters = TableFilters {
                columns: spec.bloom,
                files: Newest::new(of_column * spec.bloom.len()),
            };
            (spec.name, filters)
        });
        Self {
            store: lake.object_store(),
            tables: tables.collect(),
        }
    }

    /// Of `files`, which are among the `live` ones of the table, those that can hold a row with the values of `ids`, which
    /// a condition asks for.
    pub(crate) async fn narrowed<'a>(
        &self,
        table: &Table,
        live: &[DataFile],
        files: Vec<&'a DataFile>,
        ids: &[LiteralGuarantee],
    ) -> Narrowed<'a> {
        let Some(filters) = self.tables.get(table.spec().name) else {
            return Narrowed::unjudged(files);
        };
        let sought: Vec<Sought> = ids.iter().filter_map(|ids| filters.sought(ids)).collect();
        if sought.is_empty() {
            return Narrowed::unjudged(files);
        }
        filters.read_missing(&self.store, table, live, &files).await;
        let n_files = files.len();
        let narrowed = filters.judged(files, sought);
        tracing::debug!(
            n_files,
            n_kept = narrowed.files.len(),
            is_judged = narrowed.is_judged,
            "files narrowed by identifier"
        );
        narrowed
    }

    /// Memory of all filters.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.tables
            .values()
            .map(|table| table.files.known().n_bytes())
            .sum()
    }
}

impl<'a> Candidate<'a> {
    /// All row groups of a file.
    pub(crate) fn whole(file: &'a DataFile) -> Self {
        Self {
            file,
            row_groups: None,
            constants: Arc::default(),
        }
    }
}

impl<'a> Narrowed<'a> {
    fn unjudged(files: Vec<&'a DataFile>) -> Self {
        Self {
            files: files.into_iter().map(Candidate::whole).collect(),
            is_judged: false,
            sought: Vec::new(),
        }
    }

    /// Can rows in memory hold an answer? A few identifiers are looked for; what has none of them is one source less to
    /// wait for.
    pub(crate) fn can_be_in(&self, rows: &RecordBatch) -> bool {
        self.sought.iter().all(|sought| sought.can_be_in(rows))
    }
}

/// A column that must have one of the values.
#[derive(Debug)]
struct Sought {
    column: &'static str,
    column_idx: usize,
    values: Vec<String>,
}

impl Sought {
    fn can_be_in(&self, rows: &RecordBatch) -> bool {
        let column = rows.column_by_name(self.column);
        let column = column.and_then(|column| column.as_string_opt::<i32>());
        match column {
            Some(column) if self.values.len() <= IDS_IN_ROWS_MAX => column
                .iter()
                .flatten()
                .any(|id| self.values.iter().any(|value| value == id)),
            _ => true,
        }
    }
}

/// Filters of one table.
#[derive(Debug)]
struct TableFilters {
    columns: &'static [&'static str],
    files: Newest<FileFilters>,
}

impl TableFilters {
    fn sought(&self, ids: &LiteralGuarantee) -> Option<Sought> {
        if ids.guarantee != Guarantee::In || ids.literals.len() > IDS_MAX {
            return None;
        }
        let mut columns = self.columns.iter().enumerate();
        let (column_idx, column) = columns.find(|(_, column)| **column == ids.column.name)?;
        let text = |value: &ScalarValue| value.try_as_str().flatten().map(str::to_owned);
        // A value that is no text cannot be looked up, and may be there.
        let values = ids.literals.iter().map(text).collect::<Option<_>>()?;
        Some(Sought {
            column,
            column_idx,
            values,
        })
    }

    fn judged<'a>(&self, files: Vec<&'a DataFile>, sought: Vec<Sought>) -> Narrowed<'a> {
        let known = self.files.known();
        let mut narrowed = Narrowed {
            files: Vec::new(),
            is_judged: true,
            sought,
        };
        for file in files {
            let Some(filters) = known.get(file) else {
                narrowed.is_judged = false;
                narrowed.files.push(Candidate::whole(file));
                continue;
            };
            if let Some(row_groups) = filters.row_groups(&narrowed.sought) {
                narrowed.files.push(Candidate {
                    file,
                    row_groups: Some(row_groups),
                    constants: Arc::clone(&filters.constants),
                });
            }
        }
        narrowed
    }

    /// Reads the filters of files that are not known.
    async fn read_missing(
        &self,
        store: &Arc<dyn ObjectStore>,
        table: &Table,
        live: &[DataFile],
        files: &[&DataFile],
    ) {
        let reader = FilterReader {
            store,
            table,
            columns: self.columns,
        };
        self.files.read_missing(live, files, &reader).await;
    }
}

struct FilterReader<'a> {
    store: &'a Arc<dyn ObjectStore>,
    table: &'a Table,
    columns: &'a [&'a str],
}

#[async_trait]
impl Reader<FileFilters> for FilterReader<'_> {
    async fn read(&self, file: &DataFile) -> Option<FileFilters> {
        let path = self.table.object_path(file).ok()?;
        let fields = self.table.file_schema();
        let read = FileFilters::read(self.store, path, file.size_bytes, self.columns, &fields);
        match read.await {
            Ok(filters) => Some(filters),
            Err(error) => {
                tracing::debug!(path = %file.path, %error, "bloom filters cannot be read");
                None
            }
        }
    }
}

/// Filters of one file.
#[derive(Debug)]
struct FileFilters {
    /// By row group, then by column of the table's id columns; `None` where the file has none.
    row_groups: Vec<Vec<Option<Sbbf>>>,
    constants: Arc<Constants>,
    n_bytes: usize,
}

impl Kept for FileFilters {
    fn n_bytes(&self) -> usize {
        self.n_bytes
    }
}

/// What a filter takes beside its bits.
const FILTER_OVERHEAD_BYTES: usize = size_of::<Option<Sbbf>>();

impl FileFilters {
    /// Row groups that can hold a row with one of the values in each of the columns; `None` if none can.
    fn row_groups(&self, sought: &[Sought]) -> Option<ParquetAccessPlan> {
        let mut plan = ParquetAccessPlan::new_none(self.row_groups.len());
        let mut is_any = false;
        for (idx, columns) in self.row_groups.iter().enumerate() {
            let can_hold = sought.iter().all(|sought| {
                let filter = columns.get(sought.column_idx).and_then(Option::as_ref);
                filter.is_none_or(|filter| {
                    let mut values = sought.values.iter();
                    values.any(|value| filter.check(value.as_str()))
                })
            });
            if can_hold {
                plan.scan(idx);
                is_any = true;
            }
        }
        is_any.then_some(plan)
    }

    async fn read(
        store: &Arc<dyn ObjectStore>,
        path: Path,
        size_bytes: u64,
        columns: &[&str],
        fields: &Schema,
    ) -> DataFusionResult<Self> {
        let mut object = PartitionedFile::new(String::new(), size_bytes).object_meta;
        object.location = path;
        // Not through the cache of footers: most of these files are asked for nothing else.
        let metadata = DFParquetMetadata::new(store, &object)
            .with_metadata_size_hint(Some(FOOTER_BYTES))
            .with_page_index_policy(Some(PageIndexPolicy::Skip))
            .fetch_metadata()
            .await?;
        let groups = metadata.row_groups();
        let places: Vec<Option<(u64, u64)>> = groups
            .iter()
            .flat_map(|group| columns.iter().map(|column| place(group, column)))
            .collect();
        let total = places.iter().flatten().map(|(_, length)| *length);
        if total.fold(0_u64, u64::saturating_add) > size_bytes {
            return Err(DataFusionError::Execution(
                "bloom filters are larger than their file".to_owned(),
            ));
        }
        let ranges = places.iter().flatten().map(|(from, n)| *from..from + n);
        let ranges: Vec<_> = ranges.collect();
        let bytes = store.get_ranges(&object.location, &ranges).await?;
        let mut bytes = bytes.into_iter();
        let mut filters = places.iter().map(|place| {
            // One piece for each place.
            let bytes = place.and_then(|_| bytes.next())?;
            let filter = Sbbf::from_bytes(&bytes).ok()?;
            (filter.num_blocks() > 0).then_some(filter)
        });
        let row_groups: Vec<Vec<_>> = groups
            .iter()
            .map(|_| filters.by_ref().take(columns.len()).collect())
            .collect();
        let n_bytes = row_groups.iter().flatten().map(|filter| {
            let blocks = filter.as_ref().map_or(0, Sbbf::num_blocks);
            FILTER_OVERHEAD_BYTES + blocks * BLOCK_BYTES
        });
        let constants = Constants::of(&metadata, fields);
        Ok(Self {
            n_bytes: n_bytes.sum::<usize>() + constants.n_bytes(),
            row_groups,
            constants: Arc::new(constants),
        })
    }
}

/// Bytes of a block of a filter (Parquet's format, "Split block").
const BLOCK_BYTES: usize = 32;

/// Where the filter of a column is, and its length.
fn place(group: &RowGroupMetaData, column: &str) -> Option<(u64, u64)> {
    let of_column = |chunk: &&ColumnChunkMetaData| chunk.column_path().parts() == [column];
    let chunk = group.columns().iter().find(of_column)?;
    let from = u64::try_from(chunk.bloom_filter_offset()?).ok()?;
    let n_bytes = u64::try_from(chunk.bloom_filter_length()?).ok()?;
    from.checked_add(n_bytes)?;
    Some((from, n_bytes))
}
