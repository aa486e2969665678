//! A serving fleet in simulated time: requests that influence each other, and causes that are known.
//!
//! [`crate::traffic`] draws every request by itself; here they share engines. A discrete-event model of replicas with
//! continuous batching (`engine`), chunked prefill, a KV cache that runs full, preemption and tensor-parallel GPUs
//! (`gpu`) runs the requests; [`Fault`]s change what happens in a stretch of time. Out come what a real fleet would
//! tell: OTLP spans of client, gateway, RAG service and engine, `/metrics` of engines and of an exporter of GPUs per node once a second,
//! placements of pods on GPUs, batches with their participants; and the truth: for each request the time that each cause
//! cost it ([`Delays`]).
//!
//! Equal configurations give equal output on every machine. The numbers are orders of magnitude of an 8B model on two data
//! centre GPUs, not a benchmark of anything.
//!
//! It knows nothing of how the spans are used, and the truth goes to nobody but its caller.

mod batches;
mod engine;
mod exposition;
mod fault;
mod gpu;
mod scenario;
mod target;
mod truth;
mod world;

#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::traffic::Export;

pub use engine::Batch;
pub use fault::{Cause, Delays, Fault, FaultKind};
pub use gpu::Placement;
pub use scenario::{faults, tour};
pub use truth::truth;

pub use crate::traffic::engine_pod;

/// What to simulate.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Equal seeds give equal output.
    pub seed: u64,
    /// Beginning, in nanoseconds since 1970.
    pub start_unix_nano: u64,
    /// How long clients send requests; what is open then is finished.
    pub duration: Duration,
    /// Requests a second, on average, over all replicas.
    pub rate: f64,
    /// What goes wrong, and when.
    pub faults: Vec<Fault>,
    /// Whether engines tell of their batches, as spans with links to the requests in them.
    pub batch_spans: bool,
    /// Whether they tell of each as an event on the span of each request in it, with its tokens.
    pub batch_events: bool,
    /// Whether they tell of a request's first one as attributes of its span.
    pub batch_attributes: bool,
    /// Whether the exporters of GPUs say which pod holds which, as dcgm-exporter does with `--kubernetes`.
    pub names_pods: bool,
}

impl Default for Config {
    /// Three minutes at four requests a second, from the beginning of 2026, with nothing wrong.
    fn default() -> Self {
        Self {
            seed: 1,
            start_unix_nano: 1_767_225_600_000_000_000,
            duration: Duration::from_secs(180),
            rate: 4.0,
            faults: Vec::new(),
            batch_spans: false,
            batch_events: false,
            batch_attributes: false,
            names_pods: true,
        }
    }
}

/// What the fleet told, and what was true.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// The truth, in order of beginning.
    pub requests: Vec<Served>,
    /// Spans, in order of [`Export::due_unix_nano`].
    pub exports: Vec<Export>,
    /// `/metrics` of every engine and of the exporters of GPUs, in order of time.
    pub scrapes: Vec<Scrape>,
    /// Which pod held which GPU when.
    pub placements: Vec<Placement>,
    /// Every scheduling step, by replica and time.
    pub batches: Vec<Batch>,
}

/// A request and the truth about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Served {
    /// Its numbers, as its spans tell them where nothing is in their way.
    pub request: crate::traffic::Request,
    /// What each cause cost it.
    pub delays: Delays,
    /// Times that it lost its place in the KV cache.
    pub n_preemptions: u32,
    /// One of those that are sent to make others slow: a long prompt, or a long answer.
    pub is_injected: bool,
}

/// What a scrape of one target gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scrape {
    /// Who answered.
    pub target: Target,
    /// When, in nanoseconds since 1970.
    pub at_unix_nano: u64,
    /// Prometheus text.
    pub text: String,
}

/// Something that has `/metrics`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// The engine of a replica.
    Engine {
        /// Which, from 0.
        replica_idx: u8,
    },
    /// The exporter of the GPUs of a node.
    Gpus {
        /// Which, from 0.
        node_idx: u8,
    },
}

/// Replicas of the engine.
pub const N_REPLICAS: u8 = 2;

/// Nodes with GPUs: each replica has one of its own.
pub const N_NODES: u8 = N_REPLICAS;

/// GPUs of a replica, which run each step together.
pub const GPUS_PER_REPLICA: u8 = 2;

/// GPUs in the fleet: those of the replicas, and as many that other pods hold.
pub const N_GPUS: u8 = 2 * N_REPLICAS * GPUS_PER_REPLICA;

/// Runs the fleet.
#[must_use]
pub fn simulate(config: &Config) -> Run {
    world::World::new(config).run()
}
