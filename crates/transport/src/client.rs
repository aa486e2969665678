//! The client's side: `tls` of an exporter, and a connector for hyper and tonic.
//!
//! ```no_run
//! # fn example(tls: &transport::ClientTls) -> transport::Result<()> {
//! let connector = transport::Connector::new("exporters::otlp::tls", tls, transport::Alpn::Http2)?;
//! // hyper: Client::builder(TokioExecutor::new()).build(connector)
//! // tonic: Endpoint::from_static("https://backend:4317").connect_with_connector_lazy(connector)
//! # drop(connector);
//! # Ok(())
//! # }
//! ```
//!
//! The scheme of the address decides: `https` is TLS with these settings, `http` is without. An OTLP/gRPC
//! endpoint has no scheme in the Collector; there [`ClientTls::scheme`] says which one is meant.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use http::Uri;
use hyper_util::{client::legacy::connect::HttpConnector, rt::TokioIo};
use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use serde::Deserialize;
use tokio::{net::TcpStream, time};
use tokio_rustls::{TlsConnector, TlsStream};
use tower_service::Service;

use crate::{
    error::{Error, Result},
    material::Source,
    secret::Secret,
    stream::Stream,
    suites::{Alpn, Suites},
    watched::{Load, Watched},
};

/// How long connecting may take, and the handshake after it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// `tls` of an exporter, keys as in the Collector. Texts and lists that are empty are unset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClientTls {
    /// No TLS where the endpoint names no scheme. Default `false`.
    pub insecure: bool,
    /// The server's certificate is not checked at all: anybody in between can read and change everything. Default
    /// `false`.
    pub insecure_skip_verify: bool,
    /// File with the authorities that the server's certificate must come from. Unset: those of the system.
    pub ca_file: String,
    /// The same as text.
    pub ca_pem: Secret,
    /// The authorities of the system beside those of `ca_file`. Default `false`.
    pub include_system_ca_certs_pool: bool,
    /// File with the client's certificate and its chain, for mTLS. Needs `key_file`.
    pub cert_file: String,
    /// The same as text.
    pub cert_pem: Secret,
    /// File with the private key of the certificate, not encrypted.
    pub key_file: String,
    /// The same as text.
    pub key_pem: Secret,
    /// The name that the server's certificate must have, instead of the host of the endpoint.
    pub server_name_override: String,
    /// `1.2` (default) or `1.3`.
    pub min_version: String,
    /// `1.2` or `1.3` (default).
    pub max_version: String,
    /// TLS 1.2 suites by their IANA names. Unset: all safe ones. Those of TLS 1.3 are not configurable.
    pub cipher_suites: Vec<String>,
    /// `X25519`, `P256`, `P384`, best first. Unset: all.
    pub curve_preferences: Vec<String>,
    /// How often the files are looked at for a change; open connections stay as they are. Unset, and `0s`: never.
    #[serde(deserialize_with = "crate::time_span::optional")]
    pub reload_interval: Option<Duration>,
}

impl ClientTls {
    /// Plain text where no scheme is named.
    pub fn insecure() -> ClientTls {
        ClientTls {
            insecure: true,
            ..ClientTls::default()
        }
    }

    /// `https`, or `http` with `insecure: true`: for an endpoint without a scheme of its own.
    pub fn scheme(&self) -> &'static str {
        if self.insecure { "http" } else { "https" }
    }

    /// Checks everything but the files.
    ///
    /// # Errors
    ///
    /// [`Error`] names the key below the section `key`.
    pub fn validate(&self, key: &str) -> Result<()> {
        self.read(key, Alpn::Http2OrHttp1).map(drop)
    }

    fn read(&self, key: &str, alpn: Alpn) -> Result<Client> {
        let authorities =
            Source::either(key, ("ca_file", &self.ca_file), ("ca_pem", &self.ca_pem))?;
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
        let pair = pair(key, certificate, private_key)?;
        let versions = (self.min_version.as_str(), self.max_version.as_str());
        let suites = Suites::read(key, versions, &self.cipher_suites, &self.curve_preferences)?;
        let server_name = match self.server_name_override.as_str() {
            "" => None,
            name => Some(server_name(name).map_err(|_| Error::Unknown {
                key: format!("{key}::server_name_override"),
                value: name.to_owned(),
                known: "host names and addresses".to_owned(),
            })?),
        };
        Ok(Client {
            key: key.to_owned(),
            name: format!("key material of `{key}`"),
            with_system: authorities.is_none() || self.include_system_ca_certs_pool,
            authorities,
            pair,
            suites,
            is_unverified: self.insecure_skip_verify,
            alpn,
            server_name,
        })
    }
}

