//! One request as numbers: what happened and why, before any span is written.

use std::time::Duration;

use super::Config;
use crate::rng::Rng;

/// Why a request went the way it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// Nothing special.
    Ordinary,
    /// Slow: it waited long in the engine's queue.
    LongQueue,
    /// Slow: a very long prompt made the prefill long.
    LongPrompt,
    /// Slow: a very long answer made the decode long.
    LongOutput,
    /// Failed: the prompt exceeds the model's context; the engine answers 400 and writes no span.
    ContextTooLong,
    /// Failed: the engine does not take requests; 503 and no span.
    EngineUnavailable,
}

impl Cause {
    /// Whether the request got no answer from the model.
    pub const fn is_failure(self) -> bool {
        self.http_status() != 200
    }

    /// The HTTP status that every service passes on.
    pub const fn http_status(self) -> u16 {
        match self {
            Self::Ordinary | Self::LongQueue | Self::LongPrompt | Self::LongOutput => 200,
            Self::ContextTooLong => 400,
            Self::EngineUnavailable => 503,
        }
    }
}

/// A generated request.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Its trace; never all zero.
    pub trace_id: [u8; 16],
    /// As the engine names it: `chatcmpl-` and the gateway's request id.
    pub request_id: String,
    /// Why it went the way it did.
    pub cause: Cause,
    /// `gen_ai.request.model`.
    pub model: &'static str,
    /// Which engine replica served it, from 0.
    pub replica_idx: u8,
    /// When the client began, in nanoseconds since 1970.
    pub start_unix_nano: u64,
    /// Tokens of the prompt.
    pub input_tokens: u32,
    /// Tokens of the answer; 0 if it failed.
    pub output_tokens: u32,
    /// The limit that the client asked for.
    pub output_tokens_max: u32,
    /// The search for documents before the model is asked.
    pub retrieval: Duration,
    /// In the engine, before the first scheduling; zero if it failed, as are the next two.
    pub queue: Duration,
    /// From the first scheduling to the first token.
    pub prefill: Duration,
    /// From the first token to the last one; zero for a single token.
    pub decode: Duration,
    /// What happened around the engine.
    pub outside: Outside,
}

/// What happened to a request around the engine; all zero where nothing did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outside {
    /// Held back by the gateway before it was routed.
    pub gateway: Duration,
    /// From the gateway's last byte from the engine to the client's last byte, beyond the usual: the client read slowly.
    pub delivery: Duration,
    /// The engine did not get the trace context: its span is a trace of its own.
    pub context_lost: bool,
    /// How much the clock of the engine's host was ahead.
    pub engine_clock_ahead: Duration,
}

/// `gen_ai.request.model`.
pub(crate) const MODEL: &str = "meta-llama/Llama-3.1-8B-Instruct";

/// Replicas of the engine.
pub(super) const N_REPLICAS: u8 = 2;

/// Measured orders of magnitude of an 8B model on one data centre GPU: prefill at some 8,000 tokens
/// a second, 12 ms a token in decode.
const PREFILL_SECONDS_PER_TOKEN: f64 = 1.0 / 8_000.0;
const DECODE_SECONDS_PER_TOKEN: f64 = 0.012;

impl Request {
    pub(super) fn draw(config: &Config, start_unix_nano: u64, rng: &mut Rng) -> Self {
        let cause = draw_cause(config, rng);
        let (high, low) = (rng.next_u64() | 1, rng.next_u64());
        let mut trace_id = [0; 16];
        trace_id[..8].copy_from_slice(&high.to_be_bytes());
        trace_id[8..].copy_from_slice(&low.to_be_bytes());

        let input_tokens = match cause {
            Cause::LongPrompt => 24_000 + rng.below(6_000),
            Cause::ContextTooLong => 33_000 + rng.below(30_000),
            _ => 200 + rng.below(2_600),
        };
        let output_tokens = match cause {
            Cause::ContextTooLong | Cause::EngineUnavailable => 0,
            Cause::LongOutput => 1_600 + rng.below(400),
            _ => 1 + rng.below(320),
        };
        let (input_tokens, output_tokens) = (narrow(input_tokens), narrow(output_tokens));

        let (mut queue, mut prefill, mut decode) = (0.0, 0.0, 0.0);
        if !cause.is_failure() {
            queue = match cause {
                Cause::LongQueue => rng.between(6.0, 15.0),
                _ => 0.000_2 + rng.exponential(0.015),
            };
            prefill =
                0.008 + f64::from(input_tokens) * PREFILL_SECONDS_PER_TOKEN * rng.between(0.9, 1.2);
            decode =
                f64::from(output_tokens - 1) * DECODE_SECONDS_PER_TOKEN * rng.between(0.85, 1.3);
        }
        Self {
            trace_id,
            request_id: format!("chatcmpl-{:016x}{:016x}", rng.next_u64(), rng.next_u64()),
            cause,
            model: MODEL,
            replica_idx: u8::try_from(rng.below(u64::from(N_REPLICAS))).unwrap_or(0),
            start_unix_nano,
            input_tokens,
            output_tokens,
            output_tokens_max: if cause == Cause::LongOutput {
                2_048
            } else {
                512
            },
            retrieval: Duration::from_secs_f64(rng.between(0.012, 0.080)),
            queue: Duration::from_secs_f64(queue),
            prefill: Duration::from_secs_f64(prefill),
            decode: Duration::from_secs_f64(decode),
            outside: Outside::default(),
        }
    }

    /// A request with ids of its own and no numbers yet.
    pub(crate) fn ordinary(rng: &mut Rng, start_unix_nano: u64, replica_idx: u8) -> Self {
        let nothing_wrong = Config {
            failed_share: 0.0,
            slow_share: 0.0,
            ..Config::default()
        };
        Self {
            replica_idx,
            ..Self::draw(&nothing_wrong, start_unix_nano, rng)
        }
    }
}

fn draw_cause(config: &Config, rng: &mut Rng) -> Cause {
    if rng.chance(config.failed_share) {
        if rng.chance(0.7) {
            Cause::ContextTooLong
        } else {
            Cause::EngineUnavailable
        }
    } else if rng.chance(config.slow_share) {
        match rng.below(3) {
            0 => Cause::LongQueue,
            1 => Cause::LongPrompt,
            _ => Cause::LongOutput,
        }
    } else {
        Cause::Ordinary
    }
}

fn narrow(tokens: u64) -> u32 {
    u32::try_from(tokens).unwrap_or(u32::MAX)
}
