//! Statements that want what SQL must not give, and names that are almost right.

use super::support::{Fixture, NEW_YEAR, batch, config, fixture, numbered};
use crate::Error;

async fn check(fixture: &Fixture, sql: &str, expected: &str) {
    let got = match fixture.try_ask(sql).await {
        Ok(text) => format!("ok\n{text}"),
        Err(error) => {
            assert!(error.is_users_fault(), "{sql}: {error:?}");
            error.explanation()
        }
    };
    assert!(
        got.contains(expected),
        "{sql}\n got: {got}\nwant: {expected}"
    );
}

/// C76, statement by statement.
#[tokio::test]
async fn nothing_outside_of_the_lake_can_be_read_or_changed() {
    let fixture = fixture(&config()).await;
    fixture.append("spans", 1, batch("spans", &[numbered(NEW_YEAR, 1)]));
    let target = tempfile::tempdir().unwrap();
    let copied = target.path().join("evil.parquet");
    let copy = format!("COPY (SELECT 1 AS a) TO '{}'", copied.display());
    for (sql, expected) in [
        ("SELECT 1", "ok"),
        ("EXPLAIN SELECT 1", "ok"),
        (
            "CREATE EXTERNAL TABLE x STORED AS CSV LOCATION '/etc/passwd' \
             OPTIONS ('format.delimiter' ':')",
            "refused",
        ),
        (copy.as_str(), "refused"),
        (
            "SELECT * FROM '/etc/passwd'",
            "there is no table `/etc/passwd`",
        ),
        ("SELECT * FROM 'file:///etc/passwd'", "there is no table"),
        ("SELECT * FROM \"/etc/passwd\"", "there is no table"),
        (
            "SELECT * FROM read_csv('/etc/passwd')",
            "there is no table `read_csv`",
        ),
        (
            "SELECT * FROM parquet_metadata('/etc/passwd')",
            "there is no table",
        ),
        ("SET datafusion.execution.batch_size = 1", "refused"),
        ("CREATE TABLE mine AS SELECT 1", "refused"),
        ("SELECT 1 AS a INTO mine", ""),
        ("DROP TABLE spans", "refused"),
        ("INSERT INTO spans SELECT * FROM spans", "refused"),
        (
            "WITH a AS (SELECT 1) INSERT INTO spans SELECT * FROM a",
            "no",
        ),
        ("DELETE FROM spans", "refused"),
        (
            "EXPLAIN ANALYZE INSERT INTO spans SELECT * FROM spans",
            "refused",
        ),
        ("SELECT 1; DROP TABLE spans", "2 statements"),
        (
            "SELECT count(*) FROM other.public.spans",
            "there is no table `other.public.spans`",
        ),
        ("SELECT count(*) FROM whyslow.public.spans", "ok"),
        ("SELECT count(*) FROM spans", "ok"),
    ] {
        check(&fixture, sql, expected).await;
    }
    assert!(fixture.try_ask("SELECT 1 AS a INTO mine").await.is_err());
    assert!(!copied.exists());
    assert_eq!(fixture.number("SELECT count(*) FROM spans").await, 1);
}

