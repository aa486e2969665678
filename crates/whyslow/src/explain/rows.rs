//! Rows of an answer by column name, whatever integer or text type a column has on the way.

use std::{cell::RefCell, collections::HashMap, rc::Rc};

use anyhow::Context as _;
use arrow::{
    array::{Array as _, ArrayRef, AsArray as _, RecordBatch},
    datatypes::{Float64Type, Int64Type},
};

use crate::history::cells;
use crate::sql::source;

/// Answers that are remembered; each has a few rows.
const REMEMBERED_MAX: usize = 1 << 12;

/// Who is asked, and what it has answered: several requests ask the same about what is around them.
pub(super) struct Source {
    asked: source::Source,
    remembered: RefCell<HashMap<String, Rc<Rows>>>,
}

impl Source {
    pub(super) fn new(asked: source::Source) -> Self {
        Self {
            asked,
            remembered: RefCell::default(),
        }
    }
}

/// An answer, in one piece per batch.
pub(super) struct Rows(Vec<Piece>);

struct Piece {
    n_rows: usize,
    columns: HashMap<String, ArrayRef>,
}

impl Rows {
    /// Asks a statement and reads its whole answer.
    pub(super) async fn ask(source: &Source, sql: &str) -> anyhow::Result<Self> {
        let batches = source.asked.rows(sql).await?;
        Ok(Self(
            batches.iter().map(piece).collect::<anyhow::Result<_>>()?,
        ))
    }

    /// The same, or the answer of before.
    pub(super) async fn ask_once(source: &Source, sql: &str) -> anyhow::Result<Rc<Self>> {
        let known = source.remembered.borrow().get(sql).map(Rc::clone);
        if let Some(known) = known {
            return Ok(known);
        }
        let rows = Rc::new(Self::ask(source, sql).await?);
        let mut remembered = source.remembered.borrow_mut();
        if remembered.len() >= REMEMBERED_MAX {
            remembered.clear();
        }
        remembered.insert(sql.to_owned(), Rc::clone(&rows));
        Ok(rows)
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

fn piece(batch: &RecordBatch) -> anyhow::Result<Piece> {
    let schema = batch.schema_ref();
    let columns = schema.fields().iter().map(|field| {
        let name = field.name();
        Ok((name.clone(), cells(batch, name)?))
    });
    Ok(Piece {
        n_rows: batch.num_rows(),
        columns: columns.collect::<anyhow::Result<_>>()?,
    })
}

/// One row. A column that is not in the answer is an error of the statement, which a test would show; it reads as NULL.
#[derive(Clone, Copy)]
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

    pub(super) fn span_id(&self, name: &str) -> anyhow::Result<otlp::SpanId> {
        let text = self
            .text(name)
            .with_context(|| format!("a row has no `{name}`"))?;
        otlp::SpanId::parse_hex(&text).with_context(|| format!("read `{name}` of a row"))
    }
}
