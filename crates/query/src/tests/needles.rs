//! One identifier among many files: nothing is lost, and nothing is read that cannot hold it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{binary, col, lit};
use datafusion::physical_expr::utils::LiteralGuarantee;
use lake::sim::SimStore;
use lake::{Lake, Maintenance, Mode};

use super::support::{
    Fixture, NEW_YEAR, SECOND, batch, config_of_files, fixture, fixture_over, numbered,
};
use crate::Config;
use crate::id_index::IdIndex;

const TABLES: [&str; 5] = ["spans", "traces", "requests", "evidence", "batches"];
/// A plan names five files of each of two groups.
const N_FILES: i64 = 10;
const ROWS_OF_FILE: i64 = 5;

/// Identifiers are random: bounds of a file say nothing of them.
fn scattered(number: i64) -> i64 {
    (number + 1).wrapping_mul(0x1e37_79b9_7f4a_7c15) & i64::MAX
}

fn id(number: i64) -> String {
    format!("{:032x}", scattered(number))
}

/// Files of a day with five traces each, all in the same minutes, so that times say nothing.
async fn with_files(store: &SimStore, config: &Config) -> Fixture {
    let fixture = fixture_over(store, config).await;
    for table in TABLES {
        for file in 0..N_FILES {
            let rows: Vec<_> = (0..ROWS_OF_FILE)
                .map(|row| {
                    let number = scattered(file * ROWS_OF_FILE + row);
                    numbered(NEW_YEAR + row * SECOND, number)
                })
                .collect();
            fixture.append(table, file + 1, batch(table, &rows));
            fixture.commit(table, file + 1).await;
        }
    }
    fixture
}

async fn files_in_plan(fixture: &Fixture, sql: &str) -> usize {
    let plan = fixture.ask(&format!("EXPLAIN FORMAT INDENT {sql}")).await;
    plan.matches(".parquet").count()
}

#[tokio::test]
async fn only_files_that_have_the_identifier_are_in_the_plan() {
    let fixture = with_files(&SimStore::new(1), &config_of_files()).await;
    let [a, b, nowhere] = [3, 33, 999].map(id);
    for table in TABLES {
        for (condition, n_expected) in [
            (format!("trace_id = '{a}'"), 1),
            (format!("'{a}' = trace_id"), 1),
            (format!("trace_id IN ('{a}', '{b}')"), 2),
            (format!("trace_id = '{a}' OR trace_id = '{b}'"), 2),
            (format!("trace_id = '{nowhere}'"), 0),
            (format!("trace_id = '{a}' AND trace_id = '{b}'"), 0),
            // What says nothing of a single identifier narrows nothing.
            (format!("trace_id <> '{a}'"), 10),
            (format!("trace_id = '{a}' OR duration_ns IS NULL"), 10),
            (format!("trace_id > '{}'", "0".repeat(32)), 10),
            (format!("trace_id NOT IN ('{a}', '{b}')"), 10),
        ] {
            let sql = format!("SELECT trace_id FROM {table} WHERE {condition}");
            assert_eq!(files_in_plan(&fixture, &sql).await, n_expected, "{sql}");
        }
    }
}

/// What a statement asks of the store once footers and filters are known: no list, and of one file the pages it needs.
#[tokio::test]
async fn a_warm_statement_lists_nothing_and_reads_one_file() {
    let store = SimStore::new(1);
    let fixture = with_files(&store, &config_of_files()).await;
    for table in TABLES {
        let needle = format!("SELECT * FROM {table} WHERE trace_id = '{}'", id(17));
        fixture.ask(&needle).await;
        store.take_reads();
        let answer = fixture.ask(&needle).await;
        assert_eq!(answer.lines().count(), 5, "one row: {answer}");
        let read = store.take_reads();
        assert_eq!(read.n_lists, 0, "{needle}: {read:?}");
        // The page of the identifier, then those of the other columns.
        assert!(read.n_gets <= 3, "{needle}: {read:?}");

        // Nothing new, nothing read: not even of a file whose filter is asked.
        fixture
            .ask(&format!(
                "SELECT * FROM {table} WHERE trace_id = '{}'",
                id(999)
            ))
            .await;
        assert_eq!(store.take_reads().n_gets, 0, "{table}");
    }
}

