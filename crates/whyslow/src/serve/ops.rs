//! What operators and orchestrators ask: `/healthz`, `/readyz`, `/metrics`.
//!
//! - `/healthz`: 200 while the process runs.
//! - `/readyz`: 200 while exports can be taken, else 503 and the reason: how far the replay is, or what failed.
//! - `/metrics`: for Prometheus, in the format that it asks for (`exposition`); the conservation counters among them.
//!
//! Beside them `/v1/objectives`, for the page: what the configuration promises of requests.
//!
//! Who asks for health needs no token, also where SQL and metrics do: orchestrators have none. Where the listener
//! asks for clients' certificates, the extension `health_check` has a port of its own.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::Context as _;
use axum::extract::connect_info::{ConnectInfo, Connected};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::serve::IncomingStream;
use axum::{Json, Router};
use gateway::{Handle, Health};
use query::Asker;
use query::http::{Guard, guarded, page};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use transport::{Acceptor, Alpn, Door, HandshakeFailures, Stream};

use super::objectives::Objectives;
use super::{doors, reload};
use crate::config::Config;
use crate::exposition::{self, Format};
use crate::measured::Measured;
use crate::{maintain, store};

/// What the answers are made of.
#[derive(Debug, Clone)]
pub(super) struct Ops {
    /// Set when it has started.
    gateway: Arc<OnceLock<Handle>>,
    pub(super) progress: Arc<gateway::Progress>,
    store: Arc<store::Metrics>,
    pub(super) maintenance: Arc<maintain::Metrics>,
    pub(super) reloads: Arc<reload::Metrics>,
    measured: Arc<Measured>,
    /// Of the query listener.
    handshakes_failed: Arc<HandshakeFailures>,
    guard: Option<Arc<Guard>>,
    pub(super) doors: Arc<doors::Doors>,
}

impl Ops {
    pub(super) fn new(store: Arc<store::Metrics>, measured: Arc<Measured>) -> Self {
        Self {
            gateway: Arc::default(),
            progress: Arc::default(),
            store,
            maintenance: Arc::default(),
            reloads: Arc::default(),
            measured,
            handshakes_failed: Arc::default(),
            guard: None,
            doors: Arc::default(),
        }
    }

    /// The replay is over.
    pub(super) fn started(&self, gateway: Handle) {
        // There is one start.
        self.gateway.set(gateway).ok();
    }

    /// Why exports cannot be taken.
    fn not_ready(&self) -> Option<String> {
        let Some(gateway) = self.gateway.get() else {
            return Some(self.progress.to_string());
        };
        match gateway.health() {
            Health::Ready => None,
            Health::Stopping => Some("stopping".to_owned()),
            Health::Unhealthy { reason } => Some(reason),
        }
    }
}

impl Ops {
    /// Who was not let in at the query listener.
    fn render_refused(&self) -> String {
        let mut out = String::from(
            "# HELP query_handshakes_failed_total TLS handshakes that came to nothing.\n\
             # TYPE query_handshakes_failed_total counter\n",
        );
        for (reason, n_handshakes) in self.handshakes_failed.counts() {
            let reason = reason.as_str();
            out.push_str(&format!(
                "query_handshakes_failed_total{{reason=\"{reason}\"}} {n_handshakes}\n"
            ));
        }
        let n_refused = self.guard.as_ref().map_or(0, |guard| guard.n_refused());
        out.push_str(&format!(
            "# HELP query_requests_unauthenticated_total Requests without a known token.\n\
             # TYPE query_requests_unauthenticated_total counter\n\
             query_requests_unauthenticated_total {n_refused}\n"
        ));
        out
    }
}

/// The listeners that are not OTLP's.
#[derive(Debug)]
pub(super) struct Listeners {
    pub(super) query_addr: Option<SocketAddr>,
    pub(super) postgres_addr: Option<SocketAddr>,
    pub(super) flight_sql_addr: Option<SocketAddr>,
    pub(super) health_addr: Option<SocketAddr>,
    pub(super) servers: Vec<Server>,
}

