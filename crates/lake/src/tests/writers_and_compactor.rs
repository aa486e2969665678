//! Several gateways and several compactors at once on one table, on a store that fails, delays and
//! reorders.

use std::collections::BTreeMap;
use std::path::Path as FsPath;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use super::faults::try_open;
use super::faulty_store::{Chaos, FaultyStore};
use super::fixture::{all_ids, ids_in, stored_ids, table_at, trips};
use super::maintain::{HOUR, at, in_two_days, maintained, now, parquet_files};
use crate::{Maintenance, Table};

const N_WRITERS: i64 = 4;
const N_SEQUENCES: i64 = 25;
const N_ROWS: i64 = 3;

fn rows_of(writer: i64, sequence: i64) -> std::ops::Range<i64> {
    let first = (writer * N_SEQUENCES + sequence - 1) * N_ROWS;
    first..first + N_ROWS
}

/// A gateway: appends and commits until everything is stored, however often it has to come back; now
/// and then it loses its memory and starts again from what the table says. Its last commit waits for a
/// merge, so that merges and commits meet however slow the machine is.
async fn write(
    folder: &FsPath,
    store: &Arc<FaultyStore>,
    merged: &AtomicUsize,
    writer: i64,
) -> usize {
    let app_id = format!("gateway-{writer}");
    let (mut n_failures, mut n_restarts) = (0, 0);
    let mut table = opened(folder, store).await;
    let mut appended = 0;
    let mut committed = 0;
    while committed < N_SEQUENCES {
        if appended < N_SEQUENCES {
            while appended + 1 == N_SEQUENCES && merged.load(Ordering::SeqCst) == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            appended += 1;
            table.append(app_id.as_str(), appended, trips(rows_of(writer, appended)));
        }
        match table.commit(&app_id, appended).await {
            Ok(_) => committed = appended,
            Err(error) => {
                assert!(error.is_retryable(), "{error}");
                n_failures += 1;
            }
        }
        if n_failures > 5 * (n_restarts + 1) || (committed == 12 && n_restarts == 0) {
            n_restarts += 1;
            table = opened(folder, store).await;
            committed = loop {
                match table.committed_sequence(&app_id).await {
                    Ok(sequence) => break sequence.unwrap_or_default(),
                    Err(error) => assert!(error.is_retryable(), "{error}"),
                }
            };
            appended = committed;
        }
    }
    n_failures
}

async fn opened(folder: &FsPath, store: &Arc<FaultyStore>) -> Arc<Table> {
    loop {
        if let Ok(table) = try_open(folder, store).await {
            return table;
        }
    }
}

/// A maintainer with a lease that never holds: each look finds the one before ended.
async fn compact(
    folder: &FsPath,
    store: &Arc<FaultyStore>,
    is_done: &AtomicBool,
    merged: &AtomicUsize,
) -> usize {
    let table = opened(folder, store).await;
    let mut n_stale = 0;
    let mut now = now();
    while !is_done.load(Ordering::SeqCst) {
        now += HOUR;
        // Orphans are left alone: the clock runs, and the writers do not.
        let settings = Maintenance {
            vacuum_after: Duration::from_secs(u32::MAX.into()),
            ..at(now)
        };
        if let Ok(report) = table.maintain(&settings, |_| ()).await {
            n_stale += report.groups_stale;
            merged.fetch_add(report.compacted.files, Ordering::SeqCst);
        }
    }
    n_stale
}

