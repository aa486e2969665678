//! One trace, in every format, and what is said where there is none.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::ipc::reader::StreamReader;
use axum::http::{Method, StatusCode};
use opentelemetry_proto::tonic::trace::v1::TracesData;
use otlp::testing::{AnyValue, TimeSpan as _, tid, trace};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use prost::Message as _;
use serde_json::json;
use tables::redact;

use super::{Reply, Served, listen};
use crate::Config;
use crate::tests::support::{
    Cell, Fixture, NEW_YEAR, SECOND, batch, config, fixture, row, spans_with,
};

/// A trace of a gateway and an engine with `n_chunks` spans of chunks, its request, its GPU and its engine.
fn fill(fixture: &Fixture, n_chunks: usize) {
    let start = u64::try_from(NEW_YEAR).unwrap();
    let mut export = trace(1).service("gateway").span("POST /v1", 5_000.ms());
    export = export.times(start, start + 5_000_000_000);
    for chunk in 0..u64::try_from(n_chunks).unwrap() {
        let at = start + chunk * 1_000;
        export = export.span("http send", 1.ms()).times(at, at + 1_500);
    }
    export = export
        .service("vllm")
        .span("llm_request", 4_000.ms())
        .id(7_000_000)
        .times(start + 500_000_000, start + 4_500_000_000)
        .attribute("gen_ai.usage.prompt_tokens", AnyValue::Int(17));
    let body = export.build();
    fixture.append("spans", 1, spans_with(&redact::Config::default(), &body));
    let span_id = otlp::testing::sid(7_000_000).to_string();
    let id = || Cell::Owned(tid(1).to_string());
    let request = [
        ("trace_id", id()),
        ("span_id", Cell::Owned(span_id.clone())),
        ("position", Cell::Text("engine")),
        ("k8s_pod_name", Cell::Text("vllm-0")),
        ("queue_s", Cell::Float(1.0)),
        ("prefill_s", Cell::Float(0.5)),
        ("decode_s", Cell::Float(2.5)),
        ("e2e_s", Cell::Float(4.0)),
        ("duration_ns", Cell::Int(4 * SECOND)),
    ];
    let other = [
        ("trace_id", Cell::Owned(tid(2).to_string())),
        ("span_id", Cell::Owned("00000000000000aa".to_owned())),
        ("position", Cell::Text("engine")),
        ("e2e_s", Cell::Float(1.0)),
    ];
    let rows = [row(NEW_YEAR + SECOND / 2, &request), row(NEW_YEAR, &other)];
    fixture.append("requests", 1, batch("requests", &rows));
    let held = [
        ("trace_id", id()),
        ("span_id", Cell::Owned(span_id)),
        ("gpu_uuid", Cell::Text("GPU-a")),
    ];
    fixture.append("evidence", 1, batch("evidence", &[row(NEW_YEAR, &held)]));
    let gpu = [
        ("gpu_uuid", Cell::Text("GPU-a")),
        ("util_pct", Cell::Float(97.0)),
    ];
    fixture.append(
        "gpu_samples",
        1,
        batch("gpu_samples", &[row(NEW_YEAR + SECOND, &gpu)]),
    );
    let gauges = [
        ("k8s_pod_name", Cell::Text("vllm-0")),
        ("engine", Cell::Text("vllm")),
        ("requests_running", Cell::Int(8)),
    ];
    fixture.append(
        "engine_samples",
        1,
        batch("engine_samples", &[row(NEW_YEAR + SECOND, &gauges)]),
    );
    decide(fixture);
}

/// What became of three traces, of which the first has spans.
fn decide(fixture: &Fixture) {
    let decided = |number, decision| {
        let trace_id = ("trace_id", Cell::Owned(tid(number).to_string()));
        row(NEW_YEAR, &[trace_id, ("decision", Cell::Text(decision))])
    };
    let rows = [
        decided(1, "sampled"),
        decided(2, "not_sampled"),
        decided(3, "sampled"),
    ];
    fixture.append("traces", 1, batch("traces", &rows));
}

async fn filled(config: &Config, n_chunks: usize) -> Served {
    let fixture = fixture(config).await;
    fill(&fixture, n_chunks);
    let address = listen(Arc::clone(&fixture.engine)).await;
    Served { fixture, address }
}

async fn fetch(served: &Served, path: &str, accept: &str) -> Reply {
    let headers = [("accept", accept)];
    served.send(Method::GET, path, &headers, "").await.unwrap()
}

fn path(query: &str) -> String {
    format!("/v1/traces/{}{query}", tid(1))
}

