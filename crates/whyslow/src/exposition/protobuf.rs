//! Families as `io.prometheus.client.MetricFamily` messages, each behind its length.
//!
//! The numbers of the fields are those of `client_model`'s `metrics.proto`. A histogram has its classic and its native buckets:
//! a scraper takes what it is set up for.

use correlate::buckets::{SCHEMA, ZERO_THRESHOLD};
use prost::Message as _;

use super::{Family, Kind, Series, Value};
use crate::measured::histogram::{Exemplar, Histogram};

pub(super) fn delimited(families: &[Family], created_unix_nano: u64) -> Vec<u8> {
    let created = timestamp(created_unix_nano);
    let mut out = Vec::new();
    for family in families {
        let message = wire::MetricFamily {
            name: Some(family.name.clone()),
            help: Some(family.help.clone()),
            r#type: Some(match family.kind {
                Kind::Counter => wire::COUNTER,
                Kind::Gauge => wire::GAUGE,
                Kind::Untyped => wire::UNTYPED,
                Kind::Histogram => wire::HISTOGRAM,
            }),
            metric: family
                .series
                .iter()
                .map(|series| metric(family.kind, series, &created))
                .collect(),
        };
        // Only a buffer with an end can be too small.
        message.encode_length_delimited(&mut out).ok();
    }
    out
}

fn metric(kind: Kind, series: &Series, created: &wire::Timestamp) -> wire::Metric {
    let labels = series.labels.iter();
    let mut metric = wire::Metric {
        label: labels.map(|(name, value)| label(name, value)).collect(),
        ..wire::Metric::default()
    };
    match (&series.value, kind) {
        (Value::Histogram(found), _) => {
            metric.histogram = Some(histogram(found, created));
        }
        (Value::Number(value), Kind::Counter) => {
            metric.counter = Some(wire::Counter {
                value: Some(*value),
                created_timestamp: Some(created.clone()),
            });
        }
        (Value::Number(value), Kind::Gauge) => {
            metric.gauge = Some(wire::Number {
                value: Some(*value),
            });
        }
        (Value::Number(value), Kind::Untyped | Kind::Histogram) => {
            metric.untyped = Some(wire::Number {
                value: Some(*value),
            });
        }
    }
    metric
}

fn label(name: &str, value: &str) -> wire::LabelPair {
    wire::LabelPair {
        name: Some(name.to_owned()),
        value: Some(value.to_owned()),
    }
}

fn histogram(found: &Histogram, created: &wire::Timestamp) -> wire::Histogram {
    let mut histogram = wire::Histogram {
        sample_count: Some(found.count()),
        sample_sum: Some(found.sum()),
        schema: Some(SCHEMA),
        zero_threshold: Some(ZERO_THRESHOLD),
        zero_count: Some(found.n_zero()),
        created_timestamp: Some(created.clone()),
        ..wire::Histogram::default()
    };
    for bucket in found.classic() {
        histogram.bucket.push(wire::Bucket {
            cumulative_count: Some(bucket.cumulative_count),
            upper_bound: Some(bucket.upper_bound),
            exemplar: bucket.exemplar.map(exemplar),
        });
        histogram.exemplars.extend(bucket.exemplar.map(exemplar));
    }
    let mut before = None;
    let mut count_before = 0;
    for (idx, count) in found.native() {
        let gap = before.map_or(idx, |before| idx - before - 1);
        match histogram.positive_span.last_mut() {
            Some(span) if gap == 0 => span.length = span.length.map(|length| length + 1),
            _ => histogram.positive_span.push(wire::BucketSpan {
                offset: Some(gap),
                length: Some(1),
            }),
        }
        // Each count is written as the difference from the one before.
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        histogram.positive_delta.push(count - count_before);
        (before, count_before) = (Some(idx), count);
    }
    if histogram.positive_span.is_empty() && found.n_zero() == 0 {
        // Else it could not be told from a classic one.
        histogram.positive_span.push(wire::BucketSpan {
            offset: Some(0),
            length: Some(0),
        });
    }
    histogram
}

fn exemplar(exemplar: &Exemplar) -> wire::Exemplar {
    wire::Exemplar {
        label: vec![label("trace_id", &exemplar.trace_id.to_hex())],
        value: Some(exemplar.value),
        timestamp: Some(timestamp(exemplar.time_unix_nano)),
    }
}