#[tokio::test]
async fn the_catalog_shows_our_tables_and_views_only() {
    let fixture = fixture(&config()).await;
    let names = fixture
        .ask(
            "SELECT table_name, table_type FROM information_schema.tables \
             WHERE table_schema <> 'information_schema' ORDER BY table_name",
        )
        .await;
    expect_test::expect![[r#"
        +---------------------+------------+
        | table_name          | table_type |
        +---------------------+------------+
        | batches             | BASE TABLE |
        | co_tenants          | VIEW       |
        | engine_samples      | BASE TABLE |
        | engine_timeline     | VIEW       |
        | errors              | VIEW       |
        | evidence            | BASE TABLE |
        | gpu_evidence        | VIEW       |
        | gpu_samples         | BASE TABLE |
        | gpu_timeline        | VIEW       |
        | operations          | VIEW       |
        | orphans             | VIEW       |
        | placement_intervals | VIEW       |
        | placements          | BASE TABLE |
        | prefix_cache_drops  | VIEW       |
        | request_gpu_time    | VIEW       |
        | request_links       | VIEW       |
        | request_phases      | VIEW       |
        | requests            | BASE TABLE |
        | slo_compliance      | VIEW       |
        | slow_requests       | VIEW       |
        | slowest_gpus        | VIEW       |
        | slowest_pods        | VIEW       |
        | spans               | BASE TABLE |
        | trace_timeline      | VIEW       |
        | traces              | BASE TABLE |
        | traffic_mix         | VIEW       |
        +---------------------+------------+"#]]
    .assert_eq(&names);
    for sql in [
        "SHOW TABLES",
        "SHOW COLUMNS FROM spans",
        "DESCRIBE slow_requests",
    ] {
        check(&fixture, sql, "ok").await;
    }
    check(&fixture, "DESCRIBE nothing", "there is no table `nothing`").await;
}

/// C62: names as people write them first.
#[tokio::test]
async fn an_almost_right_name_is_answered_with_the_right_one() {
    let fixture = fixture(&config()).await;
    for (sql, expected) in [
        ("SELECT DURATION_NS FROM spans", "ok"),
        ("SELECT \"duration_ns\" FROM SPANS", "ok"),
        (
            "SELECT \"DURATION_NS\" FROM spans",
            "no column `DURATION_NS`; write duration_ns",
        ),
        (
            "SELECT traceId FROM spans",
            "no column `traceid`; write trace_id",
        ),
        (
            "SELECT \"service.name\" FROM spans",
            "no column `service.name`; write service_name",
        ),
        ("SELECT service.name FROM spans", "write service_name"),
        ("SELECT k8s.pod.name FROM spans", "k8s"),
        ("SELECT colour FROM spans", "columns here are attributes"),
        ("SELECT colour FROM spans", "double quotes"),
        (
            "SELECT * FROM span",
            "there is no table `span`; the tables are batches",
        ),
        ("SELECT nothing(1)", "cannot be answered"),
        ("SELECT range(1, 100000000000)", "cannot be answered"),
        ("SELECT array_repeat(1, 100000000000)", "cannot be answered"),
        ("SELECT repeat('a', 2000000000)", "cannot be answered"),
        (
            "SELECT 'a' + 1 FROM spans WHERE name > 1 AND",
            "not valid SQL",
        ),
    ] {
        check(&fixture, sql, expected).await;
    }
}

/// C61: ids by the thousand, chains and nesting that would end a process with small stacks.
#[tokio::test]
async fn long_lists_and_deep_trees_give_rows_or_a_clean_error() {
    let fixture = fixture(&config()).await;
    let rows: Vec<_> = [1, 6, 2000, 999_999]
        .map(|number| numbered(NEW_YEAR, number))
        .to_vec();
    fixture.append("spans", 1, batch("spans", &rows));
    let ids: Vec<String> = (1..=20_000)
        .map(|number| format!("'{number:032x}'"))
        .collect();
    let list = ids.join(",");
    let sql = format!("SELECT count(*) FROM spans WHERE trace_id IN ({list})");
    assert_eq!(fixture.number(&sql).await, 3);
    let sql = format!("SELECT count(*) FROM spans WHERE trace_id NOT IN ({list})");
    assert_eq!(fixture.number(&sql).await, 1);

    let equal: Vec<String> = ids.iter().map(|id| format!("trace_id = {id}")).collect();
    let sql = format!(
        "SELECT count(*) FROM spans WHERE {}",
        equal[..600].join(" OR ")
    );
    assert_eq!(fixture.number(&sql).await, 2);
    let sql = format!("SELECT count(*) FROM spans WHERE {}", equal.join(" OR "));
    assert!(matches!(
        fixture.try_ask(&sql).await,
        Err(Error::TooComplex { .. })
    ));

    let (open, close) = ("(".repeat(2000), ")".repeat(2000));
    check(&fixture, &format!("SELECT {open}1{close}"), "not valid SQL").await;
    check(
        &fixture,
        &format!("SELECT {}true", "NOT ".repeat(2000)),
        "not valid SQL",
    )
    .await;
    assert_eq!(fixture.number("SELECT count(*) FROM spans").await, 4);
}
