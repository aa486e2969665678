//! Tests of the mapping: exposition text on one side, rows as text on the other.

mod cases;
mod engine;
mod exports;
mod gpu;
mod hostile;
mod real;

use arrow::array::RecordBatch;
use otlp::prometheus;

use super::{
    LossReason, Mapper, Samples,
    engine::{EngineCounter, EngineGauge, EngineSample, EngineSamplesBuilder},
    gpu::{GpuField, GpuSample, GpuSamplesBuilder},
};

/// 2026-03-01T12:00:00Z.
const T0: u64 = otlp::testing::T0;

/// Resource attributes of a scrape.
const TARGET: &[(&str, &str)] = &[
    ("service.name", "dcgm"),
    ("service.instance.id", "10.0.0.3:9400"),
];

/// The export request of a scrape `seconds` after [`T0`].
fn export(text: &str, resource: &[(&str, &str)], seconds: u64) -> Vec<u8> {
    let scrape = prometheus::Scrape {
        resource,
        scope: "test",
        time_unix_nano: at(seconds),
    };
    let format = prometheus::Format::Text;
    let limits = prometheus::Limits::default();
    prometheus::to_protobuf(text.as_bytes(), format, &scrape, &limits).body
}

const fn at(seconds: u64) -> u64 {
    T0 + seconds * 1_000_000_000
}

/// What a new mapper makes of one scrape, received 10 minutes after [`T0`].
fn map(text: &str) -> Samples {
    map_export(&export(text, TARGET, 0))
}

fn map_export(body: &[u8]) -> Samples {
    Mapper::default().map(body, at(600)).unwrap()
}

/// Text of a case, from a copy beside this crate.
fn case(name: &str) -> String {
    let path = format!("{}/testdata/samples/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

/// A GPU row as one line: device, time, values, pods, XIDs, flags.
fn line(sample: &GpuSample) -> String {
    let device = match &sample.mig_instance {
        Some(instance) => format!("{}/{instance}", sample.gpu_uuid),
        None => sample.gpu_uuid.clone(),
    };
    let mut words = vec![device, format!("@{}", since_t0(sample.time_unix_nano))];
    let values = GpuField::ALL.iter().filter_map(|field| {
        let value = sample.value(*field)?;
        Some(format!("{}={value}", field.column()))
    });
    words.extend(values);
    words.extend(sample.workloads.iter().map(|workload| {
        let namespace = workload.namespace.as_deref().unwrap_or_default();
        format!("pod={namespace}/{}", workload.pod)
    }));
    words.extend(sample.xid_events.iter().map(|xid| format!("xid!{xid}")));
    words.extend(sample.quality.iter().map(|quality| format!("?{quality}")));
    words.join(" ")
}

fn since_t0(unix_nano: u64) -> String {
    let nanos = i128::from(unix_nano) - i128::from(T0);
    format!("{}s", nanos as f64 / 1e9)
}

fn lines(samples: &Samples) -> Vec<String> {
    samples.gpus.iter().map(line).collect()
}

/// An engine row as one line.
fn engine_line(sample: &EngineSample) -> String {
    let mut words = vec![format!("@{}", since_t0(sample.time_unix_nano))];
    let gauges = EngineGauge::ALL.iter().filter_map(|gauge| {
        let value = sample.gauge(*gauge)?;
        Some(format!("{}={value}", gauge.column()))
    });
    words.extend(gauges);
    for counter in EngineCounter::ALL {
        let text = |value: Option<f64>| value.map_or("-".to_owned(), |value| value.to_string());
        let (total, delta) = (sample.total(*counter), sample.delta(*counter));
        if total.is_some() || delta.is_some() {
            let name = counter.column().trim_end_matches("_total");
            words.push(format!("{name}={}/+{}", text(total), text(delta)));
        }
    }
    words.extend(
        sample
            .iteration_tokens_max_le
            .map(|le| format!("step<={le}")),
    );
    words.extend(sample.quality.iter().map(|quality| format!("?{quality}")));
    words.join(" ")
}

#[track_caller]
fn check(text: &str, expected: &[&str]) -> Samples {
    let samples = map(text);
    assert_eq!(lines(&samples), expected, "{text}");
    gpu_batch(&samples);
    samples
}

/// Reasons and points lost.
fn lost(samples: &Samples) -> Vec<(&'static str, u64)> {
    let losses = samples.losses.iter();
    losses.map(|(reason, n)| (reason.as_str(), n)).collect()
}

fn gpu_batch(samples: &Samples) -> RecordBatch {
    let mut builder = GpuSamplesBuilder::new();
    for sample in &samples.gpus {
        builder.append(sample).unwrap();
    }
    builder.finish()
}

fn engine_batch(samples: &Samples) -> RecordBatch {
    let mut builder = EngineSamplesBuilder::new();
    for sample in &samples.engines {
        builder.append(sample).unwrap();
    }
    builder.finish()
}

#[test]
fn every_reason_is_counted_in_its_place() {
    for (idx, reason) in LossReason::ALL.into_iter().enumerate() {
        assert_eq!(reason as usize, idx);
    }
}