/// Serves SQL and these answers where the configuration says so.
pub(super) async fn listen(
    config: &Config,
    engine: Option<&Arc<query::Engine>>,
    ops: &Ops,
) -> anyhow::Result<Listeners> {
    let mut listeners = Listeners {
        query_addr: None,
        postgres_addr: None,
        flight_sql_addr: None,
        health_addr: None,
        servers: Vec::new(),
    };
    if let (Some(query), Some(engine)) = (&config.query, engine) {
        let (tls, auth) = (query.tls.as_ref(), query.auth.as_ref());
        let known = &config.gateway.authenticators;
        let door = Door::open("extensions::query", tls, auth, known, Alpn::Http2OrHttp1)?;
        let ops = Ops {
            guard: door.tokens.map(|tokens| Arc::new(Guard::new(tokens))),
            ..ops.clone()
        };
        let listener = bind("extensions::query::endpoint", &query.endpoint.to_string()).await?;
        listeners.query_addr = Some(listener.local_addr()?);
        let failures = Arc::clone(&ops.handshakes_failed);
        let router = query_router(query::router(Arc::clone(engine)), &ops);
        let server = Server::spawn_with(listener, door.tls, failures, router);
        listeners.servers.push(server);
        if query.postgres.enabled {
            let (addr, server) =
                doors::postgres(&query.postgres, known, engine, &ops.doors).await?;
            listeners.postgres_addr = Some(addr);
            listeners.servers.push(server);
        }
        if query.flight_sql.enabled {
            let (addr, server) =
                doors::flight_sql(&query.flight_sql, known, engine, &ops.doors).await?;
            listeners.flight_sql_addr = Some(addr);
            listeners.servers.push(server);
        }
        // There is one engine.
        ops.doors.engine.set(Arc::clone(engine)).ok();
    }
    if let Some(health) = &config.health_check {
        let listener = bind("extensions::health_check::endpoint", &health.endpoint).await?;
        listeners.health_addr = Some(listener.local_addr()?);
        let router = health_router(&health.path, config.query.is_none(), ops.clone());
        listeners.servers.push(Server::spawn(listener, router));
    }
    Ok(listeners)
}

/// Binds, or says which key to change.
pub(super) async fn bind(key: &str, endpoint: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(endpoint).await.with_context(|| {
        format!("cannot listen on `{endpoint}`; is another process there? Change `{key}`")
    })
}

fn query_router(sql: Router, ops: &Ops) -> Router {
    let own = Router::new()
        .route("/metrics", get(metrics))
        .route("/v1/objectives", get(objectives));
    let asked = sql.merge(own.with_state(ops.clone()));
    let asked = match &ops.guard {
        Some(guard) => guarded(asked, Arc::clone(guard)),
        None => asked,
    };
    let health = Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready));
    asked.merge(health.with_state(ops.clone())).merge(page())
}

/// The Collector's `health_check` extension. Without SQL it also has the metrics, which have no other place then.
fn health_router(path: &str, has_metrics: bool, ops: Ops) -> Router {
    let path = if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("/{path}")
    };
    let routes = Router::new().route(&path, get(ready));
    let routes = if has_metrics && path != "/metrics" {
        routes.route("/metrics", get(metrics))
    } else {
        routes
    };
    routes.with_state(ops)
}

async fn ready(State(ops): State<Ops>) -> Response {
    match ops.not_ready() {
        None => "ready\n".into_response(),
        Some(reason) => (
            StatusCode::SERVICE_UNAVAILABLE,
            format!("not ready: {reason}\n"),
        )
            .into_response(),
    }
}

