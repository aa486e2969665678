//! Scenario: calls to models and the engine requests that answered them, in one trace and over traces whose context was
//! lost.
//!
//! Guarantee: every engine request is linked to its gateway's call, and it is said how; a call that reached no engine is a
//! row with its outcome; nothing is counted twice. Kept or dropped, it is the same.

use otlp::export::Signal;
use otlp::prometheus::{self, Format, Limits, Scrape};
use serde_json::{Value, json};

use crate::evidence::post;
use crate::harness::{ALL, Server, Site, capture};
use crate::kill::send;

/// Keeps nothing of the broken capture but what failed.
const FAILED: &str =
    "      - {name: failed, type: status_code, status_code: {status_codes: [ERROR]}}\n";

/// Engine requests and calls of the broken capture by how they are linked.
const LINKS: &str = "SELECT link_method, count(DISTINCT engine_span_id) AS engine_requests, \
    count(DISTINCT call_span_id) AS calls, count(DISTINCT request_id_normalised) AS ids \
    FROM request_links GROUP BY link_method";

/// Calls without an engine request.
const ALONE: &str = "SELECT position, outcome, error_type, http_status_code, count(*) AS calls FROM requests \
    WHERE position <> 'engine' AND NOT wrapper GROUP BY ALL ORDER BY outcome";

fn shown(site: &Site, sql: &str) -> Value {
    let rows = json!(site.stored(sql));
    println!("{sql}\n{rows}");
    rows
}

/// The case's spans.
fn case(server: &Server, name: &str) {
    let testdata = concat!(env!("CARGO_MANIFEST_DIR"), "/../correlate/testdata");
    let path = format!("{testdata}/{name}.json");
    let json = std::fs::read(path).unwrap();
    let limits = otlp::export::Limits::default();
    let body = otlp::json::to_protobuf(Signal::Traces, &json, &limits).unwrap();
    send(server, &[body]);
}

fn stored_case(name: &str) -> Site {
    let site = Site::new(ALL);
    let server = site.serve();
    case(&server, name);
    server.stop();
    site
}

fn check_broken(site: &Site) {
    assert_eq!(shown(site, LINKS), json!([["request_id", 60, 56, 56]]));
    assert_eq!(
        shown(site, ALONE),
        json!([
            ["gateway", "cancelled", "ConnectionError", 200, 3],
            ["gateway", "error", "ContextWindowExceededError", 400, 3],
        ])
    );
    let rows =
        "SELECT position, wrapper, count(*) FROM requests GROUP BY ALL ORDER BY position, wrapper";
    assert_eq!(
        shown(site, rows),
        json!([
            ["engine", false, 60],
            ["gateway", false, 6],
            ["gateway", true, 56]
        ])
    );
    let in_traces = "SELECT sum(request_count) FROM traces";
    assert_eq!(shown(site, in_traces), json!([[60]]));
    // The gateway counts the tokens of 56 requests, the engine of the same; a sum has them once. The choices of one
    // request repeat its prompt.
    let tokens = "SELECT sum(output_tokens) FILTER (WHERE position = 'engine') - \
                  sum(output_tokens) FILTER (WHERE wrapper) FROM requests";
    assert_eq!(shown(site, tokens), json!([[0]]));
}

#[test]
fn engine_requests_whose_context_was_lost_are_stitched_to_their_gateways_calls() {
    let site = Site::new(ALL);
    let server = site.serve();
    server.replay(&capture("real-broken"), "grpc", false);
    server.stop();
    check_broken(&site);
}

/// Decided while they come, in many releases, and most of them dropped.
#[test]
fn they_are_stitched_in_dropped_traces_too() {
    let site = Site::new(FAILED)
        .deciding_after("300ms")
        .correlating("{stitch_wait: 5s}");
    let server = site.serve();
    server.replay(&capture("real-broken"), "grpc", false);
    server.eventually(
        "SELECT count(*) FROM requests WHERE position <> 'engine'",
        62,
    );
    server.await_decisions();
    server.stop();
    check_broken(&site);
    let dropped = "SELECT count(*) FROM requests WHERE decision <> 'sampled' AND wrapper";
    assert_eq!(shown(&site, dropped), json!([[56]]));
}

/// Killed while calls wait, whose engine requests are stored and not in the log any more: they find them all the same.
#[test]
fn calls_that_wait_when_the_process_is_killed_are_stitched_by_the_next() {
    let site = Site::new(FAILED)
        .deciding_after("300ms")
        .correlating("{stitch_wait: 15s}");
    let server = site.serve();
    server.replay(&capture("real-broken"), "grpc", false);
    server.eventually("SELECT count(DISTINCT trace_id) FROM traces", 218);
    server.kill();
    let server = site.serve();
    server.eventually(
        "SELECT count(*) FROM requests WHERE position <> 'engine'",
        62,
    );
    server.await_decisions();
    server.stop();
    check_broken(&site);
    let twice = "SELECT count(*) - count(DISTINCT span_id) FROM requests";
    assert_eq!(shown(&site, twice), json!([[0]]));
}

