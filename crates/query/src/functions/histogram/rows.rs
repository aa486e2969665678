//! Histograms in Arrow: a list of structs of `le` and `count` per row.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Float64Array, ListArray, StructArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Fields};
use correlate::buckets::{bound, ending_at};
use datafusion::common::cast::{as_float64_array, as_list_array, as_struct_array};
use datafusion::common::{DataFusionError, Result};

use super::counts::Counts;
use crate::functions::attr::range;

/// The columns of a bucket.
const COLUMNS: [&str; 2] = ["le", "count"];

/// The type of a histogram.
pub(super) fn data_type() -> DataType {
    DataType::List(Arc::new(item()))
}

/// Can it be read as a histogram?
pub(in crate::functions) fn is_type(given: &DataType) -> bool {
    let DataType::List(item) = given else {
        return false;
    };
    let DataType::Struct(fields) = item.data_type() else {
        return false;
    };
    let is_column = |(field, name): (&Arc<Field>, &str)| {
        field.name() == name && field.data_type() == &DataType::Float64
    };
    fields.len() == COLUMNS.len() && fields.iter().zip(COLUMNS).all(is_column)
}

fn item() -> Field {
    Field::new_list_field(DataType::Struct(columns()), true)
}

fn columns() -> Fields {
    let columns = COLUMNS.map(|name| Field::new(name, DataType::Float64, true));
    columns.to_vec().into()
}

/// One row.
pub(super) fn to_array(counts: &Counts) -> Result<ListArray> {
    let buckets = counts.buckets();
    let ends = buckets.iter().map(|(idx, _)| bound(*idx));
    let ends: ArrayRef = Arc::new(Float64Array::from_iter_values(ends));
    let counts = buckets.iter().map(|(_, count)| *count);
    let counts: ArrayRef = Arc::new(Float64Array::from_iter_values(counts));
    let entries = StructArray::try_new(columns(), vec![ends, counts], None)?;
    let offsets = OffsetBuffer::from_lengths([buckets.len()]);
    let list = ListArray::try_new(Arc::new(item()), offsets, Arc::new(entries), None);
    Ok(list?)
}

/// Many, read row by row.
pub(super) struct Histograms<'a> {
    lists: &'a ListArray,
    entries: &'a StructArray,
    ends: &'a Float64Array,
    counts: &'a Float64Array,
}

impl<'a> Histograms<'a> {
    pub(super) fn new(lists: &'a ArrayRef) -> Result<Self> {
        let lists = as_list_array(lists)?;
        let entries = as_struct_array(lists.values())?;
        Ok(Self {
            lists,
            entries,
            ends: as_float64_array(entries.column(0))?,
            counts: as_float64_array(entries.column(1))?,
        })
    }

    /// The histogram of a row. Whoever writes one by hand may have buckets in any order, and twice, but no others.
    pub(super) fn row(&self, row: usize) -> Result<Option<Counts>> {
        if self.lists.is_null(row) {
            return Ok(None);
        }
        let mut counts = Counts::default();
        for idx in range(self.lists.value_offsets(), row) {
            let is_whole =
                self.entries.is_valid(idx) && self.ends.is_valid(idx) && self.counts.is_valid(idx);
            let (end, count) = (self.ends.value(idx), self.counts.value(idx));
            let is_count = count >= 0.0 && count.is_finite();
            match ending_at(end).filter(|_| is_whole && is_count) {
                Some(bucket) => counts.add(bucket, count),
                None => return Err(foreign()),
            }
        }
        Ok(Some(counts))
    }
}

fn foreign() -> DataFusionError {
    let message = "a list is not one that `latency_histogram` or `histogram_merge` has made: its buckets have other ends, or \
                   counts that are none";
    DataFusionError::Execution(message.to_owned())
}