#[tokio::test]
async fn every_format_has_every_span() {
    const N_SPANS: usize = 3_002;
    let served = filled(&config(), N_SPANS - 2).await;
    for (query, accept, content_type) in [
        ("", "*/*", "application/json"),
        ("", "application/protobuf", "application/x-protobuf"),
        (
            "?format=arrow",
            "*/*",
            "application/vnd.apache.arrow.stream",
        ),
        (
            "?format=parquet",
            "text/html",
            "application/vnd.apache.parquet",
        ),
    ] {
        let reply = fetch(&served, &path(query), accept).await;
        assert_eq!(reply.status, StatusCode::OK, "{query} {accept}");
        assert_eq!(reply.headers["content-type"], content_type);
        let n_spans = match content_type {
            "application/json" => {
                let spans = reply.json()["resourceSpans"].as_array().unwrap().clone();
                let spans = spans
                    .iter()
                    .flat_map(|all| all["scopeSpans"].as_array().unwrap());
                spans
                    .map(|scope| scope["spans"].as_array().unwrap().len())
                    .sum()
            }
            "application/x-protobuf" => {
                let all = TracesData::decode(reply.body.clone())
                    .unwrap()
                    .resource_spans;
                let scopes = all.iter().flat_map(|all| &all.scope_spans);
                scopes.map(|scope| scope.spans.len()).sum()
            }
            "application/vnd.apache.arrow.stream" => {
                let reader = StreamReader::try_new(&*reply.body, None).unwrap();
                reader.map(|batch| batch.unwrap().num_rows()).sum::<usize>()
            }
            _ => {
                let reader = ParquetRecordBatchReaderBuilder::try_new(reply.body.clone()).unwrap();
                let reader = reader.build().unwrap();
                reader.map(|batch| batch.unwrap().num_rows()).sum::<usize>()
            }
        };
        assert_eq!(n_spans, N_SPANS, "{content_type}");
    }
    let reply = fetch(&served, &path(""), "text/html").await;
    assert_eq!(
        (reply.status.as_u16(), reply.code().as_str()),
        (406, "not_acceptable")
    );
}

#[tokio::test]
async fn a_perfetto_file_has_services_phases_gpus_and_engines() {
    let served = filled(&config(), 10).await;
    let reply = fetch(&served, &path("?format=perfetto"), "*/*").await;
    let file = reply.json();
    let events = file["traceEvents"].as_array().unwrap();
    let named = |ph: &str, key: &str| -> BTreeSet<String> {
        let of = events.iter().filter(|event| event["ph"] == ph);
        of.filter_map(|event| event.pointer(key)?.as_str().map(str::to_owned))
            .collect()
    };
    let processes = named("M", "/args/name");
    assert_eq!(
        processes,
        ["GPU GPU-a", "gateway", "vllm", "vllm vllm-0"]
            .map(str::to_owned)
            .into()
    );
    let phases = named("b", "/name");
    for phase in ["queue", "prefill", "decode", "phases of llm_request"] {
        assert!(phases.contains(phase), "{phases:?}");
    }
    let gauges = named("C", "/name");
    assert_eq!(
        gauges,
        ["requests_running", "util_pct"].map(str::to_owned).into()
    );
    assert_eq!(events.iter().filter(|event| event["ph"] == "X").count(), 12);
    // Begins 0.5 s after the root; queued for a second of that.
    let prefill = events
        .iter()
        .find(|event| event["name"] == "prefill")
        .unwrap();
    assert_eq!(prefill["ts"], json!(1_500_000.0));
    // Slices of one lane lie within each other or apart.
    let mut lanes: BTreeMap<(u64, u64), Vec<(f64, f64)>> = BTreeMap::new();
    for event in events.iter().filter(|event| event["ph"] == "X") {
        let of = |key: &str| event[key].as_f64().unwrap();
        let lane = lanes.entry((
            event["pid"].as_u64().unwrap(),
            event["tid"].as_u64().unwrap(),
        ));
        lane.or_default().push((of("ts"), of("ts") + of("dur")));
    }
    for spans in lanes.values() {
        for (at, (from, to)) in spans.iter().enumerate() {
            for (other_from, other_to) in &spans[at + 1..] {
                let is_apart = other_from >= to;
                let is_within = other_from >= from && other_to <= to;
                assert!(is_apart || is_within, "{spans:?}");
            }
        }
    }
}

#[tokio::test]
async fn an_id_in_any_form_finds_the_trace() {
    let served = filled(&config(), 0).await;
    let id = tid(1).to_string();
    let short = id.trim_start_matches('0').to_owned();
    let (first, rest) = id.split_at(8);
    for form in [
        id.to_uppercase(),
        format!("00-{id}-00f067aa0ba902b7-01"),
        format!("{first}-{rest}"),
        format!("%20{id}%0A"),
        id.replacen('0', "%30", 1),
        short,
    ] {
        let reply = fetch(&served, &format!("/v1/traces/{form}"), "*/*").await;
        assert_eq!(reply.status, StatusCode::OK, "{form}: {}", reply.text());
    }
}

