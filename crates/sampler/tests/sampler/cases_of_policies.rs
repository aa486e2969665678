//! Reported trouble that is about one type of policy: inverted matches, `drop`, `composite`, `ottl`.

use sampler::{Compat, Config, Decided, Decision, Observed, Sampler};

use crate::bytes::Span;
use crate::cases::{check_documents_of, decision, documents, play, timeline};
use crate::run::{MS, Run, T0};

/// The decisions listed are those of the Collector before v0.144.
#[test]
fn c22_inverted_matches_have_their_own_precedence_under_an_old_collector() {
    check_documents_of("C22", 3, Compat::Collector { minor: 143 });
}

/// Since v0.144, and here, `invert_match` is a plain negation.
#[test]
fn c22_an_inverted_match_is_a_plain_negation() {
    let timeline = timeline("C22");
    for (config, want) in documents("C22").into_iter().zip([
        // `prod` keeps T1, and the absence of a match everything else.
        ["T1", "T2", "T3", "T4", "T5"].as_slice(),
        &["T2", "T3", "T4", "T5"],
        &["T1", "T2", "T3", "T4", "T5"],
    ]) {
        let (run, _) = play(&config.unwrap(), &timeline);
        for trace in ["T1", "T2", "T3", "T4", "T5"] {
            let is_sampled = decision(&run, &timeline, trace) == Decision::Sampled;
            assert_eq!(is_sampled, want.contains(&trace), "{trace}");
        }
    }
}

#[test]
fn c23_drop_is_asked_first_ands_its_sub_policies_and_holds_for_late_spans() {
    check_documents_of("C23", 2, Compat::None);
    check_documents_of("C23", 2, Compat::COLLECTOR);
    let timeline = timeline("C23");
    let (run, late) = play(documents("C23")[0].as_ref().unwrap(), &timeline);
    assert_eq!(decision(&run, &timeline, "T1"), Decision::Dropped);
    assert_eq!(decision(&run, &timeline, "T3"), Decision::Dropped);
    assert!(matches!(
        late[..],
        [Observed::Late(Decision::Dropped, Some(_))]
    ));
    assert_eq!(
        documents("C23")[2].as_ref().unwrap_err(),
        "policy `oops`: `drop.drop_sub_policy` is empty"
    );
}

fn play_budget(config: &Config) -> Vec<(String, Decision)> {
    let mut run = Run::new(Sampler::new(config).unwrap());
    let timeline = timeline("C28");
    let steps = timeline["steps"].as_array().unwrap();
    let mut now_ms = 0;
    for (step, trace) in steps.iter().zip(1..) {
        let at_ms = step["at_ms"].as_u64().unwrap();
        while now_ms <= at_ms {
            run.tick(now_ms);
            now_ms += 100;
        }
        let n_spans = step["spans"].as_u64().unwrap();
        for number in 1..=n_spans {
            let is_first = number == 1;
            let duration_ms = step["duration_ms"]
                .as_u64()
                .filter(|_| is_first)
                .unwrap_or(1);
            let status = step["status_of_one"]
                .as_u64()
                .filter(|_| is_first)
                .unwrap_or(0);
            run.send(
                at_ms,
                &Span {
                    trace,
                    span_id: number,
                    start_unix_nano: T0,
                    end_unix_nano: T0 + duration_ms * MS,
                    status: status.try_into().unwrap(),
                    ..Span::default()
                },
            );
        }
    }
    while now_ms <= 7_000 {
        run.tick(now_ms);
        now_ms += 100;
    }
    let name = |decided: &Decided| {
        let number = usize::from(decided.trace_id.as_bytes()[15]);
        steps[number - 1]["trace"].as_str().unwrap().to_owned()
    };
    run.decided
        .iter()
        .map(|decided| (name(decided), decided.decision))
        .collect()
}

