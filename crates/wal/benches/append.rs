//! Spans per second that one thread appends to the log in groups, and that are read back.
//!
//! `cargo bench -p wal --features criterion --bench append`. A record has the bytes of an export of [`SPANS_PER_RECORD`] spans. The
//! log is in the temporary folder: `TMPDIR` decides which disk is measured.

use std::hint::black_box;

use measure::criterion::{Criterion, Throughput};
use wal::{Config, Position, RealDisk, Wal};

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// An LLM span in OTLP, on average.
const SPAN_BYTES: usize = 690;
const SPANS_PER_RECORD: usize = 510;
/// Exports that come while the group before them is written.
const GROUP_RECORDS: usize = 8;
/// Bytes that are kept before segments are deleted, as a log does whose traces are decided soon.
const KEPT_SEGMENTS: u32 = 4;
/// Records that are read back.
const N_RECORDS: usize = 512;

fn main() -> Result<()> {
    let mut criterion = Criterion::default().configure_from_args();
    append(&mut criterion)?;
    read(&mut criterion)?;
    criterion.final_summary();
    Ok(())
}

fn append(criterion: &mut Criterion) -> Result<()> {
    let mut group = criterion.benchmark_group("append");
    group.throughput(Throughput::Elements(
        (GROUP_RECORDS * SPANS_PER_RECORD) as u64,
    ));
    for (name, is_synced) in [
        ("group, flushed", false),
        ("group, flushed and synced", true),
    ] {
        let folder = tempfile::tempdir()?;
        let (mut wal, _) = Wal::open(Config::in_directory(folder.path().join("wal")), RealDisk)?;
        let record = [0x5a; SPAN_BYTES * SPANS_PER_RECORD];
        let mut outcome = Ok(());
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let appended = append_group(&mut wal, &record, is_synced);
                if outcome.is_ok() {
                    outcome = appended;
                }
            });
        });
        outcome?;
    }
    group.finish();
    Ok(())
}

fn append_group(wal: &mut Wal, record: &[u8], is_synced: bool) -> wal::Result<()> {
    for _ in 0..GROUP_RECORDS {
        // The header and the body, as an export has them.
        let (header, body) = record.split_at(9);
        let position = wal.append(&[header, body])?;
        let low_water = u64::from(position.segment().saturating_sub(KEPT_SEGMENTS)) << 32;
        wal.delete_below(Position::from_u64(low_water))?;
    }
    if is_synced { wal.sync() } else { wal.flush() }
}

fn read(criterion: &mut Criterion) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (mut wal, _) = Wal::open(Config::in_directory(folder.path().join("wal")), RealDisk)?;
    let record = [0x5a; SPAN_BYTES * SPANS_PER_RECORD];
    let positions: Vec<Position> = (0..N_RECORDS)
        .map(|_| wal.append(&[&record]))
        .collect::<wal::Result<_>>()?;
    wal.flush()?;
    let reader = wal.reader();
    let mut group = criterion.benchmark_group("read");
    group.throughput(Throughput::Elements((N_RECORDS * SPANS_PER_RECORD) as u64));
    group.bench_function("by position", |bencher| {
        let mut payload = Vec::new();
        bencher.iter(|| {
            for position in &positions {
                black_box(reader.read(*position, &mut payload)).ok();
            }
        });
    });
    group.bench_function("all in order", |bencher| {
        bencher.iter(|| {
            let mut records = wal.iter();
            while let Ok(Some(record)) = records.next_record() {
                black_box(record);
            }
        });
    });
    group.finish();
    Ok(())
}
