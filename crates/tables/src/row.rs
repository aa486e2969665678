//! Arrow builders for the columns of a table, filled row by row in the order of its spec.

mod nested;

use std::sync::Arc;

use arrow::{
    array::{
        ArrayBuilder as _, ArrayRef, BooleanBuilder, Date32Builder, Float64Builder, Int64Builder,
        RecordBatch, StringBuilder, TimestampMicrosecondBuilder,
    },
    datatypes::{DataType, SchemaRef},
};
use otlp::{SpanId, TraceId};

use crate::{
    column::{ColumnType, Spec},
    error::{Error, Result},
    time,
};

pub(crate) use nested::{AttributeCells, EventCell, EventCells, LinkCell, LinkCells};
use nested::{Lists, append_hex, finish_text, times};

/// Bytes after which a batch takes no more rows. Arrow's offsets are 32 bits wide; this leaves
/// room for one more row of any size that an export request can have.
const BATCH_BYTES_MAX: usize = 1 << 30;

/// What every builder around [`Rows`] offers, so that it is said once: its field `rows` holds them.
macro_rules! offer_rows {
    ($builder:ty) => {
        impl Default for $builder {
            fn default() -> Self {
                Self::new()
            }
        }

        impl $builder {
            /// Number of rows.
            pub const fn len(&self) -> usize {
                self.rows.len()
            }

            /// Are there no rows?
            pub const fn is_empty(&self) -> bool {
                self.rows.len() == 0
            }

            /// Approximate size of the rows in memory.
            pub const fn byte_size(&self) -> usize {
                self.rows.byte_size()
            }

            /// The rows so far in the order of appending; the builder is empty afterwards.
            pub fn finish(&mut self) -> arrow::array::RecordBatch {
                self.rows.finish()
            }
        }
    };
}
pub(crate) use offer_rows;

/// The columns of a batch under construction. Every row names each column once, in the order of
/// the spec, so that two columns cannot be swapped unnoticed.
#[derive(Debug)]
pub(crate) struct Rows {
    spec: &'static Spec,
    schema: SchemaRef,
    columns: Vec<Cells>,
    /// The column that the next cell belongs to.
    next: usize,
    n_rows: usize,
    n_bytes: usize,
}

#[derive(Debug)]
enum Cells {
    Date(Date32Builder),
    Time(TimestampMicrosecondBuilder),
    Int(Int64Builder),
    Float(Float64Builder),
    Bool(BooleanBuilder),
    Text(StringBuilder),
    TextList(Lists<StringBuilder>),
    Attributes(AttributeCells),
    Events(Box<EventCells>),
    Links(Box<LinkCells>),
}

impl Rows {
    pub(crate) fn new(spec: &'static Spec) -> Self {
        Self {
            spec,
            schema: spec.schema(),
            columns: spec
                .columns
                .iter()
                .map(|c| Cells::new(c.data_type))
                .collect(),
            next: 0,
            n_rows: 0,
            n_bytes: 0,
        }
    }

    pub(crate) const fn len(&self) -> usize {
        self.n_rows
    }

    pub(crate) const fn byte_size(&self) -> usize {
        self.n_bytes
    }

    /// Refuses a row that the batch has no room for. Called before the first cell of a row.
    pub(crate) fn check_room(&self) -> Result<()> {
        if self.n_bytes > BATCH_BYTES_MAX {
            return Err(Error::Full {
                n_rows: self.n_rows,
                n_bytes: self.n_bytes,
            });
        }
        Ok(())
    }

    pub(crate) fn date(&mut self, name: &str, days: i32) {
        self.n_bytes += 4;
        match self.cell(name) {
            Cells::Date(cells) => cells.append_value(days),
            _ => mismatch(name),
        }
    }

    /// A time given in OTLP's nanoseconds.
    pub(crate) fn time(&mut self, name: &str, unix_nano: u64) {
        self.micros(name, time::micros(unix_nano));
    }

    pub(crate) fn micros(&mut self, name: &str, micros: Option<i64>) {
        self.n_bytes += 8;
        match self.cell(name) {
            Cells::Time(cells) => cells.append_option(micros),
            _ => mismatch(name),
        }
    }

    pub(crate) fn int(&mut self, name: &str, number: Option<i64>) {
        self.n_bytes += 8;
        match self.cell(name) {
            Cells::Int(cells) => cells.append_option(number),
            _ => mismatch(name),
        }
    }

    /// NaN and infinities poison aggregates and file statistics, so they are stored as NULL.
    pub(crate) fn float(&mut self, name: &str, number: Option<f64>) {
        self.n_bytes += 8;
        match self.cell(name) {
            Cells::Float(cells) => cells.append_option(number.filter(|n| n.is_finite())),
            _ => mismatch(name),
        }
    }

    pub(crate) fn bool(&mut self, name: &str, answer: Option<bool>) {
        self.n_bytes += 1;
        match self.cell(name) {
            Cells::Bool(cells) => cells.append_option(answer),
            _ => mismatch(name),
        }
    }

    pub(crate) fn text(&mut self, name: &str, text: Option<&str>) {
        self.n_bytes += 4 + text.map_or(0, str::len);
        match self.cell(name) {
            Cells::Text(cells) => cells.append_option(text),
            _ => mismatch(name),
        }
    }

