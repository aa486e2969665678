//! The exporter's settings, keys and defaults as in the Collector.

use std::{fmt, net::IpAddr, time::Duration};

use serde::{
    Deserialize, Deserializer,
    de::{self, IgnoredAny, Visitor},
};
use transport::Authenticators;

use super::{
    super::config::{ConfigError, OtlpGrpc, SendingQueue},
    members::{INTERVAL, TIMEOUT},
};

/// The port of an endpoint that names none.
const PORT: u16 = 4317;

/// The exporter `loadbalancing`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Loadbalancing {
    /// How to send to each backend.
    pub protocol: Protocol,
    /// Where the list of backends comes from. Required.
    pub resolver: Resolver,
    /// `traceID`, the only one: the second tier must see whole traces.
    pub routing_key: Option<String>,
    /// Of the key `attributes`.
    pub routing_attributes: Option<IgnoredAny>,
    /// Attempts are those of `protocol::otlp`.
    pub timeout: Option<IgnoredAny>,
    /// As above.
    pub retry_on_failure: Option<IgnoredAny>,
    /// The queue is the log.
    pub sending_queue: Option<IgnoredAny>,
}

/// `protocol`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Protocol {
    /// Settings of the exporter `otlp`; `endpoint` is that of the backend, whatever it says.
    pub otlp: OtlpGrpc,
}

/// `resolver`: one of them.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Resolver {
    /// A fixed list.
    #[serde(rename = "static")]
    pub fixed: Option<Static>,
    /// All addresses of a name.
    pub dns: Option<Dns>,
    /// Not built.
    pub k8s: Option<IgnoredAny>,
    /// Not built.
    pub aws_cloud_map: Option<IgnoredAny>,
}

/// `resolver::static`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Static {
    /// `host` or `host:port`; without a port 4317. All first tiers must write them alike: the text is what is hashed.
    pub hostnames: Vec<String>,
}

/// `resolver::dns`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Dns {
    /// A name with an address per backend, such as a headless service of Kubernetes.
    pub hostname: String,
    /// Without one 4317. First tiers must all write it or all leave it out: it is part of what is hashed.
    #[serde(deserialize_with = "port")]
    pub port: Option<u16>,
    /// How often the name is resolved. Default `5s`.
    #[serde(deserialize_with = "sampler::duration::deserialize")]
    pub interval: Duration,
    /// The longest one look-up may take. Default `1s`.
    #[serde(deserialize_with = "sampler::duration::deserialize")]
    pub timeout: Duration,
}

impl Loadbalancing {
    /// Checks everything but files.
    ///
    /// # Errors
    ///
    /// The first setting that cannot be used.
    pub fn validate(&self, authenticators: &Authenticators) -> Result<(), ConfigError> {
        match self.routing_key.as_deref() {
            None | Some("" | "traceID") => {}
            Some(other) => {
                let problem = format!(
                    "`{other}` is not built: only `traceID` is, which gives the second tier whole traces"
                );
                return Err(wrong("routing_key", problem));
            }
        }
        if self.routing_attributes.is_some() {
            let problem = "belongs to `routing_key: attributes`, which is not built; leave it out";
            return Err(wrong("routing_attributes", problem));
        }
        self.resolver.validate()?;
        let hostnames = self
            .resolver
            .fixed
            .iter()
            .flat_map(|fixed| &fixed.hostnames);
        for (idx, hostname) in hostnames.enumerate() {
            self.backend(hostname)
                .validate(authenticators)
                .map_err(|error| match error {
                    ConfigError::Setting { key, .. } if key == "endpoint" => {
                        let key = format!("resolver::static::hostnames[{idx}]");
                        wrong(
                            &key,
                            "must be `host` or `host:port`, as in `gateway-0:4317`",
                        )
                    }
                    other @ (ConfigError::Setting { .. } | ConfigError::Transport(_)) => other,
                })?;
        }
        // Whatever a name resolves to, the rest must do.
        self.backend("localhost").validate(authenticators)
    }

