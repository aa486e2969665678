//! Queries, what is made of them, and what is said of the others.

use proptest::prelude::*;

use super::{NESTING_MAX, Unreadable, parse, parse_field};
use crate::find::{Condition, Draft, Window};

const WINDOW: Window = Window {
    start_unix_nano: 0,
    end_unix_nano: 0,
};

/// The SQL of a query with its values in place, for the eye.
fn sql(condition: &Condition) -> String {
    let mut draft = Draft::default();
    let mut sql = condition.sql(WINDOW, &mut draft);
    for (place, value) in draft.parameters.iter().enumerate().rev() {
        sql = sql.replace(&format!("${}", place + 1), &format!("<{value}>"));
    }
    sql
}

/// Queries with their conditions.
const READ: &[(&str, &str)] = &[
    ("", "TRUE"),
    (" { } ", "TRUE"),
    ("{ true }", "TRUE"),
    ("{false}", "FALSE"),
    (
        "{resource.service.name=\"rag-api\" && name=\"POST /chat\"}",
        "(service_name = <rag-api> AND name = <POST /chat>)",
    ),
    ("{duration>1.5s}", "duration_ns > <1500000000>"),
    (
        "{duration>=100ms && span:duration<2m}",
        "(duration_ns >= <100000000> AND duration_ns < <120000000000>)",
    ),
    ("{status=error}", "status_code = <ERROR>"),
    (
        "{(status=error || status=unset) && kind!=server}",
        "((status_code = <ERROR> OR status_code = <UNSET>) AND kind <> <SERVER>)",
    ),
    (
        "{resource.service.name=~\"a|b\"}",
        "service_name ~ <^(?:a|b)$>",
    ),
    ("{name!~\"GET.*\"}", "name !~ <^(?:GET.*)$>"),
    (
        "{span.foo=\"bar\" && span.n > 3 && span.x<=0.5}",
        "(attributes[<foo>] = <bar> AND TRY_CAST(attributes[<n>] AS DOUBLE) > <3> \
         AND TRY_CAST(attributes[<x>] AS DOUBLE) <= <0.5>)",
    ),
    (
        "{.foo=\"bar\"}",
        "COALESCE(attributes[<foo>], resource_attributes[<foo>]) = <bar>",
    ),
    (
        "{.http.response.status_code=500}",
        "TRY_CAST(COALESCE(CAST(http_response_status_code AS VARCHAR), \
         resource_attributes[<http.response.status_code>]) AS DOUBLE) = <500>",
    ),
    (
        "{span.http.response.status_code>=500}",
        "http_response_status_code >= <500>",
    ),
    ("{span.\"a key\" = true}", "attributes[<a key>] = <true>"),
    ("{span.foo != nil}", "attributes[<foo>] IS NOT NULL"),
    ("{resource.foo = nil}", "resource_attributes[<foo>] IS NULL"),
    ("{nestedSetParent<0}", "parent_span_id IS NULL"),
    ("{span:parentID = nil}", "parent_span_id IS NULL"),
    ("{trace:id=\"ABC\"}", "trace_id = <abc>"),
    (
        "{span.gen_ai.response.finish_reasons = \"stop\"}",
        "array_has(gen_ai_response_finish_reasons, <stop>)",
    ),
    (
        "{traceDuration > 1s}",
        "trace_id IN (SELECT trace_id FROM traces WHERE start_time >= <-3600000000> \
         AND start_time <= <3600000000> AND duration_ns > <1000000000>)",
    ),
    (
        "{rootServiceName = `a\\b`}",
        "trace_id IN (SELECT trace_id FROM traces WHERE start_time >= <-3600000000> \
         AND start_time <= <3600000000> AND root_service_name = <a\\b>)",
    ),
    (
        "{name=\"a\\\"b\\\\c\\n\\u00e9\"}",
        "name = <a\"b\\c\n\u{e9}>",
    ),
    (
        "{ span.foo = \"x\" || span.bar = \"y\" && name = \"z\" }",
        "(attributes[<foo>] = <x> OR (attributes[<bar>] = <y> AND name = <z>))",
    ),
    (
        "{span.n = -5}",
        "TRY_CAST(attributes[<n>] AS DOUBLE) = <-5>",
    ),
];

