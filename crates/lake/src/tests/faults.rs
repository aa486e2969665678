//! Every call of the object store may fail, with or without effect: no row is lost or doubled, and
//! all stay visible.

use std::path::Path as FsPath;
use std::sync::Arc;

use object_store::ObjectStore;
use url::Url;

use super::faulty_store::{Fault, FaultyStore, Plan};
use super::fixture::{TRIPS, all_ids, ids_in, stored_ids, trips};
use crate::{Lake, Mode, Result, Table};

pub(super) const FOREVER: usize = usize::MAX;

pub(super) async fn try_open(folder: &FsPath, store: &Arc<FaultyStore>) -> Result<Arc<Table>> {
    let root = Url::from_directory_path(folder.canonicalize().unwrap()).unwrap();
    let store: Arc<dyn ObjectStore> = Arc::clone(store) as _;
    let lake = Lake::open_in(store, root, &[&TRIPS], Mode::Create).await?;
    Ok(Arc::clone(lake.table("trips").unwrap()))
}

pub(super) async fn open(folder: &FsPath, store: &Arc<FaultyStore>) -> Arc<Table> {
    try_open(folder, store).await.unwrap()
}

pub(super) fn plan(fault: Fault, skip: usize, count: usize, path: &'static str) -> Option<Plan> {
    Some(Plan {
        fault,
        skip,
        count,
        path,
        only_puts: false,
    })
}

/// Rows 0..20 are stored, 20..30 are in memory; returns the number of store calls that their commit
/// makes when nothing fails.
async fn calls_of_one_commit() -> usize {
    let folder = tempfile::tempdir().unwrap();
    let store = FaultyStore::new();
    let table = prepared(folder.path(), &store).await;
    let before = store.calls();
    table.commit("a", 3).await.unwrap().unwrap();
    store.calls() - before
}

async fn prepared(folder: &FsPath, store: &Arc<FaultyStore>) -> Arc<Table> {
    let table = open(folder, store).await;
    table.append("a", 1, trips(0..10));
    table.append("a", 2, trips(10..20));
    table.commit("a", 2).await.unwrap().unwrap();
    table.append("a", 3, trips(20..30));
    table
}

/// Scenario: from the n-th call on the store is down, for one call or until it is repaired.
/// Guarantee: rows are visible once throughout, and stored once after the repair.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_at_any_call_loses_and_doubles_nothing() {
    for skip in 0..calls_of_one_commit().await {
        for (fault, count) in [
            (Fault::Before, FOREVER),
            (Fault::After, 1),
            (Fault::After, FOREVER),
            (Fault::Repeated, 1),
        ] {
            let case = format!("call {skip}, {fault:?}, {count} times");
            let folder = tempfile::tempdir().unwrap();
            let store = FaultyStore::new();
            let table = prepared(folder.path(), &store).await;
            store.set(plan(fault, skip, count, ""));
            let result = table.commit("a", 3).await;
            if let Err(error) = &result {
                assert!(error.is_retryable(), "{case}: {error}");
            }
            store.set(None);
            assert_eq!(
                ids_in(&table, &table.view()).await,
                all_ids(30),
                "{case}, after"
            );
            table.refresh().await.unwrap();
            assert_eq!(
                ids_in(&table, &table.view()).await,
                all_ids(30),
                "{case}, refreshed"
            );
            table.append("a", 4, trips(30..40));
            table.commit("a", 4).await.unwrap();
            assert_eq!(
                ids_in(&table, &table.view()).await,
                all_ids(40),
                "{case}, repaired"
            );
            assert_eq!(table.fresh_rows(), 0, "{case}");
            assert_eq!(
                stored_ids(folder.path()).await,
                all_ids(40),
                "{case}, stored"
            );
        }
    }
}

