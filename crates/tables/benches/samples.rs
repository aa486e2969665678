//! Points per second from a scrape's text to export bytes, and from those to Arrow, on the captured scrapes.
//!
//! `cargo bench -p tables --features criterion --bench samples`.

use std::{hint::black_box, io::Read, path::Path};

use flate2::read::GzDecoder;
use measure::criterion::{Criterion, Throughput};
use otlp::prometheus::{Converted, Format, Limits, Scrape, to_protobuf};
use tables::samples::{Mapper, engine::EngineSamplesBuilder, gpu::GpuSamplesBuilder};

/// As in the service.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

fn main() -> Result<()> {
    let mut criterion = Criterion::default().configure_from_args();
    for kind in ["dcgm", "vllm-metrics"] {
        let texts = scrapes(kind)?;
        let exports = to_exports(&texts);
        to_rows(&exports)?;
        let n_points = exports.iter().map(|export| export.n_points).sum();
        let mut group = criterion.benchmark_group(kind);
        group.throughput(Throughput::Elements(n_points));
        group.bench_function("text to bytes", |bencher| {
            bencher.iter(|| to_exports(black_box(&texts)));
        });
        group.bench_function("bytes to Arrow", |bencher| {
            bencher.iter(|| to_rows(black_box(&exports)));
        });
        group.finish();
    }
    criterion.final_summary();
    Ok(())
}

/// Texts of the captured scrapes, in order of time.
fn scrapes(kind: &str) -> Result<Vec<Vec<u8>>> {
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

fn to_exports(texts: &[Vec<u8>]) -> Vec<Converted> {
    let mut time_unix_nano = otlp::testing::T0;
    let mut exports = Vec::new();
    for text in texts {
        time_unix_nano += 1_000_000_000;
        let scrape = Scrape {
            resource: &[("service.instance.id", "10.0.0.3:9400")],
            scope: "bench",
            time_unix_nano,
        };
        exports.push(to_protobuf(text, Format::Text, &scrape, &Limits::default()));
    }
    exports
}

fn to_rows(exports: &[Converted]) -> Result<()> {
    let mut mapper = Mapper::default();
    let mut gpus = GpuSamplesBuilder::new();
    let mut engines = EngineSamplesBuilder::new();
    for export in exports {
        let samples = mapper.map(&export.body, otlp::testing::T0)?;
        for sample in &samples.gpus {
            gpus.append(sample)?;
        }
        for sample in &samples.engines {
            engines.append(sample)?;
        }
    }
    black_box((gpus.finish(), engines.finish()));
    Ok(())
}