/// To wake threads for so little takes longer, and lets later statements pass by.
#[tokio::test]
async fn one_partition_reads_the_files_of_an_identifier_and_rows_without_it_are_no_source() {
    let fixture = with_files(&SimStore::new(1), &config_of_files()).await;
    for table in TABLES {
        let fresh = scattered(500);
        let row = numbered(NEW_YEAR, fresh);
        fixture.append(table, N_FILES + 1, batch(table, &[row]));
        let plan = async |ids: &[i64]| {
            let ids: Vec<_> = ids
                .iter()
                .map(|number| format!("'{}'", id(*number)))
                .collect();
            let ids = ids.join(", ");
            let sql = format!("SELECT * FROM {table} WHERE trace_id IN ({ids}) ORDER BY trace_id");
            assert!(fixture.ask(&sql).await.lines().count() > 4, "{sql}");
            fixture.ask(&format!("EXPLAIN FORMAT INDENT {sql}")).await
        };
        let in_files = plan(&[3, 33]).await;
        assert!(in_files.contains("1 group"), "{in_files}");
        for operator in [
            "UnionExec",
            "SortPreservingMergeExec",
            "CoalescePartitionsExec",
        ] {
            assert!(!in_files.contains(operator), "{in_files}");
        }
        let in_both = plan(&[3, 500]).await;
        assert!(in_both.contains("UnionExec"), "{in_both}");
        let fresh_only = plan(&[500]).await;
        assert!(!fresh_only.contains(".parquet"), "{fresh_only}");
        // Many files are read side by side.
        let in_many = plan(&[3, 13, 23, 33, 43]).await;
        assert!(!in_many.contains("1 group"), "{in_many}");
    }
}

/// What the index is for.
#[tokio::test]
async fn without_the_index_each_statement_reads_the_filters_of_all_files() {
    let store = SimStore::new(1);
    let without = Config {
        id_filters_mib: 0,
        ..config_of_files()
    };
    let fixture = with_files(&store, &without).await;
    let needle = format!("SELECT * FROM spans WHERE trace_id = '{}'", id(17));
    fixture.ask(&needle).await;
    store.take_reads();
    fixture.ask(&needle).await;
    let read = store.take_reads();
    assert!(i64::try_from(read.n_gets).unwrap() >= N_FILES, "{read:?}");
}

#[tokio::test]
async fn no_statement_lists_the_store() {
    let store = SimStore::new(1);
    let fixture = with_files(&store, &config_of_files()).await;
    fixture.append("spans", 99, batch("spans", &[numbered(NEW_YEAR, 17)]));
    for sql in [
        "SELECT count(*) FROM spans",
        "SELECT trace_id FROM traces ORDER BY start_time DESC LIMIT 3",
        "SELECT * FROM slow_requests LIMIT 3",
        "SELECT s.name FROM requests AS r JOIN spans AS s USING (trace_id) ORDER BY r.e2e_s LIMIT 3",
        "SELECT r.trace_id FROM requests AS r LEFT JOIN gpu_evidence AS g USING (trace_id, span_id)",
        "SELECT * FROM trace_timeline WHERE trace_id = '00000000000000000000000000000011'",
    ] {
        store.take_reads();
        fixture.ask(sql).await;
        let read = store.take_reads();
        assert_eq!(read.n_lists, 0, "{sql}: {read:?}");
    }
}

/// A model of the table: rows by identifier.
#[derive(Default)]
struct Model {
    visible: BTreeMap<i64, i64>,
    /// Of the other process, seen when it has committed and the log was read.
    elsewhere: BTreeMap<i64, i64>,
}

struct Draw(u64);

impl Draw {
    /// Below a bound.
    fn next(&mut self, bound: i64) -> i64 {
        // splitmix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        i64::try_from((mixed ^ (mixed >> 31)) >> 1).unwrap() % bound
    }
}

const N_IDS: i64 = 24;

/// Rows of some traces over three days: a trace goes on for as long as rows of it come.
fn some_rows(draw: &mut Draw, counted: &mut BTreeMap<i64, i64>) -> arrow::array::RecordBatch {
    let rows: Vec<_> = (0..=draw.next(5))
        .map(|_| {
            let number = draw.next(N_IDS);
            *counted.entry(number).or_default() += 1;
            let start = NEW_YEAR + draw.next(3 * 1440) * 60 * SECOND;
            numbered(start, scattered(number))
        })
        .collect();
    batch("spans", &rows)
}

