//! The listener's side: `tls` of a receiver, and the handshake of one connection.
//!
//! A handshake belongs to the task of its connection, never to the loop that accepts, and ends within
//! `handshake_timeout`: a peer that says nothing costs a file descriptor for that long.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use rustls::{RootCertStore, ServerConfig, server::WebPkiClientVerifier};
use serde::Deserialize;
use tokio::{net::TcpStream, time};
use tokio_rustls::{TlsAcceptor, TlsStream};

use crate::{
    client::pair,
    error::{Error, Result},
    material::Source,
    secret::Secret,
    stream::Stream,
    suites::{Alpn, Suites},
    watched::{Load, Watched},
};

/// How often files are looked at with `client_ca_file_reload` alone; the Collector is told by the file system.
const CLIENT_CA_INTERVAL: Duration = Duration::from_secs(1);

/// `tls` of a listener, keys as in the Collector, and `handshake_timeout`. Texts and lists that are empty are
/// unset.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerTls {
    /// File with the certificate and its chain, the certificate first.
    pub cert_file: String,
    /// The same as text.
    pub cert_pem: Secret,
    /// File with the private key of the certificate, not encrypted.
    pub key_file: String,
    /// The same as text.
    pub key_pem: Secret,
    /// File with the authorities that clients' certificates must come from; all certificates in it count. Clients
    /// without such a certificate are refused. Unset: clients show none.
    pub client_ca_file: String,
    /// Looks at the files every second where there is no `reload_interval`. Default `false`.
    pub client_ca_file_reload: bool,
    /// `1.2` (default) or `1.3`.
    pub min_version: String,
    /// `1.2` or `1.3` (default).
    pub max_version: String,
    /// TLS 1.2 suites by their IANA names. Unset: all safe ones. Those of TLS 1.3 are not configurable.
    pub cipher_suites: Vec<String>,
    /// `X25519`, `P256`, `P384`, best first. Unset: all.
    pub curve_preferences: Vec<String>,
    /// How often all files are looked at for a change; open connections stay as they are. Unset, and `0s`: never.
    #[serde(deserialize_with = "crate::time_span::optional")]
    pub reload_interval: Option<Duration>,
    /// How long a handshake may take. Default `10s`, more than `0s`.
    #[serde(deserialize_with = "crate::time_span::deserialize")]
    pub handshake_timeout: Duration,
}

impl Default for ServerTls {
    fn default() -> Self {
        ServerTls {
            cert_file: String::new(),
            cert_pem: Secret::default(),
            key_file: String::new(),
            key_pem: Secret::default(),
            client_ca_file: String::new(),
            client_ca_file_reload: false,
            min_version: String::new(),
            max_version: String::new(),
            cipher_suites: Vec::new(),
            curve_preferences: Vec::new(),
            reload_interval: None,
            handshake_timeout: Duration::from_secs(10),
        }
    }
}

impl ServerTls {
    /// Checks everything but the files.
    ///
    /// # Errors
    ///
    /// [`Error`] names the key below the section `key`.
    pub fn validate(&self, key: &str) -> Result<()> {
        self.read(key, Alpn::Http2OrHttp1).map(drop)
    }

    fn read(&self, key: &str, alpn: Alpn) -> Result<Server> {
        if self.handshake_timeout.is_zero() {
            return Err(Error::ZeroTime {
                key: format!("{key}::handshake_timeout"),
            });
        }
        let certificate = Source::either(
            key,
            ("cert_file", &self.cert_file),
            ("cert_pem", &self.cert_pem),
        )?;
        let private_key = Source::either(
            key,
            ("key_file", &self.key_file),
            ("key_pem", &self.key_pem),
        )?;
        let has_client_ca = !self.client_ca_file.is_empty();
        let missing = |present| Error::Incomplete {
            key: key.to_owned(),
            present,
            missing: "cert_file",
        };
        let Some((certificate, private_key)) = pair(key, certificate, private_key)? else {
            return Err(if has_client_ca {
                missing("client_ca_file")
            } else {
                Error::NoCertificate {
                    key: key.to_owned(),
                }
            });
        };
        let versions = (self.min_version.as_str(), self.max_version.as_str());
        Ok(Server {
            key: key.to_owned(),
            name: format!("key material of `{key}`"),
            certificate,
            private_key,
            client_ca: has_client_ca
                .then(|| Source::file(key, "client_ca_file", &self.client_ca_file)),
            suites: Suites::read(key, versions, &self.cipher_suites, &self.curve_preferences)?,
            alpn,
        })
    }

    fn interval(&self) -> Option<Duration> {
        let of_client_ca = self.client_ca_file_reload.then_some(CLIENT_CA_INTERVAL);
        self.reload_interval.or(of_client_ca)
    }
}

/// The settings, checked.
struct Server {
    key: String,
    name: String,
    certificate: Source,
    private_key: Source,
    client_ca: Option<Source>,
    suites: Suites,
    alpn: Alpn,
}

impl Load for Server {
    type Value = Arc<ServerConfig>;

    fn name(&self) -> &str {
        &self.name
    }

    fn sources(&self) -> Vec<&Source> {
        let pair = [&self.certificate, &self.private_key];
        pair.into_iter().chain(&self.client_ca).collect()
    }

