//! Scraping: what is configured, which targets follow from it, when each is due, and the loop that asks them.
//!
//! The keys of the receivers `dcgm` and `vllm_metrics` are those of a `scrape_config` of
//! Prometheus. Target groups come from the file itself or from files (`file_sd_configs`); rules
//! ([`relabel`]) turn their labels into a [`Target`]: a URL and the resource attributes that a
//! Collector would send with its metrics. [`schedule`] says when to scrape.
//!
//! What a target answers goes through `otlp::prometheus` into the log like a received export (`ask`); while the intake is
//! closed nobody is asked. A receiver runs for itself (`run`), reads its files again (`files`), and says on the metrics
//! page how each target does. Redirects are not followed.

pub mod relabel;
pub mod schedule;

mod ask;
mod files;
mod metrics;
mod run;
mod target;

use std::{collections::BTreeMap, time::Duration};

use serde::Deserialize;

use transport::{Auth, Authenticators, ClientTls};

pub(crate) use metrics::Scraping;
pub(crate) use run::Scraper;
pub use target::{Dropped, Target};

/// Which receiver it is: they differ in defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `dcgm`: exporters of GPUs.
    Dcgm,
    /// `vllm_metrics`: inference engines.
    VllmMetrics,
}

impl Kind {
    /// Type of the component in the configuration.
    pub const fn component(self) -> &'static str {
        match self {
            Self::Dcgm => "dcgm",
            Self::VllmMetrics => "vllm_metrics",
        }
    }

    /// Exporters refresh every 30 s unless told otherwise; engines change with every step.
    const fn interval(self) -> Duration {
        match self {
            Self::Dcgm => Duration::from_secs(10),
            Self::VllmMetrics => Duration::from_secs(5),
        }
    }
}

/// A receiver that scrapes.
#[derive(Clone, Debug, PartialEq)]
pub struct Receiver {
    /// `type/name`.
    pub id: String,
    /// What it scrapes.
    pub kind: Kind,
    /// Its section.
    pub config: Config,
}

impl Receiver {
    /// Checks what the types do not, but for the files.
    ///
    /// # Errors
    /// What is wrong, with the key below the component.
    pub fn validate(&self, known: &Authenticators) -> Result<(), String> {
        let config = &self.config;
        config.validate(self.kind).map_err(|e| e.to_string())?;
        if let Some(tls) = &config.tls {
            tls.validate("tls").map_err(|e| e.to_string())?;
        }
        if let Some(auth) = &config.auth {
            known.find("auth", auth).map_err(|e| e.to_string())?;
        }
        Ok(())
    }
}

/// The section of one receiver, keys as in a `scrape_config` of Prometheus.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// `service.name` of what is scraped. Default: the type of the component.
    pub job_name: Option<String>,
    /// Time between two scrapes of a target. Default `10s` for `dcgm`, `5s` for `vllm_metrics`; at
    /// least `100ms`.
    #[serde(deserialize_with = "optional_duration")]
    pub scrape_interval: Option<Duration>,
    /// How long a scrape may take. Default: `10s`, but at most the interval.
    #[serde(deserialize_with = "optional_duration")]
    pub scrape_timeout: Option<Duration>,
    /// `http` or `https`. Default `http`.
    pub scheme: Scheme,
    /// Path of the metrics. Default `/metrics`.
    pub metrics_path: String,
    /// Largest answer in bytes, after decompression. Default 16777216 (16 MiB), at least 1024.
    pub body_size_limit: u64,
    /// How targets with `https` are asked, keys as in the Collector.
    pub tls: Option<ClientTls>,
    /// Token that targets are asked with.
    pub auth: Option<Auth>,
    /// Targets named here.
    pub static_configs: Vec<TargetGroup>,
    /// Targets named in files.
    pub file_sd_configs: Vec<FileSd>,
    /// Rules on the labels of targets, in order.
    pub relabel_configs: Vec<relabel::Rule>,
}

/// Targets with common labels: an entry of `static_configs`, or of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetGroup {
    /// `host:port` each.
    pub targets: Vec<String>,
    /// Labels of each of them.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

