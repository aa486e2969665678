//! A step of an engine as a span.

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

/// Writes the span of one step: a trace of its own, because it belongs to many.
pub(super) fn write_step(step: &Step<'_>, rng: &mut Rng, batches: &mut Batches) {
    let batch_id = format!("{:02x}{:06x}", step.replica_idx, step.number & 0xff_ffff);
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
