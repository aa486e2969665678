//! Spans per second of release: decided traces are read back from the log.
//!
//! `cargo bench -p gateway --features criterion,testing --bench release`. Spans that have arrived and been decided are counted, kept or not: of a
//! trace that is not kept its root is read. The log is in the temporary folder and, as just written, in memory.

use std::cell::{Cell, RefCell};

use bytes::Bytes;
use gateway::{
    Release,
    testing::{Setup, Stepped},
};
use measure::{
    Shape, T0, Template,
    criterion::{BatchSize, BenchmarkGroup, Criterion, Throughput, measurement::WallTime},
};
use sampler::Reports;
use wal::RealDisk;

/// As in the service.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// Of one round.
const N_EXPORTS: u64 = 32;

/// Of the given time, between two rounds: all that came is decided. Spans start at one time, and the intake takes none that is
/// older than a day: thousands of rounds fit.
const ROUND_NS: u64 = 4_000_000_000;

fn main() -> Result<()> {
    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group("release");
    group.throughput(Throughput::Elements(
        N_EXPORTS * Shape::USUAL.n_spans() as u64,
    ));
    for kept_percent in [5, 100] {
        release(&mut group, kept_percent)?;
    }
    group.finish();
    criterion.final_summary();
    Ok(())
}

fn release(group: &mut BenchmarkGroup<'_, WallTime>, kept_percent: u32) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let policies = format!(
        "{{decision_wait: 2s, num_traces: 1000000, policies: [\
         {{name: rest, type: probabilistic, probabilistic: {{sampling_percentage: {kept_percent}}}}}]}}"
    );
    let setup = Setup {
        log: wal::Config::in_directory(folder.path().join("wal")),
        sampler: serde_saphyr::from_str(&policies)?,
        reports_of: |_, _, _| Reports::Itself,
        sync_interval: std::time::Duration::from_secs(3600),
        log_bytes_max: u64::MAX,
        release_backlog_spans_max: u64::MAX,
        committed_through: 0,
    };
    let intake = RefCell::new(Stepped::open(setup, RealDisk)?);
    let template = Template::new(Shape::USUAL, 1);
    let (round, released_through) = (Cell::new(0), Cell::new(0));
    let failure: RefCell<Option<Box<dyn std::error::Error>>> = RefCell::new(None);
    group.bench_function(format!("{kept_percent} % kept"), |bencher| {
        bencher.iter_batched(
            || {
                let mut intake = intake.borrow_mut();
                decide_round(&mut intake, &template, &round, released_through.get());
            },
            |()| {
                let mut intake = intake.borrow_mut();
                let mut releases: Vec<Release> = Vec::new();
                loop {
                    match intake.release() {
                        Ok(Some(release)) => {
                            released_through.set(release.sequence);
                            releases.push(release);
                        }
                        Ok(None) => break,
                        Err(found) => {
                            failure.replace(Some(found.into()));
                            break;
                        }
                    }
                }
                if releases.is_empty() {
                    failure.replace(Some("a round was not released".into()));
                }
                releases
            },
            BatchSize::PerIteration,
        );
    });
    failure.into_inner().map_or(Ok(()), Err)
}

/// A round of exports arrives and is decided; what was released before is committed.
fn decide_round(
    intake: &mut Stepped<RealDisk>,
    template: &Template,
    round: &Cell<u64>,
    released_through: i64,
) {
    let number = round.replace(round.get() + 1);
    let now_unix_nano = T0 + number * ROUND_NS;
    intake.committed(released_through, now_unix_nano);
    for export in 0..N_EXPORTS {
        let export = template.export(number * N_EXPORTS + export);
        let n_spans = export.n_spans as u64;
        drop(intake.submit(Bytes::from(export.body), n_spans, now_unix_nano));
    }
    let due = now_unix_nano + ROUND_NS / 4 * 3;
    intake.tick(due);
    // Decisions are synced before their release.
    while intake.sync(due) {}
}
