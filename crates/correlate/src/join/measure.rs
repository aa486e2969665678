//! Which columns of `gpu_samples` evidence is made of.

/// Values at a moment, or means over a scrape interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Gauge {
    GpuUtil,
    GrEngineActive,
    SmActive,
    TensorActive,
    DramActive,
    SmClock,
    Temperature,
    MemoryTemperature,
    Power,
    FbUsed,
}

impl Gauge {
    pub(crate) const ALL: [Self; 10] = [
        Self::GpuUtil,
        Self::GrEngineActive,
        Self::SmActive,
        Self::TensorActive,
        Self::DramActive,
        Self::SmClock,
        Self::Temperature,
        Self::MemoryTemperature,
        Self::Power,
        Self::FbUsed,
    ];

    /// Column of `gpu_samples`.
    pub(crate) const fn column(self) -> &'static str {
        match self {
            Self::GpuUtil => "util_pct",
            Self::GrEngineActive => "gr_engine_active",
            Self::SmActive => "sm_active",
            Self::TensorActive => "tensor_active",
            Self::DramActive => "dram_active",
            Self::SmClock => "sm_clock_mhz",
            Self::Temperature => "temp_c",
            Self::MemoryTemperature => "mem_temp_c",
            Self::Power => "power_w",
            Self::FbUsed => "fb_used_mib",
        }
    }
}

/// Counters that grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Total {
    Energy,
    ThermalThrottle,
    PowerThrottle,
    EccDbe,
    PcieReplay,
    NvlinkErrors,
}

impl Total {
    pub(crate) const ALL: [Self; 6] = [
        Self::Energy,
        Self::ThermalThrottle,
        Self::PowerThrottle,
        Self::EccDbe,
        Self::PcieReplay,
        Self::NvlinkErrors,
    ];

    /// Column of `gpu_samples`.
    pub(crate) const fn column(self) -> &'static str {
        match self {
            Self::Energy => "energy_j_total",
            Self::ThermalThrottle => "throttle_thermal_ns_total",
            Self::PowerThrottle => "throttle_power_ns_total",
            Self::EccDbe => "ecc_dbe_total",
            Self::PcieReplay => "pcie_replay_total",
            Self::NvlinkErrors => "nvlink_errors_total",
        }
    }
}
