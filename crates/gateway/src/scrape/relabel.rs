//! Rules on labels, as Prometheus' `relabel_configs`.
//!
//! Regular expressions match the whole text. Labels with an empty value do not exist.

use std::collections::BTreeMap;

use regex::Regex;
use serde::{Deserialize, Deserializer, de};

/// Labels of a target; those that begin with `__` are gone after the last rule.
pub type Labels = BTreeMap<String, String>;

/// One rule.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rule {
    /// Labels whose values are joined and compared. Default: none.
    pub source_labels: Vec<String>,
    /// Text between the values. Default `;`.
    pub separator: String,
    /// Compared with the whole of the joined values (of `label*` actions: with names of labels).
    /// Default `(.*)`.
    #[serde(deserialize_with = "anchored")]
    pub regex: Regex,
    /// Label that is set by `replace`, `lowercase` and `uppercase`.
    pub target_label: String,
    /// What it is set to, with `$1` for what the expression found. Default `$1`.
    pub replacement: String,
    /// What is done. Default `replace`.
    pub action: Action,
}

/// What a rule does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Sets a label, if the expression matches.
    #[default]
    Replace,
    /// Leaves the target out unless the expression matches.
    Keep,
    /// Leaves the target out if the expression matches.
    Drop,
    /// Copies labels whose names match to the names that the replacement gives.
    LabelMap,
    /// Removes labels whose names match.
    LabelDrop,
    /// Removes labels whose names do not match.
    LabelKeep,
    /// Sets a label to the joined values in lower case.
    Lowercase,
    /// Sets a label to the joined values in upper case.
    Uppercase,
}

impl Default for Rule {
    fn default() -> Self {
        #[expect(clippy::expect_used, reason = "a constant expression")]
        let regex = anchor("(.*)").expect("the default expression is valid");
        Self {
            source_labels: Vec::new(),
            separator: ";".to_owned(),
            regex,
            target_label: String::new(),
            replacement: "$1".to_owned(),
            action: Action::default(),
        }
    }
}

impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        let key = |rule: &Self| {
            let texts = [
                rule.separator.clone(),
                rule.regex.as_str().to_owned(),
                rule.target_label.clone(),
                rule.replacement.clone(),
            ];
            (rule.source_labels.clone(), texts, rule.action)
        };
        key(self) == key(other)
    }
}

/// Applies rules in order; false if the target is left out.
pub fn apply(rules: &[Rule], labels: &mut Labels) -> bool {
    rules.iter().all(|rule| rule.apply(labels))
}

impl Rule {
    fn apply(&self, labels: &mut Labels) -> bool {
        match self.action {
            Action::Replace => self.replace(labels),
            Action::Keep => return self.regex.is_match(&self.joined(labels)),
            Action::Drop => return !self.regex.is_match(&self.joined(labels)),
            Action::LabelMap => {
                let mapped = labels.iter().filter_map(|(name, value)| {
                    let found = self.regex.captures(name)?;
                    Some((self.expand(&found), value.clone()))
                });
                let mapped: Vec<_> = mapped.collect();
                for (name, value) in mapped {
                    set(labels, &name, value);
                }
            }
            Action::LabelDrop => labels.retain(|name, _| !self.regex.is_match(name)),
            Action::LabelKeep => labels.retain(|name, _| self.regex.is_match(name)),
            Action::Lowercase => {
                let value = self.joined(labels).to_lowercase();
                set(labels, &self.target_label, value);
            }
            Action::Uppercase => {
                let value = self.joined(labels).to_uppercase();
                set(labels, &self.target_label, value);
            }
        }
        true
    }

    fn replace(&self, labels: &mut Labels) {
        let joined = self.joined(labels);
        if let Some(found) = self.regex.captures(&joined) {
            let value = self.expand(&found);
            set(labels, &self.target_label, value);
        }
    }

    fn joined(&self, labels: &Labels) -> String {
        let value = |name| labels.get(name).map_or("", String::as_str);
        let values: Vec<&str> = self.source_labels.iter().map(value).collect();
        values.join(&self.separator)
    }

    fn expand(&self, found: &regex::Captures<'_>) -> String {
        let mut expanded = String::new();
        found.expand(&self.replacement, &mut expanded);
        expanded
    }
}

fn set(labels: &mut Labels, name: &str, value: String) {
    if value.is_empty() {
        labels.remove(name);
    } else if !name.is_empty() {
        labels.insert(name.to_owned(), value);
    }
}

fn anchor(text: &str) -> Result<Regex, regex::Error> {
    Regex::new(&format!("^(?s:{text})$"))
}

fn anchored<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Regex, D::Error> {
    let text = String::deserialize(deserializer)?;
    anchor(&text).map_err(de::Error::custom)
}
