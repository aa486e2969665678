//! Tests of moving requests in time.

use super::{shift, time_range};
use crate::{
    Error, Signal,
    export::Limits,
    json::{from_protobuf, to_protobuf},
    testing::{T0, TimeSpan, trace},
};

#[test]
fn every_time_moves_and_nothing_else() {
    for (signal, text) in [
        (
            Signal::Traces,
            include_str!("../../testdata/every-field-traces.json"),
        ),
        (
            Signal::Metrics,
            include_str!("../../testdata/every-field-metrics.json"),
        ),
        (
            Signal::Logs,
            include_str!("../../testdata/every-field-logs.json"),
        ),
    ] {
        let body = to_protobuf(signal, text.as_bytes(), &Limits::default()).unwrap();
        let before = from_protobuf(signal, &body).unwrap();
        let mut moved = body.clone();
        shift(&mut moved, signal, 1).unwrap();
        let after = from_protobuf(signal, &moved).unwrap();
        assert_eq!(after, one_later(&before));
        if signal != Signal::Metrics {
            shift(&mut moved, signal, -1).unwrap();
            assert_eq!(moved, body);
        }
    }
}

/// The text with 1 added to each `..imeUnixNano`, up to the largest.
fn one_later(text: &str) -> String {
    let mut pieces = text.split("imeUnixNano\":\"");
    let mut out = pieces.next().unwrap().to_owned();
    for piece in pieces {
        let (time, rest) = piece.split_once('"').unwrap();
        let time = time.parse::<u64>().unwrap().saturating_add(1);
        out.push_str(&format!("imeUnixNano\":\"{time}\"{rest}"));
    }
    out
}

#[test]
fn zero_stays_zero_and_times_do_not_wrap() {
    let check = |times: (u64, u64), delta: i128, want: (u64, u64)| {
        let mut body = trace(1).span("s", 1.ms()).times(times.0, times.1).build();
        shift(&mut body, Signal::Traces, delta).unwrap();
        let moved = trace(1).span("s", 1.ms()).times(want.0, want.1).build();
        assert_eq!(body, moved, "{times:?} {delta}");
    };
    check((T0, 0), 5, (T0 + 5, 0));
    check((T0, 7), -i128::from(T0), (1, 1));
    check((T0, 7), i128::MAX, (u64::MAX, u64::MAX));
    check((T0, 7), i128::MIN, (1, 1));
}

#[test]
fn the_range_covers_all_spans_that_have_a_time() {
    assert_eq!(time_range(&[]), Ok(None));
    let body = trace(1)
        .span("a", 10.ms())
        .span("b", 5.ms())
        .at(20.ms())
        .span("c", 0.ms())
        .times(0, 0)
        .build();
    assert_eq!(time_range(&body), Ok(Some((T0, T0 + 25_000_000))));
}

#[test]
fn broken_bytes_are_left_as_they_are() {
    let mut body = trace(1).span("a", 10.ms()).span("b", 5.ms()).build();
    body.pop();
    let before = body.clone();
    assert!(matches!(
        shift(&mut body, Signal::Traces, 1),
        Err(Error::Truncated { .. })
    ));
    assert_eq!(body, before);
    assert!(time_range(&body).is_err());
}
