//! `whyslow serve`: the whole route, composed in [`Service::start`].
//!
//! ```text
//! OTLP, scrapes -> gateway: receive, append to the log, acknowledge, index, decide, read back
//!      -> store: rows of spans, traces, requests, GPU and engine samples; visible to SQL at once
//!         -> correlate: evidence of kept requests, when GPU samples of their time are there
//!      -> lake: Parquet and one Delta commit per table and interval -> the log may go
//!      -> exporters: kept spans to other backends                  -> the log may go
//! SQL  -> query: committed files and rows in memory
//!
//! Without the exporter `lake` there is no store, no lake and no SQL: a gateway in front of other backends.
//!
//! Beside the route: commits of others are looked for, and the tables maintained.
//! ```
//!
//! Only three things flow backwards: the reply to the client, the release of the log after a commit,
//! and backpressure.

mod doors;
mod exporters;
mod instance;
mod objectives;
mod ops;
mod reload;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use gateway::{Clock, Handle, Start};
use lake::{Lake, Location, Mode};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;

use crate::config::{self, Config, LakeExporter, Warning};
use crate::maintain;
use crate::measured::Measured;
use crate::store::{Store, placements_file, reports_of};

/// How often commits of other processes on the same tables are looked for.
const REFRESH: Duration = Duration::from_secs(5);

/// How long open queries may take to finish at shutdown.
const QUERY_GRACE: Duration = Duration::from_secs(5);

/// Time for statements to end by themselves, within that: answers that are cut then can still say so.
const STATEMENT_GRACE: Duration = Duration::from_secs(4);

/// Receive OTLP, decide which traces to keep, store them, answer SQL.
#[derive(Debug, clap::Args)]
///
/// SIGHUP reads the file again and puts its `tail_sampling` policies in force, for undecided traces too.
/// A file that is refused changes nothing, and the log says why; other sections need a restart.
#[command(
    after_help = "Examples:\n  whyslow serve\n  whyslow serve -c pipelines/local.yaml\n  whyslow serve -c pipelines/local.yaml --watch"
)]
pub(crate) struct Args {
    /// Pipeline file; without one the built-in default runs, which `pipelines/local.yaml` spells out.
    #[arg(short, long, value_name = "FILE", env = "WHYSLOW_CONFIG")]
    pub(crate) config: Option<PathBuf>,

    /// Look for changes of the file every two seconds, and do what SIGHUP does.
    #[arg(long, requires = "config")]
    watch: bool,
}

/// Runs until a signal.
pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let loaded = config::load(args.config.as_deref())?;
    crate::start_log(&loaded.config.log_level.to_lowercase());
    tell(&loaded.warnings);
    let mut signals = Signals::listen()?;
    // One that comes before the start is over is heard after it.
    let hangups = signal(SignalKind::hangup()).context("listen for SIGHUP")?;
    let running = loaded.config.clone();
    let deadline = loaded.config.gateway.intake.shutdown_deadline;
    let service = tokio::select! {
        started = Service::start(loaded.config) => started?,
        () = signals.next() => {
            anyhow::bail!("stopped by a signal before it was ready; the log is as it was")
        }
    };
    service.announce();
    let gateway = service.gateway.clone();
    let metrics = Arc::clone(&service.reloads);
    let reloader = reload::Reloader::new(args.config, args.watch, running, gateway, metrics);
    let reloads = tokio::spawn(reloader.run(hangups));
    signals.next().await;
    reloads.abort();
    tracing::info!(
        ?deadline,
        "stopping: open requests finish, rows are committed"
    );
    // Whoever asks a second time wants out now; what is acknowledged is in the log.
    tokio::select! {
        stopped = service.stop() => stopped,
        () = signals.next() => {
            anyhow::bail!("stopped at once by a second signal; the next start takes the rest from the log")
        }
        () = tokio::time::sleep(deadline) => anyhow::bail!(
            "not everything was stored within {deadline:?} (`intake::shutdown_deadline`); the next start \
             takes the rest from the log"
        ),
    }
}

/// Logs what a configuration makes one want to know.
pub(crate) fn tell(warnings: &[Warning]) {
    for warning in warnings {
        match warning.severity {
            sampler::Severity::Warning => tracing::warn!("{warning}"),
            sampler::Severity::Note => tracing::info!("{warning}"),
        }
    }
}

/// A running process.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) gateway: Handle,
    pub(crate) query_addr: Option<SocketAddr>,
    postgres_addr: Option<SocketAddr>,
    flight_sql_addr: Option<SocketAddr>,
    health_addr: Option<SocketAddr>,
    /// `None`: nothing is stored here.
    tables: Option<Tables>,
    exporters: Vec<String>,
    servers: Vec<ops::Server>,
    reloads: Arc<reload::Metrics>,
}

/// What runs for the tables.
#[derive(Debug)]
struct Tables {
    place: String,
    engine: Arc<query::Engine>,
    store: JoinHandle<()>,
    refresher: JoinHandle<()>,
    maintainer: JoinHandle<()>,
}

