//! The cases of `conformance_cases.yaml` about several policies, several traces, and time.

use sampler::{Config, Decision, Observed, Sampler, Trigger};
use serde_json::{Value as Json, json};

use crate::bytes::{Span, Value};
use crate::conformance::{decide, letter, section, span};
use crate::run::{Run, config, one_policy};

/// A policy that votes like this on [`voter_span`].
fn stub(vote: &str, name: &str) -> Json {
    let inverted = |key| {
        let section = json!({"key": key, "value": true, "invert_match": true});
        json!({"name": name, "type": "boolean_attribute", "boolean_attribute": section})
    };
    match vote {
        "S" => json!({"name": name, "type": "always_sample"}),
        "N" => json!({
            "name": name, "type": "probabilistic", "probabilistic": {"sampling_percentage": 0}
        }),
        "D" => json!({
            "name": name, "type": "drop",
            "drop": {"drop_sub_policy": [{"name": "all", "type": "always_sample"}]}
        }),
        "error" => json!({
            "name": name, "type": "ottl_condition", "ottl_condition": {"span": ["Len(1) == 1"]}
        }),
        "InvertNotSampled" => inverted("present"),
        "InvertSampled" => inverted("absent"),
        other => panic!("vote {other}"),
    }
}

fn stubs(votes: &Json) -> Vec<Json> {
    let votes = votes.as_array().unwrap().iter().enumerate();
    votes
        .map(|(idx, vote)| stub(vote.as_str().unwrap(), &format!("p{idx}")))
        .collect()
}

fn voter_span() -> Span {
    span(&json!({"attrs": {"present": true}}), 1)
}

#[test]
fn and_not_and_drop_cases_decide_as_listed() {
    let mut n_run = 0;
    for (name, key) in [("and", "and_sub_policy"), ("drop", "drop_sub_policy")] {
        for case in section(name) {
            let policies = one_policy(name, &json!({key: stubs(&case["sub"])}));
            let want = case["want"].as_str().unwrap();
            // An error is no vote, so nothing asks for the trace.
            let want = if want.starts_with("error") { "N" } else { want };
            assert_eq!(decide("none", &policies, &[voter_span()]), want, "{case}");
            n_run += 1;
        }
    }
    for case in section("not") {
        let sub = stub(case["sub"].as_str().unwrap(), "s");
        let policies = one_policy("not", &json!({"not_sub_policy": sub}));
        assert_eq!(
            decide("none", &policies, &[voter_span()]),
            case["want"],
            "{case}"
        );
        n_run += 1;
    }
    assert_eq!(n_run, 3 + 2 + 2);
}

#[test]
fn an_error_in_an_and_is_counted_and_the_policy_has_no_vote() {
    let subs = [stub("S", "a"), stub("error", "b")];
    for combined in [
        one_policy("and", &json!({"and_sub_policy": subs})),
        one_policy("drop", &json!({"drop_sub_policy": subs})),
        one_policy("not", &json!({"not_sub_policy": subs[1]})),
    ] {
        let mut run = Run::new(Sampler::new(&config(json!({"policies": combined}))).unwrap());
        run.send(0, &voter_span());
        run.tick(30_000);
        assert_eq!(letter(run.decided[0].decision), "N");
        assert_eq!(run.sampler.stats().n_policies_failed, 1);
    }
}

