//! Sends generated traffic over gRPC and says what became of it.
//!
//! `load '{"endpoint": "127.0.0.1:4317", ...}'` with the keys of [`Plan`] prints a [`Report`] as JSON. With a rate,
//! exports are due at fixed times whatever the answers are, and latency counts from when an export was due, so that a
//! server that stalls is not spared the exports that it kept from being sent. Without a rate each of the calls in flight
//! sends as soon as it is answered. An export that is refused is given up, and counted by the answer.
#![expect(clippy::print_stdout, reason = "its result is what it prints")]

use std::{
    collections::BTreeMap,
    env,
    error::Error,
    num::{NonZeroU32, NonZeroUsize},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use loadgen::client::{Client, Config, Endpoint, ExportError, Protocol, Retry};
use measure::{Shape, Template};
use otlp::export::Signal;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep, sleep_until};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// How long an answer may take before the export counts as failed.
const ANSWER_SECONDS_MAX: u64 = 30;
/// After a refusal a sender without a rate waits at most so long.
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// What to send.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Plan {
    /// `host:port`.
    endpoint: String,
    seconds: f64,
    /// Spans per second; as many as are answered without it.
    rate: Option<f64>,
    /// Traces in an export.
    traces: usize,
    /// Spans in a trace.
    spans_per_trace: usize,
    /// Bytes of prompt in each span.
    prompt_bytes: usize,
    /// Connections, and calls in flight on each.
    connections: usize,
    in_flight: usize,
    /// Equal seeds give equal trace ids.
    seed: u64,
}

/// What became of it. Spans, bytes of exports, seconds; latencies in milliseconds, of accepted exports.
#[derive(Debug, Default, Serialize)]
struct Report {
    seconds: f64,
    accepted_spans: u64,
    accepted_bytes: u64,
    refused_spans: u64,
    /// Exports by the answer that refused them.
    refusals: BTreeMap<String, u64>,
    /// At 50, 90, 99, 99.9 and 100 %.
    latency_ms: BTreeMap<&'static str, f64>,
    /// Accepted spans per second since the start.
    accepted_by_second: Vec<u64>,
}

/// One answer.
struct Answer {
    at: Duration,
    latency: Duration,
    refusal: Option<String>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let plan = env::args().nth(1).ok_or("usage: load JSON")?;
    let plan: Plan = serde_json::from_str(&plan)?;
    let template = Arc::new(Template::new(shape(&plan)?, plan.seed));
    let n_spans = plan.traces * plan.spans_per_trace;
    let begin = now();
    let pace = Pace {
        begin,
        end: begin + Duration::from_secs_f64(plan.seconds),
        interval_seconds: plan.rate.map(|rate| n_spans as f64 / rate),
        next: AtomicU64::new(0),
    };
    let pace = Arc::new(pace);
    let mut senders = Vec::new();
    for _ in 0..plan.connections {
        let client = Arc::new(Client::new(&config(&plan)?)?);
        for _ in 0..plan.in_flight {
            let parts = (
                Arc::clone(&client),
                Arc::clone(&template),
                Arc::clone(&pace),
            );
            senders.push(tokio::spawn(send(parts.0, parts.1, parts.2)));
        }
    }
    let mut answers = Vec::new();
    for sender in senders {
        answers.extend(sender.await?);
    }
    let seconds = begin.elapsed().as_secs_f64();
    let report = report(&answers, n_spans as u64, template.n_bytes() as u64, seconds);
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}

#[expect(
    clippy::disallowed_methods,
    reason = "spans of generated traffic are as old as the run"
)]
fn shape(plan: &Plan) -> Result<Shape, Box<dyn Error>> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    Ok(Shape {
        n_traces: plan.traces,
        spans_per_trace: plan.spans_per_trace,
        prompt_bytes: plan.prompt_bytes,
        start_time_unix_nano: u64::try_from(since.as_nanos())?,
    })
}

fn now() -> Instant {
    Instant::now()
}

fn config(plan: &Plan) -> Result<Config, Box<dyn Error>> {
    let endpoint = Endpoint::parse(&plan.endpoint, Protocol::Grpc)?;
    Ok(Config {
        concurrency: NonZeroUsize::new(plan.in_flight).ok_or("no call is in flight")?,
        timeout: Duration::from_secs(ANSWER_SECONDS_MAX),
        retry: Retry {
            attempts_max: NonZeroU32::MIN,
            ..Retry::default()
        },
        ..Config::new(endpoint, Protocol::Grpc)
    })
}

/// When exports are due.
struct Pace {
    begin: Instant,
    end: Instant,
    /// Between two exports; `None` sends as fast as it is answered.
    interval_seconds: Option<f64>,
    next: AtomicU64,
}

impl Pace {
    /// The number of the next export and when it is due; `None` at the end.
    fn next(&self) -> Option<(u64, Instant)> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let due = match self.interval_seconds {
            Some(interval) => self.begin + Duration::from_secs_f64(number as f64 * interval),
            None => now(),
        };
        (due < self.end).then_some((number, due))
    }
}

/// One call in flight after the other, until the end.
async fn send(client: Arc<Client>, template: Arc<Template>, pace: Arc<Pace>) -> Vec<Answer> {
    let mut answers = Vec::new();
    while let Some((number, due)) = pace.next() {
        let export = template.export(number);
        sleep_until(due).await;
        let answer = client.export(Signal::Traces, export.body.into()).await;
        let answered = now();
        let refusal = answer.err();
        if pace.interval_seconds.is_none() && refusal.is_some() {
            sleep(PAUSE_MAX).await;
        }
        answers.push(Answer {
            at: answered - pace.begin,
            latency: answered - due,
            refusal: refusal.as_ref().map(name),
        });
    }
    answers
}

fn name(error: &ExportError) -> String {
    match error {
        ExportError::Refused { failure, .. }
        | ExportError::Exhausted { failure, .. }
        | ExportError::DelayTooLong { failure, .. } => failure.status.to_string(),
        ExportError::Encode { .. } | ExportError::Closed => error.to_string(),
    }
}

fn report(answers: &[Answer], n_spans: u64, n_bytes: u64, seconds: f64) -> Report {
    let mut report = Report {
        seconds,
        ..Report::default()
    };
    let mut latencies = Vec::new();
    for answer in answers {
        if let Some(refusal) = &answer.refusal {
            report.refused_spans += n_spans;
            *report.refusals.entry(refusal.clone()).or_default() += 1;
            continue;
        }
        report.accepted_spans += n_spans;
        report.accepted_bytes += n_bytes;
        latencies.push(answer.latency);
        let second = usize::try_from(answer.at.as_secs()).unwrap_or(usize::MAX);
        if report.accepted_by_second.len() <= second {
            report.accepted_by_second.resize(second + 1, 0);
        }
        report.accepted_by_second[second] += n_spans;
    }
    latencies.sort_unstable();
    for (name, per_mille) in [
        ("p50", 500),
        ("p90", 900),
        ("p99", 990),
        ("p99.9", 999),
        ("max", 1000),
    ] {
        let rank = (latencies.len() * per_mille).div_ceil(1000);
        if let Some(latency) = rank.checked_sub(1).and_then(|rank| latencies.get(rank)) {
            report.latency_ms.insert(name, latency.as_secs_f64() * 1e3);
        }
    }
    report
}
