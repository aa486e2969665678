//! The route of spans through the core without failures, and the limits on it.

use std::time::Duration;

use expect_test::{Expect, expect};
use otlp::export::{Limits, SpanAt};

use super::harness::{
    ALL, ERRORS, RESOURCE_SCHEMA_URL, SCOPE_SCHEMA_URL, Setup, Sim, child, export, print, request,
    root,
};
use crate::{
    config::{Shutdown, SyncPolicy},
    ingest::Input,
    metrics::Amount,
    status::{Overload, Refusal},
};

fn check(sim: &Sim, releases: Expect) {
    releases.assert_eq(&print(&sim.releases));
    sim.conservation();
}

#[test]
fn a_sampled_trace_is_released_whole_and_another_with_root_and_request_spans() {
    let mut sim = Sim::new(Setup::default());
    sim.send(&[
        child(1, 0x11, 0x10),
        request(2, 0x22, 0x20),
        child(2, 0x21, 0x20),
    ])
    .unwrap();
    sim.send(&[root(1, 0x10), child(1, 0x12, 0x10).error(), root(2, 0x20)])
        .unwrap();
    sim.tick_after(1);
    check(
        &sim,
        expect![[r#"
            release 1
              trace 01 sampled policy=errors trigger=root_ended count=Some(1.0) spans=3 bytes=188 orphans=0 services=["vllm"]
                11 child
                10 root root
                12 child
              trace 02 not_sampled policy=- trigger=root_ended count=None spans=3 bytes=190 orphans=0 services=["vllm"]
                22 llm_request request
                20 root root
        "#]],
    );
    assert_eq!(sim.conservation().pending, Amount::default());
}

#[test]
fn released_bytes_are_the_bytes_that_were_sent() {
    let mut sim = Sim::new(Setup {
        policies: ALL,
        ..Setup::default()
    });
    let spans = [root(1, 0x10), child(2, 0x20, 0x2f), child(1, 0x11, 0x10)];
    sim.send(&spans).unwrap();
    sim.tick_after(20);
    let released = sim.releases.iter().flat_map(|release| &release.decided);
    let released: Vec<SpanAt<'_>> = released
        .flat_map(|trace| &trace.spans)
        .map(|span| span.at())
        .collect();
    let body = export(&spans);
    let mut sent: Vec<Vec<u8>> = otlp::export::spans(&body, &Limits::default())
        .map(|at| at.unwrap().span.to_vec())
        .collect();
    let mut bytes: Vec<Vec<u8>> = released.iter().map(|at| at.span.to_vec()).collect();
    sent.sort();
    bytes.sort();
    assert_eq!(bytes, sent);
    for at in released {
        assert_eq!(at.resource_schema_url, RESOURCE_SCHEMA_URL);
        assert_eq!(at.scope_schema_url, SCOPE_SCHEMA_URL);
        assert_eq!(otlp::scope::read(at.scope).unwrap().name, "test");
        assert!(!at.resource.is_empty());
    }
}

#[test]
fn late_spans_follow_the_decision_and_leave_what_has_a_row() {
    let mut sim = Sim::new(Setup::default());
    sim.send(&[root(1, 0x10).error(), root(2, 0x20)]).unwrap();
    sim.tick_after(1);
    sim.releases.clear();
    sim.send(&[
        child(1, 0x11, 0x10),
        child(2, 0x21, 0x20),
        request(2, 0x22, 0x20),
    ])
    .unwrap();
    sim.tick_after(1);
    check(
        &sim,
        expect![[r#"
            release 2
              late of 01 sampled: 11 child
              late of 02 not_sampled: 22 llm_request request
        "#]],
    );
    assert_eq!(sim.conservation().late.n_spans, 3);
}

#[test]
fn nothing_due_is_no_release() {
    let mut sim = Sim::new(Setup::default());
    sim.tick_after(1);
    sim.send(&[child(1, 0x11, 0x10)]).unwrap();
    sim.tick_after(1);
    check(&sim, expect![""]);
    assert_eq!(sim.conservation().pending.n_traces, 1);
}

#[test]
fn a_group_is_answered_only_when_it_is_flushed() {
    let mut sim = Sim::new(Setup::default());
    let mut first = sim.queue(&[root(1, 0x10)]);
    let mut second = sim.queue(&[root(2, 0x20)]);
    assert!(first.try_recv().is_err(), "not answered before the flush");
    sim.settle();
    assert!(matches!(first.try_recv(), Ok(Ok(()))));
    assert!(matches!(second.try_recv(), Ok(Ok(()))));
}

#[test]
fn segments_are_deleted_after_the_commit_and_not_before() {
    let setup = Setup {
        policies: ALL,
        segment_bytes: 4096,
        ..Setup::default()
    };
    let mut sim = Sim::new(setup);
    for trace in 1..=100 {
        sim.send(&[root(trace, 0x10), child(trace, 0x11, 0x10)])
            .unwrap();
    }
    let n_segments = |sim: &Sim| {
        let files = sim.disk.files();
        files.keys().filter(|path| !path.ends_with("LOCK")).count()
    };
    let n_filled = n_segments(&sim);
    assert!(n_filled > 3, "the scenario fills segments, has {n_filled}");
    sim.tick_after(1);
    assert!(n_segments(&sim) >= n_filled, "released, not committed");
    sim.apply(Input::Released(1));
    assert!(n_segments(&sim) <= 2, "committed, has {}", n_segments(&sim));

    // The sequence goes on although the decided traces are gone from the log.
    let mut sim = sim.reopen(setup, 1);
    sim.send(&[root(101, 0x10)]).unwrap();
    sim.tick_after(1);
    assert_eq!(
        sim.releases
            .iter()
            .map(|release| release.sequence)
            .collect::<Vec<_>>(),
        [2]
    );
    sim.conservation();
}

/// A table that had no rows has no commit, so the next process can be told of less than was committed.
#[test]
fn the_sequence_goes_on_where_storage_knows_less_than_it_committed() {
    let setup = Setup {
        policies: ALL,
        segment_bytes: 4096,
        ..Setup::default()
    };
    let mut sim = Sim::new(setup);
    sim.send(&[root(1, 0x10)]).unwrap();
    sim.tick_after(1);
    sim.apply(Input::Released(1));
    // The next trace is in a segment of its own: nothing but the sequence keeps the first one.
    sim.fill(4096);
    sim.send(&[root(2, 0x20)]).unwrap();
    sim.tick_after(0);
    let mut sim = sim.reopen(setup, 0);
    sim.releases.clear();
    sim.tick_after(1);
    check(
        &sim,
        expect![[r#"
            release 2
              trace 02 sampled policy=all trigger=root_ended count=Some(1.0) spans=1 bytes=54 orphans=0 services=["vllm"]
                20 root root
        "#]],
    );
}

#[test]
fn a_late_span_after_a_restart_follows_the_recorded_decision() {
    let mut sim = Sim::new(Setup::default());
    sim.send(&[root(1, 0x10).error()]).unwrap();
    sim.tick_after(1);
    let mut sim = sim.reopen(Setup::default(), 1);
    assert!(
        sim.releases.is_empty(),
        "committed releases are not repeated"
    );
    sim.send(&[child(1, 0x11, 0x10)]).unwrap();
    sim.tick_after(1);
    check(
        &sim,
        expect![[r#"
            release 2
              late of 01 sampled: 11 child
        "#]],
    );
}

#[test]
fn a_lost_log_beside_old_tables_goes_on_after_their_sequence() {
    let mut sim = Sim::new(Setup::default()).reopen(Setup::default(), 41);
    sim.send(&[root(1, 0x10)]).unwrap();
    sim.tick_after(1);
    assert_eq!(sim.releases[0].sequence, 42);
}

#[test]
fn shutdown_keeps_undecided_traces_for_the_next_start() {
    let mut sim = Sim::new(Setup::default());
    sim.send(&[child(1, 0x11, 0x10).error()]).unwrap();
    sim.apply(Input::Shutdown);
    assert!(sim.ingest.is_stopped());
    assert!(sim.releases.is_empty());
    let mut sim = sim.reopen(Setup::default(), 0);
    assert_eq!(sim.conservation().recovered.n_spans, 1);
    sim.send(&[root(1, 0x10)]).unwrap();
    sim.tick_after(1);
    check(
        &sim,
        expect![[r#"
            release 1
              trace 01 sampled policy=errors trigger=root_ended count=Some(1.0) spans=2 bytes=123 orphans=0 services=["vllm"]
                11 child
                10 root root
        "#]],
    );
}

#[test]
fn shutdown_decides_undecided_traces_where_configured() {
    let mut sim = Sim::new(Setup {
        shutdown: Shutdown::Decide,
        ..Setup::default()
    });
    sim.send(&[child(1, 0x11, 0x10).error()]).unwrap();
    sim.apply(Input::Shutdown);
    check(
        &sim,
        expect![[r#"
            release 1
              trace 01 sampled policy=errors trigger=shutdown count=Some(1.0) spans=1 bytes=69 orphans=1 services=["vllm"]
                11 child
        "#]],
    );
}

#[test]
fn a_full_disk_refuses_and_the_decision_waits_for_room() {
    let mut sim = Sim::new(Setup::default());
    sim.send(&[root(1, 0x10).error()]).unwrap();
    let used: usize = sim.disk.files().values().map(Vec::len).sum();
    sim.disk.set_capacity(Some(used));
    let refused = sim.send(&[root(2, 0x20)]);
    assert!(
        matches!(refused, Err(Refusal::Overloaded(Overload::DiskFull))),
        "{refused:?}"
    );
    sim.tick_after(1);
    check(&sim, expect![""]);
    assert!(matches!(
        sim.gate.pass(),
        Err(Refusal::Overloaded(Overload::DiskFull))
    ));
    assert!(sim.gate.failure().is_none(), "a full disk passes");
    sim.disk.set_capacity(None);
    sim.tick_after(1);
    check(
        &sim,
        expect![[r#"
            release 1
              trace 01 sampled policy=errors trigger=root_ended count=Some(1.0) spans=1 bytes=58 orphans=0 services=["vllm"]
                10 root root
        "#]],
    );
    sim.send(&[root(2, 0x20)]).unwrap();
    assert!(sim.gate.pass().is_ok());
}

#[test]
fn of_a_group_that_a_full_disk_cuts_what_is_in_the_log_is_acknowledged_and_nothing_else() {
    for sync in [
        SyncPolicy::Always,
        SyncPolicy::Interval(Duration::from_secs(1)),
    ] {
        let setup = Setup {
            segment_bytes: 4096,
            sync,
            ..Setup::default()
        };
        let mut sim = Sim::new(setup);
        // The first segment of the group has room, the second has not.
        sim.disk.set_capacity(Some(5000));
        let replies: Vec<_> = (1..=30)
            .map(|trace| sim.queue(&[root(trace, 0x10)]))
            .collect();
        sim.settle();
        let n_acknowledged = replies
            .into_iter()
            .filter_map(|mut reply| reply.try_recv().unwrap().ok())
            .count() as u64;
        assert!((1..30).contains(&n_acknowledged), "{n_acknowledged} of 30");
        let left = if sync == SyncPolicy::Always {
            sim.disk.after_power_failure(7)
        } else {
            sim.disk.after_kill()
        };
        sim.tick_after(0);
        assert_eq!(sim.conservation().received.n_spans, n_acknowledged);
        left.set_capacity(None);
        let sim = Sim::open(setup, left, 0, sim.now).unwrap();
        assert_eq!(
            sim.conservation().recovered.n_spans,
            n_acknowledged,
            "synced {sync:?}"
        );
    }
}

#[test]
fn a_log_over_its_limit_refuses_until_commits_give_room() {
    let setup = Setup {
        policies: ALL,
        segment_bytes: 4096,
        log_bytes_max: 8192,
        ..Setup::default()
    };
    let mut sim = Sim::new(setup);
    for trace in 1..=200 {
        sim.send(&[root(trace, 0x10)]).unwrap();
    }
    sim.tick_after(1);
    assert!(matches!(
        sim.gate.pass(),
        Err(Refusal::Overloaded(Overload::LogBytes))
    ));
    sim.apply(Input::Released(1));
    sim.tick_after(1);
    assert!(sim.gate.pass().is_ok());
}

#[test]
fn a_failed_sync_closes_the_intake_until_a_restart() {
    let mut sim = Sim::new(Setup::default());
    sim.send(&[root(1, 0x10)]).unwrap();
    sim.disk
        .fail_call(sim.disk.n_calls(), wal::sim::Fault::Broken);
    sim.tick_after(0);
    assert!(
        sim.gate
            .failure()
            .is_some_and(|reason| reason.contains("sync"))
    );
    assert!(matches!(
        sim.send(&[root(2, 0x20)]),
        Err(Refusal::Unavailable)
    ));
    sim.tick_after(5);
    assert!(sim.releases.is_empty(), "no decision without a record");
    let mut sim = sim.reopen(
        Setup {
            policies: ERRORS,
            ..Setup::default()
        },
        0,
    );
    sim.tick_after(5);
    assert_eq!(sim.releases.len(), 1);
    sim.conservation();
}

#[test]
fn sync_before_each_answer_survives_a_power_failure() {
    let setup = Setup {
        sync: SyncPolicy::Always,
        ..Setup::default()
    };
    let mut sim = Sim::new(setup);
    sim.send(&[root(1, 0x10)]).unwrap();
    let disk = sim.disk.after_power_failure(7);
    let sim = Sim::open(setup, disk, 0, sim.now).unwrap();
    assert_eq!(sim.conservation().recovered.n_spans, 1);
}

/// Two decisions are remembered. A late span keeps the first in memory, where a replay, which does not observe
/// late spans, keeps the second.
#[test]
fn a_trace_that_was_decided_again_is_decided_again_by_a_replay() {
    let setup = Setup {
        policies: "{decision_wait: 10s, decision_wait_after_root_received: 1s, \
             decision_cache: {sampled_cache_size: 2, non_sampled_cache_size: 2}, \
             policies: [{name: all, type: always_sample}]}",
        ..Setup::default()
    };
    let mut sim = Sim::new(setup);
    for (trace, late) in [(1, None), (2, Some(1)), (3, None)] {
        sim.send(&[root(trace, 0x10)]).unwrap();
        if let Some(late) = late {
            sim.send(&[child(late, 0x11, 0x10)]).unwrap();
        }
        sim.tick_after(1);
    }
    sim.send(&[child(2, 0x12, 0x10)]).unwrap();
    sim.tick_after(10);
    let before = print(&sim.releases);
    assert!(before.contains("release 4\n  trace 02"), "{before}");
    let mut sim = sim.reopen(setup, 0);
    sim.tick_after(10);
    assert_eq!(print(&sim.releases), before);
    sim.conservation();
}