    /// Keys that are written and change nothing.
    pub fn unused(&self) -> Vec<&'static str> {
        let mut unused: Vec<&str> = [
            ("timeout", &self.timeout),
            ("retry_on_failure", &self.retry_on_failure),
            ("sending_queue", &self.sending_queue),
        ]
        .into_iter()
        .filter(|(_, written)| written.is_some())
        .map(|(key, _)| key)
        .collect();
        if !self.protocol.otlp.endpoint.is_empty() {
            unused.push("protocol::otlp::endpoint");
        }
        unused
    }

    /// How much is sent at once.
    pub fn queue(&self) -> &SendingQueue {
        &self.protocol.otlp.sending_queue
    }

    /// In words: where to.
    pub fn describe(&self) -> String {
        match (&self.resolver.fixed, &self.resolver.dns) {
            (Some(fixed), _) => fixed.hostnames.join(", "),
            (None, Some(dns)) => format!("all addresses of {}", dns.hostname),
            (None, None) => "nobody".to_owned(),
        }
    }

    /// The settings of one backend.
    pub(super) fn backend(&self, endpoint: &str) -> OtlpGrpc {
        let (_, rest) = endpoint.rsplit_once(']').unwrap_or(("", endpoint));
        let has_port = rest.contains(':');
        OtlpGrpc {
            endpoint: if has_port {
                endpoint.to_owned()
            } else {
                format!("{endpoint}:{PORT}")
            },
            ..self.protocol.otlp.clone()
        }
    }
}

impl Resolver {
    fn validate(&self) -> Result<(), ConfigError> {
        if self.k8s.is_some() {
            let problem = "is not built: use `dns` with the name of a headless service (`clusterIP: None`), which has \
                           an address per pod";
            return Err(wrong("resolver::k8s", problem));
        }
        if self.aws_cloud_map.is_some() {
            let problem =
                "is not built: use `dns` with the name of the service in a Cloud Map DNS namespace";
            return Err(wrong("resolver::aws_cloud_map", problem));
        }
        match (&self.fixed, &self.dns) {
            (None, None) => Err(wrong("resolver", "is missing: `static` or `dns`")),
            (Some(_), Some(_)) => Err(wrong("resolver", "must be one, `static` or `dns`")),
            (Some(fixed), None) if fixed.hostnames.is_empty() => {
                let problem = "is empty: at least one backend is needed";
                Err(wrong("resolver::static::hostnames", problem))
            }
            (None, Some(dns)) if dns.hostname.is_empty() => {
                let problem = "is missing: the name of the backends";
                Err(wrong("resolver::dns::hostname", problem))
            }
            (Some(_), None) | (None, Some(_)) => Ok(()),
        }
    }
}

impl Dns {
    /// 0 is the default, as in the Collector.
    pub(super) fn interval(&self) -> Duration {
        Some(self.interval)
            .filter(|set| !set.is_zero())
            .unwrap_or(INTERVAL)
    }

    /// As above.
    pub(super) fn timeout(&self) -> Duration {
        Some(self.timeout)
            .filter(|set| !set.is_zero())
            .unwrap_or(TIMEOUT)
    }

    /// An address as the Collector writes it. (There IPv6 without a port cannot be connected to; here it has the default.)
    pub(super) fn endpoint(&self, addr: IpAddr) -> String {
        let host = match addr {
            IpAddr::V4(addr) => addr.to_string(),
            IpAddr::V6(addr) => format!("[{addr}]"),
        };
        match self.port {
            Some(port) => format!("{host}:{port}"),
            None => host,
        }
    }
}

fn wrong(key: &str, problem: impl Into<String>) -> ConfigError {
    ConfigError::Setting {
        key: key.to_owned(),
        problem: problem.into(),
    }
}

/// Written as a number or, as the Collector has it, as text.
fn port<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u16>, D::Error> {
    struct Port;

    impl Visitor<'_> for Port {
        type Value = Option<u16>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a port from 1 to 65535")
        }

        fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
            if text.is_empty() {
                return Ok(None);
            }
            let port = text.parse::<u16>().ok().filter(|port| *port > 0);
            let unexpected = || E::invalid_value(de::Unexpected::Str(text), &self);
            port.map(Some).ok_or_else(unexpected)
        }

        fn visit_u64<E: de::Error>(self, number: u64) -> Result<Self::Value, E> {
            self.visit_str(&number.to_string())
        }

        fn visit_i64<E: de::Error>(self, number: i64) -> Result<Self::Value, E> {
            self.visit_str(&number.to_string())
        }
    }

    deserializer.deserialize_any(Port)
}
