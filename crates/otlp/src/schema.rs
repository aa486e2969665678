//! The messages of OTLP as tables: field names, numbers and types.
//!
//! Sources: `trace.proto`, `metrics.proto`, `logs.proto`, `common.proto`, `resource.proto` and the
//! three collector services of opentelemetry-proto 1.10. Fields that only profiles use
//! (`key_strindex`, `string_value_strindex`) are in the tables so that their wire type is checked.
//! Field order is ascending by number.

use crate::export::Signal;

/// A message type.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) fields: &'static [Field],
    /// Is it a span, a point or a log record: what a reply counts?
    pub(crate) is_item: bool,
}

/// A field of a message type.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) number: u32,
    /// Name in OTLP/JSON.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) label: Label,
}

/// How often a field occurs, and whether a zero is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Label {
    /// At most once; zero and absent are the same.
    Plain,
    /// At most once; zero and absent differ: proto3 `optional` and members of a oneof.
    Optional,
    /// Any number of times; numbers may be packed.
    Repeated,
}

/// Type of a field.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Bool,
    Uint32,
    Int32,
    Sint32,
    Int64,
    Uint64,
    Fixed32,
    Fixed64,
    Sfixed64,
    Double,
    String,
    Bytes,
    /// Bytes that OTLP/JSON writes as hex: a trace or span id of so many bytes.
    Id(usize),
    Enum(&'static Names),
    Message(&'static Message),
}

impl Kind {
    /// Wire type of one value (not packed).
    pub(crate) const fn wire_type(self) -> u8 {
        match self {
            Self::Fixed64 | Self::Sfixed64 | Self::Double => 1,
            Self::String | Self::Bytes | Self::Id(_) | Self::Message(_) => 2,
            Self::Fixed32 => 5,
            Self::Bool
            | Self::Uint32
            | Self::Int32
            | Self::Sint32
            | Self::Int64
            | Self::Uint64
            | Self::Enum(_) => 0,
        }
    }
}

/// Names of an enum's numbers from 0.
#[derive(Debug)]
pub(crate) struct Names {
    pub(crate) prefix: &'static str,
    pub(crate) names: &'static [&'static str],
}

impl Message {
    /// The field with this number.
    #[inline]
    pub(crate) fn field(&self, number: u32) -> Option<&'static Field> {
        // Most messages number their fields from 1 without gaps.
        let guess = usize::try_from(number.checked_sub(1)?).ok()?;
        match self.fields.get(guess) {
            Some(field) if field.number == number => Some(field),
            _ => self.fields.iter().find(|field| field.number == number),
        }
    }
}

/// The export request of a signal.
pub(crate) const fn request(signal: Signal) -> &'static Message {
    match signal {
        Signal::Traces => &TRACES_REQUEST,
        Signal::Metrics => &METRICS_REQUEST,
        Signal::Logs => &LOGS_REQUEST,
    }
}

const fn message(fields: &'static [Field]) -> Message {
    Message {
        fields,
        is_item: false,
    }
}

const fn item(fields: &'static [Field]) -> Message {
    Message {
        fields,
        is_item: true,
    }
}

const fn plain(number: u32, name: &'static str, kind: Kind) -> Field {
    Field {
        number,
        name,
        kind,
        label: Label::Plain,
    }
}

const fn optional(number: u32, name: &'static str, kind: Kind) -> Field {
    Field {
        number,
        name,
        kind,
        label: Label::Optional,
    }
}

const fn repeated(number: u32, name: &'static str, kind: Kind) -> Field {
    Field {
        number,
        name,
        kind,
        label: Label::Repeated,
    }
}

static TRACES_REQUEST: Message =
    message(&[repeated(1, "resourceSpans", Kind::Message(&RESOURCE_SPANS))]);

static RESOURCE_SPANS: Message = message(&[
    optional(1, "resource", Kind::Message(&RESOURCE)),
    repeated(2, "scopeSpans", Kind::Message(&SCOPE_SPANS)),
    plain(3, "schemaUrl", Kind::String),
]);

static SCOPE_SPANS: Message = message(&[
    optional(1, "scope", Kind::Message(&SCOPE)),
    repeated(2, "spans", Kind::Message(&SPAN)),
    plain(3, "schemaUrl", Kind::String),
]);

