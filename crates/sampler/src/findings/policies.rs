//! Findings on policies.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a finding is about few types of policies, and most have none"
)]

use crate::config::{Config, SamplingStrategy};
use crate::findings::top_level::OURS_REMEDY;
use crate::findings::{Finding, Severity, Step};
use crate::number::Number;
use crate::policy::{
    And, Composite, DropTraces, ErrorMode, NumericAttribute, OttlCondition, Policy, PolicyType,
    ProbabilisticMode, StringAttribute,
};

use Severity::{Note, Warning};

pub(super) fn add_findings(config: &Config, findings: &mut Vec<Finding>) {
    for (policy, idx) in config.policies.iter().zip(0..) {
        let mut at = At {
            config,
            findings: &mut *findings,
            place: vec![Step::Key("policies"), Step::Item(idx)],
            path: policy.name.clone(),
            within: None,
        };
        at.add_top_level(policy);
        at.add_policy(policy);
    }
}

/// One policy and what is around it.
struct At<'a> {
    config: &'a Config,
    findings: &'a mut Vec<Finding>,
    place: Vec<Step>,
    path: String,
    /// Type of the policy around it.
    within: Option<&'static str>,
}

impl At<'_> {
    /// `keys` lead from the policy to the value.
    fn add(
        &mut self,
        severity: Severity,
        keys: &[&'static str],
        what: String,
        remedy: &'static str,
    ) {
        let mut place = self.place.clone();
        place.extend(keys.iter().map(|key| Step::Key(key)));
        self.findings.push(Finding {
            severity,
            place,
            policy: Some(self.path.clone()),
            what,
            remedy,
        });
    }

    /// What only matters where a match alone keeps a trace.
    fn add_top_level(&mut self, policy: &Policy) {
        let is_only_one = self.config.policies.len() == 1;
        let keeps_all = match &policy.policy_type {
            PolicyType::AlwaysSample => true,
            PolicyType::Probabilistic(config) => config.sampling_percentage >= 100.0,
            PolicyType::SpanCount(count) => count.min_spans <= 1 && count.max_spans == 0,
            _ => false,
        };
        if keeps_all && !is_only_one {
            let what = "keeps every trace, so that only `drop` policies among the others matter";
            let remedy = "remove it, or put it last in a `composite`";
            self.add(Warning, &["type"], what.to_owned(), remedy);
        }
        let name = policy.policy_type.name();
        if let PolicyType::RateLimiting(_) | PolicyType::BytesLimiting(_) = policy.policy_type
            && !is_only_one
        {
            let what =
                "keeps any trace while its budget lasts, and limits none that another policy keeps";
            let remedy = "put it into an `and` behind what it is to limit, or use `composite`";
            self.add(Warning, &[name], what.to_owned(), remedy);
        }
        if inverts(&policy.policy_type) {
            self.add_inverted(name);
        }
    }

    fn add_inverted(&mut self, name: &'static str) {
        let remedy = "to exclude traces use a `drop` policy; to require the absence of something put this into an `and`";
        let what = if self.config.compat.inverts_decisions() {
            "a match keeps the trace from being sampled whatever other policies say, and no match counts only if no other policy says otherwise"
        } else {
            "keeps every trace in which nothing matches, whatever other policies say (a Collector before v0.144 gives it a veto instead)"
        };
        self.add(Warning, &[name, "invert_match"], what.to_owned(), remedy);
    }

    fn add_policy(&mut self, policy: &Policy) {
        match &policy.policy_type {
            PolicyType::NumericAttribute(numeric) => self.add_numeric(numeric),
            PolicyType::StringAttribute(string) => self.add_string(string),
            PolicyType::Probabilistic(config) => {
                self.add_percentage(config.sampling_percentage);
                if config.mode != ProbabilisticMode::HashSeed {
                    self.add_ours(&["probabilistic", "mode"], "key `mode` of `tail_sampling`");
                }
            }
            PolicyType::Adaptive(_) => self.add_ours(&["type"], "type `adaptive`"),
            PolicyType::SqlCondition(_) => self.add_ours(&["type"], "type `sql_condition`"),
            PolicyType::StatusCode(config)
                if config.status_codes.iter().any(|code| code == "UNSET") =>
            {
                let what = "nearly every trace has a span without a status, so that nearly every trace matches";
                let remedy = "leave out `UNSET`";
                self.add(
                    Warning,
                    &["status_code", "status_codes"],
                    what.to_owned(),
                    remedy,
                );
            }
            PolicyType::Latency(latency) => self.add_latency(latency.threshold_ms),
            PolicyType::RateLimiting(config) => {
                self.add_budget("rate_limiting", "spans_per_second", config.spans_per_second);
            }
            PolicyType::BytesLimiting(config) => {
                self.add_budget(
                    "bytes_limiting",
                    "bytes_per_second",
                    config.bytes_per_second,
                );
            }
            PolicyType::OttlCondition(ottl) => self.add_ottl(ottl),
            PolicyType::And(And { and_sub_policy }) => {
                self.add_different_spans("and", "and_sub_policy", and_sub_policy);
                self.add_subs("and", "and_sub_policy", and_sub_policy);
            }
            PolicyType::Not(not) => {
                let sub = std::slice::from_ref(&*not.not_sub_policy);
                self.add_on_arrival("not");
                self.add_subs("not", "not_sub_policy", sub);
            }
            PolicyType::Drop(DropTraces { drop_sub_policy }) => {
                if drop_sub_policy.len() > 1 {
                    let what = "drops only traces that every sub-policy matches";
                    let remedy = "to drop what any of them matches, write a `drop` policy for each";
                    self.add(Note, &["drop", "drop_sub_policy"], what.to_owned(), remedy);
                }
                self.add_subs("drop", "drop_sub_policy", drop_sub_policy);
            }
            PolicyType::Composite(composite) => {
                self.add_composite(composite);
                let subs = &composite.composite_sub_policy;
                self.add_subs("composite", "composite_sub_policy", subs);
            }
            PolicyType::StatusCode(_)
            | PolicyType::AlwaysSample
            | PolicyType::BooleanAttribute(_)
            | PolicyType::TraceState(_)
            | PolicyType::TraceFlags
            | PolicyType::SpanCount(_) => {}
        }
        if inverts(&policy.policy_type) {
            self.add_on_arrival(policy.policy_type.name());
        }
    }

    /// Something that the Collector does not have.
    fn add_ours(&mut self, keys: &[&'static str], name: &str) {
        if self.config.compat.is_collector() {
            let what = format!("the Collector has no {name}: it would refuse this file");
            self.add(Warning, keys, what, OURS_REMEDY);
        }
    }

    fn add_subs(&mut self, name: &'static str, key: &'static str, subs: &[Policy]) {
        for (sub, idx) in subs.iter().zip(0..) {
            let mut place = self.place.clone();
            place.extend([Step::Key(name), Step::Key(key)]);
            if name != "not" {
                place.push(Step::Item(idx));
            }
            let mut at = At {
                config: self.config,
                findings: &mut *self.findings,
                place,
                path: format!("{}/{}", self.path, sub.name),
                within: Some(name),
            };
            at.add_policy(sub);
        }
    }

    fn add_numeric(&mut self, numeric: &NumericAttribute) {
        let as_collector = self.config.compat.is_collector();
        for (key, bound) in [
            ("min_value", numeric.min_value),
            ("max_value", numeric.max_value),
        ] {
            let (what, remedy) = match bound {
                Some(Number::Int(0)) if as_collector => (
                    "a bound of 0 counts as no bound",
                    "leave out `compat`, or use `ottl_condition`",
                ),
                Some(Number::Int(0)) => (
                    "0 is a bound here; the Collector takes it for no bound",
                    "nothing to do; leave the key out to have no bound",
                ),
                Some(Number::Double(_)) if !as_collector => (
                    "a bound with a fraction works here; the Collector refuses it",
                    "nothing to do",
                ),
                Some(_) | None => continue,
            };
            self.add(Note, &["numeric_attribute", key], what.to_owned(), remedy);
        }
        if as_collector {
            let what = "a double counts as 0, so that latencies and costs never match";
            let remedy = "leave out `compat`, or use `ottl_condition`";
            self.add(
                Warning,
                &["numeric_attribute", "key"],
                what.to_owned(),
                remedy,
            );
        }
    }

    fn add_string(&mut self, string: &StringAttribute) {
        let keys = ["string_attribute", "values"];
        if string.values.iter().all(String::is_empty) {
            let what = "no value is given that an attribute could have, so that nothing matches";
            let remedy = "list values; the empty string never matches";
            self.add(Warning, &keys, what.to_owned(), remedy);
        }
        for value in &string.values {
            let (what, remedy) = match string.enabled_regex_matching {
                true if is_glob(value) => (
                    format!("`{value}` is a pattern in which `*` repeats the character before it"),
                    "write `.*` for any text, or leave the end open: patterns match anywhere",
                ),
                true if value.contains("\\/") && !value.contains(['^', '$']) => (
                    format!(
                        "`{value}` is searched anywhere in the value, so that longer paths match too"
                    ),
                    "anchor it with `^` and `$`",
                ),
                false if value.contains(".*") || value.starts_with('^') => (
                    format!("`{value}` is compared as it stands, although it looks like a pattern"),
                    "set `enabled_regex_matching: true`",
                ),
                _ => continue,
            };
            self.add(Warning, &keys, what, remedy);
        }
        if string.cache_max_size != 0 {
            let what = "has no effect: matching needs no cache";
            let keys = ["string_attribute", "cache_max_size"];
            self.add(Note, &keys, what.to_owned(), "remove the key");
        }
    }

    fn add_percentage(&mut self, percentage: f64) {
        let keys = ["probabilistic", "sampling_percentage"];
        if percentage <= 0.0 {
            let remedy = "write percent: 10 keeps one trace in ten";
            self.add(Warning, &keys, "keeps nothing".to_owned(), remedy);
        } else if percentage < 1.0 {
            let what = format!(
                "is a percentage: {percentage} keeps one trace in {:.0}",
                100.0 / percentage
            );
            let remedy = "if a fraction was meant, multiply it by 100";
            self.add(Note, &keys, what, remedy);
        }
    }

    fn add_latency(&mut self, threshold_ms: i64) {
        let rules = self.config.trigger.as_ref();
        let wait = rules.map_or(self.config.decision_wait, |rules| rules.max_wait);
        let wait_ms = wait.as_millis();
        if u128::try_from(threshold_ms).is_ok_and(|threshold| threshold >= wait_ms) {
            let what = format!(
                "a trace is decided {wait_ms} ms after its first span, before one that takes longer than {threshold_ms} ms has ended: the slowest are lost"
            );
            let remedy = if rules.is_some() {
                "raise `trigger.max_wait` above the slowest trace to keep"
            } else {
                "use `trigger` rules, or raise `decision_wait` above the slowest trace to keep and set `decision_wait_after_root_received` so that others need not wait"
            };
            self.add(Warning, &["latency", "threshold_ms"], what, remedy);
        }
    }

    fn add_budget(&mut self, name: &'static str, key: &'static str, per_second: u64) {
        if per_second == 0 {
            let remedy = "give a rate above 0";
            self.add(Warning, &[name, key], "keeps nothing".to_owned(), remedy);
        }
        if self.within == Some("drop") {
            let what = "drops traces while its budget lasts and none after";
            let remedy = "limit what is kept instead, with `and` or `composite`";
            self.add(Warning, &[name], what.to_owned(), remedy);
        }
    }

    fn add_ottl(&mut self, ottl: &OttlCondition) {
        if ottl.error_mode == ErrorMode::Propagate {
            let what = "a condition that cannot be evaluated leaves this policy without a verdict on the trace";
            let remedy = "set `error_mode: ignore`";
            self.add(
                Note,
                &["ottl_condition", "error_mode"],
                what.to_owned(),
                remedy,
            );
        }
        for (key, conditions) in [("span", &ottl.span), ("spanevent", &ottl.spanevent)] {
            for condition in conditions {
                let compares_attribute =
                    condition.contains("attributes[") && condition.contains("!=");
                if compares_attribute && !condition.contains("nil") {
                    let what = format!(
                        "`{condition}` is true of everything that has no such attribute, so that nearly every trace matches"
                    );
                    let remedy = "add `and attributes[\"..\"] != nil`";
                    self.add(Warning, &["ottl_condition", key], what, remedy);
                }
            }
        }
    }

    fn add_different_spans(&mut self, name: &'static str, key: &'static str, subs: &[Policy]) {
        let is_on_spans = |sub: &&Policy| {
            matches!(
                sub.policy_type,
                PolicyType::StringAttribute(_)
                    | PolicyType::NumericAttribute(_)
                    | PolicyType::BooleanAttribute(_)
                    | PolicyType::StatusCode(_)
            )
        };
        if subs.iter().filter(is_on_spans).count() > 1 {
            let what = "each sub-policy may match on another span of the trace";
            let remedy = "to demand it of one span, use one `ottl_condition` with `and`";
            self.add(Note, &[name, key], what.to_owned(), remedy);
        }
    }

    fn add_composite(&mut self, composite: &Composite) {
        let key = "composite";
        let defined = || composite.composite_sub_policy.iter().map(|sub| &sub.name);
        let unordered: Vec<&str> = defined()
            .filter(|name| !composite.policy_order.contains(name))
            .map(String::as_str)
            .collect();
        if !composite.policy_order.is_empty() {
            if self.config.compat.is_collector() {
                if !composite.policy_order.iter().eq(defined()) {
                    let what =
                        "is ignored: sub-policies are asked in the order of their definition";
                    let remedy = "leave out `compat`, or define the sub-policies in this order";
                    self.add(Warning, &[key, "policy_order"], what.to_owned(), remedy);
                }
            } else if !unordered.is_empty() {
                let what = format!("does not name `{}`, asked last", unordered.join("`, `"));
                let remedy = "name every sub-policy";
                self.add(Note, &[key, "policy_order"], what, remedy);
            } else if !composite.policy_order.iter().eq(defined()) {
                let what = "is followed here; the Collector ignores it and asks in the order of definition";
                let remedy = "define the sub-policies in this order, and both agree";
                self.add(Note, &[key, "policy_order"], what.to_owned(), remedy);
            }
        }
        self.add_allocation(composite);
    }

    fn add_allocation(&mut self, composite: &Composite) {
        let keys = ["composite", "rate_allocation"];
        let is_allocated = |sub: &&Policy| {
            composite
                .rate_allocation
                .iter()
                .any(|rate| rate.policy == sub.name)
        };
        let without: Vec<&str> = composite
            .composite_sub_policy
            .iter()
            .filter(|sub| !is_allocated(sub))
            .map(|sub| sub.name.as_str())
            .collect();
        if !without.is_empty() && self.config.compat.omitted_allocation_is_zero() {
            let what = format!(
                "does not name `{}`, which keeps nothing",
                without.join("`, `")
            );
            self.add(Warning, &keys, what, "give every sub-policy a percentage");
        } else if !without.is_empty() && !composite.rate_allocation.is_empty() {
            let what = format!(
                "does not name `{}`, which gets an equal share besides the percentages (nothing in a Collector up to v0.157)",
                without.join("`, `")
            );
            self.add(Note, &keys, what, "give every sub-policy a percentage");
        }
        let percent = composite.rate_allocation.iter().map(|rate| rate.percent);
        let percent: u64 = percent.fold(0, u64::saturating_add);
        if percent > 100 {
            let what = format!("adds up to {percent} percent");
            let remedy = "keep the sum at 100, or what comes first takes the rest's share";
            self.add(Warning, &keys, what, remedy);
        }
    }

    fn add_on_arrival(&mut self, name: &'static str) {
        if self.config.sampling_strategy == SamplingStrategy::SpanIngest {
            let what = "the first batch without a match samples the trace, whatever comes later";
            let remedy = "use `sampling_strategy: trace-complete`";
            self.add(Warning, &[name], what.to_owned(), remedy);
        }
    }
}

fn inverts(policy_type: &PolicyType) -> bool {
    match policy_type {
        PolicyType::StringAttribute(string) => string.invert_match,
        PolicyType::NumericAttribute(numeric) => numeric.invert_match,
        PolicyType::BooleanAttribute(boolean) => boolean.invert_match,
        _ => false,
    }
}

/// `val*` or `*.example.com`: a star that a shell would take for any text.
fn is_glob(value: &str) -> bool {
    let has_star_after_letter = value.as_bytes().windows(2).any(
        |pair| matches!(pair, [before, b'*'] if before.is_ascii_alphanumeric() || *before == b'/'),
    );
    has_star_after_letter || value.starts_with('*')
}
