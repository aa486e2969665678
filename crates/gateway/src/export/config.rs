//! The exporters' settings, keys and defaults as in the Collector unless a key says otherwise.
//!
//! A block of a running Collector can be pasted. Keys that mean nothing here are accepted and named by
//! [`OtlpGrpc::unused`] and its like, so that a person is told; keys that the Collector does not have are errors.

mod debug;
mod queue;

use std::{collections::BTreeMap, fmt, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use serde::{Deserialize, Deserializer, de::IgnoredAny};
use transport::{Alpn, Auth, Authenticators, ClientTls, Connector, TokenSource};

use super::{
    client::{Client, Compression, Pings, Protocol, Settings},
    retry::RetryOnFailure,
};

pub use self::{
    debug::{Debug, Verbosity},
    queue::{Batch, REQUEST_BYTES_MAX, SendingQueue, Sizer},
};

/// Why an exporter's settings cannot be used. Keys are those below the exporter, joined by `::`.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A value.
    #[error("`{key}` {problem}")]
    Setting {
        /// Its key.
        key: String,
        /// What is wrong, or what would be right.
        problem: String,
    },
    /// `tls` or `auth`.
    #[error(transparent)]
    Transport(#[from] transport::Error),
}

impl ConfigError {
    fn new(key: &str, problem: impl Into<String>) -> ConfigError {
        ConfigError::Setting {
            key: key.to_owned(),
            problem: problem.into(),
        }
    }
}

/// A key of the Collector that changes nothing here. Was it written?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unused(bool);

impl<'de> Deserialize<'de> for Unused {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Unused, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Unused(true))
    }
}

/// `headers` of an exporter. Values may be secrets and are not shown.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Headers(BTreeMap<String, String>);

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Headers {
    fn read(&self) -> Result<HeaderMap, ConfigError> {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.0 {
            let key = format!("headers::{name}");
            let name = HeaderName::from_bytes(name.as_bytes());
            let name = name.map_err(|_| ConfigError::new(&key, "is not a name of a header"))?;
            let value = HeaderValue::from_str(value);
            let mut value = value
                .map_err(|_| ConfigError::new(&key, "has characters that no header may have"))?;
            value.set_sensitive(true);
            headers.append(name, value);
        }
        Ok(headers)
    }
}

/// The exporter `otlp` (`otlp_grpc`): OTLP over gRPC.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OtlpGrpc {
    /// `host:port`; `http://host:port` is without TLS, `https://host:port` with it. Required.
    pub endpoint: String,
    /// TLS is on unless this says `insecure: true`, or the endpoint begins with `http://`.
    pub tls: ClientTls,
    /// The extension that gives the token.
    pub auth: Option<Auth>,
    /// Sent with each request.
    pub headers: Headers,
    /// `gzip` (default), `zstd` or `none`.
    pub compression: Compression,
    /// The longest one attempt may take. Default `5s`.
    #[serde(deserialize_with = "sampler::duration::deserialize")]
    pub timeout: Duration,
    /// Pings on the connection. Default none.
    pub keepalive: Option<KeepaliveClient>,
    /// When a request is sent again.
    pub retry_on_failure: RetryOnFailure,
    /// How much is sent at once.
    pub sending_queue: SendingQueue,
    /// The `:authority` of requests.
    pub authority: Unused,
    /// One server is used, whichever this says.
    pub balancer_name: Unused,
    /// Bytes.
    pub read_buffer_size: Unused,
    /// Bytes.
    pub write_buffer_size: Unused,
    /// Attempts fail and are made again.
    pub wait_for_ready: Unused,
}

impl Default for OtlpGrpc {
    fn default() -> Self {
        OtlpGrpc {
            endpoint: String::new(),
            tls: ClientTls::default(),
            auth: None,
            headers: Headers::default(),
            compression: Compression::default(),
            timeout: Duration::from_secs(5),
            keepalive: None,
            retry_on_failure: RetryOnFailure::default(),
            sending_queue: SendingQueue::default(),
            authority: Unused::default(),
            balancer_name: Unused::default(),
            read_buffer_size: Unused::default(),
            write_buffer_size: Unused::default(),
            wait_for_ready: Unused::default(),
        }
    }
}