/// Files with target groups, as JSON or YAML.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSd {
    /// Paths; the last part may have a `*`.
    pub files: Vec<String>,
    /// Time between two looks at them. Default `5m`.
    #[serde(
        default = "refresh_interval",
        deserialize_with = "sampler::duration::deserialize"
    )]
    pub refresh_interval: Duration,
}

/// How a target is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scheme {
    /// In the clear.
    #[default]
    Http,
    /// Over TLS.
    Https,
}

impl Scheme {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            job_name: None,
            scrape_interval: None,
            scrape_timeout: None,
            scheme: Scheme::default(),
            metrics_path: "/metrics".to_owned(),
            body_size_limit: 16 << 20,
            tls: None,
            auth: None,
            static_configs: Vec::new(),
            file_sd_configs: Vec::new(),
            relabel_configs: Vec::new(),
        }
    }
}

/// Why a section cannot be used: key below the component, and what is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{key}` {problem}")]
pub struct Invalid {
    /// Key below the component.
    pub key: &'static str,
    /// What is wrong with it, and what would be right.
    pub problem: &'static str,
}

impl Config {
    /// Time between two scrapes.
    pub fn interval(&self, kind: Kind) -> Duration {
        self.scrape_interval.unwrap_or(kind.interval())
    }

    /// How long a scrape may take.
    pub fn timeout(&self, kind: Kind) -> Duration {
        const TIMEOUT: Duration = Duration::from_secs(10);
        self.scrape_timeout
            .unwrap_or(TIMEOUT.min(self.interval(kind)))
    }

    /// Name of the job.
    pub fn job_name(&self, kind: Kind) -> &str {
        self.job_name.as_deref().unwrap_or(kind.component())
    }

    /// Checks what the types do not.
    ///
    /// # Errors
    /// The first key that cannot be used.
    pub fn validate(&self, kind: Kind) -> Result<(), Invalid> {
        const INTERVAL_MIN: Duration = Duration::from_millis(100);
        let invalid = |key, problem| Err(Invalid { key, problem });
        if self.interval(kind) < INTERVAL_MIN {
            return invalid("scrape_interval", "must be at least `100ms`");
        }
        if self.timeout(kind).is_zero() || self.timeout(kind) > self.interval(kind) {
            let problem = "must be more than `0s` and not more than `scrape_interval`";
            return invalid("scrape_timeout", problem);
        }
        if !self.metrics_path.starts_with('/') {
            return invalid("metrics_path", "must begin with `/`");
        }
        if self.body_size_limit < 1024 {
            return invalid("body_size_limit", "must be at least 1024 bytes");
        }
        if self.static_configs.is_empty() && self.file_sd_configs.is_empty() {
            let problem = "or `file_sd_configs` must name targets: there is nothing to scrape";
            return invalid("static_configs", problem);
        }
        if self
            .file_sd_configs
            .iter()
            .any(|files| files.refresh_interval.is_zero())
        {
            let problem = "must be more than `0s`";
            return invalid("file_sd_configs::refresh_interval", problem);
        }
        let targets = self.static_configs.iter().flat_map(|group| &group.targets);
        if targets.clone().any(|target| !target::is_address(target)) {
            let problem = "must be `host:port`, without scheme and path";
            return invalid("static_configs::targets", problem);
        }
        Ok(())
    }

    /// The targets of groups, each once, and those that rules or their addresses leave out.
    pub fn targets(&self, kind: Kind, groups: &[TargetGroup]) -> (Vec<Target>, Vec<Dropped>) {
        let mut targets = BTreeMap::new();
        let mut dropped = Vec::new();
        for group in groups {
            for address in &group.targets {
                match Target::new(self, kind, address, &group.labels) {
                    Ok(target) => drop(targets.insert(target.key().to_owned(), target)),
                    Err(reason) => dropped.push(reason),
                }
            }
        }
        (targets.into_values().collect(), dropped)
    }
}

fn refresh_interval() -> Duration {
    Duration::from_secs(300)
}

fn optional_duration<'de, D>(deserializer: D) -> Result<Option<Duration>, D::Error>
where
    D: serde::Deserializer<'de>,
{
    sampler::duration::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests;
