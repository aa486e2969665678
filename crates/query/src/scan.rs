//! One table of the lake as DataFusion sees it.
//!
//! A scan is the union of two parts of one [`lake::View`]: the committed files that can hold an
//! answer (by the statistics of the log, and where an identifier is sought by [`IdIndex`]), and what is in memory: the fresh
//! rows, and those of small files ([`SmallFiles`]). A statement takes the view once per table, at
//! its first use; a commit that happens meanwhile moves rows from one part to the other in later
//! views only, so that each row is read exactly once.
//!
//! Files keep the partition column out of the file, and DataFusion puts such columns last, the lake's
//! schema first: [`Layout`] translates.
//!
//! In the list profile the order of the files is declared: they are arranged into chains that do not
//! overlap on the leading sort columns. Commits follow each other in time, so a few chains hold all.
//! Above [`CHAINS_MAX`] chains or [`FILES_WITH_STATISTICS_MAX`] files no order is declared;
//! `ORDER BY .. LIMIT` then still skips what cannot be among the best. The order is that of the leading
//! sort columns with statistics; a file with an absent value in one of them is a chain of its own,
//! because absent values come first or last in a file, not in a chain.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::config::TableParquetOptions;
use datafusion::common::{DataFusionError, Result as DataFusionResult, ScalarValue};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::CachedParquetFileReaderFactory;
use datafusion::datasource::physical_plan::{
    FileGroup, FileScanConfig, FileScanConfigBuilder, ParquetSource,
};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::union::UnionExec;
use lake::{DataFile, Lake};
use tables::SortKey;

use crate::Config;
use crate::file_reader::ReaderFactory;
use crate::id_index::{Candidate, IdIndex, Narrowed};
use crate::in_memory;
use crate::profile::{self, Profile};
use crate::pruning;
use crate::session;
use crate::small_files::SmallFiles;

/// Files above which they get no statistics, and so no order: those of all columns are held while
/// planning, some 20 KiB for each file.
const FILES_WITH_STATISTICS_MAX: usize = 2048;

/// Chains above which no order is declared: each chain is an open file in the merge.
const CHAINS_MAX: usize = 32;

/// Files that are known to hold an identifier and are read one after another: to wake threads for them takes as long as to
/// read them, and an answer that wakes none is not overtaken on its way.
const FILES_IN_TURN_MAX: usize = 4;

/// Bytes read from the end of a file at first; holds the footer of most files.
pub(crate) const FOOTER_BYTES: usize = 512 * 1024;

/// A table for the length of one statement.
#[derive(Debug)]
pub(crate) struct LakeTable {
    table: Arc<lake::Table>,
    kept: Arc<InMemory>,
    layout: Arc<Layout>,
    view: OnceLock<lake::View>,
}

/// What all statements know of the tables of a lake and of their files.
#[derive(Debug)]
pub(crate) struct InMemory {
    ids: IdIndex,
    small: SmallFiles,
    layouts: HashMap<&'static str, Arc<Layout>>,
}

impl InMemory {
    pub(crate) fn new(lake: &Lake, config: &Config) -> Self {
        let tables = lake.tables().iter();
        let layouts =
            tables.map(|table| (table.spec().name, Arc::new(Layout::new(&table.schema()))));
        Self {
            ids: IdIndex::new(lake, config.id_filters_bytes()),
            small: SmallFiles::new(lake, config.small_files_bytes()),
            layouts: layouts.collect(),
        }
    }

    fn layout(&self, table: &lake::Table) -> Arc<Layout> {
        match self.layouts.get(table.spec().name) {
            Some(layout) => Arc::clone(layout),
            None => Arc::new(Layout::new(&table.schema())),
        }
    }
}

impl LakeTable {
    pub(crate) fn new(table: Arc<lake::Table>, kept: Arc<InMemory>) -> Self {
        let layout = kept.layout(&table);
        Self {
            table,
            kept,
            layout,
            view: OnceLock::new(),
        }
    }

