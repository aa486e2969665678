//! The data: an hour of a fleet, as three Parquet files.
//!
//! Eight GPUs belong to a pod (tensor parallel), each is sampled every second, at its own offset in the second. Requests
//! come evenly, each to one pod, and take a log-normal time with a median of 6 s: about 22 run beside each other in a pod.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    Array as _, ArrayRef, Float64Array, Int64Array, ListBuilder, RecordBatch, StringArray,
    StringBuilder, new_null_array,
};
use arrow::datatypes::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use super::Result;

const SECOND: i64 = 1_000_000_000;
const BEGIN: i64 = 1_790_000_000 * SECOND;
const SECONDS: i64 = 3_600;
const GPUS_PER_POD: usize = 8;

pub(crate) const SAMPLES: &str = "gpu_samples.parquet";
pub(crate) const REQUESTS: &str = "requests.parquet";
pub(crate) const PLACEMENTS: &str = "placements.parquet";

/// `SplitMix64`.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// 0 to 1.
    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Of the standard normal distribution, nearly.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.share()).sum::<f64>() - 6.0
    }
}

pub(crate) fn generate(folder: &Path, n_requests: usize, n_gpus: usize) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let mut random = Random(7);
    write(&folder.join(PLACEMENTS), [placements(n_gpus)?])?;
    write(
        &folder.join(REQUESTS),
        [requests(n_requests, n_gpus, &mut random)?],
    )?;
    let samples = (0..n_gpus).map(|gpu| samples(gpu, &mut random));
    write(&folder.join(SAMPLES), samples.collect::<Result<Vec<_>>>()?)
}

fn write(path: &Path, batches: impl IntoIterator<Item = RecordBatch>) -> Result<()> {
    let mut writer = None;
    for batch in batches {
        let writer = match &mut writer {
            Some(writer) => writer,
            None => {
                let properties = WriterProperties::builder()
                    .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
                    .build();
                let file = File::create(path)?;
                writer.insert(ArrowWriter::try_new(
                    file,
                    batch.schema(),
                    Some(properties),
                )?)
            }
        };
        writer.write(&batch)?;
    }
    if let Some(writer) = writer {
        writer.close()?;
    }
    Ok(())
}

pub(crate) fn read(path: &Path) -> Result<Vec<RecordBatch>> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path)?)?;
    let reader = reader.with_batch_size(8_192).build()?;
    Ok(reader.collect::<Result<_, _>>()?)
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> Result<RecordBatch> {
    Ok(RecordBatch::try_from_iter(columns)?)
}

fn uuid(gpu: usize) -> String {
    format!("GPU-{gpu:08x}-0001-4000-8000-000000000001")
}

fn pod(number: usize) -> String {
    format!("vllm-decode-{number:04}")
}

fn placements(n_gpus: usize) -> Result<RecordBatch> {
    let gpus = || 0..n_gpus;
    batch(vec![
        (
            "pod",
            Arc::new(StringArray::from_iter_values(
                gpus().map(|gpu| pod(gpu / GPUS_PER_POD)),
            )),
        ),
        (
            "gpu_uuid",
            Arc::new(StringArray::from_iter_values(gpus().map(uuid))),
        ),
        (
            "valid_from_unix_nano",
            Arc::new(Int64Array::from_iter_values(gpus().map(|_| BEGIN - SECOND))),
        ),
        (
            "valid_to_unix_nano",
            Arc::new(Int64Array::from_iter_values(
                gpus().map(|_| BEGIN + 2 * SECONDS * SECOND),
            )),
        ),
    ])
}

