//! The kubelet's `PodResources`: which container holds which device on this node, asked over a Unix socket.
//!
//! The receiver looks every `interval` and reports what it sees, through the log like a report that somebody sends
//! (`proto/whyslow/v1/reports.proto`, with an `observation`): at the start, when it is another than before, and every
//! [`HEARTBEAT`]. So an hour in which nothing happens costs a few records, and a placement that ends has ended within
//! an interval.
//!
//! The API knows no pod UID, no time and no generation: a pod that is made anew under its name within one interval
//! looks like the one before. It lists pods that have ended for a while, so that two pods may seem to hold one GPU.
//!
//! `devices` turns ids into devices, `ask` makes one call within limits, `run` is the loop. Whatever the socket does, the
//! process goes on: the next look comes later, and later still while nobody answers.

mod ask;
mod devices;
mod metrics;
mod run;

use std::{path::PathBuf, time::Duration};

use serde::Deserialize;

pub(crate) use metrics::Watching;
pub(crate) use run::Watcher;

use crate::scrape::Invalid;

/// Time after which what has not changed is reported again.
pub const HEARTBEAT: Duration = Duration::from_secs(120);

/// A receiver of this type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receiver {
    /// `type/name`.
    pub id: String,
    /// Its section.
    pub config: Config,
}

/// The section of one receiver.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The kubelet's socket. Default `/var/lib/kubelet/pod-resources/kubelet.sock`.
    pub socket: PathBuf,
    /// Time between two looks. Default `10s`, at least `1s`.
    #[serde(deserialize_with = "sampler::duration::deserialize")]
    pub interval: Duration,
    /// How long a look may take. Default `5s`.
    #[serde(deserialize_with = "sampler::duration::deserialize")]
    pub timeout: Duration,
    /// Name of this node, as spans and GPU samples call it. Required; a pod learns it from `spec.nodeName`.
    pub node: String,
    /// Name of this cluster, where spans name theirs.
    pub cluster: Option<String>,
    /// Resources of device plugins that are GPUs; a `*` at the end stands for any text. Default `nvidia.com/gpu`,
    /// `nvidia.com/gpu.shared` and `nvidia.com/mig-*`.
    pub resource_names: Vec<String>,
    /// Drivers of dynamic resource allocation (DRA) whose devices are GPUs. Default `gpu.nvidia.com`.
    pub driver_names: Vec<String>,
    /// Largest answer in bytes. Default 4194304 (4 MiB), at least 1024.
    pub answer_bytes_max: u64,
}

impl Default for Config {
    fn default() -> Self {
        let texts = |texts: &[&str]| texts.iter().copied().map(str::to_owned).collect();
        Self {
            socket: "/var/lib/kubelet/pod-resources/kubelet.sock".into(),
            interval: Duration::from_secs(10),
            timeout: Duration::from_secs(5),
            node: String::new(),
            cluster: None,
            resource_names: texts(&[
                "nvidia.com/gpu",
                "nvidia.com/gpu.shared",
                "nvidia.com/mig-*",
            ]),
            driver_names: texts(&["gpu.nvidia.com"]),
            answer_bytes_max: 4 << 20,
        }
    }
}

impl Config {
    /// Checks what the types do not.
    ///
    /// # Errors
    /// The first key that cannot be used.
    pub fn validate(&self) -> Result<(), Invalid> {
        const INTERVAL_MIN: Duration = Duration::from_secs(1);
        let invalid = |key, problem| Err(Invalid { key, problem });
        if self.socket.as_os_str().is_empty() {
            return invalid("socket", "is empty");
        }
        if self.interval < INTERVAL_MIN {
            return invalid("interval", "must be at least `1s`");
        }
        if self.interval > HEARTBEAT {
            return invalid(
                "interval",
                "must be at most `2m`: what is not seen for long has ended",
            );
        }
        if self.timeout.is_zero() {
            return invalid("timeout", "must be more than `0s`");
        }
        if self.node.is_empty() || self.node.len() > reports::TEXT_BYTES_MAX {
            let problem = "must name this node: set it from `${env:NODE_NAME}`, which the pod gets from `spec.nodeName`";
            return invalid("node", problem);
        }
        if self.resource_names.is_empty() && self.driver_names.is_empty() {
            let problem = "or `driver_names` must name something: there is nothing to look for";
            return invalid("resource_names", problem);
        }
        if self.answer_bytes_max < 1024 {
            return invalid("answer_bytes_max", "must be at least 1024 bytes");
        }
        Ok(())
    }
}
