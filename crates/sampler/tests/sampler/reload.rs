//! Another configuration while traces are undecided.

use std::collections::BTreeMap;

use otlp::span::SpanSummary;
use proptest::prelude::*;
use sampler::{
    Config, Decided, Observed, Policy, PolicyType, Reports, Sampler, SamplingStrategy, Trigger,
};
use serde_json::json;

use crate::any::{any_policies, any_spans};
use crate::bytes::Span;
use crate::run::{MS, Run, T0, config, one_policy, sampler_of};

/// Spans in the order in which they are sent, each with its time.
type Sent = Vec<(u64, Span)>;

/// What a caller does with a reload: every undecided span is read back and observed again.
fn reload(run: &mut Run, config: &Config, sent: &Sent) {
    let undecided = run.sampler.reload(config).unwrap();
    for undecided in undecided {
        let number = usize::try_from(undecided.handle.position).unwrap();
        let (at_ms, span) = &sent[number];
        let facts = run.sampler.read_resource(&span.encode_resource()).unwrap();
        let bytes = span.encode();
        let summary = SpanSummary::read(&bytes).unwrap();
        let observed = run.sampler.observe_again(
            &undecided,
            &facts,
            &bytes,
            &summary,
            Reports::Itself,
            T0 + at_ms * MS,
        );
        assert_eq!(observed, Observed::Pending);
    }
}

/// Everything that a decision says, with the name of the policy.
fn lines(run: &Run) -> Vec<(u64, String)> {
    let line = |decided: &Decided| {
        let policy = decided.policy.map(|policy| run.sampler.policy_name(policy));
        let trace = u64::from(decided.trace_id.as_bytes()[15]);
        let text = format!(
            "{:?} {policy:?} {:?} {:?} {:?} {:?}",
            decided.decision,
            decided.trigger,
            decided.adjusted_count,
            decided.summary,
            decided.spans,
        );
        (trace, text)
    };
    run.decided.iter().map(line).collect()
}

/// Decision and policy by trace: where batches are judged as they come, how many of them a decision waits for depends on
/// the ticks.
fn answers(lines: &[(u64, String)]) -> BTreeMap<u64, Vec<&str>> {
    let answers = lines
        .iter()
        .map(|(trace, line)| (*trace, line.split(' ').take(2).collect()));
    answers.collect()
}

/// Sends everything and decides what is due at each step; `at` says what happens before which step.
fn play(sampler: Sampler, sent: &Sent, at: usize, event: impl FnOnce(&mut Run)) -> Run {
    let mut run = Run::new(sampler);
    let mut event = Some(event);
    for (number, (at_ms, span)) in sent.iter().enumerate() {
        run.tick(*at_ms);
        if number == at {
            event.take().unwrap()(&mut run);
        }
        run.send(*at_ms, span);
    }
    if let Some(event) = event {
        event(&mut run);
    }
    run.tick(10_000);
    run
}

/// Several traces whose spans come mixed, some of them twice, 40 ms from one to the next.
fn any_sent() -> impl Strategy<Value = Sent> {
    let traces = prop::collection::vec(any_spans(), 1..6);
    (traces, any::<prop::sample::Selector>(), any::<bool>()).prop_map(
        |(traces, selector, sends_twice)| {
            let mut spans: Vec<Span> = Vec::new();
            for (spans_of_trace, trace) in traces.into_iter().zip(1..) {
                let of_trace = |span| Span { trace, ..span };
                spans.extend(spans_of_trace.into_iter().map(of_trace));
            }
            if sends_twice {
                let copy = spans.last().cloned();
                spans.extend(copy);
            }
            let mut mixed = Vec::new();
            while !spans.is_empty() {
                let idx = selector.select(0..spans.len());
                mixed.push(spans.swap_remove(idx));
            }
            (0..).map(|number| number * 40).zip(mixed).collect()
        },
    )
}

fn any_strategy() -> impl Strategy<Value = SamplingStrategy> {
    prop::sample::select(vec![
        SamplingStrategy::TraceComplete,
        SamplingStrategy::TraceComplete,
        SamplingStrategy::SpanIngest,
    ])
}

fn config_of(policies: &[Policy], sampling_strategy: SamplingStrategy) -> Config {
    Config {
        policies: policies.to_vec(),
        sampling_strategy,
        ..config(json!({"decision_wait": "200ms", "decision_wait_after_root_received": "90ms"}))
    }
}

