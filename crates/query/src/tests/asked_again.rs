//! Statements that were asked before, with other identifiers, other rows, at another time: answers are those of now.

use std::fmt::Write as _;

use super::support::{Fixture, NEW_YEAR, SECOND, batch, config, fixture, numbered};

fn id(number: i64) -> String {
    format!("{number:032x}")
}

/// Ten rows of `spans`, one of each trace.
async fn with_traces(numbers: std::ops::Range<i64>) -> Fixture {
    let fixture = fixture(&config()).await;
    append(&fixture, 1, numbers);
    fixture
}

fn append(fixture: &Fixture, sequence: i64, numbers: std::ops::Range<i64>) {
    let rows: Vec<_> = numbers
        .map(|number| numbered(NEW_YEAR + number * SECOND, number))
        .collect();
    fixture.append("spans", sequence, batch("spans", &rows));
}

#[tokio::test]
async fn each_identifier_has_its_own_rows() {
    let fixture = with_traces(0..10).await;
    for number in [3, 7, 3, 99] {
        let id = id(number);
        for (sql, n_expected) in [
            ("SELECT count(*) FROM spans WHERE trace_id = '{id}'", 1),
            (
                "SELECT count(*) FROM spans WHERE '{id}' = spans.trace_id",
                1,
            ),
            (
                "SELECT count(*) FROM (SELECT * FROM spans WHERE trace_id = '{id}') AS s WHERE s.trace_id = '{id}'",
                1,
            ),
            (
                "SELECT count(*) FROM spans AS a JOIN spans AS b ON a.trace_id = b.trace_id WHERE a.trace_id = '{id}'",
                1,
            ),
            (
                "SELECT count(*) FROM spans WHERE trace_id IN (SELECT trace_id FROM spans WHERE trace_id = '{id}')",
                1,
            ),
            (
                "SELECT count(*) FROM trace_timeline WHERE trace_id = '{id}'",
                1,
            ),
            (
                "SELECT count(*) FROM spans WHERE trace_id = '{id}' AND trace_id = '00000000000000000000000000000003'",
                i64::from(number == 3),
            ),
        ] {
            let n_expected = if number == 99 { 0 } else { n_expected };
            let sql = sql.replace("{id}", &id);
            assert_eq!(fixture.number(&sql).await, n_expected, "{sql}");
        }
    }
}

#[tokio::test]
async fn rows_that_came_meanwhile_are_there_and_each_once() {
    let fixture = with_traces(0..10).await;
    let count = "SELECT count(*) FROM spans";
    let one = format!("SELECT count(*) FROM spans WHERE trace_id = '{}'", id(12));
    assert_eq!(fixture.number(count).await, 10);
    assert_eq!(fixture.number(&one).await, 0);
    append(&fixture, 2, 10..20);
    assert_eq!(fixture.number(count).await, 20);
    assert_eq!(fixture.number(&one).await, 1);
    fixture.commit("spans", 2).await;
    assert_eq!(fixture.number(count).await, 20);
    assert_eq!(fixture.number(&one).await, 1);
}

/// Two scans of a table in one statement see the same rows, also where the plan was made for another statement.
#[tokio::test]
async fn both_sides_of_a_self_join_are_of_one_instant() {
    let fixture = with_traces(0..10).await;
    let sql = "SELECT count(*) FROM spans AS a FULL JOIN spans AS b ON a.trace_id = b.trace_id \
               WHERE a.trace_id IS NULL OR b.trace_id IS NULL";
    for sequence in 2..30 {
        let begin = sequence * 10;
        append(&fixture, sequence, begin..begin + 10);
        let (n_alone, ()) = tokio::join!(fixture.number(sql), fixture.commit("spans", sequence));
        assert_eq!(n_alone, 0);
    }
}

#[tokio::test]
async fn the_time_is_that_of_each_statement() {
    let fixture = with_traces(0..1).await;
    for sql in [
        "SELECT CAST(CAST(now() AS TIMESTAMP) AS BIGINT)",
        "SELECT CAST(CAST(max(n) AS TIMESTAMP) AS BIGINT) FROM (SELECT now() AS n FROM spans)",
        "SELECT CAST(CAST(max(n) AS TIMESTAMP) AS BIGINT) FROM (SELECT current_timestamp AS n FROM spans) WHERE n > TIMESTAMP '2020-01-01'",
    ] {
        let first = fixture.number(sql).await;
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        assert!(fixture.number(sql).await > first, "{sql}");
    }
}

/// Names of columns come from the text of the statement.
#[tokio::test]
async fn columns_are_named_after_what_was_asked() {
    let fixture = with_traces(0..3).await;
    for number in [1, 2] {
        let sql = format!(
            "SELECT trace_id = '{0}', trace_id FROM spans WHERE trace_id = '{0}'",
            id(number)
        );
        let answer = fixture.ask(&sql).await;
        assert!(
            answer.contains(&format!("Utf8(\"{}\")", id(number))),
            "{answer}"
        );
        assert!(!answer.contains('$'), "{answer}");
    }
}

#[tokio::test]
async fn a_parameter_without_a_value_is_none_of_ours() {
    let fixture = with_traces(0..3).await;
    let id = id(1);
    for sql in [
        format!("SELECT count(*) FROM spans WHERE trace_id = '{id}' AND name = $1"),
        "SELECT count(*) FROM spans WHERE trace_id = $1".to_owned(),
    ] {
        for _ in 0..2 {
            assert!(fixture.try_ask(&sql).await.is_err(), "{sql}");
        }
    }
}

/// More statements than are kept, each asked again after all others.
#[tokio::test]
async fn what_is_not_kept_any_more_is_planned_again() {
    let fixture = with_traces(0..10).await;
    for _ in 0..2 {
        for n in 0..100 {
            let mut sql = format!("SELECT count(*) + {n} FROM spans");
            write!(sql, " WHERE trace_id = '{}'", id(n % 10)).unwrap();
            assert_eq!(fixture.number(&sql).await, n + 1);
        }
    }
}

#[tokio::test]
async fn a_mistake_is_told_in_the_words_of_the_statement() {
    let fixture = with_traces(0..3).await;
    let id = id(1);
    for _ in 0..2 {
        let sql = format!("SELECT nothing FROM spans WHERE trace_id = '{id}'");
        let error = fixture.try_ask(&sql).await.unwrap_err().explanation();
        assert!(error.contains("nothing"), "{error}");
        let sql = format!("SELECT 1 FROM nowhere WHERE trace_id = '{id}'");
        let error = fixture.try_ask(&sql).await.unwrap_err().explanation();
        assert!(error.contains("nowhere"), "{error}");
    }
}
