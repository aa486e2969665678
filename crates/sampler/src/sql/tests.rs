//! Three-valued logic, columns, and what is refused.

use proptest::prelude::*;

use super::{Column, Condition, Datum, Row, SQL_COLUMNS};
use crate::number::Number;

/// 2.5 s long, 12 spans, one error, no root; its start is unknown.
struct Sample;

impl Row for Sample {
    fn column(&self, column: Column) -> Option<Datum> {
        let int = |int| Some(Datum::Number(Number::Int(int)));
        match column {
            Column::StartTime | Column::EndTime => None,
            Column::Duration => int(2_500_000_000),
            Column::SpanCount => int(12),
            Column::ErrorSpanCount => int(1),
            Column::RootCount => int(0),
            Column::OrphanCount => int(12),
            Column::RequestCount => int(3),
            Column::SizeBytes => int(i64::MAX),
            Column::Error => Some(Datum::Bool(true)),
            Column::Complete => Some(Datum::Bool(false)),
        }
    }

    fn has_service(&self, name: &str) -> bool {
        ["vllm", "it's"].contains(&name)
    }
}

/// `T`, `F` or `N` for unknown.
fn value(text: &str) -> &'static str {
    let holds = |text: String| {
        Condition::compile(&text)
            .unwrap_or_else(|problem| panic!("{text}: {problem}"))
            .holds(&Sample)
    };
    match (holds(format!("({text})")), holds(format!("NOT ({text})"))) {
        (true, false) => "T",
        (false, true) => "F",
        (false, false) => "N",
        (true, true) => "both",
    }
}

#[test]
fn conditions_have_the_values_that_sql_gives_them() {
    for (text, want) in [
        ("duration_ns > 2000000000 AND span_count > 10", "T"),
        (
            "duration_ns >= 2.5e9 and not (Duration_NS <> 2500000000)",
            "T",
        ),
        ("\"span_count\" = 12", "T"),
        ("error", "T"),
        ("error = TRUE AND complete = false", "T"),
        (
            "error IS TRUE AND complete IS NOT TRUE AND complete IS FALSE",
            "T",
        ),
        ("start_time_unix_nano > 0", "N"),
        (
            "start_time_unix_nano IS NULL AND duration_ns IS NOT NULL",
            "T",
        ),
        ("start_time_unix_nano > 0 OR error", "T"),
        ("start_time_unix_nano > 0 AND complete", "F"),
        ("(start_time_unix_nano > 0) IS UNKNOWN", "T"),
        ("(start_time_unix_nano > 0) IS NOT TRUE", "T"),
        ("(error AND NULL) IS NOT UNKNOWN", "F"),
        ("span_count IN (1, 2, 12)", "T"),
        ("span_count NOT IN (1, 2)", "T"),
        ("span_count IN (1, NULL)", "N"),
        ("span_count NOT IN (12, NULL)", "F"),
        ("span_count BETWEEN 12 AND 12.0", "T"),
        ("span_count NOT BETWEEN 1 AND 11", "T"),
        ("start_time_unix_nano BETWEEN 1 AND 2", "N"),
        ("span_count BETWEEN 13 AND NULL", "F"),
        ("duration_ns / span_count > 2e8", "T"),
        (
            "span_count / 5 = 2 AND span_count % 5 = 2 AND -span_count + 13 = +1",
            "T",
        ),
        ("span_count / 5.0 = 2.4", "T"),
        ("error_span_count * 100 / span_count >= 8", "T"),
        // DataFusion stops with an error here.
        ("span_count / root_count = 1", "N"),
        ("span_count / 0.0 > 1", "N"),
        ("size_bytes + 1 > 0", "N"),
        // Not as doubles, in which the two would be equal.
        ("size_bytes < 9223372036854775807", "F"),
        ("size_bytes < 9223372036854775808", "T"),
        (
            "array_has(services, 'vllm') AND NOT array_has(services, 'rag')",
            "T",
        ),
        ("ARRAY_HAS(services, 'it''s')", "T"),
        ("NULL", "N"),
        ("NULL = NULL", "N"),
        ("error AND span_count > 1 -- a comment", "T"),
    ] {
        assert_eq!(value(text.split(" --").next().unwrap()), want, "{text}");
        assert!(Condition::compile(text).is_ok(), "{text}");
    }
}

/// Every cell of both tables.
#[test]
fn and_or_and_not_are_those_of_three_values() {
    let all = [("TRUE", "T"), ("FALSE", "F"), ("NULL", "N")];
    for (left, l) in all {
        let not = match l {
            "T" => "F",
            "F" => "T",
            _ => "N",
        };
        assert_eq!(value(&format!("NOT {left}")), not);
        for (right, r) in all {
            let both = [l, r];
            let one_decides = |decisive, other| {
                if both.contains(&decisive) {
                    decisive
                } else if both.contains(&"N") {
                    "N"
                } else {
                    other
                }
            };
            assert_eq!(value(&format!("{left} AND {right}")), one_decides("F", "T"));
            assert_eq!(value(&format!("{left} OR {right}")), one_decides("T", "F"));
        }
    }
}

