//! `trigger`: when a trace is decided, for traces that last longer than any fixed wait.
//!
//! Without the section a trace is decided as the Collector does: `decision_wait` after its first span, whole or not. A
//! stream of forty minutes whose root ends last has lost its end by then. With it, a trace is decided at the first of
//!
//! | what | key | trigger |
//! |---|---|---|
//! | a root span has arrived, and this has passed | `root_grace` | `root_ended` |
//! | a policy has matched, and this has passed | `policies[].match_grace` | `matched` |
//! | no new span of it has come for this long | `idle` | `idle` |
//! | this has passed since its first span | `max_wait` | `max_wait` |
//!
//! and `decision_wait` has no effect. Of a trace with several roots the first counts, as in the Collector. A copy of a span
//! is no new span. Every time is that of arrival, so what is decided does not depend on clocks of senders.
//!
//! A policy of `policies` may give the traces that it matches another `idle` and another `max_wait`; where several
//! match, the longest counts. Only policies can be named that do not stop to match when more spans come, and have no
//! budget: what a policy says of a trace that is not whole must hold when it is.
//!
//! How it works: a trace's timer stands at the earliest time that was known when it was set. A span moves it
//! forward, never back: a timer that is due too early is set again to what holds then. So a span costs a
//! comparison, and a trace is looked at again at most once for each span that came.

use std::time::Duration;

use serde::{Deserialize, Deserializer};

use crate::config::{Config, SamplingStrategy, nanos};
use crate::decision::Trigger;
use crate::duration;
use crate::error::{Error, Result, ValueProblem};
use crate::nearest::nearest;
use crate::pending::Trace;
use crate::policy::{Policy, PolicyType, ProbabilisticMode};
use crate::services::Services;
use crate::verdict::{Evidence, Policies};

/// The section `trigger`; not a key of the Collector.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TriggerRules {
    /// From the arrival of a root span to the decision. The same as `decision_wait_after_root_received`, and
    /// only one of the two may be written; where neither is, [`ROOT_GRACE`]. 0 decides at once.
    #[serde(deserialize_with = "some_duration")]
    pub root_grace: Option<Duration>,
    /// From the arrival of the last new span to the decision; 5 minutes. 0 is off.
    #[serde(deserialize_with = "duration::deserialize")]
    pub idle: Duration,
    /// From the arrival of the first span to the decision, at the latest; 1 hour, more than 0.
    #[serde(deserialize_with = "duration::deserialize")]
    pub max_wait: Duration,
    /// What holds for the traces that a policy matches.
    pub policies: Vec<PolicyTrigger>,
}

/// `root_grace` where nothing is written: an engine's span comes up to 5 s after the answer.
pub const ROOT_GRACE: Duration = Duration::from_secs(10);

/// When traces are decided that a policy matches. One of the times at least is there.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyTrigger {
    /// Name of a policy.
    pub policy: String,
    /// From the first match to the decision, whatever else is to come; what comes later follows it as late spans.
    #[serde(default, deserialize_with = "some_duration")]
    pub match_grace: Option<Duration>,
    /// In place of the section's `idle`; 0 is off.
    #[serde(default, deserialize_with = "some_duration")]
    pub idle: Option<Duration>,
    /// In place of the section's `max_wait`; more than 0.
    #[serde(default, deserialize_with = "some_duration")]
    pub max_wait: Option<Duration>,
}

impl Default for TriggerRules {
    fn default() -> Self {
        Self {
            root_grace: None,
            idle: Duration::from_secs(5 * 60),
            max_wait: Duration::from_secs(60 * 60),
            policies: Vec::new(),
        }
    }
}

/// The section may be empty (`trigger:` and nothing below), which is not the same as absent.
pub(crate) fn deserialize_present<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<TriggerRules>, D::Error> {
    Ok(Some(Option::deserialize(deserializer)?.unwrap_or_default()))
}

fn some_duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    duration::deserialize(deserializer).map(Some)
}

