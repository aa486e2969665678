//! Columns that have one value in all rows of a file: nothing of them has to be read.
//!
//! Two kinds are known from a footer: NULL throughout, by the statistics of the row groups, and an empty list or map
//! throughout, which the lake's own files say by name. DataFusion puts the value in where statistics tell it.
//!
//! `SELECT *` of a trace reads 72 columns of `spans` with 87 leaves, and opening a leaf costs a statement more than the rows in
//! it. In most fleets a third of them is like that.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ListArray, MapArray, StructArray, new_empty_array};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Schema};
use datafusion::common::stats::Precision;
use datafusion::common::{ScalarValue, Statistics};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::statistics::Statistics as ParquetStatistics;

/// Columns, by their place in the schema of the files.
#[derive(Debug, Default)]
pub(crate) struct Constants {
    absent: Box<[usize]>,
    /// With the value.
    empty: Box<[(usize, ScalarValue)]>,
}

impl Constants {
    /// As the footer of a file says.
    pub(crate) fn of(file: &ParquetMetaData, fields: &Schema) -> Self {
        let empty = lake::empty_columns(file).filter_map(|name| {
            let (idx, field) = fields.column_with_name(name)?;
            Some((idx, without_items(field.data_type())?))
        });
        Self {
            absent: absent(file.row_groups(), fields),
            empty: empty.collect(),
        }
    }

    pub(crate) fn n_bytes(&self) -> usize {
        let values = self.empty.iter().map(|(_, value)| value.size());
        size_of::<Self>()
            + size_of_val(&*self.absent)
            + size_of::<usize>() * self.empty.len()
            + values.sum::<usize>()
    }

    /// Notes them in the statistics of the file.
    pub(crate) fn note(&self, statistics: &mut Statistics) {
        let n_rows = statistics.num_rows;
        for column in &self.absent {
            if let Some(known) = statistics.column_statistics.get_mut(*column) {
                known.null_count = n_rows;
            }
        }
        for (column, value) in &self.empty {
            if let Some(known) = statistics.column_statistics.get_mut(*column) {
                known.null_count = Precision::Exact(0);
                known.min_value = Precision::Exact(value.clone());
                known.max_value = Precision::Exact(value.clone());
            }
        }
    }
}

/// An empty list or map.
fn without_items(data_type: &DataType) -> Option<ScalarValue> {
    let offsets = OffsetBuffer::from_lengths([0]);
    let one: ArrayRef = match data_type {
        DataType::List(item) => {
            let items = new_empty_array(item.data_type());
            Arc::new(ListArray::try_new(Arc::clone(item), offsets, items, None).ok()?)
        }
        DataType::Map(entry, is_sorted) => {
            let entries = new_empty_array(entry.data_type());
            let entries = entries.as_any().downcast_ref::<StructArray>()?.clone();
            let map = MapArray::try_new(Arc::clone(entry), offsets, entries, None, *is_sorted);
            Arc::new(map.ok()?)
        }
        _ => return None,
    };
    ScalarValue::try_from_array(&one, 0).ok()
}

/// Columns of which the statistics of every row group say that there is nothing but NULL.
fn absent(groups: &[RowGroupMetaData], fields: &Schema) -> Box<[usize]> {
    let mut n_absent: HashMap<&str, usize> = HashMap::new();
    for group in groups {
        let rows = u64::try_from(group.num_rows()).ok();
        for chunk in group.columns() {
            let n_null = chunk
                .statistics()
                .and_then(ParquetStatistics::null_count_opt);
            if let [name] = chunk.column_path().parts()
                && n_null == rows
            {
                *n_absent.entry(name).or_default() += 1;
            }
        }
    }
    let is_absent = |name: &str| n_absent.get(name) == Some(&groups.len());
    let fields = fields.fields().iter().enumerate();
    fields
        .filter(|(_, field)| is_absent(field.name()))
        .map(|(idx, _)| idx)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
    use bytes::Bytes;
    use parquet::arrow::ArrowWriter;
    use parquet::arrow::arrow_reader::ArrowReaderMetadata;
    use parquet::file::properties::{EnabledStatistics, WriterProperties};

    use super::{absent, without_items};

    fn column(values: [Option<i64>; 4]) -> ArrayRef {
        Arc::new(Int64Array::from(values.to_vec()))
    }

    /// Columns that are absent from a file of two row groups of two rows.
    fn absent_in(statistics: EnabledStatistics) -> Vec<String> {
        let text: ArrayRef = Arc::new(StringArray::from(vec![None::<&str>; 4]));
        let batch = RecordBatch::try_from_iter_with_nullable([
            ("full", column([Some(1), Some(2), Some(3), Some(4)]), true),
            ("none", column([None; 4]), true),
            ("first", column([Some(1), None, None, None]), true),
            ("last", column([None, None, None, Some(4)]), true),
            ("text", text, true),
        ])
        .unwrap();
        let properties = WriterProperties::builder()
            .set_max_row_group_row_count(Some(2))
            .set_statistics_enabled(statistics)
            .build();
        let mut writer =
            ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        let file = Bytes::from(writer.into_inner().unwrap());
        let file = ArrowReaderMetadata::load(&file, Default::default()).unwrap();
        assert_eq!(file.metadata().num_row_groups(), 2);
        let schema = batch.schema();
        let absent = absent(file.metadata().row_groups(), &schema);
        let names = absent.iter().map(|idx| schema.field(*idx).name().clone());
        names.collect()
    }

    #[test]
    fn a_column_is_absent_where_no_row_group_has_a_value() {
        assert_eq!(absent_in(EnabledStatistics::Chunk), ["none", "text"]);
        // Nothing is known without statistics.
        assert_eq!(absent_in(EnabledStatistics::None), [""; 0]);
    }

    #[test]
    fn an_empty_list_or_map_is_of_the_type_of_its_column() {
        let spec = tables::spec("spans").unwrap();
        let mut n_found = 0;
        for field in spec.schema().fields() {
            if let Some(value) = without_items(field.data_type()) {
                assert_eq!(&value.data_type(), field.data_type(), "{}", field.name());
                assert!(!value.is_null());
                n_found += 1;
            }
        }
        assert!(
            n_found >= 4,
            "attributes, resource_attributes, events, links"
        );
    }
}
