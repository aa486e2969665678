//! Scenario: the captured traffic arrives together with the scrapes of its engine and its GPUs; on one GPU a thermal
//! slowdown was injected (`tests/data/real-chain/dcgm-injected.json`).
//!
//! Guarantee: the requests that ran meanwhile carry it in `evidence`, the others do not, and no other GPU is named. Every
//! sample and every row of evidence is stored once, also where the process is killed.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::ops::{RangeBounds, RangeInclusive};

use otlp::prometheus::{self, Format, Limits, Scrape};
use serde_json::Value;

use crate::harness::{ALL, Server, Site, capture, http_get};

/// Posts the scrapes of one target as OTLP metrics; their times.
fn post_scrapes(server: &Server, folder: &str) -> Vec<u64> {
    post_some(server, folder, ..)
}

/// The same with some of them.
fn post_some(server: &Server, folder: &str, some: impl RangeBounds<usize>) -> Vec<u64> {
    let mut times = Vec::new();
    let scrapes = loadgen::capture::scrapes(&capture("real-chain").join(folder)).unwrap();
    for (idx, scraped) in scrapes.into_iter().enumerate() {
        if !some.contains(&idx) {
            continue;
        }
        let (at, text) = (scraped.at_unix_nano, scraped.text);
        let scrape = Scrape {
            resource: &[("service.name", folder)],
            scope: "test",
            time_unix_nano: at,
        };
        let body = prometheus::to_protobuf(&text, Format::Text, &scrape, &Limits::default()).body;
        assert_eq!(post(&server.http, "/v1/metrics", &body), 200);
        times.push(at);
    }
    times
}

/// Posts protobuf over HTTP; the status.
pub(crate) fn post(base: &str, path: &str, body: &[u8]) -> u16 {
    let addr = base.trim_start_matches("http://");
    let mut stream = TcpStream::connect(addr).unwrap();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: {addr}\r\nContent-Type: application/x-protobuf\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    )
    .unwrap();
    stream.write_all(body).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

/// Posts everything: times of the GPU's and of the engine's scrapes.
pub(crate) fn send_all(server: &Server) -> (Vec<u64>, Vec<u64>) {
    let gpu = post_scrapes(server, "dcgm");
    let engine = post_scrapes(server, "vllm-metrics");
    server.replay(&capture("real-chain"), "grpc", false);
    (gpu, engine)
}

fn count(site: &Site, sql: &str) -> i64 {
    site.stored(sql)[0][0].as_i64().unwrap()
}

fn injected() -> (String, String, u64, u64) {
    let text = fs::read_to_string(capture("real-chain").join("dcgm-injected.json")).unwrap();
    let injected: Value = serde_json::from_str(&text).unwrap();
    let text = |key: &str| injected[key].as_str().unwrap().to_owned();
    // Times in the file are rounded to the millisecond, as the scrapes are.
    let nanos = |key: &str| (injected[key].as_f64().unwrap() * 1e3).round() as u64 * 1_000_000;
    (
        text("gpu_of_vllm_pod"),
        text("other_gpu"),
        nanos("slowdown_from_s"),
        nanos("slowdown_to_s"),
    )
}

/// Compares rows with the scrapes; how many requests with samples ran in the slowdown, and how many outside of it.
fn check_rows(
    rows: &[Vec<Value>],
    gpu_times: &[u64],
    gpu: &str,
    slowdown: RangeInclusive<u64>,
) -> (usize, usize) {
    let (mut n_slow, mut n_fast) = (0, 0);
    for row in rows {
        let context = format!("{row:?}");
        let start = row[2].as_u64().unwrap();
        let end = start + row[3].as_u64().unwrap();
        let times = gpu_times.iter();
        let within: Vec<&u64> = times.filter(|at| (start..=end).contains(at)).collect();
        if within.is_empty() {
            continue;
        }
        assert_eq!(row[1], gpu, "{context}");
        assert_eq!(row[4], "within", "{context}");
        assert_eq!(row[9], Value::Null, "{context}");
        assert_eq!(row[10], "exporter_labels", "{context}");
        let n_hot = within.iter().filter(|at| slowdown.contains(at)).count();
        let share = row[5].as_f64().unwrap();
        let expected = n_hot as f64 / within.len() as f64;
        assert!((share - expected).abs() < 1e-9, "{expected}: {context}");
        if n_hot == 0 {
            n_fast += 1;
            continue;
        }
        n_slow += 1;
        let (clock, baseline) = (row[6].as_f64().unwrap(), row[7].as_f64());
        let is_slower = baseline.is_none_or(|baseline| clock < baseline);
        assert!(is_slower, "{context}");
    }
    (n_slow, n_fast)
}

