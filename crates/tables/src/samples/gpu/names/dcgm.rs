//! Names of DCGM fields as dcgm-exporter prints them: current, before and after the renaming of
//! 4.6, with base units (4.7), and of the 1.x namespace.
//!
//! Sources: `dcgm_fields.h` of 4.6.1, the counter files of dcgm-exporter, its release notes.

use super::{BaseUnit, MIB, Row, Target, field, row};
use crate::samples::gpu::columns::GpuField::*;

/// NVLink throughput is counted in KiB, divided by 1,000: what the exporter prints, in bytes per
/// second.
const NVLINK_UNIT: f64 = 1_024_000.0;

/// Ends of names that say a base unit.
pub(super) const SUFFIXES: &[(&str, BaseUnit)] = &[
    ("_bytes", BaseUnit::Bytes),
    ("_hertz", BaseUnit::Hertz),
    ("_celsius", BaseUnit::Celsius),
    ("_watts", BaseUnit::Watts),
    ("_joules_total", BaseUnit::Joules),
    ("_ratio", BaseUnit::Ratio),
    ("_ns", BaseUnit::Nanoseconds),
    ("_seconds", BaseUnit::Seconds),
    ("_seconds_total", BaseUnit::Seconds),
];

/// Does the name show that the exporter prints base units throughout?
pub(super) fn is_base_unit(name: &str) -> bool {
    name.ends_with("_hertz") || name.contains("_fb_") && name.ends_with("_bytes")
}

/// Label of exporters that print base units throughout.
pub(super) const BASE_UNIT_LABEL: &str = "DCGM_FI_SYSTEM_DRIVER_VERSION";

/// Labels that hold the driver's version.
pub(super) const DRIVER_LABELS: [&str; 2] = ["DCGM_FI_DRIVER_VERSION", BASE_UNIT_LABEL];

