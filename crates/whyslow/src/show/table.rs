//! Rows in aligned columns.
//!
//! Numbers stand at the right. An absent value is `NULL`, so that it differs from an empty text.
//! Long values are cut with `...` unless asked otherwise, times are ISO 8601 in UTC.

use std::fmt;
use std::time::Duration;

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::{DataType, Schema};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, DurationFormat, FormatOptions};
use comfy_table::{Cell, CellAlignment, ContentArrangement, TableComponent};

use super::text;

/// The most characters of a value that are shown, unless all are wanted.
pub(crate) const CELL_CHARS_MAX: usize = 64;

/// Where the values of a column stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// A table in the making.
#[derive(Debug)]
pub(crate) struct Table {
    table: comfy_table::Table,
    aligns: Vec<CellAlignment>,
}

impl Table {
    /// An empty table with the given columns.
    pub(crate) fn new<'a>(columns: impl IntoIterator<Item = (&'a str, Align)>) -> Self {
        let (names, aligns): (Vec<_>, Vec<_>) = columns
            .into_iter()
            .map(|(name, align)| {
                let align = match align {
                    Align::Left => CellAlignment::Left,
                    Align::Right => CellAlignment::Right,
                };
                (text::printable(name, CELL_CHARS_MAX), align)
            })
            .unzip();
        let mut table = comfy_table::Table::new();
        table
            .load_preset(comfy_table::presets::NOTHING)
            .set_style(TableComponent::HeaderLines, '-')
            .set_style(TableComponent::MiddleHeaderIntersections, '+')
            .set_style(TableComponent::VerticalLines, '|')
            .set_content_arrangement(ContentArrangement::Disabled);
        let cells = names
            .iter()
            .zip(&aligns)
            .map(|(name, align)| cell(name, *align));
        table.set_header(cells.collect::<Vec<_>>());
        Self { table, aligns }
    }

    /// All rows of an answer; values longer than `cell_chars_max` are cut.
    pub(crate) fn of_batches(
        schema: &Schema,
        batches: &[RecordBatch],
        cell_chars_max: usize,
    ) -> Result<Self, ArrowError> {
        let columns = schema.fields().iter().map(|field| {
            let is_number = field.data_type().is_numeric();
            (
                field.name().as_str(),
                if is_number { Align::Right } else { Align::Left },
            )
        });
        let mut table = Self::new(columns);
        for batch in batches {
            let columns = batch
                .columns()
                .iter()
                .map(|column| ArrayFormatter::try_new(column.as_ref(), &format_options()))
                .collect::<Result<Vec<_>, _>>()?;
            for row_idx in 0..batch.num_rows() {
                let cells = columns
                    .iter()
                    .zip(batch.columns())
                    .map(|(formatter, column)| {
                        let value = if is_null(column.as_ref(), row_idx) {
                            "NULL".to_owned()
                        } else {
                            formatter.value(row_idx).try_to_string()?
                        };
                        Ok(text::printable(&value, cell_chars_max))
                    });
                table.push(cells.collect::<Result<Vec<_>, ArrowError>>()?);
            }
        }
        Ok(table)
    }

    /// Adds a row; its values must be printable.
    pub(crate) fn push(&mut self, values: Vec<String>) {
        let cells = values
            .iter()
            .zip(&self.aligns)
            .map(|(value, align)| cell(value, *align));
        self.table.add_row(cells.collect::<Vec<_>>());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in self.table.lines() {
            writeln!(formatter, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// The line below an answer: `(20 rows, 12.3 ms)`.
pub(crate) fn footer(n_rows: u64, is_truncated: bool, elapsed: Duration) -> String {
    let rows = text::counted(n_rows, "row");
    let elapsed = text::duration(elapsed);
    if is_truncated {
        format!("({rows}, truncated: there are more, see --limit; {elapsed})")
    } else {
        format!("({rows}, {elapsed})")
    }
}

fn cell(value: &str, align: CellAlignment) -> Cell {
    Cell::new(value).set_alignment(align)
}

/// A column of type `Null` has no validity buffer, yet all its values are absent.
fn is_null(column: &dyn Array, row_idx: usize) -> bool {
    column.is_null(row_idx) || *column.data_type() == DataType::Null
}

fn format_options() -> FormatOptions<'static> {
    const UTC: &str = "%Y-%m-%dT%H:%M:%S%.6fZ";
    FormatOptions::default()
        .with_null("NULL")
        .with_timestamp_tz_format(Some(UTC))
        .with_timestamp_format(Some("%Y-%m-%dT%H:%M:%S%.6f"))
        .with_duration_format(DurationFormat::Pretty)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        ArrayRef, BooleanArray, Float64Array, Int64Array, ListArray, NullArray, StringArray,
        TimestampMicrosecondArray,
    };
    use arrow::datatypes::Int64Type;
    use expect_test::{Expect, expect};

    use super::{Duration, RecordBatch, Table, footer};

    fn check(columns: &[(&str, ArrayRef)], cell_chars_max: usize, expected: Expect) {
        let batch = RecordBatch::try_from_iter(columns.to_vec()).unwrap();
        let batches = [batch.clone(), batch.slice(0, 0)];
        let table = Table::of_batches(&batch.schema(), &batches, cell_chars_max).unwrap();
        // Sources are ASCII: a wide character stands as one `?`.
        let ascii = |character: char| if character.is_ascii() { character } else { '?' };
        expected.assert_eq(&table.to_string().chars().map(ascii).collect::<String>());
    }

    #[test]
    fn values_are_aligned_by_type_and_absent_ones_are_named() {
        let start = [Some(1_795_963_746_167_001), None];
        let lists = [Some(vec![Some(1), None]), None];
        check(
            &[
                (
                    "model",
                    Arc::new(StringArray::from(vec![Some("llama"), None])),
                ),
                (
                    "e2e_s",
                    Arc::new(Float64Array::from(vec![Some(2.5), Some(12.25)])),
                ),
                (
                    "tokens",
                    Arc::new(Int64Array::from(vec![Some(1_000_000), None])),
                ),
                ("ok", Arc::new(BooleanArray::from(vec![Some(true), None]))),
                (
                    "start",
                    Arc::new(TimestampMicrosecondArray::from(start.to_vec()).with_timezone("UTC")),
                ),
                (
                    "list",
                    Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists)),
                ),
                ("none", Arc::new(NullArray::new(2))),
                ("empty", Arc::new(StringArray::from(vec!["", "x"]))),
            ],
            64,
            expect![[r#"
                 model | e2e_s |  tokens | ok   | start                       | list      | none | empty
                -------+-------+---------+------+-----------------------------+-----------+------+-------
                 llama |   2.5 | 1000000 | true | 2026-11-29T14:49:06.167001Z | [1, NULL] | NULL |
                 NULL  | 12.25 |    NULL | NULL | NULL                        | NULL      | NULL | x
            "#]],
        );
    }

    #[test]
    fn long_and_hostile_values_stay_on_their_line() {
        check(
            &[
                (
                    "a\u{1b}[2J",
                    Arc::new(StringArray::from(vec!["0123456789abcdef", "a\nb"])),
                ),
                (
                    "wide",
                    Arc::new(StringArray::from(vec!["\u{6f22}\u{5b57}", "x"])),
                ),
                ("n", Arc::new(Int64Array::from(vec![1, 2]))),
            ],
            10,
            expect![[r#"
                 a\u{1b}[2J | wide | n
                ------------+------+---
                 0123456... | ?? | 1
                 a\nb       | x    | 2
            "#]],
        );
    }

    #[test]
    fn an_answer_without_rows_still_names_its_columns() {
        let none: Vec<i64> = Vec::new();
        check(
            &[("n", Arc::new(Int64Array::from(none)))],
            64,
            expect![[r#"
                 n
                ---
            "#]],
        );
    }

    #[test]
    fn the_footer_says_when_rows_are_missing() {
        assert_eq!(
            footer(1, false, Duration::from_micros(12_340)),
            "(1 row, 12.3 ms)"
        );
        assert_eq!(
            footer(1_000, true, Duration::from_secs(2)),
            "(1,000 rows, truncated: there are more, see --limit; 2.00 s)"
        );
    }
}
