//! Engine batches: which requests ran a scheduling step together, and how its time is shared among them.
//!
//! An engine with continuous batching runs many requests in one step, and the GPU works for all of them at once. What is
//! measured is the step's time; a participant's share of it is a model (`share`).
//!
//! 1. `read`: the spans of one trace to [`Sighting`]s. A batch shows itself in three forms: attributes of a request's span,
//!    events on it or on a stage below it (one per step), or a span of its own with links to its participants.
//! 2. `window`: sightings of one batch come in the releases of several traces, in any order and more than once. They are
//!    gathered by engine, batch id, step and time ([`BatchWindow`]).
//! 3. `settle`: a gathered batch to its rows. Participants are those of the one source that names most, not mixed, because
//!    two sources may name one request by different spans.
//! 4. `closed`: which batches are written ([`ClosedBatches`]), so that one that shows itself again is not written twice.
//!
//! # Decided
//!
//! *Nobody gets the time of others who are not known.* The number of participants is what the engine says (`batch_size`), or
//! the links of the batch's span. Where neither is there, shares are unknown, and the time stands in the remainder;
//! [`BatchNames::is_all_listed`] says otherwise for engines of which every request is traced.
//!
//! *A batch belongs to the release that showed it first* and is written under its sequence, with what the releases that came
//! until then know of it. So whatever is committed of a sequence is all of it, and after a crash the releases that
//! are repeated show again exactly the batches that are not written; only what they show of written ones must be known, and
//! that is `closed`. Rejected: a sequence per participant, for then a batch would be half in the table while its
//! shares can still change.

mod closed;
mod names;
mod read;
mod settle;
mod share;
mod window;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use otlp::{SpanId, TraceId};
use tables::batches::{Participant, Worker};

pub use closed::ClosedBatches;
pub use names::BatchNames;
pub use read::{BatchReader, SeenSpan};
pub use share::{ShareMethod, Shares, share};
pub use window::{BatchWindow, Settled};

/// Who names the participants of a batch, in rising order of preference where several name equally many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BatchSource {
    /// Attributes of a request's span or of a stage below it.
    SpanAttribute,
    /// Events of such a span.
    SpanEvent,
    /// A span of the batch itself.
    BatchSpan,
    /// A report of the engine.
    Reported,
}

impl BatchSource {
    /// How many there are.
    const COUNT: usize = 4;

    /// As stored.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SpanAttribute => "span_attribute",
            Self::SpanEvent => "span_event",
            Self::BatchSpan => "batch_span",
            Self::Reported => "reported",
        }
    }
}

/// Where start and end of a batch are from, in rising order of preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BatchTimes {
    /// The event of the step, and that of the next step of the same request, or the end of its span.
    NextEvent,
    /// The event of the step and the end of the stage that it is on, or the stage itself.
    StageSpan,
    /// The batch's own span.
    BatchSpan,
    /// Said in so many words.
    Reported,
}

impl BatchTimes {
    /// How many there are.
    const COUNT: usize = 4;

    /// In rising order.
    const ALL: [Self; Self::COUNT] = [
        Self::NextEvent,
        Self::StageSpan,
        Self::BatchSpan,
        Self::Reported,
    ];

    /// As stored.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NextEvent => "next_event",
            Self::StageSpan => "stage_span",
            Self::BatchSpan => "batch_span",
            Self::Reported => "reported",
        }
    }
}

/// What one span, event or report says of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// What kind of saying it is.
    pub source: BatchSource,
    /// The engine.
    pub worker: Arc<Worker>,
    /// Its data parallel rank.
    pub dp_rank: Option<i64>,
    /// The batch.
    pub batch_id: Arc<str>,
    /// Its step.
    pub step: Option<i64>,
    /// Start and end, nanoseconds since 1970, as said: the end may lie before the start.
    pub times: Option<(BatchTimes, u64, u64)>,
    /// A stretch of time that the batch lies in or touches.
    pub around: (u64, u64),
    /// Participants, named or not.
    pub size: Option<u64>,
    /// Tokens of all participants.
    pub batch_tokens: Option<u64>,
    /// Model.
    pub model: Option<Arc<str>>,
    /// The batch's own span.
    pub span: Option<(TraceId, SpanId)>,
    /// Those that it names.
    pub participants: Vec<Participant>,
}
