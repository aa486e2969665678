//! Settings of the maintenance of the stored tables, under the exporter `lake`.

use std::time::Duration;

use serde::Deserialize;

/// The wait before files are deleted: from an hour, which no query and no commit takes, to a day,
/// after which the Delta log forgets removed files.
const VACUUM_AFTER: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(3_600)..=Duration::from_secs(86_400);

/// What `whyslow serve` does in the background, and `whyslow maintain` by hand.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Maintenance {
    /// Time between two runs in the background; the first comes after a tenth of it. `0s` switches
    /// them off. Default `10m`.
    #[serde(deserialize_with = "sampler::duration::deserialize")]
    pub(crate) interval: Duration,
    /// Files below half of this size are merged, into files of up to this size, in bytes. Default
    /// 67108864 (64 MiB). Twice this is used as memory while files are merged.
    pub(crate) target_file_bytes: u64,
    /// How long rows are kept.
    pub(crate) retention_days: RetentionDays,
    /// How long files stay in the store after they left a table, and files of commits that failed.
    /// Longer than the longest query; from `1h` to `24h`. Default `24h`.
    #[serde(deserialize_with = "sampler::duration::deserialize")]
    pub(crate) vacuum_after: Duration,
}

/// Days that rows are kept, by their date, per table; 0 keeps them for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RetentionDays {
    /// Default 7.
    pub(crate) spans: u32,
    /// Default 30.
    pub(crate) traces: u32,
    /// Default 30.
    pub(crate) requests: u32,
    /// Default 14.
    pub(crate) gpu_samples: u32,
    /// Default 14.
    pub(crate) engine_samples: u32,
    /// Default 30.
    pub(crate) placements: u32,
    /// Default 30.
    pub(crate) evidence: u32,
    /// Default 14.
    pub(crate) batches: u32,
}

impl Default for Maintenance {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(600),
            target_file_bytes: 64 << 20,
            retention_days: RetentionDays::default(),
            vacuum_after: *VACUUM_AFTER.end(),
        }
    }
}

impl Default for RetentionDays {
    /// What the tables say of themselves.
    fn default() -> Self {
        let days = |name| {
            let specs = tables::all();
            let spec = specs.iter().find(|spec| spec.name == name);
            spec.map_or(0, |spec| spec.retention_days)
        };
        Self {
            spans: days("spans"),
            traces: days("traces"),
            requests: days("requests"),
            gpu_samples: days("gpu_samples"),
            engine_samples: days("engine_samples"),
            placements: days("placements"),
            evidence: days("evidence"),
            batches: days("batches"),
        }
    }
}

impl RetentionDays {
    /// Of one table; `None` keeps its rows for ever.
    pub(crate) fn of(self, spec: &tables::Spec) -> Option<u32> {
        let days = match spec.name {
            "spans" => self.spans,
            "traces" => self.traces,
            "requests" => self.requests,
            "gpu_samples" => self.gpu_samples,
            "engine_samples" => self.engine_samples,
            "placements" => self.placements,
            "evidence" => self.evidence,
            "batches" => self.batches,
            _ => spec.retention_days,
        };
        (days > 0).then_some(days)
    }
}

impl Maintenance {
    pub(super) fn validate(&self) -> Result<(), String> {
        if !(1 << 20..=1 << 30).contains(&self.target_file_bytes) {
            return Err(
                "`maintenance::target_file_bytes` must be from 1048576 (1 MiB) to 1073741824"
                    .to_owned(),
            );
        }
        if !VACUUM_AFTER.contains(&self.vacuum_after) {
            return Err(
                "`maintenance::vacuum_after` must be from `1h` to `24h`: longer than any query, and \
                 not longer than the log remembers removed files"
                    .to_owned(),
            );
        }
        Ok(())
    }
}
