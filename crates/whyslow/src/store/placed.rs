//! Which pod held which GPU: what exporters' labels said since the start, and a file.

use std::sync::Arc;

use correlate::{Device, Observed, Placement, Placements, Pod, Source};
use tables::samples::gpu::GpuSample;

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

    /// Takes what the labels of samples say.
    pub(super) fn observe(&mut self, samples: &[GpuSample]) {
        for sample in samples {
            let mig_instance = match sample.mig_instance.as_deref().map(str::parse) {
                None => None,
                Some(Ok(number)) => Some(number),
                // Known by its own UUID only, which no request names.
                Some(Err(_)) => continue,
            };
            let (Some(device), Ok(at)) = (
                Device::parse(&sample.gpu_uuid, mig_instance),
                i64::try_from(sample.time_unix_nano),
            ) else {
                continue;
            };
            self.observed.observe(&device, holders(sample), at);
        }
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
