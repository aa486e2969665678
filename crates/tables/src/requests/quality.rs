//! Why a measured value of a request is missing or doubtful.

use std::fmt;

/// One flag. Stored as text: `ttft_negative`, `queue_over_e2e` and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Quality {
    /// The value was sent and is impossible; it was set to NULL.
    Unusable(Measure, Reason),
    /// Time to first token leaves no time for the tokens that followed: the sender probably stamped
    /// the end of the stream. The value is kept.
    TtftSuspect,
    /// Time to first token was sent although no token was generated. The value is kept.
    TtftWithoutOutput,
    /// The request generates no text, so that its time to first token and per token mean nothing;
    /// they were set to NULL.
    NotGenerating,
    /// No end-to-end time was sent; it is that of the span.
    E2eFromSpan,
    /// The end-to-end time is longer than the span. The value is kept.
    E2eOverSpan,
    /// The sender discarded attributes: what is missing may have been known.
    AttributesDropped,
    /// A call was answered, and no engine request is known that did: an engine that reports nothing, a span that was
    /// lost, or an id that does not match.
    EngineSpanMissing,
    /// More than one call, or none for certain, can be what an engine request with the same id answered: none is linked.
    RequestIdAmbiguous,
}

/// What a value measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Measure {
    /// `e2e_s`.
    E2e,
    /// `engine_ttft_s`.
    Ttft,
    /// `queue_s`.
    Queue,
    /// `prefill_s`.
    Prefill,
    /// `decode_s`.
    Decode,
    /// `inference_s`.
    Inference,
    /// `input_tokens`.
    InputTokens,
    /// `output_tokens`.
    OutputTokens,
    /// `cached_tokens`.
    CachedTokens,
}

/// Why a value is impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// Below zero.
    Negative,
    /// Zero, where zero stands for "never happened".
    Zero,
    /// NaN or infinite.
    NotFinite,
    /// Text or a structure that is not a number.
    NotANumber,
    /// Longer than the whole request, such as a host's uptime.
    OverE2e,
    /// Much longer than the span.
    OverSpan,
    /// Above the number of prompt tokens.
    OverInput,
}

impl Measure {
    const fn as_str(self) -> &'static str {
        match self {
            Self::E2e => "e2e",
            Self::Ttft => "ttft",
            Self::Queue => "queue",
            Self::Prefill => "prefill",
            Self::Decode => "decode",
            Self::Inference => "inference",
            Self::InputTokens => "input_tokens",
            Self::OutputTokens => "output_tokens",
            Self::CachedTokens => "cached_tokens",
        }
    }
}

impl Reason {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Negative => "negative",
            Self::Zero => "zero",
            Self::NotFinite => "not_finite",
            Self::NotANumber => "not_a_number",
            Self::OverE2e => "over_e2e",
            Self::OverSpan => "over_span",
            Self::OverInput => "over_input",
        }
    }
}

impl fmt::Display for Quality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unusable(measure, reason) => {
                write!(f, "{}_{}", measure.as_str(), reason.as_str())
            }
            Self::TtftSuspect => f.write_str("ttft_suspect"),
            Self::TtftWithoutOutput => f.write_str("ttft_without_output"),
            Self::NotGenerating => f.write_str("not_generating"),
            Self::E2eFromSpan => f.write_str("e2e_from_span"),
            Self::E2eOverSpan => f.write_str("e2e_longer_than_span"),
            Self::AttributesDropped => f.write_str("attributes_dropped"),
            Self::EngineSpanMissing => f.write_str("engine_span_missing"),
            Self::RequestIdAmbiguous => f.write_str("request_id_ambiguous"),
        }
    }
}
