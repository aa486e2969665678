//! Scenario: exports arrive, releases are taken and committed, and processes, disk and store fail, all as a
//! seed says.
//!
//! Guarantee: after every step what was received is accounted for; in the end the tables hold what the
//! model says. Equal seeds give equal runs.

use std::fmt;
use std::time::Duration;

use loadgen::traffic::Export;
use tokio::runtime::{Builder, Runtime};
use wal::sim::{Fault, SimDisk};

use lake::sim::SimStore;

use super::model::{Counts, Model};
use super::process::Process;
use super::report;
use super::schedule::{Step, hostile, traffic};
use super::tables::Stored;

/// Long past every decision.
const DAY: u64 = 24 * 3600 * 1_000_000_000;

/// Requests of a hostile run.
const N_REQUESTS: u32 = 24;

/// Sums over runs.
#[derive(Debug, Default)]
pub(super) struct Totals {
    n_runs: u64,
    n_processes: u64,
    n_steps: u64,
    n_store_failures: u64,
    counts: Counts,
}

impl Totals {
    pub(super) fn n_runs(&self) -> u64 {
        self.n_runs
    }

    fn add(&mut self, run: &Run, counts: Counts) {
        self.n_runs += 1;
        self.n_processes += run.n_processes;
        self.n_steps += run.n_steps;
        self.n_store_failures += run.n_store_failures;
        self.counts.n_acknowledged += counts.n_acknowledged;
        self.counts.n_in_doubt += counts.n_in_doubt;
        self.counts.n_refused += counts.n_refused;
        self.counts.n_kept += counts.n_kept;
        self.counts.n_traces += counts.n_traces;
        self.counts.n_repeated += counts.n_repeated;
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = &self.counts;
        write!(
            f,
            "{} runs of {} processes, conservation checked after {} steps, {} store calls failed; spans: \
             {} acknowledged, {} in doubt, {} refused; {} rows of kept spans, {} traces decided, {} releases \
             repeated unchanged; 0 lost, 0 doubled, 0 invented",
            self.n_runs,
            self.n_processes,
            self.n_steps,
            self.n_store_failures,
            counts.n_acknowledged,
            counts.n_in_doubt,
            counts.n_refused,
            counts.n_kept,
            counts.n_traces,
            counts.n_repeated,
        )
    }
}

/// Says which case it was if the check panics.
pub(super) fn case(context: &str, check: impl FnOnce()) {
    struct Context<'a>(&'a str);
    impl Drop for Context<'_> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                report(&format!("failed: {}", self.0));
            }
        }
    }
    let _context = Context(context);
    check();
}

/// A run: what outlives its processes, and the process of the moment.
#[derive(Debug)]
pub(super) struct Run {
    runtime: Runtime,
    disk: SimDisk,
    store: SimStore,
    sync_interval: Duration,
    exports: Vec<Export>,
    n_sent: usize,
    now: u64,
    process: Option<Process>,
    model: Model,
    /// The disk call in which this process ends.
    disk_end: Option<u64>,
    store_end: Option<u64>,
    n_processes: u64,
    n_steps: u64,
    n_store_failures: u64,
    seed: u64,
    /// What happened, for the comparison of replays.
    journal: Vec<String>,
    /// Is it printed as it happens?
    is_told: bool,
}

impl Run {
    pub(super) fn new(seed: u64, sync_interval: Duration, exports: Vec<Export>) -> Self {
        let now = exports.first().map_or(0, |export| export.due_unix_nano);
        Self {
            runtime: Builder::new_multi_thread()
                .worker_threads(1)
                .build()
                .unwrap(),
            disk: SimDisk::new(seed),
            store: SimStore::new(seed),
            sync_interval,
            exports,
            n_sent: 0,
            now,
            process: None,
            // Half of the runs lose the note.
            model: Model::new(seed % 2 == 1),
            disk_end: None,
            store_end: None,
            n_processes: 0,
            n_steps: 0,
            n_store_failures: 0,
            seed,
            journal: Vec::new(),
            is_told: std::env::var("SEED").is_ok(),
        }
    }

    pub(super) fn n_exports(&self) -> usize {
        self.exports.len()
    }

