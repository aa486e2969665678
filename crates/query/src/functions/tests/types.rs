//! What may be given for a parameter, and what is said of the rest.

use super::{check, value};
use crate::tests::support::{config, fixture};

const HISTOGRAM: &str = "`latency_histogram` or `histogram_merge`, not";

/// Calls, and what is said of them.
const WRONG: &[(&str, &str)] = &[
    (
        "attr('a', 'b')",
        "`map` of `attr(map MAP(VARCHAR, VARCHAR), key VARCHAR)` must be a map from text to text, not Utf8",
    ),
    (
        "attr(MAP {'a': 1}, 'a')",
        "a map from text to text, not Map",
    ),
    ("attr(attributes, 1)", "`key` of"),
    ("attr(attributes)", "1 arguments are given"),
    ("attr(attributes, 'a', 'b')", "3 arguments are given"),
    ("attr(events, 'a')", "a map from text to text, not List"),
    (
        "trace_hex()",
        "it is `trace_hex(text VARCHAR)`; 0 arguments are given",
    ),
    ("trace_hex(5)", "must be text, not Int64"),
    ("span_hex(true)", "must be text, not Boolean"),
    (
        "xid_name(true)",
        "must be a whole number or text, not Boolean",
    ),
    (
        "xid_name(79.5)",
        "must be a whole number or text, not Float64",
    ),
    ("throttle_reasons('a')", "must be a whole number, not Utf8"),
    (
        "throttle_reasons(1.5)",
        "must be a whole number, not Float64",
    ),
    ("length_band('1')", "must be a whole number, not Utf8"),
    ("burn_rate(1, 2)", "2 arguments are given"),
    ("burn_rate('a', 2, 0.9)", "`bad` of"),
    ("burn_rate(1, 2, DATE '2026-01-01')", "`objective` of"),
    ("weighted_quantile(duration_ns, 1)", "2 arguments are given"),
    ("weighted_quantile(name, 1, 0.5)", "`value` of"),
    ("weighted_quantile(duration_ns, name, 0.5)", "`weight` of"),
    ("weighted_quantile(duration_ns, 1, name)", "`q` of"),
    (
        "weighted_quantile(duration_ns, 1, flags)",
        "must be a constant",
    ),
    (
        "weighted_quantile(duration_ns, 1, 95)",
        "`q` of `weighted_quantile` is a share from 0 to 1, such as 0.95, not 95",
    ),
    (
        "weighted_quantile(duration_ns, 1, -0.1)",
        "a share from 0 to 1",
    ),
    ("weighted_quantile(duration_ns, 1, NULL)", "not NULL"),
    (
        "weighted_quantile(duration_ns, 1, CAST('NaN' AS DOUBLE))",
        "not NaN",
    ),
    (
        "weighted_quantile(DISTINCT duration_ns, 1, 0.5)",
        "leave out DISTINCT",
    ),
    ("latency_histogram(name)", "`value` of"),
    ("latency_histogram(duration_ns, true)", "`weight` of"),
    (
        "latency_histogram(DISTINCT duration_ns)",
        "leave out DISTINCT",
    ),
    ("histogram_merge(duration_ns)", HISTOGRAM),
    ("histogram_merge([1.0])", HISTOGRAM),
    (
        "histogram_quantile([{'le': 1.0, 'count': 1}], 0.5)",
        HISTOGRAM,
    ),
    (
        "histogram_quantile([{'count': 1.0, 'le': 1.0}], 0.5)",
        HISTOGRAM,
    ),
    ("histogram_count(attributes)", HISTOGRAM),
    (
        "histogram_share_below(latency_histogram(duration_ns), 'a')",
        "`seconds` of",
    ),
    ("no_such_function(1)", "Invalid function 'no_such_function'"),
];

#[tokio::test]
async fn a_wrong_argument_is_an_error_of_planning_that_names_it() {
    let fixture = fixture(&config()).await;
    for (call, expected) in WRONG {
        let sql = format!("SELECT {call} FROM spans");
        // The answer has not begun.
        let error = fixture.engine.answer(&sql, None).await.unwrap_err();
        assert!(error.is_users_fault(), "{call}: {error:?}");
        let got = error.explanation();
        assert!(
            got.contains(expected),
            "{call}\n got: {got}\nwant: {expected}"
        );
    }
}

#[tokio::test]
async fn numbers_and_texts_of_any_width_are_taken() {
    check(&[
        ("xid_name(79::SMALLINT)", "GPU has fallen off the bus"),
        ("xid_name(79::INT UNSIGNED)", "GPU has fallen off the bus"),
        ("xid_name(' 79 ')", "GPU has fallen off the bus"),
        (
            "xid_name(arrow_cast('79', 'LargeUtf8'))",
            "GPU has fallen off the bus",
        ),
        (
            "xid_name(arrow_cast('79', 'Dictionary(Int32, Utf8)'))",
            "GPU has fallen off the bus",
        ),
        (
            "trace_hex(arrow_cast('S/kvNXezTaajzpKdDg5HNg==', 'Utf8View'))",
            "4bf92f3577b34da6a3ce929d0e0e4736",
        ),
        ("length_band(arrow_cast(5, 'UInt8'))", "lt_128"),
        ("burn_rate(1::DECIMAL(10, 2), 2::FLOAT, 0.5)", "1.0"),
        (
            "weighted_quantile(v, w, 1) FROM (VALUES (1, 2.5)) AS t(v, w)",
            "1.0",
        ),
        (
            "histogram_count(latency_histogram(v, w)) FROM (VALUES (1, 2)) AS t(v, w)",
            "2.0",
        ),
    ])
    .await;
}

#[tokio::test]
async fn null_gives_null_whatever_its_type() {
    let scalars = [
        "attr(NULL, 'a')",
        "attr(MAP {'a': 'b'}, NULL)",
        "attr(NULL, NULL)",
        "attr(MAP {'a': NULL::VARCHAR}, 'a')",
        "trace_hex(NULL)",
        "span_hex(NULL::VARCHAR)",
        "xid_name(NULL)",
        "xid_name(NULL::VARCHAR)",
        "throttle_reasons(NULL)",
        "length_band(NULL)",
        "burn_rate(NULL, 1, 0.5)",
        "burn_rate(1, NULL, 0.5)",
        "burn_rate(1, 1, NULL)",
        "histogram_quantile(NULL, 0.5)",
        "histogram_count(NULL)",
        "histogram_share_below(NULL, 1)",
        "weighted_quantile(NULL, 1, 0.5)",
        "weighted_quantile(1, NULL, 0.5)",
        "latency_histogram(NULL)",
        "latency_histogram(1, NULL)",
        "histogram_merge(NULL)",
        "histogram_quantile(latency_histogram(1.0), NULL)",
        "histogram_quantile(latency_histogram(NULL), 0.5)",
        "histogram_merge(h) FROM (SELECT latency_histogram(v) AS h FROM (VALUES (1.0)) AS t(v) WHERE v > 1)",
        "weighted_quantile(duration_ns, 1, 0.5) FROM spans",
        "latency_histogram(duration_ns) FROM spans",
    ];
    let fixture = fixture(&config()).await;
    for call in scalars {
        assert_eq!(value(&fixture, call).await.as_deref(), Ok("NULL"), "{call}");
    }
}
