//! Tempo's answers, member by member.

use opentelemetry_proto::tonic::trace::v1::TracesData;
use prost::Message;
use serde_json::{Value, json};

use super::super::Served;
use super::{A, B, TEMPO_TIME, encoded, served, texts};

/// `tempopb.TraceByIDResponse` as far as it is filled.
#[derive(Clone, PartialEq, Message)]
struct TraceByIdResponse {
    #[prost(message, optional, tag = "1")]
    trace: Option<TracesData>,
}

#[tokio::test]
async fn a_trace_comes_in_both_versions_as_protobuf_and_as_json() {
    let served = served().await;
    let accept = [("accept", "application/protobuf")];
    let names = |trace: &TracesData| {
        let scopes = trace
            .resource_spans
            .iter()
            .flat_map(|resource| &resource.scope_spans);
        let names = scopes
            .flat_map(|scope| &scope.spans)
            .map(|span| span.name.clone());
        names.collect::<Vec<_>>()
    };
    for path in [
        format!("/tempo/api/v2/traces/{A}?start=1&end=2"),
        format!("/api/v2/traces/{A}"),
    ] {
        let reply = served.get_with(&path, &accept).await;
        assert_eq!(reply.headers["content-type"], "application/protobuf");
        let response = TraceByIdResponse::decode(reply.body).unwrap();
        assert_eq!(
            names(&response.trace.unwrap()),
            ["llm_request", "POST /chat"]
        );
        let answer = served.json_of(&path).await;
        assert_eq!(answer["metrics"], json!({}));
        assert_eq!(
            answer["trace"]["resourceSpans"].as_array().unwrap().len(),
            2
        );
    }
    let path = format!("/tempo/api/traces/{A}");
    let reply = served.get_with(&path, &accept).await;
    assert_eq!(
        names(&TracesData::decode(reply.body).unwrap()),
        ["llm_request", "POST /chat"]
    );
    let answer = served.json_of(&path).await;
    assert_eq!(answer["batches"].as_array().unwrap().len(), 2);

    let reply = served.get("/tempo/api/v2/traces/c").await;
    assert_eq!(reply.status, 404);
    assert!(reply.text().contains("is unknown"), "{}", reply.text());
}

/// Ids of the traces that a search finds.
async fn found(served: &Served, parameters: &str) -> Vec<String> {
    let answer = served
        .json_of(&format!("/tempo/api/search?{parameters}&{TEMPO_TIME}"))
        .await;
    texts(&answer["traces"], "traceID")
}

#[tokio::test]
async fn searches_by_traceql_find_traces() {
    let served = served().await;
    for (query, ids) in [
        ("{}", vec![A, B]),
        (
            "{resource.service.name=\"gateway\" && name=\"POST /chat\" && duration>1s && status=error && span.tenant=~\"o'.*\"}",
            vec![A],
        ),
        (
            "{resource.service.name=\"gateway\" && name=\"llm_request\"}",
            vec![],
        ),
        ("{name=~\"llm.*|step\"}", vec![A, B]),
        ("{name!~\"llm.*\" && name!=\"POST /chat\"}", vec![B]),
        (
            "{span.retries>2 && span.retries<=3 && span.retries=3}",
            vec![A],
        ),
        ("{span.retries>3}", vec![]),
        ("{span.http.response.status_code>=500}", vec![A]),
        ("{.zone=\"a\"}", vec![A]),
        ("{resource.zone!=\"b\"}", vec![A]),
        ("{span.zone=\"a\"}", vec![]),
        ("{(kind=server || kind=client)}", vec![A]),
        ("{status=unset}", vec![B]),
        ("{resource.service.name=nil}", vec![B]),
        ("{nestedSetParent<0}", vec![A, B]),
        ("{span:parentID=\"0000000000000001\"}", vec![A]),
        ("{instrumentation:name=\"lib\"}", vec![A]),
        ("{trace:id=\"0000000000000000000000000000000B\"}", vec![B]),
        ("{span.gen_ai.request.model=\"qwen\"}", vec![A]),
        ("{traceDuration>1s && rootServiceName=\"gateway\"}", vec![A]),
        ("{traceDuration<1s || name=\"llm_request\"}", vec![A, B]),
        ("{trace:rootName=~\"s.*\"}", vec![B]),
        ("{span.tenant=\"o'neil \\\"x\\\"\"}", vec![A]),
    ] {
        assert_eq!(
            found(&served, &format!("q={}", encoded(query))).await,
            ids,
            "{query}"
        );
    }
}

