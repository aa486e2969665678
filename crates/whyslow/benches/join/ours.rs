//! The join as the service does it: an index over the window, then the evidence of one release after the other.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{AsArray as _, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{Float64Type, Int64Type};
use correlate::{
    Device, KeptRequest, Placement, Placements, Pod, Ranks, SampleIndex, Settings, Source, Traffic,
};
use otlp::{SpanId, TraceId};

use super::{Outcome, Result, Sums, data, processor_s};

/// Requests whose rows are made together.
const REQUESTS_PER_RELEASE: usize = 1_000;

pub(crate) fn run(folder: &Path) -> Result<()> {
    let begun = processor_s();
    let samples = data::read(&folder.join(data::SAMPLES))?;
    let requests = kept(&data::read(&folder.join(data::REQUESTS))?)?;
    let placements = placed(&data::read(&folder.join(data::PLACEMENTS))?)?;
    let read_s = processor_s() - begun;

    let begun = processor_s();
    let index = SampleIndex::new(&samples)?;
    let index_s = processor_s() - begun;
    let placements = Placements::new(placements);
    let traffic = Traffic::new(requests.iter().filter_map(|request| {
        let engine = Arc::clone(request.engine.as_ref()?);
        Some((engine, request.start_unix_nano, request.end_unix_nano))
    }));
    let mut sums = Sums::default();
    for release in requests.chunks(REQUESTS_PER_RELEASE) {
        let settings = Settings::default();
        let rows = correlate::evidence(release, &index, &placements, &traffic, settings, 0);
        sums.add(&rows);
    }
    let join_s = processor_s() - begun;
    eprint(index_s);
    let outcome = Outcome {
        side: "correlate".to_owned(),
        n_requests: requests.len(),
        read_s,
        join_s,
        sums,
    };
    outcome.print();
    // After the numbers: what is compared row by row.
    super::sql::write_part(
        folder,
        "correlate",
        &part(&requests, &index, &placements, &traffic)?,
    )
}

#[expect(clippy::print_stderr, reason = "beside the line that the script reads")]
fn eprint(index_s: f64) {
    eprintln!("index of the samples: {index_s:.3} s");
}

/// Rows of every hundredth request.
fn part(
    requests: &[KeptRequest],
    index: &SampleIndex,
    placements: &Placements,
    traffic: &Traffic,
) -> Result<RecordBatch> {
    let some: Vec<KeptRequest> = requests.iter().step_by(100).cloned().collect();
    let rows = correlate::evidence(&some, index, placements, traffic, Settings::default(), 0);
    let ids = rows["span_id"].as_string::<i32>();
    let ids: Int64Array = ids
        .iter()
        .map(|id| Some(i64::from_str_radix(id?, 16).ok()? - 1))
        .collect();
    let columns = [
        "gpu_uuid",
        "method",
        "sample_count",
        "util_pct_avg",
        "power_w_avg",
        "power_w_max",
        "sm_clock_mhz_avg",
        "sm_clock_mhz_min",
        "temp_c_max",
        "thermal_throttle_share",
    ];
    let mut named: Vec<(&str, arrow::array::ArrayRef)> = vec![("request_id", Arc::new(ids))];
    named.extend(columns.map(|name| (name, Arc::clone(&rows[name]))));
    Ok(RecordBatch::try_from_iter(named)?)
}

impl Sums {
    /// Takes the rows that samples speak for; a request between two samples has the nearest, which the SQL leaves out.
    fn add(&mut self, rows: &RecordBatch) {
        let methods: &StringArray = rows["method"].as_string();
        let counts: &Int64Array = rows["sample_count"].as_primitive::<Int64Type>();
        let float = |name: &str| -> &Float64Array { rows[name].as_primitive::<Float64Type>() };
        let (power, util) = (float("power_w_avg"), float("util_pct_avg"));
        let (clock, temp) = (float("sm_clock_mhz_min"), float("temp_c_max"));
        for (row, method) in methods.iter().enumerate() {
            if method == Some("within") {
                self.n_rows += 1;
                self.n_samples += counts.value(row);
                self.power_w_avg += power.value(row);
                self.util_pct_avg += util.value(row);
                self.sm_clock_mhz_min += clock.value(row);
                self.temp_c_max += temp.value(row);
            }
        }
    }
}

fn kept(batches: &[RecordBatch]) -> Result<Vec<KeptRequest>> {
    let mut kept = Vec::new();
    for batch in batches {
        let ids = batch["request_id"].as_primitive::<Int64Type>();
        let pods = batch["pod"].as_string::<i32>();
        let starts = batch["start_unix_nano"].as_primitive::<Int64Type>();
        let ends = batch["end_unix_nano"].as_primitive::<Int64Type>();
        for row in 0..batch.num_rows() {
            // An id of zeros is none.
            let id = (ids.value(row) + 1).to_be_bytes();
            let pod: Arc<str> = Arc::from(pods.value(row));
            kept.push(KeptRequest {
                trace_id: TraceId::from_slice(&[id, id].concat())?,
                span_id: SpanId::from_slice(&id)?,
                engine: Some(Arc::clone(&pod)),
                pod: Pod {
                    name: Some(pod),
                    ..Pod::default()
                },
                node: None,
                start_unix_nano: starts.value(row),
                end_unix_nano: ends.value(row),
            });
        }
    }
    Ok(kept)
}

fn placed(batches: &[RecordBatch]) -> Result<Vec<Placement>> {
    let mut placed = Vec::new();
    for batch in batches {
        let pods = batch["pod"].as_string::<i32>();
        let gpus = batch["gpu_uuid"].as_string::<i32>();
        let from = batch["valid_from_unix_nano"].as_primitive::<Int64Type>();
        let to = batch["valid_to_unix_nano"].as_primitive::<Int64Type>();
        for row in 0..batch.num_rows() {
            placed.push(Placement {
                device: Device::parse(gpus.value(row), None).ok_or("a GPU without a UUID")?,
                pod: Pod {
                    name: Some(Arc::from(pods.value(row))),
                    ..Pod::default()
                },
                container: None,
                node: None,
                ranks: Ranks::default(),
                valid_from_unix_nano: from.value(row),
                valid_to_unix_nano: Some(to.value(row)),
                source: Source::ExporterLabels,
            });
        }
    }
    Ok(placed)
}