/// In the order of their starts.
fn requests(n_requests: usize, n_gpus: usize, random: &mut Random) -> Result<RecordBatch> {
    let n_pods = (n_gpus / GPUS_PER_POD).max(1);
    let (mut pods, mut starts, mut ends) = (StringBuilder::new(), Vec::new(), Vec::new());
    for request in 0..n_requests {
        pods.append_value(pod(random.next() as usize % n_pods));
        let at = (request as f64 + random.share()) / n_requests as f64;
        let start = BEGIN + (at * (SECONDS * SECOND) as f64) as i64;
        let seconds = (6_f64.ln() + 0.9 * random.normal()).exp().clamp(0.2, 300.0);
        starts.push(start);
        ends.push(start + (seconds * SECOND as f64) as i64);
    }
    let ids = (0..n_requests as i64).collect::<Vec<_>>();
    batch(vec![
        ("request_id", Arc::new(Int64Array::from(ids))),
        ("pod", Arc::new(pods.finish())),
        ("start_unix_nano", Arc::new(Int64Array::from(starts))),
        ("end_unix_nano", Arc::new(Int64Array::from(ends))),
    ])
}

/// The columns of `gpu_samples` that the join reads.
fn samples(gpu: usize, random: &mut Random) -> Result<RecordBatch> {
    let n_rows = SECONDS as usize;
    let offset = (random.share() * SECOND as f64) as i64;
    let times = (0..SECONDS).map(|second| BEGIN + second * SECOND + offset);
    let mut busy = 0.5;
    let mut walk = Vec::with_capacity(n_rows);
    let mut energy = Vec::with_capacity(n_rows);
    let mut joules = 1e6 * random.share();
    for _ in 0..n_rows {
        busy = (busy + 0.1 * (random.share() - 0.5_f64)).clamp(0.0, 1.0);
        joules += 100.0 + 600.0 * busy;
        walk.push(busy);
        energy.push(joules);
    }
    let of_walk = |base: f64, more: f64| -> ArrayRef {
        Arc::new(Float64Array::from_iter_values(
            walk.iter().map(|busy| (base + more * busy).round()),
        ))
    };
    let mut xids = ListBuilder::new(StringBuilder::new()).with_field(Field::new(
        "element",
        DataType::Utf8,
        true,
    ));
    (0..n_rows).for_each(|_| xids.append(true));
    let spec = tables::samples::gpu::SPEC.schema();
    let (mut fields, mut columns) = (Vec::new(), Vec::<ArrayRef>::new());
    let mut xids = Some(xids.finish());
    for name in correlate::SampleIndex::COLUMNS {
        let field = spec.field_with_name(name)?.clone().with_nullable(true);
        let column: ArrayRef = match *name {
            "gpu_uuid" => Arc::new(StringArray::from_iter_values(
                (0..n_rows).map(|_| uuid(gpu)),
            )),
            "time_unix_nano" => Arc::new(Int64Array::from_iter_values(times.clone())),
            "util_pct" => of_walk(0.0, 100.0),
            "gr_engine_active" | "sm_active" | "tensor_active" | "dram_active" => {
                Arc::new(Float64Array::from_iter_values(walk.iter().copied()))
            }
            "sm_clock_mhz" => of_walk(1_980.0, -300.0),
            "temp_c" => of_walk(40.0, 45.0),
            "mem_temp_c" => of_walk(50.0, 45.0),
            "power_w" => of_walk(100.0, 600.0),
            "fb_used_mib" => of_walk(70_000.0, 5_000.0),
            "energy_total_j" => Arc::new(Float64Array::from(energy.clone())),
            "throttle_mask" => Arc::new(Int64Array::from_iter_values(
                walk.iter().map(|busy| if *busy > 0.95 { 0x20 } else { 0 }),
            )),
            "xid_events" => match xids.take() {
                Some(xids) => Arc::new(xids),
                None => new_null_array(field.data_type(), n_rows),
            },
            _ => new_null_array(field.data_type(), n_rows),
        };
        fields.push(field.with_data_type(column.data_type().clone()));
        columns.push(column);
    }
    Ok(RecordBatch::try_new(
        Arc::new(Schema::new(fields)),
        columns,
    )?)
}
