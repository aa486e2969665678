//! The model keeps its own books, and each fault costs what it is meant to cost.

use std::{collections::BTreeMap, time::Duration};

use otlp::{
    export::{self, Limits, Signal},
    span::SpanSummary,
};

use super::{Cause, Config, Fault, FaultKind, Run, Target, engine::KV_TOKENS, simulate};

const LEAST: Duration = Duration::from_millis(400);

fn run(faults: &[Fault]) -> Run {
    simulate(&Config {
        faults: faults.to_vec(),
        ..Config::default()
    })
}

fn dominant(run: &Run) -> BTreeMap<Option<Cause>, usize> {
    let mut counts = BTreeMap::new();
    for served in &run.requests {
        *counts.entry(served.delays.dominant(LEAST)).or_default() += 1;
    }
    counts
}

#[test]
fn equal_configurations_give_equal_runs() {
    let faults = [Fault::slow(Cause::QueueBurst, 20, 40)];
    assert_eq!(run(&faults), run(&faults));
    let other = simulate(&Config {
        seed: 2,
        faults: faults.to_vec(),
        ..Config::default()
    });
    assert_ne!(run(&faults), other);
}

#[test]
fn without_a_fault_nobody_loses_time() {
    let counts = dominant(&run(&[]));
    assert_eq!(counts.keys().collect::<Vec<_>>(), [&None], "{counts:?}");
    assert!(counts[&None] > 500, "{counts:?}");
}

#[test]
fn each_fault_is_the_dominant_cause_of_many_and_of_nobody_outside_its_time() {
    for cause in Cause::ALL {
        let run = run(&[Fault::slow(cause, 60, 80), Fault::slow(cause, 120, 145)]);
        let counts = dominant(&run);
        let n_hit = counts.get(&Some(cause)).copied().unwrap_or(0);
        assert!(n_hit >= 10, "{cause:?}: {counts:?}");
        let n_other: usize = counts
            .iter()
            .filter(|(other, _)| **other != Some(cause) && other.is_some())
            .map(|(_, n)| n)
            .sum();
        // A fault may fill the queue as well, which is a cause of its own.
        assert!(n_other <= n_hit, "{cause:?}: {counts:?}");
        let first = Config::default().start_unix_nano + 55_000_000_000;
        let early = run.requests.iter().filter(|served| {
            let request = &served.request;
            let end = request.start_unix_nano
                + (request.queue + request.prefill + request.decode).as_nanos() as u64;
            end < first && served.delays.dominant(LEAST).is_some()
        });
        assert_eq!(early.count(), 0, "{cause:?}");
    }
}

#[test]
fn tokens_of_all_steps_are_those_of_the_requests_and_the_cache_never_overflows() {
    let run = run(&[Fault::slow(Cause::KvPreemption, 30, 90)]);
    let mut decoded: BTreeMap<usize, u64> = BTreeMap::new();
    for batch in &run.batches {
        assert!(batch.start_unix_nano < batch.end_unix_nano);
        assert!(batch.participants.len() <= 24);
        for (request, tokens) in &batch.participants {
            *decoded.entry(*request).or_default() += u64::from(*tokens);
        }
    }
    assert_eq!(decoded.len(), run.requests.len());
    let mut n_preempted = 0;
    for (place, served) in run.requests.iter().enumerate() {
        let once = u64::from(served.request.input_tokens + served.request.output_tokens) - 1;
        let computed = decoded[&place];
        if served.n_preemptions == 0 {
            assert_eq!(computed, once);
        } else {
            n_preempted += 1;
            assert!(computed > once);
        }
    }
    assert!(n_preempted > 5, "{n_preempted}");
    let usage = |text: &str| -> f64 {
        let line = text
            .lines()
            .find(|line| line.starts_with("vllm:kv_cache_usage_perc{"))
            .unwrap();
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    let engines = run
        .scrapes
        .iter()
        .filter(|scrape| matches!(scrape.target, Target::Engine { .. }));
    let most = engines
        .map(|scrape| usage(&scrape.text))
        .fold(0.0, f64::max);
    assert!((0.9..=1.0).contains(&most), "{most} of {KV_TOKENS}");
}

#[test]
fn batches_of_a_replica_do_not_overlap() {
    let run = run(&[Fault::slow(Cause::Xid, 30, 36)]);
    let mut last = BTreeMap::new();
    for batch in &run.batches {
        let end = last
            .insert(batch.replica_idx, batch.end_unix_nano)
            .unwrap_or(0);
        assert!(end <= batch.start_unix_nano);
    }
    assert_eq!(last.len(), 2);
}

#[test]
fn all_spans_are_well_formed_and_a_lost_context_leaves_the_engine_alone() {
    let faults = [Fault::other(FaultKind::ContextLost, 0, 30)];
    let config = Config {
        faults: faults.to_vec(),
        duration: Duration::from_secs(40),
        batch_spans: true,
        ..Config::default()
    };
    let run = simulate(&config);
    let (mut n_steps, mut n_alone, mut n_engine) = (0, 0, 0);
    for sent in &run.exports {
        let limits = Limits::default();
        let checked = export::check(Signal::Traces, &sent.body, &limits).unwrap();
        assert_eq!(
            (checked.n_items, checked.n_rejected),
            (u64::from(sent.n_spans), 0)
        );
        for at in export::spans(&sent.body, &limits) {
            let summary = SpanSummary::read(at.unwrap().span).unwrap();
            n_steps += usize::from(summary.name == "engine_step");
            n_engine += usize::from(summary.name == "llm_request");
            n_alone +=
                usize::from(summary.name == "llm_request" && summary.parent_span_id.is_none());
        }
    }
    assert_eq!(n_steps, run.batches.len());
    assert_eq!(n_engine, run.requests.len());
    let n_lost = run
        .requests
        .iter()
        .filter(|served| served.request.outside.context_lost)
        .count();
    assert!(n_lost > 50);
    assert_eq!(n_alone, n_lost);
}

#[test]
fn a_moved_pod_has_other_gpus_and_leaves_no_time_without() {
    let run = run(&[
        Fault::other(FaultKind::PodMoved, 90, 180),
        Fault::slow(Cause::ThermalThrottle, 100, 160),
    ]);
    let moved = Config::default().start_unix_nano + 90_000_000_000;
    let (before, after): (Vec<_>, Vec<_>) = run
        .placements
        .iter()
        .filter(|placement| placement.node == "gpu-node-01")
        .partition(|placement| placement.valid_from_unix_nano < moved);
    assert_eq!((before.len(), after.len()), (2, 2));
    assert!(
        before
            .iter()
            .all(|placement| placement.valid_to_unix_nano == Some(moved))
    );
    assert!(
        after
            .iter()
            .all(|placement| placement.valid_to_unix_nano.is_none() && placement.gpu_idx >= 2)
    );
    // The heat is on the GPU that it left.
    let hit = run
        .requests
        .iter()
        .filter(|served| served.delays.of(Cause::ThermalThrottle) > 0);
    assert_eq!(hit.count(), 0);
}
