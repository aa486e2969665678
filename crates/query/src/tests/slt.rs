//! The SQL tests of `tests/sql`: statements with their answers, in the format of sqllogictest.
//!
//! Records are separated by empty lines; lines that begin with `#` are comments.
//!
//! ```text
//! statement ok | statement error <regular expression>
//! <statement>
//!
//! query <a letter per column: T text, I integer, R real, B boolean, P time, ? else> [rowsort]
//! <statement>
//! ----
//! <a line per row, values separated by a space, NULL, (empty)>
//! ```
//!
//! `INSERT INTO <table> (<columns>) VALUES ..` is the one statement that the product does not have: the rows go through the table's
//! definition and the lake, as those of the service do. What is not named is NULL, or empty where NULL is not allowed; the day, the
//! minute and the exact twin of a time follow from it.
//!
//! Each file runs twice, with its rows in memory only and with its rows committed: the answers are the same.
//! `UPDATE_EXPECT=1` writes the answers into the files.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, new_null_array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, TimeUnit};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use futures::StreamExt;
use regex::Regex;

use super::support::{Cell, Fixture, column, config, fixture};
use crate::Error;

#[derive(Debug)]
enum Expected<'a> {
    Ok,
    Error(&'a str),
    Rows {
        types: &'a str,
        is_sorted: bool,
        rows: Vec<&'a str>,
    },
}

/// One record, and the lines that hold it.
#[derive(Debug)]
struct Record<'a> {
    line_idx: usize,
    /// Head and statement.
    head: Vec<&'a str>,
    sql: String,
    expected: Expected<'a>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/sql")
}

