//! Rows of one export, put together point by point.

use std::collections::HashMap;

use otlp::metrics::PointValue;

use super::{
    EngineCounter, EngineGauge, EngineKey, Identity,
    names::{self, Labels, Name, Target},
};
use crate::samples::{
    LossReason, PointAt, ROWS_MAX,
    cells::{Cells, Put},
    quality::{Flag, Flags},
    resource::Resource,
};

/// Most buckets of a histogram that are compared.
const BUCKETS_MAX: usize = 128;

/// All measured fields: gauges, then counters.
pub(super) const N_FIELDS: usize = EngineGauge::ALL.len() + EngineCounter::ALL.len();

/// Where a counter is among the fields.
pub(super) const fn counter_idx(counter: EngineCounter) -> usize {
    EngineGauge::ALL.len() + counter as usize
}

/// The rows of an export under construction.
#[derive(Debug, Default)]
pub(in crate::samples) struct Drafts {
    pub(super) rows: Vec<Draft>,
    /// By engine, time and resource: two scrapers must not add up to one.
    index: HashMap<(EngineKey, u64, u32), usize>,
}

/// A row under construction.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) key: EngineKey,
    pub(super) time_unix_nano: u64,
    pub(super) received_unix_nano: u64,
    pub(super) identity: Identity,
    pub(super) cells: Cells<N_FIELDS>,
    /// Counters that came as differences.
    pub(super) is_delta: [bool; EngineCounter::ALL.len()],
    /// Bounds and counts of the steps' histogram; the last count is that above all bounds.
    pub(super) buckets: Option<(Vec<f64>, Vec<u64>)>,
    pub(super) flags: Flags,
}

impl Drafts {
    /// Puts a point where it belongs.
    pub(in crate::samples) fn add(
        &mut self,
        name: &Name,
        at: &PointAt<'_, '_>,
        resource: &Resource<'_>,
    ) -> Result<(), LossReason> {
        if name.target == Target::Unmapped {
            return Err(LossReason::Unmapped);
        }
        let labels = Labels::read(at.point);
        let row = self.row(name, at, &labels, resource)?;
        match name.target {
            Target::Gauge(gauge) => row.gauge(gauge, at, name.rank),
            Target::WaitingByReason => {
                let gauge = names::waiting_gauge(at.point).ok_or(LossReason::Unmapped)?;
                row.gauge(gauge, at, name.rank)
            }
            Target::Counter(counter) => row.counter(counter, at, Some(name.rank)),
            Target::Summed(counter) => row.counter(counter, at, None),
            Target::Finished => {
                if let Some(counter) = names::finished_counter(at.point) {
                    row.counter(counter, at, None)?;
                }
                row.counter(EngineCounter::RequestsFinished, at, None)
            }
            Target::Iterations => row.iterations(at),
            Target::Unmapped => Err(LossReason::Unmapped),
        }
    }

    fn row(
        &mut self,
        name: &Name,
        at: &PointAt<'_, '_>,
        labels: &Labels<'_>,
        resource: &Resource<'_>,
    ) -> Result<&mut Draft, LossReason> {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let key = EngineKey {
            service_instance_id: owned(resource.service_instance_id.or(labels.instance)),
            k8s_pod_name: owned(resource.k8s_pod_name.or(labels.pod)),
            engine: name.engine,
            model: owned(labels.model),
            engine_index: owned(labels.engine_index),
            rank: labels.rank.clone(),
        };
        let place = (key, at.time_unix_nano, at.resource_offset);
        if let Some(row_idx) = self.index.get(&place) {
            return Ok(&mut self.rows[*row_idx]);
        }
        let row_idx = self.rows.len();
        if row_idx >= ROWS_MAX {
            return Err(LossReason::TooManyRows);
        }
        let identity = Identity {
            service_name: owned(resource.service_name.or(labels.job)),
            k8s_cluster_name: owned(resource.k8s_cluster_name),
            k8s_namespace_name: owned(resource.k8s_namespace_name.or(labels.namespace)),
            k8s_pod_uid: owned(resource.k8s_pod_uid),
            k8s_container_name: owned(resource.k8s_container_name.or(labels.container)),
            k8s_node_name: owned(resource.k8s_node_name.or(labels.node)),
            host_name: owned(resource.host_name),
        };
        self.rows.push(Draft::new(place.0.clone(), at, identity));
        self.index.insert(place, row_idx);
        Ok(&mut self.rows[row_idx])
    }
}

impl Draft {
    fn new(key: EngineKey, at: &PointAt<'_, '_>, identity: Identity) -> Self {
        let mut flags = Flags::default();
        if at.is_time_replaced {
            flags.row(Flag::TimeFromReceipt);
        }
        Self {
            key,
            time_unix_nano: at.time_unix_nano,
            received_unix_nano: at.received_unix_nano,
            identity,
            cells: Cells::default(),
            is_delta: [false; EngineCounter::ALL.len()],
            buckets: None,
            flags,
        }
    }

    fn gauge(
        &mut self,
        gauge: EngineGauge,
        at: &PointAt<'_, '_>,
        rank: u8,
    ) -> Result<(), LossReason> {
        let value = at.number()?;
        let column = gauge.column();
        // Old engines say -1 for a rate that there is none of.
        if gauge == EngineGauge::PrefixCacheHitRate && value < 0.0 {
            return Err(LossReason::Sentinel);
        }
        if value < 0.0 || (gauge.is_ratio() && value > 1.01) {
            self.flags.column(column, Flag::OutOfRange);
            return Err(LossReason::OutOfRange);
        }
        if self.cells.put(gauge as usize, value, rank, None) == Put::Differs {
            self.flags.column(column, Flag::Conflict);
        }
        Ok(())
    }

    /// A counter; without a rank, one of several series that add up.
    fn counter(
        &mut self,
        counter: EngineCounter,
        at: &PointAt<'_, '_>,
        rank: Option<u8>,
    ) -> Result<(), LossReason> {
        let value = at.number()?;
        let column = counter.column();
        if value < 0.0 {
            self.flags.column(column, Flag::OutOfRange);
            return Err(LossReason::OutOfRange);
        }
        self.is_delta[counter as usize] = at.is_delta;
        let idx = counter_idx(counter);
        match rank {
            None => self.cells.add(idx, value),
            Some(rank) => {
                if self.cells.put(idx, value, rank, None) == Put::Differs {
                    self.flags.column(column, Flag::Conflict);
                }
            }
        }
        Ok(())
    }

    fn iterations(&mut self, at: &PointAt<'_, '_>) -> Result<(), LossReason> {
        let PointValue::Distribution { count, sum } = at.point.value else {
            return Err(LossReason::Unmapped);
        };
        #[expect(
            clippy::cast_precision_loss,
            reason = "stored as whole numbers below 2^53"
        )]
        let count = count as f64;
        let values = [
            (EngineCounter::Iterations, Some(count)),
            (
                EngineCounter::IterationTokens,
                sum.filter(|sum| *sum >= 0.0),
            ),
        ];
        for (counter, value) in values {
            self.is_delta[counter as usize] = at.is_delta;
            if let Some(value) = value {
                self.cells.put(counter_idx(counter), value, 0, None);
            }
        }
        let bounds = at.point.explicit_bounds().map_while(Result::ok);
        let bounds: Vec<f64> = bounds.take(BUCKETS_MAX).collect();
        let counts = at.point.bucket_counts().map_while(Result::ok);
        let counts: Vec<u64> = counts.take(BUCKETS_MAX + 1).collect();
        if counts.len() == bounds.len() + 1 {
            self.buckets = Some((bounds, counts));
        }
        Ok(())
    }
}