/// The rules in nanoseconds; `u64::MAX` is never.
#[derive(Debug)]
pub(crate) struct Rules {
    root_grace: u64,
    idle: u64,
    max_wait: u64,
    policies: Vec<PolicyRule>,
}

#[derive(Debug)]
struct PolicyRule {
    /// Of the policy in file order.
    position: usize,
    match_grace: Option<u64>,
    idle: Option<u64>,
    max_wait: Option<u64>,
}

impl Rules {
    /// Checks and compiles the section, if there is one.
    pub(crate) fn compile(config: &Config) -> Result<Option<Self>> {
        let Some(rules) = &config.trigger else {
            return Ok(None);
        };
        let invalid = |key, problem| Err(Error::KeyValue { key, problem });
        if config.sampling_strategy == SamplingStrategy::SpanIngest {
            let other = "sampling_strategy: span-ingest";
            return invalid("trigger", ValueProblem::Excluded { other });
        }
        let after_root = config.decision_wait_after_root_received;
        if rules.root_grace.is_some() && after_root.is_some() {
            let other = "decision_wait_after_root_received";
            return invalid("trigger.root_grace", ValueProblem::Excluded { other });
        }
        if rules.max_wait.is_zero() {
            return invalid("trigger.max_wait", ValueProblem::Zero);
        }
        let policies = rules.policies.iter();
        Ok(Some(Self {
            root_grace: nanos(rules.root_grace.or(after_root).unwrap_or(ROOT_GRACE)),
            idle: nanos_unless_off(rules.idle),
            max_wait: nanos(rules.max_wait),
            policies: policies
                .map(|rule| PolicyRule::compile(rule, &config.policies))
                .collect::<Result<_>>()?,
        }))
    }

    /// From a trace's first span to its decision, if no policy matches it, at least.
    pub(crate) fn shortest(&self) -> u64 {
        self.root_grace.min(self.idle).min(self.max_wait)
    }

    /// Of a trace whose first span arrives, as far as known: when to look at it.
    pub(crate) fn first_due(&self, now_unix_nano: u64) -> u64 {
        now_unix_nano.saturating_add(self.idle.min(self.max_wait))
    }

    /// Takes note of a new span of a trace.
    pub(crate) fn note_span(&self, trace: &mut Trace, is_root: bool, now_unix_nano: u64) {
        // After a restart spans that were carried forward come later than those after them.
        trace.last_seen_unix_nano = trace.last_seen_unix_nano.max(now_unix_nano);
        if is_root {
            trace.end_at(now_unix_nano.saturating_add(self.root_grace), true);
        }
    }

    /// Takes note of what policies match now.
    pub(crate) fn note_matches(&self, trace: &mut Trace, policies: &Policies, services: &Services) {
        for rule in &self.policies {
            if let Some(match_grace) = rule.match_grace {
                let ends = trace.last_seen_unix_nano.saturating_add(match_grace);
                if ends < trace.ends_unix_nano && rule.matches(trace, policies, services) {
                    trace.end_at(ends, false);
                }
            }
        }
    }

    /// When a trace is due as things stand, and why then.
    pub(crate) fn due(
        &self,
        trace: &Trace,
        policies: &Policies,
        services: &Services,
    ) -> (u64, Trigger) {
        let (mut idle, mut max_wait) = (None, None);
        for rule in &self.policies {
            if (rule.idle > idle || rule.max_wait > max_wait)
                && rule.matches(trace, policies, services)
            {
                idle = idle.max(rule.idle);
                max_wait = max_wait.max(rule.max_wait);
            }
        }
        let idle = idle.unwrap_or(self.idle);
        let max_wait = max_wait.unwrap_or(self.max_wait);
        let ended = if trace.is_due_by_root {
            Trigger::RootEnded
        } else {
            Trigger::Matched
        };
        let mut due = (trace.ends_unix_nano, ended);
        for (from, wait, trigger) in [
            (trace.last_seen_unix_nano, idle, Trigger::Idle),
            (trace.first_seen_unix_nano, max_wait, Trigger::MaxWait),
        ] {
            let at = from.saturating_add(wait);
            if at < due.0 {
                due = (at, trigger);
            }
        }
        due
    }

