//! What a device is called where it is not called by its UUID, as GPU samples of its node tell.
//!
//! Device plugins of GKE say `nvidia0` (the device file), drivers of dynamic resource allocation say driver, pool and
//! device; the kubelet says `MIG-<uuid>` of an instance that samples know as a number on its GPU. A name is that of a node
//! and of a time: the newest sample that has it says what it means.

use std::collections::HashMap;
use std::sync::Arc;

use correlate::Device;
use tables::samples::gpu::GpuSample;

/// Names that are known at most.
const NAMES_MAX: usize = 1 << 16;

/// Names of devices.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// By node.
    by_node: HashMap<Arc<str>, HashMap<Arc<str>, Device>>,
    /// MIG instances by their own UUID.
    instances: HashMap<Device, Device>,
    n_names: usize,
}

impl Names {
    /// Takes the names that a sample has for its device.
    pub(super) fn learn(&mut self, sample: &GpuSample, device: &Device) {
        let identity = &sample.identity;
        if let Some(instance) = identity.mig_uuid.as_deref()
            && let Some(instance) = Device::parse(instance, None)
            && instance != *device
            && self.instances.len() < NAMES_MAX
        {
            self.instances.insert(instance, device.clone());
        }
        let nodes = [&identity.k8s_node_name, &identity.host_name];
        let names = [&identity.device_file, &identity.claim_device];
        for node in nodes.into_iter().flatten() {
            for name in names.into_iter().flatten() {
                // An instance has the file of its GPU.
                let is_file = identity.device_file.as_ref() == Some(name);
                let named = match is_file {
                    true => Device::parse(device.uuid(), None),
                    false => Some(device.clone()),
                };
                if let Some(named) = named {
                    self.insert(node, name, named);
                }
            }
        }
    }

    fn insert(&mut self, node: &str, name: &str, device: Device) {
        let known = self.by_node.get_mut(node);
        if let Some(known) = known.and_then(|names| names.get_mut(name)) {
            *known = device;
        } else if self.n_names < NAMES_MAX {
            self.n_names += 1;
            let names = self.by_node.entry(node.into()).or_default();
            names.insert(name.into(), device);
        }
    }

    /// The device of that name on a node.
    pub(super) fn device(
        &self,
        node: &str,
        name: &str,
        mig_instance: Option<u32>,
    ) -> Option<Device> {
        let known = self.by_node.get(node)?.get(name)?;
        match mig_instance {
            None => Some(known.clone()),
            Some(_) => Device::parse(known.uuid(), mig_instance),
        }
    }

    /// As samples call it.
    pub(super) fn canonical(&self, device: Device) -> Device {
        self.instances.get(&device).cloned().unwrap_or(device)
    }
}
