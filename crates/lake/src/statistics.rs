//! Minimum, maximum and NULL count of the columns that prune files.
//!
//! The source is Delta's `add.stats` JSON (protocol, "Per-file Statistics") or, for a file that
//! this process has just written, the same numbers before they became JSON. JSON holds timestamps
//! cut to milliseconds, so a maximum read from it is widened by 999 microseconds. Bounds are
//! inclusive and may be wider than the data (strings are cut at 32 characters, the maximum rounded
//! up); what cannot be trusted (NaN, wrong type, broken JSON) is absent, never guessed.

use std::sync::Arc;

use arrow::array::{Array, AsArray as _, StructArray};
use arrow::compute::kernels::cast_utils::Parser as _;
use arrow::datatypes::{
    DataType, Float64Type, Int32Type, Int64Type, SchemaRef, TimeUnit, TimestampMicrosecondType,
};
use serde_json::Value;

/// The widest error of a maximum that was cut to milliseconds.
const CUT_MICROSECONDS_MAX: i64 = 999;

/// A bound of a column in one file.
#[derive(Debug, Clone, PartialEq)]
pub enum Bound {
    /// Int32 and Int64 columns.
    Int(i64),
    /// Float64 columns; never NaN.
    Float(f64),
    /// Utf8 columns.
    Text(Arc<str>),
    /// Timestamp columns: microseconds since 1970, UTC.
    TimestampMicros(i64),
}

/// What is known of one column in one file.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnStatistics {
    /// Name of the column, one of the specification's `stats`.
    pub column: &'static str,
    /// No value is below it.
    pub min: Option<Bound>,
    /// No value is above it.
    pub max: Option<Bound>,
    /// Rows without a value.
    pub null_count: Option<u64>,
}

/// Row count and per column statistics of one file.
#[derive(Debug, Clone, Default)]
pub(crate) struct FileStatistics {
    pub(crate) n_rows: Option<u64>,
    pub(crate) columns: Vec<ColumnStatistics>,
}

/// Reads the statistics of the JSON text of an `add` action; broken text gives nothing.
pub(crate) fn from_json(
    text: &str,
    columns: &[&'static str],
    schema: &SchemaRef,
) -> FileStatistics {
    let Ok(json) = serde_json::from_str::<Value>(text) else {
        return FileStatistics::default();
    };
    let part = |part: &str, column: &str| json.get(part).and_then(|part| part.get(column));
    let columns = columns
        .iter()
        .filter_map(|&column| {
            let data_type = schema.field_with_name(column).ok()?.data_type();
            let bound = |name| part(name, column).and_then(|value| json_bound(value, data_type));
            Some(ColumnStatistics {
                column,
                min: bound("minValues"),
                max: bound("maxValues").map(widened),
                null_count: part("nullCount", column).and_then(Value::as_u64),
            })
        })
        .collect();
    FileStatistics {
        n_rows: json.get("numRecords").and_then(Value::as_u64),
        columns,
    }
}

fn json_bound(value: &Value, data_type: &DataType) -> Option<Bound> {
    match data_type {
        DataType::Int32 | DataType::Int64 => value.as_i64().map(Bound::Int),
        DataType::Float64 => value.as_f64().map(Bound::Float),
        DataType::Utf8 => value.as_str().map(|text| Bound::Text(text.into())),
        DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => value
            .as_str()
            .and_then(TimestampMicrosecondType::parse)
            .map(Bound::TimestampMicros),
        _ => None,
    }
}

fn widened(bound: Bound) -> Bound {
    match bound {
        Bound::TimestampMicros(micros) => {
            Bound::TimestampMicros(micros.saturating_add(CUT_MICROSECONDS_MAX))
        }
        other => other,
    }
}

/// Reads the statistics from the one-row struct that the kernel's collector makes
/// (`numRecords`, `nullCount`, `minValues`, `maxValues`).
pub(crate) fn from_collected(collected: &StructArray, columns: &[&'static str]) -> FileStatistics {
    let part = |part: &str, column: &str| {
        let part = collected.column_by_name(part)?.as_struct_opt()?;
        part.column_by_name(column)
            .filter(|array| array.len() == 1)
            .cloned()
    };
    let columns = columns
        .iter()
        .map(|&column| ColumnStatistics {
            column,
            min: part("minValues", column).and_then(|array| array_bound(&array)),
            max: part("maxValues", column).and_then(|array| array_bound(&array)),
            null_count: part("nullCount", column).and_then(|array| first_count(&array)),
        })
        .collect();
    let n_rows = collected.column_by_name("numRecords").and_then(first_count);
    FileStatistics { n_rows, columns }
}

fn first_count(array: &Arc<dyn Array>) -> Option<u64> {
    let counts = array.as_primitive_opt::<Int64Type>()?;
    counts
        .iter()
        .next()
        .flatten()
        .and_then(|count| count.try_into().ok())
}

fn array_bound(array: &Arc<dyn Array>) -> Option<Bound> {
    if array.is_null(0) {
        return None;
    }
    match array.data_type() {
        DataType::Int32 => Some(Bound::Int(
            array.as_primitive::<Int32Type>().value(0).into(),
        )),
        DataType::Int64 => Some(Bound::Int(array.as_primitive::<Int64Type>().value(0))),
        DataType::Float64 => {
            let value = array.as_primitive::<Float64Type>().value(0);
            (!value.is_nan()).then_some(Bound::Float(value))
        }
        DataType::Utf8 => Some(Bound::Text(array.as_string::<i32>().value(0).into())),
        DataType::Timestamp(TimeUnit::Microsecond, _) => Some(Bound::TimestampMicros(
            array.as_primitive::<TimestampMicrosecondType>().value(0),
        )),
        _ => None,
    }
}
