//! Maintenance that stops at any call of the object store: the table stays whole, rows stay as they
//! were, and the next maintenance cleans up.

use std::path::{Path as FsPath, PathBuf};
use std::sync::Arc;

use tokio::sync::OnceCell;

use super::faults::{FOREVER, open, plan};
use super::faulty_store::{Fault, FaultyStore};
use super::fixture::{all_ids, ids_in, stored_ids, table_at};
use super::maintain::{HOUR, at, in_two_days, maintained, now, parquet_files, with_files};
use crate::{Maintenance, Table};

/// Two groups of files of one date, so that a stop can come between two versions.
const N_FILES: i64 = 8;
const N_ROWS: i64 = N_FILES * 10;

async fn prepared(folder: &FsPath, store: &Arc<FaultyStore>) -> Arc<Table> {
    // Made once: a case needs hundreds of copies.
    static TEMPLATE: OnceCell<tempfile::TempDir> = OnceCell::const_new();
    let template = TEMPLATE
        .get_or_init(|| async {
            let template = tempfile::tempdir().unwrap();
            with_files(template.path(), N_FILES).await;
            template
        })
        .await;
    copy(template.path(), folder);
    open(folder, store).await
}

fn copy(from: &FsPath, to: &FsPath) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir(&to).unwrap();
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

fn two_groups(table: &Table) -> Maintenance {
    let size = table.view().files.iter().map(|file| file.size_bytes).max();
    Maintenance {
        target_file_bytes: size.unwrap() * 4,
        ..at(now())
    }
}

/// Calls of the store that maintenance makes when nothing fails.
async fn calls_of(settings: impl Fn(&Table) -> Maintenance, is_second: bool) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let store = FaultyStore::new();
    let table = prepared(folder.path(), &store).await;
    if is_second {
        maintained(&table, &two_groups(&table)).await;
    }
    let before = store.calls();
    maintained(&table, &settings(&table)).await;
    store.calls() - before
}

/// Scenario: the process dies at the n-th call of a compaction, which did or did not take effect; or
/// one call fails and the process goes on.
/// Guarantee: the table is readable and holds the same rows at once; a later maintenance merges what
/// is left, and finds the orphans: in the end the folder holds the live files only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compaction_may_stop_at_any_call() {
    let n_calls = calls_of(two_groups, false).await;
    let (mut n_cases, mut n_orphans) = (0, 0);
    for skip in 0..n_calls {
        for (fault, count) in [
            (Fault::Before, FOREVER),
            (Fault::After, FOREVER),
            (Fault::After, 1),
        ] {
            let case = format!("call {skip}, {fault:?}, {count} times");
            let folder = tempfile::tempdir().unwrap();
            let store = FaultyStore::new();
            let table = prepared(folder.path(), &store).await;
            let settings = two_groups(&table);
            store.set(plan(fault, skip, count, ""));
            table.maintain(&settings, |_| ()).await.ok();
            store.set(None);
            assert_eq!(
                ids_in(&table, &table.view()).await,
                all_ids(N_ROWS),
                "{case}, view"
            );
            assert_eq!(
                stored_ids(folder.path()).await,
                all_ids(N_ROWS),
                "{case}, stored"
            );
            drop(table);

            let table = table_at(folder.path()).await;
            n_orphans += usize::from(n_unnamed_files(folder.path()) > 0);
            maintained(
                &table,
                &Maintenance {
                    clock: at(now() + HOUR).clock,
                    ..settings
                },
            )
            .await;
            check_cleaned(&table, folder.path(), &at(in_two_days()), &case).await;
            n_cases += 1;
        }
    }
    println!("{n_calls} calls, {n_cases} crashes and faults, {n_orphans} left an orphan");
    assert!(
        n_calls > 50 && n_orphans > 0,
        "{n_calls} calls, {n_orphans} orphans"
    );
}

/// After one more maintenance the folder holds the live files only, with all rows.
async fn check_cleaned(table: &Table, folder: &FsPath, settings: &Maintenance, case: &str) {
    maintained(table, settings).await;
    let n_live = table.view().files.len();
    assert_eq!(parquet_files(folder).len(), n_live, "{case}, cleaned");
    assert_eq!(stored_ids(folder).await, all_ids(N_ROWS), "{case}, after");
}

