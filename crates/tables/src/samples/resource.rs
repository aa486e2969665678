//! What the resource says of the scrape target.

use otlp::{
    attribute::{self, Attributes, Value},
    metrics::MetricAt,
};

/// Longest text of a label that is stored: names in Kubernetes have at most 253 bytes.
pub(super) const TEXT_BYTES_MAX: usize = 256;

/// Attributes of the resource, which describe the scrape target: the exporter of GPUs, the engine.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Resource<'a> {
    pub(super) service_name: Option<&'a str>,
    pub(super) service_instance_id: Option<&'a str>,
    pub(super) k8s_cluster_name: Option<&'a str>,
    pub(super) k8s_namespace_name: Option<&'a str>,
    pub(super) k8s_pod_name: Option<&'a str>,
    pub(super) k8s_pod_uid: Option<&'a str>,
    pub(super) k8s_container_name: Option<&'a str>,
    pub(super) k8s_node_name: Option<&'a str>,
    pub(super) host_name: Option<&'a str>,
    /// Google's receiver has one resource per GPU.
    pub(super) gpu_uuid: Option<&'a str>,
    pub(super) gpu_model: Option<&'a str>,
}

impl<'a> Resource<'a> {
    pub(super) fn read(metric: &MetricAt<'a>) -> Self {
        let mut resource = Self::default();
        for (key, text) in texts(attribute::of_resource(metric.resource)) {
            let field = match key {
                "service.name" => &mut resource.service_name,
                "service.instance.id" => &mut resource.service_instance_id,
                "k8s.cluster.name" => &mut resource.k8s_cluster_name,
                "k8s.namespace.name" => &mut resource.k8s_namespace_name,
                "k8s.pod.name" => &mut resource.k8s_pod_name,
                "k8s.pod.uid" => &mut resource.k8s_pod_uid,
                "k8s.container.name" => &mut resource.k8s_container_name,
                "k8s.node.name" => &mut resource.k8s_node_name,
                "host.name" => &mut resource.host_name,
                "gpu.uuid" => &mut resource.gpu_uuid,
                "gpu.model" => &mut resource.gpu_model,
                _ => continue,
            };
            *field = Some(text);
        }
        resource
    }
}

/// Attributes that are text with a meaning, in order.
pub(super) fn texts(attributes: Attributes<'_>) -> impl Iterator<Item = (&str, &str)> {
    attributes.map_while(Result::ok).filter_map(|(key, value)| {
        let Value::Str(text) = value else {
            return None;
        };
        known(text).map(|text| (key, text))
    })
}

/// The text, unless it says that there is none: empty, or one of the blank texts of the exporters.
pub(super) fn known(text: &str) -> Option<&str> {
    let is_blank = matches!(text, "" | "N/A" | "[N/A]")
        || (text.starts_with("<<<") && text.ends_with(">>>"))
        || text.starts_with("ERROR - FAILED");
    let is_short = text.len() <= TEXT_BYTES_MAX;
    (!is_blank && is_short).then_some(text)
}
