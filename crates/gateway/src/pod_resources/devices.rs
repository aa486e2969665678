//! From what the kubelet lists to placements: who holds what, whatever its plugin or driver calls it.
//!
//! | id | means |
//! | --- | --- |
//! | `GPU-<uuid>`, `MIG-<uuid>` | the device |
//! | `GPU-<uuid>::3` | a replica of it (time-slicing, MPS), which is no part of anything: the device |
//! | `nvidia0`, `nvidia0/gi1` | device or MIG instance by its number on the node (GKE); the UUID is not told |
//! | `nvidia0/vgpu1`, `nvidia0/gi1/vgpu2` | the same: that others hold it too is seen by their pods |
//! | driver, pool and device of a claim (DRA) | a UUID where the runtime's name of it (CDI) holds one; else that name |

use reports::{
    Placement, Worker, is_gpu_uuid,
    pod_resources::{ClaimResource, ListPodResourcesResponse},
};

use super::Config;

/// A device as the kubelet names it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Held {
    gpu_uuid: String,
    device_name: String,
    mig_instance: Option<u32>,
}

/// Who holds the devices that the configuration asks for; each once, in the same order whenever they are the same.
pub(super) fn placements(list: ListPodResourcesResponse, config: &Config) -> Vec<Placement> {
    let mut placements = Vec::new();
    for pod in list.pod_resources {
        for container in pod.containers {
            let plugins = container.devices.iter();
            let plugins = plugins.filter(|devices| {
                let names = &config.resource_names;
                is_named(names, &devices.resource_name)
            });
            let ids = plugins.flat_map(|devices| &devices.device_ids);
            let from_plugins = ids.map(|id| of_plugin(id));
            let claims = container.dynamic_resources.iter();
            let claims = claims.flat_map(|claim| &claim.claim_resources);
            let from_drivers = claims
                .filter(|claimed| is_named(&config.driver_names, &claimed.driver_name))
                .map(of_claim);
            for held in from_plugins.chain(from_drivers) {
                let worker = Worker {
                    cluster: config.cluster.clone().unwrap_or_default(),
                    namespace: pod.namespace.clone(),
                    pod: pod.name.clone(),
                    pod_uid: String::new(),
                    container: container.name.clone(),
                    node: config.node.clone(),
                };
                placements.push(Placement {
                    worker: Some(worker),
                    gpu_uuid: held.gpu_uuid,
                    device_name: held.device_name,
                    mig_instance: held.mig_instance,
                    ..Placement::default()
                });
            }
        }
    }
    placements.sort_by(|one, other| key(one).cmp(&key(other)));
    // Two replicas of one device are the device.
    placements.dedup();
    placements
}

type Key<'a> = (Option<[&'a str; 3]>, &'a str, &'a str, Option<u32>);

fn key(placement: &Placement) -> Key<'_> {
    let worker = placement.worker.as_ref();
    let names = worker.map(|worker| {
        let Worker {
            namespace,
            pod,
            container,
            ..
        } = worker;
        [namespace.as_str(), pod, container]
    });
    let Placement {
        gpu_uuid,
        device_name,
        mig_instance,
        ..
    } = placement;
    (names, gpu_uuid, device_name, *mig_instance)
}

fn is_named(names: &[String], name: &str) -> bool {
    names.iter().any(|known| match known.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => known == name,
    })
}

fn of_plugin(id: &str) -> Held {
    let device = id.split_once("::").map_or(id, |(device, _replica)| device);
    if is_gpu_uuid(device) {
        return Held {
            gpu_uuid: device.to_owned(),
            ..Held::default()
        };
    }
    let mut parts = device.split('/');
    let mut held = Held {
        device_name: parts.next().unwrap_or_default().to_owned(),
        ..Held::default()
    };
    for part in parts {
        let instance = part.strip_prefix("gi");
        let instance = instance.and_then(|number| number.parse().ok());
        if instance.is_some() {
            held.mig_instance = instance;
        } else if !part.starts_with("vgpu") {
            // A form that is not known is kept whole.
            held.device_name = device.to_owned();
        }
    }
    held
}

