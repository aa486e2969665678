//! What the log's statistics say about files: which can hold an answer, and in which order they are.
//!
//! Bounds may be wider than the data (Delta cuts timestamps and strings), so they are given to
//! DataFusion as inexact: good for skipping and ordering, never for answering `min(..)`.
//!
//! A time is stored twice, as `x` in microseconds and as `x_unix_nano`; the log has statistics of `x`
//! only, and those of its twin follow: the same instant cut to microseconds.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, UInt64Array};
use arrow::datatypes::{DataType, TimeUnit};
use datafusion::catalog::Session;
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::stats::Precision;
use datafusion::common::{
    Column, ColumnStatistics, DFSchema, Result as DataFusionResult, ScalarValue, Statistics,
};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::utils::conjunction;
use datafusion::physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder};
use lake::{Bound, DataFile};

use crate::scan::Layout;

/// What all filters say together, in the form that judges files; `None` where they say nothing that files can be judged by.
pub(crate) fn predicate(
    state: &dyn Session,
    filters: &[Expr],
    layout: &Layout,
) -> DataFusionResult<Option<PruningPredicate>> {
    let Some(filter) = conjunction(filters.iter().cloned()) else {
        return Ok(None);
    };
    let columns = DFSchema::try_from(Arc::clone(&layout.schema))?;
    let filter = state.create_physical_expr(filter, &columns)?;
    let predicate = PruningPredicateBuilder::new()
        .with_file_schema(Arc::clone(&layout.schema))
        .try_build(filter);
    Ok(predicate.ok())
}

/// Files that can hold a row for which the predicate is true. A part that statistics cannot judge
/// keeps every file.
pub(crate) fn files_that_can_match<'a>(
    files: &'a [DataFile],
    predicate: Option<&PruningPredicate>,
    layout: &Layout,
) -> DataFusionResult<Vec<&'a DataFile>> {
    let Some(predicate) = predicate else {
        return Ok(files.iter().collect());
    };
    let kept = predicate.prune(&KnownOfFiles { files, layout })?;
    tracing::debug!(
        n_files = files.len(),
        n_kept = kept.iter().filter(|is_kept| **is_kept).count(),
        "files pruned by statistics"
    );
    Ok(files
        .iter()
        .zip(kept)
        .filter_map(|(file, is_kept)| is_kept.then_some(file))
        .collect())
}

/// Statistics of one file on the columns as stored, without the partition column.
pub(crate) fn file_statistics(file: &DataFile, layout: &Layout) -> Statistics {
    let columns = layout.stored.file_schema().fields().iter().map(|field| {
        let Some(known) = known(file, field.name()) else {
            return ColumnStatistics::new_unknown();
        };
        let bound = |bound: &Option<Bound>| {
            let value = bound
                .as_ref()
                .and_then(|bound| scalar(bound, field.data_type()));
            value.map_or(Precision::Absent, Precision::Inexact)
        };
        ColumnStatistics {
            min_value: bound(&known.min),
            max_value: bound(&known.max),
            null_count: known
                .null_count
                .and_then(to_usize)
                .map_or(Precision::Absent, Precision::Exact),
            ..ColumnStatistics::new_unknown()
        }
    });
    Statistics {
        num_rows: file
            .n_rows
            .and_then(to_usize)
            .map_or(Precision::Absent, Precision::Exact),
        total_byte_size: to_usize(file.size_bytes).map_or(Precision::Absent, Precision::Inexact),
        column_statistics: columns.collect(),
    }
}

/// Rows and bytes of a scan, for the order of joins.
pub(crate) fn table_statistics<'a>(
    files: impl Iterator<Item = &'a DataFile> + Clone,
    layout: &Layout,
) -> Statistics {
    let n_rows = files
        .clone()
        .map(|file| file.n_rows)
        .try_fold(0_u64, |sum, n_rows| sum.checked_add(n_rows?));
    let n_bytes = files.fold(0_u64, |sum, file| sum.saturating_add(file.size_bytes));
    Statistics {
        num_rows: n_rows
            .and_then(to_usize)
            .map_or(Precision::Absent, Precision::Inexact),
        total_byte_size: to_usize(n_bytes).map_or(Precision::Absent, Precision::Inexact),
        ..Statistics::new_unknown(layout.stored.table_schema())
    }
}

