//! What requests took, and promises about it, on `/metrics`: the same as SQL and an independent script say.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::harness::{SLOW_OR_FAILED, Server, Site, capture, http_get};

/// Objectives of every kind, with thresholds that split the captured traffic.
pub(crate) const OBJECTIVES: &str = "{window: 7d, objectives: [
      {name: all, ttft: {threshold: 500ms, target: 0.9}, tpot: {threshold: 20ms, target: 0.5}, e2e: {threshold: 3s, target: 0.5}, errors: {target: 0.999}},
      {name: medium, input_band: [lt_512, lt_2k], output_band: lt_128, ttft: {threshold: 1s, target: 0.9}, errors: {target: 0.9}},
      {name: nobody, model: 'gpt*', e2e: {threshold: 1s, target: 0.9}}]}";

/// How the first objectives are judged in SQL: name, measure, match, those that count, those that are good.
const IN_SQL: [(&str, &str, &str, &str, &str); 6] = [
    (
        "all",
        "ttft",
        "true",
        "outcome = 'ok' AND engine_ttft_s IS NOT NULL",
        "engine_ttft_s <= 0.5",
    ),
    (
        "all",
        "tpot",
        "true",
        "outcome = 'ok' AND position = 'engine' AND tpot_s IS NOT NULL",
        "tpot_s <= 0.02",
    ),
    (
        "all",
        "e2e",
        "true",
        "outcome = 'ok' AND position = 'engine' AND e2e_s IS NOT NULL",
        "e2e_s <= 3",
    ),
    (
        "all",
        "errors",
        "true",
        "outcome <> 'cancelled'",
        "outcome = 'ok'",
    ),
    (
        "medium",
        "ttft",
        MEDIUM,
        "outcome = 'ok' AND engine_ttft_s IS NOT NULL",
        "engine_ttft_s <= 1",
    ),
    (
        "medium",
        "errors",
        MEDIUM,
        "outcome <> 'cancelled'",
        "outcome = 'ok'",
    ),
];

const MEDIUM: &str = "input_band IN ('lt_512', 'lt_2k') AND output_band = 'lt_128'";

/// Rows that count.
const COUNTED: &str = "FROM requests WHERE NOT wrapper AND NOT superseded";

/// Head and body of a GET of `/metrics` that accepts this.
pub(crate) fn scrape(server: &Server, accept: &str) -> (String, Vec<u8>) {
    use std::io::{Read as _, Write as _};
    let host = server.query.strip_prefix("http://").unwrap();
    let mut stream = std::net::TcpStream::connect(host).unwrap();
    let request = format!("GET /metrics HTTP/1.0\r\nHost: {host}\r\nAccept: {accept}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
    let (head, body) = answer.split_at(end.unwrap() + 4);
    (String::from_utf8(head.to_vec()).unwrap(), body.to_vec())
}

fn text(server: &Server) -> String {
    String::from_utf8(scrape(server, "text/plain").1).unwrap()
}

/// Sum of the samples that begin like this and have this label.
fn sum(page: &str, name: &str, label: &str) -> f64 {
    let lines = page
        .lines()
        .filter(|line| line.starts_with(name) && line.contains(label));
    lines
        .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
        .sum()
}

fn count(server: &Server, sql: &str) -> f64 {
    server.sql(sql)[0][0].as_f64().unwrap()
}

/// Waits for the rows of calls, which wait for engine requests.
fn await_calls(server: &Server) {
    server.await_metric("lake_calls_waiting 0");
    server.await_decisions();
}

/// Requests, decided soon and with rows soon after.
pub(crate) fn site() -> Site {
    Site::new(SLOW_OR_FAILED)
        .correlating("{stitch_wait: 1s, max_lateness: 1s, completion_wait: 0s}")
        .deciding_after("2s")
}

/// Writes the file of a site, with the objectives.
pub(crate) fn write_config(site: &Site) -> PathBuf {
    let path = site.write_config();
    let yaml = std::fs::read_to_string(&path).unwrap();
    let yaml = yaml
        .replacen(
            "\nextensions:\n",
            &format!("\nextensions:\n  slo: {OBJECTIVES}\n"),
            1,
        )
        .replacen("write_ahead_log]", "write_ahead_log, slo]", 1);
    std::fs::write(&path, yaml).unwrap();
    path
}

fn serve(site: &Site) -> Server {
    Server::start(&write_config(site))
}

/// What the page draws beside the requests is what they are judged by.
fn promises_are_told(server: &Server) {
    let (status, told) = http_get(&format!("{}/v1/objectives", server.query));
    assert_eq!(status, 200, "{told}");
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["window_days"], 7);
    let objectives = told["objectives"].as_array().unwrap();
    let all = json!({"name": "all", "model": null, "input_band": [], "output_band": [], "promises": [
        {"measure": "ttft", "position": "engine", "threshold_s": 0.5, "target": 0.9},
        {"measure": "tpot", "position": null, "threshold_s": 0.02, "target": 0.5},
        {"measure": "e2e", "position": null, "threshold_s": 3.0, "target": 0.5},
        {"measure": "errors", "position": null, "threshold_s": null, "target": 0.999}]});
    assert_eq!(objectives[0], all);
    assert_eq!(objectives[1]["input_band"], json!(["lt_512", "lt_2k"]));
    assert_eq!(objectives[1]["output_band"], json!(["lt_128"]));
    assert_eq!(objectives[2]["model"], "gpt*");
}

