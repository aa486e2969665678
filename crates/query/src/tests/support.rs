//! A lake with rows, and answers as text.

use std::io::Read as _;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Date32Array, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray, new_null_array,
};
use arrow::datatypes::{DataType, TimeUnit};
use arrow::util::pretty::pretty_format_batches;
use futures::StreamExt;
use lake::sim::SimStore;
use lake::{Lake, Location, Mode};
use otlp::Signal;
use otlp::export::{self, Limits};
use tables::redact::{self, Redaction};
use tables::spans::{SpanInput, SpansBuilder, TraceContext};
use tempfile::TempDir;

use crate::{Config, Engine, Error};

/// 2026-01-01T00:00:00Z in nanoseconds.
pub(crate) const NEW_YEAR: i64 = 1_767_225_600_000_000_000;
pub(crate) const SECOND: i64 = 1_000_000_000;
pub(crate) const DAY: i64 = 86_400 * SECOND;

pub(crate) struct Fixture {
    /// `None` where the store is not a folder.
    folder: Option<TempDir>,
    pub(crate) lake: Arc<Lake>,
    pub(crate) engine: Arc<Engine>,
}

pub(crate) fn config() -> Config {
    Config {
        threads: NonZeroUsize::new(2),
        ..Config::default()
    }
}

/// The same where each statement reads the files that it needs, however small: tests have no large ones.
pub(crate) fn config_of_files() -> Config {
    Config {
        small_files_mib: 0,
        ..config()
    }
}

pub(crate) async fn fixture(config: &Config) -> Fixture {
    fixture_in(tempfile::tempdir().unwrap(), Mode::Create, config).await
}

/// Over the tables of a folder.
pub(crate) async fn fixture_in(folder: TempDir, mode: Mode, config: &Config) -> Fixture {
    let location = Location::parse(folder.path().to_str().unwrap()).unwrap();
    let lake = Lake::open(&location, &tables::all(), mode).await;
    Fixture {
        folder: Some(folder),
        ..Fixture::of_lake(lake.unwrap(), config)
    }
}

/// Over the tables of a store that counts what is asked of it.
pub(crate) async fn fixture_over(store: &SimStore, config: &Config) -> Fixture {
    let lake = store.open(&tables::all(), Mode::Create).await;
    Fixture::of_lake(lake.unwrap(), config)
}

impl Fixture {
    pub(crate) fn of_lake(lake: Lake, config: &Config) -> Self {
        Self::of_shared(&Arc::new(lake), config)
    }

    /// One more engine over the tables of another.
    pub(crate) fn of_shared(lake: &Arc<Lake>, config: &Config) -> Self {
        Self {
            folder: None,
            lake: Arc::clone(lake),
            engine: Arc::new(Engine::new(Arc::clone(lake), config).unwrap()),
        }
    }

    /// Closes everything, and gives the folder of the tables.
    pub(crate) fn into_folder(self) -> TempDir {
        self.folder.unwrap()
    }

    pub(crate) fn append(&self, table: &str, sequence: i64, batch: RecordBatch) {
        self.lake
            .table(table)
            .unwrap()
            .append("test", sequence, batch);
    }

    pub(crate) async fn commit(&self, table: &str, through: i64) {
        self.lake
            .table(table)
            .unwrap()
            .commit("test", through)
            .await
            .unwrap();
    }

    /// The answer as a table of text.
    pub(crate) async fn ask(&self, sql: &str) -> String {
        match self.try_ask(sql).await {
            Ok(text) => text,
            Err(error) => panic!("{sql}: {error:?}"),
        }
    }

    pub(crate) async fn try_ask(&self, sql: &str) -> Result<String, Error> {
        let mut answer = self.engine.answer(sql, None).await?;
        let mut batches = Vec::new();
        while let Some(batch) = answer.next().await {
            batches.push(batch?);
        }
        Ok(pretty_format_batches(&batches).unwrap().to_string())
    }

    /// The only number of the answer.
    pub(crate) async fn number(&self, sql: &str) -> i64 {
        let mut answer = self.engine.answer(sql, None).await.unwrap();
        let batch = answer.next().await.unwrap().unwrap();
        let column = batch
            .column(0)
            .as_any()
            .downcast_ref::<Int64Array>()
            .unwrap();
        assert_eq!(column.len(), 1, "{sql}");
        column.value(0)
    }
}

