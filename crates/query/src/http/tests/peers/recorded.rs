//! The requests that Grafana's data sources and the Jaeger UI send, over captured traffic moved to the present.
//!
//! The addresses are as the programs make them: Grafana 12's `pkg/tsdb/jaeger` (`client.go`, and `grpc_client.go` behind
//! its toggle), `pkg/tsdb/tempo` and `public/app/plugins/datasource/tempo`; the Jaeger UI's `src/api/jaeger.ts` and
//! `src/api/v3/client.ts`.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use otlp::{Signal, retime};
use serde_json::Value;

use super::super::{Served, listen};
use super::encoded;
use crate::tests::support::{captured, config, fixture, spans_with};

/// A trace of four services, and how many spans of it there are.
const TRACE: &str = "112d4095eced8ded2bfa1f10856aab1d";
const SPANS: usize = 994;

/// Earliest start and latest end of what is served, in nanoseconds.
struct Times {
    start: u64,
    end: u64,
}

#[expect(
    clippy::disallowed_methods,
    reason = "requests without a time are about the last hours"
)]
fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(now.as_nanos()).unwrap()
}

/// The capture, ending a minute ago.
async fn served() -> (Served, Times) {
    let fixture = fixture(&config()).await;
    let mut bodies = captured("real-chain");
    let ranges = bodies
        .iter()
        .filter_map(|body| retime::time_range(body).unwrap());
    let (starts, ends): (Vec<u64>, Vec<u64>) = ranges.unzip();
    let (start, end) = (
        starts.into_iter().min().unwrap(),
        ends.into_iter().max().unwrap(),
    );
    let delta = i128::from(now()) - 60_000_000_000 - i128::from(end);
    let moved = |time: u64| u64::try_from(i128::from(time) + delta).unwrap();
    for (sequence, body) in (1..).zip(&mut bodies) {
        retime::shift(body, Signal::Traces, delta).unwrap();
        fixture.append("spans", sequence, spans_with(&Default::default(), body));
    }
    let address = listen(Arc::clone(&fixture.engine)).await;
    let times = Times {
        start: moved(start),
        end: moved(end),
    };
    (Served { fixture, address }, times)
}

/// What must be found in an answer.
type Check = fn(&Value) -> bool;

fn holds(list: &Value, text: &str) -> bool {
    list.as_array()
        .is_some_and(|items| items.iter().any(|item| item == text))
}

fn n(list: &Value) -> usize {
    list.as_array().map_or(0, Vec::len)
}

fn spans_of_otlp(resource_spans: &Value) -> usize {
    let resources = resource_spans.as_array().into_iter().flatten();
    let scopes =
        resources.flat_map(|resource| resource["scopeSpans"].as_array().into_iter().flatten());
    scopes.map(|scope| n(&scope["spans"])).sum()
}

