//! Versions, cipher suites, curves and protocols, by the names that the Collector uses.
//!
//! As in the Collector `cipher_suites` restricts TLS 1.2 alone: those of TLS 1.3 are not configurable.

use std::sync::Arc;

use rustls::{
    NamedGroup, ProtocolVersion, SupportedProtocolVersion,
    crypto::{CryptoProvider, ring},
    version::{TLS12, TLS13},
};

use crate::error::{Error, Result};

/// What both sides of a handshake offer to speak inside (ALPN).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alpn {
    /// HTTP/2 alone, as gRPC needs it.
    Http2,
    /// HTTP/1.1 alone.
    Http1,
    /// HTTP/2 rather than HTTP/1.1.
    Http2OrHttp1,
    /// The protocol of Postgres alone; clients that name none are taken too.
    Postgres,
}

pub(crate) const H2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";
const POSTGRES: &[u8] = b"postgresql";

impl Alpn {
    pub(crate) fn protocols(self) -> Vec<Vec<u8>> {
        match self {
            Alpn::Http2 => vec![H2.to_vec()],
            Alpn::Http1 => vec![HTTP1.to_vec()],
            Alpn::Http2OrHttp1 => vec![H2.to_vec(), HTTP1.to_vec()],
            Alpn::Postgres => vec![POSTGRES.to_vec()],
        }
    }
}

/// What a handshake may use.
#[derive(Clone)]
pub(crate) struct Suites {
    pub(crate) provider: Arc<CryptoProvider>,
    pub(crate) versions: Vec<&'static SupportedProtocolVersion>,
}

const CURVES: [(&str, NamedGroup); 3] = [
    ("X25519", NamedGroup::X25519),
    ("P256", NamedGroup::secp256r1),
    ("P384", NamedGroup::secp384r1),
];

impl Suites {
    /// Reads the keys of the section `key`; empty text and lists are unset.
    pub(crate) fn read(
        key: &str,
        (min_version, max_version): (&str, &str),
        cipher_suites: &[String],
        curve_preferences: &[String],
    ) -> Result<Suites> {
        let min = version(key, "min_version", min_version)?.unwrap_or(&TLS12);
        let max = version(key, "max_version", max_version)?.unwrap_or(&TLS13);
        let versions: Vec<_> = [&TLS13, &TLS12]
            .into_iter()
            .filter(|version| (number(min)..=number(max)).contains(&number(version)))
            .collect();
        if versions.is_empty() {
            return Err(Error::NothingInCommon {
                key: key.to_owned(),
                source: None,
            });
        }
        let mut provider = ring::default_provider();
        if !cipher_suites.is_empty() {
            restrict_ciphers(&mut provider, key, cipher_suites)?;
        }
        if !curve_preferences.is_empty() {
            restrict_curves(&mut provider, key, curve_preferences)?;
        }
        Ok(Suites {
            provider: Arc::new(provider),
            versions,
        })
    }
}

fn number(version: &SupportedProtocolVersion) -> u16 {
    u16::from(version.version)
}

fn version(
    section: &str,
    name: &str,
    value: &str,
) -> Result<Option<&'static SupportedProtocolVersion>> {
    match value {
        "" => Ok(None),
        "1.2" => Ok(Some(&TLS12)),
        "1.3" => Ok(Some(&TLS13)),
        _ => Err(Error::Unknown {
            key: format!("{section}::{name}"),
            value: value.to_owned(),
            known: "`1.2`, `1.3`; older versions are not safe and not spoken here".to_owned(),
        }),
    }
}

fn restrict_ciphers(provider: &mut CryptoProvider, section: &str, names: &[String]) -> Result<()> {
    // The names of TLS 1.2 suites are IANA's in both rustls and Go.
    let name_of = |suite: &rustls::SupportedCipherSuite| format!("{:?}", suite.suite());
    let is_tls12 =
        |suite: &rustls::SupportedCipherSuite| suite.version().version == ProtocolVersion::TLSv1_2;
    let known: Vec<String> = provider
        .cipher_suites
        .iter()
        .filter(|suite| is_tls12(suite))
        .map(name_of)
        .collect();
    if let Some(wrong) = names.iter().find(|name| !known.contains(name)) {
        return Err(Error::Unknown {
            key: format!("{section}::cipher_suites"),
            value: wrong.clone(),
            known: listed(known.iter().map(String::as_str)),
        });
    }
    provider
        .cipher_suites
        .retain(|suite| !is_tls12(suite) || names.contains(&name_of(suite)));
    Ok(())
}

fn restrict_curves(provider: &mut CryptoProvider, section: &str, names: &[String]) -> Result<()> {
    let mut groups = Vec::new();
    for name in names {
        let known = CURVES.iter().find(|(known, _)| known == name);
        let group = known.and_then(|(_, group)| {
            provider
                .kx_groups
                .iter()
                .find(|candidate| candidate.name() == *group)
        });
        let Some(group) = group else {
            return Err(Error::Unknown {
                key: format!("{section}::curve_preferences"),
                value: name.clone(),
                known: listed(CURVES.iter().map(|(name, _)| *name)),
            });
        };
        groups.push(*group);
    }
    provider.kx_groups = groups;
    Ok(())
}

/// Words in backquotes, for a message.
pub(crate) fn listed<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let words: Vec<String> = words.map(|word| format!("`{word}`")).collect();
    if words.is_empty() {
        "none".to_owned()
    } else {
        words.join(", ")
    }
}
