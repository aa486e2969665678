//! The exporter `lake`: releases become rows of `spans`, `traces`, `requests`, `gpu_samples`, `engine_samples`,
//! `placements`, and commits; behind them, `evidence` of their kept requests.
//!
//! A release is turned into rows as a whole and appended to each table under its sequence; SQL sees
//! the rows at once. They are committed by size or age. Only after every table has committed through
//! a sequence is the gateway told, which may then delete that part of its log. After a restart the
//! gateway repeats what was not told; a table skips what it has committed (its Delta application
//! transaction says so), so that every row is stored once.
//!
//! Stages behind hold rows of a release back: `evidence` (see there) waits for GPU samples, `calls` for engine requests of
//! other traces. Each has a writer of its
//! own on its table, whose sequence is behind that of the others: the gateway is told both, one for what is a backlog,
//! the other for what the log may forget.
//!
//! Backpressure: while commits fail, no further release is taken once twice `commit_bytes` is in
//! memory; the releases wait in the log.
//!
//! It must not know where the bytes of a span came from or how a table is written.

mod batches;
mod calls;
mod evidence;
mod metrics;
mod placed;
pub(crate) mod placements_file;
mod reload;
mod rows;
mod samples;
mod target;
mod told;
mod traffic;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Context as _;
use arrow::array::RecordBatch;
use correlate::Placement;
use gateway::{Clock, Handle, Release};
use lake::{Lake, Table};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::config::{Correlate, LakeExporter};
use batches::Batches;
use calls::Calls;
use evidence::Evidence;
pub(crate) use metrics::Metrics;
use rows::Rows;
#[cfg(test)]
pub(crate) use rows::calls_of;
pub(crate) use rows::reports_of;
use samples::Samples;
use target::Target;
use told::Told;
use traffic::Running;

/// How often age and size are looked at.
const TICK: Duration = Duration::from_millis(200);

/// How long the next release may take to come before a commit is made without it: those that wait in the log are
/// read back one after the other.
const GATHER: Duration = Duration::from_millis(20);

/// First and longest pause after a commit that failed.
const RETRY_FIRST: Duration = Duration::from_millis(500);
const RETRY_LONGEST: Duration = Duration::from_secs(30);

/// Commits that are tried after the last release before the rest is left to the next start.
const LAST_ATTEMPTS: u32 = 3;

/// Tables in the order in which a release is committed: details first, so that what `traces` lists
/// can be opened.
const NAMES: [&str; 6] = [
    "spans",
    "requests",
    "gpu_samples",
    "engine_samples",
    "placements",
    "traces",
];

/// Place of `placements` in [`NAMES`].
const PLACEMENTS: usize = 4;

/// Writers behind them: a table, and what the app id of the writer ends with, so that it is another than that of a
/// release.
const BEHIND: [(&str, &str); 4] = [
    ("evidence", ""),
    ("evidence", "/late"),
    ("requests", "/calls"),
    ("batches", ""),
];

/// Place of a table in [`NAMES`].
const REQUESTS: usize = 1;

/// Places in [`BEHIND`].
const EVIDENCE: usize = 0;
const LATE: usize = 1;
const CALLS: usize = 2;
const BATCHES: usize = 3;

/// Rows of one release, from a stage behind.
#[derive(Debug)]
struct Written {
    sequence: i64,
    /// `None`: it leaves no rows here.
    rows: Option<RecordBatch>,
}

/// The exporter before it runs.
#[derive(Debug)]
pub(crate) struct Store {
    tables: Vec<Arc<Table>>,
    targets: [Target; NAMES.len()],
    behind: [Target; BEHIND.len()],
    app_id: String,
    config: LakeExporter,
    rows: Rows,
    samples: Samples,
    running: Running,
    /// Requests of releases through this one were read back.
    reloaded: i64,
    evidence: Evidence,
    calls: Calls,
    batches: Batches,
    clock: Clock,
    metrics: Arc<Metrics>,
    /// Sequence of the last release that was appended.
    appended: i64,
    /// The last of them with a row in a table: a table knows it.
    last_with_rows: i64,
    told: Option<Told>,
    /// Since when rows wait in memory.
    waiting_since: Option<Instant>,
    pause: Option<Duration>,
}

