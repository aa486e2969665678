//! Scenario: a simulated fleet is played into a running server, and the explanations of its requests are compared with
//! the truth.
//!
//! Guarantee: the verdict is the true cause of at least 95 of 100 requests, of each cause and under each trouble; a GPU
//! that is blamed is the guilty one; and where nobody says which pod holds which GPU, none is blamed, of all.
//!
//! What judges is `whyslow explain`, which asks the server by SQL as a user does; the truth is read by nothing but the
//! comparison. Every trace is kept here, so that no request is missed. `WHYSLOW_MATRIX` says how many requests of each row
//! (default 20, in few runs; `tests/matrix/run` has 200, in a run for each cause).

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::Stdio;
use std::sync::Mutex;

use serde_json::Value;

use crate::harness::{ALL, Server, Site, succeed, whyslow};

/// Requests of each row of the small matrix.
const N_REQUESTS: usize = 20;

/// What can be injected, and the verdict that is right.
const RIGHT: [(&str, &str); 10] = [
    ("queue_burst", "queueing"),
    ("kv_preemption", "kv_cache"),
    ("long_prefill", "long_prefill"),
    ("thermal", "thermal_throttle"),
    ("power", "power_throttle"),
    ("xid", "xid"),
    ("nvlink", "nvlink"),
    ("slow_rag", "retrieval"),
    ("slow_client", "delivery"),
    ("gateway_stall", "gateway"),
];

/// Verdicts that blame a GPU.
const DEVICE_VERDICTS: [&str; 4] = ["thermal_throttle", "power_throttle", "xid", "nvlink"];

/// In the name of a row: what another cause left behind, such as the queue after an XID. It is printed and not judged, as
/// either may be called the cause.
const BESIDE: &str = " beside ";

/// Faults of each kind of place, apart from each other: at the edge, in the engine, on a GPU.
const MIXED: [&str; 6] = [
    "slow_rag@60-80",
    "thermal@120-140",
    "gateway_stall@180-200",
    "slow_client@240-260",
    "nvlink@300-320",
    "kv_preemption@360-380",
];

/// Faults of GPUs, for the run in which nobody says who holds them.
const ON_GPUS: [&str; 4] = [
    "thermal@60-80",
    "power@120-140",
    "xid@180-186",
    "nvlink@240-260",
];

/// A run of the fleet.
#[derive(Debug, Clone)]
struct Play {
    /// Its row of the matrix; `None`: a row for each true cause.
    row: Option<&'static str>,
    faults: Vec<&'static str>,
    minutes: usize,
    placements: &'static str,
}

impl Play {
    fn new(row: Option<&'static str>, minutes: usize, faults: &[&'static str]) -> Self {
        Self {
            row,
            faults: faults.to_vec(),
            minutes,
            placements: "labels",
        }
    }

    fn unmapped(self) -> Self {
        Self {
            placements: "none",
            ..self
        }
    }
}

/// A request, what is true of it, and what was said about it.
#[derive(Debug)]
struct Judged {
    row: String,
    truth: Value,
    said: Value,
}

impl Judged {
    fn verdict(&self) -> &str {
        self.said["verdict"].as_str().unwrap()
    }

    fn blames_a_gpu(&self) -> bool {
        DEVICE_VERDICTS.contains(&self.verdict())
    }

    fn is_right(&self) -> bool {
        let cause = self.truth["cause"].as_str();
        let right = RIGHT.iter().find(|(known, _)| Some(*known) == cause);
        let Some((_, verdict)) = right else {
            // Nothing made it slow, whatever happened on a GPU that its pod had left.
            return !self.blames_a_gpu();
        };
        let course = &self.said["course"];
        let is_lost = self.truth["context_lost"] == true;
        let link = if is_lost {
            "request_id"
        } else {
            "trace_context"
        };
        let ahead = self.truth["clock_ahead_ns"].as_i64().unwrap();
        let seems_ahead = course["clock_ahead_ns"].as_i64().unwrap_or(0);
        self.verdict() == *verdict
            && course["link"] == link
            && (seems_ahead - ahead).abs() < 100_000_000
            && self.blamed().iter().all(|gpu| self.is_guilty(gpu))
    }