/// Who sends it, the address, and what the answer must have. `{..}` stands for times in the unit of the program.
const RECORDED: &[(&str, &str, Check)] = &[
    (
        "Grafana Jaeger: test, services",
        "/jaeger/api/services",
        |answer| holds(&answer["data"], "rag-api") && answer["total"] == 4,
    ),
    (
        "Grafana Jaeger: operations",
        "/jaeger/api/services/vllm/operations",
        |answer| holds(&answer["data"], "llm_request"),
    ),
    (
        "Grafana Jaeger: search",
        "/jaeger/api/traces?limit=20&operation=llm_request&service=vllm",
        |answer| n(&answer["data"]) == 20,
    ),
    (
        "Grafana Jaeger: search with everything",
        "/jaeger/api/traces?end={end_us}&limit=3&maxDuration=1h&minDuration=100ms&service=vllm&start={start_us}\
         &tags=%7B%22span.kind%22%3A%22server%22%7D",
        |answer| n(&answer["data"]) == 3,
    ),
    (
        "Grafana Jaeger, older: search without the prefix",
        "/api/traces?limit=2&service=chat-web",
        |answer| n(&answer["data"]) == 2,
    ),
    (
        "Grafana Jaeger: trace",
        "/jaeger/api/traces/{id}",
        |answer| n(&answer["data"]) == 1 && n(&answer["data"][0]["spans"]) == SPANS,
    ),
    (
        "Grafana Jaeger: trace with a time",
        "/jaeger/api/traces/{id}?end={end_us}&start={start_us}",
        |answer| answer["data"][0]["processes"].as_object().unwrap().len() == 4,
    ),
    (
        "Grafana Jaeger: dependencies",
        "/jaeger/api/dependencies?endTs={end_ms}&lookback=21600000",
        |answer| {
            let calls = answer["data"].as_array().unwrap().iter();
            calls
                .clone()
                .any(|call| call["parent"] == "rag-api" && call["child"] == "vllm")
        },
    ),
    (
        "Grafana Jaeger, toggle: services",
        "/jaeger/api/v3/services",
        |answer| n(&answer["services"]) == 4,
    ),
    (
        "Grafana Jaeger, toggle: operations",
        "/jaeger/api/v3/operations?service=vllm",
        |answer| answer["operations"][0]["spanKind"] == "server",
    ),
    (
        "Grafana Jaeger, toggle: trace",
        "/jaeger/api/v3/traces/{id}?start_time={start_iso}&end_time={end_iso}",
        |answer| spans_of_otlp(&answer["result"]["resourceSpans"]) == SPANS,
    ),
    (
        "Grafana Jaeger, toggle: search",
        "/jaeger/api/v3/traces?query.service_name=vllm&query.num_traces=2&query.start_time_min={start_iso}\
         &query.start_time_max={end_iso}",
        |answer| spans_of_otlp(&answer["result"]["resourceSpans"]) > 2,
    ),
    ("Jaeger UI: services", "/api/v3/services", |answer| {
        holds(&answer["services"], "chat-web")
    }),
    (
        "Jaeger UI: operations",
        "/api/v3/operations?service=rag-api",
        |answer| n(&answer["operations"]) > 3,
    ),
    (
        "Jaeger UI: search",
        "/api/v3/trace-summaries?query.service_name=rag-api&query.start_time_min={start_iso}&query.start_time_max={end_iso}\
         &query.num_traces=20&query.duration_min=1ms",
        |answer| {
            let summaries = answer["summaries"].as_array().unwrap();
            let is_whole =
                |short: &Value| short["spanCount"].as_u64() > Some(1) && n(&short["services"]) > 1;
            summaries.len() == 20 && summaries.iter().all(is_whole)
        },
    ),
    (
        "Jaeger UI: search, names of today",
        "/api/v3/trace-summaries?query.serviceName=vllm&query.operationName=llm_request\
         &query.startTimeMin={start_iso}&query.startTimeMax={end_iso}&query.searchDepth=20",
        |answer| n(&answer["summaries"]) == 20,
    ),
    ("Jaeger UI: trace", "/api/traces/{id}", |answer| {
        n(&answer["data"][0]["spans"]) == SPANS
    }),
    (
        "Jaeger UI: operations of servers",
        "/api/operations?service=vllm&spanKind=server",
        |answer| answer["data"][0]["name"] == "llm_request",
    ),
    (
        "Jaeger UI: dependencies",
        "/api/dependencies?endTs={end_ms}&lookback=604800000",
        |answer| n(&answer["data"]) >= 3,
    ),
    (
        "Jaeger UI, older: search",
        "/api/traces?end={end_us}&limit=2&lookback=1h&maxDuration&minDuration&service=vllm&start={start_us}",
        |answer| n(&answer["data"]) == 2,
    ),
    (
        "Grafana Tempo: version",
        "/tempo/api/status/buildinfo",
        |answer| answer["version"].is_string(),
    ),
    (
        "Grafana Tempo: search builder",
        "/tempo/api/search?end={end_s}&limit=20&q={resource.service.name=\"vllm\" && name=\"llm_request\" && duration>10ms}\
         &spss=3&start={start_s}",
        |answer| n(&answer["traces"]) == 20 && answer["traces"][0]["spanSets"][0]["matched"] == 1,
    ),
    (
        "Grafana Tempo: search builder, several values",
        "/tempo/api/search?end={end_s}&limit=5&q={(resource.service.name=\"vllm\" || resource.service.name=\"rag-api\") \
         && status=error}&spss=10&start={start_s}",
        |answer| n(&answer["traces"]) == 5 && answer["traces"][0]["rootServiceName"].is_string(),
    ),
    (
        "Grafana Tempo: search without conditions",
        "/tempo/api/search?end={end_s}&limit=20&q={}&start={start_s}",
        |answer| n(&answer["traces"]) == 20,
    ),
    (
        "Grafana Tempo: keys",
        "/tempo/api/v2/search/tags?limit=5000",
        |answer| {
            answer["scopes"][0]["name"] == "resource"
                && holds(&answer["scopes"][0]["tags"], "service.name")
        },
    ),
    (
        "Grafana Tempo: values",
        "/tempo/api/v2/search/tag/resource.service.name/values?limit=5000&q={}&start={start_s}&end={end_s}",
        |answer| n(&answer["tagValues"]) == 4,
    ),
    (
        "Grafana Tempo: values beside a condition",
        "/tempo/api/v2/search/tag/name/values?limit=5000&q={resource.service.name=\"vllm\"}",
        |answer| answer["tagValues"][0]["value"] == "llm_request",
    ),
    (
        "Grafana Tempo: trace as JSON",
        "/tempo/api/v2/traces/{id}?start={start_s}&end={end_s}",
        |answer| spans_of_otlp(&answer["trace"]["resourceSpans"]) == SPANS,
    ),
];

fn iso(nanos: u64) -> String {
    let nanos = i64::try_from(nanos).unwrap();
    let time = arrow::temporal_conversions::timestamp_ns_to_datetime(nanos).unwrap();
    format!("{}Z", time.format("%Y-%m-%dT%H:%M:%S%.3f"))
}

#[tokio::test]
async fn requests_of_grafana_and_of_the_jaeger_ui_are_answered() {
    let (served, times) = served().await;
    let Times { start, end } = times;
    for (who, address, check) in RECORDED {
        let mut address = (*address).to_owned();
        for (name, value) in [
            ("{id}", TRACE.to_owned()),
            ("{start_us}", (start / 1_000).to_string()),
            ("{end_us}", (end / 1_000).to_string()),
            ("{end_ms}", (end / 1_000_000).to_string()),
            ("{start_s}", (start / 1_000_000_000).to_string()),
            ("{end_s}", (end / 1_000_000_000 + 1).to_string()),
            ("{start_iso}", iso(start)),
            ("{end_iso}", iso(end)),
        ] {
            address = address.replace(name, &value);
        }
        // Clients encode what they put into a query.
        if let Some((before, query)) = address.clone().split_once("q={") {
            let (query, after) = query.split_once('}').unwrap();
            address = format!("{before}q={}{after}", encoded(&format!("{{{query}}}")));
        }
        let answer = served.json_of(&address).await;
        let shown = answer.to_string();
        let shown = shown.get(..600).unwrap_or(&shown);
        assert!(check(&answer), "{who}: {address}: {shown}");
    }
}