impl Store {
    /// Reads how far each table is committed for this instance.
    pub(crate) async fn open(
        lake: &Lake,
        app_id: &str,
        config: LakeExporter,
        redact: &tables::redact::Config,
        (correlate, placements): (&Correlate, Vec<Placement>),
        clock: Clock,
    ) -> anyhow::Result<Self> {
        let mut targets = Vec::with_capacity(NAMES.len());
        for name in NAMES {
            targets.push(Target::open(lake, name, app_id).await?);
        }
        let mut behind = Vec::with_capacity(BEHIND.len());
        for (name, suffix) in BEHIND {
            behind.push(Target::open(lake, name, &format!("{app_id}{suffix}")).await?);
        }
        let evidence = Evidence::new(correlate, placements, behind[EVIDENCE].committed());
        let reloaded = targets[REQUESTS].committed();
        let lacks = |_| anyhow::anyhow!("the lake lacks a table");
        let redaction = tables::redact::Redaction::new(redact)?;
        let mut store = Self {
            tables: lake.tables().to_vec(),
            targets: targets.try_into().map_err(lacks)?,
            behind: behind.try_into().map_err(lacks)?,
            app_id: app_id.to_owned(),
            config,
            rows: Rows::new(&redaction),
            samples: Samples::new(),
            running: Running::new(evidence::remembered_nanos(correlate)),
            reloaded,
            evidence,
            calls: Calls::new(correlate),
            batches: Batches::new(&correlate.batches),
            clock,
            metrics: Arc::new(Metrics::default()),
            appended: 0,
            last_with_rows: 0,
            told: None,
            waiting_since: None,
            pause: None,
        };
        store.reload(lake, correlate).await?;
        Ok(store)
    }

    /// Reads back what the process before this one knew, and the log may not have any more.
    async fn reload(&mut self, lake: &Lake, config: &Correlate) -> anyhow::Result<()> {
        let now = self.now_unix_nano();
        let read = async |name: &str, wanted: reload::Wanted| {
            let table = reload::table(lake, name)?;
            let rows = reload::recent(table, wanted, now).await;
            rows.with_context(|| format!("read recent rows of `{name}`"))
        };
        let samples = read("gpu_samples", self.evidence.wanted_samples()).await?;
        let evidence = read("evidence", Evidence::wanted_evidence(config)).await?;
        let requests = read("requests", self.running.wanted()).await?;
        let placements = read("placements", placed::WANTED).await?;
        tokio::task::block_in_place(|| {
            // Before the samples, whose labels only say that it went on.
            self.evidence.placed_mut().restore(&placements);
            self.evidence.reload(&samples, &evidence, now);
            for request in traffic::stored_requests(&requests) {
                self.running.reload(&request, now);
                // Its call may come yet, or again.
                self.calls.stitching.take_request(&request, now);
            }
        });
        Ok(())
    }

    /// Notes in the folder of the log how far all tables are.
    pub(crate) fn noting_in(self, folder: &Path) -> Self {
        let told = Told::new(folder, &self.app_id);
        let last = self.all().map(Target::committed).max().unwrap_or(0);
        let now = self.now_unix_nano();
        let committed = self.behind[BATCHES].committed();
        let batches = self.batches;
        let batches = batches.noting_in(folder, &self.app_id, committed, now);
        Self {
            last_with_rows: told.read().min(last),
            told: Some(told),
            batches,
            ..self
        }
    }

    /// The highest sequence that every table is known to have.
    pub(crate) fn committed_through(&self) -> i64 {
        let committed = self.all().map(Target::committed);
        let (last, first) = (committed.clone().max(), committed.min().unwrap_or(0));
        let told = self.told.as_ref().map_or(0, Told::read);
        // Tables that were replaced by others know less than what was noted.
        if Some(told) <= last {
            first.max(told)
        } else {
            first
        }
    }