/// Without budgets, which remember what they gave to whom.
fn stateless(mut policies: Vec<Policy>) -> Vec<Policy> {
    policies.retain(|policy| {
        let text = format!("{policy:?}");
        let budgets = ["RateLimiting", "BytesLimiting", "Composite"];
        !budgets.iter().any(|budget| text.contains(budget))
    });
    policies.push(Policy {
        name: "three".to_owned(),
        policy_type: PolicyType::SpanCount(sampler::SpanCount {
            min_spans: 3,
            max_spans: 0,
        }),
    });
    policies
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_reload_to_the_same_policies_changes_no_decision(
        policies in any_policies(),
        strategy in any_strategy(),
        sent in any_sent(),
        at in 0_usize..30,
    ) {
        let config = config_of(&policies, strategy);
        prop_assume!(config.validate().is_ok());
        let sampler = || Sampler::new(&config).unwrap();
        let undisturbed = play(sampler(), &sent, at, |_| {});
        let reloaded = play(sampler(), &sent, at, |run| reload(run, &config, &sent));
        let (reloaded_lines, lines) = (lines(&reloaded), lines(&undisturbed));
        if strategy == SamplingStrategy::SpanIngest {
            prop_assert_eq!(answers(&reloaded_lines), answers(&lines));
            return Ok(());
        }
        prop_assert_eq!(reloaded_lines, lines);
        let counts = |run: &Run| -> Vec<_> {
            let counts = run.sampler.policy_counts();
            counts.map(|(name, counts)| (name.to_owned(), counts)).collect()
        };
        prop_assert_eq!(counts(&reloaded), counts(&undisturbed));
    }

    #[test]
    fn what_is_undecided_at_a_reload_is_decided_as_if_the_policies_had_been_there_from_the_start(
        before in any_policies(),
        after in any_policies(),
        strategy in any_strategy(),
        sent in any_sent(),
        at in 0_usize..30,
    ) {
        let before = config_of(&stateless(before), strategy);
        let after = config_of(&stateless(after), strategy);
        prop_assume!(before.validate().is_ok() && after.validate().is_ok());
        let sampler = Sampler::new(&before).unwrap();
        let mut n_decided_before = 0;
        let reloaded = play(sampler, &sent, at, |run| {
            n_decided_before = run.decided.len();
            reload(run, &after, &sent);
        });
        let from_start = play(Sampler::new(&after).unwrap(), &sent, at, |_| {});
        let (reloaded, from_start) = (lines(&reloaded), lines(&from_start));
        let reloaded = &reloaded[n_decided_before..];
        let is_undecided = |(trace, _): &&(u64, String)| reloaded.iter().any(|(t, _)| t == trace);
        let want: Vec<_> = from_start.iter().filter(is_undecided).cloned().collect();
        if strategy == SamplingStrategy::TraceComplete {
            prop_assert_eq!(reloaded, want);
        } else {
            prop_assert_eq!(answers(reloaded), answers(&want));
        }
    }
}

fn span(trace: u64, span_id: u64, parent: u64) -> Span {
    Span {
        trace,
        span_id,
        parent,
        start_unix_nano: T0,
        end_unix_nano: T0 + MS,
        ..Span::default()
    }
}

#[test]
fn a_late_span_follows_the_decision_of_before_with_the_policy_of_before() {
    let mut run = Run::new(sampler_of(
        one_policy("always_sample", &json!({})),
        json!({"decision_wait": "1s"}),
    ));
    run.send(0, &span(1, 1, 0));
    run.tick(2_000);
    let keys = json!({
        "policies": [{"name": "a", "type": "status_code", "status_code": {"status_codes": ["ERROR"]}},
            {"name": "b", "type": "always_sample"}],
        "num_traces": 7,
    });
    reload(&mut run, &config(keys), &Vec::new());
    let Observed::Late(decision, Some(policy)) = run.send(2_100, &span(1, 2, 1)) else {
        panic!("the decision is forgotten");
    };
    assert_eq!(decision, sampler::Decision::Sampled);
    assert_eq!(run.sampler.policy_name(policy), "p");
    run.send(2_200, &span(2, 1, 0));
    run.tick(60_000);
    let policy = run.decision_on(&span(2, 1, 0)).policy.unwrap();
    assert_eq!(run.sampler.policy_name(policy), "b");
}

