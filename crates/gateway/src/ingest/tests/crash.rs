//! Scenario: a process is killed, or loses power, inside each of its disk calls in turn.
//!
//! Guarantee: the next process has every acknowledged span, repeats every release that is not committed
//! under the same sequence with the same decisions and spans, and releases no span twice.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use otlp::span::SpanSummary;
use tokio::sync::oneshot;
use wal::sim::SimDisk;

use super::{
    harness::{ALL, Setup, Sim, T0, TestSpan, child, metrics_of, number_of, print, request, root},
    reported::reports_of,
};
use crate::{config::SyncPolicy, ingest::Input, release::Release};

/// What the scenario does, in order.
pub(super) enum Step {
    Send(Vec<TestSpan>),
    SendMetric(u8),
    SendReport(u8),
    TickAfter(u64),
    Commit(i64),
    /// To other policies, which sample everything too.
    Reload,
}

const OTHER: &str = "{decision_wait: 5s, decision_wait_after_root_received: 1s, \
     policies: [{name: other, type: always_sample}]}";

pub(super) fn scenario() -> Vec<Step> {
    let mut steps = Vec::new();
    // Enough traces to fill segments, decided in three releases, with late spans of decided traces.
    for trace in 1..=20 {
        steps.push(Step::Send(vec![
            root(trace, 0x10),
            child(trace, 0x11, 0x10).error(),
        ]));
        steps.push(Step::Send(vec![
            request(trace, 0x12, 0x10),
            child(trace + 100, 0x13, 0x10),
        ]));
    }
    steps.push(Step::SendMetric(1));
    steps.push(Step::SendReport(1));
    steps.push(Step::TickAfter(1));
    steps.push(Step::SendMetric(2));
    steps.push(Step::Send(
        (1..=20).map(|trace| child(trace, 0x14, 0x10)).collect(),
    ));
    // Some senders did not get their answer, before the decision and after it.
    steps.insert(5, Step::Send(vec![root(1, 0x10), request(2, 0x12, 0x10)]));
    steps.push(Step::Send(vec![root(1, 0x10), child(2, 0x14, 0x10)]));
    steps.push(Step::TickAfter(1));
    steps.push(Step::Commit(1));
    // A release of nothing else.
    steps.push(Step::SendReport(2));
    steps.push(Step::SendMetric(3));
    steps.push(Step::TickAfter(0));
    for trace in 21..=40 {
        steps.push(Step::Send(vec![root(trace, 0x10)]));
    }
    steps.push(Step::TickAfter(10));
    steps.push(Step::Commit(2));
    steps.push(Step::Commit(3));
    steps.push(Step::SendMetric(4));
    steps.push(Step::SendReport(4));
    steps.push(Step::Send(vec![child(3, 0x15, 0x10)]));
    steps.push(Step::TickAfter(1));
    steps
}

/// Stands for a trace where metrics are meant.
const METRICS: u8 = 0xff;

/// The same for reports.
const REPORTS: u8 = 0xfe;

/// What the outside world has seen of a run.
#[derive(Default)]
struct Seen {
    acknowledged: BTreeSet<(u8, u8)>,
    committed: i64,
    releases: BTreeMap<i64, Release>,
}

/// A trace stays open while others fill the log many times, so that it is carried forward.
pub(super) fn long_trace() -> Vec<Step> {
    let mut steps = vec![Step::Send(vec![
        child(1, 0x11, 0x10),
        request(1, 0x12, 0x10),
    ])];
    for round in 1..=6 {
        for trace in 2..=16 {
            steps.push(Step::Send(vec![
                root(trace + 20 * round, 0x10),
                child(trace + 20 * round, 0x11, 0x10),
            ]));
        }
        steps.push(Step::SendMetric(round));
        steps.push(Step::SendReport(round));
        steps.push(Step::TickAfter(1));
        steps.push(Step::Commit(i64::from(round)));
        steps.push(Step::TickAfter(0));
        if round == 3 {
            // A copy of a carried span, and another span of its trace.
            steps.push(Step::Send(vec![child(1, 0x11, 0x10), child(1, 0x13, 0x10)]));
        }
    }
    steps.push(Step::Send(vec![root(1, 0x10)]));
    steps.push(Step::TickAfter(1));
    steps
}

/// The first scenario with a reload before each of its ticks.
fn reloads() -> Vec<Step> {
    let before = |step| match step {
        tick @ Step::TickAfter(_) => vec![Step::Reload, tick],
        step @ (Step::Send(_)
        | Step::SendMetric(_)
        | Step::SendReport(_)
        | Step::Commit(_)
        | Step::Reload) => vec![step],
    };
    scenario().into_iter().flat_map(before).collect()
}

/// The long trace with a reload after it was carried.
fn carries_and_reloads() -> Vec<Step> {
    let mut steps = long_trace();
    let root = steps.len() - 2;
    steps.insert(root, Step::Reload);
    steps
}

