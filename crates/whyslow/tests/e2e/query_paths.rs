//! Scenario: captured traffic is stored by a running service, and every path that its description names is asked.
//!
//! Guarantee: each path answers; a kept trace comes whole as OTLP, and is explained over HTTP as on the command line.

use serde_json::Value;

use crate::harness::{ALL, Site, capture, http_get, succeed, whyslow};

#[test]
fn every_described_path_answers_and_a_trace_comes_whole_and_explained() {
    let site = Site::new(ALL);
    let server = site.serve();
    server.replay(&capture("real-chain"), "grpc", false);
    // Decides, and stores, what has come.
    server.stop();
    let server = site.serve();
    let base = server.query.clone();
    let of = "SELECT trace_id, count(*) FROM spans WHERE trace_id IN (SELECT trace_id FROM requests) \
              GROUP BY trace_id ORDER BY 2 DESC, 1 LIMIT 1";
    let [row] = server.sql(of).try_into().unwrap();
    let (trace_id, n_spans) = (row[0].as_str().unwrap(), row[1].as_u64().unwrap());

    let (_, described) = http_get(&format!("{base}/v1/openapi.json"));
    let described: Value = serde_json::from_str(&described).unwrap();
    for (path, methods) in described["paths"].as_object().unwrap() {
        if methods.get("get").is_some() {
            let (status, body) = http_get(&format!("{base}{}", path.replace("{id}", trace_id)));
            assert_eq!(status, 200, "{path}: {body}");
        }
    }

    let (_, trace) = http_get(&format!("{base}/v1/traces/{trace_id}"));
    let trace: Value = serde_json::from_str(&trace).unwrap();
    let resources = trace["resourceSpans"].as_array().unwrap();
    let scopes = resources
        .iter()
        .flat_map(|each| each["scopeSpans"].as_array().unwrap());
    let n_given: usize = scopes
        .map(|each| each["spans"].as_array().unwrap().len())
        .sum();
    assert_eq!(u64::try_from(n_given).unwrap(), n_spans);

    let (_, explained) = http_get(&format!("{base}/v1/explain/{}", trace_id.to_uppercase()));
    let explained: Value = serde_json::from_str(&explained).unwrap();
    let mut command = whyslow();
    let command = command.args(["explain", trace_id, "--format", "json", "--server", &base]);
    let on_the_line: Value = serde_json::from_slice(&succeed(command).stdout).unwrap();
    assert_eq!(explained["explanations"][0], on_the_line);
    server.stop();
}