/// Parquet files that no version names; so few versions have no checkpoint.
fn n_unnamed_files(folder: &FsPath) -> usize {
    let log = std::fs::read_dir(folder.join("trips/_delta_log")).unwrap();
    let log: String = log
        .map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap())
        .collect();
    let is_unnamed = |path: &PathBuf| !log.contains(path.file_name().unwrap().to_str().unwrap());
    parquet_files(folder)
        .iter()
        .filter(|path| is_unnamed(path))
        .count()
}

/// Scenario: the process dies at the n-th call of a vacuum, among them each single deletion.
/// Guarantee: no live file is touched, and the next vacuum deletes the rest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vacuum_may_stop_at_any_call() {
    let later = |_: &Table| at(now() + HOUR * 72);
    let n_calls = calls_of(later, true).await;
    for skip in 0..n_calls {
        for fault in [Fault::Before, Fault::After] {
            let case = format!("call {skip}, {fault:?}");
            let folder = tempfile::tempdir().unwrap();
            let store = FaultyStore::new();
            let table = prepared(folder.path(), &store).await;
            maintained(&table, &two_groups(&table)).await;
            store.set(plan(fault, skip, FOREVER, ""));
            table.maintain(&later(&table), |_| ()).await.ok();
            drop(table);
            assert_eq!(
                stored_ids(folder.path()).await,
                all_ids(N_ROWS),
                "{case}, stored"
            );

            let table = table_at(folder.path()).await;
            check_cleaned(&table, folder.path(), &at(now() + HOUR * 73), &case).await;
            assert_eq!(
                table.committed_sequence("a").await.unwrap(),
                Some(N_FILES),
                "{case}"
            );
        }
    }
    println!("{n_calls} calls, {} crashes", n_calls * 2);
    assert!(n_calls > 30, "{n_calls} calls");
}

/// Scenario: the put of a compaction's version fails for its client and is made by the server after
/// the compactor has given up; meanwhile it looked again, or nobody did anything.
/// Guarantee: rows are there once either way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compaction_that_lands_late_counts_once_or_not_at_all() {
    let version = "00000000000000000009.json";
    for (count, is_made) in [(1, false), (FOREVER, true)] {
        let folder = tempfile::tempdir().unwrap();
        let store = FaultyStore::new();
        let table = prepared(folder.path(), &store).await;
        store.set(plan(Fault::Late, 0, count, version));
        let report = table.maintain(&at(now()), |_| ()).await.unwrap();
        store.set(None);
        assert_eq!(report.failures.len(), usize::from(is_made), "{report:?}");
        assert_eq!(ids_in(&table, &table.view()).await, all_ids(N_ROWS));
        assert_eq!(store.land().await, usize::from(is_made));
        maintained(&table, &at(now() + HOUR)).await;
        assert_eq!(table.view().files.len(), 1);
        maintained(&table, &at(in_two_days())).await;
        assert_eq!(parquet_files(folder.path()).len(), 1);
        assert_eq!(stored_ids(folder.path()).await, all_ids(N_ROWS));
    }
}

/// Scenario: the put of a compaction's version is made, its answer is lost, and the store's client
/// repeats it: the compactor is told that somebody else has put this version.
/// Guarantee: it finds its own files there, and does not delete them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compaction_that_conflicts_with_itself_keeps_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let store = FaultyStore::new();
    let table = prepared(folder.path(), &store).await;
    store.set(plan(Fault::Repeated, 0, 1, "00000000000000000009.json"));
    let report = maintained(&table, &at(now())).await;
    assert_eq!((report.groups_stale, report.compacted.files), (0, 8));
    assert_eq!(table.view().files.len(), 1);
    assert_eq!(ids_in(&table, &table.view()).await, all_ids(N_ROWS));
    assert_eq!(stored_ids(folder.path()).await, all_ids(N_ROWS));
}
