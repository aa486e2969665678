//! Known trouble: requests as they were met in the field, and what must be stored of them.

use arrow::array::{Array, AsArray};

use super::{check, entries, entry, nested, nested_field, pair, spans, spans_of_file, spans_with};
use crate::redact::{Config, Content};

/// The default limit.
const LIMIT: usize = 2_048;

#[test]
fn c08_of_repeated_keys_the_last_value_is_stored_once() {
    let batch = spans_of_file(&Config::default(), "C08.json");
    assert_eq!(batch.num_rows(), 2);
    check(
        &batch,
        0,
        &[
            ("service_name", "vllm-second"),
            ("k8s_pod_name", "vllm-qwen-0"),
            ("http_response_status_code", "503"),
            ("gen_ai_request_id", "r-8"),
        ],
    );
    let stored = [pair("nodeType", "Compute"), pair("http.status_code", "503")];
    assert_eq!(entries(&batch, 0, "attributes"), stored);
    assert_eq!(entries(&batch, 0, "resource_attributes"), []);
    check(
        &batch,
        1,
        &[("name", "clean neighbour"), ("service_name", "vllm-second")],
    );
}

#[test]
fn c10_odd_clocks_neither_wrap_nor_make_partitions() {
    let batch = spans_of_file(&Config::default(), "C10.json");
    assert_eq!(batch.num_rows(), 8);
    for row in 0..7 {
        check(&batch, row, &[("date", "2026-03-01")]);
    }
    check(
        &batch,
        0,
        &[
            ("start_time", "2026-03-01 12:00:00"),
            ("start_time_unix_nano", "1772366400000000000"),
            ("duration_ns", "50000000"),
        ],
    );
    check(
        &batch,
        2,
        &[("name", "case-103"), ("duration_ns", "1772276400000000000")],
    );
    for row in [3, 4] {
        let absent = "NULL";
        check(
            &batch,
            row,
            &[
                ("start_time", absent),
                ("start_time_unix_nano", absent),
                ("end_time", absent),
                ("end_time_unix_nano", absent),
            ],
        );
    }
    check(&batch, 7, &[("name", "case-108"), ("date", "2026-03-02")]);
}

#[test]
fn c14_the_valid_twin_of_the_broken_text_is_stored() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/C14-valid.pb");
    assert_eq!(spans(&std::fs::read(path).unwrap()).num_rows(), 2);
}

#[test]
fn c16_events_links_flags_and_counts_are_kept() {
    let batch = spans_of_file(&Config::default(), "C16.json");
    assert_eq!(batch.num_rows(), 4);
    check(
        &batch,
        0,
        &[
            ("trace_state", "ot=th:8;rv:abcdef01234567,vendor=x"),
            ("flags", "769"),
            ("status_code", "ERROR"),
            ("status_message", "CUDA out of memory"),
            ("exception_type", "torch.OutOfMemoryError"),
            ("exception_message", "tried to allocate"),
            ("dropped_attributes_count", "7"),
            ("dropped_events_count", "2"),
            ("dropped_links_count", "1"),
            ("redacted_attributes_count", "0"),
            ("parent_span_id", "NULL"),
        ],
    );
    let exception = [
        pair("exception.type", "torch.OutOfMemoryError"),
        pair("exception.message", "tried to allocate"),
        pair("exception.stacktrace", "line1\nline2"),
    ];
    assert_eq!(nested(&batch, 0, "events", 0), exception);
    let event = |item, field| nested_field(&batch, 0, "events", item, field);
    assert_eq!(event(0, "dropped_attributes_count"), "3");
    assert_eq!(
        [
            event(1, "time"),
            event(1, "time_unix_nano"),
            event(1, "name")
        ],
        ["NULL", "NULL", ""]
    );
    assert_eq!(
        [event(2, "time"), event(2, "name")],
        ["2026-03-01 11:59:55", "queued"]
    );
    let link = |item, field| nested_field(&batch, 0, "links", item, field);
    assert_eq!(link(0, "trace_id"), "7c000001a1b2c3d4e5f60718293a4b5c");
    assert_eq!(
        [link(0, "span_id"), link(0, "flags")],
        ["b0000001c0ffee11", "256"]
    );
    assert_eq!(nested(&batch, 0, "links", 0), [pair("kind", "batch")]);
    assert_eq!(
        [link(1, "trace_id"), link(1, "span_id")],
        ["NULL", "b0000001c0ffee11"]
    );
    assert_eq!([link(2, "trace_id"), link(2, "span_id")], ["NULL", "NULL"]);
    check(
        &batch,
        1,
        &[
            ("status_code", "OK"),
            ("parent_span_id", "b00000a0c0ffee11"),
        ],
    );
    check(
        &batch,
        2,
        &[("status_code", "UNSET"), ("status_message", "NULL")],
    );
    check(
        &batch,
        3,
        &[("status_code", "UNSET"), ("status_message", "ignored?")],
    );
}

#[test]
fn c17_long_values_are_cut_everywhere_and_counted() {
    let keeping = Config {
        content: Content::Keep,
        ..Config::default()
    };
    let batch = spans_of_file(&keeping, "C17.json");
    let attributes = entries(&batch, 0, "attributes");
    let resource = entries(&batch, 0, "resource_attributes");
    let event = nested(&batch, 0, "events", 0);
    let n_cut = attributes
        .iter()
        .chain(&resource)
        .chain(&event)
        .filter(|(_, value)| {
            assert!(value.len() <= LIMIT, "{}", value.len());
            value.contains("...[cut from ")
        });
    assert_eq!(n_cut.count(), 5);
    check(
        &batch,
        0,
        &[
            ("truncated_attributes_count", "5"),
            ("redacted_attributes_count", "0"),
        ],
    );
    assert_eq!(
        entry(&batch, 0, "attributes", "short").as_deref(),
        Some("ok")
    );
    assert_eq!(
        entry(&batch, 0, "attributes", &"x".repeat(300)).as_deref(),
        Some("long key")
    );
    let boundary = entry(&batch, 0, "attributes", "boundary").unwrap();
    assert!(boundary.ends_with("...[cut from 2247 bytes]"), "{boundary}");
    let nested = entry(&batch, 0, "attributes", "nested").unwrap();
    assert!(nested.starts_with("[\"nnn"), "{nested}");
}

#[test]
fn c17_prompts_are_dropped_and_counted_unless_configured() {
    let batch = spans_of_file(&Config::default(), "C17.json");
    assert_eq!(entry(&batch, 0, "attributes", "gen_ai.prompt"), None);
    assert_eq!(nested(&batch, 0, "events", 0), []);
    check(
        &batch,
        0,
        &[
            ("redacted_attributes_count", "2"),
            ("truncated_attributes_count", "3"),
        ],
    );
}

#[test]
fn c17_without_a_limit_values_are_stored_whole() {
    let config = Config {
        content: Content::Keep,
        value_bytes_max: None,
        ..Config::default()
    };
    let batch = spans_of_file(&config, "C17.json");
    assert_eq!(
        entry(&batch, 0, "attributes", "gen_ai.prompt")
            .unwrap()
            .len(),
        6_000
    );
    check(&batch, 0, &[("truncated_attributes_count", "0")]);
}

#[test]
fn a_request_without_spans_gives_a_batch_without_rows() {
    let batch = spans_with(&Config::default(), &[]);
    assert_eq!(batch.num_rows(), 0);
    assert_eq!(
        batch
            .column_by_name("events")
            .unwrap()
            .as_list::<i32>()
            .len(),
        0
    );
}
