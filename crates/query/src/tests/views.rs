//! The views of `storage/views`.

use std::collections::BTreeSet;

use expect_test::expect;

use super::support::{
    Cell, Fixture, NEW_YEAR, Row, SECOND, batch, config, config_of_files, fixture, row,
};
use crate::VIEWS;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

fn request(id: &'static str, outcome: &'static str, cells: &[(&'static str, f64)]) -> Row {
    let mut all = vec![
        ("trace_id", Cell::Text(TRACE)),
        ("request_id", Cell::Text(id)),
        ("outcome", Cell::Text(outcome)),
    ];
    all.extend(
        cells
            .iter()
            .map(|(name, value)| (*name, Cell::Float(*value))),
    );
    row(NEW_YEAR, &all)
}

async fn requests() -> Fixture {
    let fixture = fixture(&config()).await;
    let rows = [
        request(
            "decoding",
            "ok",
            &[
                ("e2e_s", 4.0),
                ("queue_s", 0.5),
                ("prefill_s", 0.5),
                ("decode_s", 3.0),
            ],
        ),
        request(
            "queued",
            "ok",
            &[("e2e_s", 8.0), ("queue_s", 6.0), ("prefill_s", 1.0)],
        ),
        request("unmeasured", "ok", &[]),
        request("failed", "error", &[("e2e_s", 0.25)]),
        request(
            "cancelled",
            "cancelled",
            &[("e2e_s", 5.0), ("decode_s", 1.25)],
        ),
    ];
    fixture.append("requests", 1, batch("requests", &rows));
    fixture.commit("requests", 1).await;
    fixture
}

#[tokio::test]
async fn slow_requests_has_failures_first_then_the_slowest_with_their_longest_phase() {
    let fixture = requests().await;
    expect![[r#"
        +------------+--------+-------+---------------+-----------------+---------------------+
        | request_id | failed | e2e_s | longest_phase | longest_phase_s | longest_phase_share |
        +------------+--------+-------+---------------+-----------------+---------------------+
        | failed     | true   | 0.25  |               |                 |                     |
        | queued     | false  | 8.0   | queue         | 6.0             | 0.75                |
        | cancelled  | false  | 5.0   | decode        | 1.25            | 0.25                |
        | decoding   | false  | 4.0   | decode        | 3.0             | 0.75                |
        | unmeasured | false  |       |               |                 |                     |
        +------------+--------+-------+---------------+-----------------+---------------------+"#]]
    .assert_eq(
        &fixture
            .ask(
                "SELECT request_id, failed, e2e_s, longest_phase, longest_phase_s, \
                 longest_phase_share FROM slow_requests",
            )
            .await,
    );
    let two = fixture
        .ask("SELECT request_id FROM slow_requests LIMIT 2")
        .await;
    assert!(two.contains("failed") && two.contains("queued"), "{two}");
}

#[tokio::test]
async fn request_phases_has_a_row_per_measured_phase() {
    let fixture = requests().await;
    expect![[r#"
        +------------+---------+----------+------------+-------+
        | request_id | phase   | offset_s | duration_s | share |
        +------------+---------+----------+------------+-------+
        | cancelled  | decode  |          | 1.25       | 0.25  |
        | decoding   | queue   | 0.0      | 0.5        | 0.125 |
        | decoding   | prefill | 0.5      | 0.5        | 0.125 |
        | decoding   | decode  | 1.0      | 3.0        | 0.75  |
        | queued     | queue   | 0.0      | 6.0        | 0.75  |
        | queued     | prefill | 6.0      | 1.0        | 0.125 |
        +------------+---------+----------+------------+-------+"#]]
    .assert_eq(
        &fixture
            .ask(
                "SELECT request_id, phase, offset_s, duration_s, share FROM request_phases \
                 ORDER BY request_id, phase_idx",
            )
            .await,
    );
}

#[tokio::test]
async fn trace_timeline_counts_from_the_first_start_of_the_trace() {
    let fixture = fixture(&config_of_files()).await;
    let span = |trace: &'static str, name, start, duration_ns| {
        row(
            start,
            &[
                ("trace_id", Cell::Text(trace)),
                ("name", Cell::Text(name)),
                ("duration_ns", Cell::Int(duration_ns)),
            ],
        )
    };
    let rows = [
        span(TRACE, "llm_request", NEW_YEAR + 1_500_000, 7_250_000),
        span(TRACE, "POST /v1/chat", NEW_YEAR, 9_000_000),
        span(
            "ffffffffffffffffffffffffffffffff",
            "other",
            NEW_YEAR - SECOND,
            1,
        ),
    ];
    fixture.append("spans", 1, batch("spans", &rows));
    fixture.commit("spans", 1).await;
    expect![[r#"
        +-----------+-------------+---------------+
        | offset_ms | duration_ms | name          |
        +-----------+-------------+---------------+
        | 0.0       | 9.0         | POST /v1/chat |
        | 1.5       | 7.25        | llm_request   |
        +-----------+-------------+---------------+"#]]
    .assert_eq(
        &fixture
            .ask(&format!(
                "SELECT offset_ms, duration_ms, name FROM trace_timeline WHERE trace_id = '{TRACE}'"
            ))
            .await,
    );
    let plan = fixture
        .ask(&format!(
            "EXPLAIN FORMAT INDENT SELECT name FROM trace_timeline WHERE trace_id = '{TRACE}'"
        ))
        .await;
    assert!(
        plan.contains("required_guarantees=[trace_id in"),
        "the filter reaches the files: {plan}"
    );
}

/// The heads are documentation that people and `/v1/tables` read.
#[tokio::test]
async fn every_head_tells_exactly_the_columns_and_its_example_runs() {
    let fixture = requests().await;
    for view in VIEWS {
        assert!(!view.question().is_empty(), "{}", view.name);
        let sql = format!("SELECT * FROM {}", view.name);
        let answer = fixture.engine.answer(&sql, None).await.unwrap();
        let real: BTreeSet<&str> = answer
            .schema()
            .fields()
            .iter()
            .map(|field| field.name().as_str())
            .collect();
        let columns = view.columns();
        let told: BTreeSet<&str> = columns.iter().map(|column| column.name).collect();
        assert_eq!(real, told, "{}", view.name);
        assert_eq!(
            columns.len(),
            told.len(),
            "{}: a column is told twice",
            view.name
        );
        fixture.ask(&view.example()).await;
    }
}
