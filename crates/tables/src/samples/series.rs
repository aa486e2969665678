//! What is remembered of devices and engines between exports: bounded.

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
};

/// Times of which it is known what was stored.
const RECENT_MAX: usize = 32;

/// State by key; when full, the quarter that was not seen for longest is forgotten.
#[derive(Debug)]
pub(super) struct Series<K, V> {
    map: HashMap<K, Seen<V>>,
    series_max: usize,
    n_forgotten: u64,
}

#[derive(Debug)]
struct Seen<V> {
    last_unix_nano: u64,
    state: V,
}

impl<K: Eq + Hash, V: Default> Series<K, V> {
    pub(super) fn new(series_max: usize) -> Self {
        Self {
            map: HashMap::new(),
            series_max: series_max.max(1),
            n_forgotten: 0,
        }
    }

    pub(super) const fn n_forgotten(&self) -> u64 {
        self.n_forgotten
    }

    /// The state of a key that was seen at this time.
    pub(super) fn at(&mut self, key: K, unix_nano: u64) -> &mut V {
        if self.map.len() >= self.series_max && !self.map.contains_key(&key) {
            self.forget();
        }
        let seen = self.map.entry(key).or_insert_with(|| Seen {
            last_unix_nano: 0,
            state: V::default(),
        });
        seen.last_unix_nano = seen.last_unix_nano.max(unix_nano);
        &mut seen.state
    }

    fn forget(&mut self) {
        let mut times: Vec<u64> = self.map.values().map(|seen| seen.last_unix_nano).collect();
        let quarter = times.len() / 4;
        let (_, &mut cutoff, _) = times.select_nth_unstable(quarter);
        let n_before = self.map.len();
        let mut n_excess = quarter + 1;
        self.map.retain(|_, seen| {
            let is_kept = seen.last_unix_nano > cutoff || n_excess == 0;
            n_excess -= usize::from(!is_kept);
            is_kept
        });
        self.n_forgotten += (n_before - self.map.len()) as u64;
    }
}

/// Which fields were stored at the last times: a duplicate is stored once.
#[derive(Debug, Default)]
pub(super) struct Recent {
    times: VecDeque<(u64, u128)>,
}

impl Recent {
    /// The fields that were stored at this time before; those of `mask` count as stored from now
    /// on.
    pub(super) fn take(&mut self, unix_nano: u64, mask: u128) -> u128 {
        if let Some((_, stored)) = self.times.iter_mut().find(|(time, _)| *time == unix_nano) {
            let before = *stored;
            *stored |= mask;
            return before;
        }
        if self.times.len() == RECENT_MAX {
            self.times.pop_front();
        }
        self.times.push_back((unix_nano, mask));
        0
    }
}

/// The last value of a counter.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counter {
    last: Option<(u64, f64)>,
}

/// How a counter has moved since the time before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// There is no earlier value, or this one is not later.
    Unknown,
    /// It grew by so much (or stayed).
    Grew(f64),
    /// It fell to this value: it started anew, or was exchanged.
    Reset(f64),
}

impl Counter {
    /// Moves on to a later value. Times that do not advance change nothing.
    pub fn step(&mut self, unix_nano: u64, value: f64) -> Step {
        match self.last {
            Some((last, _)) if unix_nano <= last => return Step::Unknown,
            _ => {}
        }
        match self.last.replace((unix_nano, value)) {
            None => Step::Unknown,
            Some((_, before)) if value < before => Step::Reset(value),
            Some((_, before)) => Step::Grew(value - before),
        }
    }

    /// Time and value that it stands at.
    pub const fn last(&self) -> Option<(u64, f64)> {
        self.last
    }
}