#[test]
fn what_grafanas_search_builder_writes_becomes_a_condition() {
    for (query, expected) in READ {
        let condition = parse(query).unwrap_or_else(|error| panic!("{query}: {error}"));
        assert_eq!(sql(&condition), *expected, "{query}");
    }
}

#[test]
fn anything_else_is_refused_by_its_name_and_place() {
    for (query, place, what) in [
        ("{} | count() > 2", 4, "a pipeline"),
        ("{ status = error } | rate()", 20, "a pipeline"),
        ("{.a=1} && {.b=2}", 8, "a second set of conditions"),
        ("{.a=1} || {.b=2}", 8, "a second set of conditions"),
        ("{.a=1} >> {.b=2}", 8, "a second set of conditions"),
        ("{} with (most_recent=true)", 4, "a hint"),
        ("name = \"x\"", 1, "a query without braces"),
        ("{event:name=\"x\"}", 2, "a condition on events"),
        ("{event.exception.type=\"x\"}", 2, "a condition on events"),
        ("{link:traceID=\"x\"}", 2, "a condition on links"),
        ("{parent.foo=\"x\"}", 2, "a condition on the parent"),
        (
            "{instrumentation.foo=\"x\"}",
            2,
            "an attribute of the instrumentation scope",
        ),
        ("{childCount > 2}", 2, "this field"),
        ("{span.a + 1 = 2}", 9, "arithmetic"),
        ("{span.a = 2 * 3}", 13, "arithmetic"),
        ("{span.a = span.b}", 11, "a field on both sides"),
        ("{span.a = name}", 11, "a field on both sides"),
        ("{1s < duration}", 2, "a value on the left side"),
        ("{.foo}", 6, "a field without a comparison"),
        ("{!(.foo = 1)}", 2, "`!` before a condition"),
        ("{nestedSetParent = 5}", 2, "`nestedSetParent < 0`"),
        ("{name=5}", 7, "expected a text in quotes, found `5`"),
        ("{duration>5}", 11, "expected a time span"),
        ("{duration=\"1s\"}", 11, "expected a time span"),
        ("{status>error}", 9, "`=` or `!=` and ok, error or unset"),
        ("{status=server}", 9, "`=` or `!=` and ok, error or unset"),
        ("{kind=maybe}", 7, "expected a value"),
        ("{span.a=~5}", 10, "a regular expression in quotes"),
        ("{span.a>nil}", 9, "`=` or `!=` before nil"),
        ("{span.a=}", 9, "expected a value"),
        ("{span.a}", 8, "a field without a comparison"),
        ("{span.a \"x\"}", 9, "expected an operator"),
        ("{", 2, "found the end"),
        ("{name=\"x\"", 10, "found the end"),
        ("{name=\"x", 9, "the closing `\"`"),
        ("{name=`x", 9, "the closing backquote"),
        ("{name=\"\\q\"}", 9, "an escape"),
        ("{name=\"\\ud800\"}", 9, "an escape"),
        ("{(name=\"x\"}", 11, "expected `)`"),
        ("{name=\"x\" name=\"y\"}", 11, "expected `}`"),
        ("{name=\"x\"} x", 12, "the end of the query"),
        ("{span.a=1.2.3}", 9, "a number"),
        ("{span.a=9e999}", 9, "a number"),
    ] {
        let error = parse(query).expect_err(query).to_string();
        assert!(error.contains(what), "{query}: {error}");
        assert!(
            error.contains(&format!("character {place}:")),
            "{query}: {error}"
        );
    }
}

