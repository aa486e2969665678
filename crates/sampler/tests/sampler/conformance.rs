//! Input and decision pairs from the Collector's observed behaviour (`conformance_cases.yaml`): one
//! policy and one trace each. What concerns several policies, traces or times is in `conformance_more`.
//!
//! The section `otlp` of that file is about receivers, which are not here.

use sampler::{Config, Decision, Sampler};
use serde_json::{Value as Json, json};

use crate::bytes::{Attributes, Span, Value};
use crate::run::{MS, Run, T0, one_policy};

const CASES: &str = include_str!("../../testdata/conformance_cases.yaml");

pub(crate) fn section(name: &str) -> Vec<Json> {
    // `N` is a letter and no boolean, as in YAML 1.2.
    let options = serde_saphyr::options! { strict_booleans: true };
    let all: Json = serde_saphyr::from_str_with_options(CASES, options).unwrap();
    all[name].as_array().unwrap().clone()
}

pub(crate) fn letter(decision: Decision) -> &'static str {
    match decision {
        Decision::Sampled => "S",
        Decision::NotSampled => "N",
        Decision::Dropped => "D",
    }
}

/// Loads the policies, sends the spans, and gives the decision: `S`, `N`, `D`, or `E` for a load
/// error.
pub(crate) fn decide(compat: &str, policies: &Json, spans: &[Span]) -> &'static str {
    let keys = json!({"decision_wait": "1s", "compat": compat, "policies": policies});
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
    letter(run.decided[0].decision)
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

pub(crate) fn span(json: &Json, number: u64) -> Span {
    let start = T0 + json["start_ms"].as_u64().unwrap_or(0) * MS;
    let event = |json: &Json| {
        let name = json["name"].as_str().unwrap().to_owned();
        (name, attributes(&json["attrs"]))
    };
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
        trace_state: json["tracestate"].as_str().unwrap_or("").to_owned(),
        flags: json["flags"].as_u64().unwrap_or(0).try_into().unwrap(),
        events: json["events"]
            .as_array()
            .map(|events| events.iter().map(event).collect())
            .unwrap_or_default(),
        ..Span::default()
    }
}

fn spans(case: &Json) -> Vec<Span> {
    let none = Vec::new();
    let listed = case["spans"].as_array().unwrap_or(&none);
    match case["n_spans"].as_u64() {
        Some(n_spans) => (1..=n_spans).map(|n| span(&Json::Null, n)).collect(),
        None => listed
            .iter()
            .zip(1..)
            .map(|(json, number)| span(json, number))
            .collect(),
    }
}

fn check_section(name: &str, n_cases: usize) {
    let cases = section(name);
    assert_eq!(cases.len(), n_cases, "{name}");
    for case in cases {
        let policies = one_policy(name, &case["cfg"]);
        let decision = decide("none", &policies, &spans(&case));
        assert_eq!(decision, case["want"].as_str().unwrap(), "{name}: {case}");
        if let Some(upstream) = case["upstream"].as_str() {
            let decision = decide("collector", &policies, &spans(&case));
            assert_eq!(decision, upstream, "{name} upstream: {case}");
        }
    }
}

#[test]
fn latency_cases_decide_as_listed() {
    check_section("latency", 8);
}

