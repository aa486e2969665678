//! Configuration of the receivers and the intake.
//!
//! The receiver's keys are the Collector's (`receivers.otlp`); `intake` is ours. Unset keys have the
//! defaults of [`Default`]; unknown keys are errors.

use std::time::Duration;

use serde::{Deserialize, Deserializer};
use transport::{Auth, Authenticators, Door, ServerTls};

use crate::error::{Error, Result};

/// Key paths, as errors and messages name them.
pub(crate) const GRPC_KEY: &str = "receivers::otlp::protocols::grpc";
pub(crate) const HTTP_KEY: &str = "receivers::otlp::protocols::http";
pub(crate) const GRPC_ENDPOINT_KEY: &str = "receivers::otlp::protocols::grpc::endpoint";
pub(crate) const HTTP_ENDPOINT_KEY: &str = "receivers::otlp::protocols::http::endpoint";

/// Everything the gateway is told by its user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// The section `receivers.otlp`.
    pub otlp: Otlp,
    /// The section `intake`.
    pub intake: Intake,
    /// The extensions that `auth` may name.
    pub authenticators: Authenticators,
}

/// The OTLP receiver, keys as in the Collector.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Otlp {
    /// Which protocols are served. Required, as in the Collector.
    pub protocols: Protocols,
}

/// The protocols of the OTLP receiver. A protocol that is not named is not served; one that is named
/// without keys (`grpc:`) has its defaults.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Protocols {
    /// OTLP/gRPC.
    #[serde(default, deserialize_with = "named")]
    pub grpc: Option<Grpc>,
    /// OTLP/HTTP.
    #[serde(default, deserialize_with = "named")]
    pub http: Option<Http>,
}

impl Default for Protocols {
    /// Both, with their defaults.
    fn default() -> Self {
        Protocols {
            grpc: Some(Grpc::default()),
            http: Some(Http::default()),
        }
    }
}

/// OTLP/gRPC.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Grpc {
    /// Address to listen on, `host:port`; port 0 takes a free one. Default `127.0.0.1:4317`.
    pub endpoint: String,
    /// TLS, and the authorities of clients' certificates. Unset: plain text.
    #[serde(deserialize_with = "named")]
    pub tls: Option<ServerTls>,
    /// What each request must prove. Unset: nothing.
    pub auth: Option<Auth>,
    /// Largest message in MiB, before and after decompression. Default 64 (the OTLP specification's
    /// recommendation), at least 1, at most 1024.
    pub max_recv_msg_size_mib: u64,
    /// Requests that one connection may have open. Default 256, at least 1.
    pub max_concurrent_streams: u32,
    /// Times of a connection.
    pub keepalive: Keepalive,
}

/// `keepalive` of the Collector's gRPC server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Keepalive {
    /// The server's part.
    pub server_parameters: ServerParameters,
}

/// `keepalive.server_parameters` of the Collector's gRPC server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerParameters {
    /// A connection without a request for this long is closed; its client connects again when it has something
    /// to send. `0s` is no limit, which leaves connections of the dead and the malicious open. Default `5m`.
    #[serde(deserialize_with = "sampler::duration::deserialize")]
    pub max_connection_idle: Duration,
    /// A connection that is older is closed when its requests are answered, so that clients spread anew over
    /// several gateways. Default `0s`: no limit.
    #[serde(deserialize_with = "sampler::duration::deserialize")]
    pub max_connection_age: Duration,
    /// How long its requests may take then. Default `0s`: no limit.
    #[serde(deserialize_with = "sampler::duration::deserialize")]
    pub max_connection_age_grace: Duration,
    /// A ping is sent after this time without a sign of life. Default `20s`, more than `0s`.
    #[serde(deserialize_with = "sampler::duration::deserialize")]
    pub time: Duration,
    /// A connection on which the ping is not answered for this long is closed. Default `20s`, more than `0s`.
    #[serde(deserialize_with = "sampler::duration::deserialize")]
    pub timeout: Duration,
}