fn run(sim: &mut Sim, seen: &mut Seen, scenario: fn() -> Vec<Step>) {
    for step in scenario() {
        match step {
            Step::Send(spans) => {
                if sim.send(&spans).is_ok() {
                    seen.acknowledged
                        .extend(spans.iter().map(|span| (span.trace, span.id)));
                }
            }
            Step::SendMetric(n) => {
                if sim.send_metric(n).is_ok() {
                    seen.acknowledged.insert((METRICS, n));
                }
            }
            Step::SendReport(n) => {
                if sim.send_report(n).is_ok() {
                    seen.acknowledged.insert((REPORTS, n));
                }
            }
            Step::TickAfter(seconds) => sim.tick_after(seconds),
            Step::Reload => {
                let config = serde_saphyr::from_str(OTHER).unwrap();
                sim.apply(Input::Reload(Box::new(config), oneshot::channel().0));
            }
            Step::Commit(sequence) => {
                // Storage can commit only what it was given.
                let is_given = sim
                    .releases
                    .iter()
                    .any(|release| release.sequence == sequence);
                if is_given {
                    seen.committed = sequence;
                    sim.apply(Input::Released(sequence));
                }
            }
        }
    }
    seen.releases.extend(
        sim.releases
            .drain(..)
            .map(|release| (release.sequence, release)),
    );
}

fn spans_of(release: &Release) -> Vec<(u8, u8)> {
    let decided = release.decided.iter().flat_map(|trace| &trace.spans);
    let late = release.late.iter().map(|late| &late.span);
    let id = |span: &crate::release::ReleasedSpan| {
        let summary = SpanSummary::read(span.at().span).unwrap();
        (
            number_of(summary.trace_id.as_bytes()),
            number_of(summary.span_id.as_bytes()),
        )
    };
    let metrics = metrics_of(release).into_iter().map(|n| (METRICS, n));
    let reports = reports_of(release).into_iter().map(|n| (REPORTS, n));
    let aside = metrics.chain(reports);
    decided.chain(late).map(id).chain(aside).collect()
}

/// Starts again on what is left and checks the guarantee.
fn check_restart(setup: Setup, disk: SimDisk, mut seen: Seen, context: &str) {
    let mut sim = Sim::open(setup, disk, seen.committed, T0 + 60_000_000_000)
        .unwrap_or_else(|error| panic!("{context}: does not open: {error:?}"));
    for again in &sim.releases {
        assert!(
            again.sequence > seen.committed,
            "{context}: a committed release is repeated"
        );
        if let Some(before) = seen.releases.get(&again.sequence) {
            // Carried spans may come in another order.
            let lines = |release: &Release| {
                let text = print(std::slice::from_ref(release));
                let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
                lines.sort_unstable();
                lines
            };
            let (before, again) = (lines(before), lines(again));
            assert_eq!(before, again, "{context}: a repeated release differs");
        }
    }
    let repeated: BTreeSet<i64> = sim
        .releases
        .iter()
        .map(|release| release.sequence)
        .collect();
    for sequence in seen
        .releases
        .keys()
        .filter(|sequence| **sequence > seen.committed)
    {
        assert!(
            repeated.contains(sequence),
            "{context}: release {sequence} is not repeated"
        );
    }
    sim.tick_after(60);
    sim.tick_after(60);
    sim.conservation();
    for release in sim.releases.drain(..) {
        seen.releases.entry(release.sequence).or_insert(release);
    }
    let mut released = BTreeSet::new();
    for span in seen.releases.values().flat_map(spans_of) {
        assert!(
            released.insert(span),
            "{context}: span {span:02x?} is released twice"
        );
    }
    let lost: Vec<_> = seen.acknowledged.difference(&released).collect();
    assert!(
        lost.is_empty(),
        "{context}: acknowledged and lost: {lost:02x?}"
    );
    let sequences: Vec<i64> = seen.releases.keys().copied().collect();
    let expected: Vec<i64> = (1..=sequences.len() as i64).collect();
    assert_eq!(sequences, expected, "{context}: sequences have gaps");
}

fn n_calls_of_a_whole_run(setup: Setup, scenario: fn() -> Vec<Step>) -> u64 {
    let mut sim = Sim::new(setup);
    run(&mut sim, &mut Seen::default(), scenario);
    sim.disk.n_calls()
}

fn run_until(setup: Setup, scenario: fn() -> Vec<Step>, call: u64, seed: u64) -> (SimDisk, Seen) {
    let disk = SimDisk::new(seed);
    disk.stop_at(call);
    let mut seen = Seen::default();
    if let Ok(mut sim) = Sim::open(setup, disk.clone(), 0, T0) {
        run(&mut sim, &mut seen, scenario);
    }
    (disk, seen)
}

#[test]
fn a_kill_inside_any_disk_call_loses_and_repeats_nothing() {
    let setup = Setup {
        policies: ALL,
        segment_bytes: 4096,
        ..Setup::default()
    };
    for call in 0..=n_calls_of_a_whole_run(setup, scenario) {
        let (disk, seen) = run_until(setup, scenario, call, call);
        check_restart(
            setup,
            disk.after_kill(),
            seen,
            &format!("killed in call {call}"),
        );
    }
}

