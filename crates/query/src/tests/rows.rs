//! Which rows an answer has: each once, committed or not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use expect_test::expect;

use super::support::{
    Cell, DAY, NEW_YEAR, SECOND, batch, config, fixture, fixture_in, numbered, row,
};

#[tokio::test]
async fn committed_and_fresh_rows_are_in_the_answer_once() {
    let fixture = fixture(&config()).await;
    fixture.append("requests", 1, batch("requests", &[numbered(NEW_YEAR, 1)]));
    fixture.append(
        "requests",
        2,
        batch("requests", &[numbered(NEW_YEAR + DAY, 2)]),
    );
    fixture.commit("requests", 2).await;
    fixture.append(
        "requests",
        3,
        batch("requests", &[numbered(NEW_YEAR + 2 * DAY, 3)]),
    );

    expect![[r#"
        +----------------------------------+------------+----------------------+
        | trace_id                         | date       | start_time           |
        +----------------------------------+------------+----------------------+
        | 00000000000000000000000000000003 | 2026-01-03 | 2026-01-03T00:00:00Z |
        | 00000000000000000000000000000002 | 2026-01-02 | 2026-01-02T00:00:00Z |
        | 00000000000000000000000000000001 | 2026-01-01 | 2026-01-01T00:00:00Z |
        +----------------------------------+------------+----------------------+"#]]
    .assert_eq(
        &fixture
            .ask("SELECT trace_id, date, start_time FROM requests ORDER BY start_time DESC")
            .await,
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_stay_exact_while_commits_happen() {
    let fixture = Arc::new(fixture(&config()).await);
    let n_rows = 40_i64;
    let first = batch("requests", &[numbered(NEW_YEAR, 0)]);
    fixture.append("requests", 1, first);
    for number in 1..n_rows {
        let rows = [numbered(NEW_YEAR + number * SECOND, number)];
        fixture.append("requests", number + 1, batch("requests", &rows));
    }
    let is_committing = Arc::new(AtomicBool::new(true));
    let committer = tokio::spawn({
        let (fixture, is_committing) = (Arc::clone(&fixture), Arc::clone(&is_committing));
        async move {
            for through in 1..=n_rows {
                fixture.commit("requests", through).await;
            }
            is_committing.store(false, Ordering::SeqCst);
        }
    });
    while is_committing.load(Ordering::SeqCst) {
        let sql = "SELECT count(*) FROM requests";
        assert_eq!(fixture.number(sql).await, n_rows);
        // Both sides of a join see the same rows.
        let sql =
            "SELECT count(*) FROM requests AS a JOIN requests AS b ON a.trace_id = b.trace_id";
        assert_eq!(fixture.number(sql).await, n_rows);
    }
    committer.await.unwrap();
    assert_eq!(
        fixture
            .number("SELECT count(DISTINCT trace_id) FROM requests")
            .await,
        n_rows
    );
}

#[tokio::test]
async fn every_column_can_be_selected_from_files_and_from_memory() {
    let fixture = fixture(&config()).await;
    for spec in tables::all() {
        let rows = [numbered(NEW_YEAR, 1)];
        fixture.append(spec.name, 1, batch(spec.name, &rows));
        fixture.commit(spec.name, 1).await;
        fixture.append(
            spec.name,
            2,
            batch(spec.name, &[numbered(NEW_YEAR + DAY, 2)]),
        );
        let all = fixture.ask(&format!("SELECT * FROM {}", spec.name)).await;
        assert_eq!(all.lines().count(), 6, "{all}");
        for column in spec.columns {
            let sql = format!("SELECT {0} FROM {1} ORDER BY date", column.name, spec.name);
            let got = fixture.ask(&sql).await;
            assert_eq!(got.lines().count(), 6, "{sql}\n{got}");
        }
    }
}

/// C58: stored times are UTC, the zone of a literal counts, nanoseconds are not lost.
#[tokio::test]
async fn times_compare_as_instants() {
    let fixture = fixture(&config()).await;
    let hour = 3600 * SECOND;
    let times = [NEW_YEAR, NEW_YEAR + hour + 1, NEW_YEAR + 2 * hour];
    let rows: Vec<_> = (1..)
        .zip(times)
        .map(|(number, time)| numbered(time, number))
        .collect();
    for is_committed in [false, true] {
        if is_committed {
            fixture.commit("requests", 1).await;
        } else {
            fixture.append("requests", 1, batch("requests", &rows));
        }
        for (condition, n_expected) in [
            ("start_time >= '2026-01-01T01:00:00Z'", 2),
            ("start_time >= '2026-01-01T09:00:00+08:00'", 2),
            ("start_time >= TIMESTAMP '2026-01-01 01:00:00'", 2),
            ("start_time = '2026-01-01T01:00:00Z'", 1),
            ("start_time_unix_nano = 1767229200000000001", 1),
            ("start_time_unix_nano = 1767229200000000000", 0),
            (
                "start_time >= '2026-01-01' AND start_time < '2026-01-02'",
                3,
            ),
            ("date = '2026-01-01'", 3),
            ("date = DATE '2025-12-31'", 0),
            ("start_time < now()", 3),
        ] {
            let sql = format!("SELECT count(*) FROM requests WHERE {condition}");
            assert_eq!(
                fixture.number(&sql).await,
                n_expected,
                "{condition} {is_committed}"
            );
        }
    }
}

/// C65: the longest is not the one without a duration.
#[tokio::test]
async fn absent_values_do_not_top_a_list() {
    let fixture = fixture(&config()).await;
    let named = |model, e2e_s| row(NEW_YEAR, &[("model", Cell::Text(model)), ("e2e_s", e2e_s)]);
    let rows = [
        named("ok", Cell::Float(0.1)),
        named("slow", Cell::Float(0.9)),
        named("open", Cell::Null),
        named("mid", Cell::Float(0.5)),
    ];
    fixture.append("requests", 1, batch("requests", &rows));
    fixture.commit("requests", 1).await;
    expect![[r#"
        +-------+
        | model |
        +-------+
        | slow  |
        | mid   |
        +-------+"#]]
    .assert_eq(
        &fixture
            .ask("SELECT model FROM requests ORDER BY e2e_s DESC NULLS LAST LIMIT 2")
            .await,
    );
    expect![[r#"
        +-------+-----+
        | model | m   |
        +-------+-----+
        | ok    | 0.1 |
        | mid   | 0.5 |
        | slow  | 0.9 |
        | open  |     |
        +-------+-----+"#]]
    .assert_eq(
        &fixture
            .ask(
                "SELECT model, max(e2e_s) AS m FROM requests GROUP BY model \
                 ORDER BY m ASC NULLS LAST LIMIT 10",
            )
            .await,
    );
}

/// C59: what is no number is stored as absent by the writer, so that it neither tops a list nor poisons a mean; of samples of
/// GPUs and engines the mapping does the same (crate `tables`).
#[tokio::test]
async fn what_is_no_number_is_absent() {
    let fixture = fixture(&config()).await;
    let mut builder = tables::requests::RequestsBuilder::new();
    let trace_id = otlp::TraceId::parse_hex("4bf92f3577b34da6a3ce929d0e0e4736").unwrap();
    let span_id = otlp::SpanId::parse_hex("00f067aa0ba902b7").unwrap();
    let values = [
        Some(0.91),
        Some(f64::NAN),
        Some(0.40),
        None,
        Some(f64::INFINITY),
        Some(f64::NEG_INFINITY),
    ];
    for (number, e2e_s) in (1_u64..).zip(values) {
        let request = tables::requests::Request {
            e2e_s,
            tpot_s: e2e_s,
            max_tokens: i64::try_from(number).ok(),
            start_time_unix_nano: u64::try_from(NEW_YEAR).unwrap() + number,
            ..tables::requests::Request::new(trace_id, span_id)
        };
        builder.append(&request).unwrap();
    }
    fixture.append("requests", 1, builder.finish());
    for is_committed in [false, true] {
        if is_committed {
            fixture.commit("requests", 1).await;
        }
        for (sql, expected) in [
            ("SELECT max_tokens FROM requests WHERE e2e_s = 0.91", "1"),
            ("SELECT max(e2e_s) FROM requests", "0.91"),
            ("SELECT min(e2e_s) FROM requests", "0.4"),
            ("SELECT round(avg(e2e_s), 6) FROM requests", "0.655"),
            (
                "SELECT round(approx_percentile_cont(0.5) WITHIN GROUP (ORDER BY e2e_s), 6) FROM requests",
                "0.655",
            ),
            (
                "SELECT max_tokens FROM requests ORDER BY e2e_s DESC NULLS LAST LIMIT 1",
                "1",
            ),
            ("SELECT count(*) FROM requests WHERE e2e_s > 2", "0"),
            (
                "SELECT count(*) FROM requests WHERE e2e_s IS NULL AND tpot_s IS NULL",
                "4",
            ),
        ] {
            let answer = fixture.ask(sql).await;
            let value = answer.lines().nth(3).unwrap().trim_matches(['|', ' ']);
            assert_eq!(value, expected, "{sql} (committed: {is_committed})");
        }
    }
}

/// C56: files of a version that did not have a column yet, and files of one that has it. (A number never changes its type: the
/// definition of a table owns it, so that whole and broken numbers cannot come into one column.)
#[tokio::test]
async fn files_of_an_older_version_have_null_in_new_columns() {
    let folder = tempfile::tempdir().unwrap();
    let location = lake::Location::parse(folder.path().to_str().unwrap()).unwrap();
    let mut specs = tables::all();
    let place = specs
        .iter()
        .position(|spec| spec.name == "requests")
        .unwrap();
    let newer = specs[place];
    let columns = newer
        .columns
        .iter()
        .map(|column| tables::Column { ..*column });
    let columns = columns.filter(|column| !["k8s_pod_name", "quality"].contains(&column.name));
    specs[place] = Box::leak(Box::new(tables::Spec {
        columns: columns.collect::<Vec<_>>().leak(),
        ..*newer
    }));
    let rows = |trace_id, cells: &[(&'static str, Cell)]| {
        let cells = [&[("trace_id", Cell::Text(trace_id))], cells].concat();
        batch("requests", &[row(NEW_YEAR, &cells)])
    };
    {
        let older = lake::Lake::open(&location, &specs, lake::Mode::Create)
            .await
            .unwrap();
        let all = rows("a", &[("e2e_s", Cell::Float(2.0))]);
        let schema = specs[place].schema();
        let indices: Vec<_> = schema
            .fields()
            .iter()
            .map(|field| all.schema().index_of(field.name()).unwrap())
            .collect();
        let table = older.table("requests").unwrap();
        table.append("test", 1, all.project(&indices).unwrap());
        table.commit("test", 1).await.unwrap();
    }
    let reader = fixture_in(folder, lake::Mode::ReadOnly, &config()).await;
    let sql = "SELECT count(*) FROM requests WHERE k8s_pod_name IS NULL AND quality IS NULL";
    assert_eq!(
        reader.number(sql).await,
        1,
        "before any writer of this version"
    );

    let fixture = fixture_in(reader.into_folder(), lake::Mode::Create, &config()).await;
    let cells = [
        ("e2e_s", Cell::Float(0.5)),
        ("k8s_pod_name", Cell::Text("vllm-qwen-0")),
    ];
    fixture.append("requests", 2, rows("b", &cells));
    fixture.commit("requests", 2).await;
    expect![[r#"
        +----------+-------+--------------+
        | trace_id | e2e_s | k8s_pod_name |
        +----------+-------+--------------+
        | a        | 2.0   |              |
        | b        | 0.5   | vllm-qwen-0  |
        +----------+-------+--------------+"#]]
    .assert_eq(
        &fixture
            .ask("SELECT trace_id, e2e_s, k8s_pod_name FROM requests ORDER BY trace_id")
            .await,
    );
    assert_eq!(fixture.number(sql).await, 1);
    let sql = "SELECT count(*) FROM requests WHERE k8s_pod_name = 'vllm-qwen-0' AND e2e_s < 1";
    assert_eq!(fixture.number(sql).await, 1);
}
