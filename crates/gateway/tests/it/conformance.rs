//! The cases of `conformance_cases.yaml` about receivers: its section `otlp`. All other sections are run by the tests
//! of `sampler`, from the same file.

use std::io::Write;

use http::{Method, StatusCode};
use serde_json::Value as Json;
use tonic::Code;

use crate::harness::{Fixture, TRACES, config, trace_export};
use crate::overload::{answers_over_the_byte_budget, room_for_two};

const CASES: &str = include_str!("../../../sampler/testdata/conformance_cases.yaml");

/// The sections that the tests of `sampler` run; `probabilistic` is a word there, and its vectors a file.
const OF_SAMPLER: [&str; 18] = [
    "latency",
    "numeric_attribute",
    "string_attribute",
    "boolean_attribute",
    "status_code",
    "span_count",
    "trace_state",
    "trace_flags",
    "rate_limiting",
    "bytes_limiting",
    "ottl_condition",
    "and",
    "not",
    "drop",
    "composite",
    "final_decision",
    "timing",
    "span_ingest",
];

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/x-protobuf";

/// A span with these members beside its span id.
fn body(members: &str) -> String {
    format!(
        r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{{"spanId":"0102030405060708","name":"s",
        "startTimeUnixNano":"{T0}","endTimeUnixNano":"{T0}",{members}}}]}}]}}]}}"#,
        T0 = crate::harness::T0
    )
}

const TRACE_ID: &str = r#""traceId":"0102030405060708090a0b0c0d0e0f10""#;

/// What the file wants of an HTTP case: the number that its answer begins with.
fn status(case: &Json) -> StatusCode {
    let text = match &case["want"] {
        Json::String(text) => text.split([',', ' ']).next().unwrap().to_owned(),
        number => number.to_string(),
    };
    StatusCode::from_u16(text.parse().unwrap()).unwrap()
}

async fn check_http(case: &Json, name: &str) {
    let gateway = Fixture::new(config()).await;
    let answer = match name {
        "POST /v1/traces no content-type" => {
            let body = trace_export(1, 1);
            gateway.send(Method::POST, "/v1/traces", &[], body).await
        }
        "GET /v1/traces" => {
            let headers = [("content-type", PROTOBUF)];
            let body = trace_export(1, 1);
            gateway
                .send(Method::GET, "/v1/traces", &headers, body)
                .await
        }
        "json traceId base64" => {
            let body = body(r#""traceId":"AQIDBAUGBwgJCgsMDQ4PEA==""#);
            gateway.post("/v1/traces", JSON, body).await
        }
        "json unknown field" => {
            let body = body(&format!(
                r#"{TRACE_ID},"ofALaterVersion":{{"deep":[1,null]}}"#
            ));
            gateway.post("/v1/traces", JSON, body).await
        }
        "json enum as string name" => {
            // Either would do; ours is lenient, and `otlp::json` says so.
            let body = body(&format!(r#"{TRACE_ID},"kind":"SPAN_KIND_SERVER""#));
            let answer = gateway.post("/v1/traces", JSON, body).await;
            assert!(case["want"].as_str().unwrap().contains("be lenient or 400"));
            assert_eq!((answer.status, answer.text()), (StatusCode::OK, "{}"));
            return;
        }
        "empty body protobuf" => {
            let answer = gateway.post("/v1/traces", PROTOBUF, "").await;
            assert_eq!(answer.text(), "", "partial success is unset");
            answer
        }
        "body > limit (also after gunzip)" => return check_too_large(status(case)).await,
        _ => panic!("a case that is not known here: {name}"),
    };
    assert_eq!(answer.status, status(case), "{name}: {}", answer.text());
}

async fn check_too_large(want: StatusCode) {
    let mut config = config();
    let http = config.otlp.protocols.http.as_mut().unwrap();
    http.max_request_body_size = 1 << 20;
    let gateway = Fixture::new(config).await;
    // Up to twice the limit is taken off the wire; who sends more may see a closed connection before the answer.
    let large = trace_export(1, 3 << 19);
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&large).unwrap();
    let compressed = encoder.finish().unwrap();
    assert!(compressed.len() < 1 << 20);
    let plain = [("content-type", PROTOBUF)];
    let gzip = [("content-type", PROTOBUF), ("content-encoding", "gzip")];
    for (headers, body) in [(&plain[..], large), (&gzip[..], compressed.into())] {
        let answer = gateway
            .send(Method::POST, "/v1/traces", headers, body)
            .await;
        assert_eq!(answer.status, want, "{headers:?}");
    }
}

async fn check_grpc(case: &Json, name: &str) {
    assert_eq!(name, "message > limit", "a case that is not known here");
    assert_eq!(case["want"], "RESOURCE_EXHAUSTED without RetryInfo");
    let mut config = config();
    let grpc = config.otlp.protocols.grpc.as_mut().unwrap();
    grpc.max_recv_msg_size_mib = 1;
    let gateway = Fixture::new(config).await;
    let large = trace_export(1, 2 << 20);
    let refused = gateway.export(TRACES, large, None).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.details().is_empty());
}

async fn check_overload(case: &Json) {
    let want = case["want"].as_str().unwrap();
    assert_eq!(
        want,
        "grpc UNAVAILABLE + RetryInfo; http 503 or 429 + Retry-After"
    );
    let gateway = Fixture::new(room_for_two()).await;
    let slow = trace_export(1, 1_000_000);
    let (_held, answer, refused) = answers_over_the_byte_budget(&gateway, &slow).await;
    assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS);
    assert!(answer.header("retry-after").parse::<u64>().is_ok());
    assert_eq!(refused.code(), Code::Unavailable);
    let retry_info = b"type.googleapis.com/google.rpc.RetryInfo";
    let details = refused.details();
    let has_retry_info = details
        .windows(retry_info.len())
        .any(|part| part == retry_info);
    assert!(has_retry_info);
}

#[tokio::test(flavor = "multi_thread")]
async fn otlp_cases_are_answered_as_listed_and_with_them_all_cases_are_run() {
    let all: Json = serde_saphyr::from_str(CASES).unwrap();
    let n_cases = |name: &str| all[name].as_array().map_or(0, Vec::len);
    let cases = all["otlp"].as_array().unwrap();
    for case in cases {
        match (&case["http"], &case["grpc"], &case["overload"]) {
            (Json::String(name), ..) => check_http(case, name).await,
            (_, Json::String(name), _) => check_grpc(case, name).await,
            (_, _, Json::Bool(true)) => check_overload(case).await,
            _ => panic!("a case that is not known here: {case}"),
        }
    }
    let n_of_sampler: usize = OF_SAMPLER.iter().map(|name| n_cases(name)).sum();
    let n_all: usize = all
        .as_object()
        .unwrap()
        .keys()
        .map(|name| n_cases(name))
        .sum();
    println!(
        "{} cases here and {n_of_sampler} in `sampler`: all {n_all}",
        cases.len()
    );
    assert_eq!((cases.len(), n_of_sampler, n_all), (9, 92, 101));
}
