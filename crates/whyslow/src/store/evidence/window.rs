//! What is remembered of GPU samples: the samples for the join, how far each device is known, and who held it.
//!
//! Bounds: samples go by the time since they came and by their number, the oldest first; so do devices, and one that would
//! be one too many is not waited for.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, LazyLock};

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use correlate::{Device, KeptRequest, Placements, SampleIndex};
use tables::samples::gpu::GpuSample;

use super::PAUSE_NANOS;
use crate::store::placed::{self, Placed};
use crate::store::reload::{Row, Wanted, rows};

/// Samples that are remembered: the columns of the join, about a quarter of a KiB each.
const SAMPLES_MAX: usize = 1 << 20;

/// Rows of batches that are put together.
const MERGED_ROWS_MAX: usize = 8 << 10;

/// Devices whose last sample is remembered.
const DEVICES_MAX: usize = 1 << 16;

/// Columns that are read back: those of the join, and what placements are seen in.
static COLUMNS: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let mut columns = SampleIndex::COLUMNS.to_vec();
    columns.extend(Placed::COLUMNS);
    columns
});

/// What a device's samples say of how far time is known.
#[derive(Clone, Debug)]
struct Seen {
    last_unix_nano: i64,
    arrived_unix_nano: i64,
    node: Option<Arc<str>>,
}

/// The times up to which devices that are being sampled are known, at one moment; `None` where there are none.
#[derive(Debug)]
pub(super) struct Marks {
    now: i64,
    all: Option<i64>,
    nodes: HashMap<Arc<str>, Option<i64>>,
}

/// Samples, devices, placements.
#[derive(Debug)]
pub(super) struct Window {
    remembered_nanos: i64,
    /// A device without a sample for this long is not being sampled.
    silent_nanos: i64,
    /// Batches of the join's columns and when they came.
    samples: VecDeque<(i64, RecordBatch)>,
    n_samples: usize,
    devices: HashMap<Device, Seen>,
    placed: Placed,
}

impl Window {
    pub(super) fn new(remembered_nanos: i64, max_lateness_nanos: i64, placed: Placed) -> Self {
        Self {
            remembered_nanos,
            silent_nanos: max_lateness_nanos.max(PAUSE_NANOS),
            samples: VecDeque::new(),
            n_samples: 0,
            devices: HashMap::new(),
            placed,
        }
    }

    /// What a start reads back of `gpu_samples`.
    pub(super) fn wanted(&self) -> Wanted {
        Wanted {
            columns: COLUMNS.as_slice(),
            time: "time",
            nanos: self.remembered_nanos,
            rows_max: SAMPLES_MAX,
        }
    }

