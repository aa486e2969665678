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
}

impl PolicyCounts {
    /// How often it was asked.
    #[must_use]
    pub fn n_checks(&self) -> u64 {
        let Self {
            n_sampled,
            n_not_sampled,
            n_dropped,
            n_failed,
        } = *self;
        n_sampled + n_not_sampled + n_dropped + n_failed
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