/// Certificate and key, or neither.
pub(crate) fn pair(
    key: &str,
    certificate: Option<Source>,
    private_key: Option<Source>,
) -> Result<Option<(Source, Source)>> {
    match (certificate, private_key) {
        (Some(certificate), Some(private_key)) => Ok(Some((certificate, private_key))),
        (None, None) => Ok(None),
        (Some(_), None) => Err(Error::Incomplete {
            key: key.to_owned(),
            present: "cert_file",
            missing: "key_file",
        }),
        (None, Some(_)) => Err(Error::Incomplete {
            key: key.to_owned(),
            present: "key_file",
            missing: "cert_file",
        }),
    }
}

fn server_name(host: &str) -> Result<ServerName<'static>, rustls::pki_types::InvalidDnsNameError> {
    // An IPv6 address stands in brackets in an address of the web.
    let host = host.trim_start_matches('[').trim_end_matches(']');
    ServerName::try_from(host.to_owned())
}

/// The settings, checked.
struct Client {
    key: String,
    name: String,
    authorities: Option<Source>,
    with_system: bool,
    pair: Option<(Source, Source)>,
    suites: Suites,
    is_unverified: bool,
    alpn: Alpn,
    server_name: Option<ServerName<'static>>,
}

impl Client {
    fn roots(&self, contents: Option<&Vec<u8>>) -> Result<RootCertStore> {
        let mut roots = RootCertStore::empty();
        if let (Some(source), Some(bytes)) = (&self.authorities, contents) {
            source.add_authorities(bytes, &mut roots)?;
        }
        if self.with_system && !self.is_unverified {
            // A system has some that cannot be used; those that can are what counts.
            let system = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(system.certs);
            if roots.is_empty() {
                return Err(Error::NoAuthorities {
                    key: self.key.clone(),
                });
            }
        }
        Ok(roots)
    }
}

impl Load for Client {
    type Value = Arc<ClientConfig>;

    fn name(&self) -> &str {
        &self.name
    }

    fn sources(&self) -> Vec<&Source> {
        let pair = self.pair.iter().flat_map(|(cert, key)| [cert, key]);
        pair.chain(&self.authorities).collect()
    }

    fn build(&self, contents: &[Vec<u8>]) -> Result<Arc<ClientConfig>> {
        let mut contents = contents.iter();
        let pair = match &self.pair {
            Some((certificate, private_key)) => {
                contents
                    .next()
                    .zip(contents.next())
                    .map(|(certificate_bytes, key_bytes)| {
                        Ok::<_, Error>((
                            certificate.certificates(certificate_bytes)?,
                            private_key.private_key(key_bytes)?,
                        ))
                    })
            }
            None => None,
        };
        let pair = pair.transpose()?;
        let roots = self.roots(contents.next())?;
        let provider = Arc::clone(&self.suites.provider);
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&self.suites.versions)
            .map_err(|source| Error::NothingInCommon {
                key: self.key.clone(),
                source: Some(source),
            })?;
        let builder = if self.is_unverified {
            builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Unverified(provider)))
        } else {
            builder.with_root_certificates(roots)
        };
        let mut config = match pair {
            Some((certificates, private_key)) => builder
                .with_client_auth_cert(certificates, private_key)
                .map_err(|source| Error::Pair {
                    key: self.key.clone(),
                    source,
                })?,
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = self.alpn.protocols();
        Ok(Arc::new(config))
    }
}

/// Connects, with TLS where the address begins with `https`. Clones share the settings.
///
/// A [`Service`] for hyper-util's client and for tonic's `connect_with_connector`.
#[derive(Clone, Debug)]
pub struct Connector {
    tcp: HttpConnector,
    /// `None`: only `http` addresses are connected.
    tls: Option<Arc<Tls>>,
    timeout: Duration,
}