static SPAN: Message = item(&[
    plain(1, "traceId", Kind::Id(16)),
    plain(2, "spanId", Kind::Id(8)),
    plain(3, "traceState", Kind::String),
    plain(4, "parentSpanId", Kind::Id(8)),
    plain(5, "name", Kind::String),
    plain(6, "kind", Kind::Enum(&SPAN_KIND)),
    plain(7, "startTimeUnixNano", Kind::Fixed64),
    plain(8, "endTimeUnixNano", Kind::Fixed64),
    repeated(9, "attributes", Kind::Message(&KEY_VALUE)),
    plain(10, "droppedAttributesCount", Kind::Uint32),
    repeated(11, "events", Kind::Message(&EVENT)),
    plain(12, "droppedEventsCount", Kind::Uint32),
    repeated(13, "links", Kind::Message(&LINK)),
    plain(14, "droppedLinksCount", Kind::Uint32),
    optional(15, "status", Kind::Message(&STATUS)),
    plain(16, "flags", Kind::Fixed32),
]);

static SPAN_KIND: Names = Names {
    prefix: "SPAN_KIND_",
    names: &[
        "UNSPECIFIED",
        "INTERNAL",
        "SERVER",
        "CLIENT",
        "PRODUCER",
        "CONSUMER",
    ],
};

/// `Span.Event`.
pub(crate) static EVENT: Message = message(&[
    plain(1, "timeUnixNano", Kind::Fixed64),
    plain(2, "name", Kind::String),
    repeated(3, "attributes", Kind::Message(&KEY_VALUE)),
    plain(4, "droppedAttributesCount", Kind::Uint32),
]);

/// `Span.Link`.
pub(crate) static LINK: Message = message(&[
    plain(1, "traceId", Kind::Id(16)),
    plain(2, "spanId", Kind::Id(8)),
    plain(3, "traceState", Kind::String),
    repeated(4, "attributes", Kind::Message(&KEY_VALUE)),
    plain(5, "droppedAttributesCount", Kind::Uint32),
    plain(6, "flags", Kind::Fixed32),
]);

/// `Status`; field 1 is reserved.
pub(crate) static STATUS: Message = message(&[
    plain(2, "message", Kind::String),
    plain(3, "code", Kind::Enum(&STATUS_CODE)),
]);

static STATUS_CODE: Names = Names {
    prefix: "STATUS_CODE_",
    names: &["UNSET", "OK", "ERROR"],
};

/// `Resource`.
pub(crate) static RESOURCE: Message = message(&[
    repeated(1, "attributes", Kind::Message(&KEY_VALUE)),
    plain(2, "droppedAttributesCount", Kind::Uint32),
    repeated(3, "entityRefs", Kind::Message(&ENTITY_REF)),
]);

static ENTITY_REF: Message = message(&[
    plain(1, "schemaUrl", Kind::String),
    plain(2, "type", Kind::String),
    repeated(3, "idKeys", Kind::String),
    repeated(4, "descriptionKeys", Kind::String),
]);

/// `InstrumentationScope`.
pub(crate) static SCOPE: Message = message(&[
    plain(1, "name", Kind::String),
    plain(2, "version", Kind::String),
    repeated(3, "attributes", Kind::Message(&KEY_VALUE)),
    plain(4, "droppedAttributesCount", Kind::Uint32),
]);

/// `KeyValue`.
pub(crate) static KEY_VALUE: Message = message(&[
    plain(1, "key", Kind::String),
    optional(2, "value", Kind::Message(&ANY_VALUE)),
    plain(3, "keyStrindex", Kind::Int32),
]);

/// `AnyValue`: one oneof.
pub(crate) static ANY_VALUE: Message = message(&[
    optional(1, "stringValue", Kind::String),
    optional(2, "boolValue", Kind::Bool),
    optional(3, "intValue", Kind::Int64),
    optional(4, "doubleValue", Kind::Double),
    optional(5, "arrayValue", Kind::Message(&ARRAY_VALUE)),
    optional(6, "kvlistValue", Kind::Message(&KEY_VALUE_LIST)),
    optional(7, "bytesValue", Kind::Bytes),
    optional(8, "stringValueStrindex", Kind::Int32),
]);

