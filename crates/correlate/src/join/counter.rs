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
struct Total {
    /// What it grew by since the first sample, restarts left out.
    grown: Vec<f64>,
    /// Number of the unbroken stretch that each sample belongs to.
    stretch: Vec<u32>,
}

impl Total {
    /// A value below the one before it is a restart (driver reload, reset, wrapped counter): how much came before
    /// it is not known, so nothing is counted for that step.
    fn new(values: Vec<f64>) -> Self {
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
}

/// Counters of one device: those that it has lie sample by sample, because a request asks two samples for all of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    /// Place of each counter within a sample; `None` where the device never said it.
    places: Vec<Option<usize>>,
    /// Counters that the device has.
    n_known: usize,
    grown: Vec<f64>,
    /// Empty where no counter ever restarted.
    stretch: Vec<u32>,
}

impl Totals {
    /// Takes the columns of all counters, NaN for NULL.
    pub(crate) fn new(columns: Vec<Vec<f64>>) -> Self {
        let mut places = Vec::with_capacity(columns.len());
        let mut known = Vec::new();
        for values in columns {
            let is_known = values.iter().any(|value| !value.is_nan());
            places.push(is_known.then_some(known.len()));
            if is_known {
                known.push(Total::new(values));
            }
        }
        let n_samples = known.first().map_or(0, |total| total.grown.len());
        let restarts = known
            .iter()
            .any(|total| total.stretch.last().is_some_and(|last| *last > 0));
        Self {
            places,
            n_known: known.len(),
            grown: by_sample(n_samples, &known, |total| &total.grown),
            stretch: if restarts {
                by_sample(n_samples, &known, |total| &total.stretch)
            } else {
                Vec::new()
            },
        }
    }

    /// What the counter with this number grew by from one sample to another; `None` where either does not say it.
    pub(crate) fn growth(&self, number: usize, from: usize, to: usize) -> Option<Growth> {
        let place = (*self.places.get(number)?)?;
        let (from, to) = (from * self.n_known + place, to * self.n_known + place);
        let amount = self.grown.get(to)? - self.grown.get(from)?;
        let is_whole = self.stretch.is_empty() || self.stretch[from] == self.stretch[to];
        (!amount.is_nan()).then_some(Growth { amount, is_whole })
    }
}

fn by_sample<T: Copy>(
    n_samples: usize,
    known: &[Total],
    pick: impl Fn(&Total) -> &Vec<T>,
) -> Vec<T> {
    let mut rows = Vec::with_capacity(n_samples * known.len());
    for sample in 0..n_samples {
        rows.extend(known.iter().map(|total| pick(total)[sample]));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::{Growth, Totals};

    /// Of one counter beside two others.
    fn totals(values: &[f64]) -> Totals {
        let never = vec![f64::NAN; values.len()];
        let steady = (0..values.len()).map(|at| at as f64).collect();
        Totals::new(vec![steady, never, values.to_vec()])
    }

    fn growth(totals: &Totals, from: usize, to: usize) -> Option<(f64, bool)> {
        assert_eq!(totals.growth(1, from, to), None, "was never said");
        let steady = totals.growth(0, from, to).map(|growth| growth.is_whole);
        assert_ne!(steady, Some(false), "another counter restarted");
        totals
            .growth(2, from, to)
            .map(|Growth { amount, is_whole }| (amount, is_whole))
    }

    #[test]
    fn a_restart_is_never_a_negative_growth() {
        // C52: joules of a GPU whose driver is loaded anew.
        let total = totals(&[1_000.0, 5_000.0, 9_000.0, 150.0, 4_150.0]);
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
        let total = totals(&[f64::NAN, 10.0, f64::NAN, 30.0]);
        assert_eq!(growth(&total, 1, 3), Some((20.0, true)));
        assert_eq!(growth(&total, 0, 3), None);
        assert_eq!(growth(&total, 1, 2), None);
        assert_eq!(growth(&total, 1, 9), None);
    }
}
