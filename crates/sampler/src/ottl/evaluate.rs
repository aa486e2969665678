//! Evaluating a condition on one span, one event or one resource, undecoded.
//!
//! `and` and `or` go from left to right and stop as soon as the answer is known; what cannot be
//! evaluated before that fails the whole condition.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "every other type is treated alike, also a new one"
)]

use otlp::attribute::{self, Value};
use otlp::span::{Event, SpanSummary};
use regex::Regex;

use crate::ottl::syntax::{Arithmetic, Comparison, Key};
use crate::ottl::value::{Datum, Failed, Hex, Made};
use crate::trace_state;

/// Truths of the conditions on a resource alone, evaluated once for all its spans.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ResourceTruths {
    pub(super) are_true: u64,
    pub(super) have_failed: u64,
}

/// What a condition is evaluated on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame<'a> {
    /// Bytes of the resource, where a condition on it alone is evaluated.
    pub(super) resource: &'a [u8],
    /// Of an attribute that is repeated the first counts, not the last.
    pub(super) first_counts: bool,
    pub(super) truths: ResourceTruths,
    pub(super) span: Option<&'a SpanSummary<'a>>,
    /// Values by slot.
    pub(super) span_attributes: &'a [Value<'a>],
    pub(super) event: Option<&'a Event<'a>>,
    pub(super) event_attributes: &'a [Value<'a>],
}

/// A condition, or a part of one, that is true or false.
#[derive(Debug)]
pub(super) enum Check {
    Or(Vec<Self>),
    And(Vec<Self>),
    Not(Box<Self>),
    Compare(Operand, Comparison, Operand),
    Truth(Operand),
    /// On a resource alone, by its number there.
    OfResource(u32),
}

/// A value, or where it comes from.
#[derive(Debug)]
pub(super) enum Operand {
    Nil,
    Bool(bool),
    Int(i64),
    Double(f64),
    Text(Box<str>),
    Bytes(Box<[u8]>),
    Duration(i64),
    Field(Field),
    /// An attribute of the resource.
    ResourceAttribute(Box<str>, Vec<Key>),
    /// An attribute of the span, by slot.
    SpanAttribute(usize, Vec<Key>),
    /// An attribute of the event, by slot.
    EventAttribute(usize, Vec<Key>),
    /// An entry of the span's `tracestate`.
    TraceState(Box<str>),
    Calculate(Box<Self>, Arithmetic, Box<Self>),
    Call(Function, Box<Self>),
}

/// A field of a span or an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    TraceId,
    TraceIdText,
    SpanId,
    SpanIdText,
    ParentSpanId,
    ParentSpanIdText,
    TraceState,
    Flags,
    Name,
    Kind,
    KindText,
    StartTime,
    EndTime,
    StartTimeUnixNano,
    EndTimeUnixNano,
    StatusCode,
    StatusMessage,
    DroppedAttributesCount,
    DroppedEventsCount,
    DroppedLinksCount,
    EventName,
    EventTime,
    EventTimeUnixNano,
    EventDroppedAttributesCount,
}

/// What a function does with its first argument.
#[derive(Debug)]
pub(super) enum Function {
    IsMatch(Regex),
    HasPrefix(Box<str>),
    HasSuffix(Box<str>),
    IsText,
    IsInt,
    IsDouble,
    IsBool,
    IsMap,
    IsList,
    /// Is it the empty text?
    HasNoText,
    Length,
    ToInt,
    ToDouble,
    ToText,
    /// A duration in whole units of so many nanoseconds.
    WholeUnits(i64),
    /// A duration in units of so many nanoseconds, with a fraction.
    Units(f64),
    /// A time in whole units of so many nanoseconds since 1970.
    UnixUnits(u64),
}

