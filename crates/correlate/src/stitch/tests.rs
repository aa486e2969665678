//! The stitching against a loop over all pairs, whatever the order in which calls and requests come.

use otlp::{SpanId, TraceId};
use proptest::prelude::*;
use tables::requests::{LinkMethod, Outcome, Position, Quality, Request};

use super::{Answer, PER_KEY_MAX, Stitching};
use crate::call::{Call, Kind};

const SECOND: u64 = 1_000_000_000;

/// Well after 1970, so that clocks may differ.
const T0: u64 = 1_000 * SECOND;

/// What is told of a call or an engine request. Times are seconds after [`T0`].
#[derive(Clone, Copy, Debug)]
struct One {
    id: u8,
    start: u64,
    length: u64,
    position: Position,
}

fn row(one: &One, number: usize, is_engine: bool) -> Request {
    let number = u64::try_from(number + 1).unwrap() * 2 + u64::from(is_engine);
    let trace_id = TraceId::from_slice(&u128::from(number).to_be_bytes()).unwrap();
    let span_id = SpanId::from_slice(&number.to_be_bytes()).unwrap();
    Request {
        request_id_normalised: Some(format!("id-{}", one.id)),
        start_time_unix_nano: T0 + one.start * SECOND,
        end_time_unix_nano: T0 + (one.start + one.length) * SECOND,
        position: one.position,
        ..Request::new(trace_id, span_id)
    }
}

fn call(one: &One, number: usize) -> Call {
    let row = row(one, number, false);
    Call {
        ids: row.request_id_normalised.clone().into_iter().collect(),
        row,
        kind: Kind::Model,
        ttft_s: None,
    }
}

/// Places of the engine requests of a call, or `None` where it is not certain.
fn naive(calls: &[One], engines: &[One], of: usize) -> Option<Vec<usize>> {
    let call = calls[of];
    let rivals: Vec<usize> = (0..calls.len())
        .filter(|other| (calls[*other].id, calls[*other].position) == (call.id, call.position))
        .collect();
    let mut found = Vec::new();
    let mut is_open = false;
    for (place, engine) in engines
        .iter()
        .enumerate()
        .filter(|(_, engine)| engine.id == call.id)
    {
        let end = |one: &One| one.start + one.length;
        let is_in = |call: &One| call.start <= engine.start && end(engine) <= end(call);
        let holding: Vec<usize> = rivals
            .iter()
            .copied()
            .filter(|rival| is_in(&calls[*rival]))
            .collect();
        if holding == [of] {
            found.push(place);
        } else if holding.contains(&of) {
            is_open = true;
        } else if holding.is_empty() {
            let fits = |call: &One| {
                engine.length <= call.length
                    && engine.start + 60 >= call.start
                    && end(engine) <= end(call) + 60
            };
            let near: Vec<usize> = rivals
                .iter()
                .copied()
                .filter(|rival| fits(&calls[*rival]))
                .collect();
            if near == [of] && rivals.len() == 1 {
                found.push(place);
            } else if near.len() > 1 && near.contains(&of) {
                is_open = true;
            }
        }
    }
    found.sort_by_key(|place| (engines[*place].start, *place));
    if found.is_empty() && is_open {
        None
    } else {
        Some(found)
    }
}

