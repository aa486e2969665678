//! Times and token counts: one unit per key, impossible values out.
//!
//! # Decided
//!
//! *Ranges.* A time is not negative, not NaN, and at most as long as the request, give or take
//! [`slack_s`]: an engine that never reached a milestone subtracts clocks that have nothing to do
//! with each other and reports its host's uptime (vllm#49135). The end-to-end time itself may be
//! longer than the span, which senders round or cut, but not by more than [`E2E_OVER_SPAN_MAX_S`].
//!
//! *Zero* time to first token means that there was no token. Zero decode time means the same where
//! no token was generated; after one token it is a measurement.
//!
//! *Time per output token* is the engine's first-to-last-token time over N - 1, which no frontend
//! delay is part of; without it, end-to-end minus first token over N - 1. NULL for N < 2, and where
//! all tokens came at once so that nothing was measured between them.

use otlp::attribute::Value;
use tables::requests::{Measure, Quality, Reason, Request};

/// How much longer than its span a request may claim to have taken.
const E2E_OVER_SPAN_MAX_S: f64 = 60.0;

/// Part of the whole from which a time to first token looks like the end of the stream, where the
/// engine says nothing of the time between tokens. A long wait in the queue looks the same.
const TTFT_SUSPECT_SHARE: f64 = 0.98;

/// Part of the engine's decode time that must lie behind the first token.
const DECODE_AFTER_TTFT_SHARE: f64 = 0.5;

const NANOS_PER_SECOND: f64 = 1e9;

/// Unit of a sent time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Seconds,
    Milliseconds,
}

/// What the attributes of engine spans measure. Of several keys for one measure the earlier counts.
const KEYS: [(&str, Measure, Unit); 8] = [
    ("gen_ai.latency.e2e", Measure::E2e, Unit::Seconds),
    (
        "gen_ai.latency.time_to_first_token",
        Measure::Ttft,
        Unit::Seconds,
    ),
    ("ttft_ms", Measure::Ttft, Unit::Milliseconds),
    (
        "gen_ai.server.time_to_first_token",
        Measure::Ttft,
        Unit::Seconds,
    ),
    (
        "gen_ai.latency.time_in_queue",
        Measure::Queue,
        Unit::Seconds,
    ),
    (
        "gen_ai.latency.time_in_model_prefill",
        Measure::Prefill,
        Unit::Seconds,
    ),
    (
        "gen_ai.latency.time_in_model_decode",
        Measure::Decode,
        Unit::Seconds,
    ),
    (
        "gen_ai.latency.time_in_model_inference",
        Measure::Inference,
        Unit::Seconds,
    ),
];

/// Sent times by their place in [`KEYS`].
#[derive(Debug, Default)]
pub(crate) struct SentTimes<'a>([Option<Value<'a>>; KEYS.len()]);

impl<'a> SentTimes<'a> {
    /// Remembers an attribute if it is a time. Later ones of the same key replace earlier ones.
    pub(crate) fn note(&mut self, key: &str, value: Value<'a>) {
        if let Some(place) = KEYS.iter().position(|(known, ..)| *known == key) {
            self.0[place] = Some(value).filter(|value| !matches!(value, Value::Empty));
        }
    }

    /// The value of a measure in seconds, as sent; flags values that are no number.
    fn seconds(&self, measure: Measure, quality: &mut Vec<Quality>) -> Option<f64> {
        let sent = KEYS
            .iter()
            .zip(&self.0)
            .find_map(|((_, known, unit), value)| {
                value
                    .filter(|_| *known == measure)
                    .map(|value| (value, *unit))
            });
        let (value, unit) = sent?;
        match (value.as_f64_lenient(), unit) {
            (Some(seconds), Unit::Seconds) => Some(seconds),
            (Some(milliseconds), Unit::Milliseconds) => Some(milliseconds / 1_000.0),
            (None, _) => {
                quality.push(Quality::Unusable(measure, Reason::NotANumber));
                None
            }
        }
    }
}