fn timestamp(unix_nano: u64) -> wire::Timestamp {
    const SECOND: u64 = 1_000_000_000;
    wire::Timestamp {
        seconds: i64::try_from(unix_nano / SECOND).unwrap_or(i64::MAX),
        nanos: i32::try_from(unix_nano % SECOND).unwrap_or(0),
    }
}

/// The messages, as far as they are used.
mod wire {
    pub(super) const COUNTER: i32 = 0;
    pub(super) const GAUGE: i32 = 1;
    pub(super) const UNTYPED: i32 = 3;
    pub(super) const HISTOGRAM: i32 = 4;

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct MetricFamily {
        #[prost(string, optional, tag = "1")]
        pub(super) name: Option<String>,
        #[prost(string, optional, tag = "2")]
        pub(super) help: Option<String>,
        #[prost(int32, optional, tag = "3")]
        pub(super) r#type: Option<i32>,
        #[prost(message, repeated, tag = "4")]
        pub(super) metric: Vec<Metric>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Metric {
        #[prost(message, repeated, tag = "1")]
        pub(super) label: Vec<LabelPair>,
        #[prost(message, optional, tag = "2")]
        pub(super) gauge: Option<Number>,
        #[prost(message, optional, tag = "3")]
        pub(super) counter: Option<Counter>,
        #[prost(message, optional, tag = "5")]
        pub(super) untyped: Option<Number>,
        #[prost(message, optional, tag = "7")]
        pub(super) histogram: Option<Histogram>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct LabelPair {
        #[prost(string, optional, tag = "1")]
        pub(super) name: Option<String>,
        #[prost(string, optional, tag = "2")]
        pub(super) value: Option<String>,
    }

    /// A gauge, or a value of no known kind.
    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Number {
        #[prost(double, optional, tag = "1")]
        pub(super) value: Option<f64>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Counter {
        #[prost(double, optional, tag = "1")]
        pub(super) value: Option<f64>,
        #[prost(message, optional, tag = "3")]
        pub(super) created_timestamp: Option<Timestamp>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Histogram {
        #[prost(uint64, optional, tag = "1")]
        pub(super) sample_count: Option<u64>,
        #[prost(double, optional, tag = "2")]
        pub(super) sample_sum: Option<f64>,
        #[prost(message, repeated, tag = "3")]
        pub(super) bucket: Vec<Bucket>,
        #[prost(sint32, optional, tag = "5")]
        pub(super) schema: Option<i32>,
        #[prost(double, optional, tag = "6")]
        pub(super) zero_threshold: Option<f64>,
        #[prost(uint64, optional, tag = "7")]
        pub(super) zero_count: Option<u64>,
        #[prost(message, repeated, tag = "12")]
        pub(super) positive_span: Vec<BucketSpan>,
        #[prost(sint64, repeated, tag = "13")]
        pub(super) positive_delta: Vec<i64>,
        #[prost(message, optional, tag = "15")]
        pub(super) created_timestamp: Option<Timestamp>,
        #[prost(message, repeated, tag = "16")]
        pub(super) exemplars: Vec<Exemplar>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Bucket {
        #[prost(uint64, optional, tag = "1")]
        pub(super) cumulative_count: Option<u64>,
        #[prost(double, optional, tag = "2")]
        pub(super) upper_bound: Option<f64>,
        #[prost(message, optional, tag = "3")]
        pub(super) exemplar: Option<Exemplar>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct BucketSpan {
        #[prost(sint32, optional, tag = "1")]
        pub(super) offset: Option<i32>,
        #[prost(uint32, optional, tag = "2")]
        pub(super) length: Option<u32>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Exemplar {
        #[prost(message, repeated, tag = "1")]
        pub(super) label: Vec<LabelPair>,
        #[prost(double, optional, tag = "2")]
        pub(super) value: Option<f64>,
        #[prost(message, optional, tag = "3")]
        pub(super) timestamp: Option<Timestamp>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Timestamp {
        #[prost(int64, tag = "1")]
        pub(super) seconds: i64,
        #[prost(int32, tag = "2")]
        pub(super) nanos: i32,
    }
}
