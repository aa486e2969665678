//! Which segments of the log are still needed, and by how many spans.
//!
//! A span holds its segment from the moment it is indexed until the release that contains it is committed
//! (or, for a span of an undecided trace, for as long as that takes). The first segment that anything holds is the
//! low-water mark: everything below it may be deleted. Undecided spans that keep a segment almost alone are carried
//! forward, and hold another one then.

use std::collections::BTreeMap;

use wal::Position;

/// Spans per segment, in a list: what one release will give back.
pub(crate) type SegmentCounts = Vec<(u32, u64)>;

/// All holds on the log.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    by_segment: BTreeMap<u32, Held>,
}

/// The holds on one segment.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    n_spans: u64,
    /// All that were added, with their bytes: what a span takes on the average.
    n_added: u64,
    added_bytes: u64,
}

impl Holds {
    /// Holds a segment for more spans of so many bytes.
    pub(crate) fn add(&mut self, segment: u32, n_spans: u64, n_bytes: u64) {
        if n_spans > 0 {
            let held = self.by_segment.entry(segment).or_default();
            held.n_spans = held.n_spans.saturating_add(n_spans);
            held.n_added = held.n_added.saturating_add(n_spans);
            held.added_bytes = held.added_bytes.saturating_add(n_bytes);
        }
    }

    /// Holds segments for spans that held them elsewhere.
    pub(crate) fn add_all(&mut self, counts: &SegmentCounts) {
        for &(segment, n_spans) in counts {
            self.add(segment, n_spans, 0);
        }
    }

    /// Gives back what was added.
    pub(crate) fn remove(&mut self, counts: &SegmentCounts) {
        for &(segment, n_spans) in counts {
            let held = self.by_segment.get_mut(&segment);
            debug_assert!(
                held.as_ref().is_some_and(|held| held.n_spans >= n_spans),
                "spans give back what they held"
            );
            if let Some(held) = held {
                held.n_spans = held.n_spans.saturating_sub(n_spans);
                if held.n_spans == 0 {
                    self.by_segment.remove(&segment);
                }
            }
        }
    }

    /// The first segment that is held.
    pub(crate) fn first_segment(&self) -> Option<u32> {
        self.by_segment.keys().next().copied()
    }

    /// Spans that hold a segment, and about how many bytes they have.
    pub(crate) fn of_segment(&self, segment: u32) -> (u64, u64) {
        let held = self.by_segment.get(&segment).copied().unwrap_or_default();
        let bytes_each = held.added_bytes.checked_div(held.n_added).unwrap_or(0);
        (held.n_spans, held.n_spans.saturating_mul(bytes_each))
    }

    /// All spans that hold.
    pub(crate) fn n_spans(&self) -> u64 {
        let held = self.by_segment.values();
        held.fold(0, |sum, held| sum.saturating_add(held.n_spans))
    }
}

/// Counts the spans of a release per segment.
#[derive(Debug, Default)]
pub(crate) struct SegmentCounter {
    counts: BTreeMap<u32, u64>,
    /// The segment counted last and its spans that are not in `counts`: those of one segment come together.
    run: (u32, u64),
}

impl SegmentCounter {
    /// Counts one span.
    pub(crate) fn count(&mut self, position: u64) {
        let segment = Position::from_u64(position).segment();
        if segment != self.run.0 {
            self.end_run();
            self.run.0 = segment;
        }
        self.run.1 = self.run.1.saturating_add(1);
    }

    pub(crate) fn into_counts(mut self) -> SegmentCounts {
        self.end_run();
        self.counts.into_iter().collect()
    }

    fn end_run(&mut self) {
        let (segment, n_in_run) = std::mem::take(&mut self.run);
        if n_in_run > 0 {
            let n_spans = self.counts.entry(segment).or_default();
            *n_spans = n_spans.saturating_add(n_in_run);
        }
    }
}
