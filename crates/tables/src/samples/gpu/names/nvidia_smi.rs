//! Names of `nvidia_gpu_exporter`: what `nvidia-smi` prints, in base units.

use super::{MIB, Row, Target, field, row};
use crate::samples::gpu::columns::GpuField::*;

pub(super) const ROWS: &[Row] = &[
    row(Target::Info, 1.0, "nvidia_smi_gpu_info nvidia_smi_mig_info"),
    field(UtilPct, 100.0, "nvidia_smi_utilization_gpu_ratio"),
    field(MemCopyUtilPct, 100.0, "nvidia_smi_utilization_memory_ratio"),
    field(EncUtilPct, 100.0, "nvidia_smi_utilization_encoder_ratio"),
    field(DecUtilPct, 100.0, "nvidia_smi_utilization_decoder_ratio"),
    field(
        GrEngineActive,
        1.0,
        "nvidia_smi_mig_graphics_activity_ratio",
    ),
    field(SmActive, 1.0, "nvidia_smi_mig_sm_activity_ratio"),
    field(SmOccupancy, 1.0, "nvidia_smi_mig_sm_occupancy_ratio"),
    field(TensorActive, 1.0, "nvidia_smi_mig_tensor_activity_ratio"),
    field(
        FbUsedMib,
        1.0 / MIB,
        "nvidia_smi_memory_used_bytes nvidia_smi_mig_memory_used_bytes",
    ),
    field(
        FbFreeMib,
        1.0 / MIB,
        "nvidia_smi_memory_free_bytes nvidia_smi_mig_memory_free_bytes",
    ),
    field(
        FbReservedMib,
        1.0 / MIB,
        "nvidia_smi_memory_reserved_bytes nvidia_smi_mig_memory_reserved_bytes",
    ),
    field(
        FbTotalMib,
        1.0 / MIB,
        "nvidia_smi_memory_total_bytes nvidia_smi_mig_memory_total_bytes",
    ),
    field(PowerW, 1.0, "nvidia_smi_power_draw_watts"),
    field(PowerW, 1.0, "nvidia_smi_power_draw_average_watts"),
    field(PowerInstantW, 1.0, "nvidia_smi_power_draw_instant_watts"),
    field(PowerLimitW, 1.0, "nvidia_smi_enforced_power_limit_watts"),
    field(PowerLimitW, 1.0, "nvidia_smi_power_limit_watts"),
    field(EnergyTotalJ, 1.0, "nvidia_smi_energy_joules_total"),
    field(TempC, 1.0, "nvidia_smi_temperature_gpu"),
    field(MemTempC, 1.0, "nvidia_smi_temperature_memory"),
    field(TempMarginC, 1.0, "nvidia_smi_temperature_gpu_tlimit"),
    field(SmClockMhz, 1e-6, "nvidia_smi_clocks_current_sm_clock_hz"),
    field(
        MemClockMhz,
        1e-6,
        "nvidia_smi_clocks_current_memory_clock_hz",
    ),
    field(
        PcieTxBytesPerS,
        1.0,
        "nvidia_smi_pcie_throughput_tx_bytes_per_second",
    ),
    field(
        PcieRxBytesPerS,
        1.0,
        "nvidia_smi_pcie_throughput_rx_bytes_per_second",
    ),
    field(PcieLinkGen, 1.0, "nvidia_smi_pcie_link_gen_current"),
    field(PcieLinkWidth, 1.0, "nvidia_smi_pcie_link_width_current"),
    row(Target::XidCount, 1.0, "nvidia_smi_xid_errors_total"),
    field(
        ThrottleMask,
        1.0,
        "nvidia_smi_clocks_event_reasons_active nvidia_smi_clocks_throttle_reasons_active",
    ),
    row(
        Target::ThrottleBit(0x1),
        1.0,
        "nvidia_smi_clocks_event_reasons_gpu_idle nvidia_smi_clocks_throttle_reasons_gpu_idle",
    ),
    row(
        Target::ThrottleBit(0x2),
        1.0,
        "nvidia_smi_clocks_event_reasons_applications_clocks_setting nvidia_smi_clocks_throttle_reasons_applications_clocks_setting",
    ),
    row(
        Target::ThrottleBit(0x4),
        1.0,
        "nvidia_smi_clocks_event_reasons_sw_power_cap nvidia_smi_clocks_throttle_reasons_sw_power_cap",
    ),
    row(
        Target::ThrottleBit(0x8),
        1.0,
        "nvidia_smi_clocks_event_reasons_hw_slowdown nvidia_smi_clocks_throttle_reasons_hw_slowdown",
    ),
    row(
        Target::ThrottleBit(0x10),
        1.0,
        "nvidia_smi_clocks_event_reasons_sync_boost nvidia_smi_clocks_throttle_reasons_sync_boost",
    ),
    row(
        Target::ThrottleBit(0x20),
        1.0,
        "nvidia_smi_clocks_event_reasons_sw_thermal_slowdown nvidia_smi_clocks_throttle_reasons_sw_thermal_slowdown",
    ),
    row(
        Target::ThrottleBit(0x40),
        1.0,
        "nvidia_smi_clocks_event_reasons_hw_thermal_slowdown nvidia_smi_clocks_throttle_reasons_hw_thermal_slowdown",
    ),
    row(
        Target::ThrottleBit(0x80),
        1.0,
        "nvidia_smi_clocks_event_reasons_hw_power_brake_slowdown nvidia_smi_clocks_throttle_reasons_hw_power_brake_slowdown",
    ),
    field(
        ThrottlePowerTotalNs,
        1e9,
        "nvidia_smi_clocks_event_reasons_counters_sw_power_cap_seconds",
    ),
    field(
        ThrottleSyncBoostTotalNs,
        1e9,
        "nvidia_smi_clocks_event_reasons_counters_sync_boost_seconds",
    ),
    field(
        ThrottleSwThermalTotalNs,
        1e9,
        "nvidia_smi_clocks_event_reasons_counters_sw_thermal_slowdown_seconds",
    ),
    field(
        ThrottleHwThermalTotalNs,
        1e9,
        "nvidia_smi_clocks_event_reasons_counters_hw_thermal_slowdown_seconds",
    ),
    field(
        ThrottleHwPowerBrakeTotalNs,
        1e9,
        "nvidia_smi_clocks_event_reasons_counters_hw_power_brake_slowdown_seconds",
    ),
    field(
        EccSbeVolatileTotal,
        1.0,
        "nvidia_smi_ecc_errors_corrected_volatile_total",
    ),
    field(
        EccDbeVolatileTotal,
        1.0,
        "nvidia_smi_ecc_errors_uncorrected_volatile_total",
    ),
    field(
        EccSbeAggregateTotal,
        1.0,
        "nvidia_smi_ecc_errors_corrected_aggregate_total",
    ),
    field(
        EccDbeAggregateTotal,
        1.0,
        "nvidia_smi_ecc_errors_uncorrected_aggregate_total",
    ),
    field(
        RowRemapCorrectableTotal,
        1.0,
        "nvidia_smi_remapped_rows_correctable",
    ),
    field(
        RowRemapUncorrectableTotal,
        1.0,
        "nvidia_smi_remapped_rows_uncorrectable",
    ),
    field(RowRemapPending, 1.0, "nvidia_smi_remapped_rows_pending"),
    field(RowRemapFailed, 1.0, "nvidia_smi_remapped_rows_failure"),
    field(RecoveryAction, 1.0, "nvidia_smi_gpu_recovery_action"),
    field(PerformanceState, 1.0, "nvidia_smi_pstate"),
];