static ARRAY_VALUE: Message = message(&[repeated(1, "values", Kind::Message(&ANY_VALUE))]);

static KEY_VALUE_LIST: Message = message(&[repeated(1, "values", Kind::Message(&KEY_VALUE))]);

static METRICS_REQUEST: Message = message(&[repeated(
    1,
    "resourceMetrics",
    Kind::Message(&RESOURCE_METRICS),
)]);

static RESOURCE_METRICS: Message = message(&[
    optional(1, "resource", Kind::Message(&RESOURCE)),
    repeated(2, "scopeMetrics", Kind::Message(&SCOPE_METRICS)),
    plain(3, "schemaUrl", Kind::String),
]);

static SCOPE_METRICS: Message = message(&[
    optional(1, "scope", Kind::Message(&SCOPE)),
    repeated(2, "metrics", Kind::Message(&METRIC)),
    plain(3, "schemaUrl", Kind::String),
]);

static METRIC: Message = message(&[
    plain(1, "name", Kind::String),
    plain(2, "description", Kind::String),
    plain(3, "unit", Kind::String),
    optional(5, "gauge", Kind::Message(&GAUGE)),
    optional(7, "sum", Kind::Message(&SUM)),
    optional(9, "histogram", Kind::Message(&HISTOGRAM)),
    optional(
        10,
        "exponentialHistogram",
        Kind::Message(&EXPONENTIAL_HISTOGRAM),
    ),
    optional(11, "summary", Kind::Message(&SUMMARY)),
    repeated(12, "metadata", Kind::Message(&KEY_VALUE)),
]);

static GAUGE: Message = message(&[repeated(1, "dataPoints", Kind::Message(&NUMBER_POINT))]);

static SUM: Message = message(&[
    repeated(1, "dataPoints", Kind::Message(&NUMBER_POINT)),
    plain(2, "aggregationTemporality", Kind::Enum(&TEMPORALITY)),
    plain(3, "isMonotonic", Kind::Bool),
]);

static HISTOGRAM: Message = message(&[
    repeated(1, "dataPoints", Kind::Message(&HISTOGRAM_POINT)),
    plain(2, "aggregationTemporality", Kind::Enum(&TEMPORALITY)),
]);

static EXPONENTIAL_HISTOGRAM: Message = message(&[
    repeated(1, "dataPoints", Kind::Message(&EXPONENTIAL_POINT)),
    plain(2, "aggregationTemporality", Kind::Enum(&TEMPORALITY)),
]);

static SUMMARY: Message = message(&[repeated(1, "dataPoints", Kind::Message(&SUMMARY_POINT))]);

static TEMPORALITY: Names = Names {
    prefix: "AGGREGATION_TEMPORALITY_",
    names: &["UNSPECIFIED", "DELTA", "CUMULATIVE"],
};

static NUMBER_POINT: Message = item(&[
    plain(2, "startTimeUnixNano", Kind::Fixed64),
    plain(3, "timeUnixNano", Kind::Fixed64),
    optional(4, "asDouble", Kind::Double),
    repeated(5, "exemplars", Kind::Message(&EXEMPLAR)),
    optional(6, "asInt", Kind::Sfixed64),
    repeated(7, "attributes", Kind::Message(&KEY_VALUE)),
    plain(8, "flags", Kind::Uint32),
]);

static HISTOGRAM_POINT: Message = item(&[
    plain(2, "startTimeUnixNano", Kind::Fixed64),
    plain(3, "timeUnixNano", Kind::Fixed64),
    plain(4, "count", Kind::Fixed64),
    optional(5, "sum", Kind::Double),
    repeated(6, "bucketCounts", Kind::Fixed64),
    repeated(7, "explicitBounds", Kind::Double),
    repeated(8, "exemplars", Kind::Message(&EXEMPLAR)),
    repeated(9, "attributes", Kind::Message(&KEY_VALUE)),
    plain(10, "flags", Kind::Uint32),
    optional(11, "min", Kind::Double),
    optional(12, "max", Kind::Double),
]);

