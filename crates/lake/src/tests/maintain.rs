//! What maintenance changes, and what it leaves alone.

use std::path::{Path as FsPath, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arrow::array::AsArray as _;
use arrow::datatypes::{Int64Type, TimestampMicrosecondType};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::fixture::{DAY, all_ids, ids_in, lake_at, stored_ids, table_at, trips, trips_on};
use crate::{Compacted, Maintenance, Mode, Report, Table};

pub(super) const HOUR: Duration = Duration::from_secs(3_600);

/// Maintenance at `now`, with a day's wait before anything is deleted and no retention.
pub(super) fn at(now: SystemTime) -> Maintenance {
    Maintenance {
        target_file_bytes: 1 << 20,
        retention_days: None,
        vacuum_after: HOUR * 24,
        owner: "test".to_owned(),
        clock: Arc::new(move || now),
    }
}

pub(super) fn now() -> SystemTime {
    #[expect(clippy::disallowed_methods, reason = "files have the time of the disk")]
    SystemTime::now()
}

pub(super) fn in_two_days() -> SystemTime {
    now() + HOUR * 48
}

pub(super) async fn maintained(table: &Table, settings: &Maintenance) -> Report {
    let report = table.maintain(settings, |_| ()).await.unwrap();
    assert!(!report.is_busy, "{report:?}");
    assert!(report.failures.is_empty(), "{report:?}");
    report
}

/// Commits `n_files` of ten rows each.
pub(super) async fn with_files(folder: &FsPath, n_files: i64) -> Arc<Table> {
    let table = table_at(folder).await;
    for sequence in 1..=n_files {
        let first = (sequence - 1) * 10;
        table.append("a", sequence, trips(first..first + 10));
        table.commit("a", sequence).await.unwrap().unwrap();
    }
    table
}

/// Parquet files in the folder, whether or not the log knows them.
pub(super) fn parquet_files(folder: &FsPath) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for date in std::fs::read_dir(folder.join("trips")).unwrap() {
        let date = date.unwrap().path();
        if date
            .file_name()
            .unwrap()
            .to_string_lossy()
            .starts_with("date=")
        {
            let inside = std::fs::read_dir(date).unwrap();
            files.extend(inside.map(|file| file.unwrap().path()));
        }
    }
    files.sort();
    files
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_files_become_one_that_is_sorted() {
    let folder = tempfile::tempdir().unwrap();
    let table = with_files(folder.path(), 30).await;
    let before = table.view();
    let report = maintained(&table, &at(now())).await;
    let Compacted {
        files,
        into_files,
        rows,
        ..
    } = report.compacted;
    assert_eq!((files, into_files, rows), (30, 1, 300));
    assert!(report.compacted.into_bytes < report.compacted.bytes);

    let view = table.view();
    assert_eq!(view.files.len(), 1);
    assert_eq!(view.files[0].n_rows, Some(300));
    assert_eq!(ids_in(&table, &view).await, all_ids(300));
    assert_eq!(stored_ids(folder.path()).await, all_ids(300));
    // A query that planned before still finds its files.
    assert_eq!(ids_in(&table, &before).await, all_ids(300));

    let path = folder.path().join("trips").join(&*view.files[0].path);
    let bytes = bytes::Bytes::from(std::fs::read(path).unwrap());
    let builder = ParquetRecordBatchReaderBuilder::try_new(bytes).unwrap();
    let codec = builder.metadata().row_group(0).column(0).compression();
    assert_eq!(
        codec.to_string(),
        "ZSTD(ZstdLevel(1))",
        "the footer names the codec only"
    );
    let rows: Vec<_> = builder.build().unwrap().map(Result::unwrap).collect();
    let times: Vec<i64> = rows
        .iter()
        .flat_map(|rows| {
            rows["start_time"]
                .as_primitive::<TimestampMicrosecondType>()
                .values()
        })
        .copied()
        .collect();
    assert_eq!(times.len(), 300);
    assert!(times.is_sorted_by(|a, b| a >= b), "newest first");
    let stats = &view.files[0].statistics;
    let reopened = table_at(folder.path()).await;
    let stored = &reopened.view().files[0].statistics;
    assert_eq!(stats, stored, "statistics are those of the log");
    assert_eq!(stats[1].min, Some(crate::Bound::Int(0)));
    assert_eq!(stats[1].max, Some(crate::Bound::Int(299)));
    assert_eq!(stats[3].null_count, Some(60));

    assert_eq!(
        maintained(&table, &at(now())).await.compacted,
        Compacted::default()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_merge_keeps_every_value_of_large_interleaved_files() {
    const N_FILES: i64 = 5;
    const N_ROWS: i64 = 60_000;
    let folder = tempfile::tempdir().unwrap();
    let table = table_at(folder.path()).await;
    for file in 0..N_FILES {
        // Ids with a step, so that each run of the merge is one row long.
        let all = trips(0..N_ROWS);
        let picked = arrow::array::UInt64Array::from_iter_values(
            (0..N_ROWS as u64).filter(|id| id % N_FILES as u64 == file as u64),
        );
        let rows = arrow::compute::take_record_batch(&all, &picked).unwrap();
        table.append("a", file + 1, rows);
        table.commit("a", file + 1).await.unwrap().unwrap();
    }
    let settings = Maintenance {
        target_file_bytes: 64 << 20,
        ..at(now())
    };
    assert_eq!(
        maintained(&table, &settings).await.compacted.files,
        N_FILES as usize
    );
    let view = table.view();
    assert_eq!(ids_in(&table, &view).await, all_ids(N_ROWS));
    let path = folder.path().join("trips").join(&*view.files[0].path);
    let reader = ParquetRecordBatchReaderBuilder::try_new(std::fs::File::open(path).unwrap());
    let rows: Vec<_> = reader
        .unwrap()
        .build()
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let rows = arrow::compute::concat_batches(&table.file_schema(), &rows).unwrap();
    let mut expected = trips(0..N_ROWS);
    expected.remove_column(2);
    assert_eq!(rows["id"].as_primitive::<Int64Type>().value(0), 0);
    assert_eq!(
        rows.columns(),
        expected.columns(),
        "ids are in the order of time"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removed_files_change_no_data_and_expired_ones_do() {
    let folder = tempfile::tempdir().unwrap();
    let table = with_files(folder.path(), 2).await;
    table.append("a", 3, trips_on(DAY - 8, 20..25));
    table.append("a", 3, trips_on(DAY - 7, 25..27));
    table.commit("a", 3).await.unwrap().unwrap();
    let midnight = UNIX_EPOCH + HOUR * 24 * DAY as u32;
    let settings = Maintenance {
        retention_days: Some(7),
        ..at(midnight)
    };
    let plan = table.plan_maintenance(&settings).await.unwrap();
    assert_eq!((plan.expired.files, plan.compacted.files), (1, 2));
    assert_eq!(table.view().version, 3, "a plan changes nothing");
    let report = maintained(&table, &settings).await;
    assert_eq!((report.expired.files, report.expired.rows), (1, 5));
    let expected: Vec<i64> = (0..20).chain(25..27).collect();
    assert_eq!(stored_ids(folder.path()).await, expected);

    let log = folder.path().join("trips/_delta_log");
    let actions = |version: u32| -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(log.join(format!("{version:020}.json"))).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    let changes = |version, kind: &str| -> Vec<bool> {
        let found = actions(version)
            .into_iter()
            .filter(|action| action[kind].is_object());
        found
            .map(|action| action[kind]["dataChange"].as_bool().unwrap())
            .collect()
    };
    assert_eq!(
        (changes(4, "remove"), changes(4, "add")),
        (vec![true], vec![])
    );
    assert_eq!(
        (changes(5, "remove"), changes(5, "add")),
        (vec![false, false], vec![false])
    );
    assert_eq!(actions(5)[0]["commitInfo"]["operation"], "OPTIMIZE");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removed_files_stay_for_the_longest_query_and_then_go() {
    let folder = tempfile::tempdir().unwrap();
    let table = with_files(folder.path(), 3).await;
    let before = table.view();
    // Old files that were removed just now.
    for file in parquet_files(folder.path()) {
        let file = std::fs::File::options().write(true).open(file).unwrap();
        file.set_modified(now() - HOUR * 72).unwrap();
    }
    let report = maintained(&table, &at(now())).await;
    assert_eq!((report.compacted.files, report.vacuumed.files), (3, 0));
    assert_eq!(ids_in(&table, &before).await, all_ids(30));
    let report = maintained(&table, &at(now() + HOUR * 23)).await;
    assert_eq!(report.vacuumed.files, 0);
    let report = maintained(&table, &at(now() + HOUR * 25)).await;
    assert_eq!(report.vacuumed.files, 3);
    assert_eq!(parquet_files(folder.path()).len(), 1);
    assert_eq!(stored_ids(folder.path()).await, all_ids(30));
}

/// Case C71: files without a footer, empty files and half written ones lie in a partition.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c71_files_that_no_commit_named_are_never_read_and_go_when_they_are_old() {
    let folder = tempfile::tempdir().unwrap();
    let table = with_files(folder.path(), 1).await;
    let good = parquet_files(folder.path()).remove(0);
    let partition = good.parent().unwrap();
    let content = std::fs::read(&good).unwrap();
    std::fs::write(
        partition.join("part-bad.parquet"),
        &content[..content.len() / 2],
    )
    .unwrap();
    std::fs::write(partition.join("part-empty.parquet"), "").unwrap();
    std::fs::write(partition.join("x.parquet#123"), "half").unwrap();
    std::fs::write(partition.join("notes.txt"), "not ours").unwrap();
    let log = folder.path().join("trips/_delta_log");
    std::fs::write(log.join("00000000000000000002.json#77"), "{").unwrap();
    assert_eq!(stored_ids(folder.path()).await, all_ids(10));

    let report = maintained(&table, &at(now())).await;
    assert_eq!(
        (report.vacuumed.files, report.staged.files),
        (0, 0),
        "they may be in use"
    );
    let plan = table.plan_maintenance(&at(in_two_days())).await.unwrap();
    assert_eq!((plan.vacuumed.files, plan.staged.files), (2, 2));
    let report = maintained(&table, &at(in_two_days())).await;
    assert_eq!(
        (report.vacuumed, report.staged),
        (plan.vacuumed, plan.staged)
    );
    let names: Vec<_> = parquet_files(folder.path())
        .into_iter()
        .map(|path| path.file_name().unwrap().to_owned())
        .collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names.contains(&"notes.txt".into()));
    assert_eq!(stored_ids(folder.path()).await, all_ids(10));
}

/// Case C71: a live file is damaged. It is named, left alone, and the rest is maintained.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c71_a_damaged_live_file_is_named_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let table = with_files(folder.path(), 3).await;
    table.append("a", 4, trips_on(DAY + 1, 30..40));
    table.commit("a", 4).await.unwrap();
    table.append("a", 5, trips_on(DAY + 1, 40..50));
    table.commit("a", 5).await.unwrap();
    let path = folder
        .path()
        .join("trips")
        .join(&*table.view().files[0].path);
    let content = std::fs::read(&path).unwrap();
    for (damage, expected) in [
        (content[..100].to_vec(), "has 100 bytes in the store"),
        (vec![0; content.len()], "cannot read the data file"),
    ] {
        std::fs::write(&path, damage).unwrap();
        let report = table.maintain(&at(now()), |_| ()).await.unwrap();
        assert_eq!(report.failures.len(), 1);
        let text = report.failures[0].to_string();
        assert!(text.contains(expected), "{text}");
        assert!(
            text.contains(path.file_name().unwrap().to_str().unwrap()),
            "{text}"
        );
    }
    assert_eq!(table.view().files.len(), 4, "the other date was merged");
    std::fs::write(&path, content).unwrap();
    maintained(&table, &at(now())).await;
    assert_eq!(stored_ids(folder.path()).await, all_ids(50));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_deleted_while_a_live_file_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let table = with_files(folder.path(), 1).await;
    let good = parquet_files(folder.path()).remove(0);
    std::fs::rename(&good, good.with_extension("moved.parquet")).unwrap();
    let report = table.maintain(&at(in_two_days()), |_| ()).await.unwrap();
    let text = report.failures[0].to_string();
    assert_eq!(text, "table `trips` names 1 files, the store has 0 of them");
    assert_eq!(parquet_files(folder.path()).len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_is_kept_short_and_stays_readable() {
    let folder = tempfile::tempdir().unwrap();
    with_files(folder.path(), 45).await;
    let log = folder.path().join("trips/_delta_log");
    std::fs::remove_file(log.join("00000000000000000040.checkpoint.parquet")).unwrap();
    std::fs::remove_file(log.join("_last_checkpoint")).unwrap();
    let table = table_at(folder.path()).await;
    let report = maintained(&table, &at(now())).await;
    assert_eq!(
        report.checkpoint,
        Some(46),
        "an overdue checkpoint is made up for"
    );
    assert_eq!(report.log_files.files, 0);
    let report = maintained(&table, &at(now() + HOUR * 72)).await;
    assert_eq!(
        report.log_files.files, 47,
        "versions 0 to 45, and the checkpoint of version 20"
    );
    assert_eq!(stored_ids(folder.path()).await, all_ids(450));
    let reopened = table_at(folder.path()).await;
    assert_eq!(reopened.committed_sequence("a").await.unwrap(), Some(45));
    reopened.append("a", 46, trips(450..460));
    assert_eq!(reopened.commit("a", 46).await.unwrap().unwrap().version, 47);
    table.refresh().await.unwrap();
    assert_eq!(ids_in(&table, &table.view()).await, all_ids(460));
}

/// Scenario: a table is open while another process writes a checkpoint of the version that it is at, and deletes the files
/// of the log that this one was read from.
/// Guarantee: it can be maintained, and a writer can start on it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_another_process_has_shortened_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    with_files(folder.path(), 20).await;
    let log = folder.path().join("trips/_delta_log");
    let aside = tempfile::tempdir().unwrap();
    let checkpoint = [
        "00000000000000000020.checkpoint.parquet",
        "_last_checkpoint",
    ];
    let carry = |from: &std::path::Path, to: &std::path::Path| {
        for name in checkpoint {
            std::fs::copy(from.join(name), to.join(name)).unwrap();
        }
    };
    carry(&log, aside.path());
    for name in checkpoint {
        std::fs::remove_file(log.join(name)).unwrap();
    }
    let (maintainer, writer) = (table_at(folder.path()).await, table_at(folder.path()).await);
    carry(aside.path(), &log);
    for version in 0..20 {
        std::fs::remove_file(log.join(format!("{version:020}.json"))).unwrap();
    }

    let report = maintained(&maintainer, &at(now())).await;
    assert_eq!(report.compacted.files, 20);
    writer.append("b", 1, trips(200..210));
    assert_eq!(writer.commit("b", 1).await.unwrap().unwrap().version, 22);
    assert_eq!(stored_ids(folder.path()).await, all_ids(210));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_process_maintains_a_table_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let table = with_files(folder.path(), 2).await;
    let other = table_at(folder.path()).await;
    let inner = Arc::clone(&table.inner);
    let now_ms = 1_000_000;
    let lease = |now_ms| {
        let inner = Arc::clone(&inner);
        async move {
            let inner_too = Arc::clone(&inner);
            let take = move || inner_too.take_lease("first", now_ms);
            inner.kernel.blocking(take).await.unwrap()
        }
    };
    let first = lease(now_ms).await.unwrap();
    assert!(lease(now_ms + 299_000).await.is_none());
    let settings = at(UNIX_EPOCH + Duration::from_millis(now_ms as u64));
    assert!(other.maintain(&settings, |_| ()).await.unwrap().is_busy);
    // It ends by itself; who had it notices.
    lease(now_ms + 301_000).await.unwrap();
    let extend = {
        let inner = Arc::clone(&inner);
        move || inner.extend_lease(&first, now_ms)
    };
    assert!(!inner.kernel.blocking(extend).await.unwrap());
    let later = at(UNIX_EPOCH + Duration::from_millis(now_ms as u64 + 700_000));
    assert_eq!(maintained(&other, &later).await.compacted.files, 2);
    // A run that has ended lets others in at once.
    maintained(&table, &later).await;
    let leases = std::fs::read_dir(folder.path().join("trips/_maintenance")).unwrap();
    assert_eq!(leases.count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_open_for_reading_is_planned_and_not_maintained() {
    let folder = tempfile::tempdir().unwrap();
    with_files(folder.path(), 2).await;
    let lake = lake_at(folder.path(), Mode::ReadOnly).await.unwrap();
    let table = lake.table("trips").unwrap();
    assert_eq!(
        table
            .plan_maintenance(&at(now()))
            .await
            .unwrap()
            .compacted
            .files,
        2
    );
    assert!(table.maintain(&at(now()), |_| ()).await.is_err());
    assert!(!folder.path().join("trips/_maintenance").exists());
    let nowhere = tempfile::tempdir().unwrap();
    let error = lake_at(nowhere.path(), Mode::Existing).await.unwrap_err();
    assert!(error.is_missing());
}
