//! Start and stop: every channel, thread and listener of the gateway, in order.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicI64, Ordering},
        mpsc as std_mpsc,
    },
    thread::JoinHandle,
    time::Duration,
};

use sampler::Sampler;
use tokio::{
    sync::{mpsc, oneshot, watch},
    task,
    time::MissedTickBehavior,
};
use wal::{RealDisk, SyncHandle, Wal};

use crate::{
    admission::{Budget, Gate},
    clock::Clock,
    config::{self, Config},
    connection::Protocol,
    error::{Error, Result},
    grpc::GrpcReceiver,
    http::HttpReceiver,
    ingest::{Ingest, Input, IsRequest, Reloaded, Settings},
    metrics::Metrics,
    progress::Progress,
    receive::Edge,
    record::{EXPORT_HEADER_BYTES, SpanWindow},
    release::{Plan, Release, Releaser},
    server::{self, Listener},
    threads::{self, Outlets},
};

/// How often the intake looks for traces that are due.
const TICK_INTERVAL: Duration = Duration::from_millis(100);

/// Exports that wait for the ingest thread. Their bytes are bounded by `intake.bytes_in_flight_max`.
const INPUTS_MAX: usize = 1024;

/// Releases that wait for storage with their bytes in memory.
const RELEASES_MAX: usize = 4;

/// The largest decision record, with room to spare.
const DECISION_BYTES_MAX: u64 = 8 << 20;

/// What the gateway is started with.
#[derive(Debug)]
pub struct Start {
    /// Receivers and intake.
    pub config: Config,
    /// The log. Its `record_bytes_max` is raised to what the receivers accept.
    pub log: wal::Config,
    /// The log's folder, if it is locked already.
    pub folder: Option<wal::Folder>,
    /// The policies.
    pub sampler: sampler::Config,
    /// Which spans describe a request to an engine.
    pub is_request: IsRequest,
    /// The lowest sequence that every table has committed; 0 for none.
    pub committed_through: i64,
    /// [`Clock::system`], or given time in tests.
    pub clock: Clock,
    /// Where the replay says how far it is.
    pub progress: Arc<Progress>,
}

/// A running gateway. Clones are the same gateway.
#[derive(Clone, Debug)]
pub struct Handle {
    /// Where OTLP/gRPC listens.
    pub grpc_addr: Option<SocketAddr>,
    /// Where OTLP/HTTP listens.
    pub http_addr: Option<SocketAddr>,
    /// Counters and gauges.
    pub metrics: Arc<Metrics>,
    committed: Arc<AtomicI64>,
    gate: Arc<Gate>,
    is_stopping: Arc<AtomicBool>,
    running: Arc<Mutex<Option<Running>>>,
}

/// Is the gateway fit to take exports?
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// Yes, or refusing for a moment because a limit is reached.
    Ready,
    /// No, it is stopping.
    Stopping,
    /// No, until a restart.
    Unhealthy {
        /// The first failure.
        reason: String,
    },
}

/// What a shutdown ends.
#[derive(Debug)]
struct Running {
    stop: watch::Sender<bool>,
    servers: Vec<task::JoinHandle<()>>,
    ticker: task::JoinHandle<()>,
    inputs: mpsc::Sender<Input>,
    threads: Vec<Joined>,
}