#[tokio::test]
async fn searches_by_tags_take_a_part_of_the_value_in_any_case() {
    let served = served().await;
    for (tags, ids) in [
        ("service.name=GATE", vec![A]),
        ("service.name=gateway tenant=\"NEIL \\\"x\"", vec![A]),
        ("service.name=gateway zone=b", vec![]),
        ("name=step", vec![B]),
        ("error=true", vec![A]),
        ("status.code=unset", vec![B]),
        ("http.response.status_code=50", vec![A]),
        ("root.name=chat", vec![A]),
    ] {
        assert_eq!(
            found(&served, &format!("tags={}", encoded(tags))).await,
            ids,
            "{tags}"
        );
    }
    assert_eq!(found(&served, "minDuration=1s").await, [A]);
    assert_eq!(found(&served, "maxDuration=1s&minDuration=5ms").await, [B]);
}

#[tokio::test]
async fn a_result_has_the_trace_in_short_and_its_matching_spans() {
    let served = served().await;
    let query = encoded("{status=error && resource.service.name=~\".*\" && .zone!=\"x\"}");
    let answer = served
        .json_of(&format!(
            "/api/search?q={query}&limit=1&spss=1&{TEMPO_TIME}"
        ))
        .await;
    let text = |key: &str, value: &str| json!({"key": key, "value": {"stringValue": value}});
    assert_eq!(
        answer,
        json!({"metrics": {}, "traces": [{
            "traceID": A,
            "rootServiceName": "gateway",
            "rootTraceName": "POST /chat",
            "startTimeUnixNano": "1767225600000000000",
            "durationMs": 2500,
            "serviceStats": {
                "gateway": {"spanCount": 1, "errorCount": 1},
                "engine": {"spanCount": 1, "errorCount": 1},
            },
            "spanSets": [{"matched": 1, "spans": [{
                "spanID": "0000000000000001",
                "name": "POST /chat",
                "startTimeUnixNano": "1767225600000000000",
                "durationNanos": "2500000000",
                "attributes": [text("status", "error"), text("service.name", "gateway"), text("zone", "a")],
            }]}],
        }]})
    );
}

#[tokio::test]
async fn keys_are_those_of_the_time() {
    let served = served().await;
    let scopes = served
        .json_of(&format!(
            "/tempo/api/v2/search/tags?limit=5000&{TEMPO_TIME}"
        ))
        .await;
    let scope = |name: &str| {
        let scopes = scopes["scopes"].as_array().unwrap();
        let scope = scopes.iter().find(|scope| scope["name"] == name).unwrap();
        let mut tags: Vec<_> = scope["tags"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tag| tag.as_str().unwrap())
            .collect();
        tags.sort_unstable();
        tags
    };
    assert_eq!(scope("resource"), ["service.name", "zone"]);
    assert_eq!(
        scope("span"),
        [
            "exception.type",
            "gen_ai.request.model",
            "http.response.status_code",
            "retries",
            "tenant"
        ]
    );
    assert!(scope("intrinsic").contains(&"traceDuration"));
    let resource = served
        .json_of(&format!(
            "/tempo/api/search/tags?scope=resource&{TEMPO_TIME}"
        ))
        .await;
    assert_eq!(resource["tagNames"], json!(["service.name", "zone"]));
}

#[tokio::test]
async fn values_are_those_of_the_time_and_of_the_condition() {
    let served = served().await;
    for (tag, query, r#type, values) in [
        (
            "resource.service.name",
            "",
            "string",
            json!(["engine", "gateway"]),
        ),
        (
            "service.name",
            "{resource.service.name=}",
            "string",
            json!(["engine", "gateway"]),
        ),
        (".zone", "{name=\"POST /chat\"}", "string", json!(["a"])),
        ("span.retries", "{}", "string", json!(["3"])),
        ("span%252Eretries", "", "string", json!(["3"])),
        (
            "span.http.response.status_code",
            "",
            "string",
            json!(["500"]),
        ),
        ("status", "", "keyword", json!(["error", "unset"])),
        (
            "name",
            "{resource.service.name=\"engine\"}",
            "string",
            json!(["llm_request"]),
        ),
        ("duration", "", "string", json!([])),
        ("span.none", "", "string", json!([])),
    ] {
        let path = format!("tag/{tag}/values?q={}&{TEMPO_TIME}", encoded(query));
        let typed = served
            .json_of(&format!("/tempo/api/v2/search/{path}"))
            .await;
        let mut expected: Vec<Value> = Vec::new();
        for value in values.as_array().unwrap() {
            expected.push(json!({"type": r#type, "value": value}));
        }
        assert_eq!(typed["tagValues"], Value::from(expected), "{tag}");
        let plain = served.json_of(&format!("/tempo/api/search/{path}")).await;
        assert_eq!(plain["tagValues"], values, "{tag}");
    }
}

#[tokio::test]
async fn health_and_version_are_answered() {
    let served = served().await;
    for root in ["", "/tempo"] {
        assert_eq!(served.get(&format!("{root}/api/echo")).await.text(), "echo");
        let build = served
            .json_of(&format!("{root}/api/status/buildinfo"))
            .await;
        assert!(
            build["version"].as_str().unwrap().starts_with("2."),
            "{build}"
        );
    }
    assert_eq!(served.get("/tempo/ready").await.text(), "ready\n");
}
