//! What exporters call the labels of a GPU's rows.

use otlp::metrics::Point;

use super::dcgm;
use crate::samples::resource::{Resource, texts};

/// Labels of one point that mean something here; blank texts are absent.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::samples::gpu) struct Labels<'a> {
    uuid: Option<&'a str>,
    hw_parent: Option<&'a str>,
    mig_instance: Option<&'a str>,
    pub(in crate::samples::gpu) mig_uuid: Option<&'a str>,
    pub(in crate::samples::gpu) mig_profile: Option<&'a str>,
    pub(in crate::samples::gpu) model: Option<&'a str>,
    pub(in crate::samples::gpu) index: Option<&'a str>,
    pub(in crate::samples::gpu) device_file: Option<&'a str>,
    claim: [Option<&'a str>; 3],
    pub(in crate::samples::gpu) pci_bus_id: Option<&'a str>,
    pub(in crate::samples::gpu) driver_version: Option<&'a str>,
    pub(in crate::samples::gpu) has_base_units: bool,
    pub(in crate::samples::gpu) host_name: Option<&'a str>,
    pub(in crate::samples::gpu) node: Option<&'a str>,
    pub(in crate::samples::gpu) job: Option<&'a str>,
    pub(in crate::samples::gpu) instance: Option<&'a str>,
    pub(in crate::samples::gpu) xid: Option<&'a str>,
    pub(in crate::samples::gpu) is_link: bool,
    pub(in crate::samples::gpu) is_process: bool,
    pub(in crate::samples::gpu) is_other_hardware: bool,
    hw_type: Option<&'a str>,
    exported: Pod<'a>,
    plain: Pod<'a>,
}

/// A workload as labels say it.
#[derive(Clone, Copy, Debug, Default)]
struct Pod<'a> {
    namespace: Option<&'a str>,
    pod: Option<&'a str>,
    pod_uid: Option<&'a str>,
    container: Option<&'a str>,
}

/// A pod that was seen on a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Workload {
    /// Its namespace.
    pub namespace: Option<String>,
    /// Its name.
    pub pod: String,
    /// Its uid.
    pub pod_uid: Option<String>,
    /// The container that has the device.
    pub container: Option<String>,
}

/// Which device a point is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(in crate::samples::gpu) struct Device {
    /// The GPU: `GPU-` and lower-case hex.
    pub(in crate::samples::gpu) gpu_uuid: String,
    /// The MIG instance on it.
    pub(in crate::samples::gpu) mig_instance: Option<String>,
}

impl<'a> Labels<'a> {
    pub(in crate::samples::gpu) fn read(point: &Point<'a>) -> Self {
        let mut labels = Self::default();
        for (key, text) in texts(point.attributes()) {
            labels.set(key, text);
        }
        labels
    }

    fn set(&mut self, key: &str, text: &'a str) {
        let field = match key {
            "UUID" | "uuid" | "gpu_uuid" | "hw.id" | "gpu.uuid" => &mut self.uuid,
            "hw.parent" => &mut self.hw_parent,
            "GPU_I_ID" | "gpu_instance_id" => &mut self.mig_instance,
            "dra_mig_device_uuid" | "mig_uuid" => &mut self.mig_uuid,
            "GPU_I_PROFILE" | "profile" => &mut self.mig_profile,
            "modelName" | "model_name" | "hw.model" | "gpu.model" | "name" | "card_model" => {
                &mut self.model
            }
            "gpu" | "index" | "gpu.number" => &mut self.index,
            "device" => &mut self.device_file,
            "dra_driver_name" => &mut self.claim[0],
            "dra_pool_name" => &mut self.claim[1],
            "dra_device_name" => &mut self.claim[2],
            "pci_bus_id" => &mut self.pci_bus_id,
            "driver_version" | "hw.driver_version" => &mut self.driver_version,
            "Hostname" | "hostname" => &mut self.host_name,
            "node" => &mut self.node,
            "job" => &mut self.job,
            "instance" => &mut self.instance,
            "xid" => &mut self.xid,
            "hw.type" => &mut self.hw_type,
            "exported_namespace" => &mut self.exported.namespace,
            "exported_pod" => &mut self.exported.pod,
            "exported_pod_uid" => &mut self.exported.pod_uid,
            "exported_container" => &mut self.exported.container,
            "namespace" | "pod_namespace" => &mut self.plain.namespace,
            "pod" | "pod_name" => &mut self.plain.pod,
            "pod_uid" => &mut self.plain.pod_uid,
            "container" | "container_name" => &mut self.plain.container,
            "nvlink" => return self.is_link = true,
            "pid" | "process_name" => return self.is_process = true,
            "nvswitch" | "cpu" | "cpucore" => return self.is_other_hardware = true,
            _ if dcgm::DRIVER_LABELS.contains(&key) => {
                self.has_base_units |= key == dcgm::BASE_UNIT_LABEL;
                &mut self.driver_version
            }
            _ => return,
        };
        *field = Some(text);
    }

