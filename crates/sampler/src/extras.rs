//! What few traces have and few configurations ask for, kept beside a trace so that all others are smaller.

use otlp::TraceId;
use otlp::span::SpanSummary;

use crate::adaptive::KeyHashes;
use crate::threshold::{OtEntry, Randomness, Threshold};

/// Folded over the spans of a trace, in any order.
#[derive(Debug, Default)]
pub(crate) struct Extras {
    upstream: Upstream,
    pub(crate) keys: KeyHashes,
}

const _: () = assert!(size_of::<Extras>() <= 104, "as `pending` says");

/// What samplers before this one have said in `tracestate`.
///
/// Decided: of several thresholds in a trace the lowest counts. The spans with the lowest one are the first to come
/// and the last to stay away: that a trace is here at all is as likely as they are. A span without one does not count,
/// because a library that does not know `tracestate` hands on no threshold of the trace that it is in.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Upstream {
    threshold: Option<Threshold>,
    /// The lowest `rv`; they should be equal.
    explicit: Option<Randomness>,
    /// A span has a threshold that its randomness does not pass.
    is_inconsistent: bool,
}

impl Upstream {
    /// Takes note of one span.
    pub(crate) fn add(&mut self, summary: &SpanSummary<'_>) {
        let OtEntry {
            threshold,
            randomness,
        } = OtEntry::read(summary.trace_state);
        self.explicit = lower(self.explicit, randomness);
        let randomness = randomness.unwrap_or_else(|| Randomness::of_trace(&summary.trace_id));
        match threshold {
            Some(threshold) if threshold.keeps(randomness) => {
                self.threshold = lower(self.threshold, Some(threshold));
            }
            Some(_) => self.is_inconsistent = true,
            None => {}
        }
    }

    /// The threshold that the trace has passed; `None` where what is said of it is wrong.
    pub(crate) fn threshold(self) -> Option<Threshold> {
        (!self.is_inconsistent).then(|| self.threshold.unwrap_or_default())
    }

    pub(crate) fn randomness(self, trace_id: &TraceId) -> Randomness {
        self.explicit
            .unwrap_or_else(|| Randomness::of_trace(trace_id))
    }
}

impl Extras {
    pub(crate) fn add(&mut self, summary: &SpanSummary<'_>, keys: Option<KeyHashes>) {
        if !summary.trace_state.is_empty() {
            self.upstream.add(summary);
        }
        if let Some(keys) = keys {
            self.keys.merge(&keys);
        }
    }

    pub(crate) fn upstream(&self) -> Upstream {
        self.upstream
    }
}

fn lower<T: Ord>(a: Option<T>, b: Option<T>) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
