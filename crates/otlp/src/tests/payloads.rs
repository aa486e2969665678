//! Requests as programs really send them.

use std::path::PathBuf;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;

use super::{crate_path, files};
use crate::{
    Error, Signal,
    export::{Checked, Limits, check, spans},
    json::{from_protobuf, to_protobuf},
    span::{SpanKind, SpanSummary},
    testing::{exercise_json, exercise_traces},
};

#[test]
fn json_of_a_payload_means_the_same_as_its_protobuf() {
    let files = files(&crate_path("testdata/synthetic"));
    let mut n_pairs = 0;
    for (name, json) in files.iter().filter(|(name, _)| name.ends_with(".json")) {
        let pb_name = name.replace(".json", ".pb");
        let (_, pb) = files
            .iter()
            .find(|(name, _)| *name == pb_name)
            .expect("a pair");
        let want = ExportTraceServiceRequest::decode(pb.as_slice()).unwrap();
        let body = to_protobuf(Signal::Traces, json, &Limits::default()).unwrap();
        let got = ExportTraceServiceRequest::decode(body.as_slice()).unwrap();
        assert_eq!(got, want, "{name}");

        let text = from_protobuf(Signal::Traces, pb).unwrap();
        let back = to_protobuf(Signal::Traces, text.as_bytes(), &Limits::default()).unwrap();
        assert_eq!(
            ExportTraceServiceRequest::decode(back.as_slice()).unwrap(),
            want,
            "{name}"
        );
        exercise_traces(pb);
        n_pairs += 1;
    }
    assert_eq!(n_pairs, 6);
}

/// Where payloads of other projects lie beside a checkout; they are not part of the repository.
fn other_payloads(project: &str) -> Vec<(String, Vec<u8>)> {
    let shared = std::env::var_os("WHYSLOW_SHARED")
        .map_or_else(|| crate_path("../../../shared"), PathBuf::from);
    let folder = shared.join("payloads").join(project);
    let files = files(&folder);
    if files.is_empty() {
        eprintln!("skipped: no payloads in {}", folder.display());
    }
    files
        .into_iter()
        .filter(|(name, _)| name.ends_with(".json"))
        .collect()
}

fn accept(signal: Signal, json: &[u8]) -> Result<(Checked, Vec<u8>), Error> {
    exercise_json(json);
    let body = to_protobuf(signal, json, &Limits::default())?;
    Ok((check(signal, &body, &Limits::default())?, body))
}

#[test]
fn the_examples_of_opentelemetry_proto_are_accepted() {
    for (name, json) in other_payloads("opentelemetry-proto") {
        let signal = match name.as_str() {
            "trace.json" => Signal::Traces,
            "metrics.json" => Signal::Metrics,
            _ => Signal::Logs,
        };
        let (checked, _) = accept(signal, &json).unwrap();
        assert!(
            checked.n_items > 0 && checked.n_rejected == 0,
            "{name}: {checked:?}"
        );
    }
}

#[test]
fn snake_case_names_and_numeric_times_of_alloy_are_accepted() {
    for (name, json) in other_payloads("alloy") {
        let (checked, body) = accept(Signal::Traces, &json).unwrap();
        assert_eq!(checked.n_items, 1, "{name}");
        let at = spans(&body, &Limits::default()).next().unwrap().unwrap();
        let span = SpanSummary::read(at.span).unwrap();
        assert_eq!(span.kind, SpanKind::Client);
        assert_eq!(span.start_time_unix_nano, 1_544_712_660_300_000_000);
        assert_eq!(span.trace_id.to_hex(), "5b8efff798038103d269b633813fc60c");
    }
}

#[test]
fn requests_of_other_back_ends_tests_are_accepted() {
    for project in ["hyperdx", "jaeger"] {
        for (name, json) in other_payloads(project) {
            let (checked, _) = accept(Signal::Traces, &json).unwrap();
            assert!(
                checked.n_items > 0 && checked.n_rejected == 0,
                "{name}: {checked:?}"
            );
        }
    }
}

/// Each file is one span, without ids.
#[test]
fn spans_of_envoy_ai_gateway_are_read_and_rejected_for_their_missing_ids() {
    for (name, json) in other_payloads("envoy-ai-gateway") {
        let span = String::from_utf8(json).unwrap();
        let text = format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{span}]}}]}}]}}"#);
        let (checked, _) = accept(Signal::Traces, text.as_bytes()).unwrap();
        assert_eq!((checked.n_items, checked.n_invalid_ids), (0, 1), "{name}");
    }
}
