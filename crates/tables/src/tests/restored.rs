//! Rows read back into spans: stored again, they are the same rows.

use std::time::Duration;

use arrow::array::{Array, RecordBatch};
use otlp::{
    Signal,
    attribute::{self, Value},
    export::{self, Limits},
    reframe::Reframer,
    span::StatusCode,
    testing::{AnyValue, Export, TimeSpan, trace},
};
use proptest::{collection::vec, prelude::*};

use super::{RECEIVED, real::bodies, spans, spans_with, text};
use crate::{
    redact::{Config, Content, Redaction},
    spans::{Holder, Loss, SPEC, StoredSpan, StoredSpans},
};

const KEEP: Config = Config {
    content: Content::Keep,
    keys: Vec::new(),
    keep_keys: Vec::new(),
    value_bytes_max: None,
};

fn stored(batch: &RecordBatch) -> Vec<StoredSpan> {
    let stored = StoredSpans::over(batch).unwrap();
    assert_eq!(stored.len(), batch.num_rows());
    stored.iter().map(Result::unwrap).collect()
}

/// Every cell of the restored and stored spans is as before.
fn check_round_trip(config: &Config, batch: &RecordBatch) {
    let mut again = Reframer::new();
    for span in stored(batch) {
        again.push(&span.restore().at());
    }
    let again = again.finish();
    export::check(Signal::Traces, &again, &Limits::default()).unwrap();
    let again = spans_with(config, &again);
    assert_eq!(again.num_rows(), batch.num_rows());
    for column in SPEC.columns {
        // What was removed is not there to be removed again.
        let is_count = ["redacted_attributes_count", "truncated_attributes_count"];
        if is_count.contains(&column.name) {
            continue;
        }
        let (left, right) = (cells(batch, column.name), cells(&again, column.name));
        if left.to_data() == right.to_data() {
            continue;
        }
        for row in 0..batch.num_rows() {
            assert_eq!(
                text(left, row),
                text(right, row),
                "{} of row {row}",
                column.name
            );
        }
    }
}

fn cells<'a>(batch: &'a RecordBatch, column: &str) -> &'a dyn Array {
    batch.column_by_name(column).unwrap()
}

#[test]
fn captured_spans_are_the_same_rows_again() {
    for capture in ["real-chain", "real-broken"] {
        for body in bodies(capture) {
            check_round_trip(&Config::default(), &spans(&body));
        }
    }
}

fn any_key() -> impl Strategy<Value = String> {
    let promoted = SPEC.columns.iter().flat_map(|column| {
        let aliases = match column.origin {
            crate::Origin::Row => return Vec::new(),
            crate::Origin::Span { aliases, .. } | crate::Origin::Resource { aliases } => aliases,
        };
        std::iter::once(column.source)
            .chain(aliases.iter().copied())
            .collect()
    });
    let promoted: Vec<&str> = promoted.collect();
    prop_oneof![
        3 => prop::sample::select(promoted).prop_map(str::to_owned),
        // Few columns, so that their spellings meet.
        3 => prop::sample::select(vec![
            "http.response.status_code", "http.status_code", "gen_ai.usage.input_tokens",
            "input_tokens", "llm.finish_reason", "gen_ai.response.finish_reasons", "error.type",
            "error_kind", "exception.type", "batch_id", "bid", "batch.id",
        ]).prop_map(str::to_owned),
        1 => "[a-z.]{0,6}",
    ]
}