#[test]
fn a_kill_before_in_or_after_a_reload_loses_and_repeats_nothing() {
    let setup = Setup {
        policies: ALL,
        segment_bytes: 4096,
        ..Setup::default()
    };
    for (setup, scenario) in [
        (setup, reloads as fn() -> Vec<Step>),
        (CARRYING, carries_and_reloads),
    ] {
        for call in 0..=n_calls_of_a_whole_run(setup, scenario) {
            for file in [ALL, OTHER] {
                let (disk, seen) = run_until(setup, scenario, call, call);
                let restarted = Setup {
                    policies: file,
                    ..setup
                };
                let context = format!("killed in call {call}");
                check_restart(restarted, disk.after_kill(), seen, &context);
            }
        }
    }
}

#[test]
fn a_power_failure_inside_any_disk_call_loses_nothing_where_answers_wait_for_the_sync() {
    let setup = Setup {
        policies: ALL,
        segment_bytes: 4096,
        sync: SyncPolicy::Always,
        ..Setup::default()
    };
    for call in 0..=n_calls_of_a_whole_run(setup, scenario) {
        let (disk, seen) = run_until(setup, scenario, call, call);
        let context = format!("power failed in call {call}");
        check_restart(setup, disk.after_power_failure(call), seen, &context);
    }
}

#[test]
fn a_power_failure_between_syncs_repeats_nothing() {
    let setup = Setup {
        policies: ALL,
        segment_bytes: 4096,
        ..Setup::default()
    };
    for call in 0..=n_calls_of_a_whole_run(setup, scenario) {
        let (disk, mut seen) = run_until(setup, scenario, call, call);
        // What was acknowledged since the last sync may be gone.
        seen.acknowledged.clear();
        let context = format!("power failed in call {call}");
        check_restart(setup, disk.after_power_failure(call), seen, &context);
    }
}

/// Small enough for the log to be over a quarter of its limit all the time.
pub(super) const CARRYING: Setup = Setup {
    policies: ALL,
    segment_bytes: 4096,
    sync: SyncPolicy::Interval(Duration::from_secs(1)),
    shutdown: crate::config::Shutdown::Keep,
    log_bytes_max: 24 * 1024,
    pending_heap_bytes_max: u64::MAX,
    is_exporting: false,
    release_backlog_spans_max: u64::MAX,
};

#[test]
fn the_long_trace_is_carried() {
    let mut sim = Sim::new(CARRYING);
    run(&mut sim, &mut Seen::default(), long_trace);
    let text = sim.metrics.render_prometheus();
    let carried = text
        .lines()
        .find_map(|line| line.strip_prefix("gateway_log_spans_carried_total "));
    let n_carried: u64 = carried.unwrap().parse().unwrap();
    assert!(n_carried >= 4, "{n_carried}");
}

#[test]
fn a_kill_while_spans_are_carried_loses_and_repeats_nothing() {
    for call in 0..=n_calls_of_a_whole_run(CARRYING, long_trace) {
        let (disk, seen) = run_until(CARRYING, long_trace, call, call);
        let context = format!("killed in call {call}");
        check_restart(CARRYING, disk.after_kill(), seen, &context);
    }
}

#[test]
fn a_power_failure_while_spans_are_carried_loses_and_repeats_nothing() {
    let setup = Setup {
        sync: SyncPolicy::Always,
        ..CARRYING
    };
    for call in 0..=n_calls_of_a_whole_run(setup, long_trace) {
        let (disk, seen) = run_until(setup, long_trace, call, call);
        let context = format!("power failed in call {call}");
        check_restart(setup, disk.after_power_failure(call), seen, &context);
    }
}

#[test]
fn a_power_failure_between_syncs_loses_no_carried_span() {
    for call in 0..=n_calls_of_a_whole_run(CARRYING, long_trace) {
        let (disk, mut seen) = run_until(CARRYING, long_trace, call, call);
        // The long trace's first spans were synced before they were carried; the rest may be gone.
        let first_release = seen.releases.contains_key(&1);
        seen.acknowledged
            .retain(|span| first_release && [(1, 0x11), (1, 0x12)].contains(span));
        let context = format!("power failed in call {call}");
        check_restart(CARRYING, disk.after_power_failure(call), seen, &context);
    }
}

#[test]
fn a_power_failure_without_syncs_repeats_nothing() {
    let setup = Setup {
        sync: SyncPolicy::Never,
        ..CARRYING
    };
    for call in 0..=n_calls_of_a_whole_run(setup, scenario) {
        let (disk, mut seen) = run_until(setup, scenario, call, call);
        seen.acknowledged.clear();
        let context = format!("power failed in call {call}");
        check_restart(setup, disk.after_power_failure(call), seen, &context);
    }
}
