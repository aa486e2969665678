//! Facts over any range of a column in logarithmic time.
//!
//! Samples are asked for millions of overlapping ranges (one per request), most of them a few
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
    fn add_value(&mut self, value: &Self::Value);
    /// Takes what is known of another range.
    fn add(&mut self, other: &Self);
}

/// Sum, count, smallest and largest of columns whose values lie row by row; NaN stands for NULL and is left out.
///
/// One row is a few neighbouring cache lines, and what is done to its columns is the same, which a processor does for
/// several at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Numbers<const N: usize> {
    sum: [f64; N],
    n: [u64; N],
    min: [f64; N],
    max: [f64; N],
}

impl<const N: usize> Fold for Numbers<N> {
    type Value = [f64; N];
    const EMPTY: Self = Self {
        sum: [0.0; N],
        n: [0; N],
        min: [f64::INFINITY; N],
        max: [f64::NEG_INFINITY; N],
    };

    #[inline]
    fn add_value(&mut self, value: &[f64; N]) {
        // Comparisons with NaN are false: it changes no extreme.
        for column in 0..N {
            let value = value[column];
            let is_known = !value.is_nan();
            self.sum[column] += if is_known { value } else { 0.0 };
            self.n[column] += u64::from(is_known);
            self.min[column] = lesser(value, self.min[column]);
            self.max[column] = greater(value, self.max[column]);
        }
    }

    #[inline]
    fn add(&mut self, other: &Self) {
        for column in 0..N {
            self.sum[column] += other.sum[column];
            self.n[column] += other.n[column];
            self.min[column] = lesser(other.min[column], self.min[column]);
            self.max[column] = greater(other.max[column], self.max[column]);
        }
    }
}

/// One instruction each, unlike `f64::min`.
#[inline]
fn lesser(value: f64, known: f64) -> f64 {
    if value < known { value } else { known }
}

#[inline]
fn greater(value: f64, known: f64) -> f64 {
    if value > known { value } else { known }
}

impl<const N: usize> Numbers<N> {
    /// Values that a column has.
    pub(crate) const fn n(&self, column: usize) -> u64 {
        self.n[column]
    }

    /// Mean of the values of a column; `None` if there are none.
    pub(crate) fn mean(&self, column: usize) -> Option<f64> {
        let n = self.n[column];
        (n > 0).then(|| self.sum[column] / n as f64)
    }

    /// The smallest value.
    pub(crate) fn min(&self, column: usize) -> Option<f64> {
        (self.n[column] > 0).then_some(self.min[column])
    }

    /// The largest value.
    pub(crate) fn max(&self, column: usize) -> Option<f64> {
        (self.n[column] > 0).then_some(self.max[column])
    }
}

/// Bits that any value had set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bits(pub(crate) u64);

impl Fold for Bits {
    type Value = u64;
    const EMPTY: Self = Self(0);

    fn add_value(&mut self, value: &u64) {
        self.0 |= *value;
    }

    fn add(&mut self, other: &Self) {
        self.0 |= other.0;
    }
}

/// Values with what is known of their blocks.
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
                block.iter().for_each(|value| known.add_value(value));
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
            known.add_value(&self.values[low]);
            low += 1;
        }
        while low < high && !high.is_multiple_of(FANOUT) {
            high -= 1;
            known.add_value(&self.values[high]);
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

    fn facts<const N: usize>(numbers: &Numbers<N>, column: usize) -> Facts {
        (
            numbers.mean(column),
            numbers.min(column),
            numbers.max(column),
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Whole numbers, so that every order of adding gives the same sum.
        #[test]
        fn any_range_is_what_a_loop_says(
            values in prop::collection::vec(prop::array::uniform3(prop::option::of(-1_000..1_000_i32)), 0..900),
            from in 0..900_usize,
            length in 0..900_usize,
        ) {
            let number = |value: Option<i32>| value.map_or(f64::NAN, f64::from);
            let values: Vec<[f64; 3]> = values.iter().map(|row| row.map(number)).collect();
            let from = from.min(values.len());
            let to = (from + length).min(values.len());
            let numbers = Blocks::<Numbers<3>>::new(values.clone()).fold(from, to);
            for column in 0..3 {
                let alone: Vec<f64> = values[from..to].iter().map(|row| row[column]).collect();
                prop_assert_eq!(facts(&numbers, column), naive(&alone));
            }
        }
    }

    #[test]
    fn every_range_of_a_column_with_three_levels() {
        let values: Vec<f64> = (0..FANOUT * FANOUT * 2 + 5)
            .map(|at| (at % 97) as f64)
            .collect();
        let bits: Vec<u64> = (0..values.len()).map(|at| 1 << (at * 7 % 64)).collect();
        let column = Blocks::<Numbers<1>>::new(values.iter().map(|value| [*value]).collect());
        let masks = Blocks::<Bits>::new(bits.clone());
        for from in (0..values.len()).step_by(3) {
            for to in (from..=values.len()).step_by(7) {
                assert_eq!(
                    facts(&column.fold(from, to), 0),
                    naive(&values[from..to]),
                    "{from}..{to}"
                );
                let any = bits[from..to].iter().fold(0, |any, bit| any | bit);
                assert_eq!(masks.fold(from, to), Bits(any), "{from}..{to}");
            }
        }
    }
}
