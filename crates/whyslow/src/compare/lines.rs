//! A comparison as rows for programs: one for each measure of each cohort.

use std::io::{self, Write};
use std::sync::Arc;

use anyhow::Context as _;
use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::csv::Writer as CsvWriter;
use arrow::ipc::writer::StreamWriter;
use correlate::compare::{Change, Interval, Measure};

use super::{Compared, text::cohort_name};

pub(super) fn csv(compared: &Compared) -> anyhow::Result<Vec<u8>> {
    let batch = batch(compared)?;
    let mut bytes = Vec::new();
    CsvWriter::new(&mut bytes)
        .write(&batch)
        .context("write the comparison as CSV")?;
    Ok(bytes)
}

pub(super) fn arrow(compared: &Compared) -> anyhow::Result<Vec<u8>> {
    let batch = batch(compared)?;
    let mut bytes = Vec::new();
    let written = StreamWriter::try_new(&mut bytes, batch.schema_ref()).and_then(|mut writer| {
        writer.write(&batch)?;
        writer.finish()
    });
    written.context("write the comparison as an Arrow stream")?;
    Ok(bytes)
}

pub(super) fn write(bytes: &[u8]) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        // Whoever read it has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("write to standard output"),
    }
}

/// What a measure is of: `engine_ttft_s`, `error`, `input_band=lt_2k`, `requests_per_s`; and its quantile.
pub(super) fn measure_name(measure: &Measure) -> (&'static str, String, Option<f64>) {
    match measure {
        Measure::Quantile { latency, p } => ("quantile", latency.column().to_owned(), Some(*p)),
        Measure::Rate(failure) => ("rate", failure.as_str().to_owned(), None),
        Measure::Share { attribute, value } => {
            let value = value.as_deref().unwrap_or("NULL");
            ("share", format!("{attribute}={value}"), None)
        }
        Measure::Load => ("load", "requests_per_s".to_owned(), None),
    }
}

/// How much of what was there was read, for numbers that depend on it.
pub(super) fn scale(compared: &Compared, measure: &Measure) -> f64 {
    match measure {
        Measure::Load => compared.share.recip(),
        Measure::Quantile { .. } | Measure::Rate(_) | Measure::Share { .. } => 1.0,
    }
}

fn batch(compared: &Compared) -> anyhow::Result<RecordBatch> {
    let changes = &compared.comparison.changes;
    let float = |value: &dyn Fn(&Change) -> Option<f64>| -> ArrayRef {
        Arc::new(changes.iter().map(value).collect::<Float64Array>())
    };
    let scaled = |value: &dyn Fn(&Change) -> f64| {
        float(&|change| Some(value(change) * scale(compared, &change.measure)))
    };
    let ratio =
        |value: &dyn Fn(&Interval) -> f64| float(&|change| change.ratio.as_ref().map(value));
    let text = |value: &dyn Fn(&Change) -> String| -> ArrayRef {
        Arc::new(
            changes
                .iter()
                .map(|change| Some(value(change)))
                .collect::<StringArray>(),
        )
    };
    let count = |value: &dyn Fn(&Change) -> usize| -> ArrayRef {
        let counts = changes
            .iter()
            .map(|change| i64::try_from(value(change)).ok());
        Arc::new(counts.collect::<Int64Array>())
    };
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("cohort", text(&|change| cohort_name(&change.cohort))),
        (
            "kind",
            text(&|change| measure_name(&change.measure).0.to_owned()),
        ),
        ("measure", text(&|change| measure_name(&change.measure).1)),
        ("quantile", float(&|change| measure_name(&change.measure).2)),
        (
            "standing",
            text(&|change| change.standing.as_str().to_owned()),
        ),
        ("before", scaled(&|change| change.before.value)),
        ("before_low", scaled(&|change| change.before.low)),
        ("before_high", scaled(&|change| change.before.high)),
        ("before_requests", count(&|change| change.before.n_requests)),
        ("after", scaled(&|change| change.after.value)),
        ("after_low", scaled(&|change| change.after.low)),
        ("after_high", scaled(&|change| change.after.high)),
        ("after_requests", count(&|change| change.after.n_requests)),
        ("difference", scaled(&|change| change.difference.value)),
        ("difference_low", scaled(&|change| change.difference.low)),
        ("difference_high", scaled(&|change| change.difference.high)),
        ("ratio", ratio(&|ratio| ratio.value)),
        ("ratio_low", ratio(&|ratio| ratio.low)),
        ("ratio_high", ratio(&|ratio| ratio.high)),
        (
            "overall_before",
            float(&|change| change.overall.map(|(before, _)| before)),
        ),
        (
            "overall_after",
            float(&|change| change.overall.map(|(_, after)| after)),
        ),
        ("probability", float(&|change| Some(change.probability))),
    ];
    RecordBatch::try_from_iter(columns).context("put the comparison into rows")
}
