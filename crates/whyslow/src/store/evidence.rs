//! Stage 8, `correlate`: the evidence of what the GPUs of kept requests did.
//!
//! Requests wait here for the GPU samples of their time; then their rows of `evidence` are appended under the sequence of
//! their release, and SQL sees them. That table is committed behind the others, in the order of the releases, and the
//! gateway keeps the log until then: after a crash the releases are repeated, and what was committed is skipped. `spans`,
//! `traces` and `requests` wait for nothing here.
//!
//! A request waits until
//! - each of its devices that is being sampled has a sample beyond its end: the devices that its pod held, else those of its
//!   node, else all (so a slow exporter on another node is not waited for), or
//! - `max_lateness` has passed since it came, or
//! - no sample of those devices has come for `max_lateness`: then there is nothing to wait for, or
//! - the log fills up, too many requests wait, or the process stops.
//!
//! What is not known then is NULL, or has a name in `missing_link`; `complete` says whether the device was sampled
//! beyond the end.
//!
//! # Late samples
//!
//! An incomplete request whose devices were sampled lately waits on, for `completion_wait` after it should have been known
//! (`late`). When its samples come, all its rows are written again with `revision` 1, by a writer of its own on the same
//! table: at most once, in the order of the releases, and through a crash as without. Samples that come after that time
//! change nothing. Where the log fills up, too many wait or the process stops, incomplete requests stay as they are. The
//! log is kept for what waits: never longer than `max_lateness` and `completion_wait` after the decision, or, after a
//! start, `max_lateness` after that.
//!
//! # Bounds
//!
//! Samples are remembered for the times above and a quarter of an hour more, and by their number (`window`); so a
//! request that is decided later than that after it ended has no samples.
//!
//! After a restart, placements are read back from `placements`, samples (and what labels said since) from `gpu_samples`,
//! when requests ran from `requests`, and which requests are incomplete from `evidence`: all of them as far back as they
//! are remembered.

mod late;
mod window;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use arrow::array::RecordBatch;
use correlate::{KeptRequest, Placement, Placements};
use tables::requests::Request;
use tables::samples::gpu::GpuSample;

use super::Written;
use super::placed::Placed;
use super::reload::Wanted;
use super::traffic::Running;
use crate::config::Correlate;
use late::{Key, Late, key};
use window::Window;

/// How long after its end a request may be decided and still find its samples.
const DECIDED_WITHIN: Duration = Duration::from_secs(15 * 60);

/// Requests that wait; beyond it the oldest are written with what is known.
const WAITING_MAX: usize = 1 << 16;

/// Time between two looks at what waits: each costs a pass over the remembered samples.
const PAUSE_NANOS: i64 = 1_000_000_000;

/// A release with requests whose evidence is not written.
#[derive(Debug)]
struct Waiting {
    requests: Vec<KeptRequest>,
    since_unix_nano: i64,
    /// Until when its incomplete requests may be completed.
    until_unix_nano: i64,
}

/// The stage.
#[derive(Debug)]
pub(super) struct Evidence {
    settings: correlate::Settings,
    max_lateness_nanos: i64,
    completion_nanos: i64,
    window: Window,
    waiting: BTreeMap<i64, Waiting>,
    n_waiting: usize,
    late: Late,
    looked_unix_nano: i64,
    /// The last release that came.
    taken: i64,
    /// Releases through this one had their rows before the start.
    stored: i64,
    /// Requests of theirs that are incomplete.
    stored_incomplete: HashSet<Key>,
}

/// What is written after one look.
#[derive(Debug, Default)]
pub(super) struct Rows {
    /// First rows of requests.
    pub(super) first: Vec<Written>,
    /// Rows that late samples completed.
    pub(super) completed: Vec<Written>,
}

