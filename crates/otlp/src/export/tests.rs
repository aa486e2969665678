//! Tests of checking: what is refused, what is rejected, what is kept.

use super::{Limits, TimeWindow, check, spans};
use crate::{
    Error, Signal,
    testing::{T0, TimeSpan, trace},
};

fn windowed() -> Limits {
    let window = TimeWindow {
        earliest_unix_nano: T0,
        latest_unix_nano: T0 + 1_000,
    };
    Limits {
        time_window: Some(window),
        ..Limits::default()
    }
}

#[test]
fn a_span_must_start_and_end_inside_the_window() {
    let check_times = |start: u64, end: u64, is_accepted: bool| {
        let body = trace(1).span("s", 1.ms()).times(start, end).build();
        let checked = check(Signal::Traces, &body, &windowed()).unwrap();
        assert_eq!(checked.n_items == 1, is_accepted, "{start} {end}");
        assert_eq!(spans(&body, &windowed()).count() == 1, is_accepted);
        assert_eq!(
            check(Signal::Traces, &body, &Limits::default())
                .unwrap()
                .n_items,
            1
        );
    };
    check_times(T0, T0 + 1_000, true);
    check_times(T0 + 1_000, T0, true);
    check_times(T0, 0, true);
    check_times(T0 - 1, T0, false);
    check_times(T0 + 1_001, T0, false);
    check_times(T0, T0 - 1, false);
    check_times(T0, T0 + 1_001, false);
    check_times(0, T0, false);
    check_times(u64::MAX, u64::MAX, false);
}

#[test]
fn the_reason_is_told_for_the_first_rejected_span() {
    let message = |export: crate::testing::Export| {
        check(Signal::Traces, &export.build(), &windowed())
            .unwrap()
            .message
            .unwrap()
    };
    let base = || trace(1).span("good", 0.ms()).span("bad", 0.ms());
    let check_tail = |export, want: &str| {
        let message: String = message(export);
        assert!(message.ends_with(want), "{message}");
    };
    check_tail(
        base().raw_ids(&[], &[1; 8]),
        "span 1 (from 0): trace id is missing",
    );
    check_tail(
        base().raw_ids(&[1; 15], &[1; 8]),
        "trace id has 15 bytes, not 16",
    );
    check_tail(base().raw_ids(&[1; 16], &[0; 8]), "span id is all zero");
    check_tail(
        base().raw_ids(&[1; 16], &[1; 9]),
        "span id has 9 bytes, not 8",
    );
    check_tail(base().times(5, T0), "start 5 ns is too old or too new");
    check_tail(base().times(T0, 5), "end 5 ns is too old or too new");
}

#[test]
fn a_second_resource_or_scope_refuses_the_request() {
    let resource = [0x0a, 0x00];
    let twice = [&[0x0a, 0x04][..], &resource, &resource].concat();
    let error = check(Signal::Traces, &twice, &Limits::default()).unwrap_err();
    assert_eq!(
        error,
        Error::Repeated {
            offset: 6,
            field: 1
        }
    );
    let scope_twice = [&[0x0a, 0x06, 0x12, 0x04][..], &resource, &resource].concat();
    for (signal, body) in [
        (Signal::Traces, &scope_twice),
        (Signal::Metrics, &twice),
        (Signal::Logs, &scope_twice),
    ] {
        let error = check(signal, body, &Limits::default()).unwrap_err();
        assert!(matches!(error, Error::Repeated { field: 1, .. }), "{error}");
    }
    assert!(spans(&twice, &Limits::default()).next().unwrap().is_err());
}

#[test]
fn broken_requests_do_not_yield_spans_without_end() {
    let body = trace(1).span("a", 1.ms()).span("b", 1.ms()).build();
    for end in 1..body.len() {
        assert!(check(Signal::Traces, &body[..end], &Limits::default()).is_err());
        let n = spans(&body[..end], &Limits::default()).count();
        assert!(n <= 3, "two spans and an error at most");
    }
}

#[test]
fn points_and_records_are_counted() {
    let every = |signal, text: &str| {
        let body = crate::json::to_protobuf(signal, text.as_bytes(), &Limits::default()).unwrap();
        check(signal, &body, &Limits::default()).unwrap()
    };
    let metrics = every(
        Signal::Metrics,
        include_str!("../../testdata/every-field-metrics.json"),
    );
    assert_eq!(
        (metrics.n_items, metrics.n_rejected, metrics.message),
        (7, 0, None)
    );
    let logs = every(
        Signal::Logs,
        include_str!("../../testdata/every-field-logs.json"),
    );
    assert_eq!(logs.n_items, 2);
}
