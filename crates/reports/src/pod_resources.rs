//! Package `v1` of `proto/podresources/v1/api.proto`, which the kubelet serves.

use prost::Message;

use crate::{
    check::messages,
    error::{Error, Result},
};

/// Path of the gRPC method that lists all pods of a node.
pub const LIST: &str = "/v1.PodResourcesLister/List";

/// Asks for all pods.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ListPodResourcesRequest {}

/// All pods of the node.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ListPodResourcesResponse {
    /// The pods.
    #[prost(message, repeated, tag = "1")]
    pub pod_resources: Vec<PodResources>,
}

/// A pod.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PodResources {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its namespace.
    #[prost(string, tag = "2")]
    pub namespace: String,
    /// Its containers.
    #[prost(message, repeated, tag = "3")]
    pub containers: Vec<ContainerResources>,
}

/// A container.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ContainerResources {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// From device plugins.
    #[prost(message, repeated, tag = "2")]
    pub devices: Vec<ContainerDevices>,
    /// From drivers of dynamic resource allocation.
    #[prost(message, repeated, tag = "5")]
    pub dynamic_resources: Vec<DynamicResource>,
}

/// Devices of one resource.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ContainerDevices {
    /// Such as `nvidia.com/gpu`.
    #[prost(string, tag = "1")]
    pub resource_name: String,
    /// As the plugin calls them.
    #[prost(string, repeated, tag = "2")]
    pub device_ids: Vec<String>,
}

/// A claim of the container.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DynamicResource {
    /// Its name.
    #[prost(string, tag = "2")]
    pub claim_name: String,
    /// Its namespace.
    #[prost(string, tag = "3")]
    pub claim_namespace: String,
    /// What it was given.
    #[prost(message, repeated, tag = "4")]
    pub claim_resources: Vec<ClaimResource>,
}

/// A device that a claim was given.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ClaimResource {
    /// What the container runtime calls it.
    #[prost(message, repeated, tag = "1")]
    pub cdi_devices: Vec<CdiDevice>,
    /// Such as `gpu.nvidia.com`.
    #[prost(string, tag = "2")]
    pub driver_name: String,
    /// Usually the node.
    #[prost(string, tag = "3")]
    pub pool_name: String,
    /// Name in the pool.
    #[prost(string, tag = "4")]
    pub device_name: String,
}

/// A device as the container runtime knows it.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CdiDevice {
    /// Such as `nvidia.com/gpu=GPU-...`.
    #[prost(string, tag = "1")]
    pub name: String,
}

/// Pods, containers and what they hold, all together: a node has some hundred pods.
pub const ENTRIES_MAX: usize = 65_536;

/// Reads an answer.
///
/// # Errors
/// Bytes that are not the message, or more entries than a node can have.
pub fn read(body: &[u8]) -> Result<ListPodResourcesResponse> {
    const UNREADABLE: Error = Error::Unreadable {
        message: "v1.ListPodResourcesResponse",
    };
    // Counted before anything is decoded: two bytes would become a struct.
    let containers = || messages(body, 1).flat_map(|pod| messages(pod, 3));
    let held = containers().flat_map(|container| {
        let (devices, claims) = (messages(container, 2), messages(container, 5));
        devices.chain(claims)
    });
    let n_held = held.map(|held| messages(held, 2).count() + messages(held, 4).count() + 1);
    let n_entries = messages(body, 1).count() + containers().count() + n_held.sum::<usize>();
    if n_entries > ENTRIES_MAX {
        return Err(Error::TooMany {
            field: "pod_resources",
            limit: ENTRIES_MAX,
        });
    }
    ListPodResourcesResponse::decode(body).map_err(|_| UNREADABLE)
}
