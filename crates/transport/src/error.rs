//! Why settings cannot be used: always the key, and what to do.

use std::{io, path::PathBuf};

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A setting, or a file that it names, that cannot be used. No text of a key or token is in it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Of two keys that belong together one is missing.
    #[error("`{key}::{present}` needs `{missing}`, which is not set; set both, or neither")]
    Incomplete {
        /// The section.
        key: String,
        /// The key that is set.
        present: &'static str,
        /// The key that is not.
        missing: &'static str,
    },
    /// A listener with TLS has nothing to show.
    #[error("`{key}` has no certificate; set `cert_file` and `key_file`, or remove the section")]
    NoCertificate {
        /// The section.
        key: String,
    },
    /// Two keys say the same thing in two ways.
    #[error("`{key}` has both `{first}` and `{second}`; keep one of them")]
    Both {
        /// The section.
        key: String,
        /// One key.
        first: &'static str,
        /// The other.
        second: &'static str,
    },
    /// A file cannot be read.
    #[error("cannot read `{}` (set by `{key}`); is the path right, and readable for this user?", .path.display())]
    Read {
        /// The key that names it.
        key: String,
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// There is no certificate or key in PEM form where one should be.
    #[error("`{key}` holds no usable {what} in PEM form (`-----BEGIN ...-----`)")]
    Pem {
        /// The key whose value, or file, was read.
        key: String,
        /// What was looked for.
        what: &'static str,
    },
    /// Certificate and private key cannot be used together, or one of them not at all.
    #[error("certificate and private key of `{key}` cannot be used; do they belong together?")]
    Pair {
        /// The section.
        key: String,
        /// What rustls said.
        source: rustls::Error,
    },
    /// A certificate authority cannot be used.
    #[error("`{key}` holds a certificate authority that cannot be used: {problem}")]
    Authority {
        /// The key whose value, or file, was read.
        key: String,
        /// What is wrong with it.
        problem: String,
    },
    /// There is nothing to check a server's certificate with.
    #[error("this machine has no certificate authorities of its own; set `{key}::ca_file`")]
    NoAuthorities {
        /// The section.
        key: String,
    },
    /// A value is not one of those that are known.
    #[error("`{key}`: `{value}` is not one of {known}")]
    Unknown {
        /// The key.
        key: String,
        /// Its value.
        value: String,
        /// Those that would do.
        known: String,
    },
    /// `min_version` is above `max_version`, or the ciphers are of other versions.
    #[error("`{key}`: `min_version`, `max_version`, `cipher_suites` leave nothing to speak")]
    NothingInCommon {
        /// The section.
        key: String,
        /// What rustls said, where it was asked.
        source: Option<rustls::Error>,
    },
    /// A time that must not be zero is.
    #[error("`{key}` must be more than `0s`")]
    ZeroTime {
        /// The key.
        key: String,
    },
    /// An authenticator is named that does not exist.
    #[error(
        "`{key}::authenticator` names `{authenticator}`, but the extensions in use have {known}; define it \
         under `extensions` and name it in `service::extensions`"
    )]
    UnknownAuthenticator {
        /// The section `auth`.
        key: String,
        /// The id that was looked for.
        authenticator: String,
        /// The ids there are.
        known: String,
    },
    /// There is no token.
    #[error("`{key}` holds no token; set `token`, `tokens` or `filename`")]
    NoToken {
        /// The section, or the key of the file.
        key: String,
    },
    /// A token, scheme or header name cannot be sent in a header.
    #[error("`{key}` cannot be part of an HTTP header; visible ASCII characters can")]
    NotAHeader {
        /// The key.
        key: String,
    },
}
