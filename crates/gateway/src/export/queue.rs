//! What exporters have not sent: releases, by their place in the log.
//!
//! Memory: 40 bytes per release that any exporter lacks, whatever it keeps; about 4 MB for an hour at 25 releases a
//! second.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

use crate::release::KeptList;

/// Releases that wait, shared by the thread that decides and the exporters.
#[derive(Debug)]
pub(crate) struct Queue {
    state: Mutex<State>,
    /// Changes whenever an exporter may have something to do.
    latest: watch::Sender<Latest>,
}

#[derive(Debug)]
struct State {
    /// In order; gaps are releases that everybody was done with before the start.
    entries: VecDeque<Entry>,
    /// The last release that each exporter is done with.
    done: Vec<i64>,
}

/// A release that waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) sequence: i64,
    /// `None`: it keeps nothing.
    pub(crate) kept: Option<KeptList>,
}

/// What there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Latest {
    /// The last release.
    pub(crate) sequence: i64,
    /// No more will come.
    pub(crate) is_closed: bool,
}

/// What an exporter has not sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Backlog {
    pub(crate) n_releases: u64,
    pub(crate) n_spans: u64,
    pub(crate) n_bytes: u64,
}

impl Queue {
    /// For exporters that are done with these releases.
    pub(crate) fn new(done: Vec<i64>) -> Queue {
        let entries = VecDeque::new();
        Queue {
            state: Mutex::new(State { entries, done }),
            latest: watch::Sender::default(),
        }
    }

    /// Adds a release; they come in order.
    pub(crate) fn push(&self, sequence: i64, kept: Option<KeptList>) {
        let mut state = self.state();
        if state.done_through() >= sequence {
            return;
        }
        state.entries.push_back(Entry { sequence, kept });
        drop(state);
        self.latest.send_modify(|latest| latest.sequence = sequence);
    }

    /// No more will come.
    pub(crate) fn close(&self) {
        self.latest.send_modify(|latest| latest.is_closed = true);
    }

    /// Tells when there is more.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Latest> {
        self.latest.subscribe()
    }

    /// The first release behind this one.
    pub(crate) fn next_after(&self, sequence: i64) -> Option<Entry> {
        let state = self.state();
        let first = state
            .entries
            .partition_point(|entry| entry.sequence <= sequence);
        state.entries.get(first).copied()
    }

    /// An exporter is done with the releases through `sequence`.
    pub(crate) fn done(&self, exporter_idx: usize, sequence: i64) {
        let mut state = self.state();
        if let Some(done) = state.done.get_mut(exporter_idx) {
            *done = sequence.max(*done);
        }
        let through = state.done_through();
        while state
            .entries
            .pop_front_if(|entry| entry.sequence <= through)
            .is_some()
        {}
    }

    /// Exporters are done with these releases, whatever was said before.
    pub(crate) fn set_done(&self, done: Vec<i64>) {
        self.state().done = done;
    }

    /// Every exporter is done with the releases through this one; `i64::MAX` without exporters.
    pub(crate) fn done_through(&self) -> i64 {
        self.state().done_through()
    }

    /// What an exporter has not sent.
    pub(crate) fn backlog(&self, exporter_idx: usize) -> Backlog {
        let state = self.state();
        let done = state.done.get(exporter_idx).copied().unwrap_or(i64::MAX);
        let waiting = state
            .entries
            .iter()
            .rev()
            .take_while(|entry| entry.sequence > done);
        waiting.fold(Backlog::default(), |backlog, entry| {
            let (n_spans, n_bytes) = entry
                .kept
                .map_or((0, 0), |kept| (kept.n_spans, kept.n_bytes));
            Backlog {
                n_releases: backlog.n_releases.saturating_add(1),
                n_spans: backlog.n_spans.saturating_add(n_spans),
                n_bytes: backlog.n_bytes.saturating_add(n_bytes),
            }
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn done_through(&self) -> i64 {
        self.done.iter().copied().min().unwrap_or(i64::MAX)
    }
}
