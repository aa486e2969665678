//! Trouble that real receivers had, as data: `testdata/cases`, all times around 2026-03-01T12:00Z.

use serde_json::Value as Json;

use super::crate_path;
use crate::{
    Error, Signal, TraceId,
    attribute::{self, Value, lookup},
    export::{Checked, Limits, TimeWindow, check, spans},
    json::{from_protobuf, to_protobuf},
    span::{SpanKind, SpanSummary, StatusCode, events, links},
    testing::T0,
};

fn file(name: &str) -> Vec<u8> {
    std::fs::read(crate_path("testdata/cases").join(name)).unwrap()
}

fn protobuf(json: &[u8]) -> Result<Vec<u8>, Error> {
    to_protobuf(Signal::Traces, json, &Limits::default())
}

fn check_traces(body: &[u8]) -> Result<Checked, Error> {
    check(Signal::Traces, body, &Limits::default())
}

fn summaries(body: &[u8]) -> Vec<SpanSummary<'_>> {
    spans(body, &Limits::default())
        .map(|at| SpanSummary::read(at.unwrap().span).unwrap())
        .collect()
}

/// An attribute of a span as text; `None` if there is none.
fn text_of(span: &[u8], key: &str) -> Option<String> {
    let mut text = String::new();
    lookup(attribute::of_span(span), key)?.write_text(&mut text);
    Some(text)
}

#[test]
fn c01_spans_with_invalid_ids_are_rejected_and_counted() {
    let body = protobuf(&file("C01.json")).unwrap();
    let checked = check_traces(&body).unwrap();
    assert_eq!(
        (checked.n_items, checked.n_rejected, checked.n_invalid_ids),
        (2, 5, 5)
    );
    assert_eq!(
        checked.message.as_deref(),
        Some(
            "5 spans rejected (5 with an invalid id, 0 outside the accepted time); the first is \
             span 1 (from 0): trace id is all zero"
        )
    );
    let trace_id = TraceId::parse_hex("7c000001a1b2c3d4e5f60718293a4b5c").unwrap();
    let stored = summaries(&body);
    assert_eq!(stored.len(), 2);
    assert!(stored.iter().all(|span| span.trace_id == trace_id));
}

#[test]
fn c02_ids_of_any_case_join_and_leading_zeros_count() {
    let script: Json = serde_json::from_slice(&file("C02.json")).unwrap();
    let bodies: Vec<_> = script["requests"]
        .as_array()
        .unwrap()
        .iter()
        .map(|request| protobuf(request.to_string().as_bytes()).unwrap())
        .collect();
    let stored: Vec<_> = bodies.iter().flat_map(|body| summaries(body)).collect();
    assert_eq!(stored.len(), 2);
    assert_eq!(stored[0].trace_id, stored[1].trace_id);
    assert_eq!(stored[1].parent_span_id, Some(stored[0].span_id));
    let text = script["expect"]["trace_id_text"].as_str().unwrap();
    assert_eq!(stored[0].trace_id.to_hex(), text);
    for lookup in script["lookups"].as_array().unwrap() {
        assert_eq!(
            TraceId::parse_hex(lookup.as_str().unwrap()),
            Ok(stored[0].trace_id)
        );
    }
    for other in script["must_not_match"].as_array().unwrap() {
        assert!(TraceId::parse_hex(other.as_str().unwrap()).is_err());
    }
}

#[test]
fn c04_integers_are_exact_and_enum_names_are_not_lost() {
    let body = protobuf(&file("C04.json")).unwrap();
    assert_eq!(check_traces(&body).unwrap().n_items, 4);
    let at: Vec<_> = spans(&body, &Limits::default())
        .map(Result::unwrap)
        .collect();
    let [strings, numbers, names, future] = summaries(&body).try_into().unwrap();
    assert_eq!(strings.start_time_unix_nano, T0);
    assert_eq!(
        (strings.start_time_unix_nano, strings.end_time_unix_nano),
        (numbers.start_time_unix_nano, numbers.end_time_unix_nano)
    );
    let value = |i: usize, key: &str| lookup(attribute::of_span(at[i].span), key);
    for i in 0..4 {
        assert_eq!(
            value(i, "gen_ai.usage.completion_tokens"),
            Some(Value::Int(42))
        );
        assert_eq!(value(i, "big"), Some(Value::Int(i64::MAX)));
    }
    assert_eq!(
        value(1, "over_2_53"),
        Some(Value::Int(9_007_199_254_740_993))
    );
    assert_eq!(value(1, "whole_double"), Some(Value::Double(2.0)));
    assert_eq!(value(1, "double_as_string"), Some(Value::Double(2.5)));
    assert_eq!(
        (names.kind, names.status_code),
        (SpanKind::Server, StatusCode::Error)
    );
    assert_eq!(names.status_message, "boom");
    assert_eq!(
        (future.kind, future.status_code),
        (SpanKind::Unspecified, StatusCode::Unset)
    );
}