fn of_claim(claimed: &ClaimResource) -> Held {
    let after_equals = |name: &str| name.split_once('=').map(|(_, device)| device.to_owned());
    let runtime = claimed.cdi_devices.iter();
    let mut runtime = runtime.filter_map(|device| after_equals(&device.name));
    let known = runtime.find(|device| is_gpu_uuid(device));
    let known = known.or_else(|| {
        let name = &claimed.device_name;
        is_gpu_uuid(name).then(|| name.clone())
    });
    let device_name = format!(
        "{}/{}/{}",
        claimed.driver_name, claimed.pool_name, claimed.device_name
    );
    match known {
        Some(gpu_uuid) => Held {
            gpu_uuid,
            ..Held::default()
        },
        None => Held {
            device_name,
            ..Held::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use reports::pod_resources::{
        CdiDevice, ClaimResource, ContainerDevices, ContainerResources, DynamicResource,
        ListPodResourcesResponse, PodResources,
    };

    use super::{Config, placements};

    const UUID: &str = "GPU-0a1b2c3d-0001-4000-8000-000000000001";

    fn list(resources: &[(&str, &[&str])], claims: &[ClaimResource]) -> ListPodResourcesResponse {
        let devices = resources.iter().map(|(name, ids)| ContainerDevices {
            resource_name: (*name).to_owned(),
            device_ids: ids.iter().map(|id| (*id).to_owned()).collect(),
        });
        let claim = DynamicResource {
            claim_name: "gpu".to_owned(),
            claim_namespace: "llm-serving".to_owned(),
            claim_resources: claims.to_vec(),
        };
        let container = ContainerResources {
            name: "vllm".to_owned(),
            devices: devices.collect(),
            dynamic_resources: vec![claim],
        };
        let pod = PodResources {
            name: "vllm-0".to_owned(),
            namespace: "llm-serving".to_owned(),
            containers: vec![container],
        };
        ListPodResourcesResponse {
            pod_resources: vec![pod],
        }
    }

    fn check(list: ListPodResourcesResponse, expected: Expect) {
        let mut text = String::new();
        for placement in placements(list, &Config::default()) {
            let worker = placement.worker.unwrap_or_default();
            text += &format!(
                "{}/{}/{}: uuid={} name={} gi={:?}\n",
                worker.namespace,
                worker.pod,
                worker.container,
                placement.gpu_uuid,
                placement.device_name,
                placement.mig_instance
            );
        }
        expected.assert_eq(&text);
    }

    #[test]
    fn every_id_of_a_plugin_says_its_device() {
        let replica = format!("{UUID}::0");
        let other = format!("{UUID}::7");
        let mig = UUID.replace("GPU-", "MIG-");
        check(
            list(
                &[
                    ("nvidia.com/gpu", &[UUID]),
                    ("nvidia.com/gpu.shared", &[&replica, &other]),
                    ("nvidia.com/mig-1g.10gb", &[&mig]),
                    ("cpu-pool", &["GPU-no"]),
                    ("rdma/hca", &["mlx5_0"]),
                ],
                &[],
            ),
            expect![[r#"
                llm-serving/vllm-0/vllm: uuid=GPU-0a1b2c3d-0001-4000-8000-000000000001 name= gi=None
                llm-serving/vllm-0/vllm: uuid=MIG-0a1b2c3d-0001-4000-8000-000000000001 name= gi=None
            "#]],
        );
    }

    #[test]
    fn names_of_gke_keep_their_number_and_what_is_unknown_stays_whole() {
        check(
            list(
                &[(
                    "nvidia.com/gpu",
                    &[
                        "nvidia0",
                        "nvidia1/gi2",
                        "nvidia2/vgpu1",
                        "nvidia3/gi1/vgpu0",
                        "a/b",
                    ],
                )],
                &[],
            ),
            expect![[r#"
                llm-serving/vllm-0/vllm: uuid= name=a/b gi=None
                llm-serving/vllm-0/vllm: uuid= name=nvidia0 gi=None
                llm-serving/vllm-0/vllm: uuid= name=nvidia1 gi=Some(2)
                llm-serving/vllm-0/vllm: uuid= name=nvidia2 gi=None
                llm-serving/vllm-0/vllm: uuid= name=nvidia3 gi=Some(1)
            "#]],
        );
    }

    #[test]
    fn claims_are_known_by_the_runtimes_name_or_by_their_own() {
        let claim = |cdi: &str, device: &str| ClaimResource {
            cdi_devices: vec![CdiDevice {
                name: cdi.to_owned(),
            }],
            driver_name: "gpu.nvidia.com".to_owned(),
            pool_name: "gpu-node-01".to_owned(),
            device_name: device.to_owned(),
        };
        let foreign = ClaimResource {
            driver_name: "dra.cpu".to_owned(),
            ..claim("a/b=c", "cpu-0")
        };
        check(
            list(
                &[],
                &[
                    claim("k8s.gpu.nvidia.com/device=gpu-3", "gpu-3"),
                    claim(&format!("nvidia.com/gpu={UUID}"), "gpu-0"),
                    foreign,
                ],
            ),
            expect![[r#"
                llm-serving/vllm-0/vllm: uuid= name=gpu.nvidia.com/gpu-node-01/gpu-3 gi=None
                llm-serving/vllm-0/vllm: uuid=GPU-0a1b2c3d-0001-4000-8000-000000000001 name= gi=None
            "#]],
        );
    }
}
