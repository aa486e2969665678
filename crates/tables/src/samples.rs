//! Metrics exports to rows of `gpu_samples` and `engine_samples`.
//!
//! [`Mapper`] takes the bytes of a checked `ExportMetricsServiceRequest` (received, or made of a
//! scrape by `otlp::prometheus`) and gives rows with one unit per column; [`gpu`] and [`engine`]
//! hold the tables. What an exporter calls a field, and how it measures it, is known in
//! `gpu::names` and `engine::names` and nowhere else.
//!
//! # Traps, and what is done about them
//!
//! *Type and unit come from the name alone.* TYPE and HELP are whatever the user's counter file
//! says: rates are declared as counters, counters as gauges. A counter that arrives with delta
//! temporality is not a total: NULL.
//!
//! *One name, two units.* The ratio form of GPU utilisation was 0 to 100 before it was 0 to 1. The
//! other values and names of the scrape decide; where they do not, the value is NULL with
//! `unit_ambiguous`. A name that is not in the tables but is a known one with another unit at its
//! end is converted and marked `unit_by_suffix`.
//!
//! *No value is no zero.* Blank sentinels of every width, NaN, infinities, Prometheus' staleness
//! marker, negative gauges, percentages above 100 are dropped and counted or flagged. Utilisation
//! of a MIG instance, which is not measured, is NULL although exporters write 0.
//!
//! *A device is (UUID, MIG instance).* The index (`gpu="0"`) changes over restarts and is never a
//! key. The UUID label of an instance is its parent's; what is measured per board (power, energy,
//! temperature, clocks, XID) and repeated on each instance is filed under the board, once.
//!
//! *Not every row is a GPU.* Rows of one NVLink, of an NVSwitch, of a CPU and of a process have the
//! names of the GPU's fields; they are left out and counted. A row per sharing pod (time slicing)
//! repeats the device's value, or is that pod's part of it: the row without a pod is the device's;
//! parts without it are not added up but NULL with `per_pod_values`.
//!
//! *`pod` is mostly the exporter.* `exported_pod` is the workload where it exists; else `pod`, if it
//! is not the scrape target itself. `k8s.pod.name` of the resource never is: for GPUs it is the
//! exporter, for engines the engine. Labels are an observation at scrape time, not a placement.
//!
//! *An XID stays until the next one.* Only a change to another code, or a rise of a count, is an
//! event; a code that is there at first sight is `xid_preexisting`. A return to zero is a restart.
//!
//! *Scrapes come twice.* The same (device, field, time) is stored once, whoever delivered it and in
//! whichever request; a scrape that comes in two parts gives two rows with different fields.
//!
//! *Counters start anew.* GPU counters are stored as they are (`counter_reset` marks a fall); of the
//! engine's counters the difference to the scrape before is stored too, from zero after a restart.
//!
//! # Limits
//!
//! State for changes, resets and duplicates is kept per device and per engine, at most
//! [`Limits::series_max`] of each; the longest unseen are forgotten first and counted. An export
//! gives at most 65,536 rows of each table.
//! After a restart the state is empty: the first sample of each series has no differences.

pub mod engine;
pub mod gpu;

mod cells;
mod quality;
mod resource;
mod series;

use otlp::metrics::{MetricAt, Point, PointValue, Temporality};

use crate::error::{Error, Result};

pub use quality::{Flag, Quality};
use resource::Resource;
pub use series::{Counter, Step};

/// Bounds of the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most devices, and most engines, that are remembered.
    pub series_max: usize,
}

impl Default for Limits {
    /// 65,536: a fleet of that many GPUs behind one gateway; up to 4 KiB each.
    fn default() -> Self {
        Self {
            series_max: 1 << 16,
        }
    }
}

/// Most rows of a table that one export gives: a row is many times larger than the point that
/// opens it.
const ROWS_MAX: usize = 1 << 16;

/// Rows of one export request.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// By device, then time.
    pub gpus: Vec<gpu::GpuSample>,
    /// By engine, then time.
    pub engines: Vec<engine::EngineSample>,
    /// Points that are in no row.
    pub losses: Losses,
}

/// Maps exports to rows, in the order in which they arrived. Has one owner.
#[derive(Debug, Default)]
pub struct Mapper {
    gpus: gpu::Devices,
    engines: engine::Engines,
}

