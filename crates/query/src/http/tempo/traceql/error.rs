//! Why a query of TraceQL cannot be answered.

use std::fmt;

use super::{BYTES_MAX, NESTING_MAX};
use crate::find::condition::TESTS_MAX;

/// Why a query cannot be answered. Places are counted in characters, from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unreadable {
    #[error(
        "TraceQL at character {at}: {what} is not supported, only one set of conditions such as {EXAMPLE}"
    )]
    Unsupported { at: usize, what: What },
    #[error("TraceQL at character {at}: expected {expected}, found {found}")]
    Unexpected {
        at: usize,
        expected: &'static str,
        found: Found,
    },
    #[error("the TraceQL query has {n_bytes} bytes, more than the limit of {BYTES_MAX}")]
    TooLong { n_bytes: usize },
    #[error("TraceQL at character {at}: more than {NESTING_MAX} levels of parentheses")]
    TooDeep { at: usize },
    #[error(
        "TraceQL at character {at}: more than {TESTS_MAX} comparisons; use `=~` with a list: `\"a|b|c\"`"
    )]
    TooMany { at: usize },
}

/// What is supported.
const EXAMPLE: &str = "{ resource.service.name = \"x\" && duration > 1s }";

/// A part of the language that is not built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Pipeline,
    SeveralSets,
    Hints,
    NoBraces,
    EventAttribute,
    LinkAttribute,
    ParentAttribute,
    ScopeAttribute,
    OtherIntrinsic,
    Arithmetic,
    TwoFields,
    ValueFirst,
    BareField,
    Negation,
    NestedSet,
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pipeline => "a pipeline (`| count()`, `| by()`, `| select()`, `| rate()`)",
            Self::SeveralSets => "a second set of conditions (`{..} && {..}`, `{..} >> {..}`)",
            Self::Hints => "a hint (`with (..)`)",
            Self::NoBraces => "a query without braces",
            Self::EventAttribute => "a condition on events",
            Self::LinkAttribute => "a condition on links",
            Self::ParentAttribute => "a condition on the parent",
            Self::ScopeAttribute => "an attribute of the instrumentation scope",
            Self::OtherIntrinsic => "this field",
            Self::Arithmetic => "arithmetic",
            Self::TwoFields => "a field on both sides",
            Self::ValueFirst => "a value on the left side",
            Self::BareField => "a field without a comparison",
            Self::Negation => "`!` before a condition",
            Self::NestedSet => "a comparison of `nestedSetParent` other than `nestedSetParent < 0`",
        })
    }
}

/// What stands where something else should.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    Character(char),
    End,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Character(c) => write!(f, "`{}`", c.escape_debug()),
            Self::End => f.write_str("the end"),
        }
    }
}
