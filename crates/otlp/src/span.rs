//! A span read straight from its bytes: summary, events and links, without allocation.
//!
//! Field numbers and meanings are those of `trace.proto`. Of a singular field that repeats, the last
//! counts; `status` is merged field by field, as protobuf demands. `flags` keeps its upper bits
//! (0x100: the next bit is known, 0x200: the parent is remote), `trace_state` is verbatim.

use crate::{
    attribute::Attributes,
    error::{Error, Result},
    ids::{SpanId, TraceId},
    wire::{self, Fields},
};

/// Facts of a span that need no decoding of attributes, events and links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanSummary<'a> {
    /// Trace that the span belongs to.
    pub trace_id: TraceId,
    /// Id of the span in its trace.
    pub span_id: SpanId,
    /// Parent; `None` for a root, and for a parent id that is all zero or of another length.
    pub parent_span_id: Option<SpanId>,
    /// W3C `tracestate`, as it was sent.
    pub trace_state: &'a str,
    /// W3C trace flags in the low 8 bits, OTLP's own above; 0 if unknown.
    pub flags: u32,
    /// Name of the operation.
    pub name: &'a str,
    /// Role in the call.
    pub kind: SpanKind,
    /// Start in nanoseconds since 1970 (UTC).
    pub start_time_unix_nano: u64,
    /// End in nanoseconds since 1970 (UTC); 0 if it was not sent; may lie before the start.
    pub end_time_unix_nano: u64,
    /// Outcome.
    pub status_code: StatusCode,
    /// Text of the outcome; also kept without a code.
    pub status_message: &'a str,
    /// Attributes that the sender discarded.
    pub dropped_attributes_count: u32,
    /// Events that the sender discarded.
    pub dropped_events_count: u32,
    /// Links that the sender discarded.
    pub dropped_links_count: u32,
    /// It has links; [`links`] reads them.
    pub has_links: bool,
}

impl SpanSummary<'_> {
    /// Reads the bytes of a `Span` message. Attributes, events and links are skipped over, not
    /// checked.
    ///
    /// # Errors
    /// [`Error::TraceId`] and [`Error::SpanId`] for ids that cannot be; else broken framing or text.
    #[inline]
    pub fn read(span: &[u8]) -> Result<SpanSummary<'_>> {
        Parts::read(Fields::new(span))?.summary()
    }

    /// Nanoseconds from start to end; 0 if the end lies before the start or was not sent.
    #[inline]
    pub const fn duration_ns(&self) -> u64 {
        self.end_time_unix_nano
            .saturating_sub(self.start_time_unix_nano)
    }
}

#[inline]
fn read_status<'a>(mut status: Fields<'a>, code: &mut u32, message: &mut &'a str) -> Result<()> {
    while let Some((number, value)) = status.step()? {
        match number {
            2 => *message = status.str_of(number, value)?,
            3 => *code = status.uint32_of(number, value)?,
            _ => {}
        }
    }
    Ok(())
}

/// `Span.SpanKind`. Numbers of a later version count as unspecified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SpanKind {
    /// Not said.
    #[default]
    Unspecified,
    /// Inside a service.
    Internal,
    /// Serves a remote call.
    Server,
    /// Makes a remote call.
    Client,
    /// Hands a message to a broker.
    Producer,
    /// Takes a message from a broker.
    Consumer,
}

impl SpanKind {
    /// The kind with this number on the wire.
    #[inline]
    pub const fn from_number(number: u32) -> Self {
        match number {
            1 => Self::Internal,
            2 => Self::Server,
            3 => Self::Client,
            4 => Self::Producer,
            5 => Self::Consumer,
            _ => Self::Unspecified,
        }
    }

    /// Every kind.
    pub const ALL: [Self; 6] = [
        Self::Unspecified,
        Self::Internal,
        Self::Server,
        Self::Client,
        Self::Producer,
        Self::Consumer,
    ];

    /// Its number on the wire.
    pub const fn number(self) -> u32 {
        match self {
            Self::Unspecified => 0,
            Self::Internal => 1,
            Self::Server => 2,
            Self::Client => 3,
            Self::Producer => 4,
            Self::Consumer => 5,
        }
    }

    /// OTLP's name without the prefix `SPAN_KIND_`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unspecified => "UNSPECIFIED",
            Self::Internal => "INTERNAL",
            Self::Server => "SERVER",
            Self::Client => "CLIENT",
            Self::Producer => "PRODUCER",
            Self::Consumer => "CONSUMER",
        }
    }
}

/// `Status.StatusCode`. Numbers of a later version count as unset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StatusCode {
    /// Not said.
    #[default]
    Unset,
    /// Declared a success.
    Ok,
    /// Failed.
    Error,
}

impl StatusCode {
    /// The code with this number on the wire.
    #[inline]
    pub const fn from_number(number: u32) -> Self {
        match number {
            1 => Self::Ok,
            2 => Self::Error,
            _ => Self::Unset,
        }
    }

