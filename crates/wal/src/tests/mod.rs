//! A log is broken at every point and compared with what was appended.

mod crash;
mod damage;
mod fuzz_corpus;
mod model;
mod real_disk;
mod writer;

use std::path::PathBuf;

use crate::segment::file_name;
use crate::sim::SimDisk;
use crate::{Config, Position, Recovery, Result, Wal};

const DIRECTORY: &str = "wal";

type Record = (Position, Vec<u8>);
/// Records in order.
type Records = Vec<Record>;

/// Segments of one page, so that a few records rotate.
fn config() -> Config {
    Config {
        segment_bytes: 4096,
        ..Config::in_directory(DIRECTORY)
    }
}

fn open(disk: &SimDisk) -> Result<(Wal<SimDisk>, Recovery)> {
    Wal::open(config(), disk.clone())
}

fn path(segment: u32) -> PathBuf {
    PathBuf::from(DIRECTORY).join(file_name(segment))
}

fn all(wal: &Wal<SimDisk>) -> Records {
    wal.iter().collect::<Result<_>>().unwrap()
}

/// The n-th payload: its size and bytes tell records apart. Some are empty.
fn payload(n: usize) -> Vec<u8> {
    let len = (n * 131) % 700;
    (0..len)
        .map(|i| u8::try_from((n * 7 + i) % 251).unwrap())
        .collect()
}

/// Appends `n_records` in parts, and calls `after` following each.
fn fill(
    wal: &mut Wal<SimDisk>,
    n_records: usize,
    mut after: impl FnMut(usize, &mut Wal<SimDisk>),
) -> Records {
    let mut records = Vec::new();
    for n in 0..n_records {
        let payload = payload(n);
        let (front, back) = payload.split_at(payload.len() / 3);
        let position = wal.append(&[front, &[], back]).unwrap();
        records.push((position, payload));
        after(n, wal);
    }
    records
}
