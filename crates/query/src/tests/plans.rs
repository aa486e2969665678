//! How a statement reads: which files, in which order, in which profile.

use super::support::{
    Cell, DAY, Fixture, NEW_YEAR, batch, config_of_files, fixture, numbered, row,
};

/// What tells a series of samples from others.
const SERIES: [(&str, Cell); 2] = [
    ("engine", Cell::Text("vllm")),
    ("gpu_uuid", Cell::Text("GPU-a")),
];

/// Three days, a file each.
async fn three_days(table: &str) -> Fixture {
    three_days_of(table, &[]).await
}

/// The same, with more in each row than its id.
async fn three_days_of(table: &str, cells: &[(&'static str, Cell)]) -> Fixture {
    let fixture = fixture(&config_of_files()).await;
    for day in 0..3 {
        let rows: Vec<_> = (0..4)
            .map(|n| {
                let id = Cell::Owned(format!("{:032x}", 1 + day * 4 + n));
                let cells = [&[("trace_id", id)], cells].concat();
                row(NEW_YEAR + day * DAY + n * 1_000_000, &cells)
            })
            .collect();
        fixture.append(table, day + 1, batch(table, &rows));
        fixture.commit(table, day + 1).await;
    }
    fixture
}

async fn plan_of(fixture: &Fixture, sql: &str) -> String {
    fixture.ask(&format!("EXPLAIN FORMAT INDENT {sql}")).await
}

async fn n_files(fixture: &Fixture, condition: &str) -> usize {
    let sql = format!("SELECT trace_id FROM requests WHERE {condition}");
    plan_of(fixture, &sql).await.matches(".parquet").count()
}

#[tokio::test]
async fn files_outside_of_the_condition_are_not_opened() {
    let fixture = three_days("requests").await;
    for (condition, n_expected) in [
        ("true", 3),
        ("date = '2026-01-02'", 1),
        ("date >= '2026-01-02'", 2),
        ("start_time >= '2026-01-02T00:00:00Z'", 2),
        (
            "start_time >= '2026-01-02T12:00:00Z' AND start_time < '2026-01-03T12:00:00Z'",
            1,
        ),
        ("start_time > now()", 0),
        ("start_time < now() - INTERVAL '1 day'", 3),
        ("date = '2027-01-01'", 0),
    ] {
        assert_eq!(
            n_files(&fixture, condition).await,
            n_expected,
            "{condition}"
        );
    }
}

#[tokio::test]
async fn a_list_reads_newest_first_and_stops() {
    for table in ["requests", "traces"] {
        let fixture = three_days(table).await;
        let sql = format!("SELECT trace_id FROM {table} ORDER BY start_time DESC LIMIT 2");
        let plan = plan_of(&fixture, &sql).await;
        assert!(plan.contains("output_ordering"), "{plan}");
        assert!(
            !plan.contains("SortExec"),
            "the files are in order already: {plan}"
        );
        let first = plan.find("date=2026-01-03").expect("newest file");
        assert!(
            plan.find("date=2026-01-01")
                .is_none_or(|oldest| oldest > first),
            "{plan}"
        );

        fixture.append(table, 9, batch(table, &[numbered(NEW_YEAR + 5 * DAY, 99)]));
        let got = fixture.ask(&sql).await;
        assert!(
            got.contains("00000063") && got.contains("0000000c"),
            "{got}"
        );
        let plan = plan_of(&fixture, &sql).await;
        assert!(plan.contains("SortPreservingMergeExec"), "{plan}");
        assert!(
            !plan.contains("SortExec"),
            "both parts are in order: {plan}"
        );
    }
}

#[tokio::test]
async fn a_needle_is_filtered_inside_the_reader() {
    let fixture = three_days("spans").await;
    let id = "00000000000000000000000000000005";
    let needle = format!("SELECT name FROM spans WHERE trace_id = '{id}'");
    let plan = plan_of(&fixture, &needle).await;
    assert!(!plan.contains("FilterExec"), "{plan}");
    assert!(
        plan.contains("required_guarantees=[trace_id in"),
        "bloom filters are asked: {plan}"
    );

    // The id as it was pasted, which is a constant all the same.
    let pasted =
        "SELECT name FROM spans WHERE trace_id = trace_hex('00000000-0000-0000-0000-000000000005')";
    assert_eq!(
        plan_of(&fixture, pasted).await.matches(id).count(),
        plan.matches(id).count(),
        "the same plan"
    );
    let plan = plan_of(&fixture, pasted).await;
    assert!(!plan.contains("FilterExec"), "{plan}");

    let deep = "SELECT name FROM spans WHERE attr(attributes, 'a') = 'b' ORDER BY minute LIMIT 5";
    let plan = plan_of(&fixture, deep).await;
    assert!(
        plan.contains("FilterExec"),
        "maps are not filtered in the reader: {plan}"
    );

    let scan = "SELECT kind, count(*) FROM spans WHERE duration_ns > 5 GROUP BY kind";
    let plan = plan_of(&fixture, scan).await;
    assert!(plan.contains("FilterExec"), "{plan}");

    // The fresh part has no reader that filters.
    fixture.append(
        "spans",
        9,
        batch("spans", &[numbered(NEW_YEAR, 5), numbered(NEW_YEAR, 6)]),
    );
    let sql = format!("SELECT count(*) FROM spans WHERE trace_id = '{id}'");
    assert_eq!(fixture.number(&sql).await, 2);
}

/// Rows in memory take the filters that files take, so that none is evaluated above both.
#[tokio::test]
async fn rows_in_memory_are_filtered_where_they_are() {
    let fixture = three_days("requests").await;
    let fresh: Vec<_> = (100..110)
        .map(|number| numbered(NEW_YEAR + number, number))
        .collect();
    fixture.append("requests", 4, batch("requests", &fresh));
    let condition = format!("trace_id IN ('{:032x}', '{:032x}')", 5, 105);
    let sql = format!("SELECT trace_id FROM requests WHERE {condition}");
    let plan = plan_of(&fixture, &sql).await;
    assert!(!plan.contains("FilterExec"), "{plan}");
    assert_eq!(plan.matches(", predicate=").count(), 2, "{plan}");
    let count = format!("SELECT count(*) FROM requests WHERE {condition}");
    assert_eq!(fixture.number(&count).await, 2);
    // A limit counts rows that pass.
    let last = format!("{sql} AND trace_id > '{:032x}' LIMIT 1", 100);
    assert!(fixture.ask(&last).await.contains(&format!("{:032x}", 105)));

    // A join looks for few of them, and finds out while it runs which.
    let join = format!(
        "SELECT a.trace_id FROM requests AS a JOIN requests AS b ON a.trace_id = b.trace_id \
         WHERE a.{condition} ORDER BY a.trace_id"
    );
    let answer = fixture.ask(&join).await;
    assert_eq!(answer.lines().count(), 6, "two rows: {answer}");
}

#[tokio::test]
async fn strings_are_plain_in_every_answer() {
    let fixture = three_days("requests").await;
    for sql in [
        "SELECT trace_id, 'a' AS a, CAST(1 AS VARCHAR) AS b, upper(trace_id) AS c FROM requests",
        "SELECT max(trace_id) AS m, array_agg(trace_id) AS l FROM requests GROUP BY date",
        "SHOW TABLES",
    ] {
        let answer = fixture.engine.answer(sql, None).await.unwrap();
        for field in answer.schema().fields() {
            let name = field.data_type().to_string();
            assert!(!name.contains("View"), "{sql}: {} is {name}", field.name());
        }
    }
}

/// Files of tables that a statement reads, of three days each.
async fn n_files_of(fixture: &Fixture, sql: &str) -> usize {
    plan_of(fixture, sql).await.matches(".parquet").count()
}

/// Filters on windows and times reach the files through groupings, windows, joins and unions.
#[tokio::test]
async fn a_view_reads_the_files_of_the_time_that_is_asked_for() {
    let requests = three_days_of("requests", &[("outcome", Cell::Text("error"))]).await;
    for view in ["traffic_mix", "errors", "slo_compliance"] {
        let sql = |condition: &str| format!("SELECT * FROM {view} WHERE {condition}");
        for (condition, n_expected) in [
            ("true", 3),
            ("window_start > '2026-01-02T12:00:00Z'", 1),
            ("window_start >= '2026-01-03'", 1),
            ("window_start < '2026-01-01T12:00:00Z'", 1),
            ("window_start = '2026-01-02T00:00:00Z'", 1),
            ("window_start > now()", 0),
            ("model = 'm' AND window_start > '2026-01-01T12:00:00Z'", 2),
        ] {
            let n_files = n_files_of(&requests, &sql(condition)).await;
            assert_eq!(n_files, n_expected, "{view} {condition}");
        }
    }
    // Read twice: pods, and their models.
    let sql = "SELECT * FROM slowest_pods WHERE window_start > '2026-01-02T12:00:00Z'";
    assert_eq!(n_files_of(&requests, sql).await, 2);
    let answered = three_days_of("requests", &[("outcome", Cell::Text("ok"))]).await;
    let sql = "SELECT * FROM orphans WHERE start_time > '2026-01-02T12:00:00Z'";
    assert_eq!(n_files_of(&answered, sql).await, 1);

    for (table, view, column) in [
        ("gpu_samples", "gpu_timeline", "time"),
        ("engine_samples", "engine_timeline", "time"),
        ("engine_samples", "prefix_cache_drops", "window_start"),
    ] {
        let fixture = three_days_of(table, &SERIES).await;
        let sql = format!("SELECT * FROM {view} WHERE {column} > '2026-01-02T12:00:00Z'");
        assert_eq!(n_files_of(&fixture, &sql).await, 1, "{view}");
        let sql = format!("SELECT * FROM {view} WHERE {column} >= '2026-01-03T00:00:00Z'");
        let plan = plan_of(&fixture, &sql).await;
        assert_eq!(plan.matches(".parquet").count(), 1, "{view}: {plan}");
        let sql = format!("SELECT * FROM {view}");
        assert_eq!(n_files_of(&fixture, &sql).await, 3, "{view}");
    }
    let fixture = three_days_of("gpu_samples", &SERIES).await;
    for (condition, n_expected) in [("gpu_uuid = 'GPU-a'", 3), ("gpu_uuid = 'GPU-b'", 0)] {
        let sql = format!("SELECT * FROM gpu_timeline WHERE {condition}");
        assert_eq!(n_files_of(&fixture, &sql).await, n_expected, "{condition}");
    }
}

/// What follows for times changes no answer: a frame that looks further than the filter still has its rows, and functions that
/// look at more than their frame are left alone.
#[tokio::test]
async fn filters_above_windows_and_bins_keep_every_answer() {
    let fixture = three_days("requests").await;
    let hour = "RANGE BETWEEN INTERVAL '25 hours' PRECEDING AND INTERVAL '1 microsecond' FOLLOWING";
    for (function, condition) in [
        (
            format!("count(*) OVER (ORDER BY start_time {hour})"),
            "= '2026-01-02'",
        ),
        (
            format!("first_value(trace_id) OVER (ORDER BY start_time {hour})"),
            ">= '2026-01-02'",
        ),
        (
            format!("count(*) OVER (ORDER BY start_time DESC {hour})"),
            "< '2026-01-02'",
        ),
        (
            "lag(trace_id) OVER (ORDER BY start_time)".to_owned(),
            ">= '2026-01-02'",
        ),
        (
            "row_number() OVER (ORDER BY start_time)".to_owned(),
            ">= '2026-01-03'",
        ),
        (
            "sum(1) OVER (ORDER BY start_time)".to_owned(),
            ">= '2026-01-02'",
        ),
        (
            "count(*) OVER (ORDER BY trace_id)".to_owned(),
            ">= '2026-01-02'",
        ),
    ] {
        let inner = format!("SELECT trace_id, start_time, {function} AS f FROM requests");
        let asked = format!(
            "SELECT trace_id, f FROM ({inner}) WHERE start_time {condition} ORDER BY trace_id"
        );
        // `random()` keeps the optimizer away from the filter.
        let slow = format!(
            "SELECT trace_id, f FROM ({inner}) WHERE CASE WHEN random() < 2 THEN start_time {condition} END ORDER BY trace_id"
        );
        assert_eq!(
            fixture.ask(&asked).await,
            fixture.ask(&slow).await,
            "{function}"
        );
    }
    for condition in [
        "> '2026-01-02'",
        "<= '2026-01-02'",
        "= '2026-01-02'",
        "< '2026-01-01T00:00:00.000001Z'",
    ] {
        let bins = "SELECT date_bin(INTERVAL '7 hours', start_time) AS bin, count(*) AS n FROM requests GROUP BY 1";
        let asked = format!("SELECT * FROM ({bins}) WHERE bin {condition} ORDER BY bin");
        let slow = format!(
            "SELECT * FROM ({bins}) WHERE CASE WHEN random() < 2 THEN bin {condition} END ORDER BY bin"
        );
        assert_eq!(
            fixture.ask(&asked).await,
            fixture.ask(&slow).await,
            "{condition}"
        );
    }
}

/// DataFusion 55.2 would drop the second key, whose one side is of two relations.
#[tokio::test]
async fn a_join_key_of_several_relations_is_kept() {
    let fixture = three_days("requests").await;
    let sql = "SELECT count(*) FROM requests AS a \
         CROSS JOIN (VALUES (INTERVAL '1 day'), (INTERVAL '2 days')) AS later (days) \
         JOIN requests AS b ON b.position = a.position AND b.date = a.date + later.days";
    // Two pairs of days are one day apart, one pair two; four rows a day.
    assert_eq!(fixture.number(sql).await, 3 * 16);
    let sql = "SELECT count(*) FROM requests AS a \
         JOIN requests AS b ON (a.model IS NOT DISTINCT FROM b.model) \
         JOIN requests AS c ON c.trace_id = b.trace_id";
    assert_eq!(fixture.number(sql).await, 12 * 12);
}
