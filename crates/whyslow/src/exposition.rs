//! A page of metrics in the formats that scrapers of Prometheus ask for.
//!
//! | asked for | answered | histograms |
//! |---|---|---|
//! | `application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited` | that (`protobuf`) | classic and native buckets, exemplars, created times |
//! | `application/openmetrics-text` | version 1.0.0 (`text`) | classic buckets with exemplars |
//! | anything else | text 0.0.4 (`text`) | classic buckets |
//!
//! The counters of the stages come as text 0.0.4, as each stage writes it; [`Family::read_all`] reads that back, so that
//! every format has the same families.
//!
//! It must not know what is counted.

mod accept;
mod protobuf;
mod read;
mod text;

use std::fmt;

pub(crate) use accept::Format;

use crate::measured::histogram::Histogram;

/// What a family's values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Counter,
    Gauge,
    Histogram,
    Untyped,
}

/// All series of one name.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Family {
    pub(crate) name: String,
    pub(crate) help: String,
    pub(crate) kind: Kind,
    pub(crate) series: Vec<Series>,
}

/// One series.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Series {
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) value: Value,
}

/// Its value now.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Number(f64),
    Histogram(Histogram),
}

impl Family {
    pub(crate) fn new(name: &str, kind: Kind, help: &str) -> Self {
        Self {
            name: name.to_owned(),
            help: help.to_owned(),
            kind,
            series: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, labels: &[(&str, &str)], value: Value) {
        let labels = labels
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        self.series.push(Series {
            labels: labels.collect(),
            value,
        });
    }

    /// Reads a page of text 0.0.4 that a stage of this program has written.
    pub(crate) fn read_all(page: &str) -> Vec<Self> {
        read::families(page)
    }
}

/// A page in a format. `stages` is text 0.0.4; `families` come after it. Counters began at `created_unix_nano`.
pub(crate) fn render(
    format: Format,
    stages: String,
    families: &[Family],
    created_unix_nano: u64,
) -> Vec<u8> {
    let all = || {
        let mut all = Family::read_all(&stages);
        all.extend_from_slice(families);
        all
    };
    match format {
        Format::Text => (stages + &text::plain(families)).into_bytes(),
        Format::OpenMetrics => text::open_metrics(&all()).into_bytes(),
        Format::Protobuf => protobuf::delimited(&all(), created_unix_nano),
    }
}

/// A number as Go's client writes it: whole numbers without a point.
struct Plain(f64);

impl fmt::Display for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            value if value == f64::INFINITY => f.write_str("+Inf"),
            value if value == f64::NEG_INFINITY => f.write_str("-Inf"),
            value => write!(f, "{value}"),
        }
    }
}

#[cfg(test)]
mod tests;
