//! Rows of the view `slow_requests` as lines for people.
//!
//! An absent value is `-` here: a line is read as a report, and what was not measured has no unit.

use anyhow::Context as _;
use arrow::array::{Array, ArrayRef, AsArray as _, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type, TimeUnit};
use arrow::util::display::{ArrayFormatter, FormatOptions};

use crate::show::table::{Align, Table};
use crate::show::text;

/// Long request ids and model names are cut to this length.
pub(super) const CELL_CHARS_MAX: usize = 32;

/// The columns of the view that are asked for.
pub(super) const COLUMNS: [&str; 14] = [
    "start_time",
    "trace_id",
    "request_id",
    "model",
    "outcome",
    "e2e_s",
    "engine_ttft_s",
    "queue_s",
    "prefill_s",
    "decode_s",
    "longest_phase",
    "longest_phase_share",
    "input_tokens",
    "output_tokens",
];

const HEADS: [(&str, Align); 13] = [
    ("start (UTC)", Align::Left),
    ("trace", Align::Left),
    ("request", Align::Left),
    ("model", Align::Left),
    ("outcome", Align::Left),
    ("e2e", Align::Right),
    ("ttft", Align::Right),
    ("queue", Align::Right),
    ("prefill", Align::Right),
    ("decode", Align::Right),
    ("longest", Align::Left),
    ("tokens in", Align::Right),
    ("out", Align::Right),
];

/// The table and its number of rows.
pub(super) fn table(
    batches: &[RecordBatch],
    cell_chars_max: usize,
) -> anyhow::Result<(Table, u64)> {
    let mut table = Table::new(HEADS);
    let mut n_rows = 0;
    for batch in batches {
        let row = Row::over(batch)?;
        for row_idx in 0..batch.num_rows() {
            table.push(row.line(row_idx, cell_chars_max)?);
            n_rows += 1;
        }
    }
    Ok((table, n_rows))
}

/// The columns of a batch by name, in the types that are read.
struct Row {
    start_time: ArrayRef,
    texts: [ArrayRef; 4],
    seconds: [ArrayRef; 5],
    longest_phase: ArrayRef,
    longest_phase_share: ArrayRef,
    tokens: [ArrayRef; 2],
}

