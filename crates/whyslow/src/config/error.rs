//! What can be wrong with a configuration: always a path, a line where there is one, and a remedy.

use std::fmt;
use std::path::PathBuf;

use sampler::Severity;
use thiserror::Error;

/// A fault that stops the start, before any port opens.
#[derive(Debug, Error)]
pub(crate) enum Error {
    /// The file could not be read.
    #[error("cannot read the configuration file `{}`", .path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// The text is not YAML, or repeats a key.
    #[error("the configuration is not valid YAML: {message}")]
    Syntax { message: String },
    /// A value or key does not fit.
    #[error("{0}")]
    At(Fault),
}

/// One fault at one place.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Fault {
    /// Keys from the top, joined by `::`.
    pub(crate) path: String,
    /// 1-based; 0 where unknown.
    pub(crate) line: u64,
    pub(crate) message: String,
}

/// Something a person should know that does not stop the start.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Warning {
    pub(crate) severity: Severity,
    pub(crate) fault: Fault,
    /// What to do about it, where the message does not say so.
    pub(crate) remedy: Option<&'static str>,
}

impl Warning {
    pub(crate) fn new(path: &str, line: u64, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            fault: Fault {
                path: path.to_owned(),
                line,
                message: message.into(),
            },
            remedy: None,
        }
    }
}

impl Error {
    pub(crate) fn at(path: &str, line: u64, message: impl Into<String>) -> Self {
        Self::At(Fault {
            path: path.to_owned(),
            line,
            message: message.into(),
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "`{}`", self.path)?;
            if self.line > 0 {
                write!(f, " (line {})", self.line)?;
            }
            f.write_str(": ")?;
        }
        f.write_str(&self.message)
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fault.fmt(f)?;
        match self.remedy {
            Some(remedy) => write!(f, "; {remedy}"),
            None => Ok(()),
        }
    }
}

impl Fault {
    /// Puts `key` in front of the path; the innermost line stays.
    pub(crate) fn under(mut self, key: &str, line: u64) -> Self {
        self.path = match self.path.as_str() {
            "" => key.to_owned(),
            path if path.starts_with('[') => format!("{key}{path}"),
            path => format!("{key}::{path}"),
        };
        if self.line == 0 {
            self.line = line;
        }
        self
    }
}

impl std::error::Error for Fault {}

impl serde::de::Error for Fault {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self {
            message: message.to_string(),
            ..Self::default()
        }
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        let message = unknown("key", expected.iter().copied(), field);
        Self {
            path: field.to_owned(),
            line: 0,
            message,
        }
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        let hint = unknown("value", expected.iter().copied(), variant);
        Self {
            message: format!("`{variant}`: {hint}"),
            ..Self::default()
        }
    }

    fn missing_field(field: &'static str) -> Self {
        Self {
            message: format!("the key `{field}` is missing"),
            ..Self::default()
        }
    }
}

/// `unknown key; did you mean ...? Known here: ...`
pub(crate) fn unknown<'a>(
    what: &str,
    known: impl Iterator<Item = &'a str> + Clone,
    found: &str,
) -> String {
    let list = known
        .clone()
        .map(|k| format!("`{k}`"))
        .collect::<Vec<_>>()
        .join(", ");
    let list = if list.is_empty() {
        "nothing".to_owned()
    } else {
        list
    };
    match nearest(known, found) {
        Some(near) => format!("unknown {what}; did you mean `{near}`? Known here: {list}"),
        None => format!("unknown {what}. Known here: {list}"),
    }
}

/// The known word closest to `found`, if it is close at all: a third of its length may differ.
fn nearest<'a>(known: impl Iterator<Item = &'a str>, found: &str) -> Option<&'a str> {
    known
        .map(|word| (distance(word, found), word))
        .filter(|(d, word)| {
            let is_close = *d <= word.len().max(found.len()) / 3 + 1;
            is_close || word.starts_with(found) || found.starts_with(word)
        })
        .min_by_key(|(d, _)| *d)
        .map(|(_, word)| word)
}

/// Edit distance in which swapping two neighbours is one step.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, cb) in b.iter().enumerate() {
            let mut best = (last[j] + usize::from(ca != cb))
                .min(last[j + 1] + 1)
                .min(row[j] + 1);
            if i > 0 && j > 0 && *ca == b[j - 1] && a[i - 1] == *cb {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}
