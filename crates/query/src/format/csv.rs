//! Rows as CSV (RFC 4180) with a header line; nested values are JSON text.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::csv::WriterBuilder;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use bytes::Bytes;

use super::json;

pub(crate) struct Encoder {
    flat: SchemaRef,
}

impl Encoder {
    pub(crate) fn new(schema: &SchemaRef) -> Self {
        let fields: Vec<_> = schema
            .fields()
            .iter()
            .map(|field| {
                if field.data_type().is_nested() {
                    Arc::new(Field::new(field.name(), DataType::Utf8, true))
                } else {
                    Arc::clone(field)
                }
            })
            .collect();
        Self {
            flat: Arc::new(Schema::new(fields)),
        }
    }

    /// The header line, also for an answer without rows.
    pub(crate) fn begin(&self) -> Result<Bytes, ArrowError> {
        write(&RecordBatch::new_empty(Arc::clone(&self.flat)), true)
    }

    pub(crate) fn batch(&self, batch: &RecordBatch) -> Result<Bytes, ArrowError> {
        let schema = batch.schema();
        let columns = schema
            .fields()
            .iter()
            .zip(batch.columns())
            .map(|(field, column)| {
                if !field.data_type().is_nested() {
                    return Ok(Arc::clone(column));
                }
                let texts = json::as_text(field, column)?;
                Ok(Arc::new(StringArray::from(texts)) as ArrayRef)
            })
            .collect::<Result<Vec<_>, ArrowError>>()?;
        write(
            &RecordBatch::try_new(Arc::clone(&self.flat), columns)?,
            false,
        )
    }
}

fn write(batch: &RecordBatch, has_header: bool) -> Result<Bytes, ArrowError> {
    let mut writer = WriterBuilder::new()
        .with_header(has_header)
        .build(Vec::new());
    writer.write(batch)?;
    Ok(Bytes::from(writer.into_inner()))
}
