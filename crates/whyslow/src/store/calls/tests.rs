//! When rows of calls are written, in which order, and how often.

use std::time::Duration;

use arrow::array::AsArray as _;
use correlate::Call;
use otlp::export::{Limits, spans};
use otlp::testing::{Export, TimeSpan as _, trace};
use proptest::prelude::*;
use tables::requests::Request;

use super::{Calls, SETTLE, WAITING_MAX, nanos};
use crate::config::Correlate;
use crate::store::Written;

const SECOND: i64 = 1_000_000_000;

fn calls() -> Calls {
    Calls::new(&Correlate {
        stitch_wait: Duration::from_secs(30),
        ..Correlate::default()
    })
}

/// A call of a gateway with an id.
fn call(id: u32) -> Call {
    let export = trace(id).service("gateway").span("litellm_request", 10.s());
    let export = export.attribute("gen_ai.response.id", format!("chatcmpl-{id}").as_str());
    read(&export, |at| correlate::call(at).unwrap())
}

/// The engine request that answered it, in another trace.
fn request(id: u32) -> Request {
    let export = trace(1_000_000 + id)
        .service("vllm")
        .span("llm_request", 5.s());
    let export = export.at(1.s());
    let export = export.attribute("gen_ai.request.id", format!("chatcmpl-{id}").as_str());
    read(&export, |at| correlate::request(at).unwrap())
}

fn read<T>(export: &Export, read: impl Fn(&otlp::export::SpanAt<'_>) -> T) -> T {
    let body = export.build();
    let at = spans(&body, &Limits::default()).next().unwrap().unwrap();
    read(&at)
}

/// Whether each row restates an engine request.
fn wrappers(written: &[Written]) -> Vec<bool> {
    let batches = written.iter().filter_map(|written| written.rows.as_ref());
    let columns = batches.map(|batch| batch["wrapper"].as_boolean().clone());
    columns
        .flat_map(|column| {
            (0..column.len())
                .map(|row| column.value(row))
                .collect::<Vec<_>>()
        })
        .collect()
}

fn sequences(written: &[Written]) -> Vec<i64> {
    written.iter().map(|written| written.sequence).collect()
}

#[test]
fn a_call_waits_for_its_engine_request_and_then_for_other_choices() {
    let mut calls = calls();
    calls.take(1, vec![call(1)], 0);
    assert!(calls.write(false, SECOND).is_empty());
    calls.stitching.take_request(&request(1), 2 * SECOND);
    assert!(
        calls.write(false, 3 * SECOND).is_empty(),
        "another choice may come"
    );
    assert_eq!(calls.n_waiting(), 1);
    let written = calls.write(false, 2 * SECOND + nanos(SETTLE));
    assert_eq!(wrappers(&written), [true]);
    assert_eq!((calls.n_waiting(), calls.appended()), (0, 1));
}

#[test]
fn a_call_whose_engine_request_was_there_before_waits_no_longer() {
    let mut calls = calls();
    calls.stitching.take_request(&request(1), 0);
    calls.take(1, vec![call(1)], 60 * SECOND);
    assert_eq!(wrappers(&calls.write(false, 60 * SECOND)), [true]);
}

#[test]
fn a_call_that_nobody_answers_is_written_after_its_wait() {
    let mut calls = calls();
    calls.take(1, vec![call(1)], 0);
    assert!(calls.write(false, 29 * SECOND).is_empty());
    assert_eq!(wrappers(&calls.write(false, 30 * SECOND)), [false]);
    // It is what it is, though the engine's account comes at last.
    calls.stitching.take_request(&request(1), 31 * SECOND);
    assert!(calls.write(true, 32 * SECOND).is_empty());
}

#[test]
fn releases_are_written_in_order_and_those_without_calls_pass() {
    let mut calls = calls();
    calls.take(1, Vec::new(), 0);
    assert_eq!(sequences(&calls.write(false, 0)), [1]);
    calls.take(2, vec![call(1)], 0);
    calls.take(3, Vec::new(), 0);
    calls.stitching.take_request(&request(2), 0);
    calls.take(4, vec![call(2)], 0);
    assert!(
        calls.write(false, 20 * SECOND).is_empty(),
        "the first waits"
    );
    let written = calls.write(false, 30 * SECOND);
    assert_eq!(sequences(&written), [2, 3, 4]);
    assert_eq!(wrappers(&written), [false, true]);
    assert_eq!(calls.appended(), 4);
}

#[test]
fn too_many_that_wait_are_written_with_what_is_known() {
    let mut calls = calls();
    let half = vec![call(1); WAITING_MAX / 2 + 1];
    calls.take(1, half.clone(), 0);
    calls.take(2, half, 0);
    let written = calls.write(false, 0);
    assert_eq!(sequences(&written).last(), Some(&1));
    assert_eq!(calls.n_waiting(), WAITING_MAX / 2 + 1);
}

/// What happens after some time, in seconds.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A release with these calls, of which each has an id of its own.
    Release(u32),
    /// The engine request of a call comes, if it has not yet.
    Request(u32),
    Write {
        is_urgent: bool,
    },
    /// The process ends; the next one is told again what was not committed. What was written last is lost or not.
    Kill {
        was_committed: bool,
    },
}

