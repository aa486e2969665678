//! A `budget` together with `trigger` rules, links between traces and decisions that are forced.

use sampler::{Decision, LinkCounts, Sampler, ThresholdChange, Trigger};
use serde_json::{Value as Json, json};

use crate::bytes::Span;
use crate::recorded::number_of;
use crate::run::{MS, Run, T0, config};

/// Room for two failed traces at once, of which those with the highest numbers are kept.
fn run_with(other_keys: Json) -> Run {
    let mut keys = json!({
        "decision_wait": "1s", "linked_traces": {"wait": "10s"},
        "budget": {"traces_per_second": 1, "burst_capacity": 2},
        "policies": [
            {"name": "failed", "type": "status_code", "status_code": {"status_codes": ["ERROR"]}},
            {"name": "probes", "type": "drop", "drop": {"drop_sub_policy": [
                {"name": "many", "type": "span_count", "span_count": {"min_spans": 3}}]}},
        ],
    });
    if let Json::Object(others) = other_keys {
        for (key, value) in others {
            keys[key] = value;
        }
    }
    Run::new(Sampler::new(&config(keys)).unwrap())
}

fn span(trace: u64, span_id: u64) -> Span {
    Span {
        trace,
        span_id,
        parent: 1_000,
        start_unix_nano: T0,
        end_unix_nano: T0 + MS,
        ..Span::default()
    }
}

fn failed(trace: u64) -> Span {
    Span {
        status: 2,
        ..span(trace, 1)
    }
}

fn links_to(span: Span, other: u64) -> Span {
    Span {
        links: vec![other],
        ..span
    }
}

/// Trace, answer, whether a policy is credited, and trigger of all decisions since the last call, by trace.
fn take(run: &mut Run) -> Vec<(u64, Decision, bool, Trigger)> {
    let facts = |d: sampler::Decided| {
        let is_thinned = d.adjusted_count.is_none() && d.threshold == ThresholdChange::Erased;
        let is_linked = d.decision == Decision::Sampled && d.policy.is_none();
        assert!(!is_linked || is_thinned, "a linked trace has no weight");
        let trace = number_of(d.trace_id);
        (trace, d.decision, d.policy.is_some(), d.trigger)
    };
    let mut found: Vec<_> = run.decided.drain(..).map(facts).collect();
    found.sort_unstable_by_key(|(trace, ..)| *trace);
    found
}

const KEPT: Decision = Decision::Sampled;
const NOT_KEPT: Decision = Decision::NotSampled;

/// Scenario: three requests fail, two of them fit, and each has a batch that no policy asks for.
/// Guarantee: the batches of those that fit are kept beyond the budget, that of the third is not.
#[test]
fn what_links_to_a_trace_that_fits_is_kept_and_what_links_to_one_that_was_cut_is_not() {
    let mut run = run_with(json!({}));
    run.tick(0);
    for request in [1, 2, 3] {
        run.send(0, &links_to(span(10 + request, 1), request));
        run.send(0, &failed(request));
    }
    run.tick(1_000);
    let requests = [
        (1, NOT_KEPT, true, Trigger::Budget),
        (2, KEPT, true, Trigger::Waited),
        (3, KEPT, true, Trigger::Waited),
    ];
    assert_eq!(take(&mut run), requests);
    // A batch that comes when its request is decided needs not wait.
    run.send(1_000, &links_to(span(20, 1), 3));
    run.send(1_000, &links_to(span(21, 1), 1));
    run.tick(2_000);
    let batches = [
        (11, NOT_KEPT, false, Trigger::Waited),
        (12, KEPT, false, Trigger::Linked),
        (13, KEPT, false, Trigger::Linked),
        (20, KEPT, false, Trigger::Linked),
        (21, NOT_KEPT, false, Trigger::Waited),
    ];
    assert_eq!(take(&mut run), batches);
    // Two second's worth is there again: the batches have taken nothing.
    run.send(2_000, &failed(4));
    run.send(2_000, &failed(5));
    run.tick(3_000);
    let later = [
        (4, KEPT, true, Trigger::Waited),
        (5, KEPT, true, Trigger::Waited),
    ];
    assert_eq!(take(&mut run), later);
    assert_eq!(run.sampler.stats().links, LinkCounts::default());
    assert_eq!(run.sampler.stats().pending_heap_bytes, 0);
}

