//! The newest rows of a table without SQL.

use arrow::array::{Array as _, AsArray as _};
use arrow::datatypes::Int64Type;

use super::fixture::{DAY, table_at, trips, trips_on};
use crate::{Recent, RecentRows, Table};

const DAY_MICROS: i64 = 86_400_000_000;

/// When the trip with this id starts: the larger, the earlier.
fn start(id: i64) -> i64 {
    i64::from(DAY) * DAY_MICROS + DAY_MICROS / 2 - id
}

fn since(since_micros: i64) -> Recent {
    Recent {
        columns: &["duration_s", "id", "stops"],
        time: "start_time",
        since_micros,
        rows_max: usize::MAX,
        bytes_max: usize::MAX,
    }
}

fn ids(found: &RecentRows) -> Vec<i64> {
    let mut ids = Vec::new();
    for batch in &found.batches {
        ids.extend(batch["id"].as_primitive::<Int64Type>().values());
    }
    ids.sort_unstable();
    ids
}

/// Three files, the last with the newest rows, and rows in memory.
async fn table_with_files(folder: &std::path::Path) -> std::sync::Arc<Table> {
    let table = table_at(folder).await;
    table.append("a", 1, trips(10_000..90_000));
    table.commit("a", 1).await.unwrap().unwrap();
    table.append("a", 2, trips(1_000..10_000));
    table.commit("a", 2).await.unwrap().unwrap();
    table.append("a", 3, trips(100..1_000));
    table.commit("a", 3).await.unwrap().unwrap();
    table.append("a", 4, trips(0..100));
    table
}

#[tokio::test]
async fn rows_of_files_and_of_memory_from_a_time_on_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let table = table_with_files(folder.path()).await;
    assert_eq!(
        table.newest("start_time").map(|at| at / 1_000),
        Some(start(100) / 1_000)
    );
    for last in [
        -1, 0, 50, 100, 5_000, 9_999, 10_000, 20_000, 89_999, 100_000,
    ] {
        let found = table.recent(since(start(last))).await.unwrap();
        assert_eq!(ids(&found), (0..=last.min(89_999)).collect::<Vec<_>>());
        assert!(found.unreadable.is_empty() && !found.is_cut, "{last}");
    }
    let found = table.recent(since(start(150))).await.unwrap();
    let batch = &found.batches[0];
    let names: Vec<_> = batch
        .schema()
        .fields()
        .iter()
        .map(|f| f.name().clone())
        .collect();
    assert_eq!(names, ["duration_s", "id", "stops"]);
    assert!(batch["stops"].as_list_opt::<i32>().is_some());
    let n_null: usize = found
        .batches
        .iter()
        .map(|batch| batch["duration_s"].null_count())
        .sum();
    assert_eq!(n_null, (0..=150).filter(|id| id % 5 == 0).count());
}

#[tokio::test]
async fn of_too_many_rows_the_newest_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let table = table_with_files(folder.path()).await;
    for rows_max in [1, 100, 5_000, 30_000, 90_000] {
        let wanted = Recent {
            rows_max,
            ..since(0)
        };
        let found = table.recent(wanted).await.unwrap();
        let n_rows = i64::try_from(rows_max).unwrap();
        assert_eq!(ids(&found), (0..n_rows).collect::<Vec<_>>());
        assert_eq!(found.is_cut, rows_max < 90_000, "{rows_max}");
    }
    let wanted = Recent {
        bytes_max: 100_000,
        ..since(0)
    };
    let found = table.recent(wanted).await.unwrap();
    let kept = ids(&found);
    let n_bytes: usize = found
        .batches
        .iter()
        .map(|b| b.get_array_memory_size())
        .sum();
    assert!(
        found.is_cut && kept.len() > 100 && n_bytes < 400_000,
        "{} {n_bytes}",
        kept.len()
    );
    assert_eq!(
        kept,
        (0..i64::try_from(kept.len()).unwrap()).collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn many_rows_of_one_time_do_not_pass_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let table = table_at(folder.path()).await;
    for sequence in 1..=50 {
        table.append("a", sequence, trips(7..8));
    }
    table.append("a", 51, trips_on(DAY, 3..4));
    let wanted = Recent {
        rows_max: 20,
        ..since(0)
    };
    let found = table.recent(wanted).await.unwrap();
    assert!(found.is_cut);
    assert_eq!(ids(&found), [3]);
}

#[tokio::test]
async fn a_damaged_or_missing_file_is_told_and_the_others_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let table = table_with_files(folder.path()).await;
    let path = |idx: usize| {
        let file = &table.view().files[idx];
        folder.path().join("trips").join(&*file.path)
    };
    std::fs::write(path(1), b"PAR1 is not all that it takes").unwrap();
    std::fs::remove_file(path(2)).unwrap();
    let found = table.recent(since(start(10_100))).await.unwrap();
    assert_eq!(
        ids(&found),
        (0..100).chain(10_000..=10_100).collect::<Vec<_>>()
    );
    let told: Vec<String> = found.unreadable.iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(
        told.iter()
            .all(|told| told.starts_with("cannot read the data file `date="))
    );
    // What has no recent row is not even looked at.
    let found = table.recent(since(start(50))).await.unwrap();
    assert!(found.unreadable.is_empty());
}
