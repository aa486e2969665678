//! Twice what storage takes, in simulated time: it is never without work and never has too much.

use std::{collections::VecDeque, sync::atomic::Ordering};

use otlp::testing::{self, TimeSpan};

use super::harness::{SECOND, Setup, Sim};
use crate::{ingest::Input, release::Release};

const TICKS_PER_SECOND: u64 = 10;

const SPANS_PER_TRACE: u32 = 5;

/// Seconds that count, after those in which it begins.
const SECONDS: u64 = 40;

/// As the shortest `commit_interval` that makes sense.
const COMMIT_INTERVAL_TICKS: f64 = 5.0;

/// Who sends what, and who stores it.
#[derive(Clone, Copy, Debug)]
struct Overload {
    decision_wait_seconds: u64,
    /// Of 100 traces. One that is not kept leaves its root.
    kept_percent: u32,
    /// What storage takes.
    rows_per_second: u32,
    /// Storage commits when it has what it writes in this time.
    commit_seconds: f64,
    /// `release_backlog_spans_max`, in seconds of work for storage.
    limit_seconds: u32,
    /// For so long storage does nothing at first.
    stopped_seconds: u64,
}

/// What came of it.
#[derive(Debug)]
struct Outcome {
    /// Of what storage can take.
    goodput: f64,
    /// The most that waited, of the limit.
    backlog_max: f64,
}

/// Storage of a constant pace. Like the exporter it takes whole releases, and waits until there is enough to commit.
#[derive(Debug, Default)]
struct Storage {
    waiting: VecDeque<(i64, u64)>,
    /// Last release and rows of the commit under way, and the tick in which it ends.
    commit: Option<(i64, u64, f64)>,
    free_since: f64,
    n_stored: u64,
}

impl Storage {
    fn n_waiting(&self) -> u64 {
        let waiting: u64 = self.waiting.iter().map(|(_, n_rows)| n_rows).sum();
        waiting + self.commit.map_or(0, |(_, n_rows, _)| n_rows)
    }

    fn take(&mut self, release: &Release) {
        let traces = release.decided.iter();
        let n_rows = traces.map(|trace| trace.spans.len().max(1) as u64).sum();
        self.waiting.push_back((release.sequence, n_rows));
    }

    /// Works until the tick `now`, and tells the last release that is committed.
    fn work(&mut self, now: f64, case: &Overload) -> Option<i64> {
        let rows_per_tick = f64::from(case.rows_per_second) / TICKS_PER_SECOND as f64;
        let mut committed = None;
        loop {
            if let Some((through, n_rows, end)) = self.commit {
                if end > now {
                    return committed;
                }
                committed = Some(through);
                self.n_stored += n_rows;
                self.free_since = end;
                self.commit = None;
            }
            let enough = case.commit_seconds * f64::from(case.rows_per_second);
            let (mut through, mut n_rows) = (0, 0);
            while (n_rows as f64) < enough
                && let Some((sequence, more)) = self.waiting.pop_front()
            {
                through = sequence;
                n_rows += more;
            }
            let is_enough = n_rows as f64 >= enough;
            if n_rows == 0 || !is_enough && now - self.free_since < COMMIT_INTERVAL_TICKS {
                self.waiting
                    .extend((n_rows > 0).then_some((through, n_rows)));
                return committed;
            }
            // What was enough had been there since it came, in the last tick at the latest.
            let begin = if is_enough {
                self.free_since.max(now - 1.0)
            } else {
                now
            };
            self.commit = Some((through, n_rows, begin + n_rows as f64 / rows_per_tick));
        }
    }
}

fn policies(decision_wait_seconds: u64) -> &'static str {
    match decision_wait_seconds {
        1 => {
            "{decision_wait: 1s, policies: [{name: errors, type: status_code, status_code: {status_codes: [ERROR]}}]}"
        }
        5 => {
            "{decision_wait: 5s, policies: [{name: errors, type: status_code, status_code: {status_codes: [ERROR]}}]}"
        }
        _ => {
            "{decision_wait: 20s, policies: [{name: errors, type: status_code, status_code: {status_codes: [ERROR]}}]}"
        }
    }
}

