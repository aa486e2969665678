//! How many intervals of a set overlap another one, without looking at them.

/// Starts and ends of half-open intervals, each sorted by itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Intervals {
    starts: Vec<i64>,
    ends: Vec<i64>,
}

impl Intervals {
    /// Takes intervals in any order. One that ends before it starts counts as empty at its start.
    pub(crate) fn new(intervals: impl IntoIterator<Item = (i64, i64)>) -> Self {
        let (mut starts, mut ends): (Vec<_>, Vec<_>) = intervals
            .into_iter()
            .map(|(start, end)| (start, end.max(start)))
            .unzip();
        starts.sort_unstable();
        ends.sort_unstable();
        Self { starts, ends }
    }

    /// Intervals that share time with `start..end`: all that began before its end, less those that were over
    /// at its start.
    pub(crate) fn overlapping(&self, start: i64, end: i64) -> usize {
        let began = self.starts.partition_point(|other| *other < end);
        let over = self.ends.partition_point(|other| *other <= start);
        began.saturating_sub(over)
    }

    /// Intervals that hold the moment `at`.
    pub(crate) fn at(&self, at: i64) -> usize {
        let began = self.starts.partition_point(|other| *other <= at);
        let over = self.ends.partition_point(|other| *other <= at);
        began - over
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Intervals;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn counts_are_those_of_a_loop(
            intervals in prop::collection::vec((0..200_i64, 1..60_i64), 0..60),
            start in 0..220_i64,
            length in 1..50_i64,
        ) {
            let intervals: Vec<_> = intervals.iter().map(|(start, length)| (*start, start + length)).collect();
            let end = start + length;
            let set = Intervals::new(intervals.iter().copied());
            let overlapping = intervals.iter().filter(|(from, to)| *from < end && *to > start).count();
            prop_assert_eq!(set.overlapping(start, end), overlapping);
            let at = intervals.iter().filter(|(from, to)| *from <= start && *to > start).count();
            prop_assert_eq!(set.at(start), at);
        }
    }
}
