//! Values of promoted columns.

use otlp::attribute::Value;

use super::{
    coerce,
    entries::{Counts, Scratch},
    promoted::PromotedColumn,
};
use crate::{column::ColumnType, row::Rows};

/// A value of a promoted column, kept beyond the bytes that it was read from.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    Int(Option<i64>),
    Float(Option<f64>),
    Text(Option<String>),
    TextList(Option<Vec<String>>),
}

impl Cell {
    pub(super) fn read(
        data_type: ColumnType,
        value: Option<Value<'_>>,
        bytes_max: usize,
        scratch: &mut Scratch,
        counts: &mut Counts,
    ) -> Self {
        match data_type {
            ColumnType::Int => Self::Int(value.and_then(|value| value.as_i64_lenient())),
            ColumnType::Float => Self::Float(value.as_ref().and_then(coerce::float)),
            ColumnType::TextList => Self::TextList(value.map(|value| {
                let cut = |text: String| {
                    let (kept, is_cut) = scratch.cut(&text, bytes_max);
                    counts.note_cut(is_cut);
                    kept.to_owned()
                };
                coerce::texts(&value).into_iter().map(cut).collect()
            })),
            _ => Self::Text(value.map(|value| {
                let write = |out: &mut String| coerce::write_single(&value, out);
                let (text, is_cut) = scratch.cut_written(bytes_max, write);
                counts.note_cut(is_cut);
                text.to_owned()
            })),
        }
    }

    pub(super) fn write(&self, rows: &mut Rows, name: &str) {
        match self {
            Self::Int(number) => rows.int(name, *number),
            Self::Float(number) => rows.float(name, *number),
            Self::Text(text) => rows.text(name, text.as_deref()),
            Self::TextList(texts) => {
                rows.texts(
                    name,
                    texts.as_ref().map(|texts| texts.iter().map(String::as_str)),
                );
            }
        }
    }
}

/// Writes a value without keeping it where that needs no copy.
pub(super) fn write(
    rows: &mut Rows,
    column: &PromotedColumn,
    value: Option<Value<'_>>,
    bytes_max: usize,
    scratch: &mut Scratch,
    counts: &mut Counts,
) {
    match (column.data_type, value) {
        (ColumnType::Text, None) => rows.text(column.name, None),
        (ColumnType::Text, Some(Value::Str(text))) => {
            let (text, is_cut) = scratch.cut(text, bytes_max);
            counts.note_cut(is_cut);
            rows.text(column.name, Some(text));
        }
        (data_type, value) => {
            Cell::read(data_type, value, bytes_max, scratch, counts).write(rows, column.name);
        }
    }
}
