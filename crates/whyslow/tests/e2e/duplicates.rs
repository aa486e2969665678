//! Spans that come more than once, seen from SQL.

use otlp::export::{Limits, Signal};
use serde_json::Value;

use crate::harness::{ALL, Site};
use crate::kill::send;

/// The requests of C77 in order.
fn requests() -> Vec<Vec<u8>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/C77.json");
    let case: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let steps = case["steps"].as_array().unwrap().iter();
    let sent = steps.filter_map(|step| step.get("send"));
    sent.map(|request| {
        let json = serde_json::to_vec(request).unwrap();
        otlp::json::to_protobuf(Signal::Traces, &json, &Limits::default()).unwrap()
    })
    .collect()
}

/// Scenario: a request is sent again, the process is killed, a span comes once more after the decision, and then
/// another version of it with an error.
/// Guarantee: each span is one row and its tokens count once; the version with an error is a late row of its own.
#[test]
fn c77_copies_leave_one_row_each_and_an_error_is_not_lost() {
    let requests = requests();
    let site = Site::new(ALL).deciding_after("100ms");
    let server = site.serve();
    send(&server, &requests[..2]);
    server.eventually("SELECT count(*) FROM traces", 1);
    server.kill();

    let server = site.serve();
    server.eventually("SELECT count(*) FROM spans", 2);
    // Late copies, once before a restart and once after it.
    send(&server, &requests[2..3]);
    server.kill();
    let server = site.serve();
    send(&server, &requests[2..3]);
    server.stop();
    let of_trace = "SELECT count(*), count(DISTINCT span_id) FROM spans";
    assert_eq!(site.stored(of_trace), [[2, 2]]);
    let tokens = "SELECT sum(gen_ai_usage_output_tokens) FROM spans";
    assert_eq!(site.stored(tokens), [[40]]);
    assert_eq!(site.stored("SELECT sum(span_count) FROM traces"), [[2]]);

    let server = site.serve();
    send(&server, &requests[3..4]);
    send(&server, &requests[3..4]);
    server.eventually("SELECT count(*) FROM spans", 3);
    server.stop();
    let versions = "SELECT status_code, late FROM spans WHERE name = 'llm_request' ORDER BY late";
    let versions = serde_json::to_value(site.stored(versions)).unwrap();
    assert_eq!(
        versions,
        serde_json::json!([["UNSET", false], ["ERROR", true]])
    );
}
