//! What can go wrong with a statement, and whose fault it is.

use std::time::Duration;

use arrow::error::ArrowError;
use datafusion::common::{DataFusionError, SchemaError};

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a statement has no answer, or not all of it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The text holds no statement.
    #[error("there is no statement in the text")]
    NoStatement,
    /// More than one statement; none of them was run.
    #[error("{n_statements} statements in one text, only one is allowed")]
    SeveralStatements {
        /// Statements found.
        n_statements: usize,
    },
    /// A statement that is not a query.
    #[error(
        "`{keyword}` is refused: only SELECT, WITH, VALUES, EXPLAIN, SHOW TABLES, SHOW COLUMNS and \
         DESCRIBE are allowed, nothing here can be changed through SQL"
    )]
    NotReadOnly {
        /// First word of the statement.
        keyword: String,
    },
    /// The text is longer than the limit.
    #[error("the statement has {n_bytes} bytes, more than the limit of {bytes_max}")]
    TooLong {
        /// Bytes of the text.
        n_bytes: usize,
        /// The limit, `statement_kib`.
        bytes_max: usize,
    },
    /// So many operators and words that its tree could be too deep.
    #[error(
        "the statement has {n_operators} words and operators, more than the limit of \
         {operators_max}; write a long chain of `OR` as one `IN (...)` list"
    )]
    TooComplex {
        /// Words and operators found; literals, commas and parentheses are not counted.
        n_operators: usize,
        /// The limit.
        operators_max: usize,
    },
    /// The text is not SQL.
    #[error("the statement is not valid SQL")]
    Syntax {
        /// What the parser says.
        source: Box<DataFusionError>,
    },
    /// A table that does not exist.
    #[error("there is no table `{name}`; the tables are {}", .known.join(", "))]
    UnknownTable {
        /// Name as the statement has it.
        name: String,
        /// Every table and view.
        known: Vec<String>,
    },
    /// A column that does not exist.
    #[error("there is no column `{name}`; {hint}")]
    UnknownColumn {
        /// Name as the planner saw it: lower case if it was not quoted.
        name: String,
        /// How to repair the statement.
        hint: String,
        /// What the planner says.
        source: Box<DataFusionError>,
    },
    /// SQL that cannot be planned or evaluated: a wrong type, an unknown function, a bad cast.
    #[error("the statement cannot be answered")]
    Unanswerable {
        /// What the planner or an operator says.
        source: Box<DataFusionError>,
    },
    /// The time limit ended it.
    #[error("the statement was stopped at its time limit of {limit:?} while {phase}")]
    TimedOut {
        /// The limit, `timeout`.
        limit: Duration,
        /// What it was doing.
        phase: Phase,
    },
    /// It needs more memory, or more spill space, than a statement may have.
    #[error(
        "the statement needs more than its limit of {memory_mib} MiB memory and {spill_mib} MiB \
         spill files; select fewer columns, a shorter time or add a LIMIT"
    )]
    OutOfMemory {
        /// The limit, `memory_mib`.
        memory_mib: u64,
        /// The limit, `spill_mib`.
        spill_mib: u64,
        /// Who asked for how much.
        source: Box<DataFusionError>,
    },
    /// Too many statements at once.
    #[error("{statements_max} statements are running and the queue is full, try again later")]
    Busy {
        /// The limit, `statements_max`.
        statements_max: usize,
    },
    /// Too many statements of one user at once.
    #[error(
        "{statements_max} statements of {user} are under way, as many as one user may have; wait for one of them"
    )]
    BusyUser {
        /// Who asked.
        user: String,
        /// The limit, `statements_per_user_max`.
        statements_max: usize,
    },
    /// The lake's files cannot be read.
    #[error("the stored tables cannot be read")]
    Storage {
        /// What the object store or the Parquet reader says.
        source: Box<DataFusionError>,
    },
    /// A fault of this program or of DataFusion.
    #[error("the statement met an internal fault")]
    Internal {
        /// What is known.
        source: Box<DataFusionError>,
    },
    /// The thread that made the answer is gone: a panic, or the process is stopping.
    #[error("the statement was ended from inside while {phase}")]
    Ended {
        /// What it was doing.
        phase: Phase,
    },
    /// Threads for execution cannot be started.
    #[error("cannot start the threads of the query engine")]
    Threads {
        /// What the system says.
        source: std::io::Error,
    },
    /// A view of `storage/views` cannot be planned.
    #[error("the view `{name}` cannot be planned")]
    View {
        /// The view.
        name: &'static str,
        /// What the planner says.
        source: Box<DataFusionError>,
    },
}

