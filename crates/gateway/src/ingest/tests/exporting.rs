//! Scenario: exporters follow the log, and the process is killed, or loses power, inside each disk call in turn.
//!
//! Guarantee: every kept span that was acknowledged is delivered to each of them; one is delivered again only if its
//! cursor had not moved past it. The log goes when all of them are done.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

use otlp::{export::Limits, span::SpanSummary};
use wal::{Disk, sim::SimDisk};

use super::{
    crash::{CARRYING, Step, long_trace, scenario},
    harness::{ALL, ERRORS, SECOND, Setup, Sim, T0, TestSpan, child, number_of, root},
};
use crate::{
    config::SyncPolicy,
    export::{Cursor, Cursors, Queue, Tail},
    ingest::Input,
};

const SMALL: Setup = Setup {
    policies: ALL,
    segment_bytes: 4096,
    sync: SyncPolicy::Always,
    is_exporting: true,
    ..CARRYING
};

/// How often each span was delivered.
type Backend = BTreeMap<(u8, u8), u32>;

/// What is outside of the process.
#[derive(Clone, Default)]
struct World {
    acknowledged: BTreeSet<(u8, u8)>,
    backends: [Backend; 2],
    /// Delivered when the process ended, cursor not moved.
    unsure: [BTreeSet<(u8, u8)>; 2],
}

/// A core with two exporters: one takes what there is, the other falls behind.
struct Process {
    sim: Sim,
    queue: Arc<Queue>,
    exporters: Vec<(Tail<SimDisk>, Cursor<SimDisk>)>,
}

const IDS: [&str; 2] = ["otlp", "otlp/slow"];

/// Bytes and spans of a request: two or three spans.
const REQUEST_MAX: (usize, usize) = (400, 3);

impl Process {
    fn start(setup: Setup, disk: &SimDisk, now: u64) -> crate::Result<Process> {
        let folder = Path::new("log");
        disk.create_directory(folder).ok();
        let ids = IDS.map(str::to_owned);
        let cursors = Cursors::open(disk.clone(), folder, &ids, None)?;
        let queue = Arc::new(Queue::new(cursors.done()));
        let done = cursors.done_through();
        let mut sim = Sim::open_with(setup, disk.clone(), done, now, Arc::clone(&queue))?;
        sim.ingest.skip_sequences_through(cursors.known_through());
        let (_, cursors) = cursors.settle(sim.ingest.last_sequence())?;
        queue.set_done(
            cursors
                .iter()
                .map(|cursor| cursor.mark().sequence)
                .collect(),
        );
        sim.apply(Input::Stored(i64::MAX));
        let exporters = cursors.into_iter().map(|cursor| {
            let tail = Tail::new(
                sim.releaser(),
                Arc::clone(&queue),
                REQUEST_MAX,
                cursor.mark(),
            );
            (tail, cursor)
        });
        Ok(Process {
            exporters: exporters.collect(),
            sim,
            queue,
        })
    }

    /// Delivers at most so many requests; false if the process has ended meanwhile.
    fn export(&mut self, idx: usize, n_requests_max: usize, world: &mut World) -> bool {
        let (tail, cursor) = &mut self.exporters[idx];
        for _ in 0..n_requests_max {
            let batch = match tail.next_batch() {
                Ok(Some(batch)) => batch,
                Ok(None) => break,
                Err(_) => return false,
            };
            let mut spans = BTreeSet::new();
            for at in otlp::export::spans(&batch.body, &Limits::default()) {
                let summary = SpanSummary::read(at.unwrap().span).unwrap();
                let trace = number_of(summary.trace_id.as_bytes());
                let span = number_of(summary.span_id.as_bytes());
                spans.insert((trace, span));
                *world.backends[idx].entry((trace, span)).or_default() += 1;
            }
            assert!(spans.len() <= REQUEST_MAX.1);
            assert_eq!(
                spans.len() as u64,
                batch.n_spans,
                "a request holds a span once"
            );
            if cursor.write(batch.after).is_err() {
                world.unsure[idx].extend(spans);
                return false;
            }
            self.queue.done(idx, batch.after.sequence);
        }
        self.sim.apply(Input::Released(self.queue.done_through()));
        true
    }