    /// Its number on the wire.
    pub const fn number(self) -> u32 {
        match self {
            Self::Unset => 0,
            Self::Ok => 1,
            Self::Error => 2,
        }
    }

    /// OTLP's name without the prefix `STATUS_CODE_`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unset => "UNSET",
            Self::Ok => "OK",
            Self::Error => "ERROR",
        }
    }
}

/// An event of a span.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// When it happened, in nanoseconds since 1970 (UTC); 0 if unknown.
    pub time_unix_nano: u64,
    /// Its name; may be empty.
    pub name: &'a str,
    /// Attributes that the sender discarded.
    pub dropped_attributes_count: u32,
    message: &'a [u8],
}

impl<'a> Event<'a> {
    fn read(mut fields: Fields<'a>) -> Result<Self> {
        let message = fields.rest();
        let mut event = Self {
            time_unix_nano: 0,
            name: "",
            dropped_attributes_count: 0,
            message,
        };
        while let Some((number, value)) = fields.step()? {
            match number {
                1 => event.time_unix_nano = fields.fixed64_of(number, value)?,
                2 => event.name = fields.str_of(number, value)?,
                4 => event.dropped_attributes_count = fields.uint32_of(number, value)?,
                _ => {}
            }
        }
        Ok(event)
    }

    /// Its attributes.
    pub const fn attributes(&self) -> Attributes<'a> {
        Attributes::new(self.message, 3)
    }
}

/// A link of a span to another span.
#[derive(Clone, Copy, Debug)]
pub struct Link<'a> {
    /// Trace linked to; `None` if the sender gave no valid id.
    pub trace_id: Option<TraceId>,
    /// Span linked to; `None` if the sender gave no valid id.
    pub span_id: Option<SpanId>,
    /// W3C `tracestate` of the link, as it was sent.
    pub trace_state: &'a str,
    /// W3C trace flags in the low 8 bits, OTLP's own above; 0 if unknown.
    pub flags: u32,
    /// Attributes that the sender discarded.
    pub dropped_attributes_count: u32,
    message: &'a [u8],
}

impl<'a> Link<'a> {
    fn read(mut fields: Fields<'a>) -> Result<Self> {
        let mut link = Self {
            trace_id: None,
            span_id: None,
            trace_state: "",
            flags: 0,
            dropped_attributes_count: 0,
            message: fields.rest(),
        };
        while let Some((number, value)) = fields.step()? {
            match number {
                1 => link.trace_id = TraceId::from_slice(fields.bytes_of(number, value)?).ok(),
                2 => link.span_id = SpanId::from_slice(fields.bytes_of(number, value)?).ok(),
                3 => link.trace_state = fields.str_of(number, value)?,
                5 => link.dropped_attributes_count = fields.uint32_of(number, value)?,
                6 => link.flags = fields.fixed32_of(number, value)?,
                _ => {}
            }
        }
        Ok(link)
    }

    /// Its attributes.
    pub const fn attributes(&self) -> Attributes<'a> {
        Attributes::new(self.message, 4)
    }
}

/// Events of the bytes of a `Span` in wire order. Ends after broken framing of the span.
pub fn events(span: &[u8]) -> impl Iterator<Item = Result<Event<'_>>> + Clone {
    messages(span, 11, Event::read)
}

/// Links of the bytes of a `Span` in wire order. Ends after broken framing of the span.
pub fn links(span: &[u8]) -> impl Iterator<Item = Result<Link<'_>>> + Clone {
    messages(span, 13, Link::read)
}

