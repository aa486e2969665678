//! Nanoseconds per point from a scrape's text to export bytes, and from those to Arrow, on the
//! captured scrapes.
//!
//! Run with `cargo bench -p tables --bench samples`. The best of several rounds is printed, because
//! the machine's other load only ever adds.

#![expect(clippy::print_stdout, reason = "prints its result")]

use std::{
    io::Read,
    path::Path,
    time::{Duration, Instant},
};

use flate2::read::GzDecoder;
use otlp::prometheus::{Converted, Format, Limits, Scrape, to_protobuf};
use tables::samples::{Mapper, engine::EngineSamplesBuilder, gpu::GpuSamplesBuilder};

const ROUNDS: usize = 7;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for kind in ["dcgm", "vllm-metrics"] {
        let texts = scrapes(kind)?;
        let mut best = [Duration::MAX; 2];
        let (mut n_points, mut n_rows) = (0, 0);
        for _ in 0..ROUNDS {
            let (elapsed, points, rows) = round(&texts)?;
            for (best, elapsed) in best.iter_mut().zip(elapsed) {
                *best = elapsed.min(*best);
            }
            (n_points, n_rows) = (points, rows);
        }
        let [to_bytes, to_arrow] = best.map(|best| best.as_nanos() / u128::from(n_points));
        println!(
            "{kind}: {n_points} points in {n_rows} rows, text to bytes {to_bytes} ns/point, bytes \
             to Arrow {to_arrow} ns/point"
        );
    }
    Ok(())
}

/// Texts of the captured scrapes, in order of time.
fn scrapes(kind: &str) -> Result<Vec<Vec<u8>>, Box<dyn std::error::Error>> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/real-chain");
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(data.join(kind))? {
        paths.push(entry?.path());
    }
    paths.sort();
    let mut texts = Vec::new();
    for path in paths {
        let mut text = Vec::new();
        GzDecoder::new(std::fs::File::open(path)?).read_to_end(&mut text)?;
        texts.push(text);
    }
    Ok(texts)
}

type Round = ([Duration; 2], u64, usize);

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn round(texts: &[Vec<u8>]) -> Result<Round, Box<dyn std::error::Error>> {
    let mut time_unix_nano = otlp::testing::T0;
    let started = Instant::now();
    let mut exports: Vec<Converted> = Vec::new();
    for text in texts {
        time_unix_nano += 1_000_000_000;
        let scrape = Scrape {
            resource: &[("service.instance.id", "10.0.0.3:9400")],
            scope: "bench",
            time_unix_nano,
        };
        exports.push(to_protobuf(text, Format::Text, &scrape, &Limits::default()));
    }
    let to_bytes = started.elapsed();
    let started = Instant::now();
    let mut mapper = Mapper::default();
    let mut gpus = GpuSamplesBuilder::new();
    let mut engines = EngineSamplesBuilder::new();
    for export in &exports {
        let samples = mapper.map(&export.body, time_unix_nano)?;
        for sample in &samples.gpus {
            gpus.append(sample)?;
        }
        for sample in &samples.engines {
            engines.append(sample)?;
        }
    }
    let n_rows = gpus.finish().num_rows() + engines.finish().num_rows();
    let to_arrow = started.elapsed();
    let n_points = exports.iter().map(|export| export.n_points).sum();
    Ok(([to_bytes, to_arrow], n_points, n_rows))
}
