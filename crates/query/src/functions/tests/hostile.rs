//! Values that cannot be, and more of them than fit.

use std::time::Duration;

use super::{check, column, value};
use crate::tests::support::{Fixture, config, fixture};
use crate::{Config, Error};

const MAX: &str = "1.7976931348623157e308";

#[tokio::test]
async fn what_cannot_be_is_null() {
    check(&[
        ("xid_name(0)", "NULL"),
        ("xid_name(-79)", "NULL"),
        ("xid_name(9223372036854775807)", "NULL"),
        ("xid_name('79; DROP TABLE spans')", "NULL"),
        ("xid_name('99999999999999999999')", "NULL"),
        ("throttle_reasons(0)", "[]"),
        ("throttle_reasons(-1)", "NULL"),
        (
            "throttle_reasons(9223372036854775807)",
            "[gpu_idle, clocks_setting, power_cap, hw_slowdown, sync_boost, sw_thermal, hw_thermal, hw_power_brake, display_clocks, unknown]",
        ),
        ("length_band(0)", "lt_128"),
        ("length_band(-1)", "NULL"),
        ("length_band(9223372036854775807)", "ge_32k"),
        ("burn_rate(0, 10, 0.99)", "0.0"),
        ("burn_rate(5, 10, 0)", "0.5"),
        ("burn_rate(0, 0, 0.9)", "NULL"),
        ("burn_rate(1, 0, 0.9)", "NULL"),
        ("burn_rate(1, -1, 0.9)", "NULL"),
        ("burn_rate(-1, 1, 0.9)", "NULL"),
        ("burn_rate(1, 1, 1)", "NULL"),
        ("burn_rate(1, 1, -0.1)", "NULL"),
        ("burn_rate('NaN'::DOUBLE, 1, 0.9)", "NULL"),
        ("burn_rate(1, 'Infinity'::DOUBLE, 0.9)", "NULL"),
        ("burn_rate('Infinity'::DOUBLE, 1, 0.9)", "NULL"),
        ("burn_rate(1, 1, 'NaN'::DOUBLE)", "NULL"),
        (&format!("burn_rate({MAX}, 1e-300, 0.9)"), "NULL"),
    ])
    .await;
}

#[tokio::test]
async fn numbers_that_do_not_fit_are_errors_of_the_statement() {
    let fixture = fixture(&config()).await;
    for call in [
        "throttle_reasons(18446744073709551615)",
        "length_band(18446744073709551615)",
    ] {
        let error = fixture
            .try_ask(&format!("SELECT {call}"))
            .await
            .unwrap_err();
        assert!(error.is_users_fault(), "{call}: {error:?}");
    }
}

const HOSTILE: &str = "(VALUES (1.0, 1.0), ('NaN', 1.0), ('Infinity', 1.0), ('-Infinity', 1.0), (NULL, 1.0), (9.0, NULL), \
    (9.0, 0.0), (9.0, -5.0), (9.0, 'NaN'), (9.0, 'Infinity'), (2.0, 1.0)) AS t(v, w)";

fn hostile(call: &str) -> String {
    format!("{call} FROM (SELECT v::DOUBLE AS v, w::DOUBLE AS w FROM {HOSTILE})")
}

#[tokio::test]
async fn rows_without_a_value_or_a_weight_do_not_count() {
    let fixture = fixture(&config()).await;
    for (call, expected) in [
        ("weighted_quantile(v, w, 0)", "1.0"),
        ("weighted_quantile(v, w, 0.5)", "1.0"),
        ("weighted_quantile(v, w, 0.51)", "2.0"),
        ("weighted_quantile(v, w, 1)", "2.0"),
        ("histogram_count(latency_histogram(v, w))", "2.0"),
        ("histogram_quantile(latency_histogram(v, w), 1)", "2.0"),
        ("histogram_count(latency_histogram(-v, w))", "NULL"),
    ] {
        let got = value(&fixture, &hostile(call)).await;
        assert_eq!(got.as_deref(), Ok(expected), "{call}");
    }
}

