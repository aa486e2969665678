//! A gateway in front of two backends of which one goes down, and `kill -9` of the gateway meanwhile.
//!
//! `WHYSLOW_OUTAGE_SECONDS` says how long the backend is away (default 4). The other one shows what was kept.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use bytes::Bytes;
use gateway::testing::Backend;
use loadgen::client::{Client, Config, Endpoint, Protocol};
use loadgen::traffic;
use otlp::export::{Limits, Signal};
use otlp::span::SpanSummary;

use crate::harness::{SLOW_OR_FAILED, Server, Site, http_get};

type Spans = BTreeMap<(String, String), u32>;

const PATIENCE: Duration = Duration::from_secs(300);

/// Everything that was acknowledged, by trace.
#[derive(Default)]
struct Sent(BTreeMap<String, BTreeSet<String>>);

impl Sent {
    fn n_spans(&self) -> usize {
        self.0.values().map(BTreeSet::len).sum()
    }
}

/// Sends traffic for a while, at a steady pace; every export is acknowledged.
async fn load(server: &Server, seed: u64, seconds: u64, sent: &mut Sent) {
    let config = traffic::Config {
        seed,
        n_requests: 200,
        failed_share: 0.2,
        slow_share: 0.2,
        ..traffic::Config::default()
    };
    let exports = traffic::generate(&config).exports;
    let pause = Duration::from_secs(seconds) / u32::try_from(exports.len()).unwrap();
    let endpoint = Endpoint::parse(&server.grpc, Protocol::Grpc).unwrap();
    let client = Client::new(&Config::new(endpoint, Protocol::Grpc)).unwrap();
    for export in exports {
        let body = Bytes::from(export.body);
        client.export(Signal::Traces, body.clone()).await.unwrap();
        for at in otlp::export::spans(&body, &Limits::default()) {
            let summary = SpanSummary::read(at.unwrap().span).unwrap();
            let spans = sent.0.entry(summary.trace_id.to_string()).or_default();
            spans.insert(summary.span_id.to_string());
        }
        tokio::time::sleep(pause).await;
    }
}

/// Nothing is undecided, and nothing waits for any exporter.
async fn idle(server: &Server) -> String {
    let begin = Instant::now();
    loop {
        let (_, page) = http_get(&format!("{}/metrics", server.health));
        let is_zero = |name: &str| {
            let mut values = page.lines().filter(|line| line.starts_with(name));
            values.all(|line| line.ends_with(" 0"))
        };
        if is_zero("sampler_traces_pending") && is_zero("exporter_queue_releases{") {
            return page;
        }
        assert!(
            begin.elapsed() < PATIENCE,
            "not everything is sent:\n{page}"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn traces(spans: &Spans) -> BTreeMap<&str, BTreeSet<String>> {
    let mut traces: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (trace, span) in spans.keys() {
        traces.entry(trace).or_default().insert(span.clone());
    }
    traces
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backend_that_was_down_has_every_kept_span_once_whatever_was_killed() {
    let seconds: u64 =
        std::env::var("WHYSLOW_OUTAGE_SECONDS").map_or(4, |seconds| seconds.parse().unwrap());
    let shaky = Backend::start().await.unwrap();
    let steady = Backend::start().await.unwrap();
    for backend in [&shaky, &steady] {
        backend.forget_bodies();
    }
    let site = Site::new(SLOW_OR_FAILED)
        .deciding_after("1s")
        .exporting(format!(
            "  otlp:
    endpoint: '{}'
    tls: {{insecure: true}}
    retry_on_failure: {{initial_interval: 200ms, max_interval: 1s}}
  otlp_http/steady:
    endpoint: 'http://{}'
    retry_on_failure: {{initial_interval: 200ms, max_interval: 1s}}
",
            shaky.addr(),
            steady.addr()
        ));
    let mut sent = Sent::default();
    let server = site.serve();
    load(&server, 1, 1, &mut sent).await;
    idle(&server).await;
    let n_before = shaky.spans().len();
    assert!(n_before > 0, "the traffic has traces that are kept");

    shaky.down();
    let down = Instant::now();
    load(&server, 2, seconds / 2, &mut sent).await;
    server.kill();
    let server = site.serve();
    load(&server, 3, seconds / 2, &mut sent).await;
    if let Some(rest) = Duration::from_secs(seconds).checked_sub(down.elapsed()) {
        tokio::time::sleep(rest).await;
    }
    let outage = down.elapsed();
    assert_eq!(shaky.spans().len(), n_before, "it is down");
    shaky.up().await.unwrap();
    let page = idle(&server).await;
    server.stop();

    let (shaky, steady) = (shaky.spans(), steady.spans());
    let twice: Vec<_> = shaky.iter().filter(|(_, n_times)| **n_times != 1).collect();
    assert!(twice.is_empty(), "came more than once: {twice:?}");
    let kept = traces(&shaky);
    assert_eq!(kept, traces(&steady), "both have the same");
    for (trace, spans) in &kept {
        assert_eq!(spans, &sent.0[*trace], "{trace} is whole");
    }
    assert!(kept.len() < sent.0.len(), "some are not kept");
    assert!(shaky.len() > n_before);
    for lost in page
        .lines()
        .filter(|line| line.starts_with("exporter_spans_lost_total{"))
    {
        assert!(lost.ends_with(" 0"), "{lost}");
    }
    println!(
        "backend down: {:.1} s away, the gateway killed in between: {} spans of {} traces acknowledged, {} traces \
         kept; {} spans at the backend, each once, {n_before} of them before the outage; 0 lost, 0 doubled, 0 in \
         the queue; the backend that stayed up has the same {} spans",
        outage.as_secs_f64(),
        sent.n_spans(),
        sent.0.len(),
        kept.len(),
        shaky.len(),
        steady.len(),
    );
}

#[test]
fn sql_without_tables_is_refused_with_the_remedy() {
    let site = Site::new(SLOW_OR_FAILED).exporting("  debug: {verbosity: normal}\n".to_owned());
    let path = site.write_config();
    let yaml = std::fs::read_to_string(&path).unwrap();
    let with_query = yaml.replace("extensions: [", "extensions: [query, ");
    std::fs::write(
        &path,
        with_query.replace("extensions:\n", "extensions:\n  query: {}\n"),
    )
    .unwrap();
    let output = crate::harness::whyslow()
        .args(["check", "-c"])
        .arg(&path)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(64), "{text}");
    assert!(
        text.contains("take `query` out of `service::extensions`"),
        "{text}"
    );
}
