//! Input and decision pairs from the Collector's observed behaviour (`conformance_cases.yaml`).

use sampler::{Config, Decision, Error, Sampler};
use serde_json::{Value as Json, json};

use crate::bytes::{Attributes, Span, Value};
use crate::run::{MS, Run, T0, one_policy};

const CASES: &str = include_str!("../../testdata/conformance_cases.yaml");

fn section(name: &str) -> Vec<Json> {
    // `N` is a letter and no boolean, as in YAML 1.2.
    let options = serde_saphyr::options! { strict_booleans: true };
    let all: Json = serde_saphyr::from_str_with_options(CASES, options).unwrap();
    all[name].as_array().unwrap().clone()
}

/// Loads the policies, sends the spans, and gives the decision: `S`, `N`, or `E` for a load error.
fn decide(policies: &Json, spans: &[Span]) -> &'static str {
    let keys = json!({"decision_wait": "1s", "policies": policies});
    let Ok(config) = serde_json::from_value::<Config>(keys) else {
        return "E";
    };
    let Ok(sampler) = Sampler::new(&config) else {
        return "E";
    };
    let mut run = Run::new(sampler);
    for span in spans {
        run.send(0, span);
    }
    run.tick(1_000);
    match run.decided[0].decision {
        Decision::Sampled => "S",
        Decision::NotSampled => "N",
        Decision::Dropped => "D",
    }
}

fn attributes(json: &Json) -> Attributes {
    let Some(object) = json.as_object() else {
        return Vec::new();
    };
    let value = |json: &Json| match json {
        Json::Bool(is_true) => Value::Bool(*is_true),
        Json::String(text) => Value::Str(text.clone()),
        Json::Number(number) => match number.as_i64() {
            Some(int) => Value::Int(int),
            None => Value::Double(number.as_f64().unwrap()),
        },
        other => panic!("attribute value {other}"),
    };
    object
        .iter()
        .map(|(key, json)| (key.clone(), value(json)))
        .collect()
}

fn span(json: &Json, number: u64) -> Span {
    let start = T0 + json["start_ms"].as_u64().unwrap_or(0) * MS;
    Span {
        trace: 1,
        span_id: number,
        parent: number - 1,
        start_unix_nano: start,
        end_unix_nano: start + json["dur_ms"].as_u64().unwrap_or(1) * MS,
        status: match json["status"].as_str() {
            Some("OK") => 1,
            Some("ERROR") => 2,
            _ => 0,
        },
        attributes: attributes(&json["attrs"]),
        resource: attributes(&json["res"]),
        ..Span::default()
    }
}

fn spans(case: &Json) -> Vec<Span> {
    let none = Vec::new();
    let listed = case["spans"].as_array().unwrap_or(&none);
    listed
        .iter()
        .zip(1..)
        .map(|(json, number)| span(json, number))
        .collect()
}

fn check_section(name: &str, n_cases: usize) {
    let cases = section(name);
    assert_eq!(cases.len(), n_cases, "{name}");
    for case in cases {
        let decision = decide(&one_policy(name, &case["cfg"]), &spans(&case));
        assert_eq!(decision, case["want"].as_str().unwrap(), "{name}: {case}");
    }
}

#[test]
fn latency_cases_decide_as_listed() {
    check_section("latency", 8);
}

#[test]
fn numeric_attribute_cases_decide_as_listed() {
    check_section("numeric_attribute", 11);
}

#[test]
fn string_attribute_cases_decide_as_listed() {
    check_section("string_attribute", 15);
}

#[test]
fn status_code_cases_decide_as_listed() {
    check_section("status_code", 5);
}

/// `S` or `N` as a policy.
fn stub(vote: &str, name: &str) -> Option<Json> {
    match vote {
        "S" => Some(json!({"name": name, "type": "always_sample"})),
        "N" => Some(json!({
            "name": name, "type": "probabilistic", "probabilistic": {"sampling_percentage": 0}
        })),
        _ => None,
    }
}

fn stubs(votes: &Json) -> Option<Vec<Json>> {
    let votes = votes.as_array()?.iter().enumerate();
    votes
        .map(|(idx, vote)| stub(vote.as_str()?, &format!("p{idx}")))
        .collect()
}

#[test]
fn and_cases_decide_as_listed() {
    let mut n_run = 0;
    for case in section("and") {
        // No policy that is built can fail.
        let Some(subs) = stubs(&case["sub"]) else {
            continue;
        };
        let decision = decide(
            &one_policy("and", &json!({"and_sub_policy": subs})),
            &[span(&Json::Null, 1)],
        );
        assert_eq!(decision, case["want"].as_str().unwrap(), "{case}");
        n_run += 1;
    }
    assert_eq!(n_run, 2);
}

#[test]
fn final_decisions_are_as_listed_and_credit_the_first_policy() {
    let mut n_run = 0;
    for case in section("final_decision") {
        let Some(policies) = stubs(&case["votes"]) else {
            continue;
        };
        if policies.is_empty() {
            continue;
        }
        let first = case["votes"]
            .as_array()
            .unwrap()
            .iter()
            .position(|vote| vote == "S");
        let mut keys = json!({"policies": policies});
        if let Some(on) = case.get("sample_on_first_match") {
            keys["sample_on_first_match"] = on.clone();
        }
        let mut run = Run::new(Sampler::new(&crate::run::config(keys)).unwrap());
        run.send(0, &span(&Json::Null, 1));
        run.tick(30_000);
        let decided = &run.decided[0];
        let policy = decided
            .policy
            .map(|policy| run.sampler.policy_name(policy).to_owned());
        assert_eq!(policy, first.map(|idx| format!("p{idx}")), "{case}");
        let want_sampled = case["want"] == "S";
        assert_eq!(
            decided.decision == Decision::Sampled,
            want_sampled,
            "{case}"
        );
        n_run += 1;
    }
    assert_eq!(n_run, 3);
}

/// When one of these is built, its cases above take the place of its line here.
#[test]
fn types_that_are_not_built_are_load_errors_that_say_so() {
    for name in [
        "boolean_attribute",
        "span_count",
        "trace_state",
        "trace_flags",
        "rate_limiting",
        "bytes_limiting",
        "ottl_condition",
    ] {
        for case in section(name) {
            check_not_built(name, &case["cfg"]);
        }
    }
    let sub = json!({"name": "s", "type": "always_sample"});
    check_not_built("not", &json!({"not_sub_policy": sub}));
    check_not_built("drop", &json!({"drop_sub_policy": [sub]}));
    check_not_built("composite", &json!({"composite_sub_policy": [sub]}));
}

fn check_not_built(name: &str, section: &Json) {
    let keys = json!({"policies": one_policy(name, section)});
    let error = serde_json::from_value::<Config>(keys)
        .unwrap_err()
        .to_string();
    assert_eq!(error, format!("policy `p`: type `{name}` is not built yet"));
}

#[test]
fn span_ingest_is_a_load_error_that_says_so() {
    let keys = json!({
        "sampling_strategy": "span-ingest",
        "policies": [{"name": "p", "type": "always_sample"}],
    });
    let error = crate::run::config(keys).validate().unwrap_err();
    assert!(
        matches!(
            error,
            Error::KeyNotBuilt {
                key: "sampling_strategy",
                ..
            }
        ),
        "{error}"
    );
}
