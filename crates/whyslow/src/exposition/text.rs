//! Families as text: 0.0.4, and OpenMetrics 1.0.0.
//!
//! OpenMetrics names a counter without the `_total` of its samples; one whose name does not end so is `unknown` there.

use std::fmt::Write as _;

use super::{Family, Kind, Plain, Series, Value};
use crate::measured::histogram::{Exemplar, Histogram};

/// Text 0.0.4.
pub(super) fn plain(families: &[Family]) -> String {
    let mut page = Page {
        is_open: false,
        out: String::new(),
    };
    for family in families {
        page.family(family);
    }
    page.out
}

/// OpenMetrics, with exemplars.
pub(super) fn open_metrics(families: &[Family]) -> String {
    let mut page = Page {
        is_open: true,
        out: String::new(),
    };
    for family in families {
        page.family(family);
    }
    page.out.push_str("# EOF\n");
    page.out
}

struct Page {
    is_open: bool,
    out: String,
}

// Writing to a string cannot fail.
impl Page {
    fn family(&mut self, family: &Family) {
        let total = family.name.strip_suffix("_total");
        let (name, kind) = match (family.kind, total) {
            (Kind::Counter, Some(name)) if self.is_open => (name, "counter"),
            (Kind::Counter, None) if self.is_open => (family.name.as_str(), "unknown"),
            (Kind::Counter, _) => (family.name.as_str(), "counter"),
            (Kind::Gauge, _) => (family.name.as_str(), "gauge"),
            (Kind::Histogram, _) => (family.name.as_str(), "histogram"),
            (Kind::Untyped, _) if self.is_open => (family.name.as_str(), "unknown"),
            (Kind::Untyped, _) => (family.name.as_str(), "untyped"),
        };
        let help = escaped(&family.help, self.is_open);
        writeln!(self.out, "# HELP {name} {help}\n# TYPE {name} {kind}").ok();
        for series in &family.series {
            match &series.value {
                Value::Number(value) => {
                    self.sample(&family.name, series, None);
                    writeln!(self.out, " {}", Plain(*value)).ok();
                }
                Value::Histogram(histogram) => self.histogram(&family.name, series, histogram),
            }
        }
    }

    fn histogram(&mut self, name: &str, series: &Series, histogram: &Histogram) {
        let bucket_name = format!("{name}_bucket");
        for bucket in histogram.classic() {
            let bound = if self.is_open && bucket.upper_bound.is_finite() {
                format!("{:?}", bucket.upper_bound)
            } else {
                Plain(bucket.upper_bound).to_string()
            };
            self.sample(&bucket_name, series, Some(&bound));
            write!(self.out, " {}", bucket.cumulative_count).ok();
            if self.is_open
                && let Some(exemplar) = bucket.exemplar
            {
                self.exemplar(exemplar);
            }
            self.out.push('\n');
        }
        self.sample(&format!("{name}_sum"), series, None);
        writeln!(self.out, " {}", Plain(histogram.sum())).ok();
        self.sample(&format!("{name}_count"), series, None);
        writeln!(self.out, " {}", histogram.count()).ok();
    }

    fn exemplar(&mut self, exemplar: &Exemplar) {
        let (id, value) = (exemplar.trace_id.to_hex(), Plain(exemplar.value));
        write!(self.out, " # {{trace_id=\"{id}\"}} {value}").ok();
        let (seconds, nanos) = exemplar.time();
        write!(self.out, " {seconds}.{:03}", nanos / 1_000_000).ok();
    }

    /// Name and labels of a sample.
    fn sample(&mut self, name: &str, series: &Series, bound: Option<&str>) {
        self.out.push_str(name);
        let labels = series.labels.iter().map(|(n, v)| (n.as_str(), v.as_str()));
        let labels = labels.chain(bound.map(|bound| ("le", bound)));
        let mut is_first = true;
        for (name, value) in labels {
            self.out.push(if is_first { '{' } else { ',' });
            is_first = false;
            write!(self.out, "{name}=\"{}\"", escaped(value, true)).ok();
        }
        if !is_first {
            self.out.push('}');
        }
    }
}

fn escaped(text: &str, has_quotes: bool) -> String {
    let text = text.replace('\\', "\\\\").replace('\n', "\\n");
    if has_quotes {
        text.replace('"', "\\\"")
    } else {
        text
    }
}