impl Default for ServerParameters {
    fn default() -> Self {
        ServerParameters {
            max_connection_idle: Duration::from_secs(300),
            max_connection_age: Duration::ZERO,
            max_connection_age_grace: Duration::ZERO,
            time: Duration::from_secs(20),
            timeout: Duration::from_secs(20),
        }
    }
}

impl Default for Grpc {
    fn default() -> Self {
        Grpc {
            endpoint: "127.0.0.1:4317".to_owned(),
            tls: None,
            auth: None,
            max_recv_msg_size_mib: 64,
            max_concurrent_streams: 256,
            keepalive: Keepalive::default(),
        }
    }
}

impl Grpc {
    /// The limit in bytes.
    pub(crate) fn limit_bytes(&self) -> u64 {
        self.max_recv_msg_size_mib.saturating_mul(1 << 20)
    }
}

/// OTLP/HTTP.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Http {
    /// Address to listen on, `host:port`; port 0 takes a free one. Default `127.0.0.1:4318`.
    pub endpoint: String,
    /// TLS, and the authorities of clients' certificates. Unset: plain text.
    #[serde(deserialize_with = "named")]
    pub tls: Option<ServerTls>,
    /// What each request must prove. Unset: nothing.
    pub auth: Option<Auth>,
    /// Largest body in bytes, before and after decompression. Default 67108864 (64 MiB), at least 1, at
    /// most 1 GiB.
    pub max_request_body_size: u64,
    /// How long a connection may take to its first byte, and to the end of a request's head. Default `1m`, more
    /// than `0s`.
    #[serde(deserialize_with = "sampler::duration::deserialize")]
    pub read_header_timeout: Duration,
    /// A connection without a request for this long is closed. `0s` is no limit. Default `1m`.
    #[serde(deserialize_with = "sampler::duration::deserialize")]
    pub idle_timeout: Duration,
    /// Path of trace exports. Default `/v1/traces`.
    pub traces_url_path: String,
    /// Path of metric exports. Default `/v1/metrics`.
    pub metrics_url_path: String,
    /// Path of log exports. Default `/v1/logs`.
    pub logs_url_path: String,
}

impl Default for Http {
    fn default() -> Self {
        Http {
            endpoint: "127.0.0.1:4318".to_owned(),
            tls: None,
            auth: None,
            max_request_body_size: 64 << 20,
            read_header_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(60),
            traces_url_path: "/v1/traces".to_owned(),
            metrics_url_path: "/v1/metrics".to_owned(),
            logs_url_path: "/v1/logs".to_owned(),
        }
    }
}

/// What happens to undecided traces at shutdown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shutdown {
    /// They stay in the log; the next start goes on with them.
    #[default]
    Keep,
    /// They are decided on what was received, with the trigger `shutdown`.
    Decide,
}

/// When received bytes are synced to the disk. A crash of the process alone loses nothing in any mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sync {
    /// No reply waits for a sync and no time asks for one. A power failure loses what was acknowledged since
    /// the last decision, or what the operating system had not written by then.
    Never,
    /// Every `sync_interval`. A power failure loses what was acknowledged in that time at most.
    #[default]
    Interval,
    /// Before each reply; requests that arrive meanwhile share the next sync. A power failure loses nothing.
    Always,
}

