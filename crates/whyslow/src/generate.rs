//! `whyslow loadgen`: generated LLM traffic over real OTLP; `whyslow loadgen fleet`: a simulated fleet with its metrics.

mod fleet;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail};
use bytes::Bytes;
use loadgen::client::{Client, Endpoint, Protocol};
use loadgen::traffic;
use otlp::export::Signal;

use crate::connect::ConnectArgs;
use crate::show;
use crate::show::text;

/// Requests that are generated ahead.
const BATCH: u32 = 100;

/// Send generated LLM traffic (client, gateway, RAG service, vLLM) to an OTLP/gRPC server.
///
/// Equal seeds give equal traffic. Some requests fail and some are slow for a known cause. `fleet` has requests that get in
/// each other's way, GPUs, and metrics.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  whyslow loadgen --rate 20 --requests 1000\n  whyslow loadgen fleet --speed max"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    kind: Option<Kind>,
    /// Server to send to.
    #[arg(
        long,
        value_name = "URL|HOST:PORT",
        default_value = "127.0.0.1:4317",
        env = "WHYSLOW_ENDPOINT"
    )]
    endpoint: String,
    /// Requests a second, on average.
    #[arg(long, default_value = "5")]
    rate: NonZeroU32,
    /// Stop after this many requests; without it, on ctrl-c.
    #[arg(long)]
    requests: Option<u32>,
    /// Seed of the traffic.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// What is generated, other than requests by themselves.
#[derive(Debug, clap::Subcommand)]
enum Kind {
    Fleet(Box<fleet::Args>),
}

/// Runs the command.
pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    if let Some(Kind::Fleet(args)) = args.kind {
        return Box::pin(fleet::run(*args)).await;
    }
    let config = args.connect.client(&args.endpoint, Protocol::Grpc)?;
    let client = Arc::new(Client::new(&config)?);
    let endpoint = config.endpoint;
    let gap_mean = Duration::from_secs(1) / args.rate.get();
    let mut config = traffic::Config {
        seed: args.seed,
        start_unix_nano: now_unix_nano()?,
        gap_mean,
        ..traffic::Config::default()
    };
    let mut left = args.requests;
    let (mut n_requests, mut n_spans) = (0_u64, 0_u64);
    while left != Some(0) {
        config.n_requests = left.map_or(BATCH, |left| left.min(BATCH));
        let traffic = traffic::generate(&config);
        for export in traffic.exports {
            let wait = export.due_unix_nano.saturating_sub(now_unix_nano()?);
            tokio::select! {
                () = tokio::time::sleep(Duration::from_nanos(wait)) => {}
                ctrl_c = tokio::signal::ctrl_c() => {
                    ctrl_c.context("listen for ctrl-c")?;
                    return report(&endpoint, n_requests, n_spans);
                }
            }
            let sent = client
                .export(Signal::Traces, Bytes::from(export.body))
                .await;
            let exported = sent.with_context(|| format!("send to {endpoint}"))?;
            if exported.n_rejected > 0 {
                bail!(
                    "{endpoint} rejected {} spans: {}",
                    exported.n_rejected,
                    exported.message.unwrap_or_default()
                );
            }
            n_spans += u64::from(export.n_spans);
        }
        n_requests += u64::from(config.n_requests);
        left = left.map(|left| left.saturating_sub(config.n_requests));
        config.seed = config.seed.wrapping_add(1);
        config.start_unix_nano = config.start_unix_nano.max(now_unix_nano()?);
    }
    report(&endpoint, n_requests, n_spans)
}

fn report(endpoint: &Endpoint, n_requests: u64, n_spans: u64) -> anyhow::Result<()> {
    let line = format!(
        "sent {} with {} to {endpoint}\n",
        text::counted(n_requests, "request"),
        text::counted(n_spans, "span")
    );
    show::print(&line)?;
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "the traffic begins now")]
fn now_unix_nano() -> anyhow::Result<u64> {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .context("the clock is before 1970")?;
    u64::try_from(since.as_nanos()).context("the clock is far in the future")
}