/// `keepalive` of the Collector's gRPC client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KeepaliveClient {
    /// A ping is sent after this time without a sign of life. Default `10s`, the least that grpc-go sends.
    #[serde(deserialize_with = "sampler::duration::deserialize")]
    pub time: Duration,
    /// A connection on which the ping is not answered for this long is closed. Default `10s`.
    #[serde(deserialize_with = "sampler::duration::deserialize")]
    pub timeout: Duration,
    /// Pings also while no export is on its way. Default `false`.
    pub permit_without_stream: bool,
}

impl Default for KeepaliveClient {
    fn default() -> Self {
        KeepaliveClient {
            time: Duration::from_secs(10),
            timeout: Duration::from_secs(10),
            permit_without_stream: false,
        }
    }
}

impl OtlpGrpc {
    /// A client for the endpoint. Reads key material, and must be called inside a Tokio runtime.
    ///
    /// # Errors
    ///
    /// A setting, or a file that it names, that cannot be used.
    pub fn client(&self, authenticators: &Authenticators) -> Result<Client, ConfigError> {
        let url = self.url()?;
        Ok(Client::new(Settings {
            protocol: Protocol::Grpc,
            headers: self.headers.read()?,
            compression: self.compression,
            timeout: self.timeout,
            pings: self.keepalive.map(|keepalive| Pings {
                time: keepalive.time,
                timeout: keepalive.timeout,
                while_idle: keepalive.permit_without_stream,
            }),
            connector: connector(&url, &self.tls, Alpn::Http2)?,
            token: token(self.auth.as_ref(), authenticators)?,
            url,
        }))
    }

    /// Checks everything but files.
    ///
    /// # Errors
    ///
    /// The first setting that cannot be used.
    pub fn validate(&self, authenticators: &Authenticators) -> Result<(), ConfigError> {
        check_common(self.timeout, &self.retry_on_failure, &self.sending_queue)?;
        if let Some(keepalive) = self.keepalive
            && (keepalive.time.is_zero() || keepalive.timeout.is_zero())
        {
            let problem = "must have a `time` and a `timeout` of more than 0s";
            return Err(ConfigError::new("keepalive", problem));
        }
        check_headers(&self.headers, &self.tls, self.auth.as_ref(), authenticators)?;
        self.url().map(drop)
    }

    /// Keys that are written and change nothing.
    pub fn unused(&self) -> Vec<&'static str> {
        let mut unused = written(&[
            ("authority", self.authority),
            ("balancer_name", self.balancer_name),
            ("read_buffer_size", self.read_buffer_size),
            ("write_buffer_size", self.write_buffer_size),
            ("wait_for_ready", self.wait_for_ready),
        ]);
        unused.extend(self.sending_queue.unused());
        unused
    }

    fn url(&self) -> Result<Uri, ConfigError> {
        let expected = "must be `host:port`, as in `tempo:4317`";
        let named = self.endpoint.trim();
        let named = named.strip_prefix("dns://").map_or(named, |target| {
            // `dns://server/name` and `dns:///name`: the name is what counts.
            target.split_once('/').map_or(target, |(_, name)| name)
        });
        let url = match named.split_once("://") {
            Some(_) => named.to_owned(),
            None => format!("{}://{named}", self.tls.scheme()),
        };
        let url = checked(&url, "endpoint", expected)?;
        if url.port_u16().is_none() || !matches!(url.path(), "" | "/") || url.query().is_some() {
            return Err(ConfigError::new("endpoint", expected));
        }
        Ok(url)
    }
}