impl Service {
    /// The composition: every stage and what connects it, in the order of the route.
    pub(crate) async fn start(config: Config) -> anyhow::Result<Self> {
        let log_directory = Path::new(&config.log.directory);
        // First of all: a second process on this folder must not get as far as its ports or tables.
        let folder = wal::Folder::lock(log_directory, wal::RealDisk)
            .context("open the log (`extensions::write_ahead_log::directory`)")?;
        let instance = instance::read_or_create(log_directory)?;

        // 9. commit <- 7. tables, 8. correlate
        let slo = config.slo.clone().unwrap_or_default();
        let measured = Arc::new(Measured::new(slo, Clock::system().unix_nano()));
        let stored = match &config.lake {
            Some(exporter) => Some(open_tables(exporter, &instance, &config, &measured).await?),
            None => None,
        };
        let committed_through = stored.as_ref().map(|(_, store)| store.committed_through());

        // 10. query, before the rest: it answers, and says how far the replay is, while that runs
        let engine = match &stored {
            Some((lake, _)) => {
                let config = config.query.clone().unwrap_or_default();
                Some(Arc::new(query::Engine::new(Arc::clone(lake), &config)?))
            }
            None => None,
        };
        let store_metrics = stored.as_ref().map(|(_, store)| store.metrics());
        let ops = ops::Ops::new(store_metrics.unwrap_or_default(), measured);
        let listeners = ops::listen(&config, engine.as_ref(), &ops).await?;

        // 1. receive, 2. admit, 3. append, 4. index, 5. decide, 6. release, also to other backends
        let (gateway, releases) = gateway::start(Start {
            exporters: exporters::open(&config)?,
            scrapers: config::scraping(&config.scrapers),
            pod_resources: config::looking(&config.scrapers),
            config: config.gateway,
            log: wal::Config {
                segment_bytes: config.log.segment_bytes,
                ..wal::Config::in_directory(log_directory)
            },
            folder: Some(folder),
            sampler: config.sampler,
            reports_of,
            committed_through,
            clock: Clock::system(),
            progress: Arc::clone(&ops.progress),
        })
        .await?;
        ops.started(gateway.clone());

        let tables = match (stored, engine, config.lake) {
            (Some((lake, store)), Some(engine), Some(exporter)) => Some(Tables {
                place: exporter.path.clone(),
                engine,
                store: tokio::spawn(store.run(releases, gateway.clone())),
                refresher: tokio::spawn(refresh(Arc::clone(&lake))),
                maintainer: tokio::spawn(maintain::forever(
                    lake,
                    exporter,
                    instance,
                    Arc::clone(&ops.maintenance),
                )),
            }),
            _ => None,
        };
        Ok(Self {
            gateway,
            query_addr: listeners.query_addr,
            postgres_addr: listeners.postgres_addr,
            flight_sql_addr: listeners.flight_sql_addr,
            health_addr: listeners.health_addr,
            tables,
            exporters: ids(config.exporters),
            servers: listeners.servers,
            reloads: ops.reloads,
        })
    }

    /// What answers SQL; `None` where nothing is stored.
    pub(crate) fn engine(&self) -> Option<&Arc<query::Engine>> {
        self.tables.as_ref().map(|tables| &tables.engine)
    }

    /// Says where everything is.
    fn announce(&self) {
        let addr =
            |addr: Option<SocketAddr>| addr.map_or("off".to_owned(), |addr| addr.to_string());
        tracing::info!(
            otlp_grpc = addr(self.gateway.grpc_addr),
            otlp_http = addr(self.gateway.http_addr),
            query = addr(self.query_addr),
            postgres = addr(self.postgres_addr),
            flight_sql = addr(self.flight_sql_addr),
            health_check = addr(self.health_addr),
            tables = self.tables.as_ref().map_or("none", |tables| &tables.place),
            exporters = self.exporters.join(", "),
            "ready"
        );
    }

    /// Stops the stages in the order of the route, so that each can finish what the one before it
    /// handed on.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        let stopped = self.gateway.shutdown().await;
        let mut ending = None;
        if let Some(tables) = self.tables {
            tables
                .store
                .await
                .context("the exporter `lake` ended early")?;
            tables.refresher.abort();
            // What it is in the middle of is safe to cut.
            tables.maintainer.abort();
            ending = Some(tokio::spawn(async move {
                tokio::time::sleep(STATEMENT_GRACE).await;
                tables.engine.stop();
            }));
        }
        for server in self.servers {
            server.stop(QUERY_GRACE).await;
        }
        if let Some(ending) = ending {
            ending.abort();
        }
        stopped.context("stop the gateway")
    }
}

fn ids(exporters: Vec<config::Exporter>) -> Vec<String> {
    let ids = exporters.into_iter().map(|exporter| exporter.id);
    ids.collect()
}

/// Opens the tables, and what turns releases into their rows.
async fn open_tables(
    exporter: &LakeExporter,
    instance: &str,
    config: &Config,
    measured: &Arc<Measured>,
) -> anyhow::Result<(Arc<Lake>, Store)> {
    let location = Location::parse(&exporter.path)?;
    let lake = Lake::open(&location, &tables::all(), Mode::Create)
        .await
        .with_context(|| format!("open the tables at {}", location.root_url()))?;
    let lake = Arc::new(lake);
    let placements = match &config.correlate.placements_file {
        Some(file) => placements_file::read(Path::new(file))
            .context("`processors::correlate::placements_file`")?,
        None => Vec::new(),
    };
    let correlate = (&config.correlate, placements);
    let (exporter, redact) = (exporter.clone(), &config.redact);
    let store = Store::open(
        &lake,
        instance,
        exporter,
        redact,
        correlate,
        Clock::system(),
    )
    .await?;
    let store = store.measuring(measured);
    Ok((lake, store.noting_in(Path::new(&config.log.directory))))
}

async fn refresh(lake: Arc<Lake>) {
    let mut interval = tokio::time::interval(REFRESH);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        for table in lake.tables() {
            if let Err(error) = table.refresh().await {
                let error = crate::show::text::error_chain(&error);
                tracing::warn!(
                    error,
                    "commits of other processes cannot be read at the moment"
                );
            }
        }
    }
}

/// Ctrl-C, or what a supervisor sends. One listener for the whole run, so that no signal comes between two.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn listen() -> anyhow::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt()).context("listen for ctrl-c")?,
            terminate: signal(SignalKind::terminate()).context("listen for SIGTERM")?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
