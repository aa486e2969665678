//! A `tail_sampling` section: its shape, what the sampler refuses in it, and what it finds.
//!
//! The sampler gives the place of a finding as steps into the section; the tree knows the lines.

#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use sampler::{Finding, Step};

use super::components::{Section, type_of};
use super::de;
use super::error::{Error, Warning};
use super::tree::Node;

/// Type of the processor.
pub(super) const KIND: &str = "tail_sampling";

/// Reads the section `node`, which stands at `path`, and adds what to know about it.
pub(super) fn read(
    node: &Node,
    path: &str,
    warnings: &mut Vec<Warning>,
) -> Result<sampler::Config, Error> {
    let config: sampler::Config = de::read(node, path)?;
    config
        .validate()
        .map_err(|e| refusal(&e, &config, node, path))?;
    let findings = config.findings();
    warnings.extend(findings.iter().map(|finding| warning(finding, node, path)));
    Ok(config)
}

/// One `tail_sampling` section of a file that may be refused for something else.
#[derive(Debug)]
pub(crate) struct Reviewed {
    /// Keys from the top, joined by `::`.
    pub(crate) path: String,
    /// The policies, or why the section is refused.
    pub(crate) config: Result<sampler::Config, Error>,
    /// What to know about it.
    pub(crate) warnings: Vec<Warning>,
}

/// Reads every `tail_sampling` section of a file, in use or not, and one that is the whole file.
pub(super) fn review(root: &Node) -> Vec<Reviewed> {
    let key = Section::Processors.key();
    let processors = root.child(key).map(Node::entries).unwrap_or_default();
    let of_file = root.entries().iter().map(|entry| (entry, String::new()));
    let sections = processors.iter().map(|entry| (entry, format!("{key}::")));
    sections
        .chain(of_file)
        .filter(|((id, _), _)| type_of(id) == KIND)
        .map(|((id, node), above)| {
            let path = format!("{above}{id}");
            let mut warnings = Vec::new();
            Reviewed {
                config: read(node, &path, &mut warnings),
                path,
                warnings,
            }
        })
        .collect()
}

fn refusal(error: &sampler::Error, config: &sampler::Config, section: &Node, path: &str) -> Error {
    let message = crate::show::text::error_chain(error);
    let Some(idx) = error.position_in(&config.policies) else {
        return Error::at(path, section.line, message);
    };
    let policies = section.child("policies");
    let line = policies.and_then(|policies| policies.item(idx));
    let line = line.map_or(section.line, |policy| policy.line);
    Error::at(&format!("{path}::policies[{idx}]"), line, message)
}

fn warning(finding: &Finding, section: &Node, path: &str) -> Warning {
    let mut place = path.to_owned();
    let mut node = Some(section);
    // A key that is not written has the line of what it would be in.
    let mut line = section.line;
    for step in &finding.place {
        node = match step {
            Step::Key(key) => {
                place.push_str("::");
                place.push_str(key);
                node.and_then(|node| node.child(key))
            }
            Step::Item(idx) => {
                // Writing to a `String` cannot fail.
                write!(place, "[{idx}]").ok();
                node.and_then(|node| node.item(*idx))
            }
        };
        line = node.map_or(line, |node| node.line);
    }
    let message = match &finding.policy {
        Some(policy) => format!("policy `{policy}`: {}", finding.what),
        None => finding.what.clone(),
    };
    Warning {
        severity: finding.severity,
        remedy: Some(finding.remedy),
        ..Warning::new(&place, line, message)
    }
}
