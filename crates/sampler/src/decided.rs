//! Memory of decided traces, so that late spans follow the decision.
//!
//! Limits: about 30 bytes per decision (24 for the entry, 4 to 8 for its place in the index), all
//! sizes fixed at the start.
//!
//! Each cache keeps the least recently used apart by "second chance": entries stand in a ring in
//! order of insertion, and one that was asked for since it was last passed over stays for another
//! round. For entries that were never asked for, which is nearly all, that is exactly the order of
//! a list, without the 16 bytes of its links.

use std::hash::BuildHasher;

use otlp::TraceId;

use crate::config::Config;
use crate::decision::{Decision, PolicyIndex};
use crate::keyed_hash::KeyedState;
use crate::threshold::ThresholdChange;
use crate::verdict::Judgement;

/// What is remembered of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Remembered {
    pub(crate) decision: Decision,
    pub(crate) policy: Option<PolicyIndex>,
    /// The spans of the trace were given another `th`, which is not remembered: late ones have it erased.
    pub(crate) changes_threshold: bool,
}

impl From<Judgement> for Remembered {
    fn from(judgement: Judgement) -> Self {
        Self {
            decision: judgement.decision,
            policy: judgement.policy,
            changes_threshold: judgement.threshold != ThresholdChange::Unchanged,
        }
    }
}

/// All decisions that are remembered.
#[derive(Debug)]
pub(crate) struct DecidedTraces {
    sampled: Option<Cache>,
    non_sampled: Option<Cache>,
    /// Decisions of a kind that has no cache of its own.
    recent: Option<Cache>,
}

impl DecidedTraces {
    pub(crate) fn new(config: &Config) -> Self {
        let cache = |size: u64| {
            usize::try_from(size)
                .ok()
                .filter(|n| *n > 0)
                .map(Cache::new)
        };
        let sampled = cache(config.decision_cache.sampled_cache_size);
        let non_sampled = cache(config.decision_cache.non_sampled_cache_size);
        let needs_recent = sampled.is_none() || non_sampled.is_none();
        let recent = if needs_recent {
            cache(config.num_traces)
        } else {
            None
        };
        Self {
            sampled,
            non_sampled,
            recent,
        }
    }

    /// Remembers what another memory does, as far as there is room.
    pub(crate) fn take_over(&mut self, before: Self) {
        let Self {
            sampled,
            non_sampled,
            recent,
        } = before;
        for cache in [sampled, non_sampled, recent].into_iter().flatten() {
            for entry in cache.oldest_first() {
                self.remember(entry.trace_id, entry.remembered);
            }
        }
    }

    pub(crate) fn remember(&mut self, trace_id: TraceId, remembered: Remembered) {
        let own = match remembered.decision {
            Decision::Sampled => &mut self.sampled,
            Decision::NotSampled | Decision::Dropped => &mut self.non_sampled,
        };
        if let Some(cache) = own.as_mut().or(self.recent.as_mut()) {
            cache.insert(trace_id, remembered);
        }
    }

    pub(crate) fn recall(&mut self, trace_id: &TraceId) -> Option<Remembered> {
        let caches = [&mut self.sampled, &mut self.non_sampled, &mut self.recent];
        caches
            .into_iter()
            .flatten()
            .find_map(|cache| cache.find(trace_id))
    }

    /// As [`Self::recall`], without keeping it from being forgotten.
    pub(crate) fn peek(&self, trace_id: &TraceId) -> Option<Remembered> {
        let caches = [&self.sampled, &self.non_sampled, &self.recent];
        caches.into_iter().flatten().find_map(|cache| {
            cache
                .look_up(trace_id)
                .map(|position| cache.ring[position].remembered)
        })
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let caches = [&self.sampled, &self.non_sampled, &self.recent];
        caches.into_iter().flatten().map(Cache::heap_bytes).sum()
    }
}

#[derive(Debug)]
struct Entry {
    trace_id: TraceId,
    remembered: Remembered,
    was_asked_for: bool,
}

const _: () = assert!(size_of::<Entry>() <= 24, "at most 8 bytes beyond the id");

#[derive(Debug)]
struct Cache {
    /// At most `capacity`; filled once, then replaced in a circle.
    ring: Vec<Entry>,
    capacity: usize,
    /// Next to be replaced once the ring is full.
    oldest: usize,
    /// Open addressing with linear probing: a position in the ring plus 1, or 0. A power of two, at
    /// most three quarters full, so a probe always ends.
    index: Vec<u32>,
    hash: KeyedState,
}

impl Cache {
    /// `capacity` is at least 1 and at most [`crate::CACHE_SIZE_MAX`], so positions fit in `u32`.
    fn new(capacity: usize) -> Self {
        let slots = (capacity + capacity / 3 + 1).next_power_of_two();
        Self {
            ring: Vec::with_capacity(capacity),
            capacity,
            oldest: 0,
            index: vec![0; slots],
            hash: KeyedState::new(),
        }
    }

