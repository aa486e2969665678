//! Rows are in the table once, whoever commits them and however often.

use std::sync::Arc;

use super::fixture::{DAY, all_ids, ids_in, lake_at, stored_ids, table_at, trips, trips_on};
use crate::Mode;

#[tokio::test]
async fn committed_rows_are_found_after_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let table = table_at(folder.path()).await;
    assert_eq!(table.committed_sequence("a").await.unwrap(), None);
    table.append("a", 1, trips(0..10));
    table.append("a", 2, trips(10..15));
    assert_eq!((table.fresh_rows(), table.fresh_bytes() > 0), (15, true));
    let commit = table.commit("a", 2).await.unwrap().unwrap();
    assert_eq!((commit.version, commit.rows, commit.files), (1, 15, 1));
    assert_eq!((table.fresh_rows(), table.fresh_bytes()), (0, 0));
    let view = table.view();
    assert_eq!(
        (view.version, view.files.len(), view.fresh.len()),
        (1, 1, 0)
    );

    let reopened = table_at(folder.path()).await;
    assert_eq!(reopened.committed_sequence("a").await.unwrap(), Some(2));
    assert_eq!(reopened.committed_sequence("b").await.unwrap(), None);
    assert_eq!(ids_in(&reopened, &reopened.view()).await, all_ids(15));
}

#[tokio::test]
async fn only_rows_up_to_the_sequence_are_committed() {
    let folder = tempfile::tempdir().unwrap();
    let table = table_at(folder.path()).await;
    table.append("a", 1, trips(0..10));
    table.append("a", 2, trips(10..20));
    table.commit("a", 1).await.unwrap().unwrap();
    assert_eq!(table.fresh_rows(), 10);
    assert_eq!(stored_ids(folder.path()).await, all_ids(10));
    table.commit("a", 2).await.unwrap().unwrap();
    assert_eq!(stored_ids(folder.path()).await, all_ids(20));
}

#[tokio::test]
async fn a_commit_without_rows_makes_no_version() {
    let folder = tempfile::tempdir().unwrap();
    let table = table_at(folder.path()).await;
    table.append("a", 1, trips(0..0));
    assert_eq!(table.commit("a", 5).await.unwrap(), None);
    assert_eq!(table.view().version, 0);
    assert_eq!(table.committed_sequence("a").await.unwrap(), None);
}

#[tokio::test]
async fn replayed_sequences_are_stored_once() {
    let folder = tempfile::tempdir().unwrap();
    let table = table_at(folder.path()).await;
    table.append("a", 1, trips(0..10));
    table.append("a", 2, trips(10..20));
    table.commit("a", 2).await.unwrap().unwrap();

    // A writer that lost its memory appends everything again, and one sequence more.
    let again = table_at(folder.path()).await;
    again.append("a", 1, trips(0..10));
    again.append("a", 2, trips(10..20));
    assert_eq!(again.commit("a", 2).await.unwrap(), None);
    assert_eq!(again.fresh_rows(), 0);
    again.append("a", 2, trips(10..20));
    again.append("a", 3, trips(20..30));
    assert_eq!(again.commit("a", 3).await.unwrap().unwrap().rows, 10);
    assert_eq!(ids_in(&again, &again.view()).await, all_ids(30));
    assert_eq!(stored_ids(folder.path()).await, all_ids(30));
}

#[tokio::test]
async fn rows_of_several_days_go_to_their_partitions() {
    let folder = tempfile::tempdir().unwrap();
    let table = table_at(folder.path()).await;
    table.append("a", 1, trips_on(DAY, 0..10));
    table.append("a", 1, trips_on(DAY + 1, 10..12));
    table.append("a", 1, trips_on(DAY, 12..20));
    assert_eq!(table.commit("a", 1).await.unwrap().unwrap().files, 2);
    let found: Vec<_> = table
        .view()
        .files
        .iter()
        .map(|file| {
            (
                file.date,
                file.n_rows,
                file.path.split('/').next().unwrap().to_owned(),
            )
        })
        .collect();
    let expected = [
        (Some(DAY), Some(18), "date=2026-11-29".to_owned()),
        (Some(DAY + 1), Some(2), "date=2026-11-30".to_owned()),
    ];
    assert_eq!(found, expected);
    let reopened = table_at(folder.path()).await;
    assert_eq!(reopened.view().files.len(), 2);
    assert_eq!(stored_ids(folder.path()).await, all_ids(20));
}

