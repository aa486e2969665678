//! `whyslow loadgen fleet`: plays a run of a simulated serving fleet ([`loadgen::fleet`]) over real OTLP.
//!
//! In real time the exporters of its GPUs and its engines answer `/metrics`, and whoever scrapes them gets values of
//! the moment. At any other speed wall time is not the time of the run, so that samples are sent as OTLP metrics that
//! carry theirs. `setup` writes a pipeline file that scrapes the fleet; the truth goes to a file and nowhere else.

mod exporters;
mod play;
mod setup;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use loadgen::client::Client;
use loadgen::fleet::{self, Config, FaultKind};

use super::now_unix_nano;
use crate::connect::ConnectArgs;
use crate::replay::{ProtocolArg, Speed};
use crate::show::{self, text};
use crate::slow::parse_span;
use exporters::Exporters;

const SECOND: u64 = 1_000_000_000;

/// Services export every five seconds: runs that begin at a multiple of it are equal but for the date.
const CYCLE: u64 = 5 * SECOND;

/// What is open when clients stop asking is finished within this time, unless much is broken.
const FINISH: Duration = Duration::from_secs(60);

/// Everything is in memory before it is sent.
const DURATION_MAX: Duration = Duration::from_secs(2 * 3600);
const RATE_MAX: f64 = 16.0;

/// A minute for each cause.
const TOUR: Duration = Duration::from_secs(660);
const USUAL: Duration = Duration::from_secs(300);

/// Play a simulated serving fleet: client, gateway, RAG service, two vLLM engines on four of eight GPUs.
///
/// Requests share the engines, and get in each other's way. What goes wrong, and when, is told by FAULTs; without any,
/// each cause of slowness comes once. Equal seeds give equal runs but for the date.
#[derive(Debug, clap::Args)]
#[command(after_help = "Faults:\n  \
    make requests slow  queue_burst kv_preemption long_prefill thermal power xid nvlink slow_rag slow_client gateway_stall\n  \
    hide the reason     context_lost pod_moved clock_ahead\n\n\
    Examples:\n  \
    whyslow loadgen fleet --speed max                         # each cause once, sent at once\n  \
    whyslow loadgen fleet thermal@60-80 clock_ahead --duration 3m --speed max --truth truth.json\n  \
    whyslow loadgen fleet --write-config fleet                # then: whyslow serve -c fleet/whyslow.yaml\n  \
    whyslow loadgen fleet thermal                             # in real time, scraped meanwhile")]
pub(crate) struct Args {
    /// What goes wrong: NAME (stretches of 20 s, a minute apart) or NAME@FROM-TO in seconds since the beginning.
    #[arg(value_name = "FAULT")]
    faults: Vec<String>,
    /// How long clients send requests [default: 5m; 11m without a fault].
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    duration: Option<Duration>,
    /// Requests a second, on average.
    #[arg(long, default_value = "4")]
    rate: f64,
    /// Seed of the run.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// `original` (real time, from now on), `max` (as fast as it is taken, of the last minutes), or a multiple such as `10x`.
    #[arg(long, default_value = "original")]
    speed: Speed,
    /// How metrics are told [default: scrape in real time, send otherwise].
    #[arg(long, value_enum)]
    samples: Option<Samples>,
    /// Who says which pod holds which GPU.
    #[arg(long, value_enum, default_value_t = Mapping::Labels)]
    placements: Mapping,
    /// First of four ports on 127.0.0.1 for `/metrics`: exporters of two nodes, then two engines.
    #[arg(long, default_value_t = 19400)]
    port: u16,
    /// Write what was injected, and what each request lost to which cause, as JSON.
    #[arg(long, value_name = "FILE")]
    truth: Option<PathBuf>,
    /// Write a pipeline file, targets and placements for `whyslow serve` into this folder, and send nothing.
    #[arg(long, value_name = "DIR")]
    write_config: Option<PathBuf>,
    /// Server to send to [default: 127.0.0.1:4317, or 4318 over HTTP].
    #[arg(long, value_name = "URL|HOST:PORT", env = "WHYSLOW_ENDPOINT")]
    endpoint: Option<String>,
    /// How requests travel.
    #[arg(long, value_enum, default_value_t = ProtocolArg::Grpc)]
    protocol: ProtocolArg,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// How metrics are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Samples {
    /// They are there to be scraped, and have the time of the scrape.
    Scrape,
    /// They are sent as OTLP metrics with the times of the run.
    Send,
}