#[test]
fn final_decisions_are_as_listed_and_credit_the_first_policy() {
    let cases = section("final_decision");
    assert_eq!(cases.len(), 9);
    for case in cases {
        let votes = case["votes"].as_array().unwrap();
        let want = case["want"].as_str().unwrap();
        let mut policies = stubs(&case["votes"]);
        if policies.is_empty() {
            // A configuration without policies is refused; no vote at all is the same question.
            policies.push(stub("error", "p0"));
        }
        let is_legacy = case.get("gate").is_some();
        let mut keys = json!({"policies": policies});
        keys["compat"] = json!(if is_legacy { "v0.143" } else { "none" });
        if let Some(on) = case.get("sample_on_first_match") {
            keys["sample_on_first_match"] = on.clone();
        }
        if let Some(n_evaluated) = case["evaluated"].as_u64() {
            // Whatever is behind would be counted as an error if it were asked.
            for policy in keys["policies"]
                .as_array_mut()
                .unwrap()
                .iter_mut()
                .skip(n_evaluated as usize)
            {
                *policy = stub("error", policy["name"].as_str().unwrap());
            }
        }
        let n_errors = votes.iter().filter(|vote| *vote == "error").count() as u64;
        let mut run = Run::new(Sampler::new(&config(keys)).unwrap());
        run.send(0, &voter_span());
        run.tick(30_000);
        let decided = &run.decided[0];
        assert_eq!(letter(decided.decision), want, "{case}");
        let winner = |vote: &Json| *vote == want || (want == "S" && *vote == "InvertSampled");
        let first = votes.iter().position(winner).filter(|_| want != "N");
        let policy = decided
            .policy
            .map(|policy| run.sampler.policy_name(policy).to_owned());
        assert_eq!(policy, first.map(|idx| format!("p{idx}")), "{case}");
        if !votes.is_empty() {
            assert_eq!(run.sampler.stats().n_policies_failed, n_errors, "{case}");
        }
    }
}

/// A trace of `n_spans` spans.
fn send_trace(run: &mut Run, trace: u64, n_spans: u64) {
    for number in 1..=n_spans {
        run.send(
            0,
            &Span {
                trace,
                ..span(&Json::Null, number)
            },
        );
    }
}

/// Each decision as a letter, in the order in which they were taken.
fn letters(run: &Run) -> impl Iterator<Item = &'static str> {
    run.decided.iter().map(|decided| letter(decided.decision))
}

#[test]
fn rate_limiting_cases_decide_as_listed() {
    let cases = section("rate_limiting");
    assert_eq!(cases.len(), 2);
    for case in cases {
        let policies = one_policy("rate_limiting", &case["cfg"]);
        let mut run = Run::new(Sampler::new(&config(json!({"policies": policies}))).unwrap());
        let counts = case["trace_span_counts_same_instant"].as_array().unwrap();
        for (trace, count) in (0..).zip(counts) {
            send_trace(&mut run, trace, count.as_u64().unwrap());
        }
        run.tick(30_000);
        let letters: Vec<&str> = letters(&run).collect();
        assert_eq!(json!(letters), case["want"], "{case}");
        assert!(
            run.decided
                .iter()
                .all(|decided| decided.adjusted_count.is_none())
        );
    }
}

#[test]
fn before_v0_153_rate_limiting_counts_below_the_rate_per_second_of_the_clock() {
    let policies = one_policy("rate_limiting", &json!({"spans_per_second": 3}));
    for (compat, want) in [("v0.152", "SSN"), ("v0.153", "SSS")] {
        let keys = json!({"compat": compat, "policies": policies});
        let mut run = Run::new(Sampler::new(&config(keys)).unwrap());
        for trace in 0..3 {
            send_trace(&mut run, trace, 1);
        }
        run.tick(30_000);
        let letters: String = letters(&run).collect();
        assert_eq!(letters, want, "{compat}");
    }
}

#[test]
fn bytes_limiting_cases_decide_as_listed() {
    let cases = section("bytes_limiting");
    assert_eq!(cases.len(), 1);
    for case in cases {
        let policies = one_policy("bytes_limiting", &case["cfg"]);
        let mut run = Run::new(Sampler::new(&config(json!({"policies": policies}))).unwrap());
        for (trace, n_bytes) in (0..).zip(case["trace_bytes_same_instant"].as_array().unwrap()) {
            let n_bytes = usize::try_from(n_bytes.as_u64().unwrap()).unwrap();
            let padded = |n: usize| {
                let padding = vec![("padding".to_owned(), Value::Str("x".repeat(n)))];
                Span {
                    trace,
                    attributes: padding,
                    ..span(&Json::Null, 1)
                }
            };
            let n_other = padded(n_bytes).encode().len() - n_bytes;
            let span = padded(n_bytes - n_other);
            assert_eq!(span.encode().len(), n_bytes);
            run.send(0, &span);
        }
        run.tick(30_000);
        let letters: Vec<&str> = letters(&run).collect();
        assert_eq!(json!(letters), case["want"], "{case}");
    }
}

