//! Counts of what was decided and what would be.

use std::collections::BTreeMap;

use sampler::partial::{Doubt, Judged, Known};
use sampler::{Decision, Trigger};
use serde::Serialize;

use crate::history::{Extent, TraceRow};

/// Trace ids shown for each change.
const EXAMPLES_MAX: usize = 5;

/// Models and policies listed; further ones are summed up.
const NAMES_MAX: usize = 200;

/// Sizes of some traces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(super) struct Volume {
    pub(super) traces: u64,
    pub(super) spans: u64,
    pub(super) bytes: u64,
}

impl Volume {
    fn add(&mut self, row: &TraceRow) {
        self.traces += 1;
        self.spans += row.facts.n_spans;
        self.bytes += row.facts.n_bytes;
    }

    fn plus(self, other: Self) -> Self {
        Self {
            traces: self.traces + other.traces,
            spans: self.spans + other.spans,
            bytes: self.bytes + other.bytes,
        }
    }
}

/// What was decided.
#[derive(Debug, Default, Serialize)]
pub(super) struct Before {
    pub(super) kept: Volume,
    pub(super) not_kept: Volume,
}

/// What would be decided.
#[derive(Debug, Default, Serialize)]
pub(super) struct Now {
    pub(super) kept_for_certain: Volume,
    pub(super) kept_likely: Volume,
    pub(super) not_kept_for_certain: Volume,
    pub(super) not_kept_likely: Volume,
    /// Of those not kept: dropped by a `drop` policy.
    pub(super) dropped: Volume,
    /// The stored rows cannot decide it.
    pub(super) unknown: Volume,
}

impl Now {
    pub(super) fn kept(&self) -> Volume {
        self.kept_for_certain.plus(self.kept_likely)
    }

    pub(super) fn not_kept(&self) -> Volume {
        self.not_kept_for_certain.plus(self.not_kept_likely)
    }
}

/// Traces of one policy: kept and credited before and now, and those with a decision in doubt on which its
/// verdict is likely or unknown.
#[derive(Debug, Default, Serialize)]
pub(super) struct OfPolicy {
    pub(super) kept_before: u64,
    pub(super) kept_now: u64,
    pub(super) verdict_likely: u64,
    pub(super) verdict_unknown: u64,
}

/// Traces whose main request has one model.
#[derive(Debug, Default, Serialize)]
pub(super) struct OfModel {
    pub(super) traces: u64,
    pub(super) kept_before: u64,
    pub(super) kept_now: u64,
    pub(super) unknown: u64,
}

/// Traces that would be decided otherwise.
#[derive(Debug, Default, Serialize)]
pub(super) struct Change {
    pub(super) traces: u64,
    /// Of them those where an assumption is needed.
    pub(super) likely: u64,
    /// A few trace ids.
    pub(super) examples: Vec<String>,
}

/// The kept traces, each as many times as its `adjusted_count` says.
#[derive(Debug, Default, Serialize)]
pub(super) struct Estimate {
    /// All traces that the kept ones stand for.
    pub(super) traces: f64,
    /// Of them those that would be kept.
    pub(super) kept: f64,
    /// Kept traces of which it is unknown for how many they stand, or whether they would be kept: with any of
    /// them there is no estimate.
    pub(super) without: u64,
}

/// Everything that is counted.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) policies: Vec<String>,
    pub(super) extent: Extent,
    pub(super) before: Before,
    pub(super) now: Now,
    pub(super) by_policy: BTreeMap<String, OfPolicy>,
    /// Under "" traces without a model.
    pub(super) by_model: BTreeMap<String, OfModel>,
    pub(super) lost: Change,
    pub(super) gained: Change,
    /// Traces per policy and doubt, where the doubt leaves the decision unknown or only likely.
    pub(super) doubts: BTreeMap<(usize, Doubt), (u64, u64)>,
    pub(super) estimate: Estimate,
    /// Decided before they were whole.
    pub(super) decided_early: u64,
    /// There is a budget for all, which is not replayed.
    pub(super) has_budget: bool,
    /// Kept because they link to a kept trace, which is not replayed.
    pub(super) kept_by_link: u64,
}

impl Tally {
    pub(super) fn new(policies: Vec<String>, extent: Extent) -> Self {
        let by_policy = policies
            .iter()
            .map(|name| (name.clone(), OfPolicy::default()));
        Self {
            by_policy: by_policy.collect(),
            policies,
            extent,
            before: Before::default(),
            now: Now::default(),
            by_model: BTreeMap::new(),
            lost: Change::default(),
            gained: Change::default(),
            doubts: BTreeMap::new(),
            estimate: Estimate::default(),
            decided_early: 0,
            has_budget: false,
            kept_by_link: 0,
        }
    }

