//! What the exporter `lake` has done, for `/metrics`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use correlate::Source;
use tables::samples::{LossReason, Losses};

use super::placed::Placed;
use super::{BEHIND, CALLS, NAMES, Store};
use crate::measured::{Counting, Measured};

/// Writers that rows are counted of: those of a release, and those behind. Two of one table are one series.
const N_WRITERS: usize = NAMES.len() + BEHIND.len();

fn table_names() -> impl Iterator<Item = &'static str> {
    NAMES.into_iter().chain(BEHIND.map(|(name, _)| name))
}

/// Counters.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    rows: [AtomicU64; N_WRITERS],
    pub(super) rows_lost: AtomicU64,
    pub(super) commits: AtomicU64,
    pub(super) commit_failures: AtomicU64,
    pub(super) evidence_waiting: AtomicU64,
    pub(super) evidence_incomplete: AtomicU64,
    pub(super) calls_waiting: AtomicU64,
    batches_waiting: AtomicU64,
    batch_sightings_late: AtomicU64,
    batch_sightings_untimed: AtomicU64,
    points_unmapped: [AtomicU64; LossReason::ALL.len()],
    placements: [AtomicU64; Source::ALL.len()],
    devices_unnamed: AtomicU64,
    placements_refused: AtomicU64,
}

impl Store {
    /// Counts the requests of what comes; not of what is repeated and stored already.
    pub(crate) fn measuring(mut self, measured: &Arc<Measured>) -> Self {
        let calls_stored = self.behind[CALLS].committed();
        self.rows.counting = Some(Counting::new(measured, self.reloaded));
        self.calls.counting = Some(Counting::new(measured, calls_stored));
        self
    }
}

impl Metrics {
    /// Counts a commit's rows, where there was something to commit.
    pub(super) fn count_commit(&self, table: &str, n_rows: Option<u64>) {
        let Some(n_rows) = n_rows else {
            return;
        };
        let mut cells = table_names().zip(&self.rows);
        if let Some((_, rows)) = cells.find(|(name, _)| *name == table) {
            rows.fetch_add(n_rows, Ordering::Relaxed);
        }
        self.commits.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_batches(&self, window: &correlate::BatchWindow) {
        let numbers = [
            (&self.batches_waiting, window.n_participants() as u64),
            (&self.batch_sightings_late, window.n_late()),
            (&self.batch_sightings_untimed, window.n_untimed()),
        ];
        for (cell, number) in numbers {
            cell.store(number, Ordering::Relaxed);
        }
    }

    pub(super) fn count_losses(&self, losses: &Losses) {
        for (reason, n_points) in losses.iter() {
            self.points_unmapped[reason as usize].fetch_add(n_points, Ordering::Relaxed);
        }
    }

    pub(super) fn set_placements(&self, placed: &Placed) {
        for (cell, n_known) in self.placements.iter().zip(placed.n_known()) {
            cell.store(n_known as u64, Ordering::Relaxed);
        }
        self.devices_unnamed
            .store(placed.n_unnamed(), Ordering::Relaxed);
        self.placements_refused
            .store(placed.n_refused(), Ordering::Relaxed);
    }

    /// In Prometheus text form.
    pub(crate) fn render(&self) -> String {
        let mut out = String::from(
            "# HELP lake_rows_committed_total Rows committed to a table.\n\
             # TYPE lake_rows_committed_total counter\n",
        );
        for (idx, (name, rows)) in table_names().zip(&self.rows).enumerate() {
            if table_names().take(idx).any(|before| before == name) {
                continue;
            }
            let rows = rows.load(Ordering::Relaxed);
            out.push_str(&format!(
                "lake_rows_committed_total{{table=\"{name}\"}} {rows}\n"
            ));
        }
        self.render_counts(&mut out);
        out.push_str(
            "# HELP lake_points_unmapped_total Metric points that are in no row, by reason.\n\
             # TYPE lake_points_unmapped_total counter\n",
        );
        for (reason, n_points) in LossReason::ALL.iter().zip(&self.points_unmapped) {
            let (reason, n_points) = (reason.as_str(), n_points.load(Ordering::Relaxed));
            out.push_str(&format!(
                "lake_points_unmapped_total{{reason=\"{reason}\"}} {n_points}\n"
            ));
        }
        self.render_placements(&mut out);
        out
    }

    /// Families of one sample each.
    fn render_counts(&self, out: &mut String) {
        single(
            out,
            "lake_commits_total",
            "counter",
            "Commits made.",
            &self.commits,
        );
        single(
            out,
            "lake_commit_failures_total",
            "counter",
            "Commits that failed; rows wait.",
            &self.commit_failures,
        );
        single(
            out,
            "lake_rows_lost_total",
            "counter",
            "What was accepted and could not be read as a row: an error of this program.",
            &self.rows_lost,
        );
        single(
            out,
            "lake_evidence_waiting",
            "gauge",
            "Kept requests that wait for GPU samples before their evidence is written.",
            &self.evidence_waiting,
        );
        single(
            out,
            "lake_evidence_incomplete",
            "gauge",
            "Kept requests whose evidence lacks GPU samples that may still come and complete it.",
            &self.evidence_incomplete,
        );
        single(
            out,
            "lake_calls_waiting",
            "gauge",
            "Calls that wait for an engine request of another trace before their row is written.",
            &self.calls_waiting,
        );
        single(
            out,
            "lake_batches_waiting",
            "gauge",
            "Participants of batches that are not written, because not all of them are known.",
            &self.batches_waiting,
        );
        single(
            out,
            "lake_batch_sightings_late_total",
            "counter",
            "What spans said of batches that were written before, or may have been.",
            &self.batch_sightings_late,
        );
        single(
            out,
            "lake_batch_sightings_untimed_total",
            "counter",
            "What spans said of batches at a time that cannot be.",
            &self.batch_sightings_untimed,
        );
    }

    fn render_placements(&self, out: &mut String) {
        out.push_str(
            "# HELP lake_placements Placements of pods on GPUs that are remembered, by source.\n\
             # TYPE lake_placements gauge\n",
        );
        for (source, n_known) in Source::ALL.iter().zip(&self.placements) {
            let (source, n_known) = (source.as_str(), n_known.load(Ordering::Relaxed));
            out.push_str(&format!(
                "lake_placements{{source=\"{source}\"}} {n_known}\n"
            ));
        }
        single(
            out,
            "lake_placement_devices_unnamed_total",
            "counter",
            "Devices that the kubelet named as no GPU sample of the node does, at each report.",
            &self.devices_unnamed,
        );
        single(
            out,
            "lake_placements_refused_total",
            "counter",
            "Placements of workers that are in no row, because too many are known that have not ended.",
            &self.placements_refused,
        );
    }
}

/// A family of one sample.
fn single(out: &mut String, name: &str, kind: &str, help: &str, value: &AtomicU64) {
    let value = value.load(Ordering::Relaxed);
    out.push_str(&format!(
        "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n"
    ));
}