#[test]
fn size_depth_and_number_have_limits() {
    let deep = |n: usize| format!("{{{}name=\"x\"{}}}", "(".repeat(n), ")".repeat(n));
    parse(&deep(NESTING_MAX)).unwrap();
    for n in [NESTING_MAX + 1, 5_000] {
        let error = parse(&deep(n)).unwrap_err();
        assert!(matches!(error, Unreadable::TooDeep { .. }), "{error}");
    }
    let many = vec!["name=\"x\""; 65].join("||");
    let error = parse(&format!("{{{many}}}")).unwrap_err();
    assert!(matches!(error, Unreadable::TooMany { .. }), "{error}");
    let error = parse(&"{".repeat(1 << 20)).unwrap_err();
    assert!(matches!(error, Unreadable::TooLong { .. }), "{error}");
}

#[test]
fn a_field_alone_is_read_as_it_stands_in_an_address() {
    for (text, expected) in [
        ("resource.service.name", "service_name"),
        (
            "service.name",
            "COALESCE(attributes[<service.name>], service_name)",
        ),
        (
            ".foo",
            "COALESCE(attributes[<foo>], resource_attributes[<foo>])",
        ),
        (
            "foo",
            "COALESCE(attributes[<foo>], resource_attributes[<foo>])",
        ),
        ("span.\"a b\"", "attributes[<a b>]"),
        ("status", "status_code"),
        ("span:name", "name"),
        ("duration", "CAST(duration_ns AS VARCHAR)"),
        (
            "x'] OR 1=1 --",
            "COALESCE(attributes[<x'] OR 1=1 -->], resource_attributes[<x'] OR 1=1 -->])",
        ),
    ] {
        let mut draft = Draft::default();
        let mut sql = parse_field(text).unwrap().text_sql(&mut draft);
        for (place, value) in draft.parameters.iter().enumerate().rev() {
            sql = sql.replace(&format!("${}", place + 1), &format!("<{value}>"));
        }
        assert_eq!(sql, expected, "{text}");
    }
    for text in ["event:name", "link.foo", "parent.x", "a:b"] {
        assert!(parse_field(text).is_err(), "{text}");
    }
}

/// Pieces that a query is made of, and what is not one.
const PIECES: &[&str] = &[
    "{",
    "}",
    "(",
    ")",
    "&&",
    "||",
    "|",
    "&",
    "=",
    "!=",
    "=~",
    "!~",
    "<",
    ">=",
    "!",
    ".",
    "..",
    ":",
    "\"",
    "`",
    "\\",
    " ",
    "name",
    "status",
    "error",
    "nil",
    "true",
    "span.",
    "resource.service.name",
    ".foo",
    "duration",
    "1s",
    "5",
    "-",
    "1.5",
    "\"x\"",
    "\u{e9}",
    "\0",
    "event:name",
    "by(",
    "'",
    "$1",
    "--",
    ";",
];

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "\\PC*") {
        parse(&text).ok();
        parse_field(&text).ok();
    }

    /// What is read has values only in parameters: its SQL holds nothing of the text beyond names of our columns.
    #[test]
    fn no_arrangement_of_pieces_makes_it_panic_or_reach_the_sql(
        pieces in prop::collection::vec(prop::sample::select(PIECES), 0..40)
    ) {
        let text = format!("{{{}}}", pieces.concat());
        if let Ok(condition) = parse(&text) {
            let mut draft = Draft::default();
            let sql = condition.sql(WINDOW, &mut draft);
            prop_assert!(!sql.contains(['"', '`', ';', '\0', '\\', '\u{e9}']), "{sql}");
            prop_assert!(!sql.contains("--"), "{sql}");
        }
    }

    /// A text of any characters, quoted, is what is compared with.
    #[test]
    fn a_quoted_text_is_the_parameter(text in any::<String>()) {
        let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
        if quoted.len() < 10_000 {
            let condition = parse(&format!("{{span.k = \"{quoted}\"}}")).unwrap();
            let mut draft = Draft::default();
            let sql = condition.sql(WINDOW, &mut draft);
            prop_assert_eq!(sql, "attributes[$1] = $2");
            prop_assert_eq!(&draft.parameters[1], &datafusion::common::ScalarValue::from(text));
        }
    }
}
