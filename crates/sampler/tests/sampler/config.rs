//! What loads, and what the error says if it does not.

use sampler::{Config, Number, NumericAttribute, Policy, PolicyType};
use serde::Deserialize;
use serde_json::Value as Json;

/// Loads the text below `tail_sampling:`.
fn load(yaml: &str) -> Result<Config, String> {
    let config: Config = serde_saphyr::from_str(yaml).map_err(|error| error.to_string())?;
    config.validate().map_err(|error| error.to_string())?;
    Ok(config)
}

#[track_caller]
fn check_error(yaml: &str, parts: &[&str]) {
    let error = load(yaml).unwrap_err();
    for part in parts {
        assert!(
            error.contains(part),
            "{yaml}\n  gives: {error}\n  without: {part}"
        );
    }
}

#[test]
fn every_key_of_the_collector_loads() {
    let config = load(
        "
decision_wait: 1m30s
num_traces: 100_000
expected_new_traces_per_sec: 10
block_on_overflow: true
sample_on_first_match: true
drop_pending_traces_on_shutdown: false
maximum_trace_size_bytes: 1048576
decision_wait_after_root_received: 500ms
sampling_strategy: trace-complete
num_shards: 4
tail_storage: pebble_tail_storage
compat: v0.161
decision_cache: {sampled_cache_size: 10, non_sampled_cache_size: 20}
policies:
  - {name: a, type: always_sample}
  - {name: b, type: latency, latency: {threshold_ms: 5000, upper_threshold_ms: 10_000}}
  - {name: c, type: numeric_attribute, numeric_attribute: {key: k, min_value: 0, max_value: 25, invert_match: true}}
  - {name: d, type: probabilistic, probabilistic: {hash_salt: s, sampling_percentage: 25}}
  - {name: e, type: status_code, status_code: {status_codes: [ERROR, UNSET]}}
  - {name: f, type: string_attribute, string_attribute: {key: k, values: [v.*], enabled_regex_matching: true, cache_max_size: 10, invert_match: true}}
  - name: g
    type: and
    and:
      and_sub_policy:
        - {name: h, type: latency, latency: {threshold_ms: 1}}
        - {type: always_sample}
  - {name: i, type: boolean_attribute, boolean_attribute: {key: k, value: true, invert_match: true}}
  - {name: j, type: trace_state, trace_state: {key: k, values: [v]}}
  - {name: k, type: trace_flags}
  - {name: l, type: span_count, span_count: {min_spans: 2, max_spans: 20}}
  - {name: m, type: rate_limiting, rate_limiting: {spans_per_second: 35, burst_capacity: 70}}
  - {name: n, type: bytes_limiting, bytes_limiting: {bytes_per_second: 2048, burst_capacity: 4096}}
  - {name: o, type: ottl_condition, ottl_condition: {error_mode: silent, span: ['name != \"\"'], spanevent: ['name == \"exception\"']}}
  - {name: q, type: not, not: {not_sub_policy: {name: r, type: trace_flags}}}
  - {name: s, type: drop, drop: {drop_sub_policy: [{name: t, type: trace_flags}]}}
  - name: u
    type: composite
    composite:
      max_total_spans_per_second: 1000
      policy_order: [v, w]
      composite_sub_policy: [{name: v, type: trace_flags}, {name: w, type: always_sample}]
      rate_allocation: [{policy: v, percent: 50}]
",
    )
    .unwrap();
    assert_eq!(config.decision_wait.as_secs(), 90);
    assert_eq!(
        config
            .decision_wait_after_root_received
            .unwrap()
            .as_millis(),
        500
    );
    assert_eq!(config.num_traces, 100_000);
    assert_eq!(config.decision_cache.non_sampled_cache_size, 20);
    assert!(config.sample_on_first_match);
    assert_eq!(config.policies.len(), 17);
}

#[test]
fn defaults_are_those_of_the_collector() {
    let config = load("policies: [{name: p, type: always_sample}]").unwrap();
    assert_eq!(config.decision_wait.as_secs(), 30);
    assert_eq!(config.decision_wait_after_root_received, None);
    assert_eq!(config.num_traces, 50_000);
    assert_eq!(
        load("{decision_wait_after_root_received: 0s, policies: [{name: p, type: always_sample}]}"),
        Ok(config)
    );
}

