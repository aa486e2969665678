//! Captured traffic against what an independent program found in it.

use std::{collections::HashMap, io::Read, path::PathBuf};

use flate2::read::GzDecoder;
use serde_json::Value;
use tables::requests::{Outcome, Request};

use super::{flags, requests};

fn data(capture: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../../tests/data", capture]
        .iter()
        .collect()
}

/// The exports of a capture in order.
pub(super) fn bodies(capture: &str) -> Vec<Vec<u8>> {
    let files = std::fs::read_dir(data(capture).join("traces")).unwrap();
    let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    let read = |path: PathBuf| {
        let mut body = Vec::new();
        GzDecoder::new(std::fs::File::open(path).unwrap())
            .read_to_end(&mut body)
            .unwrap();
        body
    };
    paths.into_iter().map(read).collect()
}

fn captured(capture: &str) -> Vec<Request> {
    let bodies = bodies(capture);
    bodies.iter().flat_map(|body| requests(body)).collect()
}

/// The oracle's values by trace and span id.
fn expected(capture: &str) -> HashMap<(String, String), Value> {
    let text = std::fs::read_to_string(data(capture).join("expected.json")).unwrap();
    let expected: Value = serde_json::from_str(&text).unwrap();
    let mut by_span = HashMap::new();
    for (trace_id, trace) in expected["traces"].as_object().unwrap() {
        for request in trace["llm_requests"].as_array().unwrap() {
            let span_id = request["span_id"].as_str().unwrap();
            by_span.insert((trace_id.clone(), span_id.to_owned()), request.clone());
        }
    }
    by_span
}

/// Every value must be the oracle's.
#[track_caller]
fn check(capture: &str, n_requests: usize) {
    let requests = captured(capture);
    let mut expected = expected(capture);
    assert_eq!((requests.len(), expected.len()), (n_requests, n_requests));
    for request in &requests {
        let key = (request.trace_id.to_hex(), request.span_id.to_hex());
        let oracle = expected.remove(&key).unwrap();
        let text = |name: &str| oracle[name].as_str().map(str::to_owned);
        assert_eq!(request.request_id, text("request_id"));
        assert_eq!(request.k8s_pod_uid, text("pod_uid"));
        let times = [
            ("e2e_s", request.e2e_s),
            ("ttft_s", request.engine_ttft_s),
            ("queue_s", request.queue_s),
            ("prefill_s", request.prefill_s),
            ("decode_s", request.decode_s),
            ("tpot_s", request.tpot_s),
        ];
        for (name, value) in times {
            assert_same(value, oracle[name].as_f64(), &format!("{name} of {key:?}"));
        }
        let tokens = [
            ("input_tokens", request.input_tokens),
            ("output_tokens", request.output_tokens),
        ];
        for (name, value) in tokens {
            assert_eq!(value, oracle[name].as_i64(), "{name} of {key:?}");
        }
        assert_eq!(
            (request.engine, request.outcome),
            (Some("vllm"), Outcome::Ok)
        );
        assert_eq!(request.operation.as_deref(), Some("chat"));
        assert!(flags(request).is_empty(), "{key:?}: {:?}", flags(request));
    }
    assert!(expected.is_empty());
}

/// The JSON reader is exact to the last bit but one.
#[track_caller]
fn assert_same(value: Option<f64>, expected: Option<f64>, what: &str) {
    let is_same = match (value, expected) {
        (Some(value), Some(expected)) => (value - expected).abs() <= f64::EPSILON * expected.abs(),
        (value, expected) => value == expected,
    };
    assert!(is_same, "{what}: {value:?} is not {expected:?}");
}

#[test]
fn the_connected_capture_has_the_requests_of_the_oracle() {
    check("real-chain", 146);
}

#[test]
fn the_broken_capture_has_the_requests_of_the_oracle() {
    check("real-broken", 60);
}