impl Check {
    pub(super) fn evaluate(&self, frame: &Frame<'_>) -> Result<bool, Failed> {
        match self {
            Self::Or(checks) => {
                for check in checks {
                    if check.evaluate(frame)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Self::And(checks) => {
                for check in checks {
                    if !check.evaluate(frame)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Self::Not(check) => Ok(!check.evaluate(frame)?),
            Self::Compare(left, operator, right) => {
                let (left, right) = (left.evaluate(frame)?, right.evaluate(frame)?);
                Ok(left.compare(*operator, &right))
            }
            Self::Truth(operand) => match operand.evaluate(frame)? {
                Datum::Bool(is_true) => Ok(is_true),
                _ => Err(Failed),
            },
            Self::OfResource(number) => {
                if frame.truths.have_failed >> number & 1 == 1 {
                    return Err(Failed);
                }
                Ok(frame.truths.are_true >> number & 1 == 1)
            }
        }
    }
}

impl Operand {
    fn evaluate<'a>(&'a self, frame: &Frame<'a>) -> Result<Datum<'a>, Failed> {
        Ok(match self {
            Self::Nil => Datum::Nil,
            Self::Bool(is_true) => Datum::Bool(*is_true),
            Self::Int(int) => Datum::Int(*int),
            Self::Double(double) => Datum::Double(*double),
            Self::Text(text) => Datum::Text(text),
            Self::Bytes(bytes) => Datum::Bytes(bytes),
            Self::Duration(nanos) => Datum::Duration(*nanos),
            Self::Field(field) => field.read(frame),
            Self::ResourceAttribute(key, keys) => {
                let attributes = attribute::of_resource(frame.resource);
                let value = if frame.first_counts {
                    let of_key = attributes.flatten().find(|(name, _)| *name == &**key);
                    of_key.map(|(_, value)| value)
                } else {
                    attribute::lookup(attributes, key)
                };
                return index(value, keys);
            }
            Self::SpanAttribute(slot, keys) => {
                return index(frame.span_attributes.get(*slot).copied(), keys);
            }
            Self::EventAttribute(slot, keys) => {
                return index(frame.event_attributes.get(*slot).copied(), keys);
            }
            Self::TraceState(key) => {
                let trace_state = frame.span.map_or("", |span| span.trace_state);
                trace_state::lookup(trace_state, key).map_or(Datum::Nil, Datum::Text)
            }
            Self::Calculate(left, operator, right) => {
                let left = left.evaluate(frame)?;
                return left.calculate(*operator, right.evaluate(frame)?);
            }
            Self::Call(function, argument) => {
                return function.apply(argument.evaluate(frame)?);
            }
        })
    }
}

/// Follows the indexes into maps and lists; what is not there is `nil`, as is a part of what has no
/// parts at all.
fn index<'a>(value: Option<Value<'a>>, keys: &[Key]) -> Result<Datum<'a>, Failed> {
    let mut value = value.unwrap_or(Value::Empty);
    for key in keys {
        let part = match (value, key) {
            (Value::KvList(map), Key::Name(name)) => {
                attribute::lookup(attribute::of_kvlist(map), name)
            }
            (Value::Array(array), Key::Position(position)) => {
                match attribute::elements(array).nth(*position) {
                    Some(element) => Some(element.map_err(|_| Failed)?),
                    // Beyond the end is an error in the language.
                    None => return Err(Failed),
                }
            }
            (Value::Empty, _) => None,
            _ => return Err(Failed),
        };
        value = part.unwrap_or(Value::Empty);
    }
    Ok(value.into())
}

impl Field {
    fn read<'a>(self, frame: &Frame<'a>) -> Datum<'a> {
        match (frame.span, frame.event) {
            (_, Some(event)) if self.is_of_event() => self.read_event(event),
            (Some(span), _) => self.read_span(span),
            _ => Datum::Nil,
        }
    }

    fn is_of_event(self) -> bool {
        matches!(
            self,
            Self::EventName
                | Self::EventTime
                | Self::EventTimeUnixNano
                | Self::EventDroppedAttributesCount
        )
    }