const OPERATIONS: &str = "SELECT engine_requests, attempts, failed_attempts, outcome, k8s_pod_names, \
    operation_ttft_s, input_tokens, output_tokens, input_tokens_computed, output_tokens_computed \
    FROM operations ORDER BY start_time, trace_id, operation_span_id";

#[test]
fn c37_attempts_are_one_operation() {
    let site = stored_case("C37");
    assert_eq!(
        shown(&site, OPERATIONS),
        json!([[
            3,
            3,
            2,
            "ok",
            "vllm-qwen-0,vllm-qwen-1",
            2.02,
            100,
            120,
            300,
            157
        ]])
    );
    let trace = "SELECT request_count, outcome, engine_ttft_s FROM traces";
    assert_eq!(shown(&site, trace), json!([[3, "ok", 0.21]]));
    let evidence =
        "SELECT k8s_pod_name, count(*) FROM evidence GROUP BY k8s_pod_name ORDER BY k8s_pod_name";
    assert_eq!(
        shown(&site, evidence),
        json!([["vllm-qwen-0", 2], ["vllm-qwen-1", 1]])
    );
}

#[test]
fn c38_calls_of_an_agent_count_once() {
    let site = stored_case("C38");
    let tokens = "SELECT trace_id, count(*) FILTER (WHERE position = 'engine') AS engine_requests, \
                  sum(input_tokens), sum(output_tokens) FROM requests WHERE NOT wrapper \
                  GROUP BY trace_id ORDER BY trace_id";
    assert_eq!(
        shown(&site, tokens),
        json!([
            ["7c000026a1b2c3d4e5f60718293a4b5c", 2, 130, 20],
            ["7c000edaa1b2c3d4e5f60718293a4b5c", 0, 11, 7],
        ])
    );
    let joined = "SELECT count(*) FROM evidence JOIN requests USING (trace_id, span_id)";
    assert_eq!(shown(&site, joined), json!([[2]]));
}

#[test]
fn c41_halves_are_one_request_each_with_its_own_gpu() {
    let site = Site::new(ALL);
    let server = site.serve();
    let text = include_str!("../../testdata/C41.prom");
    let scrape = Scrape {
        resource: &[("service.name", "dcgm")],
        scope: "test",
        time_unix_nano: 1_772_366_401_500_000_000,
    };
    let body =
        prometheus::to_protobuf(text.as_bytes(), Format::Text, &scrape, &Limits::default()).body;
    assert_eq!(post(&server.http, "/v1/metrics", &body), 200);
    server.eventually("SELECT count(*) FROM gpu_samples", 4);
    case(&server, "C41");
    server.stop();
    let halves = "SELECT e.k8s_pod_name, stage, util_pct_max FROM evidence AS e JOIN requests AS r \
                  ON r.span_id = e.span_id WHERE stage IS NOT NULL ORDER BY stage DESC";
    assert_eq!(
        shown(&site, halves),
        json!([["vllm-p-0", "prefill", 97.0], ["vllm-d-0", "decode", 63.0]])
    );
    assert_eq!(
        shown(&site, OPERATIONS),
        json!([
            [
                2,
                1,
                0,
                "ok",
                "vllm-d-0,vllm-p-0",
                0.56,
                4000,
                129,
                8000,
                130
            ],
            [1, null, 0, "ok", "vllm-d-0", null, 50, 5, 50, 5],
        ])
    );
    let lost =
        "SELECT request_id, call_span_id, link_method FROM requests WHERE request_id = 'cmpl-lost'";
    assert_eq!(shown(&site, lost), json!([["cmpl-lost", null, null]]));
}

#[test]
fn c43_reused_ids_are_told_apart_by_time() {
    let site = stored_case("C43");
    let links = "SELECT substr(call_trace_id, 5, 4), substr(engine_trace_id, 5, 4), link_method \
                 FROM request_links ORDER BY call_trace_id";
    assert_eq!(
        shown(&site, links),
        json!([
            ["10cd", "10ce", "request_id"],
            ["10d0", "10d1", "request_id"]
        ])
    );
    let alone = "SELECT substr(trace_id, 5, 4), outcome, array_to_string(quality, ',') FROM requests \
                 WHERE position = 'gateway' AND NOT wrapper";
    assert_eq!(
        shown(&site, alone),
        json!([["10cf", "ok", "engine_span_missing"]])
    );
}
