//! The APIs of Jaeger and Tempo over a few spans, and over captured traffic.

mod hostile;
mod jaeger;
mod recorded;
mod tempo;

use std::sync::Arc;

use axum::http::Method;
use otlp::Signal;
use otlp::export::Limits;
use otlp::json::to_protobuf;
use serde_json::{Value, json};

use super::{Reply, Served, listen};
use crate::Config;
use crate::tests::support::{Cell, NEW_YEAR, batch, config, fixture, row, spans_with};

const A: &str = "0000000000000000000000000000000a";
const B: &str = "0000000000000000000000000000000b";

/// Two traces at new year. In the first a gateway calls an engine, which fails; the second is one span without a
/// service, five seconds later.
fn two_traces() -> Value {
    let text = |key: &str, value: &str| json!({"key": key, "value": {"stringValue": value}});
    json!({"resourceSpans": [
        {
            "resource": {"attributes": [text("service.name", "gateway"), text("zone", "a")]},
            "scopeSpans": [{
                "scope": {"name": "lib", "version": "1.2"},
                "spans": [{
                    "traceId": "0000000000000000000000000000000a",
                    "spanId": "0000000000000001",
                    "traceState": "k=v",
                    "flags": 257,
                    "name": "POST /chat",
                    "kind": 2,
                    "startTimeUnixNano": "1767225600000000000",
                    "endTimeUnixNano": "1767225602500000000",
                    "attributes": [
                        {"key": "http.response.status_code", "value": {"intValue": "500"}},
                        text("tenant", "o'neil \"x\""),
                        {"key": "retries", "value": {"intValue": "3"}}
                    ],
                    "status": {"code": 2, "message": "no answer"}
                }]
            }]
        },
        {
            "resource": {"attributes": [text("service.name", "engine")]},
            "scopeSpans": [{
                "scope": {},
                "spans": [{
                    "traceId": "0000000000000000000000000000000a",
                    "spanId": "0000000000000002",
                    "parentSpanId": "0000000000000001",
                    "name": "llm_request",
                    "kind": 3,
                    "startTimeUnixNano": "1767225600100000000",
                    "endTimeUnixNano": "1767225601100000000",
                    "attributes": [text("gen_ai.request.model", "qwen")],
                    "events": [{
                        "timeUnixNano": "1767225600200000000",
                        "name": "exception",
                        "attributes": [text("exception.type", "OOM")]
                    }],
                    "links": [{
                        "traceId": "0000000000000000000000000000000b",
                        "spanId": "0000000000000003"
                    }],
                    "status": {"code": 2}
                }]
            }]
        },
        {
            "resource": {},
            "scopeSpans": [{
                "scope": {},
                "spans": [{
                    "traceId": "0000000000000000000000000000000b",
                    "spanId": "0000000000000003",
                    "name": "step",
                    "startTimeUnixNano": "1767225605000000000",
                    "endTimeUnixNano": "1767225605010000000",
                    "status": {}
                }]
            }]
        }
    ]})
}

/// Start and end of a time that holds both, in the forms of the APIs.
const JAEGER_TIME: &str = "start=1767225599000000&end=1767225699000000";
const V3_TIME: &str =
    "query.start_time_min=2025-12-31T23:59:59Z&query.start_time_max=2026-01-01T00:01:39Z";
const TEMPO_TIME: &str = "start=1767225599&end=1767225699";

async fn served_two(config: &Config) -> Served {
    let fixture = fixture(config).await;
    let body = two_traces().to_string();
    let body = to_protobuf(Signal::Traces, body.as_bytes(), &Limits::default()).unwrap();
    fixture.append("spans", 1, spans_with(&Default::default(), &body));
    let of_trace = |id, duration_ns, service: Option<&'static str>, name| {
        let service = service.map_or(Cell::Null, Cell::Text);
        row(
            NEW_YEAR,
            &[
                ("trace_id", Cell::Text(id)),
                ("duration_ns", Cell::Int(duration_ns)),
                ("root_service_name", service),
                ("root_name", Cell::Text(name)),
            ],
        )
    };
    let rows = [
        of_trace(A, 2_500_000_000, Some("gateway"), "POST /chat"),
        of_trace(B, 10_000_000, None, "step"),
    ];
    fixture.append("traces", 1, batch("traces", &rows));
    let address = listen(Arc::clone(&fixture.engine)).await;
    Served { fixture, address }
}

impl Served {
    async fn get(&self, path: &str) -> Reply {
        self.get_with(path, &[]).await
    }

    async fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Reply {
        let reply = self.send(Method::GET, path, headers, "").await;
        reply.unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// The JSON of a request that must succeed.
    async fn json_of(&self, path: &str) -> Value {
        let reply = self.get(path).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        reply.json()
    }
}

/// A text as it stands in an address.
fn encoded(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// Sorted texts of one member of each item.
fn texts(items: &Value, member: &str) -> Vec<String> {
    let items = items
        .as_array()
        .unwrap_or_else(|| panic!("no list: {items}"));
    let texts = items
        .iter()
        .map(|item| item[member].as_str().unwrap_or("-").to_owned());
    let mut texts: Vec<String> = texts.collect();
    texts.sort();
    texts
}

/// By default nobody needs more.
async fn served() -> Served {
    served_two(&config()).await
}