/// The items of `policies`, and what the error says of them.
const POLICY_ERRORS: &[(&str, &[&str])] = &[
    ("{type: always_sample}", &["policy number 1", "`name`"]),
    ("{name: p}", &["`p`", "no `type`"]),
    (
        "{name: p, type: latencey}",
        &["`p`", "`latencey`", "did you mean `latency`?"],
    ),
    ("{name: p, type: zzz}", &["`p`", "unknown type `zzz`"]),
    ("{name: p, type: latency}", &["`p`", "no section `latency`"]),
    (
        "{name: p, type: latency, latency: }",
        &["`p`", "no section `latency`"],
    ),
    (
        "{name: p, type: latency, probabilistic: {sampling_percentage: 5}}",
        &["`p`", "type `latency`", "section `probabilistic`"],
    ),
    (
        "{name: p, type: always_sample, always_sampel: 1}",
        &["`p`", "`always_sampel`"],
    ),
    (
        "{name: p, type: latency, latancy: {}}",
        &["`p`", "did you mean `latency`?"],
    ),
    (
        "{name: p, type: latency, latency: {treshold_ms: 5}}",
        &["`p`", "treshold_ms", "threshold_ms"],
    ),
    (
        "{type: latency, latency: {treshold_ms: 5}, name: p}",
        &["treshold_ms"],
    ),
    (
        "{name: p, type: latency, latency: {threshold_ms: 5, upper_threshold_ms: 5}}",
        &["`p`", "`latency`", "nothing matches"],
    ),
    (
        "{name: p, type: numeric_attribute, numeric_attribute: {key: k, min_value: .nan}}",
        &["`p`", "`numeric_attribute`", "non-finite float `.nan`"],
    ),
    (
        "{name: p, type: numeric_attribute, numeric_attribute: {key: k, min_value: \"5\"}}",
        &["`p`", "number"],
    ),
    (
        "{name: p, type: numeric_attribute, numeric_attribute: {min_value: 5}}",
        &["`p`", "`key`"],
    ),
    (
        "{name: p, type: string_attribute, string_attribute: {key: \"\", values: [a]}}",
        &["`p`", "string_attribute.key", "is empty"],
    ),
    (
        "{name: p, type: string_attribute, string_attribute: {key: k, values: ['/v1/(chat'], enabled_regex_matching: true}}",
        &["`p`", "`/v1/(chat`"],
    ),
    (
        "{name: p, type: probabilistic, probabilistic: {sampling_percentage: .inf}}",
        &["`p`", "probabilistic.sampling_percentage"],
    ),
    (
        "{name: p, type: status_code, status_code: {status_codes: [error]}}",
        &[
            "`p`",
            "status_code.status_codes",
            "`error`",
            "OK, ERROR, UNSET",
        ],
    ),
    (
        "{name: p, type: and, and: {and_sub_policy: []}}",
        &["`p`", "is empty"],
    ),
    (
        "{name: p, type: and, and: {and_sub_policy: [{name: q, type: and, and: {and_sub_policy: [{name: r, type: always_sample}]}}]}}",
        &["`p/q`", "sub-policy"],
    ),
    (
        "{name: p, type: and, and: {and_sub_policy: [{name: q, type: drop, drop: {}}]}}",
        &["`q`", "missing field `drop_sub_policy`"],
    ),
    (
        "{name: p, type: drop, drop: {drop_sub_policy: []}}",
        &["`p`", "drop.drop_sub_policy", "is empty"],
    ),
    (
        "{name: p, type: drop, drop: {drop_sub_policy: [{name: x, type: boolean_attribute, string_attribute: {key: k, value: true}}]}}",
        &["`x`", "unknown field `value`"],
    ),
    (
        "{name: p, type: not, not: {not_sub_policy: {name: q, type: drop, drop: {drop_sub_policy: [{type: always_sample}]}}}}",
        &["`p/q`", "`drop` cannot be a sub-policy of `not`"],
    ),
    (
        "{name: p, type: boolean_attribute, boolean_attribute: {key: k}}",
        &["`p`", "missing field `value`"],
    ),
    (
        "{name: p, type: span_count, span_count: {min_spans: 3, max_spans: 2}}",
        &["`p`", "`span_count`", "nothing matches"],
    ),
    (
        "{name: p, type: trace_flags, trace_flags: {flag: 1}}",
        &["`p`", "`flag`"],
    ),
    (
        "{name: p, type: ottl_condition, ottl_condition: {span: [], spanevent: []}}",
        &["`p`", "ottl_condition.span", "is empty"],
    ),
    (
        "{name: p, type: ottl_condition, ottl_condition: {error_mode: ignored, span: [a]}}",
        &["`p`", "ignored"],
    ),
    (
        "{name: p, type: composite, composite: {max_total_spans_per_second: 10, policy_order: [a, b], composite_sub_policy: [{name: a, type: always_sample}]}}",
        &["`p`", "composite.policy_order", "`b`"],
    ),
    (
        "{name: p, type: composite, composite: {max_total_spans_per_second: 10, composite_sub_policy: [{name: a, type: always_sample}, {name: a, type: trace_flags}]}}",
        &["`p/a`", "twice"],
    ),
    (
        "{name: p, type: always_sample}, {name: p, type: always_sample}",
        &["`p`", "twice"],
    ),
];

