//! Which batches are written, so that none is written twice.
//!
//! A batch is known by a hash of its engine, id and step, and by its time: ids are used again, after a restart of the engine
//! or because they are short and random. Those of an engine are remembered until they ended a quarter of an hour before the
//! last committed one of that engine; where there are too many, those that ended first are forgotten. What ended by the end of
//! the last forgotten one (the engine's floor) is late from then on: it may be written, and is not written again. Time
//! is that of the engines, not ours, so that what is replayed years later is not late, and the floor is below every batch
//! that is not committed, so that a release that is repeated shows it as before.
//!
//! # Decided: the form on disk
//!
//! These are few bytes and go with the log, not with the table: a process that repeats the log must know what the table
//! had when it ended. Little-endian: `WSBC`, version (u32), the floor of engines that are not listed (u64), number of engines
//! (u64); per engine key (u128), floor, last committed end, number of entries (u64 each), and per entry key (u128), start,
//! end (u64), release (i64); at the end the FNV-1a hash of all that (u128). Written before the commit of what it tells of;
//! entries of releases that were not committed are left out when it is read.

use std::collections::{BTreeSet, HashMap};

/// Batches that are remembered, about 150 bytes each.
const ENTRIES_MAX: usize = 1 << 20;

/// Engines whose floor is remembered.
const ENGINES_MAX: usize = 1 << 16;

/// How long before the last one of its engine a batch may have ended: longer than almost all requests, whose spans tell
/// of it when they are over.
const REMEMBERED_NANOS: u64 = 15 * 60 * 1_000_000_000;

/// Sightings of one batch are not further apart in time, and two of one id and step are.
const APART_NANOS: u64 = 1_000_000_000;

const MAGIC: [u8; 4] = *b"WSBC";
const VERSION: u32 = 1;
const HASH_BYTES: usize = 16;

/// Do two stretches of time speak of one batch?
pub(super) fn is_near((from, to): (u64, u64), (start, end): (u64, u64)) -> bool {
    from <= end.saturating_add(APART_NANOS) && start <= to.saturating_add(APART_NANOS)
}

/// FNV-1a of 128 bits: the same in every version, as it is on disk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hash(u128);

impl Hash {
    pub(super) const fn new() -> Self {
        Self(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }

    pub(super) fn bytes(self, bytes: &[u8]) -> Self {
        let prime = 0x0000_0000_0100_0000_0000_0000_0000_013b;
        bytes.iter().fold(self, |Self(hash), byte| {
            Self((hash ^ u128::from(*byte)).wrapping_mul(prime))
        })
    }

    pub(super) const fn get(self) -> u128 {
        self.0
    }
}

/// A batch among all: its engine, and itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) engine: u128,
    pub(super) batch: u128,
}

/// Batches of one engine: end, start, key and release.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Engine {
    by_end: BTreeSet<(u64, u64, u128, i64)>,
    /// What ended by then is late.
    floor: u64,
    /// Of the last committed one.
    last_end: u64,
}

/// Batches that are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClosedBatches {
    engines: HashMap<u128, Engine>,
    /// When the batches of a key were.
    times: HashMap<u128, BTreeSet<(u64, u64)>>,
    n_entries: usize,
    /// Of engines that are not in `engines`, and of all others too.
    floor: u64,
}

impl ClosedBatches {
    /// Of what ended before `at`, nothing is known.
    #[must_use]
    pub fn since(at: u64) -> Self {
        Self {
            floor: at,
            ..Self::default()
        }
    }

