//! Facts over any range of a column in logarithmic time.
//!
//! A column of samples is asked for millions of overlapping ranges (one per request), most of them a few
//! samples long, some of them hours. Short ranges read the values themselves; long ones read what is known of
//! blocks, of blocks of blocks, and so on. Sums are added up in blocks, so that rounding does not grow with
//! the length of the series, as differences of running totals would make it.

/// Values in a block, and blocks in a block of the next level.
const FANOUT: usize = 16;

/// What is known of a range of values.
pub(crate) trait Fold: Copy {
    /// One value.
    type Value: Copy;
    /// Of no values.
    const EMPTY: Self;
    /// Takes one value.
    fn add_value(&mut self, value: Self::Value);
    /// Takes what is known of another range.
    fn add(&mut self, other: &Self);
}

/// Sum, count, smallest and largest; NaN stands for NULL and is left out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Numbers {
    sum: f64,
    n: u32,
    min: f64,
    max: f64,
}

impl Fold for Numbers {
    type Value = f64;
    const EMPTY: Self = Self {
        sum: 0.0,
        n: 0,
        min: f64::INFINITY,
        max: f64::NEG_INFINITY,
    };

    fn add_value(&mut self, value: f64) {
        if !value.is_nan() {
            self.sum += value;
            self.n += 1;
            self.min = self.min.min(value);
            self.max = self.max.max(value);
        }
    }

    fn add(&mut self, other: &Self) {
        self.sum += other.sum;
        self.n += other.n;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }
}

impl Numbers {
    /// Values that there are.
    pub(crate) const fn n(&self) -> u32 {
        self.n
    }

    /// Mean of the values; `None` if there are none.
    pub(crate) fn mean(&self) -> Option<f64> {
        (self.n > 0).then(|| self.sum / f64::from(self.n))
    }

    /// The smallest value.
    pub(crate) fn min(&self) -> Option<f64> {
        (self.n > 0).then_some(self.min)
    }

    /// The largest value.
    pub(crate) fn max(&self) -> Option<f64> {
        (self.n > 0).then_some(self.max)
    }
}

/// Bits that any value had set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bits(pub(crate) u64);

impl Fold for Bits {
    type Value = u64;
    const EMPTY: Self = Self(0);

    fn add_value(&mut self, value: u64) {
        self.0 |= value;
    }

    fn add(&mut self, other: &Self) {
        self.0 |= other.0;
    }
}

/// A column of values with what is known of its blocks.
#[derive(Clone, Debug)]
pub(crate) struct Blocks<F: Fold> {
    values: Vec<F::Value>,
    /// Of blocks of values, of blocks of those, and so on; whole blocks only.
    levels: Vec<Vec<F>>,
}

impl<F: Fold> Blocks<F> {
    pub(crate) fn new(values: Vec<F::Value>) -> Self {
        let mut levels: Vec<Vec<F>> = Vec::new();
        let mut level: Vec<F> = values
            .chunks_exact(FANOUT)
            .map(|block| {
                let mut known = F::EMPTY;
                block.iter().for_each(|value| known.add_value(*value));
                known
            })
            .collect();
        while !level.is_empty() {
            let above = level.chunks_exact(FANOUT).map(|block| {
                let mut known = F::EMPTY;
                block.iter().for_each(|below| known.add(below));
                known
            });
            let above = above.collect();
            levels.push(std::mem::replace(&mut level, above));
        }
        Self { values, levels }
    }

    /// What is known of the values with these places.
    pub(crate) fn fold(&self, from: usize, to: usize) -> F {
        let mut known = F::EMPTY;
        let (mut low, mut high) = (from, to.min(self.values.len()));
        while low < high && !low.is_multiple_of(FANOUT) {
            known.add_value(self.values[low]);
            low += 1;
        }
        while low < high && !high.is_multiple_of(FANOUT) {
            high -= 1;
            known.add_value(self.values[high]);
        }
        for level in &self.levels {
            if low >= high {
                break;
            }
            low /= FANOUT;
            high /= FANOUT;
            while low < high && !low.is_multiple_of(FANOUT) {
                known.add(&level[low]);
                low += 1;
            }
            while low < high && !high.is_multiple_of(FANOUT) {
                high -= 1;
                known.add(&level[high]);
            }
        }
        known
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Bits, Blocks, FANOUT, Numbers};

    type Facts = (Option<f64>, Option<f64>, Option<f64>);

    fn naive(values: &[f64]) -> Facts {
        let known: Vec<f64> = values
            .iter()
            .copied()
            .filter(|value| !value.is_nan())
            .collect();
        let mean = (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64);
        (
            mean,
            known.iter().copied().reduce(f64::min),
            known.iter().copied().reduce(f64::max),
        )
    }

    fn facts(numbers: Numbers) -> Facts {
        (numbers.mean(), numbers.min(), numbers.max())
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Whole numbers, so that every order of adding gives the same sum.
        #[test]
        fn any_range_is_what_a_loop_says(
            values in prop::collection::vec(prop::option::of(-1_000..1_000_i32), 0..900),
            from in 0..900_usize,
            length in 0..900_usize,
        ) {
            let values: Vec<f64> = values.iter().map(|value| value.map_or(f64::NAN, f64::from)).collect();
            let from = from.min(values.len());
            let to = (from + length).min(values.len());
            let numbers = Blocks::<Numbers>::new(values.clone()).fold(from, to);
            prop_assert_eq!(facts(numbers), naive(&values[from..to]));
        }
    }

    #[test]
    fn every_range_of_a_column_with_three_levels() {
        let values: Vec<f64> = (0..FANOUT * FANOUT * 2 + 5)
            .map(|at| (at % 97) as f64)
            .collect();
        let bits: Vec<u64> = (0..values.len()).map(|at| 1 << (at * 7 % 64)).collect();
        let column = Blocks::<Numbers>::new(values.clone());
        let masks = Blocks::<Bits>::new(bits.clone());
        for from in (0..values.len()).step_by(3) {
            for to in (from..=values.len()).step_by(7) {
                assert_eq!(
                    facts(column.fold(from, to)),
                    naive(&values[from..to]),
                    "{from}..{to}"
                );
                let any = bits[from..to].iter().fold(0, |any, bit| any | bit);
                assert_eq!(masks.fold(from, to), Bits(any), "{from}..{to}");
            }
        }
    }
}
