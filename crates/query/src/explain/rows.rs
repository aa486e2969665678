//! Rows of an answer by column name, whatever integer or text type a column has on the way.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Array as _, ArrayRef, AsArray as _, RecordBatch};
use arrow::datatypes::{Float64Type, Int64Type};
use otlp::SpanId;

use super::{Ask, Error, Result, cells};

/// Answers that are remembered; each has a few rows.
const REMEMBERED_MAX: usize = 1 << 12;

/// Who is asked, and what it has answered: several requests ask the same about what is around them.
#[derive(Debug)]
pub struct Source<A> {
    asked: A,
    remembered: Mutex<HashMap<String, Arc<Rows>>>,
}

impl<A: Ask> Source<A> {
    /// Asks `asked`.
    pub fn new(asked: A) -> Self {
        Self {
            asked,
            remembered: Mutex::default(),
        }
    }
}

/// An answer, in one piece per batch.
#[derive(Debug)]
pub(super) struct Rows(Vec<Piece>);

#[derive(Debug)]
struct Piece {
    n_rows: usize,
    columns: HashMap<String, ArrayRef>,
}

impl Rows {
    /// Asks a statement and reads its whole answer.
    pub(super) async fn ask<A: Ask>(source: &Source<A>, sql: &str) -> Result<Self> {
        let batches = source.asked.rows(sql).await.map_err(Error::Asked)?;
        Ok(Self(batches.iter().map(piece).collect::<Result<_>>()?))
    }

    /// The same, or the answer of before.
    pub(super) async fn ask_once<A: Ask>(source: &Source<A>, sql: &str) -> Result<Arc<Self>> {
        let known = {
            let remembered = source.remembered.lock();
            let remembered = remembered.unwrap_or_else(PoisonError::into_inner);
            remembered.get(sql).map(Arc::clone)
        };
        if let Some(known) = known {
            return Ok(known);
        }
        let rows = Arc::new(Self::ask(source, sql).await?);
        let remembered = source.remembered.lock();
        let mut remembered = remembered.unwrap_or_else(PoisonError::into_inner);
        if remembered.len() >= REMEMBERED_MAX {
            remembered.clear();
        }
        remembered.insert(sql.to_owned(), Arc::clone(&rows));
        Ok(rows)
    }

    pub(super) fn n_rows(&self) -> usize {
        self.0.iter().map(|piece| piece.n_rows).sum()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Row<'_>> {
        let pieces = self.0.iter();
        pieces.flat_map(|piece| {
            (0..piece.n_rows).map(move |row| Row {
                columns: &piece.columns,
                row,
            })
        })
    }
}

fn piece(batch: &RecordBatch) -> Result<Piece> {
    let schema = batch.schema_ref();
    let columns = schema.fields().iter().map(|field| {
        let name = field.name();
        let cells = cells(batch, name).map_err(|source| Error::Column {
            column: name.clone(),
            source,
        });
        Ok((name.clone(), cells?))
    });
    Ok(Piece {
        n_rows: batch.num_rows(),
        columns: columns.collect::<Result<_>>()?,
    })
}

/// One row. A column that is not in the answer is an error of the statement, which a test would show; it reads as NULL.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row<'a> {
    columns: &'a HashMap<String, ArrayRef>,
    row: usize,
}

impl<'a> Row<'a> {
    fn cell(&self, name: &str) -> Option<&'a ArrayRef> {
        let column = self.columns.get(name);
        debug_assert!(column.is_some(), "the answer has no column `{name}`");
        column.filter(|column| column.is_valid(self.row))
    }

    pub(super) fn text(&self, name: &str) -> Option<String> {
        Some(
            self.cell(name)?
                .as_string_opt::<i32>()?
                .value(self.row)
                .to_owned(),
        )
    }

    pub(super) fn int(&self, name: &str) -> Option<i64> {
        Some(
            self.cell(name)?
                .as_primitive_opt::<Int64Type>()?
                .value(self.row),
        )
    }

    pub(super) fn bool(&self, name: &str) -> Option<bool> {
        Some(self.cell(name)?.as_boolean_opt()?.value(self.row))
    }

    /// Also of a column of whole numbers.
    pub(super) fn float(&self, name: &str) -> Option<f64> {
        let cell = self.cell(name)?;
        let float = cell
            .as_primitive_opt::<Float64Type>()
            .map(|column| column.value(self.row));
        float.or_else(|| self.int(name).map(|number| number as f64))
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

    pub(super) fn span_id(&self, column: &'static str) -> Result<SpanId> {
        let text = self.text(column).ok_or(Error::Id {
            column,
            source: None,
        })?;
        SpanId::parse_hex(&text).map_err(|invalid| Error::Id {
            column,
            source: Some(invalid),
        })
    }
}