/// The exporter `otlp_http` (`otlphttp`): OTLP over HTTP.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OtlpHttp {
    /// `http://host:port` or `https://host:port`, with a path if need be; `/v1/traces` is added. This or
    /// `traces_endpoint` is required.
    pub endpoint: String,
    /// The whole URL to post traces to.
    pub traces_endpoint: String,
    /// TLS settings for `https`.
    pub tls: ClientTls,
    /// The extension that gives the token.
    pub auth: Option<Auth>,
    /// Sent with each request.
    pub headers: Headers,
    /// `gzip` (default), `zstd` or `none`.
    pub compression: Compression,
    /// The longest one attempt may take. Default `30s`.
    #[serde(deserialize_with = "sampler::duration::deserialize")]
    pub timeout: Duration,
    /// `proto`, the only one.
    pub encoding: Encoding,
    /// When a request is sent again.
    pub retry_on_failure: RetryOnFailure,
    /// How much is sent at once.
    pub sending_queue: SendingQueue,
    /// Only traces are exported.
    pub metrics_endpoint: Unused,
    /// Only traces are exported.
    pub logs_endpoint: Unused,
    /// Only traces are exported.
    pub profiles_endpoint: Unused,
    /// The level of compression is fixed.
    pub compression_params: Unused,
    /// Bytes.
    pub read_buffer_size: Unused,
    /// Bytes.
    pub write_buffer_size: Unused,
    /// A connection is kept for each request on its way.
    pub max_idle_conns: Unused,
    /// As above.
    pub max_idle_conns_per_host: Unused,
    /// As above.
    pub max_conns_per_host: Unused,
    /// 90 s.
    pub idle_conn_timeout: Unused,
    /// HTTP/1.1 is used.
    pub http2_read_idle_timeout: Unused,
    /// HTTP/1.1 is used.
    pub http2_ping_timeout: Unused,
    /// HTTP/1.1 is used.
    pub force_attempt_http2: Unused,
}

/// How bodies of OTLP/HTTP are encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// Protobuf.
    #[default]
    Proto,
}

impl Default for OtlpHttp {
    fn default() -> Self {
        OtlpHttp {
            endpoint: String::new(),
            traces_endpoint: String::new(),
            tls: ClientTls::default(),
            auth: None,
            headers: Headers::default(),
            compression: Compression::default(),
            timeout: Duration::from_secs(30),
            encoding: Encoding::default(),
            retry_on_failure: RetryOnFailure::default(),
            sending_queue: SendingQueue::default(),
            metrics_endpoint: Unused::default(),
            logs_endpoint: Unused::default(),
            profiles_endpoint: Unused::default(),
            compression_params: Unused::default(),
            read_buffer_size: Unused::default(),
            write_buffer_size: Unused::default(),
            max_idle_conns: Unused::default(),
            max_idle_conns_per_host: Unused::default(),
            max_conns_per_host: Unused::default(),
            idle_conn_timeout: Unused::default(),
            http2_read_idle_timeout: Unused::default(),
            http2_ping_timeout: Unused::default(),
            force_attempt_http2: Unused::default(),
        }
    }
}

impl OtlpHttp {
    /// A client for the endpoint. Reads key material, and must be called inside a Tokio runtime.
    ///
    /// # Errors
    ///
    /// A setting, or a file that it names, that cannot be used.
    pub fn client(&self, authenticators: &Authenticators) -> Result<Client, ConfigError> {
        let url = self.url()?;
        Ok(Client::new(Settings {
            protocol: Protocol::Http,
            headers: self.headers.read()?,
            compression: self.compression,
            timeout: self.timeout,
            pings: None,
            connector: connector(&url, &self.tls, Alpn::Http1)?,
            token: token(self.auth.as_ref(), authenticators)?,
            url,
        }))
    }

    /// Checks everything but files.
    ///
    /// # Errors
    ///
    /// The first setting that cannot be used.
    pub fn validate(&self, authenticators: &Authenticators) -> Result<(), ConfigError> {
        check_common(self.timeout, &self.retry_on_failure, &self.sending_queue)?;
        check_headers(&self.headers, &self.tls, self.auth.as_ref(), authenticators)?;
        self.url().map(drop)
    }

