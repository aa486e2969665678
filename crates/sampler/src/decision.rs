//! What the sampler answers: observations, decisions, and what is known of a decided trace.

use otlp::TraceId;

use crate::services::ServiceId;
use crate::spans::PendingSpan;
use crate::threshold::ThresholdChange;

/// Where a span's bytes are. Opaque here: given with a span, given back with the decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanHandle {
    /// Position of the record that holds the span.
    pub position: u64,
    /// Byte offset of the span message in that record's body.
    pub offset: u32,
}

/// A top-level policy by its place in the configuration, or one that a recorded decision names and
/// the configuration no longer has. [`crate::Sampler::policy_name`] gives the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PolicyIndex(pub(crate) u16);

/// What became of a span that was observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observed {
    /// Its trace is undecided; the span will come back in a [`Decided`].
    Pending,
    /// Its trace was decided before: the span follows that decision and will not come back.
    Late(Decision, Option<PolicyIndex>),
    /// As `Pending`, and there are more undecided traces than `num_traces`: the next
    /// [`crate::Sampler::tick`] decides some early.
    Overflow,
    /// A span of this trace with this id was there before: it counts once, and this copy will not come back.
    Duplicate(Version),
}

/// Which copy of a span counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// The one that came first; its trace is undecided.
    First,
    /// This one, because it has an error and the one before had none; that one was here.
    Replaces(SpanHandle),
    /// The one that was decided with its trace.
    Decided,
}

/// The final answer on a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Decision {
    /// Keep it.
    Sampled,
    /// No policy asked for it, or it was too large.
    NotSampled,
    /// A policy asked to drop it.
    Dropped,
}

impl Decision {
    /// As stored: `sampled`, `not_sampled`, `dropped`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sampled => "sampled",
            Self::NotSampled => "not_sampled",
            Self::Dropped => "dropped",
        }
    }
}

/// Why a trace was decided when it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Trigger {
    /// A root span had arrived, and `decision_wait_after_root_received` (`trigger.root_grace`) had passed.
    RootEnded,
    /// `decision_wait` had passed since the first span.
    Waited,
    /// No span had come for `trigger.idle`.
    Idle,
    /// `trigger.max_wait` had passed since the first span.
    MaxWait,
    /// A policy matched a batch as it arrived (`span-ingest`), or had matched and its `match_grace` had passed.
    Matched,
    /// It grew over `maximum_trace_size_bytes`.
    TooLarge,
    /// There were more than `num_traces` undecided traces, or they took too much memory.
    Memory,
    /// Undecided spans kept too much of the disk.
    Disk,
    /// The process stops.
    Shutdown,
    /// The trace had been decided, and spans arrived late.
    Late,
    /// It was due, no policy kept it, and it links to a trace that a policy had kept.
    Linked,
    /// Policies asked for it, and it did not fit the budget of its round.
    Budget,
}

impl Trigger {
    /// As stored: the variant's name in snake case.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RootEnded => "root_ended",
            Self::Waited => "waited",
            Self::Idle => "idle",
            Self::MaxWait => "max_wait",
            Self::Matched => "matched",
            Self::TooLarge => "too_large",
            Self::Memory => "memory",
            Self::Disk => "disk",
            Self::Shutdown => "shutdown",
            Self::Late => "late",
            Self::Linked => "linked",
            Self::Budget => "budget",
        }
    }
}

/// A decided trace with all the spans that had arrived.
#[derive(Debug, Clone, PartialEq)]
pub struct Decided {
    /// The trace.
    pub trace_id: TraceId,
    /// The answer.
    pub decision: Decision,
    /// The first policy in file order that gave the winning answer; `None` where no policy did
    /// (not sampled, or kept because it links to a kept trace). With the trigger `budget` the one that asked
    /// for the trace.
    pub policy: Option<PolicyIndex>,
    /// Why now.
    pub trigger: Trigger,
    /// How many traces of this kind a kept one stands for: 1 / its probability of being kept.
    /// `None` unless sampled, because a trace that is not kept stands for none, and where that
    /// probability is unknown, for example because a `rate_limiting` policy kept it.
    pub adjusted_count: Option<f64>,
    /// What becomes of `th` in the `tracestate` of its spans; unchanged unless sampled.
    pub threshold: ThresholdChange,
    /// Facts of the trace.
    pub summary: TraceSummary,
    /// Its spans in order of arrival.
    pub spans: Vec<PendingSpan>,
}

/// Facts of a trace, over the spans that had arrived at its decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceSummary {
    /// Earliest start that is not 0; 0 if there is none.
    pub start_time_unix_nano: u64,
    /// Latest end.
    pub end_time_unix_nano: u64,
    /// Spans received. A span that was received twice counts once.
    pub n_spans: u32,
    /// Spans with status ERROR.
    pub n_error_spans: u32,
    /// Sum of the sizes of the span messages.
    pub n_bytes: u64,
    /// Spans without a parent.
    pub n_roots: u32,
    /// The root that started first.
    pub root: Option<SpanHandle>,
    /// Spans whose parent is not among the spans.
    pub n_orphans: u32,
    /// Names of the services, in order of arrival, at most [`crate::SERVICES_PER_TRACE_MAX`].
    pub services: Vec<ServiceId>,
    /// When the first span was observed.
    pub first_seen_unix_nano: u64,
}

impl TraceSummary {
    /// Last end minus first start in nanoseconds; 0 where clocks make it negative.
    #[must_use]
    pub fn duration_ns(&self) -> u64 {
        self.end_time_unix_nano
            .saturating_sub(self.start_time_unix_nano)
    }
}

/// A decision made before a restart, as it was recorded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RecordedDecision<'a> {
    /// The trace.
    pub trace_id: TraceId,
    /// The answer.
    pub decision: Decision,
    /// Name of the policy, which the configuration may no longer have.
    pub policy: Option<&'a str>,
    /// Why then.
    pub trigger: Trigger,
    /// As in [`Decided`].
    pub adjusted_count: Option<f64>,
    /// As in [`Decided`].
    pub threshold: ThresholdChange,
}