    /// Calls of the disk and of the store by all processes so far.
    pub(super) fn n_calls(&self) -> (u64, u64) {
        (self.disk.n_calls(), self.store.n_calls())
    }

    pub(super) fn end_in_disk_call(&mut self, call: u64) {
        // After a kill, the disk goes on counting.
        let call = self.disk.n_calls() + call;
        self.disk.stop_at(call);
        self.disk_end = Some(call);
    }

    pub(super) fn end_in_store_call(&mut self, call: u64, takes_effect: bool) {
        self.store.stop_at(call, takes_effect);
        self.store_end = Some(call);
    }

    /// Has the process come to its appointed end?
    fn has_ended(&self) -> bool {
        self.disk_end.is_some_and(|call| self.disk.n_calls() > call)
            || self
                .store_end
                .is_some_and(|call| self.store.n_calls() > call)
    }

    /// Starts a process, unless it ends at once.
    pub(super) fn start(&mut self) {
        self.n_processes += 1;
        let started = Process::start(
            &self.runtime,
            &self.disk,
            &self.store,
            self.sync_interval,
            self.model.noted(),
        );
        match started {
            Ok(process) => self.process = Some(process),
            Err(error) => self.note(&format!("did not start: {error:#}")),
        }
    }

    /// Ends the process at once. Files and objects are what the next one finds.
    pub(super) fn fall(&mut self, is_power_failure: bool) {
        self.process = None;
        self.n_store_failures += self.store.n_failed();
        self.disk = if is_power_failure {
            if !self.sync_interval.is_zero() {
                self.model.forget_unreleased();
            }
            self.disk.after_power_failure(self.seed ^ self.n_processes)
        } else {
            self.disk.after_kill()
        };
        self.store = self.store.after_kill();
        self.disk_end = None;
        self.store_end = None;
    }

    pub(super) fn steps(&mut self, steps: &[Step]) {
        for step in steps {
            self.step(*step);
        }
    }

    /// Until the process ends.
    pub(super) fn steps_until_end(&mut self, steps: &[Step]) {
        for step in steps {
            if self.has_ended() || self.process.is_none() {
                return;
            }
            self.step(*step);
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Restart | Step::Kill | Step::PowerFailure => self.replace(step),
            Step::StoreIsDown(is_down) => self.store.set_down(is_down),
            Step::StoreFails(of_1024) => self.store.set_failing(of_1024),
            Step::Land => {
                self.runtime.block_on(self.store.land());
            }
            Step::DiskHasRoom(capacity) => self.disk.set_capacity(capacity),
            Step::DiskBreaksIn(calls) => {
                let call = self.disk.n_calls() + calls;
                self.disk.fail_call(call, Fault::Broken);
            }
            _ => self.work(step),
        }
        self.n_steps += 1;
        self.check(step);
    }

    fn replace(&mut self, step: Step) {
        if step == Step::Restart
            && let Some(process) = &mut self.process
        {
            process.core.shutdown(self.now);
            if process.take(&mut self.model).is_some() {
                process.commit(&self.runtime);
            }
            if self.has_ended() {
                return;
            }
        }
        self.fall(step == Step::PowerFailure);
        self.start();
    }

    /// What the process itself does.
    fn work(&mut self, step: Step) {
        if step_is_sending(step) {
            return self.send(step);
        }
        let Some(process) = &mut self.process else {
            // A supervisor starts the next one.
            self.fall(false);
            return self.start();
        };
        match step {
            Step::TickAfter { millis } => {
                self.now += millis * 1_000_000;
                process.core.tick(self.now);
            }
            Step::Sync => {
                process.core.sync(self.now);
            }
            Step::Take => {
                if process.take(&mut self.model).is_none() {
                    self.process = None;
                }
            }
            Step::Commit => {
                process.commit(&self.runtime);
            }
            Step::Tell => process.tell(&mut self.model, self.now),
            _ => unreachable!("{step:?} is not the process's"),
        }
        self.end_failed();
    }

    /// A process whose log has failed is ended by whoever asks `/readyz`.
    fn end_failed(&mut self) {
        let failed = |process: &Process| process.core.failure().is_some();
        if !self.has_ended() && self.process.as_ref().is_some_and(failed) {
            self.process = None;
        }
    }

