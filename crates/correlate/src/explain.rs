//! Why one request was slow: what the evidence carries, and no more.
//!
//! 1. `path`: the way of the request through the services, from root to engine, with the time that each hop took before it
//!    handed on and after its answer came back; clocks are set right by containment, and the raw times stay.
//! 2. `phases`: the phase that exceeds the usual of its cohort most: before the engine, queue, prefill, decode, delivery.
//! 3. `hypotheses`: for that phase, what an on-call engineer rules out in this order: client, gateway, retrieval; hardware
//!    errors, which stop an engine and make others wait; the prefix cache and the length of its own prompt; others'
//!    prompts, KV cache and queue; heat, power and link of the devices; delivery. Each with the facts for and against, where
//!    they stand, and how strong they are.
//!
//! The verdict is the first hypothesis that facts support; where none is supported it is `unknown`, and what is
//! missing is said. A device is a cause only if the chain from the request to it is whole: nothing that happened on a GPU is
//! held against a request that may not have run there.
//!
//! Pure: facts in, explanation out. It does not know where facts are stored.

mod batches;
mod hypotheses;
mod path;
mod phases;

#[cfg(test)]
mod tests;

use otlp::SpanId;

pub use batches::{BatchFact, BatchFacts, BatchSums, Companion};
pub use hypotheses::{Cause, Fact, FactRows, FactSource, Hypothesis, Standing, Strength};
pub use path::{Course, Hop, Link, Part, Role};
pub use phases::{Cohort, Phase, PhaseTime};

/// A span of the trace, or of the trace that the request id leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanFact {
    /// Its id.
    pub span_id: SpanId,
    /// Its parent.
    pub parent_span_id: Option<SpanId>,
    /// `service.name`.
    pub service: String,
    /// Its name.
    pub name: String,
    /// Does it wait for another service (kind CLIENT)?
    pub is_client: bool,
    /// Does it search for documents?
    pub is_retrieval: bool,
    /// Normalised id of the model's answer, as a gateway or client library saw it.
    pub response_id: Option<String>,
    /// Start, nanoseconds since 1970.
    pub start_unix_nano: i64,
    /// End.
    pub end_unix_nano: i64,
}

/// The engine's own account of the request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EngineFact {
    /// Its engine span.
    pub span_id: Option<SpanId>,
    /// Normalised request id.
    pub request_id: Option<String>,
    /// Start of the engine span, nanoseconds since 1970.
    pub start_unix_nano: i64,
    /// Its end.
    pub end_unix_nano: i64,
    /// Waiting to be scheduled, in seconds.
    pub queue_s: Option<f64>,
    /// Scheduled to first token, in seconds.
    pub prefill_s: Option<f64>,
    /// First to last token, in seconds.
    pub decode_s: Option<f64>,
    /// Prompt tokens.
    pub input_tokens: Option<i64>,
    /// Prompt tokens that were found in the prefix cache.
    pub cached_tokens: Option<i64>,
    /// Generated tokens.
    pub output_tokens: Option<i64>,
}

/// What the engine's gauges said at a scrape.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EngineSample {
    /// When, nanoseconds since 1970.
    pub at_unix_nano: i64,
    /// Requests that ran.
    pub running: Option<f64>,
    /// Requests that waited.
    pub waiting: Option<f64>,
    /// Use of the KV cache, 0 to 1.
    pub kv_cache_usage: Option<f64>,
    /// Preemptions since the sample before.
    pub preemptions: Option<f64>,
}

/// A row of `evidence`: a device and what it did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceFact {
    /// The device; `None` where none is known.
    pub gpu_uuid: Option<String>,
    /// Where the chain to it breaks.
    pub missing_link: Option<String>,
    /// How far its values speak about this request.
    pub attribution: String,
    /// Mean clock, MHz.
    pub sm_clock_mhz: Option<f64>,
    /// The usual clock of the same device, MHz.
    pub baseline_sm_clock_mhz: Option<f64>,
    /// Share of samples with a thermal reason.
    pub thermal_throttle_share: Option<f64>,
    /// Clock event reasons.
    pub throttle_reasons: Vec<String>,
    /// XID errors that appeared.
    pub xids: Vec<String>,
    /// XID errors that appeared in the minute before.
    pub xids_before: Vec<String>,
    /// Memory errors that could not be corrected and were counted.
    pub ecc_dbe: Option<f64>,
    /// Errors on links between devices that were counted.
    pub nvlink_errors: Option<f64>,
    /// Highest temperature.
    pub temp_c: Option<f64>,
}

/// Another request on the same engine.
#[derive(Clone, Debug, PartialEq)]
pub struct Neighbour {
    /// Its normalised request id.
    pub request_id: String,
    /// When its prefill began, nanoseconds since 1970.
    pub prefill_from_unix_nano: i64,
    /// When its first token came.
    pub prefill_to_unix_nano: i64,
    /// Its prompt's tokens.
    pub input_tokens: i64,
}

/// All that is known about one request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// Spans of its trace, and of the trace that its request id leads to.
    pub spans: Vec<SpanFact>,
    /// Its engine's account; `None` where no engine span is known.
    pub engine: Option<EngineFact>,
    /// What is usual.
    pub cohort: Cohort,
    /// Its engine's samples in its time, with one before and one after; empty where there are none.
    pub engine_samples: Vec<EngineSample>,
    /// Most requests that its engine was seen to run at once, around that time: as many as it takes, if it was ever full.
    pub running_max: Option<f64>,
    /// Its devices.
    pub devices: Vec<DeviceFact>,
    /// Others on its engine in its time.
    pub neighbours: Vec<Neighbour>,
    /// The steps that it was in.
    pub batches: BatchFacts,
}

/// The answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// Its way, if there is a root.
    pub course: Option<Course>,
    /// Phases, longest excess first.
    pub phases: Vec<PhaseTime>,
    /// The phase that exceeds the usual most, if one does clearly.
    pub slow_phase: Option<Phase>,
    /// What was looked at, in the order of ruling out.
    pub hypotheses: Vec<Hypothesis>,
    /// What the facts support; [`Cause::Unknown`] where they carry no more.
    pub verdict: Cause,
    /// The steps that it was in, together; `None` where none is known.
    pub batches: Option<BatchSums>,
    /// What cannot be concluded, and why.
    pub open: Vec<String>,
}

/// Explains one request.
#[must_use]
pub fn explain(facts: &Facts) -> Explanation {
    let course = path::course(&facts.spans, facts.engine.as_ref());
    let phases = phases::phases(course.as_ref(), facts.engine.as_ref(), &facts.cohort);
    let slow = phases::slow(&phases);
    let mut open = Vec::new();
    let mut hypotheses = match slow {
        Some(slow) => hypotheses::judge(facts, course.as_ref(), slow, &mut open),
        None => Vec::new(),
    };
    if let Some(slow) = slow {
        batches::observe(&facts.batches, slow, &mut hypotheses);
    }
    let supported = hypotheses
        .iter()
        .find(|hypothesis| hypothesis.standing == Standing::Supported);
    let verdict = match (slow, supported) {
        (None, _) if phases.is_empty() => Cause::Unknown,
        (None, _) => Cause::Usual,
        (Some(_), Some(hypothesis)) => hypothesis.cause,
        (Some(_), None) => Cause::Unknown,
    };
    if facts.engine.is_none() {
        open.push("no engine span is known for this request: queue, prefill and decode cannot be told apart".to_owned());
    }
    Explanation {
        course,
        slow_phase: slow.map(|slow| slow.phase),
        phases,
        hypotheses,
        verdict,
        batches: facts.batches.sums(),
        open,
    }
}
