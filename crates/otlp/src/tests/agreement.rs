//! Reading from bytes gives what prost decodes; on broken bytes both fail.
//!
//! Exceptions, all documented in [`crate::export`] and [`crate::wire`]: a message that protobuf
//! would merge from two fields is refused here, groups have a smaller depth limit, and prost stops
//! at 100 nested messages.

use opentelemetry_proto::tonic::{
    collector::{
        logs::v1::ExportLogsServiceRequest, metrics::v1::ExportMetricsServiceRequest,
        trace::v1::ExportTraceServiceRequest,
    },
    common::v1::{AnyValue, KeyValue, any_value},
    trace::v1::{ResourceSpans, ScopeSpans, Span},
};
use proptest::prelude::*;
use prost::Message;

use super::arbitrary::{damage, request};
use crate::{
    Error, Signal, SpanId, TraceId,
    attribute::{self, Attributes, Value},
    export::{Checked, Limits, SpanAt, check, spans},
    json, scope,
    span::{SpanKind, SpanSummary, StatusCode, events, links},
    testing::{TimeSpan, exercise_traces, trace},
};

proptest! {
    #[test]
    fn a_generated_request_reads_as_it_decodes(request in request()) {
        let body = request.encode_to_vec();
        prop_assert!(check(Signal::Traces, &body, &Limits::default()).is_ok());
        agree(&body);
        exercise_traces(&body);
    }

    #[test]
    fn damaged_requests_fail_or_read_as_they_decode(request in request(), damage in damage()) {
        let mut body = request.encode_to_vec();
        for damage in damage {
            damage.apply(&mut body);
            agree(&body);
        }
        exercise_traces(&body);
    }

    #[test]
    fn arbitrary_bytes_fail_or_read_as_they_decode(
        body in proptest::collection::vec(prop_oneof![any::<u8>(), 0..0x50_u8], 0..40),
    ) {
        agree(&body);
        agree_on_items(Signal::Metrics, &body);
        agree_on_items(Signal::Logs, &body);
    }

    #[test]
    fn a_request_survives_json(request in request()) {
        let body = request.encode_to_vec();
        let text = json::from_protobuf(Signal::Traces, &body).unwrap();
        let back = json::to_protobuf(Signal::Traces, text.as_bytes(), &Limits::default()).unwrap();
        let back = ExportTraceServiceRequest::decode(back.as_slice()).unwrap();
        // Compared as text: NaN is not equal to itself.
        prop_assert_eq!(format!("{request:?}"), format!("{back:?}"));
    }
}

#[test]
fn a_request_cut_or_changed_at_every_byte_never_panics() {
    let body = sample();
    for end in 0..=body.len() {
        agree(&body[..end]);
        exercise_traces(&body[..end]);
    }
    for i in 0..body.len() {
        for flipped in [1, 0x7f, 0x80, 0xff] {
            let mut body = body.clone();
            body[i] ^= flipped;
            agree(&body);
            exercise_traces(&body);
        }
    }
}

#[test]
fn metrics_and_logs_are_checked_as_prost_decodes_them() {
    for (signal, body) in [(Signal::Metrics, metrics()), (Signal::Logs, logs())] {
        agree_on_items(signal, &body);
        for i in 0..body.len() {
            agree_on_items(signal, &body[..i]);
            for flipped in [1, 7, 0x80] {
                let mut body = body.clone();
                body[i] ^= flipped;
                agree_on_items(signal, &body);
            }
        }
    }
}

fn sample() -> Vec<u8> {
    trace(1)
        .scope("demo", "1.0")
        .span("GET /", 120.ms())
        .error()
        .trace_state("vendor=x")
        .flags(0x301)
        .attribute("http.status_code", 503_i64)
        .attribute("ttft", 0.25)
        .attribute("text", "x".repeat(200))
        .attribute("list", vec![true.into(), "\u{e9}".into()])
        .event("exception", 5.ms())
        .event_attribute("exception.type", "Timeout")
        .link(2, 7)
        .link_attribute("kind", "batch")
        .span("child", 20.ms())
        .build()
}

