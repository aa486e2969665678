//! Which pod held which GPU: what exporters' labels said since the start, and a file.

use std::sync::Arc;

use correlate::{Device, Observed, Placement, Placements, Pod, Source};
use tables::samples::gpu::GpuSample;

use super::reload::Row;

/// Ended placements that are remembered; the oldest are forgotten first.
const ENDED_MAX: usize = 1 << 16;

/// Placements that are known.
#[derive(Debug)]
pub(super) struct Placed {
    observed: Observed,
    ended: Vec<Placement>,
    from_file: Vec<Placement>,
}

impl Placed {
    pub(super) fn new(from_file: Vec<Placement>) -> Self {
        Self {
            observed: Observed::new(Source::ExporterLabels),
            ended: Vec::new(),
            from_file,
        }
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

    /// Takes what the labels of samples say.
    pub(super) fn observe(&mut self, samples: &[GpuSample]) {
        for sample in samples {
            let device = device(&sample.gpu_uuid, sample.mig_instance.as_deref());
            let (Some(device), Ok(at)) = (device, i64::try_from(sample.time_unix_nano)) else {
                continue;
            };
            self.observed.observe(&device, holders(sample), at);
        }
        self.take_ended();
    }

    /// Takes what the labels of a stored sample said. Of several pods on one device, names are stored and no more.
    pub(super) fn observe_row(&mut self, row: Row<'_>, at: i64) {
        let uuid = row.text("gpu_uuid");
        let Some(device) = uuid.and_then(|uuid| device(uuid, row.text("mig_instance"))) else {
            return;
        };
        self.observed.observe(&device, stored_holders(row), at);
        self.take_ended();
    }

    fn take_ended(&mut self) {
        self.ended.extend(self.observed.take_closed());
        let n_over = self.ended.len().saturating_sub(ENDED_MAX);
        self.ended.drain(..n_over);
    }

    /// Forgets what ended before `at`.
    pub(super) fn forget(&mut self, at: i64) {
        self.ended
            .retain(|placement| placement.valid_to_unix_nano.is_none_or(|to| to >= at));
    }

    /// All that is known now.
    pub(super) fn placements(&self) -> Placements {
        let open = self.observed.open();
        let known = self.ended.iter().chain(&self.from_file).cloned();
        Placements::new(known.chain(open).collect())
    }
}

type Holder = (Pod, Option<Arc<str>>, Option<Arc<str>>);

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

/// `None` for an instance that is known by its own UUID only, which no request names.
pub(super) fn device(uuid: &str, mig_instance: Option<&str>) -> Option<Device> {
    match mig_instance {
        Some(number) => Device::parse(uuid, Some(number.parse().ok()?)),
        None => Device::parse(uuid, None),
    }
}
