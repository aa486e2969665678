//! Tests of the translation between OTLP/JSON and protobuf.

use opentelemetry_proto::tonic::collector::{
    logs::v1::ExportLogsServiceRequest, metrics::v1::ExportMetricsServiceRequest,
    trace::v1::ExportTraceServiceRequest,
};
use proptest::prelude::*;
use prost::Message;

use super::{from_protobuf, to_protobuf};
use crate::{
    Error, Signal,
    export::{Limits, check, spans},
    span::SpanSummary,
    testing::exercise_json,
};

const EVERY_FIELD: [(Signal, &str); 3] = [
    (
        Signal::Traces,
        include_str!("../../testdata/every-field-traces.json"),
    ),
    (
        Signal::Metrics,
        include_str!("../../testdata/every-field-metrics.json"),
    ),
    (
        Signal::Logs,
        include_str!("../../testdata/every-field-logs.json"),
    ),
];

fn protobuf(signal: Signal, text: &str) -> Result<Vec<u8>, Error> {
    to_protobuf(signal, text.as_bytes(), &Limits::default())
}

/// A request with one span that has these members besides its ids.
fn request(members: &str) -> String {
    let ids = r#""traceId":"7c000001a1b2c3d4e5f60718293a4b5c","spanId":"b0000001c0ffee11""#;
    let comma = if members.is_empty() { "" } else { "," };
    format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{{{ids}{comma}{members}}}]}}]}}]}}"#)
}

/// The canonical JSON of the span that `members` describe, without its ids; or the error.
fn canonical(members: &str) -> String {
    let body = match protobuf(Signal::Traces, &request(members)) {
        Ok(body) => body,
        Err(error) => return format!("error: {error}"),
    };
    let text = from_protobuf(Signal::Traces, &body).unwrap();
    let (_, span) = text.split_once("\"spanId\":\"b0000001c0ffee11\"").unwrap();
    let span = span.strip_suffix("}]}]}]}").unwrap();
    span.strip_prefix(',').unwrap_or(span).to_owned()
}

fn check_span(members: &str, want: &str) {
    assert_eq!(canonical(members), want, "{members}");
}

#[test]
fn every_field_has_the_number_and_type_that_prost_knows() {
    for (signal, text) in EVERY_FIELD {
        let body = protobuf(signal, text).unwrap();
        assert!(check(signal, &body, &Limits::default()).is_ok());
        // What the tables get wrong, prost takes for an unknown field and loses.
        let known = match signal {
            Signal::Traces => ExportTraceServiceRequest::decode(body.as_slice())
                .unwrap()
                .encode_to_vec(),
            Signal::Metrics => ExportMetricsServiceRequest::decode(body.as_slice())
                .unwrap()
                .encode_to_vec(),
            Signal::Logs => ExportLogsServiceRequest::decode(body.as_slice())
                .unwrap()
                .encode_to_vec(),
        };
        let want: serde_json::Value = serde_json::from_str(text).unwrap();
        for body in [body, known] {
            let text = from_protobuf(signal, &body).unwrap();
            assert_eq!(
                serde_json::from_str::<serde_json::Value>(&text).unwrap(),
                want
            );
        }
    }
}

#[test]
fn snake_case_names_are_the_same_fields() {
    for (signal, text) in EVERY_FIELD {
        let mut snake = String::new();
        // Every second piece between quotes is a string; names are those before a colon.
        for (i, piece) in text.split('"').enumerate() {
            let is_name = i % 2 == 1 && text.contains(&format!("\"{piece}\":"));
            for c in piece.chars() {
                if is_name && c.is_ascii_uppercase() {
                    snake.push('_');
                }
                snake.push(if is_name { c.to_ascii_lowercase() } else { c });
            }
            snake.push('"');
        }
        snake.pop();
        assert!(
            snake.contains("schema_url") && !snake.contains("schemaUrl"),
            "{snake}"
        );
        assert_eq!(protobuf(signal, &snake), protobuf(signal, text));
    }
}

