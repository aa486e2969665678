//! Rows of small files come from memory, each once, and answers are those of the files.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use lake::sim::SimStore;
use lake::{Maintenance, Mode};
use proptest::prelude::*;
use proptest::test_runner::{Config as Cases, TestRunner};

use super::support::{
    Cell, DAY, Fixture, NEW_YEAR, SECOND, batch, config, config_of_files, fixture, fixture_over,
    numbered, row,
};
use crate::Config;
use crate::id_index::Candidate;
use crate::small_files::SmallFiles;

/// Files of a minute each, with three requests.
async fn commit_minutes(fixture: &Fixture, minutes: std::ops::Range<i64>) {
    for minute in minutes {
        let rows: Vec<_> = (0..3)
            .map(|n| numbered(NEW_YEAR + (minute * 60 + n) * SECOND, minute * 3 + n))
            .collect();
        fixture.append("requests", minute + 1, batch("requests", &rows));
        fixture.commit("requests", minute + 1).await;
    }
}

async fn merged(fixture: &Fixture) {
    let requests = fixture.lake.table("requests").unwrap();
    let maintenance = Maintenance {
        target_file_bytes: 1 << 20,
        retention_days: None,
        vacuum_after: Duration::from_hours(1),
        owner: "test".to_owned(),
        clock: Arc::new(|| SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_312_000)),
    };
    let report = requests.maintain(&maintenance, |_| ()).await.unwrap();
    assert!(report.failures.is_empty(), "{report:?}");
}

#[tokio::test]
async fn a_small_file_is_read_once() {
    let store = SimStore::new(1);
    let fixture = fixture_over(&store, &config()).await;
    commit_minutes(&fixture, 0..10).await;
    let all = "SELECT count(*), min(start_time), max(date) FROM requests";
    let first = fixture.ask(all).await;
    assert!(first.contains("| 30 "), "{first}");
    store.take_reads();
    assert_eq!(fixture.ask(all).await, first);
    let list = "SELECT trace_id FROM requests ORDER BY start_time DESC LIMIT 2";
    fixture.ask(list).await;
    let plan = fixture.ask(&format!("EXPLAIN FORMAT INDENT {list}")).await;
    assert!(!plan.contains(".parquet"), "{plan}");
    assert_eq!(store.take_reads().n_gets, 0);

    // One file more is one file to read.
    commit_minutes(&fixture, 10..11).await;
    store.take_reads();
    let more = fixture.ask(all).await;
    assert!(more.contains("| 33 "), "{more}");
    let n_gets = store.take_reads().n_gets;
    assert!((1..=3).contains(&n_gets), "{n_gets}");
}

#[tokio::test]
async fn each_row_is_there_once_through_commit_and_merge() {
    let fixture = fixture(&config()).await;
    let count = "SELECT count(*) FROM requests";
    commit_minutes(&fixture, 0..6).await;
    assert_eq!(fixture.number(count).await, 18);
    let late = batch("requests", &[numbered(NEW_YEAR + DAY, 99)]);
    fixture.append("requests", 100, late);
    assert_eq!(fixture.number(count).await, 19);
    fixture.commit("requests", 100).await;
    assert_eq!(fixture.number(count).await, 19);
    merged(&fixture).await;
    let requests = fixture.lake.table("requests").unwrap();
    assert_eq!(requests.view().files.len(), 2, "a file for each day");
    assert_eq!(fixture.number(count).await, 19);
}

#[tokio::test]
async fn a_file_that_cannot_be_read_is_an_error_until_it_can() {
    let fixture = fixture(&config()).await;
    commit_minutes(&fixture, 0..2).await;
    let requests = fixture.lake.table("requests").unwrap();
    let file = requests.view().files[0].clone();
    let path = requests.root_url().join(&file.path).unwrap();
    let path = path.to_file_path().unwrap();
    let whole = std::fs::read(&path).unwrap();
    let count = "SELECT count(trace_id) FROM requests";
    for damaged in [&whole[..whole.len() / 2], &[], &[0x41; 4096]] {
        std::fs::write(&path, damaged).unwrap();
        let answer = fixture.try_ask(count).await;
        assert!(answer.is_err(), "{} bytes: {answer:?}", damaged.len());
    }
    std::fs::write(&path, &whole).unwrap();
    assert_eq!(fixture.number(count).await, 6);
}

async fn taken(small: &SmallFiles, fixture: &Fixture, table: &str) -> (usize, usize) {
    let table = fixture.lake.table(table).unwrap();
    let view = table.view();
    let mut files = view.files.iter().map(Candidate::whole).collect();
    let rows = small.taken_from(&mut files, table, &view.files).await;
    (rows.len(), files.len())
}

#[tokio::test]
async fn the_newest_are_kept_within_the_bound() {
    let store = SimStore::new(1);
    let fixture = fixture_over(&store, &config()).await;
    commit_minutes(&fixture, 0..12).await;
    let all = SmallFiles::new(&fixture.lake, usize::MAX);
    assert_eq!(taken(&all, &fixture, "requests").await, (12, 0));
    let n_tables = fixture.lake.tables().len();
    let bytes_max = all.bytes() / 2 * n_tables;
    let half = SmallFiles::new(&fixture.lake, bytes_max);
    store.take_reads();
    for n_asked in 0..3 {
        assert_eq!(taken(&half, &fixture, "requests").await, (6, 6));
        assert!(half.bytes() <= bytes_max / n_tables);
        // What has no room is not read again and again.
        let n_gets = store.take_reads().n_gets;
        assert_eq!(n_gets == 0, n_asked > 0, "{n_gets}");
    }
    commit_minutes(&fixture, 12..13).await;
    assert_eq!(taken(&half, &fixture, "requests").await, (6, 7));
    let newest = fixture.lake.table("requests").unwrap().view();
    let mut last = vec![Candidate::whole(newest.files.last().unwrap())];
    let table = fixture.lake.table("requests").unwrap();
    half.taken_from(&mut last, table, &newest.files).await;
    assert!(last.is_empty(), "the newest file is in memory");
}

