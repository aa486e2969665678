//! `whyslow replay`: sends captured export requests again.
//!
//! Requests are started in the order of the capture; with one at a time (the default) they also
//! arrive in it. A request that the server refuses for good is counted and the next one follows; a
//! server that cannot be reached any more ends the replay.

mod pace;
mod summary;
#[cfg(test)]
mod tests;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail};
use bytes::Bytes;
use loadgen::capture::{Capture, Captured};
use loadgen::client::{Client, Config, ExportError, Exported, Protocol};
use otlp::export::Signal;
use tokio::task::JoinSet;

use crate::connect::ConnectArgs;
use crate::show::progress::Progress;
use crate::show::text;
use pace::Pace;
pub(crate) use pace::Speed;
use summary::Summary;

/// Send captured OTLP trace requests to a server, in the order of their arrival.
///
/// Reads `*.pb`, `*.pb.gz`, `*.json` and `*.json.gz`; a folder gives its files sorted by name (or
/// those of its subfolder `traces`). Ends with a summary; the exit code is 1 if a request or a span
/// was refused for good.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  whyslow replay --speed 4x --retime tests/data/real-chain")]
pub(crate) struct Args {
    /// Files or folders of captured requests.
    #[arg(required = true, value_name = "FILE|DIR")]
    paths: Vec<PathBuf>,
    /// Server to send to [default: 127.0.0.1:4317, or 4318 over HTTP].
    #[arg(long, value_name = "URL|HOST:PORT")]
    endpoint: Option<String>,
    /// How requests travel.
    #[arg(long, value_enum, default_value_t = ProtocolArg::Grpc)]
    protocol: ProtocolArg,
    /// Compress requests.
    #[arg(long)]
    gzip: bool,
    /// `max`, `original` (as far apart as the ends of the captured spans), or a multiple such as
    /// `4x`.
    #[arg(long, default_value = "max")]
    speed: Speed,
    /// Shift all times so that the capture ends now.
    #[arg(long)]
    retime: bool,
    /// Requests that may be on their way at once; with more than one they may overtake each other.
    #[arg(long, value_name = "N", default_value = "1")]
    concurrency: NonZeroUsize,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// How export requests travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ProtocolArg {
    Grpc,
    HttpProtobuf,
    HttpJson,
}

impl From<ProtocolArg> for Protocol {
    fn from(arg: ProtocolArg) -> Self {
        match arg {
            ProtocolArg::Grpc => Self::Grpc,
            ProtocolArg::HttpProtobuf => Self::HttpProtobuf,
            ProtocolArg::HttpJson => Self::HttpJson,
        }
    }
}

/// Runs the command.
pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let capture = Capture::open(&args.paths)?;
    let protocol = args.protocol.into();
    let endpoint = args.endpoint.as_deref().unwrap_or("127.0.0.1");
    let config = Config {
        gzip: args.gzip,
        concurrency: args.concurrency,
        ..args.connect.client(endpoint, protocol)?
    };
    let client = Arc::new(Client::new(&config)?);
    let endpoint = config.endpoint;
    let shift_ns = if args.retime {
        shift_to_now(&capture)?
    } else {
        0
    };

    let begin = now();
    let mut replay = Replay {
        client,
        concurrency: args.concurrency.get(),
        in_flight: JoinSet::new(),
        summary: Summary::default(),
        progress: Progress::new(u64::try_from(capture.len()).unwrap_or(u64::MAX), "requests"),
    };
    let mut pace = Pace::new(args.speed);
    for captured in capture.requests() {
        let prepared = captured.map_err(anyhow::Error::from).and_then(|captured| {
            let path = captured.path.display().to_string();
            prepare(captured, shift_ns).with_context(|| format!("read the times of `{path}`"))
        });
        let (captured, times) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => {
                replay.skip(&error);
                continue;
            }
        };
        let due = pace.due(times.map(|(_, latest)| latest));
        tokio::time::sleep(due.saturating_sub(begin.elapsed())).await;
        replay.send(captured).await?;
        if replay.summary.is_unavailable() {
            break;
        }
    }
    replay.settle_all().await?;
    replay.progress.finish();
    let summary = replay.summary;
    crate::show::print(&summary.text(&endpoint.to_string(), begin.elapsed()))?;
    if let Some(failure) = summary.failure(capture.len()) {
        bail!(failure);
    }
    Ok(())
}

