//! What each policy has said so far.

use crate::verdict::{Failed, Verdict};

/// How often a policy was asked about a trace (`span-ingest`: about a batch), by its answer.
///
/// A policy that is not asked, because one before it dropped the trace or was the first match, has
/// no answer. What it says need not be what becomes of the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PolicyCounts {
    /// Asked to keep it.
    pub n_sampled: u64,
    /// Did not ask to keep it.
    pub n_not_sampled: u64,
    /// Asked to drop it.
    pub n_dropped: u64,
    /// Had no verdict, because a condition could not be evaluated.
    pub n_failed: u64,
    /// Nanoseconds that asking it took, estimated from every 64th time; 0 where nobody gave a stopwatch
    /// ([`crate::Sampler::time_policies`]).
    pub n_nanos: u64,
}

/// Of so many times that a policy is asked, one is timed: reading a clock takes longer than most policies do.
const TIMED_EVERY: u64 = 64;

/// Gives nanoseconds of a clock that only goes on.
pub(crate) type Stopwatch = fn() -> u64;

impl PolicyCounts {
    /// How often it was asked.
    #[must_use]
    pub fn n_checks(&self) -> u64 {
        let Self {
            n_sampled,
            n_not_sampled,
            n_dropped,
            n_failed,
            n_nanos: _,
        } = *self;
        n_sampled + n_not_sampled + n_dropped + n_failed
    }

    /// Begins to time a policy if it is its turn.
    pub(crate) fn begin(&self, stopwatch: Option<Stopwatch>) -> Option<(Stopwatch, u64)> {
        let stopwatch = stopwatch.filter(|_| self.n_checks().is_multiple_of(TIMED_EVERY))?;
        Some((stopwatch, stopwatch()))
    }

    /// Takes the time since it began.
    pub(crate) fn end(&mut self, begun: Option<(Stopwatch, u64)>) {
        if let Some((stopwatch, begin)) = begun {
            let took = stopwatch()
                .saturating_sub(begin)
                .saturating_mul(TIMED_EVERY);
            self.n_nanos = self.n_nanos.saturating_add(took);
        }
    }

    /// As the Collector counts: inverted verdicts are what they ask for.
    pub(crate) fn note(&mut self, verdict: Result<Verdict, Failed>) {
        let count = match verdict {
            Ok(Verdict::Sampled | Verdict::InvertSampled) => &mut self.n_sampled,
            Ok(Verdict::NotSampled | Verdict::InvertNotSampled) => &mut self.n_not_sampled,
            Ok(Verdict::Dropped) => &mut self.n_dropped,
            Err(Failed) => &mut self.n_failed,
        };
        *count += 1;
    }
}
