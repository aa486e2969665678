//! Traps that users copy, each with its place.

use sampler::{Config, Severity};
use serde_json::{Value as Json, json};

/// Place, policy and first words of every finding.
fn findings(keys: Json) -> Vec<(String, String, String)> {
    let config: Config = crate::run::config(keys);
    config.validate().unwrap();
    let findings = config.findings().into_iter();
    findings
        .map(|finding| {
            assert!(!finding.remedy.is_empty());
            let policy = finding.policy.clone().unwrap_or_default();
            (finding.path(), policy, finding.what)
        })
        .collect()
}

/// The findings on these policies under one compat are exactly these: place and a part of the text.
#[track_caller]
fn check(compat: &str, policies: Json, want: &[(&str, &str)]) {
    let found = findings(json!({"compat": compat, "decision_wait": "60s", "policies": policies}));
    let places: Vec<&str> = found.iter().map(|(place, ..)| place.as_str()).collect();
    let wanted: Vec<&str> = want.iter().map(|(place, _)| *place).collect();
    assert_eq!(places, wanted, "{found:#?}");
    for ((_, _, what), (place, part)) in found.iter().zip(want) {
        assert!(what.contains(part), "{place}: {what}");
    }
}

fn policy(policy_type: &str, section: Json) -> Json {
    json!([{"name": "p", "type": policy_type, policy_type: section}])
}

#[test]
fn a_plain_configuration_has_no_findings() {
    let policies = json!([
        {"name": "errors", "type": "status_code", "status_code": {"status_codes": ["ERROR"]}},
        {"name": "slow", "type": "latency", "latency": {"threshold_ms": 5000}},
        {"name": "rest", "type": "probabilistic", "probabilistic": {"sampling_percentage": 10}},
        {"name": "one", "type": "string_attribute", "string_attribute": {"key": "k", "values": ["^/health$"], "enabled_regex_matching": true}},
    ]);
    check("none", policies, &[]);
}

/// C19.
#[test]
fn zero_bounds_and_doubles_are_pointed_out() {
    let zero = || {
        policy(
            "numeric_attribute",
            json!({"key": "k", "min_value": 0, "max_value": 5}),
        )
    };
    check(
        "none",
        zero(),
        &[(
            "policies[0].numeric_attribute.min_value",
            "0 is a bound here",
        )],
    );
    check(
        "collector",
        zero(),
        &[
            (
                "policies[0].numeric_attribute.min_value",
                "counts as no bound",
            ),
            ("policies[0].numeric_attribute.key", "a double counts as 0"),
        ],
    );
    let double = policy("numeric_attribute", json!({"key": "k", "min_value": 0.5}));
    check(
        "none",
        double,
        &[("policies[0].numeric_attribute.min_value", "fraction")],
    );
}

/// C22.
#[test]
fn an_inverted_match_is_pointed_out_where_it_decides_alone() {
    let inverted = || json!({"key": "k", "values": ["a"], "invert_match": true});
    let place = "policies[0].string_attribute.invert_match";
    let alone = || policy("string_attribute", inverted());
    check(
        "none",
        alone(),
        &[(place, "keeps every trace in which nothing matches")],
    );
    check(
        "v0.143",
        alone(),
        &[(place, "keeps the trace from being sampled")],
    );
    let sub = json!({"name": "s", "type": "string_attribute", "string_attribute": inverted()});
    let within = policy(
        "and",
        json!({"and_sub_policy": [sub, {"name": "t", "type": "trace_flags"}]}),
    );
    check("none", within, &[]);
}

