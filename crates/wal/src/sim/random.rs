//! Randomness that can be repeated.

/// Numbers that follow from a seed (`SplitMix64`).
#[derive(Clone, Debug, Default)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn is_heads(&mut self) -> bool {
        self.next() & 1 == 1
    }

    /// Less than `limit`; 0 if that is 0.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        let limit = u64::try_from(limit).unwrap_or(u64::MAX);
        usize::try_from(self.next().checked_rem(limit).unwrap_or(0)).unwrap_or(0)
    }
}
