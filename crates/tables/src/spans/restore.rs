//! Rows of `spans` back into spans: the inverse of [`super::SpansBuilder`].
//!
//! A row restored as its likely reading and stored again is the same row, except for the two counts
//! of redaction, and where a value of an unexpected type was cut.
//!
//! # What a row does not say
//!
//! *Types.* Maps hold text: `42` was a number or a text. [`Attribute::readings`] are all values that
//! leave this text, the likely one first: a boolean, a number, a list, and only then a text. In a
//! column of its own the type is known.
//!
//! *Twice or once.* A canonical key stands in its column only; where an alias or an event accounts
//! for the column too, the key may have been sent or not.
//!
//! *What was removed or cut* before storing: [`StoredSpan::lost`] says so, by the rules that are given
//! to it, which must be those that were in force.
//!
//! Not stored at all: attributes of scopes, schema URLs of scopes, unknown fields, links' invalid
//! ids, all but the last value of a repeated key, times outside of what 64 bits hold.
//! Doubles inside of lists and maps come back only if JSON reads them exactly; else the whole is text.

mod columns;
mod encode;
mod settle;
mod value;

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use otlp::export::SpanAt;
use otlp::span::{SpanKind, StatusCode};
use otlp::{SpanId, TraceId};

use self::columns::Columns;
use crate::redact::{Action, Place, Redaction};

pub use self::value::StoredValue;

/// Why rows are not those of `spans`.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A column is missing.
    #[error("the rows have no column `{column}`")]
    Column {
        /// Its name.
        column: &'static str,
    },
    /// A column has another type.
    #[error("read column `{column}`")]
    Type {
        /// Its name.
        column: &'static str,
        /// What Arrow says.
        #[source]
        source: ArrowError,
    },
    /// An id is none.
    #[error("row {row} of the batch has no valid trace and span id")]
    Id {
        /// Counted from 0.
        row: usize,
    },
}

/// Rows of `spans`, with at least the columns of [`super::SPEC`].
#[derive(Debug)]
pub struct StoredSpans {
    columns: Columns,
    n_rows: usize,
}

/// One row.
#[derive(Clone, Debug)]
pub struct StoredSpan {
    /// Its trace.
    pub trace_id: TraceId,
    /// Its id.
    pub span_id: SpanId,
    /// Its parent.
    pub parent_span_id: Option<SpanId>,
    /// W3C `tracestate`.
    pub trace_state: String,
    /// W3C trace flags in the low 8 bits, OTLP's own above.
    pub flags: u32,
    /// Name of the operation.
    pub name: String,
    /// Role in the call.
    pub kind: SpanKind,
    /// Start in nanoseconds since 1970 (UTC); 0 if none is stored.
    pub start_time_unix_nano: u64,
    /// End in nanoseconds since 1970 (UTC); 0 if none is stored.
    pub end_time_unix_nano: u64,
    /// Outcome.
    pub status_code: StatusCode,
    /// Text of the outcome.
    pub status_message: String,
    /// Instrumentation scope and its version.
    pub scope: (String, String),
    /// Of resource, span, events and links.
    pub attributes: Vec<Attribute>,
    /// Of the span, its events and its links: what the sender discarded.
    pub dropped_counts: [u32; 3],
    /// Schema of the resource.
    pub resource_schema_url: String,
    /// It arrived after its trace was decided.
    pub late: bool,
    /// When it was received, in microseconds since 1970 (UTC).
    pub received_unix_micros: i64,
    events: Vec<Event>,
    links: Vec<Link>,
    is_redacted: bool,
    is_truncated: bool,
}

#[derive(Clone, Debug)]
struct Event {
    time_unix_nano: u64,
    name: String,
    dropped_attributes_count: u32,
}

#[derive(Clone, Debug)]
struct Link {
    trace_id: Option<TraceId>,
    span_id: Option<SpanId>,
    trace_state: String,
    flags: u32,
    dropped_attributes_count: u32,
}

/// What an attribute belongs to; events and links by their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holder {
    /// The resource.
    Resource,
    /// The span.
    Span,
    /// One of its events.
    Event(usize),
    /// One of its links.
    Link(usize),
}

/// An attribute as far as a row tells.
#[derive(Clone, Debug)]
pub struct Attribute {
    /// What it belongs to.
    pub holder: Holder,
    /// Its key.
    pub key: String,
    /// Values that it can have had, the likely one first, at least one; `None` stands for an
    /// attribute that was not there.
    pub readings: Vec<Option<StoredValue>>,
}

/// What happened to a value on its way into a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// It may have been removed, or a part of it.
    Redacted,
    /// It was shortened.
    Cut,
}

/// A span as bytes, with what surrounds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// `Resource` message.
    pub resource: Vec<u8>,
    /// `ResourceSpans.schema_url`.
    pub resource_schema_url: String,
    /// `InstrumentationScope` message.
    pub scope: Vec<u8>,
    /// `Span` message.
    pub span: Vec<u8>,
}

impl StoredSpans {
    /// Reads the columns; strings and lists may come in any of Arrow's encodings.
    ///
    /// # Errors
    /// [`ReadError::Column`] and [`ReadError::Type`].
    pub fn over(batch: &RecordBatch) -> Result<Self, ReadError> {
        Ok(Self {
            columns: Columns::over(batch)?,
            n_rows: batch.num_rows(),
        })
    }

