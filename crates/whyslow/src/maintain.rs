//! `whyslow maintain`, and the same in the background of `whyslow serve`: small files are merged, old
//! rows removed, files that no query needs deleted.
//!
//! It must not know how: module `maintain` of `lake` does.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use anyhow::{Context as _, bail};
use lake::{Lake, Location, Mode, Report, Table};

use crate::config::{self, LakeExporter, Maintenance};
use crate::show::table::{Align, Table as Shown};
use crate::show::{self, text};

/// Merge small files of the stored tables, remove old rows, delete files that no query needs.
///
/// Safe beside a running `whyslow serve` and beside queries. A server does the same in the background;
/// this is for tables that no server writes to, and for the impatient.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    whyslow maintain --dry-run\n  \
    whyslow maintain -c pipelines/local.yaml\n  \
    whyslow maintain --data s3://traces/prod\n\n\
    The exit code is 1 if a step failed; what the others did stays done.")]
pub(crate) struct Args {
    /// Pipeline file, whose exporter `lake` says where the tables are and how long rows are kept;
    /// without one the built-in default holds.
    #[arg(short, long, value_name = "FILE", env = "WHYSLOW_CONFIG")]
    config: Option<PathBuf>,
    /// The tables, instead of those of the pipeline file: a folder or `s3://BUCKET/PREFIX`.
    #[arg(long, value_name = "PATH|URL")]
    data: Option<String>,
    /// Only say what would be done.
    #[arg(long)]
    dry_run: bool,
}

/// Runs the command.
pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let exporter = config::load(args.config.as_deref())?.config.lake;
    let mut exporter = exporter.context(
        "the pipeline file has no exporter `lake`; give the file of a server that stores, or --data",
    )?;
    if let Some(data) = args.data {
        exporter.path = data;
    }
    let mode = if args.dry_run {
        Mode::ReadOnly
    } else {
        Mode::Existing
    };
    let location = Location::parse(&exporter.path)?;
    let lake = Lake::open(&location, &tables::all(), mode)
        .await
        .with_context(|| format!("open the tables at `{location}`"))?;
    let owner = format!("whyslow maintain, process {}", std::process::id());
    let mut reports = Vec::new();
    for table in lake.tables() {
        let name = table.spec().name;
        let settings = settings(&exporter.maintenance, table, &owner);
        let report = if args.dry_run {
            table.plan_maintenance(&settings).await
        } else {
            let on_step = move |step: &str| show::print_error(&format!("{name}: {step}\n"));
            table.maintain(&settings, on_step).await
        };
        reports.push((name, report.with_context(|| format!("maintain `{name}`"))?));
    }
    show::print(&summary(&location.to_string(), &reports, args.dry_run))?;
    let mut n_failures = 0;
    for (name, report) in &reports {
        for error in &report.failures {
            n_failures += 1;
            let error = text::error_chain(error);
            show::print_error(&format!("{name}: {error}\n"));
        }
    }
    if n_failures > 0 {
        bail!("{} failed", text::counted(n_failures, "step"));
    }
    Ok(())
}

/// What was done, or would be done.
fn summary(location: &str, reports: &[(&str, Report)], is_plan: bool) -> String {
    let columns = [
        ("table", Align::Left),
        ("rows removed by age", Align::Right),
        ("files merged", Align::Right),
        ("into", Align::Right),
        ("size merged", Align::Right),
        ("into size", Align::Right),
        ("checkpoint", Align::Right),
        ("files deleted", Align::Right),
        ("size deleted", Align::Right),
        ("log files deleted", Align::Right),
    ];
    let mut shown = Shown::new(columns);
    let count = |n: usize| text::count(u64::try_from(n).unwrap_or(u64::MAX));
    let mut notes = String::new();
    for (name, report) in reports {
        let merged = &report.compacted;
        let size_after = if is_plan && merged.files > 0 {
            "-".to_owned()
        } else {
            text::bytes(merged.into_bytes)
        };
        let checkpoint = report
            .checkpoint
            .map_or("-".to_owned(), |version| format!("version {version}"));
        shown.push(vec![
            (*name).to_owned(),
            text::count(report.expired.rows),
            count(merged.files),
            count(merged.into_files),
            text::bytes(merged.bytes),
            size_after,
            checkpoint,
            count(report.vacuumed.files + report.staged.files),
            text::bytes(report.vacuumed.bytes + report.staged.bytes),
            count(report.log_files.files),
        ]);
        if report.is_busy {
            notes.push_str(&format!(
                "{name}: left alone, another process maintains it at the moment\n"
            ));
        }
        if report.groups_stale > 0 {
            notes.push_str(&format!(
                "{name}: {} left for the next run, other processes changed them meanwhile\n",
                text::counted(report.groups_stale.try_into().unwrap_or(u64::MAX), "merge")
            ));
        }
    }
    let done = if is_plan {
        "This would be done"
    } else {
        "This was done"
    };
    format!("{done} at {location}:\n{shown}{notes}")
}

