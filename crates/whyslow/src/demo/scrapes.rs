//! The scrapes of a capture, sent as a collector would send them.

use std::path::Path;

use anyhow::Context as _;
use bytes::Bytes;
use loadgen::client::Client;
use otlp::export::Signal;
use otlp::prometheus::{self, Format, Limits, Scrape};

/// Folder beside the traces, and the resource of what was scraped.
const TARGETS: [(&str, &[(&str, &str)]); 2] = [
    (
        "dcgm",
        &[
            ("service.name", "dcgm"),
            ("service.instance.id", "dcgm-exporter:9400"),
        ],
    ),
    (
        "vllm-metrics",
        &[
            ("service.name", "vllm"),
            ("service.instance.id", "vllm:8000"),
        ],
    ),
];

/// Sends all scrapes with their times moved by `shift` nanoseconds; how many there were.
pub(super) async fn send(client: &Client, folder: &Path, shift: i128) -> anyhow::Result<u64> {
    let mut n_scrapes = 0;
    for (name, resource) in TARGETS {
        for scraped in loadgen::capture::scrapes(&folder.join(name))? {
            let at = i128::from(scraped.at_unix_nano).saturating_add(shift);
            let scrape = Scrape {
                resource,
                scope: "whyslow-demo",
                time_unix_nano: u64::try_from(at).context("a scrape is moved before 1970")?,
            };
            let limits = Limits::default();
            let converted = prometheus::to_protobuf(&scraped.text, Format::Text, &scrape, &limits);
            client
                .export(Signal::Metrics, Bytes::from(converted.body))
                .await?;
            n_scrapes += 1;
        }
    }
    Ok(n_scrapes)
}
