//! What a hostile client sends, at every door.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::support::{Fixture, NEW_YEAR, batch, config, numbered};
use crate::{Config, Error};

/// What a door must do with a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Must {
    /// An error before the first row.
    Refuse,
    /// An error, or an answer: within the limits either way.
    Survive,
}

use Must::{Refuse, Survive};

pub(crate) const ATTACKS: &[(Must, &str)] = &[
    (
        Refuse,
        "CREATE EXTERNAL TABLE x STORED AS CSV LOCATION '/etc/passwd'",
    ),
    (Refuse, "CREATE TABLE mine AS SELECT 1"),
    (Refuse, "CREATE VIEW mine AS SELECT 1"),
    (Refuse, "CREATE SCHEMA mine"),
    (Refuse, "CREATE DATABASE mine"),
    (Refuse, "CREATE FUNCTION f(x INT) RETURNS INT RETURN x"),
    (Refuse, "CREATE ROLE evil SUPERUSER"),
    (Refuse, "CREATE EXTENSION dblink"),
    (Refuse, "DROP TABLE spans"),
    (Refuse, "DROP SCHEMA public CASCADE"),
    (Refuse, "ALTER TABLE spans ADD COLUMN x INT"),
    (Refuse, "TRUNCATE TABLE spans"),
    (Refuse, "INSERT INTO spans SELECT * FROM spans"),
    (Refuse, "UPDATE spans SET name = 'x'"),
    (Refuse, "DELETE FROM spans"),
    (
        Refuse,
        "MERGE INTO spans USING traces ON true WHEN MATCHED THEN DELETE",
    ),
    (Refuse, "COPY spans TO '/tmp/evil.parquet'"),
    (
        Refuse,
        "COPY (SELECT 1 AS a) TO '/tmp/evil.csv' STORED AS CSV",
    ),
    (Refuse, "COPY spans TO PROGRAM 'id'"),
    (Refuse, "COPY spans FROM '/etc/passwd'"),
    (
        Refuse,
        "WITH gone AS (DELETE FROM spans RETURNING 1) SELECT * FROM gone",
    ),
    (Refuse, "SELECT 1 AS a INTO mine"),
    (Refuse, "SET datafusion.execution.batch_size = 1"),
    (
        Refuse,
        "SET datafusion.execution.parquet.pushdown_filters TO true",
    ),
    (Refuse, "RESET datafusion.execution.batch_size"),
    (Refuse, "SET ROLE postgres"),
    (Refuse, "SELECT 1; DROP TABLE spans"),
    (Refuse, "SELECT 1; SELECT 2"),
    (
        Refuse,
        "EXPLAIN ANALYZE INSERT INTO spans SELECT * FROM spans",
    ),
    (
        Refuse,
        "EXPLAIN ANALYZE COPY (SELECT 1) TO '/tmp/evil.parquet'",
    ),
    (Refuse, "EXPLAIN ANALYZE DROP TABLE spans"),
    (Refuse, "PREPARE p AS SELECT 1"),
    (Refuse, "EXECUTE p"),
    (Refuse, "DECLARE c CURSOR FOR SELECT 1"),
    (Refuse, "LISTEN a"),
    (Refuse, "NOTIFY a"),
    (Refuse, "LOCK TABLE spans"),
    (Refuse, "VACUUM"),
    (Refuse, "GRANT ALL ON spans TO public"),
    (Refuse, "CALL f()"),
    (Refuse, "DO $$ begin end $$"),
    (Refuse, "LOAD 'evil'"),
    (Refuse, "SELECT pg_read_file('/etc/passwd')"),
    (Refuse, "SELECT pg_read_binary_file('/etc/passwd')"),
    (Refuse, "SELECT pg_ls_dir('/')"),
    (Refuse, "SELECT lo_import('/etc/passwd')"),
    (Refuse, "SELECT lo_export(1, '/tmp/evil')"),
    (
        Refuse,
        "SELECT * FROM dblink('host=127.0.0.1', 'SELECT 1') AS t(a)",
    ),
    (Refuse, "SELECT pg_sleep(1000)"),
    (Refuse, "SELECT pg_terminate_backend(1)"),
    (Refuse, "SELECT pg_reload_conf()"),
    (
        Refuse,
        "SELECT set_config('datafusion.execution.batch_size', '1', false)",
    ),
    (Refuse, "SELECT query_to_xml('SELECT 1', true, true, '')"),
    (Refuse, "SELECT * FROM pg_authid"),
    (Refuse, "SELECT * FROM pg_catalog.pg_authid"),
    (Refuse, "SELECT * FROM pg_shadow"),
    (Refuse, "SELECT * FROM read_csv('/etc/passwd')"),
    (Refuse, "SELECT * FROM read_parquet('/etc/passwd')"),
    (Refuse, "SELECT * FROM parquet_metadata('/etc/passwd')"),
    (Refuse, "SELECT * FROM '/etc/passwd'"),
    (
        Refuse,
        "SELECT * FROM 'http://169.254.169.254/latest/meta-data'",
    ),
    (Refuse, "SELECT * FROM other.public.spans"),
    (Refuse, "SELECT repeat('a', 2000000000)"),
    (Refuse, "SELECT range(1, 100000000000)"),
    (
        Survive,
        "SELECT count(*) FROM spans a, spans b, spans c, spans d",
    ),
    (
        Survive,
        "SELECT count(*) FROM spans a JOIN spans b ON a.trace_id < b.trace_id JOIN spans c ON b.trace_id < c.trace_id",
    ),
    (
        Survive,
        "SELECT * FROM generate_series(1, 1000000000) AS t(v) ORDER BY v % 1000, v DESC",
    ),
    (
        Survive,
        "SELECT count(DISTINCT v) FROM generate_series(1, 10000000000) AS t(v)",
    ),
    (
        Survive,
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r",
    ),
    (
        Survive,
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT r.n FROM r CROSS JOIN spans) SELECT * FROM r ORDER BY n",
    ),
    (
        Survive,
        "SELECT count(*) FROM spans WHERE regexp_like(trace_id, '(0+)+((0*)*)*$')",
    ),
    (
        Survive,
        "SELECT count(*) FROM spans WHERE regexp_like(trace_id, '((((a{1,100}){1,100}){1,100}){1,100})')",
    ),
    (
        Survive,
        "SELECT array_agg(v) FROM generate_series(1, 200000000) AS t(v)",
    ),
    (
        Survive,
        "SELECT string_agg(trace_id, ',') FROM spans CROSS JOIN generate_series(1, 100000000) AS t(v)",
    ),
    (
        Survive,
        "SELECT * FROM generate_series(1, 100000000) AS t(v)",
    ),
    (
        Survive,
        "SELECT weighted_quantile(v, v, 0.5) FROM generate_series(1, 200000000) AS t(v)",
    ),
    (
        Survive,
        "SELECT weighted_quantile(v, v, 0.5), latency_histogram(v) FROM generate_series(1, 100000000) AS t(v) GROUP BY v % 100",
    ),
    (
        Survive,
        "SELECT histogram_merge(h) FROM (SELECT latency_histogram(v) AS h FROM generate_series(1, 100000000) AS t(v) GROUP BY v % 100)",
    ),
    (
        Survive,
        "SELECT count(attr(MAP {'a': t.v::VARCHAR}, t.v::VARCHAR)) FROM generate_series(1, 100000000) AS t(v)",
    ),
];