/// Where the time of a statement went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Waiting for a free place.
    Waiting,
    /// Parsing and planning.
    Planning,
    /// Producing rows, or waiting for the client to take them.
    Streaming,
}

impl std::fmt::Display for Phase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Waiting => "waiting for a free place",
            Self::Planning => "planning",
            Self::Streaming => "streaming rows",
        })
    }
}

impl Error {
    /// Stable word for programs and logs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoStatement => "no_statement",
            Self::SeveralStatements { .. } => "several_statements",
            Self::NotReadOnly { .. } => "not_read_only",
            Self::Syntax { .. } => "syntax",
            Self::UnknownTable { .. } => "unknown_table",
            Self::UnknownColumn { .. } => "unknown_column",
            Self::Unanswerable { .. } => "unanswerable",
            Self::TooLong { .. } => "too_long",
            Self::TooComplex { .. } => "too_complex",
            Self::OutOfMemory { .. } => "out_of_memory",
            Self::TimedOut { .. } => "timed_out",
            Self::Busy { .. } => "busy",
            Self::BusyUser { .. } => "busy_user",
            Self::Storage { .. } => "storage",
            Self::Internal { .. }
            | Self::Ended { .. }
            | Self::Threads { .. }
            | Self::View { .. } => "internal",
        }
    }

    /// Would another statement have succeeded?
    pub fn is_users_fault(&self) -> bool {
        match self {
            Self::NoStatement
            | Self::SeveralStatements { .. }
            | Self::NotReadOnly { .. }
            | Self::Syntax { .. }
            | Self::UnknownTable { .. }
            | Self::UnknownColumn { .. }
            | Self::Unanswerable { .. } => true,
            Self::TooLong { .. }
            | Self::TooComplex { .. }
            | Self::TimedOut { .. }
            | Self::OutOfMemory { .. }
            | Self::Busy { .. }
            | Self::BusyUser { .. }
            | Self::Storage { .. }
            | Self::Internal { .. }
            | Self::Ended { .. }
            | Self::Threads { .. }
            | Self::View { .. } => false,
        }
    }

    /// Did a limit of [`crate::Config`] end it?
    pub fn is_limit(&self) -> bool {
        matches!(
            self,
            Self::TooLong { .. }
                | Self::TooComplex { .. }
                | Self::TimedOut { .. }
                | Self::OutOfMemory { .. }
                | Self::Busy { .. }
                | Self::BusyUser { .. }
        )
    }

    /// Can the same statement succeed later?
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::Busy { .. }
                | Self::BusyUser { .. }
                | Self::TimedOut { .. }
                | Self::Storage { .. }
        )
    }

    /// For people: this level and, where the user can act on it, what the planner says.
    pub fn explanation(&self) -> String {
        match self {
            Self::Syntax { source } | Self::Unanswerable { source } => {
                let cause = source.find_root().strip_backtrace();
                format!("{self}: {}", cause.trim())
            }
            _ => self.to_string(),
        }
    }

    /// Sorts an error of DataFusion by whose fault it is.
    pub(crate) fn from_datafusion(source: DataFusionError, limits: Limits) -> Self {
        let kind = match has_bad_pattern(&source) {
            true => Kind::Unanswerable,
            false => kind_of(source.find_root()),
        };
        let source = Box::new(source);
        match kind {
            Kind::Syntax => Self::Syntax { source },
            Kind::UnknownColumn { name, hint } => Self::UnknownColumn { name, hint, source },
            Kind::Unanswerable => Self::Unanswerable { source },
            Kind::OutOfMemory => Self::OutOfMemory {
                memory_mib: limits.memory_mib,
                spill_mib: limits.spill_mib,
                source,
            },
            Kind::Storage => Self::Storage { source },
            Kind::Internal => Self::Internal { source },
        }
    }
}

/// Limits that an error names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) memory_mib: u64,
    pub(crate) spill_mib: u64,
}

enum Kind {
    Syntax,
    UnknownColumn { name: String, hint: String },
    Unanswerable,
    OutOfMemory,
    Storage,
    Internal,
}

/// Is it about a regular expression? The optimizer says so around an error of a type that is not known here.
fn has_bad_pattern(error: &DataFusionError) -> bool {
    match error {
        DataFusionError::Context(what, inner) => what == "Invalid regex" || has_bad_pattern(inner),
        DataFusionError::Diagnostic(_, inner) => has_bad_pattern(inner),
        DataFusionError::Shared(inner) => has_bad_pattern(inner),
        _ => false,
    }
}

