//! Which columns of `gpu_samples` evidence is made of.

use tables::samples::gpu::GpuField;

/// Values at a moment, or means over a scrape interval; those that are compared with the minutes before come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Gauge {
    GpuUtil,
    Power,
    Temperature,
    GrEngineActive,
    SmActive,
    TensorActive,
    DramActive,
    SmClock,
    MemoryTemperature,
    FbUsed,
}

impl Gauge {
    pub(crate) const ALL: [Self; 10] = [
        Self::GpuUtil,
        Self::Power,
        Self::Temperature,
        Self::GrEngineActive,
        Self::SmActive,
        Self::TensorActive,
        Self::DramActive,
        Self::SmClock,
        Self::MemoryTemperature,
        Self::FbUsed,
    ];

    /// So many of the first are compared with the minutes before.
    pub(crate) const N_COMPARED: usize = 3;

    pub(crate) const fn field(self) -> GpuField {
        match self {
            Self::GpuUtil => GpuField::UtilPct,
            Self::GrEngineActive => GpuField::GrEngineActive,
            Self::SmActive => GpuField::SmActive,
            Self::TensorActive => GpuField::TensorActive,
            Self::DramActive => GpuField::DramActive,
            Self::SmClock => GpuField::SmClockMhz,
            Self::Temperature => GpuField::TempC,
            Self::MemoryTemperature => GpuField::MemTempC,
            Self::Power => GpuField::PowerW,
            Self::FbUsed => GpuField::FbUsedMib,
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
    NvlinkCrcFlit,
    NvlinkCrcData,
    NvlinkReplay,
    NvlinkRecovery,
}

impl Total {
    pub(crate) const ALL: [Self; 9] = [
        Self::Energy,
        Self::ThermalThrottle,
        Self::PowerThrottle,
        Self::EccDbe,
        Self::PcieReplay,
        Self::NvlinkCrcFlit,
        Self::NvlinkCrcData,
        Self::NvlinkReplay,
        Self::NvlinkRecovery,
    ];

    pub(crate) const fn field(self) -> GpuField {
        match self {
            Self::Energy => GpuField::EnergyTotalJ,
            Self::ThermalThrottle => GpuField::ThrottleThermalTotalNs,
            Self::PowerThrottle => GpuField::ThrottlePowerTotalNs,
            Self::EccDbe => GpuField::EccDbeVolatileTotal,
            Self::PcieReplay => GpuField::PcieReplayTotal,
            Self::NvlinkCrcFlit => GpuField::NvlinkCrcFlitErrorsTotal,
            Self::NvlinkCrcData => GpuField::NvlinkCrcDataErrorsTotal,
            Self::NvlinkReplay => GpuField::NvlinkReplayErrorsTotal,
            Self::NvlinkRecovery => GpuField::NvlinkRecoveryErrorsTotal,
        }
    }
}
