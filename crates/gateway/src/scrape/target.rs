//! One target: where it is asked, and what its metrics say of where they are from.

use super::{
    Config, Kind, Scheme,
    relabel::{self, Labels},
};

/// Labels of a target that Kubernetes' service discovery and common rules set, and the resource
/// attributes that they are.
const ATTRIBUTES: [(&str, &str); 6] = [
    ("cluster", "k8s.cluster.name"),
    ("namespace", "k8s.namespace.name"),
    ("pod", "k8s.pod.name"),
    ("pod_uid", "k8s.pod.uid"),
    ("container", "k8s.container.name"),
    ("node", "k8s.node.name"),
];

/// What is scraped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    url: String,
    /// `host:port`.
    address: String,
    scheme: Scheme,
    resource: Vec<(String, String)>,
}

/// A target that is not scraped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Dropped {
    /// By a rule; as wished.
    #[error("a rule leaves `{address}` out")]
    Rule {
        /// As it was named.
        address: String,
    },
    /// Its address cannot be one.
    #[error("target `{address}` is not `host:port`, without scheme and path")]
    Address {
        /// As it was named, or as the rules made it.
        address: String,
    },
    /// The rules leave no way to ask it.
    #[error("rules set `__scheme__` of `{address}` to `{scheme}`, which is neither http nor https")]
    Scheme {
        /// As it was named.
        address: String,
        /// What the rules made of it.
        scheme: String,
    },
}

impl Target {
    pub(super) fn new(
        config: &Config,
        kind: Kind,
        address: &str,
        group: &Labels,
    ) -> Result<Self, Dropped> {
        let mut labels = Labels::new();
        let own = [
            ("job", config.job_name(kind)),
            ("__address__", address),
            ("__scheme__", config.scheme.as_str()),
            ("__metrics_path__", &config.metrics_path),
        ];
        labels.extend(own.map(|(name, value)| (name.to_owned(), value.to_owned())));
        labels.extend(
            group
                .iter()
                .map(|(name, value)| (name.clone(), value.clone())),
        );
        if !relabel::apply(&config.relabel_configs, &mut labels) {
            return Err(Dropped::Rule {
                address: address.to_owned(),
            });
        }
        let scheme = match labels.get("__scheme__").map(String::as_str) {
            Some("http") => Scheme::Http,
            Some("https") => Scheme::Https,
            other => {
                return Err(Dropped::Scheme {
                    address: address.to_owned(),
                    scheme: other.unwrap_or_default().to_owned(),
                });
            }
        };
        let address = labels.get("__address__").cloned().unwrap_or_default();
        if !is_address(&address) {
            return Err(Dropped::Address { address });
        }
        let path = labels.get("__metrics_path__").map_or("/", String::as_str);
        Ok(Self {
            url: format!("{}://{address}{path}", scheme.as_str()),
            resource: resource(&labels, &address, scheme),
            address,
            scheme,
        })
    }

    /// Where it is asked.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// In the clear, or over TLS.
    pub const fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Resource attributes of its metrics, as the Collector's `prometheus` receiver names them.
    pub fn resource(&self) -> impl Iterator<Item = (&str, &str)> {
        let pairs = self.resource.iter();
        pairs.map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Two targets with one URL are one.
    pub(super) fn key(&self) -> &str {
        &self.url
    }
}

fn resource(labels: &Labels, address: &str, scheme: Scheme) -> Vec<(String, String)> {
    let mut resource = Vec::new();
    let mut push = |key: &str, value: &str| resource.push((key.to_owned(), value.to_owned()));
    push("service.name", labels.get("job").map_or("", String::as_str));
    let instance = labels.get("instance").map_or(address, String::as_str);
    push("service.instance.id", instance);
    if let Some((host, port)) = address.rsplit_once(':') {
        if !matches!(host, "localhost" | "0.0.0.0") {
            push("server.address", host.trim_matches(['[', ']']));
        }
        push("server.port", port);
    }
    push("url.scheme", scheme.as_str());
    for (name, value) in labels {
        let is_own = matches!(name.as_str(), "job" | "instance") || name.starts_with("__");
        if is_own || value.is_empty() {
            continue;
        }
        let known = ATTRIBUTES.iter().find(|(label, _)| label == name);
        push(known.map_or(name.as_str(), |(_, key)| key), value);
    }
    resource
}

/// Is it `host:port`?
pub(super) fn is_address(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else {
        return false;
    };
    let is_bare_v6 = host.contains(':') && !(host.starts_with('[') && host.ends_with(']'));
    let is_odd = |c: char| c.is_whitespace() || matches!(c, '/' | '?' | '#' | '@');
    !host.is_empty() && !is_bare_v6 && !host.contains(is_odd) && port.parse::<u16>().is_ok()
}
