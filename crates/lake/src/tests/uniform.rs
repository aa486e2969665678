//! Which columns of a file are compressed.

use std::sync::Arc;

use arrow::array::{
    Array as _, ArrayRef, AsArray as _, BooleanArray, Float64Array, ListArray, RecordBatch,
    new_empty_array, new_null_array,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::DataType;
use bytes::Bytes;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Compression;
use parquet::file::metadata::ParquetMetaData;

use super::fixture::{all_ids, ids_in, table_at, trips};
use super::maintain::{at, maintained, now};
use crate::{Table, empty_columns};

/// Trips with another column in place of their own.
fn with(rows: RecordBatch, name: &str, column: ArrayRef) -> RecordBatch {
    let schema = rows.schema();
    let mut columns = rows.columns().to_vec();
    columns[schema.index_of(name).unwrap()] = column;
    RecordBatch::try_new(schema, columns).unwrap()
}

fn without(rows: RecordBatch, name: &str) -> RecordBatch {
    let nulls = new_null_array(rows[name].data_type(), rows.num_rows());
    with(rows, name, nulls)
}

fn with_duration(rows: RecordBatch, seconds: f64) -> RecordBatch {
    let column = Float64Array::from(vec![seconds; rows.num_rows()]);
    with(rows, "duration_s", Arc::new(column))
}

/// The footer of the only file.
fn footer(folder: &std::path::Path, table: &Table) -> Arc<ParquetMetaData> {
    let view = table.view();
    assert_eq!(view.files.len(), 1);
    let bytes = std::fs::read(folder.join("trips").join(&*view.files[0].path)).unwrap();
    let file = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(bytes)).unwrap();
    Arc::clone(file.metadata())
}

/// Columns of the only file that are not compressed.
fn plain(folder: &std::path::Path, table: &Table) -> Vec<String> {
    let file = footer(folder, table);
    let groups = file.row_groups();
    let plain = |group: &parquet::file::metadata::RowGroupMetaData| {
        let columns = group.columns().iter();
        let plain = columns.filter(|column| column.compression() == Compression::UNCOMPRESSED);
        plain
            .map(|column| column.column_path().string())
            .collect::<Vec<_>>()
    };
    let first = plain(&groups[0]);
    assert!(groups.iter().all(|group| plain(group) == first));
    first
}

#[tokio::test]
async fn a_column_with_one_value_or_none_is_not_compressed() {
    const N_ROWS: i64 = 1_000;
    let rows = || trips(0..N_ROWS);
    let nothing_false = BooleanArray::from(vec![false; N_ROWS as usize]);
    let cases: [(RecordBatch, &[&str]); 6] = [
        (rows(), &[]),
        (
            without(rows(), "attributes"),
            &["attributes.key_value.key", "attributes.key_value.value"],
        ),
        (without(rows(), "stops"), &["stops.list.element"]),
        (without(rows(), "error"), &["error"]),
        (with_duration(rows(), 2.5), &["duration_s"]),
        // It has no dictionary, so it is a bit for each row.
        (with(rows(), "error", Arc::new(nothing_false)), &[]),
    ];
    for (rows, expected) in cases {
        let folder = tempfile::tempdir().unwrap();
        let table = table_at(folder.path()).await;
        table.append("a", 1, rows);
        table.commit("a", 1).await.unwrap().unwrap();
        assert_eq!(plain(folder.path(), &table), expected);
        assert_eq!(ids_in(&table, &table.view()).await, all_ids(N_ROWS));
    }
}

/// Files that are merged, and what of the result is not compressed.
async fn check_merged(files: Vec<RecordBatch>, expected: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let table = table_at(folder.path()).await;
    let n_rows: usize = files.iter().map(RecordBatch::num_rows).sum();
    for (rows, sequence) in files.into_iter().zip(1..) {
        table.append("a", sequence, rows);
        table.commit("a", sequence).await.unwrap().unwrap();
    }
    maintained(&table, &at(now())).await;
    assert_eq!(plain(folder.path(), &table), expected);
    assert_eq!(ids_in(&table, &table.view()).await, all_ids(n_rows as i64));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_uniform_in_all_files_stays_so_when_they_are_merged() {
    let parts = || (0..4).map(|part| trips(part * 100..(part + 1) * 100));
    let constant = parts().map(|rows| with_duration(rows, 2.5));
    check_merged(constant.collect(), &["duration_s"]).await;
    let absent = parts().map(|rows| without(rows, "error"));
    check_merged(absent.collect(), &["error"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_differs_from_file_to_file_is_compressed_when_they_are_merged() {
    let parts = || (0..4_i32).map(|part| trips(i64::from(part) * 100..i64::from(part + 1) * 100));
    let different = parts()
        .enumerate()
        .map(|(part, rows)| with_duration(rows, part as f64));
    check_merged(different.collect(), &[]).await;
    let one_has_it = parts().enumerate().map(|(part, rows)| match part {
        2 => rows,
        _ => without(rows, "error"),
    });
    check_merged(one_has_it.collect(), &[]).await;
    // A row each: every column is uniform in every file.
    let alone = (0..20).map(|id| trips(id..id + 1));
    check_merged(alone.collect(), &[]).await;
}

fn with_no_stops(rows: RecordBatch) -> RecordBatch {
    let stops = rows["stops"].as_list::<i32>();
    let DataType::List(item) = stops.data_type() else {
        panic!("not a list: {}", stops.data_type());
    };
    let offsets = OffsetBuffer::from_lengths(vec![0; rows.num_rows()]);
    let items = new_empty_array(item.data_type());
    let empty = ListArray::new(Arc::clone(item), offsets, items, None);
    with(rows, "stops", Arc::new(empty))
}

/// What the footer says of the merged files, or of the only one.
async fn said_empty(files: Vec<RecordBatch>) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let table = table_at(folder.path()).await;
    for (rows, sequence) in files.into_iter().zip(1..) {
        table.append("a", sequence, rows);
        table.commit("a", sequence).await.unwrap().unwrap();
    }
    maintained(&table, &at(now())).await;
    let file = footer(folder.path(), &table);
    empty_columns(&file).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_footer_names_the_columns_that_are_empty_in_every_row() {
    let parts = || (0..3).map(|part| trips(part * 100..(part + 1) * 100));
    assert_eq!(said_empty(vec![trips(0..100)]).await, [""; 0]);
    assert_eq!(
        said_empty(vec![with_no_stops(trips(0..100))]).await,
        ["stops"]
    );
    // NULL is not empty.
    assert_eq!(
        said_empty(vec![without(trips(0..100), "stops")]).await,
        [""; 0]
    );
    let all = parts().map(with_no_stops).collect();
    assert_eq!(said_empty(all).await, ["stops"]);
    let all_but_one = parts().enumerate().map(|(part, rows)| match part {
        1 => rows,
        _ => with_no_stops(rows),
    });
    assert_eq!(said_empty(all_but_one.collect()).await, [""; 0]);
}