static EXPONENTIAL_POINT: Message = item(&[
    repeated(1, "attributes", Kind::Message(&KEY_VALUE)),
    plain(2, "startTimeUnixNano", Kind::Fixed64),
    plain(3, "timeUnixNano", Kind::Fixed64),
    plain(4, "count", Kind::Fixed64),
    optional(5, "sum", Kind::Double),
    plain(6, "scale", Kind::Sint32),
    plain(7, "zeroCount", Kind::Fixed64),
    optional(8, "positive", Kind::Message(&BUCKETS)),
    optional(9, "negative", Kind::Message(&BUCKETS)),
    plain(10, "flags", Kind::Uint32),
    repeated(11, "exemplars", Kind::Message(&EXEMPLAR)),
    optional(12, "min", Kind::Double),
    optional(13, "max", Kind::Double),
    plain(14, "zeroThreshold", Kind::Double),
]);

static BUCKETS: Message = message(&[
    plain(1, "offset", Kind::Sint32),
    repeated(2, "bucketCounts", Kind::Uint64),
]);

static SUMMARY_POINT: Message = item(&[
    plain(2, "startTimeUnixNano", Kind::Fixed64),
    plain(3, "timeUnixNano", Kind::Fixed64),
    plain(4, "count", Kind::Fixed64),
    plain(5, "sum", Kind::Double),
    repeated(6, "quantileValues", Kind::Message(&QUANTILE)),
    repeated(7, "attributes", Kind::Message(&KEY_VALUE)),
    plain(8, "flags", Kind::Uint32),
]);

static QUANTILE: Message = message(&[
    plain(1, "quantile", Kind::Double),
    plain(2, "value", Kind::Double),
]);

static EXEMPLAR: Message = message(&[
    plain(2, "timeUnixNano", Kind::Fixed64),
    optional(3, "asDouble", Kind::Double),
    plain(4, "spanId", Kind::Id(8)),
    plain(5, "traceId", Kind::Id(16)),
    optional(6, "asInt", Kind::Sfixed64),
    repeated(7, "filteredAttributes", Kind::Message(&KEY_VALUE)),
]);

static LOGS_REQUEST: Message =
    message(&[repeated(1, "resourceLogs", Kind::Message(&RESOURCE_LOGS))]);

static RESOURCE_LOGS: Message = message(&[
    optional(1, "resource", Kind::Message(&RESOURCE)),
    repeated(2, "scopeLogs", Kind::Message(&SCOPE_LOGS)),
    plain(3, "schemaUrl", Kind::String),
]);

static SCOPE_LOGS: Message = message(&[
    optional(1, "scope", Kind::Message(&SCOPE)),
    repeated(2, "logRecords", Kind::Message(&LOG_RECORD)),
    plain(3, "schemaUrl", Kind::String),
]);

static LOG_RECORD: Message = item(&[
    plain(1, "timeUnixNano", Kind::Fixed64),
    plain(2, "severityNumber", Kind::Enum(&SEVERITY)),
    plain(3, "severityText", Kind::String),
    optional(5, "body", Kind::Message(&ANY_VALUE)),
    repeated(6, "attributes", Kind::Message(&KEY_VALUE)),
    plain(7, "droppedAttributesCount", Kind::Uint32),
    plain(8, "flags", Kind::Fixed32),
    plain(9, "traceId", Kind::Id(16)),
    plain(10, "spanId", Kind::Id(8)),
    plain(11, "observedTimeUnixNano", Kind::Fixed64),
    plain(12, "eventName", Kind::String),
]);

static SEVERITY: Names = Names {
    prefix: "SEVERITY_NUMBER_",
    names: &[
        "UNSPECIFIED",
        "TRACE",
        "TRACE2",
        "TRACE3",
        "TRACE4",
        "DEBUG",
        "DEBUG2",
        "DEBUG3",
        "DEBUG4",
        "INFO",
        "INFO2",
        "INFO3",
        "INFO4",
        "WARN",
        "WARN2",
        "WARN3",
        "WARN4",
        "ERROR",
        "ERROR2",
        "ERROR3",
        "ERROR4",
        "FATAL",
        "FATAL2",
        "FATAL3",
        "FATAL4",
    ],
};
