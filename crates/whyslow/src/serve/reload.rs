//! Reload: the policies of a changed file are put in force while the process runs.
//!
//! The whole file is read and checked as at a start. If anything in it is refused, everything stays as it is, and the
//! log says where and why; exports are taken meanwhile as before, so `/readyz` does not change. Else the policies are
//! handed to the gateway, which says what that costs ([`gateway::Reloaded`]). Every other part that differs is named:
//! it takes effect with the next start.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gateway::Handle;
use tokio::signal::unix::Signal;
use tokio::time::MissedTickBehavior;

use crate::config::{self, Config};
use crate::show::text::error_chain;

/// How often a watched file is looked at.
const WATCH_INTERVAL: Duration = Duration::from_secs(2);

/// What became of a reload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// Other policies are in force.
    Applied,
    /// The policies are those of before.
    Unchanged,
    /// The file is refused.
    Invalid,
    /// The gateway has stopped.
    Failed,
}

impl Outcome {
    const ALL: [Self; 4] = [Self::Applied, Self::Unchanged, Self::Invalid, Self::Failed];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Unchanged => "unchanged",
            Self::Invalid => "invalid",
            Self::Failed => "failed",
        }
    }
}

/// How often each outcome was.
#[derive(Debug, Default)]
pub(super) struct Metrics {
    by_outcome: [AtomicU64; Outcome::ALL.len()],
}

impl Metrics {
    fn count(&self, outcome: Outcome) {
        self.by_outcome[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Prometheus text.
    pub(super) fn render(&self) -> String {
        let mut out = "# HELP config_reloads_total Times the configuration file was read again.\n\
             # TYPE config_reloads_total counter\n"
            .to_owned();
        for (outcome, n) in Outcome::ALL.iter().zip(&self.by_outcome) {
            let (result, n) = (outcome.as_str(), n.load(Ordering::Relaxed));
            out.push_str(&format!(
                "config_reloads_total{{result=\"{result}\"}} {n}\n"
            ));
        }
        out
    }
}

/// Reads the file again when it is told to or the file has changed.
#[derive(Debug)]
pub(super) struct Reloader {
    /// `None` where the built-in default runs.
    path: Option<PathBuf>,
    is_watching: bool,
    /// The file as it was read last; `None` where that failed.
    text: Option<String>,
    running: Config,
    gateway: Handle,
    metrics: Arc<Metrics>,
}

impl Reloader {
    /// `running` is what the process was started with.
    pub(super) fn new(
        path: Option<PathBuf>,
        is_watching: bool,
        running: Config,
        gateway: Handle,
        metrics: Arc<Metrics>,
    ) -> Self {
        let text = path.as_deref().and_then(read);
        Self {
            path,
            is_watching,
            text,
            running,
            gateway,
            metrics,
        }
    }

    /// Never ends.
    pub(super) async fn run(mut self, mut hangups: Signal) {
        let mut interval = tokio::time::interval(WATCH_INTERVAL);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = hangups.recv() => self.reload().await,
                _ = interval.tick(), if self.is_watching => {
                    if self.path.as_deref().and_then(read) != self.text {
                        self.reload().await;
                    }
                }
            }
        }
    }

    async fn reload(&mut self) {
        let Some(path) = self.path.clone() else {
            tracing::warn!("nothing to reload: the built-in default runs; start with `-c FILE`");
            return;
        };
        // Before it is parsed, so that a change in between is seen at the next look.
        self.text = read(&path);
        self.put_in_force(&path).await;
    }

    /// Counts before it says what came of it: who has read the line finds the count.
    async fn put_in_force(&mut self, path: &Path) {
        let loaded = match config::load(Some(path)) {
            Ok(loaded) => loaded,
            Err(error) => {
                let error = error_chain(&error);
                self.metrics.count(Outcome::Invalid);
                tracing::error!(
                    error,
                    "the changed configuration is refused; the policies of before stay in force"
                );
                return;
            }
        };
        super::tell(&loaded.warnings);
        let parts = self.running.parts_that_differ(&loaded.config);
        if !parts.is_empty() {
            let parts = parts.join(", ");
            tracing::warn!(parts, "changed in the file; needs a restart to take effect");
        }
        let sampler = loaded.config.sampler;
        if sampler == self.running.sampler {
            self.metrics.count(Outcome::Unchanged);
            tracing::info!("the policies of the file are those in force");
            return;
        }
        match self.gateway.reload(sampler.clone()).await {
            Ok(reloaded) => {
                self.running.sampler = sampler;
                let gateway::Reloaded {
                    n_traces,
                    n_spans,
                    bytes_read,
                } = reloaded;
                self.metrics.count(Outcome::Applied);
                tracing::info!(n_traces, n_spans, bytes_read, "policies reloaded");
            }
            Err(error) => {
                let error = error_chain(&error);
                self.metrics.count(Outcome::Failed);
                tracing::error!(error, "the policies of before stay in force");
            }
        }
    }
}

fn read(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok()
}