    /// The time after which nothing is waited for any more, by the section.
    pub(crate) fn latest(&self, trace: &Trace) -> u64 {
        trace.first_seen_unix_nano.saturating_add(self.max_wait)
    }
}

impl PolicyRule {
    fn compile(rule: &PolicyTrigger, policies: &[Policy]) -> Result<Self> {
        let PolicyTrigger {
            policy,
            match_grace,
            idle,
            max_wait,
        } = rule;
        let Some(position) = policies.iter().position(|known| known.name == *policy) else {
            return Err(Error::KeyValue {
                key: "trigger.policies",
                problem: ValueProblem::UnknownPolicy {
                    found: policy.clone(),
                    nearest: nearest(policy, policies.iter().map(|known| known.name.as_str()))
                        .map(str::to_owned),
                },
            });
        };
        let invalid = |key, problem| {
            Err(Error::PolicyValue {
                policy: policy.clone(),
                key,
                problem,
            })
        };
        if !is_lasting(&policies[position].policy_type) {
            return invalid("trigger.policies", ValueProblem::NotLasting);
        }
        if match_grace.or(*idle).or(*max_wait).is_none() {
            return invalid("trigger.policies", ValueProblem::NoTime);
        }
        if max_wait.is_some_and(|max_wait| max_wait.is_zero()) {
            return invalid("trigger.policies[].max_wait", ValueProblem::Zero);
        }
        Ok(Self {
            position,
            match_grace: match_grace.map(nanos),
            idle: idle.map(nanos_unless_off),
            max_wait: max_wait.map(nanos),
        })
    }

    fn matches(&self, trace: &Trace, policies: &Policies, services: &Services) -> bool {
        matches(self.position, trace, policies, services)
    }
}

/// Of a lasting policy: whether it matches what has come of a trace.
pub(crate) fn matches(
    position: usize,
    trace: &Trace,
    policies: &Policies,
    services: &Services,
) -> bool {
    let duration_ns = trace.duration_ns();
    let evidence = Evidence::of(trace, services, duration_ns, trace.last_seen_unix_nano);
    policies.holds(position, &evidence)
}

/// Positions of the lasting policies.
pub(crate) fn lasting(policies: &[Policy]) -> Vec<usize> {
    let is_lasting = |position: &usize| is_lasting(&policies[*position].policy_type);
    (0..policies.len()).filter(is_lasting).collect()
}

/// Does a policy that matches go on matching, whatever spans come, and costs no budget?
fn is_lasting(policy: &PolicyType) -> bool {
    match policy {
        PolicyType::Latency(latency) => latency.upper_threshold_ms <= 0,
        PolicyType::SpanCount(count) => count.max_spans == 0,
        PolicyType::NumericAttribute(numeric) => !numeric.invert_match,
        PolicyType::StringAttribute(string) => !string.invert_match,
        PolicyType::BooleanAttribute(boolean) => !boolean.invert_match,
        PolicyType::And(_) | PolicyType::Drop(_) => policy
            .sub_policies()
            .iter()
            .all(|sub| is_lasting(&sub.policy_type)),
        // A span that comes can raise the threshold of those before.
        PolicyType::Probabilistic(share) => share.mode == ProbabilisticMode::HashSeed,
        PolicyType::AlwaysSample
        | PolicyType::StatusCode(_)
        | PolicyType::TraceState(_)
        | PolicyType::TraceFlags
        | PolicyType::OttlCondition(_) => true,
        PolicyType::RateLimiting(_)
        | PolicyType::BytesLimiting(_)
        | PolicyType::Adaptive(_)
        | PolicyType::SqlCondition(_)
        | PolicyType::Not(_)
        | PolicyType::Composite(_) => false,
    }
}

fn nanos_unless_off(duration: Duration) -> u64 {
    if duration.is_zero() {
        u64::MAX
    } else {
        nanos(duration)
    }
}