#[test]
fn numbers_are_exact_and_may_be_strings() {
    let at = |value: &str| format!(r#""attributes":[{{"key":"k","value":{value}}}]"#);
    let check = |value: &str, want: &str| check_span(&at(value), &at(want));
    check(
        r#"{"intValue":9223372036854775807}"#,
        r#"{"intValue":"9223372036854775807"}"#,
    );
    check(
        r#"{"intValue":"-9223372036854775808"}"#,
        r#"{"intValue":"-9223372036854775808"}"#,
    );
    check(
        r#"{"intValue":9007199254740993}"#,
        r#"{"intValue":"9007199254740993"}"#,
    );
    check(r#"{"intValue":0}"#, r#"{"intValue":"0"}"#);
    check(r#"{"intValue":1e3}"#, r#"{"intValue":"1000"}"#);
    check(r#"{"intValue":"2.0"}"#, r#"{"intValue":"2"}"#);
    check(r#"{"doubleValue":2}"#, r#"{"doubleValue":2}"#);
    check(r#"{"doubleValue":"2.5"}"#, r#"{"doubleValue":2.5}"#);
    check(r#"{"doubleValue":"NaN"}"#, r#"{"doubleValue":"NaN"}"#);
    check(
        r#"{"doubleValue":"-Infinity"}"#,
        r#"{"doubleValue":"-Infinity"}"#,
    );
    check(r#"{"doubleValue":5e-324}"#, r#"{"doubleValue":5e-324}"#);
    check(r#"{"double_value":-0}"#, r#"{"doubleValue":-0}"#);
    check_span(
        r#""startTimeUnixNano":18446744073709551615,"endTimeUnixNano":1.7723664e18"#,
        r#""startTimeUnixNano":"18446744073709551615","endTimeUnixNano":"1772366400000000000""#,
    );
}

#[test]
fn values_that_a_field_cannot_have_are_errors_with_name_and_place() {
    let check = |members: &str, field: &'static str| {
        let error = protobuf(Signal::Traces, &request(members)).unwrap_err();
        assert!(
            matches!(error, Error::JsonValue { field: found, .. } if found == field),
            "{members}: {error}"
        );
        assert!(error.is_json());
    };
    let value = |value: &str| format!(r#""attributes":[{{"key":"k","value":{value}}}]"#);
    check(&value(r#"{"intValue":9223372036854775808}"#), "intValue");
    check(&value(r#"{"intValue":1.5}"#), "intValue");
    check(&value(r#"{"intValue":" 1"}"#), "intValue");
    check(&value(r#"{"intValue":"0x10"}"#), "intValue");
    check(&value(r#"{"doubleValue":1e999}"#), "doubleValue");
    check(&value(r#"{"doubleValue":"inf"}"#), "doubleValue");
    check(&value(r#"{"boolValue":"true"}"#), "boolValue");
    check(&value(r#"{"stringValue":1}"#), "stringValue");
    check(&value(r#"{"bytesValue":"%"}"#), "bytesValue");
    check(&value(r#"{"arrayValue":[]}"#), "arrayValue");
    check(&value(r#"{"arrayValue":{"values":[null]}}"#), "values");
    check(r#""attributes":{}"#, "attributes");
    check(r#""attributes":[1]"#, "attributes");
    check(r#""startTimeUnixNano":-1"#, "startTimeUnixNano");
    check(
        r#""startTimeUnixNano":18446744073709551616"#,
        "startTimeUnixNano",
    );
    check(r#""droppedEventsCount":4294967296"#, "droppedEventsCount");
    check(r#""kind":"SPAN_KIND_NEW""#, "kind");
    check(r#""kind":2147483648"#, "kind");
    check(r#""status":{"code":{}}"#, "code");
    check(r#""status":[]"#, "status");
    check(r#""name":["x"]"#, "name");
}

#[test]
fn enums_are_numbers_or_names() {
    check_span(r#""kind":2"#, r#""kind":2"#);
    check_span(r#""kind":"2""#, r#""kind":2"#);
    check_span(r#""kind":"SPAN_KIND_CLIENT""#, r#""kind":3"#);
    check_span(r#""kind":"server""#, r#""kind":2"#);
    check_span(r#""kind":42"#, r#""kind":42"#);
    check_span(r#""kind":-1"#, r#""kind":-1"#);
    check_span(r#""kind":"SPAN_KIND_UNSPECIFIED""#, "");
    check_span(r#""status":{"code":"ERROR"}"#, r#""status":{"code":2}"#);
    check_span(
        r#""status":{"code":"status_code_ok"}"#,
        r#""status":{"code":1}"#,
    );
}

#[test]
fn absent_null_unknown_and_empty_are_no_errors() {
    check_span("", "");
    check_span(
        r#""name":null,"kind":null,"status":null,"attributes":null,"parentSpanId":null"#,
        "",
    );
    check_span(r#""status":{}"#, r#""status":{}"#);
    check_span(r#""new":{"a":[1,{"b":null}],"c":"]"},"attributes":[]"#, "");
    check_span(
        r#""attributes":[{"key":"a","value":{}},{"key":"b","value":{"newValue":[1]}},{"key":"c"}]"#,
        r#""attributes":[{"key":"a","value":{}},{"key":"b","value":{}},{"key":"c"}]"#,
    );
    check_span(r#""name":"a","name":"b""#, r#""name":"b""#);
    check_span(
        r#""events":[{"timeUnixNano":"0","name":""}]"#,
        r#""events":[{}]"#,
    );
}

#[test]
fn strings_keep_what_they_say() {
    check_span(
        r#""name":"\u00e9\ud83d\ude00\n\"\\\/""#,
        "\"name\":\"\u{e9}\u{1f600}\\n\\\"\\\\/\"",
    );
    check_span(r#""name":"\ud83d""#, "\"name\":\"\u{fffd}\"");
    check_span(
        r#""name":"\ud83d\u0041\udc00""#,
        "\"name\":\"\u{fffd}A\u{fffd}\"",
    );
    check_span(
        "\"name\":\"a\nb\"",
        "error: invalid JSON at byte 126: expected no control character",
    );
}

#[test]
fn ids_are_hex_and_others_do_not_refuse_the_request() {
    let span_ids = |trace_id: &str, span_id: &str| {
        let text = format!(
            r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[
                {{"traceId":{trace_id},"spanId":{span_id},"parentSpanId":{span_id}}}]}}]}}]}}"#
        );
        let body = protobuf(Signal::Traces, &text).unwrap();
        let checked = check(Signal::Traces, &body, &Limits::default()).unwrap();
        assert_eq!(checked.n_items + checked.n_rejected, 1);
        let accepted = spans(&body, &Limits::default()).next()?.unwrap();
        let summary = SpanSummary::read(accepted.span).unwrap();
        assert_eq!(summary.parent_span_id, Some(summary.span_id));
        Some(format!("{} {}", summary.trace_id, summary.span_id))
    };
    let valid = Some("5b8efff798038103d269b633813fc60c eee19b7ec3c1b174".to_owned());
    let hex = (
        r#""5B8EFFF798038103D269B633813FC60C""#,
        r#""eee19b7ec3c1b174""#,
    );
    assert_eq!(span_ids(hex.0, hex.1), valid);
    for trace_id in [
        r#""""#,
        "null",
        "7",
        "true",
        "{}",
        r#"["5b8efff798038103d269b633813fc60c"]"#,
        r#""00000000000000000000000000000000""#,
        r#""98038103d269b633""#,
        r#""5b8efff798038103d269b633813fc60c00""#,
        r#""5b8efff798038103d269b633813fc60""#,
        r#""5b8efff798038103d269b633813fc60g""#,
        // 16 characters must not be taken for 16 bytes.
        r#""not-an-id-really""#,
        // Base64 of another length.
        r#""7uGbfsPBsXQ=""#,
    ] {
        assert_eq!(span_ids(trace_id, hex.1), None, "{trace_id}");
    }
}

#[test]
fn ids_in_base64_refuse_the_request_and_say_which_field() {
    for (field, id) in [
        ("traceId", "W47/95gDgQPSabYzgT/GDA=="),
        ("traceId", "W47_95gDgQPSabYzgT_GDA=="),
        ("traceId", "AAAAAAAAAAAAAAAAAAAAAA=="),
        ("spanId", "7uGbfsPBsXQ="),
        ("parentSpanId", "7uGbfsPBsXQ="),
    ] {
        let text = format!(
            r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{{"{field}":"{id}"}}]}}]}}]}}"#
        );
        let error = protobuf(Signal::Traces, &text).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("value of `{field}` at byte ")),
            "{error}"
        );
    }
}

#[test]
fn text_that_is_not_one_json_object_is_refused() {
    let check = |text: &[u8], want: &str| {
        let error = to_protobuf(Signal::Traces, text, &Limits::default()).unwrap_err();
        assert_eq!(error.to_string(), want, "{}", text.escape_ascii());
    };
    check(b"", "invalid JSON at byte 0: expected an object");
    check(b"[]", "invalid JSON at byte 0: expected an object");
    check(b"null", "invalid JSON at byte 0: expected an object");
    check(b"{} x", "invalid JSON at byte 3: expected the end");
    check(
        b"{\"a\":1,}",
        "invalid JSON at byte 7: expected a value behind `,`",
    );
    check(b"{\"a\" 1}", "invalid JSON at byte 5: expected `:`");
    check(b"{\"a\":01}", "invalid JSON at byte 6: expected `,` or `}`");
    check(b"{\"a\":tru}", "invalid JSON at byte 5: expected true");
    check(b"{\"a\":\"x", "invalid JSON at byte 7: expected `\"`");
    check(
        b"{\"resourceSpans\":[",
        "invalid JSON at byte 18: expected `,` or `]`",
    );
    check(b"{\"a\":\"\xff\"}", "string field 0 at byte 6 is not UTF-8");
    check(
        b"\xef\xbb\xbf{}",
        "invalid JSON at byte 0: expected an object",
    );
}

#[test]
fn depth_is_limited_for_values_and_for_what_is_unknown() {
    let nested = |levels: usize| {
        let open = r#"{"arrayValue":{"values":["#.repeat(levels);
        let close = "]}}".repeat(levels);
        request(&format!(
            r#""attributes":[{{"key":"k","value":{open}{{}}{close}}}]"#
        ))
    };
    let limits = Limits::default();
    let body = protobuf(Signal::Traces, &nested(63)).unwrap();
    assert_eq!(check(Signal::Traces, &body, &limits).unwrap().n_items, 1);
    assert!(from_protobuf(Signal::Traces, &body).is_ok());
    for levels in [64, 65, 300, 3000, 100_000] {
        assert!(
            protobuf(Signal::Traces, &nested(levels))
                .unwrap_err()
                .is_too_deep()
        );
    }
    let unknown = |levels: usize| {
        let (open, close) = ("[".repeat(levels), "]".repeat(levels));
        protobuf(Signal::Logs, &format!(r#"{{"x":{open}{close}}}"#))
    };
    assert!(unknown(256).is_ok());
    assert!(unknown(257).unwrap_err().is_too_deep());
    assert!(unknown(100_000).unwrap_err().is_too_deep());
}

#[test]
fn text_cut_or_changed_at_every_byte_never_panics() {
    let (_, text) = EVERY_FIELD[0];
    let compact = serde_json::from_str::<serde_json::Value>(text)
        .unwrap()
        .to_string();
    for i in 0..compact.len() {
        assert!(to_protobuf(Signal::Traces, &compact.as_bytes()[..i], &Limits::default()).is_err());
        for byte in *b"\"{" {
            let mut changed = compact.clone().into_bytes();
            changed[i] = byte;
            exercise_json(&changed);
        }
    }
}

proptest! {
    #[test]
    fn what_is_json_is_decided_as_serde_json_does(
        pieces in proptest::collection::vec(
            prop::sample::select(vec![
                "{", "}", "[", "]", ",", ":", "\"", "\"a\"", "\"a\":", "1", "-", "0", ".5", "e", "E+1",
                "true", "false", "null", " ", "\n", "\\", "\\n", "\\u00e9", "x",
                "\u{e9}", "\t", "[]", "{}", "[1,2]", "\"\":",
            ]),
            0..14,
        ),
    ) {
        let text = format!("{{\"unknown\":{}}}", pieces.concat());
        let ours = protobuf(Signal::Logs, &text);
        let theirs = serde_json::from_str::<serde_json::Value>(&text);
        let out_of_range = matches!(&theirs, Err(e) if e.to_string().starts_with("number out of range"));
        prop_assert!(ours.is_ok() == theirs.is_ok() || out_of_range, "{text}: {ours:?} {theirs:?}");
        exercise_json(text.as_bytes());
    }
}