    /// GPUs that are named in support of the verdict.
    fn blamed(&self) -> Vec<&str> {
        let hypotheses = self.said["hypotheses"].as_array().unwrap();
        let chosen = |each: &&Value| each["cause"] == self.said["verdict"];
        let facts = hypotheses
            .iter()
            .filter(chosen)
            .flat_map(|each| each["for"].as_array().unwrap());
        facts
            .filter_map(|fact| fact["source"].as_str()?.strip_prefix("evidence: "))
            .collect()
    }

    fn is_guilty(&self, gpu: &str) -> bool {
        let guilty = self.truth["guilty"]["gpus"].as_array();
        guilty.is_some_and(|guilty| guilty.iter().any(|known| known == gpu))
    }
}

/// Plays into a server of its own, and asks about at most `n_max` requests of each row; `check` asks more.
fn judge(play: &Play, n_max: usize, check: impl Fn(&Server)) -> Vec<Judged> {
    let site = Site::new(ALL)
        .deciding_after("5s")
        .correlating("{max_lateness: 10s}");
    let server = site.serve();
    let path = site.path().join("truth.json");
    let mut command = whyslow();
    command.args(["loadgen", "fleet", "--speed", "max", "--duration"]);
    command.arg(format!("{}m", play.minutes)).args(&play.faults);
    command.args(["--placements", play.placements, "--endpoint", &server.grpc]);
    let output = succeed(command.arg("--truth").arg(&path));
    let sent = String::from_utf8(output.stdout).unwrap();
    println!("{}", sent.lines().last().unwrap());
    println!("{}", server.await_decisions());

    let truth: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let mut by_row: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for request in truth["requests"].as_array().unwrap() {
        if let Some(row) = row_of(play, &truth, request) {
            by_row.entry(row).or_default().push(request.clone());
        }
    }
    let mut taken: Vec<(String, Value)> = Vec::new();
    for (row, of_row) in by_row {
        // Evenly over the run.
        let n = of_row.len().min(n_max);
        taken.extend((0..n).map(|idx| (row.clone(), of_row[idx * of_row.len() / n].clone())));
    }
    let said = explain(
        &server,
        taken
            .iter()
            .map(|(_, truth)| truth["trace_id"].as_str().unwrap()),
    );
    check(&server);
    server.stop();
    assert_eq!(taken.len(), said.len());
    let judged = taken.into_iter().zip(said).map(|((row, truth), said)| {
        assert_eq!(truth["trace_id"], said["trace_id"]);
        Judged { row, truth, said }
    });
    judged.collect()
}

/// The row of a request whose cause is clear, and that did not itself make others slow.
fn row_of(play: &Play, truth: &Value, request: &Value) -> Option<String> {
    if request["injected"] == true {
        return None;
    }
    let is_clear = request["cause"].is_string();
    match play.row {
        Some("pod_moved") => {
            // Before the move, heat is to blame; after it, nothing is, though what was left is still hot.
            let start = request["start_unix_nano"].as_u64().unwrap();
            let moved = stretches(truth, "pod_moved").next().unwrap().0;
            let is_hot = stretches(truth, "thermal").any(|(from, to)| from <= start && start < to);
            let has_moved = start >= moved && request["pod"] == truth["placements"][0]["pod"];
            let is_before = start < moved && request["cause"] == "thermal";
            (is_before || is_hot && has_moved).then(|| {
                let when = if is_before { "before" } else { "after" };
                format!("pod_moved, {when}")
            })
        }
        Some(row) if is_fault(row) && request["cause"] != row => {
            let other = request["cause"].as_str();
            other.map(|other| format!("{other}{BESIDE}{row}"))
        }
        Some(row) => is_clear.then(|| row.to_owned()),
        None => request["cause"].as_str().map(str::to_owned),
    }
}

fn is_fault(row: &str) -> bool {
    RIGHT.iter().any(|(cause, _)| *cause == row)
}

fn stretches<'a>(truth: &'a Value, name: &'a str) -> impl Iterator<Item = (u64, u64)> + 'a {
    let faults = truth["faults"].as_array().unwrap().iter();
    let time = |fault: &Value, key: &str| fault[key].as_u64().unwrap();
    faults
        .filter(move |fault| fault["name"] == name)
        .map(move |fault| (time(fault, "from_unix_nano"), time(fault, "to_unix_nano")))
}

