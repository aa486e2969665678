//! Tests of requests: known trouble, engines and captured traffic, as data.

mod calls;
mod cases;
mod engines;
mod real;

use otlp::{
    Signal,
    export::{self, Limits, SpanAt},
    span::SpanSummary,
};
use tables::requests::Request;

use crate::{is_request_span, request};

/// The requests among the spans of an export request, in order.
fn requests(body: &[u8]) -> Vec<Request> {
    let limits = Limits::default();
    export::check(Signal::Traces, body, &limits).unwrap();
    let spans = export::spans(body, &limits).map(Result::unwrap);
    spans
        .filter(is_request)
        .map(|at| request(&at).unwrap())
        .collect()
}

fn is_request(at: &SpanAt<'_>) -> bool {
    is_request_span(&SpanSummary::read(at.span).unwrap(), at.scope, at.span)
}

/// The requests of an OTLP/JSON file of `testdata`.
fn requests_of_file(name: &str) -> Vec<Request> {
    let path = format!("{}/testdata/{name}", env!("CARGO_MANIFEST_DIR"));
    let json = std::fs::read(path).unwrap();
    requests(&otlp::json::to_protobuf(Signal::Traces, &json, &Limits::default()).unwrap())
}

/// The one with this request id.
#[track_caller]
fn find<'a>(requests: &'a [Request], id: &str) -> &'a Request {
    requests
        .iter()
        .find(|request| request.request_id.as_deref() == Some(id))
        .unwrap()
}

/// Its quality flags as they are stored.
fn flags(request: &Request) -> Vec<String> {
    request.quality.iter().map(ToString::to_string).collect()
}

/// Equal up to the rounding of a subtraction.
#[track_caller]
fn assert_close(value: Option<f64>, expected: Option<f64>) {
    let is_close = match (value, expected) {
        (Some(value), Some(expected)) => (value - expected).abs() < 1e-9,
        (None, None) => true,
        _ => false,
    };
    assert!(is_close, "{value:?} is not {expected:?}");
}
