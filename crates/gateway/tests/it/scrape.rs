//! Scenario: targets are scraped, in the clear, with a token, compressed, with lines that cannot be read, too large, and
//! not at all.
//!
//! Guarantee: what a target says is in a release like metrics that were sent; each fault is counted under its name and
//! harms no other target; nobody is asked while the intake is closed.

use std::{
    io::Write as _,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use flate2::{Compression, write::GzEncoder};
use gateway::{
    Handle,
    scrape::{Config, Kind, Receiver},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};
use transport::{Authenticators, BearerTokenAuth};

use crate::harness::{Fixture, config, eventually, start_of};

const TEXT: &str =
    "# TYPE up gauge\nDCGM_FI_DEV_GPU_TEMP{UUID=\"GPU-0a1b2c3d\"} 46\nthis is no line\n";

/// A target that gives every asker this answer; its address, and the heads of the requests that it had.
async fn target(answer: Vec<u8>) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&heads);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = Vec::new();
            let mut chunk = [0; 1024];
            while !head.ends_with(b"\r\n\r\n") {
                match stream.read(&mut chunk).await {
                    Ok(n) if n > 0 => head.extend_from_slice(&chunk[..n]),
                    _ => break,
                }
            }
            seen.lock()
                .unwrap()
                .push(String::from_utf8_lossy(&head).into_owned());
            stream.write_all(&answer).await.ok();
        }
    });
    (addr, heads)
}

fn answer(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let n_bytes = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {n_bytes}\r\nConnection: close\r\n{headers}\r\n"
    );
    [head.as_bytes(), body].concat()
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn receiver(id: &str, yaml: &str) -> Receiver {
    let config: Config = serde_saphyr::from_str(yaml).unwrap();
    Receiver {
        id: id.to_owned(),
        kind: Kind::Dcgm,
        config,
    }
}

/// Value of a line of the metrics page.
fn value(page: &str, line: &str) -> Option<u64> {
    let rest = page.lines().find_map(|found| found.strip_prefix(line))?;
    rest.trim().parse().ok()
}

/// One of each kind.
struct Targets {
    plain: SocketAddr,
    zipped: SocketAddr,
    /// Of the requests that `zipped` had.
    heads: Arc<Mutex<Vec<String>>>,
    refusing: SocketAddr,
    large: SocketAddr,
    cut: SocketAddr,
    nobody: SocketAddr,
}

impl Targets {
    async fn start() -> Self {
        let with_gzip = |text: &[u8]| answer("200 OK", "Content-Encoding: gzip\r\n", &gzip(text));
        let (zipped, heads) = target(with_gzip(TEXT.as_bytes())).await;
        let cut = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nDCGM".to_vec();
        let gone = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self {
            plain: target(answer("200 OK", "", TEXT.as_bytes())).await.0,
            zipped,
            heads,
            refusing: target(answer("503 Service Unavailable", "", b"")).await.0,
            large: target(with_gzip(&vec![b'#'; 1 << 20])).await.0,
            cut: target(cut).await.0,
            nobody: gone.local_addr().unwrap(),
        }
    }

    fn receivers(&self) -> Vec<Receiver> {
        let Self {
            plain,
            zipped,
            refusing,
            large,
            cut,
            nobody,
            ..
        } = self;
        let common = "scrape_interval: 100ms, body_size_limit: 4096, static_configs";
        let all = format!("'{plain}', '{refusing}', '{large}', '{cut}', '{nobody}'");
        let auth = "auth: {authenticator: bearertokenauth}";
        vec![
            receiver(
                "dcgm",
                &format!("{{{common}: [{{targets: [{all}], labels: {{node: n1}}}}]}}"),
            ),
            receiver(
                "dcgm/token",
                &format!("{{{auth}, {common}: [{{targets: ['{zipped}']}}]}}"),
            ),
        ]
    }
}

