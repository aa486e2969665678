//! How many intervals of a set overlap another one, without looking at them.

/// Starts and ends of half-open intervals, each sorted by itself.
#[derive(Clone, Debug, Default)]
pub struct Intervals {
    starts: Vec<i64>,
    ends: Vec<i64>,
}

impl Extend<(i64, i64)> for Intervals {
    /// Takes intervals in any order. One that ends before it starts counts as empty at its start.
    fn extend<I: IntoIterator<Item = (i64, i64)>>(&mut self, intervals: I) {
        for (start, end) in intervals {
            self.starts.push(start);
            self.ends.push(end.max(start));
        }
        // Stable, because that finds what is sorted already and merges the rest into it.
        self.starts.sort();
        self.ends.sort();
    }
}

impl Intervals {
    /// Does any of them touch `from..=to`?
    #[must_use]
    pub fn any_in(&self, from: i64, to: i64) -> bool {
        let began = self.starts.partition_point(|start| *start <= to);
        let over = self.ends.partition_point(|end| *end < from);
        began > over
    }

    /// Intervals that began before `end`, and those that were over at `start`: the first less the second share time with
    /// `start..end`.
    pub(crate) fn began_and_over(&self, start: i64, end: i64) -> (usize, usize) {
        let began = self.starts.partition_point(|other| *other < end);
        let over = self.ends.partition_point(|other| *other <= start);
        (began, over)
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
            cut in 0..60_usize,
            start in 0..220_i64,
            length in 1..50_i64,
        ) {
            let intervals: Vec<_> = intervals.iter().map(|(start, length)| (*start, start + length)).collect();
            let mut set = Intervals::default();
            let (first, rest) = intervals.split_at(cut.min(intervals.len()));
            set.extend(first.iter().copied());
            set.extend(rest.iter().copied());
            let end = start + length;
            let overlapping = intervals.iter().filter(|(from, to)| *from < end && *to > start).count();
            let (began, over) = set.began_and_over(start, end);
            prop_assert_eq!(began - over, overlapping);
            let touches = intervals.iter().any(|(from, to)| *from <= end && *to >= start);
            prop_assert_eq!(set.any_in(start, end), touches);
            let at = intervals.iter().filter(|(from, to)| *from <= start && *to > start).count();
            prop_assert_eq!(set.at(start), at);
        }
    }
}
