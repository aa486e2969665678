//! What readers see while others write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::fixture::{all_ids, ids_in, lake_at, table_at, trips};
use crate::{Mode, View};

/// Scenario: a reader takes views as fast as it can while rows are appended, committed, refreshed.
/// Guarantee: each view has exactly the rows that were appended by then.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_view_has_each_row_once_under_concurrent_commits() {
    let folder = tempfile::tempdir().unwrap();
    let table = table_at(folder.path()).await;
    let (appended, is_done) = (
        Arc::new(AtomicU64::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let (table, appended, is_done) = (
                Arc::clone(&table),
                Arc::clone(&appended),
                Arc::clone(&is_done),
            );
            std::thread::spawn(move || {
                let mut n_views = 0_u64;
                while !is_done.load(Ordering::SeqCst) {
                    let before = appended.load(Ordering::SeqCst);
                    let view = table.view();
                    let after = appended.load(Ordering::SeqCst) + 3;
                    let in_files: u64 = view.files.iter().filter_map(|file| file.n_rows).sum();
                    let in_memory: u64 =
                        view.fresh.iter().map(|batch| batch.num_rows() as u64).sum();
                    let found = in_files + in_memory;
                    assert!(
                        (before..=after).contains(&found),
                        "{before} {found} {after}"
                    );
                    n_views += 1;
                    std::thread::yield_now();
                }
                n_views
            })
        })
        .collect();
    for sequence in 1..=60_i64 {
        let id = (sequence - 1) * 3;
        table.append("a", sequence, trips(id..id + 3));
        appended.fetch_add(3, Ordering::SeqCst);
        if sequence % 2 == 0 {
            table.commit("a", sequence).await.unwrap().unwrap();
        } else {
            table.refresh().await.unwrap();
        }
    }
    is_done.store(true, Ordering::SeqCst);
    for reader in readers {
        assert!(reader.join().unwrap() > 0);
    }
    assert_eq!(ids_in(&table, &table.view()).await, all_ids(180));
}

#[tokio::test]
async fn a_view_stays_as_it_was_taken() {
    let folder = tempfile::tempdir().unwrap();
    let table = table_at(folder.path()).await;
    table.append("a", 1, trips(0..5));
    let early = table.view();
    table.commit("a", 1).await.unwrap().unwrap();
    table.append("a", 2, trips(5..9));
    assert_eq!(ids_in(&table, &early).await, all_ids(5));
    assert_eq!((early.version, early.files.len()), (0, 0));
    assert_eq!(ids_in(&table, &table.view()).await, all_ids(9));
}

/// The reader's base version is older than the newest checkpoint in the last case, so the commits
/// in between are not in its log any more.
#[tokio::test]
async fn refreshing_finds_the_commits_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let writer = table_at(folder.path()).await;
    let lake = lake_at(folder.path(), Mode::ReadOnly).await.unwrap();
    let reader = lake.table("trips").unwrap();
    let mut sequence = 0;
    for n_commits in [1, 2, 30] {
        for _ in 0..n_commits {
            sequence += 1;
            writer.append("a", sequence, trips(sequence - 1..sequence));
            writer.commit("a", sequence).await.unwrap().unwrap();
        }
        reader.refresh().await.unwrap();
        let (found, expected) = (reader.view(), writer.view());
        assert_eq!(ids_in(reader, &found).await, all_ids(sequence));
        assert_eq!(found.version, expected.version);
        assert_eq!(described(&found), described(&expected));
    }
}

fn described(view: &View) -> Vec<String> {
    let mut files: Vec<_> = view
        .files
        .iter()
        .map(|file| format!("{} {} {:?}", file.path, file.size_bytes, file.n_rows))
        .collect();
    files.sort();
    files
}