pub(super) const ROWS: &[Row] = &[
    field(UtilPct, 1.0, "dcgm_fi_dev_gpu_util dcgm_gpu_utilization"),
    row(Target::UtilEither, 1.0, "dcgm_fi_dev_gpu_util_ratio"),
    field(
        MemCopyUtilPct,
        1.0,
        "dcgm_fi_dev_mem_copy_util dcgm_mem_copy_utilization",
    ),
    field(EncUtilPct, 1.0, "dcgm_fi_dev_enc_util dcgm_enc_utilization"),
    field(DecUtilPct, 1.0, "dcgm_fi_dev_dec_util dcgm_dec_utilization"),
    field(
        GrEngineActive,
        1.0,
        "dcgm_fi_prof_gr_engine_active dcgm_fi_prof_gr_engine_util_ratio",
    ),
    field(
        SmActive,
        1.0,
        "dcgm_fi_prof_sm_active dcgm_fi_prof_sm_util_ratio",
    ),
    field(
        SmOccupancy,
        1.0,
        "dcgm_fi_prof_sm_occupancy dcgm_fi_prof_sm_occupancy_ratio",
    ),
    field(
        TensorActive,
        1.0,
        "dcgm_fi_prof_pipe_tensor_active dcgm_fi_prof_tensor_util_ratio",
    ),
    field(
        Fp64Active,
        1.0,
        "dcgm_fi_prof_pipe_fp64_active dcgm_fi_prof_fp64_util_ratio",
    ),
    field(
        Fp32Active,
        1.0,
        "dcgm_fi_prof_pipe_fp32_active dcgm_fi_prof_fp32_util_ratio",
    ),
    field(
        Fp16Active,
        1.0,
        "dcgm_fi_prof_pipe_fp16_active dcgm_fi_prof_fp16_util_ratio",
    ),
    field(
        DramActive,
        1.0,
        "dcgm_fi_prof_dram_active dcgm_fi_prof_dram_util_ratio",
    ),
    field(FbUsedMib, 1.0, "dcgm_fi_dev_fb_used dcgm_fb_used"),
    field(FbUsedMib, 1.0 / MIB, "dcgm_fi_dev_fb_used_bytes"),
    field(FbFreeMib, 1.0, "dcgm_fi_dev_fb_free dcgm_fb_free"),
    field(FbFreeMib, 1.0 / MIB, "dcgm_fi_dev_fb_free_bytes"),
    field(FbReservedMib, 1.0, "dcgm_fi_dev_fb_reserved"),
    field(FbReservedMib, 1.0 / MIB, "dcgm_fi_dev_fb_reserved_bytes"),
    field(FbTotalMib, 1.0, "dcgm_fi_dev_fb_total"),
    field(FbTotalMib, 1.0 / MIB, "dcgm_fi_dev_fb_capacity_bytes"),
    // A ratio under both names.
    field(
        FbUsedRatio,
        1.0,
        "dcgm_fi_dev_fb_used_percent dcgm_fi_dev_fb_used_ratio",
    ),
    field(
        PowerW,
        1.0,
        "dcgm_fi_dev_power_usage dcgm_fi_dev_board_power_watts dcgm_power_usage",
    ),
    field(
        PowerInstantW,
        1.0,
        "dcgm_fi_dev_power_usage_instant dcgm_fi_dev_board_power_raw_watts",
    ),
    field(
        PowerLimitW,
        1.0,
        "dcgm_fi_dev_enforced_power_limit dcgm_fi_dev_board_power_limit_enforced_watts",
    ),
    field(
        PowerLimitW,
        1.0,
        "dcgm_fi_dev_power_mgmt_limit dcgm_fi_dev_board_power_limit_requested_watts",
    ),
    field(
        EnergyTotalJ,
        1e-3,
        "dcgm_fi_dev_total_energy_consumption dcgm_total_energy_consumption",
    ),
    field(EnergyTotalJ, 1.0, "dcgm_fi_dev_gpu_energy_joules_total"),
    field(
        TempC,
        1.0,
        "dcgm_fi_dev_gpu_temp dcgm_fi_dev_gpu_temp_celsius dcgm_gpu_temp",
    ),
    field(
        MemTempC,
        1.0,
        "dcgm_fi_dev_memory_temp dcgm_fi_dev_memory_temp_celsius dcgm_memory_temp",
    ),
    // The distance to the limit under both names.
    field(
        TempMarginC,
        1.0,
        "dcgm_fi_dev_gpu_temp_limit dcgm_fi_dev_gpu_temp_margin_celsius",
    ),
    field(SmClockMhz, 1.0, "dcgm_fi_dev_sm_clock dcgm_sm_clock"),
    field(SmClockMhz, 1e-6, "dcgm_fi_dev_sm_clock_hertz"),
    field(MemClockMhz, 1.0, "dcgm_fi_dev_mem_clock dcgm_memory_clock"),
    field(MemClockMhz, 1e-6, "dcgm_fi_dev_memory_clock_hertz"),
    field(NvlinkTxBytesPerS, 1.0, "dcgm_fi_prof_nvlink_tx_bytes"),
    field(NvlinkRxBytesPerS, 1.0, "dcgm_fi_prof_nvlink_rx_bytes"),
    field(
        NvlinkTxBytesPerS,
        NVLINK_UNIT,
        "dcgm_fi_dev_nvlink_tx_throughput_total",
    ),
    field(
        NvlinkRxBytesPerS,
        NVLINK_UNIT,
        "dcgm_fi_dev_nvlink_rx_throughput_total",
    ),
    field(
        NvlinkBytesPerS,
        NVLINK_UNIT,
        "dcgm_fi_dev_nvlink_bandwidth_total dcgm_fi_dev_nvlink_throughput_total dcgm_nvlink_bandwidth_total",
    ),
    field(
        NvlinkTxTotalBytes,
        1.0,
        "dcgm_fi_dev_nvlink_count_tx_bytes dcgm_fi_dev_nvlink_tx_bytes_total",
    ),
    field(
        NvlinkRxTotalBytes,
        1.0,
        "dcgm_fi_dev_nvlink_count_rx_bytes dcgm_fi_dev_nvlink_rx_bytes_total",
    ),
    field(PcieTxBytesPerS, 1.0, "dcgm_fi_prof_pcie_tx_bytes"),
    field(PcieRxBytesPerS, 1.0, "dcgm_fi_prof_pcie_rx_bytes"),
    field(PcieTxTotalBytes, 1.0, "dcgm_fi_prof_pcie_tx_bytes_total"),
    field(PcieRxTotalBytes, 1.0, "dcgm_fi_prof_pcie_rx_bytes_total"),
    field(
        PcieReplayTotal,
        1.0,
        "dcgm_fi_dev_pcie_replay_counter dcgm_fi_dev_pcie_replay_total dcgm_pcie_replay_counter",
    ),
    field(PcieLinkGen, 1.0, "dcgm_fi_dev_pcie_link_gen"),
    field(PcieLinkWidth, 1.0, "dcgm_fi_dev_pcie_link_width"),
    field(
        NvlinkCrcFlitErrorsTotal,
        1.0,
        "dcgm_fi_dev_nvlink_crc_flit_error_count_total dcgm_fi_dev_nvlink_crc_flit_error_total dcgm_nvlink_flit_crc_error_count_total",
    ),
    field(
        NvlinkCrcDataErrorsTotal,
        1.0,
        "dcgm_fi_dev_nvlink_crc_data_error_count_total dcgm_fi_dev_nvlink_crc_data_error_total dcgm_nvlink_data_crc_error_count_total",
    ),
    field(
        NvlinkReplayErrorsTotal,
        1.0,
        "dcgm_fi_dev_nvlink_replay_error_count_total dcgm_fi_dev_nvlink_replay_error_total dcgm_nvlink_replay_error_count_total",
    ),
    field(
        NvlinkRecoveryErrorsTotal,
        1.0,
        "dcgm_fi_dev_nvlink_recovery_error_count_total dcgm_fi_dev_nvlink_recovery_error_total dcgm_nvlink_recovery_error_count_total",
    ),
    field(
        XidLast,
        1.0,
        "dcgm_fi_dev_xid_errors dcgm_fi_dev_xid_error dcgm_xid_errors",
    ),
    row(
        Target::XidCount,
        1.0,
        "dcgm_exp_xid_errors_count dcgm_fi_dev_xid_errors_active",
    ),
    field(
        ThrottleMask,
        1.0,
        "dcgm_fi_dev_clocks_event_reasons dcgm_fi_dev_clock_throttle_reasons",
    ),
    field(
        ThrottlePowerTotalNs,
        1.0,
        "dcgm_fi_dev_power_violation dcgm_power_violation",
    ),
    // The driver's counter of the violation above.
    field(
        ThrottlePowerTotalNs,
        1.0,
        "dcgm_fi_dev_clocks_event_reason_sw_power_cap_ns",
    ),
    field(
        ThrottleThermalTotalNs,
        1.0,
        "dcgm_fi_dev_thermal_violation dcgm_thermal_violation",
    ),
    field(
        ThrottleSyncBoostTotalNs,
        1.0,
        "dcgm_fi_dev_sync_boost_violation dcgm_sync_boost_violation",
    ),
    field(
        ThrottleSyncBoostTotalNs,
        1.0,
        "dcgm_fi_dev_clocks_event_reason_sync_boost_ns",
    ),
    field(
        ThrottleBoardLimitTotalNs,
        1.0,
        "dcgm_fi_dev_board_limit_violation dcgm_board_limit_violation",
    ),
    field(
        ThrottleLowUtilTotalNs,
        1.0,
        "dcgm_fi_dev_low_util_violation dcgm_low_util_violation",
    ),
    field(
        ThrottleReliabilityTotalNs,
        1.0,
        "dcgm_fi_dev_reliability_violation dcgm_reliability_violation",
    ),
    field(
        ThrottleAppClocksTotalNs,
        1.0,
        "dcgm_fi_dev_total_app_clocks_violation",
    ),
    field(
        ThrottleBaseClocksTotalNs,
        1.0,
        "dcgm_fi_dev_total_base_clocks_violation",
    ),
    field(
        ThrottleSwThermalTotalNs,
        1.0,
        "dcgm_fi_dev_clocks_event_reason_sw_therm_slowdown_ns",
    ),
    field(
        ThrottleHwThermalTotalNs,
        1.0,
        "dcgm_fi_dev_clocks_event_reason_hw_therm_slowdown_ns",
    ),
    field(
        ThrottleHwPowerBrakeTotalNs,
        1.0,
        "dcgm_fi_dev_clocks_event_reason_hw_power_brake_slowdown_ns",
    ),
    field(
        EccSbeVolatileTotal,
        1.0,
        "dcgm_fi_dev_ecc_sbe_vol_total dcgm_ecc_sbe_volatile_total",
    ),
    field(
        EccDbeVolatileTotal,
        1.0,
        "dcgm_fi_dev_ecc_dbe_vol_total dcgm_ecc_dbe_volatile_total",
    ),
    field(
        EccSbeAggregateTotal,
        1.0,
        "dcgm_fi_dev_ecc_sbe_agg_total dcgm_ecc_sbe_aggregate_total",
    ),
    field(
        EccDbeAggregateTotal,
        1.0,
        "dcgm_fi_dev_ecc_dbe_agg_total dcgm_ecc_dbe_aggregate_total",
    ),
    field(
        RetiredPagesSbeTotal,
        1.0,
        "dcgm_fi_dev_retired_sbe dcgm_fi_dev_page_retired_sbe_total dcgm_retired_pages_sbe",
    ),
    field(
        RetiredPagesDbeTotal,
        1.0,
        "dcgm_fi_dev_retired_dbe dcgm_fi_dev_page_retired_dbe_total dcgm_retired_pages_dbe",
    ),
    field(
        RetiredPagesPending,
        1.0,
        "dcgm_fi_dev_retired_pending dcgm_fi_dev_page_retired_pending dcgm_retired_pages_pending",
    ),
    field(
        RowRemapCorrectableTotal,
        1.0,
        "dcgm_fi_dev_correctable_remapped_rows dcgm_fi_dev_row_remap_correctable_total",
    ),
    field(
        RowRemapUncorrectableTotal,
        1.0,
        "dcgm_fi_dev_uncorrectable_remapped_rows dcgm_fi_dev_row_remap_uncorrectable_total",
    ),
    field(RowRemapPending, 1.0, "dcgm_fi_dev_row_remap_pending"),
    field(
        RowRemapFailed,
        1.0,
        "dcgm_fi_dev_row_remap_failure dcgm_fi_dev_row_remap_failed",
    ),
    field(
        MemoryUnrepairable,
        1.0,
        "dcgm_fi_dev_memory_unrepairable_flag dcgm_fi_dev_memory_unrepairable",
    ),
    field(
        RecoveryAction,
        1.0,
        "dcgm_fi_dev_get_gpu_recovery_action dcgm_fi_dev_gpu_recovery_action",
    ),
    field(
        PerformanceState,
        1.0,
        "dcgm_fi_dev_pstate dcgm_fi_dev_gpu_pstate",
    ),
];
