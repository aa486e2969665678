//! Jaeger's answers, member by member.

use serde_json::json;

use super::{A, B, JAEGER_TIME, V3_TIME, encoded, served, texts, two_traces};

#[tokio::test]
async fn a_trace_comes_back_as_otlp_json() {
    let served = served().await;
    let mut sent = two_traces()["resourceSpans"].as_array().unwrap()[..2].to_vec();
    // Rows come by service; a scope or status without a value is left out; ids of links are whole.
    sent.reverse();
    for path in [
        format!("/api/v3/traces/{A}"),
        "/jaeger/api/v3/traces/a".to_owned(),
    ] {
        let answer = served.json_of(&path).await;
        let spans = answer["result"]["resourceSpans"].as_array().unwrap();
        assert_eq!(spans.len(), 2, "{answer}");
        for (got, sent) in spans.iter().zip(&sent) {
            let span = |part: &serde_json::Value| part["scopeSpans"][0]["spans"][0].clone();
            let (got_span, sent_span) = (span(got), span(sent));
            for member in [
                "traceId",
                "spanId",
                "parentSpanId",
                "name",
                "kind",
                "startTimeUnixNano",
                "endTimeUnixNano",
                "traceState",
                "flags",
                "events",
                "links",
                "status",
            ] {
                assert_eq!(got_span[member], sent_span[member], "{member}");
            }
            assert_eq!(
                texts(&got_span["attributes"], "key"),
                texts(&sent_span["attributes"], "key")
            );
            assert_eq!(
                texts(&got["resource"]["attributes"], "key"),
                texts(&sent["resource"]["attributes"], "key")
            );
        }
    }
}

#[tokio::test]
async fn a_trace_comes_back_in_the_legacy_model() {
    let served = served().await;
    let answer = served.json_of(&format!("/api/traces/{A}")).await;
    let text = |key: &str, value: &str| json!({"key": key, "type": "string", "value": value});
    let int = |key: &str, value: i64| json!({"key": key, "type": "int64", "value": value});
    let error = json!({"key": "error", "type": "bool", "value": true});
    assert_eq!(answer["total"], 0);
    assert_eq!(answer["errors"], json!(null));
    let trace = &answer["data"][0];
    assert_eq!(trace["traceID"], A);
    assert_eq!(trace["warnings"], json!(null));
    assert_eq!(
        trace["processes"],
        json!({
            "p1": {"serviceName": "engine", "tags": []},
            "p2": {"serviceName": "gateway", "tags": [text("zone", "a")]},
        })
    );
    let mut root = trace["spans"][0].clone();
    let mut tags = root["tags"].take();
    tags.as_array_mut()
        .unwrap()
        .sort_by_key(|tag| tag["key"].to_string());
    assert_eq!(
        tags,
        json!([
            error,
            int("http.response.status_code", 500),
            text("otel.scope.name", "lib"),
            text("otel.scope.version", "1.2"),
            text("otel.status_code", "ERROR"),
            text("otel.status_description", "no answer"),
            int("retries", 3),
            text("span.kind", "server"),
            text("tenant", "o'neil \"x\""),
            text("w3c.tracestate", "k=v"),
        ])
    );
    assert_eq!(
        root,
        json!({
            "traceID": A, "spanID": "0000000000000001", "flags": 1, "operationName": "POST /chat",
            "references": [], "startTime": 1_767_225_600_000_000_i64, "duration": 2_500_000, "tags": null,
            "logs": [], "processID": "p2", "warnings": null,
        })
    );
    let engine = &trace["spans"][1];
    assert_eq!(
        engine["references"],
        json!([
            {"refType": "CHILD_OF", "traceID": A, "spanID": "0000000000000001"},
            {"refType": "FOLLOWS_FROM", "traceID": B, "spanID": "0000000000000003"},
        ])
    );
    assert_eq!(
        engine["logs"],
        json!([{
            "timestamp": 1_767_225_600_200_000_i64,
            "fields": [text("event", "exception"), text("exception.type", "OOM")],
        }])
    );
}

#[tokio::test]
async fn what_is_not_there_says_so_in_the_form_of_its_api() {
    let served = served().await;
    let unknown = "0000000000000000000000000000000c";
    let reply = served.get(&format!("/api/v3/traces/{unknown}")).await;
    assert_eq!(reply.status, 404);
    let error = &reply.json()["error"];
    assert_eq!(error["httpCode"], 404);
    assert!(
        error["message"].as_str().unwrap().contains("is unknown"),
        "{error}"
    );

    let reply = served.get(&format!("/api/traces/{unknown}")).await;
    assert_eq!(reply.status, 404);
    let body = reply.json();
    assert_eq!(
        (&body["data"], &body["errors"][0]["code"]),
        (&json!(null), &json!(404))
    );

    let answer = served
        .json_of(&format!("/api/traces?traceID={A}&traceID={unknown}"))
        .await;
    assert_eq!(texts(&answer["data"], "traceID"), [A]);
    assert_eq!(answer["errors"][0]["traceID"], unknown);

    let reply = served
        .get(&format!(
            "/api/v3/traces?query.service_name=nobody&{V3_TIME}"
        ))
        .await;
    assert_eq!(
        (reply.status.as_u16(), &reply.json()["error"]["httpCode"]),
        (404, &json!(404))
    );
    let answer = served
        .json_of(&format!("/api/traces?service=nobody&{JAEGER_TIME}"))
        .await;
    assert_eq!(answer["data"], json!([]));
}