/// Starts the gateway: opens and replays the log, then listens.
///
/// Releases come in order of their sequence, first those of an earlier run that are not committed. The
/// receiver must be emptied until it gives `None`, which it does after [`Handle::shutdown`].
///
/// # Errors
///
/// A configuration that cannot be used, a log that is locked or damaged, an address that cannot be bound.
pub async fn start(start: Start) -> Result<(Handle, mpsc::Receiver<Release>)> {
    start.config.validate()?;
    let config = start.config.clone();
    let committed_through = start.committed_through;
    let clock = start.clock.clone();
    let metrics = Arc::new(Metrics::default());
    let gate = Arc::new(Gate::default());

    // Bound first, so that a wrong address is known before a long replay; served after it.
    let listeners = bind(&config).await?;
    let (grpc_addr, http_addr) = listeners.addrs();

    let (plans, planned) = std_mpsc::channel();
    let (syncs, sync_handles) = std_mpsc::channel();
    let outlets = Outlets { plans, syncs };
    let (ingest, outlets) = {
        let (metrics, gate) = (Arc::clone(&metrics), Arc::clone(&gate));
        let replayed = move || replay(start, metrics, gate, outlets);
        let ended = |_| Error::ThreadEnded { name: "replay" };
        task::spawn_blocking(replayed).await.map_err(ended)??
    };

    let (inputs, input_receiver) = mpsc::channel(INPUTS_MAX);
    let (release_sender, releases) = mpsc::channel(RELEASES_MAX);
    let releaser = Releaser {
        reader: ingest.reader(),
    };
    spawn_release(planned, releaser, release_sender, &gate, &metrics)?;
    let threads = vec![
        spawn_ingest(ingest, input_receiver, clock.clone(), outlets, &gate)?,
        spawn_sync(sync_handles, inputs.clone(), &gate)?,
    ];

    let committed = Arc::new(AtomicI64::new(committed_through));
    let ticker = task::spawn(tick(inputs.clone(), Arc::clone(&committed)));
    let edge = Arc::new(Edge {
        inputs: inputs.clone(),
        budget: Budget::new(config.intake.bytes_in_flight_max),
        gate: Arc::clone(&gate),
        metrics: Arc::clone(&metrics),
        clock,
        window: window(&config),
    });
    let (stop, stopping) = watch::channel(false);
    let servers = listeners.serve(&config, &edge, &stopping);
    let running = Running {
        stop,
        servers,
        ticker,
        inputs,
        threads,
    };
    let running = Arc::new(Mutex::new(Some(running)));
    let handle = Handle {
        grpc_addr,
        http_addr,
        metrics,
        committed,
        gate,
        is_stopping: Arc::default(),
        running,
    };
    Ok((handle, releases))
}

/// Opens the log and feeds it to a new core.
fn replay(
    start: Start,
    metrics: Arc<Metrics>,
    gate: Arc<Gate>,
    outlets: Outlets,
) -> Result<(Ingest, Outlets)> {
    let Start {
        config,
        mut log,
        folder,
        sampler,
        is_request,
        committed_through,
        clock: _,
        progress,
    } = start;
    let sampler = Sampler::new(&sampler).map_err(Error::Sampler)?;
    let record_bytes = config
        .message_bytes_max()
        .saturating_add(EXPORT_HEADER_BYTES as u64);
    let record_bytes = u32::try_from(record_bytes.max(DECISION_BYTES_MAX)).unwrap_or(u32::MAX);
    log.record_bytes_max = log.record_bytes_max.max(record_bytes);
    let opened = match folder {
        Some(folder) => Wal::open_in(folder, log),
        None => Wal::open(log, RealDisk),
    };
    let (wal, recovery) = opened.map_err(|source| Error::Log {
        operation: "open",
        source,
    })?;
    if recovery.n_records > 0 {
        tracing::info!(
            n_records = recovery.n_records,
            record_bytes = recovery.record_bytes,
            "replaying the log"
        );
    }
    if recovery.torn_bytes > 0 {
        tracing::warn!(
            torn_bytes = recovery.torn_bytes,
            "the last process stopped while it wrote: the torn end of the log was cut off, \
             nothing that was acknowledged was in it"
        );
    }
    let settings = Settings {
        window: window(&config),
        sync: config.intake.sync_policy(),
        log_bytes_max: config.intake.log_bytes_max,
        pending_heap_bytes_max: config.intake.pending_heap_bytes_max,
        release_backlog_spans_max: config.intake.release_backlog_spans_max,
        shutdown: config.intake.shutdown,
        is_request,
    };
    let mut ingest = Ingest::new(wal, sampler, settings, metrics, gate);
    ingest.recover(committed_through, &progress, &mut |effect| {
        outlets.perform(effect);
    })?;
    Ok((ingest, outlets))
}