/// Every kind of metric with every field set, by way of JSON.
fn metrics() -> Vec<u8> {
    let text = include_str!("../../testdata/every-field-metrics.json");
    json::to_protobuf(Signal::Metrics, text.as_bytes(), &Limits::default()).unwrap()
}

fn logs() -> Vec<u8> {
    let text = include_str!("../../testdata/every-field-logs.json");
    json::to_protobuf(Signal::Logs, text.as_bytes(), &Limits::default()).unwrap()
}

fn agree(body: &[u8]) {
    let limits = Limits::default();
    let ours = check(Signal::Traces, body, &limits);
    let theirs = ExportTraceServiceRequest::decode(body);
    match (ours, theirs) {
        (Ok(checked), Ok(decoded)) => same_spans(body, &limits, &checked, &decoded),
        (ours, theirs) => both_fail(ours, theirs.err(), body),
    }
}

fn agree_on_items(signal: Signal, body: &[u8]) {
    let ours = check(signal, body, &Limits::default());
    let theirs = match signal {
        Signal::Traces => ExportTraceServiceRequest::decode(body).err(),
        Signal::Metrics => ExportMetricsServiceRequest::decode(body).err(),
        Signal::Logs => ExportLogsServiceRequest::decode(body).err(),
    };
    if ours.is_err() || theirs.is_some() {
        both_fail(ours, theirs, body);
    }
}

/// Of two results of which at least one is an error.
fn both_fail(ours: Result<Checked, Error>, theirs: Option<prost::DecodeError>, body: &[u8]) {
    match (ours, theirs) {
        (Err(_), Some(_)) => {}
        (Err(ours), None) => assert!(
            matches!(
                ours,
                Error::Repeated { .. } | Error::Depth { .. } | Error::Group { .. }
            ),
            "only we refuse: {ours}: {body:02x?}"
        ),
        (Ok(_), Some(theirs)) => assert!(
            theirs.to_string().contains("recursion limit"),
            "only prost refuses: {theirs}: {body:02x?}"
        ),
        (Ok(_), None) => unreachable!("neither is an error"),
    }
}

fn same_spans(
    body: &[u8],
    limits: &Limits,
    checked: &Checked,
    decoded: &ExportTraceServiceRequest,
) {
    let mut ours = spans(body, limits);
    let mut counts = (0, 0);
    for resource_spans in &decoded.resource_spans {
        for scope_spans in &resource_spans.scope_spans {
            for span in &scope_spans.spans {
                let is_valid = TraceId::from_slice(&span.trace_id).is_ok()
                    && SpanId::from_slice(&span.span_id).is_ok();
                if !is_valid {
                    counts.1 += 1;
                    continue;
                }
                counts.0 += 1;
                let at = ours.next().expect("as many spans").expect("readable");
                same_surroundings(&at, resource_spans, scope_spans);
                same_span(at.span, span);
            }
        }
    }
    assert_eq!(ours.next(), None);
    assert_eq!((checked.n_items, checked.n_rejected), counts);
}

fn same_surroundings(at: &SpanAt<'_>, resource_spans: &ResourceSpans, scope_spans: &ScopeSpans) {
    let resource = resource_spans.resource.clone().unwrap_or_default();
    same_attributes(attribute::of_resource(at.resource), &resource.attributes);
    assert_eq!(at.resource_schema_url, resource_spans.schema_url);
    let scope = scope_spans.scope.clone().unwrap_or_default();
    let read = scope::read(at.scope).unwrap();
    assert_eq!(
        (read.name, read.version),
        (scope.name.as_str(), scope.version.as_str())
    );
    same_attributes(attribute::of_scope(at.scope), &scope.attributes);
    assert_eq!(at.scope_schema_url, scope_spans.schema_url);
}

