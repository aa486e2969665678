//! Start and stop: every channel, thread and listener of the gateway, in order.

mod done;

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc as std_mpsc,
    },
    thread::JoinHandle,
    time::Duration,
};

use tokio::{
    sync::{mpsc, oneshot, watch},
    task,
};
use transport::{Alpn, Door};
use wal::{RealDisk, SyncHandle};

use crate::{
    admission::{Budget, Gate},
    clock::Clock,
    config::{self, Config},
    connection::{Protocol, Service},
    error::{Error, Result},
    export::{self, Cursor, Exporter, Queue},
    grpc::GrpcReceiver,
    http::HttpReceiver,
    ingest::{Ingest, Input, Reloaded, ReportsOf},
    metrics::{self, Metrics, Transport},
    pod_resources::{self, Watcher},
    progress::Progress,
    receive::Edge,
    release::{Plan, Release, Releaser},
    replay::{Replayed, replay, window},
    scrape::{self, Scraper},
    server::{self, Listener},
    threads::{self, Outlets},
};

use self::done::{Done, tick};

/// Exports that wait for the ingest thread. Their bytes are bounded by `intake.bytes_in_flight_max`.
const INPUTS_MAX: usize = 1024;

/// Releases that wait for storage with their bytes in memory.
const RELEASES_MAX: usize = 4;

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
    /// Which spans report requests and calls: of these also dropped traces are released.
    pub reports_of: ReportsOf,
    /// The lowest sequence that every table has committed, 0 for none; `None` where there are no tables: no releases
    /// come then.
    pub committed_through: Option<i64>,
    /// What is scraped.
    pub scrapers: Vec<scrape::Receiver>,
    /// Kubelets that are asked.
    pub pod_resources: Vec<pod_resources::Receiver>,
    /// Where kept spans go beside the tables.
    pub exporters: Vec<Exporter>,
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
    done: Arc<Done>,
    gate: Arc<Gate>,
    is_stopping: Arc<AtomicBool>,
    log_bytes_max: u64,
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
    exporters: Vec<Joined>,
}

