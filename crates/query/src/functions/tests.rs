//! Functions in statements, as clients ask.

mod attributes;
mod hostile;
mod ids;
mod quantiles;
mod types;

use arrow::array::Array;
use arrow::util::display::array_value_to_string;
use futures::StreamExt;

use super::{FAMILIES, all};
use crate::tests::support::{Fixture, config, fixture};

/// Every value of the first column, a row each, as text.
pub(super) async fn column(fixture: &Fixture, sql: &str) -> Result<Vec<String>, String> {
    let answer = fixture.engine.answer(sql, None).await;
    let mut answer = answer.map_err(|error| error.explanation())?;
    let mut values = Vec::new();
    while let Some(batch) = answer.next().await {
        let batch = batch.map_err(|error| error.explanation())?;
        let column = batch.column(0);
        values.extend((0..column.len()).map(|row| {
            if column.is_null(row) {
                "NULL".to_owned()
            } else {
                array_value_to_string(column, row).unwrap()
            }
        }));
    }
    Ok(values)
}

/// The one value of an expression.
pub(super) async fn value(fixture: &Fixture, expression: &str) -> Result<String, String> {
    let values = column(fixture, &format!("SELECT {expression}")).await?;
    assert_eq!(values.len(), 1, "{expression}");
    Ok(values.into_iter().next().unwrap())
}

async fn check(cases: &[(&str, &str)]) {
    let fixture = fixture(&config()).await;
    for (expression, expected) in cases {
        let got = value(&fixture, expression).await;
        assert_eq!(got.as_deref(), Ok(*expected), "{expression}");
    }
}

#[tokio::test]
async fn every_example_gives_what_is_told() {
    let fixture = fixture(&config()).await;
    for function in all() {
        let got = column(&fixture, function.example).await;
        assert_eq!(
            got.as_deref(),
            Ok([function.gives.to_owned()].as_slice()),
            "{}",
            function.example
        );
    }
}

#[test]
fn every_function_is_told_whole_and_once() {
    let mut names: Vec<&str> = all().map(|function| function.name).collect();
    for function in all() {
        assert!(
            function.example.contains(function.name),
            "{}",
            function.name
        );
        for text in [function.doc, function.null] {
            assert!(
                text.ends_with('.') && text.is_ascii(),
                "{}: {text}",
                function.name
            );
            assert!(!text.contains("  "), "{}: {text}", function.name);
        }
    }
    let defaults = datafusion::execution::SessionStateDefaults::default_scalar_functions();
    names.extend(defaults.iter().map(|function| function.name()));
    let defaults = datafusion::execution::SessionStateDefaults::default_aggregate_functions();
    names.extend(defaults.iter().map(|function| function.name()));
    names.sort_unstable();
    let n_names = names.len();
    names.dedup();
    assert_eq!(names.len(), n_names, "a name stands for two functions");
    assert_eq!(FAMILIES.len(), 4);
}

/// A plan has the values, and no calls: what prunes files sees them.
#[tokio::test]
async fn constants_are_folded() {
    let fixture = fixture(&config()).await;
    let id = "4bf92f3577b34da6a3ce929d0e0e4736";
    for (condition, expected) in [
        (
            "trace_id = trace_hex('4BF92F35-77B3-4DA6-A3CE-929D0E0E4736')",
            id,
        ),
        ("name = xid_name(48 + 31)", "GPU has fallen off the bus"),
        ("name = length_band(1)", "lt_128"),
        ("name = attr(MAP {'a': 'found'}, 'a')", "found"),
        ("duration_ns > burn_rate(1, 2, 0.5)", "Float64(1)"),
    ] {
        let sql = format!("EXPLAIN FORMAT INDENT SELECT name FROM spans WHERE {condition}");
        let plan = fixture.ask(&sql).await;
        assert!(plan.contains(expected), "{condition}\n{plan}");
        let call = condition.split(['(']).next().unwrap();
        let call = call.rsplit(' ').next().unwrap();
        assert!(!plan.contains(&format!("{call}(")), "{condition}\n{plan}");
    }
}

/// What DataFusion says of functions to tools knows ours too.
#[tokio::test]
async fn the_catalog_can_be_asked_about_functions() {
    let fixture = fixture(&config()).await;
    for sql in [
        "SELECT count(*) FROM information_schema.routines",
        "SELECT count(*) FROM information_schema.parameters",
    ] {
        assert!(fixture.number(sql).await > 0, "{sql}");
    }
}