    /// Its name in the lake.
    pub(crate) fn name(&self) -> &'static str {
        self.table.spec().name
    }

    fn scan_files(
        &self,
        state: &dyn Session,
        narrowed: &Narrowed<'_>,
        projection: Option<&Vec<usize>>,
        orders: &[Vec<SortKey>],
        limit: Option<usize>,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        let files = &narrowed.files;
        let parquet = &state.config_options().execution.parquet;
        let url = session::store_url()?;
        let runtime = state.runtime_env();
        let reader = CachedParquetFileReaderFactory::new(
            runtime.object_store(&url)?,
            runtime.cache_manager.get_file_metadata_cache(),
        );
        let mut options = TableParquetOptions {
            global: parquet.clone(),
            ..Default::default()
        };
        // What was asked in memory need not be read.
        options.global.bloom_filter_on_read &= !narrowed.is_judged;
        let source = ParquetSource::new(self.layout.stored.clone())
            .with_table_parquet_options(options)
            .with_metadata_size_hint(FOOTER_BYTES)
            .with_parquet_file_reader_factory(Arc::new(ReaderFactory::new(reader)));

        let is_needle = profile::in_force(state) == Profile::Needle;
        let target = if is_needle && narrowed.is_judged && files.len() <= FILES_IN_TURN_MAX {
            1
        } else {
            state.config().target_partitions()
        };
        let chains = match orders.first() {
            Some(keys) => self.chains(files, keys, target)?,
            None => None,
        };
        let (groups, orderings) = match chains {
            Some(chains) => {
                let stored = self.layout.stored.table_schema();
                let orderings = orders.iter().filter_map(|keys| lex_ordering(keys, stored));
                (chains, orderings.collect())
            }
            None => (
                self.groups(files, target, parquet.pushdown_filters)?,
                Vec::new(),
            ),
        };
        let indices: Vec<usize> = match projection {
            Some(projection) => projection.clone(),
            None => (0..self.layout.schema.fields().len()).collect(),
        };
        let indices = indices
            .into_iter()
            .map(|index| self.layout.stored_index(index))
            .collect();
        let config = FileScanConfigBuilder::new(url, Arc::new(source))
            .with_file_groups(groups)
            .with_output_ordering(orderings)
            .with_statistics(pruning::table_statistics(
                files.iter().map(|candidate| candidate.file),
                &self.layout,
            ))
            .with_limit(limit)
            .with_projection_indices(Some(indices))?
            .build();
        Ok(DataSourceExec::from_data_source(config))
    }

    /// The order of rows in a file, as far as statistics can show it of files, and the same order on
    /// the twin of its first column.
    fn orders(&self) -> Vec<Vec<SortKey>> {
        let spec = self.table.spec();
        let is_known = |column: &str| {
            let twin = pruning::twin(column);
            spec.stats
                .iter()
                .any(|known| *known == column || Some(*known) == twin)
        };
        let keys: Vec<SortKey> = spec
            .sort
            .iter()
            .copied()
            .take_while(|key| is_known(key.column))
            .collect();
        let Some(first) = keys.first().copied() else {
            return Vec::new();
        };
        let twin = pruning::twin(first.column);
        let twin = twin.map(|column| {
            vec![SortKey {
                column,
                descending: first.descending,
            }]
        });
        [Some(keys), twin].into_iter().flatten().collect()
    }

    /// Files in chains without overlap, or `None` where declaring an order does not pay.
    fn chains(
        &self,
        files: &[Candidate<'_>],
        keys: &[SortKey],
        target: usize,
    ) -> DataFusionResult<Option<Vec<FileGroup>>> {
        let stored = self.layout.stored.table_schema();
        let Some(ordering) = lex_ordering(keys, stored) else {
            return Ok(None);
        };
        if files.len() > FILES_WITH_STATISTICS_MAX {
            return Ok(None);
        }
        let has_all_values = |file: &DataFile| {
            keys.iter().all(|key| {
                let known = pruning::known(file, key.column);
                known.is_some_and(|known| known.null_count == Some(0))
            })
        };
        let (mut full, mut alone) = (Vec::new(), Vec::new());
        for candidate in files {
            let partitioned = self.partitioned(candidate, true)?;
            if has_all_values(candidate.file) {
                full.push(partitioned);
            } else {
                alone.push(FileGroup::new(vec![partitioned]));
            }
        }
        let chains = FileScanConfig::split_groups_by_statistics_with_target_partitions(
            stored,
            &[FileGroup::new(full)],
            &ordering,
            target.max(1),
        );
        // An error means that bounds of a sort column are missing.
        let chains = chains.ok().map(|mut chains| {
            chains.append(&mut alone);
            chains
        });
        Ok(chains.filter(|chains| chains.len() <= CHAINS_MAX.max(target)))
    }

    /// Files spread over the partitions, newest commit first in each. Statistics let a
    /// `ORDER BY .. LIMIT` begin with the best files.
    fn groups(
        &self,
        files: &[Candidate<'_>],
        target: usize,
        has_statistics: bool,
    ) -> DataFusionResult<Vec<FileGroup>> {
        let has_statistics = has_statistics && files.len() <= FILES_WITH_STATISTICS_MAX;
        let n_groups = files.len().min(target.max(1));
        let mut groups: Vec<Vec<PartitionedFile>> = vec![Vec::new(); n_groups];
        for (file_idx, candidate) in files.iter().rev().enumerate() {
            if let Some(group) = groups.get_mut(file_idx % n_groups.max(1)) {
                group.push(self.partitioned(candidate, has_statistics)?);
            }
        }
        Ok(groups.into_iter().map(FileGroup::new).collect())
    }

    fn partitioned(
        &self,
        candidate: &Candidate<'_>,
        has_statistics: bool,
    ) -> DataFusionResult<PartitionedFile> {
        let file = candidate.file;
        let path = self
            .table
            .object_path(file)
            .map_err(|error| DataFusionError::External(Box::new(error)))?;
        let mut partitioned = PartitionedFile::new(String::new(), file.size_bytes);
        partitioned.object_meta.location = path;
        if self.layout.partition_idx.is_some() {
            partitioned.partition_values = vec![ScalarValue::Date32(file.date)];
        }
        if has_statistics {
            let mut statistics = pruning::file_statistics(file, &self.layout);
            candidate.constants.note(&mut statistics);
            partitioned = partitioned.with_statistics(Arc::new(statistics));
        }
        if let Some(row_groups) = &candidate.row_groups {
            partitioned = partitioned.with_extension(row_groups.clone());
        }
        Ok(partitioned)
    }
}

#[async_trait]
impl TableProvider for LakeTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.layout.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> DataFusionResult<Vec<TableProviderFilterPushDown>> {
        // Statistics prune whole files; rows are filtered by the plan or by the Parquet reader.
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        let view = self.view.get_or_init(|| self.table.view());
        let predicate = pruning::predicate(state, filters, &self.layout)?;
        let files = pruning::files_that_can_match(&view.files, predicate.as_ref(), &self.layout)?;
        let ids = predicate
            .as_ref()
            .map(|predicate| predicate.literal_guarantees());
        let kept = &self.kept;
        let mut narrowed = kept
            .ids
            .narrowed(&self.table, &view.files, files, ids.unwrap_or_default())
            .await;
        let small = kept
            .small
            .taken_from(&mut narrowed.files, &self.table, &view.files);
        let mut batches = small.await;
        batches.extend_from_slice(&view.fresh);
        batches.retain(|rows| narrowed.can_be_in(rows));
        let orders = match profile::in_force(state) {
            Profile::List => self.orders(),
            Profile::Needle | Profile::Top | Profile::Scan => Vec::new(),
        };
        let mut parts: Vec<Arc<dyn ExecutionPlan>> = Vec::new();
        if !narrowed.files.is_empty() {
            parts.push(self.scan_files(state, &narrowed, projection, &orders, limit)?);
        }
        if !batches.is_empty() {
            parts.push(in_memory::scan(
                &batches,
                &self.layout,
                projection,
                &orders,
                limit,
            )?);
        }
        match parts.len() {
            0 => Ok(Arc::new(EmptyExec::new(self.layout.projected(projection)?))),
            1 => Ok(parts.remove(0)),
            _ => UnionExec::try_new(parts),
        }
    }
}