    fn run(&mut self, steps: Vec<Step>, world: &mut World) {
        for step in steps {
            match step {
                Step::Send(spans) => {
                    if self.sim.send(&spans).is_ok() {
                        let ids = spans.iter().map(|span: &TestSpan| (span.trace, span.id));
                        world.acknowledged.extend(ids);
                    }
                }
                // For tables alone; refused or not.
                Step::SendMetric(n) => drop(self.sim.send_metric(n)),
                Step::SendReport(n) => drop(self.sim.send_report(n)),
                Step::TickAfter(seconds) => {
                    self.sim.tick_after(seconds);
                    if !(self.export(0, usize::MAX, world) && self.export(1, 2, world)) {
                        return;
                    }
                }
                // There are no tables.
                Step::Commit(_) | Step::Reload => {}
            }
        }
    }

    fn finish(&mut self, world: &mut World, context: &str) {
        for _ in 0..4 {
            self.sim.tick_after(60);
        }
        for idx in 0..IDS.len() {
            assert!(self.export(idx, usize::MAX, world), "{context}");
        }
        self.sim.conservation();
    }
}

fn check(context: &str, world: &World) {
    for (backend, unsure) in world.backends.iter().zip(&world.unsure) {
        for span in &world.acknowledged {
            assert!(backend.contains_key(span), "{context}: {span:02x?} is lost");
        }
        for (span, n_times) in backend {
            let n_times_max = if unsure.contains(span) { 2 } else { 1 };
            assert!(
                *n_times <= n_times_max,
                "{context}: {span:02x?} came {n_times} times"
            );
        }
    }
}

fn kill_everywhere(setup: Setup, steps: fn() -> Vec<Step>, end: fn(&SimDisk, u64) -> SimDisk) {
    let whole = SimDisk::new(1);
    let mut process = Process::start(setup, &whole, T0).unwrap();
    process.run(steps(), &mut World::default());
    for call in 0..=whole.n_calls() {
        let disk = SimDisk::new(call);
        disk.stop_at(call);
        let mut world = World::default();
        if let Ok(mut process) = Process::start(setup, &disk, T0) {
            process.run(steps(), &mut world);
        }
        let context = format!("ended in call {call}");
        let disk = end(&disk, call);
        let now = T0 + 60 * SECOND;
        let mut process = Process::start(setup, &disk, now)
            .unwrap_or_else(|error| panic!("{context}: does not start: {error:?}"));
        process.finish(&mut world, &context);
        check(&context, &world);
    }
}

#[test]
fn a_kill_in_any_disk_call_repeats_what_was_in_flight_and_loses_nothing() {
    kill_everywhere(SMALL, scenario, |disk, _| disk.after_kill());
}

#[test]
fn a_power_failure_in_any_disk_call_repeats_what_was_in_flight_and_loses_nothing() {
    kill_everywhere(SMALL, scenario, SimDisk::after_power_failure);
}

#[test]
fn carried_spans_are_exported_from_where_they_are() {
    kill_everywhere(SMALL, long_trace, |disk, _| disk.after_kill());
}

#[test]
fn only_kept_traces_are_exported_and_late_spans_with_them() {
    let setup = Setup {
        policies: ERRORS,
        ..SMALL
    };
    let disk = SimDisk::new(1);
    let mut process = Process::start(setup, &disk, T0).unwrap();
    let mut world = World::default();
    process
        .sim
        .send(&[root(1, 0x10), child(1, 0x11, 0x10).error()])
        .unwrap();
    process.sim.send(&[root(2, 0x20)]).unwrap();
    process.sim.tick_after(1);
    process
        .sim
        .send(&[child(1, 0x12, 0x10), child(2, 0x21, 0x20)])
        .unwrap();
    process.sim.tick_after(1);
    process.finish(&mut world, "");
    let spans: Vec<_> = world.backends[0].keys().copied().collect();
    assert_eq!(spans, [(1, 0x10), (1, 0x11), (1, 0x12)]);
    assert_eq!(world.backends[0], world.backends[1]);
}

