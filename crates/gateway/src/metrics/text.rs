//! Writes the Prometheus text exposition format 0.0.4.
//!
//! Source: <https://prometheus.io/docs/instrumenting/exposition_formats/>, "Text format details".

use std::fmt::Write;

/// A page of metrics.
#[derive(Debug, Default)]
pub(crate) struct Text(String);

impl Text {
    /// Begins a counter family; its samples follow.
    pub(crate) fn counter(&mut self, name: &str, help: &str) {
        self.family(name, "counter", help);
    }

    /// Begins a gauge family; its samples follow.
    pub(crate) fn gauges(&mut self, name: &str, help: &str) {
        self.family(name, "gauge", help);
    }

    /// A gauge without labels.
    pub(crate) fn gauge(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, "gauge", help);
        self.sample(name, &[], value);
    }

    /// A counter without labels.
    pub(crate) fn single_counter(&mut self, name: &str, help: &str, value: u64) {
        self.counter(name, help);
        self.sample(name, &[], value);
    }

    /// One sample of the family begun last.
    pub(crate) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: u64) {
        self.0.push_str(name);
        for (idx, (label, value)) in labels.iter().enumerate() {
            self.0.push(if idx == 0 { '{' } else { ',' });
            self.0.push_str(label);
            self.0.push_str("=\"");
            for c in value.chars() {
                match c {
                    '\\' => self.0.push_str("\\\\"),
                    '"' => self.0.push_str("\\\""),
                    '\n' => self.0.push_str("\\n"),
                    c => self.0.push(c),
                }
            }
            self.0.push('"');
        }
        let close = if labels.is_empty() { "" } else { "}" };
        // Writing to a string cannot fail.
        writeln!(self.0, "{close} {value}").ok();
    }

    pub(crate) fn into_string(self) -> String {
        self.0
    }

    fn family(&mut self, name: &str, kind: &str, help: &str) {
        writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}").ok();
    }
}
