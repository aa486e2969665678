//! Random spans, ticks and clock steps against a model.

use std::collections::HashMap;

use proptest::prelude::*;
use sampler::{Decided, Decision, Observed, Trigger};
use serde_json::json;

use crate::bytes::Span;
use crate::run::{MS, Run, T0, sampler_of};

const DECISION_WAIT_MS: u64 = 1_000;
const ROOT_WAIT_MS: u64 = 300;
const NUM_TRACES: u64 = 4;
const TRACE_BYTES_MAX: u64 = 300;

#[derive(Debug, Clone)]
enum Step {
    Span {
        trace: u64,
        is_root: bool,
        is_error: bool,
    },
    Tick {
        max_traces: usize,
    },
    Wait {
        ms: u64,
    },
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0_u64..8, prop::bool::weighted(0.2), prop::bool::weighted(0.1))
            .prop_map(|(trace, is_root, is_error)| Step::Span { trace, is_root, is_error }),
        3 => (0_usize..4).prop_map(|max_traces| Step::Tick { max_traces }),
        3 => (0_u64..400).prop_map(|ms| Step::Wait { ms }),
    ]
}

/// One pending trace as the model sees it.
#[derive(Debug, Clone, Default)]
struct Trace {
    due_ms: u64,
    handles: Vec<u64>,
    n_bytes: u64,
    is_error: bool,
    has_root_timer: bool,
}

#[derive(Debug, Default)]
struct Model {
    pending: HashMap<u64, Trace>,
    decided: HashMap<u64, Decision>,
}

impl Model {
    fn check_decided(&mut self, decided: &Decided, now_ms: u64) {
        let trace_number = u64::from(decided.trace_id.as_bytes()[15]);
        let trace = self.pending.remove(&trace_number).expect("it is pending");
        let handles: Vec<u64> = decided
            .spans
            .iter()
            .map(|span| span.handle.position)
            .collect();
        assert_eq!(handles, trace.handles);
        let is_too_large = trace.n_bytes > TRACE_BYTES_MAX;
        let want = if trace.is_error && !is_too_large {
            Decision::Sampled
        } else {
            Decision::NotSampled
        };
        assert_eq!(decided.decision, want);
        assert_eq!(decided.trigger == Trigger::TooLarge, is_too_large);
        match decided.trigger {
            Trigger::TooLarge => {}
            Trigger::Memory => assert!(self.pending.len() as u64 >= NUM_TRACES),
            Trigger::Waited => {
                assert!(!trace.has_root_timer);
                assert!(now_ms >= trace.due_ms);
            }
            Trigger::RootEnded => assert!(trace.has_root_timer && now_ms >= trace.due_ms),
            // What is due may wait for the rest of its bucket of timers.
            Trigger::Shutdown => assert!(now_ms < trace.due_ms + 68),
            Trigger::Idle
            | Trigger::MaxWait
            | Trigger::Matched
            | Trigger::Disk
            | Trigger::Late
            | Trigger::Linked
            | Trigger::Budget => {
                panic!("{:?}", decided.trigger)
            }
        }
        assert_eq!(
            self.decided.insert(trace_number, decided.decision),
            None,
            "decided twice"
        );
    }

    /// Returns whether the span is late.
    fn add(&mut self, step: (u64, bool, bool), n_bytes: u64, handle: u64, now_ms: u64) -> bool {
        let (number, is_root, is_error) = step;
        if self.decided.contains_key(&number) {
            return true;
        }
        let due_ms = now_ms + DECISION_WAIT_MS;
        let trace = self.pending.entry(number).or_insert_with(|| Trace {
            due_ms,
            ..Trace::default()
        });
        trace.handles.push(handle);
        trace.n_bytes += n_bytes;
        trace.is_error |= is_error;
        if is_root && now_ms + ROOT_WAIT_MS < trace.due_ms {
            trace.due_ms = now_ms + ROOT_WAIT_MS;
            trace.has_root_timer = true;
        }
        if trace.n_bytes > TRACE_BYTES_MAX {
            trace.due_ms = trace.due_ms.min(now_ms);
        }
        false
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever arrives and whenever it is asked: every span ends in exactly one decision or is
    /// late, every trace is decided once, never before it is due without a reason, and what is
    /// pending is counted right.
    #[test]
    fn every_span_ends_in_exactly_one_decision_or_is_late(
        steps in prop::collection::vec(any_step(), 1..120),
    ) {
        let policies = json!([{
            "name": "errors", "type": "status_code", "status_code": {"status_codes": ["ERROR"]}
        }]);
        let mut run = Run::new(sampler_of(policies, json!({
            "decision_wait": "1s",
            "decision_wait_after_root_received": "300ms",
            "num_traces": NUM_TRACES,
            "maximum_trace_size_bytes": TRACE_BYTES_MAX,
            "decision_cache": {"sampled_cache_size": 100, "non_sampled_cache_size": 100},
        })));
        let mut model = Model::default();
        let mut now_ms = 0;
        for step in steps {
            let mut out = Vec::new();
            match step {
                Step::Wait { ms } => now_ms += ms,
                Step::Tick { max_traces } => {
                    run.sampler.tick(T0 + now_ms * MS, max_traces, &mut out);
                    prop_assert!(out.len() <= max_traces);
                }
                Step::Span { trace, is_root, is_error } => {
                    let span = Span {
                        trace,
                        span_id: run.n_sent + 1,
                        parent: if is_root { 0 } else { 999 },
                        start_unix_nano: T0,
                        end_unix_nano: T0 + MS,
                        status: if is_error { 2 } else { 0 },
                        ..Span::default()
                    };
                    let n_bytes = span.encode().len() as u64;
                    let is_late = model.add((trace, is_root, is_error), n_bytes, run.n_sent, now_ms);
                    let observed = run.send(now_ms, &span);
                    let n_pending = model.pending.len() as u64;
                    match observed {
                        Observed::Late(decision, _) => {
                            prop_assert!(is_late);
                            prop_assert_eq!(decision, model.decided[&trace]);
                        }
                        Observed::Pending => prop_assert!(!is_late && n_pending <= NUM_TRACES),
                        Observed::Overflow => prop_assert!(!is_late && n_pending > NUM_TRACES),
                        Observed::Duplicate(version) => prop_assert!(false, "{:?}", version),
                    }
                }
            }
            for decided in &out {
                model.check_decided(decided, now_ms);
            }
            let stats = run.sampler.stats();
            let spans = model.pending.values().map(|trace| trace.handles.len() as u64);
            let bytes = model.pending.values().map(|trace| trace.n_bytes);
            prop_assert_eq!(stats.n_traces, model.pending.len() as u64);
            prop_assert_eq!(stats.n_spans, spans.sum::<u64>());
            prop_assert_eq!(stats.n_bytes, bytes.sum::<u64>());
        }
        let mut out = Vec::new();
        run.sampler.tick(T0 + now_ms * MS, usize::MAX, &mut out);
        prop_assert!(run.sampler.stats().n_traces <= NUM_TRACES);
        run.sampler.drain(T0 + now_ms * MS, &mut out);
        for decided in &out {
            model.check_decided(decided, now_ms);
        }
        prop_assert!(model.pending.is_empty());
    }
}
