//! Attribute values on their way into columns and maps.

use otlp::{
    span::StatusCode,
    testing::{AnyValue, TimeSpan, trace},
};

use super::{cell, check, entries, entry, nested, nested_field, pair, spans, spans_with};
use crate::redact::Config;

fn text(text: &str) -> AnyValue {
    AnyValue::Str(text.to_owned())
}

fn list(texts: &[&str]) -> AnyValue {
    AnyValue::Array(texts.iter().copied().map(text).collect())
}

#[test]
fn a_canonical_key_of_its_type_is_in_its_column_only() {
    let body = trace(1)
        .resource_attribute("k8s.pod.uid", text("u-1"))
        .resource_attribute("custom", text("r"))
        .span("s", 5.ms())
        .attribute("gen_ai.latency.e2e", AnyValue::Double(0.5))
        .attribute("gen_ai.usage.input_tokens", AnyValue::Int(7))
        .attribute("gen_ai.response.finish_reasons", list(&["stop", "length"]))
        .attribute("custom", AnyValue::Bool(true))
        .build();
    let batch = spans(&body);
    check(
        &batch,
        0,
        &[
            ("service_name", "test"),
            ("k8s_pod_uid", "u-1"),
            ("gen_ai_latency_e2e", "0.5"),
            ("gen_ai_usage_input_tokens", "7"),
            ("gen_ai_usage_output_tokens", "NULL"),
            ("gen_ai_response_finish_reasons", "[stop, length]"),
            ("minute", "2026-03-01 12:00:00"),
            ("kind", "INTERNAL"),
            ("late", "false"),
            ("received_time", "2026-03-01 12:00:01"),
        ],
    );
    assert_eq!(entries(&batch, 0, "attributes"), [pair("custom", "true")]);
    assert_eq!(
        entries(&batch, 0, "resource_attributes"),
        [pair("custom", "r")]
    );
}

/// Attribute, its value, the column, the column's text, the map's text.
#[track_caller]
fn check_value(key: &str, value: AnyValue, column: &str, in_column: &str, in_map: Option<&str>) {
    let body = trace(1).span("s", 5.ms()).attribute(key, value).build();
    let batch = spans(&body);
    assert_eq!(cell(&batch, 0, column), in_column, "{key}");
    assert_eq!(
        entry(&batch, 0, "attributes", key).as_deref(),
        in_map,
        "{key}"
    );
}

#[test]
fn values_of_other_types_stay_in_the_map_beside_what_the_column_can_take() {
    let key = "http.response.status_code";
    let column = "http_response_status_code";
    let check = |value, in_column, in_map| check_value(key, value, column, in_column, Some(in_map));
    check(text(" 503 "), "503", " 503 ");
    check(text("none"), "NULL", "none");
    check(AnyValue::Double(200.5), "NULL", "200.5");
    check(AnyValue::Bool(true), "NULL", "true");

    let key = "gen_ai.latency.time_to_first_token";
    let column = "gen_ai_latency_time_to_first_token";
    let check = |value, in_column, in_map| check_value(key, value, column, in_column, Some(in_map));
    check(AnyValue::Double(f64::NAN), "NULL", "NaN");
    check(text("inf"), "NULL", "inf");
    check(AnyValue::Int(2), "2.0", "2");
    check(AnyValue::Empty, "NULL", "NULL");

    let id = AnyValue::Int(5);
    check_value("gen_ai.request.id", id, "gen_ai_request_id", "5", Some("5"));
}

#[test]
fn a_text_with_a_list_is_read_as_a_list_and_any_other_as_its_element() {
    let key = "gen_ai.response.finish_reasons";
    let column = "gen_ai_response_finish_reasons";
    let check = |value: &str, in_column| {
        check_value(key, text(value), column, in_column, Some(value));
    };
    check("[\"length\"]", "[length]");
    check("abort", "[abort]");
    check("[broken", "[[broken]");
}

