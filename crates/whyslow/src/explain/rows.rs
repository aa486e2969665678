//! Rows of an answer by column name, whatever integer or text type a column has on the way.

use anyhow::Context as _;
use arrow::{
    array::{Array as _, ArrayRef, AsArray as _, RecordBatch},
    compute::cast,
    datatypes::{DataType, Float64Type, Int64Type},
};

use crate::sql::source::{Source, Statement};

/// An answer, in one batch per piece.
pub(super) struct Rows(Vec<RecordBatch>);

impl Rows {
    /// Asks a statement and reads its whole answer.
    pub(super) async fn ask(source: &Source, sql: &str) -> anyhow::Result<Self> {
        let statement = Statement {
            sql,
            format: "arrow",
            limit: None,
        };
        let (_schema, batches) = source.ask(&statement).await?.batches().await?;
        Ok(Self(batches))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Row<'_>> {
        self.0
            .iter()
            .flat_map(|batch| (0..batch.num_rows()).map(move |row| Row { batch, row }))
    }
}

/// One row. A column that is not in the answer is an error of the statement, which a test would show; it reads as NULL.
#[derive(Clone, Copy)]
pub(super) struct Row<'a> {
    batch: &'a RecordBatch,
    row: usize,
}

impl Row<'_> {
    fn cell(&self, name: &str, data_type: &DataType) -> Option<ArrayRef> {
        let column = self.batch.column_by_name(name);
        debug_assert!(column.is_some(), "the answer has no column `{name}`");
        let cell = column?.slice(self.row, 1);
        cast(&cell, data_type).ok().filter(|cell| cell.is_valid(0))
    }

    pub(super) fn text(&self, name: &str) -> Option<String> {
        Some(
            self.cell(name, &DataType::Utf8)?
                .as_string::<i32>()
                .value(0)
                .to_owned(),
        )
    }

    pub(super) fn int(&self, name: &str) -> Option<i64> {
        Some(
            self.cell(name, &DataType::Int64)?
                .as_primitive::<Int64Type>()
                .value(0),
        )
    }

    pub(super) fn float(&self, name: &str) -> Option<f64> {
        Some(
            self.cell(name, &DataType::Float64)?
                .as_primitive::<Float64Type>()
                .value(0),
        )
    }

    /// A list of texts that the statement joined with commas.
    pub(super) fn texts(&self, name: &str) -> Vec<String> {
        let joined = self.text(name).unwrap_or_default();
        joined
            .split(',')
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
            .collect()
    }

    pub(super) fn span_id(&self, name: &str) -> anyhow::Result<otlp::SpanId> {
        let text = self
            .text(name)
            .with_context(|| format!("a row has no `{name}`"))?;
        otlp::SpanId::parse_hex(&text).with_context(|| format!("read `{name}` of a row"))
    }
}