#[derive(Debug)]
struct Tls {
    config: Watched<Arc<ClientConfig>>,
    server_name: Option<ServerName<'static>>,
}

impl Connector {
    /// Reads the key material of the section `key`, which is named in errors. With `insecure: true` nothing is
    /// read, and an `https` address is an error when it is connected.
    ///
    /// With a `reload_interval` it must be called inside a Tokio runtime.
    ///
    /// # Errors
    ///
    /// Settings that contradict each other, files that cannot be read or used.
    pub fn new(key: &str, tls: &ClientTls, alpn: Alpn) -> Result<Connector> {
        let client = tls.read(key, alpn)?;
        let tls = if tls.insecure {
            None
        } else {
            let server_name = client.server_name.clone();
            let config = Watched::open(client, tls.reload_interval)?;
            Some(Arc::new(Tls {
                config,
                server_name,
            }))
        };
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        Ok(Connector {
            tcp,
            tls,
            timeout: CONNECT_TIMEOUT,
        }
        .connect_timeout(CONNECT_TIMEOUT))
    }

    /// Another limit than 10 s for connecting, and for the handshake after it.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Connector {
        self.tcp.set_connect_timeout(Some(timeout));
        self.timeout = timeout;
        self
    }

    /// The handshake on a connection that began in clear text, as the protocol of Postgres has it.
    ///
    /// # Errors
    ///
    /// The peer is not who it should be, or goes away.
    pub async fn encrypt(&self, tcp: TcpStream, host: &str) -> Result<Stream, ConnectError> {
        let tls = self.tls.as_ref().ok_or(ConnectError::Insecure)?;
        tls.shake_hands(tcp, host.to_owned(), self.timeout).await
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Stream>;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, ConnectError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        self.tcp
            .poll_ready(cx)
            .map_err(|error| ConnectError::Tcp(error.into()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let is_tls = uri.scheme_str() == Some("https");
        let host = uri.host().unwrap_or_default().to_owned();
        let (tls, timeout) = (self.tls.clone(), self.timeout);
        let connecting = self.tcp.call(uri);
        Box::pin(async move {
            if is_tls && tls.is_none() {
                return Err(ConnectError::Insecure);
            }
            let tcp = connecting
                .await
                .map_err(|error| ConnectError::Tcp(error.into()))?;
            let tcp = tcp.into_inner();
            let stream = match tls.filter(|_| is_tls) {
                Some(tls) => tls.shake_hands(tcp, host, timeout).await?,
                None => Stream::Plain(tcp),
            };
            Ok(TokioIo::new(stream))
        })
    }
}

impl Tls {
    async fn shake_hands(
        &self,
        tcp: TcpStream,
        host: String,
        limit: Duration,
    ) -> Result<Stream, ConnectError> {
        let name = match &self.server_name {
            Some(name) => name.clone(),
            None => server_name(&host).map_err(|_| ConnectError::ServerName { host })?,
        };
        let config = Arc::clone(&*self.config.current());
        let handshake = TlsConnector::from(config).connect(name, tcp);
        let tls = time::timeout(limit, handshake)
            .await
            .map_err(|_| ConnectError::TimedOut { limit })?
            .map_err(ConnectError::Handshake)?;
        Ok(Stream::Tls(Box::new(TlsStream::Client(tls))))
    }
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The address asks for TLS and the settings say `insecure`.
    #[error("the address begins with `https`, but `tls::insecure` is set")]
    Insecure,
    /// The host cannot be named in a handshake.
    #[error("`{host}` is not a host name or address")]
    ServerName {
        /// The host of the address.
        host: String,
    },
    /// No TCP connection.
    #[error("cannot connect")]
    Tcp(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The handshake failed.
    #[error("TLS handshake failed")]
    Handshake(#[source] io::Error),
    /// The handshake did not end in time.
    #[error("TLS handshake took longer than {limit:?}")]
    TimedOut {
        /// The limit.
        limit: Duration,
    },
}

/// Takes any certificate: `insecure_skip_verify`. Signatures are still checked, so that the server has at least
/// the key of the certificate that it shows.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
