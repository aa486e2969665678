//! `th` in the `tracestate` of released spans.

use otlp::span::SpanSummary;

use super::harness::{ALL, Setup, Sim, child, root};
use crate::{ReleasedSpan, release::Release};

/// A quarter, by randomness; the last 56 bits of every test's trace id pass it.
const QUARTER: &str = "{decision_wait: 10s, decision_wait_after_root_received: 1s, policies: [{name: quarter, \
     type: probabilistic, probabilistic: {sampling_percentage: 25, mode: equalizing}}]}";

/// The `tracestate` of each released span, late ones after a `|`.
fn trace_states(releases: &[Release]) -> String {
    let of = |span: &ReleasedSpan| {
        let span = span.at().span.to_vec();
        SpanSummary::read(&span).unwrap().trace_state.to_owned()
    };
    let decided = releases.iter().flat_map(|release| &release.decided);
    let spans: Vec<String> = decided.flat_map(|trace| &trace.spans).map(of).collect();
    let late = releases.iter().flat_map(|release| &release.late);
    let late: Vec<String> = late.map(|late| of(&late.span)).collect();
    format!("{} | {}", spans.join(" "), late.join(" "))
}

/// Scenario: a trace is chosen by a threshold; a span is late; the process is killed before anything is committed.
/// Guarantee: spans carry the threshold that is true of them, also when they are released again.
#[test]
fn a_threshold_is_written_erased_from_late_spans_and_the_same_after_a_kill() {
    let setup = Setup {
        policies: QUARTER,
        ..Setup::default()
    };
    let mut sim = Sim::new(setup);
    let spans = [
        root(1, 0x10).trace_state("v=1,ot=th:8"),
        child(1, 0x11, 0x10),
        child(1, 0x12, 0x10).trace_state("ot=th:e"),
    ];
    sim.send(&spans).unwrap();
    sim.tick_after(1);
    let late = [child(1, 0x13, 0x10).trace_state("ot=th:8,v=2")];
    sim.send(&late).unwrap();
    sim.tick_after(1);
    let want = "ot=th:c,v=1 ot=th:c ot=th:e | v=2";
    assert_eq!(trace_states(&sim.releases), want);
    let decided = &sim.releases[0].decided[0];
    assert_eq!(decided.adjusted_count, Some(4.0));
    let sim = sim.reopen(setup, 0);
    assert_eq!(trace_states(&sim.releases), want);
    sim.conservation();
}

#[test]
fn a_trace_that_is_kept_for_certain_keeps_its_tracestate() {
    let mut sim = Sim::new(Setup {
        policies: ALL,
        ..Setup::default()
    });
    let states = ["ot=th:8,v=1", "v=2,ot=th:8;rv:ffffffffffffff"];
    sim.send(&[root(1, 0x10).trace_state(states[0])]).unwrap();
    sim.tick_after(1);
    sim.send(&[child(1, 0x11, 0x10).trace_state(states[1])])
        .unwrap();
    sim.tick_after(1);
    assert_eq!(trace_states(&sim.releases), states.join(" | "));
    assert_eq!(sim.releases[0].decided[0].adjusted_count, Some(2.0));
}
