//! Findings on the keys beside `policies`.

use crate::config::{Config, SamplingStrategy};
use crate::findings::{Finding, Severity, Step};
use crate::policy::PolicyType;

pub(super) fn findings(config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut add = |severity, key: &[&'static str], what: String, remedy| {
        findings.push(Finding {
            severity,
            place: key.iter().map(|key| Step::Key(key)).collect(),
            policy: None,
            what,
            remedy,
        });
    };
    add_moot(config, &mut add);
    add_sizes(config, &mut add);
    if config.budget.is_some() && config.compat.is_collector() {
        let what =
            "the Collector has no `budget`: it would refuse this file, and keep more than this";
        add(Severity::Warning, &["budget"], what.to_owned(), OURS_REMEDY);
    }
    let has_drop = config
        .policies
        .iter()
        .any(|policy| matches!(policy.policy_type, PolicyType::Drop(_)));
    if config.sampling_strategy == SamplingStrategy::SpanIngest && has_drop {
        let (severity, what) = if config.compat.is_collector() {
            (
                Severity::Warning,
                "nothing is ever sampled, because a `drop` policy might still match",
            )
        } else {
            (
                Severity::Note,
                "traces are sampled only when they are due, because a `drop` policy might still match",
            )
        };
        let remedy = "use `sampling_strategy: trace-complete`, or do without the `drop` policy";
        add(severity, &["sampling_strategy"], what.to_owned(), remedy);
    }
    findings
}

/// What to do about something that the Collector which is followed does not have.
pub(super) const OURS_REMEDY: &str =
    "leave out `compat`, or this where decisions are to be those of a Collector";

/// Adds a finding: severity, keys from the top, what happens, remedy.
type Add<'a> = dyn FnMut(Severity, &[&'static str], String, &'static str) + 'a;

fn add_moot(config: &Config, add: &mut Add<'_>) {
    const REMOVE: &str = "remove the key";
    let mut moot = |key, reason: &str| {
        add(
            Severity::Note,
            &[key],
            format!("has no effect: {reason}"),
            REMOVE,
        );
    };
    if config.trigger.is_some() && config.decision_wait != Config::default().decision_wait {
        moot(
            "decision_wait",
            "`trigger` rules say when a trace is decided",
        );
    }
    if config.block_on_overflow {
        moot(
            "block_on_overflow",
            "no trace is evicted undecided, those due next are decided early",
        );
    }
    if config.expected_new_traces_per_sec != 0 {
        moot("expected_new_traces_per_sec", "memory is not prepared");
    }
    if config.num_shards > 1 {
        moot(
            "num_shards",
            "one shard has the whole of the sizes and rates that are written",
        );
    }
    if config.tail_storage.is_some() {
        moot(
            "tail_storage",
            "spans wait in the write-ahead log, which outlives a restart",
        );
    }
}

fn add_sizes(config: &Config, add: &mut Add<'_>) {
    let seconds = match &config.trigger {
        // Most traces end with their root.
        Some(_) => 0,
        None => config.decision_wait.as_secs(),
    };
    let expected = config.expected_new_traces_per_sec.saturating_mul(seconds);
    if expected > config.num_traces {
        let what = format!(
            "{expected} traces are expected within `decision_wait`, but only {} are held: the others are decided early on what is there",
            config.num_traces
        );
        let remedy =
            "raise `num_traces`; an undecided trace takes at most 256 bytes and 64 per span";
        add(Severity::Warning, &["num_traces"], what, remedy);
    }
    let cache = config.decision_cache;
    for (key, size) in [
        ("sampled_cache_size", cache.sampled_cache_size),
        ("non_sampled_cache_size", cache.non_sampled_cache_size),
    ] {
        if size != 0 && size < config.num_traces {
            let what = format!(
                "{size} decisions are remembered, fewer than the {} traces that may be undecided at once: late spans may start a trace of their own",
                config.num_traces
            );
            let remedy = "make it several times `num_traces`; an entry takes 30 bytes";
            add(Severity::Warning, &["decision_cache", key], what, remedy);
        }
    }
}
