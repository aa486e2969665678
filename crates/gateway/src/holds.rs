//! Which segments of the log are still needed, and by how many spans.
//!
//! A span holds its segment from the moment it is indexed until the release that contains it is committed
//! (or, for a span of an undecided trace, for as long as that takes). The first segment that anything holds is the
//! low-water mark: everything below it may be deleted.

use std::collections::BTreeMap;

use wal::Position;

/// Spans per segment, in a list: what one release will give back.
pub(crate) type SegmentCounts = Vec<(u32, u64)>;

/// All holds on the log.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    n_spans_by_segment: BTreeMap<u32, u64>,
}

impl Holds {
    /// Holds a segment for more spans.
    pub(crate) fn add(&mut self, segment: u32, n_spans: u64) {
        if n_spans > 0 {
            let held = self.n_spans_by_segment.entry(segment).or_default();
            *held = held.saturating_add(n_spans);
        }
    }

    /// Holds segments for spans that held them elsewhere.
    pub(crate) fn add_all(&mut self, counts: &SegmentCounts) {
        for &(segment, n_spans) in counts {
            self.add(segment, n_spans);
        }
    }

    /// Gives back what was added.
    pub(crate) fn remove(&mut self, counts: &SegmentCounts) {
        for &(segment, n_spans) in counts {
            let held = self.n_spans_by_segment.get_mut(&segment);
            debug_assert!(
                held.as_ref().is_some_and(|held| **held >= n_spans),
                "spans give back what they held"
            );
            if let Some(held) = held {
                *held = held.saturating_sub(n_spans);
                if *held == 0 {
                    self.n_spans_by_segment.remove(&segment);
                }
            }
        }
    }

    /// The first segment that is held.
    pub(crate) fn first_segment(&self) -> Option<u32> {
        self.n_spans_by_segment.keys().next().copied()
    }

    /// All spans that hold.
    pub(crate) fn n_spans(&self) -> u64 {
        self.n_spans_by_segment
            .values()
            .fold(0, |sum, n_spans| sum.saturating_add(*n_spans))
    }
}

/// Counts the spans of a release per segment.
#[derive(Debug, Default)]
pub(crate) struct SegmentCounter {
    counts: BTreeMap<u32, u64>,
}

impl SegmentCounter {
    /// Counts one span.
    pub(crate) fn count(&mut self, position: u64) {
        let n_spans = self
            .counts
            .entry(Position::from_u64(position).segment())
            .or_default();
        *n_spans = n_spans.saturating_add(1);
    }

    pub(crate) fn into_counts(self) -> SegmentCounts {
        self.counts.into_iter().collect()
    }
}
