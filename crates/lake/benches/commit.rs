//! Spans per second of a commit: a batch of `spans` becomes a Parquet file and a version of the Delta table in a local folder.
//!
//! `cargo bench -p lake --features criterion --bench commit`. Rows are those of generated LLM traffic. The table grows from commit to commit, as
//! it does between two maintenances; it is in the temporary folder.

use lake::{Lake, Location, Mode};
use measure::{
    Shape, T0, Template,
    criterion::{Criterion, Throughput},
};
use otlp::export::{self, Limits};
use tables::{
    redact::{self, Redaction},
    spans::{SPEC, SpanInput, SpansBuilder, TraceContext},
};
use tokio::runtime::{Builder, Runtime};

/// As in the service.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// Who writes.
const WRITER: &str = "bench";

fn main() -> Result<()> {
    let mut criterion = Criterion::default().configure_from_args();
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    for n_exports in [2, 20, 200] {
        commit(&mut criterion, &runtime, n_exports)?;
    }
    criterion.final_summary();
    Ok(())
}

fn commit(criterion: &mut Criterion, runtime: &Runtime, n_exports: u64) -> Result<()> {
    let rows = rows(n_exports)?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("lake");
    let location = Location::parse(path.to_str().ok_or("the folder's name is no UTF-8")?)?;
    let lake = runtime.block_on(Lake::open(&location, &[&SPEC], Mode::Create))?;
    let table = lake.table(SPEC.name).ok_or("the lake lacks the table")?;
    let mut sequence = 0;
    let mut failure = None;
    let mut group = criterion.benchmark_group("commit");
    group.sample_size(20);
    group.throughput(Throughput::Elements(rows.num_rows() as u64));
    group.bench_function(format!("{} spans", rows.num_rows()), |bencher| {
        bencher.iter(|| {
            sequence += 1;
            table.append(WRITER, sequence, rows.clone());
            if let Err(found) = runtime.block_on(table.commit(WRITER, sequence)) {
                failure = Some(found);
            }
        });
    });
    group.finish();
    failure.map_or(Ok(()), |found| Err(found.into()))
}

fn rows(n_exports: u64) -> Result<arrow::array::RecordBatch> {
    let template = Template::new(Shape::USUAL, 1);
    let mut builder = SpansBuilder::new(&Redaction::new(&redact::Config::default())?);
    for number in 0..n_exports {
        let body = template.export(number).body;
        for at in export::spans(&body, &Limits::default()) {
            builder.append(&SpanInput {
                at: &at?,
                trace: &TraceContext {
                    start_time_unix_nano: T0,
                },
                late: false,
                received_unix_nano: T0,
            })?;
        }
    }
    Ok(builder.finish())
}