impl Mapper {
    /// A mapper that has seen nothing.
    pub fn new(limits: Limits) -> Self {
        Self {
            gpus: gpu::Devices::new(limits),
            engines: engine::Engines::new(limits),
        }
    }

    /// The rows of `body`, which `otlp::export::check` accepted. `received_unix_nano` stands for times
    /// that were not sent or cannot be.
    ///
    /// # Errors
    /// [`Error::Metrics`] for a body that was not checked; nothing is remembered of it then.
    pub fn map(&mut self, body: &[u8], received_unix_nano: u64) -> Result<Samples> {
        let mut samples = Samples::default();
        let mut drafts = Drafts {
            gpus: gpu::Drafts::default(),
            engines: engine::Drafts::default(),
            received_unix_nano,
        };
        drafts
            .read(body, &mut samples.losses)
            .map_err(|source| Error::Metrics { source })?;
        samples.gpus = self.gpus.finish(drafts.gpus, &mut samples.losses);
        samples.engines = self.engines.finish(drafts.engines, &mut samples.losses);
        Ok(samples)
    }

    /// Devices and engines that were forgotten for lack of room since the start.
    pub const fn n_forgotten(&self) -> u64 {
        self.gpus.n_forgotten() + self.engines.n_forgotten()
    }
}

/// Rows before they are compared with earlier ones.
struct Drafts {
    gpus: gpu::Drafts,
    engines: engine::Drafts,
    received_unix_nano: u64,
}

impl Drafts {
    fn read(&mut self, body: &[u8], losses: &mut Losses) -> Result<(), otlp::Error> {
        let mut resource = Resource::default();
        let mut resource_offset = None;
        for metric in otlp::metrics::metrics(body) {
            let metric = metric?;
            if resource_offset != Some(metric.resource_offset) {
                self.gpus.end_resource(losses);
                resource_offset = Some(metric.resource_offset);
                resource = Resource::read(&metric);
            }
            self.metric(&metric, &resource, losses)?;
        }
        self.gpus.end_resource(losses);
        Ok(())
    }

    fn metric(
        &mut self,
        metric: &MetricAt<'_>,
        resource: &Resource<'_>,
        losses: &mut Losses,
    ) -> Result<(), otlp::Error> {
        let gpu_name = gpu::Name::lookup(metric);
        let engine_name = match gpu_name {
            Some(_) => None,
            None => engine::Name::lookup(metric.name),
        };
        for point in metric.points() {
            let point = point?;
            let at = PointAt::new(&point, metric, self.received_unix_nano);
            let lost = if point.is_no_recorded_value() {
                Err(LossReason::NoRecordedValue)
            } else if let Some(name) = &gpu_name {
                self.gpus.add(name, &at, resource)
            } else if let Some(name) = &engine_name {
                self.engines.add(name, &at, resource)
            } else {
                Err(LossReason::Unrelated)
            };
            if let Err(reason) = lost {
                losses.add(reason, 1);
            }
        }
        Ok(())
    }
}

/// A point with its time put right.
#[derive(Clone, Copy, Debug)]
struct PointAt<'p, 'a> {
    point: &'p Point<'a>,
    resource_offset: u32,
    is_delta: bool,
    time_unix_nano: u64,
    received_unix_nano: u64,
    /// The time is that of receipt: none was sent, or one that cannot be.
    is_time_replaced: bool,
}

/// How far ahead of the receipt a time may be.
const AHEAD_MAX_NANO: u64 = 3_600_000_000_000;

impl<'p, 'a> PointAt<'p, 'a> {
    fn new(point: &'p Point<'a>, metric: &MetricAt<'a>, received_unix_nano: u64) -> Self {
        let sent = point.time_unix_nano;
        let latest = received_unix_nano.saturating_add(AHEAD_MAX_NANO);
        let is_plausible = crate::time::is_plausible(sent) && sent <= latest;
        Self {
            point,
            resource_offset: metric.resource_offset,
            is_delta: metric.temporality == Temporality::Delta,
            time_unix_nano: if is_plausible {
                sent
            } else {
                received_unix_nano
            },
            received_unix_nano,
            is_time_replaced: !is_plausible,
        }
    }