/// C29 and what else is copied: it loads, and means something else.
#[test]
fn what_looks_like_something_else_is_pointed_out() {
    let values = "policies[0].string_attribute.values";
    let string = |value: &str, is_pattern: bool| {
        policy(
            "string_attribute",
            json!({"key": "k", "values": [value], "enabled_regex_matching": is_pattern}),
        )
    };
    check(
        "none",
        string("val*", true),
        &[(values, "repeats the character before it")],
    );
    check(
        "none",
        string("\\/health", true),
        &[(values, "searched anywhere")],
    );
    check(
        "none",
        string("^/health", false),
        &[(values, "as it stands")],
    );
    check("none", string("", false), &[(values, "nothing matches")]);
    let percentage = "policies[0].probabilistic.sampling_percentage";
    let share = |percent: f64| policy("probabilistic", json!({"sampling_percentage": percent}));
    check("none", share(0.1), &[(percentage, "one trace in 1000")]);
    check("none", share(0.0), &[(percentage, "keeps nothing")]);
    let unset = policy("status_code", json!({"status_codes": ["ERROR", "UNSET"]}));
    check(
        "none",
        unset,
        &[("policies[0].status_code.status_codes", "nearly every trace")],
    );
    let slow = policy("latency", json!({"threshold_ms": 90_000}));
    check(
        "none",
        slow,
        &[("policies[0].latency.threshold_ms", "the slowest are lost")],
    );
    let cached = policy(
        "string_attribute",
        json!({"key": "k", "values": ["a"], "cache_max_size": 10}),
    );
    check(
        "none",
        cached,
        &[("policies[0].string_attribute.cache_max_size", "no cache")],
    );
}

#[test]
fn policies_that_keep_everything_or_limit_nothing_are_pointed_out() {
    let all = json!([
        {"name": "all", "type": "always_sample"},
        {"name": "limit", "type": "rate_limiting", "rate_limiting": {"spans_per_second": 35}},
        {"name": "e", "type": "status_code", "status_code": {"status_codes": ["ERROR"]}},
    ]);
    check(
        "none",
        all,
        &[
            ("policies[0].type", "keeps every trace"),
            (
                "policies[1].rate_limiting",
                "limits none that another policy keeps",
            ),
        ],
    );
    let nothing = policy("bytes_limiting", json!({"bytes_per_second": 0}));
    check(
        "none",
        nothing,
        &[(
            "policies[0].bytes_limiting.bytes_per_second",
            "keeps nothing",
        )],
    );
}

#[test]
fn combinations_are_pointed_out_with_the_path_of_the_sub_policy() {
    let attribute = |value: &str| json!({"name": value, "type": "string_attribute", "string_attribute": {"key": "k", "values": [value]}});
    let and = policy(
        "and",
        json!({"and_sub_policy": [attribute("a"), attribute("^b")]}),
    );
    check(
        "none",
        and.clone(),
        &[
            ("policies[0].and.and_sub_policy", "another span"),
            (
                "policies[0].and.and_sub_policy[1].string_attribute.values",
                "as it stands",
            ),
        ],
    );
    assert_eq!(findings(json!({"policies": and}))[1].1, "p/^b");
    let drop = policy(
        "drop",
        json!({"drop_sub_policy": [attribute("a"), attribute("b")]}),
    );
    check(
        "none",
        drop,
        &[("policies[0].drop.drop_sub_policy", "every sub-policy")],
    );
    let not = policy("not", json!({"not_sub_policy": attribute("^c")}));
    check(
        "none",
        not,
        &[(
            "policies[0].not.not_sub_policy.string_attribute.values",
            "as it stands",
        )],
    );
}

#[test]
fn orders_and_shares_of_a_composite_are_pointed_out() {
    let sub = |name: &str| json!({"name": name, "type": "trace_flags"});
    let composite = |order: &[&str], percent: u64| {
        policy(
            "composite",
            json!({
                "max_total_spans_per_second": 100,
                "policy_order": order,
                "composite_sub_policy": [sub("a"), sub("b")],
                "rate_allocation": [{"policy": "a", "percent": percent}],
            }),
        )
    };
    let order = "policies[0].composite.policy_order";
    let share = "policies[0].composite.rate_allocation";
    check(
        "none",
        composite(&["b", "a"], 50),
        &[
            (order, "the Collector ignores it"),
            (share, "`b`, which gets an equal share"),
        ],
    );
    check(
        "v0.157",
        composite(&["b", "a"], 150),
        &[
            (order, "is ignored"),
            (share, "`b`, which keeps nothing"),
            (share, "150 percent"),
        ],
    );
    check(
        "none",
        composite(&["b"], 50),
        &[(order, "does not name `a`"), (share, "equal share")],
    );
}