/// Export requests on their way, and what became of those before.
struct Replay {
    client: Arc<Client>,
    concurrency: usize,
    in_flight: JoinSet<Settled>,
    summary: Summary,
    progress: Progress,
}

/// An export request that was answered, or never will be.
struct Settled {
    path: PathBuf,
    n_spans: u64,
    n_bytes: u64,
    outcome: Result<Exported, ExportError>,
}

impl Replay {
    /// Waits for a free place, then sends.
    async fn send(&mut self, captured: Captured) -> anyhow::Result<()> {
        while self.in_flight.len() >= self.concurrency {
            self.settle_one().await?;
        }
        if self.summary.is_unavailable() {
            return Ok(());
        }
        let client = Arc::clone(&self.client);
        self.in_flight.spawn(async move {
            let Captured {
                path,
                body,
                n_spans,
            } = captured;
            let n_bytes = u64::try_from(body.len()).unwrap_or(u64::MAX);
            let outcome = client.export(Signal::Traces, Bytes::from(body)).await;
            Settled {
                path,
                n_spans,
                n_bytes,
                outcome,
            }
        });
        Ok(())
    }

    async fn settle_all(&mut self) -> anyhow::Result<()> {
        while !self.in_flight.is_empty() {
            self.settle_one().await?;
        }
        Ok(())
    }

    async fn settle_one(&mut self) -> anyhow::Result<()> {
        let Some(settled) = self.in_flight.join_next().await else {
            return Ok(());
        };
        let Settled {
            path,
            n_spans,
            n_bytes,
            outcome,
        } = settled.context("a task that sends requests ended early")?;
        if let Err(error) = &outcome {
            let error = text::error_chain(error);
            self.progress.line(&format!("{}: {error}", path.display()));
        }
        self.summary.add(n_spans, n_bytes, outcome);
        self.progress
            .advance(&format!("{} spans", text::count(self.summary.n_accepted)));
        Ok(())
    }

    /// Counts a file that cannot be sent.
    fn skip(&mut self, error: &anyhow::Error) {
        self.progress.line(&format!("{error:#}"));
        self.summary.n_unreadable += 1;
        self.progress.advance("");
    }
}

/// Shifts the times of a request; returns its earliest and latest time, as far as it has any.
fn prepare(
    mut captured: Captured,
    shift_ns: i128,
) -> anyhow::Result<(Captured, Option<(u64, u64)>)> {
    if shift_ns != 0 {
        otlp::retime::shift(&mut captured.body, Signal::Traces, shift_ns)?;
    }
    let times = otlp::retime::time_range(&captured.body)?;
    Ok((captured, times))
}

/// How far to shift so that the latest time of the capture is now; unreadable requests are told of
/// later.
fn shift_to_now(capture: &Capture) -> anyhow::Result<i128> {
    let latest = capture
        .requests()
        .filter_map(|captured| {
            otlp::retime::time_range(&captured.ok()?.body)
                .ok()
                .flatten()
        })
        .map(|(_, latest)| latest)
        .max();
    let Some(latest) = latest else { return Ok(0) };
    let now = system_now()
        .duration_since(UNIX_EPOCH)
        .context("the clock stands before 1970")?;
    let now = i128::try_from(now.as_nanos()).context("the clock is far in the future")?;
    Ok(now - i128::from(latest))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the command measures how long it takes"
)]
fn now() -> Instant {
    Instant::now()
}

#[expect(
    clippy::disallowed_methods,
    reason = "`--retime` moves the capture to the present"
)]
fn system_now() -> SystemTime {
    SystemTime::now()
}
