//! Settings of the components that are the binary's own, and the built-in default of everything.

use std::time::Duration;

use serde::Deserialize;

use super::{Batches, Config, Maintenance};

/// Level of the program's own log lines where nothing else is said.
pub(super) const LOG_LEVEL: &str = "info";

/// Exporter `lake`: the Delta tables.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LakeExporter {
    /// Folder, or `s3://bucket/prefix`. S3 is set up by the `AWS_*` environment variables. Default
    /// `./whyslow-data/tables`.
    pub(crate) path: String,
    /// Rows wait at most this long in memory before they are committed; they are visible to SQL
    /// meanwhile, and safe in the log. Default `30s`.
    #[serde(deserialize_with = "sampler::duration::deserialize")]
    pub(crate) commit_interval: Duration,
    /// Rows that take more memory than this, in bytes, are committed at once. Default 67108864
    /// (64 MiB).
    pub(crate) commit_bytes: u64,
    /// Merging of small files, retention, vacuum.
    pub(crate) maintenance: Maintenance,
}

impl Default for LakeExporter {
    fn default() -> Self {
        Self {
            path: "./whyslow-data/tables".to_owned(),
            commit_interval: Duration::from_secs(30),
            commit_bytes: 64 << 20,
            maintenance: Maintenance::default(),
        }
    }
}

impl LakeExporter {
    pub(super) fn validate(&self) -> Result<(), String> {
        if self.path.is_empty() {
            return Err("`path` is empty; give a folder or `s3://bucket/prefix`".to_owned());
        }
        if self.commit_interval.is_zero() {
            return Err("`commit_interval` must be more than `0s`".to_owned());
        }
        if self.commit_bytes == 0 {
            return Err("`commit_bytes` must be more than 0".to_owned());
        }
        self.maintenance.validate()
    }
}

/// Processor `correlate`: the evidence of what the GPUs of kept requests did. It runs wherever `lake` does; the section
/// is for its settings.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Correlate {
    /// How long the evidence of a request waits for GPU samples of its time, at most; nothing else waits. Default `60s`.
    #[serde(deserialize_with = "sampler::duration::deserialize")]
    pub(crate) max_lateness: Duration,
    /// How long after that its evidence may be completed by late samples, once; the log is kept for what waits. `0s`: not
    /// at all. Default `15m`.
    #[serde(deserialize_with = "sampler::duration::deserialize")]
    pub(crate) completion_wait: Duration,
    /// How far away the one sample may be that stands for a request in whose time none was taken. Default `60s`.
    #[serde(deserialize_with = "sampler::duration::deserialize")]
    pub(crate) nearest_sample_max: Duration,
    /// How long before a request the same GPU is compared with. Default `10m`.
    #[serde(deserialize_with = "sampler::duration::deserialize")]
    pub(crate) baseline: Duration,
    /// How long the row of a call waits for an engine request of another trace that answered it, at most; rows of engine
    /// requests do not wait. Default `30s`.
    #[serde(deserialize_with = "sampler::duration::deserialize")]
    pub(crate) stitch_wait: Duration,
    /// CSV or YAML file that says which pod holds which GPU, where exporters do not. Default: none.
    pub(crate) placements_file: Option<String>,
    /// Scheduling steps of engines, and the shares of their time.
    pub(crate) batches: Batches,
}

impl Default for Correlate {
    fn default() -> Self {
        Self {
            max_lateness: Duration::from_secs(60),
            completion_wait: Duration::from_secs(15 * 60),
            nearest_sample_max: Duration::from_secs(60),
            baseline: Duration::from_secs(600),
            stitch_wait: Duration::from_secs(30),
            placements_file: None,
            batches: Batches::default(),
        }
    }
}

impl Correlate {
    pub(super) fn validate(&self) -> Result<(), String> {
        const HOUR: Duration = Duration::from_secs(3600);
        let spans = [
            ("max_lateness", self.max_lateness),
            ("completion_wait", self.completion_wait),
            ("nearest_sample_max", self.nearest_sample_max),
            ("baseline", self.baseline),
            ("stitch_wait", self.stitch_wait),
        ];
        match spans.iter().find(|(_, span)| *span > HOUR) {
            Some((key, _)) => Err(format!(
                "`{key}` must be at most `1h`: what it waits for is remembered in memory"
            )),
            None => self.batches.validate(),
        }
    }
}

