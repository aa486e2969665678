//! Rows compared with earlier ones: duplicates, XIDs by change, counters that fell.

use std::collections::HashMap;

use super::{
    GpuField, GpuSample, Nature,
    draft::{Draft, Drafts},
    names::Device,
};
use crate::samples::{
    Limits, LossReason, Losses,
    quality::Flag,
    series::{Counter, Recent, Series, Step},
};

/// How long an energy counter may stand still while power is drawn. Exporters refresh every 30 s
/// unless told otherwise.
const STALE_NANO: u64 = 120_000_000_000;

/// What is remembered of every device.
#[derive(Debug)]
pub(in crate::samples) struct Devices {
    series: Series<Device, History>,
}

/// What is remembered of one device.
#[derive(Debug, Default)]
struct History {
    recent: Recent,
    first_unix_nano: Option<u64>,
    /// Latest time that XIDs were compared at, and what appeared then.
    xid_time_unix_nano: Option<u64>,
    xids_of_time: Vec<u32>,
    /// The last XID as the exporter said it; 0 for none.
    xid: Option<u32>,
    /// Counts of XIDs.
    xid_counts: HashMap<u32, f64>,
    counters: HashMap<GpuField, Counter>,
    /// Since when the energy counter has its value.
    energy_since_unix_nano: Option<u64>,
}

impl Default for Devices {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl Devices {
    pub(in crate::samples) fn new(limits: Limits) -> Self {
        Self {
            series: Series::new(limits.series_max),
        }
    }

    pub(in crate::samples) const fn n_forgotten(&self) -> u64 {
        self.series.n_forgotten()
    }

    /// The rows of an export, by device and time.
    pub(in crate::samples) fn finish(
        &mut self,
        drafts: Drafts,
        losses: &mut Losses,
    ) -> Vec<GpuSample> {
        let mut rows = drafts.rows;
        rows.sort_by(|a, b| {
            let order = a.device.cmp(&b.device);
            order.then(a.time_unix_nano.cmp(&b.time_unix_nano))
        });
        let mut samples = Vec::with_capacity(rows.len());
        for row in rows {
            let history = self.series.at(row.device.clone(), row.time_unix_nano);
            samples.extend(history.finish(row, losses));
        }
        samples
    }
}

impl History {
    /// `None` if nothing of the row is new.
    fn finish(&mut self, mut row: Draft, losses: &mut Losses) -> Option<GpuSample> {
        let known = self.recent.take(row.time_unix_nano, row.cells.mask());
        losses.add(LossReason::Duplicate, row.cells.remove(known));
        let has_values = row.cells.mask() != 0;
        if !has_values && row.xid_counts.is_empty() {
            return None;
        }
        row.clear_parts(losses);
        row.complete();
        let xid_events = self.xids(&mut row);
        if !has_values && xid_events.is_empty() {
            return None;
        }
        self.counters(&mut row);
        self.staleness(&mut row);
        Some(row.into_sample(xid_events))
    }

    /// XIDs that appeared since the time before.
    fn xids(&mut self, row: &mut Draft) -> Vec<u32> {
        let now = row.time_unix_nano;
        let idx = GpuField::XidLast as usize;
        let last = row.cells.value(idx).and_then(code);
        if last == Some(0) {
            row.cells.clear(idx);
        }
        let is_first = now <= *self.first_unix_nano.get_or_insert(now);
        match self.xid_time_unix_nano {
            Some(time) if now < time => return Vec::new(),
            Some(time) if now == time => {}
            _ => self.xids_of_time.clear(),
        }
        self.xid_time_unix_nano = Some(now);
        let mut events = Vec::new();
        if let Some(last) = last {
            match self.xid.replace(last) {
                None if last != 0 => row.flags.row(Flag::XidPreexisting),
                Some(before) if last != 0 && last != before => events.push(last),
                _ => {}
            }
        }
        for (xid, count) in &row.xid_counts {
            let before = self.xid_counts.get(xid).copied();
            let has_risen = *count > before.unwrap_or(0.0);
            if has_risen && before.is_none() && is_first {
                row.flags.row(Flag::XidPreexisting);
            } else if has_risen && !events.contains(xid) {
                events.push(*xid);
            }
        }
        if row.has_xid_counts {
            // A window that has emptied counts from zero again.
            self.xid_counts = row.xid_counts.iter().copied().collect();
        }
        // A scrape may come in two parts.
        events.retain(|xid| !self.xids_of_time.contains(xid));
        self.xids_of_time.extend(&events);
        events
    }

    fn counters(&mut self, row: &mut Draft) {
        for field in GpuField::ALL {
            if field.nature() != Nature::Counter {
                continue;
            }
            let Some(value) = row.cells.value(*field as usize) else {
                continue;
            };
            let counter = self.counters.entry(*field).or_default();
            let before = counter.last();
            let step = counter.step(row.time_unix_nano, value);
            if matches!(step, Step::Reset(_)) {
                row.flags.column(field.column(), Flag::CounterReset);
            }
            if *field == GpuField::EnergyTotalJ && step != Step::Grew(0.0) {
                let is_later = before.is_none_or(|(time, _)| row.time_unix_nano > time);
                if is_later {
                    self.energy_since_unix_nano = Some(row.time_unix_nano);
                }
            }
        }
    }

    fn staleness(&self, row: &mut Draft) {
        let draws_power = row.cells.value(GpuField::PowerW as usize) > Some(0.0);
        let has_energy = row.cells.value(GpuField::EnergyTotalJ as usize).is_some();
        let is_old = self
            .energy_since_unix_nano
            .is_some_and(|since| row.time_unix_nano.saturating_sub(since) >= STALE_NANO);
        if draws_power && has_energy && is_old {
            row.flags.row(Flag::Stale);
        }
    }
}

impl Draft {
    /// Values that are parts of a device's are not the device's.
    fn clear_parts(&mut self, losses: &mut Losses) {
        for field in GpuField::ALL {
            if self.flags.has(field.column(), Flag::PerPodValues) {
                if self.cells.is_owned(*field as usize) {
                    self.cells.clear(*field as usize);
                    losses.add(LossReason::PerPod, 1);
                } else {
                    // A row without a pod came later: the value is the device's after all.
                    self.flags.remove(field.column(), Flag::PerPodValues);
                }
            }
        }
    }

    /// Adds what follows from what is there.
    fn complete(&mut self) {
        let value = |field: GpuField| self.cells.value(field as usize);
        if value(GpuField::FbTotalMib).is_none()
            && let (Some(used), Some(free), Some(reserved)) = (
                value(GpuField::FbUsedMib),
                value(GpuField::FbFreeMib),
                value(GpuField::FbReservedMib),
            )
        {
            let total = used + free + reserved;
            self.cells
                .put(GpuField::FbTotalMib as usize, total, 0, None);
        }
    }

    fn into_sample(self, xid_events: Vec<u32>) -> GpuSample {
        GpuSample {
            time_unix_nano: self.time_unix_nano,
            received_unix_nano: self.received_unix_nano,
            gpu_uuid: self.device.gpu_uuid,
            mig_instance: self.device.mig_instance,
            identity: self.identity,
            workloads: self.workloads,
            source: self.source,
            xid_events,
            quality: self.flags.into_sorted(),
            values: self.cells.values(),
        }
    }
}

/// An XID as a number.
fn code(value: f64) -> Option<u32> {
    let is_code = value.fract() == 0.0 && (0.0..1e6).contains(&value);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be a small whole number"
    )]
    is_code.then_some(value as u32)
}
