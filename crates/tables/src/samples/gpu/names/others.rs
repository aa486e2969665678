//! Names of receivers and agents other than NVIDIA's exporters.

use super::{MIB, Row, Target, field, row};
use crate::samples::gpu::columns::GpuField::{self, *};

const PIPES: &[(&str, GpuField)] = &[
    ("tensor", TensorActive),
    ("fp64", Fp64Active),
    ("fp32", Fp32Active),
    ("fp16", Fp16Active),
];
const MEMORY_STATES: &[(&str, GpuField)] = &[
    ("used", FbUsedMib),
    ("free", FbFreeMib),
    ("reserved", FbReservedMib),
];
const NVLINK_TOTALS: &[(&str, GpuField)] = &[
    ("transmit", NvlinkTxTotalBytes),
    ("receive", NvlinkRxTotalBytes),
];
const PCIE_TOTALS: &[(&str, GpuField)] = &[
    ("transmit", PcieTxTotalBytes),
    ("receive", PcieRxTotalBytes),
];
const NVLINK_RATES: &[(&str, GpuField)] = &[("tx", NvlinkTxBytesPerS), ("rx", NvlinkRxBytesPerS)];
const PCIE_RATES: &[(&str, GpuField)] = &[("tx", PcieTxBytesPerS), ("rx", PcieRxBytesPerS)];
const VIOLATIONS: &[(&str, GpuField)] = &[
    ("power", ThrottlePowerTotalNs),
    ("thermal", ThrottleThermalTotalNs),
    ("sync_boost", ThrottleSyncBoostTotalNs),
    ("board_limit", ThrottleBoardLimitTotalNs),
    ("low_util", ThrottleLowUtilTotalNs),
    ("reliability", ThrottleReliabilityTotalNs),
    ("app_clock", ThrottleAppClocksTotalNs),
    ("base_clock", ThrottleBaseClocksTotalNs),
];
const ECC: &[(&str, GpuField)] = &[("sbe", EccSbeVolatileTotal), ("dbe", EccDbeVolatileTotal)];
const TASKS: &[(&str, GpuField)] = &[
    ("", UtilPct),
    ("general", UtilPct),
    ("encoder", EncUtilPct),
    ("decoder", DecUtilPct),
];

/// Google's `dcgmreceiver`, now and up to 2024. It multiplies MiB by 1,000,000 and calls the result
/// bytes.
pub(super) const GOOGLE: &[Row] = &[
    field(UtilPct, 100.0, "gpu.dcgm.utilization dcgm.gpu.utilization"),
    field(
        SmActive,
        1.0,
        "gpu.dcgm.sm.utilization dcgm.gpu.profiling.sm_utilization",
    ),
    field(
        SmOccupancy,
        1.0,
        "gpu.dcgm.sm.occupancy dcgm.gpu.profiling.sm_occupancy",
    ),
    row(
        Target::By(&["gpu.pipe", "pipe"], PIPES),
        1.0,
        "gpu.dcgm.pipe.utilization dcgm.gpu.profiling.pipe_utilization",
    ),
    field(
        DramActive,
        1.0,
        "gpu.dcgm.memory.bandwidth_utilization dcgm.gpu.profiling.dram_utilization",
    ),
    row(
        Target::By(&["gpu.memory.state", "state"], MEMORY_STATES),
        1e-6,
        "gpu.dcgm.memory.bytes_used dcgm.gpu.memory.bytes_used",
    ),
    field(EnergyTotalJ, 1.0, "gpu.dcgm.energy_consumption"),
    field(TempC, 1.0, "gpu.dcgm.temperature"),
    field(SmClockMhz, 1e-6, "gpu.dcgm.clock.frequency"),
    row(
        Target::By(&["network.io.direction"], NVLINK_TOTALS),
        1.0,
        "gpu.dcgm.nvlink.io",
    ),
    row(
        Target::By(&["network.io.direction"], PCIE_TOTALS),
        1.0,
        "gpu.dcgm.pcie.io",
    ),
    row(
        Target::By(&["direction"], NVLINK_RATES),
        1.0,
        "dcgm.gpu.profiling.nvlink_traffic_rate",
    ),
    row(
        Target::By(&["direction"], PCIE_RATES),
        1.0,
        "dcgm.gpu.profiling.pcie_traffic_rate",
    ),
    row(
        Target::By(&["gpu.clock.violation"], VIOLATIONS),
        1e9,
        "gpu.dcgm.clock.throttle_duration.time",
    ),
    row(
        Target::By(&["gpu.error.type"], ECC),
        1.0,
        "gpu.dcgm.ecc_errors",
    ),
];