fn kind_of(root: &DataFusionError) -> Kind {
    match root {
        DataFusionError::SQL(..) => Kind::Syntax,
        DataFusionError::SchemaError(error, _) => match &**error {
            SchemaError::FieldNotFound {
                field,
                valid_fields,
            } => {
                let known = valid_fields.iter().map(|column| column.name.as_str());
                let name = field.flat_name();
                Kind::UnknownColumn {
                    hint: column_hint(&name, &field.name, known),
                    name,
                }
            }
            SchemaError::AmbiguousReference { .. }
            | SchemaError::DuplicateQualifiedField { .. }
            | SchemaError::DuplicateUnqualifiedField { .. } => Kind::Unanswerable,
        },
        DataFusionError::Plan(_)
        | DataFusionError::NotImplemented(_)
        | DataFusionError::Configuration(_)
        | DataFusionError::Execution(_)
        | DataFusionError::Substrait(_) => Kind::Unanswerable,
        DataFusionError::Diagnostic(_, inner) | DataFusionError::Context(_, inner) => {
            kind_of(inner.find_root())
        }
        DataFusionError::Shared(inner) => kind_of(inner.find_root()),
        DataFusionError::Collection(errors) => errors
            .first()
            .map_or(Kind::Internal, |first| kind_of(first.find_root())),
        DataFusionError::ResourcesExhausted(_) => Kind::OutOfMemory,
        DataFusionError::ArrowError(error, _) => kind_of_arrow(error),
        DataFusionError::IoError(error) => kind_of_io(error),
        DataFusionError::ParquetError(_) | DataFusionError::ObjectStore(_) => Kind::Storage,
        DataFusionError::Internal(_)
        | DataFusionError::ExecutionJoin(_)
        | DataFusionError::External(_)
        | DataFusionError::Ffi(_) => Kind::Internal,
    }
}

fn kind_of_arrow(error: &ArrowError) -> Kind {
    match error {
        ArrowError::CastError(_)
        | ArrowError::ParseError(_)
        | ArrowError::ComputeError(_)
        | ArrowError::DivideByZero
        | ArrowError::ArithmeticOverflow(_)
        | ArrowError::InvalidArgumentError(_)
        | ArrowError::OffsetOverflowError(_)
        | ArrowError::NotYetImplemented(_) => Kind::Unanswerable,
        ArrowError::MemoryError(_) => Kind::OutOfMemory,
        ArrowError::IoError(_, error) => kind_of_io(error),
        ArrowError::ParquetError(_) => Kind::Storage,
        _ => Kind::Internal,
    }
}

/// Only spill files are written, so a lack of room is one of room to spill. DataFusion says that its limit is reached by
/// the name of the setting alone.
fn kind_of_io(error: &std::io::Error) -> Kind {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    let is_limit = || error.to_string().contains("max_temp_directory_size");
    if matches!(error.kind(), StorageFull | QuotaExceeded) || is_limit() {
        Kind::OutOfMemory
    } else {
        Kind::Storage
    }
}

/// How to write the name so that it is found: the known column it resembles, and the quoting rule.
fn column_hint<'a>(
    flat_name: &str,
    name: &str,
    known: impl Iterator<Item = &'a str> + Clone,
) -> String {
    let folded = flat_name.to_lowercase().replace('.', "_");
    let last = name.to_lowercase().replace('.', "_");
    let fold = |known: &str| known.to_lowercase().replace('.', "_");
    let alike = known
        .clone()
        .find(|known| fold(known) == folded)
        .or_else(|| {
            known.clone().find(|known| {
                let known = fold(known);
                known == last || known.replace('_', "") == last.replace('_', "")
            })
        })
        .or_else(|| {
            known
                .clone()
                .find(|known| folded.ends_with(&format!("_{known}")))
        });
    if let Some(alike) = alike {
        let plain = alike
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        return if plain {
            format!(
                "write {alike} (names without quotes are read in lower case, a dot separates table \
                 and column)"
            )
        } else {
            format!(
                "write \"{alike}\" in double quotes (names without quotes are read in lower case, a \
                 dot separates table and column)"
            )
        };
    }
    let mut names: Vec<&str> = known.collect();
    names.sort_unstable();
    names.dedup();
    let quoting = "a name with capitals or dots needs double quotes";
    match names.as_slice() {
        [] => quoting.to_owned(),
        names => format!("{quoting}; columns here are {}", names.join(", ")),
    }
}