    fn find(&mut self, trace_id: &TraceId) -> Option<Remembered> {
        let position = self.look_up(trace_id)?;
        let entry = &mut self.ring[position];
        entry.was_asked_for = true;
        Some(entry.remembered)
    }

    fn insert(&mut self, trace_id: TraceId, remembered: Remembered) {
        if let Some(position) = self.look_up(&trace_id) {
            self.ring[position].remembered = remembered;
            return;
        }
        let entry = Entry {
            trace_id,
            remembered,
            was_asked_for: false,
        };
        let position = if self.ring.len() < self.capacity {
            self.ring.push(entry);
            self.ring.len() - 1
        } else {
            let position = self.choose_victim();
            let victim = std::mem::replace(&mut self.ring[position], entry);
            self.remove_from_index(&victim.trace_id, position);
            position
        };
        let mut slot = self.home_slot(&trace_id);
        while self.index[slot] != 0 {
            slot = self.next_slot(slot);
        }
        self.index[slot] = u32::try_from(position + 1).unwrap_or(0);
    }

    fn oldest_first(&self) -> impl Iterator<Item = &Entry> {
        let (young, old) = self.ring.split_at(self.oldest);
        old.iter().chain(young)
    }

    fn choose_victim(&mut self) -> usize {
        loop {
            let position = self.oldest;
            self.oldest = (self.oldest + 1) % self.capacity;
            if !std::mem::take(&mut self.ring[position].was_asked_for) {
                return position;
            }
        }
    }

    /// Position in the ring.
    fn look_up(&self, trace_id: &TraceId) -> Option<usize> {
        let mut slot = self.home_slot(trace_id);
        loop {
            let position = self.position_at(slot)?;
            if self.ring[position].trace_id == *trace_id {
                return Some(position);
            }
            slot = self.next_slot(slot);
        }
    }

    /// Frees the slot of `position`, whose entry is gone, and closes the gap, so that every probe
    /// still finds what is behind it.
    fn remove_from_index(&mut self, trace_id: &TraceId, position: usize) {
        let mut gap = self.home_slot(trace_id);
        while self.position_at(gap) != Some(position) {
            gap = self.next_slot(gap);
        }
        let mask = self.index.len() - 1;
        let mut slot = gap;
        loop {
            slot = self.next_slot(slot);
            let Some(position) = self.position_at(slot) else {
                break;
            };
            let home = self.home_slot(&self.ring[position].trace_id);
            // May move back to the gap unless its home lies behind it.
            if (slot.wrapping_sub(home) & mask) >= (slot.wrapping_sub(gap) & mask) {
                self.index[gap] = self.index[slot];
                gap = slot;
            }
        }
        self.index[gap] = 0;
    }

    fn position_at(&self, slot: usize) -> Option<usize> {
        (self.index[slot] as usize).checked_sub(1)
    }

    fn home_slot(&self, trace_id: &TraceId) -> usize {
        // Only the low bits are kept.
        self.hash.hash_one(trace_id) as usize & (self.index.len() - 1)
    }

    fn next_slot(&self, slot: usize) -> usize {
        (slot + 1) & (self.index.len() - 1)
    }

    fn heap_bytes(&self) -> usize {
        self.ring.capacity() * size_of::<Entry>() + self.index.capacity() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Cache, Remembered};
    use crate::decision::{Decision, PolicyIndex};

    fn trace_id(number: u8) -> otlp::TraceId {
        let mut id = [1; 16];
        id[15] = number;
        otlp::TraceId::from_slice(&id).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Against a list that is searched: same answers, never more than the capacity.
        #[test]
        fn a_cache_answers_as_a_list_with_second_chance(
            capacity in 1_usize..9,
            steps in prop::collection::vec((any::<bool>(), 0_u8..20), 0..200),
        ) {
            let mut cache = Cache::new(capacity);
            // Ring positions as in the cache: number, policy, was asked for.
            let mut list: Vec<(u8, u16, bool)> = Vec::new();
            let mut oldest = 0;
            for (step, (is_insert, number)) in (0..).zip(steps) {
                let known = list.iter_mut().find(|(known, ..)| *known == number);
                if !is_insert {
                    let want = known.map(|(_, policy, was_asked_for)| {
                        *was_asked_for = true;
                        *policy
                    });
                    let found = cache.find(&trace_id(number));
                    prop_assert_eq!(found.and_then(|found| found.policy), want.map(PolicyIndex));
                    continue;
                }
                let policy = Some(PolicyIndex(step));
                cache.insert(trace_id(number), Remembered {
                    decision: Decision::Sampled,
                    policy,
                    changes_threshold: false,
                });
                if let Some((_, policy, _)) = known {
                    *policy = step;
                } else if list.len() < capacity {
                    list.push((number, step, false));
                } else {
                    while std::mem::take(&mut list[oldest].2) {
                        oldest = (oldest + 1) % capacity;
                    }
                    list[oldest] = (number, step, false);
                    oldest = (oldest + 1) % capacity;
                }
            }
            let n_used = cache.index.iter().filter(|position| **position != 0).count();
            prop_assert_eq!(n_used, list.len());
        }
    }
}