/// What has been done in the background, for `/metrics`.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    runs: AtomicU64,
    failures: AtomicU64,
    rows_expired: AtomicU64,
    files_merged: AtomicU64,
    files_deleted: AtomicU64,
}

impl Metrics {
    /// In Prometheus text form.
    pub(crate) fn render(&self) -> String {
        let counters = [
            (
                "lake_maintenance_runs_total",
                "Tables maintained.",
                &self.runs,
            ),
            (
                "lake_maintenance_failures_total",
                "Steps of maintenance that failed; the next run tries again.",
                &self.failures,
            ),
            (
                "lake_rows_expired_total",
                "Rows removed from tables because of their age.",
                &self.rows_expired,
            ),
            (
                "lake_files_merged_total",
                "Small files that were merged into larger ones.",
                &self.files_merged,
            ),
            (
                "lake_files_deleted_total",
                "Files of tables and logs deleted because nothing needs them.",
                &self.files_deleted,
            ),
        ];
        let mut out = String::new();
        for (name, help, value) in counters {
            let value = value.load(Ordering::Relaxed);
            out.push_str(&format!(
                "# HELP {name} {help}\n# TYPE {name} counter\n{name} {value}\n"
            ));
        }
        out
    }

    fn add(&self, report: &Report) {
        let add = |counter: &AtomicU64, n: usize| {
            counter.fetch_add(u64::try_from(n).unwrap_or(u64::MAX), Ordering::Relaxed);
        };
        let deleted = report.vacuumed.files + report.staged.files + report.log_files.files;
        add(&self.runs, usize::from(!report.is_busy));
        add(&self.failures, report.failures.len());
        add(&self.files_merged, report.compacted.files);
        add(&self.files_deleted, deleted);
        self.rows_expired
            .fetch_add(report.expired.rows, Ordering::Relaxed);
    }
}

/// Maintains all tables again and again; ends at once when it is switched off.
pub(crate) async fn forever(
    lake: Arc<Lake>,
    exporter: LakeExporter,
    owner: String,
    metrics: Arc<Metrics>,
) {
    let config = exporter.maintenance;
    if config.interval.is_zero() {
        return;
    }
    // Processes that restart often maintain too.
    let mut pause = config.interval / 10;
    loop {
        tokio::time::sleep(pause).await;
        pause = config.interval;
        for table in lake.tables() {
            let name = table.spec().name;
            match table
                .maintain(&settings(&config, table, &owner), |_| ())
                .await
            {
                Ok(report) => {
                    metrics.add(&report);
                    tell(name, &report);
                }
                Err(error) => {
                    metrics.failures.fetch_add(1, Ordering::Relaxed);
                    let error = text::error_chain(&error);
                    tracing::warn!(
                        table = name,
                        error,
                        "no maintenance; the next run tries again"
                    );
                }
            }
        }
    }
}

fn tell(name: &str, report: &Report) {
    for error in &report.failures {
        let error = text::error_chain(error);
        tracing::warn!(
            table = name,
            error,
            "a step of maintenance failed; the next run tries again"
        );
    }
    if report.expired.files + report.compacted.files + report.vacuumed.files > 0 {
        tracing::info!(
            table = name,
            rows_expired = report.expired.rows,
            files_merged = report.compacted.files,
            files_deleted = report.vacuumed.files,
            "maintained"
        );
    }
}

fn settings(config: &Maintenance, table: &Table, owner: &str) -> lake::Maintenance {
    lake::Maintenance {
        target_file_bytes: config.target_file_bytes,
        retention_days: config.retention_days.of(table.spec()),
        vacuum_after: config.vacuum_after,
        owner: owner.to_owned(),
        clock: Arc::new(now),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "retention is about the time of day; the lake is given it here"
)]
fn now() -> SystemTime {
    SystemTime::now()
}