    fn send(&mut self, step: Step) {
        let Step::Send(n_together) = step else { return };
        let Some(process) = &mut self.process else {
            return;
        };
        let mut group = Vec::new();
        for export in self.exports.iter().skip(self.n_sent).take(n_together) {
            self.now = self.now.max(export.due_unix_nano);
            let ticket = process.submit(&export.body, export.n_spans, self.now);
            group.push((ticket, &export.body));
        }
        process.core.settle();
        self.n_sent += group.len();
        // The process of a stopped disk answers nobody.
        let is_dead = self.disk_end.is_some_and(|call| self.disk.n_calls() > call);
        let mut answers = Vec::new();
        for (ticket, body) in &mut group {
            let answer = ticket.answer();
            // What a dying process has said before its end, it has said.
            let heard =
                answer.filter(|answer| !is_dead || *answer == gateway::testing::Answer::Accepted);
            self.model.sent(body, self.now, heard);
            answers.push(heard);
        }
        self.note(&format!("{answers:?}"));
        self.end_failed();
    }

    fn note(&mut self, text: &str) {
        if self.is_told {
            report(text);
        }
        self.journal.push(text.to_owned());
    }

    /// What must hold after every step.
    fn check(&mut self, step: Step) {
        let calls = self.disk.n_calls();
        let Some(process) = &self.process else {
            return self.note(&format!("{step:?}: no process, {calls} disk calls"));
        };
        let conservation = process.core.conservation();
        assert!(
            conservation.is_conserved(),
            "after {step:?}: {conservation:#?}"
        );
        let text = format!("{step:?}: {calls} disk calls, {:?}", conservation.pending);
        self.note(&text);
    }

    /// Nothing fails any more: everything is decided and committed, and compared with the model.
    pub(super) fn finish(mut self, totals: &mut Totals) -> Vec<String> {
        self.fall(false);
        self.disk.set_capacity(None);
        self.start();
        self.runtime.block_on(self.store.land());
        for _ in 0..3 {
            self.now += DAY / 8;
            let process = self.process.as_mut().expect("it starts on what is left");
            process.core.tick(self.now);
            process.core.sync(self.now);
            process.take(&mut self.model).expect("the log is readable");
            process.commit(&self.runtime).expect("the store works");
            process.tell(&mut self.model, self.now);
            self.check(Step::Tell);
        }
        let process = self.process.as_ref().expect("it runs");
        let pending = process.core.conservation().pending;
        assert_eq!(pending.n_spans, 0, "everything is decided");
        let stored = Stored::read(&self.runtime, &self.store);
        let counts = self.model.check_stored(&stored);
        totals.add(&self, counts);
        self.journal
    }
}

fn step_is_sending(step: Step) -> bool {
    matches!(step, Step::Send(_))
}

fn run(seed: u64, totals: &mut Totals) -> Vec<String> {
    let traffic = traffic(seed, N_REQUESTS);
    let sync_interval = Duration::from_secs(seed % 2);
    let mut run = Run::new(seed, sync_interval, traffic.exports);
    let steps = hostile(seed, run.n_exports());
    run.start();
    run.steps(&steps);
    run.finish(totals)
}

#[test]
fn any_seed_loses_doubles_and_invents_nothing() {
    let mut totals = Totals::default();
    if let Ok(seed) = std::env::var("SEED") {
        let seed = seed.parse().expect("SEED is a number");
        run(seed, &mut totals);
    } else {
        let n_seeds = std::env::var("WHYSLOW_SEEDS").map_or(12, |n| n.parse().unwrap());
        for seed in 1..=n_seeds {
            case(&format!("SEED={seed}"), || {
                run(seed, &mut totals);
            });
        }
    }
    report(&format!("seeds: {totals}"));
}

#[test]
fn a_seed_replays() {
    for seed in [3, 4] {
        let (a, b) = (
            run(seed, &mut Totals::default()),
            run(seed, &mut Totals::default()),
        );
        assert_eq!(a, b, "SEED={seed}");
    }
}