fn sampled(config: &Config) -> Vec<String> {
    let decided = play_budget(config).into_iter();
    decided
        .filter(|(_, decision)| *decision == Decision::Sampled)
        .map(|(name, _)| name)
        .collect()
}

#[test]
fn c28_a_composite_follows_its_order_and_shares_its_budget() {
    let config = documents("C28").remove(0).unwrap();
    let timeline = timeline("C28");
    let want: Vec<String> = serde_json::from_value(timeline["expect"]["sampled"].clone()).unwrap();
    assert_eq!(sampled(&config), want);
}

/// In the order of definition `rest`, which matches everything, decides alone: what fits into its
/// third of the budget passes, and nothing at all before it had one (contrib PR 49857).
#[test]
fn c28_as_the_collector_decides_it() {
    let of = |minor| Config {
        compat: Compat::Collector { minor },
        ..documents("C28").remove(0).unwrap()
    };
    assert_eq!(sampled(&of(161)), ["E2", "S1", "S2", "R2"]);
    assert_eq!(sampled(&of(157)), [""; 0]);
}

#[test]
fn c32_a_missing_attribute_is_nil_and_what_is_unknown_stops_the_load() {
    check_documents_of("C32", 1, Compat::None);
    check_documents_of("C32", 1, Compat::COLLECTOR);
    let error = documents("C32")[1].as_ref().unwrap_err().clone();
    assert!(
        error.contains("policy `bad`")
            && error.contains("`IsMatchh` is not supported, did you mean `IsMatch`?"),
        "{error}"
    );
    let timeline = timeline("C32");
    let (run, _) = play(documents("C32")[0].as_ref().unwrap(), &timeline);
    assert_eq!(run.sampler.stats().n_policies_failed, 0);
}

/// Contrib issue 43948: the Collector compares the duration that a trace has so far, so the order
/// of arrival decides. Here it does not.
#[test]
fn an_upper_latency_threshold_matches_a_prefix_only_under_compat() {
    let policies = serde_json::json!([
        {"name": "short", "type": "latency", "latency": {"threshold_ms": 0, "upper_threshold_ms": 50}}
    ]);
    let span = |number, duration_ms| Span {
        trace: 1,
        span_id: number,
        start_unix_nano: T0,
        end_unix_nano: T0 + duration_ms * MS,
        ..Span::default()
    };
    for (compat, order, want) in [
        ("none", [20, 200], Decision::NotSampled),
        ("none", [200, 20], Decision::NotSampled),
        ("none", [20, 30], Decision::Sampled),
        ("collector", [20, 200], Decision::Sampled),
        ("collector", [200, 20], Decision::NotSampled),
    ] {
        let keys = serde_json::json!({"compat": compat, "policies": policies});
        let mut run = Run::new(Sampler::new(&crate::run::config(keys)).unwrap());
        for (duration_ms, number) in order.into_iter().zip(1..) {
            run.send(0, &span(number, duration_ms));
        }
        run.tick(30_000);
        assert_eq!(run.decided[0].decision, want, "{compat} {order:?}");
    }
}

#[test]
fn pending_traces_can_be_dropped_at_shutdown() {
    for (drops, want) in [(false, Decision::Sampled), (true, Decision::NotSampled)] {
        let keys = serde_json::json!({
            "drop_pending_traces_on_shutdown": drops,
            "policies": [{"name": "all", "type": "always_sample"}],
        });
        let mut run = Run::new(Sampler::new(&crate::run::config(keys)).unwrap());
        for trace in [1, 2] {
            let at_ms = (trace - 1) * 25_000;
            run.send(
                at_ms,
                &Span {
                    trace,
                    span_id: 1,
                    ..Span::default()
                },
            );
        }
        // The first is due, the second is not.
        let mut out = Vec::new();
        run.sampler.drain(T0 + 30_000 * MS, &mut out);
        let decisions: Vec<Decision> = out.iter().map(|decided| decided.decision).collect();
        assert_eq!(decisions, [Decision::Sampled, want], "{drops}");
    }
}