/// Scenario: a batch failed itself, has no room in the last round, and stands before its request.
/// Guarantee: it is kept for its request, and one that has room is its policy's, without a weight.
#[test]
fn a_batch_that_did_not_fit_is_kept_for_a_request_of_the_same_round() {
    for (is_drain, trigger) in [(true, Trigger::Shutdown), (false, Trigger::Linked)] {
        let mut run = run_with(json!({}));
        run.tick(0);
        run.send(0, &links_to(failed(1), 3));
        run.send(0, &links_to(failed(4), 3));
        run.send(0, &failed(3));
        run.send(0, &failed(2));
        if is_drain {
            run.sampler.drain(T0 + 100 * MS, &mut run.decided);
        } else {
            // What has links is not settled by a policy, and waits for the request.
            run.tick(1_000);
            let requests = take(&mut run);
            assert_eq!(requests.len(), 2, "{requests:?}");
            assert!(requests.iter().all(|(_, decision, ..)| *decision == KEPT));
            run.tick(2_000);
        }
        let own = run.decided.iter().find(|d| number_of(d.trace_id) == 4);
        let own = own.unwrap();
        assert_eq!(
            own.policy.map(|p| run.sampler.policy_name(p)),
            Some("failed")
        );
        assert_eq!(
            (own.adjusted_count, own.threshold),
            (None, ThresholdChange::Erased)
        );
        let found = take(&mut run);
        let (_, decision, has_policy, found_trigger) = found[0];
        assert_eq!(
            (decision, has_policy, found_trigger),
            (KEPT, false, trigger)
        );
    }
}

#[test]
fn a_drop_policy_settles_a_trace_with_links_also_with_a_budget() {
    let mut run = run_with(json!({}));
    run.tick(0);
    for span_id in 1..=3 {
        run.send(0, &links_to(span(9, span_id), 5));
    }
    run.send(0, &links_to(failed(8), 5));
    run.tick(1_000);
    assert_eq!(
        take(&mut run),
        [(9, Decision::Dropped, true, Trigger::Waited)]
    );
    run.tick(12_000);
    assert_eq!(take(&mut run), [(8, KEPT, true, Trigger::Waited)]);
}

#[test]
fn what_is_decided_for_the_disk_takes_from_the_budget() {
    let mut run = run_with(json!({"trigger": {"idle": "10s"}}));
    for trace in 1..=4 {
        run.send(trace, &failed(trace));
    }
    let n_decided =
        run.sampler
            .decide_before(3, 10, Trigger::Disk, T0 + 100 * MS, &mut run.decided);
    assert_eq!(n_decided, 3);
    assert!(run.decided.iter().all(|d| d.adjusted_count.is_none()));
    // One at a time, the oldest first.
    let found = [
        (1, KEPT, true, Trigger::Disk),
        (2, KEPT, true, Trigger::Disk),
        (3, NOT_KEPT, true, Trigger::Budget),
    ];
    assert_eq!(take(&mut run), found);
}

