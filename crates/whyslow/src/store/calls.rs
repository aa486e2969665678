//! Calls that no engine request of their own trace answered, and their rows in `requests`.
//!
//! Engine requests have their rows at once. A call waits here, in order of releases, for the engine request that
//! answered it in a trace of its own: the context was lost, and the request id leads to it. Its row is appended under its
//! release's sequence, to the same table under a writer's name of its own, which is committed behind; the gateway
//! keeps the log until then. After a crash the releases are repeated, and what was committed is skipped.
//!
//! A release waits until
//! - all of its calls have been answered, [`SETTLE`] ago: choices of one request come one after the other, or
//! - `stitch_wait` has passed since it came, or
//! - the log fills up, too many calls wait, or the process stops.
//!
//! Bounds: engine requests are remembered for `stitch_wait` and a quarter of an hour more, because traces of callers may be
//! decided that much later, and as many as `correlate::Stitching` says. A start reads them back from `requests`, as far as
//! running requests are read back.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use correlate::{Answer, Call, Stitching};
use tables::requests::RequestsBuilder;

use super::Written;
use crate::config::Correlate;
use crate::measured::Counting;

/// How long after one engine request another may come that answered the same call: engines send their spans in batches,
/// some seconds apart.
const SETTLE: Duration = Duration::from_secs(10);

/// How much later than an engine's trace its caller's may be decided.
const DECIDED_WITHIN: Duration = Duration::from_secs(15 * 60);

/// Calls that wait; beyond it the oldest are written with what is known.
const WAITING_MAX: usize = 1 << 16;

/// A release whose calls have no rows.
#[derive(Debug)]
struct Waiting {
    sequence: i64,
    calls: Vec<Call>,
    since_unix_nano: i64,
}

/// The stage.
#[derive(Debug)]
pub(super) struct Calls {
    pub(super) stitching: Stitching,
    /// Counts every call.
    pub(super) counting: Option<Counting>,
    wait_nanos: i64,
    settle_nanos: i64,
    waiting: VecDeque<Waiting>,
    n_waiting: usize,
    builder: RequestsBuilder,
    /// The last release whose rows are appended.
    appended: i64,
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

impl Calls {
    /// Knows of no engine request.
    pub(super) fn new(config: &Correlate) -> Self {
        let remembered = config.stitch_wait.saturating_add(DECIDED_WITHIN);
        Self {
            stitching: Stitching::new(nanos(remembered)),
            counting: None,
            wait_nanos: nanos(config.stitch_wait),
            settle_nanos: nanos(SETTLE.min(config.stitch_wait)),
            waiting: VecDeque::new(),
            n_waiting: 0,
            builder: RequestsBuilder::new(),
            appended: 0,
        }
    }

    /// The last release whose rows are appended.
    pub(super) const fn appended(&self) -> i64 {
        self.appended
    }

    /// Calls that wait.
    pub(super) const fn n_waiting(&self) -> usize {
        self.n_waiting
    }

    /// Takes the calls of a release, which wait from now on.
    pub(super) fn take(&mut self, sequence: i64, calls: Vec<Call>, now: i64) {
        for call in &calls {
            self.stitching.take_call(call, now);
        }
        self.n_waiting += calls.len();
        self.waiting.push_back(Waiting {
            sequence,
            calls,
            since_unix_nano: now,
        });
    }

    /// The rows of the releases that need not wait any more; `is_urgent`: of all.
    pub(super) fn write(&mut self, is_urgent: bool, now: i64) -> Vec<Written> {
        let mut written = Vec::new();
        while let Some(release) = self.waiting.pop_front_if(|release| {
            is_urgent
                || self.n_waiting > WAITING_MAX
                || now.saturating_sub(release.since_unix_nano) >= self.wait_nanos
                || now < release.since_unix_nano
                || is_settled(&self.stitching, &release.calls, now - self.settle_nanos)
        }) {
            self.n_waiting -= release.calls.len();
            self.appended = self.appended.max(release.sequence);
            let sequence = release.sequence;
            if release.calls.is_empty() {
                written.push(Written {
                    sequence,
                    rows: None,
                });
            }
            self.rows(release, &mut written);
        }
        written
    }

    fn rows(&mut self, release: Waiting, written: &mut Vec<Written>) {
        let sequence = release.sequence;
        let mut finish = |builder: &mut RequestsBuilder| {
            if !builder.is_empty() {
                let rows = Some(builder.finish());
                written.push(Written { sequence, rows });
            }
        };
        for call in release.calls {
            let row = self.stitching.row(call);
            if let Some(counting) = &self.counting {
                counting.count(sequence, &row);
            }
            if self.builder.append(&row).is_err() {
                // It is full: that is the only way to fail.
                finish(&mut self.builder);
                let appended = self.builder.append(&row);
                debug_assert!(appended.is_ok(), "an empty batch takes a row");
            }
        }
        finish(&mut self.builder);
    }
}

/// Were all of these answered by `by`?
fn is_settled(stitching: &Stitching, calls: &[Call], by: i64) -> bool {
    let answered = |call: &Call| match stitching.answer(call) {
        Answer::By {
            seen_unix_nano: seen,
            ..
        } => seen <= by,
        Answer::Unknown | Answer::Ambiguous => false,
    };
    calls.iter().all(answered)
}