async fn run(seed: u64, percent: u64) {
    let folder = tempfile::tempdir().unwrap();
    table_at(folder.path()).await;
    let store = FaultyStore::new();
    store.set_chaos(Some(Chaos {
        seed,
        percent,
        delay_max: Duration::from_millis(2),
    }));
    let is_done = Arc::new(AtomicBool::new(false));
    let merged = Arc::new(AtomicUsize::new(0));
    let path = folder.path().to_owned();
    let writers: Vec<_> = (0..N_WRITERS)
        .map(|writer| {
            let (path, store, merged) = (path.clone(), Arc::clone(&store), Arc::clone(&merged));
            tokio::spawn(async move { write(&path, &store, &merged, writer).await })
        })
        .collect();
    let compactors: Vec<_> = (0..2)
        .map(|_| {
            let (path, store) = (path.clone(), Arc::clone(&store));
            let (is_done, merged) = (Arc::clone(&is_done), Arc::clone(&merged));
            tokio::spawn(async move { compact(&path, &store, &is_done, &merged).await })
        })
        .collect();
    let mut n_failures = 0;
    for writer in writers {
        n_failures += writer.await.unwrap();
    }
    is_done.store(true, Ordering::SeqCst);
    let mut n_stale = 0;
    for compactor in compactors {
        n_stale += compactor.await.unwrap();
    }
    store.set_chaos(None);
    // Puts that were given up land within three delays.
    tokio::time::sleep(Duration::from_millis(50)).await;

    let table = table_at(folder.path()).await;
    let found = ids_in(&table, &table.view()).await;
    check_by_sequence(&found, seed);
    for writer in 0..N_WRITERS {
        let sequence = table.committed_sequence(&format!("gateway-{writer}")).await;
        assert_eq!(sequence.unwrap(), Some(N_SEQUENCES), "seed {seed}");
    }
    println!(
        "seed {seed}: {} rows in {} files at version {}; of {} calls {} failed; {n_failures} \
         commits came back; {} files merged, {n_stale} merges given up",
        found.len(),
        table.view().files.len(),
        table.view().version,
        store.calls(),
        store.failures(),
        merged.load(Ordering::SeqCst),
    );
    assert_ne!(merged.load(Ordering::SeqCst), 0, "seed {seed}: no merge");
    maintained(&table, &at(in_two_days() + HOUR * 1_000)).await;
    assert_eq!(
        parquet_files(folder.path()).len(),
        table.view().files.len(),
        "seed {seed}"
    );
    let n_rows = N_WRITERS * N_SEQUENCES * N_ROWS;
    assert_eq!(
        stored_ids(folder.path()).await,
        all_ids(n_rows),
        "seed {seed}"
    );
}

/// Every sequence of every writer has its rows, each once.
fn check_by_sequence(found: &[i64], seed: u64) {
    let mut rows: BTreeMap<(i64, i64), Vec<i64>> = BTreeMap::new();
    for id in found {
        let number = id / N_ROWS;
        let key = (number / N_SEQUENCES, number % N_SEQUENCES + 1);
        rows.entry(key).or_default().push(*id);
    }
    for writer in 0..N_WRITERS {
        for sequence in 1..=N_SEQUENCES {
            let expected: Vec<i64> = rows_of(writer, sequence).collect();
            let found = rows.remove(&(writer, sequence)).unwrap_or_default();
            assert_eq!(
                found, expected,
                "seed {seed}, writer {writer}, sequence {sequence}"
            );
        }
    }
    assert!(rows.is_empty(), "seed {seed}: invented {rows:?}");
}

/// `SEED` replaces the seeds.
fn seeds(default: &[u64]) -> Vec<u64> {
    match std::env::var("SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => default.to_vec(),
    }
}

/// Scenario: four gateways and two compactors work on one table; calls take up to 2 ms and so
/// overtake each other.
/// Guarantee: no row is lost or doubled.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writers_and_compactors_at_once_lose_nothing_and_double_nothing() {
    for seed in seeds(&[1, 2]) {
        run(seed, 0).await;
    }
}

/// Scenario: the same, and three of a hundred calls fail: before or after they took effect, or they
/// take effect later. Gateways lose their memory and start again.
/// Guarantee: the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_failing_store_beneath_writers_and_compactors_loses_and_doubles_nothing() {
    for seed in seeds(&[11, 12, 13]) {
        run(seed, 3).await;
    }
}
