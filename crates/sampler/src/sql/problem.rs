//! What can be wrong with a condition, found when it is loaded.

use std::fmt;

use crate::sql::{CHARS_MAX, DEPTH_MAX};

/// Why a condition is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SqlProblem {
    /// Not SQL at all.
    Syntax {
        /// What the parser says.
        reason: String,
    },
    /// Longer than a condition can be.
    TooLong,
    /// Nested too deeply.
    TooDeep,
    /// A part of the language that is not known here.
    Unknown {
        /// As written.
        part: String,
    },
    /// No column of `traces`.
    Column {
        /// As written.
        name: String,
        /// The most similar known column.
        nearest: Option<&'static str>,
    },
    /// A column of `traces` that is empty until the trace is decided or its spans are decoded.
    NotYetKnown {
        /// The column.
        name: &'static str,
        /// What to write instead.
        instead: &'static str,
    },
    /// A value of the wrong kind, for example a number where a truth is needed.
    Kind {
        /// As written.
        part: String,
        /// What it should be.
        wanted: &'static str,
    },
}

impl fmt::Display for SqlProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax { reason } => write!(f, "cannot be read: {reason}"),
            Self::TooLong => write!(f, "is longer than {CHARS_MAX} characters"),
            Self::TooDeep => write!(f, "is nested more than {DEPTH_MAX} levels deep"),
            Self::Unknown { part } => write!(
                f,
                "has `{part}`, which is not known here; known are columns, numbers, comparisons, AND, OR, NOT, IN, BETWEEN, IS, + - * / %, and array_has(services, 'name')"
            ),
            Self::Column { name, nearest } => {
                write!(f, "has the column `{name}`, which `traces` does not have")?;
                nearest.map_or(Ok(()), |nearest| write!(f, ", did you mean `{nearest}`?"))
            }
            Self::NotYetKnown { name, instead } => write!(
                f,
                "has the column `{name}`, which is not known when a trace is decided; {instead}"
            ),
            Self::Kind { part, wanted } => write!(f, "has `{part}` where {wanted} is needed"),
        }
    }
}
