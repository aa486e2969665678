//! Table `engine_samples`: what was scraped from inference engines, one row per scrape and engine.
//!
//! # Decided
//!
//! *An engine is (target, engine index, model, rank)*: a data-parallel server has one row per engine.
//!
//! *Counters are stored twice*: the total as it was, and the difference to the sample before
//! (`*_delta`), over `interval_ns`. The first sample has no difference; after a restart, seen by a
//! total that fell, it is what has been counted since (`counter_reset`). A counter that arrives
//! with delta temporality has only a difference.
//!
//! *Series that add up* (requests by reason) are added within one export: of a scrape that a Collector
//! cuts in two, the first part counts.
//!
//! *Gauges move on engine steps only*: a stuck engine shows its last values.

mod columns;
mod draft;
mod history;
mod names;
mod write;

pub use columns::{EngineCounter, EngineGauge, SPEC};
pub use names::Engine;
pub use write::EngineSamplesBuilder;

pub(super) use draft::Drafts;
pub(super) use history::Engines;
pub(super) use names::Name;

use super::quality::Quality;

/// One row of `engine_samples`.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineSample {
    /// When it was scraped, in nanoseconds since 1970.
    pub time_unix_nano: u64,
    /// When it was received, in nanoseconds since 1970.
    pub received_unix_nano: u64,
    /// Which engine it is.
    pub key: EngineKey,
    /// What describes the engine.
    pub identity: Identity,
    /// Time since the sample before; `None` for the first.
    pub interval_ns: Option<u64>,
    /// Upper bound of the largest step (in tokens) since the sample before; `None` if it is not
    /// known or beyond the last bound.
    pub iteration_tokens_max_le: Option<f64>,
    /// Why values are missing or doubtful.
    pub quality: Vec<Quality>,
    gauges: [f64; EngineGauge::ALL.len()],
    totals: [f64; EngineCounter::ALL.len()],
    deltas: [f64; EngineCounter::ALL.len()],
}

/// Which engine a sample is of.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EngineKey {
    /// Scrape target.
    pub service_instance_id: Option<String>,
    /// Pod, where targets are not told apart otherwise.
    pub k8s_pod_name: Option<String>,
    /// Its program.
    pub engine: Engine,
    /// Model.
    pub model: Option<String>,
    /// Index among the data-parallel engines of a server.
    pub engine_index: Option<String>,
    /// Rank of the process in the engine (or replica), where each has its own series.
    pub rank: Option<String>,
}

/// What describes an engine but is no key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Scrape job.
    pub service_name: Option<String>,
    /// Kubernetes cluster.
    pub k8s_cluster_name: Option<String>,
    /// Namespace.
    pub k8s_namespace_name: Option<String>,
    /// Pod, unique over time.
    pub k8s_pod_uid: Option<String>,
    /// Container in the pod.
    pub k8s_container_name: Option<String>,
    /// Kubernetes node.
    pub k8s_node_name: Option<String>,
    /// Host.
    pub host_name: Option<String>,
}

impl EngineSample {
    /// The value of a gauge in the unit of its column.
    pub fn gauge(&self, gauge: EngineGauge) -> Option<f64> {
        known(self.gauges[gauge as usize])
    }

    /// A counter as it was.
    pub fn total(&self, counter: EngineCounter) -> Option<f64> {
        known(self.totals[counter as usize])
    }

    /// How much a counter grew since the sample before.
    pub fn delta(&self, counter: EngineCounter) -> Option<f64> {
        known(self.deltas[counter as usize])
    }
}

fn known(value: f64) -> Option<f64> {
    (!value.is_nan()).then_some(value)
}
