//! `/metrics` of the fleet, over HTTP on loopback: each exporter and engine has a port, as on a real network.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Context as _;
use axum::Router;
use axum::extract::State;
use axum::response::IntoResponse;
use axum::routing::get;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use loadgen::fleet::{Scrape, Target};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// All targets of the fleet; they answer until this is dropped.
#[derive(Debug)]
pub(super) struct Exporters {
    each: Vec<Exporter>,
    _servers: JoinSet<std::io::Result<()>>,
}

#[derive(Debug)]
struct Exporter {
    target: Target,
    addr: SocketAddr,
    text: watch::Sender<Bytes>,
}

/// The port of each target, from the first one on; 0 stays 0.
pub(super) fn ports(first: u16) -> impl Iterator<Item = (Target, u16)> {
    let port = move |idx: u16| {
        if first == 0 {
            0
        } else {
            first.saturating_add(idx)
        }
    };
    Target::all().into_iter().zip((0..).map(port))
}

impl Exporters {
    /// Listens on as many ports as there are targets.
    pub(super) async fn listen(first: u16) -> anyhow::Result<Self> {
        let mut each = Vec::new();
        let mut servers = JoinSet::new();
        for (target, port) in ports(first) {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
            let listener = listener.with_context(|| {
                format!("listen on 127.0.0.1:{port} (another `--port`, with four free ones from there, helps)")
            })?;
            let addr = listener.local_addr().context("ask for the port")?;
            let (text, shown) = watch::channel(Bytes::new());
            let router = Router::new()
                .route("/metrics", get(answer))
                .with_state(shown);
            servers.spawn(async move { axum::serve(listener, router).await });
            each.push(Exporter { target, addr, text });
        }
        Ok(Self {
            each,
            _servers: servers,
        })
    }

    pub(super) fn addresses(&self) -> impl Iterator<Item = (Target, SocketAddr)> {
        self.each
            .iter()
            .map(|exporter| (exporter.target, exporter.addr))
    }

    /// From now on its target says this.
    pub(super) fn show(&self, scrape: Scrape) {
        let exporter = self
            .each
            .iter()
            .find(|exporter| exporter.target == scrape.target);
        if let Some(exporter) = exporter {
            exporter.text.send_replace(Bytes::from(scrape.text));
        }
    }
}

async fn answer(State(text): State<watch::Receiver<Bytes>>) -> impl IntoResponse {
    let text = text.borrow().clone();
    ([(CONTENT_TYPE, TEXT)], text)
}