    /// Counts one trace.
    pub(super) fn add(
        &mut self,
        row: &TraceRow,
        judged: &Judged,
        doubts: impl Fn(usize) -> Vec<Doubt>,
    ) {
        let was_kept = row.is_kept();
        let before = if was_kept {
            &mut self.before.kept
        } else {
            &mut self.before.not_kept
        };
        before.add(row);
        let is_early = |flag: &String| flag == "decided_early" || flag == "too_large";
        self.decided_early += u64::from(row.loss_flags.iter().any(is_early));
        self.kept_by_link += u64::from(was_kept && row.trigger == Trigger::Linked.as_str());
        let decision = judged.decision.value();
        let is_kept = decision.map(|decision| decision == Decision::Sampled);
        self.add_decision(row, judged.decision);
        self.add_names(row, judged, is_kept);
        self.add_estimate(row, is_kept);
        let change = match (was_kept, is_kept) {
            (true, Some(false)) => Some(&mut self.lost),
            (false, Some(true)) => Some(&mut self.gained),
            _ => None,
        };
        if let Some(change) = change {
            change.traces += 1;
            change.likely += u64::from(!judged.decision.is_exact());
            if change.examples.len() < EXAMPLES_MAX {
                change.examples.push(row.facts.trace_id.to_string());
            }
        }
        if judged.decision.is_exact() {
            return;
        }
        let is_unknown = u64::from(is_kept.is_none());
        for (policy, asked) in judged.verdicts.iter().enumerate() {
            if asked.said.is_exact() {
                continue;
            }
            for doubt in doubts(policy) {
                let (n_unknown, n_likely) = self.doubts.entry((policy, doubt)).or_default();
                *n_unknown += is_unknown;
                *n_likely += 1 - is_unknown;
            }
        }
    }

    fn add_decision(&mut self, row: &TraceRow, decision: Known<Decision>) {
        let now = &mut self.now;
        let volume = match decision {
            Known::Exact(Decision::Sampled) => &mut now.kept_for_certain,
            Known::Likely(Decision::Sampled) => &mut now.kept_likely,
            Known::Exact(Decision::NotSampled | Decision::Dropped) => &mut now.not_kept_for_certain,
            Known::Likely(Decision::NotSampled | Decision::Dropped) => &mut now.not_kept_likely,
            Known::Unknown => &mut now.unknown,
        };
        volume.add(row);
        if decision.value() == Some(Decision::Dropped) {
            now.dropped.add(row);
        }
    }

    fn add_names(&mut self, row: &TraceRow, judged: &Judged, is_kept: Option<bool>) {
        if row.is_kept()
            && let Some(policy) = entry(&mut self.by_policy, row.policy.as_deref().unwrap_or(""))
        {
            policy.kept_before += 1;
        }
        for (number, asked) in judged.verdicts.iter().enumerate() {
            let policy = self.policies.get(number);
            let Some(policy) = policy.and_then(|name| self.by_policy.get_mut(name)) else {
                continue;
            };
            let is_credited = judged.policy.value() == Some(number) && is_kept == Some(true);
            policy.kept_now += u64::from(is_credited);
            if asked.is_asked && !judged.decision.is_exact() {
                policy.verdict_unknown += u64::from(asked.said == Known::Unknown);
                policy.verdict_likely += u64::from(matches!(asked.said, Known::Likely(_)));
            }
        }
        if let Some(model) = entry(&mut self.by_model, row.model.as_deref().unwrap_or("")) {
            model.traces += 1;
            model.kept_before += u64::from(row.is_kept());
            model.kept_now += u64::from(is_kept == Some(true));
            model.unknown += u64::from(is_kept.is_none());
        }
    }

    fn add_estimate(&mut self, row: &TraceRow, is_kept: Option<bool>) {
        if !row.is_kept() {
            return;
        }
        match (row.adjusted_count, is_kept) {
            (Some(count), Some(is_kept)) => {
                self.estimate.traces += count;
                self.estimate.kept += if is_kept { count } else { 0.0 };
            }
            _ => self.estimate.without += 1,
        }
    }

    /// Seconds between the first and the last start.
    pub(super) fn observed_s(&self) -> Option<f64> {
        let micros = self
            .extent
            .last_micros?
            .checked_sub(self.extent.first_micros?)?;
        #[expect(clippy::cast_precision_loss, reason = "for a rate")]
        Some(micros as f64 / 1e6)
    }
}

/// The counts under a name; names come from senders, so their number is bounded.
fn entry<'a, T: Default>(of: &'a mut BTreeMap<String, T>, name: &str) -> Option<&'a mut T> {
    let is_full = of.len() >= NAMES_MAX && !of.contains_key(name);
    let name = if is_full { "(others)" } else { name };
    Some(of.entry(name.to_owned()).or_default())
}
