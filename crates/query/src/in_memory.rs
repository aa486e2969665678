//! The part of a scan that is in memory: rows in no file yet, and those of small files.
//!
//! Where an order is declared of the files it must hold of these rows too: DataFusion gives up the
//! order of a union, and with it reading newest first, if one part lacks it. They are then sorted
//! here, as one batch, because DataFusion forgets the order of a part that it splits.
//!
//! Filters that a plan hands down are evaluated here as they are in files, those among them that a join or a top-N learns
//! while it runs. Without that, all of these rows pass an exchange and a join, and the filter stays above the files too.

mod filtered;

use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use arrow::compute::{SortColumn, concat, concat_batches, lexsort_to_indices, take_record_batch};
use datafusion::common::{DataFusionError, Result as DataFusionResult};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_plan::ExecutionPlan;
use tables::SortKey;

use crate::scan::{Layout, lex_ordering, sort_options};
use filtered::Filtered;

/// Rows of `batches`, in the first of `orders` if one of these orders can be declared of the columns
/// of `projection`; the orders hold of the same rows.
pub(crate) fn scan(
    batches: &[RecordBatch],
    layout: &Layout,
    projection: Option<&Vec<usize>>,
    orders: &[Vec<SortKey>],
    limit: Option<usize>,
) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
    let schema = layout.projected(projection)?;
    let orderings: Vec<LexOrdering> = orders
        .iter()
        .filter_map(|keys| lex_ordering(keys, &schema))
        .collect();
    let Some(first) = orders.first().filter(|_| !orderings.is_empty()) else {
        let schema = Arc::clone(&layout.schema);
        let rows = MemorySourceConfig::try_new(&[batches.to_vec()], schema, projection.cloned())?;
        return Ok(DataSourceExec::from_data_source(Filtered::new(rows, limit)));
    };
    let projected = batches
        .iter()
        .map(|batch| match projection {
            Some(projection) => batch.project(projection),
            None => Ok(batch.clone()),
        })
        .collect::<Result<Vec<_>, _>>()?;
    let rows = concat_batches(&schema, &projected)?;
    let by = first
        .iter()
        .map(|key| sort_column(batches, *key))
        .collect::<Result<Vec<_>, _>>()?;
    let sorted = take_record_batch(&rows, &lexsort_to_indices(&by, None)?)?;
    let rows = MemorySourceConfig::try_new(&[vec![sorted]], schema, None)?
        .try_with_sort_information(orderings)?;
    Ok(DataSourceExec::from_data_source(Filtered::new(rows, limit)))
}

fn sort_column(batches: &[RecordBatch], key: SortKey) -> DataFusionResult<SortColumn> {
    let parts = batches
        .iter()
        .map(|batch| {
            batch
                .column_by_name(key.column)
                .map(|column| column.as_ref())
        })
        .collect::<Option<Vec<&dyn Array>>>()
        .ok_or_else(|| DataFusionError::Internal(format!("no column `{}`", key.column)))?;
    Ok(SortColumn {
        values: concat(&parts)?,
        options: Some(sort_options(key)),
    })
}
