//! Table `gpu_samples`: what was scraped from GPUs, one row per scrape and device.
//!
//! # Decided
//!
//! *One row per device and time*, with every field that the scrape had. A field is absent where the
//! exporter has none; absence never means zero.
//!
//! *The board is a device beside its MIG instances* (`mig_instance` NULL). Instances have what is
//! measured on them: memory and the shares of active cycles. All else is the board's, even where an
//! exporter repeats it on each instance, so that a sum over rows counts a board once.
//!
//! *Workload labels are kept as observed*: at pod turnover a sample may carry the next pod.

mod columns;
mod draft;
mod history;
mod names;
mod write;

pub use columns::{GpuField, Nature, SPEC};
pub use names::{
    Source,
    labels::{Workload, canonical_device},
};
pub use write::GpuSamplesBuilder;

pub(super) use draft::Drafts;
pub(super) use history::Devices;
pub(super) use names::Name;

use super::quality::Quality;

/// One row of `gpu_samples`.
#[derive(Clone, Debug, PartialEq)]
pub struct GpuSample {
    /// When it was scraped, in nanoseconds since 1970.
    pub time_unix_nano: u64,
    /// When it was received, in nanoseconds since 1970.
    pub received_unix_nano: u64,
    /// The GPU; of a MIG instance, its parent where that is told.
    pub gpu_uuid: String,
    /// GPU instance id of a MIG instance; `None` for the board.
    pub mig_instance: Option<String>,
    /// What describes the device.
    pub identity: Identity,
    /// Pods seen on it, each once.
    pub workloads: Vec<Workload>,
    /// Whose names the fields had.
    pub source: Source,
    /// XIDs that appeared since the sample before.
    pub xid_events: Vec<u32>,
    /// Why values are missing or doubtful.
    pub quality: Vec<Quality>,
    values: [f64; GpuField::ALL.len()],
}

/// What describes a device but is no key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// UUID of the MIG instance.
    pub mig_uuid: Option<String>,
    /// Profile of the MIG instance.
    pub mig_profile: Option<String>,
    /// Model.
    pub gpu_model: Option<String>,
    /// Index on the host at that time.
    pub gpu_index: Option<String>,
    /// Its file on the host (`nvidia0`), as device plugins may call it; not stored.
    pub device_file: Option<String>,
    /// Driver, pool and device by which a claim (DRA) calls it, with `/` between them; not stored.
    pub claim_device: Option<String>,
    /// PCI address.
    pub pci_bus_id: Option<String>,
    /// Driver.
    pub driver_version: Option<String>,
    /// Kubernetes cluster.
    pub k8s_cluster_name: Option<String>,
    /// Kubernetes node.
    pub k8s_node_name: Option<String>,
    /// Host.
    pub host_name: Option<String>,
    /// Scrape job.
    pub service_name: Option<String>,
    /// Scrape target.
    pub service_instance_id: Option<String>,
}

impl GpuSample {
    /// The value of a field in the unit of its column.
    pub fn value(&self, field: GpuField) -> Option<f64> {
        let value = self.values[field as usize];
        (!value.is_nan()).then_some(value)
    }
}