fn maintenance(vacuum_after: Duration) -> Maintenance {
    Maintenance {
        target_file_bytes: 1 << 20,
        retention_days: None,
        vacuum_after,
        owner: "test".to_owned(),
        clock: Arc::new(in_two_days),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "files have the time of the machine"
)]
fn in_two_days() -> SystemTime {
    SystemTime::now() + Duration::from_secs(2 * 86_400)
}

async fn maintain(lake: &Lake, vacuum_after: Duration) {
    let spans = lake.table("spans").unwrap();
    let report = spans.maintain(&maintenance(vacuum_after), |_| ()).await;
    let report = report.unwrap();
    assert!(report.failures.is_empty(), "{report:?}");
}

async fn check_one(fixture: &Fixture, model: &Model, number: i64, hint: &str) {
    let expected = model.visible.get(&number).copied().unwrap_or_default();
    let sql = format!(
        "SELECT count(*) FROM spans WHERE trace_id = '{}'",
        id(number)
    );
    assert_eq!(fixture.number(&sql).await, expected, "{hint}: {sql}");
}

/// Several writers in two processes, late spans, merges and deleted files: by its identifier a trace has the rows that a
/// full scan counts.
async fn lookup_equals_scan(seed: u64, config: &Config) {
    const WRITERS: [&str; 3] = ["a", "b", "c"];
    const LONG: Duration = Duration::from_secs(30 * 86_400);
    let store = SimStore::new(seed);
    let fixture = fixture_over(&store, config).await;
    let other = store.open(&tables::all(), Mode::Create).await.unwrap();
    let (here, there) = (
        fixture.lake.table("spans").unwrap(),
        other.table("spans").unwrap(),
    );
    let (mut draw, mut model) = (Draw(seed), Model::default());
    for step in 1..=36 {
        let hint = format!("SEED={seed}, step {step}");
        let writer = WRITERS[usize::try_from(draw.next(3)).unwrap()];
        match draw.next(8) {
            0..=2 => here.append(writer, step, some_rows(&mut draw, &mut model.visible)),
            3 => drop(here.commit(writer, step).await.unwrap()),
            4 => {
                there.append("d", step, some_rows(&mut draw, &mut model.elsewhere));
                there.commit("d", step).await.unwrap();
                here.refresh().await.unwrap();
                for (number, n_rows) in std::mem::take(&mut model.elsewhere) {
                    *model.visible.entry(number).or_default() += n_rows;
                }
            }
            5 => {
                // Files change places while they are asked for.
                let (number, late) = (draw.next(N_IDS), draw.next(N_IDS));
                tokio::join!(
                    maintain(&other, LONG),
                    check_one(&fixture, &model, number, &hint),
                );
                here.refresh().await.unwrap();
                check_one(&fixture, &model, late, &hint).await;
            }
            6 => {
                maintain(&fixture.lake, Duration::ZERO).await;
                check_one(&fixture, &model, draw.next(N_IDS), &hint).await;
            }
            _ => check_one(&fixture, &model, draw.next(N_IDS), &hint).await,
        }
    }
    for number in (0..N_IDS).step_by(8) {
        check_one(
            &fixture,
            &model,
            number,
            &format!("SEED={seed}, at the end"),
        )
        .await;
    }
    // All of them by a scan, which no index narrows, and by a list.
    let n_all: i64 = model.visible.values().sum();
    assert_eq!(fixture.number("SELECT count(*) FROM spans").await, n_all);
    let ids: Vec<String> = (0..N_IDS)
        .map(|number| format!("'{}'", id(number)))
        .collect();
    let listed = format!(
        "SELECT count(*) FROM spans WHERE trace_id IN ({})",
        ids.join(", ")
    );
    assert_eq!(fixture.number(&listed).await, n_all, "SEED={seed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_identifier_has_the_rows_that_a_scan_counts() {
    let seed = std::env::var("SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let without = Config {
        id_filters_mib: 0,
        ..config_of_files()
    };
    for seed in seed.map_or(1..3_u64, |seed| seed..seed + 1) {
        let config = if seed % 2 == 0 {
            &without
        } else {
            &config_of_files()
        };
        lookup_equals_scan(seed, config).await;
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_read_is_an_error_and_not_an_absence() {
    let fixture = fixture(&config_of_files()).await;
    let rows = [numbered(NEW_YEAR, scattered(1))];
    fixture.append("spans", 1, batch("spans", &rows));
    fixture.commit("spans", 1).await;
    let spans = fixture.lake.table("spans").unwrap();
    let file = spans.view().files[0].clone();
    let path = spans.root_url().join(&file.path).unwrap().to_file_path();
    let path = path.unwrap();
    let whole = std::fs::read(&path).unwrap();
    // Cut, empty, garbage, and a footer that is not one.
    for damaged in [&whole[..whole.len() / 2], &[], &[0x41; 4096]] {
        std::fs::write(&path, damaged).unwrap();
        let sql = format!("SELECT count(*) FROM spans WHERE trace_id = '{}'", id(1));
        assert!(
            fixture.try_ask(&sql).await.is_err(),
            "{} bytes",
            damaged.len()
        );
    }
    std::fs::write(&path, &whole).unwrap();
    let sql = format!("SELECT count(*) FROM spans WHERE trace_id = '{}'", id(1));
    assert_eq!(fixture.number(&sql).await, 1);
}

fn is_trace(fixture: &Fixture, number: i64) -> Vec<LiteralGuarantee> {
    let schema = fixture.lake.table("traces").unwrap().schema();
    let column = col("trace_id", &schema).unwrap();
    let condition = binary(column, Operator::Eq, lit(id(number)), &schema).unwrap();
    LiteralGuarantee::analyze(&condition)
}

/// The newest files are known, however often and in whatever order others are asked for.
#[tokio::test]
async fn what_does_not_fit_is_the_oldest_and_memory_keeps_its_bound() {
    let store = SimStore::new(1);
    let fixture = with_files(&store, &config_of_files()).await;
    let traces = fixture.lake.table("traces").unwrap();
    let view = traces.view();
    let one = IdIndex::new(&fixture.lake, usize::MAX);
    let ids = is_trace(&fixture, 3);
    let files = view.files[..1].iter().collect();
    one.narrowed(traces, &view.files, files, &ids).await;
    let bytes_of_file = one.bytes();
    assert!((32..1024).contains(&bytes_of_file), "{bytes_of_file}");

    // Room for four of ten files, and not quite for a fifth.
    let n_columns: usize = tables::all().iter().map(|spec| spec.bloom.len()).sum();
    assert_eq!(traces.spec().bloom.len(), 1);
    let bytes_max = (bytes_of_file * 5 - 1) * n_columns;
    let index = IdIndex::new(&fixture.lake, bytes_max);
    let orders: [Vec<_>; 3] = [
        view.files.iter().collect(),
        view.files[..6].iter().collect(),
        view.files.iter().collect(),
    ];
    let mut read_before = None;
    for files in orders {
        let is_all = files.len() == view.files.len();
        store.take_reads();
        let narrowed = index.narrowed(traces, &view.files, files, &ids).await;
        assert!(!narrowed.is_judged);
        assert!(index.bytes() <= bytes_max);
        if is_all {
            // The trace is in the first file; the last four are known not to have it.
            assert_eq!(narrowed.files.len(), view.files.len() - 4);
        }
        // What has no room is not read again and again.
        let read = store.take_reads().n_gets;
        assert_eq!(read == 0, read_before.is_some(), "{read}");
        read_before = Some(read);
    }
    // What is gone makes room.
    maintain_traces(&fixture.lake).await;
    let view = traces.view();
    assert_eq!(view.files.len(), 1);
    let files = view.files.iter().collect();
    let narrowed = index.narrowed(traces, &view.files, files, &ids).await;
    assert!(narrowed.is_judged && narrowed.files.len() == 1);
    assert!(index.bytes() <= bytes_max);
}

async fn maintain_traces(lake: &Lake) {
    let traces = lake.table("traces").unwrap();
    let report = traces.maintain(&maintenance(Duration::ZERO), |_| ()).await;
    assert!(report.unwrap().failures.is_empty());
}