/// Limits that are met soon.
pub(crate) fn tight() -> Config {
    Config {
        timeout: Duration::from_secs(1),
        memory_mib: 32,
        spill_mib: 16,
        rows_max: 10_000,
        statements_max: NonZeroUsize::new(4).unwrap(),
        ..config()
    }
}

pub(crate) const N_SPANS: i64 = 2_000;

/// What attacks look for.
pub(crate) fn fill(fixture: &Fixture) {
    let rows: Vec<_> = (0..N_SPANS)
        .map(|number| numbered(NEW_YEAR, number))
        .collect();
    fixture.append("spans", 1, batch("spans", &rows));
}

/// Sends every attack through a door, whose answers are a number of rows or a message, while another client of the
/// engine keeps asking. `cargo test -p query attacks -- --nocapture` prints what became of each.
pub(crate) async fn attack<F: Future<Output = Result<u64, String>>>(
    fixture: &Fixture,
    mut door: impl FnMut(String) -> F,
) {
    let is_over = Arc::new(AtomicBool::new(false));
    let engine = Arc::clone(&fixture.engine);
    let neighbour = tokio::spawn({
        let is_over = Arc::clone(&is_over);
        async move {
            let mut n_answers = 0;
            while !is_over.load(Ordering::Relaxed) {
                let sql = "SELECT count(*) FROM spans WHERE trace_id = '00000000000000000000000000000007'";
                let first = async {
                    let mut answer = engine.answer(sql, None).await?;
                    futures::StreamExt::next(&mut answer).await.transpose()
                };
                match first.await {
                    Ok(batch) => {
                        assert_eq!(batch.unwrap().num_rows(), 1);
                        n_answers += 1;
                    }
                    // On a machine that has other work.
                    Err(Error::TimedOut { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
                tokio::task::yield_now().await;
            }
            n_answers
        }
    });
    for (must, sql) in ATTACKS {
        let answer = door((*sql).to_owned()).await;
        match &answer {
            Ok(n_rows) => println!("{n_rows} rows | {sql}"),
            Err(message) => println!("{} | {sql}", message.lines().next().unwrap_or_default()),
        }
        match (must, &answer) {
            (Refuse, Ok(n_rows)) => panic!("{sql}: answered with {n_rows} rows"),
            (Refuse | Survive, Err(message)) => assert!(!message.is_empty(), "{sql}"),
            (Survive, Ok(n_rows)) => {
                assert!(
                    *n_rows <= fixture.engine.config().rows_max,
                    "{sql}: {n_rows} rows"
                );
            }
        }
    }
    is_over.store(true, Ordering::Relaxed);
    let n_answers = neighbour.await.unwrap();
    assert!(n_answers > 0, "the neighbour was not answered");
    let n_spans = fixture.number("SELECT count(*) FROM spans").await;
    assert_eq!(n_spans, N_SPANS);
    assert!(!std::path::Path::new("/tmp/evil.parquet").exists());
    assert!(!std::path::Path::new("/tmp/evil.csv").exists());
}