fn files() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "slt"))
        .collect();
    files.sort();
    files
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_answers_are_those_of_the_files() {
    let only = std::env::var("SLT").ok();
    let mut wrong = String::new();
    for path in files() {
        let name = path.file_name().unwrap().to_str().unwrap();
        if only.as_deref().is_some_and(|only| !name.contains(only)) {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let mut answers = Vec::new();
        for is_committed in [false, true] {
            let got = run(name, &text, is_committed, &mut wrong).await;
            answers.push(got);
        }
        let is_update = std::env::var("UPDATE_EXPECT").is_ok_and(|value| value == "1");
        if is_update && answers[0] != text {
            std::fs::write(&path, &answers[0]).unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// A view without a test is not known to tell the truth.
#[test]
fn every_view_has_a_file() {
    let names: Vec<String> = files()
        .iter()
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    for view in crate::VIEWS {
        assert!(names.iter().any(|name| name == view.name), "{}", view.name);
    }
}

/// Runs a file, says what is wrong, and gives it back with the answers that were got.
async fn run(name: &str, text: &str, is_committed: bool, wrong: &mut String) -> String {
    let fixture = fixture(&config()).await;
    let mut sequence = 0;
    let mut rewritten: Vec<String> = Vec::new();
    let lines: Vec<&str> = text.lines().collect();
    for block in blocks(&lines) {
        let Some(record) = record(block) else {
            rewritten.push(block.1.join("\n"));
            continue;
        };
        let place = format!("{name}:{} (committed: {is_committed})", record.line_idx + 1);
        if let Some(insert) = Insert::parse(&record.sql) {
            sequence += 1;
            insert.run(&fixture, sequence, is_committed).await;
            rewritten.push(block.1.join("\n"));
            continue;
        }
        // The plan of the second may be that of the first.
        let (_, first) = compare(&record, ask(&fixture, &record.sql).await);
        let (text, second) = compare(&record, ask(&fixture, &record.sql).await);
        if let Some(problem) = first.or(second) {
            writeln!(wrong, "{place}: {problem}\n{}\n", record.sql).unwrap();
        }
        rewritten.push(text);
    }
    format!("{}\n", rewritten.join("\n\n"))
}

/// Lines between empty lines, with the index of the first.
fn blocks<'a>(lines: &'a [&'a str]) -> Vec<(usize, &'a [&'a str])> {
    let mut blocks = Vec::new();
    let mut begin = 0;
    for (line_idx, line) in lines.iter().chain([&""]).enumerate() {
        if line.is_empty() {
            if begin < line_idx {
                blocks.push((begin, &lines[begin..line_idx]));
            }
            begin = line_idx + 1;
        }
    }
    blocks
}

fn record<'a>((begin, lines): (usize, &'a [&'a str])) -> Option<Record<'a>> {
    let n_comments = lines
        .iter()
        .take_while(|line| line.starts_with('#'))
        .count();
    let (head, body) = lines[n_comments..].split_first()?;
    let n_sql = body.iter().take_while(|line| **line != "----").count();
    let rows = body.get(n_sql + 1..).unwrap_or_default().to_vec();
    let mut words = head.split_whitespace();
    let expected = match (words.next(), words.next()) {
        (Some("statement"), Some("ok")) => Expected::Ok,
        (Some("statement"), Some("error")) => {
            Expected::Error(head.split_once("error").unwrap().1.trim())
        }
        (Some("query"), Some(types)) => Expected::Rows {
            types,
            is_sorted: words.next() == Some("rowsort"),
            rows,
        },
        _ => panic!("line {}: not a record: {head}", begin + 1),
    };
    Some(Record {
        line_idx: begin + n_comments,
        head: lines[..n_comments + 1 + n_sql].to_vec(),
        sql: body[..n_sql].join("\n"),
        expected,
    })
}

async fn ask(fixture: &Fixture, sql: &str) -> Result<Vec<RecordBatch>, Error> {
    let mut answer = fixture.engine.answer(sql, None).await?;
    let mut batches = Vec::new();
    while let Some(batch) = answer.next().await {
        batches.push(batch?);
    }
    if batches.is_empty() {
        batches.push(RecordBatch::new_empty(Arc::clone(answer.schema())));
    }
    Ok(batches)
}

/// The record with the answer that was got, and what is wrong with it.
fn compare(record: &Record<'_>, got: Result<Vec<RecordBatch>, Error>) -> (String, Option<String>) {
    let head = record.head.join("\n");
    match (&record.expected, got) {
        (Expected::Ok, Ok(_)) => (head, None),
        (Expected::Error(pattern), Err(error)) => {
            let message = error.explanation();
            let is_match = Regex::new(pattern).unwrap().is_match(&message);
            let problem = (!is_match).then(|| format!("the error is: {message}"));
            (head, problem)
        }
        (Expected::Error(_), Ok(_)) => (head, Some("it was answered".to_owned())),
        (_, Err(error)) => (head, Some(format!("{} ({error:?})", error.explanation()))),
        (
            Expected::Rows {
                types,
                is_sorted,
                rows,
            },
            Ok(batches),
        ) => {
            let mut got = text(&batches);
            if *is_sorted {
                got.sort();
            }
            let letters = letters(&batches[0]);
            let problem = if letters != *types {
                Some(format!("the columns are {letters}, not {types}"))
            } else if got != *rows {
                Some(format!(
                    "got\n  {}\nnot\n  {}",
                    got.join("\n  "),
                    rows.join("\n  ")
                ))
            } else {
                None
            };
            (
                [vec![head, "----".to_owned()], got].concat().join("\n"),
                problem,
            )
        }
    }
}

fn letters(batch: &RecordBatch) -> String {
    let letter = |data_type: &DataType| match data_type {
        DataType::Utf8 => 'T',
        DataType::Boolean => 'B',
        DataType::Timestamp(..) | DataType::Date32 => 'P',
        other if other.is_integer() => 'I',
        other if other.is_floating() => 'R',
        _ => '?',
    };
    let fields = batch.schema();
    fields
        .fields()
        .iter()
        .map(|field| letter(field.data_type()))
        .collect()
}

fn text(batches: &[RecordBatch]) -> Vec<String> {
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = Vec::new();
    for batch in batches {
        let columns: Vec<ArrayFormatter<'_>> = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column, &options).unwrap())
            .collect();
        for row_idx in 0..batch.num_rows() {
            let values: Vec<String> = columns
                .iter()
                .map(|column| column.value(row_idx).to_string())
                .map(|value| {
                    if value.is_empty() {
                        "(empty)".to_owned()
                    } else {
                        value
                    }
                })
                .collect();
            rows.push(values.join(" "));
        }
    }
    rows
}

/// Rows for a table.
#[derive(Debug)]
struct Insert<'a> {
    table: &'a str,
    columns: Vec<&'a str>,
    values: &'a str,
}

impl<'a> Insert<'a> {
    fn parse(sql: &'a str) -> Option<Self> {
        let (head, values) = sql.strip_prefix("INSERT INTO ")?.split_once("VALUES")?;
        let (table, columns) = head.trim().split_once('(')?;
        let columns = columns.trim().strip_suffix(')')?;
        Some(Self {
            table: table.trim(),
            columns: columns.split(',').map(str::trim).collect(),
            values,
        })
    }

    async fn run(&self, fixture: &Fixture, sequence: i64, is_committed: bool) {
        let named = self
            .columns
            .iter()
            .enumerate()
            .map(|(idx, name)| format!("column{} AS {name}", idx + 1));
        let sql = format!(
            "SELECT {} FROM (VALUES{})",
            named.collect::<Vec<_>>().join(", "),
            self.values
        );
        let batches = ask(fixture, &sql).await;
        let batches = batches.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        let given = arrow::compute::concat_batches(&batches[0].schema(), &batches).unwrap();
        let rows = self.conform(&given);
        fixture.append(self.table, sequence, rows);
        if is_committed {
            fixture.commit(self.table, sequence).await;
        }
    }

    /// All columns of the table.
    fn conform(&self, given: &RecordBatch) -> RecordBatch {
        let spec = tables::spec(self.table).unwrap_or_else(|| panic!("no table {}", self.table));
        let schema = spec.schema();
        for name in &self.columns {
            assert!(schema.field_with_name(name).is_ok(), "no column {name}");
        }
        let columns = schema.fields().iter().map(|field| {
            let (name, data_type) = (field.name().as_str(), field.data_type());
            if let Some(column) = given.column_by_name(name) {
                return cast(column, data_type).unwrap();
            }
            if let Some(column) = follows(given, name, data_type) {
                return column;
            }
            if field.is_nullable() {
                return new_null_array(data_type, given.num_rows());
            }
            column(data_type, false, &vec![Cell::Null; given.num_rows()])
        });
        let columns: Vec<ArrayRef> = columns.collect();
        RecordBatch::try_new(Arc::clone(&schema), columns).unwrap()
    }
}

/// What follows from a time that is given.
fn follows(given: &RecordBatch, name: &str, data_type: &DataType) -> Option<ArrayRef> {
    let micros = |name: &str| {
        let time = given.column_by_name(name)?;
        let utc = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        Some(cast(&cast(time, &utc).unwrap(), &DataType::Int64).unwrap())
    };
    let map = |micros: ArrayRef, by: fn(i64) -> i64| -> ArrayRef {
        let micros = arrow::array::AsArray::as_primitive::<Int64Type>(&micros);
        let values: Int64Array = micros.iter().map(|value| value.map(by)).collect();
        Arc::new(values)
    };
    if let Some(time) = name.strip_suffix("_unix_nano") {
        return Some(map(micros(time)?, |micros| micros * 1_000));
    }
    let start = micros("start_time").or_else(|| micros("time"))?;
    match name {
        "date" => {
            let days = map(start, |micros| micros.div_euclid(86_400_000_000));
            let days = cast(&days, &DataType::Int32).unwrap();
            Some(cast(&days, data_type).unwrap())
        }
        "minute" => {
            let minutes = map(start, |micros| micros - micros.rem_euclid(60_000_000));
            Some(cast(&minutes, data_type).unwrap())
        }
        _ => None,
    }
}