    /// Number of batches.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.n_entries
    }

    /// Are there none?
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.n_entries == 0
    }

    /// Is it written, or too old to tell?
    pub(super) fn is_closed(&self, key: Key, around: (u64, u64)) -> bool {
        let engine = self.engines.get(&key.engine);
        let floor = engine.map_or(0, |engine| engine.floor).max(self.floor);
        let mut of_key = self.times.get(&key.batch).into_iter().flatten();
        around.1 <= floor || of_key.any(|known| is_near(*known, around))
    }

    pub(super) fn insert(&mut self, key: Key, around: (u64, u64), release: i64) {
        let engine = self.engines.entry(key.engine).or_default();
        if engine
            .by_end
            .insert((around.1, around.0, key.batch, release))
        {
            self.times.entry(key.batch).or_default().insert(around);
            self.n_entries += 1;
        }
        if self.n_entries > ENTRIES_MAX {
            self.forget_quarter();
        }
    }

    /// The table has these releases; what else is open or not committed ended after `low`.
    pub(super) fn committed(&mut self, through: i64, low: u64) {
        let engines: Vec<u128> = self.engines.keys().copied().collect();
        for key in engines {
            let Some(engine) = self.engines.get_mut(&key) else {
                continue;
            };
            let committed = engine.by_end.iter().rev();
            let mut committed = committed.filter(|(.., release)| *release <= through);
            if let Some((end, ..)) = committed.next() {
                engine.last_end = engine.last_end.max(*end);
            }
            let until = engine.last_end.saturating_sub(REMEMBERED_NANOS).min(low);
            let old = engine.by_end.iter();
            let n_old = old.take_while(|(end, ..)| *end < until).count();
            self.forget(key, n_old);
        }
        self.forget_engines();
    }

    fn forget_quarter(&mut self) {
        let engines: Vec<u128> = self.engines.keys().copied().collect();
        for key in engines {
            let n = self
                .engines
                .get(&key)
                .map_or(0, |engine| engine.by_end.len());
            self.forget(key, n.div_ceil(4));
        }
    }

    /// Forgets the first `n` of an engine.
    fn forget(&mut self, key: u128, n: usize) {
        let Some(engine) = self.engines.get_mut(&key) else {
            return;
        };
        for _ in 0..n {
            let Some((end, start, batch, _)) = engine.by_end.pop_first() else {
                break;
            };
            self.n_entries -= 1;
            engine.floor = engine.floor.max(end);
            if let Some(times) = self.times.get_mut(&batch) {
                times.remove(&(start, end));
                if times.is_empty() {
                    self.times.remove(&batch);
                }
            }
        }
    }

    /// Engines come and go: the floor of those that are long gone is that of all.
    fn forget_engines(&mut self) {
        if self.engines.len() <= ENGINES_MAX {
            return;
        }
        let idle = self.engines.iter();
        let idle = idle.filter(|(_, engine)| engine.by_end.is_empty());
        let mut idle: Vec<(u64, u128)> = idle.map(|(key, engine)| (engine.floor, *key)).collect();
        idle.sort_unstable();
        for (floor, key) in idle.into_iter().take(ENGINES_MAX / 2) {
            self.floor = self.floor.max(floor);
            self.engines.remove(&key);
        }
    }

    /// As on disk.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(self.floor.to_le_bytes());
        bytes.extend((self.engines.len() as u64).to_le_bytes());
        for (key, engine) in &self.engines {
            bytes.extend(key.to_le_bytes());
            let n = engine.by_end.len() as u64;
            for number in [engine.floor, engine.last_end, n] {
                bytes.extend(number.to_le_bytes());
            }
            for (end, start, batch, release) in &engine.by_end {
                bytes.extend(batch.to_le_bytes());
                bytes.extend(start.to_le_bytes());
                bytes.extend(end.to_le_bytes());
                bytes.extend(release.to_le_bytes());
            }
        }
        let hash = Hash::new().bytes(&bytes).get();
        bytes.extend(hash.to_le_bytes());
        bytes
    }

    /// Reads [`Self::to_bytes`], without the batches of releases after `committed`; `None` for other bytes.
    #[must_use]
    pub fn from_bytes(bytes: &[u8], committed: i64) -> Option<Self> {
        let (content, hash) = bytes.split_last_chunk::<HASH_BYTES>()?;
        if Hash::new().bytes(content).get() != u128::from_le_bytes(*hash) {
            return None;
        }
        let mut rest = Rest(content);
        if rest.next()? != MAGIC || u32::from_le_bytes(rest.next()?) != VERSION {
            return None;
        }
        let mut closed = Self::since(rest.number()?);
        for _ in 0..rest.number()? {
            let engine = u128::from_le_bytes(rest.next()?);
            let [floor, last_end, n] = [rest.number()?, rest.number()?, rest.number()?];
            let known = Engine {
                floor,
                last_end,
                ..Engine::default()
            };
            closed.engines.insert(engine, known);
            for _ in 0..n {
                let batch = u128::from_le_bytes(rest.next()?);
                let around = (rest.number()?, rest.number()?);
                let release = i64::from_le_bytes(rest.next()?);
                if release <= committed {
                    closed.insert(Key { engine, batch }, around, release);
                }
            }
        }
        rest.0.is_empty().then_some(closed)
    }
}

