//! Messages of `proto/`: reports of who holds which GPU and which requests ran together, and the part of the
//! kubelet's `PodResources` that says who holds which device.
//!
//! [`Kind`] names the reports and their gRPC methods. [`check()`] judges the bytes of one: what passes it can be read by
//! [`read_placements`] or [`read_batches`] at any time later. [`pod_resources`] are the messages of the kubelet.
//!
//! # Decided
//!
//! The messages are written here with prost's derive, and a test compares each with its `.proto`, which `protox`
//! compiles (field by field: number, type, name). Code generation in a build script was rejected: it would put a
//! compiler of protocol buffers into every build of the binary, for a dozen messages that change once a year, and its
//! output obeys none of our lints.
//!
//! Does not know the network, the log or tables, and reads no clock.

mod check;
mod error;
mod messages;
pub mod pod_resources;

pub use check::{
    BATCHES_MAX, Checked, PARTICIPANTS_MAX, PLACEMENTS_MAX, TEXT_BYTES_MAX, check, is_gpu_uuid,
    read_batches, read_placements,
};
pub use error::{Error, Result};
pub use messages::{
    Batch, Observation, Participant, Phase, Placement, ReportBatchesRequest,
    ReportPlacementsRequest, Worker,
};
/// Encodes and decodes the messages.
pub use prost::Message;

/// What is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Who holds which GPU.
    Placements,
    /// Which requests ran together.
    Batches,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Placements, Self::Batches];

    /// As metrics say it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Placements => "placements",
            Self::Batches => "batches",
        }
    }

    /// Path of its gRPC method.
    #[must_use]
    pub const fn method(self) -> &'static str {
        match self {
            Self::Placements => "/whyslow.v1.ReportService/ReportPlacements",
            Self::Batches => "/whyslow.v1.ReportService/ReportBatches",
        }
    }

    /// The kind that a gRPC method takes.
    #[must_use]
    pub fn of_method(path: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.method() == path)
    }
}

#[cfg(test)]
mod tests;
