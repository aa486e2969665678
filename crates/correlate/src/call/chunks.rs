//! Chunks of an answer, and the time to the first of them.

use otlp::{attribute, span::SpanSummary};
use tables::requests::{Chunks, Measure, Position, Quality, Reason, Request};

use super::sent::Sent;

/// Events that stand for a chunk of the answer.
const CHUNK_EVENTS: [&str; 2] = [
    "gen_ai.content.completion.chunk",
    "llm.content.completion.chunk",
];

/// Events that stand for the first one.
const FIRST_CHUNK_EVENTS: [&str; 4] = [
    "First Token Stream Event",
    "first_content",
    "first_token",
    "gen_ai.first_token",
];

/// It adds its first-token event when the stream is over.
const STAMPS_AT_END: &str = "envoyproxy/ai-gateway";

/// Attributes with the time to the first chunk, and how many seconds their unit is.
pub(super) const FIRST_CHUNK_KEYS: [(&str, f64); 6] = [
    ("gen_ai.response.time_to_first_chunk", 1.0),
    ("gen_ai.client.operation.time_to_first_chunk", 1.0),
    ("gen_ai.server.time_to_first_token", 1.0),
    ("client.ttft_s", 1.0),
    ("ttft_ms", 0.001),
    ("ai.response.msToFirstChunk", 0.001),
];

const NANOS_PER_SECOND: f64 = 1e9;

/// Counts the chunk events, and gives the time to the first chunk: as sent, else of the first event.
pub(super) fn read(row: &mut Request, span: &[u8], scope: &str, sent: &Sent<'_>) -> Option<f64> {
    let mut first: Option<u64> = None;
    let mut chunks: Vec<u64> = Vec::new();
    for event in otlp::span::events(span).map_while(otlp::Result::ok) {
        let is_chunk = CHUNK_EVENTS.contains(&event.name);
        let is_first = FIRST_CHUNK_EVENTS.contains(&event.name) && scope != STAMPS_AT_END;
        if is_chunk {
            chunks.push(event.time_unix_nano);
        }
        if is_chunk || is_first {
            let at = event.time_unix_nano;
            first = Some(first.map_or(at, |first| first.min(at)));
        }
    }
    row.chunks = chunks_of(chunks, row.position);
    let sent = FIRST_CHUNK_KEYS
        .iter()
        .zip(&sent.first_chunk)
        .find_map(|((_, unit_s), value)| Some(value.as_ref()?.as_f64_lenient()? * unit_s));
    let seen = || {
        let after = first?.checked_sub(row.start_time_unix_nano)?;
        Some(seconds(after))
    };
    let ttft_s = sent.or_else(seen)?;
    let reason = match row.e2e_s {
        _ if !ttft_s.is_finite() => Reason::NotFinite,
        _ if ttft_s < 0.0 => Reason::Negative,
        _ if ttft_s == 0.0 => Reason::Zero,
        Some(e2e_s) if ttft_s > e2e_s + 0.001 + 0.01 * e2e_s => Reason::OverE2e,
        _ => return Some(ttft_s),
    };
    row.quality.push(Quality::Unusable(Measure::Ttft, reason));
    None
}

/// What a client's span says of the time to its first content, in seconds: as sent, else of its first event.
pub(crate) fn first_chunk_s(span: &[u8], summary: &SpanSummary<'_>) -> Option<f64> {
    let sent = attribute::of_span(span)
        .map_while(otlp::Result::ok)
        .find_map(|(key, value)| {
            let (_, unit_s) = FIRST_CHUNK_KEYS.iter().find(|(known, _)| *known == key)?;
            Some(value.as_f64_lenient()? * unit_s)
        });
    let seen = || {
        let events = otlp::span::events(span).map_while(otlp::Result::ok);
        let chunks = events.filter(|event| {
            CHUNK_EVENTS.contains(&event.name) || FIRST_CHUNK_EVENTS.contains(&event.name)
        });
        let first = chunks.map(|event| event.time_unix_nano).min()?;
        Some(seconds(first.checked_sub(summary.start_time_unix_nano)?))
    };
    let whole_s = seconds(summary.duration_ns());
    sent.or_else(seen)
        .filter(|ttft_s| *ttft_s > 0.0 && *ttft_s <= whole_s)
}

/// What is known of chunks by the times at which they were sent on.
pub(crate) fn chunks_of(mut times: Vec<u64>, position: Position) -> Option<Chunks> {
    if times.is_empty() {
        return None;
    }
    times.sort_unstable();
    let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
    Some(Chunks {
        position,
        n: i64::try_from(times.len()).unwrap_or(i64::MAX),
        gap_max_s: gaps.max().map(seconds),
    })
}

pub(crate) fn seconds(nanos: u64) -> f64 {
    #[expect(
        clippy::cast_precision_loss,
        reason = "a duration in seconds needs no nanoseconds"
    )]
    let nanos = nanos as f64;
    nanos / NANOS_PER_SECOND
}