#[test]
fn aliases_fill_the_column_and_stay_in_the_map_as_they_were() {
    let check = |key, value, column, in_column, in_map| {
        check_value(key, value, column, in_column, Some(in_map));
    };
    let (status, column) = ("http.status_code", "http_response_status_code");
    check(status, AnyValue::Int(200), column, "200", "200");
    check(status, text("0"), column, "0", "0");
    let (reason, column) = ("llm.finish_reason", "gen_ai_response_finish_reasons");
    check(reason, text("stop"), column, "[stop]", "stop");
    let (header, column) = ("http.request.header.x-request-id", "gen_ai_request_id");
    check(header, list(&["77aa"]), column, "77aa", "[\"77aa\"]");
}

#[test]
fn the_canonical_key_wins_then_the_first_usable_alias() {
    let body = trace(1)
        .span("a", 5.ms())
        .attribute("input_tokens", AnyValue::Int(3))
        .attribute("gen_ai.usage.prompt_tokens", AnyValue::Int(2))
        .attribute("gen_ai.usage.input_tokens", AnyValue::Int(1))
        .span("b", 5.ms())
        .attribute("input_tokens", AnyValue::Int(3))
        .attribute("gen_ai.usage.input_tokens", text("many"))
        .attribute("llm.token_count.prompt", text("4"))
        .build();
    let batch = spans(&body);
    check(&batch, 0, &[("gen_ai_usage_input_tokens", "1")]);
    check(&batch, 1, &[("gen_ai_usage_input_tokens", "4")]);
    let kept = [
        pair("input_tokens", "3"),
        pair("gen_ai.usage.prompt_tokens", "2"),
    ];
    assert_eq!(entries(&batch, 0, "attributes"), kept);
    assert_eq!(entries(&batch, 1, "attributes").len(), 3);
}

#[test]
fn nested_values_and_bytes_are_text_in_the_map() {
    let nested_value = AnyValue::KvList(vec![
        ("a".to_owned(), AnyValue::Int(1)),
        ("b".to_owned(), list(&["x"])),
    ]);
    let body = trace(1)
        .span("s", 5.ms())
        .attribute("nested", nested_value)
        .attribute("bytes", AnyValue::Bytes(vec![1, 2, 255]))
        .attribute("empty", AnyValue::Empty)
        .build();
    let stored = [
        pair("nested", "{\"a\":1,\"b\":[\"x\"]}"),
        pair("bytes", "AQL/"),
        pair("empty", "NULL"),
    ];
    assert_eq!(entries(&spans(&body), 0, "attributes"), stored);
}

#[test]
fn of_many_repeated_keys_the_last_value_is_stored_once() {
    for n in [3, 24, 25, 200] {
        let mut export = trace(1).span("s", 5.ms());
        for round in 0..2_i64 {
            for i in 0..n {
                export = export.attribute(&format!("k{i}"), AnyValue::Int(round));
            }
        }
        let batch = spans(&export.build());
        let stored = entries(&batch, 0, "attributes");
        assert_eq!(stored.len(), n);
        assert!(stored.iter().all(|(_, value)| value == "1"));
    }
}

#[test]
fn long_keys_names_and_messages_are_cut_and_keys_stay_unique() {
    let long = "y".repeat(3_000);
    let body = trace(1)
        .span(&long, 5.ms())
        .attribute(&long, AnyValue::Int(1))
        .attribute(&format!("{}z", "y".repeat(2_999)), AnyValue::Int(2))
        .event(&long, 1.ms())
        .build();
    let batch = spans(&body);
    let mark = "...[cut from 3000 bytes]";
    assert!(cell(&batch, 0, "name").ends_with(mark));
    assert!(nested_field(&batch, 0, "events", 0, "name").ends_with(mark));
    let stored = entries(&batch, 0, "attributes");
    assert_eq!(
        stored.len(),
        1,
        "both keys are cut to the same text: the last counts"
    );
    assert_eq!((stored[0].0.len(), stored[0].1.as_str()), (2_048, "2"));
    check(&batch, 0, &[("truncated_attributes_count", "3")]);
}