/// Who says which pod holds which GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Mapping {
    /// Labels of the exporters, as with dcgm-exporter's `--kubernetes`.
    Labels,
    /// The file of `--write-config`; the exporters do not know pods.
    File,
    /// Nobody: the chain from a request to a GPU is broken.
    None,
}

/// Runs the command.
pub(super) async fn run(args: Args) -> anyhow::Result<()> {
    let samples = args.samples();
    let config = args.config(now_unix_nano()?)?;
    if let Some(folder) = &args.write_config {
        let run = fleet::simulate(&Config {
            // Placements are there from the beginning; nothing else of it is used.
            duration: Duration::from_secs(1),
            ..config
        });
        let said = setup::write(folder, &run.placements, args.port, args.placements)?;
        return Ok(show::print(&said)?);
    }
    ensure!(
        samples == Samples::Send || args.speed == Speed::Times(1.0),
        "a scrape has the time at which it is made, which is not that of the run at another speed than `original`; \
         use `--samples send`"
    );
    let protocol = args.protocol.into();
    let endpoint = args.endpoint.as_deref().unwrap_or("127.0.0.1");
    let client_config = args.connect.client(endpoint, protocol)?;
    let client = Client::new(&client_config)?;
    let exporters = match samples {
        Samples::Scrape => Some(Exporters::listen(args.port).await?),
        Samples::Send => None,
    };
    let run = fleet::simulate(&config);
    if let Some(path) = &args.truth {
        let truth = fleet::truth(&config, &run).to_string();
        std::fs::write(path, truth + "\n")
            .with_context(|| format!("write `{}`", path.display()))?;
    }
    show::print(&announcement(&config, &run, exporters.as_ref()))?;
    let player = play::Player::new(client, client_config.endpoint, args.speed, &config);
    let sent = player.play(run, exporters).await?;
    show::print(&sent.text())?;
    Ok(())
}

impl Args {
    fn samples(&self) -> Samples {
        let usual = if self.speed == Speed::Times(1.0) {
            Samples::Scrape
        } else {
            Samples::Send
        };
        self.samples.unwrap_or(usual)
    }

    fn config(&self, now_unix_nano: u64) -> anyhow::Result<Config> {
        let usual = if self.faults.is_empty() { TOUR } else { USUAL };
        let duration = self.duration.unwrap_or(usual);
        ensure!(
            !duration.is_zero() && duration <= DURATION_MAX,
            "`--duration` must be from 1s to 2h: all of a run is in memory"
        );
        ensure!(
            (0.1..=RATE_MAX).contains(&self.rate),
            "`--rate` must be from 0.1 to {RATE_MAX}: more is more than two engines can do"
        );
        let mut faults = Vec::new();
        for text in &self.faults {
            faults.extend(fleet::faults(text, duration)?);
        }
        if self.faults.is_empty() {
            faults = fleet::tour(duration);
        }
        let moves = faults.iter().any(|fault| fault.kind == FaultKind::PodMoved);
        if moves && self.placements == Mapping::File {
            bail!(
                "`pod_moved` needs `--placements labels`: a file that was written before does not know when a pod moves"
            );
        }
        // Where times of the run pass faster than the wall's, it began in the past and ends now.
        let ago = match self.speed {
            Speed::Max => duration + FINISH,
            Speed::Times(factor) if factor > 1.0 => duration - duration.div_f64(factor),
            Speed::Times(_) => Duration::ZERO,
        };
        let ago = u64::try_from(ago.as_nanos()).unwrap_or(u64::MAX);
        let start = now_unix_nano.saturating_sub(ago);
        Ok(Config {
            seed: self.seed,
            start_unix_nano: start - start % CYCLE,
            duration,
            rate: self.rate,
            faults,
            names_pods: self.placements == Mapping::Labels,
            ..Config::default()
        })
    }
}

fn announcement(config: &Config, run: &fleet::Run, exporters: Option<&Exporters>) -> String {
    let mut out = format!(
        "{} of simulated time, {}:\n",
        text::duration(config.duration),
        text::counted(run.requests.len() as u64, "request")
    );
    for fault in &config.faults {
        let (from, to) = (fault.from.as_secs_f64(), fault.to.as_secs_f64());
        out.push_str(&format!(
            "  {:<14} from {from:.0} s to {to:.0} s\n",
            fault.kind.as_str()
        ));
    }
    for (target, addr) in exporters.iter().flat_map(|exporters| exporters.addresses()) {
        out.push_str(&format!(
            "  http://{addr}/metrics is {}\n",
            target.instance()
        ));
    }
    out
}