async fn metrics(State(ops): State<Ops>, headers: HeaderMap) -> Response {
    let gateway = ops.gateway.get();
    let gateway = gateway.map(|gateway| gateway.metrics.render_prometheus());
    let text = gateway.unwrap_or_default()
        + &ops.store.render()
        + &ops.maintenance.render()
        + &ops.reloads.render()
        + &ops.render_refused()
        + &ops.doors.render();
    let accept = headers.get(header::ACCEPT);
    let accept = accept.and_then(|accept| accept.to_str().ok());
    let format = Format::accepted(accept.unwrap_or_default());
    let created = ops.measured.created_unix_nano();
    let page = exposition::render(format, text, &ops.measured.families(), created);
    (
        [
            (header::CONTENT_TYPE, format.content_type()),
            (header::VARY, "accept"),
        ],
        page,
    )
        .into_response()
}

async fn objectives(State(ops): State<Ops>) -> Response {
    Json(Objectives::from(ops.measured.slo())).into_response()
}

/// A listener as axum wants it.
struct Listener(transport::Listener);

impl axum::serve::Listener for Listener {
    type Io = Stream;
    type Addr = SocketAddr;

    fn accept(&mut self) -> impl Future<Output = (Stream, SocketAddr)> + Send {
        self.0.accept()
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

/// A listener with its task.
#[derive(Debug)]
pub(super) struct Server {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

/// Ends when a server has to.
pub(super) type Stopped = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Where a request comes from.
#[derive(Debug, Clone, Copy)]
struct Peer(SocketAddr);

impl Connected<IncomingStream<'_, Listener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Listener>) -> Self {
        Self(*stream.remote_addr())
    }
}

/// Who asks where no token says it: an address.
async fn note_asker(ConnectInfo(peer): ConnectInfo<Peer>, mut request: Request) -> Request {
    request.extensions_mut().insert(Asker::Address(peer.0.ip()));
    request
}

impl Server {
    pub(super) fn spawn(listener: TcpListener, router: Router) -> Self {
        Self::spawn_with(listener, None, Arc::default(), router)
    }

    fn spawn_with(
        listener: TcpListener,
        tls: Option<Arc<Acceptor>>,
        failures: Arc<HandshakeFailures>,
        router: Router,
    ) -> Self {
        let listener = Listener(transport::Listener::new(listener, tls, failures));
        let router = router.layer(middleware::map_request(note_asker));
        let router = router.into_make_service_with_connect_info::<Peer>();
        Self::run(|stopped| async move {
            axum::serve(listener, router)
                .with_graceful_shutdown(stopped)
                .await
        })
    }

    /// Runs what ends some time after it is asked to.
    pub(super) fn run<F, E>(serve: impl FnOnce(Stopped) -> F) -> Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: std::fmt::Display,
    {
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = serve(Box::pin(async move {
            // A dropped sender means the same as a sent stop.
            stopped.await.ok();
        }));
        let task = tokio::spawn(async move {
            if let Err(error) = serving.await {
                tracing::error!(%error, "a listener has ended");
            }
        });
        Self { stop, task }
    }

    /// Open requests get `grace` to finish.
    pub(super) async fn stop(self, grace: Duration) {
        let Self { stop, mut task } = self;
        // Nobody listens any more if the server has ended.
        stop.send(()).ok();
        if tokio::time::timeout(grace, &mut task).await.is_err() {
            task.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::extract::State;
    use axum::http::{HeaderMap, StatusCode};

    use super::{Measured, Ops, metrics, ready};
    use crate::config::Slo;

    /// Before the gateway runs there are answers, and they say what it is waiting for.
    #[tokio::test]
    async fn while_the_log_is_replayed_the_answer_is_how_far_it_is() {
        let measured = Measured::new(Slo::default(), 0);
        let ops = Ops::new(Arc::default(), Arc::new(measured));
        let answer = ready(State(ops.clone())).await;
        assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
        let body = axum::body::to_bytes(answer.into_body(), 1 << 20).await;
        assert_eq!(body.unwrap(), "not ready: replaying 0 %\n");
        let page = metrics(State(ops), HeaderMap::new()).await;
        assert_eq!(page.status(), StatusCode::OK);
    }
}
