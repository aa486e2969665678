//! Bearer tokens, with the keys of the Collector's `bearertokenauth`: the check of a request, and the header of a
//! client.
//!
//! What is checked: the request has the header once, its scheme is the configured one in any case, and what
//! follows is one of the tokens, whole. Tokens are compared in a time that depends on their lengths alone. A
//! request is checked by its head, before its body is read.

use std::{collections::BTreeMap, sync::OnceLock, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use subtle::ConstantTimeEq;

use crate::{
    error::{Error, Result},
    material::Source,
    scram::{Scram, Verifiers},
    secret::Secret,
    suites::listed,
    watched::{Load, Watched},
};

/// How often the file with tokens is looked at; the Collector is told by the file system.
const FILE_INTERVAL: Duration = Duration::from_secs(1);

/// `auth` of a receiver's protocol, an exporter or an extension.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Auth {
    /// Id of an extension, such as `bearertokenauth` or `bearertokenauth/readers`.
    pub authenticator: String,
}

/// The extension `bearertokenauth`, keys as in the Collector.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BearerTokenAuth {
    /// The only token.
    pub token: Secret,
    /// Several tokens: a listener takes each of them, a client sends the first.
    pub tokens: Vec<Secret>,
    /// File with tokens, one a line, looked at every second. `token` and `tokens` are not used beside it.
    pub filename: String,
    /// What stands before the token, in any case. Default `Bearer`; an empty text is none.
    pub scheme: String,
    /// Name of the header. Default `Authorization`.
    pub header: String,
}

impl Default for BearerTokenAuth {
    fn default() -> Self {
        BearerTokenAuth {
            token: Secret::default(),
            tokens: Vec::new(),
            filename: String::new(),
            scheme: "Bearer".to_owned(),
            header: "Authorization".to_owned(),
        }
    }
}

impl BearerTokenAuth {
    /// Checks everything but the file.
    ///
    /// # Errors
    ///
    /// [`Error`] names the key below the section `key`.
    pub fn validate(&self, key: &str) -> Result<()> {
        let (tokens, _) = self.read(key)?;
        if tokens.file.is_none() {
            tokens.build(&[])?;
        }
        Ok(())
    }

    fn read(&self, key: &str) -> Result<(Tokens, HeaderName)> {
        let wrong = |name: &str| Error::NotAHeader {
            key: format!("{key}::{name}"),
        };
        let has_token = !self.token.expose().is_empty();
        if has_token && !self.tokens.is_empty() {
            return Err(Error::Both {
                key: key.to_owned(),
                first: "token",
                second: "tokens",
            });
        }
        let given = has_token.then(|| self.token.clone());
        let tokens = Tokens {
            key: key.to_owned(),
            name: format!("file with tokens of `{key}`"),
            given: given.into_iter().chain(self.tokens.clone()).collect(),
            file: (!self.filename.is_empty())
                .then(|| Source::file(key, "filename", &self.filename)),
            scheme: self.scheme.clone(),
        };
        let is_visible = self.scheme.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_visible {
            return Err(wrong("scheme"));
        }
        let header = HeaderName::try_from(&self.header).map_err(|_| wrong("header"))?;
        Ok((tokens, header))
    }
}

/// The extensions `bearertokenauth` that are in use, by id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Authenticators(pub BTreeMap<String, BearerTokenAuth>);

impl Authenticators {
    /// The extension that the section `key` names.
    ///
    /// # Errors
    ///
    /// There is none of that id.
    pub fn find(&self, key: &str, auth: &Auth) -> Result<&BearerTokenAuth> {
        self.0
            .get(&auth.authenticator)
            .ok_or_else(|| Error::UnknownAuthenticator {
                key: key.to_owned(),
                authenticator: auth.authenticator.clone(),
                known: listed(self.0.keys().map(String::as_str)),
            })
    }

    /// The check for a listener whose section `auth` is at `key`.
    ///
    /// # Errors
    ///
    /// As [`TokenCheck::open`] and [`Authenticators::find`].
    pub fn check(&self, key: &str, auth: &Auth) -> Result<TokenCheck> {
        let settings = self.find(key, auth)?;
        TokenCheck::open(&extension(&auth.authenticator), settings)
    }

    /// The header for a client whose section `auth` is at `key`.
    ///
    /// # Errors
    ///
    /// As [`TokenSource::open`] and [`Authenticators::find`].
    pub fn source(&self, key: &str, auth: &Auth) -> Result<TokenSource> {
        let settings = self.find(key, auth)?;
        TokenSource::open(&extension(&auth.authenticator), settings)
    }
}

fn extension(id: &str) -> String {
    format!("extensions::{id}")
}

/// The settings, checked.
struct Tokens {
    key: String,
    name: String,
    given: Vec<Secret>,
    file: Option<Source>,
    scheme: String,
}

/// Tokens in use.
pub(crate) struct Known {
    pub(crate) tokens: Vec<Secret>,
    /// What a client sends.
    header: HeaderValue,
    /// For proofs without sending the token; derived when the first one is asked for.
    pub(crate) verifiers: OnceLock<Verifiers>,
}

impl Load for Tokens {
    type Value = Known;

    fn name(&self) -> &str {
        &self.name
    }

    fn sources(&self) -> Vec<&Source> {
        self.file.iter().collect()
    }