#[test]
fn what_cannot_be_asked_is_refused_by_name() {
    let deep = format!("{}error{}", "(".repeat(300), ")".repeat(300));
    let long = format!("error{}", " AND error".repeat(2_000));
    let many = format!("error{}", " AND error".repeat(300));
    for (text, want) in [
        ("", "cannot be read"),
        ("duration_ns >", "cannot be read"),
        ("error error", "`error`"),
        ("error; DROP TABLE traces", "`;`"),
        ("duration > 1", "did you mean `duration_ns`?"),
        ("t.error", "`t.error`"),
        ("\"ERROR\"", "the column `ERROR`"),
        ("span_count", "`span_count` where a truth is needed"),
        ("NOT span_count", "where a truth is needed"),
        ("error + 1 > 0", "`error` where a number is needed"),
        ("span_count > TRUE", "`true` where a number is needed"),
        ("error IN (1)", "`1` where a truth is needed"),
        ("services", "array_has(services, 'name')"),
        ("root_name = 'x'", "IsRootSpan()"),
        ("model = 'x'", "ottl_condition"),
        ("policy = 'x'", "follows from the decision"),
        ("span_count = '12'", "`'12'`"),
        ("span_count LIKE '1%'", "LIKE"),
        ("abs(span_count) > 1", "`abs(span_count)`"),
        ("array_has(services, model)", "`array_has("),
        ("array_has(DISTINCT services, 'x')", "array_has"),
        ("CASE WHEN error THEN TRUE END", "CASE"),
        ("CAST(error AS INT) = 1", "CAST"),
        ("span_count IN (SELECT 1)", "SELECT"),
        ("EXISTS (SELECT 1)", "EXISTS"),
        ("now() > 1", "`now()`"),
        ("span_count > $1", "`$1`"),
        ("span_count >> 1 = 1", ">>"),
        (&deep, "levels deep"),
        (&many, "levels deep"),
        (&long, "characters"),
    ] {
        let problem = Condition::compile(text).unwrap_err().to_string();
        assert!(problem.contains(want), "{text}: {problem}");
    }
}

/// An expression over truths and numbers, with the value that it must have.
fn any_truth() -> impl Strategy<Value = (String, Option<bool>)> {
    let number = prop_oneof![
        Just(("span_count".to_owned(), Some(12_i64))),
        Just(("start_time_unix_nano".to_owned(), None)),
        (-3_i64..20).prop_map(|int| (int.to_string(), Some(int))),
    ];
    let compared = (number.clone(), number, 0_usize..6).prop_map(|(left, right, operator)| {
        let name = ["=", "<>", "<", "<=", ">", ">="][operator];
        let value = left.1.zip(right.1).map(|(left, right)| match operator {
            0 => left == right,
            1 => left != right,
            2 => left < right,
            3 => left <= right,
            4 => left > right,
            _ => left >= right,
        });
        (format!("{} {name} {}", left.0, right.0), value)
    });
    compared.prop_recursive(4, 32, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(left, right)| {
                let value = match (left.1, right.1) {
                    (Some(false), _) | (_, Some(false)) => Some(false),
                    (Some(true), Some(true)) => Some(true),
                    _ => None,
                };
                (format!("({}) AND ({})", left.0, right.0), value)
            }),
            (inner.clone(), inner.clone()).prop_map(|(left, right)| {
                let value = match (left.1, right.1) {
                    (Some(true), _) | (_, Some(true)) => Some(true),
                    (Some(false), Some(false)) => Some(false),
                    _ => None,
                };
                (format!("({}) OR ({})", left.0, right.0), value)
            }),
            inner.prop_map(|of| (format!("NOT ({})", of.0), of.1.map(|is_true| !is_true))),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nested_conditions_have_the_value_of_their_parts((text, want) in any_truth()) {
        let want = match want {
            Some(true) => "T",
            Some(false) => "F",
            None => "N",
        };
        prop_assert_eq!(value(&text), want, "{}", text);
    }

    /// Anything, and anything made of the words of the language.
    #[test]
    fn no_text_makes_it_panic(
        any in ".{0,60}",
        words in prop::collection::vec(prop::sample::select(vec![
            "error", "span_count", "(", ")", "AND", "OR", "NOT", "IN", "BETWEEN", "IS", "NULL", "=", "<", ">", "-",
            "+", "*", "/", "1", "2.5", "'x'", ",", "array_has", "services", "CASE", "SELECT", "::", "[",
        ]), 0..16),
    ) {
        for text in [any, words.join(" ")] {
            if let Ok(condition) = Condition::compile(&text) {
                condition.holds(&Sample);
            }
        }
    }
}

#[test]
fn every_column_is_of_the_kind_that_it_is_listed_as() {
    for (name, is_truth) in SQL_COLUMNS {
        let text = if is_truth {
            name.to_owned()
        } else {
            format!("{name} > 0")
        };
        assert!(Condition::compile(&text).is_ok(), "{name}");
        assert_eq!(Condition::compile(name).is_ok(), is_truth, "{name}");
    }
}
