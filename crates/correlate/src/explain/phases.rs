//! Which phase exceeds the usual most.
//!
//! The usual is the median of requests of the same model, input and output band at the same engine service: medians of a
//! phase, never differences of medians. Decode is compared by time per token, as answers of one band differ in length by a factor
//! of four.

use super::{Course, EngineFact};

/// A phase of a request, in order of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// From the root's start to the engine.
    Before,
    /// Waiting to be scheduled.
    Queue,
    /// Scheduled to first token.
    Prefill,
    /// First to last token.
    Decode,
    /// From the engine's end to the root's.
    Delivery,
}

impl Phase {
    /// In snake case.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::Queue => "queue",
            Self::Prefill => "prefill",
            Self::Decode => "decode",
            Self::Delivery => "delivery",
        }
    }
}

/// Medians of comparable requests, times in seconds; `None` where they are not known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cohort {
    /// Requests in it.
    pub n_requests: u64,
    /// Before the engine.
    pub before_s: Option<f64>,
    /// In the queue.
    pub queue_s: Option<f64>,
    /// In prefill.
    pub prefill_s: Option<f64>,
    /// Prompt tokens of those.
    pub input_tokens: Option<f64>,
    /// Share of a prompt that comes out of the prefix cache, 0 to 1.
    pub cached_share: Option<f64>,
    /// Per output token after the first.
    pub tpot_s: Option<f64>,
    /// After the engine.
    pub delivery_s: Option<f64>,
}

/// Fewer requests say little about what is usual.
const COHORT_MIN: u64 = 10;

/// Less is not what made anybody say "slow".
const EXCESS_MIN_S: f64 = 0.2;

/// And at least this share of the request's whole time.
const EXCESS_SHARE_MIN: f64 = 0.1;

/// A phase, how long it took, and how long it usually takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PhaseTime {
    /// Which.
    pub phase: Phase,
    /// From when, nanoseconds since 1970, by the engine's clock for its phases.
    pub start_unix_nano: i64,
    /// Until when.
    pub end_unix_nano: i64,
    /// How long.
    pub seconds: f64,
    /// How long it usually takes; `None` where the cohort is too small or does not say. It counts as none then.
    pub usual_s: Option<f64>,
}

impl PhaseTime {
    /// More than usual.
    #[must_use]
    pub fn excess_s(&self) -> f64 {
        self.seconds - self.usual_s.unwrap_or(0.0)
    }
}

const NANOS: f64 = 1e9;

/// Phases that are known, largest excess first.
pub(super) fn phases(
    course: Option<&Course>,
    engine: Option<&EngineFact>,
    cohort: &Cohort,
) -> Vec<PhaseTime> {
    let is_large = cohort.n_requests >= COHORT_MIN;
    // Less than nothing is what clocks say that differ: nothing is known then.
    let usual = |seconds: Option<f64>| seconds.filter(|usual| is_large && *usual >= 0.0);
    let mut phases = Vec::new();
    let mut push = |phase, start: i64, seconds: Option<f64>, usual_s: Option<f64>| {
        if let Some(seconds) = seconds {
            let end_unix_nano = start.saturating_add((seconds * NANOS) as i64);
            phases.push(PhaseTime {
                phase,
                start_unix_nano: start,
                end_unix_nano,
                seconds,
                usual_s,
            });
        }
    };
    if let Some(course) = course {
        let root = course
            .hops
            .first()
            .map_or(0, |hop| hop.span.start_unix_nano);
        let end = course.hops.first().map_or(0, |hop| hop.span.end_unix_nano);
        let (before, after) = (course.before_nanos(), course.after_nanos());
        push(
            Phase::Before,
            root,
            Some(before as f64 / NANOS),
            usual(cohort.before_s),
        );
        push(
            Phase::Delivery,
            end - after,
            Some(after as f64 / NANOS),
            usual(cohort.delivery_s),
        );
    }
    if let Some(engine) = engine {
        let after = |seconds: Option<f64>| (seconds.unwrap_or(0.0) * NANOS) as i64;
        let scheduled = engine.start_unix_nano + after(engine.queue_s);
        let first_token = scheduled + after(engine.prefill_s);
        push(
            Phase::Queue,
            engine.start_unix_nano,
            engine.queue_s,
            usual(cohort.queue_s),
        );
        push(
            Phase::Prefill,
            scheduled,
            engine.prefill_s,
            usual(cohort.prefill_s),
        );
        let steps = engine
            .output_tokens
            .map(|tokens| (tokens - 1).max(0) as f64);
        let usual_decode = cohort.tpot_s.zip(steps).map(|(tpot, steps)| tpot * steps);
        push(
            Phase::Decode,
            first_token,
            engine.decode_s,
            usual(usual_decode),
        );
    }
    phases.sort_by(|one, other| other.excess_s().total_cmp(&one.excess_s()));
    phases
}

/// The phase that clearly exceeds the usual.
pub(super) fn slow(phases: &[PhaseTime]) -> Option<PhaseTime> {
    let total: f64 = phases.iter().map(|phase| phase.seconds).sum();
    phases.first().copied().filter(|phase| {
        phase.excess_s() >= EXCESS_MIN_S && phase.excess_s() >= total * EXCESS_SHARE_MIN
    })
}