#[tokio::test]
async fn a_trace_that_is_not_there_is_said_to_be_unknown_not_kept_or_gone() {
    let served = filled(&config(), 0).await;
    for (number, door, code) in [
        (2, "traces", "trace_not_kept"),
        (3, "traces", "trace_without_spans"),
        (4, "traces", "unknown_trace"),
        (3, "explain", "trace_without_spans"),
        (4, "explain", "unknown_trace"),
    ] {
        let reply = fetch(&served, &format!("/v1/{door}/{}", tid(number)), "*/*").await;
        let found = (reply.status.as_u16(), reply.code());
        assert_eq!(found, (404, code.to_owned()), "{}", reply.text());
        let text = reply.json()["error"]["message"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(text.contains(&tid(number).to_string()), "{text}");
    }
}

#[tokio::test]
async fn a_trace_beyond_the_limit_is_refused_whole() {
    let limited = Config {
        trace_spans_max: 10,
        ..config()
    };
    let served = filled(&limited, 20).await;
    let reply = fetch(&served, &path(""), "*/*").await;
    assert_eq!(
        (reply.status.as_u16(), reply.code().as_str()),
        (422, "too_many_spans")
    );
}

#[tokio::test]
async fn every_request_is_explained_with_the_statement_behind_each_fact() {
    let served = filled(&config(), 10).await;
    let reply = fetch(&served, &format!("/v1/explain/{}", tid(1)), "*/*").await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text());
    let said = reply.json();
    assert_eq!(said["requests"], 1);
    let [one] = said["explanations"].as_array().unwrap().as_slice() else {
        panic!("{said:#}");
    };
    assert_eq!(one["trace_id"], tid(1).to_string());
    let facts = one["hypotheses"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|hypothesis| {
            ["for", "against"].map(|side| hypothesis[side].as_array().unwrap().clone())
        });
    let statements = facts
        .flatten()
        .filter_map(|fact| fact["sql"].as_str().map(str::to_owned));
    let mut statements: Vec<String> = statements.collect();
    statements.extend(one["cohort_sql"].as_str().map(str::to_owned));
    assert!(!statements.is_empty(), "{one:#}");
    for sql in statements {
        served.fixture.ask(&sql).await;
    }

    // Of a trace that was not kept, the request is there.
    let reply = fetch(&served, &format!("/v1/explain/{}", tid(2)), "*/*").await;
    assert_eq!(
        reply.json()["explanations"][0]["trace_id"],
        tid(2).to_string()
    );

    let explain = |span: &str| format!("/v1/explain/{}?span={span}", tid(1));
    let reply = fetch(&served, &explain("00000000000000bb"), "*/*").await;
    assert_eq!(
        (reply.status.as_u16(), reply.code().as_str()),
        (404, "unknown_request")
    );
    let reply = fetch(&served, &explain("'%20OR%201=1"), "*/*").await;
    assert_eq!(
        (reply.status.as_u16(), reply.code().as_str()),
        (400, "bad_span_id")
    );
}

/// What is no id is refused before anything is asked.
#[tokio::test]
async fn garbage_in_place_of_an_id_is_refused_and_nothing_is_asked() {
    let served = filled(&config(), 0).await;
    let huge = "a".repeat(30_000);
    let injections = [
        "'%20OR%20'1'='1",
        "4bf92f35'%3B%20DROP%20TABLE%20spans%3B--",
        "$1",
        "%00",
        "%FF%FE",
        "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "..%2F..%2F",
        "%25s%25n",
        "0",
        "-",
        "zz",
        huge.as_str(),
    ];
    for door in ["traces", "explain"] {
        for id in injections {
            let reply = fetch(&served, &format!("/v1/{door}/{id}"), "*/*").await;
            assert_eq!(reply.status.as_u16(), 400, "{id}: {}", reply.text());
            assert_eq!(reply.code(), "bad_trace_id", "{id}");
            assert!(reply.body.len() < 500, "{}", reply.text());
        }
    }
    let asked = |text: &str| text.contains("door=\"http\"");
    let counted = served.fixture.engine.metrics().render();
    let lines = counted
        .lines()
        .filter(|line| asked(line) && !line.ends_with(" 0"));
    assert_eq!(lines.count(), 0, "{counted}");
    let reply = fetch(&served, &path("?format=json&format=arrow"), "*/*").await;
    assert_eq!(
        (reply.status.as_u16(), reply.code().as_str()),
        (400, "bad_address")
    );
    let reply = fetch(&served, &path("?sql=1"), "*/*").await;
    assert_eq!(reply.code(), "bad_address");
}
