//! Conditions on the value of one attribute.

use otlp::attribute::Value;
use regex::Regex;
use rustc_hash::FxHashSet;

use crate::error::{Error, Result};
use crate::go_regex;
use crate::number::Number;

/// A condition on the value of one attribute.
///
/// `as_collector` follows the Collector where it reads a value of another type as if it were one of
/// this type.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Condition {
    /// A string that is one of these; the empty one never is.
    OneOf(Vec<String>),
    /// A non-empty string in which one of these patterns is found.
    Patterns {
        patterns: Vec<String>,
        /// Of a resource, everything else is the empty string, which may match.
        as_collector: bool,
    },
    /// A number within inclusive bounds.
    Within {
        min: Option<Number>,
        max: Option<Number>,
        /// Everything but an integer is 0.
        as_collector: bool,
    },
    /// This boolean.
    Is {
        value: bool,
        /// Everything but a boolean is `false`.
        as_collector: bool,
    },
}

/// A compiled condition.
#[derive(Debug)]
pub(super) enum Matcher {
    OneOf(FxHashSet<Box<str>>),
    Patterns {
        regexes: Vec<Regex>,
        as_collector: bool,
    },
    Within {
        min: Option<Number>,
        max: Option<Number>,
        as_collector: bool,
    },
    Is {
        value: bool,
        as_collector: bool,
    },
}

/// What an attribute belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    Resource,
    Span,
}

impl Matcher {
    /// `policy` is for the error.
    pub(super) fn compile(policy: &str, condition: &Condition) -> Result<Self> {
        Ok(match condition {
            Condition::OneOf(values) => {
                let values = values.iter().filter(|value| !value.is_empty());
                Self::OneOf(values.map(|value| value.as_str().into()).collect())
            }
            Condition::Patterns {
                patterns,
                as_collector,
            } => {
                let compile = |pattern: &String| {
                    go_regex::compile(pattern).map_err(|source| Error::Pattern {
                        policy: policy.to_owned(),
                        pattern: pattern.clone(),
                        source,
                    })
                };
                Self::Patterns {
                    regexes: patterns.iter().map(compile).collect::<Result<_>>()?,
                    as_collector: *as_collector,
                }
            }
            Condition::Within {
                min,
                max,
                as_collector,
            } => Self::Within {
                min: *min,
                max: *max,
                as_collector: *as_collector,
            },
            Condition::Is {
                value,
                as_collector,
            } => Self::Is {
                value: *value,
                as_collector: *as_collector,
            },
        })
    }

    pub(super) fn matches(&self, value: &Value<'_>, owner: Owner) -> bool {
        match self {
            Self::OneOf(values) => as_text(value).is_some_and(|text| values.contains(text)),
            Self::Patterns {
                regexes,
                as_collector,
            } => {
                let text = as_text(value).filter(|text| !text.is_empty());
                let text = match text {
                    None if *as_collector && owner == Owner::Resource => Some(""),
                    found => found,
                };
                text.is_some_and(|text| regexes.iter().any(|regex| regex.is_match(text)))
            }
            Self::Within {
                min,
                max,
                as_collector,
            } => {
                let number = match (value, *as_collector) {
                    (Value::Int(int), _) => Number::Int(*int),
                    (_, true) => Number::Int(0),
                    (Value::Double(double), false) => Number::Double(*double),
                    (_, false) => return false,
                };
                let at_least = |min: Number| number.compare(min).is_some_and(|order| order.is_ge());
                let at_most = |max: Number| number.compare(max).is_some_and(|order| order.is_le());
                min.is_none_or(at_least) && max.is_none_or(at_most)
            }
            Self::Is {
                value: wanted,
                as_collector,
            } => {
                if let Value::Bool(found) = value {
                    found == wanted
                } else {
                    *as_collector && !wanted
                }
            }
        }
    }
}

/// A string; the digits of a number are none.
fn as_text<'a>(value: &Value<'a>) -> Option<&'a str> {
    if let Value::Str(text) = value {
        Some(*text)
    } else {
        None
    }
}