fn steps() -> impl Strategy<Value = Vec<(i64, Step)>> {
    let step = prop_oneof![
        4 => (0..3_u32).prop_map(Step::Release),
        6 => (0..12_u32).prop_map(Step::Request),
        4 => (0..10_u32).prop_map(|n| Step::Write { is_urgent: n == 0 }),
        1 => any::<bool>().prop_map(|was_committed| Step::Kill { was_committed }),
    ];
    prop::collection::vec((0..12_i64, step), 0..40)
}

/// One run, and what is committed in it.
struct Run {
    calls: Calls,
    now: i64,
    releases: Vec<(i64, Vec<u32>)>,
    /// When each engine request was told to this process, by the id of its call.
    told: Vec<Option<i64>>,
    committed: i64,
    /// Of each committed row: the id of its call, and whether it restates an engine request.
    stored: Vec<(u32, bool)>,
    /// Written and not committed.
    open: Vec<(i64, Vec<(u32, bool)>)>,
}

impl Run {
    fn write(&mut self, is_urgent: bool) {
        for written in self.calls.write(is_urgent, self.now) {
            let (_, ids) = &self.releases[usize::try_from(written.sequence - 1).unwrap()];
            let rows = wrappers(std::slice::from_ref(&written));
            let rows: Vec<(u32, bool)> = ids.iter().copied().zip(rows).collect();
            for (id, is_wrapper) in &rows {
                // A request that is known is linked.
                assert_eq!(*is_wrapper, self.told[*id as usize].is_some(), "{id}");
            }
            match self.open.last_mut() {
                Some((sequence, open)) if *sequence == written.sequence => open.extend(rows),
                _ => self.open.push((written.sequence, rows)),
            }
        }
    }

    fn commit(&mut self) {
        for (sequence, rows) in self.open.drain(..) {
            if sequence > self.committed {
                self.committed = sequence;
                self.stored.extend(rows);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Scenario: releases, engine requests and kills in any order; after a kill releases are repeated.
    /// Guarantee: each call has one row, in order of releases; it is linked exactly if its engine request was known.
    #[test]
    fn each_call_has_one_row_whatever_happens(steps in steps()) {
        let mut run = Run {
            calls: calls(),
            now: 0,
            releases: Vec::new(),
            told: vec![None; 128],
            committed: 0,
            stored: Vec::new(),
            open: Vec::new(),
        };
        let mut n_calls = 0;
        for (after, step) in steps {
            run.now += after * SECOND;
            match step {
                Step::Release(n) => {
                    let ids: Vec<u32> = (n_calls..n_calls + n).collect();
                    n_calls += n;
                    let sequence = i64::try_from(run.releases.len()).unwrap() + 1;
                    let taken = ids.iter().map(|id| call(*id)).collect();
                    run.calls.take(sequence, taken, run.now);
                    run.releases.push((sequence, ids));
                }
                Step::Request(id) => {
                    run.calls.stitching.take_request(&request(id), run.now);
                    let told = &mut run.told[id as usize];
                    *told = told.or(Some(run.now));
                }
                Step::Write { is_urgent } => run.write(is_urgent),
                Step::Kill { was_committed } => {
                    if was_committed {
                        run.commit();
                    }
                    run.open.clear();
                    run.calls = calls();
                    run.told = vec![None; 128];
                    for (sequence, ids) in &run.releases {
                        if *sequence > run.committed {
                            let taken = ids.iter().map(|id| call(*id)).collect();
                            run.calls.take(*sequence, taken, run.now);
                        }
                    }
                }
            }
            prop_assert!(run.now < 16 * 60 * SECOND, "nothing is forgotten in this time");
        }
        run.write(true);
        run.commit();
        let ids: Vec<u32> = run.stored.iter().map(|(id, _)| *id).collect();
        prop_assert_eq!(ids, (0..n_calls).collect::<Vec<_>>());
        prop_assert_eq!(run.calls.n_waiting(), 0);
    }
}
