//! The columns of `gpu_samples`.

use crate::column::{Column, ColumnType, ColumnType::*, SortKey, Spec};

/// Table `gpu_samples`.
pub static SPEC: Spec = Spec {
    name: "gpu_samples",
    doc: "One row per scrape and GPU (or MIG instance), one unit per column. A value describes the time before the scrape.",
    columns: COLUMNS,
    sort: &[
        SortKey::ascending("gpu_uuid"),
        SortKey::ascending("time_unix_nano"),
    ],
    bloom: &["gpu_uuid"],
    stats: &["time", "gpu_uuid"],
    retention_days: 14,
};

/// What kind of quantity a field is: it decides what can be true of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nature {
    /// 0 to 100; of the board, and not measured on MIG instances.
    Percent,
    /// 0 to 1; of the board or of a MIG instance.
    Ratio,
    /// Not negative; of the board or of a MIG instance.
    Memory,
    /// Not negative; of the board.
    Gauge,
    /// May be negative; of the board.
    Signed,
    /// Since some start; of the board.
    Counter,
    /// A code, a bit mask or a flag; of the board.
    Code,
}

impl Nature {
    /// Is it measured for each MIG instance, not only for the whole board?
    pub const fn is_per_instance(self) -> bool {
        matches!(self, Self::Percent | Self::Ratio | Self::Memory)
    }

    /// Can it have this value? Ratios may overshoot by rounding.
    pub(super) fn allows(self, value: f64) -> bool {
        match self {
            Self::Percent => (0.0..=100.0).contains(&value),
            Self::Ratio => (0.0..=1.01).contains(&value),
            Self::Signed => (-273.15..=1e4).contains(&value),
            Self::Memory | Self::Gauge | Self::Counter | Self::Code => value >= 0.0,
        }
    }
}

/// Columns around the measured ones, and the measured ones with their field.
macro_rules! table {
    (
        before: [$($before:expr,)*]
        fields: [$($field:ident $name:literal $data_type:ident $unit:literal $nature:ident $doc:literal,)*]
        after: [$($after:expr,)*]
    ) => {
        const COLUMNS: &[Column] = &[
            $($before,)*
            $(Column::new($name, $data_type, $doc).unit($unit).source("metric name"),)*
            $($after,)*
        ];

        /// A measured column.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum GpuField {
            $(#[doc = $doc] $field,)*
        }

        impl GpuField {
            /// All of them in the order of the columns.
            pub const ALL: &[Self] = &[$(Self::$field,)*];

            /// Name of its column.
            pub const fn column(self) -> &'static str {
                match self { $(Self::$field => $name,)* }
            }

            /// Unit of its column.
            pub const fn unit(self) -> &'static str {
                match self { $(Self::$field => $unit,)* }
            }

            /// What kind of quantity it is.
            pub const fn nature(self) -> Nature {
                match self { $(Self::$field => Nature::$nature,)* }
            }

            pub(super) const fn data_type(self) -> ColumnType {
                match self { $(Self::$field => $data_type,)* }
            }
        }
    };
}

