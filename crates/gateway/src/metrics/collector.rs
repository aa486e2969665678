//! What the policies say, and what dashboards of the Collector's `tail_sampling` processor ask for.
//!
//! Metrics of the Collector are here under its names and labels where the meaning is the same, as
//! its own endpoint writes them (without `_total`). Absent are those that have none here:
//! `sampling_trace_dropped_too_early` (nothing is evicted undecided), `sampling_trace_removal_age`,
//! `sampling_decision_timer_latency` and `sampling_late_span_age`.

use std::sync::PoisonError;

use sampler::{Decision, PolicyCounts, Trigger};

use crate::metrics::{DECISIONS, Metrics, decision_idx, text::Text};

/// What is counted of a policy.
type Count = fn(&PolicyCounts) -> u64;

/// In front of each of the Collector's names.
const PREFIX: &str = "otelcol_processor_tail_sampling";

impl Metrics {
    pub(super) fn render_policies(&self, text: &mut Text) {
        const NAME: &str = "sampler_policy_traces_total";
        const STATES: [(&str, Count); 4] = [
            ("checked", PolicyCounts::n_checks),
            ("matched", |counts| {
                counts.n_sampled.saturating_add(counts.n_dropped)
            }),
            ("failed", |counts| counts.n_failed),
            ("not_matched", |counts| counts.n_not_sampled),
        ];
        text.counter(
            NAME,
            "Times a policy was asked and what it said since the start, whatever became of the trace; what it decided is in sampler_traces_decided_total.",
        );
        let policies = self.policies.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, counts) in policies.iter() {
            for (state, count) in STATES {
                text.sample(NAME, &[("policy", name), ("state", state)], count(counts));
            }
        }
    }

    pub(super) fn render_as_collector(&self, text: &mut Text) {
        self.render_traces_as_collector(text);
        let late = |is_sampled: bool| -> u64 {
            let decisions = DECISIONS.iter().zip(&self.late);
            decisions
                .filter(|(decision, _)| (**decision == Decision::Sampled) == is_sampled)
                .map(|(_, late)| late.amount().n_spans)
                .fold(0, u64::saturating_add)
        };
        let name = format!("{PREFIX}_early_releases_from_cache_decision");
        text.counter(&name, "Late spans that followed a remembered decision.");
        text.sample(&name, &[("sampled", "true")], late(true));
        text.sample(&name, &[("sampled", "false")], late(false));

        let policies = self.policies.lock().unwrap_or_else(PoisonError::into_inner);
        let name = format!("{PREFIX}_count_traces_sampled");
        text.counter(&name, "Traces by what each policy said.");
        for (policy, counts) in policies.iter() {
            for decision in DECISIONS {
                let labels = [("policy", &**policy), sampled(decision), label(decision)];
                let n_traces = match decision {
                    Decision::Sampled => counts.n_sampled,
                    Decision::NotSampled => counts.n_not_sampled,
                    Decision::Dropped => counts.n_dropped,
                };
                text.sample(&name, &labels, n_traces);
            }
        }
        let name = format!("{PREFIX}_sampling_policy_execution_count");
        text.counter(&name, "Times a policy was asked.");
        for (policy, counts) in policies.iter() {
            text.sample(&name, &[("policy", policy)], counts.n_checks());
        }
        let name = format!("{PREFIX}_sampling_policy_execution_time_sum");
        text.counter(
            &name,
            "Microseconds that asking a policy took, estimated from every 64th time.",
        );
        for (policy, counts) in policies.iter() {
            text.sample(&name, &[("policy", policy)], counts.n_nanos / 1_000);
        }
        let failed = policies.iter().map(|(_, counts)| counts.n_failed);
        text.single_counter(
            &format!("{PREFIX}_sampling_policy_evaluation_error"),
            "Times a policy had no verdict.",
            failed.fold(0, u64::saturating_add),
        );
    }

    fn render_traces_as_collector(&self, text: &mut Text) {
        text.single_counter(
            &format!("{PREFIX}_new_trace_id_received"),
            "Traces whose first span has arrived.",
            self.received.amount().n_traces,
        );
        text.gauge(
            &format!("{PREFIX}_sampling_traces_on_memory"),
            "Traces in memory: those that are undecided.",
            self.pending.amount().n_traces,
        );
        let name = format!("{PREFIX}_global_count_traces_sampled");
        text.counter(&name, "Traces by their decision.");
        for decision in DECISIONS {
            let n_traces = self.decided[decision_idx(decision)].amount().n_traces;
            text.sample(&name, &[sampled(decision), label(decision)], n_traces);
        }
        let decided = self
            .decided_traces
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let too_large = decided
            .iter()
            .filter(|((_, _, trigger), _)| *trigger == Trigger::TooLarge.as_str())
            .map(|(_, n_traces)| *n_traces);
        text.single_counter(
            &format!("{PREFIX}_traces_dropped_too_large"),
            "Traces not sampled because they grew over `maximum_trace_size_bytes`.",
            too_large.fold(0, u64::saturating_add),
        );
    }
}

fn sampled(decision: Decision) -> (&'static str, &'static str) {
    let is_sampled = decision == Decision::Sampled;
    ("sampled", if is_sampled { "true" } else { "false" })
}

fn label(decision: Decision) -> (&'static str, &'static str) {
    ("decision", decision.as_str())
}