    pub(crate) fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.metrics)
    }

    /// Takes releases until there are no more, then commits what is left.
    pub(crate) async fn run(mut self, mut releases: mpsc::Receiver<Release>, gateway: Handle) {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                release = releases.recv(), if !self.is_full() => match release {
                    Some(release) => self.take(&release),
                    None => break,
                },
                _ = tick.tick() => self.write_behind(gateway.is_log_filling()),
            }
            if self.is_due() {
                self.take_what_waits(&mut releases).await;
                self.commit(&gateway).await;
            }
        }
        self.write_behind(true);
        for _ in 0..LAST_ATTEMPTS {
            if self.waiting_since.is_none() || self.commit(&gateway).await {
                return;
            }
            tokio::time::sleep(RETRY_FIRST).await;
        }
        tracing::warn!(
            "rows could not be committed at shutdown; the next start takes them from the log"
        );
    }

    /// Takes the releases that are there already, as far as there is room: when storage is behind, commits become
    /// larger, and what each costs by itself counts less.
    async fn take_what_waits(&mut self, releases: &mut mpsc::Receiver<Release>) {
        while !self.is_full()
            && let Ok(Some(release)) = tokio::time::timeout(GATHER, releases.recv()).await
        {
            self.take(&release);
        }
    }

    /// Turns a release into rows, which SQL sees from now on.
    pub(crate) fn take(&mut self, release: &Release) {
        // Building rows is plain computing: the runtime's other tasks get another thread meanwhile.
        tokio::task::block_in_place(|| self.append(release));
        self.write_behind(false);
        self.appended = self.appended.max(release.sequence);
        if self.waiting_since.is_none() {
            self.waiting_since = Some(now());
        }
    }

    fn append(&mut self, release: &Release) {
        let now = self.now_unix_nano();
        if release.sequence > self.reloaded {
            self.running.end_reload();
        }
        let mapped = self.samples.map(release);
        let mut built = {
            let seen_by = (&mut self.running, &mut self.calls.stitching);
            self.rows.build(release, seen_by, now)
        };
        let n_lost = built.n_lost.saturating_add(mapped.n_lost);
        let n_lost = n_lost.saturating_add(self.batches.take(release, now));
        self.metrics.rows_lost.fetch_add(n_lost, Ordering::Relaxed);
        self.metrics.count_losses(&mapped.losses);
        let gpus: Vec<RecordBatch> = mapped.gpus.into_iter().map(target::compact).collect();
        self.evidence.take_samples(&gpus, &mapped.gpu_samples, now);
        let placements = self.take_placements(release);
        let kept = std::mem::take(&mut built.kept);
        let decided = release.decided_unix_nano;
        self.evidence
            .take_kept(release.sequence, decided, kept.iter(), now);
        let calls = std::mem::take(&mut built.calls);
        self.calls.take(release.sequence, calls, now);
        let batches = [
            built.spans,
            built.requests,
            gpus,
            mapped.engines,
            placements,
            built.traces,
        ];
        for (target, batches) in self.targets.iter().zip(batches) {
            for batch in batches {
                if batch.num_rows() > 0 {
                    self.last_with_rows = release.sequence;
                }
                target.append(release.sequence, batch);
            }
        }
    }

    /// Takes who holds which GPU, as reports and the samples of a release say; the rows of what has changed.
    fn take_placements(&mut self, release: &Release) -> Vec<RecordBatch> {
        let is_new = release.sequence > self.targets[PLACEMENTS].committed();
        let placed = self.evidence.placed_mut();
        let n_lost = placed.take_reports(&release.reports);
        let rows = placed.take_rows(release.decided_unix_nano, is_new);
        self.metrics.rows_lost.fetch_add(n_lost, Ordering::Relaxed);
        self.metrics.set_placements(placed);
        rows
    }

    /// Appends the rows of the stages behind that need not wait any more; all of them where it is urgent.
    pub(crate) fn write_behind(&mut self, is_urgent: bool) {
        let now_unix_nano = self.now_unix_nano();
        let (evidence, running) = (&mut self.evidence, &mut self.running);
        let written =
            tokio::task::block_in_place(|| evidence.write(running, is_urgent, now_unix_nano));
        self.append_behind(EVIDENCE, written.first);
        self.append_behind(LATE, written.completed);
        let (calls, batches) = (&mut self.calls, &mut self.batches);
        let [calls, batches] = tokio::task::block_in_place(|| {
            [
                calls.write(is_urgent, now_unix_nano),
                batches.write(is_urgent, now_unix_nano),
            ]
        });
        self.append_behind(CALLS, calls);
        self.append_behind(BATCHES, batches);
        self.metrics.count_batches(self.batches.window());
        let gauges = [
            (&self.metrics.evidence_waiting, self.evidence.n_waiting()),
            (
                &self.metrics.evidence_incomplete,
                self.evidence.n_incomplete(),
            ),
            (&self.metrics.calls_waiting, self.calls.n_waiting()),
        ];
        for (gauge, n_waiting) in gauges {
            gauge.store(n_waiting as u64, Ordering::Relaxed);
        }
    }

    fn append_behind(&mut self, stage: usize, written: Vec<Written>) {
        if !written.is_empty() && self.waiting_since.is_none() {
            self.waiting_since = Some(now());
        }
        for release in written {
            if let Some(rows) = release.rows {
                self.behind[stage].append(release.sequence, rows);
            }
        }
    }

    fn now_unix_nano(&self) -> i64 {
        i64::try_from(self.clock.unix_nano()).unwrap_or(i64::MAX)
    }

    fn fresh_bytes(&self) -> u64 {
        // Two writers of a table share its rows.
        self.tables.iter().map(|table| table.fresh_bytes()).sum()
    }

    fn is_full(&self) -> bool {
        self.fresh_bytes() >= self.config.commit_bytes.saturating_mul(2)
    }

    fn is_due(&self) -> bool {
        let Some(since) = self.waiting_since else {
            return false;
        };
        let waited = since.elapsed();
        match self.pause {
            // After a failure, `waiting_since` is when it happened.
            Some(pause) => waited >= pause,
            None => {
                waited >= self.config.commit_interval
                    || self.fresh_bytes() >= self.config.commit_bytes
            }
        }
    }

    /// Commits, and tells the gateway what it may forget; says whether all of it worked.
    async fn commit(&mut self, gateway: &Handle) -> bool {
        let committed = self.commit_tables().await;
        if let Some(committed) = committed {
            gateway.stored(committed.stored);
            // First: what is repeated without the part of the log that is deleted then is not what it was.
            if let Some(told) = &self.told {
                told.write(committed.through.min(self.last_with_rows));
            }
            gateway.committed(committed.through);
        }
        committed.is_some()
    }

    /// Commits every table through the last appended release, if all of it works.
    pub(crate) async fn commit_tables(&mut self) -> Option<Committed> {
        // Read first: what is appended while the other tables are committed waits for the next time.
        let stored = self.appended;
        let behind = [
            self.evidence.appended(),
            self.evidence.completed(),
            self.calls.appended(),
            self.batches.appended(),
        ];
        if let Err(error) = tokio::task::block_in_place(|| self.batches.note()) {
            self.fail(BEHIND[BATCHES].0, &error);
            return None;
        }
        let throughs = [stored; NAMES.len()].into_iter().chain(behind);
        let targets = self.targets.iter_mut().chain(&mut self.behind);
        for (target, through) in targets.zip(throughs) {
            match target.commit(through).await {
                Ok(n_rows) => self.metrics.count_commit(target.name(), n_rows),
                Err(error) => {
                    let name = target.name();
                    self.fail(name, &error);
                    return None;
                }
            }
        }
        self.batches.committed(behind[BATCHES]);
        self.pause = None;
        self.waiting_since = None;
        Some(Committed {
            stored,
            through: behind.into_iter().fold(stored, i64::min),
        })
    }

    fn fail(&mut self, table: &str, error: &dyn std::error::Error) {
        self.metrics.commit_failures.fetch_add(1, Ordering::Relaxed);
        let pause = self.pause.map_or(RETRY_FIRST, |pause| {
            pause.saturating_mul(2).min(RETRY_LONGEST)
        });
        let error = crate::show::text::error_chain(error);
        tracing::error!(table, error, retry_in = ?pause, "commit failed; rows stay in memory and in the log");
        self.pause = Some(pause);
        self.waiting_since = Some(now());
    }

    fn all(&self) -> impl Iterator<Item = &Target> + Clone {
        self.targets.iter().chain(&self.behind)
    }
}

/// How far the tables are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Committed {
    /// All but `evidence`.
    pub(crate) stored: i64,
    /// All of them.
    pub(crate) through: i64,
}

/// Tokio's clock, which tests can pause.
fn now() -> Instant {
    Instant::now()
}
