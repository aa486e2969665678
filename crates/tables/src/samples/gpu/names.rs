//! What exporters call the fields of a GPU, and in which unit: the only place that knows.
//!
//! Each table lists (field, factor to the column's unit, names). Names are compared without case.
//! Of several rows for one field the first that a scrape has is used: aliases of one quantity are
//! never added up.
//!
//! A name of DCGM that is in no row, but is a known one with a unit at its end (`_BYTES`,
//! `_HERTZ`, ...: the naming rule since 4.6), is converted from that unit.

mod dcgm;
pub(super) mod labels;
mod nvidia_smi;
mod others;

use std::{collections::HashMap, sync::LazyLock};

use otlp::{
    attribute::{self, Value},
    metrics::{MetricAt, Point},
    scope,
};

use super::columns::{GpuField, Nature};
use crate::samples::LossReason;

pub(super) use labels::{Device, Labels};

/// Bytes in a MiB.
const MIB: f64 = 1_048_576.0;

/// Whose names a metric has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// NVIDIA's dcgm-exporter.
    Dcgm,
    /// Google's `dcgmreceiver`.
    GoogleDcgm,
    /// OpenTelemetry's `hw.*` conventions, OpenLIT's included.
    Semconv,
    /// `nvidia_gpu_exporter`.
    NvidiaSmi,
    /// AMD's device-metrics-exporter.
    Amd,
    /// Polar Signals' agent.
    PolarSignals,
    /// Coroot's node agent.
    Coroot,
}

impl Source {
    /// As stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Dcgm => "dcgm",
            Self::GoogleDcgm => "google_dcgm",
            Self::Semconv => "semconv",
            Self::NvidiaSmi => "nvidia_smi",
            Self::Amd => "amd",
            Self::PolarSignals => "polar_signals",
            Self::Coroot => "coroot",
        }
    }
}

/// What the points of a metric are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Target {
    /// Values of a field.
    Field(GpuField),
    /// Values of several fields, told apart by an attribute: its keys, and value to field. An
    /// attribute that is missing is the empty value.
    By(&'static [&'static str], &'static [(&'static str, GpuField)]),
    /// GPU utilisation in percent or as a ratio.
    UtilEither,
    /// How often each XID happened, in a window or since the start.
    XidCount,
    /// Is this reason for lower clocks in force?
    ThrottleBit(u32),
    /// No value: its labels describe the device.
    Info,
    /// Known, but without a unit that can be relied on.
    Ambiguous(GpuField),
    /// Not stored.
    Lost(LossReason),
}

/// A known metric name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::samples) struct Name {
    pub(super) target: Target,
    /// To the unit of the column.
    pub(super) factor: f64,
    /// 0 for the best name of a field.
    pub(super) rank: u8,
    pub(super) source: Source,
    /// It belongs to the naming with base units, in which every ratio is 0 to 1.
    pub(super) is_base_unit: bool,
    /// The unit was guessed from the end of the name.
    pub(super) is_by_suffix: bool,
    /// `hw.type` must say that it is a GPU.
    pub(super) needs_hw_type: bool,
}

/// Names of one quantity in one unit.
struct Row {
    target: Target,
    factor: f64,
    /// Separated by blanks, in lower case.
    names: &'static str,
}

const fn row(target: Target, factor: f64, names: &'static str) -> Row {
    Row {
        target,
        factor,
        names,
    }
}

const fn field(field: GpuField, factor: f64, names: &'static str) -> Row {
    row(Target::Field(field), factor, names)
}

static NAMES: LazyLock<HashMap<&'static str, Name>> = LazyLock::new(|| {
    let tables = [
        (Source::Dcgm, dcgm::ROWS),
        (Source::NvidiaSmi, nvidia_smi::ROWS),
        (Source::GoogleDcgm, others::GOOGLE),
        (Source::Semconv, others::SEMCONV),
        (Source::Amd, others::AMD),
        (Source::PolarSignals, others::POLAR_SIGNALS),
        (Source::Coroot, others::COROOT),
    ];
    let mut names = HashMap::new();
    for (source, rows) in tables {
        for (idx, row) in rows.iter().enumerate() {
            for text in row.names.split_ascii_whitespace() {
                let name = Name {
                    target: row.target,
                    factor: row.factor,
                    rank: u8::try_from(idx).unwrap_or(u8::MAX - 1),
                    source,
                    is_base_unit: source == Source::Dcgm && dcgm::is_base_unit(text),
                    is_by_suffix: false,
                    needs_hw_type: others::NEEDS_HW_TYPE.contains(&text),
                };
                let before = names.insert(text, name);
                debug_assert!(before.is_none(), "`{text}` is in two rows");
            }
        }
    }
    names
});