/// `whyslow explain` of many traces at once.
fn explain<'a>(server: &Server, trace_ids: impl Iterator<Item = &'a str>) -> Vec<Value> {
    let names: String = trace_ids.map(|id| format!("{id}\n")).collect();
    let mut child = whyslow()
        .args([
            "explain",
            "--format",
            "jsonl",
            "--server",
            &server.query,
            "-",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(names.as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let lines = std::str::from_utf8(&output.stdout).unwrap().lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Plays all, two at a time.
fn judge_all(plays: Vec<Play>, n_max: usize, check: impl Fn(&Server) + Sync) -> Vec<Judged> {
    let waiting = Mutex::new(plays);
    let judged = Mutex::new(Vec::new());
    let work = || loop {
        let next = waiting.lock().unwrap().pop();
        let Some(play) = next else { return };
        let of_play = judge(&play, n_max, &check);
        judged.lock().unwrap().extend(of_play);
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        work();
    });
    judged.into_inner().unwrap()
}

/// How many requests of each row, and whether that is the full matrix.
fn size() -> (usize, bool) {
    let asked = std::env::var("WHYSLOW_MATRIX").ok();
    let n_max = asked.map_or(N_REQUESTS, |n| {
        n.parse().expect("WHYSLOW_MATRIX is a number")
    });
    (n_max, n_max > N_REQUESTS)
}

/// By row: how many requests got which verdict, and how many were right.
fn matrix(judged: &[Judged]) -> BTreeMap<&str, (BTreeMap<&str, usize>, usize)> {
    let mut matrix: BTreeMap<&str, (BTreeMap<&str, usize>, usize)> = BTreeMap::new();
    for each in judged {
        let (verdicts, n_right) = matrix.entry(&each.row).or_default();
        *verdicts.entry(each.verdict()).or_default() += 1;
        *n_right += usize::from(each.is_right());
    }
    for (row, (verdicts, n_right)) in &matrix {
        let n: usize = verdicts.values().sum();
        let share = 100.0 * *n_right as f64 / n as f64;
        println!("matrix: {row:>28} {n:>4} requests, {share:>5.1} % right: {verdicts:?}");
    }
    matrix
}

#[test]
fn verdicts_through_the_server_are_the_true_causes() {
    let (n_max, is_full) = size();
    let mut plays = if is_full {
        let of_cause = |(cause, _): (&'static str, &str)| {
            let minutes = if cause == "xid" { 18 } else { 10 };
            Play::new(Some(cause), minutes, &[cause])
        };
        RIGHT.map(of_cause).to_vec()
    } else {
        vec![Play::new(None, 11, &[])]
    };
    let with = |trouble| [MIXED.as_slice(), &[trouble]].concat();
    plays.extend([
        Play::new(Some("context_lost"), 8, &with("context_lost")),
        Play::new(Some("clock_ahead"), 8, &with("clock_ahead")),
        Play::new(
            Some("pod_moved"),
            if is_full { 16 } else { 6 },
            &["thermal", "pod_moved"],
        ),
    ]);
    let judged = judge_all(plays, n_max, |_| {});
    let matrix = matrix(&judged);
    let rows = matrix.into_iter().filter(|(row, _)| !row.contains(BESIDE));
    for (row, (verdicts, n_right)) in rows {
        let n: usize = verdicts.values().sum();
        let n_min = if is_full { n_max.min(200) } else { n_max / 2 };
        // Twenty are too few for a twentieth: one more may be wrong.
        let n_wrong_max = if is_full { n / 20 } else { 2 };
        assert!(
            n >= n_min && n - n_right <= n_wrong_max,
            "{row}: {n_right} of {n}: {verdicts:?}"
        );
    }
}

#[test]
fn no_gpu_is_blamed_where_nobody_says_who_holds_it() {
    let (n_max, is_full) = size();
    let plays = if is_full {
        let of_cause =
            |cause| Play::new(Some(cause), if cause == "xid" { 18 } else { 10 }, &[cause]);
        ["thermal", "power", "xid", "nvlink"].map(of_cause).to_vec()
    } else {
        vec![Play::new(None, 5, &ON_GPUS)]
    };
    let plays = plays.into_iter().map(Play::unmapped).collect();
    let judged = judge_all(plays, n_max, |server| {
        let named = "SELECT count(*) FROM gpu_evidence WHERE gpu_uuid IS NOT NULL OR missing_link <> 'placement'";
        assert_eq!(server.sql(named)[0][0], 0);
        let samples = "SELECT count(DISTINCT gpu_uuid) FROM gpu_samples";
        assert_eq!(server.sql(samples)[0][0], 8, "the samples are there");
    });
    matrix(&judged);
    assert!(judged.len() >= 4 * n_max.min(200) / 2, "{}", judged.len());
    for each in &judged {
        assert!(!each.blames_a_gpu(), "{:#}", each.said);
        let open = each.said["open"].to_string();
        let says_so = each.said["slow_phase"].is_null() || open.contains("breaks at `placement`");
        assert!(says_so, "{open}");
    }
}

/// A port with three more behind it that are free as well.
fn four_free_ports() -> u16 {
    let listen = |port| std::net::TcpListener::bind(("127.0.0.1", port));
    loop {
        let first = listen(0).unwrap();
        let port = first.local_addr().unwrap().port();
        let others = (1..4).map(|idx| listen(port.checked_add(idx)?).ok());
        if others.collect::<Option<Vec<_>>>().is_some() {
            return port;
        }
    }
}

/// In real time, with the files that are written for it, on free ports.
#[test]
fn a_fleet_is_scraped_while_it_plays_and_a_file_says_who_holds_which_gpu() {
    let folder = tempfile::tempdir().unwrap();
    let port = four_free_ports().to_string();
    let fleet = || {
        let mut command = whyslow();
        command.args(["loadgen", "fleet", "--placements", "file", "--port", &port]);
        command
    };
    succeed(fleet().arg("--write-config").arg(folder.path()));
    let config = folder.path().join("whyslow.yaml");
    let mut yaml = std::fs::read_to_string(&config).unwrap();
    for (usual, here) in [
        ("127.0.0.1:4317", "127.0.0.1:0"),
        ("127.0.0.1:4318", "127.0.0.1:0"),
        (
            "{endpoint: 127.0.0.1:7070}",
            "{endpoint: 127.0.0.1:0, postgres: {endpoint: 127.0.0.1:0}, flight_sql: {endpoint: 127.0.0.1:0}}",
        ),
        ("sampling_percentage: 20", "sampling_percentage: 100"),
        ("refresh_interval: 5s", "refresh_interval: 1s"),
    ] {
        assert!(yaml.contains(usual), "{yaml}");
        yaml = yaml.replace(usual, here);
    }
    std::fs::write(&config, yaml).unwrap();
    let server = Server::start(&config);
    let truth = folder.path().join("truth.json");
    let mut play = fleet();
    play.args([
        "thermal@5-15",
        "--duration",
        "20s",
        "--endpoint",
        &server.grpc,
    ]);
    succeed(play.arg("--truth").arg(&truth));
    println!("{}", server.await_decisions());

    let truth: Value = serde_json::from_slice(&std::fs::read(truth).unwrap()).unwrap();
    let guilty = truth["faults"][0]["guilty"]["gpus"][0].as_str().unwrap();
    let int = |sql: &str| server.sql(sql)[0][0].as_i64().unwrap();
    assert_eq!(int("SELECT count(DISTINCT gpu_uuid) FROM gpu_samples"), 8);
    assert_eq!(
        int("SELECT count(DISTINCT k8s_pod_name) FROM engine_samples"),
        2
    );
    let n_requests = truth["requests"].as_array().unwrap().len() as i64;
    assert_eq!(
        int("SELECT count(DISTINCT span_id) FROM gpu_evidence"),
        n_requests
    );
    assert_eq!(int("SELECT count(*) FROM gpu_evidence"), 2 * n_requests);
    let sources = server.sql("SELECT DISTINCT placement_source, missing_link FROM gpu_evidence");
    assert_eq!(sources, [[Value::from("static_file"), Value::Null]]);
    let hot = "SELECT DISTINCT gpu_uuid FROM gpu_evidence WHERE thermal_throttle_share > 0";
    assert_eq!(server.sql(hot), [[Value::from(guilty)]]);
    server.stop();
}
