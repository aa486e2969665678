//! Scenario: requests run on two pods, whose GPUs are sampled by two exporters. One of these is away for a while, and its
//! samples come afterwards. The process is killed now and then, as a seed says.
//!
//! Guarantee: each request has its rows of evidence once, and at most once again; the last of them are complete and are,
//! value by value, what they are without a kill. Without a kill, equal runs are equal to the row.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use gateway::Clock;
use lake::sim::SimStore;
use otlp::export::Signal;
use otlp::prometheus::{self, Format, Limits, Scrape};
use otlp::testing::{self, TimeSpan as _};
use tokio::runtime::{Builder, Runtime};
use wal::sim::SimDisk;

use super::process::{Options, Process};
use super::report;
use super::schedule::Random;
use super::seeds::case;
use super::tables::{self, Rows};
use crate::config::Correlate;

const SECOND: u64 = 1_000_000_000;
const SECONDS: u64 = 180;
/// The second exporter is away in this time, and its samples come at the end of it.
const AWAY: std::ops::Range<u64> = 50..90;
const POLICIES: &str =
    "{decision_wait: 2s, num_traces: 1000, policies: [{name: all, type: always_sample}]}";
const COLUMNS: [&str; 8] = [
    "trace_id",
    "gpu_uuid",
    "revision",
    "complete",
    "sample_count",
    "power_w_avg",
    "coverage",
    "baseline_sample_count",
];

struct Run {
    runtime: Runtime,
    disk: SimDisk,
    store: SimStore,
    now: Arc<AtomicU64>,
    options: Options,
    process: Process,
}

impl Run {
    fn new(completion_wait: Duration) -> Self {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .build()
            .unwrap();
        let (disk, store) = (SimDisk::new(1), SimStore::new(1));
        let now = Arc::new(AtomicU64::new(testing::T0));
        let given = Arc::clone(&now);
        let options = Options {
            policies: POLICIES,
            sync_interval: Duration::from_secs(1),
            log_bytes_max: 64 << 20,
            release_backlog_spans_max: 1 << 20,
            correlate: Correlate {
                max_lateness: Duration::from_secs(10),
                completion_wait,
                baseline: Duration::from_secs(60),
                ..Correlate::default()
            },
            clock: Clock::given(move || given.load(Ordering::Relaxed)),
            noted: 0,
            urgent_every: 0,
        };
        let process = Process::start_with(&runtime, &disk, &store, &options).unwrap();
        Self {
            runtime,
            disk,
            store,
            now,
            options,
            process,
        }
    }

    fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    fn kill(&mut self) {
        self.disk = self.disk.after_kill();
        self.store = self.store.after_kill();
        self.process =
            Process::start_with(&self.runtime, &self.disk, &self.store, &self.options).unwrap();
    }

    fn sample(&mut self, device: u64, second: u64) {
        let text = format!(
            "DCGM_FI_DEV_POWER_USAGE{{UUID=\"GPU-0a1b2c3d-{device:04}\",Hostname=\"node-{device}\",\
             exported_namespace=\"llm\",exported_pod=\"pod-{device}\"}} {}\n",
            100 + (second * 7 + device) % 97
        );
        let scrape = Scrape {
            resource: &[],
            scope: "test",
            time_unix_nano: testing::T0 + second * SECOND,
        };
        let body =
            prometheus::to_protobuf(text.as_bytes(), Format::Text, &scrape, &Limits::default())
                .body;
        let now = self.now();
        self.process.core.submit_metrics(Bytes::from(body), 1, now);
        self.process.core.settle();
    }

    fn request(&mut self, pod: u64, id: u32, from: u64, to: u64) {
        let mut body = testing::trace(id)
            .service("vllm")
            .resource_attribute("k8s.namespace.name", "llm")
            .resource_attribute("k8s.pod.name", format!("pod-{pod}").as_str())
            .span("llm_request", (to - from).s())
            .attribute("gen_ai.request.id", format!("chatcmpl-{id}").as_str())
            .attribute("gen_ai.usage.prompt_tokens", 7_i64)
            .attribute("gen_ai.latency.e2e", (to - from) as f64)
            .build();
        otlp::retime::shift(&mut body, Signal::Traces, i128::from(from * SECOND)).unwrap();
        let now = self.now();
        self.process.submit(&body, 1, now);
        self.process.core.settle();
    }

