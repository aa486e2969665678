//! The exporter `lake`: releases become rows of `spans`, `traces` and `requests`, and commits.
//!
//! A release is turned into rows as a whole and appended to each table under its sequence; SQL sees
//! the rows at once. They are committed by size or age. Only after every table has committed through
//! a sequence is the gateway told, which may then delete that part of its log. After a restart the
//! gateway repeats what was not told; a table skips what it has committed (its Delta application
//! transaction says so), so that every row is stored once.
//!
//! Backpressure: while commits fail, no further release is taken once twice `commit_bytes` is in
//! memory; the releases wait in the log.
//!
//! It must not know where the bytes of a span came from or how a table is written.

mod rows;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use arrow::array::RecordBatch;
use gateway::{Handle, Release};
use lake::{Lake, Table};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::config::LakeExporter;
use rows::Rows;

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

/// What the exporter has done, for `/metrics`.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    rows: [AtomicU64; 3],
    rows_lost: AtomicU64,
    commits: AtomicU64,
    commit_failures: AtomicU64,
}

impl Metrics {
    /// In Prometheus text form.
    pub(crate) fn render(&self) -> String {
        let mut out = String::from(
            "# HELP lake_rows_committed_total Rows committed to a table.\n\
             # TYPE lake_rows_committed_total counter\n",
        );
        for (name, rows) in NAMES.iter().zip(&self.rows) {
            let rows = rows.load(Ordering::Relaxed);
            out.push_str(&format!(
                "lake_rows_committed_total{{table=\"{name}\"}} {rows}\n"
            ));
        }
        let counters = [
            ("lake_commits_total", "Commits made.", &self.commits),
            (
                "lake_commit_failures_total",
                "Commits that failed; rows wait.",
                &self.commit_failures,
            ),
            (
                "lake_rows_lost_total",
                "Spans that were accepted and could not be read as a row: an error of this program.",
                &self.rows_lost,
            ),
        ];
        for (name, help, value) in counters {
            let value = value.load(Ordering::Relaxed);
            out.push_str(&format!(
                "# HELP {name} {help}\n# TYPE {name} counter\n{name} {value}\n"
            ));
        }
        out
    }
}

/// Tables in the order in which a release is committed: details first, so that what `traces` lists
/// can be opened.
const NAMES: [&str; 3] = ["spans", "requests", "traces"];

/// One table and how far it is committed.
#[derive(Debug)]
struct Target {
    table: Arc<Table>,
    committed: i64,
}

/// The exporter before it runs.
#[derive(Debug)]
pub(crate) struct Store {
    targets: [Target; 3],
    app_id: String,
    config: LakeExporter,
    rows: Rows,
    metrics: Arc<Metrics>,
    /// Sequence of the last release that was appended.
    appended: i64,
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
    ) -> anyhow::Result<Self> {
        let mut targets = Vec::with_capacity(NAMES.len());
        for name in NAMES {
            let table = lake
                .table(name)
                .with_context(|| format!("the lake lacks `{name}`"))?;
            let committed = table.committed_sequence(app_id).await?.unwrap_or(0);
            targets.push(Target {
                table: Arc::clone(table),
                committed,
            });
        }
        let targets: [Target; 3] = targets
            .try_into()
            .map_err(|_| anyhow::anyhow!("the lake lacks a table"))?;
        let redaction = tables::redact::Redaction::new(redact)?;
        Ok(Self {
            targets,
            app_id: app_id.to_owned(),
            config,
            rows: Rows::new(&redaction),
            metrics: Arc::new(Metrics::default()),
            appended: 0,
            waiting_since: None,
            pause: None,
        })
    }

    /// The highest sequence that every table has; where a table never had a row, nothing is known.
    pub(crate) fn committed_through(&self) -> i64 {
        self.targets
            .iter()
            .map(|target| target.committed)
            .min()
            .unwrap_or(0)
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
                _ = tick.tick() => {}
            }
            if self.is_due() {
                self.take_what_waits(&mut releases).await;
                self.commit(&gateway).await;
            }
        }
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
        let built = tokio::task::block_in_place(|| self.rows.build(release));
        if built.n_lost > 0 {
            self.metrics
                .rows_lost
                .fetch_add(built.n_lost, Ordering::Relaxed);
        }
        let batches: [Vec<RecordBatch>; 3] = [built.spans, built.requests, built.traces];
        for (target, batches) in self.targets.iter().zip(batches) {
            if release.sequence > target.committed {
                for batch in batches {
                    target.table.append(release.sequence, batch);
                }
            }
        }
        self.appended = self.appended.max(release.sequence);
        if self.waiting_since.is_none() {
            self.waiting_since = Some(now());
        }
    }

    fn fresh_bytes(&self) -> u64 {
        self.targets
            .iter()
            .map(|target| target.table.fresh_bytes())
            .sum()
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
        if let Some(through) = committed {
            gateway.committed(through);
        }
        committed.is_some()
    }

    /// Commits every table through the last appended release and gives it, if all of it worked.
    pub(crate) async fn commit_tables(&mut self) -> Option<i64> {
        let through = self.appended;
        for ((target, name), rows) in self.targets.iter_mut().zip(NAMES).zip(&self.metrics.rows) {
            match target.table.commit(&self.app_id, through).await {
                Ok(commit) => {
                    if let Some(commit) = commit {
                        rows.fetch_add(commit.rows, Ordering::Relaxed);
                        self.metrics.commits.fetch_add(1, Ordering::Relaxed);
                    }
                    target.committed = target.committed.max(through);
                }
                Err(error) => {
                    self.metrics.commit_failures.fetch_add(1, Ordering::Relaxed);
                    let pause = self.pause.map_or(RETRY_FIRST, |pause| {
                        pause.saturating_mul(2).min(RETRY_LONGEST)
                    });
                    let error = crate::show::text::error_chain(&error);
                    tracing::error!(table = name, error, retry_in = ?pause, "commit failed; rows stay in memory and in the log");
                    self.pause = Some(pause);
                    self.waiting_since = Some(now());
                    return None;
                }
            }
        }
        self.pause = None;
        self.waiting_since = None;
        Some(through)
    }
}

/// Tokio's clock, which tests can pause.
fn now() -> Instant {
    Instant::now()
}
