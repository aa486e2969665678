//! When each target is due.
//!
//! Every target has its own place in the interval, which follows from its URL: a fleet is not asked
//! in one moment, and a restart does not move it. A scrape that is still under way when the next is
//! due makes that one fall out; it is counted.
//!
//! Times are time spans since some fixed start, given by the caller.

use std::{
    collections::BTreeMap,
    hash::{Hash, Hasher},
    sync::Arc,
    time::Duration,
};

use rustc_hash::FxHasher;

use super::Target;

/// Targets and when they are due next.
#[derive(Debug)]
pub struct Schedule {
    interval: Duration,
    /// By URL.
    entries: BTreeMap<String, Entry>,
    n_skipped: u64,
}

#[derive(Debug)]
struct Entry {
    target: Arc<Target>,
    due: Duration,
    is_under_way: bool,
}

impl Schedule {
    /// A schedule without targets.
    pub const fn new(interval: Duration) -> Self {
        Self {
            interval,
            entries: BTreeMap::new(),
            n_skipped: 0,
        }
    }

    /// Sets the targets. Those that were there before keep their time.
    pub fn set_targets(&mut self, targets: Vec<Target>, now: Duration) {
        let mut entries = BTreeMap::new();
        for target in targets {
            let url = target.url().to_owned();
            let before = self.entries.remove(&url);
            let entry = Entry {
                due: before
                    .as_ref()
                    .map_or_else(|| self.first_due(&url, now), |before| before.due),
                is_under_way: before.is_some_and(|before| before.is_under_way),
                target: Arc::new(target),
            };
            entries.insert(url, entry);
        }
        self.entries = entries;
    }

    /// When the next target is due; `None` without targets.
    pub fn next_due(&self) -> Option<Duration> {
        self.entries.values().map(|entry| entry.due).min()
    }

    /// The targets that are due, to be scraped now; each counts as under way until
    /// [`Self::finished`].
    pub fn take_due(&mut self, now: Duration) -> Vec<Arc<Target>> {
        let mut due = Vec::new();
        for entry in self.entries.values_mut().filter(|entry| entry.due <= now) {
            // After a pause of the process, the times that were missed are not made up for.
            let behind = now.saturating_sub(entry.due).as_nanos();
            let n_intervals = behind / self.interval.as_nanos().max(1) + 1;
            let n_intervals = u32::try_from(n_intervals).unwrap_or(u32::MAX);
            entry.due = entry
                .due
                .saturating_add(self.interval.saturating_mul(n_intervals));
            if entry.is_under_way {
                self.n_skipped += 1;
            } else {
                entry.is_under_way = true;
                due.push(Arc::clone(&entry.target));
            }
        }
        due
    }

    /// A scrape has ended, well or badly.
    pub fn finished(&mut self, target: &Target) {
        if let Some(entry) = self.entries.get_mut(target.url()) {
            entry.is_under_way = false;
        }
    }

    /// Scrapes that fell out because the one before was still under way.
    pub const fn n_skipped(&self) -> u64 {
        self.n_skipped
    }

    /// The first time from now on that is the target's own.
    fn first_due(&self, url: &str, now: Duration) -> Duration {
        let interval = self.interval.as_nanos().max(1);
        let mut hasher = FxHasher::default();
        url.hash(&mut hasher);
        let offset = u128::from(hasher.finish()) % interval;
        let since = (now.as_nanos() + interval - offset % interval) % interval;
        let wait = (interval - since) % interval;
        now.saturating_add(Duration::from_nanos(
            u64::try_from(wait).unwrap_or(u64::MAX),
        ))
    }
}