#[test]
fn counts_are_those_of_sql_and_of_the_oracle_before_and_not_again_after_a_restart() {
    let site = site();
    let server = serve(&site);
    server.replay(&capture("real-chain"), "grpc", false);
    await_calls(&server);
    let page = text(&server);

    promises_are_told(&server);
    let n_requests = count(&server, &format!("SELECT count(*) {COUNTED}"));
    assert!(n_requests >= oracle().len() as f64, "{n_requests}");
    let n_superseded = "SELECT count(*) FROM requests WHERE NOT wrapper AND superseded";
    let n_superseded = count(&server, n_superseded);
    assert_eq!(
        sum(&page, "llm_requests_total", "outcome=\"superseded\""),
        n_superseded
    );
    assert_eq!(
        sum(&page, "llm_requests_total", ""),
        n_requests + n_superseded
    );
    for (objective, measure, matched, total, good) in IN_SQL {
        let label = format!("{{objective=\"{objective}\",measure=\"{measure}\"}}");
        let all = format!("SELECT count(*) {COUNTED} AND {matched} AND {total}");
        let n_all = count(&server, &all);
        let n_good = count(&server, &format!("{all} AND {good}"));
        assert_eq!(sum(&page, "slo_requests_total", &label), n_all, "{label}");
        assert_eq!(
            sum(&page, "slo_requests_good_total", &label),
            n_good,
            "{label}"
        );
        assert!(n_all > 0.0, "{label}: nothing to compare");
    }
    assert_eq!(
        sum(&page, "slo_requests_total", "objective=\"nobody\""),
        0.0
    );

    times_are_those_of_the_oracle(&page);
    exemplars_are_kept_traces(&server);
    server.stop();

    // The same after a restart: nothing that is stored counts again.
    let server = serve(&site);
    server.await_decisions();
    let page = text(&server);
    assert_eq!(sum(&page, "llm_requests_total", ""), 0.0);
    assert_eq!(sum(&page, "slo_requests_total", ""), 0.0);
    assert_eq!(sum(&page, "slo_target_ratio", "measure=\"tpot\""), 0.5);
    server.stop();
}

/// The engine requests of the captured traffic, as an independent script read them.
fn oracle() -> Vec<Value> {
    let expected = std::fs::read_to_string(capture("real-chain").join("expected.json")).unwrap();
    let expected: Value = serde_json::from_str(&expected).unwrap();
    let traces = expected["traces"].as_object().unwrap().values();
    let requests = traces.filter_map(|trace| trace["llm_requests"].as_array());
    let requests: Vec<Value> = requests.flatten().cloned().collect();
    assert!(requests.len() > 140);
    requests
}

