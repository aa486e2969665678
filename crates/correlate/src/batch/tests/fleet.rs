//! The batches of a simulated fleet, told in each form, against what was true.

use std::{collections::BTreeMap, time::Duration};

use loadgen::fleet::{Config, Run, simulate};

use super::{
    forms::sightings_of,
    support::{Row, rows},
};
use crate::batch::{BatchNames, BatchReader, BatchWindow, ClosedBatches};

fn run(tell: impl FnOnce(&mut Config)) -> Run {
    let mut config = Config {
        duration: Duration::from_secs(30),
        ..Config::default()
    };
    tell(&mut config);
    simulate(&config)
}

/// Rows of a window to which each export is a release, settled when it is complete or `n_held` wait behind it.
fn stored(run: &Run, n_held: usize) -> Vec<Row> {
    let mut reader = BatchReader::new(&BatchNames::default());
    let mut window = BatchWindow::new(ClosedBatches::default(), false);
    let mut stored = Vec::new();
    let mut waits = 0;
    for (sequence, export) in (1..).zip(&run.exports) {
        let sightings = sightings_of(&mut reader, &export.body);
        window.take(sequence, export.due_unix_nano, sightings);
        waits += 1;
        while waits > 0 && (window.is_first_complete() || waits > n_held) {
            waits -= 1;
            let settled = window.settle_first().unwrap();
            stored.extend(settled.rows.iter().flat_map(rows));
        }
    }
    while let Some(settled) = window.settle_first() {
        stored.extend(settled.rows.iter().flat_map(rows));
    }
    stored
}

/// Rows by batch, checked to add up to what was true; and how many of the true ones there are.
fn check_sums(run: &Run, stored: &[Row]) -> usize {
    let mut by_batch: BTreeMap<(&str, i64), Vec<&Row>> = BTreeMap::new();
    for row in stored {
        let key = (row.pod.as_deref().unwrap(), row.step.unwrap());
        by_batch.entry(key).or_default().push(row);
    }
    for batch in &run.batches {
        let pod = loadgen::fleet::engine_pod(batch.replica_idx);
        let Some(rows) = by_batch.get(&(&*pod, batch.step as i64)) else {
            continue;
        };
        let length = (batch.end_unix_nano - batch.start_unix_nano) as i64;
        assert_eq!(rows[0].duration, Some(length), "{batch:?}");
        let sum: i64 = rows.iter().map(|row| row.share.unwrap()).sum();
        assert_eq!(sum, length, "{batch:?}");
    }
    by_batch.len()
}

/// A request's true part of its steps, as a fraction of nanoseconds.
fn true_shares(run: &Run) -> Vec<f64> {
    let mut shares = vec![0.0; run.requests.len()];
    for batch in &run.batches {
        let total: u32 = batch.participants.iter().map(|(_, tokens)| tokens).sum();
        let length = (batch.end_unix_nano - batch.start_unix_nano) as f64;
        for (place, tokens) in &batch.participants {
            shares[*place] += length * f64::from(*tokens) / f64::from(total);
        }
    }
    shares
}

fn check_requests(run: &Run, stored: &[Row]) -> f64 {
    let mut by_trace: BTreeMap<&str, (i64, usize)> = BTreeMap::new();
    for row in stored {
        if let Some(trace_id) = &row.trace_id {
            let sums = by_trace.entry(trace_id).or_default();
            *sums = (sums.0 + row.share.unwrap(), sums.1 + 1);
        }
    }
    let mut worst: f64 = 0.0;
    for (served, truth) in run.requests.iter().zip(true_shares(run)) {
        let trace_id = otlp::TraceId::from_slice(&served.request.trace_id).unwrap();
        let (share, n_steps) = by_trace[trace_id.to_string().as_str()];
        let off = (share as f64 - truth).abs();
        // One nanosecond a step at most, and what a double does not hold.
        assert!(
            off <= n_steps as f64 + 1.0,
            "{share} of {truth} in {n_steps} steps"
        );
        worst = worst.max(off);
    }
    worst
}

/// Switches a form on.
type Tell = fn(&mut Config);

#[test]
fn batch_spans_and_events_give_every_request_what_it_had() {
    let forms: [(&str, Tell); 3] = [
        ("spans", |config| config.batch_spans = true),
        ("events", |config| config.batch_events = true),
        ("spans and events", |config| {
            config.batch_spans = true;
            config.batch_events = true;
        }),
    ];
    for (name, tell) in forms {
        let run = run(tell);
        let stored = stored(&run, usize::MAX);
        let n_batches = check_sums(&run, &stored);
        assert_eq!(n_batches, run.batches.len());
        let n_named: usize = run
            .batches
            .iter()
            .map(|batch| batch.participants.len())
            .sum();
        assert_eq!(stored.len(), n_named);
        let worst = check_requests(&run, &stored);
        let total: i64 = stored.iter().filter_map(|row| row.share).sum();
        println!(
            "{name}: {n_batches} batches, {} rows, {total} ns shared; {} requests, at most {worst:.1} ns off the truth",
            stored.len(),
            run.requests.len()
        );
    }
}

#[test]
fn who_is_late_takes_nothing_and_leaves_the_sums_as_they_are() {
    let run = run(|config| config.batch_events = true);
    let stored = stored(&run, 3);
    let n_batches = check_sums(&run, &stored);
    assert_eq!(n_batches, run.batches.len());
    let n_remainders = stored.iter().filter(|row| row.trace_id.is_none()).count();
    assert!(n_remainders > 10, "{n_remainders}");
    let truth = true_shares(&run).into_iter().sum::<f64>();
    let named = stored.iter().filter(|row| row.trace_id.is_some());
    let named = named.filter_map(|row| row.share).sum::<i64>() as f64;
    assert!(named < truth, "{named} of {truth}");
}

#[test]
fn attributes_tell_of_the_first_step_of_each_request() {
    let run = run(|config| config.batch_attributes = true);
    let stored = stored(&run, usize::MAX);
    let n_batches = check_sums(&run, &stored);
    let n_named = stored.iter().filter(|row| row.trace_id.is_some()).count();
    assert_eq!(n_named, run.requests.len());
    assert!(n_batches <= run.requests.len());
}
