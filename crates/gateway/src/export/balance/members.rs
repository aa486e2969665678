//! Which backends there are: a fixed list, or what a name resolves to.
//!
//! A look-up that fails, or finds nothing, leaves the list as it is. Before the first one that succeeds, requests wait.

use std::{
    collections::BTreeSet,
    fmt, io,
    net::IpAddr,
    sync::{Arc, Weak},
    time::Duration,
};

use futures::future::BoxFuture;
use tokio::{
    sync::{Semaphore, watch},
    time::MissedTickBehavior,
};
use transport::Authenticators;

use super::{
    super::{Otlp, Stop, config::ConfigError},
    config::{Dns, Loadbalancing},
    ring::Ring,
};

/// Gives the addresses of a name.
pub trait Lookup: fmt::Debug + Send + Sync {
    /// All of them, in any order.
    fn lookup(&self, hostname: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// The resolver of the operating system: also `/etc/hosts`.
#[derive(Clone, Copy, Debug)]
pub struct SystemLookup;

impl Lookup for SystemLookup {
    fn lookup(&self, hostname: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let addrs = tokio::net::lookup_host((hostname, 0)).await?;
            Ok(addrs.map(|addr| addr.ip()).collect())
        })
    }
}

/// The backends of a `loadbalancing` exporter.
#[derive(Debug)]
pub struct Balanced {
    members: Arc<watch::Sender<Arc<Members>>>,
}

/// The backends at one time, in the order of the ring's endpoints.
#[derive(Debug, Default)]
pub(super) struct Members {
    pub(super) ring: Ring,
    pub(super) backends: Vec<Arc<Backend>>,
}

/// One backend. Requests go to it one after the other.
#[derive(Debug)]
pub(super) struct Backend {
    /// As it was resolved.
    endpoint: String,
    pub(super) otlp: Otlp,
    pub(super) turns: Semaphore,
}

impl Balanced {
    /// Opens the exporter, and follows its resolver until it is dropped. Must be called inside a Tokio runtime.
    ///
    /// # Errors
    ///
    /// A setting, or a file that it names, that cannot be used.
    pub fn new(
        config: &Loadbalancing,
        authenticators: &Authenticators,
        lookup: Arc<dyn Lookup>,
    ) -> Result<Balanced, ConfigError> {
        let members = Arc::new(watch::Sender::default());
        if let Some(fixed) = &config.resolver.fixed {
            let first = Members::default();
            let all = first.with(fixed.hostnames.clone(), config, authenticators)?;
            members.send_replace(Arc::new(all));
        }
        if let Some(dns) = &config.resolver.dns {
            // Wrong settings are told at the start, whatever the name resolves to.
            let probe = vec![dns.hostname.clone()];
            Members::default().with(probe, config, authenticators)?;
            let following = Following {
                dns: dns.clone(),
                config: config.clone(),
                authenticators: authenticators.clone(),
                members: Arc::downgrade(&members),
                lookup,
            };
            tokio::spawn(following.run());
        }
        Ok(Balanced { members })
    }

    /// The backends, once there are any; `None` if the process stops before.
    pub(super) async fn members(&self, stop: &Stop) -> Option<Arc<Members>> {
        let mut members = self.members.subscribe();
        tokio::select! {
            members = members.wait_for(|members| !members.backends.is_empty()) => {
                members.ok().map(|members| Arc::clone(&members))
            }
            () = stop.requested() => None,
        }
    }

    #[cfg(test)]
    pub(super) fn endpoints(&self) -> Vec<String> {
        let members = self.members.borrow();
        members.endpoints().map(str::to_owned).collect()
    }

    /// Returns when this backend is not in the list any more.
    pub(super) async fn left(&self, backend: &Arc<Backend>) {
        let mut members = self.members.subscribe();
        let has_left = |members: &Arc<Members>| {
            !members
                .backends
                .iter()
                .any(|known| Arc::ptr_eq(known, backend))
        };
        // The sender lives as long as `self`.
        members.wait_for(has_left).await.ok();
    }
}

impl Members {
    /// These endpoints, with the backends that are there already.
    fn with(
        &self,
        mut endpoints: Vec<String>,
        config: &Loadbalancing,
        authenticators: &Authenticators,
    ) -> Result<Members, ConfigError> {
        endpoints.sort_unstable();
        let mut backends: Vec<Arc<Backend>> = Vec::with_capacity(endpoints.len());
        for endpoint in &endpoints {
            let mut known = backends.iter().chain(&self.backends);
            let backend = match known.find(|known| known.endpoint == *endpoint) {
                Some(known) => Arc::clone(known),
                None => {
                    let grpc = config.backend(endpoint);
                    Arc::new(Backend {
                        endpoint: endpoint.clone(),
                        otlp: Otlp::new(grpc.client(authenticators)?, grpc.retry_on_failure),
                        turns: Semaphore::new(1),
                    })
                }
            };
            backends.push(backend);
        }
        let ring = Ring::new(&endpoints);
        Ok(Members { ring, backends })
    }

    fn endpoints(&self) -> impl Iterator<Item = &str> {
        self.backends
            .iter()
            .map(|backend| backend.endpoint.as_str())
    }
}

/// The task that keeps the list.
struct Following {
    dns: Dns,
    config: Loadbalancing,
    authenticators: Authenticators,
    members: Weak<watch::Sender<Arc<Members>>>,
    lookup: Arc<dyn Lookup>,
}

impl Following {
    async fn run(self) {
        let mut interval = tokio::time::interval(self.dns.interval());
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_failing = false;
        loop {
            interval.tick().await;
            let resolved = self.resolve().await;
            let Some(members) = self.members.upgrade() else {
                return;
            };
            match resolved {
                Ok(endpoints) => {
                    is_failing = false;
                    self.update(&members, endpoints);
                }
                Err(error) if !is_failing => {
                    is_failing = true;
                    let hostname = &self.dns.hostname;
                    tracing::warn!(hostname, %error, "backends are not resolved; those known before stay");
                }
                Err(_) => {}
            }
        }
    }

    async fn resolve(&self) -> io::Result<Vec<String>> {
        let lookup = self.lookup.lookup(self.dns.hostname.clone());
        let found = tokio::time::timeout(self.dns.timeout(), lookup).await;
        let addrs: BTreeSet<IpAddr> = found??.iter().map(IpAddr::to_canonical).collect();
        if addrs.is_empty() {
            return Err(io::Error::other("the name has no address"));
        }
        Ok(addrs
            .into_iter()
            .map(|addr| self.dns.endpoint(addr))
            .collect())
    }

    fn update(&self, members: &watch::Sender<Arc<Members>>, mut endpoints: Vec<String>) {
        endpoints.sort_unstable();
        let before = Arc::clone(&members.borrow());
        if before.endpoints().eq(endpoints.iter().map(String::as_str)) {
            return;
        }
        match before.with(endpoints, &self.config, &self.authenticators) {
            Ok(after) => {
                let backends = after.endpoints().collect::<Vec<_>>().join(" ");
                tracing::info!(backends, "the backends have changed");
                members.send_replace(Arc::new(after));
            }
            Err(error) => {
                let error = crate::error::chain(&error);
                tracing::error!(
                    error,
                    "new backends cannot be used; those known before stay"
                );
            }
        }
    }
}

/// What a resolver does when nothing else is said.
pub(super) const INTERVAL: Duration = Duration::from_secs(5);
/// As above.
pub(super) const TIMEOUT: Duration = Duration::from_secs(1);
