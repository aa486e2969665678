//! What can stop the gateway from starting or from going on.

use std::{io, path::PathBuf};

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What failed, with its place.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A configured value cannot be used.
    #[error("`{key}` {problem}")]
    InvalidConfig {
        /// The path of the key, as in the configuration file.
        key: &'static str,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// `tls` or `auth` of a receiver cannot be used.
    #[error(transparent)]
    Door(transport::Error),
    /// A listener cannot be opened.
    #[error("cannot listen on `{endpoint}` (set by `{key}`)")]
    Bind {
        /// The address that was tried.
        endpoint: String,
        /// The key that names it.
        key: &'static str,
        /// What the operating system said.
        source: io::Error,
    },
    /// The sampler refuses its configuration.
    #[error("cannot start the sampler")]
    Sampler(#[source] sampler::Error),
    /// The log cannot be opened, read or written.
    #[error("cannot {operation} the log")]
    Log {
        /// What was tried.
        operation: &'static str,
        /// What the log said.
        source: wal::Error,
    },
    /// A record of the log passes its checksum but is not one of ours.
    #[error("record at {position} of the log {problem}; it was not written by this program")]
    Record {
        /// Where it is.
        position: wal::Position,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// An export that was accepted cannot be read back.
    #[error("export at {position} of the log cannot be read")]
    Export {
        /// Where it is.
        position: wal::Position,
        /// What the walker said.
        source: otlp::Error,
    },
    /// The resource of an export that was accepted cannot be read.
    #[error("resource of the export at {position} of the log cannot be read")]
    Resource {
        /// Where it is.
        position: wal::Position,
        /// What the sampler said.
        source: sampler::Error,
    },
    /// How far an exporter is cannot be read or written.
    #[error("cannot {operation} `{}`, which says how far an exporter is", .path.display())]
    Cursor {
        /// What was tried.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The file that says how far an exporter is was changed by something else.
    #[error(
        "`{}`, which says how far an exporter is, is damaged; remove it and the exporter goes on with what is \
         decided from then on",
        .path.display()
    )]
    CursorDamaged {
        /// The file.
        path: PathBuf,
    },
    /// A thread cannot be started.
    #[error("cannot start the thread `{name}`")]
    Thread {
        /// Its name.
        name: &'static str,
        /// What the operating system said.
        source: io::Error,
    },
    /// A thread ended before it was told to.
    #[error("the thread `{name}` ended early")]
    ThreadEnded {
        /// Its name.
        name: &'static str,
    },
}

impl Error {
    /// Is the log in use by another process?
    pub fn is_locked(&self) -> bool {
        matches!(self, Error::Log { source, .. } if source.is_locked())
    }
}

/// An error with everything that caused it, for logs and the health endpoint.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
