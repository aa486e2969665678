//! Tests of the tables: rows are printed cell by cell and compared with text.

mod cases;
mod contract;
mod hostile;
mod real;
mod restored;
mod rows;
mod values;

use arrow::{
    array::{Array, AsArray, RecordBatch},
    datatypes::TimestampMicrosecondType,
    util::display::{ArrayFormatter, FormatOptions},
};
use otlp::{
    Signal,
    export::{self, Limits},
};

use crate::{
    redact::{Config, Redaction},
    spans::{SpanInput, SpansBuilder, TraceContext},
};

/// 2026-03-01T12:00:01Z.
const RECEIVED: u64 = 1_772_366_401_000_000_000;

/// The rows of `spans` for a request, under a configuration of redaction.
fn spans_with(config: &Config, body: &[u8]) -> RecordBatch {
    let limits = Limits::default();
    export::check(Signal::Traces, body, &limits).unwrap();
    let mut builder = SpansBuilder::new(&Redaction::new(config).unwrap());
    for at in export::spans(body, &limits) {
        let input = SpanInput {
            at: &at.unwrap(),
            trace: &TraceContext {
                start_time_unix_nano: otlp::testing::T0,
            },
            late: false,
            received_unix_nano: RECEIVED,
        };
        builder.append(&input).unwrap();
    }
    let n_rows = builder.len();
    let batch = builder.finish();
    assert_eq!((batch.num_rows(), builder.len()), (n_rows, 0));
    batch
}

/// The rows of `spans` for a request.
fn spans(body: &[u8]) -> RecordBatch {
    spans_with(&Config::default(), body)
}

/// The rows of `spans` for an OTLP/JSON file of `testdata`.
fn spans_of_file(config: &Config, name: &str) -> RecordBatch {
    let path = format!("{}/testdata/{name}", env!("CARGO_MANIFEST_DIR"));
    let json = std::fs::read(path).unwrap();
    let body = otlp::json::to_protobuf(Signal::Traces, &json, &Limits::default()).unwrap();
    spans_with(config, &body)
}

/// One cell as text; NULL for none.
pub(crate) fn cell(batch: &RecordBatch, row: usize, column: &str) -> String {
    let column = batch.column_by_name(column).unwrap();
    text(column.as_ref(), row)
}

fn text(array: &dyn Array, row: usize) -> String {
    // The formatter needs a table of time zones even for UTC.
    if let Some(times) = array.as_primitive_opt::<TimestampMicrosecondType>() {
        let time = times
            .is_valid(row)
            .then(|| times.value_as_datetime(row))
            .flatten();
        return time.map_or_else(|| "NULL".to_owned(), |time| time.to_string());
    }
    let options = FormatOptions::default().with_null("NULL");
    let formatter = ArrayFormatter::try_new(array, &options).unwrap();
    formatter.value(row).to_string()
}

/// Entries of a map cell, in order.
fn entries(batch: &RecordBatch, row: usize, column: &str) -> Vec<(String, String)> {
    let map = batch.column_by_name(column).unwrap().as_map().value(row);
    (0..map.len())
        .map(|i| (text(map.column(0), i), text(map.column(1), i)))
        .collect()
}

/// One value of a map cell.
fn entry(batch: &RecordBatch, row: usize, column: &str, key: &str) -> Option<String> {
    let mut entries = entries(batch, row, column).into_iter();
    let (_, value) = entries.find(|(known, _)| known == key)?;
    Some(value)
}

/// Attributes of an event (`events`, field 3) or link (`links`, field 4) of a row.
fn nested(batch: &RecordBatch, row: usize, column: &str, item: usize) -> Vec<(String, String)> {
    let items = batch
        .column_by_name(column)
        .unwrap()
        .as_list::<i32>()
        .value(row);
    let items = items.as_struct();
    let map = items
        .column_by_name("attributes")
        .unwrap()
        .as_map()
        .value(item);
    (0..map.len())
        .map(|i| (text(map.column(0), i), text(map.column(1), i)))
        .collect()
}

/// One field of an event or link of a row.
fn nested_field(batch: &RecordBatch, row: usize, column: &str, item: usize, field: &str) -> String {
    let items = batch
        .column_by_name(column)
        .unwrap()
        .as_list::<i32>()
        .value(row);
    text(items.as_struct().column_by_name(field).unwrap(), item)
}

/// Compares cells of a row with their text.
#[track_caller]
pub(crate) fn check(batch: &RecordBatch, row: usize, expected: &[(&str, &str)]) {
    for (column, text) in expected {
        assert_eq!(
            cell(batch, row, column),
            *text,
            "row {row}, column `{column}`"
        );
    }
}

fn pair(key: &str, value: &str) -> (String, String) {
    (key.to_owned(), value.to_owned())
}