/// How long requests and samples are remembered.
pub(super) fn remembered_nanos(config: &Correlate) -> i64 {
    let waits = config.max_lateness.saturating_add(config.completion_wait);
    nanos(config.baseline.saturating_add(waits)).saturating_add(nanos(DECIDED_WITHIN))
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

impl Evidence {
    /// Nothing is known but the placements of a file; releases through `stored` have their rows.
    pub(super) fn new(config: &Correlate, placements: Vec<Placement>, stored: i64) -> Self {
        let max_lateness_nanos = nanos(config.max_lateness);
        let remembered_nanos = remembered_nanos(config);
        Self {
            settings: correlate::Settings {
                nearest_max: config.nearest_sample_max,
                baseline: config.baseline,
            },
            max_lateness_nanos,
            completion_nanos: nanos(config.completion_wait),
            window: Window::new(
                remembered_nanos,
                max_lateness_nanos,
                Placed::new(placements),
            ),
            waiting: BTreeMap::new(),
            n_waiting: 0,
            late: Late::default(),
            looked_unix_nano: i64::MIN,
            taken: 0,
            stored,
            stored_incomplete: HashSet::new(),
        }
    }

    /// The last release such that all through it have their first rows.
    pub(super) fn appended(&self) -> i64 {
        let first = self.waiting.keys().next();
        first.map_or(self.taken, |first| first - 1)
    }

    /// The last release such that nothing through it waits to be completed.
    pub(super) fn completed(&self) -> i64 {
        let first = self.late.first();
        first
            .map_or(i64::MAX, |first| first - 1)
            .min(self.appended())
    }

    /// Kept requests that wait.
    pub(super) const fn n_waiting(&self) -> usize {
        self.n_waiting
    }

    /// Kept requests whose rows lack samples that may still come.
    pub(super) const fn n_incomplete(&self) -> usize {
        self.late.n_waiting()
    }

    /// What a start reads back of `gpu_samples`.
    pub(super) fn wanted_samples(&self) -> Wanted {
        self.window.wanted()
    }

    /// What a start reads back of `evidence`.
    pub(super) fn wanted_evidence(config: &Correlate) -> Wanted {
        const REQUEST_LENGTH_NANOS: i64 = 3_600_000_000_000;
        Wanted {
            columns: &["trace_id", "span_id", "complete", "revision"],
            time: "start_time",
            nanos: remembered_nanos(config).saturating_add(REQUEST_LENGTH_NANOS),
            rows_max: 1 << 20,
        }
    }

    /// Takes what was read back of both.
    pub(super) fn reload(&mut self, samples: &[RecordBatch], evidence: &[RecordBatch], now: i64) {
        self.window.reload(samples, now);
        for batch in evidence {
            self.stored_incomplete.extend(late::incomplete(batch));
        }
    }

    /// Takes the GPU samples of a release.
    pub(super) fn take_samples(
        &mut self,
        batches: &[RecordBatch],
        samples: &[GpuSample],
        now: i64,
    ) {
        self.window.take(batches, samples, now);
    }

    /// Which pods hold which devices, by all sources.
    pub(super) const fn placed_mut(&mut self) -> &mut Placed {
        self.window.placed_mut()
    }

    /// Takes the kept requests of a release, which wait from now on.
    pub(super) fn take_kept<'a>(
        &mut self,
        sequence: i64,
        decided_unix_nano: u64,
        kept: impl Iterator<Item = &'a Request>,
        now: i64,
    ) {
        let kept: Vec<KeptRequest> = kept.map(KeptRequest::of).collect();
        self.taken = self.taken.max(sequence);
        let decided = i64::try_from(decided_unix_nano).unwrap_or(i64::MAX);
        let until_unix_nano = decided
            .saturating_add(self.completion_nanos)
            .max(now)
            .saturating_add(self.max_lateness_nanos);
        if sequence <= self.stored {
            // What was found incomplete then is what may be completed, whatever is known by now.
            let stored = &self.stored_incomplete;
            let incomplete = kept
                .into_iter()
                .filter(|request| stored.contains(&key(request)));
            if self.completion_nanos > 0 {
                self.late.add(sequence, until_unix_nano, incomplete);
            }
            return;
        }
        self.stored_incomplete = HashSet::new();
        if kept.is_empty() {
            return;
        }
        self.n_waiting += kept.len();
        let waiting = Waiting {
            requests: kept,
            since_unix_nano: now,
            until_unix_nano,
        };
        self.waiting.insert(sequence, waiting);
    }

    /// The rows of the requests that need not wait any more; `is_urgent`: of all.
    pub(super) fn write(&mut self, running: &mut Running, is_urgent: bool, now: i64) -> Rows {
        let is_soon =
            now.saturating_sub(self.looked_unix_nano) < PAUSE_NANOS && now >= self.looked_unix_nano;
        if is_soon && !is_urgent {
            return Rows::default();
        }
        self.looked_unix_nano = now;
        self.window.forget(now);
        if self.n_waiting == 0 && self.late.n_waiting() == 0 {
            return Rows::default();
        }
        let placements = self.window.placements();
        let due = self.take_due(&placements, is_urgent, now);
        let late = self
            .late
            .take_complete(&self.window, &placements, is_urgent, now);
        let all = due
            .iter()
            .flat_map(|(_, due)| &due.requests)
            .chain(late.iter().flat_map(|(_, requests)| requests));
        let Some(join) = Join::new(self, all, &placements, running) else {
            return Rows::default();
        };
        let completed = late
            .into_iter()
            .filter_map(|(sequence, requests)| join.completed(sequence, requests));
        let completed = completed.collect();
        let mut first = Vec::with_capacity(due.len());
        let mut incomplete = Vec::new();
        for (sequence, due) in due {
            let written = join.rows(sequence, &due.requests, 0);
            if !is_urgent && self.completion_nanos > 0 && now < due.until_unix_nano {
                let keys = written.rows.as_ref().map(late::incomplete);
                incomplete.push((sequence, due, keys.unwrap_or_default()));
            }
            first.push(written);
        }
        for (sequence, due, keys) in incomplete {
            let can_complete = |request: &KeptRequest| {
                keys.contains(&key(request)) && self.window.can_complete(request, &placements)
            };
            let requests = due.requests.into_iter().filter(can_complete);
            self.late.add(sequence, due.until_unix_nano, requests);
        }
        Rows { first, completed }
    }

    fn take_due(
        &mut self,
        placements: &Placements,
        is_urgent: bool,
        now: i64,
    ) -> Vec<(i64, Waiting)> {
        let mut due = Vec::new();
        let mut n_waiting = self.n_waiting;
        let (window, max_lateness_nanos) = (&self.window, self.max_lateness_nanos);
        let marks = window.marks(now);
        self.waiting.retain(|sequence, release| {
            let is_over = is_urgent
                || n_waiting > WAITING_MAX
                || now.saturating_sub(release.since_unix_nano) >= max_lateness_nanos
                || now < release.since_unix_nano;
            let requests = std::mem::take(&mut release.requests);
            let (known, rest): (Vec<_>, Vec<_>) = requests
                .into_iter()
                .partition(|request| is_over || window.is_known(request, placements, &marks));
            n_waiting -= known.len();
            if !known.is_empty() {
                let known = Waiting {
                    requests: known,
                    ..*release
                };
                due.push((*sequence, known));
            }
            release.requests = rest;
            !release.requests.is_empty()
        });
        self.n_waiting = n_waiting;
        due
    }
}