#[test]
fn content_events_raw_requests_and_urls_lose_their_content() {
    let body = trace(1)
        .span("raw_gen_ai_request", 5.ms())
        .attribute("llm.hosted_vllm.messages", text("secret"))
        .attribute("llm.hosted_vllm.anything", text("secret"))
        .attribute("http.url", text("http://u:p@h/x?key=secret"))
        .attribute("url.full", text("http://h/x"))
        .attribute("user.id", text("u-1"))
        .event("gen_ai.choice", 1.ms())
        .event_attribute("finish_reason", text("stop"))
        .event_attribute("message", text("secret"))
        .link(2, 1)
        .link_attribute("gen_ai.prompt.0.content", text("secret"))
        .link_attribute("kind", text("batch"))
        .build();
    let batch = spans(&body);
    let kept = [
        pair("http.url", "http://h/x"),
        pair("url.full", "http://h/x"),
        pair("user.id", "u-1"),
    ];
    assert_eq!(entries(&batch, 0, "attributes"), kept);
    assert_eq!(
        nested(&batch, 0, "events", 0),
        [pair("finish_reason", "stop")]
    );
    assert_eq!(nested(&batch, 0, "links", 0), [pair("kind", "batch")]);
    check(&batch, 0, &[("redacted_attributes_count", "5")]);
}

#[test]
fn a_configured_key_is_dropped_from_columns_events_and_resource_too() {
    let config = Config {
        keys: vec![
            "status.message".into(),
            "exception.message".into(),
            "k8s.*".into(),
            "gen_ai.request.id".into(),
        ],
        ..Config::default()
    };
    let body = trace(1)
        .resource_attribute("k8s.pod.name", text("p"))
        .span("s", 5.ms())
        .status(StatusCode::Error, "secret")
        .attribute("gen_ai.request.id", text("r"))
        .event("exception", 1.ms())
        .event_attribute("exception.message", text("secret"))
        .event_attribute("exception.type", text("T"))
        .build();
    let batch = spans_with(&config, &body);
    check(
        &batch,
        0,
        &[
            ("exception_message", "NULL"),
            ("exception_type", "T"),
            ("k8s_pod_name", "NULL"),
            ("gen_ai_request_id", "NULL"),
            ("status_message", "NULL"),
            ("redacted_attributes_count", "4"),
        ],
    );
}

#[test]
fn an_engine_batch_is_found_in_the_schedule_event() {
    let body = trace(1)
        .span("decode_loop", 5.ms())
        .event("schedule", 1.ms())
        .event_attribute("bid", text("0a1b2c3d"))
        .span("other", 5.ms())
        .attribute("batch_id", text("b-7"))
        .event("schedule", 1.ms())
        .event_attribute("bid", text("0a1b2c3d"))
        .build();
    let batch = spans(&body);
    check(&batch, 0, &[("batch_id", "0a1b2c3d")]);
    check(&batch, 1, &[("batch_id", "b-7")]);
    assert_eq!(nested(&batch, 0, "events", 0), [pair("bid", "0a1b2c3d")]);
}

#[test]
fn each_span_has_its_own_resource() {
    let body = trace(1)
        .resource_attribute("a", text("1"))
        .span("s", 5.ms())
        .service("second")
        .span("t", 5.ms())
        .service("test")
        .resource_attribute("a", text("1"))
        .span("u", 5.ms())
        .build();
    let batch = spans(&body);
    check(&batch, 0, &[("service_name", "test")]);
    check(&batch, 1, &[("service_name", "second")]);
    check(&batch, 2, &[("service_name", "test")]);
    let n_entries = [0, 1, 2].map(|row| entries(&batch, row, "resource_attributes").len());
    assert_eq!(n_entries, [1, 0, 1]);
}