    fn build(&self, contents: &[Vec<u8>]) -> Result<Known> {
        let key = self.file.as_ref().map_or(&self.key, |file| &file.key);
        let wrong = || Error::NotAHeader { key: key.clone() };
        let tokens: Vec<Secret> = match contents.first() {
            Some(bytes) => {
                let text = std::str::from_utf8(bytes).map_err(|_| wrong())?;
                let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
                lines.map(Secret::new).collect()
            }
            None => self.given.clone(),
        };
        let is_sendable = |token: &Secret| {
            let token = token.expose();
            !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic())
        };
        let first = tokens
            .first()
            .ok_or_else(|| Error::NoToken { key: key.clone() })?;
        if !tokens.iter().all(is_sendable) {
            return Err(wrong());
        }
        let header = match self.scheme.as_str() {
            "" => first.expose().to_owned(),
            scheme => format!("{scheme} {}", first.expose()),
        };
        let mut header = HeaderValue::try_from(header).map_err(|_| wrong())?;
        // Its `Debug` does not show it, and HTTP/2 does not keep it in a table.
        header.set_sensitive(true);
        Ok(Known {
            tokens,
            header,
            verifiers: OnceLock::new(),
        })
    }
}

/// Why a request is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unauthenticated {
    /// The header is not there.
    #[error("no token was sent")]
    Missing,
    /// The header is there twice, or does not begin with the scheme.
    #[error("the credentials that were sent are not of the expected kind")]
    Malformed,
    /// The token is none of the known ones.
    #[error("the token that was sent is not known here")]
    Unknown,
}

/// Which of the configured tokens was proved. It says nothing about the token itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TokenId(pub(crate) usize);

impl TokenId {
    /// Its place among the configured ones, the first is 1.
    pub fn number(self) -> usize {
        self.0.saturating_add(1)
    }
}

/// Lets in requests with a known token.
#[derive(Debug)]
pub struct TokenCheck {
    header: HeaderName,
    scheme: String,
    known: Watched<Known>,
}

impl TokenCheck {
    /// Reads the tokens of the section `key`. With a `filename` it must be called inside a Tokio runtime.
    ///
    /// # Errors
    ///
    /// No token, one that cannot stand in a header, a file that cannot be read.
    pub fn open(key: &str, settings: &BearerTokenAuth) -> Result<TokenCheck> {
        let (tokens, header) = settings.read(key)?;
        Ok(TokenCheck {
            header,
            scheme: settings.scheme.clone(),
            known: Watched::open(tokens, Some(FILE_INTERVAL))?,
        })
    }

    /// Looks at the head of a request.
    ///
    /// # Errors
    ///
    /// What is wrong with its credentials; nothing of them is in it.
    pub fn check(&self, headers: &HeaderMap) -> Result<TokenId, Unauthenticated> {
        let mut values = headers.get_all(&self.header).iter();
        let value = values.next().ok_or(Unauthenticated::Missing)?;
        if values.next().is_some() {
            // Which of them a proxy on the way has looked at is not known.
            return Err(Unauthenticated::Malformed);
        }
        let token = self
            .token(value.as_bytes())
            .ok_or(Unauthenticated::Malformed)?;
        self.check_token(token)
    }

    /// Looks at a token that came as a password, without header and scheme.
    ///
    /// # Errors
    ///
    /// It is none of the known ones.
    pub fn check_token(&self, token: &[u8]) -> Result<TokenId, Unauthenticated> {
        let known = self.known.current();
        // All are compared: which one it is does not show in the time.
        let mut found = None;
        for (idx, known) in known.tokens.iter().enumerate() {
            if bool::from(known.expose().as_bytes().ct_eq(token)) {
                found = Some(TokenId(idx));
            }
        }
        found.ok_or(Unauthenticated::Unknown)
    }

    /// The header with which a client proves a token from now on; for protocols in which it learns that from us.
    pub fn header_of(&self, token: &str) -> Option<(HeaderName, HeaderValue)> {
        let value = match self.scheme.as_str() {
            "" => token.to_owned(),
            scheme => format!("{scheme} {token}"),
        };
        let mut value = HeaderValue::try_from(value).ok()?;
        value.set_sensitive(true);
        Some((self.header.clone(), value))
    }

    /// Begins an exchange in which a client proves that it has a token without sending it.
    pub fn scram(&self) -> Scram {
        Scram::new(self.known.current())
    }

    /// What follows the scheme; RFC 9110 section 11.4 allows any number of spaces between the two.
    fn token<'a>(&self, value: &'a [u8]) -> Option<&'a [u8]> {
        if self.scheme.is_empty() {
            return Some(value);
        }
        let (scheme, rest) = value.split_at_checked(self.scheme.len())?;
        let token = rest.trim_ascii_start();
        let is_right = scheme.eq_ignore_ascii_case(self.scheme.as_bytes());
        (is_right && token.len() < rest.len()).then_some(token)
    }

    /// The value of `WWW-Authenticate` for a request that is refused: the scheme.
    pub fn challenge(&self) -> HeaderValue {
        let scheme = HeaderValue::try_from(&self.scheme);
        scheme
            .ok()
            .filter(|scheme| !scheme.is_empty())
            .unwrap_or(HeaderValue::from_static("Bearer"))
    }
}

/// The header with which a client proves itself.
#[derive(Debug)]
pub struct TokenSource {
    header: HeaderName,
    known: Watched<Known>,
}

impl TokenSource {
    /// Reads the token of the section `key`. With a `filename` it must be called inside a Tokio runtime.
    ///
    /// # Errors
    ///
    /// No token, one that cannot stand in a header, a file that cannot be read.
    pub fn open(key: &str, settings: &BearerTokenAuth) -> Result<TokenSource> {
        let (tokens, header) = settings.read(key)?;
        Ok(TokenSource {
            header,
            known: Watched::open(tokens, Some(FILE_INTERVAL))?,
        })
    }

    /// Adds the header to a request; over tonic, to `request.metadata_mut().as_mut()`.
    pub fn add_to(&self, headers: &mut HeaderMap) {
        headers.insert(self.header.clone(), self.known.current().header.clone());
    }
}