/// Fills the times of a request whose tokens and span times are known.
pub(crate) fn fill(request: &mut Request, sent: &SentTimes<'_>, is_generating: bool) {
    let quality = &mut request.quality;
    let span_s = span_seconds(request.start_time_unix_nano, request.end_time_unix_nano);
    request.e2e_s = e2e(sent, span_s, quality);
    let whole_s = request.e2e_s.or(span_s);
    let n_output = request.output_tokens;

    request.engine_ttft_s = ttft(sent, whole_s, quality).filter(|_| {
        if !is_generating {
            quality.push(Quality::NotGenerating);
        }
        is_generating
    });
    let mut phase = |measure| {
        let seconds = sent.seconds(measure, quality)?;
        in_range(
            measure,
            seconds,
            whole_s.map(|whole_s| whole_s + slack_s(whole_s)),
            quality,
        )
    };
    request.queue_s = phase(Measure::Queue);
    request.prefill_s = phase(Measure::Prefill);
    request.decode_s = phase(Measure::Decode);
    request.inference_s = phase(Measure::Inference);
    if request.decode_s == Some(0.0) && n_output == Some(0) {
        quality.push(Quality::Unusable(Measure::Decode, Reason::Zero));
        request.decode_s = None;
    }

    if request.engine_ttft_s.is_some() && n_output == Some(0) {
        quality.push(Quality::TtftWithoutOutput);
    }
    if is_ttft_suspect(request) {
        request.quality.push(Quality::TtftSuspect);
    }
    request.tpot_s = tpot(request).filter(|_| is_generating);
}

/// What clocks and rounding may add to a phase of a request.
fn slack_s(e2e_s: f64) -> f64 {
    0.001 + 0.01 * e2e_s
}

fn e2e(sent: &SentTimes<'_>, span_s: Option<f64>, quality: &mut Vec<Quality>) -> Option<f64> {
    let Some(seconds) = sent.seconds(Measure::E2e, quality) else {
        if span_s.is_some() {
            quality.push(Quality::E2eFromSpan);
        }
        return span_s;
    };
    let e2e_s = in_range(Measure::E2e, seconds, None, quality)?;
    match span_s {
        Some(span_s) if e2e_s > span_s + E2E_OVER_SPAN_MAX_S => {
            quality.push(Quality::Unusable(Measure::E2e, Reason::OverSpan));
            None
        }
        Some(span_s) if e2e_s > span_s + slack_s(span_s) => {
            quality.push(Quality::E2eOverSpan);
            Some(e2e_s)
        }
        _ => Some(e2e_s),
    }
}

fn ttft(sent: &SentTimes<'_>, whole_s: Option<f64>, quality: &mut Vec<Quality>) -> Option<f64> {
    let seconds = sent.seconds(Measure::Ttft, quality)?;
    if seconds == 0.0 {
        quality.push(Quality::Unusable(Measure::Ttft, Reason::Zero));
        return None;
    }
    // Both were taken from one clock: no slack.
    in_range(Measure::Ttft, seconds, whole_s, quality)
}

fn in_range(
    measure: Measure,
    seconds: f64,
    seconds_max: Option<f64>,
    quality: &mut Vec<Quality>,
) -> Option<f64> {
    let reason = if !seconds.is_finite() {
        Reason::NotFinite
    } else if seconds < 0.0 {
        Reason::Negative
    } else if seconds_max.is_some_and(|seconds_max| seconds > seconds_max) {
        Reason::OverE2e
    } else {
        return Some(seconds);
    };
    quality.push(Quality::Unusable(measure, reason));
    None
}

/// Does the time to first token leave no time for the tokens that followed?
fn is_ttft_suspect(request: &Request) -> bool {
    let (Some(ttft_s), Some(e2e_s), Some(2..)) =
        (request.engine_ttft_s, request.e2e_s, request.output_tokens)
    else {
        return false;
    };
    match request.decode_s {
        Some(decode_s) => e2e_s - ttft_s < DECODE_AFTER_TTFT_SHARE * decode_s,
        None => ttft_s >= TTFT_SUSPECT_SHARE * e2e_s,
    }
}

fn tpot(request: &Request) -> Option<f64> {
    let n_gaps = request
        .output_tokens?
        .checked_sub(1)
        .filter(|n_gaps| *n_gaps > 0)?;
    let measured = |seconds: &f64| *seconds > 0.0;
    let between = || Some(request.e2e_s? - request.engine_ttft_s?);
    let seconds = request
        .decode_s
        .filter(measured)
        .or_else(|| between().filter(measured))?;
    #[expect(
        clippy::cast_precision_loss,
        reason = "token counts are far below 2^53"
    )]
    let n_gaps = n_gaps as f64;
    Some(seconds / n_gaps)
}

fn span_seconds(start_unix_nano: u64, end_unix_nano: u64) -> Option<f64> {
    if start_unix_nano == 0 {
        return None;
    }
    let nanos = end_unix_nano.checked_sub(start_unix_nano)?;
    #[expect(
        clippy::cast_precision_loss,
        reason = "a duration in seconds needs no nanoseconds"
    )]
    let nanos = nanos as f64;
    Some(nanos / NANOS_PER_SECOND)
}