#[test]
fn requests_carry_the_slowdown_that_they_ran_in_and_no_other_does() {
    let site = Site::new(ALL);
    let server = site.serve();
    let (gpu_times, engine_times) = send_all(&server);
    server.eventually(
        "SELECT count(DISTINCT time_unix_nano) FROM gpu_samples",
        gpu_times.len() as i64,
    );
    server.stop();
    let (gpu, other_gpu, from, to) = injected();

    let n_gpu_rows = 2 * gpu_times.len() as i64;
    assert_eq!(count(&site, "SELECT count(*) FROM gpu_samples"), n_gpu_rows);
    let n_engine_rows = count(&site, "SELECT count(*) FROM engine_samples");
    assert_eq!(n_engine_rows, engine_times.len() as i64);

    // Every engine request is kept here, and has one row: its pod holds one GPU.
    let rows = site.stored(
        "SELECT span_id, gpu_uuid, start_time_unix_nano, duration_ns, method, thermal_throttle_share, \
         sm_clock_mhz_min, baseline_sm_clock_mhz, complete, missing_link, placement_source, sample_count FROM evidence",
    );
    let n_requests = count(
        &site,
        "SELECT count(*) FROM requests WHERE position = 'engine'",
    );
    assert_eq!(rows.len() as i64, n_requests);
    assert!(rows.iter().all(|row| row[1] != other_gpu.as_str()));
    let (n_slow, n_fast) = check_rows(&rows, &gpu_times, &gpu, from..=to);
    println!(
        "{n_slow} requests in the slowdown, {n_fast} outside, {} rows",
        rows.len()
    );
    assert!(n_slow > 10 && n_fast > 10, "{n_slow} {n_fast}");

    let alone = count(
        &site,
        "SELECT count(*) FROM requests WHERE position = 'engine' AND coalesce(concurrent_requests, 0) < 1",
    );
    assert_eq!(alone, 0);
    let most = count(&site, "SELECT max(concurrent_requests) FROM requests");
    assert!(most > 4, "the burst runs beside each other: {most}");
}

#[test]
fn samples_and_evidence_are_stored_once_through_a_kill() {
    let site = Site::new(ALL).deciding_after("1s");
    let server = site.serve();
    let gpu = post_scrapes(&server, "dcgm");
    server.eventually(
        "SELECT count(DISTINCT time_unix_nano) FROM gpu_samples",
        gpu.len() as i64,
    );
    server.replay(&capture("real-chain"), "grpc", false);
    server.kill();
    let server = site.serve();
    let engine = post_scrapes(&server, "vllm-metrics");
    server.await_decisions();
    server.kill();
    // No table of engines' or GPUs' samples had a row since, and nothing is repeated for that.
    let server = site.serve();
    let page = server.await_decisions();
    assert!(page.contains("conserves 0 traces"), "{page}");
    server.stop();
    let n_gpu_rows = count(&site, "SELECT count(*) FROM gpu_samples");
    assert_eq!(n_gpu_rows, 2 * gpu.len() as i64);
    let n_engine_rows = count(&site, "SELECT count(*) FROM engine_samples");
    assert_eq!(n_engine_rows, engine.len() as i64);
    let n_requests = count(
        &site,
        "SELECT count(*) FROM requests WHERE position = 'engine'",
    );
    assert_eq!(count(&site, "SELECT count(*) FROM evidence"), n_requests);
    let distinct = "SELECT count(DISTINCT span_id) FROM evidence";
    assert_eq!(count(&site, distinct), n_requests);
}