/// Extension `write_ahead_log`: where received bytes are kept until they are decided and stored.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct WriteAheadLog {
    /// Folder of the log; one process at a time. Default `./whyslow-data/log`.
    pub(crate) directory: String,
    /// Size of one segment file in bytes; the log is deleted by whole segments. Default 67108864
    /// (64 MiB).
    pub(crate) segment_bytes: u64,
}

impl Default for WriteAheadLog {
    fn default() -> Self {
        Self {
            directory: "./whyslow-data/log".to_owned(),
            segment_bytes: 64 << 20,
        }
    }
}

impl WriteAheadLog {
    pub(super) fn validate(&self) -> Result<(), String> {
        if self.directory.is_empty() {
            return Err("`directory` is empty; give a folder on a local disk".to_owned());
        }
        if !(1 << 20..=1 << 30).contains(&self.segment_bytes) {
            return Err("`segment_bytes` must be from 1048576 (1 MiB) to 1073741824".to_owned());
        }
        Ok(())
    }
}

/// Extension `health_check`, keys as in the Collector: answers 200 while data is taken, else 503.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct HealthCheck {
    /// Address, `host:port`. Default `127.0.0.1:13133`.
    pub(crate) endpoint: String,
    /// Path. Default `/`.
    pub(crate) path: String,
}

impl Default for HealthCheck {
    fn default() -> Self {
        Self {
            endpoint: "127.0.0.1:13133".to_owned(),
            path: "/".to_owned(),
        }
    }
}

impl Default for Config {
    /// The built-in default; `pipelines/local.yaml` says the same.
    fn default() -> Self {
        Self {
            gateway: gateway::Config::default(),
            scrapers: Vec::new(),
            log: WriteAheadLog::default(),
            sampler: default_sampler(),
            redact: tables::redact::Config::default(),
            is_redacting: true,
            lake: Some(LakeExporter::default()),
            correlate: Correlate::default(),
            exporters: Vec::new(),
            query: Some(query::Config::default()),
            slo: None,
            health_check: None,
            log_level: LOG_LEVEL.to_owned(),
        }
    }
}

/// Failed and slow traces, and one in twenty of the rest to compare them with.
fn default_sampler() -> sampler::Config {
    let policy = |name: &str, policy_type| sampler::Policy {
        name: name.to_owned(),
        policy_type,
    };
    sampler::Config {
        trigger: Some(sampler::TriggerRules {
            root_grace: Some(sampler::ROOT_GRACE),
            ..sampler::TriggerRules::default()
        }),
        policies: vec![
            policy(
                "failed",
                sampler::PolicyType::StatusCode(sampler::StatusCodes {
                    status_codes: vec!["ERROR".to_owned()],
                }),
            ),
            policy(
                "slow",
                sampler::PolicyType::Latency(sampler::Latency {
                    threshold_ms: 2_000,
                    upper_threshold_ms: 0,
                }),
            ),
            policy(
                "baseline",
                sampler::PolicyType::Probabilistic(sampler::Probabilistic {
                    sampling_percentage: 5.0,
                    hash_salt: String::new(),
                    mode: sampler::ProbabilisticMode::HashSeed,
                    sampling_precision: None,
                }),
            ),
        ],
        ..sampler::Config::default()
    }
}

/// Keeps every trace: what a pipeline without `tail_sampling` means.
pub(super) fn keep_all() -> sampler::Config {
    sampler::Config {
        policies: vec![sampler::Policy {
            name: "all".to_owned(),
            policy_type: sampler::PolicyType::AlwaysSample,
        }],
        // Nothing depends on what comes later.
        trigger: None,
        decision_wait_after_root_received: Some(sampler::ROOT_GRACE),
        ..default_sampler()
    }
}

/// Passes every span on at the next tick, a tenth of a second: what a pipeline without `tail_sampling` means where nothing
/// is stored. What comes later of a trace follows.
pub(super) fn pass_on() -> sampler::Config {
    sampler::Config {
        decision_wait: Duration::ZERO,
        decision_wait_after_root_received: None,
        ..keep_all()
    }
}