#[test]
fn composite_cases_decide_as_listed() {
    let cases = section("composite");
    assert_eq!(cases.len(), 3);
    for case in cases {
        let subs = case["subs"].as_array().unwrap();
        let named = || {
            subs.iter()
                .enumerate()
                .map(|(idx, sub)| (format!("s{idx}"), sub))
        };
        let policies: Vec<Json> = named()
            .map(|(name, sub)| stub(sub["p"].as_str().unwrap(), &name))
            .collect();
        let allocation: Vec<Json> = named()
            .filter(|(_, sub)| !sub["alloc"].is_null())
            .map(|(name, sub)| json!({"policy": name, "percent": sub["alloc"]}))
            .collect();
        let composite = json!({
            "max_total_spans_per_second": case["max"],
            "composite_sub_policy": policies,
            "rate_allocation": allocation,
        });
        let n_spans = case["trace_spans"].as_u64().unwrap();
        let spans: Vec<Span> = (1..=n_spans)
            .map(|number| span(&Json::Null, number))
            .collect();
        let policies = one_policy("composite", &composite);
        assert_eq!(decide("none", &policies, &spans), case["want"], "{case}");
        assert_eq!(
            decide("collector", &policies, &spans),
            case["want"],
            "{case}"
        );
        let is_omitted = case["note"]
            .as_str()
            .is_some_and(|note| note.contains("omitted"));
        if is_omitted {
            assert_eq!(decide("v0.157", &policies, &spans), "N", "{case}");
        }
    }
}

fn errors(mut keys: Json) -> Run {
    keys["decision_wait"] = json!("1s");
    keys["policies"] = one_policy("status_code", &json!({"status_codes": ["ERROR"]}));
    Run::new(Sampler::new(&config(keys)).unwrap())
}

#[test]
fn timing_cases_are_as_listed() {
    assert_eq!(section("timing").len(), 5);
    let of = |trace, status, number| Span {
        trace,
        status,
        ..span(&Json::Null, number)
    };

    // Decided after `decision_wait`, not at an earlier tick.
    let mut run = errors(json!({}));
    run.send(0, &of(1, 0, 1));
    run.tick(999);
    assert!(run.decided.is_empty());
    run.tick(1_000);
    assert_eq!(letter(run.decided[0].decision), "N");

    // A late span follows the decision, also without caches.
    assert_eq!(
        run.send(1_500, &of(1, 2, 2)),
        Observed::Late(Decision::NotSampled, None)
    );

    // With a cache a decision outlives the traces in memory; without, the late span is new.
    for (cache, status, want) in [
        ("sampled_cache_size", 2, Some(Decision::Sampled)),
        ("non_sampled_cache_size", 0, Some(Decision::NotSampled)),
        ("none", 0, None),
    ] {
        let mut keys = json!({"num_traces": 1});
        if cache != "none" {
            keys["decision_cache"] = json!({cache: 100});
        }
        let mut run = errors(keys);
        run.send(0, &of(1, status, 1));
        run.tick(1_000);
        for other in 2..5 {
            run.send(1_000, &of(other, 0, 1));
            run.tick(2_000 + other);
        }
        let late = run.send(9_000, &of(1, 2, 2));
        match (late, want) {
            (Observed::Late(decision, _), Some(want)) => assert_eq!(decision, want, "{cache}"),
            (Observed::Pending, None) => {}
            other => panic!("{cache}: {other:?}"),
        }
    }
}

/// Policies that a span of status OK, ERROR, or UNSET makes drop, sample, or say nothing.
fn on_arrival(mut keys: Json, with_drop: bool) -> Run {
    let status = |code: &str| json!({"status_codes": [code]});
    let mut policies =
        vec![json!({"name": "s", "type": "status_code", "status_code": status("ERROR")})];
    if with_drop {
        let sub = json!({"name": "d", "type": "status_code", "status_code": status("OK")});
        policies.push(json!({"name": "drop", "type": "drop", "drop": {"drop_sub_policy": [sub]}}));
    }
    keys["decision_wait"] = json!("2s");
    keys["sampling_strategy"] = json!("span-ingest");
    keys["policies"] = json!(policies);
    Run::new(Sampler::new(&config(keys)).unwrap())
}