impl Row {
    fn over(batch: &RecordBatch) -> anyhow::Result<Self> {
        let column = |name: &str, data_type: DataType| {
            let column = batch.column_by_name(name);
            let column = column.with_context(|| format!("the answer has no column `{name}`"))?;
            cast(column, &data_type).with_context(|| format!("read column `{name}`"))
        };
        let text = |name| column(name, DataType::Utf8);
        let float = |name| column(name, DataType::Float64);
        let int = |name| column(name, DataType::Int64);
        let utc = DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into()));
        Ok(Self {
            start_time: column("start_time", utc)?,
            texts: [
                text("trace_id")?,
                text("request_id")?,
                text("model")?,
                text("outcome")?,
            ],
            seconds: [
                float("e2e_s")?,
                float("engine_ttft_s")?,
                float("queue_s")?,
                float("prefill_s")?,
                float("decode_s")?,
            ],
            longest_phase: text("longest_phase")?,
            longest_phase_share: float("longest_phase_share")?,
            tokens: [int("input_tokens")?, int("output_tokens")?],
        })
    }

    fn line(&self, row_idx: usize, cell_chars_max: usize) -> anyhow::Result<Vec<String>> {
        let absent = || "-".to_owned();
        // A function, not a closure: what it returns borrows from its argument.
        fn text_at(column: &ArrayRef, row_idx: usize) -> Option<&str> {
            column
                .is_valid(row_idx)
                .then(|| column.as_string::<i32>().value(row_idx))
        }
        let float = |column: &ArrayRef| {
            column
                .is_valid(row_idx)
                .then(|| column.as_primitive::<Float64Type>().value(row_idx))
        };
        let mut line = vec![self.start(row_idx)?];
        line.extend(self.texts.iter().map(|column| {
            text_at(column, row_idx)
                .map_or_else(absent, |value| text::printable(value, cell_chars_max))
        }));
        line.extend(
            self.seconds
                .iter()
                .map(|column| float(column).map_or_else(absent, text::seconds)),
        );
        line.push(
            match (
                text_at(&self.longest_phase, row_idx),
                float(&self.longest_phase_share),
            ) {
                (Some(phase), Some(share)) => {
                    format!("{} {:.0} %", text::printable(phase, 16), share * 100.0)
                }
                (Some(phase), None) => text::printable(phase, 16),
                (None, _) => absent(),
            },
        );
        line.extend(self.tokens.iter().map(|column| {
            if column.is_null(row_idx) {
                return absent();
            }
            let tokens = column.as_primitive::<Int64Type>().value(row_idx);
            u64::try_from(tokens).map_or_else(|_negative| tokens.to_string(), text::count)
        }));
        Ok(line)
    }

    fn start(&self, row_idx: usize) -> anyhow::Result<String> {
        if self.start_time.is_null(row_idx) {
            return Ok("-".to_owned());
        }
        let options =
            FormatOptions::default().with_timestamp_tz_format(Some("%Y-%m-%d %H:%M:%S%.3f"));
        let formatter = ArrayFormatter::try_new(self.start_time.as_ref(), &options)?;
        Ok(formatter.value(row_idx).try_to_string()?)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        Float64Array, Int64Array, StringArray, StringViewArray, TimestampMicrosecondArray,
    };
    use expect_test::{Expect, expect};

    use super::{ArrayRef, RecordBatch, table};

    /// Two requests: one with everything, one with nothing but its trace and outcome.
    fn batch() -> RecordBatch {
        let text = |value: &str| Arc::new(StringArray::from(vec![Some(value), None])) as ArrayRef;
        let both = |value: &str| Arc::new(StringViewArray::from(vec![value, value])) as ArrayRef;
        let float = |value| Arc::new(Float64Array::from(vec![Some(value), None])) as ArrayRef;
        let int = |value| Arc::new(Int64Array::from(vec![Some(value), None])) as ArrayRef;
        let start = TimestampMicrosecondArray::from(vec![Some(1_795_963_746_167_001), None]);
        RecordBatch::try_from_iter(vec![
            (
                "start_time",
                Arc::new(start.with_timezone("UTC")) as ArrayRef,
            ),
            ("trace_id", both("4bf92f3577b34da6a3ce929d0e0e4736")),
            (
                "request_id",
                text("chatcmpl-0123456789abcdef0123456789abcdef"),
            ),
            ("model", text("evil\u{1b}[2J")),
            ("outcome", both("ok")),
            ("e2e_s", float(12.5)),
            ("engine_ttft_s", float(9.75)),
            ("queue_s", float(9.0)),
            ("prefill_s", float(0.7)),
            ("decode_s", float(2.7)),
            ("longest_phase", text("queue")),
            ("longest_phase_share", float(0.72)),
            ("input_tokens", int(24_000)),
            ("output_tokens", int(-1)),
        ])
        .unwrap()
    }

    fn check(cell_chars_max: usize, expected: Expect) {
        let (table, n_rows) = table(&[batch()], cell_chars_max).unwrap();
        expected.assert_eq(&format!("{table}{n_rows} rows\n"));
    }

    #[test]
    fn a_request_is_one_line_and_what_was_not_measured_is_a_dash() {
        check(
            super::CELL_CHARS_MAX,
            expect![[r#"
             start (UTC)             | trace                            | request                          | model         | outcome |    e2e |   ttft |  queue | prefill | decode | longest    | tokens in | out
            -------------------------+----------------------------------+----------------------------------+---------------+---------+--------+--------+--------+---------+--------+------------+-----------+-----
             2026-11-29 14:49:06.167 | 4bf92f3577b34da6a3ce929d0e0e4736 | chatcmpl-0123456789abcdef0123... | evil\u{1b}[2J | ok      | 12.5 s | 9.75 s | 9.00 s |  700 ms | 2.70 s | queue 72 % |    24,000 |  -1
             -                       | 4bf92f3577b34da6a3ce929d0e0e4736 | -                                | -             | ok      |      - |      - |      - |       - |      - | -          |         - |   -
            2 rows
        "#]],
        );
    }

    #[test]
    fn a_server_without_a_column_is_told() {
        let columns = batch().project(&[0, 1]).unwrap();
        let error = table(&[columns], 32).unwrap_err();
        assert_eq!(error.to_string(), "the answer has no column `request_id`");
    }
}
