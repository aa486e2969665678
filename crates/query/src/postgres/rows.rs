//! Columns and rows of answers as clients of Postgres read them, as text or binary, whichever they ask for.
//!
//! | here | there |
//! |---|---|
//! | booleans, integers, floats, text, bytes, dates, times with and without zone, decimals, intervals | the type of that name; unsigned 64-bit as `numeric` |
//! | lists of those but intervals | arrays |
//! | maps, structs, lists of anything else | `json` |
//! | NULL without a type | `text` |
//! | whatever else DataFusion can make | `text`, as it prints it |
//!
//! NULL is NULL, whatever the type. Times are given in UTC.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, TimeUnit};
use arrow::error::ArrowError;
use arrow_pg::datatypes::field_into_pg_type;
use arrow_pg::encoder::encode_value;
use bytes::BytesMut;
use pgwire::api::Type;
use pgwire::api::results::{DataRowEncoder, FieldFormat, FieldInfo};
use pgwire::messages::Message as _;
use pgwire::messages::data::{FieldDescription, RowDescription};

use super::problem::Problem;
use crate::format::as_text;

/// Writes the rows of one answer.
#[derive(Debug)]
pub(crate) struct RowWriter {
    columns: Vec<Column>,
}

#[derive(Debug)]
struct Column {
    name: String,
    told: Type,
    format: FieldFormat,
    from: From,
    /// What is encoded after that.
    field: Field,
    info: FieldInfo,
}

/// What has to be done before a value can be encoded.
#[derive(Debug, Clone, PartialEq, Eq)]
enum From {
    AsItIs,
    Cast(DataType),
    Json,
}

impl RowWriter {
    /// For columns of `schema` in `formats`: none, one for all, or one each.
    pub(crate) fn new(schema: &Schema, formats: &[i16]) -> Result<Self, Problem> {
        let n_columns = schema.fields().len();
        if formats.len() > 1 && formats.len() != n_columns {
            let n_formats = formats.len();
            let message = format!("{n_formats} formats for {n_columns} columns");
            return Err(Problem::protocol(message));
        }
        let columns = schema.fields().iter().enumerate().map(|(idx, field)| {
            let format = formats
                .get(idx)
                .or(formats.first().filter(|_| formats.len() == 1));
            Column::new(field, format_of(format.copied().unwrap_or(0))?)
        });
        Ok(Self {
            columns: columns.collect::<Result<_, _>>()?,
        })
    }

    /// Writes what the columns are.
    pub(crate) fn describe(&self, out: &mut BytesMut) -> Result<(), Problem> {
        let fields = self.columns.iter().map(|column| {
            let mut name = column.name.clone();
            // A zero byte would end the name.
            name.retain(|char| char != '\0');
            FieldDescription::new(
                name,
                0,
                0,
                column.told.oid(),
                size_of(&column.told),
                -1,
                column.format.value(),
            )
        });
        let encoded = RowDescription::new(fields.collect()).encode(out);
        encoded.map_err(|error| Problem::new("54011", error.to_string()))
    }

    /// A batch as it can be written.
    pub(crate) fn prepare(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>, Problem> {
        let prepared = self
            .columns
            .iter()
            .zip(batch.columns())
            .map(|(column, array)| {
                let prepared = column.prepare(array);
                prepared.map_err(|error| {
                    let name = &column.name;
                    Problem::new(
                        "0A000",
                        format!("the column `{name}` cannot be written: {error}"),
                    )
                })
            });
        prepared.collect()
    }

    /// Writes some rows of what [`RowWriter::prepare`] gave.
    pub(crate) fn write(
        &self,
        arrays: &[ArrayRef],
        rows: std::ops::Range<usize>,
        out: &mut BytesMut,
    ) -> Result<(), Problem> {
        let infos = self.columns.iter().map(|column| column.info.clone());
        let mut encoder = DataRowEncoder::new(Arc::new(infos.collect()));
        for row in rows {
            for (column, array) in self.columns.iter().zip(arrays) {
                let encoded = if array.is_null(row) {
                    encoder.encode_field_with_type_and_format(
                        &None::<i8>,
                        &Type::CHAR,
                        FieldFormat::Text,
                        column.info.format_options(),
                    )
                } else {
                    encode_value(&mut encoder, array, row, &column.field, &column.info)
                };
                encoded.map_err(|error| Problem::new("22000", error.to_string()))?;
            }
            let written = encoder.take_row().encode(out);
            written.map_err(|error| Problem::new("54000", error.to_string()))?;
        }
        Ok(())
    }
}

pub(crate) fn format_of(code: i16) -> Result<FieldFormat, Problem> {
    match code {
        0 => Ok(FieldFormat::Text),
        1 => Ok(FieldFormat::Binary),
        _ => Err(Problem::protocol(format!("there is no format {code}"))),
    }
}

impl Column {
    fn new(field: &FieldRef, format: FieldFormat) -> Result<Self, Problem> {
        let from = from(field.data_type());
        let data_type = match &from {
            From::AsItIs => field.data_type().clone(),
            From::Cast(data_type) => data_type.clone(),
            From::Json => DataType::Utf8,
        };
        let encoded = Field::new(field.name(), data_type, true);
        // Numbers of catalog objects and one-letter types are marked in the metadata.
        let encoded = encoded.with_metadata(field.metadata().clone());
        let sent = field_into_pg_type(&Arc::new(encoded.clone()))
            .map_err(|error| Problem::new("0A000", error.to_string()))?;
        let told = match from {
            From::Json => Type::JSON,
            From::AsItIs | From::Cast(_) => sent.clone(),
        };
        Ok(Self {
            name: field.name().clone(),
            info: FieldInfo::new(field.name().clone(), None, None, sent, format),
            told,
            format,
            from,
            field: encoded,
        })
    }

