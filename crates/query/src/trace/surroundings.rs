//! What was measured around a trace: the phases of its engine requests, its GPUs, the gauges of its engines.

use std::collections::BTreeMap;

use ::arrow::array::{Array as _, ArrayRef, AsArray as _, RecordBatch};
use ::arrow::compute::cast;
use ::arrow::datatypes::{DataType, Float64Type, Int64Type};
use ::otlp::{SpanId, TraceId};
use datafusion::common::ScalarValue;
use futures::TryStreamExt;

use super::{Caller, Error, Result, StoredTrace};
use crate::engine::Engine;
use crate::explain::cells;
use crate::question::Question;

/// Time before and after the trace in which samples are read: one before and one after at the usual intervals.
const MARGIN_NANOS: i64 = 35_000_000_000;

/// Most rows of each kind; of samples, the earliest.
const ROWS_MAX: u64 = 50_000;

/// Gauges of a GPU that are drawn, in the order in which they are.
const GPU_GAUGES: &[&str] = &[
    "util_pct",
    "sm_clock_mhz",
    "temp_c",
    "power_w",
    "fb_used_mib",
    "throttle_mask",
];

/// Gauges of an engine that are drawn.
const ENGINE_GAUGES: &[&str] = &[
    "requests_running",
    "requests_waiting",
    "kv_cache_usage",
    "preemptions_delta",
];

/// What is known beside the spans; each may be empty.
#[derive(Debug, Default)]
pub(crate) struct Surroundings {
    /// By engine span.
    pub(super) phases: BTreeMap<SpanId, Vec<Phase>>,
    /// By GPU, then engine.
    pub(super) series: Vec<Series>,
}

/// A phase of an engine request.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Phase {
    pub(super) name: String,
    /// From the start of the span, in seconds.
    pub(super) offset_s: f64,
    pub(super) duration_s: f64,
}

