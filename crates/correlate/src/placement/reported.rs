//! Placements that workers report themselves: intervals, with the times that the worker knows.
//!
//! A worker says when it began to hold a device, and may say later when it ended. Saying the same again changes nothing,
//! and an end that was told stays. Beyond what is told,
//! - a rank of a pod holds one device at a time: where it reports another, or a later start, it has left the one before
//!   (a pod that was moved, a process that was restarted). Ranks that are not known can be several processes, of which a
//!   later start on the same device alone ends the earlier one;
//! - a pod that is made anew under its name (another UID) has left what it held before.
//!
//! Nothing ends by silence: a worker reports once and serves for weeks. Reports may come in any order.
//!
//! Bounds: [`INTERVALS_MAX`] intervals, [`OF_NAME_MAX`] of pods of one name; those that ended first are forgotten first,
//! and where none has ended a new one is not taken.

use std::{collections::HashMap, sync::Arc};

use super::{
    Placement, Pod,
    change::{CONFIRMED_EVERY_NANOS, Change, Event},
};

/// Intervals that are known at most.
const INTERVALS_MAX: usize = 1 << 16;

/// Those of pods of one name: ranks, and starts one after the other.
const OF_NAME_MAX: usize = 1 << 10;

/// Cluster, namespace, and name or else UID.
type Name = (Option<Arc<str>>, Option<Arc<str>>, Option<Arc<str>>);

#[derive(Clone, Debug)]
struct Interval {
    placement: Placement,
    observed: i64,
    /// When a change was made of it last.
    told: i64,
    /// Its end is the start of another: one that begins before may be reported later.
    is_end_derived: bool,
}

/// Intervals that workers have reported.
#[derive(Clone, Debug, Default)]
pub struct Reported {
    by_name: HashMap<Name, Vec<Interval>>,
    n_intervals: usize,
    /// Where none has ended, there is nothing to forget.
    may_have_ended: bool,
    n_refused: u64,
    changes: Vec<Change>,
}

impl Reported {
    /// Takes what a worker said at `at`.
    pub fn take(&mut self, new: Placement, at: i64) {
        if self.n_intervals >= INTERVALS_MAX && self.may_have_ended {
            self.forget_half();
        }
        let is_full = self.n_intervals >= INTERVALS_MAX;
        let name = name(&new.pod);
        if is_full && !self.by_name.contains_key(&name) {
            self.n_refused += 1;
            return;
        }
        let intervals = self.by_name.entry(name).or_default();
        let is_known = |known: &&mut Interval| {
            is_same_worker(&known.placement, &new)
                && known.placement.device == new.device
                && known.placement.valid_from_unix_nano == new.valid_from_unix_nano
        };
        if let Some(known) = intervals.iter_mut().find(is_known) {
            self.changes.extend(known.again(&new, at));
            self.may_have_ended |= known.placement.valid_to_unix_nano.is_some();
            return;
        }
        let n_before = intervals.len();
        if n_before >= OF_NAME_MAX {
            forget_first(intervals);
        }
        self.n_intervals -= n_before - intervals.len();
        if is_full || intervals.len() >= OF_NAME_MAX {
            self.n_refused += 1;
            return;
        }
        let from = new.valid_from_unix_nano;
        for known in intervals.iter_mut() {
            let to = known.placement.valid_to_unix_nano;
            let is_open = to.is_none_or(|to| known.is_end_derived && from < to);
            let is_earlier = known.placement.valid_from_unix_nano < from;
            if is_open && is_earlier && ends(&new, &known.placement) {
                self.changes.push(known.end(from, at));
                self.may_have_ended = true;
            }
        }
        let later = intervals.iter().filter(|known| {
            known.placement.valid_from_unix_nano > from && ends(&known.placement, &new)
        });
        let next = later
            .map(|known| known.placement.valid_from_unix_nano)
            .min();
        let is_end_derived = new.valid_to_unix_nano.is_none();
        let interval = Interval {
            placement: Placement {
                valid_to_unix_nano: new.valid_to_unix_nano.or(next),
                ..new
            },
            observed: at,
            told: at,
            is_end_derived,
        };
        let event = match interval.placement.valid_to_unix_nano {
            None => Event::Opened,
            Some(_) => Event::Ended,
        };
        self.may_have_ended |= event == Event::Ended;
        self.changes.push(interval.change(event));
        intervals.push(interval);
        self.n_intervals += 1;
    }

    /// Takes back what was known of one before a restart.
    pub fn restore(&mut self, placement: Placement, observed: i64) {
        if self.n_intervals >= INTERVALS_MAX {
            return;
        }
        self.may_have_ended |= placement.valid_to_unix_nano.is_some();
        let intervals = self.by_name.entry(name(&placement.pod)).or_default();
        intervals.push(Interval {
            placement,
            observed,
            told: observed,
            is_end_derived: false,
        });
        self.n_intervals += 1;
    }

