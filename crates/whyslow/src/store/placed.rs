//! Which pod held which GPU, by all who know: the workers' reports, the kubelet, exporters' labels and a file.
//!
//! Each source is kept for itself; [`correlate::Placements`] says which one is believed. What has changed becomes rows of
//! `placements` (`rows`), which a start reads back (`restore`): so a worker that reported once weeks ago is known, and a
//! look at the kubelet goes on where the one before the restart ended.
//!
//! The kubelet may call a device by a name that is no UUID (`names`): it is known where samples of the node say which
//! device has that name. A device whose name is not known is counted, and what was known of its container stays as it was.
//!
//! Bounds: those of [`Reported`] and [`Observed`], and [`ENDED_MAX`] placements that have ended.

mod names;
mod restore;
mod rows;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::RecordBatch;
use correlate::{
    Change, Device, Event, HeldOnNode, HolderParts as Holder, Observed, Placement, Placements, Pod,
    Ranks, Reported, Source,
};
use gateway::Report;
use tables::samples::gpu::GpuSample;

use super::reload::Row;
use names::Names;
pub(super) use restore::WANTED;

/// Ended placements of observed sources that are remembered; the oldest are forgotten first.
const ENDED_MAX: usize = 1 << 16;

/// Placements that are known.
#[derive(Debug)]
pub(super) struct Placed {
    reported: Reported,
    looked: Observed,
    labelled: Observed,
    /// Of the two that are observed.
    ended: Vec<Placement>,
    from_file: Vec<Placement>,
    /// Of the file, in the table already.
    stored_of_file: HashSet<String>,
    is_file_told: bool,
    names: Names,
    n_unnamed: u64,
    changes: Vec<Change>,
}

impl Placed {
    pub(super) fn new(from_file: Vec<Placement>) -> Self {
        Self {
            reported: Reported::default(),
            looked: Observed::new(Source::PodResources),
            labelled: Observed::new(Source::ExporterLabels),
            ended: Vec::new(),
            from_file,
            stored_of_file: HashSet::new(),
            is_file_told: false,
            names: Names::default(),
            n_unnamed: 0,
            changes: Vec::new(),
        }
    }

    /// Takes what samples say: who held their devices, and what these are called.
    pub(super) fn observe(&mut self, samples: &[GpuSample]) {
        for sample in samples {
            let device = device(&sample.gpu_uuid, sample.mig_instance.as_deref());
            let Some(device) = device else {
                continue;
            };
            self.names.learn(sample, &device);
            if let Ok(at) = i64::try_from(sample.time_unix_nano) {
                self.labelled.observe(&device, holders(sample), at);
            }
        }
        self.gather();
    }

    /// Columns of `gpu_samples` that hold labels.
    pub(super) const COLUMNS: [&'static str; 8] = [
        "k8s_cluster_name",
        "k8s_node_name",
        "host_name",
        "k8s_namespace_name",
        "k8s_pod_name",
        "k8s_pod_uid",
        "k8s_container_name",
        "shared_pods",
    ];

    /// Takes what the labels of a stored sample said. Of several pods on one device, names are stored and no more: where
    /// they are those that are known to hold it, it is they.
    pub(super) fn observe_row(&mut self, row: Row<'_>, at: i64) {
        let uuid = row.text("gpu_uuid");
        let Some(device) = uuid.and_then(|uuid| device(uuid, row.text("mig_instance"))) else {
            return;
        };
        let mut holders = stored_holders(row);
        let known = self.labelled.holders(&device);
        let is_known = |holder: &Holder| known.iter().any(|known| known.0.fits(&holder.0));
        if holders.len() == known.len() && holders.iter().all(is_known) {
            holders = known;
        }
        self.labelled.observe(&device, holders, at);
        self.gather();
    }

    /// Takes the reports of a release; how many could not be read.
    pub(super) fn take_reports(&mut self, reports: &[Report]) -> u64 {
        let mut n_lost = 0;
        for report in reports {
            match report.kind {
                reports::Kind::Placements => {
                    let received = report.record.received_unix_nano;
                    match reports::read_placements(report.record.body()) {
                        Ok(request) => self.take(request, nanos(received)),
                        Err(error) => {
                            // It was checked when it arrived, so this is an error of this program.
                            tracing::error!(%error, "an accepted report cannot be read");
                            n_lost += 1;
                        }
                    }
                }
                reports::Kind::Batches => {}
            }
        }
        n_lost
    }