fn export(trace: u32, is_kept: bool) -> bytes::Bytes {
    let mut export = testing::trace(trace).service("load").scope("test", "1");
    for span in 1..=SPANS_PER_TRACE {
        export = export.span("step", 5.ms()).id(span);
        export = if span == 1 {
            export.root()
        } else {
            export.parent(1)
        };
        if is_kept {
            export = export.error();
        }
    }
    export.build().into()
}

impl Overload {
    /// As by chance, the same in each run.
    fn is_kept(&self, trace: u32) -> bool {
        let mixed = u64::from(trace).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        mixed % 100 < u64::from(self.kept_percent)
    }

    fn run(&self) -> Outcome {
        let limit = u64::from(self.limit_seconds * self.rows_per_second);
        let mut sim = Sim::new(Setup {
            policies: policies(self.decision_wait_seconds),
            release_backlog_spans_max: limit,
            ..Setup::default()
        });
        let kept = f64::from(self.kept_percent) / 100.0;
        let rows_per_trace = kept * f64::from(SPANS_PER_TRACE) + 1.0 - kept;
        let traces_per_second = 2.0 * f64::from(self.rows_per_second) / rows_per_trace;
        let begin = self.stopped_seconds + 3 * self.decision_wait_seconds + 10;
        let mut storage = Storage::default();
        let (mut n_sent, mut n_before, mut backlog_max) = (0, 0, 0);
        for tick in 1..=(begin + SECONDS) * TICKS_PER_SECOND {
            sim.now += SECOND / TICKS_PER_SECOND;
            let seconds = tick as f64 / TICKS_PER_SECOND as f64;
            while f64::from(n_sent) < seconds * traces_per_second {
                n_sent += 1;
                if sim.gate.pass().is_ok() {
                    let body = export(n_sent, self.is_kept(n_sent));
                    sim.send_body(body, SPANS_PER_TRACE.into()).unwrap();
                }
            }
            let is_stopped = tick <= self.stopped_seconds * TICKS_PER_SECOND;
            let committed = (!is_stopped).then(|| storage.work(tick as f64, self));
            if let Some(through) = committed.flatten() {
                sim.apply(Input::Released(through));
            }
            sim.apply(Input::Tick);
            for release in sim.releases.drain(..) {
                storage.take(&release);
            }
            let shown = sim.metrics.release_backlog_spans.load(Ordering::Relaxed);
            assert_eq!(shown, storage.n_waiting(), "{self:?}");
            backlog_max = backlog_max.max(shown);
            if tick == begin * TICKS_PER_SECOND {
                n_before = storage.n_stored;
            }
        }
        let could = SECONDS * u64::from(self.rows_per_second);
        Outcome {
            goodput: (storage.n_stored - n_before) as f64 / could as f64,
            backlog_max: backlog_max as f64 / limit as f64,
        }
    }
}

/// Scenario: senders offer twice what storage takes, from the first moment on.
/// Guarantee: storage works all the time, and what waits for it stays within the limit; however long a decision takes,
/// whatever share is kept, and however large storage makes its commits.
#[test]
fn at_twice_the_load_storage_is_busy_and_what_waits_is_within_the_limit() {
    for (decision_wait_seconds, limit_seconds) in [(1, 4), (5, 5), (20, 20)] {
        for kept_percent in [10, 100] {
            for (rows_per_second, commit_seconds) in [(120, 1.0), (200, 0.3)] {
                let case = Overload {
                    decision_wait_seconds,
                    kept_percent,
                    rows_per_second,
                    commit_seconds,
                    limit_seconds,
                    stopped_seconds: 0,
                };
                let outcome = case.run();
                let is_kept = outcome.goodput >= 0.95 && outcome.backlog_max <= 1.0;
                assert!(is_kept, "{case:?}: {outcome:?}");
            }
        }
    }
}

/// Scenario: the same, but storage does not work at first.
/// Guarantee: what waits stays within the limit then as well, and no trace of it is left afterwards.
#[test]
fn after_an_outage_storage_is_as_busy_as_before() {
    for kept_percent in [10, 100] {
        let case = Overload {
            decision_wait_seconds: 5,
            kept_percent,
            rows_per_second: 100,
            commit_seconds: 0.5,
            limit_seconds: 5,
            stopped_seconds: 60,
        };
        let outcome = case.run();
        let is_kept = outcome.goodput >= 0.95 && outcome.backlog_max <= 1.0;
        assert!(is_kept, "{case:?}: {outcome:?}");
    }
}
