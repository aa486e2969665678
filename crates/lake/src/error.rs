//! What can go wrong between a batch in memory and a row in a Delta table.

use std::fmt;

use arrow::error::ArrowError;
use delta_kernel::KernelError;
use parquet::errors::ParquetError;

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failed operation on a lake or one of its tables.
///
/// After any error of [`Table::commit`](crate::Table::commit) the rows are still in memory and
/// visible; [`is_retryable`](Error::is_retryable) says whether calling it again can help.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The text is neither a folder nor an `s3://bucket/prefix`.
    #[error(
        "location `{location}` has scheme `{scheme}`; use a folder, `file://` or `s3://bucket/prefix`"
    )]
    UnsupportedScheme {
        /// The text as it was given.
        location: String,
        /// Its scheme.
        scheme: String,
    },
    /// The text is not a usable path or URL.
    #[error("location `{location}` is not valid")]
    InvalidLocation {
        /// The text as it was given.
        location: String,
        /// What the parser, or the file system, says of it.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// An object store option has a name that the store does not know.
    #[error("object store option `{option}` is not known")]
    UnknownOption {
        /// The name of the option; values are never printed, they may be secrets.
        option: String,
        /// The store's answer.
        source: object_store::Error,
    },
    /// Reading or writing an object failed.
    #[error("cannot {operation} `{path}`")]
    Store {
        /// `write`, `check`, `list`, ...
        operation: &'static str,
        /// Path in the object store.
        path: String,
        /// The store's answer.
        source: object_store::Error,
    },
    /// The store holds another number of bytes than were written.
    #[error("`{path}` has {found} bytes in the store, {expected} were written")]
    SizeMismatch {
        /// Path in the object store.
        path: String,
        /// Bytes written.
        expected: u64,
        /// Bytes that the store reports.
        found: u64,
    },
    /// A table was opened for reading only and is not there.
    #[error("there is no table `{table}` at `{location}`; it is created by a writing process")]
    TableMissing {
        /// The name of the table.
        table: &'static str,
        /// The table's root URL.
        location: String,
    },
    /// A column of the specification cannot be stored in Delta as it is.
    #[error("column `{column}` of table `{table}` cannot be stored: {problem}")]
    UnsupportedColumn {
        /// The name of the table.
        table: &'static str,
        /// The name of the column.
        column: String,
        /// Which rule it breaks.
        problem: ColumnProblem,
    },
    /// The stored table and the specification disagree.
    #[error(
        "column `{column}` of the stored table `{table}` is {found}, this version expects {expected}"
    )]
    SchemaMismatch {
        /// The name of the table.
        table: &'static str,
        /// The name of the column.
        column: String,
        /// Type and nullability of the specification.
        expected: String,
        /// Type and nullability of the stored table, or `missing`.
        found: String,
    },
    /// The stored table uses something that this crate does not read.
    #[error("table `{table}` uses {feature}, which is not supported here")]
    UnsupportedTable {
        /// The name of the table.
        table: &'static str,
        /// What it uses, and where.
        feature: String,
    },
    /// The Delta log could not be read.
    #[error("cannot read the log of table `{table}`")]
    ReadLog {
        /// The name of the table.
        table: &'static str,
        /// The kernel's answer.
        source: Box<KernelError>,
    },
    /// A commit was tried and its outcome is unknown or a failure.
    #[error("cannot commit version {version} of table `{table}`")]
    CommitLog {
        /// The name of the table.
        table: &'static str,
        /// The version that was tried.
        version: u64,
        /// The kernel's answer.
        source: Box<KernelError>,
    },
    /// Other writers were faster each time.
    #[error("table `{table}` had a newer version at each of {attempts} attempts to commit")]
    Contended {
        /// The name of the table.
        table: &'static str,
        /// How often it was tried.
        attempts: u32,
    },
    /// Rows could not be brought into order.
    #[error("cannot sort rows of table `{table}`")]
    Sort {
        /// The name of the table.
        table: &'static str,
        /// Arrow's answer.
        source: ArrowError,
    },
    /// Rows could not be encoded as Parquet.
    #[error("cannot encode rows of table `{table}`")]
    Encode {
        /// The name of the table.
        table: &'static str,
        /// The writer's answer.
        source: ParquetError,
    },
    /// A data file of the table cannot be read: it is damaged.
    #[error("cannot read the data file `{path}` of table `{table}`")]
    ReadFile {
        /// The name of the table.
        table: &'static str,
        /// Relative to the table's root.
        path: String,
        /// The reader's answer.
        source: ParquetError,
    },
    /// Merged files would not hold the rows that they came from.
    #[error("files of table `{table}` hold {expected} rows, {found} would be written")]
    RowCount {
        /// The name of the table.
        table: &'static str,
        /// Rows by the log, or by the footers.
        expected: u64,
        /// Rows that were merged.
        found: u64,
    },
    /// The store does not list every file that the log names.
    #[error("table `{table}` names {expected} files, the store has {found} of them")]
    FilesMissing {
        /// The name of the table.
        table: &'static str,
        /// Live files by the log.
        expected: usize,
        /// Those of them in the store.
        found: usize,
    },
    /// The lake was opened for reading only.
    #[error("table `{table}` is open for reading only")]
    ReadOnly {
        /// The name of the table.
        table: &'static str,
    },
    /// The threads for blocking work could not be started, or were stopped.
    #[error("the lake's worker threads are not running")]
    Workers {
        /// What the runtime says.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// The rule that a column of a specification breaks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ColumnProblem {
    /// Sort, bloom or statistics list name a column that the schema lacks.
    #[error("it is named by the {0} list and not in the schema")]
    NotInSchema(&'static str),
    /// The partition column must be Date32.
    #[error("the partition column must be a Date32, it is {0}")]
    PartitionType(String),
    /// Delta would hand the column back with another type.
    #[error("Delta stores {0} as {1}")]
    TypeChanges(String, String),
    /// Delta has no such type.
    #[error("Delta has no type for {0}")]
    NoType(String),
}

impl Error {
    /// Of an operation on an object or a folder of the store.
    pub(crate) fn store(
        operation: &'static str,
        path: impl fmt::Display,
        source: object_store::Error,
    ) -> Self {
        Self::Store {
            operation,
            path: path.to_string(),
            source,
        }
    }

    /// Whether the same call may succeed later without any change of its input: an outage, a
    /// conflict, missing rights, a full disk. False for what only another version of the program,
    /// of its configuration or of the table can cure.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Store { source, .. } => is_store_error_retryable(source),
            Self::CommitLog { source, .. } | Self::ReadLog { source, .. } => {
                is_kernel_error_retryable(source)
            }
            Self::Contended { .. } | Self::SizeMismatch { .. } => true,
            Self::UnsupportedScheme { .. }
            | Self::InvalidLocation { .. }
            | Self::UnknownOption { .. }
            | Self::TableMissing { .. }
            | Self::UnsupportedColumn { .. }
            | Self::SchemaMismatch { .. }
            | Self::UnsupportedTable { .. }
            | Self::Sort { .. }
            | Self::Encode { .. }
            | Self::ReadFile { .. }
            | Self::RowCount { .. }
            | Self::FilesMissing { .. }
            | Self::ReadOnly { .. }
            | Self::Workers { .. } => false,
        }
    }

    /// Whether a stored file is damaged or missing, so that the same work on other files may succeed.
    pub fn is_file_bad(&self) -> bool {
        match self {
            Self::ReadFile { .. } | Self::RowCount { .. } | Self::SizeMismatch { .. } => true,
            Self::Store { source, .. } => matches!(source, object_store::Error::NotFound { .. }),
            _ => false,
        }
    }

    /// Whether a table was expected and is not there.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::TableMissing { .. })
    }
}

fn is_store_error_retryable(error: &object_store::Error) -> bool {
    !matches!(
        error,
        object_store::Error::InvalidPath { .. }
            | object_store::Error::NotSupported { .. }
            | object_store::Error::NotImplemented { .. }
            | object_store::Error::UnknownConfigurationKey { .. }
    )
}

/// The kernel wraps errors of its engine in several ways; what is not about input or output is a
/// fault of the table or of a program and stays.
fn is_kernel_error_retryable(error: &KernelError) -> bool {
    match error {
        KernelError::Backtraced { source, .. } => is_kernel_error_retryable(source),
        KernelError::ObjectStore(source) => is_store_error_retryable(source),
        KernelError::IOError(_)
        | KernelError::Reqwest(_)
        | KernelError::FileNotFound(_)
        | KernelError::GenericError { .. }
        | KernelError::Parquet(_)
        | KernelError::Arrow(_) => true,
        _ => false,
    }
}