/// Limits and times of the intake.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Intake {
    /// Bytes of exports in memory at once, compressed and inflated ones counted both. Over it, exports are
    /// refused with a retryable answer. Default 536870912 (512 MiB), at least twice the largest message.
    pub bytes_in_flight_max: u64,
    /// Size of the log in bytes over which exports are refused with a retryable answer, until stored
    /// and exported traces give room: what a backend that is down lacks waits there. Where undecided traces keep more than half of it, the oldest are decided early, with
    /// the trigger `disk`. Default 10737418240 (10 GiB).
    pub log_bytes_max: u64,
    /// Heap of undecided traces in bytes, about 256 per trace and 60 per span. Over it the oldest are
    /// decided early, with the trigger `memory`; where that is not enough, exports are refused with a
    /// retryable answer. Default 1073741824 (1 GiB).
    pub pending_heap_bytes_max: u64,
    /// Decided spans that may wait for storage, for as long as that keeps its pace: exports are refused with a
    /// retryable answer when more than three quarters of it will wait once everything is decided that is not. Spans
    /// that are not stored do not count, but each trace counts as one at least. Should be more than storage takes in
    /// `decision_wait`, and than a few commits hold. Default 4000000 (about 160 MB of whole traces; up to 1 GB
    /// where of each trace little more than its row is stored).
    pub release_backlog_spans_max: u64,
    /// Connections that each listener has open at once; more are closed as they come. Default 4096, at least 1.
    /// Each takes a file descriptor (`ulimit -n`).
    pub connections_max: u64,
    /// When the log is synced to the disk: `never`, `interval` (default) or `always`. A decision is synced
    /// before it takes effect in every mode, so a power failure never stores a span twice.
    pub sync: Sync,
    /// How often the log is synced with `sync: interval`. `0s` is the same as `sync: always`. Default `1s`.
    #[serde(deserialize_with = "sampler::duration::deserialize")]
    pub sync_interval: Duration,
    /// How long the body of an export may take to arrive. Default `30s`.
    #[serde(deserialize_with = "sampler::duration::deserialize")]
    pub body_timeout: Duration,
    /// How long open requests may take to finish at shutdown. Default `10s`.
    #[serde(deserialize_with = "sampler::duration::deserialize")]
    pub shutdown_timeout: Duration,
    /// How long the whole stop may take. What is not stored by then is in the log, for the next start. Default
    /// `25s`, which is less than what Kubernetes waits.
    #[serde(deserialize_with = "sampler::duration::deserialize")]
    pub shutdown_deadline: Duration,
    /// A span that starts or ends longer ago is rejected. Default `8784h` (366 days).
    #[serde(deserialize_with = "sampler::duration::deserialize")]
    pub span_age_max: Duration,
    /// A span that starts or ends further in the future is rejected. Default `1h`.
    #[serde(deserialize_with = "sampler::duration::deserialize")]
    pub span_ahead_max: Duration,
    /// What happens to undecided traces at shutdown: `keep` (default) or `decide`.
    pub shutdown: Shutdown,
}

impl Default for Intake {
    fn default() -> Self {
        Intake {
            bytes_in_flight_max: 512 << 20,
            log_bytes_max: 10 << 30,
            pending_heap_bytes_max: 1 << 30,
            release_backlog_spans_max: 4_000_000,
            connections_max: 4096,
            sync: Sync::Interval,
            sync_interval: Duration::from_secs(1),
            body_timeout: Duration::from_secs(30),
            shutdown_timeout: Duration::from_secs(10),
            shutdown_deadline: Duration::from_secs(25),
            span_age_max: Duration::from_secs(366 * 24 * 3600),
            span_ahead_max: Duration::from_secs(3600),
            shutdown: Shutdown::Keep,
        }
    }
}

const MESSAGE_BYTES_MAX: u64 = 1 << 30;

impl Intake {
    /// The mode with the time that belongs to it.
    pub(crate) fn sync_policy(&self) -> SyncPolicy {
        match self.sync {
            Sync::Never => SyncPolicy::Never,
            Sync::Interval if self.sync_interval.is_zero() => SyncPolicy::Always,
            Sync::Interval => SyncPolicy::Interval(self.sync_interval),
            Sync::Always => SyncPolicy::Always,
        }
    }
}

/// What [`Sync`] and `sync_interval` say together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SyncPolicy {
    Never,
    Interval(Duration),
    Always,
}

