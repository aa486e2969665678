//! Counters that only grow, until something restarts them.

use tables::samples::{Counter, Step};

/// What a counter grew by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Growth {
    pub(crate) amount: f64,
    /// No restart lies within; otherwise it is the least that it can have been.
    pub(crate) is_whole: bool,
}

/// A counter as it would be without restarts; NaN stands for NULL.
#[derive(Clone, Debug)]
pub(crate) struct Total {
    /// What it grew by since the first sample, restarts left out.
    grown: Vec<f64>,
    /// Number of the unbroken stretch that each sample belongs to.
    stretch: Vec<u32>,
}

impl Total {
    /// A value below the one before it is a restart (driver reload, reset, wrapped counter): how much came before
    /// it is not known, so nothing is counted for that step.
    pub(crate) fn new(values: Vec<f64>) -> Self {
        let mut grown = values;
        let mut stretch = Vec::with_capacity(grown.len());
        let (mut counter, mut total, mut number) = (Counter::default(), 0.0, 0);
        for (place, value) in (0..).zip(&mut grown) {
            if !value.is_nan() {
                match counter.step(place, *value) {
                    Step::Unknown => {}
                    Step::Grew(amount) => total += amount,
                    Step::Reset(_) => number += 1,
                }
                *value = total;
            }
            stretch.push(number);
        }
        Self { grown, stretch }
    }

    /// Growth from one place to another; `None` where either has no value.
    pub(crate) fn growth(&self, from: usize, to: usize) -> Option<Growth> {
        let amount = self.grown.get(to)? - self.grown.get(from)?;
        let is_whole = self.stretch[from] == self.stretch[to];
        (!amount.is_nan()).then_some(Growth { amount, is_whole })
    }
}

#[cfg(test)]
mod tests {
    use super::{Growth, Total};

    fn growth(total: &Total, from: usize, to: usize) -> Option<(f64, bool)> {
        total
            .growth(from, to)
            .map(|Growth { amount, is_whole }| (amount, is_whole))
    }

    #[test]
    fn a_restart_is_never_a_negative_growth() {
        // C52: joules of a GPU whose driver is loaded anew.
        let total = Total::new(vec![1_000.0, 5_000.0, 9_000.0, 150.0, 4_150.0]);
        assert_eq!(growth(&total, 0, 2), Some((8_000.0, true)));
        assert_eq!(
            growth(&total, 0, 4),
            Some((12_000.0, false)),
            "a restart lies between"
        );
        assert_eq!(growth(&total, 3, 4), Some((4_000.0, true)));
    }

    #[test]
    fn a_missing_value_is_bridged_and_not_an_end() {
        let total = Total::new(vec![f64::NAN, 10.0, f64::NAN, 30.0]);
        assert_eq!(growth(&total, 1, 3), Some((20.0, true)));
        assert_eq!(growth(&total, 0, 3), None);
        assert_eq!(growth(&total, 1, 2), None);
        assert_eq!(growth(&total, 1, 9), None);
    }
}
