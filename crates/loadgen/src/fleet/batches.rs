//! What the engine's span of each request tells of the steps that it was in.
//!
//! Steps have the time of the model. A fault that sets an engine's clock ahead moves the spans of requests and not the
//! steps, which belong to requests from before and after it.

use super::{Batch, Config};
use crate::traffic::{InStep, InSteps};

/// Steps of one request, in order of time.
#[derive(Debug, Default)]
pub(super) struct Steps(Vec<InStep>);

impl Steps {
    pub(super) fn told(&self, config: &Config) -> InSteps<'_> {
        InSteps {
            first: self.0.first().filter(|_| config.batch_attributes),
            each: if config.batch_events { &self.0 } else { &[] },
        }
    }
}

/// Steps by place of the request; empty where none are told.
pub(super) fn by_request(config: &Config, batches: &[Batch], n_requests: usize) -> Vec<Steps> {
    let mut all: Vec<Steps> = Vec::new();
    all.resize_with(n_requests, Steps::default);
    if !config.batch_events && !config.batch_attributes {
        return all;
    }
    for batch in batches {
        let n_tokens = batch.participants.iter().map(|(_, tokens)| tokens).sum();
        let n_participants = u32::try_from(batch.participants.len()).unwrap_or(u32::MAX);
        for (place, tokens) in &batch.participants {
            all[*place].0.push(InStep {
                replica_idx: batch.replica_idx,
                number: batch.step,
                start: batch.start_unix_nano,
                end: batch.end_unix_nano,
                n_participants,
                n_tokens,
                tokens: *tokens,
            });
        }
    }
    all
}
