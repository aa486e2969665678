//! Samples, placements and requests out of short descriptions.

use std::sync::Arc;

use arrow::{
    array::{
        Array, ArrayRef, AsArray, Float64Array, Int64Array, ListBuilder, RecordBatch, StringArray,
        StringBuilder,
    },
    datatypes::{Float64Type, Int64Type},
};
use otlp::{SpanId, TraceId};

use tables::samples::gpu::GpuField;

use crate::join::{
    KeptRequest,
    measure::{Gauge, Total},
};
use crate::{Device, Placement, Pod, Ranks, Source};

/// One row of samples; what is not named is NULL.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    pub(crate) uuid: String,
    pub(crate) mig: Option<i64>,
    pub(crate) at: i64,
    pub(crate) util: Option<f64>,
    pub(crate) clock: Option<f64>,
    pub(crate) power: Option<f64>,
    pub(crate) energy: Option<f64>,
    pub(crate) mask: Option<i64>,
    pub(crate) xids: Vec<i64>,
}

/// A batch with the columns that the join reads.
pub(crate) fn batch(samples: &[Sample]) -> RecordBatch {
    let floats = |pick: &dyn Fn(&Sample) -> Option<f64>| -> ArrayRef {
        Arc::new(Float64Array::from_iter(samples.iter().map(pick)))
    };
    let texts = |pick: &dyn Fn(&Sample) -> Option<String>| -> ArrayRef {
        Arc::new(StringArray::from_iter(samples.iter().map(pick)))
    };
    let mut xids = ListBuilder::new(StringBuilder::new());
    for sample in samples {
        sample
            .xids
            .iter()
            .for_each(|code| xids.values().append_value(code.to_string()));
        xids.append(true);
    }
    let mut columns: Vec<(&str, ArrayRef)> = vec![
        ("gpu_uuid", texts(&|sample| Some(sample.uuid.clone()))),
        (
            "mig_instance",
            texts(&|sample| sample.mig.map(|mig| mig.to_string())),
        ),
        (
            "time_unix_nano",
            Arc::new(Int64Array::from_iter(
                samples.iter().map(|sample| Some(sample.at)),
            )),
        ),
        (
            GpuField::ThrottleMask.column(),
            Arc::new(Int64Array::from_iter(
                samples.iter().map(|sample| sample.mask),
            )),
        ),
        ("xid_events", Arc::new(xids.finish())),
    ];
    for field in Gauge::ALL
        .map(Gauge::field)
        .into_iter()
        .chain(Total::ALL.map(Total::field))
    {
        columns.push((
            field.column(),
            match field {
                GpuField::UtilPct => floats(&|sample| sample.util),
                GpuField::SmClockMhz => floats(&|sample| sample.clock),
                GpuField::PowerW => floats(&|sample| sample.power),
                GpuField::EnergyTotalJ => floats(&|sample| sample.energy),
                _ => floats(&|_| None),
            },
        ));
    }
    let nullable = columns
        .into_iter()
        .map(|(name, column)| (name, column, true));
    RecordBatch::try_from_iter_with_nullable(nullable).expect("columns of one length")
}

pub(crate) fn uuid(number: u32) -> String {
    format!("GPU-{number:08x}")
}

pub(crate) fn pod(name: &str) -> Pod {
    Pod {
        namespace: Some("ns".into()),
        name: Some(name.into()),
        ..Pod::default()
    }
}

pub(crate) fn placement(name: &str, number: u32, from: i64, to: Option<i64>) -> Placement {
    Placement {
        device: Device::parse(&uuid(number), None).expect("a device"),
        pod: pod(name),
        container: None,
        node: Some("node-1".into()),
        ranks: Ranks::default(),
        valid_from_unix_nano: from,
        valid_to_unix_nano: to,
        source: Source::PodResources,
    }
}

/// Request number `number` on a pod; the engine is the pod.
pub(crate) fn request(number: u64, name: &str, start: i64, end: i64) -> KeptRequest {
    let id = [[0; 8], (number + 1).to_be_bytes()].concat();
    KeptRequest {
        trace_id: TraceId::from_slice(&id).expect("a trace id"),
        span_id: SpanId::from_slice(&(number + 1).to_be_bytes()).expect("a span id"),
        pod: pod(name),
        node: Some("node-1".into()),
        engine: Some(name.into()),
        start_unix_nano: start,
        end_unix_nano: end,
    }
}

pub(crate) fn floats(batch: &RecordBatch, name: &str) -> Vec<Option<f64>> {
    batch
        .column_by_name(name)
        .expect(name)
        .as_primitive::<Float64Type>()
        .iter()
        .collect()
}

pub(crate) fn ints(batch: &RecordBatch, name: &str) -> Vec<Option<i64>> {
    batch
        .column_by_name(name)
        .expect(name)
        .as_primitive::<Int64Type>()
        .iter()
        .collect()
}

pub(crate) fn texts(batch: &RecordBatch, name: &str) -> Vec<Option<String>> {
    let column = batch.column_by_name(name).expect(name).as_string::<i32>();
    column.iter().map(|text| text.map(str::to_owned)).collect()
}

/// The items of each list, joined by commas.
pub(crate) fn lists(batch: &RecordBatch, name: &str) -> Vec<Option<String>> {
    let column = batch.column_by_name(name).expect(name).as_list::<i32>();
    let join = |items: ArrayRef| {
        items
            .as_string::<i32>()
            .iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(",")
    };
    (0..column.len())
        .map(|row| column.is_valid(row).then(|| join(column.value(row))))
        .collect()
}