fn window(config: &Config) -> SpanWindow {
    SpanWindow {
        age_max: config.intake.span_age_max,
        ahead_max: config.intake.span_ahead_max,
    }
}

/// A thread that a shutdown waits for.
type Joined = (&'static str, JoinHandle<()>);

fn spawn_ingest(
    ingest: Ingest,
    inputs: mpsc::Receiver<Input>,
    clock: Clock,
    outlets: Outlets,
    gate: &Arc<Gate>,
) -> Result<Joined> {
    let work = move || threads::run_ingest(ingest, inputs, &clock, &outlets);
    Ok(("ingest", threads::spawn("ingest", Arc::clone(gate), work)?))
}

fn spawn_sync(
    handles: std_mpsc::Receiver<SyncHandle>,
    inputs: mpsc::Sender<Input>,
    gate: &Arc<Gate>,
) -> Result<Joined> {
    let work = move || threads::run_sync(&handles, &inputs);
    Ok(("sync", threads::spawn("sync", Arc::clone(gate), work)?))
}

/// No shutdown waits for it: it ends when storage has taken the last release.
fn spawn_release(
    plans: std_mpsc::Receiver<Plan>,
    releaser: Releaser,
    releases: mpsc::Sender<Release>,
    gate: &Arc<Gate>,
    metrics: &Arc<Metrics>,
) -> Result<()> {
    let (failed, metrics) = (Arc::clone(gate), Arc::clone(metrics));
    let work = move || threads::run_release(&plans, &releaser, &releases, &failed, &metrics);
    threads::spawn("release", Arc::clone(gate), work).map(drop)
}

/// The bound sockets.
struct Listeners {
    grpc: Option<Listener>,
    http: Option<Listener>,
}

async fn bind(config: &Config) -> Result<Listeners> {
    let protocols = &config.otlp.protocols;
    let grpc = match &protocols.grpc {
        Some(grpc) => Some(Listener::bind(config::GRPC_ENDPOINT_KEY, &grpc.endpoint).await?),
        None => None,
    };
    let http = match &protocols.http {
        Some(http) => Some(Listener::bind(config::HTTP_ENDPOINT_KEY, &http.endpoint).await?),
        None => None,
    };
    Ok(Listeners { grpc, http })
}

impl Listeners {
    fn addrs(&self) -> (Option<SocketAddr>, Option<SocketAddr>) {
        let addr = |listener: &Option<Listener>| listener.as_ref().map(|listener| listener.addr);
        (addr(&self.grpc), addr(&self.http))
    }

    fn serve(
        self,
        config: &Config,
        edge: &Arc<Edge>,
        stopping: &watch::Receiver<bool>,
    ) -> Vec<task::JoinHandle<()>> {
        let body_timeout = config.intake.body_timeout;
        let limits = server::Limits {
            connections_max: usize::try_from(config.intake.connections_max).unwrap_or(usize::MAX),
            grace: config.intake.shutdown_timeout,
        };
        let mut servers = Vec::new();
        if let (Some(listener), Some(grpc)) = (self.grpc, &config.otlp.protocols.grpc) {
            let receiver = GrpcReceiver::new(Arc::clone(edge), grpc.limit_bytes(), body_timeout);
            let (router, metrics) = (receiver.router(), Arc::clone(&edge.metrics));
            let protocol = Protocol::of_grpc(grpc);
            let serving = listener.serve(protocol, router, stopping.clone(), limits, metrics);
            servers.push(task::spawn(serving));
        }
        if let (Some(listener), Some(http)) = (self.http, &config.otlp.protocols.http) {
            let receiver = HttpReceiver::new(Arc::clone(edge), http, body_timeout);
            let (router, metrics) = (receiver.router(), Arc::clone(&edge.metrics));
            let protocol = Protocol::of_http(http);
            let serving = listener.serve(protocol, router, stopping.clone(), limits, metrics);
            servers.push(task::spawn(serving));
        }
        servers
    }
}

/// Gives the core its ticks, and tells it what storage has committed since the last one.
async fn tick(inputs: mpsc::Sender<Input>, committed: Arc<AtomicI64>) {
    let mut interval = tokio::time::interval(TICK_INTERVAL);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut told = committed.load(Ordering::Acquire);
    loop {
        interval.tick().await;
        let now_committed = committed.load(Ordering::Acquire);
        if now_committed > told {
            told = now_committed;
            if inputs.send(Input::Released(told)).await.is_err() {
                return;
            }
        }
        if inputs.send(Input::Tick).await.is_err() {
            return;
        }
    }
}

impl Handle {
    /// Says that every table has committed the releases through `sequence`. Their part of the log may go.
    pub fn committed(&self, sequence: i64) {
        self.committed.fetch_max(sequence, Ordering::AcqRel);
    }

    /// Puts other policies in force, for undecided traces too; see [`Reloaded`] for what it costs.
    ///
    /// # Errors
    ///
    /// [`Error::Sampler`] for a configuration that [`Sampler::new`] refuses: the policies of before stay in force.
    /// [`Error::ThreadEnded`] after a shutdown.
    pub async fn reload(&self, sampler: sampler::Config) -> Result<Reloaded> {
        let inputs = {
            let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            running.as_ref().map(|running| running.inputs.clone())
        };
        let ended = || Error::ThreadEnded { name: "ingest" };
        let inputs = inputs.ok_or_else(ended)?;
        let (reply, replied) = oneshot::channel();
        let sent = inputs.send(Input::Reload(Box::new(sampler), reply)).await;
        sent.map_err(|_| ended())?;
        drop(inputs);
        replied.await.map_err(|_| ended())?.map_err(Error::Sampler)
    }

    /// Whether exports can be taken.
    pub fn health(&self) -> Health {
        match self.gate.failure() {
            None if self.is_stopping.load(Ordering::Relaxed) => Health::Stopping,
            None => Health::Ready,
            Some(reason) => Health::Unhealthy {
                reason: reason.to_owned(),
            },
        }
    }

    /// Stops: no new connections, open requests finish, undecided traces are kept or decided as configured,
    /// the log is synced. After it, the receiver of releases gives what is left and then `None`.
    ///
    /// Commits that are told afterwards are not lost: the next start is given `committed_through`.
    ///
    /// # Errors
    ///
    /// [`Error::ThreadEnded`] if a thread had ended early. A second call does nothing.
    pub async fn shutdown(&self) -> Result<()> {
        self.is_stopping.store(true, Ordering::Relaxed);
        let running = self
            .running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(Running {
            stop,
            servers,
            ticker,
            inputs,
            threads,
        }) = running
        else {
            return Ok(());
        };
        // Nobody listens any more if the servers have ended.
        stop.send(true).ok();
        for server in servers {
            server
                .await
                .map_err(|_| Error::ThreadEnded { name: "server" })?;
        }
        self.gate.stop();
        ticker.abort();
        let told = self.committed.load(Ordering::Acquire);
        let ended = |_| Error::ThreadEnded { name: "ingest" };
        inputs.send(Input::Released(told)).await.map_err(ended)?;
        inputs.send(Input::Shutdown).await.map_err(ended)?;
        drop(inputs);
        for (name, thread) in threads {
            let joined = task::spawn_blocking(move || thread.join()).await;
            if !matches!(joined, Ok(Ok(()))) {
                return Err(Error::ThreadEnded { name });
            }
        }
        Ok(())
    }
}