#[test]
fn a_wait_that_is_shorter_now_counts_from_the_first_span() {
    let policies = one_policy("always_sample", &json!({}));
    let mut run = Run::new(sampler_of(
        policies.clone(),
        json!({"decision_wait": "60s"}),
    ));
    let sent: Sent = vec![(0, span(1, 2, 1)), (3_000, span(2, 2, 1))];
    for (at_ms, span) in &sent {
        run.send(*at_ms, span);
    }
    let shorter = config(json!({"policies": policies, "decision_wait": "2s"}));
    reload(&mut run, &shorter, &sent);
    run.tick(4_000);
    assert_eq!(run.decision_on(&span(1, 2, 1)).trigger, Trigger::Waited);
    assert_eq!(run.decided.len(), 1);
    assert_eq!(run.decided[0].summary.first_seen_unix_nano, T0);
    run.tick(5_100);
    assert_eq!(run.decided.len(), 2);
}

#[test]
fn trigger_rules_go_on_from_the_times_of_the_spans() {
    let policies = one_policy("always_sample", &json!({}));
    let rules = json!({"root_grace": "2s", "idle": "5s", "max_wait": "1h"});
    let with_rules = config(json!({"policies": policies, "trigger": rules}));
    let without = config(json!({"policies": policies, "decision_wait": "20s"}));
    let sent: Sent = vec![
        (0, span(1, 2, 1)),
        (1_000, span(1, 1, 0)),
        (1_500, span(2, 2, 1)),
    ];
    for before in [&with_rules, &without] {
        let mut run = Run::new(Sampler::new(before).unwrap());
        for (at_ms, span) in &sent {
            run.send(*at_ms, span);
        }
        reload(&mut run, &with_rules, &sent);
        run.tick(2_900);
        assert!(run.decided.is_empty());
        run.tick(3_100);
        assert_eq!(run.decision_on(&span(1, 1, 0)).trigger, Trigger::RootEnded);
        run.tick(6_400);
        assert_eq!(run.decided.len(), 1);
        run.tick(6_600);
        assert_eq!(run.decision_on(&span(2, 1, 0)).trigger, Trigger::Idle);
    }
}

#[test]
fn another_strategy_judges_what_has_come_by_its_own_rules() {
    let error = Span {
        status: 2,
        ..span(1, 2, 1)
    };
    let sent: Sent = vec![(0, error), (100, span(1, 3, 1)), (200, span(2, 3, 1))];
    let errors = json!({"status_codes": ["ERROR"]});
    let policies = one_policy("status_code", &errors);
    let with =
        |strategy: &str| config(json!({"policies": policies, "sampling_strategy": strategy}));
    let mut run = Run::new(Sampler::new(&with("trace-complete")).unwrap());
    for (at_ms, span) in &sent {
        run.send(*at_ms, span);
    }
    reload(&mut run, &with("span-ingest"), &sent);
    run.tick(300);
    assert_eq!(run.decision_on(&span(1, 1, 0)).trigger, Trigger::Matched);
    assert_eq!(run.decided.len(), 1);
    reload(&mut run, &with("trace-complete"), &sent);
    run.tick(30_300);
    assert_eq!(run.decision_on(&span(2, 1, 0)).trigger, Trigger::Waited);
}

#[test]
fn a_budget_goes_on_where_the_policy_is_the_same_and_is_full_where_it_is_not() {
    let limited = |name: &str, spans_per_second: u64| {
        json!([{"name": name, "type": "rate_limiting",
            "rate_limiting": {"spans_per_second": spans_per_second, "burst_capacity": 1}}])
    };
    let keys =
        |policies: serde_json::Value| config(json!({"policies": policies, "decision_wait": "0s"}));
    for (after, want) in [
        (limited("p", 1), 1),
        (limited("p", 2), 2),
        (limited("q", 1), 2),
    ] {
        let mut run = Run::new(Sampler::new(&keys(limited("p", 1))).unwrap());
        run.send(0, &span(1, 1, 0));
        run.tick(0);
        reload(&mut run, &keys(after), &Vec::new());
        run.send(0, &span(2, 1, 0));
        run.tick(0);
        let sampled = run.decided.iter();
        let n_sampled = sampled
            .filter(|d| d.decision == sampler::Decision::Sampled)
            .count();
        assert_eq!(n_sampled, want);
    }
}

#[test]
fn a_configuration_that_is_refused_changes_nothing() {
    let mut run = Run::new(sampler_of(
        one_policy("always_sample", &json!({})),
        json!({"decision_wait": "1s"}),
    ));
    run.send(0, &span(1, 1, 0));
    let bad = config(json!({"policies": [], "decision_wait": "1s"}));
    assert!(run.sampler.reload(&bad).is_err());
    run.tick(2_000);
    assert_eq!(run.decision_on(&span(1, 1, 0)).spans.len(), 1);
}