fn ones(is_engine: bool) -> impl Strategy<Value = Vec<One>> {
    let position = prop_oneof![Just(Position::Gateway), Just(Position::App)];
    let one = (0..4_u8, 0..200_u64, 1..40_u64, position);
    let one = one.prop_map(move |(id, start, length, position)| One {
        id,
        start,
        length,
        position: if is_engine {
            Position::Engine
        } else {
            position
        },
    });
    prop::collection::vec(one, 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn calls_are_answered_as_a_loop_over_all_pairs_says_in_any_order(
        calls in ones(false),
        engines in ones(true),
        order in any::<prop::sample::Index>(),
        shuffle in prop::collection::vec(any::<u32>(), 24),
        repeats in 1..3_usize,
    ) {
        let mut stitching = Stitching::new(i64::MAX);
        let n = calls.len() + engines.len();
        let mut all: Vec<usize> = (0..n).collect();
        all.sort_by_key(|place| (shuffle[*place], *place));
        all.rotate_left(if n == 0 { 0 } else { order.index(n) });
        // Releases that are repeated after a crash.
        for _ in 0..repeats {
            for place in &all {
                match place.checked_sub(calls.len()) {
                    None => stitching.take_call(&call(&calls[*place], *place), 0),
                    Some(engine) => stitching.take_request(&row(&engines[engine], engine, true), 0),
                }
            }
        }
        for (place, one) in calls.iter().enumerate() {
            let answer = stitching.answer(&call(one, place));
            let expected = naive(&calls, &engines, place);
            match (answer, expected) {
                (Answer::By { engines: found, method, .. }, Some(expected)) => {
                    let spans: Vec<_> = expected
                        .iter()
                        .map(|engine| row(&engines[*engine], *engine, true))
                        .map(|row| (row.trace_id, row.span_id))
                        .collect();
                    prop_assert_eq!(found, spans);
                    prop_assert_eq!(method, LinkMethod::RequestId);
                }
                (Answer::Unknown, Some(expected)) => prop_assert_eq!(expected, Vec::<usize>::new()),
                (Answer::Ambiguous, None) => {}
                (answer, expected) => prop_assert!(false, "{answer:?} where {expected:?} is expected"),
            }
        }
    }

    /// Whatever is forgotten, nothing is linked that a loop does not link, and no place leaks.
    #[test]
    fn what_is_remembered_is_bounded(ids in prop::collection::vec(0..3_u8, 1..200), remembered in 1..50_i64) {
        let mut stitching = Stitching::new(remembered);
        for (now, id) in ids.iter().enumerate() {
            let one = One { id: *id, start: 0, length: 1, position: Position::Gateway };
            let now_nanos = i64::try_from(now).unwrap();
            if now % 2 == 0 {
                stitching.take_request(&row(&one, now, true), now_nanos);
            } else {
                stitching.take_call(&call(&one, now), now_nanos);
            }
            let kept: usize = stitching.known.values().map(|known| known.engines.len() + known.calls.len()).sum();
            prop_assert_eq!(kept, stitching.order.len());
            // A call has two keys: its id and its trace.
            prop_assert!(kept <= 2 * usize::try_from(remembered + 1).unwrap());
        }
    }
}

fn one(id: u8, start: u64, length: u64) -> One {
    One {
        id,
        start,
        length,
        position: Position::Gateway,
    }
}

#[test]
fn clocks_that_differ_are_told_where_the_id_is_used_once() {
    let mut stitching = Stitching::new(i64::MAX);
    let asked = call(&one(1, 10, 10), 0);
    stitching.take_call(&asked, 0);
    stitching.take_request(&row(&one(1, 5, 8), 0, true), 0);
    let row = stitching.row(asked);
    // Its time may lie between 10 and 12 s: it is at 5.
    assert_eq!(row.clock_skew_s, Some(-6.0));
    assert!(row.wrapper);
}

#[test]
fn a_late_engine_span_is_found_by_its_parent_though_no_id_is_the_same() {
    let mut stitching = Stitching::new(i64::MAX);
    let asked = call(&one(1, 10, 10), 0);
    stitching.take_call(&asked, 0);
    let mut engine = row(&one(2, 12, 2), 0, true);
    engine.trace_id = asked.row.trace_id;
    engine.parent_span_id = Some(asked.row.span_id);
    stitching.take_request(&engine, 0);
    assert_eq!(stitching.answer(&asked), Answer::Unknown, "it is not late");
    let late = Request {
        late: true,
        span_id: SpanId::from_slice(&[9; 8]).unwrap(),
        ..engine
    };
    stitching.take_request(&late, 0);
    let row = stitching.row(asked);
    assert_eq!(row.link_method, Some(LinkMethod::Trace));
    assert_eq!(row.engine_spans, [(late.trace_id, late.span_id)]);
}

#[test]
fn an_id_of_very_many_tells_none_of_them() {
    let mut stitching = Stitching::new(i64::MAX);
    let asked = call(&one(1, 0, 10), 0);
    stitching.take_call(&asked, 0);
    for number in 0..2 * PER_KEY_MAX {
        stitching.take_request(&row(&one(1, 100, 1), number, true), 0);
    }
    assert_eq!(
        stitching
            .known
            .values()
            .map(|known| known.engines.len())
            .max(),
        Some(PER_KEY_MAX)
    );
    let row = stitching.row(asked);
    assert_eq!(row.quality, [Quality::RequestIdAmbiguous]);
    assert_eq!(row.outcome, Outcome::Ok);
}