impl Name {
    /// `None` for metrics that have nothing to do with GPUs.
    pub(in crate::samples) fn lookup(metric: &MetricAt<'_>) -> Option<Self> {
        let name = metric.name;
        let prefixes = [
            "dcgm",
            "nvidia_smi_",
            "gpu",
            "hw.",
            "pcie_",
            "node_resources_gpu_",
        ];
        let begins = |prefix: &&str| {
            let head = name.get(..prefix.len());
            head.is_some_and(|head| head.eq_ignore_ascii_case(prefix))
        };
        prefixes.iter().find(|prefix| begins(prefix))?;
        let name = name.to_ascii_lowercase();
        if let Some(known) = NAMES.get(name.as_str()) {
            let mut known = *known;
            if name == others::MEMORY_UTILIZATION && is_openlit(metric) {
                known.target = Target::Field(GpuField::MemCopyUtilPct);
                known.factor = 100.0;
            }
            return Some(known);
        }
        Self::by_suffix(&name).or_else(|| Self::unmapped(&name))
    }

    fn by_suffix(name: &str) -> Option<Self> {
        dcgm::SUFFIXES.iter().find_map(|(suffix, unit)| {
            let known = NAMES.get(name.strip_suffix(suffix)?)?;
            let Target::Field(field) = known.target else {
                return None;
            };
            let factor = factor(unit, field)?;
            Some(Self {
                factor,
                is_base_unit: true,
                is_by_suffix: true,
                ..*known
            })
        })
    }

    fn unmapped(name: &str) -> Option<Self> {
        let source = match name {
            _ if name.starts_with("dcgm_") => Source::Dcgm,
            _ if name.starts_with("nvidia_smi_compute_app_") => {
                return Some(Self::lost(Source::NvidiaSmi, LossReason::PerProcess));
            }
            _ if name.starts_with("nvidia_smi_") => Source::NvidiaSmi,
            _ if name.starts_with("gpu.dcgm.") || name.starts_with("dcgm.gpu.") => {
                Source::GoogleDcgm
            }
            _ if name.starts_with("hw.gpu.") => Source::Semconv,
            _ => return None,
        };
        Some(Self::lost(source, LossReason::Unmapped))
    }

    const fn lost(source: Source, reason: LossReason) -> Self {
        Self {
            target: Target::Lost(reason),
            factor: 1.0,
            rank: u8::MAX,
            source,
            is_base_unit: false,
            is_by_suffix: false,
            needs_hw_type: false,
        }
    }

    /// The target of one point: of [`Target::By`], the field that its attribute names.
    pub(super) fn target_of(&self, point: &Point<'_>) -> Target {
        let Target::By(keys, cases) = self.target else {
            return self.target;
        };
        let found = keys
            .iter()
            .find_map(|key| attribute::lookup(point.attributes(), key));
        let text = match found {
            Some(Value::Str(text)) => text,
            _ => "",
        };
        let case = cases.iter().find(|(value, _)| *value == text);
        case.map_or(Target::Lost(LossReason::Unmapped), |(_, field)| {
            Target::Field(*field)
        })
    }
}

/// OpenLIT has the controller's utilisation where the conventions have used of limit.
fn is_openlit(metric: &MetricAt<'_>) -> bool {
    let scope = scope::read(metric.scope).map_or("", |scope| scope.name);
    scope.to_ascii_lowercase().contains("openlit")
}

/// A unit of the naming with base units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BaseUnit {
    Bytes,
    Hertz,
    Celsius,
    Watts,
    Joules,
    Ratio,
    Nanoseconds,
    Seconds,
}

/// From the unit to that of the field's column; `None` if they measure different things.
fn factor(unit: &BaseUnit, field: GpuField) -> Option<f64> {
    Some(match (unit, field.unit()) {
        (BaseUnit::Bytes, "MiB") => 1.0 / MIB,
        (BaseUnit::Hertz, "MHz") => 1e-6,
        (BaseUnit::Celsius, "Cel") | (BaseUnit::Watts, "W") | (BaseUnit::Joules, "J") => 1.0,
        (BaseUnit::Nanoseconds, "ns") => 1.0,
        (BaseUnit::Seconds, "ns") => 1e9,
        (BaseUnit::Ratio, "%") => 100.0,
        (BaseUnit::Ratio, "1") => 1.0,
        _ => return None,
    })
}

/// Is it a sentinel for "no value"? All widths arrive as doubles; the 32-bit range is also one of
/// real byte counts and totals.
pub(super) fn is_sentinel(value: f64, nature: Nature) -> bool {
    const FP64_BLANK: f64 = 140_737_488_355_328.0;
    const INT32_BLANK: f64 = 2_147_483_632.0;
    let is_wide = value >= 9.2e18 || (FP64_BLANK..=FP64_BLANK + 15.0).contains(&value);
    let is_32_bit = (INT32_BLANK..=INT32_BLANK + 15.0).contains(&value);
    is_wide || (is_32_bit && nature != Nature::Counter)
}