impl Config {
    /// Checks what types cannot say.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidConfig`] and [`Error::Door`] name the key and what is wrong with it.
    pub fn validate(&self) -> Result<()> {
        let Protocols { grpc, http } = &self.otlp.protocols;
        let (grpc, http) = (grpc.as_ref(), http.as_ref());
        let checks: [(&str, bool, &str); 11] = [
            (
                "receivers::otlp::protocols",
                grpc.is_some() || http.is_some(),
                "names no protocol, expected `grpc` or `http`",
            ),
            (
                "receivers::otlp::protocols::grpc::max_recv_msg_size_mib",
                grpc.is_none_or(|grpc| {
                    (1..=MESSAGE_BYTES_MAX >> 20).contains(&grpc.max_recv_msg_size_mib)
                }),
                "must be from 1 to 1024",
            ),
            (
                "receivers::otlp::protocols::http::max_request_body_size",
                http.is_none_or(|http| {
                    (1..=MESSAGE_BYTES_MAX).contains(&http.max_request_body_size)
                }),
                "must be from 1 to 1073741824 bytes",
            ),
            (
                "receivers::otlp::protocols::http",
                http.is_none_or(Http::has_usable_paths),
                "has paths that are equal or do not start with `/`",
            ),
            (
                "intake::bytes_in_flight_max",
                self.intake.bytes_in_flight_max >= self.message_bytes_max().saturating_mul(2),
                "must be at least twice the largest message (`max_recv_msg_size_mib`, \
                 `max_request_body_size`), which is in memory compressed and inflated",
            ),
            (
                "intake::body_timeout",
                self.intake.body_timeout > Duration::ZERO,
                "must be more than 0s",
            ),
            (
                "receivers::otlp::protocols::grpc::max_concurrent_streams",
                grpc.is_none_or(|grpc| grpc.max_concurrent_streams > 0),
                "must be at least 1",
            ),
            (
                "receivers::otlp::protocols::grpc::keepalive::server_parameters",
                grpc.map(|grpc| grpc.keepalive.server_parameters)
                    .is_none_or(|times| !times.time.is_zero() && !times.timeout.is_zero()),
                "must have a `time` and a `timeout` of more than 0s",
            ),
            (
                "receivers::otlp::protocols::http::read_header_timeout",
                http.is_none_or(|http| !http.read_header_timeout.is_zero()),
                "must be more than 0s",
            ),
            (
                "intake::connections_max",
                self.intake.connections_max > 0,
                "must be at least 1",
            ),
            (
                "intake::release_backlog_spans_max",
                self.intake.release_backlog_spans_max > 0,
                "must be at least 1",
            ),
        ];
        match checks.into_iter().find(|(_, is_right, _)| !is_right) {
            Some((key, _, problem)) => Err(Error::InvalidConfig { key, problem }),
            None => self.validate_doors(),
        }
    }

    fn validate_doors(&self) -> Result<()> {
        let Protocols { grpc, http } = &self.otlp.protocols;
        let known = &self.authenticators;
        if let Some(Grpc { tls, auth, .. }) = grpc {
            Door::validate(GRPC_KEY, tls.as_ref(), auth.as_ref(), known).map_err(Error::Door)?;
        }
        if let Some(Http { tls, auth, .. }) = http {
            Door::validate(HTTP_KEY, tls.as_ref(), auth.as_ref(), known).map_err(Error::Door)?;
        }
        Ok(())
    }

    /// The largest message of any protocol.
    pub(crate) fn message_bytes_max(&self) -> u64 {
        let grpc = self
            .otlp
            .protocols
            .grpc
            .as_ref()
            .map_or(0, Grpc::limit_bytes);
        let http = self
            .otlp
            .protocols
            .http
            .as_ref()
            .map_or(0, |http| http.max_request_body_size);
        grpc.max(http)
    }
}

impl Http {
    fn has_usable_paths(&self) -> bool {
        let [a, b, c] = [
            &self.traces_url_path,
            &self.metrics_url_path,
            &self.logs_url_path,
        ];
        [a, b, c].into_iter().all(|path| path.starts_with('/')) && a != b && b != c && a != c
    }
}

/// Reads a key that may be present without a value: the Collector's `grpc:` means the defaults.
fn named<'de, T, D>(deserializer: D) -> std::result::Result<Option<T>, D::Error>
where
    T: Deserialize<'de> + Default,
    D: Deserializer<'de>,
{
    Ok(Some(Option::deserialize(deserializer)?.unwrap_or_default()))
}

#[cfg(test)]
mod tests;
