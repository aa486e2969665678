//! What happens before a limit is reached, and at it.

use std::collections::BTreeMap;

use otlp::span::SpanSummary;

use super::harness::{ALL, Setup, Sim, child, number_of, root};
use crate::{
    ingest::Input,
    metrics::Amount,
    status::{Overload, Refusal},
};

/// Triggers of all released traces, each with the number of its traces.
fn triggers(sim: &Sim) -> Vec<(&'static str, usize)> {
    let mut triggers: Vec<(&'static str, usize)> = Vec::new();
    for trace in sim.releases.iter().flat_map(|release| &release.decided) {
        let trigger = trace.trigger.as_str();
        match triggers.iter_mut().find(|(known, _)| *known == trigger) {
            Some((_, n_traces)) => *n_traces += 1,
            None => triggers.push((trigger, 1)),
        }
    }
    triggers
}

/// Scenario: undecided traces fill the log.
/// Guarantee: the oldest are decided early, with the trigger `disk`, before anything is refused; the youngest are not.
#[test]
fn a_log_full_of_undecided_traces_decides_the_oldest_early_and_refuses_nothing() {
    let setup = Setup {
        policies: ALL,
        segment_bytes: 4096,
        log_bytes_max: 64 * 1024,
        ..Setup::default()
    };
    let mut sim = Sim::new(setup);
    for round in 0..25 {
        for trace in 1..=10 {
            let spans: Vec<_> = (0x11..0x21)
                .map(|id| child(round * 10 + trace, id, 0x10))
                .collect();
            sim.send(&spans).unwrap();
        }
        sim.tick_after(0);
        let committed = sim.releases.iter().map(|release| release.sequence).max();
        if let Some(committed) = committed {
            sim.apply(Input::Released(committed));
        }
        assert!(sim.gate.pass().is_ok(), "round {round}");
    }
    let decided = triggers(&sim);
    assert!(matches!(decided[..], [("disk", _)]), "{decided:?}");
    let conservation = sim.conservation();
    assert!(conservation.pending.n_traces > 0, "the youngest wait");
    // The same decisions are there after a restart, and no span twice.
    let n_pending = conservation.pending;
    let sim = sim.reopen(setup, i64::MAX);
    assert_eq!(sim.conservation().pending, n_pending);
}

/// Scenario: one long trace keeps too much of the log, and by its `trigger` rules it is due last.
/// Guarantee: it is decided early, and no other.
#[test]
fn a_long_trace_that_keeps_the_log_is_decided_early_and_not_those_due_before_it() {
    let setup = Setup {
        policies: "{trigger: {root_grace: 2s}, policies: [{name: all, type: always_sample}]}",
        segment_bytes: 4096,
        log_bytes_max: 64 * 1024,
        ..Setup::default()
    };
    let mut sim = Sim::new(setup);
    for round in 1..=100 {
        // Too many of its spans to be carried forward.
        let long: Vec<_> = (0..4)
            .map(|n| child(1, (round % 50) * 4 + n + 1, 0xff))
            .collect();
        sim.send(&long).unwrap();
        sim.send(&[root(round + 100, 0x10), child(round + 100, 0x11, 0x10)])
            .unwrap();
        sim.tick_after(1);
        if let Some(last) = sim.releases.last() {
            sim.apply(Input::Released(last.sequence));
        }
        assert!(sim.gate.pass().is_ok(), "round {round}");
    }
    assert_eq!(triggers(&sim), [("root_ended", 99), ("disk", 1)]);
}

/// Scenario: everything is decided, and storage does not commit.
/// Guarantee: nothing is decided early for the sake of the disk, since it would not help; exports are refused.
#[test]
fn a_log_full_of_what_storage_does_not_take_refuses_and_decides_nothing_early() {
    let mut sim = Sim::new(Setup {
        policies: ALL,
        segment_bytes: 4096,
        log_bytes_max: 32 * 1024,
        ..Setup::default()
    });
    let mut n_sent = 0;
    while sim.gate.pass().is_ok() {
        n_sent += 1;
        sim.send(&[root(n_sent, 0x10), child(n_sent, 0x11, 0x10)])
            .unwrap();
        sim.tick_after(1);
    }
    assert!(matches!(
        sim.gate.pass(),
        Err(Refusal::Overloaded(Overload::LogBytes))
    ));
    assert_eq!(triggers(&sim), [("root_ended", usize::from(n_sent))]);
}

/// Scenario: undecided traces take more heap than they may.
/// Guarantee: the oldest are decided early; where the decisions cannot be recorded, exports are refused until they can.
#[test]
fn too_much_heap_decides_the_oldest_early_and_refuses_where_that_does_not_help() {
    let mut sim = Sim::new(Setup {
        policies: ALL,
        pending_heap_bytes_max: 4096,
        ..Setup::default()
    });
    for trace in 1..=40 {
        sim.send(&[child(trace, 0x11, 0x10)]).unwrap();
    }
    sim.tick_after(0);
    let decided = triggers(&sim);
    assert!(matches!(decided[..], [("memory", 20..=35)]), "{decided:?}");
    let first = sim.releases[0].decided[0].trace_id;
    assert_eq!(first, otlp::testing::tid(1), "the oldest first");
    assert!(sim.gate.pass().is_ok());

    let used: usize = sim.disk.files().values().map(Vec::len).sum();
    for trace in 41..=80 {
        sim.send(&[child(trace, 0x11, 0x10)]).unwrap();
    }
    let full: usize = sim.disk.files().values().map(Vec::len).sum();
    assert!(full > used);
    sim.disk.set_capacity(Some(full));
    sim.tick_after(0);
    assert!(sim.gate.pass().is_err());
    sim.disk.set_capacity(None);
    sim.tick_after(0);
    assert!(sim.gate.pass().is_ok());
    sim.tick_after(60);
    assert_eq!(sim.conservation().pending, Amount::default());
}

/// Scenario (the log's part of C71): the disk is full again and again, at every place of a write; senders that are
/// refused send again, and so do some that were not.
/// Guarantee: what was acknowledged is released, everything once; the intake opens by itself when there is room.
#[test]
fn a_disk_that_is_full_now_and_then_loses_and_repeats_nothing() {
    let setup = Setup {
        policies: ALL,
        segment_bytes: 4096,
        ..Setup::default()
    };
    for seed in 0..40_usize {
        let mut sim = Sim::new(setup);
        let mut releases = Vec::new();
        let mut n_refused = 0;
        for trace in 1..=60_u8 {
            let spans = [root(trace, 0x10), child(trace, 0x11, 0x10)];
            let used: usize = sim.disk.files().values().map(Vec::len).sum();
            let room = (seed * 37 + usize::from(trace) * 101) % 700;
            sim.disk.set_capacity(Some(used + room));
            while sim.send(&spans).is_err() {
                n_refused += 1;
                let used: usize = sim.disk.files().values().map(Vec::len).sum();
                sim.disk
                    .set_capacity(Some(used + room + n_refused % 7 * 100));
                sim.tick_after(0);
            }
            if trace % 5 == 0 {
                sim.send(&spans).ok();
            }
            sim.tick_after(1);
            releases.append(&mut sim.releases);
            if trace % 8 == 0
                && let Some(last) = releases.last()
            {
                sim.apply(Input::Released(last.sequence));
            }
        }
        assert!(n_refused > 0, "seed {seed}: the disk was full");
        sim.disk.set_capacity(None);
        sim.tick_after(60);
        assert!(sim.gate.pass().is_ok() && sim.gate.failure().is_none());
        releases.append(&mut sim.releases);
        let conservation = sim.conservation();
        assert_eq!(conservation.pending, Amount::default());
        let mut times: BTreeMap<(u8, u8), usize> = BTreeMap::new();
        for span in releases
            .iter()
            .flat_map(|release| &release.decided)
            .flat_map(|trace| &trace.spans)
        {
            let at = span.at();
            let summary = SpanSummary::read(at.span).unwrap();
            let id = [
                number_of(summary.trace_id.as_bytes()),
                number_of(summary.span_id.as_bytes()),
            ];
            *times.entry((id[0], id[1])).or_default() += 1;
        }
        assert_eq!(times.len(), 120, "seed {seed}");
        assert!(times.values().all(|n_times| *n_times == 1), "seed {seed}");
    }
}
