//! `SplitMix64`: the same numbers from the same seed on every machine and with every release.
//!
//! Not the `rand` crate, whose generators may change between versions and would change all
//! generated traffic with them. Source of the constants: Steele, Lea, Flood, "Fast splittable
//! pseudorandom number generators", OOPSLA 2014.

/// A small seeded generator; not for secrets.
#[derive(Debug, Clone)]
pub(crate) struct Rng {
    state: u64,
}

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Sixty-four evenly spread bits.
    pub(crate) fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// An even draw from `[0, 1)`, with 32 bits of resolution.
    pub(crate) fn unit(&mut self) -> f64 {
        let high = u32::try_from(self.next_u64() >> 32).unwrap_or(u32::MAX);
        f64::from(high) / (f64::from(u32::MAX) + 1.0)
    }

    /// An even draw from `[low, high)`.
    pub(crate) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// An exponential draw with the given mean.
    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    /// A whole number from `0` up to and without `bound`; 0 if `bound` is 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        // The bias of the remainder is below 2^-40 for the bounds in use.
        self.next_u64().checked_rem(bound).unwrap_or(0)
    }

    /// True with the given probability.
    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }
}

#[cfg(test)]
mod tests {
    use super::Rng;

    #[test]
    fn the_first_numbers_of_seed_zero_are_those_of_the_reference_implementation() {
        let mut rng = Rng::new(0);
        assert_eq!(rng.next_u64(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(rng.next_u64(), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn draws_stay_in_their_range() {
        let mut rng = Rng::new(7);
        for _ in 0..10_000 {
            assert!((0.0..1.0).contains(&rng.unit()));
            assert!((2.0..3.0).contains(&rng.between(2.0, 3.0)));
            assert!(rng.exponential(1.0) >= 0.0);
            assert!(rng.below(3) < 3);
        }
        assert_eq!(rng.below(0), 0);
    }
}
