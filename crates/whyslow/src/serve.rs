//! `whyslow serve`: the whole route, composed in [`Service::start`].
//!
//! ```text
//! OTLP -> gateway: receive, append to the log, acknowledge, index, decide, read back
//!      -> store: rows of spans, traces, requests; visible to SQL at once
//!      -> lake: Parquet and one Delta commit per table and interval -> the log may go
//! SQL  -> query: committed files and rows in memory
//!
//! Beside the route: commits of others are looked for, and the tables maintained.
//! ```
//!
//! Only three things flow backwards: the reply to the client, the release of the log after a commit,
//! and backpressure.

mod instance;
mod ops;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use gateway::{Clock, Handle, Start};
use lake::{Lake, Location, Mode};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::config::{self, Config, Warning};
use crate::maintain;
use crate::store::Store;

/// How often commits of other processes on the same tables are looked for.
const REFRESH: Duration = Duration::from_secs(5);

/// How long open queries may take to finish at shutdown.
const QUERY_GRACE: Duration = Duration::from_secs(5);

/// Receive OTLP, decide which traces to keep, store them, answer SQL.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  whyslow serve\n  whyslow serve -c pipelines/local.yaml")]
pub(crate) struct Args {
    /// Pipeline file; without one the built-in default runs, which `pipelines/local.yaml` spells out.
    #[arg(short, long, value_name = "FILE", env = "WHYSLOW_CONFIG")]
    pub(crate) config: Option<PathBuf>,
}

/// Runs until a signal.
pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let loaded = config::load(args.config.as_deref())?;
    tell(&loaded.warnings);
    let service = Service::start(loaded.config).await?;
    service.announce();
    wait_for_signal().await?;
    tracing::info!("stopping: open requests finish, rows are committed");
    // Whoever asks a second time wants out now; what is acknowledged is in the log.
    tokio::select! {
        stopped = service.stop() => stopped,
        signal = wait_for_signal() => {
            signal?;
            anyhow::bail!("stopped at once by a second signal; the next start takes the rest from the log")
        }
    }
}

/// Logs what a configuration makes one want to know.
pub(crate) fn tell(warnings: &[Warning]) {
    for warning in warnings {
        tracing::warn!("{warning}");
    }
}

/// A running process.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) gateway: Handle,
    pub(crate) engine: Arc<query::Engine>,
    pub(crate) query_addr: Option<SocketAddr>,
    health_addr: Option<SocketAddr>,
    tables: String,
    store: JoinHandle<()>,
    refresher: JoinHandle<()>,
    maintainer: JoinHandle<()>,
    servers: Vec<ops::Server>,
}

impl Service {
    /// The composition: every stage and what connects it, in the order of the route.
    pub(crate) async fn start(config: Config) -> anyhow::Result<Self> {
        let log_directory = Path::new(&config.log.directory);
        let instance = instance::read_or_create(log_directory)?;
        let location = Location::parse(&config.lake.path)?;
        let tables = location.root_url().to_string();
        let lake = Lake::open(&location, &tables::all(), Mode::Create)
            .await
            .with_context(|| format!("open the tables at {tables}"))?;
        let lake = Arc::new(lake);

        // 9. commit <- 7. tables, 8. correlate
        let store = Store::open(&lake, &instance, config.lake.clone(), &config.redact).await?;
        let store_metrics = store.metrics();

        // 1. receive, 2. admit, 3. append, 4. index, 5. decide, 6. release
        let (gateway, releases) = gateway::start(Start {
            config: config.gateway,
            log: wal::Config {
                segment_bytes: config.log.segment_bytes,
                ..wal::Config::in_directory(log_directory)
            },
            sampler: config.sampler,
            is_request: correlate::is_request_span,
            committed_through: store.committed_through(),
            clock: Clock::system(),
        })
        .await?;
        let store = tokio::spawn(store.run(releases, gateway.clone()));

        // 10. query
        let engine_config = config.query.clone().unwrap_or_default();
        let engine = Arc::new(query::Engine::new(Arc::clone(&lake), &engine_config)?);
        let refresher = tokio::spawn(refresh(Arc::clone(&lake)));
        let maintenance_metrics = Arc::default();
        let maintainer = tokio::spawn(maintain::forever(
            Arc::clone(&lake),
            config.lake,
            instance,
            Arc::clone(&maintenance_metrics),
        ));
        let ops = ops::Ops {
            gateway: gateway.clone(),
            store: store_metrics,
            maintenance: maintenance_metrics,
        };
        let mut servers = Vec::new();
        let mut query_addr = None;
        if let Some(query) = &config.query {
            let listener = bind("extensions::query::endpoint", &query.endpoint.to_string()).await?;
            query_addr = Some(listener.local_addr()?);
            let router = query::router(Arc::clone(&engine)).merge(ops::router(ops.clone()));
            servers.push(ops::Server::spawn(listener, router));
        }
        let mut health_addr = None;
        if let Some(health) = &config.health_check {
            let listener = bind("extensions::health_check::endpoint", &health.endpoint).await?;
            health_addr = Some(listener.local_addr()?);
            servers.push(ops::Server::spawn(
                listener,
                ops::health_router(&health.path, ops),
            ));
        }
        Ok(Self {
            gateway,
            engine,
            query_addr,
            health_addr,
            tables,
            store,
            refresher,
            maintainer,
            servers,
        })
    }

    /// Says where everything is.
    fn announce(&self) {
        let addr =
            |addr: Option<SocketAddr>| addr.map_or("off".to_owned(), |addr| addr.to_string());
        tracing::info!(
            otlp_grpc = addr(self.gateway.grpc_addr),
            otlp_http = addr(self.gateway.http_addr),
            query = addr(self.query_addr),
            health_check = addr(self.health_addr),
            tables = self.tables,
            "ready"
        );
    }

    /// Stops the stages in the order of the route, so that each can finish what the one before it
    /// handed on.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        let stopped = self.gateway.shutdown().await;
        self.store
            .await
            .context("the exporter `lake` ended early")?;
        self.refresher.abort();
        // What it is in the middle of is safe to cut.
        self.maintainer.abort();
        for server in self.servers {
            server.stop(QUERY_GRACE).await;
        }
        stopped.context("stop the gateway")
    }
}

/// Binds, or says which key to change.
async fn bind(key: &str, endpoint: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(endpoint).await.with_context(|| {
        format!("cannot listen on `{endpoint}`; is another process there? Change `{key}`")
    })
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

/// Ctrl-C, or what a supervisor sends.
async fn wait_for_signal() -> anyhow::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
    tokio::select! {
        ctrl_c = tokio::signal::ctrl_c() => ctrl_c.context("listen for ctrl-c"),
        _ = terminate.recv() => Ok(()),
    }
}
