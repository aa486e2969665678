//! What rows of one trace are to each other, where the captures and cases do not show it.

use otlp::{SpanId, TraceId};
use tables::requests::{LinkMethod, Outcome, Position, Request};

use super::link;
use crate::call::{Call, Kind};

const SECOND: u64 = 1_000_000_000;
const T0: u64 = 1_000 * SECOND;

fn id(number: u64) -> SpanId {
    SpanId::from_slice(&number.to_be_bytes()).unwrap()
}

/// From `start` to `end` seconds.
fn row(span: u64, parent: Option<u64>, (start, end): (u64, u64)) -> Request {
    Request {
        parent_span_id: parent.map(id),
        start_time_unix_nano: T0 + start * SECOND,
        end_time_unix_nano: T0 + end * SECOND,
        e2e_s: Some((end - start) as f64),
        input_tokens: Some(10),
        output_tokens: Some(5),
        ..Request::new(TraceId::from_slice(&[1; 16]).unwrap(), id(span))
    }
}

fn call(kind: Kind, span: u64, parent: Option<u64>, time: (u64, u64)) -> Call {
    let position = if kind == Kind::Agent {
        Position::App
    } else {
        Position::Gateway
    };
    Call {
        row: Request {
            position,
            service_name: Some("gateway".to_owned()),
            ..row(span, parent, time)
        },
        ids: Vec::new(),
        kind,
        ttft_s: None,
    }
}

fn engine(span: u64, parent: u64, time: (u64, u64)) -> Request {
    Request {
        engine: Some("vllm"),
        service_instance_id: Some("engine".to_owned()),
        ..row(span, Some(parent), time)
    }
}

/// A gateway that tries twice, and reaches an engine only the second time.
#[test]
fn a_call_that_failed_before_one_that_was_answered_is_an_attempt_of_the_same_operation() {
    let door = call(Kind::Door, 1, None, (0, 10));
    let mut refused = call(Kind::Model, 2, Some(1), (1, 2));
    refused.row.outcome = Outcome::Error;
    let answered = call(Kind::Model, 3, Some(1), (3, 9));
    let mut requests = [engine(4, 3, (4, 8))];
    let rows = link(&mut requests, vec![door, refused, answered], &[]);
    let [refused] = rows.as_slice() else {
        panic!("the first attempt has a row")
    };
    let refused = &refused.row;
    assert_eq!(
        (refused.attempt, refused.attempts, refused.superseded),
        (Some(1), Some(2), true)
    );
    let request = &requests[0];
    assert_eq!(
        (request.attempt, request.attempts, request.superseded),
        (Some(2), Some(2), false)
    );
    assert_eq!(
        (request.call_span_id, request.operation_span_id),
        (Some(id(3)), Some(id(1)))
    );
    assert_eq!(refused.operation_span_id, Some(id(1)));
}

#[test]
fn requests_after_one_that_went_well_are_no_attempts() {
    let door = call(Kind::Door, 1, None, (0, 10));
    let mut requests = [
        engine(2, 1, (1, 3)),
        engine(3, 1, (4, 6)),
        engine(4, 1, (4, 6)),
    ];
    let rows = link(&mut requests, vec![door], &[]);
    assert!(rows.is_empty());
    for request in &requests {
        assert_eq!(
            (request.attempt, request.attempts, request.superseded),
            (Some(1), Some(1), false)
        );
    }
}

/// Gateways that pass on their caller's context make the engine their sibling.
#[test]
fn a_sibling_is_linked_by_time_if_one_call_alone_can_be_meant() {
    let siblings = |second: (u64, u64)| {
        let calls = vec![
            call(Kind::Model, 2, Some(1), (1, 9)),
            call(Kind::Model, 3, Some(1), second),
        ];
        let mut requests = [engine(4, 1, (2, 8))];
        let rows = link(&mut requests, calls, &[]);
        (
            requests[0].link_method,
            requests[0].call_span_id,
            rows.len(),
        )
    };
    assert_eq!(
        siblings((10, 12)),
        (Some(LinkMethod::TraceTime), Some(id(2)), 1)
    );
    assert_eq!(siblings((0, 8)), (None, None, 2), "two overlap");
}

#[test]
fn an_engines_own_web_server_is_no_gateway() {
    let mut own = call(Kind::Door, 1, None, (0, 10));
    own.row.service_instance_id = Some("engine".to_owned());
    let mut requests = [engine(2, 1, (1, 9))];
    let rows = link(&mut requests, vec![own], &[]);
    assert!(rows.is_empty());
    assert_eq!(requests[0].call_span_id, None);
}

#[test]
fn a_clock_that_is_ahead_is_told_and_taken_off() {
    let door = call(Kind::Door, 1, None, (0, 10));
    let mut request = engine(2, 1, (15, 23));
    request.engine_ttft_s = Some(1.0);
    let mut requests = [request];
    link(&mut requests, vec![door], &[]);
    // It may have run from 0 to 8 up to 2 to 10.
    assert_eq!(requests[0].clock_skew_s, Some(14.0));
    assert_eq!(requests[0].operation_ttft_s, Some(2.0));
}

/// Parents in a circle, and very many of them.
#[test]
fn hostile_parents_end() {
    let n = 20_000;
    let calls: Vec<Call> = (1..=n)
        .map(|span| call(Kind::Model, span, Some(span % n + 1), (0, 10)))
        .collect();
    let mut requests: Vec<Request> = (1..=n).map(|span| engine(n + span, span, (1, 2))).collect();
    let rows = link(&mut requests, calls, &[]);
    assert!(rows.is_empty());
    assert!(
        requests
            .iter()
            .all(|request| request.link_method == Some(LinkMethod::Trace))
    );
}
