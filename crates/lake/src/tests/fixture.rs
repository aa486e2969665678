//! A small table, rows that can be told apart, and a reader that checks them.

use std::ops::Range;
use std::path::Path as FsPath;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray as _, BooleanArray, Date32Array, Float64Array, Int64Array, ListBuilder,
    MapBuilder, MapFieldNames, RecordBatch, StringArray, StringBuilder, TimestampMicrosecondArray,
};
use arrow::datatypes::Int64Type;
use bytes::Bytes;
use object_store::ObjectStoreExt as _;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use tables::{Column, ColumnType, Origin, SortKey, Spec};

use crate::{Lake, Location, Mode, Table, View};

/// The day of most rows, in days since 1970.
pub(super) const DAY: i32 = 20_786;
const DAY_MICROS: i64 = 86_400_000_000;

const fn column(name: &'static str, data_type: ColumnType, nullable: bool) -> Column {
    Column {
        name,
        data_type,
        nullable,
        doc: "",
        unit: "",
        source: "",
        origin: Origin::Row,
        distinct: false,
    }
}

const fn key(name: &'static str, data_type: ColumnType) -> Column {
    Column {
        distinct: true,
        ..column(name, data_type, false)
    }
}

/// Nested columns come first, so that leaf and column indexes differ in the file.
pub(super) static TRIPS: Spec = Spec {
    name: "trips",
    doc: "One row per trip.",
    columns: &[
        column("attributes", ColumnType::Attributes, true),
        column("stops", ColumnType::TextList, true),
        column("date", ColumnType::Date, false),
        key("start_time", ColumnType::Time),
        key("id", ColumnType::Int),
        key("trace_id", ColumnType::Text),
        column("duration_s", ColumnType::Float, true),
        column("error", ColumnType::Bool, true),
    ],
    sort: &[
        SortKey::descending("start_time"),
        SortKey::ascending("trace_id"),
    ],
    bloom: &["trace_id"],
    stats: &["start_time", "id", "trace_id", "duration_s"],
    retention_days: 7,
};

/// One row per id. The time falls with `id`, every fifth duration is NULL.
pub(super) fn trips_on(day: i32, ids: Range<i64>) -> RecordBatch {
    let ids: Vec<i64> = ids.collect();
    let strings = StringBuilder::new;
    let names = MapFieldNames {
        entry: "key_value".to_owned(),
        key: "key".to_owned(),
        value: "value".to_owned(),
    };
    let schema = TRIPS.schema();
    let element = match schema.field_with_name("stops").unwrap().data_type() {
        arrow::datatypes::DataType::List(element) => Arc::clone(element),
        other => panic!("not a list: {other}"),
    };
    let mut attributes = MapBuilder::new(Some(names), strings(), strings());
    let mut stops = ListBuilder::new(strings()).with_field(element);
    for id in &ids {
        attributes.keys().append_value("color");
        attributes
            .values()
            .append_value(if id % 2 == 0 { "red" } else { "blue" });
        attributes.append(true).unwrap();
        stops.values().append_value("north");
        stops.append(id % 3 != 0);
    }
    let start = |id: &i64| i64::from(day) * DAY_MICROS + DAY_MICROS / 2 - id;
    let columns: Vec<ArrayRef> = vec![
        Arc::new(attributes.finish()),
        Arc::new(stops.finish()),
        Arc::new(Date32Array::from(vec![day; ids.len()])),
        Arc::new(
            TimestampMicrosecondArray::from_iter_values(ids.iter().map(start)).with_timezone("UTC"),
        ),
        Arc::new(Int64Array::from(ids.clone())),
        Arc::new(StringArray::from_iter_values(
            ids.iter().map(|id| trace_id(*id)),
        )),
        Arc::new(Float64Array::from_iter(
            ids.iter()
                .map(|id| (id % 5 != 0).then_some(*id as f64 / 4.0)),
        )),
        Arc::new(BooleanArray::from_iter(
            ids.iter().map(|id| Some(id % 7 == 0)),
        )),
    ];
    let columns = columns
        .into_iter()
        .zip(schema.fields())
        .map(|(array, field)| {
            if array.data_type() == field.data_type() {
                array
            } else {
                arrow::compute::cast(&array, field.data_type()).unwrap()
            }
        });
    RecordBatch::try_new(Arc::clone(&schema), columns.collect()).unwrap()
}

pub(super) fn trips(ids: Range<i64>) -> RecordBatch {
    trips_on(DAY, ids)
}

/// Scattered, so that sorting by it moves rows.
pub(super) fn trace_id(id: i64) -> String {
    let low = u64::from_ne_bytes(id.to_ne_bytes()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!("{low:016x}{id:016x}")
}

pub(super) async fn lake_at(folder: &FsPath, mode: Mode) -> crate::Result<Lake> {
    let location = Location::parse(folder.to_str().unwrap()).unwrap();
    Lake::open(&location, &[&TRIPS], mode).await
}

pub(super) async fn table_at(folder: &FsPath) -> Arc<Table> {
    Arc::clone(
        lake_at(folder, Mode::Create)
            .await
            .unwrap()
            .table("trips")
            .unwrap(),
    )
}

/// All ids that a view shows, in ascending order, duplicates included.
pub(super) async fn ids_in(table: &Table, view: &View) -> Vec<i64> {
    let mut ids = Vec::new();
    for file in view.files.iter() {
        let path = table.object_path(file).unwrap();
        let store = table.object_store();
        let bytes = store.get(&path).await.unwrap().bytes().await.unwrap();
        assert_eq!(bytes.len() as u64, file.size_bytes);
        let before = ids.len();
        read_ids(bytes, &mut ids);
        assert_eq!(Some((ids.len() - before) as u64), file.n_rows);
    }
    for batch in &view.fresh {
        ids.extend(batch["id"].as_primitive::<Int64Type>().values());
    }
    ids.sort_unstable();
    ids
}

fn read_ids(bytes: Bytes, ids: &mut Vec<i64>) {
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes)
        .unwrap()
        .build()
        .unwrap();
    for batch in reader {
        ids.extend(batch.unwrap()["id"].as_primitive::<Int64Type>().values());
    }
}

/// The rows that a fresh process finds.
pub(super) async fn stored_ids(folder: &FsPath) -> Vec<i64> {
    let lake = lake_at(folder, Mode::ReadOnly).await.unwrap();
    let table = lake.table("trips").unwrap();
    ids_in(table, &table.view()).await
}

pub(super) fn all_ids(n_rows: i64) -> Vec<i64> {
    (0..n_rows).collect()
}
