//! Spans that come again: a sender whose answer was lost, two collectors with the same span.
//!
//! Guarantee: each span is released once, whenever its copies come and wherever the process is killed, as long as the
//! log holds the first one or it is remembered; and copies are counted as copies.

use expect_test::expect;

use super::harness::{ALL, Setup, Sim, child, print, request, root};
use crate::{ingest::Input, metrics::Amount};

#[test]
fn copies_before_and_after_the_decision_are_released_once_and_counted() {
    let mut sim = Sim::new(Setup::default());
    let spans = [root(1, 0x10).error(), request(1, 0x11, 0x10)];
    // Twice in one request, then the request again.
    sim.send(&[spans.clone(), spans.clone()].concat()).unwrap();
    sim.send(&spans).unwrap();
    sim.tick_after(1);
    sim.send(&spans).unwrap();
    let late = child(1, 0x12, 0x10);
    sim.send(&[late.clone(), late.clone()]).unwrap();
    sim.tick_after(1);
    sim.send(&[late]).unwrap();
    sim.tick_after(1);
    expect![[r#"
        release 1
          trace 01 sampled policy=errors trigger=root_ended count=Some(1.0) spans=2 bytes=129 orphans=0 services=["vllm"]
            10 root root
            11 llm_request request
        release 2
          late of 01 sampled: 12 child
        release 3
    "#]]
    .assert_eq(&print(&sim.releases));
    let conservation = sim.conservation();
    assert_eq!(conservation.received.n_spans, 11);
    assert_eq!(conservation.sampled.n_spans, 2);
    assert_eq!(conservation.late.n_spans, 1);
    assert_eq!(conservation.duplicate.n_spans, 8);
    assert_eq!(conservation.pending, Amount::default());
}

#[test]
fn a_version_with_an_error_is_released_in_place_of_the_first() {
    let setup = Setup {
        segment_bytes: 4096,
        ..Setup::default()
    };
    let mut sim = Sim::new(setup);
    sim.send(&[root(1, 0x10), root(2, 0x20), root(2, 0x20).error()])
        .unwrap();
    sim.tick_after(0);
    sim.fill(4096);
    sim.send(&[root(1, 0x10).error()]).unwrap();
    let mut sim = sim.reopen(setup, 0);
    sim.tick_after(1);
    let [release] = sim.releases.as_slice() else {
        panic!("one release: {:?}", sim.releases)
    };
    for trace in &release.decided {
        let [span] = trace.spans.as_slice() else {
            panic!("one span: {trace:?}")
        };
        let summary = otlp::span::SpanSummary::read(span.at().span).unwrap();
        assert_eq!(summary.status_code, otlp::span::StatusCode::Error);
    }
    assert_eq!(release.decided.len(), 2);
    sim.conservation();
}

/// Kills the process after each step; copies that a record names are not taken for spans by the next one, although
/// the first ones left the log with their segment.
#[test]
fn a_kill_between_copies_releases_nothing_twice() {
    let setup = Setup {
        policies: ALL,
        segment_bytes: 4096,
        ..Setup::default()
    };
    for killed_after in 0..6 {
        let mut sim = Sim::new(setup);
        let mut committed = 0;
        let mut seen = Vec::new();
        for step in 0..6 {
            match step {
                0 => sim.send(&[root(1, 0x10), child(1, 0x11, 0x10)]).unwrap(),
                1 => sim.send(&[root(1, 0x10), child(1, 0x11, 0x10)]).unwrap(),
                2 => sim.tick_after(1),
                3 => {
                    sim.send(&[root(1, 0x10)]).unwrap();
                    sim.tick_after(1);
                }
                4 => {
                    committed = 1;
                    sim.apply(Input::Released(committed));
                    // The segment with the first copies goes.
                    sim.fill(4096);
                    sim.send(&[child(1, 0x11, 0x10)]).unwrap();
                    sim.tick_after(1);
                }
                _ => {
                    sim.fill(4096);
                    sim.tick_after(1);
                }
            }
            if step == killed_after {
                seen.append(&mut sim.releases);
                sim = sim.reopen(setup, committed);
            }
        }
        seen.append(&mut sim.releases);
        sim.tick_after(60);
        seen.append(&mut sim.releases);
        seen.sort_by_key(|release| release.sequence);
        seen.dedup_by_key(|release| release.sequence);
        let spans = seen.iter().flat_map(|release| &release.decided);
        let n_spans: usize = spans.map(|trace| trace.spans.len()).sum();
        let n_late: usize = seen.iter().map(|release| release.late.len()).sum();
        assert_eq!(
            (n_spans, n_late),
            (2, 0),
            "killed after step {killed_after}"
        );
        sim.conservation();
    }
}
