//! Rows in memory that take filters.
//!
//! DataFusion's own source of rows in memory takes none.

use std::fmt::{self, Formatter};
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::SchemaRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result as DataFusionResult, Statistics};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::source::DataSource;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::utils::reassign_expr_columns;
use datafusion::physical_expr::{
    EquivalenceProperties, LexOrdering, Partitioning, PhysicalExpr, conjunction,
};
use datafusion::physical_plan::DisplayFormatType;
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::SchedulingType;
use datafusion::physical_plan::filter_pushdown::{FilterPushdownPropagation, PushedDown};
use datafusion::physical_plan::limit::LimitStream;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt as _;

/// Rows of which those are given out for which a filter is true.
#[derive(Clone, Debug)]
pub(super) struct Filtered {
    /// All rows, without a limit.
    rows: MemorySourceConfig,
    /// On the columns of the rows before their projection.
    filter: Option<Arc<dyn PhysicalExpr>>,
    /// Of rows that pass.
    limit: Option<usize>,
    metrics: ExecutionPlanMetricsSet,
}

impl Filtered {
    /// All of `rows`, which have no limit of their own, up to `limit`.
    pub(super) fn new(rows: MemorySourceConfig, limit: Option<usize>) -> Self {
        Self {
            rows,
            filter: None,
            limit,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// The same over rows that were arranged anew.
    fn over(&self, rows: &Arc<dyn DataSource>) -> Option<Arc<dyn DataSource>> {
        let rows = rows.downcast_ref::<MemorySourceConfig>()?.clone();
        Some(Arc::new(Self {
            rows,
            ..self.clone()
        }))
    }

    fn batches(&self, partition: usize) -> Vec<RecordBatch> {
        self.rows
            .partitions()
            .get(partition)
            .cloned()
            .unwrap_or_default()
    }

    fn output_schema(&self) -> SchemaRef {
        Arc::clone(self.rows.eq_properties().schema())
    }
}

/// The rows of a batch that pass, in the columns of the projection.
fn passing(
    batch: &RecordBatch,
    filter: &Arc<dyn PhysicalExpr>,
    projection: Option<&[usize]>,
) -> DataFusionResult<RecordBatch> {
    let passes = filter.evaluate(batch)?.into_array(batch.num_rows())?;
    let passes = passes.as_boolean_opt().ok_or_else(|| {
        DataFusionError::Internal(format!("`{filter}` is neither true nor false"))
    })?;
    let batch = match projection {
        Some(projection) => batch.project(projection)?,
        None => batch.clone(),
    };
    if passes.true_count() == batch.num_rows() {
        return Ok(batch);
    }
    Ok(filter_record_batch(&batch, passes)?)
}

impl DataSource for Filtered {
    fn open(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> DataFusionResult<SendableRecordBatchStream> {
        let rows = match self.filter.clone() {
            None => self.rows.open(partition, context)?,
            Some(filter) => {
                let projection = self.rows.projection().clone();
                let batches = futures::stream::iter(self.batches(partition));
                let passing =
                    batches.map(move |batch| passing(&batch, &filter, projection.as_deref()));
                let rows = RecordBatchStreamAdapter::new(self.output_schema(), passing);
                Box::pin(cooperative(rows))
            }
        };
        Ok(match self.limit {
            None => rows,
            Some(_) => {
                let metrics = BaselineMetrics::new(&self.metrics, partition);
                Box::pin(LimitStream::new(rows, 0, self.limit, metrics))
            }
        })
    }

    fn fmt_as(&self, format: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        self.rows.fmt_as(format, f)?;
        if let Some(limit) = self.limit {
            write!(f, ", fetch={limit}")?;
        }
        if let Some(filter) = &self.filter {
            write!(f, ", predicate={filter}")?;
        }
        Ok(())
    }

    fn repartitioned(
        &self,
        target_partitions: usize,
        repartition_file_min_size: usize,
        output_ordering: Option<LexOrdering>,
    ) -> DataFusionResult<Option<Arc<dyn DataSource>>> {
        let rows = self.rows.repartitioned(
            target_partitions,
            repartition_file_min_size,
            output_ordering,
        )?;
        Ok(rows.and_then(|rows| self.over(&rows)))
    }

    fn output_partitioning(&self) -> Partitioning {
        self.rows.output_partitioning()
    }

    fn eq_properties(&self) -> EquivalenceProperties {
        self.rows.eq_properties()
    }

    fn scheduling_type(&self) -> SchedulingType {
        self.rows.scheduling_type()
    }

    fn partition_statistics(&self, partition: Option<usize>) -> DataFusionResult<Arc<Statistics>> {
        let known = self.rows.partition_statistics(partition)?;
        if self.filter.is_none() && self.limit.is_none() {
            return Ok(known);
        }
        Ok(Arc::new(Arc::unwrap_or_clone(known).to_inexact()))
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn DataSource>> {
        Some(Arc::new(Self {
            limit,
            ..self.clone()
        }))
    }

    fn fetch(&self) -> Option<usize> {
        self.limit
    }

    fn metrics(&self) -> ExecutionPlanMetricsSet {
        self.metrics.clone()
    }

    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExprs,
    ) -> DataFusionResult<Option<Arc<dyn DataSource>>> {
        let rows = self.rows.try_swapping_with_projection(projection)?;
        Ok(rows.and_then(|rows| self.over(&rows)))
    }

    /// Takes all filters where files take them too, so that one rule holds for all rows of a table.
    fn try_pushdown_filters(
        &self,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        config: &ConfigOptions,
    ) -> DataFusionResult<FilterPushdownPropagation<Arc<dyn DataSource>>> {
        let n_filters = filters.len();
        // A limit counts rows that pass: it must not have been handed down before.
        if n_filters == 0 || self.limit.is_some() || !config.execution.parquet.pushdown_filters {
            return Ok(FilterPushdownPropagation::with_parent_pushdown_result(
                vec![PushedDown::No; n_filters],
            ));
        }
        let columns = self.rows.original_schema();
        let new = filters
            .into_iter()
            .map(|filter| reassign_expr_columns(filter, &columns))
            .collect::<DataFusionResult<Vec<_>>>()?;
        let filter = conjunction(self.filter.iter().cloned().chain(new));
        let source = Self {
            filter: Some(filter),
            ..self.clone()
        };
        Ok(
            FilterPushdownPropagation::with_parent_pushdown_result(vec![
                PushedDown::Yes;
                n_filters
            ])
            .with_updated_node(Arc::new(source)),
        )
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DataFusionResult<TreeNodeRecursion>,
    ) -> DataFusionResult<TreeNodeRecursion> {
        match &self.filter {
            Some(filter) => f(filter),
            None => Ok(TreeNodeRecursion::Continue),
        }
    }
}