fn messages<'a, T, F>(
    span: &'a [u8],
    field: u32,
    read: F,
) -> impl Iterator<Item = Result<T>> + Clone
where
    F: Fn(Fields<'a>) -> Result<T> + Clone,
{
    let mut fields = Fields::new(span);
    std::iter::from_fn(move || {
        loop {
            match fields.next()? {
                Ok((number, value)) if number == field => {
                    return Some(fields.message_of(number, value).and_then(&read));
                }
                Ok(_) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    })
}

/// The fields of a span as they were sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Parts<'a> {
    pub(crate) identity: Identity<'a>,
    parent_span_id: &'a [u8],
    trace_state: &'a str,
    flags: u32,
    name: &'a str,
    kind: u32,
    status_code: u32,
    status_message: &'a str,
    dropped_attributes_count: u32,
    dropped_events_count: u32,
    dropped_links_count: u32,
    has_links: bool,
}

impl<'a> Parts<'a> {
    #[inline]
    pub(crate) fn read(mut fields: Fields<'a>) -> Result<Self> {
        let mut parts = Self::default();
        while let Some(key) = fields.key()? {
            match key {
                key::ATTRIBUTE => {
                    fields.delimited()?;
                    fields.skip_run(key::ATTRIBUTE);
                }
                key::TRACE_ID => parts.identity.trace_id = fields.delimited()?,
                key::SPAN_ID => parts.identity.span_id = fields.delimited()?,
                key::TRACE_STATE => parts.trace_state = fields.text(3)?,
                key::PARENT_SPAN_ID => parts.parent_span_id = fields.delimited()?,
                key::NAME => parts.name = fields.text(5)?,
                key::KIND => parts.kind = wire::low_half(fields.varint()?),
                key::START => parts.identity.start_time_unix_nano = fields.fixed64()?,
                key::END => parts.identity.end_time_unix_nano = fields.fixed64()?,
                key::DROPPED_ATTRIBUTES => {
                    parts.dropped_attributes_count = wire::low_half(fields.varint()?);
                }
                key::DROPPED_EVENTS => {
                    parts.dropped_events_count = wire::low_half(fields.varint()?);
                }
                key::LINK => {
                    fields.delimited()?;
                    parts.has_links = true;
                }
                key::DROPPED_LINKS => {
                    parts.dropped_links_count = wire::low_half(fields.varint()?);
                }
                key::STATUS => {
                    let status = fields.message()?;
                    read_status(status, &mut parts.status_code, &mut parts.status_message)?;
                }
                key::FLAGS => parts.flags = fields.fixed32()?,
                other => fields.skip_other(other, key::OF_SUMMARY)?,
            }
        }
        Ok(parts)
    }

    /// # Errors
    /// Ids that cannot be.
    #[inline]
    pub(crate) fn summary(&self) -> Result<SpanSummary<'a>> {
        let Identity {
            trace_id,
            span_id,
            start_time_unix_nano,
            end_time_unix_nano,
        } = self.identity;
        Ok(SpanSummary {
            trace_id: TraceId::from_slice(trace_id).map_err(|_| Error::TraceId)?,
            span_id: SpanId::from_slice(span_id).map_err(|_| Error::SpanId)?,
            parent_span_id: SpanId::from_slice(self.parent_span_id).ok(),
            trace_state: self.trace_state,
            flags: self.flags,
            name: self.name,
            kind: SpanKind::from_number(self.kind),
            start_time_unix_nano,
            end_time_unix_nano,
            status_code: StatusCode::from_number(self.status_code),
            status_message: self.status_message,
            dropped_attributes_count: self.dropped_attributes_count,
            dropped_events_count: self.dropped_events_count,
            dropped_links_count: self.dropped_links_count,
            has_links: self.has_links,
        })
    }
}

/// Ids and times of a span: what decides whether it is accepted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Identity<'a> {
    pub(crate) trace_id: &'a [u8],
    pub(crate) span_id: &'a [u8],
    pub(crate) start_time_unix_nano: u64,
    pub(crate) end_time_unix_nano: u64,
}

impl<'a> Identity<'a> {
    /// Reads them from a span, without looking at anything else.
    #[inline]
    pub(crate) fn read(mut fields: Fields<'a>) -> Result<Self> {
        let mut identity = Self::default();
        while let Some(key) = fields.key()? {
            match key {
                key::ATTRIBUTE => {
                    fields.delimited()?;
                    fields.skip_run(key::ATTRIBUTE);
                }
                key::TRACE_ID => identity.trace_id = fields.delimited()?,
                key::SPAN_ID => identity.span_id = fields.delimited()?,
                key::START => identity.start_time_unix_nano = fields.fixed64()?,
                key::END => identity.end_time_unix_nano = fields.fixed64()?,
                other => fields.skip_other(other, key::OF_IDENTITY)?,
            }
        }
        Ok(identity)
    }
}

/// The fields of a `Span`: number and wire type in one.
pub(crate) mod key {
    use crate::wire::{bytes_key, fixed32_key, fixed64_key, varint_key};

    pub(crate) const TRACE_ID: u32 = bytes_key(1);
    pub(crate) const SPAN_ID: u32 = bytes_key(2);
    pub(crate) const TRACE_STATE: u32 = bytes_key(3);
    pub(crate) const PARENT_SPAN_ID: u32 = bytes_key(4);
    pub(crate) const NAME: u32 = bytes_key(5);
    pub(crate) const KIND: u32 = varint_key(6);
    pub(crate) const START: u32 = fixed64_key(7);
    pub(crate) const END: u32 = fixed64_key(8);
    pub(crate) const ATTRIBUTE: u32 = bytes_key(9);
    pub(crate) const DROPPED_ATTRIBUTES: u32 = varint_key(10);
    pub(crate) const EVENT: u32 = bytes_key(11);
    pub(crate) const DROPPED_EVENTS: u32 = varint_key(12);
    pub(crate) const LINK: u32 = bytes_key(13);
    pub(crate) const DROPPED_LINKS: u32 = varint_key(14);
    pub(crate) const STATUS: u32 = bytes_key(15);
    pub(crate) const FLAGS: u32 = fixed32_key(16);

    /// Numbers of the fields that a reader of ids and times knows: bit n for field n.
    pub(crate) const OF_IDENTITY: u32 = 0b1_1000_0110;
    /// Of those that a reader of summaries knows: all but attributes, events and links.
    pub(crate) const OF_SUMMARY: u32 = ALL & !(1 << 9 | 1 << 11 | 1 << 13);
    /// Of all.
    pub(crate) const ALL: u32 = 0b1_1111_1111_1111_1110;
}
