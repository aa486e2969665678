//! What can go wrong before anything is sent; a failed export has its own type,
//! [`crate::client::ExportError`].

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an endpoint or a captured file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The endpoint is not a host and port or an `http://` URL.
    #[error("endpoint `{endpoint}` is not `HOST:PORT` or `http://HOST:PORT`")]
    EndpointSyntax {
        /// The text as given.
        endpoint: String,
    },
    /// The endpoint asks for a scheme other than HTTP with or without TLS.
    #[error("endpoint scheme `{scheme}` is not supported, only `http` and `https`")]
    EndpointScheme {
        /// The scheme as given.
        scheme: String,
    },
    /// The endpoint carries a user name; it is not repeated here because a password may stand
    /// beside it.
    #[error("endpoint holds credentials, which are not supported")]
    EndpointCredentials,
    /// The endpoint of a gRPC client has a path, which gRPC does not use.
    #[error("gRPC endpoint `{endpoint}` has a path; use HTTP or leave the path out")]
    EndpointPath {
        /// The text as given.
        endpoint: String,
    },
    /// The key material for the endpoint cannot be used.
    #[error("prepare the connection")]
    Transport(#[from] transport::Error),
    /// A path of the capture could not be read.
    #[error("read `{path}`")]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A file begins like gzip and cannot be inflated.
    #[error("inflate `{path}`: not a whole gzip file")]
    Inflate {
        /// The file.
        path: PathBuf,
        /// What the inflater said.
        source: io::Error,
    },
    /// A file is larger than an export request may be, after inflating.
    #[error("`{path}` is larger than {bytes_max} bytes")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit, see [`crate::capture::REQUEST_BYTES_MAX`].
        bytes_max: u64,
    },
    /// A folder holds no file with a name of a captured request.
    #[error(
        "folder `{path}` holds no captured export request (`*.pb`, `*.pb.gz`, `*.json`, `*.json.gz`)"
    )]
    NoRequests {
        /// The folder.
        path: PathBuf,
    },
    /// A file is neither protobuf nor JSON by its name.
    #[error("`{path}` is not named `*.pb`, `*.pb.gz`, `*.json` or `*.json.gz`")]
    UnknownName {
        /// The file.
        path: PathBuf,
    },
    /// A `.json` file is not an OTLP/JSON `ExportTraceServiceRequest`.
    #[error("`{path}` is not an OTLP/JSON trace export request")]
    Json {
        /// The file.
        path: PathBuf,
        /// What is wrong and where.
        source: otlp::Error,
    },
    /// A `.pb` file is not a protobuf `ExportTraceServiceRequest`.
    #[error("`{path}` is not a protobuf trace export request")]
    Protobuf {
        /// The file.
        path: PathBuf,
        /// What is wrong and where.
        source: otlp::Error,
    },
    /// Nothing of this name can go wrong.
    #[error("`{name}` is no fault; known are {known}")]
    UnknownFault {
        /// The name as given.
        name: String,
        /// All names.
        known: String,
    },
    /// A fault's stretch of time cannot be read, is empty, or begins after the end.
    #[error(
        "`{text}` is not `NAME` or `NAME@FROM-TO` with whole seconds, FROM before TO, in a run of {duration:?}"
    )]
    FaultStretch {
        /// The text as given.
        text: String,
        /// How long the run is.
        duration: Duration,
    },
}