#[tokio::test]
async fn weights_may_be_as_large_as_numbers_are() {
    let rows =
        format!("(VALUES (1.0, {MAX}), (2.0, {MAX}), (2.0, {MAX}), (3.0, 1e-308)) AS t(v, w)");
    let fixture = fixture(&config()).await;
    for (call, expected) in [
        ("weighted_quantile(v, w, 0)", "1.0"),
        ("weighted_quantile(v, w, 0.9)", "1.0"),
        (
            "histogram_count(latency_histogram(v, w))",
            "1.7976931348623157e308",
        ),
        ("histogram_quantile(latency_histogram(v, w), 1)", "1.0"),
        ("histogram_share_below(latency_histogram(v, w), 4)", "1.0"),
    ] {
        let got = value(&fixture, &format!("{call} FROM {rows}")).await;
        assert_eq!(got.as_deref(), Ok(expected), "{call}");
    }
}

/// A list may have the type of a histogram and be none.
#[tokio::test]
async fn a_histogram_by_hand_has_our_buckets_or_is_refused() {
    let fixture = fixture(&config()).await;
    let count = |list: &str| format!("histogram_count({list})");
    for (list, expected) in [
        (
            "[{'le': 1.0, 'count': 2.0}, {'le': 0.5, 'count': 1.0}, {'le': 1.0, 'count': 1.0}]",
            Ok("4.0"),
        ),
        ("[{'le': 1.0, 'count': 0.0}]", Ok("0.0")),
        ("[{'le': 1.01, 'count': 1.0}]", Err(())),
        ("[{'le': 1e300, 'count': 1.0}]", Err(())),
        ("[{'le': -1.0, 'count': 1.0}]", Err(())),
        ("[{'le': 1.0, 'count': -1.0}]", Err(())),
        ("[{'le': CAST('NaN' AS DOUBLE), 'count': 1.0}]", Err(())),
        (
            "[{'le': 1.0, 'count': CAST('Infinity' AS DOUBLE)}]",
            Err(()),
        ),
        ("[{'le': 1.0, 'count': CAST(NULL AS DOUBLE)}]", Err(())),
        ("[{'le': CAST(NULL AS DOUBLE), 'count': 1.0}]", Err(())),
    ] {
        match (value(&fixture, &count(list)).await, expected) {
            (Ok(got), Ok(expected)) => assert_eq!(got, expected, "{list}"),
            (Err(message), Err(())) => {
                assert!(
                    message.contains("its buckets have other ends"),
                    "{list}: {message}"
                );
            }
            (got, expected) => panic!("{list}: {got:?}, {expected:?} wanted"),
        }
    }
    let huge = "SELECT histogram_count(array_agg({'le': 1.0, 'count': 1.0})) FROM generate_series(1, 100000)";
    assert_eq!(
        column(&fixture, huge).await.as_deref(),
        Ok(["100000.0".to_owned()].as_slice())
    );
    for q in ["95", "-0.1", "CAST('NaN' AS DOUBLE)"] {
        let message = value(
            &fixture,
            &format!("histogram_quantile(latency_histogram(1.0), {q})"),
        )
        .await;
        let message = message.unwrap_err();
        assert!(message.contains("a share from 0 to 1"), "{q}: {message}");
    }
}

async fn tight() -> Fixture {
    let config = Config {
        memory_mib: 32,
        spill_mib: 0,
        timeout: Duration::from_secs(600),
        ..config()
    };
    fixture(&config).await
}

/// What is kept is counted, so that a statement fails alone and in time.
#[tokio::test]
async fn more_values_than_fit_end_the_statement_and_histograms_do_not_grow() {
    let fixture = tight().await;
    for sql in [
        "SELECT weighted_quantile(v, 1, 0.5) FROM generate_series(1, 3000000) AS t(v)",
        "SELECT v % 7 AS k, weighted_quantile(v, 1, 0.5) FROM generate_series(1, 3000000) AS t(v) GROUP BY k",
        // Not in the order of the groups, or each would be done with at once.
        "SELECT v * 48271 % 2147483647 AS k, latency_histogram(v) FROM generate_series(1, 600000) AS t(v) GROUP BY k",
    ] {
        let error = fixture.try_ask(sql).await.unwrap_err();
        assert!(
            matches!(error, Error::OutOfMemory { .. }),
            "{sql}: {error:?}"
        );
    }
    let sql = "histogram_count(latency_histogram(v)) FROM generate_series(1, 600000) AS t(v)";
    assert_eq!(value(&fixture, sql).await.as_deref(), Ok("600000.0"));
}