    /// Its number, if it is one point of a gauge or sum.
    fn number(&self) -> Result<f64, LossReason> {
        match self.point.value {
            PointValue::Double(value) if !value.is_finite() => Err(LossReason::NotFinite),
            PointValue::Double(value) => Ok(value),
            #[expect(
                clippy::cast_precision_loss,
                reason = "stored as a double; blank sentinels stay recognisable"
            )]
            PointValue::Int(value) => Ok(value as f64),
            PointValue::None => Err(LossReason::NoRecordedValue),
            PointValue::Distribution { .. } => Err(LossReason::Unmapped),
        }
    }
}

/// Why a point is in no row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LossReason {
    /// A metric of something else (the exporter's own process, for instance).
    Unrelated,
    /// A metric of GPUs or engines for which there is no column.
    Unmapped,
    /// No UUID: an index is no identity.
    NoDevice,
    /// Measured on one NVLink.
    PerLink,
    /// Measured on one process.
    PerProcess,
    /// Measured on a switch, a CPU or other hardware.
    OtherHardware,
    /// NaN or infinite.
    NotFinite,
    /// A blank sentinel of DCGM: the field has no value.
    Sentinel,
    /// The series has no value any more.
    NoRecordedValue,
    /// A total sent as a difference.
    DeltaTemporality,
    /// Beyond what the field can be.
    OutOfRange,
    /// Its name has been used with two units.
    UnitAmbiguous,
    /// Not measured on a MIG instance.
    NotInMig,
    /// A pod's part of a value that the device has not.
    PerPod,
    /// The same device (or engine), field and time was there before.
    Duplicate,
    /// The export has more rows than are built at once.
    TooManyRows,
}

impl LossReason {
    /// All of them.
    pub const ALL: [Self; 16] = [
        Self::Unrelated,
        Self::Unmapped,
        Self::NoDevice,
        Self::PerLink,
        Self::PerProcess,
        Self::OtherHardware,
        Self::NotFinite,
        Self::Sentinel,
        Self::NoRecordedValue,
        Self::DeltaTemporality,
        Self::OutOfRange,
        Self::UnitAmbiguous,
        Self::NotInMig,
        Self::PerPod,
        Self::Duplicate,
        Self::TooManyRows,
    ];

    /// For logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unrelated => "unrelated",
            Self::Unmapped => "unmapped",
            Self::NoDevice => "no_device",
            Self::PerLink => "per_link",
            Self::PerProcess => "per_process",
            Self::OtherHardware => "other_hardware",
            Self::NotFinite => "not_finite",
            Self::Sentinel => "sentinel",
            Self::NoRecordedValue => "no_recorded_value",
            Self::DeltaTemporality => "delta_temporality",
            Self::OutOfRange => "out_of_range",
            Self::UnitAmbiguous => "unit_ambiguous",
            Self::NotInMig => "not_in_mig",
            Self::PerPod => "per_pod",
            Self::Duplicate => "duplicate",
            Self::TooManyRows => "too_many_rows",
        }
    }
}

/// Points that are in no row, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    counts: [u64; LossReason::ALL.len()],
}

impl Losses {
    /// Points lost for this reason.
    pub const fn count(&self, reason: LossReason) -> u64 {
        self.counts[reason as usize]
    }

    /// Reasons and points, where there are any.
    pub fn iter(&self) -> impl Iterator<Item = (LossReason, u64)> {
        let counts = LossReason::ALL.into_iter().zip(self.counts);
        counts.filter(|(_, n_points)| *n_points > 0)
    }

    /// Adds what another export lost.
    pub fn merge(&mut self, other: &Self) {
        for (reason, n_points) in other.iter() {
            self.add(reason, n_points);
        }
    }

    const fn add(&mut self, reason: LossReason, n_points: u64) {
        self.counts[reason as usize] += n_points;
    }
}

/// A count or code; what is no whole number is not one.
fn whole(value: f64) -> Option<i64> {
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    let is_whole = value.fract() == 0.0 && (-BEYOND..BEYOND).contains(&value);
    #[expect(
        clippy::cast_possible_truncation,
        reason = "checked to be a whole number that 64 bits hold"
    )]
    is_whole.then_some(value as i64)
}

#[cfg(test)]
mod tests;
