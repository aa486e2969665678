//! A trace that stays undecided while the log moves on.

use std::time::Duration;

use super::harness::{ALL, SECOND, Setup, Sim, child, root};
use crate::{config::SyncPolicy, ingest::Input, metrics::Amount, release::Release};

const SETUP: Setup = Setup {
    policies: ALL,
    segment_bytes: 4096,
    sync: SyncPolicy::Interval(Duration::from_secs(1)),
    shutdown: crate::config::Shutdown::Keep,
    log_bytes_max: 64 * 1024,
    pending_heap_bytes_max: u64::MAX,
    is_exporting: false,
    release_backlog_spans_max: u64::MAX,
};

/// One round of short traces, decided and committed; `n` are their number and the time in tenths of a second.
fn round(sim: &mut Sim, n: u8) {
    for trace in 100..=110 {
        sim.send(&[root(trace, n), child(trace, n, n)]).unwrap();
    }
    sim.now += SECOND / 10;
    sim.apply(Input::Tick);
    if let Some(last) = sim.releases.last() {
        sim.apply(Input::Released(last.sequence));
    }
}

fn log_bytes(sim: &Sim) -> usize {
    sim.disk.files().values().map(Vec::len).sum()
}

/// The spans of trace 1 in all releases, by id.
fn spans_of_long(releases: &[Release]) -> Vec<u8> {
    let traces = releases.iter().flat_map(|release| &release.decided);
    let long = traces.filter(|trace| trace.trace_id == otlp::testing::tid(1));
    let spans = long.flat_map(|trace| &trace.spans);
    let mut ids: Vec<u8> = spans
        .map(|span| {
            let at = span.at();
            let summary = otlp::span::SpanSummary::read(at.span).unwrap();
            super::harness::number_of(summary.span_id.as_bytes())
        })
        .collect();
    ids.sort_unstable();
    ids
}

/// Scenario: one trace is open while many times the limit of the log comes and goes.
/// Guarantee: the log stays small, nothing is refused or decided early, and the trace is released whole; also where the
/// process is killed on the way.
#[test]
fn a_long_trace_does_not_keep_the_log() {
    for killed_at in [None, Some(40), Some(90)] {
        let mut sim = Sim::new(SETUP);
        let mut releases = Vec::new();
        sim.send(&[child(1, 0x11, 0x10), child(1, 0x12, 0x10)])
            .unwrap();
        for n in 1..=95 {
            round(&mut sim, n);
            if n == 60 {
                sim.send(&[child(1, 0x13, 0x10)]).unwrap();
            }
            assert!(sim.gate.pass().is_ok(), "round {n}");
            assert!(
                log_bytes(&sim) < 40 * 1024,
                "round {n}: {} bytes",
                log_bytes(&sim)
            );
            releases.append(&mut sim.releases);
            if Some(n) == killed_at {
                let committed = releases.last().map_or(0, |release| release.sequence);
                sim = sim.reopen(SETUP, committed);
                assert_eq!(
                    sim.conservation().recovered.n_traces,
                    sim.conservation().pending.n_traces
                );
            }
        }
        assert!(spans_of_long(&releases).is_empty());
        sim.send(&[root(1, 0x10)]).unwrap();
        sim.tick_after(1);
        releases.append(&mut sim.releases);
        assert_eq!(spans_of_long(&releases), [0x10, 0x11, 0x12, 0x13]);
        let mut decided = releases.iter().flat_map(|release| &release.decided);
        assert!(decided.all(|trace| trace.trigger.as_str() != "disk"));
        sim.tick_after(10);
        assert_eq!(sim.conservation().pending, Amount::default());
    }
}

/// Scenario: a trace without a root is carried, and then the process is killed.
/// Guarantee: it waits from its first span on, not from the restart or the copy.
#[test]
fn a_carried_trace_is_due_when_it_was() {
    let mut sim = Sim::new(SETUP);
    sim.send(&[child(1, 0x11, 0x10)]).unwrap();
    let due = sim.now + 10 * SECOND;
    for n in 1..=80 {
        round(&mut sim, n);
    }
    assert!(log_bytes(&sim) < 40 * 1024);
    let committed = sim.releases.last().map_or(0, |release| release.sequence);
    let mut sim = sim.reopen(SETUP, committed);
    sim.releases.clear();
    sim.now = due - SECOND;
    sim.apply(Input::Tick);
    assert!(spans_of_long(&sim.releases).is_empty());
    sim.now = due + SECOND;
    sim.apply(Input::Tick);
    assert_eq!(spans_of_long(&sim.releases), [0x11]);
    let decided = sim.releases.iter().flat_map(|release| &release.decided);
    let long = decided
        .into_iter()
        .find(|trace| trace.trace_id == otlp::testing::tid(1))
        .unwrap();
    assert_eq!(long.summary.first_seen_unix_nano + 10 * SECOND, due);
}

/// Scenario: only what no trace decides comes in, long after the last decision.
/// Guarantee: the decision that holds the sequence does not keep the log.
#[test]
fn the_last_decision_does_not_keep_the_log() {
    let mut sim = Sim::new(SETUP);
    sim.send(&[root(1, 0x10)]).unwrap();
    sim.tick_after(1);
    sim.apply(Input::Released(1));
    for _ in 0..100 {
        sim.fill(2000);
        sim.tick_after(0);
        assert!(sim.gate.pass().is_ok());
    }
    assert!(log_bytes(&sim) < 40 * 1024, "{} bytes", log_bytes(&sim));
    // And the sequence goes on, although storage knows nothing of it.
    let mut sim = sim.reopen(SETUP, 0);
    sim.send(&[root(2, 0x10)]).unwrap();
    sim.tick_after(1);
    assert_eq!(sim.releases[0].sequence, 2);
}