#[test]
fn errors_name_the_policy_and_the_key() {
    for (policies, parts) in POLICY_ERRORS {
        check_error(&format!("policies: [{policies}]"), parts);
    }
}

/// YAML has no way to write such a bound; a program that builds a configuration has.
#[test]
fn a_bound_that_is_no_number_is_an_error() {
    for bound in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let numeric = NumericAttribute {
            key: "k".to_owned(),
            min_value: None,
            max_value: Some(Number::Double(bound)),
            invert_match: false,
        };
        let config = Config {
            policies: vec![Policy {
                name: "p".to_owned(),
                policy_type: PolicyType::NumericAttribute(numeric),
            }],
            ..Config::default()
        };
        assert_eq!(
            config.validate().unwrap_err().to_string(),
            "policy `p`: `numeric_attribute` is not a finite number"
        );
    }
}

#[test]
fn no_policy_at_all_is_an_error() {
    check_error("{}", &["`policies` is empty"]);
    check_error("policies: []", &["`policies` is empty"]);
}

#[test]
fn top_level_values_that_cannot_be_are_errors() {
    check_error(
        "{num_shards: 257, policies: [{name: p, type: always_sample}]}",
        &["`num_shards`", "from 1 to 256"],
    );
    for compat in ["v0.139", "v0.162", "v1.144", "contrib"] {
        let yaml = format!("{{compat: {compat}, policies: [{{name: p, type: always_sample}}]}}");
        check_error(&yaml, &[compat, "`v0.140` to `v0.161`"]);
    }
    check_error(
        "{num_traces: 0, policies: [{name: p, type: always_sample}]}",
        &["`num_traces`"],
    );
    check_error(
        "{num_trace: 1, policies: [{name: p, type: always_sample}]}",
        &["num_trace"],
    );
    check_error(
        "{decision_wait: 10, policies: [{name: p, type: always_sample}]}",
        &["unit"],
    );
    check_error(
        "{decision_wait: 10x, policies: [{name: p, type: always_sample}]}",
        &["unit"],
    );
    check_error(
        "{decision_wait: -1s, policies: [{name: p, type: always_sample}]}",
        &["negative"],
    );
}

#[test]
fn more_conditions_than_a_trace_has_bits_for_is_an_error() {
    let policies = |n: usize| {
        let policy = |idx| {
            format!(
                "  - {{name: p{idx}, type: string_attribute, string_attribute: {{key: k, values: [v{idx}]}}}}\n"
            )
        };
        format!("policies:\n{}", (0..n).map(policy).collect::<String>())
    };
    load(&policies(sampler::ATOMS_MAX)).unwrap();
    check_error(
        &policies(sampler::ATOMS_MAX + 1),
        &["`p125`", "125 distinct conditions"],
    );
}

#[derive(Deserialize)]
struct Document {
    processors: Processors,
}

#[derive(Deserialize)]
struct Processors {
    tail_sampling: Config,
}

#[test]
fn the_documents_of_c29_start_or_fail_as_listed() {
    let text = include_str!("../../testdata/cases/C29.yaml");
    let mut n_documents = 0;
    for document in text.split("\n---\n") {
        let raw: Json = serde_saphyr::from_str(document).unwrap();
        let is_valid = serde_saphyr::from_str::<Document>(document)
            .is_ok_and(|document| document.processors.tail_sampling.validate().is_ok());
        assert_eq!(is_valid, raw["x-expect"] == "start", "{document}");
        n_documents += 1;
    }
    assert_eq!(n_documents, 13);
}

const ERRORS: &str =
    "policies: [{name: errors, type: status_code, status_code: {status_codes: [ERROR]}}]\n";

