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
