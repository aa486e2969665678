//! Scenario: a process ends inside each of its disk calls and store calls in turn, and the next one
//! sometimes inside its recovery.
//!
//! Guarantee: acknowledged spans of kept traces are stored exactly once, decisions that were seen are the
//! decisions, and no row is invented.

use std::time::Duration;

use super::report;
use super::schedule::{Random, quiet, traffic};
use super::seeds::{Run, Totals, case};

/// Requests of the run whose calls are counted.
const N_REQUESTS: u32 = 24;
const TRAFFIC_SEED: u64 = 7;

/// Where the run ends.
#[derive(Clone, Copy, Debug)]
enum Point {
    Disk(u64),
    Store { call: u64, takes_effect: bool },
}

/// Every how many of the calls.
fn stride() -> usize {
    match std::env::var("WHYSLOW_KILL_POINTS") {
        Ok(all) if all == "all" => 1,
        Ok(every) => every.parse().expect("`all` or a number"),
        Err(_) => 30,
    }
}

/// A run to which nothing happens, without its restart: the calls of one process.
fn whole_life(sync_interval: Duration) -> Run {
    let traffic = traffic(TRAFFIC_SEED, N_REQUESTS);
    let mut run = Run::new(TRAFFIC_SEED, sync_interval, traffic.exports);
    let steps = quiet(run.n_exports());
    run.start();
    run.steps(&steps[..steps.len() - 1]);
    run
}

/// Points of a process's life; opening the tables and the log are its first calls.
fn points(sync_interval: Duration) -> Vec<Point> {
    let run = whole_life(sync_interval);
    let (n_disk_calls, n_store_calls) = run.n_calls();
    let disk = (0..n_disk_calls).map(Point::Disk);
    let store = (0..n_store_calls)
        .flat_map(|call| [false, true].map(|takes_effect| Point::Store { call, takes_effect }));
    disk.chain(store).collect()
}

fn end_at(point: Point, sync_interval: Duration, is_power_failure: bool, totals: &mut Totals) {
    let traffic = traffic(TRAFFIC_SEED, N_REQUESTS);
    let mut run = Run::new(TRAFFIC_SEED, sync_interval, traffic.exports);
    let mut random = Random::new(match point {
        Point::Disk(call) => call,
        Point::Store { call, takes_effect } => (call << 1) | u64::from(takes_effect) | (1 << 32),
    });
    match point {
        Point::Disk(call) => run.end_in_disk_call(call),
        Point::Store { call, takes_effect } => run.end_in_store_call(call, takes_effect),
    }
    let steps = quiet(run.n_exports());
    run.start();
    run.steps_until_end(&steps);
    // Every second time, the next process ends as well, early.
    if random.below(2) == 0 {
        run.fall(is_power_failure);
        run.end_in_disk_call(random.below(6));
        run.start();
        run.steps_until_end(&steps[..4]);
    }
    run.fall(is_power_failure);
    run.finish(totals);
}

fn all_points(name: &str, sync_interval: Duration, is_power_failure: bool) {
    let points = points(sync_interval);
    let stride = stride();
    let mut totals = Totals::default();
    for point in points.iter().step_by(stride) {
        let context = format!("{name}, ended in {point:?}");
        case(&context, || {
            end_at(*point, sync_interval, is_power_failure, &mut totals);
        });
    }
    let n_disk = points
        .iter()
        .filter(|p| matches!(p, Point::Disk(_)))
        .count();
    report(&format!(
        "{name}: {} of {} points ({n_disk} disk calls, {} store calls without and with effect): {totals}",
        totals.n_runs(),
        points.len(),
        (points.len() - n_disk) / 2,
    ));
}

#[test]
fn a_kill_at_any_point_loses_doubles_and_invents_nothing() {
    all_points("kill", Duration::from_secs(1), false);
}

#[test]
fn a_power_failure_at_any_point_loses_nothing_where_answers_wait_for_the_sync() {
    all_points("power failure", Duration::ZERO, true);
}
