//! A late span in a decision record.

use std::sync::Arc;

use otlp::TraceId;
use sampler::{Decision, Reports, SpanHandle, ThresholdChange};

const IS_REQUEST: u8 = 1;
const ERASES_THRESHOLD: u8 = 2;
const IS_CALL: u8 = 4;

/// A span that came after the decision on its trace.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LateSpan {
    pub(crate) trace_id: TraceId,
    pub(crate) handle: SpanHandle,
    pub(crate) decision: Decision,
    pub(crate) policy: Option<Arc<str>>,
    pub(crate) reports: Reports,
    /// Its `th` says what is not true of its trace.
    pub(crate) erases_threshold: bool,
}

impl LateSpan {
    pub(crate) fn threshold(&self) -> ThresholdChange {
        if self.erases_threshold {
            ThresholdChange::Erased
        } else {
            ThresholdChange::Unchanged
        }
    }

    /// Does it leave a row somewhere?
    pub(crate) fn is_released(&self) -> bool {
        self.decision == Decision::Sampled || self.reports.is_more()
    }

    /// As stored.
    pub(super) fn flags(&self) -> u8 {
        let reports = match self.reports {
            Reports::Itself => 0,
            Reports::Call => IS_CALL,
            Reports::Request => IS_REQUEST,
        };
        reports | (u8::from(self.erases_threshold) * ERASES_THRESHOLD)
    }
}

/// What a stored span reports, and whether its `th` is erased.
pub(super) fn read_flags(flags: u8) -> Result<(Reports, bool), &'static str> {
    let reports = match flags & !ERASES_THRESHOLD {
        0 => Reports::Itself,
        IS_CALL => Reports::Call,
        IS_REQUEST => Reports::Request,
        _ => return Err("holds unknown flags"),
    };
    Ok((reports, flags & ERASES_THRESHOLD != 0))
}