    fn prepare(&self, array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        let array = match &self.from {
            From::AsItIs => Arc::clone(array),
            From::Cast(data_type) => cast(array, data_type)?,
            From::Json => {
                let field = Arc::new(Field::new(&self.name, array.data_type().clone(), true));
                let texts: Vec<Option<String>> = as_text(&field, array)?;
                Arc::new(StringArray::from(texts))
            }
        };
        // A statement whose parameters had no type until they had a value.
        if array.data_type() == self.field.data_type() {
            Ok(array)
        } else {
            cast(&array, self.field.data_type())
        }
    }
}

fn from(data_type: &DataType) -> From {
    match data_type {
        DataType::Boolean
        | DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::UInt8
        | DataType::UInt16
        | DataType::UInt32
        | DataType::UInt64
        | DataType::Float32
        | DataType::Float64
        | DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::Date32
        | DataType::Decimal128(..)
        | DataType::Interval(_)
        | DataType::Duration(_) => From::AsItIs,
        DataType::Timestamp(_, zone) => {
            let zone = zone.as_ref().map(|_| Arc::from("+00:00"));
            From::Cast(DataType::Timestamp(TimeUnit::Microsecond, zone))
        }
        DataType::Date64 => From::Cast(DataType::Date32),
        DataType::Float16 => From::Cast(DataType::Float32),
        DataType::FixedSizeBinary(_) => From::Cast(DataType::Binary),
        DataType::Dictionary(_, value) => From::Cast(encoded(value)),
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _)
            if is_of_array(item.data_type()) =>
        {
            let item = Field::new_list_field(encoded(item.data_type()), true);
            From::Cast(DataType::List(Arc::new(item)))
        }
        DataType::List(_)
        | DataType::LargeList(_)
        | DataType::FixedSizeList(..)
        | DataType::ListView(_)
        | DataType::LargeListView(_)
        | DataType::Struct(_)
        | DataType::Map(..) => From::Json,
        _ => From::Cast(DataType::Utf8),
    }
}

/// What a value of this type is before it is encoded.
fn encoded(data_type: &DataType) -> DataType {
    match from(data_type) {
        From::AsItIs => data_type.clone(),
        From::Cast(data_type) => data_type,
        From::Json => DataType::Utf8,
    }
}

fn is_of_array(data_type: &DataType) -> bool {
    !data_type.is_nested() && !matches!(data_type, DataType::Interval(_) | DataType::Duration(_))
}

/// The type by which a parameter of this kind is told.
pub(crate) fn told(data_type: &DataType) -> Type {
    let field = Arc::new(Field::new("", data_type.clone(), true));
    Column::new(&field, FieldFormat::Text).map_or(Type::TEXT, |column| column.told)
}

/// Bytes of a value of a type; -1 where they vary.
fn size_of(told: &Type) -> i16 {
    match *told {
        Type::BOOL | Type::CHAR => 1,
        Type::INT2 => 2,
        Type::INT4 | Type::FLOAT4 | Type::DATE | Type::OID => 4,
        Type::INT8 | Type::FLOAT8 | Type::TIMESTAMP | Type::TIMESTAMPTZ => 8,
        Type::INTERVAL => 16,
        _ => -1,
    }
}