/// One value of a row; what is not named is NULL, or empty where NULL is not allowed.
#[derive(Debug, Clone)]
pub(crate) enum Cell {
    Text(&'static str),
    Owned(String),
    Int(i64),
    Float(f64),
    Null,
}

/// A row that starts at a time.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    start_unix_nano: i64,
    cells: Vec<(&'static str, Cell)>,
}

pub(crate) fn row(start_unix_nano: i64, cells: &[(&'static str, Cell)]) -> Row {
    Row {
        start_unix_nano,
        cells: cells.to_vec(),
    }
}

/// A row with only its trace id, made from a number.
pub(crate) fn numbered(start_unix_nano: i64, number: i64) -> Row {
    row(
        start_unix_nano,
        &[("trace_id", Cell::Owned(format!("{number:032x}")))],
    )
}

/// Rows as a batch of a table; times and the partition follow from the start.
pub(crate) fn batch(table: &str, rows: &[Row]) -> RecordBatch {
    let schema = tables::spec(table).unwrap().schema();
    let columns = schema.fields().iter().map(|field| {
        let cells: Vec<Cell> = rows.iter().map(|row| row.cell(field.name())).collect();
        column(field.data_type(), field.is_nullable(), &cells)
    });
    RecordBatch::try_new(Arc::clone(&schema), columns.collect()).unwrap()
}

impl Row {
    fn cell(&self, name: &str) -> Cell {
        if let Some((_, cell)) = self.cells.iter().find(|(column, _)| *column == name) {
            return cell.clone();
        }
        match name {
            "date" => Cell::Int(self.start_unix_nano.div_euclid(DAY)),
            "start_time" | "time" | "minute" => Cell::Int(self.start_unix_nano / 1000),
            "start_time_unix_nano" | "time_unix_nano" => Cell::Int(self.start_unix_nano),
            _ => Cell::Null,
        }
    }
}

pub(super) fn column(data_type: &DataType, is_nullable: bool, cells: &[Cell]) -> ArrayRef {
    let ints = move || {
        cells.iter().map(move |cell| match cell {
            Cell::Int(value) => Some(*value),
            _ => (!is_nullable).then_some(0),
        })
    };
    match data_type {
        DataType::Utf8 => Arc::new(
            cells
                .iter()
                .map(|cell| match cell {
                    Cell::Text(text) => Some((*text).to_owned()),
                    Cell::Owned(text) => Some(text.clone()),
                    _ => (!is_nullable).then(String::new),
                })
                .collect::<StringArray>(),
        ),
        DataType::Int64 => Arc::new(ints().collect::<Int64Array>()),
        DataType::Float64 => Arc::new(
            cells
                .iter()
                .map(|cell| match cell {
                    Cell::Float(value) => Some(*value),
                    _ => (!is_nullable).then_some(0.0),
                })
                .collect::<Float64Array>(),
        ),
        DataType::Boolean => Arc::new(
            cells
                .iter()
                .map(|_| (!is_nullable).then_some(false))
                .collect::<BooleanArray>(),
        ),
        DataType::Date32 => Arc::new(
            ints()
                .map(|days| days.map(|days| i32::try_from(days).unwrap()))
                .collect::<Date32Array>(),
        ),
        DataType::Timestamp(TimeUnit::Microsecond, Some(zone)) => Arc::new(
            ints()
                .collect::<TimestampMicrosecondArray>()
                .with_timezone(Arc::clone(zone)),
        ),
        other if is_nullable => new_null_array(other, cells.len()),
        other => panic!("no empty value for {other}"),
    }
}

/// The rows of `spans` of an OTLP request, under a configuration of redaction.
pub(crate) fn spans_with(config: &redact::Config, body: &[u8]) -> RecordBatch {
    let limits = Limits::default();
    export::check(Signal::Traces, body, &limits).unwrap();
    let mut builder = SpansBuilder::new(&Redaction::new(config).unwrap());
    for at in export::spans(body, &limits) {
        let start_time_unix_nano = u64::try_from(NEW_YEAR).unwrap();
        let input = SpanInput {
            at: &at.unwrap(),
            trace: &TraceContext {
                start_time_unix_nano,
            },
            late: false,
            received_unix_nano: start_time_unix_nano,
        };
        builder.append(&input).unwrap();
    }
    builder.finish()
}

/// The export requests of a capture in `tests/data`, in arrival order.
pub(crate) fn captured(capture: &str) -> Vec<Vec<u8>> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data");
    let files = std::fs::read_dir(data.join(capture).join("traces")).unwrap();
    let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    let bodies = paths.into_iter().map(|path| {
        let mut body = Vec::new();
        let file = std::fs::File::open(path).unwrap();
        flate2::read::GzDecoder::new(file)
            .read_to_end(&mut body)
            .unwrap();
        body
    });
    bodies.collect()
}