/// Bytes that are not read.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn next<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    fn number(&mut self) -> Option<u64> {
        self.next().map(u64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::{APART_NANOS, ClosedBatches, Hash, Key, REMEMBERED_NANOS};

    const SECOND: u64 = 1_000_000_000;

    const fn key(batch: u128) -> Key {
        Key { engine: 5, batch }
    }

    /// Of 100, 110, .. 140 seconds, of the releases 0 to 4.
    fn some() -> ClosedBatches {
        let mut closed = ClosedBatches::default();
        for n in 0..5_u64 {
            let start = (100 + 10 * n) * SECOND;
            closed.insert(key(u128::from(n % 2)), (start, start + 1), n as i64);
        }
        closed
    }

    #[test]
    fn the_hash_is_fnv_1a() {
        // Published test vectors of FNV-1a with 128 bits.
        assert_eq!(Hash::new().get(), 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
        let of_a = Hash::new().bytes(b"a").get();
        assert_eq!(of_a, 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
    }

    #[test]
    fn an_id_that_is_used_again_is_another_batch() {
        let closed = some();
        let is_closed = |batch, from: u64, to: u64| closed.is_closed(key(batch), (from, to));
        assert!(is_closed(0, 100 * SECOND, 100 * SECOND + 1));
        assert!(is_closed(0, 100 * SECOND + APART_NANOS, 102 * SECOND));
        assert!(!is_closed(0, 105 * SECOND, 106 * SECOND));
        assert!(!is_closed(1, 100 * SECOND, 100 * SECOND + 1));
    }

    #[test]
    fn what_an_engine_has_forgotten_is_late_there_and_nowhere_else() {
        let mut closed = some();
        let last = 116 * SECOND + REMEMBERED_NANOS;
        closed.insert(key(9), (last, last), 7);
        closed.committed(6, u64::MAX);
        assert_eq!(closed.len(), 6, "the last one is not committed");
        closed.committed(7, 105 * SECOND);
        assert_eq!(closed.len(), 5, "something else is open");
        closed.committed(7, u64::MAX);
        assert_eq!(closed.len(), 4);
        assert!(closed.is_closed(key(77), (90 * SECOND, 110 * SECOND + 1)));
        assert!(!closed.is_closed(key(77), (90 * SECOND, 110 * SECOND + 2)));
        let elsewhere = Key {
            engine: 6,
            batch: 77,
        };
        assert!(!closed.is_closed(elsewhere, (90 * SECOND, 91 * SECOND)));
        assert!(ClosedBatches::since(50).is_closed(elsewhere, (40, 50)));
        assert!(!ClosedBatches::since(50).is_closed(elsewhere, (40, 51)));
    }

    #[test]
    fn what_is_read_is_what_was_written_and_committed() {
        let mut closed = some();
        let other = Key {
            engine: 6,
            batch: 1,
        };
        closed.insert(other, (7, 8), 2);
        closed.committed(0, u64::MAX);
        let bytes = closed.to_bytes();
        assert_eq!(ClosedBatches::from_bytes(&bytes, 99), Some(closed.clone()));
        let part = ClosedBatches::from_bytes(&bytes, 2).unwrap();
        assert_eq!(part.len(), 4);
        assert!(!part.is_closed(key(1), (130 * SECOND, 130 * SECOND + 1)));
        for cut in 0..bytes.len() {
            assert_eq!(ClosedBatches::from_bytes(&bytes[..cut], 99), None, "{cut}");
            let mut flipped = bytes.clone();
            flipped[cut] ^= 0x10;
            assert_eq!(ClosedBatches::from_bytes(&flipped, 99), None, "{cut}");
        }
    }
}
