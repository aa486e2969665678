//! The formats, read back by code that shares nothing with what writes them.

use std::collections::BTreeMap;

use otlp::{SpanId, TraceId};
use tables::requests::Request;

use super::{Family, Format, Kind, render};
use crate::config::Slo;
use crate::measured::Measured;

const STAGES: &str = "\
# HELP lake_commits_total Commits made.
# TYPE lake_commits_total counter
lake_commits_total 7
# HELP sampler_policy_traces_total Verdicts.
# TYPE sampler_policy_traces_total counter
sampler_policy_traces_total{policy=\"a, \\\"b\\\"} = \\\\ \\n\",verdict=\"sampled\"} 3
# HELP otelcol_sent_spans Spans.
# TYPE otelcol_sent_spans counter
otelcol_sent_spans 18446744073709551615
# HELP gateway_connections Open connections.
# TYPE gateway_connections gauge
gateway_connections 2
# HELP nothing_total Without series.
# TYPE nothing_total counter
";

fn measured() -> Measured {
    let measured = Measured::new(Slo::default(), 1_700_000_000_500_000_000);
    for (idx, e2e_s) in [0.0, 0.01, 0.011, 1.0, 1.1, 1.2, 100.0, 2_000.0]
        .into_iter()
        .enumerate()
    {
        let trace_id = TraceId::from_slice(&[7; 16]).unwrap();
        let span_id = SpanId::from_slice(&[1; 8]).unwrap();
        measured.count(&Request {
            e2e_s: Some(e2e_s),
            model: Some("tiny".to_owned()),
            decision: Some(if idx == 3 { "sampled" } else { "not_sampled" }),
            end_time_unix_nano: 1_700_000_001_000_000_000,
            ..Request::new(trace_id, span_id)
        });
    }
    measured
}

fn page(format: Format) -> Vec<u8> {
    let measured = measured();
    let created = measured.created_unix_nano();
    render(format, STAGES.to_owned(), &measured.families(), created)
}

#[test]
fn what_a_stage_writes_is_read_back() {
    let families = Family::read_all(STAGES);
    let kinds: Vec<(&str, Kind)> = families.iter().map(|f| (f.name.as_str(), f.kind)).collect();
    assert_eq!(
        kinds,
        [
            ("lake_commits_total", Kind::Counter),
            ("sampler_policy_traces_total", Kind::Counter),
            ("otelcol_sent_spans", Kind::Counter),
            ("gateway_connections", Kind::Gauge),
        ]
    );
    assert_eq!(families[1].series[0].labels[0].1, "a, \"b\"} = \\ \n");
}

#[test]
fn text_begins_with_what_the_stages_wrote() {
    let page = String::from_utf8(page(Format::Text)).unwrap();
    let rest = page.strip_prefix(STAGES).unwrap();
    expect_test::expect_file!["../../testdata/metrics.txt"].assert_eq(rest);
}

#[test]
fn open_metrics_names_counters_without_total_and_has_exemplars() {
    let page = String::from_utf8(page(Format::OpenMetrics)).unwrap();
    expect_test::expect_file!["../../testdata/metrics.openmetrics.txt"].assert_eq(&page);
}

#[test]
fn a_scraper_gets_what_it_prefers_and_everybody_else_text() {
    let prometheus = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,\
                      application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
                      application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
    for (accept, format) in [
        ("", Format::Text),
        ("*/*", Format::Text),
        ("text/html, application/json;q=0.9", Format::Text),
        (prometheus, Format::Protobuf),
        (prometheus.split_once(',').unwrap().1, Format::OpenMetrics),
        (
            "application/openmetrics-text; version=2.0.0, text/plain",
            Format::Text,
        ),
        ("application/openmetrics-text;q=0", Format::Text),
        ("application/openmetrics-text;q=x", Format::Text),
        (
            "text/plain;q=0.5, application/openmetrics-text; version=\"1.0.0\"; q=0.9",
            Format::OpenMetrics,
        ),
        (
            "application/vnd.google.protobuf;encoding=text;proto=io.prometheus.client.MetricFamily",
            Format::Text,
        ),
        (";;,,==;q", Format::Text),
    ] {
        assert_eq!(Format::accepted(accept), format, "{accept}");
    }
}

/// A field of a protobuf message: its number, and a number or bytes.
#[derive(Debug, Clone, PartialEq)]
enum Field<'a> {
    Number(u64),
    Fixed(f64),
    Bytes(&'a [u8]),
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..).step_by(7) {
        let (byte, rest) = bytes.split_first().unwrap();
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return number;
        }
    }
    unreachable!()
}

fn take<'a>(bytes: &mut &'a [u8]) -> &'a [u8] {
    let length = usize::try_from(varint(bytes)).unwrap();
    let (taken, rest) = bytes.split_at(length);
    *bytes = rest;
    taken
}

fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let field = match tag & 7 {
            0 => Field::Number(varint(&mut bytes)),
            1 => {
                let (double, rest) = bytes.split_at(8);
                bytes = rest;
                Field::Fixed(f64::from_le_bytes(double.try_into().unwrap()))
            }
            2 => Field::Bytes(take(&mut bytes)),
            wire => panic!("wire type {wire}"),
        };
        fields.push((tag >> 3, field));
    }
    fields
}

/// The messages in all fields with this number.
fn messages(of: &[u8], number: u64) -> Vec<&[u8]> {
    let found = fields(of).into_iter().filter(|(n, _)| *n == number);
    let bytes = found.map(|(_, field)| match field {
        Field::Bytes(bytes) => bytes,
        other => panic!("{other:?}"),
    });
    bytes.collect()
}

fn text(of: &[u8], number: u64) -> String {
    String::from_utf8(messages(of, number)[0].to_vec()).unwrap()
}

fn one<'a>(of: &'a [u8], number: u64) -> Field<'a> {
    fields(of)
        .into_iter()
        .find(|(n, _)| *n == number)
        .unwrap()
        .1
}

fn signed(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

#[test]
fn protobuf_has_every_family_and_native_buckets() {
    let page = page(Format::Protobuf);
    let mut rest = page.as_slice();
    let mut families = BTreeMap::new();
    while !rest.is_empty() {
        let family = take(&mut rest);
        families.insert(text(family, 1), family);
    }
    let names: Vec<&str> = families.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "gateway_connections",
            "lake_commits_total",
            "llm_request_e2e_seconds",
            "llm_requests_total",
            "otelcol_sent_spans",
            "sampler_policy_traces_total",
        ]
    );

    // A gauge is field 2, a counter field 3.
    let gauge = messages(families["gateway_connections"], 4)[0];
    assert_eq!(one(messages(gauge, 2)[0], 1), Field::Fixed(2.0));
    let verdicts = messages(families["sampler_policy_traces_total"], 4)[0];
    assert_eq!(one(messages(verdicts, 3)[0], 1), Field::Fixed(3.0));
    assert_eq!(text(messages(verdicts, 1)[0], 2), "a, \"b\"} = \\ \n");

    let family = families["llm_request_e2e_seconds"];
    assert_eq!(one(family, 3), Field::Number(4), "HISTOGRAM");
    let metric = messages(family, 4)[0];
    let histogram = messages(metric, 7)[0];
    assert_eq!(one(histogram, 1), Field::Number(8), "sample_count");
    assert_eq!(one(histogram, 5), Field::Number(6), "schema 3, zigzag");
    assert_eq!(one(histogram, 7), Field::Number(1), "zero_count");
    let created = messages(histogram, 15)[0];
    assert_eq!(one(created, 1), Field::Number(1_700_000_000));
    assert_eq!(
        native_counts(histogram),
        BTreeMap::from([
            // 0.01 lies below 2^(-53/8), 0.011 below 2^(-52/8).
            (-53, 1),
            (-52, 1),
            (0, 1),
            (2, 1),
            (3, 1),
            (54, 1),
            (88, 1),
        ])
    );
    let exemplars = messages(histogram, 16);
    assert_eq!(exemplars.len(), 1);
    assert_eq!(text(messages(exemplars[0], 1)[0], 2), "07".repeat(16));
    let buckets = messages(histogram, 3);
    assert_eq!(buckets.len(), 22);
    assert_eq!(one(buckets[21], 2), Field::Fixed(f64::INFINITY));
}

/// Counts of the positive native buckets by number, from spans and deltas.
fn native_counts(histogram: &[u8]) -> BTreeMap<i64, i64> {
    let mut deltas = Vec::new();
    for (number, field) in fields(histogram) {
        match (number, field) {
            (13, Field::Number(delta)) => deltas.push(signed(delta)),
            (13, Field::Bytes(mut packed)) => {
                while !packed.is_empty() {
                    deltas.push(signed(varint(&mut packed)));
                }
            }
            _ => {}
        }
    }
    let mut deltas = deltas.into_iter();
    let (mut counts, mut idx, mut count) = (BTreeMap::new(), 0, 0);
    for span in messages(histogram, 12) {
        let Field::Number(offset) = one(span, 1) else {
            panic!("no offset")
        };
        idx += signed(offset);
        let Field::Number(length) = one(span, 2) else {
            panic!("no length")
        };
        for _ in 0..length {
            count += deltas.next().unwrap();
            counts.insert(idx, count);
            idx += 1;
        }
    }
    assert_eq!(deltas.next(), None);
    counts
}
