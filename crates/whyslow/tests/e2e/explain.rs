//! Scenario: captured traffic with the scrapes of the same minutes is stored, and single requests are explained.
//!
//! Guarantee: a request that waited in the burst is told so, with what its engine said at that time; one whose trace
//! context was lost is stitched by its request id; a trace of which nothing is stored is an error that says so.

use serde_json::Value;

use crate::evidence::send_all;
use crate::harness::{ALL, Site, capture, succeed, whyslow};

fn explain(site: &Site, trace_id: &str) -> Value {
    let tables = site.tables();
    let mut command = whyslow();
    command.args(["explain", trace_id, "--format", "json", "--data"]);
    let output = succeed(command.arg(tables));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn trace_id(site: &Site, sql: &str) -> String {
    site.stored(sql)[0][0].as_str().unwrap().to_owned()
}

#[test]
fn a_request_of_the_burst_is_told_that_it_queued_and_what_the_engine_said() {
    let site = Site::new(ALL);
    let server = site.serve();
    send_all(&server);
    server.stop();
    let waited_longest = "SELECT trace_id FROM requests ORDER BY queue_s DESC NULLS LAST LIMIT 1";
    let trace_id = trace_id(&site, waited_longest);
    let said = explain(&site, &trace_id);
    assert_eq!(said["verdict"], "queueing", "{said:#}");
    assert_eq!(said["slow_phase"], "queue", "{said:#}");
    assert_eq!(said["course"]["link"], "trace_context", "{said:#}");
    let hypotheses = said["hypotheses"].as_array().unwrap();
    let queueing = hypotheses
        .iter()
        .find(|each| each["cause"] == "queueing")
        .unwrap();
    let facts = queueing["for"].to_string();
    assert!(
        facts.contains("requests waited") && facts.contains("preemptions"),
        "{facts}"
    );

    let output = succeed(
        whyslow()
            .args(["explain", &trace_id, "--data"])
            .arg(site.tables()),
    );
    let text = String::from_utf8(output.stdout).unwrap();
    for part in [
        "Verdict: queueing",
        "exceeds the usual most",
        "rag-api",
        "requests waited",
    ] {
        assert!(text.contains(part), "no `{part}` in: {text}");
    }
}

#[test]
fn a_request_whose_context_was_lost_is_stitched_by_its_id() {
    let site = Site::new(ALL);
    let server = site.serve();
    server.replay(&capture("real-broken"), "grpc", false);
    server.stop();
    let calls = "SELECT trace_id FROM spans WHERE gen_ai_response_id IS NOT NULL \
                 AND trace_id NOT IN (SELECT trace_id FROM requests WHERE position = 'engine') GROUP BY trace_id ORDER BY trace_id";
    let calls = site.stored(calls);
    let mut n_stitched = 0;
    for call in calls.iter().take(8) {
        let said = explain(&site, call[0].as_str().unwrap());
        n_stitched += usize::from(said["course"]["link"] == "request_id");
    }
    assert!(n_stitched >= 6, "{n_stitched} of {}", calls.len());
}

#[test]
fn a_trace_of_which_nothing_is_stored_is_an_error() {
    let site = Site::new(ALL);
    let server = site.serve();
    server.replay(&capture("real-broken"), "grpc", false);
    server.stop();
    let output = whyslow()
        .args(["explain", "0123456789abcdef0123456789abcdef", "--data"])
        .arg(site.tables())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        error.contains("nothing is stored about trace 0123456789abcdef"),
        "{error}"
    );
}