/// Scenario: one process has two writers on a table, whose sequences differ; one of them is behind, and the process
/// starts again.
/// Guarantee: a commit stores and forgets the rows of its own writer only, and each goes on where it was.
#[tokio::test]
async fn two_writers_of_one_process_are_committed_apart() {
    let folder = tempfile::tempdir().unwrap();
    let table = table_at(folder.path()).await;
    table.append("a", 1, trips(0..10));
    table.append("a", 9, trips(10..20));
    table.append("b", 1, trips(20..25));
    table.append("b", 2, trips(25..30));
    assert_eq!(table.commit("a", 9).await.unwrap().unwrap().rows, 20);
    assert_eq!(table.fresh_rows(), 10);
    assert_eq!(table.commit("b", 1).await.unwrap().unwrap().rows, 5);
    assert_eq!(ids_in(&table, &table.view()).await, all_ids(30));
    assert_eq!(stored_ids(folder.path()).await, all_ids(25));

    let reopened = table_at(folder.path()).await;
    assert_eq!(reopened.committed_sequence("a").await.unwrap(), Some(9));
    assert_eq!(reopened.committed_sequence("b").await.unwrap(), Some(1));
    // What is in the table already, and what is not.
    reopened.append("a", 9, trips(10..20));
    reopened.append("b", 2, trips(25..30));
    assert_eq!(reopened.commit("a", 9).await.unwrap(), None);
    assert_eq!(reopened.commit("b", 2).await.unwrap().unwrap().rows, 5);
    assert_eq!(ids_in(&reopened, &reopened.view()).await, all_ids(30));
    assert_eq!(stored_ids(folder.path()).await, all_ids(30));
}

/// Scenario: two processes with their own app ids commit at the same time, past checkpoints.
/// Guarantee: all rows of both are there once, and each sees those of the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_writers_lose_nothing_and_double_nothing() {
    const COMMITS: i64 = 50;
    let folder = tempfile::tempdir().unwrap();
    let writer = |app_id: &'static str, first_id: i64| {
        let folder = folder.path().to_owned();
        tokio::spawn(async move {
            let table = table_at(&folder).await;
            for sequence in 1..=COMMITS {
                let id = first_id + (sequence - 1) * 2;
                table.append(app_id, sequence, trips(id..id + 2));
                let commit = table.commit(app_id, sequence).await.unwrap().unwrap();
                assert_eq!(commit.rows, 2);
            }
            table
        })
    };
    let (a, b) = (writer("a", 0), writer("b", COMMITS * 2));
    for table in [a.await.unwrap(), b.await.unwrap()] {
        table.refresh().await.unwrap();
        assert_eq!(table.view().version, 2 * COMMITS as u64);
        assert_eq!(ids_in(&table, &table.view()).await, all_ids(COMMITS * 4));
        assert_eq!(table.committed_sequence("a").await.unwrap(), Some(COMMITS));
        assert_eq!(table.committed_sequence("b").await.unwrap(), Some(COMMITS));
    }
    assert_eq!(stored_ids(folder.path()).await, all_ids(COMMITS * 4));
}

/// Scenario: a process that was thought dead writes beside its successor, with the same app id.
/// Guarantee: each sequence is stored once; views are right in both.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_writers_with_one_app_id_store_each_sequence_once() {
    const COMMITS: i64 = 15;
    let folder = tempfile::tempdir().unwrap();
    let writer = || {
        let folder = folder.path().to_owned();
        tokio::spawn(async move {
            let table = table_at(&folder).await;
            for sequence in 1..=COMMITS {
                let id = (sequence - 1) * 2;
                table.append("a", sequence, trips(id..id + 2));
                table.commit("a", sequence).await.unwrap();
                assert_eq!(table.fresh_rows(), 0);
            }
            table
        })
    };
    let (one, two) = (writer(), writer());
    for table in [one.await.unwrap(), two.await.unwrap()] {
        assert_eq!(ids_in(&table, &table.view()).await, all_ids(COMMITS * 2));
    }
    assert_eq!(stored_ids(folder.path()).await, all_ids(COMMITS * 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn calls_on_one_table_at_once_store_each_row_once() {
    let folder = tempfile::tempdir().unwrap();
    let table = table_at(folder.path()).await;
    table.append("a", 1, trips(0..100));
    let calls: Vec<_> = (0..8)
        .map(|_| {
            let table = Arc::clone(&table);
            tokio::spawn(async move { table.commit("a", 1).await.unwrap() })
        })
        .collect();
    let mut n_commits = 0;
    for call in calls {
        n_commits += usize::from(call.await.unwrap().is_some());
    }
    assert_eq!(n_commits, 1);
    assert_eq!(stored_ids(folder.path()).await, all_ids(100));
}

#[tokio::test]
async fn a_table_open_for_reading_refuses_to_commit() {
    let folder = tempfile::tempdir().unwrap();
    table_at(folder.path()).await;
    let lake = lake_at(folder.path(), Mode::ReadOnly).await.unwrap();
    let table = lake.table("trips").unwrap();
    table.append("a", 1, trips(0..1));
    let error = table.commit("a", 1).await.unwrap_err();
    assert_eq!(error.to_string(), "table `trips` is open for reading only");
    assert!(!error.is_retryable());
}