/// The gauges of one device or engine.
#[derive(Debug, PartialEq)]
pub(super) struct Series {
    pub(super) name: String,
    /// Time in nanoseconds since 1970, the gauge's column, and the value.
    pub(super) values: Vec<(i64, &'static str, f64)>,
}

/// Reads what is known around a trace.
///
/// # Errors
///
/// As [`Engine::answer`].
pub(crate) async fn surroundings(
    engine: &Engine,
    trace: &StoredTrace,
    caller: Caller,
) -> Result<Surroundings> {
    let mut found = Surroundings {
        phases: phases(engine, trace.trace_id, caller).await?,
        series: Vec::new(),
    };
    let Some((from, to)) = extent(trace) else {
        return Ok(found);
    };
    let window = [
        ScalarValue::from(trace.trace_id.to_string()),
        ScalarValue::from(from.saturating_sub(MARGIN_NANOS)),
        ScalarValue::from(to.saturating_add(MARGIN_NANOS)),
    ];
    let gauges = GPU_GAUGES.join(", ");
    let gpus = format!(
        "SELECT 'GPU ' || gpu_uuid || coalesce(' instance ' || mig_instance, '') AS name, time_unix_nano, {gauges} \
         FROM gpu_samples WHERE gpu_uuid IN (SELECT gpu_uuid FROM evidence WHERE trace_id = $1) \
         AND time_unix_nano BETWEEN $2 AND $3 ORDER BY name, time_unix_nano"
    );
    let gauges = ENGINE_GAUGES.join(", ");
    let named = ["k8s_pod_uid", "k8s_pod_name", "service_instance_id"].map(|column| {
        format!(
            "{column} IN (SELECT {column} FROM requests WHERE trace_id = $1 AND position = 'engine')"
        )
    });
    let engines = format!(
        "SELECT engine || coalesce(' ' || coalesce(k8s_pod_name, service_instance_id), '') \
         || coalesce(' ' || engine_index, '') AS name, time_unix_nano, {gauges} \
         FROM engine_samples WHERE ({}) AND time_unix_nano BETWEEN $2 AND $3 ORDER BY name, time_unix_nano",
        named.join(" OR ")
    );
    for (sql, gauges) in [(gpus, GPU_GAUGES), (engines, ENGINE_GAUGES)] {
        let batches = ask(engine, caller.question(sql, window.to_vec())).await?;
        for batch in &batches {
            add_series(batch, gauges, &mut found.series)?;
        }
    }
    Ok(found)
}

async fn ask(engine: &Engine, question: Question) -> Result<Vec<RecordBatch>> {
    let question = Question {
        rows: Some(ROWS_MAX),
        ..question
    };
    Ok(engine.ask(question).await?.try_collect().await?)
}

async fn phases(
    engine: &Engine,
    trace_id: TraceId,
    caller: Caller,
) -> Result<BTreeMap<SpanId, Vec<Phase>>> {
    let sql = "SELECT span_id, phase, offset_s, duration_s FROM request_phases WHERE trace_id = $1 \
               AND offset_s IS NOT NULL ORDER BY span_id, phase_idx";
    let parameters = vec![ScalarValue::from(trace_id.to_string())];
    let batches = ask(engine, caller.question(sql, parameters)).await?;
    let mut found: BTreeMap<SpanId, Vec<Phase>> = BTreeMap::new();
    for batch in &batches {
        let (span_id, phase) = (column(batch, "span_id")?, column(batch, "phase")?);
        let (offset_s, duration_s) = (floats(batch, "offset_s")?, floats(batch, "duration_s")?);
        for row in 0..batch.num_rows() {
            let text = |column: &ArrayRef| {
                let texts = column.as_string_opt::<i32>()?;
                texts.is_valid(row).then(|| texts.value(row).to_owned())
            };
            let span_id = text(&span_id).and_then(|id| SpanId::parse_hex(&id).ok());
            let number = |column: &ArrayRef| value(column, row);
            let (Some(span_id), Some(name), Some(offset_s), Some(duration_s)) = (
                span_id,
                text(&phase),
                number(&offset_s),
                number(&duration_s),
            ) else {
                continue;
            };
            found.entry(span_id).or_default().push(Phase {
                name,
                offset_s,
                duration_s,
            });
        }
    }
    Ok(found)
}

/// From the first start to the last end, in nanoseconds since 1970.
fn extent(trace: &StoredTrace) -> Option<(i64, i64)> {
    let (mut from, mut to) = (None, None);
    for batch in &trace.batches {
        let times = |name| batch.column_by_name(name)?.as_primitive_opt::<Int64Type>();
        let (starts, ends) = (times("start_time_unix_nano"), times("end_time_unix_nano"));
        from = from
            .into_iter()
            .chain(starts.and_then(::arrow::compute::min))
            .min();
        to = to
            .into_iter()
            .chain(ends.and_then(::arrow::compute::max))
            .max();
    }
    Some((from?, to.or(from)?))
}

fn add_series(
    batch: &RecordBatch,
    gauges: &[&'static str],
    series: &mut Vec<Series>,
) -> Result<()> {
    let (names, times) = (column(batch, "name")?, column(batch, "time_unix_nano")?);
    let columns = gauges
        .iter()
        .map(|gauge| Ok((*gauge, floats(batch, gauge)?)));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let (Some(names), Some(times)) = (
        names.as_string_opt::<i32>(),
        times.as_primitive_opt::<Int64Type>(),
    ) else {
        return Err(Error::writing("samples without names or times"));
    };
    for row in 0..batch.num_rows() {
        let name = names.value(row);
        if series.last().is_none_or(|last| last.name != name) {
            series.push(Series {
                name: name.to_owned(),
                values: Vec::new(),
            });
        }
        let Some(last) = series.last_mut() else {
            continue;
        };
        let known = columns
            .iter()
            .filter_map(|(gauge, column)| Some((times.value(row), *gauge, value(column, row)?)));
        last.values.extend(known);
    }
    Ok(())
}

fn column(batch: &RecordBatch, name: &str) -> Result<ArrayRef> {
    cells(batch, name).map_err(Error::writing)
}

fn floats(batch: &RecordBatch, name: &str) -> Result<ArrayRef> {
    cast(&column(batch, name)?, &DataType::Float64).map_err(Error::writing)
}

fn value(column: &ArrayRef, row: usize) -> Option<f64> {
    let numbers = column.as_primitive_opt::<Float64Type>()?;
    let number = numbers.is_valid(row).then(|| numbers.value(row));
    number.filter(|number| number.is_finite())
}