/// Means used of limit in the conventions, and something else in OpenLIT.
pub(super) const MEMORY_UTILIZATION: &str = "hw.gpu.memory.utilization";

/// Names that all kinds of hardware share.
pub(super) const NEEDS_HW_TYPE: &[&str] = &["hw.power", "hw.energy", "hw.temperature"];

/// OpenTelemetry's conventions and what OpenLIT adds. `hw.gpu.io` does not say which bus it is.
pub(super) const SEMCONV: &[Row] = &[
    row(
        Target::By(&["hw.gpu.task"], TASKS),
        100.0,
        "hw.gpu.utilization",
    ),
    field(FbUsedRatio, 1.0, MEMORY_UTILIZATION),
    field(FbUsedMib, 1.0 / MIB, "hw.gpu.memory.usage"),
    field(FbFreeMib, 1.0 / MIB, "hw.gpu.memory.free"),
    field(FbTotalMib, 1.0 / MIB, "hw.gpu.memory.limit"),
    field(PowerW, 1.0, "hw.power hw.gpu.power.draw"),
    field(PowerLimitW, 1.0, "hw.gpu.power.limit"),
    field(EnergyTotalJ, 1.0, "hw.energy hw.gpu.energy.consumed"),
    field(TempC, 1.0, "hw.temperature hw.gpu.temperature"),
    field(SmClockMhz, 1.0, "hw.gpu.clock.graphics"),
    field(MemClockMhz, 1.0, "hw.gpu.clock.memory"),
];

/// AMD's device-metrics-exporter. Its memory is in "MB", which is said of both units.
pub(super) const AMD: &[Row] = &[
    field(UtilPct, 1.0, "gpu_gfx_activity"),
    field(MemCopyUtilPct, 1.0, "gpu_umc_activity"),
    row(Target::Ambiguous(FbUsedMib), 1.0, "gpu_used_vram"),
    row(Target::Ambiguous(FbFreeMib), 1.0, "gpu_free_vram"),
    row(Target::Ambiguous(FbTotalMib), 1.0, "gpu_total_vram"),
    field(PowerW, 1.0, "gpu_package_power"),
    field(EnergyTotalJ, 1e-6, "gpu_energy_consumed"),
    field(TempC, 1.0, "gpu_junction_temperature"),
    field(MemTempC, 1.0, "gpu_memory_temperature"),
    field(PcieReplayTotal, 1.0, "pcie_replay_count"),
    field(EccSbeVolatileTotal, 1.0, "gpu_ecc_correct_total"),
    field(EccDbeVolatileTotal, 1.0, "gpu_ecc_uncorrect_total"),
];

/// Polar Signals' agent.
pub(super) const POLAR_SIGNALS: &[Row] = &[
    field(UtilPct, 1.0, "gpu_utilization_percent"),
    field(MemCopyUtilPct, 1.0, "gpu_utilization_memory_percent"),
    field(TempC, 1.0, "gpu_temperature_celsius"),
    field(SmClockMhz, 1e-6, "gpu_clock_hertz"),
];

/// Coroot's node agent.
pub(super) const COROOT: &[Row] = &[
    field(UtilPct, 1.0, "node_resources_gpu_utilization_percent_avg"),
    field(FbUsedMib, 1.0 / MIB, "node_resources_gpu_memory_used_bytes"),
    field(
        FbTotalMib,
        1.0 / MIB,
        "node_resources_gpu_memory_total_bytes",
    ),
    field(PowerW, 1.0, "node_resources_gpu_power_usage_watts"),
    field(TempC, 1.0, "node_resources_gpu_temperature_celsius"),
];
