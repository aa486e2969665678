//! What a configuration that loads says, and its author probably did not mean.
//!
//! Most are traps that are copied from one Collector configuration to the next. Each finding has the
//! place in the file, so that the caller can print the line, what happens, and what to write
//! instead. Errors are no findings: they stop the load.

mod place;
mod policies;
mod top_level;

use crate::config::Config;

pub use self::place::Step;

/// Something to know about one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// Where, from the top of the `tail_sampling` section: `policies`, `[2]`, `latency`.
    pub place: Vec<Step>,
    /// Names of the policy and of those around it, joined by `/`; `None` for a top-level key.
    pub policy: Option<String>,
    /// What happens.
    pub what: String,
    /// What to do about it.
    pub remedy: &'static str,
}

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Good to know: a key that is moot here, or something that works otherwise than in the
    /// Collector.
    Note,
    /// Other traces than intended are probably kept.
    Warning,
}

impl Severity {
    /// `note` or `warning`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
        }
    }
}

impl Finding {
    /// The place as text: `policies[2].latency`.
    #[must_use]
    pub fn path(&self) -> String {
        place::text(&self.place)
    }
}

impl Config {
    /// What to know about a configuration that loads, in file order, top-level keys first.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        let mut findings = top_level::findings(self);
        policies::add_findings(self, &mut findings);
        findings
    }
}
