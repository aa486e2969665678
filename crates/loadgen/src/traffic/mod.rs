//! Deterministic LLM traffic: the same configuration gives the same bytes, on every machine.
//!
//! Each request is one trace over four services, `chat-web` (client), `llm-gateway`, `rag-api` and
//! `vllm`, with the span names, scopes and attributes that vLLM 0.33 and the Python
//! instrumentations write. It is drawn first as plain numbers with a known [`Cause`] ([`Request`]),
//! then written as spans, then batched by service instance the way an SDK's batch processor does,
//! so that the parts of one trace arrive seconds apart and the engine's span last.
//!
//! Requests do not influence each other: queue times are drawn and not the result of a simulated
//! queue.

mod batch;
mod course;
mod message;
mod plan;
mod spans;
mod step;
#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::rng::Rng;

pub use plan::{Cause, Outside, Request};

pub use batch::engine_pod;
pub(crate) use batch::{NAMESPACE, engine_node, engine_pod_uid};
pub(crate) use course::nanos;
pub(crate) use plan::MODEL;
pub(crate) use spans::EngineSpan;
pub(crate) use step::{InStep, InSteps};

/// What to generate.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Equal seeds give equal traffic.
    pub seed: u64,
    /// How many requests, each a trace of its own.
    pub n_requests: u32,
    /// When the first client begins, in nanoseconds since 1970.
    pub start_unix_nano: u64,
    /// The mean time between the beginnings of two requests; they come at random (Poisson).
    pub gap_mean: Duration,
    /// The share of requests that fail, 0 to 1.
    pub failed_share: f64,
    /// The share of requests that are slow for a known [`Cause`], 0 to 1; taken from those that do
    /// not fail.
    pub slow_share: f64,
}

impl Default for Config {
    /// A hundred requests, five a second, from the beginning of 2026; 3 % fail and 5 % are slow.
    fn default() -> Self {
        Self {
            seed: 1,
            n_requests: 100,
            start_unix_nano: 1_767_225_600_000_000_000,
            gap_mean: Duration::from_millis(200),
            failed_share: 0.03,
            slow_share: 0.05,
        }
    }
}

/// Generated requests and the export requests that tell of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Traffic {
    /// The truth, in order of beginning.
    pub requests: Vec<Request>,
    /// What is to be sent, in order of [`Export::due_unix_nano`].
    pub exports: Vec<Export>,
}

/// One export request of one service instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// `service.name` of the sender.
    pub service: &'static str,
    /// When the sender's batch processor would hand it over, in nanoseconds since 1970; after the
    /// end of all its spans.
    pub due_unix_nano: u64,
    /// Spans in the body.
    pub n_spans: u32,
    /// A protobuf `ExportTraceServiceRequest`.
    pub body: Vec<u8>,
}

/// Spans of requests that are there already, batched as [`generate`] does it.
#[derive(Debug)]
pub(crate) struct Told {
    rng: Rng,
    batches: batch::Batches,
    /// By place of the request; `None` where it reached no engine.
    engine_spans: Vec<Option<EngineSpan>>,
}

impl Told {
    pub(crate) fn new<'a>(
        requests: impl IntoIterator<Item = (&'a Request, InSteps<'a>)>,
        seed: u64,
    ) -> Self {
        let mut rng = Rng::new(seed);
        let mut batches = batch::Batches::default();
        let engine_spans = requests
            .into_iter()
            .map(|(request, steps)| {
                let mut own_rng = Rng::new(rng.next_u64());
                spans::write(request, &mut own_rng, &mut batches, steps)
            })
            .collect();
        Self {
            rng,
            batches,
            engine_spans,
        }
    }

    /// A step of an engine with the places of the requests in it and their tokens.
    pub(crate) fn step(
        &mut self,
        replica_idx: u8,
        number: u64,
        (start, end): (u64, u64),
        participants: &[(usize, u32)],
    ) {
        let link =
            |(place, tokens): &(usize, u32)| Some(((*self.engine_spans.get(*place)?)?, *tokens));
        let links: Vec<_> = participants.iter().filter_map(link).collect();
        let step = step::Step {
            replica_idx,
            number,
            start,
            end,
            links: &links,
        };
        step::write_step(&step, &mut self.rng, &mut self.batches);
    }

    pub(crate) fn into_exports(self) -> Vec<Export> {
        self.batches.into_exports()
    }
}

/// The latest beginning of a request; half of the range leaves room for whatever follows it.
const START_UNIX_NANO_MAX: u64 = u64::MAX / 2;

/// Generates all traffic of a configuration.
///
/// A beginning after the year 2262 is brought forward to it.
pub fn generate(config: &Config) -> Traffic {
    let mut rng = Rng::new(config.seed);
    let mut start_unix_nano = config.start_unix_nano.min(START_UNIX_NANO_MAX);
    let mut requests = Vec::new();
    let mut batches = batch::Batches::default();
    for _ in 0..config.n_requests {
        // A generator per request: a change in how one is drawn leaves the others as they were.
        let mut own_rng = Rng::new(rng.next_u64());
        let request = Request::draw(config, start_unix_nano, &mut own_rng);
        spans::write(&request, &mut own_rng, &mut batches, InSteps::default());
        requests.push(request);
        let gap = Duration::try_from_secs_f64(config.gap_mean.as_secs_f64() * rng.exponential(1.0))
            .unwrap_or(Duration::MAX);
        start_unix_nano = start_unix_nano
            .saturating_add(u64::try_from(gap.as_nanos()).unwrap_or(u64::MAX))
            .min(START_UNIX_NANO_MAX);
    }
    Traffic {
        requests,
        exports: batches.into_exports(),
    }
}