/// Everything that the rows of one look are made of.
struct Join<'a> {
    samples: correlate::SampleIndex,
    placements: &'a Placements,
    traffic: correlate::Traffic,
    settings: correlate::Settings,
}

impl<'a> Join<'a> {
    /// For these requests; `None` if there are none.
    fn new<'r>(
        evidence: &Evidence,
        requests: impl Iterator<Item = &'r KeptRequest> + Clone,
        placements: &'a Placements,
        running: &mut Running,
    ) -> Option<Self> {
        let engines = requests
            .clone()
            .filter_map(|request| request.engine.as_deref());
        let from = requests
            .clone()
            .map(|request| request.start_unix_nano)
            .min()?;
        let to = requests
            .clone()
            .map(|request| request.end_unix_nano)
            .max()?;
        Some(Self {
            traffic: running.during(engines, from, to),
            samples: evidence.window.index(requests, placements),
            placements,
            settings: evidence.settings,
        })
    }

    /// Second rows of requests. One whose samples were forgotten meanwhile keeps its first.
    fn completed(&self, sequence: i64, mut requests: Vec<KeptRequest>) -> Option<Written> {
        let mut written = self.rows(sequence, &requests, 1);
        let lacking = written
            .rows
            .as_ref()
            .map(late::incomplete)
            .unwrap_or_default();
        if !lacking.is_empty() {
            requests.retain(|request| !lacking.contains(&key(request)));
            written = self.rows(sequence, &requests, 1);
        }
        (!requests.is_empty()).then_some(written)
    }

    fn rows(&self, sequence: i64, requests: &[KeptRequest], revision: i64) -> Written {
        let rows = correlate::evidence(
            requests,
            &self.samples,
            self.placements,
            &self.traffic,
            self.settings,
            revision,
        );
        Written {
            sequence,
            rows: Some(rows),
        }
    }
}
