//! What policies make of a trace together.

use crate::budget::Class;
use crate::chance::Weight;
use crate::decision::{Decision, PolicyIndex};
use crate::threshold::{Threshold, ThresholdChange};

/// A decision and what is credited for it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Judgement {
    pub(crate) decision: Decision,
    pub(crate) policy: Option<PolicyIndex>,
    pub(crate) adjusted_count: Option<f64>,
    pub(crate) threshold: ThresholdChange,
}

impl Judgement {
    pub(crate) const NOT_SAMPLED: Self = Self {
        decision: Decision::NotSampled,
        policy: None,
        adjusted_count: None,
        threshold: ThresholdChange::Unchanged,
    };

    pub(super) fn dropped(policy: PolicyIndex) -> Self {
        Self {
            decision: Decision::Dropped,
            policy: Some(policy),
            ..Self::NOT_SAMPLED
        }
    }

    pub(super) fn sampled(policy: Option<PolicyIndex>, weight: Weight) -> Self {
        Self {
            decision: Decision::Sampled,
            policy,
            adjusted_count: weight.adjusted_count(),
            threshold: weight.threshold(),
        }
    }
}

/// A decision that a budget may take back, and what the budget needs for that.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Judged {
    pub(crate) judgement: Judgement,
    /// The best of the policies that ask for the trace.
    pub(crate) class: Class,
    /// Of a sampled trace.
    pub(super) weight: Option<Weight>,
}

impl Judged {
    /// It has also passed this; `None` is something of which the chance is unknown.
    pub(crate) fn pass(&mut self, threshold: Option<Threshold>) {
        if let Some(weight) = &mut self.weight {
            weight.pass(threshold);
            self.judgement = Judgement::sampled(self.judgement.policy, *weight);
        }
    }
}

impl From<Judgement> for Judged {
    fn from(judgement: Judgement) -> Self {
        Self {
            judgement,
            class: 0,
            weight: None,
        }
    }
}

/// What the policies say of a batch as it arrives (`span-ingest`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum OnArrival {
    /// The trace is decided.
    Decided(Judgement),
    /// A policy samples, but a `drop` policy may yet match a later batch.
    Deferred(Judgement),
    /// Nothing yet.
    Pending,
}