fn any_value() -> impl Strategy<Value = AnyValue> {
    let texts = prop::sample::select(vec![
        "",
        "x",
        "42",
        "-0",
        "4.50",
        "1e3",
        "true",
        "NaN",
        "Infinity",
        "[]",
        "[1]",
        "[\"x\"]",
        "{}",
        "{\"a\":1}",
        "abcd",
        "AQL/",
        "null",
        " 503 ",
        "[broken",
        "...[cut from 9 bytes]",
    ]);
    let scalar = prop_oneof![
        4 => texts.prop_map(AnyValue::from),
        1 => "\\PC{0,6}".prop_map(AnyValue::from),
        1 => any::<bool>().prop_map(AnyValue::Bool),
        2 => (-3_i64..600).prop_map(AnyValue::Int),
        1 => any::<i64>().prop_map(AnyValue::Int),
        2 => (-8_i32..9).prop_map(|half| AnyValue::Double(f64::from(half) / 2.0)),
        1 => vec(any::<u8>(), 0..5).prop_map(AnyValue::Bytes),
        1 => Just(AnyValue::Empty),
    ];
    let nested = scalar.prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(AnyValue::Array),
            vec(("[a-c]", inner), 0..3).prop_map(AnyValue::KvList),
        ]
    });
    prop_oneof![9 => nested, 1 => any::<f64>().prop_map(AnyValue::Double)]
}

type Attributes = Vec<(String, AnyValue)>;

fn any_export() -> impl Strategy<Value = Export> {
    let attributes = || vec((any_key(), any_value()), 0..6);
    let event_name = prop::sample::select(vec!["exception", "schedule", "other", ""]);
    let span = (
        attributes(),
        vec((event_name, attributes()), 0..3),
        attributes(),
        0_u32..3,
        any::<[bool; 3]>(),
    );
    (attributes(), vec(span, 1..3)).prop_map(|(resource, spans)| {
        let mut export = trace(1);
        for (key, value) in resource {
            export = export.resource_attribute(&key, value);
        }
        for (attributes, events, link, code, [is_odd, has_link, has_state]) in spans {
            export = span_of(export, attributes, events, code, is_odd);
            if has_link {
                export = export.link(2, 2);
                for (key, value) in link {
                    export = export.link_attribute(&key, value);
                }
            }
            if has_state {
                export = export.trace_state("a=b").flags(0x301);
            }
        }
        export
    })
}

fn span_of(
    export: Export,
    attributes: Attributes,
    events: Vec<(&str, Attributes)>,
    code: u32,
    is_odd: bool,
) -> Export {
    let mut export = export
        .scope("s", if is_odd { "1" } else { "" })
        .span("n", Duration::from_millis(7));
    if is_odd {
        export = export.times(0, u64::MAX);
    }
    export = export.status(StatusCode::from_number(code), if is_odd { "m" } else { "" });
    for (key, value) in attributes {
        export = export.attribute(&key, value);
    }
    for (name, attributes) in events {
        export = export.event(name, 1.ms());
        for (key, value) in attributes {
            export = export.event_attribute(&key, value);
        }
    }
    export
}