#[test]
fn rounds_take_what_trigger_rules_say_is_due() {
    let mut run =
        run_with(json!({"trigger": {"idle": "2s", "root_grace": "500ms", "max_wait": "5s"}}));
    run.tick(0);
    run.send(0, &failed(1));
    run.send(0, &failed(2));
    run.send(1_500, &span(1, 2));
    run.tick(2_500);
    assert_eq!(take(&mut run), [(2, KEPT, true, Trigger::Idle)]);
    let root = Span {
        parent: 0,
        ..span(1, 3)
    };
    run.send(2_600, &failed(3));
    run.send(2_600, &root);
    run.send(4_000, &span(3, 2));
    run.tick(3_500);
    // Three spans: a `drop` policy has it.
    assert_eq!(
        take(&mut run),
        [(1, Decision::Dropped, true, Trigger::RootEnded)]
    );
    run.send(
        5_900,
        &Span {
            span_id: 2,
            ..span(3, 2)
        },
    );
    run.tick(5_950);
    assert_eq!(take(&mut run), []);
    run.tick(6_950);
    assert_eq!(take(&mut run), [(3, KEPT, true, Trigger::Idle)]);
}

/// Scenario: the budget is used up, and the configuration is loaded again, with another policy in it.
/// Guarantee: nothing fits that had not fitted before; another budget begins with a full bucket.
#[test]
fn a_budget_goes_on_through_a_reload() {
    for (per_second, want) in [(1, 0), (2, 2)] {
        let mut run = run_with(json!({}));
        run.tick(0);
        run.send(0, &failed(1));
        run.send(0, &failed(2));
        run.tick(1_000);
        assert_eq!(take(&mut run).len(), 2);
        let next = json!({
            "decision_wait": "1ms",
            "budget": {"traces_per_second": per_second, "burst_capacity": 2},
            "policies": [
                {"name": "all", "type": "always_sample"},
                {"name": "failed", "type": "status_code", "status_code": {"status_codes": ["ERROR"]}},
            ],
        });
        assert_eq!(run.sampler.reload(&config(next)).unwrap(), []);
        run.send(1_010, &failed(3));
        run.send(1_010, &failed(4));
        run.sampler.drain(T0 + 1_100 * MS, &mut run.decided);
        let n_kept = run.decided.iter().filter(|d| d.decision == KEPT).count();
        assert_eq!(n_kept, want);
    }
}

/// Scenario: a rate was found for a frequent key; a reload puts the key of another policy in front of its own.
/// Guarantee: the rate goes on.
#[test]
fn rates_go_on_through_a_reload_that_gives_keys_other_places() {
    let rate = json!({"name": "rate", "type": "adaptive",
        "adaptive": {"keys": ["k"], "target_traces_per_second": 1}});
    let never = json!({"name": "never", "type": "and", "and": {"and_sub_policy": [
        {"name": "v", "type": "string_attribute", "string_attribute": {"key": "v", "values": ["v"]}},
        {"name": "r", "type": "adaptive", "adaptive": {"keys": ["v", "w"], "target_traces_per_second": 1}},
    ]}});
    let keys = |policies: Json| config(json!({"decision_wait": "1ms", "policies": policies}));
    let mut run = Run::new(Sampler::new(&keys(json!([rate.clone()]))).unwrap());
    let send = |run: &mut Run, from_ms: u64, until_ms: u64| {
        run.decided.clear();
        for ms in (from_ms..until_ms).step_by(10) {
            let trace = ms.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 8;
            let attributes = vec![("k".to_owned(), crate::bytes::Value::Str("yes".to_owned()))];
            run.send(
                ms,
                &Span {
                    attributes,
                    ..span(trace, 1)
                },
            );
            run.tick(ms + 8);
        }
        let kept = run.decided.iter().filter(|d| d.decision == KEPT);
        (kept.count(), run.decided.len())
    };
    let (n_first, _) = send(&mut run, 10, 40_000);
    let (n_before, _) = send(&mut run, 40_000, 42_000);
    run.sampler.reload(&keys(json!([never, rate]))).unwrap();
    let (n_after, n_all) = send(&mut run, 42_000, 44_000);
    assert!(n_first > 15 && n_all > 100, "{n_first} of {n_all}");
    // Two a second are some 2 of 200; a rate that begins anew keeps the first 15.
    assert!(n_before < 8 && n_after < 8, "{n_before}, {n_after}");
}
