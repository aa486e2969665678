//! Records and bytes per second that one thread appends and flushes, and that are read back.
//!
//! `cargo bench -p wal --bench append [FOLDER]`; the folder decides which disk is measured.

use std::time::{Duration, Instant};

use wal::{Config, Position, RealDisk, Wal};

/// An LLM span in OTLP, on average.
const RECORD_BYTES: usize = 690;
/// Records between flushes: what arrives while one flush runs.
const GROUP_RECORDS: usize = 512;
const N_RECORDS: usize = 4_000_000;
/// Bytes that are kept before segments are deleted, as a log does whose records are decided soon.
const KEPT_SEGMENTS: u32 = 4;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let base = std::env::args().skip(1).find(|arg| !arg.starts_with("--"));
    let base = base.map_or_else(std::env::temp_dir, Into::into);
    let directory = base.join(format!("wal-bench-{}", std::process::id()));
    let result = measure(&directory);
    std::fs::remove_dir_all(&directory)?;
    result
}

fn measure(directory: &std::path::Path) -> Result<(), Failure> {
    let (mut wal, _) = Wal::open(Config::in_directory(directory), RealDisk)?;
    let record = [0x5a; RECORD_BYTES];

    let start = now();
    append(&mut wal, &record, false)?;
    print("append, flush", N_RECORDS, start.elapsed());

    let start = now();
    append(&mut wal, &record, true)?;
    print("append, flush, delete", N_RECORDS, start.elapsed());

    let mut positions = Vec::new();
    let start = now();
    let mut records = wal.iter();
    while let Some((position, _)) = records.next_record()? {
        positions.push(position);
    }
    print("iterate", positions.len(), start.elapsed());

    let reader = wal.reader();
    let mut payload = Vec::new();
    let start = now();
    for position in &positions {
        reader.read(*position, &mut payload)?;
    }
    print("read by position", positions.len(), start.elapsed());

    let start = now();
    wal.sync()?;
    print("sync of all that", positions.len(), start.elapsed());
    Ok(())
}

fn append(wal: &mut Wal, record: &[u8], is_deleting: bool) -> Result<(), Failure> {
    for n in 0..N_RECORDS {
        let position = wal.append(&[&record[..9], &record[9..]])?;
        if n % GROUP_RECORDS == 0 {
            wal.flush()?;
            if is_deleting {
                let low_water = u64::from(position.segment().saturating_sub(KEPT_SEGMENTS)) << 32;
                wal.delete_below(Position::from_u64(low_water))?;
            }
        }
    }
    wal.flush()?;
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn now() -> Instant {
    Instant::now()
}

#[expect(
    clippy::print_stdout,
    reason = "the numbers are the benchmark's output"
)]
fn print(what: &str, n_records: usize, time: Duration) {
    let per_second = n_records as f64 / time.as_secs_f64();
    let mib_per_second = per_second * RECORD_BYTES as f64 / (1024.0 * 1024.0);
    println!(
        "{what:>22}: {:>8.3} M records/s {mib_per_second:>9.1} MiB/s",
        per_second / 1e6
    );
}
