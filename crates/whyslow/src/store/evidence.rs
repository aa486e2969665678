//! Stage 8, `correlate`: the evidence of what the GPUs of kept requests did.
//!
//! Releases wait here, in order, for the GPU samples of their requests' time; then their rows of `evidence` are
//! appended under their sequence. That table is committed behind the others, and the gateway keeps the log until then:
//! after a crash the releases are repeated, and what was committed is skipped. `spans`, `traces` and `requests` wait for
//! nothing here.
//!
//! A release waits until
//! - every device that is being sampled has a sample beyond the end of its last kept request (the watermark), or
//! - `max_lateness` has passed since it came, or
//! - no sample of any device has come for `max_lateness`: then there is nothing to wait for, or
//! - the log fills up, too many requests wait, or the process stops.
//!
//! What is not known then is NULL, or has a name in `missing_link`; `complete` says whether the device was sampled
//! beyond the end.
//!
//! Bounds: samples are remembered for the baseline and a quarter of an hour more, at most [`SAMPLES_MAX`] of them; so a
//! request that is decided later than that after it ended has no samples. After a restart nothing is known but what the
//! repeated releases say.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use arrow::array::RecordBatch;
use correlate::{KeptRequest, Placement, SampleIndex};
use tables::requests::Request;
use tables::samples::gpu::GpuSample;

use super::Written;
use super::placed::Placed;
use super::traffic::Running;
use crate::config::Correlate;

/// How long after its end a request may be decided and still find its samples.
const DECIDED_WITHIN: Duration = Duration::from_secs(15 * 60);

/// Samples that are remembered: about 1 KiB each.
const SAMPLES_MAX: usize = 1 << 19;

/// Requests that wait; beyond it the oldest are written with what is known.
const WAITING_MAX: usize = 1 << 16;

/// Time between two looks at what waits: each costs a pass over the remembered samples.
const PAUSE_NANOS: i64 = 1_000_000_000;

/// A release whose evidence is not written.
#[derive(Debug)]
struct Waiting {
    sequence: i64,
    kept: Vec<KeptRequest>,
    /// Of the last of them.
    end_unix_nano: i64,
    since_unix_nano: i64,
}

/// What a device's samples say of how far time is known.
#[derive(Clone, Copy, Debug)]
struct Seen {
    last_unix_nano: i64,
    arrived_unix_nano: i64,
}

/// The stage.
#[derive(Debug)]
pub(super) struct Evidence {
    settings: correlate::Settings,
    max_lateness_nanos: i64,
    remembered_nanos: i64,
    /// Batches of `gpu_samples` and when they came.
    samples: VecDeque<(i64, RecordBatch)>,
    n_samples: usize,
    devices: HashMap<(String, Option<String>), Seen>,
    placed: Placed,
    waiting: VecDeque<Waiting>,
    n_waiting: usize,
    looked_unix_nano: i64,
    /// The last release whose rows are appended.
    appended: i64,
}