    fn read_event<'a>(self, event: &Event<'a>) -> Datum<'a> {
        match self {
            Self::EventName => Datum::Text(event.name),
            Self::EventTime => Datum::Time(event.time_unix_nano),
            Self::EventTimeUnixNano => Datum::Int(event.time_unix_nano.cast_signed()),
            _ => Datum::Int(event.dropped_attributes_count.into()),
        }
    }

    fn read_span<'a>(self, span: &SpanSummary<'a>) -> Datum<'a> {
        let text = |bytes: &[u8]| Datum::Made(Made::new(format_args!("{}", Hex(bytes))));
        let parent = span.parent_span_id.as_ref();
        match self {
            Self::TraceId => Datum::Id(*span.trace_id.as_bytes(), 16),
            Self::TraceIdText => text(span.trace_id.as_bytes()),
            Self::SpanId => id(Some(span.span_id.as_bytes())),
            Self::SpanIdText => text(span.span_id.as_bytes()),
            Self::ParentSpanId => id(parent.map(otlp::SpanId::as_bytes)),
            Self::ParentSpanIdText => parent.map_or(Datum::Text(""), |id| text(id.as_bytes())),
            Self::TraceState => Datum::Text(span.trace_state),
            Self::Flags => Datum::Int(span.flags.into()),
            Self::Name => Datum::Text(span.name),
            Self::Kind => Datum::Int(span.kind.number().into()),
            Self::KindText => Datum::Text(kind_text(span.kind)),
            Self::StartTime => Datum::Time(span.start_time_unix_nano),
            Self::EndTime => Datum::Time(span.end_time_unix_nano),
            Self::StartTimeUnixNano => Datum::Int(span.start_time_unix_nano.cast_signed()),
            Self::EndTimeUnixNano => Datum::Int(span.end_time_unix_nano.cast_signed()),
            Self::StatusCode => Datum::Int(span.status_code.number().into()),
            Self::StatusMessage => Datum::Text(span.status_message),
            Self::DroppedAttributesCount => Datum::Int(span.dropped_attributes_count.into()),
            Self::DroppedEventsCount => Datum::Int(span.dropped_events_count.into()),
            Self::DroppedLinksCount => Datum::Int(span.dropped_links_count.into()),
            Self::EventName
            | Self::EventTime
            | Self::EventTimeUnixNano
            | Self::EventDroppedAttributesCount => Datum::Nil,
        }
    }
}

/// A span id; no parent is all zero.
fn id<'a>(bytes: Option<&[u8; 8]>) -> Datum<'a> {
    let mut padded = [0; 16];
    for (to, from) in padded.iter_mut().zip(bytes.into_iter().flatten()) {
        *to = *from;
    }
    Datum::Id(padded, 8)
}

fn kind_text(kind: otlp::span::SpanKind) -> &'static str {
    use otlp::span::SpanKind;
    match kind {
        SpanKind::Unspecified => "Unspecified",
        SpanKind::Internal => "Internal",
        SpanKind::Server => "Server",
        SpanKind::Client => "Client",
        SpanKind::Producer => "Producer",
        SpanKind::Consumer => "Consumer",
    }
}

impl Function {
    fn apply<'a>(&self, argument: Datum<'a>) -> Result<Datum<'a>, Failed> {
        Ok(match self {
            Self::IsMatch(regex) => {
                let text = argument.to_text()?;
                Datum::Bool(text.as_text().is_some_and(|text| regex.is_match(text)))
            }
            Self::HasPrefix(prefix) => {
                let text = argument.as_text().ok_or(Failed)?;
                Datum::Bool(text.starts_with(&**prefix))
            }
            Self::HasSuffix(suffix) => {
                let text = argument.as_text().ok_or(Failed)?;
                Datum::Bool(text.ends_with(&**suffix))
            }
            Self::IsText => Datum::Bool(argument.as_text().is_some()),
            Self::IsInt => Datum::Bool(matches!(argument, Datum::Int(_))),
            Self::IsDouble => Datum::Bool(matches!(argument, Datum::Double(_))),
            Self::IsBool => Datum::Bool(matches!(argument, Datum::Bool(_))),
            Self::IsMap => Datum::Bool(matches!(argument, Datum::Map(_))),
            Self::IsList => Datum::Bool(matches!(argument, Datum::List(_))),
            Self::HasNoText => Datum::Bool(argument.as_text() == Some("")),
            Self::Length => Datum::Int(length(&argument)?),
            Self::ToInt => return argument.to_int(),
            Self::ToDouble => return argument.to_double(),
            Self::ToText => return argument.to_text(),
            Self::WholeUnits(nanos) => match argument {
                Datum::Duration(duration) => Datum::Int(duration / nanos),
                _ => return Err(Failed),
            },
            Self::Units(nanos) => match argument {
                Datum::Duration(duration) => Datum::Double(duration as f64 / nanos),
                _ => return Err(Failed),
            },
            Self::UnixUnits(nanos) => match argument {
                Datum::Time(time) => Datum::Int((time / nanos).cast_signed()),
                _ => return Err(Failed),
            },
        })
    }
}

/// Bytes of a text, parts of a list or a map.
fn length(argument: &Datum<'_>) -> Result<i64, Failed> {
    let n = match argument {
        Datum::List(list) => attribute::elements(list).count(),
        Datum::Map(map) => attribute::of_kvlist(map).count(),
        Datum::Bytes(bytes) => bytes.len(),
        _ => argument.as_text().ok_or(Failed)?.len(),
    };
    i64::try_from(n).map_err(|_| Failed)
}
