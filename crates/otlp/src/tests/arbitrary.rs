//! Generated export requests, and ways to damage their bytes.

use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{
        AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList, any_value::Value,
    },
    resource::v1::Resource,
    trace::v1::{
        ResourceSpans, ScopeSpans, Span, Status,
        span::{Event, Link},
    },
};
use proptest::{collection::vec, option, prelude::*, sample::Index};

pub(super) fn request() -> impl Strategy<Value = ExportTraceServiceRequest> {
    vec(resource_spans(), 0..3)
        .prop_map(|resource_spans| ExportTraceServiceRequest { resource_spans })
}

fn resource_spans() -> impl Strategy<Value = ResourceSpans> {
    let resource = (attributes(), any::<u32>()).prop_map(|(attributes, dropped)| Resource {
        attributes,
        dropped_attributes_count: dropped,
        entity_refs: Vec::new(),
    });
    (option::of(resource), vec(scope_spans(), 0..3), text()).prop_map(
        |(resource, scope_spans, schema_url)| ResourceSpans {
            resource,
            scope_spans,
            schema_url,
        },
    )
}

fn scope_spans() -> impl Strategy<Value = ScopeSpans> {
    let scope = (text(), text(), attributes()).prop_map(|(name, version, attributes)| {
        InstrumentationScope {
            name,
            version,
            attributes,
            dropped_attributes_count: 0,
        }
    });
    (option::of(scope), vec(span(), 0..3), text()).prop_map(|(scope, spans, schema_url)| {
        ScopeSpans {
            scope,
            spans,
            schema_url,
        }
    })
}

fn span() -> impl Strategy<Value = Span> {
    let ids = (id(16), id(8), id(8));
    let texts = (text(), text(), option::of((text(), -1..9)));
    let numbers = (any::<u32>(), -1..9, time(), time(), any::<[u32; 3]>());
    let lists = (attributes(), vec(event(), 0..3), vec(link(), 0..3));
    (ids, texts, numbers, lists).prop_map(|(ids, texts, numbers, lists)| Span {
        trace_id: ids.0,
        span_id: ids.1,
        parent_span_id: ids.2,
        trace_state: texts.0,
        name: texts.1,
        status: texts.2.map(|(message, code)| Status { message, code }),
        flags: numbers.0,
        kind: numbers.1,
        start_time_unix_nano: numbers.2,
        end_time_unix_nano: numbers.3,
        dropped_attributes_count: numbers.4[0],
        dropped_events_count: numbers.4[1],
        dropped_links_count: numbers.4[2],
        attributes: lists.0,
        events: lists.1,
        links: lists.2,
    })
}

fn event() -> impl Strategy<Value = Event> {
    (time(), text(), attributes(), any::<u32>()).prop_map(
        |(time_unix_nano, name, attributes, dropped_attributes_count)| Event {
            time_unix_nano,
            name,
            attributes,
            dropped_attributes_count,
        },
    )
}

fn link() -> impl Strategy<Value = Link> {
    (id(16), id(8), text(), attributes(), any::<[u32; 2]>()).prop_map(
        |(trace_id, span_id, trace_state, attributes, [dropped, flags])| Link {
            trace_id,
            span_id,
            trace_state,
            attributes,
            dropped_attributes_count: dropped,
            flags,
        },
    )
}

pub(super) fn attributes() -> impl Strategy<Value = Vec<KeyValue>> {
    vec(key_value(any_value()), 0..4)
}

fn key_value(value: impl Strategy<Value = AnyValue>) -> impl Strategy<Value = KeyValue> {
    (text(), option::weighted(0.9, value), 0..3).prop_map(|(key, value, key_strindex)| KeyValue {
        key,
        value,
        key_strindex,
    })
}

pub(super) fn any_value() -> impl Strategy<Value = AnyValue> {
    let scalar = prop_oneof![
        text().prop_map(Value::StringValue),
        any::<bool>().prop_map(Value::BoolValue),
        prop_oneof![any::<i64>(), -200..200_i64].prop_map(Value::IntValue),
        any::<u64>().prop_map(|bits| Value::DoubleValue(f64::from_bits(bits))),
        (-1e6..1e6).prop_map(Value::DoubleValue),
        vec(any::<u8>(), 0..9).prop_map(Value::BytesValue),
    ];
    let leaf = option::weighted(0.9, scalar).prop_map(|value| AnyValue { value });
    leaf.prop_recursive(4, 16, 4, |inner| {
        let array =
            vec(inner.clone(), 0..4).prop_map(|values| Value::ArrayValue(ArrayValue { values }));
        let kvlist = vec(key_value(inner), 0..4)
            .prop_map(|values| Value::KvlistValue(KeyValueList { values }));
        prop_oneof![array, kvlist].prop_map(|value| AnyValue { value: Some(value) })
    })
}

/// Mostly valid ids; else empty, zero or of another length.
fn id(n_bytes: usize) -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => vec(1..=u8::MAX, n_bytes),
        1 => Just(Vec::new()),
        1 => Just(vec![0; n_bytes]),
        1 => vec(any::<u8>(), 1..20),
    ]
}

pub(super) fn time() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        any::<u64>(),
        1_772_366_400_000_000_000..1_772_366_500_000_000_000_u64
    ]
}

/// Short text around the lengths at which layouts and checks change.
pub(super) fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => vec(prop_oneof![3 => proptest::char::range(' ', '~'), 1 => any::<char>()], 0..12),
        1 => vec(Just('x'), 60..70),
        1 => vec(Just('y'), 120..132),
    ]
    .prop_map(|chars| chars.into_iter().collect())
}

/// One way to damage bytes.
#[derive(Clone, Debug)]
pub(super) enum Damage {
    Set(Index, u8),
    Remove(Index),
    Insert(Index, u8),
    Cut(Index),
    /// Repeats a range behind itself.
    Repeat(Index, usize),
}

pub(super) fn damage() -> impl Strategy<Value = Vec<Damage>> {
    let one = prop_oneof![
        4 => (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Damage::Set(at, byte)),
        1 => any::<Index>().prop_map(Damage::Remove),
        1 => (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Damage::Insert(at, byte)),
        1 => any::<Index>().prop_map(Damage::Cut),
        1 => (any::<Index>(), 1..40_usize).prop_map(|(at, len)| Damage::Repeat(at, len)),
    ];
    vec(one, 1..4)
}

impl Damage {
    pub(super) fn apply(&self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        match self {
            Self::Set(at, byte) => *at.get_mut(bytes.as_mut_slice()) = *byte,
            Self::Remove(at) => drop(bytes.remove(at.index(bytes.len()))),
            Self::Insert(at, byte) => bytes.insert(at.index(bytes.len()), *byte),
            Self::Cut(at) => bytes.truncate(at.index(bytes.len())),
            Self::Repeat(at, len) => {
                let start = at.index(bytes.len());
                let end = bytes.len().min(start.saturating_add(*len));
                let again = bytes[start..end].to_vec();
                drop(bytes.splice(end..end, again));
            }
        }
    }
}