    fn build(&self, contents: &[Vec<u8>]) -> Result<Arc<ServerConfig>> {
        let of = |idx: usize| contents.get(idx).map(Vec::as_slice).unwrap_or_default();
        let certificates = self.certificate.certificates(of(0))?;
        let private_key = self.private_key.private_key(of(1))?;
        let provider = &self.suites.provider;
        let builder = ServerConfig::builder_with_provider(Arc::clone(provider))
            .with_protocol_versions(&self.suites.versions)
            .map_err(|source| Error::NothingInCommon {
                key: self.key.clone(),
                source: Some(source),
            })?;
        let builder = match &self.client_ca {
            None => builder.with_no_client_auth(),
            Some(source) => {
                let mut roots = RootCertStore::empty();
                source.add_authorities(of(2), &mut roots)?;
                let roots = Arc::new(roots);
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(provider));
                let verifier = verifier.build().map_err(|error| Error::Authority {
                    key: source.key.clone(),
                    problem: error.to_string(),
                })?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder
            .with_single_cert(certificates, private_key)
            .map_err(|source| Error::Pair {
                key: self.key.clone(),
                source,
            })?;
        config.alpn_protocols = self.alpn.protocols();
        Ok(Arc::new(config))
    }
}

/// Shakes hands with those who connect.
#[derive(Debug)]
pub struct Acceptor {
    config: Watched<Arc<ServerConfig>>,
    timeout: Duration,
}

impl Acceptor {
    /// Reads the key material of the section `key`, which is named in errors. With a `reload_interval` it must be
    /// called inside a Tokio runtime.
    ///
    /// # Errors
    ///
    /// Settings that contradict each other, files that cannot be read or used.
    pub fn open(key: &str, tls: &ServerTls, alpn: Alpn) -> Result<Acceptor> {
        let server = tls.read(key, alpn)?;
        Ok(Acceptor {
            config: Watched::open(server, tls.interval())?,
            timeout: tls.handshake_timeout,
        })
    }

    /// The handshake of one connection, with the certificate that is in use now.
    ///
    /// # Errors
    ///
    /// The peer does not speak TLS, proves nothing, goes away, or takes too long.
    pub async fn accept(&self, tcp: TcpStream) -> Result<Stream, HandshakeError> {
        let config = Arc::clone(&*self.config.current());
        let handshake = TlsAcceptor::from(config).accept(tcp);
        match time::timeout(self.timeout, handshake).await {
            Ok(Ok(stream)) => Ok(Stream::Tls(Box::new(TlsStream::Server(stream)))),
            Ok(Err(source)) => Err(HandshakeError {
                reason: HandshakeFailure::of(&source),
                source: Some(source),
            }),
            Err(_elapsed) => Err(HandshakeError {
                reason: HandshakeFailure::TimedOut,
                source: None,
            }),
        }
    }
}

/// A handshake that came to nothing.
#[derive(Debug, thiserror::Error)]
#[error("TLS handshake failed ({})", .reason.as_str())]
pub struct HandshakeError {
    /// Why, for counting.
    pub reason: HandshakeFailure,
    /// What was seen.
    pub source: Option<io::Error>,
}

/// The closed set of reasons under which failed handshakes are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeFailure {
    /// It took longer than `handshake_timeout`.
    TimedOut,
    /// What came was not TLS.
    NotTls,
    /// The client has shown no certificate.
    NoCertificate,
    /// The client's certificate is not of a known authority, has expired or is broken.
    BadCertificate,
    /// The peer has said why it does not go on: it does not trust our certificate, usually.
    RefusedByPeer,
    /// No version, cipher suite or protocol in common.
    NothingInCommon,
    /// The connection broke.
    Broken,
    /// It was not begun: too many others had not ended.
    TooMany,
}

impl HandshakeFailure {
    /// Every reason.
    pub const ALL: [HandshakeFailure; 8] = [
        HandshakeFailure::TimedOut,
        HandshakeFailure::NotTls,
        HandshakeFailure::NoCertificate,
        HandshakeFailure::BadCertificate,
        HandshakeFailure::RefusedByPeer,
        HandshakeFailure::NothingInCommon,
        HandshakeFailure::Broken,
        HandshakeFailure::TooMany,
    ];

    /// The value of a metric's label.
    pub fn as_str(self) -> &'static str {
        match self {
            HandshakeFailure::TimedOut => "timed_out",
            HandshakeFailure::NotTls => "not_tls",
            HandshakeFailure::NoCertificate => "no_certificate",
            HandshakeFailure::BadCertificate => "bad_certificate",
            HandshakeFailure::RefusedByPeer => "refused_by_peer",
            HandshakeFailure::NothingInCommon => "nothing_in_common",
            HandshakeFailure::Broken => "broken",
            HandshakeFailure::TooMany => "too_many",
        }
    }

    fn of(error: &io::Error) -> HandshakeFailure {
        let inner = error
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<rustls::Error>());
        match inner {
            Some(rustls::Error::InvalidMessage(_)) => HandshakeFailure::NotTls,
            Some(rustls::Error::NoCertificatesPresented) => HandshakeFailure::NoCertificate,
            Some(rustls::Error::InvalidCertificate(_)) => HandshakeFailure::BadCertificate,
            Some(rustls::Error::AlertReceived(_)) => HandshakeFailure::RefusedByPeer,
            Some(rustls::Error::PeerIncompatible(_) | rustls::Error::NoApplicationProtocol) => {
                HandshakeFailure::NothingInCommon
            }
            Some(_) | None => HandshakeFailure::Broken,
        }
    }
}

/// Failed handshakes by reason.
#[derive(Debug, Default)]
pub struct HandshakeFailures([AtomicU64; HandshakeFailure::ALL.len()]);

impl HandshakeFailures {
    /// Counts one.
    pub fn count(&self, reason: HandshakeFailure) {
        if let Some(counter) = self.0.get(reason as usize) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Each reason with its count so far.
    pub fn counts(&self) -> impl Iterator<Item = (HandshakeFailure, u64)> {
        let counts = HandshakeFailure::ALL.iter().zip(&self.0);
        counts.map(|(reason, count)| (*reason, count.load(Ordering::Relaxed)))
    }
}