    /// Keys that are written and change nothing.
    pub fn unused(&self) -> Vec<&'static str> {
        let mut unused = written(&[
            ("metrics_endpoint", self.metrics_endpoint),
            ("logs_endpoint", self.logs_endpoint),
            ("profiles_endpoint", self.profiles_endpoint),
            ("compression_params", self.compression_params),
            ("read_buffer_size", self.read_buffer_size),
            ("write_buffer_size", self.write_buffer_size),
            ("max_idle_conns", self.max_idle_conns),
            ("max_idle_conns_per_host", self.max_idle_conns_per_host),
            ("max_conns_per_host", self.max_conns_per_host),
            ("idle_conn_timeout", self.idle_conn_timeout),
            ("http2_read_idle_timeout", self.http2_read_idle_timeout),
            ("http2_ping_timeout", self.http2_ping_timeout),
            ("force_attempt_http2", self.force_attempt_http2),
        ]);
        unused.extend(self.sending_queue.unused());
        unused
    }

    fn url(&self) -> Result<Uri, ConfigError> {
        let expected = "must be a URL, as in `http://tempo:4318`";
        let url = if self.traces_endpoint.is_empty() {
            let endpoint = checked(&self.endpoint, "endpoint", expected)?;
            if endpoint.query().is_some() {
                return Err(ConfigError::new("endpoint", expected));
            }
            let url = format!("{}/v1/traces", self.endpoint.trim().trim_end_matches('/'));
            checked(&url, "endpoint", expected)?
        } else {
            checked(&self.traces_endpoint, "traces_endpoint", expected)?
        };
        Ok(url)
    }
}

/// An absolute URL without credentials, which would be logged.
fn checked(url: &str, key: &str, expected: &str) -> Result<Uri, ConfigError> {
    let wrong = || ConfigError::new(key, expected);
    let url: Uri = url.trim().parse().map_err(|_| wrong())?;
    let authority = url.authority().ok_or_else(wrong)?;
    if authority.as_str().contains('@') {
        let problem = "holds credentials; put them into `headers` or `auth`";
        return Err(ConfigError::new(key, problem));
    }
    match url.scheme_str() {
        Some("http" | "https") if !authority.host().is_empty() => Ok(url),
        _ => Err(wrong()),
    }
}

/// What connects to `url`: where that says `http`, no key material is read.
fn connector(url: &Uri, tls: &ClientTls, alpn: Alpn) -> Result<Connector, ConfigError> {
    let insecure = ClientTls::insecure();
    let is_plain = url.scheme_str() == Some("http");
    let tls = if is_plain { &insecure } else { tls };
    Ok(Connector::new("tls", tls, alpn)?)
}

fn token(
    auth: Option<&Auth>,
    authenticators: &Authenticators,
) -> Result<Option<TokenSource>, ConfigError> {
    let source = auth.map(|auth| authenticators.source("auth", auth));
    Ok(source.transpose()?)
}

fn check_headers(
    headers: &Headers,
    tls: &ClientTls,
    auth: Option<&Auth>,
    authenticators: &Authenticators,
) -> Result<(), ConfigError> {
    headers.read()?;
    tls.validate("tls")?;
    if let Some(auth) = auth {
        authenticators.find("auth", auth)?;
    }
    Ok(())
}

fn check_common(
    timeout: Duration,
    retry: &RetryOnFailure,
    queue: &SendingQueue,
) -> Result<(), ConfigError> {
    if timeout.is_zero() {
        return Err(ConfigError::new("timeout", "must be more than 0s"));
    }
    if let Some((key, problem)) = retry.problem() {
        return Err(ConfigError::new(
            &format!("retry_on_failure::{key}"),
            problem,
        ));
    }
    if !(1..=CONSUMERS_MAX).contains(&queue.num_consumers) {
        let problem = format!("must be from 1 to {CONSUMERS_MAX}");
        return Err(ConfigError::new("sending_queue::num_consumers", problem));
    }
    Ok(())
}

/// Each has a request of 4 MiB in memory.
const CONSUMERS_MAX: u32 = 64;

fn written(keys: &[(&'static str, Unused)]) -> Vec<&'static str> {
    let written = keys.iter().filter(|(_, unused)| unused.0);
    written.map(|(key, _)| *key).collect()
}

#[cfg(test)]
mod tests;
