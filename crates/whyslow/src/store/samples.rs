//! The metrics of a release into rows of `gpu_samples` and `engine_samples`.
//!
//! What a sample means depends on those before it: counters that fell, XIDs that appeared, scrapes that came twice. That
//! state is in memory. After a restart it is what the releases say that are repeated; the first sample of a series
//! after that has no differences, and an XID that is there is one that was there before.

use arrow::array::RecordBatch;
use gateway::Release;
use tables::samples::engine::EngineSamplesBuilder;
use tables::samples::gpu::{GpuSample, GpuSamplesBuilder};
use tables::samples::{Limits, Losses, Mapper};

/// Maps the metrics of one release after the other.
#[derive(Debug)]
pub(super) struct Samples {
    mapper: Mapper,
    gpus: GpuSamplesBuilder,
    engines: EngineSamplesBuilder,
}

/// The rows of one release.
#[derive(Debug, Default)]
pub(super) struct Mapped {
    pub(super) gpus: Vec<RecordBatch>,
    pub(super) engines: Vec<RecordBatch>,
    /// What `gpus` was made of, in order of arrival.
    pub(super) gpu_samples: Vec<GpuSample>,
    pub(super) losses: Losses,
    /// Exports that could not be read.
    pub(super) n_lost: u64,
}

impl Samples {
    pub(super) fn new() -> Self {
        Self {
            mapper: Mapper::new(Limits::default()),
            gpus: GpuSamplesBuilder::new(),
            engines: EngineSamplesBuilder::new(),
        }
    }

    /// The rows of a release.
    pub(super) fn map(&mut self, release: &Release) -> Mapped {
        let mut mapped = Mapped::default();
        for export in &release.metrics {
            match self.mapper.map(export.body(), export.received_unix_nano) {
                Ok(samples) => {
                    mapped.losses.merge(&samples.losses);
                    for sample in &samples.gpus {
                        let row = append(&mut self.gpus, sample, &mut mapped.gpus);
                        mapped.n_lost += u64::from(!row);
                    }
                    for sample in &samples.engines {
                        let row = append(&mut self.engines, sample, &mut mapped.engines);
                        mapped.n_lost += u64::from(!row);
                    }
                    mapped.gpu_samples.extend(samples.gpus);
                }
                Err(error) => {
                    // It was checked when it arrived, so this is an error of this program.
                    mapped.n_lost += 1;
                    let error = crate::show::text::error_chain(&error);
                    tracing::error!(error, "accepted metrics could not be stored");
                }
            }
        }
        if !release.metrics.is_empty() {
            mapped.gpus.push(self.gpus.finish());
            mapped.engines.push(self.engines.finish());
        }
        mapped
    }
}

/// A builder of one of the two tables.
trait Builder {
    type Row;

    fn append(&mut self, row: &Self::Row) -> tables::Result<()>;

    fn finish(&mut self) -> RecordBatch;
}

impl Builder for GpuSamplesBuilder {
    type Row = GpuSample;

    fn append(&mut self, row: &GpuSample) -> tables::Result<()> {
        self.append(row)
    }

    fn finish(&mut self) -> RecordBatch {
        self.finish()
    }
}

impl Builder for EngineSamplesBuilder {
    type Row = tables::samples::engine::EngineSample;

    fn append(&mut self, row: &Self::Row) -> tables::Result<()> {
        self.append(row)
    }

    fn finish(&mut self) -> RecordBatch {
        self.finish()
    }
}

/// Appends a row, finishing the batch first where it has no room; says whether that worked.
fn append<B: Builder>(builder: &mut B, row: &B::Row, batches: &mut Vec<RecordBatch>) -> bool {
    let mut appended = builder.append(row);
    if appended.as_ref().is_err_and(tables::Error::is_full) {
        batches.push(builder.finish());
        appended = builder.append(row);
    }
    if let Err(error) = &appended {
        let error = crate::show::text::error_chain(error);
        tracing::error!(error, "a sample could not be stored");
    }
    appended.is_ok()
}