    /// Text for which OTLP says empty where it means "not sent".
    pub(crate) fn text_or_null(&mut self, name: &str, text: &str) {
        self.text(name, Some(text).filter(|text| !text.is_empty()));
    }

    pub(crate) fn trace_id(&mut self, name: &str, id: TraceId) {
        self.id_or_null(name, Some(id));
    }

    /// A trace that need not be known.
    pub(crate) fn id_or_null(&mut self, name: &str, id: Option<TraceId>) {
        self.id(name, id.as_ref().map(|id| id.as_bytes().as_slice()));
    }

    pub(crate) fn span_id(&mut self, name: &str, id: Option<SpanId>) {
        self.id(name, id.as_ref().map(|id| id.as_bytes().as_slice()));
    }

    fn id(&mut self, name: &str, id: Option<&[u8]>) {
        self.n_bytes += 4 + 2 * id.map_or(0, <[u8]>::len);
        match self.cell(name) {
            Cells::Text(cells) => append_hex(cells, id),
            _ => mismatch(name),
        }
    }

    /// A list; `None` for NULL.
    pub(crate) fn texts<'a>(&mut self, name: &str, list: Option<impl Iterator<Item = &'a str>>) {
        let mut n_bytes = 4;
        match self.cell(name) {
            Cells::TextList(cells) => {
                let is_valid = list.is_some();
                for text in list.into_iter().flatten() {
                    n_bytes += 4 + text.len();
                    cells.items.append_value(text);
                }
                let n_items = cells.items.len();
                cells.close(n_items, is_valid);
            }
            _ => mismatch(name),
        }
        self.n_bytes += n_bytes;
    }

    /// Fills one nested cell; `fill` says how many bytes it added.
    pub(crate) fn attributes(
        &mut self,
        name: &str,
        fill: impl FnOnce(&mut AttributeCells) -> usize,
    ) {
        let n_bytes = match self.cell(name) {
            Cells::Attributes(cells) => {
                let n_bytes = fill(cells);
                cells.close();
                n_bytes
            }
            _ => mismatch(name),
        };
        self.n_bytes += 4 + n_bytes;
    }

    /// As [`Self::attributes`].
    pub(crate) fn events(&mut self, name: &str, fill: impl FnOnce(&mut EventCells) -> usize) {
        let n_bytes = match self.cell(name) {
            Cells::Events(cells) => {
                let n_bytes = fill(cells);
                cells.close();
                n_bytes
            }
            _ => mismatch(name),
        };
        self.n_bytes += 4 + n_bytes;
    }

    /// As [`Self::attributes`].
    pub(crate) fn links(&mut self, name: &str, fill: impl FnOnce(&mut LinkCells) -> usize) {
        let n_bytes = match self.cell(name) {
            Cells::Links(cells) => {
                let n_bytes = fill(cells);
                cells.close();
                n_bytes
            }
            _ => mismatch(name),
        };
        self.n_bytes += 4 + n_bytes;
    }

    /// Ends the row.
    pub(crate) fn end_row(&mut self) {
        assert_eq!(
            self.next,
            self.columns.len(),
            "a row of `{}` is short",
            self.spec.name
        );
        self.next = 0;
        self.n_rows += 1;
    }

    /// The rows so far; the builder is empty afterwards.
    pub(crate) fn finish(&mut self) -> RecordBatch {
        let columns = self.columns.iter_mut().map(Cells::finish).collect();
        self.n_rows = 0;
        self.n_bytes = 0;
        #[expect(
            clippy::expect_used,
            reason = "schema and builders are made from the same spec, and keys take no NULL"
        )]
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns)
            .expect("columns match their spec");
        batch
    }

    fn cell(&mut self, name: &str) -> &mut Cells {
        debug_assert_eq!(self.spec.columns[self.next].name, name);
        let cells = &mut self.columns[self.next];
        self.next += 1;
        cells
    }
}

/// A cell of another type than its column: a mistake in this crate, found by any test of the table.
fn mismatch(name: &str) -> ! {
    unreachable!("column `{name}` has another type")
}

impl Cells {
    fn new(data_type: ColumnType) -> Self {
        match data_type {
            ColumnType::Date => Self::Date(Date32Builder::new()),
            ColumnType::Time => Self::Time(times()),
            ColumnType::Int => Self::Int(Int64Builder::new()),
            ColumnType::Float => Self::Float(Float64Builder::new()),
            ColumnType::Bool => Self::Bool(BooleanBuilder::new()),
            ColumnType::Text => Self::Text(StringBuilder::new()),
            ColumnType::TextList => Self::TextList(Lists::default()),
            ColumnType::Attributes => Self::Attributes(AttributeCells::default()),
            ColumnType::Events => Self::Events(Box::new(EventCells::new())),
            ColumnType::Links => Self::Links(Box::default()),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Date(cells) => Arc::new(cells.finish()),
            Self::Time(cells) => Arc::new(cells.finish()),
            Self::Int(cells) => Arc::new(cells.finish()),
            Self::Float(cells) => Arc::new(cells.finish()),
            Self::Bool(cells) => Arc::new(cells.finish()),
            Self::Text(cells) => Arc::new(cells.finish()),
            Self::TextList(cells) => cells.finish(|items| (DataType::Utf8, finish_text(items))),
            Self::Attributes(cells) => Arc::new(cells.finish()),
            Self::Events(cells) => cells.finish(),
            Self::Links(cells) => cells.finish(),
        }
    }
}
