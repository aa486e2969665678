//! Time, memory, rows, places: a statement ends, and the next one is answered.

use std::num::NonZeroUsize;
use std::time::Duration;

use futures::StreamExt;

use super::support::{NEW_YEAR, batch, config, fixture, numbered};
use crate::statement::OPERATORS_MAX;
use crate::{Config, Error};

/// A sort of some 100 MB, more than any small pool holds.
fn hungry() -> String {
    let words: Vec<String> = (1..=8)
        .map(|n| format!("value * {n} * 1000000007"))
        .collect();
    let prompt = words.join(",");
    format!(
        "SELECT concat_ws(' ', {prompt}) AS prompt FROM generate_series(1, 1000000) ORDER BY prompt DESC"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_never_ends_is_stopped_and_the_next_is_answered() {
    let config = Config {
        timeout: Duration::from_secs(1),
        statements_max: NonZeroUsize::MIN,
        ..config()
    };
    let fixture = fixture(&config).await;
    for sql in [
        "SELECT count(*) FROM generate_series(1, 100000000000) AS a WHERE value % 7 = 3",
        "SELECT count(*) FROM generate_series(1, 1000000) AS a, generate_series(1, 1000000) AS b \
         WHERE a.value * b.value % 7 = 3",
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT max(n) FROM r",
    ] {
        let error = fixture.try_ask(sql).await.unwrap_err();
        assert!(matches!(error, Error::TimedOut { .. }), "{sql}: {error:?}");
        assert!(error.is_limit() && !error.is_users_fault());
        // The only place is free again once the statement has noticed.
        let mut answered = fixture.try_ask("SELECT 1").await;
        for _ in 0..20 {
            if answered.is_ok() {
                break;
            }
            answered = fixture.try_ask("SELECT 1").await;
        }
        assert!(answered.is_ok(), "never stops: {sql}");
    }
}

/// C64: the statement fails with the limit's name, or spills.
#[tokio::test]
async fn a_hungry_statement_fails_alone_and_names_its_limit() {
    let config = Config {
        memory_mib: 16,
        spill_mib: 0,
        ..config()
    };
    let fixture = fixture(&config).await;
    let error = fixture.try_ask(&hungry()).await.unwrap_err();
    assert!(matches!(error, Error::OutOfMemory { .. }), "{error:?}");
    assert!(error.to_string().contains("16 MiB memory"), "{error}");
    fixture.ask("SELECT 1").await;
}

/// Scenario: what does not fit into memory does not fit into the room for spilling either, in the middle of writing it.
#[tokio::test]
async fn a_statement_that_spills_too_much_names_the_limit_and_not_the_tables() {
    let config = Config {
        memory_mib: 16,
        spill_mib: 1,
        ..config()
    };
    let fixture = fixture(&config).await;
    // In no order that would let groups be closed as they pass.
    let groups =
        "SELECT value * 7919 % 3000017, count(*) FROM generate_series(1, 3000000) GROUP BY 1";
    for sql in [hungry().as_str(), groups] {
        let error = fixture.try_ask(sql).await.unwrap_err();
        assert!(matches!(error, Error::OutOfMemory { .. }), "{error:?}");
        assert!(error.to_string().contains("1 MiB"), "{error}");
    }
}

#[tokio::test]
async fn a_sort_larger_than_memory_spills_and_leaves_nothing_behind() {
    let spill = tempfile::tempdir().unwrap();
    let config = Config {
        memory_mib: 64,
        spill_directory: Some(spill.path().to_owned()),
        rows_max: 10,
        ..config()
    };
    let fixture = fixture(&config).await;
    let mut answer = fixture.engine.answer(&hungry(), None).await.unwrap();
    let mut n_rows = 0;
    while let Some(batch) = answer.next().await {
        n_rows += batch.unwrap().num_rows();
    }
    assert_eq!(n_rows, 10);
    drop(answer);
    // Freed by the executing thread; waits for the state.
    for _ in 0..10_000 {
        if std::fs::read_dir(spill.path()).unwrap().next().is_none() {
            return;
        }
        tokio::task::yield_now().await;
        fixture.ask("SELECT 1").await;
    }
    panic!("spill files are left");
}

#[tokio::test]
async fn a_long_answer_is_cut_and_says_so() {
    let config = Config {
        rows_max: 10_000,
        ..config()
    };
    let fixture = fixture(&config).await;
    for (n_there, wanted, n_expected, is_truncated) in [
        (10_000, None, 10_000, false),
        (10_001, None, 10_000, true),
        (20_000, Some(5), 5, true),
        (5, Some(5), 5, false),
        (4, Some(5), 4, false),
        (20_000, Some(1_000_000), 10_000, true),
        (1, Some(0), 0, true),
        (0, Some(0), 0, false),
    ] {
        let sql = format!("SELECT value FROM generate_series(1, {n_there})");
        let mut answer = fixture.engine.answer(&sql, wanted).await.unwrap();
        let mut n_rows = 0;
        while let Some(batch) = answer.next().await {
            n_rows += batch.unwrap().num_rows();
        }
        let got = (n_rows, answer.n_rows(), answer.is_truncated());
        let expected = (n_expected, u64::try_from(n_expected).unwrap(), is_truncated);
        assert_eq!(got, expected, "{n_there} rows, {wanted:?} wanted");
    }
}

#[tokio::test]
async fn more_statements_than_places_and_queue_are_refused_with_a_retry() {
    let config = Config {
        statements_max: NonZeroUsize::MIN,
        statements_waiting_max: 0,
        ..config()
    };
    let fixture = fixture(&config).await;
    let endless = "SELECT value FROM generate_series(1, 100000000000)";
    let held = fixture.engine.answer(endless, None).await.unwrap();
    let error = fixture.engine.answer("SELECT 1", None).await.unwrap_err();
    assert!(
        matches!(error, Error::Busy { statements_max: 1 }),
        "{error:?}"
    );
    assert!(error.is_retryable());
    drop(held);
    // A dropped answer gives its place back.
    let given_back = async {
        while fixture.engine.answer("SELECT 1", None).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), given_back)
        .await
        .expect("the place is given back");
}

/// The deepest tree that the parser lets through is planned, run and freed on our stacks.
#[tokio::test]
async fn the_deepest_chain_is_answered_or_refused_but_does_not_end_the_process() {
    let fixture = fixture(&config()).await;
    fixture.append("spans", 1, batch("spans", &[numbered(NEW_YEAR, 1)]));
    let n_terms = OPERATORS_MAX / 2 - 8;
    for chain in [
        vec!["name"; n_terms].join("||"),
        vec!["flags"; n_terms].join("+"),
        format!("name{}", "::text".repeat(n_terms)),
        vec!["1"; n_terms * 2].join("+"),
    ] {
        match fixture
            .try_ask(&format!("SELECT {chain} AS a FROM spans"))
            .await
        {
            Ok(_) => {}
            Err(error) => assert!(error.is_limit() || error.is_users_fault(), "{error:?}"),
        }
    }
    let union = vec!["SELECT name FROM spans"; 300].join(" UNION ALL ");
    match fixture.try_ask(&union).await {
        Ok(_) => {}
        Err(error) => assert!(error.is_limit(), "{error:?}"),
    }
    fixture.ask("SELECT 1").await;
}