    fn take(&mut self, request: reports::ReportPlacementsRequest, received: i64) {
        if let Some(observation) = request.observation {
            self.look(observation, request.placements);
        } else {
            for placement in request.placements {
                if let Some(placement) = reported(placement) {
                    self.reported.take(placement, received);
                }
            }
        }
        self.gather();
    }

    fn look(&mut self, observation: reports::Observation, placements: Vec<reports::Placement>) {
        let node: Arc<str> = observation.node.into();
        let mut held = HeldOnNode::new();
        let mut unnamed = Vec::new();
        for placement in placements {
            let device = if placement.gpu_uuid.is_empty() {
                let (name, instance) = (&placement.device_name, placement.mig_instance);
                self.names.device(&node, name, instance)
            } else {
                Device::parse(&placement.gpu_uuid, placement.mig_instance)
            };
            let (pod, container, _) = worker(placement.worker.unwrap_or_default());
            match device {
                Some(device) => held.entry(device).or_default().push((pod, container)),
                None => unnamed.push((pod, container)),
            }
        }
        self.n_unnamed += unnamed.len() as u64;
        if !unnamed.is_empty() {
            // Whatever it is, it may be what was known before.
            for before in self.looked.open() {
                let holder = (before.pod, before.container);
                if unnamed.contains(&holder) {
                    held.entry(before.device).or_default().push(holder);
                }
            }
        }
        let until = observation.unchanged_until_unix_nano.map(nanos);
        let at = nanos(observation.observed_unix_nano);
        self.looked.observe_node(&node, held, until, at);
    }

    /// Collects what has changed.
    fn gather(&mut self) {
        let observed = [&mut self.looked, &mut self.labelled];
        for change in observed.into_iter().flat_map(Observed::take_changes) {
            let Placement {
                valid_from_unix_nano,
                valid_to_unix_nano,
                ..
            } = change.placement;
            // Seen once and gone: it held at one moment, which a half-open interval cannot say.
            let holds = valid_to_unix_nano.is_some_and(|to| valid_from_unix_nano < to);
            if change.event == Event::Ended && holds {
                self.ended.push(change.placement.clone());
            }
            self.changes.push(change);
        }
        let n_over = self.ended.len().saturating_sub(ENDED_MAX);
        self.ended.drain(..n_over);
        self.changes.extend(self.reported.take_changes());
    }

    /// The rows of what has changed through a release that was decided at this time; `is_new`: its rows are not in the
    /// table yet.
    pub(super) fn take_rows(&mut self, decided_unix_nano: u64, is_new: bool) -> Vec<RecordBatch> {
        let now = nanos(decided_unix_nano);
        self.looked.expire();
        self.labelled.expire();
        self.reported.confirm(now);
        self.gather();
        if is_new && !self.is_file_told {
            self.is_file_told = true;
            let stored = std::mem::take(&mut self.stored_of_file);
            let new = self.from_file.iter();
            let new = new.filter(|placement| !stored.contains(&rows::placement_id(placement)));
            self.changes.extend(new.map(|placement| Change {
                placement: placement.clone(),
                event: Event::Opened,
                observed_unix_nano: now,
            }));
        }
        if self.changes.is_empty() {
            return Vec::new();
        }
        let changes = std::mem::take(&mut self.changes);
        rows::of(&changes, &self.placements(), decided_unix_nano)
    }

    /// Forgets what ended before `at`.
    pub(super) fn forget(&mut self, at: i64) {
        self.ended
            .retain(|placement| placement.valid_to_unix_nano.is_none_or(|to| to >= at));
        self.reported.forget(at);
    }

    /// All that is known now.
    pub(super) fn placements(&self) -> Placements {
        let reported = self.reported.all().cloned();
        let ended = self.ended.iter().chain(&self.from_file).cloned();
        let open = [self.looked.open(), self.labelled.open()];
        let all = reported.chain(ended).chain(open.into_iter().flatten());
        // Samples call a MIG instance by its GPU and number.
        let named = all.map(|placement| Placement {
            device: self.names.canonical(placement.device),
            ..placement
        });
        Placements::new(named.collect())
    }