#[test]
fn evidence_waits_for_samples_and_nothing_else_does() {
    // Nothing but samples ends the wait.
    let site = Site::new(ALL)
        .deciding_after("1s")
        .correlating("{max_lateness: 1h, stitch_wait: 1s}");
    let server = site.serve();
    post_some(&server, "dcgm", ..5);
    server.replay(&capture("real-chain"), "grpc", false);
    server.eventually("SELECT count(*) FROM spans", 17_680);
    server.eventually("SELECT count(*) FROM traces", 241);
    let n_requests =
        server.sql("SELECT count(*) FROM requests WHERE position = 'engine'")[0][0].clone();
    let (_, page) = http_get(&format!("{}/metrics", server.query));
    let waiting = page
        .lines()
        .find_map(|line| line.strip_prefix("lake_evidence_waiting "));
    assert_ne!(waiting, Some("0"), "{page}");
    let n_rows = server.sql("SELECT count(*) FROM evidence")[0][0].clone();
    assert!(n_rows.as_i64() < n_requests.as_i64(), "{n_rows}");
    server.kill();
    // What waited is in the log.
    let server = site.serve();
    post_some(&server, "dcgm", 5..);
    let all = "SELECT count(*) FROM evidence";
    server.eventually(all, n_requests.as_i64().unwrap());
    server.await_decisions();
    server.stop();
    assert_eq!(site.stored(all)[0][0], n_requests);
    let distinct = "SELECT count(DISTINCT span_id) FROM evidence WHERE complete";
    assert_eq!(site.stored(distinct)[0][0], n_requests);
    assert_eq!(count(&site, "SELECT count(*) FROM spans"), 17_680);
}

/// Everything that a row of evidence says, but how far the traffic of later requests was known when it was written.
const ALL_BUT_TRAFFIC: &str = "SELECT span_id, gpu_uuid, k8s_node_name, placement_source, missing_link, method, \
     sample_count, coverage, sample_interval_s, util_pct_avg, sm_clock_mhz_min, power_w_max, energy_j, \
     thermal_throttle_share, baseline_sm_clock_mhz, baseline_sample_count, complete, revision FROM evidence ORDER BY span_id";

/// When requests ran, and how many beside each.
const RUNNING: &str = "SELECT span_id, start_time_unix_nano, start_time_unix_nano + duration_ns, concurrent_requests \
     FROM requests WHERE position = 'engine' AND NOT wrapper ORDER BY span_id";

