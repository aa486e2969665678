//! When the log is synced, and what its faults do.

use std::time::Duration;

use wal::sim::Fault;

use super::harness::{ALL, Setup, Sim, child, root};
use crate::{config::SyncPolicy, status::Refusal};

fn sim(sync: SyncPolicy) -> Sim {
    Sim::new(Setup {
        policies: ALL,
        sync,
        ..Setup::default()
    })
}

/// Calls that change or sync something on the disk while `work` is done.
fn n_calls(sim: &mut Sim, work: impl FnOnce(&mut Sim)) -> u64 {
    let before = sim.disk.n_calls();
    work(sim);
    sim.disk.n_calls() - before
}

#[test]
fn requests_that_wait_together_share_one_write_and_one_sync() {
    for (sync, n_expected) in [
        (SyncPolicy::Never, 1),
        (SyncPolicy::Interval(Duration::from_secs(1)), 1),
        (SyncPolicy::Always, 2),
    ] {
        let mut sim = sim(sync);
        let found = n_calls(&mut sim, |sim| {
            let mut replies: Vec<_> = (1..=100)
                .map(|trace| sim.queue(&[root(trace, 0x10)]))
                .collect();
            sim.settle();
            assert!(
                replies
                    .iter_mut()
                    .all(|reply| reply.try_recv().unwrap().is_ok())
            );
        });
        assert_eq!(found, n_expected, "{sync:?}");
    }
}

#[test]
fn without_a_decision_only_the_interval_syncs() {
    for (sync, n_expected) in [
        (SyncPolicy::Never, 0),
        (SyncPolicy::Interval(Duration::from_secs(5)), 2),
        (SyncPolicy::Always, 0),
    ] {
        let mut sim = sim(sync);
        sim.tick_after(0);
        sim.send(&[child(1, 0x11, 0x10)]).unwrap();
        let found = n_calls(&mut sim, |sim| {
            for _ in 0..9 {
                sim.tick_after(1);
                if sync == SyncPolicy::Interval(Duration::from_secs(5)) {
                    sim.fill(1);
                }
            }
        });
        // A fill is a write; it is there so that the interval finds something to sync.
        let n_writes = if n_expected > 0 { 9 } else { 0 };
        assert_eq!(found - n_writes, n_expected, "{sync:?}");
    }
}

#[test]
fn a_decision_is_synced_before_it_takes_effect_in_every_mode() {
    for sync in [
        SyncPolicy::Never,
        SyncPolicy::Interval(Duration::from_secs(3600)),
        SyncPolicy::Always,
    ] {
        let mut sim = sim(sync);
        sim.send(&[root(1, 0x10)]).unwrap();
        sim.tick_after(1);
        assert_eq!(sim.releases.len(), 1);
        for seed in 0..20 {
            let disk = sim.disk.after_power_failure(seed);
            let setup = Setup {
                policies: ALL,
                sync,
                ..Setup::default()
            };
            let again = Sim::open(setup, disk, 0, sim.now).unwrap();
            assert_eq!(again.releases.len(), 1, "{sync:?} seed {seed}");
            assert_eq!(again.conservation().pending.n_spans, 0);
        }
    }
}

/// Scenario: a write fails with an error other than a full disk, or a sync does.
/// Guarantee: the request is refused, retryable; so are all later ones, until a restart, which has what was acknowledged.
#[test]
fn a_failed_write_or_sync_refuses_everything_until_a_restart() {
    for call in 0..2 {
        let mut sim = sim(SyncPolicy::Always);
        sim.send(&[root(1, 0x10)]).unwrap();
        sim.disk.fail_call(sim.disk.n_calls() + call, Fault::Broken);
        assert!(matches!(
            sim.send(&[root(2, 0x10)]),
            Err(Refusal::Unavailable)
        ));
        let reason = sim.gate.failure().unwrap().to_owned();
        let operation = ["cannot write to", "cannot sync"][usize::try_from(call).unwrap()];
        assert!(reason.contains(operation), "{reason}");
        assert!(sim.gate.pass().is_err());
        assert!(sim.send(&[root(3, 0x10)]).is_err());
        assert!(Refusal::Unavailable.outward().retry_after.is_some());

        let setup = Setup {
            policies: ALL,
            ..Setup::default()
        };
        let mut sim = sim.reopen(setup, 0);
        sim.send(&[root(3, 0x10)]).unwrap();
        sim.tick_after(1);
        let decided = sim.releases.iter().flat_map(|release| &release.decided);
        let traces: Vec<_> = decided.map(|trace| trace.trace_id).collect();
        assert!(traces.contains(&otlp::testing::tid(1)), "{traces:?}");
        assert!(traces.contains(&otlp::testing::tid(3)), "{traces:?}");
    }
}
