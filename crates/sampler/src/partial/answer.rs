//! What is asked of a trace that is known in part, and what is answered.

use std::fmt;

use otlp::TraceId;

use crate::decision::Decision;

/// A part of a span that policies can look at and storage can lose.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Attribute of the resource.
    ResourceAttribute(Box<str>),
    /// Attribute of the span.
    SpanAttribute(Box<str>),
    /// Attribute of an event.
    EventAttribute(Box<str>),
    /// Name of the span.
    Name,
    /// Text of the status.
    StatusMessage,
    /// W3C `tracestate`.
    TraceState,
    /// Name of an event.
    EventName,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ResourceAttribute(key) | Self::SpanAttribute(key) => {
                write!(f, "attribute `{key}`")
            }
            Self::EventAttribute(key) => write!(f, "attribute `{key}` of an event"),
            Self::Name => f.write_str("span name"),
            Self::StatusMessage => f.write_str("status message"),
            Self::TraceState => f.write_str("tracestate"),
            Self::EventName => f.write_str("event name"),
        }
    }
}

/// Why something is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Why {
    /// The spans, or some of them, are not stored.
    NotStored,
    /// It may have been removed before storing.
    Redacted,
    /// It was shortened before storing.
    Cut,
    /// The stored text does not say of which type the value was.
    Type,
    /// It is known of engine requests and services only, see [`super::Replay::claim`].
    Claimed,
    /// A budget is as full as the traces before left it, and not all of those are known.
    Budget,
    /// Rates of `adaptive` are what the traces before made of them.
    Rates,
    /// Sampling changes it in what is stored.
    Restated,
}

/// What a verdict hangs on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Doubt {
    /// What is not known, for people: ``attribute `http.route` ``.
    pub what: String,
    /// Why not.
    pub why: Why,
}

/// What is stored of every trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// The trace.
    pub trace_id: TraceId,
    /// First start of its spans; `None` if it is not set.
    pub start_time_unix_nano: Option<u64>,
    /// Last end of its spans; `None` if it is not set.
    pub end_time_unix_nano: Option<u64>,
    /// Last end minus first start of its spans.
    pub duration_ns: u64,
    /// Spans when it was decided.
    pub n_spans: u64,
    /// Of them with status ERROR.
    pub n_error_spans: u64,
    /// Sum of the sizes of the span messages.
    pub n_bytes: u64,
    /// Spans without a parent id.
    pub n_roots: u64,
    /// Spans whose parent was not among the spans.
    pub n_orphans: u64,
    /// Engine requests in it.
    pub n_requests: u64,
    /// When it was decided.
    pub decided_unix_nano: u64,
}

/// One way to read a stored span.
#[derive(Debug, Clone, Copy)]
pub struct Reading<'a> {
    /// `Resource` message.
    pub resource: &'a [u8],
    /// `Span` message.
    pub span: &'a [u8],
}

/// What one policy says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Said {
    /// Keep it.
    Sampled,
    /// No wish to keep it.
    NotSampled,
    /// Drop it.
    Dropped,
    /// Keep it, below others: inverted, see [`crate::Compat`].
    InvertSampled,
    /// Do not keep it, above others: inverted, see [`crate::Compat`].
    InvertNotSampled,
    /// Nothing: a condition could not be evaluated.
    Failed,
}

/// How well something is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known<T> {
    /// For certain.
    Exact(T),
    /// If what is taken for granted holds.
    Likely(T),
    /// Not even then.
    Unknown,
}

impl<T: Copy> Known<T> {
    pub(super) fn of(exact: Option<T>, likely: Option<T>) -> Self {
        match (exact, likely) {
            (Some(exact), _) => Self::Exact(exact),
            (None, Some(likely)) => Self::Likely(likely),
            (None, None) => Self::Unknown,
        }
    }

    /// The value, exact or likely.
    #[must_use]
    pub fn value(self) -> Option<T> {
        match self {
            Self::Exact(value) | Self::Likely(value) => Some(value),
            Self::Unknown => None,
        }
    }

    /// Is it certain?
    #[must_use]
    pub fn is_exact(self) -> bool {
        matches!(self, Self::Exact(_))
    }
}

/// The answer on one trace.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// What would be decided.
    pub decision: Known<Decision>,
    /// Place in file order of the policy that is credited; unknown also where none is.
    pub policy: Known<usize>,
    /// What each policy says, in file order.
    pub verdicts: Vec<Asked>,
    /// It is over `maximum_trace_size_bytes`: no policy has a say.
    pub is_too_large: bool,
}

/// What one policy says, and whether it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// Its verdict.
    pub said: Known<Said>,
    /// Is it asked? Not behind a policy that drops the trace or is the first match.
    pub is_asked: bool,
}