/// Many rows of one long text are a small file and much memory.
#[tokio::test]
async fn a_small_file_of_large_rows_is_left_where_it_is() {
    let fixture = fixture(&config()).await;
    let long = "x".repeat(10_000);
    let rows: Vec<_> = (0..4000)
        .map(|n| row(NEW_YEAR + n, &[("model", Cell::Owned(long.clone()))]))
        .collect();
    fixture.append("requests", 1, batch("requests", &rows));
    fixture.commit("requests", 1).await;
    let file = fixture.lake.table("requests").unwrap().view().files[0].clone();
    assert!(file.size_bytes < 200_000, "{}", file.size_bytes);
    let small = SmallFiles::new(&fixture.lake, config().small_files_bytes());
    assert_eq!(taken(&small, &fixture, "requests").await, (0, 1));
    assert!(small.bytes() < 1024, "{}", small.bytes());
    let count = "SELECT count(model) FROM requests";
    assert_eq!(fixture.number(count).await, 4000);
}

/// Statements of each profile, over conditions that statistics, filters and rows decide.
const STATEMENTS: [&str; 9] = [
    "SELECT count(*), max(start_time_unix_nano), min(trace_id), max(date) FROM requests",
    "SELECT trace_id, start_time FROM requests ORDER BY start_time DESC, trace_id LIMIT 7",
    "SELECT trace_id FROM requests ORDER BY start_time, trace_id LIMIT 7",
    "SELECT trace_id, e2e_s FROM requests ORDER BY e2e_s DESC NULLS LAST, trace_id LIMIT 5",
    "SELECT date, count(*), count(e2e_s) FROM requests GROUP BY date ORDER BY date NULLS LAST",
    "SELECT * FROM requests WHERE trace_id = '00000000000000000000000000000003' \
     ORDER BY start_time, e2e_s",
    "SELECT trace_id FROM requests WHERE start_time >= '2026-01-01T00:00:20Z' ORDER BY trace_id",
    "SELECT trace_id FROM requests WHERE date = '2026-01-02' AND e2e_s > 2 ORDER BY trace_id",
    "SELECT a.trace_id, b.e2e_s FROM requests AS a JOIN requests AS b USING (trace_id) \
     ORDER BY a.trace_id, b.e2e_s, a.start_time, b.start_time LIMIT 50",
];

/// What happens to the table, in order.
#[derive(Debug, Clone)]
enum Step {
    /// Rows of a second, a number and a duration each.
    Append(Vec<(i64, i64, Option<f64>)>),
    Commit,
    Merge,
    Ask,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Two days, and few numbers, so that conditions and joins meet something.
    let rows = (
        0..2_i64,
        0..40_i64,
        0..8_i64,
        prop::option::of(0.0..4.0_f64),
    )
        .prop_map(|(day, second, number, e2e_s)| (day * DAY / SECOND + second, number, e2e_s));
    let step = prop_oneof![
        4 => prop::collection::vec(rows, 1..6).prop_map(Step::Append),
        3 => Just(Step::Commit),
        1 => Just(Step::Merge),
        2 => Just(Step::Ask),
    ];
    prop::collection::vec(step, 1..12)
}

async fn answers_are_those_of_files(steps: Vec<Step>) {
    let store = SimStore::new(1);
    let fixture = fixture_over(&store, &config()).await;
    let of_files = Fixture::of_shared(&fixture.lake, &config_of_files());
    let mut sequence = 0;
    for step in steps.into_iter().chain([Step::Ask]) {
        match step {
            Step::Append(rows) => {
                sequence += 1;
                let rows: Vec<_> = rows
                    .into_iter()
                    .map(|(second, number, e2e_s)| {
                        let id = Cell::Owned(format!("{number:032x}"));
                        let e2e_s = e2e_s.map_or(Cell::Null, Cell::Float);
                        let cells = [("trace_id", id), ("e2e_s", e2e_s)];
                        row(NEW_YEAR + second * SECOND, &cells)
                    })
                    .collect();
                fixture.append("requests", sequence, batch("requests", &rows));
            }
            Step::Commit => fixture.commit("requests", sequence).await,
            Step::Merge => merged(&fixture).await,
            Step::Ask => {
                for sql in STATEMENTS {
                    assert_eq!(fixture.ask(sql).await, of_files.ask(sql).await, "{sql}");
                }
            }
        }
    }
}

#[test]
fn answers_are_those_of_the_files() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let mut runner = TestRunner::new(Cases::with_cases(16));
    let ran = runner.run(&steps(), |steps| {
        runtime.block_on(answers_are_those_of_files(steps));
        Ok(())
    });
    ran.unwrap();
}

/// Another process merges and deletes what this one has in memory.
#[tokio::test]
async fn files_that_another_process_replaced_are_forgotten() {
    let store = SimStore::new(1);
    let fixture = fixture_over(&store, &config()).await;
    commit_minutes(&fixture, 0..6).await;
    let count = "SELECT count(*) FROM requests";
    assert_eq!(fixture.number(count).await, 18);
    let other = store.open(&tables::all(), Mode::Create).await.unwrap();
    let other = Fixture::of_lake(other, &Config::default());
    merged(&other).await;
    commit_minutes(&other, 6..8).await;
    let requests = fixture.lake.table("requests").unwrap();
    requests.refresh().await.unwrap();
    assert_eq!(fixture.number(count).await, 24);
    assert_eq!(requests.view().files.len(), 3);
}
