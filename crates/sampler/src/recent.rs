//! Span ids of decided traces, so that a copy of a span that comes after the decision is known as one.
//!
//! Limits: [`SPANS_MAX`] ids of at most [`TRACES_MAX`] decided traces, and [`LATE_MAX`] spans that came late;
//! about 30 MB when full. The oldest go first, whole traces at a time. A copy that comes after that is not
//! known any more and follows the decision as a late span.
//!
//! The ids of a trace are one sorted run in a ring, written once at its decision: no work per span but a copy of
//! 8 bytes, and a look-up is a binary search, however large the trace.

use std::collections::{HashMap, VecDeque};

use otlp::{SpanId, TraceId};

use crate::keyed_hash::KeyedState;

/// Ids of 2^21 spans: 16 MiB.
const SPANS_MAX: usize = 1 << 21;
/// Decided traces that they belong to.
const TRACES_MAX: usize = 1 << 17;
/// Spans that came after the decision, remembered one by one.
const LATE_MAX: usize = 1 << 16;

/// Bounded memory of the spans of decided traces.
#[derive(Debug)]
pub(crate) struct RecentSpans {
    ids: VecDeque<SpanId>,
    /// Ids that have left the ring: the number of its first one.
    n_forgotten: u64,
    /// In order of their decisions, with the length of their runs.
    traces: VecDeque<(TraceId, usize)>,
    runs: HashMap<TraceId, Run, KeyedState>,
    /// Whether the span had an error.
    late: HashMap<(TraceId, SpanId), bool, KeyedState>,
    late_order: VecDeque<(TraceId, SpanId)>,
    spans_max: usize,
}

/// The ids of a trace in the ring: all of them in order, then once more those of spans with an error.
#[derive(Debug, Clone, Copy)]
struct Run {
    /// Number of its first id.
    first: u64,
    n_spans: usize,
    n_errors: usize,
}

/// What is known of a span that comes again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known {
    /// It had an error when it came first.
    pub(crate) is_error: bool,
}

impl RecentSpans {
    pub(crate) fn new() -> Self {
        Self::with_spans_max(SPANS_MAX)
    }

    fn with_spans_max(spans_max: usize) -> Self {
        Self {
            ids: VecDeque::new(),
            n_forgotten: 0,
            traces: VecDeque::new(),
            runs: HashMap::with_hasher(KeyedState::new()),
            late: HashMap::with_hasher(KeyedState::new()),
            late_order: VecDeque::new(),
            spans_max,
        }
    }

    /// Remembers the spans of a trace at its decision; both lists are sorted. A trace with more ids than there is
    /// room for is not remembered.
    pub(crate) fn add_trace(&mut self, trace_id: TraceId, spans: &[SpanId], errors: &[SpanId]) {
        let n_ids = spans.len() + errors.len();
        if n_ids > self.spans_max {
            return;
        }
        while self.ids.len() + n_ids > self.spans_max || self.traces.len() >= TRACES_MAX {
            self.forget_oldest();
        }
        let run = Run {
            first: self.n_forgotten + self.ids.len() as u64,
            n_spans: spans.len(),
            n_errors: errors.len(),
        };
        self.ids.extend(spans);
        self.ids.extend(errors);
        self.traces.push_back((trace_id, n_ids));
        self.runs.insert(trace_id, run);
    }

    /// Remembers a span that came after the decision on its trace.
    pub(crate) fn add_late(&mut self, trace_id: TraceId, span_id: SpanId, is_error: bool) {
        let key = (trace_id, span_id);
        if let Some(known) = self.late.get_mut(&key) {
            *known |= is_error;
            return;
        }
        if self.late_order.len() >= LATE_MAX
            && let Some(oldest) = self.late_order.pop_front()
        {
            self.late.remove(&oldest);
        }
        self.late.insert(key, is_error);
        self.late_order.push_back(key);
    }

    /// Has this span of a decided trace been here?
    pub(crate) fn find(&self, trace_id: &TraceId, span_id: SpanId) -> Option<Known> {
        if !self.late.is_empty()
            && let Some(&is_error) = self.late.get(&(*trace_id, span_id))
        {
            return Some(Known { is_error });
        }
        let run = self.runs.get(trace_id)?;
        let first = usize::try_from(run.first - self.n_forgotten).ok()?;
        let errors = first + run.n_spans;
        self.contains(first, run.n_spans, span_id).then(|| Known {
            is_error: self.contains(errors, run.n_errors, span_id),
        })
    }