#[test]
fn span_ingest_cases_are_as_listed() {
    let cases = section("span_ingest");
    assert_eq!(cases.len(), 6);
    let of = |status, number| Span {
        status,
        ..span(&Json::Null, number)
    };
    let summary = |run: &Run| {
        let decided: Vec<_> = run.decided.iter().collect();
        decided
            .iter()
            .map(|d| (letter(d.decision), d.trigger, d.spans.len()))
            .collect::<Vec<_>>()
    };

    // The second batch is sampled, and the first goes with it, at once.
    let mut run = on_arrival(json!({}), false);
    run.send(0, &of(0, 2));
    run.tick(10);
    assert!(run.decided.is_empty());
    run.send(20, &of(2, 1));
    run.tick(30);
    assert_eq!(summary(&run), [("S", Trigger::Matched, 2)]);

    // The second is dropped, and so is a late span.
    let caches = json!({"decision_cache": {"non_sampled_cache_size": 100}});
    let mut run = on_arrival(caches, true);
    run.send(0, &of(0, 2));
    run.send(20, &of(1, 1));
    run.tick(30);
    assert_eq!(summary(&run), [("D", Trigger::Matched, 2)]);
    assert!(matches!(
        run.send(40, &of(2, 3)),
        Observed::Late(Decision::Dropped, _)
    ));

    // Nothing matches: pending to the end, then not sampled.
    let mut run = on_arrival(json!({}), false);
    run.send(0, &of(0, 1));
    run.tick(1_999);
    assert!(run.decided.is_empty());
    run.tick(2_000);
    assert_eq!(summary(&run), [("N", Trigger::Waited, 1)]);

    // A batch is judged alone; spans are counted over all of them.
    for (and_count, want) in [(3, "N"), (2, "S")] {
        let both = json!([
            {"name": "e", "type": "status_code", "status_code": {"status_codes": ["ERROR"]}},
            {"name": "n", "type": "span_count", "span_count": {"min_spans": and_count}},
        ]);
        let keys = json!({
            "sampling_strategy": "span-ingest",
            "policies": one_policy("and", &json!({"and_sub_policy": both})),
        });
        let mut run = Run::new(Sampler::new(&config(keys)).unwrap());
        run.send(0, &of(0, 1));
        run.send(0, &of(2, 2));
        run.send(0, &of(0, 3));
        run.tick(30_000);
        assert_eq!(letter(run.decided[0].decision), want, "{and_count}");
    }

    // A drop policy that has not matched defers the sampling: to the end here, for good upstream.
    for (compat, want) in [("none", "S"), ("collector", "N")] {
        let mut run = on_arrival(json!({"compat": compat}), true);
        run.send(0, &of(2, 1));
        run.tick(1_000);
        assert!(run.decided.is_empty());
        run.tick(2_000);
        assert_eq!(summary(&run), [(want, Trigger::Waited, 1)], "{compat}");
    }
}

/// The last case of `span_ingest`.
#[test]
fn span_ingest_refuses_policies_that_judge_a_trace_as_a_whole() {
    for (name, section) in [
        ("rate_limiting", json!({"spans_per_second": 1})),
        ("bytes_limiting", json!({"bytes_per_second": 1})),
        (
            "latency",
            json!({"threshold_ms": 1, "upper_threshold_ms": 2}),
        ),
        ("span_count", json!({"min_spans": 1, "max_spans": 2})),
        (
            "composite",
            json!({"max_total_spans_per_second": 1, "composite_sub_policy": [stub("S", "s")]}),
        ),
        (
            "and",
            json!({"and_sub_policy": one_policy("rate_limiting", &json!({"spans_per_second": 1}))}),
        ),
    ] {
        let keys =
            json!({"sampling_strategy": "span-ingest", "policies": one_policy(name, &section)});
        let config: Config = config(keys);
        let error = config.validate().unwrap_err().to_string();
        assert!(
            error.contains("policy `p") && error.contains("span-ingest"),
            "{error}"
        );
    }
}
