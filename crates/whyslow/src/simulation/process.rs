//! One process over the simulated disk and store: the intake, and the exporter `lake` behind it.

use std::time::Duration;

use bytes::Bytes;
use gateway::Clock;
use gateway::testing::{Setup, Stepped, Ticket};
use lake::Mode;
use lake::sim::SimStore;
use tokio::runtime::Runtime;
use wal::sim::SimDisk;

use super::model::Model;
use crate::config::{Correlate, LakeExporter};
use crate::store::{Store, reports_of};

/// The name under which every process of a run commits, as the log's instance id gives it.
const APP_ID: &str = "simulated";

/// Small, so that segments are sealed and deleted all the time.
const SEGMENT_BYTES: u64 = 16 << 10;

/// Failed and slow traces are kept, and every other one of the rest. The waits are shorter than the time
/// over which a trace arrives, so that there are late spans.
const POLICIES: &str =
    "{decision_wait: 6s, decision_wait_after_root_received: 2s, num_traces: 12, policies: [
    {name: failed, type: status_code, status_code: {status_codes: [ERROR]}},
    {name: half, type: probabilistic, probabilistic: {sampling_percentage: 50}}]}";

/// What differs between simulations.
#[derive(Clone, Debug)]
pub(super) struct Options {
    pub(super) policies: &'static str,
    pub(super) sync_interval: Duration,
    pub(super) log_bytes_max: u64,
    pub(super) release_backlog_spans_max: u64,
    pub(super) correlate: Correlate,
    pub(super) clock: Clock,
    /// Through which release all is stored, as the log's folder notes it.
    pub(super) noted: i64,
    /// How many commits it takes until the stages behind are made to write all; 0: they wait as long as they like.
    pub(super) urgent_every: u64,
}

/// A process that runs.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) core: Stepped<SimDisk>,
    store: Store,
    n_commits: u64,
    urgent_every: u64,
    /// Committed, and the intake has not heard of it.
    untold: Option<i64>,
}

impl Process {
    /// Starts on what is on the disk and in the store; `None` if the process ends at once.
    pub(super) fn start(
        runtime: &Runtime,
        disk: &SimDisk,
        store: &SimStore,
        sync_interval: Duration,
        noted: i64,
    ) -> anyhow::Result<Self> {
        let options = Options {
            policies: POLICIES,
            sync_interval,
            log_bytes_max: 1 << 20,
            release_backlog_spans_max: 400,
            // Calls wait for what is urgent.
            correlate: Correlate {
                stitch_wait: Duration::from_secs(3600),
                ..Correlate::default()
            },
            clock: Clock::system(),
            noted,
            urgent_every: 3,
        };
        Self::start_with(runtime, disk, store, &options)
    }

    /// The same with other settings.
    pub(super) fn start_with(
        runtime: &Runtime,
        disk: &SimDisk,
        store: &SimStore,
        options: &Options,
    ) -> anyhow::Result<Self> {
        let opened = runtime.block_on(async {
            let lake = store.open(&tables::all(), Mode::Create).await?;
            let redact = tables::redact::Config::default();
            let correlate = (&options.correlate, Vec::new());
            let exporter = LakeExporter::default();
            let clock = options.clock.clone();
            Store::open(&lake, APP_ID, exporter, &redact, correlate, clock).await
        });
        let exporter = opened?;
        let setup = Setup {
            log: wal::Config {
                segment_bytes: SEGMENT_BYTES,
                ..wal::Config::in_directory("log")
            },
            sampler: serde_saphyr::from_str(options.policies).unwrap(),
            reports_of,
            sync_interval: options.sync_interval,
            log_bytes_max: options.log_bytes_max,
            release_backlog_spans_max: options.release_backlog_spans_max,
            committed_through: exporter.committed_through().max(options.noted),
        };
        let core = Stepped::open(setup, disk.clone())?;
        Ok(Self {
            core,
            store: exporter,
            n_commits: 0,
            urgent_every: options.urgent_every,
            untold: None,
        })
    }

    pub(super) fn submit(&mut self, body: &[u8], n_spans: u32, now: u64) -> Ticket {
        self.core
            .submit(Bytes::copy_from_slice(body), n_spans.into(), now)
    }

    /// Takes what is ready. `None` if the log cannot be read back, after which the process is of no use.
    pub(super) fn take(&mut self, model: &mut Model) -> Option<usize> {
        let mut n_taken = 0;
        while let Some(release) = self.core.release().ok()? {
            model.released(&release);
            self.store.take(&release);
            n_taken += 1;
        }
        Some(n_taken)
    }

    /// Takes what is ready, where no model is kept.
    pub(super) fn take_all(&mut self) {
        while let Some(release) = self.core.release().unwrap() {
            self.store.take(&release);
        }
        self.store.write_behind(false);
    }

    /// Tells what was committed, where no model is kept.
    pub(super) fn tell_all(&mut self, now: u64) {
        if let Some(through) = self.untold.take() {
            self.core.committed(through, now);
        }
    }

    pub(super) fn commit(&mut self, runtime: &Runtime) -> Option<i64> {
        self.n_commits += 1;
        // In between, the stages behind are behind.
        if self.n_commits.is_multiple_of(self.urgent_every) {
            self.store.write_behind(true);
        }
        let committed = runtime.block_on(self.store.commit_tables());
        let through = committed.map(|committed| committed.through);
        self.untold = through.or(self.untold);
        through
    }

    pub(super) fn tell(&mut self, model: &mut Model, now: u64) {
        if let Some(through) = self.untold.take() {
            model.told(through);
            self.core.committed(through, now);
        }
    }
}