#[test]
fn c05_unknown_fields_and_empty_values_are_no_errors() {
    let body = protobuf(&file("C05.json")).unwrap();
    assert_eq!(check_traces(&body).unwrap().n_items, 2);
    let first = spans(&body, &Limits::default()).next().unwrap().unwrap();
    let value = |key: &str| lookup(attribute::of_span(first.span), key);
    assert_eq!(value("ok"), Some(Value::Str("yes")));
    for key in ["empty", "new_variant", "valueless"] {
        assert_eq!(value(key), Some(Value::Empty), "{key}");
    }
    let minimal = summaries(&body)[1];
    assert_eq!(
        (minimal.kind, minimal.status_code),
        (SpanKind::Unspecified, StatusCode::Unset)
    );
}

#[test]
fn c07_nesting_has_one_limit_in_json_and_protobuf() {
    let body = protobuf(&file("C07-depth8.json")).unwrap();
    assert_eq!(check_traces(&body).unwrap().n_items, 1);
    let span = spans(&body, &Limits::default())
        .next()
        .unwrap()
        .unwrap()
        .span;
    let text = text_of(span, "d").unwrap();
    assert_eq!(
        text,
        format!("{}\"bottom\"{}", "{\"k\":".repeat(8), "}".repeat(8))
    );

    assert!(
        protobuf(&file("C07-depth300.json"))
            .unwrap_err()
            .is_too_deep()
    );
    let deep = file("C07-depth3000.pb");
    assert!(check_traces(&deep).unwrap_err().is_too_deep());
    assert!(
        from_protobuf(Signal::Traces, &deep)
            .unwrap_err()
            .is_too_deep()
    );
    // Reading what was never checked does not overflow the stack either.
    let span = spans(&deep, &Limits::default())
        .next()
        .unwrap()
        .unwrap()
        .span;
    for attribute in attribute::of_span(span) {
        attribute.unwrap().1.write_text(&mut String::new());
    }
}

#[test]
fn c08_of_repeated_keys_the_last_value_wins() {
    let body = protobuf(&file("C08.json")).unwrap();
    assert_eq!(check_traces(&body).unwrap().n_items, 2);
    let first = spans(&body, &Limits::default()).next().unwrap().unwrap();
    let value = |key: &str| lookup(attribute::of_span(first.span), key);
    assert_eq!(value("http.status_code"), Some(Value::Str("503")));
    assert_eq!(value("nodeType"), Some(Value::Str("Compute")));
    let service = lookup(attribute::of_resource(first.resource), "service.name");
    assert_eq!(service, Some(Value::Str("vllm-second")));
}

#[test]
fn c10_spans_outside_the_time_window_are_rejected() {
    let json = file("C10.json");
    let body = protobuf(&json).unwrap();
    let day = 24 * 3600 * 1_000_000_000;
    let limits = Limits {
        time_window: Some(TimeWindow {
            earliest_unix_nano: T0 - 30 * day,
            latest_unix_nano: T0 + day / 24,
        }),
        ..Limits::default()
    };
    let checked = check(Signal::Traces, &body, &limits).unwrap();
    assert_eq!(
        (
            checked.n_items,
            checked.n_rejected,
            checked.n_outside_window
        ),
        (1, 7, 7)
    );
    let accepted: Vec<_> = spans(&body, &limits)
        .map(|at| SpanSummary::read(at.unwrap().span).unwrap().name.to_owned())
        .collect();
    assert_eq!(accepted, ["case-101"]);
    // Without a window all are kept, and none has a duration that wraps.
    assert_eq!(check_traces(&body).unwrap().n_items, 8);
    for span in summaries(&body) {
        assert_eq!(
            span.start_time_unix_nano + span.duration_ns(),
            span.end_time_unix_nano
        );
    }
}