#[test]
fn the_log_goes_when_the_slowest_is_done_and_nothing_waits_in_memory() {
    let disk = SimDisk::new(1);
    let mut process = Process::start(SMALL, &disk, T0).unwrap();
    let mut world = World::default();
    for trace in 0..200 {
        process
            .sim
            .send(&[root(trace, 0x10), child(trace, 0x11, 0x10)])
            .unwrap();
        process.sim.tick_after(1);
        assert!(process.export(0, usize::MAX, &mut world));
    }
    let log_bytes = |process: &Process| -> u64 {
        let text = process.sim.metrics.render_prometheus();
        let value = text
            .lines()
            .find_map(|line| line.strip_prefix("gateway_log_bytes "));
        value.unwrap().parse().unwrap()
    };
    let behind = process.queue.backlog(1);
    assert_eq!((behind.n_releases, behind.n_spans), (200, 400));
    assert_eq!(process.queue.backlog(0).n_releases, 0);
    let before = log_bytes(&process);
    assert!(process.export(1, usize::MAX, &mut world));
    process.sim.tick_after(1);
    assert!(
        log_bytes(&process) < before / 4,
        "{} of {before}",
        log_bytes(&process)
    );
    assert_eq!(world.backends[0].len(), 400);
    assert_eq!(world.backends[0], world.backends[1]);
    check("", &world);
}

/// Nobody is given parts of what was decided before it was there.
#[test]
fn a_new_exporter_starts_with_what_is_decided_from_then_on() {
    let disk = SimDisk::new(1);
    let folder = Path::new("log");
    let mut process = Process::start(SMALL, &disk, T0).unwrap();
    let mut world = World::default();
    process.sim.send(&[root(1, 0x10)]).unwrap();
    process.sim.tick_after(1);
    let disk = process.sim.disk.after_kill();
    drop(process);
    // One of them was removed for a while.
    let ids = [IDS[0].to_owned()];
    let cursors = Cursors::open(disk.clone(), folder, &ids, None).unwrap();
    assert_eq!(cursors.done_through(), Some(0));
    let (_, kept) = cursors.settle(1).unwrap();
    assert_eq!(kept[0].mark().sequence, 0);
    drop(kept);
    let mut process = Process::start(SMALL, &disk, T0 + SECOND).unwrap();
    process.sim.send(&[root(2, 0x10)]).unwrap();
    process.finish(&mut world, "");
    assert_eq!(
        world.backends[0].keys().collect::<Vec<_>>(),
        [&(1, 0x10), &(2, 0x10)]
    );
    assert_eq!(world.backends[1].keys().collect::<Vec<_>>(), [&(2, 0x10)]);
}

#[test]
fn tables_are_given_nothing_that_was_decided_without_them() {
    let open = |disk: &SimDisk, ids: &[&str], committed: Option<i64>| {
        let ids: Vec<String> = ids.iter().map(|id| (*id).to_owned()).collect();
        Cursors::open(disk.clone(), Path::new("log"), &ids, committed).unwrap()
    };
    let disk = SimDisk::new(1);
    disk.create_directory(Path::new("log")).unwrap();
    // A log from before there were cursors: what the tables lack is repeated.
    let cursors = open(&disk, &["otlp"], Some(3));
    assert_eq!(
        (cursors.stored_through(), cursors.done_through()),
        (Some(3), Some(3))
    );
    assert_eq!(cursors.settle(7).unwrap().0, Some(3));
    // Without tables for a while, then with tables that are as far as they were.
    assert_eq!(open(&disk, &["otlp"], None).settle(9).unwrap().0, None);
    let cursors = open(&disk, &["otlp"], Some(3));
    assert_eq!(
        (cursors.stored_through(), cursors.done_through()),
        (None, Some(7))
    );
    assert_eq!(cursors.settle(9).unwrap().0, Some(9));
    assert_eq!(open(&disk, &["otlp"], Some(3)).stored_through(), Some(9));
    assert_eq!(open(&disk, &[], Some(12)).stored_through(), Some(12));
}
