//! The command over stored tables: requests of a simulated fleet, an hour apart, with a pod that was throttled in the second.

use std::path::Path;

use clap::Parser;
use lake::{Lake, Location, Mode};
use loadgen::fleet::{Cause, Config, Fault, engine_pod, simulate};
use otlp::export::{self, Limits};
use otlp::span::SpanSummary;
use serde_json::Value;
use tables::requests::{Outcome, Position, Request, RequestsBuilder};

use super::{Args, Compared, compared, json, lines, text};

/// 2026-01-01T03:00:00Z, in microseconds.
const NOW: i64 = 1_767_236_400_000_000;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

fn requests(seed: u64, hour: u64, faults: &[Fault]) -> Vec<Request> {
    let config = Config::default();
    let run = simulate(&Config {
        seed,
        start_unix_nano: config.start_unix_nano + hour * 3_600_000_000_000,
        duration: std::time::Duration::from_secs(600),
        faults: faults.to_vec(),
        ..config
    });
    let mut requests = Vec::new();
    for sent in run.exports.iter().filter(|sent| sent.service == "vllm") {
        for at in export::spans(&sent.body, &Limits::default()) {
            let at = at.unwrap();
            if SpanSummary::read(at.span).unwrap().name == "llm_request" {
                requests.push(correlate::request(&at).unwrap());
            }
        }
    }
    requests
}

async fn store(folder: &Path, requests: &[Request]) {
    let location = Location::parse(folder.to_str().unwrap()).unwrap();
    let lake = Lake::open(&location, &tables::all(), Mode::Create)
        .await
        .unwrap();
    let mut builder = RequestsBuilder::new();
    for request in requests {
        builder.append(request).unwrap();
    }
    let table = lake.table("requests").unwrap();
    table.append("test", 1, builder.finish());
    table.commit("test", 1).await.unwrap();
}

async fn compare(folder: &Path, args: &[&str]) -> anyhow::Result<Compared> {
    let data = ["compare", "--data", folder.to_str().unwrap()];
    let line = Line::try_parse_from([&data, args].concat())?;
    compared(&line.args, NOW).await
}

const HOURS: [&str; 4] = [
    "--before",
    "2026-01-01T00:00..00:20",
    "--after",
    "2026-01-01T01:00..01:20",
];

/// Both hours, rows that restate others with absurd times, and calls that reached no engine.
async fn throttled() -> (tempfile::TempDir, [usize; 2]) {
    let folder = tempfile::tempdir().unwrap();
    let hot = [Fault::slow(Cause::ThermalThrottle, 0, 600)];
    let (before, after) = (requests(1, 0, &[]), requests(2, 1, &hot));
    let mut all = [before.clone(), after.clone()].concat();
    let restated = before.iter().take(300).cloned().map(|request| Request {
        wrapper: true,
        e2e_s: Some(1e6),
        ..request
    });
    all.extend(restated);
    let refused = after.iter().take(40).cloned().map(|request| Request {
        position: Position::Gateway,
        outcome: Outcome::Error,
        ..request
    });
    all.extend(refused);
    store(folder.path(), &all).await;
    (folder, [before.len(), after.len()])
}

#[tokio::test]
async fn a_throttled_pod_is_named_in_every_format() {
    let (folder, n) = throttled().await;
    let found = compare(folder.path(), &HOURS).await.unwrap();
    assert_eq!(found.comparison.n_requests, n);
    let said = text::render(&found);
    println!("{said}");
    let pod = engine_pod(0);
    for part in [
        "Verdict: slower. ",
        "over all requests: ",
        "Over all requests, within cohorts",
        &format!("k8s_pod_name={pod}: "),
        "the same requests: k8s_node_name=gpu-node-01",
        "blocks of",
        "0 calls before and 40 after reached no engine that is known",
    ] {
        assert!(said.contains(part), "no `{part}`");
    }
    let object: Value = serde_json::from_str(&json::render(&found).unwrap()).unwrap();
    assert_eq!(object["before"]["requests"], n[0]);
    assert!(object["changed"].as_u64().unwrap() > 5);
    assert_eq!(object["slow"][0]["traits"][0]["value"], pod.as_str());
    let csv = String::from_utf8(lines::csv(&found).unwrap()).unwrap();
    assert_eq!(csv.lines().count(), 1 + found.comparison.changes.len());
    assert!(csv.starts_with("cohort,kind,measure,quantile,standing,before,"));
    assert!(!lines::arrow(&found).unwrap().is_empty());
}

#[tokio::test]
async fn sides_are_told_apart_by_conditions_and_sampled_where_asked() {
    let (folder, n) = throttled().await;
    let (guilty, other) = (
        format!("k8s_pod_name = '{}'", engine_pod(0)),
        format!("k8s_pod_name = '{}' -- the other one", engine_pod(1)),
    );
    let args = [
        "--last",
        "2h",
        "--before-where",
        &other,
        "--after-where",
        &guilty,
    ];
    let found = compare(folder.path(), &args).await.unwrap();
    let said = text::render(&found);
    assert!(said.contains("Verdict: slower. "), "{said}");
    // Both at once: no stretches of time whose load could be compared.
    assert!(!said.contains("requests per second"), "{said}");

    let sampled = [&HOURS[..], &["--rows", "1000"]].concat();
    let found = compare(folder.path(), &sampled).await.unwrap();
    let n_read: usize = found.comparison.n_requests.iter().sum();
    assert!((800..1_200).contains(&n_read), "{n_read}");
    assert_eq!(found.n_stored, n.map(|n| n as u64));
    assert!(text::render(&found).contains("an even sample of "));
}

#[tokio::test]
async fn what_cannot_be_compared_is_refused_or_said() {
    let (folder, _) = throttled().await;
    for (args, part) in [
        (
            [
                "--last",
                "3h",
                "--before-where",
                "true",
                "--after-where",
                "input_tokens > 9",
            ],
            "are on both sides",
        ),
        (
            [
                "--last",
                "3h",
                "--before-where",
                "nonsense = 1",
                "--after-where",
                "true",
            ],
            "nonsense",
        ),
        (
            ["--last", "3h", "--before-where", "true", "--by", "colour"],
            "no such column",
        ),
        (
            [
                "--last",
                "3h",
                "--before-where",
                "1 = 1); DROP TABLE requests; --",
                "--by",
                "model",
            ],
            "statement",
        ),
    ] {
        let Err(error) = compare(folder.path(), &args).await else {
            panic!("{args:?} is not refused");
        };
        assert!(format!("{error:#}").contains(part), "{args:?}: {error:#}");
    }
    let args = [
        "--before",
        "2025-01-01..2025-01-02",
        "--after",
        "2026-01-01..2026-01-02",
    ];
    let said = text::render(&compare(folder.path(), &args).await.unwrap());
    assert!(
        said.starts_with("Verdict: unknown. A side has no requests."),
        "{said}"
    );
    assert!(said.contains("there is no request before"), "{said}");
}
