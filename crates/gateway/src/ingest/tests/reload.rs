//! Other policies while traces are undecided.

use tokio::sync::oneshot;

use super::harness::{ALL, ERRORS, Setup, Sim, child, print, request, root};
use crate::{Reloaded, ingest::Input};

/// What the core answers to a reload.
fn reload(sim: &mut Sim, policies: &str) -> Result<Reloaded, sampler::Error> {
    let config: sampler::Config = serde_saphyr::from_str(policies).unwrap();
    let (reply, mut replied) = oneshot::channel();
    sim.apply(Input::Reload(Box::new(config), reply));
    replied.try_recv().expect("a reload is answered")
}

#[test]
fn undecided_traces_are_judged_by_the_policies_in_force_at_their_decision() {
    let mut sim = Sim::new(Setup::default());
    sim.send(&[root(1, 0x10), child(1, 0x11, 0x10)]).unwrap();
    sim.tick_after(1);
    sim.send(&[root(2, 0x10), child(3, 0x11, 0x10)]).unwrap();
    sim.send(&[request(2, 0x12, 0x10)]).unwrap();
    // It waits for its group, and is settled first.
    drop(sim.queue(&[child(3, 0x12, 0x10)]));
    let reloaded = reload(&mut sim, ALL).unwrap();
    assert_eq!((reloaded.n_traces, reloaded.n_spans), (2, 4));
    assert!(reloaded.bytes_read > 100, "{reloaded:?}");
    // A late span follows the decision of before.
    sim.send(&[child(1, 0x13, 0x10).error()]).unwrap();
    sim.tick_after(1);
    sim.tick_after(9);
    expect_test::expect![[r#"
        release 1
          trace 01 not_sampled policy=- trigger=root_ended count=None spans=2 bytes=119 orphans=0 services=["vllm"]
            10 root root
        release 2
          trace 02 sampled policy=all trigger=root_ended count=Some(1.0) spans=2 bytes=125 orphans=0 services=["vllm"]
            10 root root
            12 llm_request request
        release 3
          trace 03 sampled policy=all trigger=waited count=Some(1.0) spans=2 bytes=130 orphans=2 services=["vllm"]
            11 child
            12 child
    "#]]
    .assert_eq(&print(&sim.releases));
    sim.conservation();
    let text = sim.metrics.render_prometheus();
    for policy in ["errors", "all"] {
        assert!(
            text.contains(&format!("policy=\"{policy}\"")),
            "{policy}: {text}"
        );
    }
}

#[test]
fn policies_that_are_refused_leave_those_of_before_in_force() {
    let mut sim = Sim::new(Setup::default());
    sim.send(&[root(1, 0x10), child(1, 0x11, 0x10).error()])
        .unwrap();
    let refused = reload(&mut sim, "{policies: []}").unwrap_err();
    assert!(matches!(refused, sampler::Error::NoPolicies), "{refused}");
    sim.tick_after(1);
    assert_eq!(sim.releases[0].decided[0].policy.as_deref(), Some("errors"));
    assert!(sim.gate.failure().is_none());
}

#[test]
fn a_start_after_a_kill_judges_by_what_the_file_says_then() {
    let setup = |policies| Setup {
        policies,
        ..Setup::default()
    };
    for (reloaded_to, file) in [(ALL, ALL), (ERRORS, ERRORS), (ALL, ERRORS), (ERRORS, ALL)] {
        let mut sim = Sim::new(setup(ERRORS));
        sim.send(&[root(1, 0x10), child(1, 0x11, 0x10)]).unwrap();
        reload(&mut sim, reloaded_to).unwrap();
        let mut sim = sim.reopen(setup(file), 0);
        sim.tick_after(1);
        let is_kept = file == ALL;
        assert_eq!(sim.releases[0].decided[0].policy.is_some(), is_kept);
        sim.conservation();
    }
}

#[test]
fn undecided_spans_that_cannot_be_read_back_close_the_intake_and_come_with_the_next_start() {
    let mut sim = Sim::new(Setup::default());
    sim.send(&[root(1, 0x10), child(2, 0x11, 0x10)]).unwrap();
    sim.send(&[root(3, 0x10)]).unwrap();
    let whole = sim.disk.files();
    let (path, bytes) = whole.iter().next().expect("a segment");
    let mut torn = bytes.clone();
    let last = torn.iter().rposition(|byte| *byte != 0).unwrap();
    torn[last] ^= 1;
    sim.disk.put_file(path.clone(), torn);
    reload(&mut sim, ALL).unwrap();
    assert!(sim.gate.failure().is_some());
    sim.tick_after(60);
    assert!(sim.releases.is_empty(), "nothing is decided on a part");
    sim.disk.put_file(path.clone(), bytes.clone());
    let mut sim = sim.reopen(Setup::default(), 0);
    sim.tick_after(60);
    assert_eq!(sim.releases[0].decided.len(), 3);
}
