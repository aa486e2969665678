//! Batches that contradict themselves, each other and time.

use otlp::testing::T0;

use super::support::{
    DECIDED, MILLI, SECOND, event, participant, rows, settle_all, settled, shares,
};
use crate::batch::{BatchSource, BatchTimes, BatchWindow, ClosedBatches};

fn sum(rows: &[super::support::Row]) -> i64 {
    rows.iter().filter_map(|row| row.share).sum()
}

#[test]
fn one_id_on_two_engines_and_after_a_restart_is_three_batches() {
    let one = |n| participant(n, Some(1));
    let rows = settled(vec![
        event("vllm-0", "1", 0, Some(1), one(1)),
        event("vllm-1", "1", 0, Some(1), one(2)),
        event("vllm-0", "1", 30_000, Some(1), one(3)),
    ]);
    assert_eq!(
        shares(&rows),
        [
            "7c000001 10000000 tokens",
            "7c000002 10000000 tokens",
            "7c000003 10000000 tokens"
        ]
    );
}

#[test]
fn steps_that_overlap_are_each_shared_by_themselves() {
    let rows = settled(vec![
        event("vllm-0", "1", 0, Some(1), participant(1, None)),
        event("vllm-0", "2", 5, Some(1), participant(1, None)),
    ]);
    assert_eq!((rows.len(), sum(&rows)), (2, 20_000_000));
}

#[test]
fn no_length_is_shared_as_none_and_an_end_before_the_start_not_at_all() {
    let mut zero = event("vllm-0", "1", 0, Some(1), participant(1, Some(5)));
    zero.times = Some((BatchTimes::Reported, T0, T0));
    let mut turned = event("vllm-0", "2", 0, Some(1), participant(1, Some(5)));
    turned.times = Some((BatchTimes::Reported, T0 + 9, T0));
    let rows = settled(vec![zero, turned]);
    assert_eq!(shares(&rows), ["7c000001 0 tokens", "7c000001 NULL NULL"]);
    assert_eq!(rows[0].duration, Some(0));
    assert_eq!((rows[1].duration, rows[1].start), (None, None));
    assert_eq!(rows[1].quality, ["end_before_start"]);
}

#[test]
fn a_participant_that_is_named_twice_is_one() {
    let mut twice = event("vllm-0", "1", 0, Some(2), participant(1, Some(3)));
    twice.participants.push(participant(2, Some(1)));
    let again = event("vllm-0", "1", 0, Some(2), participant(1, Some(3)));
    let rows = settled(vec![twice.clone(), again, twice]);
    assert_eq!(
        shares(&rows),
        ["7c000001 7500000 tokens", "7c000002 2500000 tokens"]
    );
}

#[test]
fn tokens_that_differ_are_not_known_and_more_than_the_batch_has_are_said() {
    let mut all = event("vllm-0", "1", 0, Some(2), participant(1, Some(3)));
    all.batch_tokens = Some(4);
    all.participants.push(participant(2, Some(9)));
    let other = event("vllm-0", "1", 0, Some(2), participant(1, Some(4)));
    let rows = settled(vec![all, other]);
    assert_eq!(
        shares(&rows),
        [
            "7c000001 5000000 equal estimated",
            "7c000002 5000000 equal estimated"
        ]
    );
    assert_eq!((rows[0].tokens, rows[1].tokens), (None, Some(9)));
    assert_eq!(rows[0].quality, ["tokens_differ", "tokens_over_batch"]);
}

#[test]
fn more_who_are_named_than_are_said_to_be_count() {
    let rows = settled(vec![
        event("vllm-0", "1", 0, Some(1), participant(1, None)),
        event("vllm-0", "1", 0, Some(1), participant(2, None)),
    ]);
    assert_eq!(rows[0].count, Some(2));
    assert_eq!(rows[0].quality, ["more_than_size"]);
    assert_eq!(sum(&rows), 10_000_000);
}

#[test]
fn ten_thousand_participants_named_thrice_are_ten_thousand() {
    let mut sightings = Vec::new();
    for round in 0..3 {
        for n in 0..10_000 {
            let tokens = (round > 0 || n % 7 > 0).then_some(u64::from(n % 5));
            sightings.push(event(
                "vllm-0",
                "1",
                0,
                Some(10_001),
                participant(n, tokens),
            ));
        }
    }
    let rows = settled(sightings);
    assert_eq!(rows.len(), 10_001);
    assert_eq!(sum(&rows), 10_000_000);
    assert_eq!(rows[0].listed, 10_000);
    assert_eq!(rows[10_000].share, Some(999));
}

