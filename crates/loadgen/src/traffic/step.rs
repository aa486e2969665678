//! A step of an engine, as a span of its own and as the requests in it tell of it.

use super::{
    batch::{Batches, Sender},
    message::{Kind, Message, Value},
    spans::{EngineSpan, VLLM},
};
use crate::rng::Rng;

/// A step of an engine, as a span that links to the requests in it.
pub(super) struct Step<'a> {
    pub(super) replica_idx: u8,
    pub(super) number: u64,
    pub(super) start: u64,
    pub(super) end: u64,
    /// Spans of the requests, and their tokens in the step.
    pub(super) links: &'a [(EngineSpan, u32)],
}

/// A step as one of the requests in it knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InStep {
    pub(crate) replica_idx: u8,
    pub(crate) number: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) n_participants: u32,
    /// Of all of them.
    pub(crate) n_tokens: u32,
    /// Of this request.
    pub(crate) tokens: u32,
}

/// What the engine's span of a request tells of its steps.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct InSteps<'a> {
    /// As attributes.
    pub(crate) first: Option<&'a InStep>,
    /// As events, in order of time.
    pub(crate) each: &'a [InStep],
}

impl InStep {
    fn values<'a>(&self, batch_id: &'a str) -> [(&'static str, Value<'a>); 5] {
        let number = u32::try_from(self.number).unwrap_or(u32::MAX);
        [
            ("batch_id", Value::Str(batch_id)),
            ("step", Value::Int(number)),
            ("batch_size", Value::Int(self.n_participants)),
            ("batch_tokens", Value::Int(self.n_tokens)),
            ("tokens", Value::Int(self.tokens)),
        ]
    }
}

impl InSteps<'_> {
    /// Appends attributes and events to the span of the request.
    pub(super) fn write(&self, mut span: Message) -> Message {
        if let Some(step) = self.first {
            let batch_id = batch_id(step.replica_idx, step.number);
            let times = [
                ("batch_start_time_ns", Value::Long(step.start)),
                ("batch_end_time_ns", Value::Long(step.end)),
            ];
            span = span.attributes(9, &step.values(&batch_id));
            span = span.attributes(9, &times);
        }
        for step in self.each {
            let batch_id = batch_id(step.replica_idx, step.number);
            let event = Message::default()
                .fixed64(1, step.start)
                .bytes(2, b"engine.step")
                .attributes(3, &step.values(&batch_id))
                .attributes(
                    3,
                    &[("batch_duration_ns", Value::Long(step.end - step.start))],
                );
            span = span.message(11, &event);
        }
        span
    }
}

fn batch_id(replica_idx: u8, number: u64) -> String {
    format!("{replica_idx:02x}{:06x}", number & 0xff_ffff)
}

/// Writes the span of one step: a trace of its own, because it belongs to many.
pub(super) fn write_step(step: &Step<'_>, rng: &mut Rng, batches: &mut Batches) {
    let batch_id = batch_id(step.replica_idx, step.number);
    let trace_id = [rng.next_u64() | 1, rng.next_u64()]
        .map(u64::to_be_bytes)
        .concat();
    let n_tokens = step.links.iter().map(|(_, tokens)| tokens).sum();
    let mut span = Message::default()
        .bytes(1, &trace_id)
        .bytes(2, &(rng.next_u64() | 1).to_be_bytes())
        .bytes(5, b"engine_step")
        .varint(6, Kind::Internal.number())
        .fixed64(7, step.start)
        .fixed64(8, step.end)
        .attributes(
            9,
            &[
                ("batch_id", Value::Str(&batch_id)),
                (
                    "step",
                    Value::Int(u32::try_from(step.number).unwrap_or(u32::MAX)),
                ),
                ("batch_tokens", Value::Int(n_tokens)),
            ],
        );
    for ((trace_id, span_id), tokens) in step.links {
        let link = Message::default()
            .bytes(1, trace_id)
            .bytes(2, span_id)
            .attributes(4, &[("tokens", Value::Int(*tokens))]);
        span = span.message(13, &link);
    }
    let sender = Sender::Vllm {
        replica_idx: step.replica_idx,
    };
    batches.add(sender, VLLM, step.end, span.fixed32(16, 0x101));
}
