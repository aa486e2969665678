//! When undecided traces are due.
//!
//! Traces stand in buckets of 67 ms by due time; within a bucket they are a linked list
//! through the traces themselves, in order of insertion. So a trace is moved to an earlier time, or
//! taken out, in a few steps, no entry outlives its trace, and a clock that was set wrong for a
//! while delays only the traces that arrived meanwhile. There are at most as many buckets as
//! traces.

use std::collections::BTreeMap;

use crate::pending::{Slot, Traces};

/// 2^26 ns are 67 ms: fine enough that nobody waits for it, coarse enough that buckets are few.
const BUCKET_BITS: u32 = 26;

/// Neighbours of a trace in its bucket.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Links {
    previous: Option<Slot>,
    next: Option<Slot>,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    first: Slot,
    last: Slot,
}

/// All undecided traces by due time.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    buckets: BTreeMap<u64, Bucket>,
}

impl Timers {
    /// Adds a trace under its due time.
    pub(crate) fn insert(&mut self, traces: &mut Traces, slot: Slot) {
        let number = traces[slot].due_unix_nano >> BUCKET_BITS;
        let bucket = self.buckets.entry(number).or_insert(Bucket {
            first: slot,
            last: slot,
        });
        let previous = (bucket.last != slot).then_some(bucket.last);
        bucket.last = slot;
        traces[slot].links = Links {
            previous,
            next: None,
        };
        if let Some(previous) = previous {
            traces[previous].links.next = Some(slot);
        }
    }

    /// Takes a trace out; its due time must be the one it was inserted with.
    pub(crate) fn remove(&mut self, traces: &mut Traces, slot: Slot) {
        let number = traces[slot].due_unix_nano >> BUCKET_BITS;
        let Links { previous, next } = std::mem::take(&mut traces[slot].links);
        if let Some(previous) = previous {
            traces[previous].links.next = next;
        }
        if let Some(next) = next {
            traces[next].links.previous = previous;
        }
        match (previous, next) {
            (None, None) => {
                self.buckets.remove(&number);
            }
            (None, Some(first)) => {
                self.buckets
                    .entry(number)
                    .and_modify(|bucket| bucket.first = first);
            }
            (Some(last), None) => {
                self.buckets
                    .entry(number)
                    .and_modify(|bucket| bucket.last = last);
            }
            (Some(_), Some(_)) => {}
        }
    }

    /// The trace that is due next.
    pub(crate) fn first(&self) -> Option<Slot> {
        self.buckets
            .first_key_value()
            .map(|(_, bucket)| bucket.first)
    }

    /// The trace that is due next, if it is due.
    ///
    /// A trace that is due may stand behind one that is not, for less than a bucket's width.
    pub(crate) fn first_due(&self, traces: &Traces, now_unix_nano: u64) -> Option<Slot> {
        let (number, bucket) = self.buckets.first_key_value()?;
        let is_due = traces[bucket.first].due_unix_nano <= now_unix_nano
            || *number < now_unix_nano >> BUCKET_BITS;
        is_due.then_some(bucket.first)
    }
}
