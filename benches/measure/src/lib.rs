//! What the benchmarks share: LLM traffic of a given shape, made fast enough to overload a receiver.
//!
//! Made for measuring: every export of a [`Template`] has the same spans but for ids of its own. Traffic with causes
//! and a truth is in `loadgen`. Does not know any program that is measured, and reads no clock.

mod arrived;
mod export;
mod policies;
mod template;

pub use arrived::{Arrived, arrived};
#[cfg(feature = "criterion")]
pub use criterion;
pub use export::{ROOT_SPAN_NAME, Shape, T0};
pub use policies::{POLICIES_MAX, tail_sampling};
pub use template::{Export, Template};

/// Spans of an export request, and the sum of their trace ids: equal for equal sets of spans in any order. 0 for bytes
/// that are none.
pub fn tally(body: &[u8]) -> (u64, u64) {
    let (mut n_spans, mut trace_ids) = (0, 0_u64);
    for (_, summary) in otlp::export::summaries(body, &otlp::export::Limits::default()).flatten() {
        let (words, _) = summary.trace_id.as_bytes().as_chunks::<8>();
        for word in words {
            trace_ids = trace_ids.wrapping_add(u64::from_be_bytes(*word));
        }
        n_spans += 1;
    }
    (n_spans, trace_ids)
}