/// C32.
#[test]
fn conditions_that_match_what_has_no_attribute_are_pointed_out() {
    let ottl = |mode: &str, condition: &str| {
        policy(
            "ottl_condition",
            json!({"error_mode": mode, "span": [condition]}),
        )
    };
    check(
        "none",
        ottl("propagate", "attributes[\"k\"] != \"v\""),
        &[
            ("policies[0].ottl_condition.error_mode", "without a verdict"),
            ("policies[0].ottl_condition.span", "nearly every trace"),
        ],
    );
    check("none", ottl("ignore", "attributes[\"k\"] != nil"), &[]);
}

#[test]
fn what_trigger_rules_make_moot_is_pointed_out() {
    let slow = policy("latency", json!({"threshold_ms": 3_600_000}));
    let found = findings(json!({"decision_wait": "60s", "trigger": {}, "policies": slow}));
    let places: Vec<&str> = found.iter().map(|(place, ..)| place.as_str()).collect();
    assert_eq!(
        places,
        ["decision_wait", "policies[0].latency.threshold_ms"]
    );
    let slow = policy("latency", json!({"threshold_ms": 600_000}));
    assert_eq!(findings(json!({"trigger": {}, "policies": slow})), []);
}

#[test]
fn top_level_keys_are_pointed_out() {
    let policies = policy("trace_flags", json!({}));
    let found = findings(json!({
        "block_on_overflow": true,
        "expected_new_traces_per_sec": 1000,
        "num_shards": 2,
        "num_traces": 100,
        "tail_storage": "pebble_tail_storage",
        "decision_cache": {"sampled_cache_size": 10},
        "policies": policies,
    }));
    let places: Vec<&str> = found.iter().map(|(place, ..)| place.as_str()).collect();
    assert_eq!(
        places,
        [
            "block_on_overflow",
            "expected_new_traces_per_sec",
            "num_shards",
            "tail_storage",
            "num_traces",
            "decision_cache.sampled_cache_size",
        ]
    );
    let not = policy(
        "not",
        json!({"not_sub_policy": {"name": "s", "type": "trace_flags"}}),
    );
    let drop = json!({"name": "d", "type": "drop", "drop": {"drop_sub_policy": [{"type": "trace_flags"}]}});
    let mut policies = not;
    policies.as_array_mut().unwrap().push(drop);
    let keys =
        json!({"sampling_strategy": "span-ingest", "compat": "collector", "policies": policies});
    let config: Config = crate::run::config(keys);
    let found: Vec<_> = config
        .findings()
        .iter()
        .map(|finding| (finding.path(), finding.severity))
        .collect();
    assert_eq!(
        found,
        [
            ("sampling_strategy".to_owned(), Severity::Warning),
            ("policies[0].not".to_owned(), Severity::Warning),
        ]
    );
}

#[test]
fn what_the_collector_does_not_have_is_pointed_out_under_compat_alone() {
    let policies = json!([
        {"name": "p", "type": "probabilistic",
         "probabilistic": {"sampling_percentage": 10, "mode": "proportional"}},
        {"name": "a", "type": "adaptive",
         "adaptive": {"keys": ["root.name"], "target_percentage": 10}},
        {"name": "n", "type": "not",
         "not": {"not_sub_policy": {"name": "s", "type": "sql_condition", "sql_condition": {"condition": "error"}}}},
    ]);
    check("none", policies.clone(), &[]);
    check(
        "collector",
        policies.clone(),
        &[
            ("policies[0].probabilistic.mode", "no key `mode`"),
            ("policies[1].type", "no type `adaptive`"),
            (
                "policies[2].not.not_sub_policy.type",
                "no type `sql_condition`",
            ),
        ],
    );
    let budget = json!({"spans_per_second": 10});
    for (compat, n_findings) in [("none", 0), ("v0.160", 4)] {
        let keys = json!({"compat": compat, "budget": budget, "policies": policies});
        let found = findings(keys);
        assert_eq!(found.len(), n_findings, "{found:?}");
        if n_findings > 0 {
            assert_eq!(found[0].0, "budget");
        }
    }
}
