//! Rows compared with earlier ones: duplicates, and what counters have grown by.

use std::collections::HashMap;

use super::{
    EngineCounter, EngineGauge, EngineKey, EngineSample,
    draft::{Draft, Drafts, N_FIELDS, counter_idx},
};
use crate::samples::{
    Limits, LossReason, Losses,
    cells::Cells,
    quality::Flag,
    series::{Counter, Recent, Series, Step},
};

/// What is remembered of every engine.
#[derive(Debug)]
pub(in crate::samples) struct Engines {
    series: Series<EngineKey, History>,
}

/// What is remembered of one engine.
#[derive(Debug, Default)]
struct History {
    recent: Recent,
    last_unix_nano: Option<u64>,
    counters: [Counter; EngineCounter::ALL.len()],
    /// Bounds and counts of the steps' histogram, and their time.
    buckets: Option<(u64, Vec<f64>, Vec<u64>)>,
}

impl Default for Engines {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl Engines {
    pub(in crate::samples) fn new(limits: Limits) -> Self {
        Self {
            series: Series::new(limits.series_max),
        }
    }

    pub(in crate::samples) const fn n_forgotten(&self) -> u64 {
        self.series.n_forgotten()
    }

    /// The rows of an export, by engine and time.
    pub(in crate::samples) fn finish(
        &mut self,
        drafts: Drafts,
        losses: &mut Losses,
    ) -> Vec<EngineSample> {
        let mut rows = drafts.rows;
        join_servers(&mut rows);
        rows.sort_by(|a, b| {
            let order = a.key.cmp(&b.key);
            order.then(a.time_unix_nano.cmp(&b.time_unix_nano))
        });
        let mut samples = Vec::with_capacity(rows.len());
        for row in rows {
            let history = self.series.at(row.key.clone(), row.time_unix_nano);
            samples.extend(history.finish(row, losses));
        }
        samples
    }
}

/// Some metrics are the server's and name no engine. Where it has one engine, they are that engine's;
/// else they have a row without an engine index.
fn join_servers(rows: &mut Vec<Draft>) {
    let server_of = |row: &Draft| {
        let mut server = row.key.clone();
        server.engine_index = None;
        (server, row.time_unix_nano)
    };
    let mut engines: HashMap<_, Vec<usize>> = HashMap::new();
    for (idx, row) in rows.iter().enumerate() {
        if row.key.engine_index.is_some() {
            engines.entry(server_of(row)).or_default().push(idx);
        }
    }
    for idx in 0..rows.len() {
        let row = &rows[idx];
        if row.key.engine_index.is_some() {
            continue;
        }
        if let Some([engine_idx]) = engines.get(&server_of(row)).map(Vec::as_slice) {
            let (cells, is_delta) = (row.cells, row.is_delta);
            rows[*engine_idx].absorb(&cells, is_delta);
            rows[idx].cells = Cells::default();
        }
    }
    rows.retain(|row| row.cells.mask() != 0);
}

impl History {
    /// `None` if nothing of the row is new.
    fn finish(&mut self, mut row: Draft, losses: &mut Losses) -> Option<EngineSample> {
        let known = self.recent.take(row.time_unix_nano, row.cells.mask());
        losses.add(LossReason::Duplicate, row.cells.remove(known));
        if row.cells.mask() == 0 {
            return None;
        }
        let now = row.time_unix_nano;
        let interval_ns = self.last_unix_nano.and_then(|last| now.checked_sub(last));
        self.last_unix_nano = self.last_unix_nano.max(Some(now));
        let mut deltas = [f64::NAN; EngineCounter::ALL.len()];
        let mut has_reset = false;
        for counter in EngineCounter::ALL {
            let idx = counter_idx(*counter);
            let Some(value) = row.cells.value(idx) else {
                continue;
            };
            let delta = &mut deltas[*counter as usize];
            if row.is_delta[*counter as usize] {
                *delta = value;
                row.cells.clear(idx);
                continue;
            }
            match self.counters[*counter as usize].step(now, value) {
                Step::Unknown => {}
                Step::Grew(by) => *delta = by,
                // A restarted engine counts from zero.
                Step::Reset(to) => {
                    *delta = to;
                    has_reset = true;
                }
            }
        }
        if has_reset {
            row.flags.row(Flag::CounterReset);
        }
        let iteration_tokens_max_le = self.largest_step(&row);
        Some(row.into_sample(
            interval_ns.filter(|ns| *ns > 0),
            iteration_tokens_max_le,
            deltas,
        ))
    }

    /// Bound of the highest bucket that has grown since the time before.
    fn largest_step(&mut self, row: &Draft) -> Option<f64> {
        let (bounds, counts) = row.buckets.as_ref()?;
        let is_later = |(time, ..): &(u64, Vec<f64>, Vec<u64>)| row.time_unix_nano > *time;
        if !self.buckets.as_ref().is_none_or(is_later) {
            return None;
        }
        let is_delta = row.is_delta[EngineCounter::Iterations as usize];
        let now = (row.time_unix_nano, bounds.clone(), counts.clone());
        let before = self.buckets.replace(now);
        let before = match &before {
            _ if is_delta => &[],
            Some((_, known, before)) if known == bounds => before.as_slice(),
            _ => return None,
        };
        let has_reset = counts.iter().zip(before).any(|(now, before)| now < before);
        let grown = counts.iter().enumerate().rposition(|(idx, now)| {
            let before = if has_reset {
                0
            } else {
                before.get(idx).copied().unwrap_or(0)
            };
            *now > before
        });
        bounds.get(grown?).copied()
    }
}

impl Draft {
    /// Takes the fields that it does not have.
    fn absorb(&mut self, cells: &Cells<N_FIELDS>, is_delta: [bool; EngineCounter::ALL.len()]) {
        for idx in 0..N_FIELDS {
            if let (None, Some(value)) = (self.cells.value(idx), cells.value(idx)) {
                self.cells.put(idx, value, 0, None);
                if let Some(counter) = idx.checked_sub(EngineGauge::ALL.len()) {
                    self.is_delta[counter] = is_delta[counter];
                }
            }
        }
    }

    fn into_sample(
        self,
        interval_ns: Option<u64>,
        iteration_tokens_max_le: Option<f64>,
        deltas: [f64; EngineCounter::ALL.len()],
    ) -> EngineSample {
        let values: [f64; N_FIELDS] = self.cells.values();
        let mut gauges = [f64::NAN; EngineGauge::ALL.len()];
        let mut totals = [f64::NAN; EngineCounter::ALL.len()];
        let (of_gauges, of_counters) = values.split_at(gauges.len());
        gauges.copy_from_slice(of_gauges);
        totals.copy_from_slice(of_counters);
        EngineSample {
            time_unix_nano: self.time_unix_nano,
            received_unix_nano: self.received_unix_nano,
            key: self.key,
            identity: self.identity,
            interval_ns,
            iteration_tokens_max_le,
            quality: self.flags.into_sorted(),
            gauges,
            totals,
            deltas,
        }
    }
}