#[test]
fn a_number_of_participants_beyond_all_reason_takes_the_time_and_no_room() {
    let rows = settled(vec![event(
        "vllm-0",
        "1",
        0,
        Some(u64::MAX),
        participant(1, None),
    )]);
    assert_eq!((rows[0].share, rows[1].share), (Some(0), Some(10_000_000)));
}

#[test]
fn two_forms_of_one_batch_are_one_and_their_participants_are_not_mixed() {
    // The links name the spans that the engine was called from, the events the engine's own.
    let mut links = event("vllm-0", "1", 0, Some(2), participant(1, Some(1)));
    links.source = BatchSource::BatchSpan;
    links.times = Some((BatchTimes::BatchSpan, T0, T0 + 8 * MILLI));
    links.participants[0].span_id = Some(otlp::testing::sid(77));
    links.participants.push(participant(2, Some(1)));
    let mut event = event("vllm-0", "1", 0, None, participant(1, Some(1)));
    event.times = Some((BatchTimes::NextEvent, T0, T0 + 9 * MILLI));
    for sightings in [vec![links.clone(), event.clone()], vec![event, links]] {
        let rows = settled(sightings);
        assert_eq!(
            shares(&rows),
            ["7c000001 4000000 tokens", "7c000002 4000000 tokens"]
        );
        assert!(rows.iter().all(|row| row.source == "batch_span"));
    }
}

#[test]
fn times_that_cannot_be_are_counted_and_leave_no_row() {
    let mut window = BatchWindow::new(ClosedBatches::default(), false);
    let mut early = event("vllm-0", "1", 0, Some(1), participant(1, None));
    early.around = (0, 5);
    let mut ahead = event("vllm-0", "2", 0, Some(1), participant(1, None));
    ahead.around = (T0, u64::MAX);
    window.take(1, DECIDED, [early, ahead]);
    assert_eq!(settle_all(&mut window), []);
    assert_eq!((window.n_untimed(), window.n_late()), (2, 0));
}

#[test]
fn who_comes_after_the_batch_was_written_is_late_and_changes_nothing() {
    let mut window = BatchWindow::new(ClosedBatches::default(), false);
    window.take(
        1,
        DECIDED,
        [event("vllm-0", "1", 0, Some(2), participant(1, None))],
    );
    window.take(2, DECIDED, []);
    assert!(!window.is_first_complete());
    let first = window.settle_first().unwrap();
    assert_eq!(
        shares(&rows(&first.rows[0])),
        [
            "7c000001 5000000 equal estimated",
            "- 5000000 remainder estimated"
        ]
    );
    assert!(window.is_first_complete());
    window.take(
        3,
        DECIDED,
        [event("vllm-0", "1", 0, Some(2), participant(2, None))],
    );
    assert_eq!(settle_all(&mut window), []);
    assert_eq!(window.n_late(), 1);
    // Nor is it written again once that is forgotten: its engine is far beyond it.
    let hour = 3_600_000;
    let decided = DECIDED + 3_600 * SECOND;
    window.take(
        4,
        decided,
        [event("vllm-0", "1", hour, Some(1), participant(3, None))],
    );
    assert_eq!(settle_all(&mut window).len(), 1);
    window.committed(4);
    assert_eq!(window.closed().len(), 1);
    window.take(
        5,
        decided,
        [event("vllm-0", "1", 0, Some(2), participant(2, None))],
    );
    assert_eq!(settle_all(&mut window), []);
    assert_eq!(window.n_late(), 2);
    // Another engine is not.
    window.take(
        6,
        decided,
        [event("vllm-1", "1", 0, Some(1), participant(2, None))],
    );
    assert_eq!(settle_all(&mut window).len(), 1);
}

#[test]
fn where_all_are_traced_those_who_are_named_are_all() {
    let mut window = BatchWindow::new(ClosedBatches::default(), true);
    let one = |n| event("vllm-0", "1", 0, None, participant(n, Some(1)));
    window.take(1, DECIDED, [one(1), one(2)]);
    assert_eq!(
        shares(&settle_all(&mut window)),
        [
            "7c000001 5000000 tokens estimated",
            "7c000002 5000000 tokens estimated"
        ]
    );
}