    /// One second: what arrives in it, and what the process does.
    fn second(&mut self, second: u64) {
        self.now
            .store(testing::T0 + second * SECOND, Ordering::Relaxed);
        if second < SECONDS {
            self.sample(1, second);
            if second == AWAY.end {
                AWAY.for_each(|second| self.sample(2, second));
            }
            if !AWAY.contains(&second) {
                self.sample(2, second);
            }
            if second.is_multiple_of(3) && second > 20 && second < SECONDS - 30 {
                let id = u32::try_from(second).unwrap();
                let length = 2 + second * 5 % 13;
                self.request(1 + second / 3 % 2, id, second - length, second);
            }
        }
        let now = self.now();
        self.process.core.tick(now);
        self.process.core.sync(now);
        self.process.take_all();
        if second.is_multiple_of(13) {
            self.process.commit(&self.runtime).unwrap();
        }
        if second.is_multiple_of(17) {
            self.process.tell_all(now);
        }
    }

    /// All rows of evidence in the end.
    fn run(mut self, kills: &[u64]) -> Rows {
        for second in 0..SECONDS + 60 {
            if kills.contains(&second) {
                self.kill();
            }
            self.second(second);
        }
        let last = self.options.correlate.completion_wait.as_secs();
        self.second(SECONDS + 100 + last);
        self.process.commit(&self.runtime).unwrap();
        let committed = self.process.commit(&self.runtime);
        assert!(committed.is_some());
        tables::rows(&self.runtime, &self.store, "evidence", &COLUMNS)
    }
}

/// The rows that count of each trace; each has one request here.
fn last(rows: &Rows) -> BTreeMap<&str, Vec<&[String]>> {
    let mut last: BTreeMap<&str, Vec<&[String]>> = BTreeMap::new();
    for row in rows {
        let of_trace = last.entry(row[0].as_str()).or_default();
        let revisions = of_trace.iter().filter(|other| other[2] == row[2]);
        assert_eq!(revisions.count(), 0, "twice: {row:?}");
        // Rows come sorted by revision.
        of_trace.retain(|other| other[2] > row[2]);
        of_trace.push(row);
    }
    last
}

fn completing() -> Run {
    Run::new(Duration::from_secs(200))
}

#[test]
fn late_samples_complete_the_same_evidence_through_kills() {
    let expected = completing().run(&[]);
    assert_eq!(expected, completing().run(&[]));
    let without = last(&expected);
    let n_completed = without.values().filter(|rows| rows[0][2] == "1").count();
    assert!(n_completed > 3, "{n_completed}");
    assert!(without.values().all(|rows| rows[0][3] == "true"));
    let values = |rows: &[&[String]]| -> Vec<Vec<String>> {
        let values = rows.iter().map(|row| [&row[1..2], &row[3..]].concat());
        values.collect()
    };
    let n_seeds = std::env::var("WHYSLOW_SEEDS").map_or(4, |n| n.parse().unwrap());
    let mut n_kills = 0;
    for seed in 1..=n_seeds {
        case(&format!("SEED={seed}"), || {
            let mut random = Random::new(seed);
            let kills: Vec<u64> = (0..=random.below(6))
                .map(|_| random.below(SECONDS))
                .collect();
            n_kills += kills.len();
            let rows = completing().run(&kills);
            let with = last(&rows);
            assert_eq!(without.len(), with.len());
            for (trace, rows) in &without {
                assert_eq!(
                    values(rows),
                    values(&with[trace]),
                    "{trace}, kills at {kills:?}"
                );
            }
        });
    }
    report(&format!(
        "late samples: {} requests, {n_completed} of them completed later; the same values in {n_seeds} runs with {n_kills} kills",
        without.len()
    ));
}

#[test]
fn samples_that_come_after_the_wait_change_nothing() {
    let rows = Run::new(Duration::from_secs(5)).run(&[]);
    let last = last(&rows);
    let n_incomplete = last.values().filter(|rows| rows[0][3] == "false").count();
    let n_completed = last.values().filter(|rows| rows[0][2] == "1").count();
    assert!(
        n_incomplete > 3 && n_completed < n_incomplete,
        "{n_incomplete} {n_completed}"
    );
}
