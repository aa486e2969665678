//! Requests per second of the join of requests with the samples of their GPUs, and rows per second of indexing these samples.
//!
//! `cargo bench -p correlate --features criterion --bench evidence`. Ten minutes of 64 GPUs, eight to a pod, each sampled every second; requests
//! of a few seconds, about twenty beside each other in a pod. `benches/join` compares the same join with SQL.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, new_null_array},
    datatypes::{DataType, Schema},
};
use correlate::{
    Device, KeptRequest, Placement, Placements, Pod, Ranks, SampleIndex, Settings, Source, Traffic,
};
use measure::criterion::{Criterion, Throughput};
use otlp::{SpanId, TraceId};
use tables::samples::gpu;

/// As in the service.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

const SECOND: i64 = 1_000_000_000;
const BEGIN: i64 = 1_790_000_000 * SECOND;
const SECONDS: i64 = 600;
const N_GPUS: i64 = 64;
const GPUS_PER_POD: i64 = 8;
const N_REQUESTS: i64 = 20_000;
/// Requests whose rows are made together.
const REQUESTS_PER_RELEASE: usize = 1_000;

fn main() -> Result<()> {
    let mut criterion = Criterion::default().configure_from_args();
    join(&mut criterion)?;
    criterion.final_summary();
    Ok(())
}

fn join(criterion: &mut Criterion) -> Result<()> {
    let samples = (0..N_GPUS).map(samples).collect::<Result<Vec<_>>>()?;
    let requests = (0..N_REQUESTS).map(request).collect::<Result<Vec<_>>>()?;
    let placements = Placements::new((0..N_GPUS).map(placement).collect::<Result<Vec<_>>>()?);
    let index = SampleIndex::new(&samples)?;
    let traffic = Traffic::new(requests.iter().filter_map(|request| {
        let engine = Arc::clone(request.engine.as_ref()?);
        Some((engine, request.start_unix_nano, request.end_unix_nano))
    }));

    let mut group = criterion.benchmark_group("join");
    group.throughput(Throughput::Elements((N_GPUS * SECONDS).unsigned_abs()));
    group.bench_function("index of samples", |bencher| {
        bencher.iter(|| SampleIndex::new(&samples));
    });
    group.throughput(Throughput::Elements(N_REQUESTS.unsigned_abs()));
    group.bench_function("evidence of requests", |bencher| {
        bencher.iter(|| {
            let release = |requests| {
                correlate::evidence(
                    requests,
                    &index,
                    &placements,
                    &traffic,
                    Settings::default(),
                    0,
                )
            };
            requests
                .chunks(REQUESTS_PER_RELEASE)
                .map(release)
                .collect::<Vec<_>>()
        });
    });
    group.finish();
    Ok(())
}

fn pod(number: i64) -> Pod {
    Pod {
        name: Some(Arc::from(format!("vllm-decode-{number}"))),
        ..Pod::default()
    }
}

fn uuid(gpu: i64) -> String {
    format!("GPU-{gpu:08x}-0001-4000-8000-000000000001")
}

fn placement(gpu: i64) -> Result<Placement> {
    Ok(Placement {
        device: Device::parse(&uuid(gpu), None).ok_or("a GPU without a UUID")?,
        pod: pod(gpu / GPUS_PER_POD),
        container: None,
        node: None,
        ranks: Ranks::default(),
        valid_from_unix_nano: BEGIN - SECOND,
        valid_to_unix_nano: None,
        source: Source::ExporterLabels,
    })
}

/// From 1 to 8 s, evenly over time and pods.
fn request(number: i64) -> Result<KeptRequest> {
    // An id of zeros is none.
    let id = (number + 1).to_be_bytes();
    let pod = pod(number % (N_GPUS / GPUS_PER_POD));
    let start_unix_nano = BEGIN + number * (SECONDS * SECOND / N_REQUESTS);
    Ok(KeptRequest {
        trace_id: TraceId::from_slice(&[id, id].concat())?,
        span_id: SpanId::from_slice(&id)?,
        engine: pod.name.clone(),
        pod,
        node: None,
        start_unix_nano,
        end_unix_nano: start_unix_nano + (1 + number % 8) * SECOND,
    })
}

/// Samples of a GPU: what is measured goes up and down, and it draws power.
fn samples(gpu: i64) -> Result<RecordBatch> {
    let busy = |second: i64| ((second + gpu) % 60) as f64 / 60.0;
    let floats = |of: fn(f64) -> f64| -> ArrayRef {
        let values = (0..SECONDS).map(|second| of(busy(second)));
        Arc::new(Float64Array::from_iter_values(values))
    };
    let spec = gpu::SPEC.schema();
    let (mut fields, mut columns) = (Vec::new(), Vec::new());
    for name in SampleIndex::COLUMNS {
        let field = spec.field_with_name(name)?.clone().with_nullable(true);
        let column: ArrayRef = match *name {
            "gpu_uuid" => {
                let values = (0..SECONDS).map(|_| uuid(gpu));
                Arc::new(StringArray::from_iter_values(values))
            }
            "time_unix_nano" => {
                let values = (0..SECONDS).map(|second| BEGIN + second * SECOND + gpu);
                Arc::new(Int64Array::from_iter_values(values))
            }
            "util_pct" => floats(|busy| 100.0 * busy),
            "sm_active" | "tensor_active" | "dram_active" => floats(|busy| busy),
            "sm_clock_mhz" => floats(|busy| 1_980.0 - 300.0 * busy),
            "temp_c" => floats(|busy| 40.0 + 45.0 * busy),
            "power_w" => floats(|busy| 100.0 + 600.0 * busy),
            _ => new_null_array(field.data_type(), usize::try_from(SECONDS)?),
        };
        // Some of these columns are whole numbers in the table.
        let is_float = column.data_type() == &DataType::Float64;
        let data_type = if is_float {
            DataType::Float64
        } else {
            field.data_type().clone()
        };
        fields.push(field.with_data_type(data_type));
        columns.push(column);
    }
    Ok(RecordBatch::try_new(
        Arc::new(Schema::new(fields)),
        columns,
    )?)
}
