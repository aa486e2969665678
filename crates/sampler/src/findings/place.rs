//! Places in a configuration file.

use std::fmt::Write;

/// One step from the outside in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The value of a key.
    Key(&'static str),
    /// An item of a list, counted from 0.
    Item(usize),
}

/// As `policies[2].latency`.
pub(super) fn text(place: &[Step]) -> String {
    let mut text = String::new();
    for step in place {
        // Writing to a `String` cannot fail.
        match step {
            Step::Key(key) if text.is_empty() => text.push_str(key),
            Step::Key(key) => write!(text, ".{key}").unwrap_or_default(),
            Step::Item(idx) => write!(text, "[{idx}]").unwrap_or_default(),
        }
    }
    text
}
