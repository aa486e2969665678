//! What policies saw of a trace, and triggers, in words.

use std::collections::BTreeMap;
use std::time::Duration;

use sampler::partial::Facts;
use sampler::{Policy, PolicyType, ProbabilisticMode};

use crate::show::text;

/// Values that are listed of one attribute.
const VALUES_MAX: usize = 3;

/// Longest shown value.
const VALUE_CHARS_MAX: usize = 40;

/// What is known of a trace.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) facts: Facts,
    /// All of its spans are stored.
    pub(super) is_whole: bool,
    /// Values that were found, by attribute key.
    pub(super) values: BTreeMap<String, Vec<String>>,
}

/// The values that a policy compares, one entry each.
pub(super) fn evidence(policy: &PolicyType, seen: &Seen) -> Vec<String> {
    let facts = &seen.facts;
    let attribute = |key: &str| Vec::from_iter(seen.attribute(key));
    match policy {
        PolicyType::AlwaysSample => Vec::new(),
        PolicyType::Latency(_) => vec![seconds(facts.duration_ns)],
        PolicyType::SpanCount(_) | PolicyType::RateLimiting(_) => {
            vec![text::counted(facts.n_spans, "span")]
        }
        PolicyType::BytesLimiting(_) => vec![text::bytes(facts.n_bytes)],
        PolicyType::StatusCode(_) => vec![format!(
            "{} with ERROR",
            text::counted(facts.n_error_spans, "span")
        )],
        PolicyType::Probabilistic(share) => vec![match share.mode {
            ProbabilisticMode::HashSeed => "the hash of its id".to_owned(),
            ProbabilisticMode::Equalizing | ProbabilisticMode::Proportional => {
                "its randomness".to_owned()
            }
        }],
        PolicyType::SqlCondition(_) => vec!["its row in `traces`".to_owned()],
        PolicyType::NumericAttribute(numeric) => attribute(&numeric.key),
        PolicyType::StringAttribute(string) => attribute(&string.key),
        PolicyType::BooleanAttribute(boolean) => attribute(&boolean.key),
        PolicyType::TraceState(_)
        | PolicyType::TraceFlags
        | PolicyType::OttlCondition(_)
        | PolicyType::Adaptive(_) => Vec::new(),
        PolicyType::And(_)
        | PolicyType::Not(_)
        | PolicyType::Drop(_)
        | PolicyType::Composite(_) => of_all(policy.sub_policies(), seen),
    }
}

fn of_all(policies: &[Policy], seen: &Seen) -> Vec<String> {
    let mut all = Vec::new();
    for part in policies
        .iter()
        .flat_map(|policy| evidence(&policy.policy_type, seen))
    {
        if !all.contains(&part) {
            all.push(part);
        }
    }
    all
}

impl Seen {
    /// Its values; `None` where they are not known.
    fn attribute(&self, key: &str) -> Option<String> {
        let shown_key = text::printable(key, VALUE_CHARS_MAX);
        let Some(values) = self.values.get(key) else {
            let none = format!("no span has `{shown_key}`");
            return self.is_whole.then_some(none);
        };
        let shown = values.iter().take(VALUES_MAX);
        let shown: Vec<String> = shown
            .map(|value| text::printable(value, VALUE_CHARS_MAX))
            .collect();
        let more = values.len().saturating_sub(VALUES_MAX);
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        Some(format!("`{shown_key}`: {}{more}", shown.join(", ")))
    }
}

/// A duration for people.
pub(super) fn seconds(duration_ns: u64) -> String {
    text::duration(Duration::from_nanos(duration_ns))
}

/// Why a trace was decided when it was.
pub(super) fn trigger(stored: &str) -> String {
    match stored {
        "root_ended" => "its root had come, and the wait after it was over",
        "waited" => "`decision_wait` was over since its first span",
        "idle" => "no span of it had come for `idle` (`trigger`)",
        "max_wait" => "`max_wait` was over since its first span (`trigger`)",
        "matched" => "a policy had matched it (`trigger`, or a batch as it came: `span-ingest`)",
        "too_large" => "it was larger than `maximum_trace_size_bytes`",
        "memory" => "there were too many undecided traces (`num_traces`, or their memory)",
        "disk" => "undecided spans took too much of the log",
        "shutdown" => "the process stopped",
        "late" => "spans came after it had been decided",
        "linked" => "it links to a trace that a policy had kept",
        "budget" => "a policy asked for it, and it did not fit the `budget`",
        other => return format!("of `{}`", text::printable(other, VALUE_CHARS_MAX)),
    }
    .to_owned()
}