/// What is known of a column in a file.
pub(crate) struct Known {
    min: Option<Bound>,
    max: Option<Bound>,
    pub(crate) null_count: Option<u64>,
}

/// Suffix of the exact twin of a time column.
const EXACT_SUFFIX: &str = "_unix_nano";

/// Nanoseconds from the first to the last instant of a microsecond.
const MICROSECOND_LAST_NANO: i64 = 999;

/// The time column of which a column is the exact twin.
pub(crate) fn twin(column: &str) -> Option<&str> {
    column.strip_suffix(EXACT_SUFFIX)
}

/// What the log, or the column's twin in the log, says of a column.
pub(crate) fn known(file: &DataFile, column: &str) -> Option<Known> {
    let find = |name: &str| file.statistics.iter().find(|known| known.column == name);
    if let Some(known) = find(column) {
        let (min, max) = (known.min.clone(), known.max.clone());
        return Some(Known {
            min,
            max,
            null_count: known.null_count,
        });
    }
    let known = find(twin(column)?)?;
    let nanos = |bound: &Option<Bound>, extra: i64| match bound {
        Some(Bound::TimestampMicros(micros)) => {
            micros.checked_mul(1000)?.checked_add(extra).map(Bound::Int)
        }
        _ => None,
    };
    let min = nanos(&known.min, 0);
    let max = nanos(&known.max, MICROSECOND_LAST_NANO);
    Some(Known {
        min,
        max,
        null_count: known.null_count,
    })
}

/// A bound in the type of its column; `None` if the two do not fit.
fn scalar(bound: &Bound, data_type: &DataType) -> Option<ScalarValue> {
    match (bound, data_type) {
        (Bound::Int(value), DataType::Int64) => Some(ScalarValue::Int64(Some(*value))),
        (Bound::Int(value), DataType::Int32) => i32::try_from(*value)
            .ok()
            .map(|value| ScalarValue::Int32(Some(value))),
        (Bound::Float(value), DataType::Float64) => Some(ScalarValue::Float64(Some(*value))),
        (Bound::Text(value), DataType::Utf8) => Some(ScalarValue::Utf8(Some(value.to_string()))),
        (Bound::TimestampMicros(value), DataType::Timestamp(TimeUnit::Microsecond, zone)) => Some(
            ScalarValue::TimestampMicrosecond(Some(*value), zone.clone()),
        ),
        _ => None,
    }
}

fn to_usize(count: u64) -> Option<usize> {
    usize::try_from(count).ok()
}

/// The log's statistics in the form that pruning asks for, column by column.
struct KnownOfFiles<'a> {
    files: &'a [DataFile],
    layout: &'a Layout,
}

impl KnownOfFiles<'_> {
    fn bounds(&self, column: &Column, pick: impl Fn(&Known) -> Option<&Bound>) -> Option<ArrayRef> {
        let data_type = self.layout.data_type(&column.name)?;
        let unknown = ScalarValue::try_from(data_type).ok()?;
        let values = self.files.iter().map(|file| {
            let value = if column.name == tables::PARTITION {
                file.date.map(|days| ScalarValue::Date32(Some(days)))
            } else {
                let known = known(file, &column.name);
                known
                    .as_ref()
                    .and_then(&pick)
                    .and_then(|bound| scalar(bound, data_type))
            };
            value.unwrap_or_else(|| unknown.clone())
        });
        ScalarValue::iter_to_array(values).ok()
    }
}

impl PruningStatistics for KnownOfFiles<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column, |known| known.min.as_ref())
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column, |known| known.max.as_ref())
    }

    fn num_containers(&self) -> usize {
        self.files.len()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        let counts = self.files.iter().map(|file| {
            if column.name == tables::PARTITION {
                // A partition has one value for all of its rows.
                return if file.date.is_some() {
                    Some(0)
                } else {
                    file.n_rows
                };
            }
            known(file, &column.name).and_then(|known| known.null_count)
        });
        Some(Arc::new(counts.collect::<UInt64Array>()))
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        Some(Arc::new(
            self.files
                .iter()
                .map(|file| file.n_rows)
                .collect::<UInt64Array>(),
        ))
    }

    fn contained(&self, _column: &Column, _values: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}