    /// Driver, pool and device of a claim, as `PodResources` names them.
    pub(in crate::samples::gpu) fn claim_device(&self) -> Option<String> {
        let [driver, pool, device] = self.claim;
        Some(format!("{}/{}/{}", driver?, pool?, device?))
    }

    /// Is `hw.type` that of a GPU?
    pub(in crate::samples::gpu) fn is_gpu_type(&self) -> bool {
        self.hw_type == Some("gpu")
    }

    /// The device; `None` without a UUID.
    pub(in crate::samples::gpu) fn device(&self, resource: &Resource<'_>) -> Option<Device> {
        let uuid = self.uuid.or(resource.gpu_uuid)?;
        let mut device = parse_device(uuid)?;
        let is_mig = device.gpu_uuid.starts_with("MIG-");
        if is_mig && let Some(parent) = self.hw_parent.and_then(parse_device) {
            // The instance's own UUID tells it from its siblings.
            device = Device {
                gpu_uuid: parent.gpu_uuid,
                mig_instance: Some(device.gpu_uuid),
            };
        }
        if let Some(instance) = self.mig_instance {
            device.mig_instance = Some(instance.to_owned());
        }
        Some(device)
    }

    /// The workload that the labels name, if it is not the scrape target itself.
    pub(in crate::samples::gpu) fn workload(&self, resource: &Resource<'_>) -> Option<Workload> {
        let pod = match self.exported.pod {
            Some(_) => self.exported,
            None if self.plain.is_exporter(resource) => return None,
            None => self.plain,
        };
        Some(Workload {
            namespace: pod.namespace.map(str::to_owned),
            pod: pod.pod?.to_owned(),
            pod_uid: pod.pod_uid.map(str::to_owned),
            container: pod.container.map(str::to_owned),
        })
    }

    /// The host, unless the label is the exporter's pod or says nothing.
    pub(in crate::samples::gpu) fn host(&self, resource: &Resource<'_>) -> Option<&'a str> {
        self.host_name.filter(|host| {
            *host != "localhost" && !is_exporter(host) && Some(*host) != resource.k8s_pod_name
        })
    }
}

impl Pod<'_> {
    fn is_exporter(&self, resource: &Resource<'_>) -> bool {
        self.pod.is_some() && self.pod == resource.k8s_pod_name || self.pod.is_some_and(is_exporter)
    }
}

/// Is it the name of an exporter's pod?
fn is_exporter(pod: &str) -> bool {
    pod.contains("dcgm-exporter") || pod.contains("nvidia-gpu-exporter")
}

/// Device ids as exporters, device plugins and conventions write them: `GPU-...`, `MIG-...`,
/// `MIG-GPU-.../gi/ci`, a replica behind `::`, or the UUID alone. Other ids stay as they are.
fn parse_device(text: &str) -> Option<Device> {
    let text = text.split("::").next().unwrap_or_default().trim();
    let lower = text.to_ascii_lowercase();
    let device = |gpu_uuid: String, mig_instance: Option<&str>| Device {
        gpu_uuid,
        mig_instance: mig_instance.map(str::to_owned),
    };
    if let Some(rest) = lower.strip_prefix("mig-gpu-") {
        let mut parts = rest.split('/');
        let uuid = parts.next().filter(|uuid| !uuid.is_empty())?;
        return Some(device(format!("GPU-{uuid}"), parts.next()));
    }
    for (prefix, canonical) in [("gpu-", "GPU-"), ("mig-", "MIG-")] {
        if let Some(uuid) = lower.strip_prefix(prefix) {
            return (!uuid.is_empty()).then(|| device(format!("{canonical}{uuid}"), None));
        }
    }
    let is_uuid = lower.len() == 36 && lower.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    if is_uuid {
        return Some(device(format!("GPU-{lower}"), None));
    }
    (!text.is_empty()).then(|| device(text.to_owned(), None))
}

/// The canonical form of a GPU's id, as `gpu_samples.gpu_uuid` has it, and the MIG instance that it
/// may name: for whoever joins other sources with it.
pub fn canonical_device(text: &str) -> Option<(String, Option<String>)> {
    parse_device(text).map(|device| (device.gpu_uuid, device.mig_instance))
}
