//! `kill -9` in the middle of a replay: what was acknowledged is there afterwards, once.

use std::collections::BTreeSet;

use bytes::Bytes;
use loadgen::capture::Capture;
use loadgen::client::{Client, Config, Endpoint, Protocol};
use otlp::export::Signal;

use crate::harness::{ALL, SLOW_OR_FAILED, Server, Site, capture};

/// Sends the requests `from..to` of a capture, one at a time; every one is acknowledged.
pub(crate) fn send(server: &Server, bodies: &[Vec<u8>]) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let endpoint = Endpoint::parse(&server.grpc, Protocol::Grpc).unwrap();
        let client = Client::new(&Config::new(endpoint, Protocol::Grpc)).unwrap();
        for body in bodies {
            let body = Bytes::copy_from_slice(body);
            let exported = client.export(Signal::Traces, body).await.unwrap();
            assert_eq!(exported.n_rejected, 0);
        }
    });
}

pub(crate) fn bodies(name: &str) -> Vec<Vec<u8>> {
    let capture = Capture::open(&[capture(name)]).unwrap();
    capture
        .requests()
        .map(|request| request.unwrap().body)
        .collect()
}

#[test]
fn undecided_traces_survive_five_kills_and_are_decided_as_if_nothing_had_happened() {
    let bodies = bodies("real-chain");
    let site = Site::new(SLOW_OR_FAILED);
    let mut from = 0;
    for to in [1, 20, 47, 70, 90] {
        let server = site.serve();
        send(&server, &bodies[from..to]);
        server.kill();
        from = to;
    }
    let server = site.serve();
    send(&server, &bodies[from..]);
    server.stop();

    let expected = std::fs::read_to_string(capture("real-chain").join("expected.json")).unwrap();
    let expected: serde_json::Value = serde_json::from_str(&expected).unwrap();
    let kept: BTreeSet<String> =
        serde_json::from_value(expected["decisions"]["latency>2000ms or status=ERROR"].clone())
            .unwrap();
    let stored: BTreeSet<String> = site
        .stored("SELECT DISTINCT trace_id FROM spans")
        .iter()
        .map(|row| row[0].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(stored, kept);
    let traces = &site.stored("SELECT count(*), sum(span_count) FROM traces")[0];
    assert_eq!(traces[0].as_i64(), Some(241));
    assert_eq!(traces[1].as_i64(), Some(17_680));
}

#[test]
fn kills_between_decision_and_commit_lose_and_double_nothing() {
    let bodies = bodies("real-chain");
    let site = Site::new(ALL).deciding_after("100ms");
    let mut from = 0;
    for to in [10, 25, 40, 60, 75, 91] {
        let server = site.serve();
        send(&server, &bodies[from..to]);
        server.kill();
        from = to;
    }
    let server = site.serve();
    server.eventually("SELECT count(*) FROM spans", 17_680);
    server.eventually("SELECT count(DISTINCT trace_id) FROM traces", 241);
    server.stop();
    let spans = "SELECT count(*) FROM (SELECT DISTINCT trace_id, span_id FROM spans)";
    assert_eq!(site.stored(spans)[0][0].as_i64(), Some(17_680));
    assert_eq!(
        site.stored("SELECT count(*) FROM spans")[0][0].as_i64(),
        Some(17_680)
    );
    assert_eq!(
        site.stored("SELECT count(*) FROM requests WHERE position = 'engine'")[0][0].as_i64(),
        Some(146)
    );
    let twice = "SELECT count(*) - count(DISTINCT span_id) FROM requests";
    assert_eq!(site.stored(twice)[0][0].as_i64(), Some(0));
}
