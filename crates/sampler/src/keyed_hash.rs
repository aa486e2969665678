//! Hashing of what senders choose: trace ids and service names.
//!
//! `FxHash` has no secret, so a sender could pick ids that all land in one place and make every
//! look-up a walk over all of them. This is as fast (a multiplication per 8 bytes, folded, as in
//! wyhash) and starts from a secret of the process. Nothing depends on the order of a map.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Makes hashers that share one secret.
#[derive(Debug, Clone)]
pub(crate) struct KeyedState {
    start: u64,
    multiplier: u64,
}

impl KeyedState {
    /// With a new secret.
    pub(crate) fn new() -> Self {
        // The standard library's own source of per-process randomness.
        let random = RandomState::new();
        Self {
            start: random.hash_one(0_u8),
            multiplier: random.hash_one(1_u8) | 1,
        }
    }
}

impl BuildHasher for KeyedState {
    type Hasher = KeyedHasher;

    fn build_hasher(&self) -> KeyedHasher {
        KeyedHasher {
            state: self.start,
            multiplier: self.multiplier,
        }
    }
}

/// One hash being computed.
#[derive(Debug)]
pub(crate) struct KeyedHasher {
    state: u64,
    multiplier: u64,
}

impl KeyedHasher {
    fn fold(&mut self, word: u64) {
        let product = u128::from(self.state ^ word) * u128::from(self.multiplier);
        // Both halves of the product, each exactly 64 bits.
        self.state = (product as u64) ^ ((product >> 64) as u64);
    }
}

impl Hasher for KeyedHasher {
    fn write(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            let mut whole = [0; 8];
            whole.copy_from_slice(word);
            self.fold(u64::from_le_bytes(whole));
        }
        let rest = words.remainder();
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            self.fold(u64::from_le_bytes(last));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.fold(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.fold(value);
    }

    fn write_usize(&mut self, value: usize) {
        self.fold(value as u64);
    }

    fn finish(&self) -> u64 {
        self.state
    }
}