table! {
    before: [
        Column::new("date", Date, "Day of the sample (UTC); the partition.").key().source("time_unix_nano"),
        Column::new("time", Time, "When it was scraped.").key().source("time_unix_nano"),
        Column::new("time_unix_nano", Int, "The same, exact.").key().unit("ns").source("time_unix_nano"),
        Column::new("gpu_uuid", Text, "GPU, as GPU- and lower-case hex; of a MIG instance, its parent.").key().source("label UUID, uuid, gpu_uuid, hw.id, gpu.uuid"),
        Column::new("mig_instance", Text, "GPU instance id of a MIG instance; NULL for the board.").source("label GPU_I_ID, gpu_instance_id"),
        Column::new("mig_uuid", Text, "UUID of the MIG instance, where it is told.").source("label dra_mig_device_uuid, mig_uuid, hw.id"),
        Column::new("mig_profile", Text, "Profile of the MIG instance, such as 3g.40gb.").source("label GPU_I_PROFILE, profile"),
        Column::new("gpu_model", Text, "Model.").source("label modelName, model_name, hw.model, gpu.model"),
        Column::new("gpu_index", Text, "Index on its host at that time: for people, never a key.").source("label gpu"),
        Column::new("pci_bus_id", Text, "PCI address.").source("label pci_bus_id"),
        Column::new("driver_version", Text, "Driver.").source("label of the exporter"),
        Column::new("k8s_cluster_name", Text, "Kubernetes cluster.").source("resource k8s.cluster.name"),
        Column::new("k8s_node_name", Text, "Kubernetes node.").source("resource k8s.node.name, else label node"),
        Column::new("host_name", Text, "Host as the exporter says it, if it is not the exporter's pod.").source("label Hostname, hostname, else resource host.name"),
        Column::new("k8s_namespace_name", Text, "Namespace of the one workload on it, as observed.").source("label exported_namespace, namespace, pod_namespace"),
        Column::new("k8s_pod_name", Text, "Pod of the one workload on it; NULL for none and for several.").source("label exported_pod, pod, pod_name"),
        Column::new("k8s_pod_uid", Text, "The same, unique over time.").source("label exported_pod_uid, pod_uid"),
        Column::new("k8s_container_name", Text, "Container in that pod.").source("label exported_container, container, container_name"),
        Column::new("shared_pods", TextList, "namespace/pod of each workload, where there are several.").source("the same labels"),
    ]
    fields: [
        UtilPct "util_pct" Float "%" Percent "Time with at least one kernel, in the driver's last sample period (up to 1 s).",
        MemCopyUtilPct "mem_copy_util_pct" Float "%" Percent "Time in which memory was read or written.",
        EncUtilPct "enc_util_pct" Float "%" Percent "Video encoder busy.",
        DecUtilPct "dec_util_pct" Float "%" Percent "Video decoder busy.",
        GrEngineActive "gr_engine_active" Float "1" Ratio "Graphics or compute engine active, 0 to 1, mean over the watch interval.",
        SmActive "sm_active" Float "1" Ratio "Cycles with a warp on an SM, 0 to 1, mean over SMs.",
        SmOccupancy "sm_occupancy" Float "1" Ratio "Resident warps of the possible ones, 0 to 1.",
        TensorActive "tensor_active" Float "1" Ratio "Tensor pipe active, 0 to 1.",
        Fp64Active "fp64_active" Float "1" Ratio "FP64 pipe active, 0 to 1.",
        Fp32Active "fp32_active" Float "1" Ratio "FP32 pipe active, 0 to 1.",
        Fp16Active "fp16_active" Float "1" Ratio "FP16 pipe active, 0 to 1.",
        DramActive "dram_active" Float "1" Ratio "Memory interface active, 0 to 1.",
        FbUsedMib "fb_used_mib" Float "MiB" Memory "Memory in use.",
        FbFreeMib "fb_free_mib" Float "MiB" Memory "Memory free.",
        FbReservedMib "fb_reserved_mib" Float "MiB" Memory "Memory reserved by the driver.",
        FbTotalMib "fb_total_mib" Float "MiB" Memory "All memory, as reported: else the sum of used, free and reserved.",
        FbUsedRatio "fb_used_ratio" Float "1" Ratio "Used of what is not reserved, 0 to 1.",
        PowerW "power_w" Float "W" Gauge "Power draw; a 1 s average on most boards.",
        PowerInstantW "power_instant_w" Float "W" Gauge "Power draw at the moment.",
        PowerLimitW "power_limit_w" Float "W" Gauge "Power limit in force.",
        EnergyTotalJ "energy_total_j" Float "J" Counter "Energy since the driver was loaded.",
        TempC "temp_c" Float "Cel" Signed "Temperature of the GPU.",
        MemTempC "mem_temp_c" Float "Cel" Signed "Temperature of the memory.",
        TempMarginC "temp_margin_c" Float "Cel" Signed "Distance to the slowdown temperature.",
        SmClockMhz "sm_clock_mhz" Float "MHz" Gauge "Clock of the SMs.",
        MemClockMhz "mem_clock_mhz" Float "MHz" Gauge "Clock of the memory.",
        NvlinkTxBytesPerS "nvlink_tx_bytes_per_s" Float "By/s" Gauge "NVLink, sent, all links.",
        NvlinkRxBytesPerS "nvlink_rx_bytes_per_s" Float "By/s" Gauge "NVLink, received, all links.",
        NvlinkBytesPerS "nvlink_bytes_per_s" Float "By/s" Gauge "NVLink, sent and received; a rate, though declared a counter.",
        NvlinkTxTotalBytes "nvlink_tx_total_bytes" Float "By" Counter "NVLink, sent since the start.",
        NvlinkRxTotalBytes "nvlink_rx_total_bytes" Float "By" Counter "NVLink, received since the start.",
        PcieTxBytesPerS "pcie_tx_bytes_per_s" Float "By/s" Gauge "PCIe, device to host; a rate, though often declared a counter.",
        PcieRxBytesPerS "pcie_rx_bytes_per_s" Float "By/s" Gauge "PCIe, host to device; the same.",
        PcieTxTotalBytes "pcie_tx_total_bytes" Float "By" Counter "PCIe, device to host since the start.",
        PcieRxTotalBytes "pcie_rx_total_bytes" Float "By" Counter "PCIe, host to device since the start.",
        PcieReplayTotal "pcie_replay_total" Int "" Counter "PCIe retries.",
        PcieLinkGen "pcie_link_gen" Int "" Code "PCIe generation at the moment.",
        PcieLinkWidth "pcie_link_width" Int "lanes" Code "PCIe lanes at the moment.",
        NvlinkCrcFlitErrorsTotal "nvlink_crc_flit_errors_total" Int "" Counter "NVLink CRC errors in flow control, all links.",
        NvlinkCrcDataErrorsTotal "nvlink_crc_data_errors_total" Int "" Counter "NVLink CRC errors in data, all links.",
        NvlinkReplayErrorsTotal "nvlink_replay_errors_total" Int "" Counter "NVLink retries, all links.",
        NvlinkRecoveryErrorsTotal "nvlink_recovery_errors_total" Int "" Counter "NVLink recoveries, all links.",
        ThrottleMask "throttle_mask" Int "" Code "Reasons why clocks are reduced, as bits (NVML), at the moment.",
        ThrottlePowerTotalNs "throttle_power_total_ns" Float "ns" Counter "Time below the clocks asked for: power limit.",
        ThrottleThermalTotalNs "throttle_thermal_total_ns" Float "ns" Counter "The same: temperature.",
        ThrottleSyncBoostTotalNs "throttle_sync_boost_total_ns" Float "ns" Counter "The same: another GPU of its group.",
        ThrottleBoardLimitTotalNs "throttle_board_limit_total_ns" Float "ns" Counter "The same: limit of the board.",
        ThrottleLowUtilTotalNs "throttle_low_util_total_ns" Float "ns" Counter "The same: too little work.",
        ThrottleReliabilityTotalNs "throttle_reliability_total_ns" Float "ns" Counter "The same: reliability.",
        ThrottleAppClocksTotalNs "throttle_app_clocks_total_ns" Float "ns" Counter "Time below the application clocks.",
        ThrottleBaseClocksTotalNs "throttle_base_clocks_total_ns" Float "ns" Counter "Time below the base clocks.",
        ThrottleSwThermalTotalNs "throttle_sw_thermal_total_ns" Float "ns" Counter "Slowed by software for temperature.",
        ThrottleHwThermalTotalNs "throttle_hw_thermal_total_ns" Float "ns" Counter "Slowed by hardware for temperature.",
        ThrottleHwPowerBrakeTotalNs "throttle_hw_power_brake_total_ns" Float "ns" Counter "Slowed by the power brake.",
        EccSbeVolatileTotal "ecc_sbe_volatile_total" Int "" Counter "Corrected memory errors since the driver was loaded.",
        EccDbeVolatileTotal "ecc_dbe_volatile_total" Int "" Counter "Uncorrected memory errors since the driver was loaded.",
        EccSbeAggregateTotal "ecc_sbe_aggregate_total" Int "" Counter "Corrected memory errors in the life of the board.",
        EccDbeAggregateTotal "ecc_dbe_aggregate_total" Int "" Counter "Uncorrected memory errors in the life of the board.",
        RetiredPagesSbeTotal "retired_pages_sbe_total" Int "" Counter "Pages retired for corrected errors.",
        RetiredPagesDbeTotal "retired_pages_dbe_total" Int "" Counter "Pages retired for uncorrected errors.",
        RetiredPagesPending "retired_pages_pending" Int "" Code "Pages that wait to be retired.",
        RowRemapCorrectableTotal "row_remap_correctable_total" Int "" Counter "Rows remapped for corrected errors.",
        RowRemapUncorrectableTotal "row_remap_uncorrectable_total" Int "" Counter "Rows remapped for uncorrected errors.",
        RowRemapPending "row_remap_pending" Int "" Code "Whether rows wait to be remapped (0 or 1).",
        RowRemapFailed "row_remap_failed" Int "" Code "Whether remapping rows has failed (0 or 1).",
        MemoryUnrepairable "memory_unrepairable" Int "" Code "Whether memory is beyond repair (0 or 1).",
        RecoveryAction "recovery_action" Int "" Code "What the driver recommends: 0 nothing, 1 reset, 2 reboot, 3 drain P2P, 4 drain and reset.",
        PerformanceState "performance_state" Int "" Code "P-state: 0 is the fastest.",
        XidLast "xid_last" Int "" Code "Last XID since the driver was loaded: stays until the next; NULL for none.",
    ]
    after: [
        Column::new("xid_events", TextList, "XIDs that appeared between the scrape before and this one.").source("changes of the last XID, rises of counts"),
        Column::new("source", Text, "Whose names it has: dcgm, google_dcgm, semconv, nvidia_smi, amd, polar_signals or coroot.").key().source("metric name"),
        Column::new("service_name", Text, "Scrape job.").source("resource service.name, else label job"),
        Column::new("service_instance_id", Text, "Scrape target.").source("resource service.instance.id, else label instance"),
        Column::new("quality", TextList, "Why values are missing or doubtful.").source("mapping"),
        Column::new("received_time", Time, "When it was received.").source("intake"),
    ]
}
