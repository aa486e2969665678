//! How a request ended.
//!
//! # Decided
//!
//! Engines leave the status UNSET whatever happens, so the status alone says little. In this order:
//!
//! 1. a finish reason `abort`, `aborted`, `cancelled` or `canceled`, or attribute `cancelled`:
//!    `cancelled`, whatever the status says;
//! 2. status ERROR, an `error.type` or `error_kind`, or a finish reason `error`: `error`;
//! 3. a request that generates text, with a known count of 0 generated tokens: `no_output`;
//! 4. else `ok`. An unknown count of tokens is no evidence of a failure.

use otlp::span::StatusCode;
use tables::requests::Outcome;

/// What decides the outcome.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Evidence<'a> {
    pub(crate) status_code: StatusCode,
    pub(crate) finish_reasons: &'a [String],
    pub(crate) is_cancelled: bool,
    pub(crate) has_error_type: bool,
    pub(crate) is_generating: bool,
    pub(crate) output_tokens: Option<i64>,
}

pub(crate) fn outcome(evidence: &Evidence<'_>) -> Outcome {
    let ended_by = |reasons: &[&str]| {
        evidence.finish_reasons.iter().any(|reason| {
            reasons
                .iter()
                .any(|known| reason.trim().eq_ignore_ascii_case(known))
        })
    };
    if evidence.is_cancelled || ended_by(&["abort", "aborted", "cancelled", "canceled"]) {
        Outcome::Cancelled
    } else if evidence.status_code == StatusCode::Error
        || evidence.has_error_type
        || ended_by(&["error"])
    {
        Outcome::Error
    } else if evidence.is_generating && evidence.output_tokens == Some(0) {
        Outcome::NoOutput
    } else {
        Outcome::Ok
    }
}

/// Does a request of this operation generate text? Unknown operations do.
pub(crate) fn is_generating(operation: Option<&str>) -> bool {
    !matches!(
        operation,
        Some("embeddings" | "embedding" | "score" | "rerank" | "classify" | "pooling")
    )
}