/// How long requests and samples are remembered.
pub(super) fn remembered_nanos(config: &Correlate) -> i64 {
    nanos(config.baseline.saturating_add(config.max_lateness)).saturating_add(nanos(DECIDED_WITHIN))
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

impl Evidence {
    /// Nothing is known but the placements of a file.
    pub(super) fn new(config: &Correlate, placements: Vec<Placement>) -> Self {
        Self {
            settings: correlate::Settings {
                nearest_max: config.nearest_sample_max,
                baseline: config.baseline,
            },
            max_lateness_nanos: nanos(config.max_lateness),
            remembered_nanos: remembered_nanos(config),
            samples: VecDeque::new(),
            n_samples: 0,
            devices: HashMap::new(),
            placed: Placed::new(placements),
            waiting: VecDeque::new(),
            n_waiting: 0,
            looked_unix_nano: i64::MIN,
            appended: 0,
        }
    }

    /// The last release whose rows are appended.
    pub(super) const fn appended(&self) -> i64 {
        self.appended
    }

    /// Kept requests that wait.
    pub(super) const fn n_waiting(&self) -> usize {
        self.n_waiting
    }

    /// Takes the GPU samples of a release.
    pub(super) fn take_samples(
        &mut self,
        batches: &[RecordBatch],
        samples: &[GpuSample],
        now: i64,
    ) {
        for batch in batches.iter().filter(|batch| batch.num_rows() > 0) {
            self.n_samples += batch.num_rows();
            self.samples.push_back((now, batch.clone()));
        }
        self.placed.observe(samples);
        for sample in samples {
            let key = (sample.gpu_uuid.clone(), sample.mig_instance.clone());
            let at = i64::try_from(sample.time_unix_nano).unwrap_or(i64::MAX);
            let seen = self.devices.entry(key).or_insert(Seen {
                last_unix_nano: at,
                arrived_unix_nano: now,
            });
            seen.last_unix_nano = seen.last_unix_nano.max(at);
            seen.arrived_unix_nano = now;
        }
    }

    /// Takes the kept requests of a release, which wait from now on.
    pub(super) fn take_kept<'a>(
        &mut self,
        sequence: i64,
        kept: impl Iterator<Item = &'a Request>,
        now: i64,
    ) {
        let kept: Vec<KeptRequest> = kept.map(KeptRequest::of).collect();
        let ends = kept.iter().map(|request| request.end_unix_nano);
        self.n_waiting += kept.len();
        self.waiting.push_back(Waiting {
            sequence,
            end_unix_nano: ends.max().unwrap_or(i64::MIN),
            since_unix_nano: now,
            kept,
        });
    }

    /// The rows of the releases that need not wait any more; `is_urgent`: of all.
    pub(super) fn write(&mut self, running: &Running, is_urgent: bool, now: i64) -> Vec<Written> {
        let is_soon = now.saturating_sub(self.looked_unix_nano) < PAUSE_NANOS
            && now >= self.looked_unix_nano
            && self.waiting.iter().any(|release| !release.kept.is_empty());
        if self.waiting.is_empty() || is_soon && !is_urgent {
            return Vec::new();
        }
        self.looked_unix_nano = now;
        self.forget(now);
        let due = self.take_due(is_urgent, now);
        let written = self.rows(due, running);
        if let Some(last) = written.last() {
            self.appended = self.appended.max(last.sequence);
        }
        written
    }

    fn take_due(&mut self, is_urgent: bool, now: i64) -> Vec<Waiting> {
        let watermark = self.watermark(now);
        let mut due = Vec::new();
        while let Some(release) = self.waiting.pop_front_if(|release| {
            is_urgent
                || self.n_waiting > WAITING_MAX
                || watermark.is_none_or(|watermark| watermark > release.end_unix_nano)
                || now.saturating_sub(release.since_unix_nano) >= self.max_lateness_nanos
                || now < release.since_unix_nano
        }) {
            self.n_waiting -= release.kept.len();
            due.push(release);
        }
        due
    }

    /// The time up to which all devices are known that are being sampled; `None` if there are none.
    fn watermark(&self, now: i64) -> Option<i64> {
        let is_live = |seen: &&Seen| {
            now.saturating_sub(seen.arrived_unix_nano) < self.max_lateness_nanos.max(PAUSE_NANOS)
        };
        let live = self.devices.values().filter(is_live);
        live.map(|seen| seen.last_unix_nano).min()
    }

    fn rows(&self, due: Vec<Waiting>, running: &Running) -> Vec<Written> {
        let kept = due.iter().flat_map(|release| &release.kept);
        let engines = kept.clone().filter_map(|request| request.engine.as_deref());
        let from = kept.clone().map(|request| request.start_unix_nano).min();
        let to = kept.clone().map(|request| request.end_unix_nano).max();
        let (Some(from), Some(to)) = (from, to) else {
            let sequences = due.iter().map(|release| release.sequence);
            let empty = sequences.map(|sequence| Written {
                sequence,
                rows: None,
            });
            return empty.collect();
        };
        let traffic = running.during(engines, from, to);
        let batches: Vec<RecordBatch> = self
            .samples
            .iter()
            .map(|(_, batch)| batch.clone())
            .collect();
        let index = SampleIndex::new(&batches).unwrap_or_else(|error| {
            // They are of our own making.
            tracing::error!(error = %error, "GPU samples cannot be joined");
            SampleIndex::default()
        });
        let placements = self.placed.placements();
        let rows = |kept: &[KeptRequest]| {
            correlate::evidence(kept, &index, &placements, &traffic, self.settings, 0)
        };
        let written = due.into_iter().map(|release| Written {
            sequence: release.sequence,
            rows: (!release.kept.is_empty()).then(|| rows(&release.kept)),
        });
        written.collect()
    }

    /// Forgets samples and devices of long ago.
    fn forget(&mut self, now: i64) {
        let keeps_from = now.saturating_sub(self.remembered_nanos);
        while let Some((_, batch)) = self
            .samples
            .pop_front_if(|(arrived, _)| *arrived < keeps_from || self.n_samples > SAMPLES_MAX)
        {
            self.n_samples -= batch.num_rows();
        }
        self.devices
            .retain(|_, seen| seen.arrived_unix_nano >= keeps_from);
        self.placed.forget(keeps_from);
    }
}