/// Scenario: GPU samples and the first requests are stored; the process is killed, or not; then the other requests come,
/// and the log does not hold the samples any more.
/// Guarantee: samples, placements and who ran beside whom are the same with the kill.
#[test]
fn a_kill_between_samples_and_requests_changes_no_evidence() {
    // Every other export, so that requests of both halves run beside each other.
    let bodies = crate::kill::bodies("real-chain");
    let half =
        |first: usize| -> Vec<Vec<u8>> { bodies.iter().skip(first).step_by(2).cloned().collect() };
    let n_spans = |bodies: &[Vec<u8>]| -> i64 {
        let of_each = bodies
            .iter()
            .map(|body| otlp::export::spans(body, &otlp::export::Limits::default()).count());
        of_each.sum::<usize>() as i64
    };
    let (first, second) = (half(0), half(1));
    let run = |is_killed: bool| {
        let site = Site::new(ALL).deciding_after("1s");
        let mut server = site.serve();
        let gpu = post_scrapes(&server, "dcgm");
        crate::kill::send(&server, &first);
        server.eventually("SELECT count(*) FROM spans", n_spans(&first));
        server.await_decisions();
        // Committed, and the next commit deletes what it may of the log.
        let all_stored = format!(
            "lake_rows_committed_total{{table=\"gpu_samples\"}} {}",
            2 * gpu.len()
        );
        server.await_metric(&all_stored);
        server.await_metric("lake_evidence_waiting 0");
        let early = server.sql(RUNNING);
        if is_killed {
            server.kill();
            server = site.serve();
        }
        crate::kill::send(&server, &second);
        server.eventually("SELECT count(*) FROM spans", n_spans(&bodies));
        server.await_decisions();
        server.stop();
        (site.stored(ALL_BUT_TRAFFIC), site.stored(RUNNING), early)
    };
    let ((expected, ..), (found, running, early)) = (run(false), run(true));
    let n_with_samples = expected.iter().filter(|row| row[5] == "within").count();
    assert!(n_with_samples > 20, "{n_with_samples}");
    assert_eq!(expected.len(), found.len());
    for (expected, found) in expected.iter().zip(&found) {
        assert_eq!(expected, found);
    }
    // What ran before the kill still counts beside what came after it.
    let interval = |row: &[Value]| (row[1].as_i64().unwrap(), row[2].as_i64().unwrap());
    let mut n_beside = 0;
    for late in running
        .iter()
        .filter(|row| early.iter().all(|early| early[0] != row[0]))
    {
        let (start, _) = interval(late);
        let beside = early.iter().map(|row| interval(row));
        let beside = beside
            .filter(|(from, to)| *from <= start && start < *to)
            .count();
        assert!(
            late[3].as_i64().unwrap() > beside as i64,
            "{late:?}, {beside}"
        );
        n_beside += beside;
    }
    println!(
        "{n_with_samples} requests with samples, {n_beside} times a later one beside an earlier one"
    );
    assert!(n_beside > 0);
}

/// Scenario: the Collector is away after the first scrapes; the evidence of what ran then is written without samples, and
/// the process is killed; then the Collector sends what it kept.
/// Guarantee: those requests have their rows again, once, and complete; the view shows these in place of the first.
#[test]
fn samples_that_a_collector_kept_complete_the_evidence_once_through_kills() {
    let site = Site::new(ALL)
        .deciding_after("1s")
        .correlating("{max_lateness: 1s, completion_wait: 1h}");
    let server = site.serve();
    let n_early = 5;
    post_some(&server, "dcgm", ..n_early);
    server.replay(&capture("real-chain"), "grpc", false);
    let all = "SELECT count(*) FROM evidence WHERE revision = 0";
    server.eventually("SELECT count(*) FROM requests", 146);
    server.await_metric("lake_rows_committed_total{table=\"evidence\"} 146");
    let incomplete = server.sql("SELECT count(*) FROM evidence WHERE NOT complete")[0][0].clone();
    let incomplete = incomplete.as_i64().unwrap();
    assert!(incomplete > 20, "{incomplete}");
    server.kill();

    let server = site.serve();
    post_some(&server, "dcgm", n_early..);
    let later = "SELECT count(*) FROM evidence WHERE revision = 1";
    server.eventually(later, incomplete);
    server.kill();
    // What was not committed by then follows from the log.
    let server = site.serve();
    server.await_decisions();
    server.stop();
    assert_eq!(count(&site, all), 146);
    assert_eq!(count(&site, later), incomplete);
    let shown = "SELECT count(*), count(DISTINCT span_id), count(*) FILTER (WHERE complete), sum(revision) FROM gpu_evidence";
    let shown: Vec<i64> = site.stored(shown)[0]
        .iter()
        .map(|n| n.as_i64().unwrap())
        .collect();
    assert_eq!(shown, [146, 146, 146, incomplete]);
    let twice = "SELECT count(*) FROM (SELECT span_id FROM evidence GROUP BY span_id, gpu_uuid, revision HAVING count(*) > 1)";
    assert_eq!(count(&site, twice), 0);
}
