//! Captured traffic in, and what an independent script computed from it out: exactly those traces,
//! all of their spans, and the engine's values number by number, over every protocol.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::harness::{SLOW_OR_FAILED, Site, capture};

/// What `expected.json` says.
struct Oracle(Value);

impl Oracle {
    fn read(name: &str) -> Self {
        let text = std::fs::read_to_string(capture(name).join("expected.json")).unwrap();
        Self(serde_json::from_str(&text).unwrap())
    }

    fn kept(&self) -> BTreeSet<String> {
        let kept = &self.0["decisions"]["latency>2000ms or status=ERROR"];
        serde_json::from_value(kept.clone()).unwrap()
    }

    fn traces(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.0["traces"].as_object().unwrap().iter()
    }
}

fn text(value: &Value) -> String {
    value
        .as_str()
        .unwrap_or_else(|| panic!("{value} is no text"))
        .to_owned()
}

/// Replays a capture, decides at shutdown, and compares the stored tables.
fn check(name: &str, protocol: &str, gzip: bool) {
    let oracle = Oracle::read(name);
    let site = Site::new(SLOW_OR_FAILED);
    let server = site.serve();
    server.replay(&capture(name), protocol, gzip);
    server.stop();

    spans_are_those_of_the_kept_traces(&site, &oracle);
    every_trace_leaves_a_row(&site, &oracle);
    requests_equal_the_oracle(&site, &oracle);
}

fn spans_are_those_of_the_kept_traces(site: &Site, oracle: &Oracle) {
    let sql = "SELECT trace_id, count(*), count(DISTINCT span_id) FROM spans GROUP BY trace_id";
    let stored: BTreeMap<String, (u64, u64)> = site
        .stored(sql)
        .iter()
        .map(|row| {
            (
                text(&row[0]),
                (row[1].as_u64().unwrap(), row[2].as_u64().unwrap()),
            )
        })
        .collect();
    let kept = oracle.kept();
    assert_eq!(stored.keys().cloned().collect::<BTreeSet<_>>(), kept);
    for (trace_id, trace) in oracle
        .traces()
        .filter(|(trace_id, _)| kept.contains(*trace_id))
    {
        let (spans, unique) = (
            trace["spans"].as_u64().unwrap(),
            trace["unique_spans"].as_u64().unwrap(),
        );
        assert_eq!(stored[trace_id], (spans, unique), "{trace_id}");
    }
}

fn every_trace_leaves_a_row(site: &Site, oracle: &Oracle) {
    let sql = "SELECT trace_id, span_count, duration_ns, error, root_count, orphan_count, \
               array_to_string(array_sort(services), ','), decision, request_count, \
               start_time_unix_nano FROM traces";
    let rows = site.stored(sql);
    assert_eq!(rows.len(), oracle.traces().count());
    let rows: BTreeMap<String, Vec<Value>> =
        rows.into_iter().map(|row| (text(&row[0]), row)).collect();
    let kept = oracle.kept();
    for (trace_id, trace) in oracle.traces() {
        let row = &rows[trace_id];
        let services: Vec<String> = serde_json::from_value(trace["services"].clone()).unwrap();
        let decision = if kept.contains(trace_id) {
            "sampled"
        } else {
            "not_sampled"
        };
        assert_eq!(row[1], trace["spans"], "{trace_id} span_count");
        assert_eq!(row[2], trace["duration_ns"], "{trace_id} duration_ns");
        assert_eq!(row[3], trace["error"], "{trace_id} error");
        assert_eq!(row[4], trace["roots"], "{trace_id} root_count");
        assert_eq!(row[5], trace["orphans"], "{trace_id} orphan_count");
        assert_eq!(text(&row[6]), services.join(","), "{trace_id} services");
        assert_eq!(text(&row[7]), decision, "{trace_id} decision");
        let n_requests = trace["llm_requests"].as_array().unwrap().len();
        assert_eq!(
            row[8].as_u64(),
            Some(n_requests as u64),
            "{trace_id} request_count"
        );
        assert_eq!(row[9], trace["start_ns"], "{trace_id} start_time_unix_nano");
    }
}

fn requests_equal_the_oracle(site: &Site, oracle: &Oracle) {
    // The oracle's names, and ours.
    const COLUMNS: [(&str, &str); 11] = [
        ("span_id", "span_id"),
        ("request_id", "request_id"),
        ("pod_uid", "k8s_pod_uid"),
        ("e2e_s", "e2e_s"),
        ("ttft_s", "engine_ttft_s"),
        ("queue_s", "queue_s"),
        ("prefill_s", "prefill_s"),
        ("decode_s", "decode_s"),
        ("tpot_s", "tpot_s"),
        ("input_tokens", "input_tokens"),
        ("output_tokens", "output_tokens"),
    ];
    let columns = COLUMNS.map(|(_, ours)| ours).join(", ");
    let rows = site.stored(&format!(
        "SELECT trace_id, {columns} FROM requests WHERE position = 'engine'"
    ));
    let stored: BTreeMap<(String, String), Vec<Value>> = rows
        .iter()
        .map(|row| ((text(&row[0]), text(&row[1])), row[1..].to_vec()))
        .collect();
    assert_eq!(stored.len(), rows.len(), "a request is stored twice");

    let mut n_expected = 0;
    for (trace_id, trace) in oracle.traces() {
        for expected in trace["llm_requests"].as_array().unwrap() {
            n_expected += 1;
            let key = (trace_id.clone(), text(&expected["span_id"]));
            let row = stored
                .get(&key)
                .unwrap_or_else(|| panic!("{key:?} is not stored"));
            for ((theirs, ours), value) in COLUMNS.iter().zip(row) {
                assert_eq!(value, &expected[theirs], "{key:?} {ours}");
            }
        }
    }
    assert_eq!(
        stored.len(),
        n_expected,
        "requests that the oracle does not know"
    );
}

#[test]
fn the_whole_chain_over_grpc() {
    check("real-chain", "grpc", false);
}

#[test]
fn the_whole_chain_over_http_protobuf_with_gzip() {
    check("real-chain", "http-protobuf", true);
}

#[test]
fn the_whole_chain_over_http_json() {
    check("real-chain", "http-json", false);
}

#[test]
fn the_broken_chain_over_grpc() {
    check("real-broken", "grpc", true);
}

#[test]
fn the_broken_chain_over_http_protobuf_with_gzip() {
    check("real-broken", "http-protobuf", true);
}

#[test]
fn the_broken_chain_over_http_json() {
    check("real-broken", "http-json", false);
}