/// Scenario: the process dies at the n-th call, which did or did not take effect; its successor
/// replays what is not committed.
/// Guarantee: stored once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_at_any_call_loses_and_doubles_nothing() {
    for skip in 0..calls_of_one_commit().await {
        for fault in [Fault::Before, Fault::After] {
            let case = format!("call {skip}, {fault:?}");
            let folder = tempfile::tempdir().unwrap();
            let store = FaultyStore::new();
            let table = prepared(folder.path(), &store).await;
            store.set(plan(fault, skip, FOREVER, ""));
            table.commit("a", 3).await.ok();
            drop(table);

            let table = open(folder.path(), &FaultyStore::new()).await;
            let committed = table.committed_sequence("a").await.unwrap().unwrap();
            for sequence in committed + 1..=3 {
                let id = (sequence - 1) * 10;
                table.append("a", sequence, trips(id..id + 10));
            }
            table.commit("a", 3).await.unwrap();
            assert_eq!(stored_ids(folder.path()).await, all_ids(30), "{case}");
        }
    }
}

/// Scenario: the put of a version fails, is made by the server much later, and meanwhile the writer
/// goes on.
/// Guarantee: it loses its version to the next attempt, and the rows are stored once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_that_lands_late_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = FaultyStore::new();
    let table = prepared(folder.path(), &store).await;
    store.set(plan(Fault::Late, 0, 1, "00000000000000000002.json"));
    table.commit("a", 3).await.unwrap().unwrap();
    assert_eq!(store.land().await, 0);
    assert_eq!(stored_ids(folder.path()).await, all_ids(30));
}

/// Scenario: as above, but it lands before the writer comes back, which has more rows by then.
/// Guarantee: the view follows at the next refresh, only the new rows are written again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_that_lands_before_the_next_attempt_counts() {
    let folder = tempfile::tempdir().unwrap();
    let store = FaultyStore::new();
    let table = prepared(folder.path(), &store).await;
    store.set(plan(Fault::Late, 0, FOREVER, "00000000000000000002.json"));
    let error = table.commit("a", 3).await.unwrap_err();
    assert!(error.is_retryable());
    assert_eq!(
        error.to_string(),
        "cannot commit version 2 of table `trips`"
    );
    assert_eq!(table.fresh_rows(), 10);
    store.set(None);
    assert_eq!(store.land().await, 1);
    assert_eq!(ids_in(&table, &table.view()).await, all_ids(30));
    table.append("a", 4, trips(30..35));
    table.refresh().await.unwrap();
    assert_eq!(table.fresh_rows(), 5);
    assert_eq!(ids_in(&table, &table.view()).await, all_ids(35));
    assert_eq!(table.commit("a", 4).await.unwrap().unwrap().rows, 5);
    assert_eq!(stored_ids(folder.path()).await, all_ids(35));
}

/// Scenario: the put of a version is made, its answer is lost, and the store's client repeats it: the
/// writer is told that somebody else has put this version.
/// Guarantee: it finds its own rows there, and does not delete the files that the log names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_that_conflicts_with_itself_keeps_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let store = FaultyStore::new();
    let table = prepared(folder.path(), &store).await;
    store.set(plan(Fault::Repeated, 0, 1, "00000000000000000002.json"));
    assert_eq!(table.commit("a", 3).await.unwrap(), None);
    assert_eq!(table.fresh_rows(), 0);
    assert_eq!(ids_in(&table, &table.view()).await, all_ids(30));
    assert_eq!(stored_ids(folder.path()).await, all_ids(30));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_data_file_leaves_the_rows_and_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let store = FaultyStore::new();
    let table = prepared(folder.path(), &store).await;
    store.set(plan(Fault::Before, 0, FOREVER, ".parquet"));
    assert!(table.commit("a", 3).await.unwrap_err().is_retryable());
    assert_eq!(table.fresh_rows(), 10);
    store.set(None);
    let partition = folder.path().join("trips/date=2026-11-29");
    assert_eq!(std::fs::read_dir(partition).unwrap().count(), 1);
    assert_eq!(table.commit("a", 3).await.unwrap().unwrap().rows, 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_checkpoint_fails_no_commit() {
    let folder = tempfile::tempdir().unwrap();
    let store = FaultyStore::new();
    let table = open(folder.path(), &store).await;
    store.set(plan(Fault::Before, 0, FOREVER, ".checkpoint."));
    for sequence in 1..=25 {
        table.append("a", sequence, trips(sequence - 1..sequence));
        table.commit("a", sequence).await.unwrap().unwrap();
    }
    store.set(None);
    assert_eq!(stored_ids(folder.path()).await, all_ids(25));
}
