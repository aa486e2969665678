//! Distributions and random numbers: what an interval needs, and no more.
//!
//! Everything is by bisection and continued fractions to far more digits than a decision needs; nothing is looked up.

/// Of a continued fraction; reached by no argument that occurs here.
const TERMS_MAX: usize = 20_000;

/// Natural logarithm of the gamma function of a positive number: shifted up until Stirling's series is exact.
fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut shift) = (x, 0.0);
    while x < 12.0 {
        shift += x.ln();
        x += 1.0;
    }
    let inverse = 1.0 / x;
    let square = inverse * inverse;
    let series = inverse / 12.0
        * (1.0 - square / 30.0 * (1.0 - square * 2.0 / 7.0 * (1.0 - square * 3.0 / 4.0)));
    (x - 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + series - shift
}

/// Probability that a beta variable of these parameters is at most `x`.
pub(super) fn beta_cdf(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - beta_cdf(1.0 - x, b, a);
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p()).exp();
    front / (a * beta_fraction(x, a, b))
}

/// The continued fraction of the incomplete beta function, from its front (the method of Lentz).
fn beta_fraction(x: f64, a: f64, b: f64) -> f64 {
    const LEAST: f64 = 1e-300;
    let away = |value: f64| {
        if value.abs() < LEAST { LEAST } else { value }
    };
    let (mut value, mut c, mut d) = (1.0_f64, 1.0_f64, 0.0_f64);
    for term in 1..TERMS_MAX {
        let m = (term / 2) as f64;
        let numerator = if term % 2 == 0 {
            m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m))
        } else {
            -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0))
        };
        d = 1.0 / away(1.0 + numerator * d);
        c = away(1.0 + numerator / c);
        value *= c * d;
        if (c * d - 1.0).abs() < 1e-13 {
            break;
        }
    }
    value
}

/// The value below which a beta variable of these parameters stays with probability `p`.
pub(super) fn beta_quantile(p: f64, a: f64, b: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while high - low > 1e-12 {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if beta_cdf(middle, a, b) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

/// Degrees of freedom from which Student's distribution is as good as the normal one.
const FREEDOM_MAX: f64 = 10_000.0;

/// Half the width, in standard errors, of a two-sided interval at this confidence.
pub(super) fn student(confidence: f64, degrees_of_freedom: f64) -> f64 {
    let freedom = degrees_of_freedom.clamp(1.0, FREEDOM_MAX);
    let x = beta_quantile(1.0 - confidence, freedom / 2.0, 0.5);
    (freedom * (1.0 - x) / x.max(f64::MIN_POSITIVE)).sqrt()
}

/// Random numbers of a seed (splitmix64): the same on every machine.
#[derive(Debug)]
pub(super) struct Rng(u64);

impl Rng {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below `end`, which is not 0; the bias of the product is beyond notice.
    pub(super) fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.next_u64()) * end as u128) >> 64) as usize
    }

    /// Puts `n` of the items, chosen at random, to the front.
    pub(super) fn choose(&mut self, items: &mut [usize], n: usize) {
        for at in 0..n.min(items.len()) {
            let other = at + self.below(items.len() - at);
            items.swap(at, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Rng, beta_cdf, beta_quantile, student};

    fn near(value: f64, expected: f64) {
        assert!(
            (value - expected).abs() < 1e-6 * expected.abs().max(1.0),
            "{value} {expected}"
        );
    }

    /// Sum of binomial probabilities, which the beta distribution is another writing of.
    fn binomial_at_least(k: u32, n: u32, p: f64) -> f64 {
        let mut sum = 0.0;
        for i in k..=n {
            let mut term = 1.0;
            for j in 0..i {
                term *= f64::from(n - j) / f64::from(i - j) * p;
            }
            sum += term * (1.0 - p).powi((n - i) as i32);
        }
        sum
    }

    #[test]
    fn the_beta_distribution_is_the_binomial_tail() {
        for (k, n) in [(1, 1), (1, 10), (3, 10), (10, 10), (30, 40), (99, 100)] {
            for p in [0.01, 0.1, 0.5, 0.9, 0.99] {
                let tail = binomial_at_least(k, n, p);
                near(beta_cdf(p, f64::from(k), f64::from(n - k + 1)), tail);
            }
        }
        for (a, b) in [(0.5, 0.5), (1.0, 400.0), (396.0, 5.0), (4e5, 8e3)] {
            for p in [0.025, 0.5, 0.975] {
                near(beta_cdf(beta_quantile(p, a, b), a, b), p);
            }
        }
    }

    /// Values as tables of the distribution have them.
    #[test]
    fn students_intervals_are_those_of_the_tables() {
        for (confidence, freedom, expected) in [
            (0.95, 1.0, 12.706_204_7),
            (0.95, 10.0, 2.228_138_9),
            (0.99, 30.0, 2.749_995_7),
            (0.95, 1e9, 1.960_2),
        ] {
            let found = student(confidence, freedom);
            assert!((found - expected).abs() < 2e-4, "{found} {expected}");
        }
    }

    #[test]
    fn a_choice_is_even() {
        let mut rng = Rng::new(7);
        let mut counts = [0_u32; 6];
        for _ in 0..6_000 {
            let mut items: Vec<usize> = (0..6).collect();
            rng.choose(&mut items, 2);
            counts[items[0]] += 1;
            counts[items[1]] += 1;
        }
        assert!(
            counts.iter().all(|n| (1_850..2_150).contains(n)),
            "{counts:?}"
        );
    }
}