/// The note of the second case.
#[test]
fn before_v0_157_a_duration_of_exactly_the_threshold_was_enough() {
    let case = &section("latency")[1];
    let policies = one_policy("latency", &case["cfg"]);
    assert_eq!(decide("v0.156", &policies, &spans(case)), "S");
    assert_eq!(decide("v0.157", &policies, &spans(case)), "N");
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
fn boolean_attribute_cases_decide_as_listed() {
    check_section("boolean_attribute", 5);
}

#[test]
fn status_code_cases_decide_as_listed() {
    check_section("status_code", 5);
}

#[test]
fn span_count_cases_decide_as_listed() {
    check_section("span_count", 5);
}

#[test]
fn trace_state_cases_decide_as_listed() {
    check_section("trace_state", 3);
}

#[test]
fn trace_flags_cases_decide_as_listed() {
    check_section("trace_flags", 3);
}

#[test]
fn ottl_condition_cases_decide_as_listed() {
    check_section("ottl_condition", 4);
}

/// The specification forbids it and senders do it.
#[test]
fn of_a_repeated_attribute_the_last_counts_and_under_compat_the_first() {
    let text = |value: &str| ("k".to_owned(), Value::Str(value.to_owned()));
    let of_span = Span {
        attributes: vec![text("first"), text("last")],
        ..span(&Json::Null, 1)
    };
    let of_resource = Span {
        attributes: Vec::new(),
        resource: of_span.attributes.clone(),
        ..of_span.clone()
    };
    let of_event = Span {
        attributes: Vec::new(),
        events: vec![("e".to_owned(), of_span.attributes.clone())],
        ..of_span.clone()
    };
    let string =
        |value: &str| one_policy("string_attribute", &json!({"key": "k", "values": [value]}));
    let ottl = |key: &str, path: &str, value: &str| {
        let condition = format!("{path}[\"k\"] == \"{value}\"");
        one_policy("ottl_condition", &json!({ key: [condition] }))
    };
    for (value, ours, collector) in [("last", "S", "N"), ("first", "N", "S")] {
        for (policies, span) in [
            (string(value), &of_span),
            (string(value), &of_resource),
            (ottl("span", "attributes", value), &of_span),
            (ottl("span", "resource.attributes", value), &of_resource),
            (ottl("spanevent", "attributes", value), &of_event),
        ] {
            let spans = std::slice::from_ref(span);
            assert_eq!(decide("none", &policies, spans), ours, "{policies}");
            let decided = decide("collector", &policies, spans);
            assert_eq!(decided, collector, "{policies} collector");
        }
    }
}

/// Where the two disagree, `compat` chooses: each policy on each value, ours and the Collector's.
#[test]
fn values_of_another_type_are_read_as_the_collector_does_only_under_compat() {
    let int = |value| json!({"attrs": {"k": value}});
    let resource = |value: Json| json!({"res": {"k": value}});
    let numeric = json!({"key": "k", "min_value": -1, "max_value": 1});
    let zero = json!({"key": "k", "min_value": 0, "max_value": 9});
    let is_false = json!({"key": "k", "value": false});
    let anything = json!({"key": "k", "values": ["^$"], "enabled_regex_matching": true});
    for (name, section, span_json, ours, collector) in [
        ("numeric_attribute", &numeric, int(json!(3.7)), "N", "S"),
        ("numeric_attribute", &numeric, int(json!("7")), "N", "S"),
        ("numeric_attribute", &numeric, int(json!(1)), "S", "S"),
        ("numeric_attribute", &zero, int(json!(-5)), "N", "S"),
        ("boolean_attribute", &is_false, int(json!("x")), "N", "S"),
        ("boolean_attribute", &is_false, int(json!(true)), "N", "N"),
        ("string_attribute", &anything, resource(json!("")), "N", "S"),
        ("string_attribute", &anything, resource(json!(5)), "N", "S"),
        ("string_attribute", &anything, int(json!("")), "N", "N"),
    ] {
        let spans = [span(&span_json, 1)];
        let policies = one_policy(name, section);
        assert_eq!(
            decide("none", &policies, &spans),
            ours,
            "{name} {span_json}"
        );
        let decided = decide("collector", &policies, &spans);
        assert_eq!(decided, collector, "{name} {span_json} collector");
    }
    for bounds in [
        json!({"key": "k", "min_value": 0, "max_value": 0}),
        json!({"key": "k", "min_value": 0.5}),
    ] {
        let policies = one_policy("numeric_attribute", &bounds);
        assert_eq!(
            decide("collector", &policies, &[span(&int(json!(1)), 1)]),
            "E"
        );
        assert_ne!(decide("none", &policies, &[span(&int(json!(1)), 1)]), "E");
    }
}