    /// Takes rows of before the start. Their devices count as being sampled: the first sample after the start may be on
    /// its way, or be repeated from the log.
    pub(super) fn reload(&mut self, batches: &[RecordBatch], now: i64) {
        for batch in batches {
            self.push(batch, now);
        }
        let at = |row: &Row<'_>| row.int("time_unix_nano").unwrap_or(0);
        let mut all: Vec<(i64, Row<'_>)> = rows(batches).map(|row| (at(&row), row)).collect();
        all.sort_unstable_by_key(|(at, _)| *at);
        for (at, row) in all {
            let device = (row.text("gpu_uuid"), row.text("mig_instance"));
            let (Some(uuid), mig_instance) = device else {
                continue;
            };
            let node = row
                .text("k8s_node_name")
                .or_else(|| row.text("host_name"))
                .map(Arc::from);
            self.see((uuid, mig_instance), at, node, now);
            self.placed.observe_row(row, at);
        }
        self.forget(now);
    }

    /// Takes the samples of a release.
    pub(super) fn take(&mut self, batches: &[RecordBatch], samples: &[GpuSample], now: i64) {
        for batch in batches.iter().filter(|batch| batch.num_rows() > 0) {
            self.push(batch, now);
        }
        self.placed.observe(samples);
        for sample in samples {
            let at = i64::try_from(sample.time_unix_nano).unwrap_or(i64::MAX);
            let identity = &sample.identity;
            let node = identity
                .k8s_node_name
                .as_deref()
                .or(identity.host_name.as_deref());
            let device = (sample.gpu_uuid.as_str(), sample.mig_instance.as_deref());
            self.see(device, at, node.map(Arc::from), now);
        }
    }

    fn push(&mut self, batch: &RecordBatch, now: i64) {
        let schema = batch.schema_ref();
        let columns: Vec<usize> = SampleIndex::COLUMNS
            .iter()
            .filter_map(|name| schema.index_of(name).ok())
            .collect();
        let Ok(mut batch) = batch.project(&columns) else {
            return;
        };
        self.n_samples += batch.num_rows();
        // A batch of few rows takes more room than they do: neighbours of about one size become one.
        while let Some((_, before)) = self.samples.pop_back_if(|(_, before)| {
            before.num_rows() <= 2 * batch.num_rows()
                && before.num_rows() + batch.num_rows() <= MERGED_ROWS_MAX
        }) {
            match concat_batches(batch.schema_ref(), [&before, &batch]) {
                Ok(merged) => batch = merged,
                Err(_) => {
                    self.samples.push_back((now, before));
                    break;
                }
            }
        }
        self.samples.push_back((now, batch));
    }

    fn see(
        &mut self,
        (uuid, mig_instance): (&str, Option<&str>),
        at: i64,
        node: Option<Arc<str>>,
        now: i64,
    ) {
        // What the join does not know by UUID is not waited for.
        let Some(device) = placed::device(uuid, mig_instance) else {
            return;
        };
        if let Some(seen) = self.devices.get_mut(&device) {
            seen.last_unix_nano = seen.last_unix_nano.max(at);
            seen.arrived_unix_nano = now;
            if node.is_some() {
                seen.node = node;
            }
        } else if self.devices.len() < DEVICES_MAX {
            let seen = Seen {
                last_unix_nano: at,
                arrived_unix_nano: now,
                node,
            };
            self.devices.insert(device, seen);
        }
    }

    /// Which pods hold which devices, by all sources.
    pub(super) const fn placed_mut(&mut self) -> &mut Placed {
        &mut self.placed
    }

    /// All placements that are known now.
    pub(super) fn placements(&self) -> Placements {
        self.placed.placements()
    }

    /// How far all devices that are being sampled are known, and those of each node.
    pub(super) fn marks(&self, now: i64) -> Marks {
        let mut marks = Marks {
            now,
            all: None,
            nodes: HashMap::new(),
        };
        let lower = |mark: &mut Option<i64>, last: i64| {
            *mark = Some(mark.map_or(last, |mark| mark.min(last)));
        };
        for seen in self.devices.values() {
            let node = seen.node.clone();
            let of_node = node.map(|node| marks.nodes.entry(node).or_default());
            // Of a node whose devices are all silent nothing is waited for.
            if !self.is_silent(seen, now) {
                lower(&mut marks.all, seen.last_unix_nano);
                if let Some(mark) = of_node {
                    lower(mark, seen.last_unix_nano);
                }
            }
        }
        marks
    }

    fn is_silent(&self, seen: &Seen, now: i64) -> bool {
        now.saturating_sub(seen.arrived_unix_nano) >= self.silent_nanos
    }

    /// Have all devices of a request that are being sampled been sampled beyond its end? Its devices are those that its
    /// pod held; where they are not known or were not sampled yet, those of its node, whose samples may tell; else all.
    pub(super) fn is_known(
        &self,
        request: &KeptRequest,
        placements: &Placements,
        marks: &Marks,
    ) -> bool {
        let (start, end) = (request.start_unix_nano, request.end_unix_nano);
        if let Ok(held) = placements.held_by(&request.pod, start, end) {
            let devices = held.iter().map(|held| &held.placement.device);
            let seen: Option<Vec<&Seen>> = devices.map(|device| self.devices.get(device)).collect();
            if let Some(seen) = seen {
                let is_beyond =
                    |seen: &&Seen| self.is_silent(seen, marks.now) || seen.last_unix_nano > end;
                return seen.iter().all(is_beyond);
            }
        }
        let of_node = request.node.as_ref().and_then(|node| marks.nodes.get(node));
        let mark = of_node.unwrap_or(&marks.all);
        mark.is_none_or(|mark| mark > end)
    }

    /// Can samples that come later complete what is said of a request: were all of its devices sampled lately?
    pub(super) fn can_complete(&self, request: &KeptRequest, placements: &Placements) -> bool {
        self.of_devices(request, placements, |_| true)
    }

    /// Is a request whose devices lacked samples complete by now?
    pub(super) fn completes(&self, request: &KeptRequest, placements: &Placements) -> bool {
        let end = request.end_unix_nano;
        self.of_devices(request, placements, |seen| seen.last_unix_nano >= end)
    }

    fn of_devices(
        &self,
        request: &KeptRequest,
        placements: &Placements,
        is_so: impl Fn(&Seen) -> bool,
    ) -> bool {
        let (start, end) = (request.start_unix_nano, request.end_unix_nano);
        placements
            .held_by(&request.pod, start, end)
            .is_ok_and(|held| {
                held.iter().all(|held| {
                    let seen = self.devices.get(&held.placement.device);
                    seen.is_some_and(&is_so)
                })
            })
    }

    /// The samples of these requests' devices.
    pub(super) fn index<'a>(
        &self,
        requests: impl Iterator<Item = &'a KeptRequest>,
        placements: &Placements,
    ) -> SampleIndex {
        let mut wanted: HashSet<&Device> = HashSet::new();
        for request in requests {
            let (start, end) = (request.start_unix_nano, request.end_unix_nano);
            if let Ok(held) = placements.held_by(&request.pod, start, end) {
                wanted.extend(held.iter().map(|held| &held.placement.device));
            }
        }
        let batches: Vec<RecordBatch> = self
            .samples
            .iter()
            .map(|(_, batch)| batch.clone())
            .collect();
        SampleIndex::of_devices(&batches, |device| wanted.contains(device)).unwrap_or_else(
            |error| {
                // They are of our own making.
                tracing::error!(error = %error, "GPU samples cannot be joined");
                SampleIndex::default()
            },
        )
    }

    /// Forgets samples, devices and placements of long ago.
    pub(super) fn forget(&mut self, now: i64) {
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