    /// Binary search in `n_ids` ids of the ring.
    fn contains(&self, first: usize, n_ids: usize, span_id: SpanId) -> bool {
        let (mut low, mut high) = (first, first + n_ids);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.ids[middle].cmp(&span_id) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return true,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        false
    }

    fn forget_oldest(&mut self) {
        let Some((trace_id, n_ids)) = self.traces.pop_front() else {
            return;
        };
        // A trace that was decided again has a younger run, which stays.
        if self
            .runs
            .get(&trace_id)
            .is_some_and(|run| run.first == self.n_forgotten)
        {
            self.runs.remove(&trace_id);
        }
        self.ids.drain(..n_ids);
        self.n_forgotten += n_ids as u64;
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        // Each place of a map has a byte of control, and one in eight places stays free.
        let runs = self.runs.capacity() / 7 * 8 * (size_of::<(TraceId, Run)>() + 1);
        let late = self.late.capacity() / 7 * 8 * (size_of::<((TraceId, SpanId), bool)>() + 1);
        self.ids.capacity() * size_of::<SpanId>()
            + self.traces.capacity() * size_of::<(TraceId, usize)>()
            + self.late_order.capacity() * size_of::<(TraceId, SpanId)>()
            + runs
            + late
    }
}

#[cfg(test)]
mod tests {
    use otlp::{SpanId, TraceId};
    use proptest::prelude::*;

    use super::RecentSpans;

    fn trace_id(number: u8) -> TraceId {
        TraceId::from_slice(&[number + 1; 16]).unwrap()
    }

    fn span_id(number: u8) -> SpanId {
        SpanId::from_slice(&[number + 1; 8]).unwrap()
    }

    #[test]
    fn a_trace_larger_than_the_memory_is_not_remembered_and_takes_no_others_place() {
        let mut recent = RecentSpans::with_spans_max(3);
        recent.add_trace(trace_id(1), &[span_id(1), span_id(2)], &[]);
        let large: Vec<_> = (0..4).map(span_id).collect();
        recent.add_trace(trace_id(2), &large, &[]);
        assert!(recent.find(&trace_id(1), span_id(2)).is_some());
        assert!(recent.find(&trace_id(2), span_id(0)).is_none());
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Against a list: the youngest decision on a trace counts while its run is among the last ids.
        #[test]
        fn what_fits_is_known_and_what_left_is_not(
            decided in prop::collection::vec(
                (0_u8..6, prop::collection::btree_set(0_u8..12, 0..6), 0_u8..12), 0..40),
        ) {
            const SPANS_MAX: usize = 16;
            let mut recent = RecentSpans::with_spans_max(SPANS_MAX);
            let mut list: Vec<(u8, Vec<u8>, Vec<u8>)> = Vec::new();
            for (trace, spans, error_from) in decided {
                let spans: Vec<u8> = spans.into_iter().collect();
                let errors: Vec<u8> = spans.iter().copied().filter(|id| *id >= error_from).collect();
                let ids = |numbers: &[u8]| numbers.iter().copied().map(span_id).collect::<Vec<_>>();
                recent.add_trace(trace_id(trace), &ids(&spans), &ids(&errors));
                list.push((trace, spans, errors));
                let mut n_ids = 0;
                let fits = |entry: &&(u8, Vec<u8>, Vec<u8>)| {
                    n_ids += entry.1.len() + entry.2.len();
                    n_ids <= SPANS_MAX
                };
                let kept: Vec<_> = list.iter().rev().take_while(fits).collect();
                for trace in 0..6 {
                    let youngest = kept.iter().find(|entry| entry.0 == trace);
                    for span in 0..12 {
                        let want = youngest
                            .filter(|entry| entry.1.contains(&span))
                            .map(|entry| entry.2.contains(&span));
                        let found = recent.find(&trace_id(trace), span_id(span));
                        prop_assert_eq!(found.map(|known| known.is_error), want);
                    }
                }
            }
        }
    }
}