#[tokio::test]
async fn searches_find_traces_whose_span_meets_all_conditions() {
    let served = served().await;
    for (conditions, found) in [
        ("service=gateway", vec![A]),
        ("service=engine&operation=llm_request", vec![A]),
        ("service=engine&operation=POST+/chat", vec![]),
        ("service=OTLPResourceNoServiceName", vec![B]),
        ("service=gateway&tags={\"error\":\"true\"}", vec![A]),
        ("service=gateway&tags={\"error\":\"false\"}", vec![]),
        (
            "service=gateway&tags={\"error\":true,\"retries\":3}",
            vec![A],
        ),
        ("service=gateway&tags={\"span.kind\":\"server\"}", vec![A]),
        (
            "service=gateway&tags={\"http.response.status_code\":\"500\"}",
            vec![A],
        ),
        (
            "service=gateway&tags={\"http.response.status_code\":\"abc\"}",
            vec![],
        ),
        ("service=gateway&tag=zone:a&tag=retries:3", vec![A]),
        ("service=gateway&tag=zone:b", vec![]),
        (
            "service=gateway&tags={\"tenant\":\"o'neil \\\"x\\\"\"}",
            vec![A],
        ),
        (
            "service=gateway&tags={\"otel.status_description\":\"no answer\",\"otel.scope.name\":\"lib\"}",
            vec![A],
        ),
        ("service=engine&tags={\"exception.type\":\"OOM\"}", vec![A]),
        (
            "service=gateway&minDuration=2.5s&maxDuration=2500ms",
            vec![A],
        ),
        ("service=gateway&minDuration=3s", vec![]),
        ("service=engine&maxDuration=900ms", vec![]),
    ] {
        let address: Vec<String> = conditions
            .split('&')
            .map(|pair| pair.split_once('=').unwrap())
            .map(|(name, value)| format!("{name}={}", encoded(&value.replace('+', " "))))
            .collect();
        let address = format!(
            "/api/traces?{}&{JAEGER_TIME}&limit=20&lookback=custom",
            address.join("&")
        );
        let answer = served.json_of(&address).await;
        assert_eq!(texts(&answer["data"], "traceID"), found, "{conditions}");
    }
}

#[tokio::test]
async fn version_three_finds_the_same_and_gives_them_in_short() {
    let served = served().await;
    let attributes = encoded("{\"zone\":\"a\"}");
    let search = format!(
        "query.service_name=gateway&query.attributes={attributes}&query.num_traces=5&{V3_TIME}"
    );
    let answer = served.json_of(&format!("/api/v3/traces?{search}")).await;
    assert_eq!(
        answer["result"]["resourceSpans"].as_array().unwrap().len(),
        2
    );

    let today = "query.serviceName=engine&query.operationName=llm_request&query.durationMin=1s&query.durationMax=1s\
                 &query.startTimeMin=2026-01-01T00:00:00Z&query.startTimeMax=2026-01-01T00:00:01Z&query.searchDepth=1";
    let answer = served
        .json_of(&format!("/api/v3/trace-summaries?{today}"))
        .await;
    assert_eq!(
        answer,
        json!({"summaries": [{
            "traceId": A,
            "rootServiceName": "gateway",
            "rootOperationName": "POST /chat",
            "minStartTimeUnixNano": "1767225600000000000",
            "maxEndTimeUnixNano": "1767225602500000000",
            "spanCount": 2, "errorSpanCount": 2, "orphanSpanCount": 0,
            "services": [
                {"name": "engine", "spanCount": 1, "errorSpanCount": 1},
                {"name": "gateway", "spanCount": 1, "errorSpanCount": 1},
            ],
        }]})
    );
    // Without a service, newest first.
    let answer = served
        .json_of(&format!("/api/v3/trace-summaries?{V3_TIME}"))
        .await;
    let ids: Vec<_> = answer["summaries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|short| &short["traceId"])
        .collect();
    assert_eq!(ids, [B, A]);
}

#[tokio::test]
async fn calls_between_services_are_counted() {
    let served = served().await;
    let time = "endTs=1767225699000&lookback=604800000";
    let answer = served.json_of(&format!("/api/dependencies?{time}")).await;
    let call = json!([{"parent": "gateway", "child": "engine", "callCount": 1}]);
    assert_eq!(answer["data"], call);
    let answer = served
        .json_of(&format!("/api/dependencies?{time}&service=nobody"))
        .await;
    assert_eq!(answer["data"], json!([]));
}
