//! Samples to batches.

use super::{GpuField, GpuSample, SPEC};
use crate::{
    column::ColumnType,
    error::Result,
    row::{Rows, offer_rows},
    samples::whole,
    time,
};

/// Builds batches of [`SPEC`].
#[derive(Debug)]
pub struct GpuSamplesBuilder {
    rows: Rows,
}

offer_rows!(GpuSamplesBuilder);

impl GpuSamplesBuilder {
    /// An empty builder.
    pub fn new() -> Self {
        Self {
            rows: Rows::new(&SPEC),
        }
    }

    /// Appends one sample.
    ///
    /// # Errors
    /// [`crate::Error::Full`] if the batch must be finished first; it is unchanged then.
    pub fn append(&mut self, sample: &GpuSample) -> Result<()> {
        self.rows.check_room()?;
        let at = sample.time_unix_nano;
        let rows = &mut self.rows;
        rows.date("date", time::partition_date(at, sample.received_unix_nano));
        rows.time("time", at);
        rows.int("time_unix_nano", time::nanos(at));
        self.append_identity(sample);
        self.append_workloads(sample);
        let rows = &mut self.rows;
        for field in GpuField::ALL {
            let value = sample.value(*field);
            match field.data_type() {
                ColumnType::Int => rows.int(field.column(), value.and_then(whole)),
                _ => rows.float(field.column(), value),
            }
        }
        let xids: Vec<String> = sample.xid_events.iter().map(u32::to_string).collect();
        rows.texts("xid_events", Some(xids.iter().map(String::as_str)));
        rows.text("source", Some(sample.source.as_str()));
        let identity = &sample.identity;
        rows.text("service_name", identity.service_name.as_deref());
        rows.text(
            "service_instance_id",
            identity.service_instance_id.as_deref(),
        );
        let quality: Vec<String> = sample.quality.iter().map(ToString::to_string).collect();
        rows.texts("quality", Some(quality.iter().map(String::as_str)));
        rows.time("received_time", sample.received_unix_nano);
        rows.end_row();
        Ok(())
    }

    fn append_identity(&mut self, sample: &GpuSample) {
        let (rows, identity) = (&mut self.rows, &sample.identity);
        rows.text("gpu_uuid", Some(&sample.gpu_uuid));
        rows.text("mig_instance", sample.mig_instance.as_deref());
        rows.text("mig_uuid", identity.mig_uuid.as_deref());
        rows.text("mig_profile", identity.mig_profile.as_deref());
        rows.text("gpu_model", identity.gpu_model.as_deref());
        rows.text("gpu_index", identity.gpu_index.as_deref());
        rows.text("pci_bus_id", identity.pci_bus_id.as_deref());
        rows.text("driver_version", identity.driver_version.as_deref());
        rows.text("k8s_cluster_name", identity.k8s_cluster_name.as_deref());
        rows.text("k8s_node_name", identity.k8s_node_name.as_deref());
        rows.text("host_name", identity.host_name.as_deref());
    }

    fn append_workloads(&mut self, sample: &GpuSample) {
        let rows = &mut self.rows;
        let one = match sample.workloads.as_slice() {
            [one] => Some(one),
            _ => None,
        };
        let namespace = one.and_then(|one| one.namespace.as_deref());
        rows.text("k8s_namespace_name", namespace);
        rows.text("k8s_pod_name", one.map(|one| one.pod.as_str()));
        rows.text("k8s_pod_uid", one.and_then(|one| one.pod_uid.as_deref()));
        let container = one.and_then(|one| one.container.as_deref());
        rows.text("k8s_container_name", container);
        let is_shared = sample.workloads.len() > 1;
        let pods = sample.workloads.iter().map(|workload| {
            let namespace = workload.namespace.as_deref().unwrap_or_default();
            format!("{namespace}/{}", workload.pod)
        });
        let pods: Vec<String> = pods.collect();
        let pods = is_shared.then(|| pods.iter().map(String::as_str));
        rows.texts("shared_pods", pods);
    }
}