fn same_span(bytes: &[u8], span: &Span) {
    let status = span.status.clone().unwrap_or_default();
    let number = |number: i32| u32::try_from(number).unwrap_or(u32::MAX);
    let want = SpanSummary {
        trace_id: TraceId::from_slice(&span.trace_id).unwrap(),
        span_id: SpanId::from_slice(&span.span_id).unwrap(),
        parent_span_id: SpanId::from_slice(&span.parent_span_id).ok(),
        trace_state: &span.trace_state,
        flags: span.flags,
        name: &span.name,
        kind: SpanKind::from_number(number(span.kind)),
        start_time_unix_nano: span.start_time_unix_nano,
        end_time_unix_nano: span.end_time_unix_nano,
        status_code: StatusCode::from_number(number(status.code)),
        status_message: &status.message,
        dropped_attributes_count: span.dropped_attributes_count,
        dropped_events_count: span.dropped_events_count,
        dropped_links_count: span.dropped_links_count,
        has_links: !span.links.is_empty(),
    };
    assert_eq!(SpanSummary::read(bytes), Ok(want));
    same_attributes(attribute::of_span(bytes), &span.attributes);

    let ours: Vec<_> = events(bytes).map(Result::unwrap).collect();
    assert_eq!(ours.len(), span.events.len());
    for (event, want) in ours.iter().zip(&span.events) {
        assert_eq!(event.time_unix_nano, want.time_unix_nano);
        assert_eq!(event.name, want.name);
        assert_eq!(
            event.dropped_attributes_count,
            want.dropped_attributes_count
        );
        same_attributes(event.attributes(), &want.attributes);
    }
    let ours: Vec<_> = links(bytes).map(Result::unwrap).collect();
    assert_eq!(ours.len(), span.links.len());
    for (link, want) in ours.iter().zip(&span.links) {
        assert_eq!(link.trace_id, TraceId::from_slice(&want.trace_id).ok());
        assert_eq!(link.span_id, SpanId::from_slice(&want.span_id).ok());
        assert_eq!(link.trace_state, want.trace_state);
        assert_eq!(link.flags, want.flags);
        assert_eq!(link.dropped_attributes_count, want.dropped_attributes_count);
        same_attributes(link.attributes(), &want.attributes);
    }
}

pub(super) fn same_attributes(ours: Attributes<'_>, want: &[KeyValue]) {
    let all: Vec<_> = ours.clone().map(Result::unwrap).collect();
    assert_eq!(all.len(), want.len());
    for ((key, value), want) in all.iter().zip(want) {
        assert_eq!(*key, want.key);
        same_value(*value, want.value.as_ref());
    }
    for key in want.iter().map(|want| &want.key) {
        let last = want.iter().rfind(|want| want.key == *key);
        let found = attribute::lookup(ours.clone(), key).expect("the key is there");
        same_value(found, last.and_then(|last| last.value.as_ref()));
    }
}

fn same_value(ours: Value<'_>, want: Option<&AnyValue>) {
    use any_value::Value as Want;
    match (ours, want.and_then(|want| want.value.as_ref())) {
        (Value::Empty, None | Some(Want::StringValueStrindex(_))) => {}
        (Value::Str(ours), Some(Want::StringValue(want))) => assert_eq!(ours, want),
        (Value::Bool(ours), Some(Want::BoolValue(want))) => assert_eq!(ours, *want),
        (Value::Int(ours), Some(Want::IntValue(want))) => assert_eq!(ours, *want),
        (Value::Double(ours), Some(Want::DoubleValue(want))) => {
            assert_eq!(ours.to_bits(), want.to_bits());
        }
        (Value::Bytes(ours), Some(Want::BytesValue(want))) => assert_eq!(ours, want),
        (Value::Array(ours), Some(Want::ArrayValue(want))) => {
            let ours: Vec<_> = attribute::elements(ours).map(Result::unwrap).collect();
            assert_eq!(ours.len(), want.values.len());
            for (ours, want) in ours.into_iter().zip(&want.values) {
                same_value(ours, Some(want));
            }
        }
        (Value::KvList(ours), Some(Want::KvlistValue(want))) => {
            same_attributes(attribute::of_kvlist(ours), &want.values);
        }
        (ours, want) => unreachable!("{ours:?} is not {want:?}"),
    }
}
