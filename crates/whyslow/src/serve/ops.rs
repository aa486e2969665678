//! What operators and orchestrators ask: `/healthz`, `/readyz`, `/metrics`.
//!
//! - `/healthz`: 200 while the process runs.
//! - `/readyz`: 200 while exports can be taken, else 503 and the reason.
//! - `/metrics`: Prometheus text; the conservation counters among them.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use gateway::{Handle, Health};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::{maintain, store};

/// What the answers are made of.
#[derive(Debug, Clone)]
pub(super) struct Ops {
    pub(super) gateway: Handle,
    pub(super) store: Arc<store::Metrics>,
    pub(super) maintenance: Arc<maintain::Metrics>,
}

pub(super) fn router(ops: Ops) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .with_state(ops)
}

/// The Collector's `health_check` extension: one path.
pub(super) fn health_router(path: &str, ops: Ops) -> Router {
    let path = if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("/{path}")
    };
    Router::new().route(&path, get(ready)).with_state(ops)
}

async fn ready(State(ops): State<Ops>) -> Response {
    match ops.gateway.health() {
        Health::Ready => "ready\n".into_response(),
        Health::Unhealthy { reason } => (
            StatusCode::SERVICE_UNAVAILABLE,
            format!("not ready: {reason}\n"),
        )
            .into_response(),
    }
}

async fn metrics(State(ops): State<Ops>) -> Response {
    let text =
        ops.gateway.metrics.render_prometheus() + &ops.store.render() + &ops.maintenance.render();
    (
        [(
            header::CONTENT_TYPE,
            "text/plain; version=0.0.4; charset=utf-8",
        )],
        text,
    )
        .into_response()
}

/// A listener with its task.
#[derive(Debug)]
pub(super) struct Server {
    stop: oneshot::Sender<()>,
    task: JoinHandle<std::io::Result<()>>,
}

impl Server {
    pub(super) fn spawn(listener: TcpListener, router: Router) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            axum::serve(listener, router)
                .with_graceful_shutdown(async move {
                    // A dropped sender means the same as a sent stop.
                    stopped.await.ok();
                })
                .await
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