    /// Number of rows.
    pub const fn len(&self) -> usize {
        self.n_rows
    }

    /// Are there no rows?
    pub const fn is_empty(&self) -> bool {
        self.n_rows == 0
    }

    /// Every row in order.
    pub fn iter(&self) -> impl Iterator<Item = Result<StoredSpan, ReadError>> + '_ {
        (0..self.n_rows).map(|row| self.columns.span(row))
    }
}

impl StoredSpan {
    /// The span in its likely reading.
    pub fn restore(&self) -> Restored {
        self.encode(&[])
    }

    /// The span in every reading of the attributes that `is_read` picks, the likely one first; all
    /// other attributes have their likely value. Where that is more than `n_max`, only the likely
    /// one and the attributes that have others.
    pub fn readings(
        &self,
        n_max: usize,
        is_read: impl Fn(Holder, &str) -> bool,
    ) -> (Vec<Restored>, Vec<&Attribute>) {
        let open = self.attributes.iter().enumerate().filter(|(_, attribute)| {
            attribute.readings.len() > 1 && is_read(attribute.holder, &attribute.key)
        });
        let open: Vec<(usize, &Attribute)> = open.collect();
        let n_readings = open.iter().try_fold(1_usize, |product, (_, attribute)| {
            let product = product.checked_mul(attribute.readings.len())?;
            Some(product).filter(|product| *product <= n_max)
        });
        let Some(n_readings) = n_readings else {
            let open = open.into_iter().map(|(_, attribute)| attribute).collect();
            return (vec![self.restore()], open);
        };
        let of_number = |mut number: usize| {
            let choice = open.iter().map(|(place, attribute)| {
                let reading = number % attribute.readings.len();
                number /= attribute.readings.len();
                (*place, reading)
            });
            self.encode(&choice.collect::<Vec<_>>())
        };
        ((0..n_readings).map(of_number).collect(), Vec::new())
    }

    /// What happened to the attribute `key` of the resource, the span, or any event.
    pub fn lost(&self, holder: Holder, key: &str, redaction: &Redaction) -> Option<Loss> {
        match holder {
            Holder::Resource => self.lost_of(holder, key, Place::Plain, redaction),
            Holder::Span => {
                self.lost_of(holder, key, redaction.place_of_span(&self.name), redaction)
            }
            Holder::Event(_) => self.events.iter().enumerate().find_map(|(number, event)| {
                let place = redaction.place_of_event(&event.name);
                self.lost_of(Holder::Event(number), key, place, redaction)
            }),
            Holder::Link(_) => self.lost_of(holder, key, Place::Plain, redaction),
        }
    }

    fn lost_of(
        &self,
        holder: Holder,
        key: &str,
        place: Place,
        redaction: &Redaction,
    ) -> Option<Loss> {
        let found = self.attributes.iter();
        let mut found = found.filter(|stored| stored.holder == holder && stored.key == key);
        let action = redaction.action(place, key);
        let redacted = Some(Loss::Redacted).filter(|_| self.is_redacted);
        match (found.next(), action) {
            (Some(stored), _) if self.is_truncated && stored.is_cut() => Some(Loss::Cut),
            (Some(_), Action::StripUrl) | (None, Action::Drop) => redacted,
            // Stored under other rules than these.
            (Some(_), Action::Drop | Action::Keep) | (None, Action::Keep | Action::StripUrl) => {
                None
            }
        }
    }

    /// Was the name shortened?
    pub fn lost_name(&self) -> Option<Loss> {
        self.lost_text(&self.name)
    }

    /// Was the `tracestate` shortened?
    pub fn lost_trace_state(&self) -> Option<Loss> {
        self.lost_text(&self.trace_state)
    }

    /// Was the name of an event shortened?
    pub fn lost_event_name(&self) -> Option<Loss> {
        let mut events = self.events.iter();
        events.find_map(|event| self.lost_text(&event.name))
    }

    /// Was the text of the status shortened or removed?
    pub fn lost_status_message(&self, redaction: &Redaction) -> Option<Loss> {
        let is_dropped =
            redaction.action(Place::Plain, super::builder::STATUS_MESSAGE) == Action::Drop;
        let is_gone = self.status_message.is_empty() && self.is_redacted && is_dropped;
        let redacted = is_gone.then_some(Loss::Redacted);
        self.lost_text(&self.status_message).or(redacted)
    }

    fn lost_text(&self, text: &str) -> Option<Loss> {
        (self.is_truncated && value::is_cut(text)).then_some(Loss::Cut)
    }
}

impl Attribute {
    fn is_cut(&self) -> bool {
        let values = self.readings.iter().flatten();
        values.into_iter().any(StoredValue::is_cut)
    }
}

impl Restored {
    /// The span as it would stand in an export request.
    pub fn at(&self) -> SpanAt<'_> {
        SpanAt {
            resource: &self.resource,
            resource_offset: 0,
            resource_schema_url: &self.resource_schema_url,
            scope: &self.scope,
            scope_schema_url: "",
            span: &self.span,
            offset: 0,
        }
    }
}
