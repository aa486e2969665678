//! What has `/metrics`: its name, what service discovery would say of it, and a scrape of it as a Collector sends it.

use otlp::prometheus::{self, Format, Limits};

use super::{N_NODES, N_REPLICAS, Scrape, Target};
use crate::traffic;

/// Labels of a target, and the resource attributes that a Collector makes of them.
const ATTRIBUTES: [(&str, &str); 4] = [
    ("namespace", "k8s.namespace.name"),
    ("pod", "k8s.pod.name"),
    ("pod_uid", "k8s.pod.uid"),
    ("node", "k8s.node.name"),
];

impl Target {
    /// All of them: exporters of GPUs by node, then engines by replica.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let gpus = (0..N_NODES).map(|node_idx| Self::Gpus { node_idx });
        let engines = (0..N_REPLICAS).map(|replica_idx| Self::Engine { replica_idx });
        gpus.chain(engines).collect()
    }

    /// `host:port`, as the cluster would know it.
    #[must_use]
    pub fn instance(self) -> String {
        match self {
            Self::Engine { replica_idx } => format!("{}:8000", traffic::engine_pod(replica_idx)),
            Self::Gpus { node_idx } => format!("{}:9400", traffic::engine_node(node_idx)),
        }
    }

    /// Labels that service discovery in Kubernetes gives it.
    #[must_use]
    pub fn labels(self) -> Vec<(&'static str, String)> {
        match self {
            Self::Engine { replica_idx } => vec![
                ("namespace", traffic::NAMESPACE.to_owned()),
                ("pod", traffic::engine_pod(replica_idx)),
                ("pod_uid", traffic::engine_pod_uid(replica_idx)),
                ("node", traffic::engine_node(replica_idx)),
            ],
            Self::Gpus { node_idx } => vec![("node", traffic::engine_node(node_idx))],
        }
    }

    const fn job(self) -> &'static str {
        match self {
            Self::Engine { .. } => "vllm",
            Self::Gpus { .. } => "dcgm",
        }
    }
}

impl Scrape {
    /// A protobuf `ExportMetricsServiceRequest` with the time of the scrape. Several of them, one after the other, are one
    /// as well.
    #[must_use]
    pub fn to_export(&self) -> Vec<u8> {
        let instance = self.target.instance();
        let labels = self.target.labels();
        let mut resource = vec![
            ("service.name", self.target.job()),
            ("service.instance.id", instance.as_str()),
        ];
        resource.extend(labels.iter().filter_map(|(label, text)| {
            let (_, attribute) = ATTRIBUTES.iter().find(|(known, _)| known == label)?;
            Some((*attribute, text.as_str()))
        }));
        let scrape = prometheus::Scrape {
            resource: &resource,
            scope: "loadgen",
            time_unix_nano: self.at_unix_nano,
        };
        let text = self.text.as_bytes();
        prometheus::to_protobuf(text, Format::Text, &scrape, &Limits::default()).body
    }
}