    /// Says again of those that hold that they do, once in [`CONFIRMED_EVERY_NANOS`].
    pub fn confirm(&mut self, now: i64) {
        for interval in self.by_name.values_mut().flatten() {
            let is_open = interval.placement.valid_to_unix_nano.is_none();
            if is_open && now.saturating_sub(interval.told) >= CONFIRMED_EVERY_NANOS {
                interval.told = now;
                self.changes.push(interval.change(Event::Confirmed));
            }
        }
    }

    /// Forgets what ended before `at` and was told before then: what is told of long ago may be of use to what comes from
    /// then.
    pub fn forget(&mut self, at: i64) {
        self.forget_ended(|to, told| to < at && told < at);
    }

    fn forget_ended(&mut self, is_over: impl Fn(i64, i64) -> bool) {
        self.by_name.retain(|_, intervals| {
            intervals.retain(|known| {
                let to = known.placement.valid_to_unix_nano;
                !to.is_some_and(|to| is_over(to, known.told))
            });
            !intervals.is_empty()
        });
        self.n_intervals = self.by_name.values().map(Vec::len).sum();
    }

    /// What has changed since this was asked last.
    pub fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// All that are known.
    pub fn all(&self) -> impl Iterator<Item = &Placement> {
        let intervals = self.by_name.values().flatten();
        intervals.map(|interval| &interval.placement)
    }

    /// How many are known.
    #[must_use]
    pub const fn n_intervals(&self) -> usize {
        self.n_intervals
    }

    /// Reports that were not taken for want of room.
    #[must_use]
    pub const fn n_refused(&self) -> u64 {
        self.n_refused
    }

    /// Forgets half of those that have ended, the first first.
    fn forget_half(&mut self) {
        let all = self.by_name.values().flatten();
        let mut ends: Vec<i64> = all
            .filter_map(|known| known.placement.valid_to_unix_nano)
            .collect();
        if ends.is_empty() {
            self.may_have_ended = false;
            return;
        }
        let half = ends.len() / 2;
        let (_, middle, _) = ends.select_nth_unstable(half);
        let middle = *middle;
        self.forget_ended(|to, _| to <= middle);
    }
}

impl Interval {
    /// The same is said again, perhaps with an end.
    fn again(&mut self, new: &Placement, at: i64) -> Option<Change> {
        self.observed = self.observed.max(at);
        let to = new.valid_to_unix_nano;
        if to.is_some() && to != self.placement.valid_to_unix_nano {
            self.placement.valid_to_unix_nano = to;
            self.is_end_derived = false;
            self.told = at;
            return Some(self.change(Event::Ended));
        }
        let is_open = self.placement.valid_to_unix_nano.is_none();
        if is_open && at.saturating_sub(self.told) >= CONFIRMED_EVERY_NANOS {
            self.told = at;
            return Some(self.change(Event::Confirmed));
        }
        None
    }

    fn end(&mut self, to: i64, at: i64) -> Change {
        self.placement.valid_to_unix_nano = Some(to);
        self.is_end_derived = true;
        self.told = at;
        self.change(Event::Ended)
    }

    fn change(&self, event: Event) -> Change {
        Change {
            placement: self.placement.clone(),
            event,
            observed_unix_nano: self.observed,
        }
    }
}

fn name(pod: &Pod) -> Name {
    let Pod {
        cluster,
        namespace,
        name,
        uid,
    } = pod;
    let known = name.as_ref().or(uid.as_ref());
    (cluster.clone(), namespace.clone(), known.cloned())
}

fn is_other_incarnation(one: &Pod, other: &Pod) -> bool {
    one.name.is_some() && one.uid.is_some() && other.uid.is_some() && one.uid != other.uid
}

fn is_same_worker(one: &Placement, other: &Placement) -> bool {
    one.container == other.container
        && one.ranks == other.ranks
        && !is_other_incarnation(&one.pod, &other.pod)
}

/// Has the earlier one ended when the later one begins? Both are of pods of one name.
fn ends(later: &Placement, earlier: &Placement) -> bool {
    if is_other_incarnation(&later.pod, &earlier.pod) {
        return true;
    }
    is_same_worker(later, earlier) && (later.ranks.is_known() || later.device == earlier.device)
}

/// Makes room among intervals of one name.
fn forget_first(intervals: &mut Vec<Interval>) {
    let ended = (0..).zip(intervals.iter()).filter_map(|(place, known)| {
        let to = known.placement.valid_to_unix_nano?;
        Some((to, place))
    });
    if let Some((_, place)) = ended.min() {
        intervals.swap_remove(place);
    }
}