#[test]
fn c11_empty_envelopes_are_a_success_without_spans() {
    let script: Json = serde_json::from_slice(&file("C11.json")).unwrap();
    for entry in script.as_array().unwrap() {
        let name = &entry["name"];
        if entry["method"] == "GET" {
            continue;
        }
        let is_metrics = entry["path"] == "/v1/metrics";
        let signal = if is_metrics {
            Signal::Metrics
        } else {
            Signal::Traces
        };
        let text = entry["body"].as_str().unwrap().as_bytes();
        let body = if entry["content_type"] == "application/json" {
            to_protobuf(signal, text, &Limits::default())
        } else {
            Ok(text.to_vec())
        };
        let checked = body.and_then(|body| check(signal, &body, &Limits::default()));
        match entry["expect"].as_i64() {
            Some(200) => assert_eq!(checked, Ok(Checked::default()), "{name}"),
            _ => assert!(checked.is_err(), "{name}"),
        }
    }
}

#[test]
fn c14_a_string_cut_inside_a_character_refuses_the_request() {
    let error = check_traces(&file("C14.pb")).unwrap_err();
    assert!(error.is_utf8());
    assert_eq!(error.to_string(), "string field 1 at byte 195 is not UTF-8");
    assert_eq!(check_traces(&file("C14-valid.pb")).unwrap().n_items, 2);
}

#[test]
fn c16_events_links_flags_and_counts_are_kept() {
    let body = protobuf(&file("C16.json")).unwrap();
    assert_eq!(check_traces(&body).unwrap().n_items, 4);
    let [failed, ok, unset, message] = summaries(&body).try_into().unwrap();
    assert_eq!((failed.flags & 0xff, failed.flags & 0x300), (1, 0x300));
    assert_eq!(failed.trace_state, "ot=th:8;rv:abcdef01234567,vendor=x");
    assert_eq!(failed.dropped_attributes_count, 7);
    assert_eq!(
        (failed.dropped_events_count, failed.dropped_links_count),
        (2, 1)
    );
    let codes = [failed, ok, unset, message].map(|span| span.status_code);
    assert_eq!(
        codes,
        [
            StatusCode::Error,
            StatusCode::Ok,
            StatusCode::Unset,
            StatusCode::Unset
        ]
    );
    assert_eq!(message.status_message, "ignored?");

    let span = spans(&body, &Limits::default())
        .next()
        .unwrap()
        .unwrap()
        .span;
    let [exception, nameless, early] = events(span)
        .collect::<Result<Vec<_>, _>>()
        .unwrap()
        .try_into()
        .unwrap();
    assert_eq!(
        (exception.name, exception.dropped_attributes_count),
        ("exception", 3)
    );
    assert_eq!(
        lookup(exception.attributes(), "exception.stacktrace"),
        Some(Value::Str("line1\nline2"))
    );
    assert_eq!((nameless.time_unix_nano, nameless.name), (0, ""));
    assert!(early.time_unix_nano < failed.start_time_unix_nano);

    let links: Vec<_> = links(span).map(Result::unwrap).collect();
    let is_valid = |i: usize| (links[i].trace_id.is_some(), links[i].span_id.is_some());
    assert_eq!(
        [is_valid(0), is_valid(1), is_valid(2)],
        [(true, true), (false, true), (false, false)]
    );
    assert_eq!(links[0].flags, 256);
    assert_eq!(
        lookup(links[0].attributes(), "kind"),
        Some(Value::Str("batch"))
    );
}

#[test]
fn c17_prompt_sized_values_pass_whole() {
    let json = file("C17.json");
    let body = protobuf(&json).unwrap();
    assert_eq!(check_traces(&body).unwrap().n_items, 1);
    let span = spans(&body, &Limits::default())
        .next()
        .unwrap()
        .unwrap()
        .span;
    assert_eq!(text_of(span, "short").as_deref(), Some("ok"));
    let prompt = text_of(span, "gen_ai.prompt").unwrap();
    assert_eq!(prompt, "\u{e9}".repeat(prompt.chars().count()));
    assert!(prompt.len() > 2048 && text_of(span, "boundary").unwrap().len() > 2048);
}
