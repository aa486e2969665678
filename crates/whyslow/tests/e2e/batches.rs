//! Scenario: a simulated fleet tells of its scheduling steps, most of its traces are dropped, and the process is killed
//! again and again.
//!
//! Guarantee: every step is stored once, the shares of its participants add up to its time to the nanosecond, and each
//! request has what it had in truth, whether its trace was kept or not.

use std::collections::BTreeMap;
use std::time::Duration;

use loadgen::fleet::{Config, Run, simulate};
use serde_json::Value;

use crate::harness::{SLOW_OR_FAILED, Site, succeed, whyslow};
use crate::kill::send;

/// Lives of the process until everything is sent.
const N_LIVES: usize = 4;

fn fleet(tell: impl FnOnce(&mut Config)) -> Run {
    let mut config = Config {
        duration: Duration::from_secs(30),
        ..Config::default()
    };
    tell(&mut config);
    simulate(&config)
}

/// Sends the spans of the run, killing the server in between; then waits for so many rows of this answer.
fn send_and_kill(site: &Site, run: &Run, all: &str, n: i64) {
    let bodies: Vec<Vec<u8>> = run
        .exports
        .iter()
        .map(|export| export.body.clone())
        .collect();
    for some in bodies.chunks(bodies.len().div_ceil(N_LIVES)) {
        let server = site.serve();
        send(&server, some);
        server.kill();
    }
    let server = site.serve();
    server.eventually(all, n);
    server.await_decisions();
    server.stop();
}

fn number(site: &Site, sql: &str) -> i64 {
    site.stored(sql)[0][0].as_i64().unwrap()
}

/// Batches, and their time, where the shares add up to it; none where they do not.
fn check_sums(site: &Site, run: &Run) {
    let by_batch = "SELECT k8s_pod_uid, batch_id, step, max(duration_ns) AS duration_ns, sum(share_ns) AS share_ns, \
                    count(DISTINCT start_time_unix_nano) AS n_starts, count(DISTINCT duration_ns) AS n_lengths \
                    FROM batches GROUP BY k8s_pod_uid, batch_id, step";
    let violations = format!(
        "SELECT count(*) FROM ({by_batch}) WHERE (share_ns IS DISTINCT FROM duration_ns) OR n_starts <> 1 OR n_lengths <> 1"
    );
    let n_violations = number(site, &violations);
    let n_batches = number(site, &format!("SELECT count(*) FROM ({by_batch})"));
    let total = number(site, "SELECT sum(share_ns) FROM batches");
    let length = |batch: &loadgen::fleet::Batch| batch.end_unix_nano - batch.start_unix_nano;
    let truth: u64 = run.batches.iter().map(length).sum();
    println!(
        "{n_batches} batches, {n_violations} violations, {total} ns shared of {truth} ns in truth"
    );
    assert_eq!(n_violations, 0);
    assert_eq!(n_batches, run.batches.len() as i64);
    assert_eq!(total, truth as i64);
}

/// What each request had in truth, within a nanosecond a step.
fn check_requests(site: &Site, run: &Run) {
    let rows = site.stored("SELECT trace_id, gpu_time_ns, batch_count FROM request_gpu_time");
    let stored: BTreeMap<&str, (f64, f64)> = rows
        .iter()
        .map(|row| {
            let (share, n) = (row[1].as_f64().unwrap(), row[2].as_f64().unwrap());
            (row[0].as_str().unwrap(), (share, n))
        })
        .collect();
    let mut truth = vec![0.0; run.requests.len()];
    for batch in &run.batches {
        let total: u32 = batch.participants.iter().map(|(_, tokens)| tokens).sum();
        let length = (batch.end_unix_nano - batch.start_unix_nano) as f64;
        for (place, tokens) in &batch.participants {
            truth[*place] += length * f64::from(*tokens) / f64::from(total);
        }
    }
    let mut worst: f64 = 0.0;
    for (served, truth) in run.requests.iter().zip(truth) {
        let trace_id = otlp::TraceId::from_slice(&served.request.trace_id).unwrap();
        let (share, n_steps) = stored[trace_id.to_string().as_str()];
        assert!((share - truth).abs() <= n_steps + 1.0, "{share} of {truth}");
        worst = worst.max((share - truth).abs());
    }
    let n_kept = number(
        site,
        "SELECT count(*) FROM traces WHERE decision = 'sampled'",
    );
    println!(
        "{} requests, {n_kept} traces kept; at most {worst:.1} ns off the truth",
        run.requests.len()
    );
}

#[test]
fn shares_add_up_to_every_step_and_to_what_every_request_had() {
    let run = fleet(|config| config.batch_events = true);
    let site = Site::new(SLOW_OR_FAILED)
        .deciding_after("1s")
        .correlating("{max_lateness: 1s, batches: {max_lateness: 1h}}");
    let n_rows: usize = run
        .batches
        .iter()
        .map(|batch| batch.participants.len())
        .sum();
    // Every participant is named in the end, so nothing waits for the hour.
    send_and_kill(&site, &run, "SELECT count(*) FROM batches", n_rows as i64);
    check_sums(&site, &run);
    check_requests(&site, &run);
    assert_eq!(
        number(&site, "SELECT count(*) FROM batches WHERE trace_id IS NULL"),
        0
    );
    explain_says_so(&site);
}

/// `explain` names the steps of a kept request.
fn explain_says_so(site: &Site) {
    let longest = "SELECT r.trace_id FROM requests r WHERE r.decision = 'sampled' ORDER BY r.decode_s DESC LIMIT 1";
    let trace_id = site.stored(longest)[0][0].as_str().unwrap().to_owned();
    let of_trace = format!(
        "SELECT gpu_time_ns, batch_count FROM request_gpu_time WHERE trace_id = '{trace_id}'"
    );
    let known = &site.stored(&of_trace)[0];
    let explain = |format: &str| {
        let mut command = whyslow();
        command.args(["explain", &trace_id, "--format", format, "--data"]);
        succeed(command.arg(site.tables())).stdout
    };
    let said: Value = serde_json::from_slice(&explain("json")).unwrap();
    let batches = &said["batches"];
    assert_eq!(batches["share_ns"], known[0], "{said:#}");
    assert_eq!(batches["steps"], known[1], "{said:#}");
    assert_eq!(batches["estimated_ns"], 0, "{said:#}");
    assert!(
        !batches["companions"].as_array().unwrap().is_empty(),
        "{said:#}"
    );
    let text = String::from_utf8(explain("text")).unwrap();
    assert!(text.contains("its share of that time is"), "{text}");
}

#[test]
fn who_comes_after_a_step_was_written_changes_no_sum() {
    let run = fleet(|config| {
        config.batch_events = true;
        config.batch_spans = true;
    });
    let site = Site::new(SLOW_OR_FAILED)
        .deciding_after("300ms")
        .correlating("{max_lateness: 1s, batches: {max_lateness: 0s}}");
    let all = "SELECT count(*) FROM (SELECT DISTINCT k8s_pod_uid, batch_id, step FROM batches)";
    send_and_kill(&site, &run, all, run.batches.len() as i64);
    check_sums(&site, &run);
}
