//! A stream of forty minutes through the core, in simulated time: the Collector's defaults, and `trigger` rules.

use std::time::Duration;

use expect_test::{Expect, expect};
use otlp::testing;

use super::harness::{SECOND, Setup, Sim, T0, child, print, root};
use crate::{
    config::SyncPolicy,
    ingest::Input,
    metrics::{self, Amount},
    release::Release,
};

const MINUTE: u64 = 60;
const STREAM_SECONDS: u64 = 40 * MINUTE;
/// Of the stream.
const TRACE: u32 = 1;
const ROOT: u32 = 0x10;

/// Kept is what took half an hour; otherwise the Collector's defaults.
const DEFAULTS: &str =
    "{policies: [{name: slow, type: latency, latency: {threshold_ms: 1800000}}]}";

/// The same with the trigger rules of `pipelines/local.yaml`.
const RULES: &str = "{trigger: {root_grace: 10s, idle: 5m, max_wait: 1h}, \
     policies: [{name: slow, type: latency, latency: {threshold_ms: 1800000}}]}";

fn setup(policies: &'static str) -> Setup {
    Setup {
        policies,
        segment_bytes: 16 * 1024,
        sync: SyncPolicy::Interval(Duration::from_secs(1)),
        // Less than comes in during the stream, so that its spans are carried forward.
        log_bytes_max: 128 * 1024,
        ..Setup::default()
    }
}

/// Sends one span of the stream, which began at `start_s` and ends now.
fn send_span(sim: &mut Sim, id: u32, start_s: u64, duration: Duration) {
    let span = testing::trace(TRACE)
        .service("agent")
        .span("step", duration);
    let span = span.at(Duration::from_secs(start_s)).id(id);
    let span = if id == ROOT {
        span.root()
    } else {
        span.parent(ROOT)
    };
    sim.send_export(span.build(), 1).unwrap();
}

/// Everything up to ten minutes after the end, with short traces all the time, and kills at these seconds. Gives what was
/// released, and the process at the end.
fn play(policies: &'static str, killed_at: &[u64]) -> (Vec<Release>, Sim) {
    let setup = setup(policies);
    let mut sim = Sim::new(setup);
    let mut releases = Vec::new();
    for seconds in (0..STREAM_SECONDS + 10 * MINUTE).step_by(10) {
        sim.now = T0 + seconds * SECOND;
        let id = u32::try_from(seconds / 10).unwrap() + 0x11;
        // A tool call each minute at first, then only each fourth.
        let each = if seconds < 10 * MINUTE {
            MINUTE
        } else {
            4 * MINUTE
        };
        if seconds < STREAM_SECONDS && seconds % each == 0 {
            send_span(&mut sim, id, seconds, Duration::from_millis(200));
        } else if seconds == STREAM_SECONDS {
            send_span(&mut sim, ROOT, 0, Duration::from_secs(STREAM_SECONDS));
        }
        let short = u8::try_from(seconds / 10 % 100).unwrap() + 100;
        let spans = (0x11..0x16).map(|id| child(short, id, 0x10));
        let spans: Vec<_> = spans.chain([root(short, 0x10)]).collect();
        sim.send(&spans).unwrap();
        sim.apply(Input::Tick);
        if let Some(last) = sim.releases.last() {
            sim.apply(Input::Released(last.sequence));
        }
        releases.append(&mut sim.releases);
        if killed_at.contains(&seconds) {
            let committed = releases
                .last()
                .map_or(0, |release: &Release| release.sequence);
            sim = sim.reopen(setup, committed);
        }
    }
    sim.conservation();
    let of_stream = |id: otlp::TraceId| id == testing::tid(TRACE);
    for release in &mut releases {
        release.decided.retain(|trace| of_stream(trace.trace_id));
        for trace in &mut release.decided {
            // In order of arrival, or of where they were carried to.
            trace.spans.sort_by_key(|span| span.at().span.to_vec());
        }
        release.late.retain(|late| of_stream(late.trace_id));
        release.sequence = 0;
    }
    releases.retain(|release| !release.decided.is_empty() || !release.late.is_empty());
    (releases, sim)
}

fn first_lines(releases: &[Release], want: Expect) {
    let text = print(releases);
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("trace "))
        .collect();
    want.assert_eq(&lines.join("\n").replace("  trace", "trace"));
}

#[test]
fn the_collectors_defaults_lose_the_end_of_a_stream_and_so_the_stream() {
    let (releases, sim) = play(DEFAULTS, &[]);
    first_lines(
        &releases,
        expect![[r#"
            trace 01 not_sampled policy=- trigger=waited count=None spans=1 bytes=64 orphans=1 services=["agent"]"#]],
    );
    let late = sim.conservation().late;
    assert_eq!(late.n_spans, 17, "all that followed, the slow root too");
    let n_released: usize = releases
        .iter()
        .flat_map(|release| &release.decided)
        .map(|trace| trace.spans.len())
        .sum();
    assert_eq!(n_released, 0);
}

#[test]
fn trigger_rules_keep_a_stream_whole_through_kills() {
    let (releases, sim) = play(RULES, &[]);
    first_lines(
        &releases,
        expect![[r#"
            trace 01 sampled policy=slow trigger=root_ended count=Some(1.0) spans=18 bytes=1142 orphans=0 services=["agent"]"#]],
    );
    let [release] = &releases[..] else {
        panic!("one release");
    };
    let trace = &release.decided[0];
    assert_eq!(trace.spans.len(), 18);
    assert_eq!(trace.summary.duration_ns(), STREAM_SECONDS * SECOND);
    assert_eq!(sim.conservation().late, Amount::default());
    assert!(sim.metrics.render_prometheus().contains(
        "sampler_traces_decided_total{decision=\"sampled\",policy=\"slow\",trigger=\"root_ended\"} 1"
    ));
    assert!(metrics::load(&sim.metrics.spans_carried) > 0);
    assert!(metrics::load(&sim.metrics.segments_deleted) > 5);

    let (after_kills, _) = play(RULES, &[420, 1_500, 2_400]);
    assert_eq!(print(&after_kills), print(&releases));
}

/// Scenario: a trace without a root goes silent; another goes on beyond the limit.
/// Guarantee: each is decided for its reason, which is recorded, also after a kill.
#[test]
fn silence_and_the_limit_are_recorded_as_triggers() {
    const SETUP: Setup = Setup {
        policies: "{trigger: {idle: 1m, max_wait: 3m}, policies: [{name: all, type: always_sample}]}",
        segment_bytes: 4096,
        sync: SyncPolicy::Always,
        shutdown: crate::config::Shutdown::Keep,
        log_bytes_max: u64::MAX,
        pending_heap_bytes_max: u64::MAX,
        release_backlog_spans_max: u64::MAX,
        is_exporting: false,
    };
    let mut sim = Sim::new(SETUP);
    sim.send(&[child(1, 0x11, 0x10)]).unwrap();
    for id in 0x11..0x20 {
        sim.send(&[child(2, id, 0x10)]).unwrap();
        sim.tick_after(30);
        if id == 0x13 {
            assert_eq!(sim.releases.len(), 1);
            sim = sim.reopen(SETUP, 0);
            assert_eq!(sim.releases.len(), 1, "released again");
        }
    }
    first_lines(
        &sim.releases,
        expect![[r#"
            trace 01 sampled policy=all trigger=idle count=Some(1.0) spans=1 bytes=65 orphans=1 services=["vllm"]
            trace 02 sampled policy=all trigger=max_wait count=Some(1.0) spans=6 bytes=390 orphans=6 services=["vllm"]"#]],
    );
}
