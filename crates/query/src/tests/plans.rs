//! How a statement reads: which files, in which order, in which profile.

use super::support::{DAY, Fixture, NEW_YEAR, batch, config, fixture, numbered};

/// Three days, a file each, and one fresh row.
async fn three_days(table: &str) -> Fixture {
    let fixture = fixture(&config()).await;
    for day in 0..3 {
        let rows: Vec<_> = (0..4)
            .map(|n| numbered(NEW_YEAR + day * DAY + n * 1_000_000, 1 + day * 4 + n))
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