/// An order on the columns of a schema; `None` if it lacks one of them.
pub(crate) fn lex_ordering(keys: &[SortKey], schema: &Schema) -> Option<LexOrdering> {
    let keys = keys
        .iter()
        .map(|key| {
            let column = Column::new(key.column, schema.index_of(key.column).ok()?);
            Some(PhysicalSortExpr::new(Arc::new(column), sort_options(*key)))
        })
        .collect::<Option<Vec<_>>>()?;
    LexOrdering::new(keys)
}

/// As the lake sorts, which is also the default of SQL.
pub(crate) fn sort_options(key: SortKey) -> SortOptions {
    SortOptions {
        descending: key.descending,
        nulls_first: key.descending,
    }
}

/// Where a column is in the lake's schema and where in what DataFusion reads.
#[derive(Debug)]
pub(crate) struct Layout {
    /// The table's columns in the order of its spec.
    pub(crate) schema: SchemaRef,
    /// The columns of a file, then the partition column.
    pub(crate) stored: TableSchema,
    partition_idx: Option<usize>,
}

impl Layout {
    pub(crate) fn new(schema: &SchemaRef) -> Self {
        let partition_idx = schema.index_of(tables::PARTITION).ok();
        let in_file: Vec<_> = schema
            .fields()
            .iter()
            .enumerate()
            .filter(|(index, _)| Some(*index) != partition_idx)
            .map(|(_, field)| Arc::clone(field))
            .collect();
        let partition: Vec<_> = partition_idx
            .map(|index| Arc::clone(&schema.fields()[index]))
            .into_iter()
            .collect();
        let stored = TableSchema::builder(Arc::new(Schema::new(in_file)))
            .with_table_partition_cols(partition)
            .build();
        Self {
            schema: Arc::clone(schema),
            stored,
            partition_idx,
        }
    }

    /// The columns of a projection, or all.
    pub(crate) fn projected(&self, projection: Option<&Vec<usize>>) -> DataFusionResult<SchemaRef> {
        Ok(match projection {
            Some(projection) => Arc::new(self.schema.project(projection)?),
            None => Arc::clone(&self.schema),
        })
    }

    /// Index in `stored` of the column at `index` of `schema`.
    fn stored_index(&self, index: usize) -> usize {
        match self.partition_idx {
            Some(partition_idx) if index == partition_idx => self.schema.fields().len() - 1,
            Some(partition_idx) if index > partition_idx => index - 1,
            _ => index,
        }
    }

    /// Type of a column by name.
    pub(crate) fn data_type(&self, name: &str) -> Option<&DataType> {
        self.schema
            .field_with_name(name)
            .ok()
            .map(|field| field.data_type())
    }
}