/// Starts the gateway: opens and replays the log, then listens.
///
/// Releases come in order of their sequence, first those of an earlier run that are not committed; the exporters
/// take theirs from the log. The
/// receiver must be emptied until it gives `None`, which it does after [`Handle::shutdown`].
///
/// # Errors
///
/// A configuration that cannot be used, a log that is locked or damaged, an address that cannot be bound.
pub async fn start(start: Start) -> Result<(Handle, mpsc::Receiver<Release>)> {
    start.config.validate()?;
    let config = start.config.clone();
    let clock = start.clock.clone();
    let metrics = Arc::new(Metrics::default());
    let gate = Arc::new(Gate::default());

    // Bound first, so that a wrong address is known before a long replay; served after it.
    let listeners = Box::pin(bind(&config)).await?;
    let (grpc_addr, http_addr) = listeners.addrs();
    let askers = Askers::new(&start)?;

    let (plans, planned) = std_mpsc::channel();
    let (syncs, sync_handles) = std_mpsc::channel();
    let outlets = Outlets::new(plans, syncs);
    let Replayed {
        ingest,
        outlets,
        stored_through,
        exporters,
    } = {
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
    let queue = Arc::clone(&outlets.queue);
    let grace = config.intake.shutdown_timeout;
    let exporters = spawn_exporters(exporters, &ingest, &queue, grace, (&gate, &metrics))?;
    let threads = vec![
        spawn_ingest(ingest, input_receiver, clock.clone(), outlets, &gate)?,
        spawn_sync(sync_handles, inputs.clone(), &gate)?,
    ];

    let done = Arc::new(Done::new(stored_through, queue));
    let ticker = task::spawn(tick(inputs.clone(), Arc::clone(&done)));
    let edge = Arc::new(Edge {
        inputs: inputs.clone(),
        budget: Budget::new(config.intake.bytes_in_flight_max),
        gate: Arc::clone(&gate),
        metrics: Arc::clone(&metrics),
        clock,
        window: window(&config),
    });
    let (stop, stopping) = watch::channel(false);
    let mut servers = listeners.serve(&config, &edge, &stopping);
    servers.extend(askers.run(&edge, &stopping));
    let running = Arc::new(Mutex::new(Some(Running {
        stop,
        servers,
        ticker,
        inputs,
        threads,
        exporters,
    })));
    let handle = Handle {
        grpc_addr,
        http_addr,
        metrics,
        done,
        gate,
        is_stopping: Arc::default(),
        log_bytes_max: config.intake.log_bytes_max,
        running,
    };
    Ok((handle, releases))
}

/// Who asks targets and kubelets, before anybody is asked.
struct Askers {
    scrapers: Vec<Scraper>,
    watchers: Vec<Watcher>,
}

impl Askers {
    fn new(start: &Start) -> Result<Askers> {
        let known = &start.config.authenticators;
        let scrapers = start.scrapers.iter();
        let scrapers = scrapers.map(|receiver| Scraper::new(receiver.clone(), known));
        let watchers = start.pod_resources.iter().cloned().map(Watcher::new);
        Ok(Askers {
            scrapers: scrapers.collect::<Result<_>>()?,
            watchers: watchers.collect(),
        })
    }

    fn run(self, edge: &Arc<Edge>, stopping: &watch::Receiver<bool>) -> Vec<task::JoinHandle<()>> {
        let mut running = Vec::new();
        for scraper in self.scrapers {
            running.push(task::spawn(scraper.run(Arc::clone(edge), stopping.clone())));
        }
        for watcher in self.watchers {
            running.push(task::spawn(watcher.run(Arc::clone(edge), stopping.clone())));
        }
        running
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

fn spawn_exporters(
    exporters: Vec<(Exporter, Cursor<RealDisk>)>,
    ingest: &Ingest,
    queue: &Arc<Queue>,
    grace: Duration,
    (gate, metrics): (&Arc<Gate>, &Arc<Metrics>),
) -> Result<Vec<Joined>> {
    let mut threads = Vec::with_capacity(exporters.len());
    for (idx, (exporter, cursor)) in exporters.into_iter().enumerate() {
        let running = export::Running {
            metrics: metrics.exporting.add(queue, &exporter.id),
            exporter,
            idx,
            cursor,
            queue: Arc::clone(queue),
            grace,
        };
        let releaser = Releaser {
            reader: ingest.reader(),
        };
        threads.push(("export", export::spawn(running, releaser, gate)?));
    }
    Ok(threads)
}

/// The bound sockets, and what is asked at each.
struct Listeners {
    grpc: Option<(Listener, Door)>,
    http: Option<(Listener, Door)>,
}

async fn bind(config: &Config) -> Result<Listeners> {
    let protocols = &config.otlp.protocols;
    let known = &config.authenticators;
    let grpc = match &protocols.grpc {
        Some(grpc) => {
            let (tls, auth) = (grpc.tls.as_ref(), grpc.auth.as_ref());
            let door = Door::open(config::GRPC_KEY, tls, auth, known, Alpn::Http2);
            let listener = Listener::bind(config::GRPC_ENDPOINT_KEY, &grpc.endpoint);
            Some((listener.await?, door.map_err(Error::Door)?))
        }
        None => None,
    };
    let http = match &protocols.http {
        Some(http) => {
            let (tls, auth) = (http.tls.as_ref(), http.auth.as_ref());
            let door = Door::open(config::HTTP_KEY, tls, auth, known, Alpn::Http1);
            let listener = Listener::bind(config::HTTP_ENDPOINT_KEY, &http.endpoint);
            Some((listener.await?, door.map_err(Error::Door)?))
        }
        None => None,
    };
    Ok(Listeners { grpc, http })
}

impl Listeners {
    fn addrs(&self) -> (Option<SocketAddr>, Option<SocketAddr>) {
        let addr = |listener: &Option<(Listener, Door)>| {
            listener.as_ref().map(|(listener, _)| listener.addr)
        };
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
        let mut spawn = |listener: Listener, transport, service| {
            let (stop, metrics) = (stopping.clone(), Arc::clone(&edge.metrics));
            let serving = listener.serve(transport, service, stop, limits, metrics);
            servers.push(task::spawn(serving));
        };
        if let (Some((listener, door)), Some(grpc)) = (self.grpc, &config.otlp.protocols.grpc) {
            let (tls, limit_bytes) = (door.tls.clone(), grpc.limit_bytes());
            let receiver = GrpcReceiver::new(Arc::clone(edge), door, limit_bytes, body_timeout);
            let service = Service {
                protocol: Protocol::of_grpc(grpc),
                tls,
                router: receiver.router(),
            };
            spawn(listener, Transport::Grpc, service);
        }
        if let (Some((listener, door)), Some(http)) = (self.http, &config.otlp.protocols.http) {
            let tls = door.tls.clone();
            let receiver = HttpReceiver::new(Arc::clone(edge), door, http, body_timeout);
            let service = Service {
                protocol: Protocol::of_http(http),
                tls,
                router: receiver.router(),
            };
            spawn(listener, Transport::Http, service);
        }
        servers
    }
}

impl Handle {
    /// Says that every table has committed the releases through `sequence`. Their part of the log may go.
    pub fn committed(&self, sequence: i64) {
        self.stored(sequence);
        self.done.committed.fetch_max(sequence, Ordering::AcqRel);
    }

    /// Says that the spans and traces of the releases through `sequence` are stored, and something that follows from
    /// them is not: they are no backlog any more, and stay in the log.
    pub fn stored(&self, sequence: i64) {
        if let Some(stored) = &self.done.stored {
            stored.fetch_max(sequence, Ordering::AcqRel);
        }
    }

    /// Is more than half of `intake.log_bytes_max` in use? Who keeps releases in the log without need should stop then.
    pub fn is_log_filling(&self) -> bool {
        metrics::load(&self.metrics.log_bytes) > self.log_bytes_max / 2
    }

    /// Puts other policies in force, for undecided traces too; see [`Reloaded`] for what it costs.
    ///
    /// # Errors
    ///
    /// [`Error::Sampler`] for a configuration that [`sampler::Sampler::new`] refuses: the policies of before stay in force.
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
            exporters,
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
        let told = self.done.through();
        let ended = |_| Error::ThreadEnded { name: "ingest" };
        inputs.send(Input::Released(told)).await.map_err(ended)?;
        inputs.send(Input::Shutdown).await.map_err(ended)?;
        drop(inputs);
        join(threads).await?;
        self.done.queue.close();
        join(exporters).await
    }
}

async fn join(threads: Vec<Joined>) -> Result<()> {
    for (name, thread) in threads {
        let joined = task::spawn_blocking(move || thread.join()).await;
        if !matches!(joined, Ok(Ok(()))) {
            return Err(Error::ThreadEnded { name });
        }
    }
    Ok(())
}