#[test]
fn trigger_rules_and_linked_traces_load() {
    let config = load(&format!("{ERRORS}trigger:\n")).unwrap();
    assert_eq!(config.trigger, Some(sampler::TriggerRules::default()));
    assert!(config.follows_links());
    let config = load(&format!(
        "{ERRORS}decision_wait_after_root_received: 2s
trigger: {{idle: 0s, max_wait: 2h, policies: [{{policy: errors, match_grace: 0s, idle: 10m, max_wait: 8h}}]}}
linked_traces: {{enabled: false, wait: 5m}}
"
    ))
    .unwrap();
    let rules = config.trigger.as_ref().unwrap();
    assert_eq!((rules.idle.as_secs(), rules.max_wait.as_secs()), (0, 7_200));
    assert!(rules.policies[0].match_grace.unwrap().is_zero());
    assert!(!config.follows_links());
    let config = load(&format!("{ERRORS}compat: collector\ntrigger: {{}}\n")).unwrap();
    assert!(!config.follows_links());
    assert_eq!(load(ERRORS).unwrap().trigger, None);
}

#[test]
fn wrong_trigger_rules_and_linked_traces_say_what_is_wrong() {
    for (yaml, parts) in [
        (
            "trigger: {root_grase: 1s}",
            &["root_grase", "root_grace"][..],
        ),
        ("trigger: {idle: 30}", &["unit"]),
        (
            "trigger: {max_wait: 0s}",
            &["`trigger.max_wait`", "more than `0s`"],
        ),
        (
            "trigger: {root_grace: 1s}\ndecision_wait_after_root_received: 1s",
            &[
                "`trigger.root_grace`",
                "`decision_wait_after_root_received`",
            ],
        ),
        (
            "trigger: {}\nsampling_strategy: span-ingest",
            &["`trigger`", "`sampling_strategy: span-ingest`"],
        ),
        (
            "trigger: {policies: [{policy: erors, idle: 1s}]}",
            &["`trigger.policies`", "`erors`", "did you mean `errors`?"],
        ),
        (
            "trigger: {policies: [{policy: errors}]}",
            &["`errors`", "`match_grace`"],
        ),
        (
            "trigger: {policies: [{policy: errors, max_wait: 0s}]}",
            &[
                "`errors`",
                "`trigger.policies[].max_wait`",
                "more than `0s`",
            ],
        ),
        (
            "trigger: {policies: [{policy: errors, wait: 1s}]}",
            &["`wait`"],
        ),
        ("linked_traces: {wait: 1}", &["unit"]),
        ("linked_traces: {follow: true}", &["`follow`"]),
        (
            "linked_traces: {enabled: true}\ncompat: collector",
            &["`linked_traces.enabled`", "`compat`"],
        ),
    ] {
        check_error(&format!("{ERRORS}{yaml}"), parts);
    }
}

#[test]
fn only_policies_that_go_on_matching_can_have_a_trigger() {
    let trigger = "trigger: {policies: [{policy: p, match_grace: 1s}]}\n";
    for (policy, is_lasting) in [
        ("type: always_sample", true),
        ("type: latency, latency: {threshold_ms: 5}", true),
        (
            "type: latency, latency: {threshold_ms: 5, upper_threshold_ms: 9}",
            false,
        ),
        ("type: span_count, span_count: {min_spans: 5}", true),
        (
            "type: span_count, span_count: {min_spans: 5, max_spans: 9}",
            false,
        ),
        (
            "type: string_attribute, string_attribute: {key: k, values: [v]}",
            true,
        ),
        (
            "type: string_attribute, string_attribute: {key: k, values: [v], invert_match: true}",
            false,
        ),
        (
            "type: ottl_condition, ottl_condition: {span: ['name == \"a\"']}",
            true,
        ),
        (
            "type: rate_limiting, rate_limiting: {spans_per_second: 5}",
            false,
        ),
        (
            "type: not, not: {not_sub_policy: {name: s, type: trace_flags}}",
            false,
        ),
        (
            "type: and, and: {and_sub_policy: [{name: s, type: trace_flags}]}",
            true,
        ),
        (
            "type: and, and: {and_sub_policy: [{name: s, type: rate_limiting, rate_limiting: {spans_per_second: 5}}]}",
            false,
        ),
        (
            "type: drop, drop: {drop_sub_policy: [{name: s, type: trace_flags}]}",
            true,
        ),
    ] {
        let loaded = load(&format!("policies: [{{name: p, {policy}}}]\n{trigger}"));
        assert_eq!(loaded.is_ok(), is_lasting, "{policy}: {loaded:?}");
    }
}