    /// How many are known of each source, those of [`Source::ALL`].
    pub(super) fn n_known(&self) -> [usize; Source::ALL.len()] {
        let ended_of = |source| {
            let ended = self.ended.iter();
            ended.filter(|placement| placement.source == source).count()
        };
        [
            self.reported.n_intervals(),
            self.looked.n_open() + ended_of(Source::PodResources),
            self.labelled.n_open() + ended_of(Source::ExporterLabels),
            self.from_file.len(),
        ]
    }

    /// Devices that the kubelet named in a way that no sample does, counted at each look.
    pub(super) const fn n_unnamed(&self) -> u64 {
        self.n_unnamed
    }

    /// Reports that were not taken for want of room.
    pub(super) const fn n_refused(&self) -> u64 {
        self.reported.n_refused()
    }
}

/// `None` for an instance that is known by its own UUID only, which no request names.
pub(super) fn device(uuid: &str, mig_instance: Option<&str>) -> Option<Device> {
    match mig_instance {
        Some(number) => Device::parse(uuid, Some(number.parse().ok()?)),
        None => Device::parse(uuid, None),
    }
}

fn holders(sample: &GpuSample) -> impl Iterator<Item = Holder> {
    let text = |text: &Option<String>| text.as_deref().map(Arc::from);
    let identity = &sample.identity;
    let node = text(&identity.k8s_node_name).or_else(|| text(&identity.host_name));
    sample.workloads.iter().map(move |workload| {
        let pod = Pod {
            cluster: text(&identity.k8s_cluster_name),
            namespace: text(&workload.namespace),
            name: Some(Arc::from(workload.pod.as_str())),
            uid: text(&workload.pod_uid),
        };
        (pod, text(&workload.container), node.clone())
    })
}

fn stored_holders(row: Row<'_>) -> Vec<Holder> {
    let text = |name: &str| row.text(name).map(Arc::from);
    let node = text("k8s_node_name").or_else(|| text("host_name"));
    let cluster: Option<Arc<str>> = text("k8s_cluster_name");
    if let Some(name) = row.text("k8s_pod_name") {
        let pod = Pod {
            cluster,
            namespace: text("k8s_namespace_name"),
            name: Some(Arc::from(name)),
            uid: text("k8s_pod_uid"),
        };
        return vec![(pod, text("k8s_container_name"), node)];
    }
    let shared = row.texts("shared_pods");
    let holders = shared.iter().filter_map(|shared| {
        let (namespace, name) = shared.split_once('/')?;
        let pod = Pod {
            cluster: cluster.clone(),
            namespace: Some(namespace)
                .filter(|namespace| !namespace.is_empty())
                .map(Arc::from),
            name: Some(Arc::from(name)),
            uid: None,
        };
        Some((pod, None, node.clone()))
    });
    holders.collect()
}

fn worker(worker: reports::Worker) -> Holder {
    let text = |text: String| (!text.is_empty()).then(|| Arc::from(text));
    let pod = Pod {
        cluster: text(worker.cluster),
        namespace: text(worker.namespace),
        name: text(worker.pod),
        uid: text(worker.pod_uid),
    };
    (pod, text(worker.container), text(worker.node))
}

/// What a worker says of itself; `None` for what no check lets through.
fn reported(placement: reports::Placement) -> Option<Placement> {
    let device = Device::parse(&placement.gpu_uuid, placement.mig_instance)?;
    let (pod, container, node) = worker(placement.worker.unwrap_or_default());
    let rank = |rank: Option<u32>| rank.map(i64::from);
    Some(Placement {
        device,
        pod,
        container,
        node,
        ranks: Ranks {
            dp: rank(placement.dp_rank),
            pp: rank(placement.pp_rank),
            tp: rank(placement.tp_rank),
        },
        valid_from_unix_nano: nanos(placement.valid_from_unix_nano),
        valid_to_unix_nano: placement.valid_to_unix_nano.map(nanos),
        source: Source::Reported,
    })
}

fn nanos(unix_nano: u64) -> i64 {
    i64::try_from(unix_nano).unwrap_or(i64::MAX)
}
