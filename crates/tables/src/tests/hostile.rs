//! Input made to break the builders.

use otlp::{
    Signal,
    export::{self, Limits, SpanAt},
    testing::{AnyValue, TimeSpan, trace},
};
use proptest::{collection::vec, prelude::*};

use super::RECEIVED;
use crate::{
    redact::{Config, Redaction},
    spans::{SPEC, SpanInput, SpansBuilder, TraceContext},
};

fn builder() -> SpansBuilder {
    SpansBuilder::new(&Redaction::new(&Config::default()).unwrap())
}

fn append(builder: &mut SpansBuilder, at: &SpanAt<'_>, start: u64) -> crate::Result<()> {
    builder.append(&SpanInput {
        at,
        trace: &TraceContext {
            start_time_unix_nano: start,
        },
        late: true,
        received_unix_nano: RECEIVED,
    })
}

/// Appends what is accepted of a body; the batch must have the table's schema and all the rows.
fn append_accepted(body: &[u8]) {
    let limits = Limits::default();
    let Ok(checked) = export::check(Signal::Traces, body, &limits) else {
        return;
    };
    let mut builder = builder();
    for at in export::spans(body, &limits) {
        append(&mut builder, &at.unwrap(), u64::MAX).unwrap();
    }
    let batch = builder.finish();
    assert_eq!(u64::try_from(batch.num_rows()).unwrap(), checked.n_items);
    assert_eq!(batch.schema(), SPEC.schema());
}

fn rich_span() -> Vec<u8> {
    trace(1)
        .resource_attribute("k8s.pod.uid", AnyValue::Int(3))
        .scope("scope", "1")
        .span("llm_request", 5.ms())
        .attribute("gen_ai.request.id", AnyValue::Str("r".into()))
        .attribute("gen_ai.latency.e2e", AnyValue::Double(0.5))
        .attribute(
            "list",
            AnyValue::Array(vec![AnyValue::Str("\u{e9}".into()), AnyValue::Empty]),
        )
        .event("exception", 1.ms())
        .event_attribute("exception.type", AnyValue::Str("T".into()))
        .link(2, 2)
        .link_attribute("k", AnyValue::Bytes(vec![0, 255]))
        .build()
}

#[test]
fn a_span_cut_anywhere_is_a_whole_row_or_an_error() {
    let body = rich_span();
    let at = export::spans(&body, &Limits::default())
        .next()
        .unwrap()
        .unwrap();
    let mut builder = builder();
    let mut n_rows = 0;
    for n in 0..=at.span.len() {
        let cut = SpanAt {
            span: &at.span[..n],
            ..at
        };
        match append(&mut builder, &cut, 0) {
            Ok(()) => n_rows += 1,
            Err(error) => assert!(!error.is_full() && !error.is_config()),
        }
    }
    for n in 0..at.resource.len() {
        let cut = SpanAt {
            resource: &at.resource[..n],
            ..at
        };
        n_rows += usize::from(append(&mut builder, &cut, 0).is_ok());
    }
    assert!(n_rows > 0);
    assert_eq!(builder.finish().num_rows(), n_rows);
}

#[test]
fn a_request_with_any_byte_changed_is_rows_or_refused() {
    let body = rich_span();
    for position in 0..body.len() {
        for change in [0x01, 0x80, 0xff] {
            let mut changed = body.clone();
            changed[position] ^= change;
            append_accepted(&changed);
        }
    }
}

fn any_value() -> impl Strategy<Value = AnyValue> {
    let scalar = prop_oneof![
        Just(AnyValue::Empty),
        ".{0,40}".prop_map(AnyValue::Str),
        "[0-9.e-]{0,6}".prop_map(AnyValue::Str),
        "\\[.{0,10}\\]".prop_map(AnyValue::Str),
        any::<bool>().prop_map(AnyValue::Bool),
        any::<i64>().prop_map(AnyValue::Int),
        any::<f64>().prop_map(AnyValue::Double),
        vec(any::<u8>(), 0..8).prop_map(AnyValue::Bytes),
        (1_usize..4_000).prop_map(|n| AnyValue::Str("\u{20ac}".repeat(n))),
    ];
    scalar.prop_recursive(3, 12, 4, |value| {
        prop_oneof![
            vec(value.clone(), 0..4).prop_map(AnyValue::Array),
            vec((".{0,4}", value), 0..4).prop_map(AnyValue::KvList),
        ]
    })
}

fn any_key() -> impl Strategy<Value = String> {
    let known: Vec<&str> = SPEC.columns.iter().map(|column| column.source).collect();
    prop_oneof![
        proptest::sample::select(known).prop_map(str::to_owned),
        "[a-c.]{0,3}",
        Just("\u{e9}".repeat(1_500)),
        Just("gen_ai.prompt.0.content".to_owned()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_accepted_span_is_a_row(
        name in ".{0,20}",
        times in (any::<u64>(), any::<u64>()),
        span in vec((any_key(), any_value()), 0..30),
        event in vec((any_key(), any_value()), 0..6),
        resource in vec((any_key(), any_value()), 0..6),
    ) {
        let mut export = trace(1);
        for (key, value) in resource {
            export = export.resource_attribute(&key, value);
        }
        export = export.span(&name, 1.ms()).times(times.0, times.1);
        for (key, value) in span {
            export = export.attribute(&key, value);
        }
        export = export.event(&name, 1.ms());
        for (key, value) in event {
            export = export.event_attribute(&key, value);
        }
        append_accepted(&export.build());
    }
}
