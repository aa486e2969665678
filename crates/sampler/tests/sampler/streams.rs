//! A stream of forty minutes, in given time: what the Collector's defaults make of it, and what `trigger` does.

use sampler::{Decision, Observed, Trigger};
use serde_json::{Value as Json, json};

use crate::bytes::Span;
use crate::run::{MS, Run, T0, sampler_of};

const MINUTE_MS: u64 = 60_000;
const STREAM_MS: u64 = 40 * MINUTE_MS;
const ROOT: u64 = 1;

/// What is worth keeping of a service whose answers stream for minutes: those that took half an hour.
fn slow() -> Json {
    json!([{"name": "slow", "type": "latency", "latency": {"threshold_ms": 30 * MINUTE_MS}}])
}

/// Spans as they arrive: a tool call each half a minute to four minutes, and the root when all is said.
fn stream() -> Vec<(u64, Span)> {
    let mut spans = Vec::new();
    let mut at_ms = 0;
    for number in 2.. {
        let span = Span {
            trace: 1,
            span_id: number,
            parent: ROOT,
            start_unix_nano: T0 + at_ms * MS,
            end_unix_nano: T0 + (at_ms + 400) * MS,
            ..Span::default()
        };
        spans.push((at_ms + 1_000, span));
        at_ms += number * 30_000 % (4 * MINUTE_MS) + 30_000;
        if at_ms >= STREAM_MS {
            break;
        }
    }
    let root = Span {
        trace: 1,
        span_id: ROOT,
        start_unix_nano: T0,
        end_unix_nano: T0 + STREAM_MS * MS,
        ..Span::default()
    };
    spans.push((STREAM_MS + 1_000, root));
    spans
}

/// The stream with a tick each second; how many spans followed the decision, by whether they are kept.
fn play(keys: Json) -> (Run, u64, u64) {
    let mut run = Run::new(sampler_of(slow(), keys));
    let (mut n_kept_late, mut n_lost_late) = (0, 0);
    let spans = stream();
    let mut sent = spans.iter().peekable();
    for second in 0..=STREAM_MS / 1_000 + 600 {
        while let Some((at_ms, span)) = sent.next_if(|(at_ms, _)| *at_ms <= second * 1_000) {
            match run.send(*at_ms, span) {
                Observed::Late(Decision::Sampled, _) => n_kept_late += 1,
                Observed::Late(..) => n_lost_late += 1,
                Observed::Pending | Observed::Overflow | Observed::Duplicate(_) => {}
            }
        }
        run.tick(second * 1_000);
    }
    (run, n_kept_late, n_lost_late)
}

#[test]
fn the_collectors_defaults_lose_a_stream_of_forty_minutes() {
    for compat in ["none", "collector"] {
        let (run, n_kept_late, n_lost_late) = play(json!({"compat": compat}));
        let n_spans = stream().len() as u64;
        let first = &run.decided[0];
        // After 30 s there is the first span or two, 0.4 s long: nothing slow.
        assert_eq!(first.decision, Decision::NotSampled);
        assert_eq!((first.trigger, first.summary.n_roots), (Trigger::Waited, 0));
        assert_eq!(
            run.decided.len(),
            1,
            "the rest follows it, the slow root too"
        );
        assert_eq!(first.spans.len() as u64 + n_lost_late, n_spans);
        assert_eq!(n_kept_late, 0);
    }
}

#[test]
fn trigger_rules_keep_a_stream_of_forty_minutes_whole() {
    let (run, n_kept_late, n_lost_late) = play(json!({"trigger": {}}));
    assert_eq!((n_kept_late, n_lost_late), (0, 0));
    let [decided] = &run.decided[..] else {
        panic!("one decision: {:?}", run.decided);
    };
    assert_eq!(
        (decided.decision, decided.trigger),
        (Decision::Sampled, Trigger::RootEnded)
    );
    assert_eq!(decided.spans.len(), stream().len());
    assert_eq!(decided.summary.duration_ns(), STREAM_MS * MS);
    assert_eq!((decided.summary.n_roots, decided.summary.n_orphans), (1, 0));
    assert_eq!(decided.adjusted_count, Some(1.0));
}