/// Waits until each receiver has had scrapes with these results; the metrics page.
async fn await_results(handle: &Handle, now: &AtomicU64, expected: &[(&str, &str)]) -> String {
    eventually(async || {
        now.fetch_add(1_000_000, Ordering::SeqCst);
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        let page = handle.metrics.render_prometheus();
        let is_there = |(receiver, result): &(&str, &str)| {
            let labels = format!("receiver=\"{receiver}\",result=\"{result}\"");
            let line = format!("gateway_scrapes_total{{{labels}}}");
            value(&page, &line).is_some_and(|n| n > 0)
        };
        expected.iter().all(is_there).then_some(page)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_targets_say_is_released_and_faults_have_names() {
    let targets = Targets::start().await;
    let mut config = config();
    let token: BearerTokenAuth = serde_saphyr::from_str("{token: s3cret}").unwrap();
    let known = [("bearertokenauth".to_owned(), token)];
    config.authenticators = Authenticators(known.into_iter().collect());
    let folder = tempfile::tempdir().unwrap();
    let now = Arc::new(AtomicU64::new(otlp::testing::T0));
    let mut start = start_of(config, &folder, &now);
    start.scrapers = targets.receivers();
    for receiver in &start.scrapers {
        receiver.validate(&start.config.authenticators).unwrap();
    }
    let (handle, mut releases) = Box::pin(gateway::start(start)).await.unwrap();
    let release = releases.recv().await.unwrap();
    let body = release.metrics[0].body();
    let metric = otlp::metrics::metrics(body).next().unwrap().unwrap();
    assert_eq!(metric.name, "DCGM_FI_DEV_GPU_TEMP");
    let text = String::from_utf8_lossy(body);
    assert!(text.contains("k8s.node.name") || text.contains("service.instance.id"));

    let draining = tokio::spawn(async move { while releases.recv().await.is_some() {} });
    let expected = [
        ("dcgm", "ok"),
        ("dcgm", "no_answer"),
        ("dcgm", "status"),
        ("dcgm", "too_large"),
        ("dcgm", "broken"),
        ("dcgm/token", "ok"),
    ];
    let page = await_results(&handle, &now, &expected).await;
    let Targets {
        plain,
        refusing,
        nobody,
        heads,
        ..
    } = targets;
    for (name, target, expected) in [
        ("up", plain, 1),
        ("points", plain, 1),
        ("up", refusing, 0),
        ("up", nobody, 0),
    ] {
        let line = format!(
            "gateway_scrape_{name}{{receiver=\"dcgm\",target=\"http://{target}/metrics\"}}"
        );
        assert_eq!(value(&page, &line), Some(expected), "{line}\n{page}");
    }
    let skipped = format!(
        "gateway_scrape_lines_skipped_total{{receiver=\"dcgm\",target=\"http://{plain}/metrics\"}}"
    );
    assert!(value(&page, &skipped).unwrap() > 0);
    let head = heads.lock().unwrap()[0].to_ascii_lowercase();
    assert!(head.contains("authorization: bearer s3cret"), "{head}");
    assert!(head.starts_with("get /metrics http/1.1"), "{head}");

    handle.shutdown().await.unwrap();
    draining.await.unwrap();
    assert!(handle.metrics.points().is_conserved());
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_asked_while_the_intake_is_closed() {
    let (addr, heads) = target(answer("200 OK", "", TEXT.as_bytes())).await;
    let mut config = config();
    // Closed as soon as anything is in the log.
    config.intake.log_bytes_max = 1;
    let folder = tempfile::tempdir().unwrap();
    let now = Arc::new(AtomicU64::new(otlp::testing::T0));
    let mut start = start_of(config, &folder, &now);
    let yaml = format!("{{scrape_interval: 100ms, static_configs: [{{targets: ['{addr}']}}]}}");
    start.scrapers = vec![receiver("dcgm", &yaml)];
    let (handle, _releases) = Box::pin(gateway::start(start)).await.unwrap();
    let line = "gateway_scrapes_total{receiver=\"dcgm\",result=\"refused\"}";
    eventually(async || {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        let page = handle.metrics.render_prometheus();
        value(&page, line).filter(|n| *n > 3)
    })
    .await;
    let n_asked = heads.lock().unwrap().len();
    assert!(n_asked <= 3, "{n_asked} scrapes of a closed intake");
    handle.shutdown().await.unwrap();
}

/// A gateway without scrapers says nothing of scrapes.
#[tokio::test(flavor = "multi_thread")]
async fn without_scrapers_there_are_no_lines_about_them() {
    let gateway = Fixture::new(config()).await;
    let page = gateway.handle.metrics.render_prometheus();
    assert!(!page.contains("gateway_scrape"), "{page}");
}
