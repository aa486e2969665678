//! An OTLP export request: checked once at the door, then walked span by span.
//!
//! # Decided
//!
//! *The whole request is refused* ([`check()`] is an error) for broken framing, for a string that
//! is not UTF-8 (anywhere: proto3 strings must be, and one such string makes a later writer fail
//! for everybody), and for attribute values nested deeper than [`Limits::depth_max`]. Cutting out one
//! span would mean to rewrite bytes that are kept as they arrived.
//!
//! *One span is rejected* (partial success) for a trace or span id that is missing, all zero or of
//! another length, and for a start or end outside [`Limits::time_window`]: such a span would
//! create partitions in 1970 or the year 2300. An end of 0 (not sent) and an end before the start
//! are kept; the duration of both is 0. Without a window every time is accepted. Whatever else is
//! odd in a span is kept: invalid parent ids (read as root), invalid links, events without time.
//!
//! *Stricter than prost*: a second `resource` in one `ResourceSpans`, a second `scope`, and a
//! second value in an attribute refuse the request, where protobuf would merge: nothing writes
//! them, and a merged message has no bytes to point to. *Laxer than prost*: values may nest up to
//! the limit here, prost stops at 100 messages, which is about 30 values.
//!
//! Metrics and logs are checked in the same way and their points and records counted; none is
//! rejected alone.

mod check;
mod items;
mod walk;

pub(crate) use walk::every_span;
pub use walk::{SpanAt, Spans, SpansAt, Summaries, spans, spans_at, summaries};

use crate::{
    attribute::DEPTH_CEILING,
    error::{Error, Result},
    ids::{SpanId, TraceId},
    span::Identity,
};

/// What kind of telemetry a request carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Signal {
    /// `ExportTraceServiceRequest`.
    Traces,
    /// `ExportMetricsServiceRequest`.
    Metrics,
    /// `ExportLogsServiceRequest`.
    Logs,
}

impl Signal {
    /// Lower-case name, as in OTLP's URL paths.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::Metrics => "metrics",
            Self::Logs => "logs",
        }
    }
}

/// What is accepted. The same for HTTP, gRPC and JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How deeply attribute values may nest: 1 allows scalars only, each array or kvlist adds one.
    /// Values above [`DEPTH_CEILING`] act as that.
    pub depth_max: u32,
    /// Times that spans may have; `None` accepts every time.
    pub time_window: Option<TimeWindow>,
}

impl Default for Limits {
    /// 64 levels, as opentelemetry-specification#5186 suggests; every time.
    fn default() -> Self {
        Self {
            depth_max: 64,
            time_window: None,
        }
    }
}

impl Limits {
    /// The depth that applies.
    pub(crate) const fn depth(&self) -> u32 {
        if self.depth_max < DEPTH_CEILING {
            self.depth_max
        } else {
            DEPTH_CEILING
        }
    }
}

/// Times that spans may have, both ends included. To accept the same spans again from stored
/// bytes, the same window must be given again: derive it from the time of receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeWindow {
    /// Earliest start and end, in nanoseconds since 1970.
    pub earliest_unix_nano: u64,
    /// Latest start and end, in nanoseconds since 1970.
    pub latest_unix_nano: u64,
}

impl TimeWindow {
    /// Does the time lie in it?
    pub const fn contains(&self, unix_nano: u64) -> bool {
        self.earliest_unix_nano <= unix_nano && unix_nano <= self.latest_unix_nano
    }
}

/// What [`check()`] found in a request that is not refused as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Accepted spans, points or log records.
    pub n_items: u64,
    /// Rejected spans: the sum of the counts by reason.
    pub n_rejected: u64,
    /// Rejected for an id that is missing, all zero or of another length.
    pub n_invalid_ids: u64,
    /// Rejected for a start or end outside the window.
    pub n_outside_window: u64,
    /// For the sender: the first rejection and the counts. `None` if nothing was rejected.
    pub message: Option<String>,
}

/// Why a span is rejected while the rest of its request is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// The trace id is missing, all zero or not 16 bytes.
    TraceId,
    /// The span id is missing, all zero or not 8 bytes.
    SpanId,
    /// The start lies outside the window.
    StartOutsideWindow,
    /// The end lies outside the window.
    EndOutsideWindow,
}

/// The rule that accepts or rejects a span; used when checking and again on every walk.
#[inline]
fn judge(identity: &Identity<'_>, limits: &Limits) -> Option<Rejection> {
    if TraceId::from_slice(identity.trace_id).is_err() {
        return Some(Rejection::TraceId);
    }
    if SpanId::from_slice(identity.span_id).is_err() {
        return Some(Rejection::SpanId);
    }
    let window = limits.time_window?;
    if !window.contains(identity.start_time_unix_nano) {
        return Some(Rejection::StartOutsideWindow);
    }
    let end = identity.end_time_unix_nano;
    (end != 0 && !window.contains(end)).then_some(Rejection::EndOutsideWindow)
}

/// Checks the body of an export request in one pass over its bytes.
///
/// # Errors
/// What refuses the whole request, see the head of the module.
pub fn check(signal: Signal, body: &[u8], limits: &Limits) -> Result<Checked> {
    if u32::try_from(body.len()).is_err() {
        let n_bytes = u64::try_from(body.len()).unwrap_or(u64::MAX);
        return Err(Error::TooLarge { n_bytes });
    }
    match signal {
        Signal::Traces => check::traces(body, limits),
        Signal::Metrics | Signal::Logs => Ok(Checked {
            n_items: items::count(signal, body, limits.depth())?,
            ..Checked::default()
        }),
    }
}

#[cfg(test)]
mod tests;
