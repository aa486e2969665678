//! Rows as one JSON object.
//!
//! ```json
//! {"columns":[{"name":"trace_id","type":"string"},{"name":"e2e_s","type":"float64"}],
//!  "rows":[["4bf92f3577b34da6a3ce929d0e0e4736",2.61]],
//!  "row_count":1,"truncated":false,"elapsed_ms":12}
//! ```
//!
//! Rows are arrays, so that equal names do not swallow each other. 64-bit integers are JSON numbers
//! with all their digits; a JavaScript reader that needs `*_unix_nano` exactly takes Arrow. `error`
//! is there only if the answer broke off after its first row; the rows before it are right but not
//! all.

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, FieldRef, SchemaRef};
use arrow::error::ArrowError;
use arrow::json::writer::{EncoderOptions, NullableEncoder, make_encoder};
use bytes::Bytes;
use serde::Serialize;

use super::{Problem, Summary};

pub(crate) struct Encoder {
    columns: Vec<ColumnHead>,
    has_rows: bool,
}

#[derive(Serialize)]
struct ColumnHead {
    name: String,
    r#type: String,
}

#[derive(Serialize)]
struct Tail<'a> {
    row_count: u64,
    truncated: bool,
    elapsed_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a Problem>,
}

impl Encoder {
    pub(crate) fn new(schema: &SchemaRef) -> Self {
        let columns = schema
            .fields()
            .iter()
            .map(|field| ColumnHead {
                name: field.name().clone(),
                r#type: type_name(field.data_type()),
            })
            .collect();
        Self {
            columns,
            has_rows: false,
        }
    }

    pub(crate) fn begin(&self) -> Bytes {
        let columns = to_json(&self.columns);
        Bytes::from(format!("{{\"columns\":{columns},\"rows\":["))
    }

    pub(crate) fn batch(&mut self, batch: &RecordBatch) -> Result<Bytes, ArrowError> {
        let options = options();
        let schema = batch.schema();
        let mut cells = schema
            .fields()
            .iter()
            .zip(batch.columns())
            .map(|(field, column)| make_encoder(field, column.as_ref(), &options))
            .collect::<Result<Vec<_>, _>>()?;
        let mut out = Vec::new();
        for row_idx in 0..batch.num_rows() {
            out.extend_from_slice(if self.has_rows { b",\n[" } else { b"[" });
            self.has_rows = true;
            for (cell_idx, cell) in cells.iter_mut().enumerate() {
                if cell_idx > 0 {
                    out.push(b',');
                }
                write_cell(cell, row_idx, &mut out);
            }
            out.push(b']');
        }
        Ok(Bytes::from(out))
    }

    pub(crate) fn end(&self, summary: Summary, error: Option<&Problem>) -> Bytes {
        let tail = to_json(&Tail {
            row_count: summary.n_rows,
            truncated: summary.is_truncated,
            elapsed_ms: u64::try_from(summary.elapsed.as_millis()).unwrap_or(u64::MAX),
            error,
        });
        let tail = tail.strip_prefix('{').unwrap_or(&tail);
        Bytes::from(format!("],{tail}\n"))
    }
}

/// A nested column as JSON text, for formats without nesting.
pub(crate) fn as_text(
    field: &FieldRef,
    column: &ArrayRef,
) -> Result<Vec<Option<String>>, ArrowError> {
    let options = options();
    let mut cell = make_encoder(field, column.as_ref(), &options)?;
    Ok((0..column.len())
        .map(|row_idx| {
            if cell.is_null(row_idx) {
                return None;
            }
            let mut out = Vec::new();
            cell.encode(row_idx, &mut out);
            Some(String::from_utf8_lossy(&out).into_owned())
        })
        .collect())
}

fn options() -> EncoderOptions {
    EncoderOptions::default().with_explicit_nulls(true)
}

fn write_cell(cell: &mut NullableEncoder<'_>, row_idx: usize, out: &mut Vec<u8>) {
    if cell.is_null(row_idx) {
        out.extend_from_slice(b"null");
    } else {
        cell.encode(row_idx, out);
    }
}

/// Text, numbers and booleans only: cannot fail.
fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// A type's stable lower-case name; Arrow's own names are not ASCII and change.
pub(crate) fn type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "string".to_owned(),
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => "binary".to_owned(),
        DataType::Timestamp(_, Some(_)) => "timestamp_utc".to_owned(),
        DataType::Timestamp(_, None) => "timestamp".to_owned(),
        DataType::Date32 | DataType::Date64 => "date".to_owned(),
        DataType::Time32(_) | DataType::Time64(_) => "time".to_owned(),
        DataType::Duration(_) => "duration".to_owned(),
        DataType::Interval(_) => "interval".to_owned(),
        DataType::List(_)
        | DataType::LargeList(_)
        | DataType::ListView(_)
        | DataType::LargeListView(_)
        | DataType::FixedSizeList(..) => "list".to_owned(),
        DataType::Struct(_) => "struct".to_owned(),
        DataType::Map(..) => "map".to_owned(),
        DataType::Union(..) => "union".to_owned(),
        DataType::Dictionary(_, value) => type_name(value),
        DataType::RunEndEncoded(_, value) => type_name(value.data_type()),
        DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => "decimal".to_owned(),
        DataType::Null
        | DataType::Boolean
        | DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::UInt8
        | DataType::UInt16
        | DataType::UInt32
        | DataType::UInt64
        | DataType::Float16
        | DataType::Float32
        | DataType::Float64 => data_type.to_string().to_lowercase(),
    }
}
