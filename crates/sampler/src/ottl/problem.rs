//! What can be wrong with a condition, found when it is loaded.

use std::fmt;

/// Why a condition is refused.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Problem {
    /// Not the language at all.
    Syntax {
        /// Byte offset in the condition.
        at: usize,
        /// What could stand there.
        expected: &'static str,
    },
    /// Nested too deeply.
    TooDeep {
        /// Levels that are allowed.
        limit: u32,
    },
    /// A function that is not known here, although the Collector may have it.
    Function {
        /// As written.
        name: String,
        /// The most similar known function.
        nearest: Option<&'static str>,
    },
    /// A function that was given something else than it takes.
    Arguments {
        /// The function.
        name: &'static str,
        /// What it takes.
        takes: &'static str,
    },
    /// A field that is not known here.
    Path {
        /// As written.
        path: String,
        /// The most similar known field.
        nearest: Option<&'static str>,
    },
    /// An index behind a field that has no parts, or none behind one that is all parts.
    Index {
        /// The field.
        path: String,
    },
    /// A name in capitals that is not known.
    Enum {
        /// As written.
        name: String,
        /// The most similar known name.
        nearest: Option<&'static str>,
    },
    /// A pattern that does not compile.
    Pattern {
        /// As written.
        pattern: String,
        /// Why not.
        reason: String,
    },
    /// A value where a truth is needed, or the other way round.
    NotBoolean,
    /// Fields of the resource and of the span in one comparison or function.
    ResourceAndSpan,
    /// More distinct attribute keys, or conditions on resources, in all policies than are allowed.
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many are allowed.
        limit: usize,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let did_you_mean = |f: &mut fmt::Formatter<'_>, nearest: &Option<&str>| match nearest {
            Some(nearest) => write!(f, ", did you mean `{nearest}`?"),
            None => Ok(()),
        };
        match self {
            Self::Syntax { at, expected } => write!(f, "expected {expected} at byte {at}"),
            Self::TooDeep { limit } => write!(f, "is nested more than {limit} levels deep"),
            Self::Function { name, nearest } => {
                write!(f, "the function `{name}` is not supported")?;
                did_you_mean(f, nearest)
            }
            Self::Arguments { name, takes } => write!(f, "the function `{name}` takes {takes}"),
            Self::Path { path, nearest } => {
                write!(f, "the field `{path}` is not supported")?;
                did_you_mean(f, nearest)
            }
            Self::Index { path } => write!(f, "the field `{path}` cannot be used like this, index maps by `[\"key\"]` and nothing else"),
            Self::Enum { name, nearest } => {
                write!(f, "the name `{name}` is not known")?;
                did_you_mean(f, nearest)
            }
            Self::Pattern { pattern, reason } => {
                write!(f, "the pattern `{pattern}` is invalid: {reason}")
            }
            Self::NotBoolean => f.write_str(
                "a condition is made of comparisons and of functions that are true or false, joined by `and`, `or`, `not`",
            ),
            Self::ResourceAndSpan => f.write_str(
                "one comparison or function cannot take both resource and span fields",
            ),
            Self::TooMany { what, limit } => write!(f, "makes more than {limit} {what} in all policies"),
        }
    }
}
