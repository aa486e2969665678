//! The same load on one shard and on several: on one thread, where only the cost of a span can change, and on as many threads
//! as there are shards, where they may be in each other's way.

use std::{
    path::Path,
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use gateway::testing::Core;
use measure::{Shape, T0, Template};
use sampler::Reports;

use crate::{Result, now, sampling};

/// Of one round, for each shard's share of the traces as well: the load is the same whatever takes it.
const EXPORTS_PER_ROUND: u64 = 200;
/// Of the given time: a hundred thousand spans per second, and so two rounds until the first trace is due.
const EXPORT_INTERVAL_NS: u64 = 5_000_000;
/// Then what is due is decided.
const EXPORTS_PER_TICK: u64 = 50;

/// A line of JSON per round. In the first two nothing is due yet.
pub(crate) fn in_turn(n_shards: usize, is_split: bool, n_rounds: u64) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let n_parts = if is_split { n_shards } else { 1 };
    // As near as whole traces allow.
    let shape = Shape {
        n_traces: Shape::USUAL.n_traces.div_ceil(n_parts),
        ..Shape::USUAL
    };
    let template = Template::new(shape, 1);
    let mut shards = (0..n_shards)
        .map(|number| open(folder.path(), number))
        .collect::<Result<Vec<Core>>>()?;
    for round in 0..n_rounds {
        let first = round * EXPORTS_PER_ROUND;
        let exports: Vec<Vec<Bytes>> = (first..first + EXPORTS_PER_ROUND)
            .map(|number| parts(&template, number, n_parts))
            .collect();
        let n_spans = shape.n_spans() as u64;
        let begun = now();
        for (number, parts) in (first..).zip(exports) {
            let time = T0 + number * EXPORT_INTERVAL_NS;
            for (part, body) in (0..).zip(parts) {
                let owner = (number as usize + part) % n_shards;
                if let Some(shard) = shards.get_mut(owner) {
                    shard.export(body, n_spans, time);
                }
            }
            if number % EXPORTS_PER_TICK == 0 {
                shards.iter_mut().for_each(|shard| shard.tick(time));
            }
        }
        let took = begun.elapsed();
        let n_all = n_spans * n_parts as u64 * EXPORTS_PER_ROUND;
        println!(
            "{{\"shards\": {n_shards}, \"is_split\": {is_split}, \"round\": {round}, \"spans\": {n_all}, \"seconds\": {}}}",
            took.as_secs_f64()
        );
    }
    Ok(())
}

fn parts(template: &Template, number: u64, n_parts: usize) -> Vec<Bytes> {
    let n_parts = n_parts as u64;
    (0..n_parts)
        .map(|part| Bytes::from(template.export(number * n_parts + part).body))
        .collect()
}

/// All threads take a round at once; a line of JSON per round, with the seconds until the last was done.
pub(crate) fn beside(n_threads: usize, n_rounds: u64) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let template = Template::new(Shape::USUAL, 1);
    let n_spans = Shape::USUAL.n_spans() as u64;
    let mut shards = (0..n_threads)
        .map(|number| open(folder.path(), number))
        .collect::<Result<Vec<Core>>>()?;
    for round in 0..n_rounds {
        let barrier = Barrier::new(n_threads);
        let (template, barrier) = (&template, &barrier);
        let took: Duration = thread::scope(|scope| {
            let threads: Vec<_> = shards
                .iter_mut()
                .map(|shard| scope.spawn(move || take_round(shard, template, round, barrier)))
                .collect();
            let times: Vec<(Instant, Instant)> = threads
                .into_iter()
                .flat_map(thread::ScopedJoinHandle::join)
                .collect();
            let first = times.iter().map(|(begun, _)| *begun).min();
            let last = times.iter().map(|(_, ended)| *ended).max();
            first
                .zip(last)
                .map_or(Duration::ZERO, |(first, last)| last - first)
        });
        let n_all = n_spans * EXPORTS_PER_ROUND * n_threads as u64;
        println!(
            "{{\"threads\": {n_threads}, \"round\": {round}, \"spans\": {n_all}, \"seconds\": {}}}",
            took.as_secs_f64()
        );
    }
    Ok(())
}

fn take_round(
    shard: &mut Core,
    template: &Template,
    round: u64,
    barrier: &Barrier,
) -> (Instant, Instant) {
    let first = round * EXPORTS_PER_ROUND;
    let exports: Vec<Bytes> = (first..first + EXPORTS_PER_ROUND)
        .map(|number| Bytes::from(template.export(number).body))
        .collect();
    barrier.wait();
    let begun = now();
    for (number, body) in (first..).zip(exports) {
        let time = T0 + number * EXPORT_INTERVAL_NS;
        shard.export(body, Shape::USUAL.n_spans() as u64, time);
        if number % EXPORTS_PER_TICK == 0 {
            shard.tick(time);
        }
    }
    (begun, now())
}

fn open(folder: &Path, number: usize) -> Result<Core> {
    let log = wal::Config::in_directory(folder.join(format!("shard-{number}")));
    let reports_of = |summary: &otlp::span::SpanSummary<'_>, _: &[u8], _: &[u8]| {
        if summary.name == "llm_request" {
            Reports::Request
        } else {
            Reports::Itself
        }
    };
    Ok(Core::open(log, &sampling()?, reports_of)?)
}