/// The attributes of a message as the last of each key, empty values as they are.
fn last_of_each<'a>(attributes: attribute::Attributes<'a>) -> Vec<(&'a str, Value<'a>)> {
    let mut found: Vec<(&str, Value<'_>)> = Vec::new();
    for attribute in attributes {
        let (key, value) = attribute.unwrap();
        found.retain(|(known, _)| *known != key);
        found.push((key, value));
    }
    found
}

/// Lists of other than text, and numbers that are none, are not in their column as they were sent.
fn is_exact(value: &Value<'_>) -> bool {
    match value {
        Value::Double(number) => number.is_finite() && number.to_bits() != (-0.0_f64).to_bits(),
        Value::Array(_) | Value::KvList(_) => false,
        _ => true,
    }
}

fn check_readings(sent: &[u8], batch: &RecordBatch) {
    let limits = Limits::default();
    for (at, span) in export::spans(sent, &limits).zip(stored(batch)) {
        let at = at.unwrap();
        for (holder, attributes) in [
            (Holder::Resource, attribute::of_resource(at.resource)),
            (Holder::Span, attribute::of_span(at.span)),
        ] {
            let sent = last_of_each(attributes);
            for stored in span
                .attributes
                .iter()
                .filter(|stored| stored.holder == holder)
            {
                let value = sent
                    .iter()
                    .find(|(key, _)| *key == stored.key)
                    .map(|(_, value)| value);
                let is_reading = stored
                    .readings
                    .iter()
                    .any(|reading| match (reading, value) {
                        (None, None) => true,
                        (Some(reading), Some(value)) => {
                            reading.with(|read| read == value) == Some(true)
                        }
                        _ => false,
                    });
                let may_differ = value.is_some_and(|value| !is_exact(value));
                assert!(is_reading || may_differ, "{stored:?} was {value:?}");
            }
            for (key, _) in &sent {
                let mut stored = span
                    .attributes
                    .iter()
                    .filter(|stored| stored.holder == holder);
                assert!(stored.any(|stored| stored.key == *key), "{key} is gone");
            }
        }
    }
}

/// Rows whose values were removed and cut give spans that can be stored.
fn check_cut(body: &[u8]) {
    let config = Config {
        value_bytes_max: Some(64),
        ..Config::default()
    };
    let mut again = Reframer::new();
    for span in stored(&spans_with(&config, body)) {
        let (readings, _) = span.readings(16, |_, _| true);
        readings
            .iter()
            .for_each(|reading| again.push(&reading.at()));
    }
    let again = again.finish();
    export::check(Signal::Traces, &again, &Limits::default()).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any attributes: the likely reading leaves the same rows, and what was sent is among the readings.
    #[test]
    fn any_span_is_the_same_row_again_and_what_was_sent_is_a_reading(export in any_export()) {
        let body = export.build();
        let batch = spans_with(&KEEP, &body);
        check_round_trip(&KEEP, &batch);
        check_readings(&body, &batch);
        check_cut(&body);
    }
}

#[test]
fn what_was_removed_or_cut_is_said_by_key() {
    let text = |text: &str| AnyValue::Str(text.to_owned());
    let body = trace(1)
        .span(&"n".repeat(3_000), 5.ms())
        .attribute("gen_ai.prompt", text("secret"))
        .attribute("long", text(&"x".repeat(3_000)))
        .attribute("http.url", text("http://h/x?key=secret"))
        .attribute("short", text("x"))
        .event("gen_ai.choice", 1.ms())
        .event_attribute("message", text("secret"))
        .span("whole", 5.ms())
        .build();
    let batch = spans(&body);
    let [cut, whole] = stored(&batch).try_into().unwrap();
    let redaction = Redaction::new(&Config::default()).unwrap();
    let lost = |span: &StoredSpan, holder, key| span.lost(holder, key, &redaction);
    assert_eq!(
        lost(&cut, Holder::Span, "gen_ai.prompt"),
        Some(Loss::Redacted)
    );
    assert_eq!(lost(&cut, Holder::Span, "long"), Some(Loss::Cut));
    assert_eq!(lost(&cut, Holder::Span, "http.url"), Some(Loss::Redacted));
    assert_eq!(lost(&cut, Holder::Span, "short"), None);
    assert_eq!(lost(&cut, Holder::Span, "absent"), None);
    assert_eq!(
        lost(&cut, Holder::Event(0), "message"),
        Some(Loss::Redacted)
    );
    assert_eq!(lost(&cut, Holder::Event(0), "role"), None);
    assert_eq!(cut.lost_name(), Some(Loss::Cut));
    assert_eq!(lost(&whole, Holder::Span, "gen_ai.prompt"), None);
    assert_eq!(whole.lost_name(), None);
}

#[test]
fn an_ambiguous_text_has_its_readings_and_too_many_have_none() {
    let body = trace(1)
        .span("s", 5.ms())
        .attribute("n", AnyValue::Int(42))
        .attribute("other", AnyValue::Int(7))
        .attribute("http.response.status_code", AnyValue::Int(503))
        .build();
    let [span] = stored(&spans(&body)).try_into().unwrap();
    let n_readings = |n_max, keys: &[&str]| {
        let (readings, open) = span.readings(n_max, |_, key| keys.contains(&key));
        (readings.len(), open.len())
    };
    // A whole number, a double, a text.
    assert_eq!(n_readings(64, &["n"]), (3, 0));
    assert_eq!(n_readings(64, &["n", "other"]), (9, 0));
    assert_eq!(n_readings(8, &["n", "other"]), (1, 2));
    assert_eq!(n_readings(64, &["http.response.status_code"]), (1, 0));
    assert_eq!(
        RECEIVED / 1_000,
        u64::try_from(span.received_unix_micros).unwrap()
    );
}
