//! Bodies that have gone wrong in other receivers, over gRPC, HTTP protobuf and HTTP JSON.

use http::{Method, StatusCode};
use otlp::{export::Signal, reply::Encoding};
use tonic::Code;

use crate::harness::{Fixture, T0, TRACES, config, eventually, testdata, trace_export};

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/x-protobuf";

/// The protobuf bytes of a JSON body, bad spans included.
fn protobuf_of(json: &[u8]) -> Vec<u8> {
    otlp::json::to_protobuf(Signal::Traces, json, &otlp::export::Limits::default()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn c01_bad_ids_are_rejected_span_by_span_and_two_are_stored() {
    let mut gateway = Fixture::new(config()).await;
    let json = testdata("C01.json");
    let protobuf = protobuf_of(&json);

    let over_json = gateway.post("/v1/traces", JSON, json).await;
    assert_eq!(over_json.status, StatusCode::OK);
    assert_eq!(over_json.header("content-type"), JSON);
    let partial = &over_json.json()["partialSuccess"];
    assert!(
        partial["rejectedSpans"] == 5 || partial["rejectedSpans"] == "5",
        "{partial}"
    );
    let message = partial["errorMessage"].as_str().unwrap().to_owned();
    assert!(!message.is_empty());

    let over_http = gateway.post("/v1/traces", PROTOBUF, protobuf.clone()).await;
    assert_eq!(
        (over_http.status, over_http.header("content-type")),
        (StatusCode::OK, PROTOBUF)
    );
    let over_grpc = gateway.export(TRACES, protobuf, None).await.unwrap();
    assert_eq!(
        over_http.body, over_grpc,
        "the same answer on both transports"
    );
    let expected =
        otlp::reply::export_response(Signal::Traces, Encoding::Protobuf, 5, Some(&message));
    assert_eq!(over_grpc, expected, "and in both encodings");

    gateway.advance(11);
    let release = gateway.next_release().await;
    let [trace] = release.decided.as_slice() else {
        panic!("one trace: {release:?}")
    };
    assert_eq!(trace.trace_id.to_hex(), "7c000001a1b2c3d4e5f60718293a4b5c");
    assert_eq!(trace.spans.len(), 2, "two good spans, sent three times");
    let conservation = gateway.handle.metrics.conservation();
    assert!(conservation.is_conserved(), "{conservation:?}");
    assert_eq!(conservation.duplicate.n_spans, 4);
    assert_eq!(gateway.handle.metrics.n_items_rejected(Signal::Traces), 15);
}

#[tokio::test(flavor = "multi_thread")]
async fn c07_deep_values_are_bad_data_on_every_transport_and_the_next_request_works() {
    let gateway = Fixture::new(config()).await;
    let shallow = testdata("C07-depth8.json");
    assert_eq!(
        gateway
            .post("/v1/traces", JSON, shallow.clone())
            .await
            .status,
        StatusCode::OK
    );
    let deep_json = gateway
        .post("/v1/traces", JSON, testdata("C07-depth300.json"))
        .await;
    assert_eq!(deep_json.status, StatusCode::BAD_REQUEST);
    assert_eq!(deep_json.json()["code"], Code::InvalidArgument as i32);
    let deep = testdata("C07-depth3000.pb");
    let over_http = gateway.post("/v1/traces", PROTOBUF, deep.clone()).await;
    assert_eq!(over_http.status, StatusCode::BAD_REQUEST);
    let over_grpc = gateway.export(TRACES, deep, None).await.unwrap_err();
    assert_eq!(over_grpc.code(), Code::InvalidArgument);
    assert_eq!(
        gateway.post("/v1/traces", JSON, shallow).await.status,
        StatusCode::OK
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn c11_empty_envelopes_succeed_and_leave_nothing() {
    let gateway = Fixture::new(config()).await;
    let cases: serde_json::Value = serde_json::from_slice(&testdata("C11.json")).unwrap();
    for case in cases.as_array().unwrap() {
        let text = |key: &str, default: &'static str| {
            case.get(key)
                .and_then(|value| value.as_str())
                .unwrap_or(default)
                .to_owned()
        };
        let (name, content_type) = (text("name", ""), text("content_type", ""));
        let method = Method::from_bytes(text("method", "POST").as_bytes()).unwrap();
        let headers = [("content-type", content_type.as_str())];
        let path = text("path", "/v1/traces");
        let answer = gateway
            .send(method, &path, &headers, text("body", "").into())
            .await;
        assert_eq!(
            u64::from(answer.status.as_u16()),
            case["expect"].as_u64().unwrap(),
            "{name}"
        );
        if answer.status == StatusCode::OK {
            assert_eq!(answer.header("content-type"), content_type, "{name}");
            let body = if content_type == JSON { "{}" } else { "" };
            assert_eq!(answer.text(), body, "{name}: partial success is unset");
        }
    }
    assert_eq!(gateway.export(TRACES, "", None).await.unwrap(), "");
    let conservation = gateway.handle.metrics.conservation();
    assert_eq!(conservation, gateway::Conservation::default());
}

#[tokio::test(flavor = "multi_thread")]
async fn c14_a_cut_character_is_bad_data_and_the_whole_one_is_stored() {
    let mut gateway = Fixture::new(config()).await;
    let over_http = gateway
        .post("/v1/traces", PROTOBUF, testdata("C14.pb"))
        .await;
    assert_eq!(over_http.status, StatusCode::BAD_REQUEST);
    assert_eq!(over_http.header("content-type"), PROTOBUF);
    let over_grpc = gateway
        .export(TRACES, testdata("C14.pb"), None)
        .await
        .unwrap_err();
    assert_eq!(over_grpc.code(), Code::InvalidArgument);
    let valid = gateway
        .post("/v1/traces", PROTOBUF, testdata("C14-valid.pb"))
        .await;
    assert_eq!(valid.status, StatusCode::OK);
    gateway.advance(11);
    let release = gateway.next_release().await;
    let n_spans: usize = release.decided.iter().map(|trace| trace.spans.len()).sum();
    assert_eq!(n_spans, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_is_bad_data_on_every_transport() {
    let gateway = Fixture::new(config()).await;
    for path in ["/v1/traces", "/v1/metrics", "/v1/logs"] {
        for (content_type, body) in [
            (PROTOBUF, "\u{0}\u{1}garbage"),
            (JSON, "{\"a\":"),
            (JSON, "\u{0}"),
        ] {
            let answer = gateway.post(path, content_type, body).await;
            assert_eq!(
                answer.status,
                StatusCode::BAD_REQUEST,
                "{path} {content_type}"
            );
            assert_eq!(answer.header("content-type"), content_type);
        }
    }
    let whole = trace_export(1, 100);
    for n_bytes in 1..whole.len() {
        let cut = gateway.export(TRACES, whole.slice(..n_bytes), None).await;
        assert_eq!(
            cut.unwrap_err().code(),
            Code::InvalidArgument,
            "cut at {n_bytes}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_types_verbs_paths_and_encodings_have_their_status() {
    let gateway = Fixture::new(config()).await;
    let check = async |method: Method, path: &str, headers: &[(&str, &str)], status: StatusCode| {
        let answer = gateway.send(method, path, headers, "{}".into()).await;
        assert_eq!(
            answer.status,
            status,
            "{path} {headers:?}: {}",
            answer.text()
        );
        answer
    };
    let (post, traces, json) = (Method::POST, "/v1/traces", ("content-type", JSON));
    check(
        post.clone(),
        traces,
        &[("content-type", "text/plain")],
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
    )
    .await;
    check(
        post.clone(),
        traces,
        &[],
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
    )
    .await;
    check(
        post.clone(),
        traces,
        &[("content-type", "application/json; charset=utf-8")],
        StatusCode::OK,
    )
    .await;
    check(
        post.clone(),
        traces,
        &[("content-type", "Application/JSON")],
        StatusCode::OK,
    )
    .await;
    check(post.clone(), "/v1/trace", &[json], StatusCode::NOT_FOUND).await;
    let answer = check(Method::PUT, traces, &[json], StatusCode::METHOD_NOT_ALLOWED).await;
    assert_eq!(answer.header("allow"), "POST");
    let snappy = ("content-encoding", "snappy");
    let answer = check(
        post.clone(),
        traces,
        &[json, snappy],
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
    )
    .await;
    assert!(answer.header("accept-encoding").contains("gzip"));
    check(
        post,
        traces,
        &[json, ("content-encoding", "gzip")],
        StatusCode::BAD_REQUEST,
    )
    .await;

    let unknown = gateway.export(
        "/opentelemetry.proto.collector.trace.v1.TraceService/Nope",
        "",
        None,
    );
    assert_eq!(unknown.await.unwrap_err().code(), Code::Unimplemented);
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_and_logs_are_checked_acknowledged_and_counted() {
    let gateway = Fixture::new(config()).await;
    let metrics = r#"{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"m","gauge":
        {"dataPoints":[{"timeUnixNano":"1","asInt":"1"},{"timeUnixNano":"2","asInt":"2"}]}}]}]}]}"#;
    let logs =
        r#"{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":{"stringValue":"x"}}]}]}]}"#;
    assert_eq!(
        gateway.post("/v1/metrics", JSON, metrics).await.text(),
        "{}"
    );
    assert_eq!(gateway.post("/v1/logs", JSON, logs).await.text(), "{}");
    let counted = &gateway.handle.metrics;
    assert_eq!(counted.n_items_received(Signal::Metrics), 2);
    assert_eq!(counted.n_items_received(Signal::Logs), 1);
    let text = counted.render_prometheus();
    assert!(
        text.contains("gateway_exports_total{transport=\"http\",signal=\"logs\",code=\"OK\"} 1"),
        "{text}"
    );
    // Counted after the answer; the tables get metrics, and nobody reads logs.
    let released = "gateway_points_released_total 2";
    let lost = "gateway_items_lost_total{signal=\"logs\",reason=\"no_consumer\"} 1";
    let is_there = || {
        let text = counted.render_prometheus();
        text.contains(released) && text.contains(lost)
    };
    eventually(async || is_there().then_some(())).await;
    assert!(counted.points().is_conserved());
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_outside_the_time_window_are_rejected_alone() {
    let gateway = Fixture::new(config()).await;
    let spans = [
        ("01", T0),
        ("02", 1_772_366_400),
        ("03", T0 + 7_200_000_000_000),
        ("04", u64::MAX),
    ];
    let spans = spans.map(|(id, start)| {
        format!(
            r#"{{"traceId":"{}","spanId":"{}","name":"s","startTimeUnixNano":"{start}","endTimeUnixNano":"{start}"}}"#,
            id.repeat(16),
            id.repeat(8),
        )
    });
    let body = format!(
        r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{}]}}]}}]}}"#,
        spans.join(",")
    );
    let answer = gateway.post("/v1/traces", JSON, body).await;
    assert_eq!(answer.status, StatusCode::OK);
    let rejected = &answer.json()["partialSuccess"]["rejectedSpans"];
    assert!(*rejected == 3 || *rejected == "3", "{rejected}");
}