/// Every classic bucket holds what a comparison with its bound says, value by value.
fn times_are_those_of_the_oracle(page: &str) {
    let requests = oracle();
    for (family, key) in [
        ("llm_request_ttft_seconds", "ttft_s"),
        ("llm_request_tpot_seconds", "tpot_s"),
        ("llm_request_e2e_seconds", "e2e_s"),
        ("llm_request_queue_seconds", "queue_s"),
    ] {
        let values: Vec<f64> = requests.iter().filter_map(|r| r[key].as_f64()).collect();
        assert!(values.len() > 130, "{key}");
        let engine = if key == "ttft_s" {
            "position=\"engine\""
        } else {
            ""
        };
        let mut buckets: BTreeMap<String, f64> = BTreeMap::new();
        let bucket = format!("{family}_bucket");
        for line in page
            .lines()
            .filter(|line| line.starts_with(&bucket) && line.contains(engine))
        {
            let (_, rest) = line.split_once("le=\"").unwrap();
            let (bound, rest) = rest.split_once("\"} ").unwrap();
            *buckets.entry(bound.to_owned()).or_default() += rest.parse::<f64>().unwrap();
        }
        assert_eq!(buckets.len(), 22, "{family}");
        for (bound, n) in buckets {
            let bound = bound.parse::<f64>().unwrap();
            let naive = values.iter().filter(|value| **value <= bound).count();
            assert_eq!(n, naive as f64, "{family} le {bound}");
        }
        let total: f64 = values.iter().sum();
        let said = page
            .lines()
            .filter(|line| line.starts_with(&format!("{family}_sum")) && line.contains(engine));
        let said: f64 = said
            .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
            .sum();
        assert!((said - total).abs() < 1e-6, "{family}: {said}, not {total}");
    }
}

/// A point in a panel opens a trace that is there.
fn exemplars_are_kept_traces(server: &Server) {
    let (head, page) = scrape(
        server,
        "application/openmetrics-text;version=1.0.0,text/plain;q=0.5",
    );
    assert!(
        head.contains("application/openmetrics-text; version=1.0.0"),
        "{head}"
    );
    let page = String::from_utf8(page).unwrap();
    assert!(page.ends_with("# EOF\n"));
    let ids: Vec<&str> = page
        .lines()
        .filter_map(|line| line.split_once(" # {trace_id=\"")?.1.split('"').next())
        .collect();
    assert!(ids.len() > 5, "{ids:?}");
    let kept = server.sql("SELECT DISTINCT trace_id FROM spans");
    for id in ids {
        assert!(kept.iter().any(|row| row[0] == id), "{id} is not kept");
    }
    let protobuf = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
    let (head, page) = scrape(server, protobuf);
    assert!(head.contains(protobuf.split_once(';').unwrap().0), "{head}");
    assert!(
        page.windows(23)
            .any(|name| name == b"llm_request_e2e_seconds")
    );
}

#[test]
fn after_a_kill_what_is_stored_does_not_count_again() {
    // Calls that wait keep the log, so that releases are repeated whose engine requests are stored.
    let site = Site::new(SLOW_OR_FAILED)
        .correlating("{stitch_wait: 1h, max_lateness: 1s, completion_wait: 0s}")
        .deciding_after("2s");
    let server = serve(&site);
    server.replay(&capture("real-chain"), "grpc", false);
    server.await_metric("sampler_traces_pending 0");
    let n_engine = i64::try_from(oracle().len()).unwrap();
    server.eventually(
        "SELECT count(*) FROM requests WHERE position = 'engine'",
        n_engine,
    );
    // Committed, not only in memory.
    server.await_metric(&format!(
        "lake_rows_committed_total{{table=\"requests\"}} {}",
        count(&server, "SELECT count(*) FROM requests")
    ));
    let page = text(&server);
    let n_rows = count(&server, "SELECT count(*) FROM requests WHERE NOT wrapper");
    assert_eq!(sum(&page, "llm_requests_total", ""), n_rows);
    let n_waiting = sum(&page, "lake_calls_waiting", "");
    assert!(n_waiting > 0.0);
    server.kill();

    let server = serve(&site);
    server.await_metric(&format!("lake_calls_waiting {n_waiting}"));
    assert_eq!(sum(&text(&server), "llm_requests_total", ""), 0.0);
    server.stop();
}
