//! Tests of the conversion: text on one side, decoded points on the other.

use opentelemetry_proto::tonic::{
    collector::metrics::v1::ExportMetricsServiceRequest,
    common::v1::{KeyValue, any_value},
    metrics::v1::{Metric, metric::Data, number_data_point},
};
use proptest::prelude::*;
use prost::Message;

use super::{Converted, Format, Limits, Scrape, SkipReason, to_protobuf};
use crate::{Signal, export, testing::exercise_prometheus};

const SCRAPED: u64 = 1_772_366_400_000_000_000;

const SCRAPE: Scrape<'static> = Scrape {
    resource: &[
        ("service.name", "vllm"),
        ("service.instance.id", "10.0.0.3:9400"),
    ],
    scope: "scraper",
    time_unix_nano: SCRAPED,
};

fn convert(text: &str) -> Converted {
    exercise_prometheus(text.as_bytes());
    to_protobuf(text.as_bytes(), Format::Text, &SCRAPE, &Limits::default())
}

/// Metrics of an export, decoded by prost.
fn decoded(converted: &Converted) -> Vec<Metric> {
    let request = ExportMetricsServiceRequest::decode(converted.body.as_slice()).unwrap();
    let [resource_metrics] = request.resource_metrics.as_slice() else {
        unreachable!("one resource");
    };
    let resource = resource_metrics.resource.as_ref().unwrap();
    assert_eq!(
        labels(&resource.attributes),
        "service.name=vllm service.instance.id=10.0.0.3:9400"
    );
    let [scope_metrics] = resource_metrics.scope_metrics.as_slice() else {
        unreachable!("one scope");
    };
    assert_eq!(scope_metrics.scope.as_ref().unwrap().name, "scraper");
    scope_metrics.metrics.clone()
}

fn labels(attributes: &[KeyValue]) -> String {
    let texts = attributes.iter().map(|attribute| {
        let value = attribute.value.clone().and_then(|value| value.value);
        let Some(any_value::Value::StringValue(text)) = value else {
            unreachable!("labels are strings");
        };
        format!("{}={text}", attribute.key)
    });
    texts.collect::<Vec<_>>().join(" ")
}

/// Points of metrics as text, one a line.
fn points(metrics: &[Metric]) -> Vec<String> {
    let mut lines = Vec::new();
    for metric in metrics {
        let name = &metric.name;
        let numbers =
            |kind: &str, points: &[opentelemetry_proto::tonic::metrics::v1::NumberDataPoint]| {
                let lines = points.iter().map(|point| {
                    let Some(number_data_point::Value::AsDouble(value)) = point.value else {
                        unreachable!("values are doubles");
                    };
                    let at = point.time_unix_nano.wrapping_sub(SCRAPED).cast_signed() / 1_000_000;
                    format!(
                        "{kind} {name} [{}] {value} @{at}ms",
                        labels(&point.attributes)
                    )
                });
                lines.collect::<Vec<_>>()
            };
        match metric.data.as_ref().unwrap() {
            Data::Gauge(gauge) => lines.extend(numbers("gauge", &gauge.data_points)),
            Data::Sum(sum) => {
                assert_eq!(sum.aggregation_temporality, 2);
                let kind = if sum.is_monotonic { "counter" } else { "state" };
                lines.extend(numbers(kind, &sum.data_points));
            }
            Data::Histogram(histogram) => {
                assert_eq!(histogram.aggregation_temporality, 2);
                lines.extend(histogram.data_points.iter().map(|point| {
                    format!(
                        "histogram {name} [{}] n={} sum={:?} {:?} {:?}",
                        labels(&point.attributes),
                        point.count,
                        point.sum,
                        point.explicit_bounds,
                        point.bucket_counts
                    )
                }));
            }
            Data::Summary(summary) => lines.extend(summary.data_points.iter().map(|point| {
                let quantiles = point.quantile_values.iter();
                let quantiles: Vec<_> = quantiles.map(|q| (q.quantile, q.value)).collect();
                format!(
                    "summary {name} [{}] n={} sum={} {quantiles:?}",
                    labels(&point.attributes),
                    point.count,
                    point.sum
                )
            })),
            Data::ExponentialHistogram(_) => unreachable!("text has none"),
        }
    }
    lines
}

#[track_caller]
fn check(text: &str, expected: &[&str]) -> Converted {
    let converted = convert(text);
    let metrics = decoded(&converted);
    let points = points(&metrics);
    assert_eq!(points, expected, "{text}");
    assert_eq!(converted.n_points, u64::try_from(points.len()).unwrap());
    let checked = export::check(Signal::Metrics, &converted.body, &export::Limits::default());
    assert_eq!(checked.unwrap().n_items, converted.n_points);
    converted
}

fn reasons(converted: &Converted) -> Vec<(u64, SkipReason)> {
    let skipped = converted.skipped.iter();
    skipped
        .map(|skipped| (skipped.line, skipped.reason))
        .collect()
}

#[test]
fn types_decide_the_kind_of_a_metric() {
    let text = "\
# HELP up Says \"up\".
# TYPE up gauge
up 1
# TYPE tokens_total counter
tokens_total{model=\"a\"} 5
tokens_total{model=\"b\"} 6
# TYPE odd nonsense
odd 2
# TYPE build info
build_info{version=\"1\"} 1
# UNIT power_watts watts
# TYPE power_watts gauge
power_watts 3.5
alone{} 7
";
    let converted = check(
        text,
        &[
            "gauge up [] 1 @0ms",
            "counter tokens_total [model=a] 5 @0ms",
            "counter tokens_total [model=b] 6 @0ms",
            "gauge odd [] 2 @0ms",
            "state build_info [version=1] 1 @0ms",
            "gauge power_watts [] 3.5 @0ms",
            "gauge alone [] 7 @0ms",
        ],
    );
    let metrics = decoded(&converted);
    assert_eq!(metrics[0].description, "Says \"up\".");
    assert_eq!(metrics[4].unit, "watts");
    assert_eq!(converted.n_skipped, 0);
}

#[test]
fn a_suffix_belongs_to_a_family_only_of_its_type() {
    check(
        "# TYPE a counter\na_sum 1\na_total 2\n# TYPE b gauge\nb_total 3\n# TYPE c summary\nc_bucket 4",
        &[
            "gauge a_sum [] 1 @0ms",
            "counter a_total [] 2 @0ms",
            "gauge b_total [] 3 @0ms",
            "gauge c_bucket [] 4 @0ms",
        ],
    );
}

#[test]
fn numbers_and_blanks_are_those_of_the_format() {
    check(
        "a 1e3\n\ta\t-0.5 \r\na +Inf\na -Inf\na NaN\na .5\n b { x = \"1\" , } 2 1772366401500\nb 3 0",
        &[
            "gauge a [] 1000 @0ms",
            "gauge a [] -0.5 @0ms",
            "gauge a [] inf @0ms",
            "gauge a [] -inf @0ms",
            "gauge a [] NaN @0ms",
            "gauge a [] 0.5 @0ms",
            "gauge b [x=1] 2 @1500ms",
            "gauge b [] 3 @-1772366400000ms",
        ],
    );
}

#[test]
fn labels_are_unescaped() {
    check(
        r#"a{x="q \" b \\ n \n t \t",y="",z="}, {"} 1
{"with.dots",x="1"} 2
{"x 1"="2","quoted name"} 3"#,
        &[
            "gauge a [x=q \" b \\ n \n t \\t y= z=}, {] 1 @0ms",
            "gauge with.dots [x=1] 2 @0ms",
            "gauge quoted name [x 1=2] 3 @0ms",
        ],
    );
}

#[test]
fn histograms_and_summaries_are_put_together() {
    let text = "\
# TYPE t histogram
t_bucket{m=\"a\",le=\"1.0\"} 2
t_bucket{m=\"b\",le=\"1.0\"} 1
t_bucket{m=\"a\",le=\"8.0\"} 5
t_bucket{m=\"a\",le=\"+Inf\"} 6
t_bucket{m=\"b\",le=\"+Inf\"} 1
t_count{m=\"a\"} 6.0
t_sum{m=\"a\"} 40.5
t_sum{m=\"b\"} 0.5
t_count{m=\"b\"} 1
# TYPE iteration_tokens_total histogram
iteration_tokens_total_bucket{le=\"8\"} 3
iteration_tokens_total_count 4
iteration_tokens_total_sum 20
# TYPE s summary
s{quantile=\"0.5\"} 1.5
s{quantile=\"0.99\"} NaN
s_sum 9
s_count 4
# TYPE bare histogram
bare_count 3
t_created 17
";
    check(
        text,
        &[
            "histogram t [m=a] n=6 sum=Some(40.5) [1.0, 8.0] [2, 3, 1]",
            "histogram t [m=b] n=1 sum=Some(0.5) [1.0] [1, 0]",
            "histogram iteration_tokens_total [] n=4 sum=Some(20.0) [8.0] [3, 1]",
            "summary s [] n=4 sum=9 [(0.5, 1.5), (0.99, NaN)]",
            "histogram bare [] n=3 sum=None [] []",
            "gauge t_created [] 17 @0ms",
        ],
    );
}

#[test]
fn a_histogram_that_contradicts_itself_is_left_out() {
    let converted = check(
        "# TYPE t histogram\nt_bucket{le=\"1\"} 5\nt_bucket{le=\"2\"} 3\nt_bucket{le=\"+Inf\"} 5\nx 1\n\
         # TYPE u histogram\nu_bucket{le=\"1\"} 5\nu_count 4\n# TYPE v histogram\nv_bucket 1\nv_bucket{le=\"1\"} 1.5",
        &["gauge x [] 1 @0ms"],
    );
    assert_eq!(
        reasons(&converted),
        [
            (5, SkipReason::Histogram),
            (10, SkipReason::Labels),
            (11, SkipReason::Histogram),
            (11, SkipReason::Histogram)
        ]
    );
}

#[test]
fn open_metrics_counts_seconds_and_ends_with_exemplars() {
    let text = "\
# TYPE req counter
req_total{path=\"/\"} 17 1772366400.5 # {trace_id=\"abc\"} 1 1772366400.1
req_created{path=\"/\"} 1772366300 1772366401
# EOF
";
    let converted = to_protobuf(
        text.as_bytes(),
        Format::of_content_type("application/openmetrics-text; version=1.0.0; charset=utf-8"),
        &SCRAPE,
        &Limits::default(),
    );
    let metrics = decoded(&converted);
    assert_eq!(
        points(&metrics),
        [
            "counter req_total [path=/] 17 @500ms",
            "gauge req_created [path=/] 1772366300 @1000ms"
        ]
    );
    assert_eq!(
        Format::of_content_type("text/plain; version=0.0.4"),
        Format::Text
    );
    assert_eq!(Format::of_content_type(""), Format::Text);
}

#[test]
fn a_bad_line_costs_that_line() {
    let text = "\
good 1
9name 1
a{x=\"1\" y=\"2\"} 1
a{x=1} 1
a{x=\"1} 1
a{x=\"1\"}
a N/A
a 1 2 3
a 1 -5
a 1 18446744073709551615
a{\"b\",\"c\"} 1
{x=\"1\"} 1
\u{e4} 1
last 2";
    let converted = check(text, &["gauge good [] 1 @0ms", "gauge last [] 2 @0ms"]);
    assert_eq!(converted.n_skipped, 12);
    assert_eq!(
        reasons(&converted),
        [
            (2, SkipReason::Name),
            (3, SkipReason::Labels),
            (4, SkipReason::Labels),
            (5, SkipReason::Labels),
            (6, SkipReason::Value),
            (7, SkipReason::Value),
            (8, SkipReason::Timestamp),
            (9, SkipReason::Timestamp)
        ]
    );
}

#[test]
fn limits_bound_lines_labels_and_points() {
    let limits = Limits {
        line_bytes_max: 20,
        labels_max: 1,
        points_max: 2,
    };
    let text = b"a 1\na{x=\"1\",y=\"2\"} 1\nname_that_is_too_long 1\n\xff 1\na 2\na 3\n# TYPE h histogram\nh_count 1";
    let converted = to_protobuf(text, Format::Text, &SCRAPE, &limits);
    assert_eq!(converted.n_points, 2);
    assert_eq!(
        reasons(&converted),
        [
            (2, SkipReason::TooManyLabels),
            (3, SkipReason::TooLong),
            (4, SkipReason::Utf8),
            (6, SkipReason::TooManyPoints),
            (8, SkipReason::TooManyPoints)
        ]
    );
}

#[test]
fn nothing_gives_a_request_without_points() {
    for text in ["", "\n\n", "# comment\n#\n# TYPE\n# HELP\n# TYPE x"] {
        check(text, &[]);
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        samples in proptest::collection::vec(
            ("[a-z_:][a-z0-9_:]{0,6}", proptest::collection::vec(("[a-z_][a-z0-9_]{0,4}", ".{0,8}"), 0..4), any::<f64>()),
            0..8,
        ),
    ) {
        let mut text = String::new();
        let mut expected = Vec::new();
        for (name, labels, value) in &samples {
            let written = labels.iter().map(|(key, value)| {
                let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
                format!("{key}=\"{value}\"")
            });
            let written = written.collect::<Vec<_>>().join(",");
            text.push_str(&format!("{name}{{{written}}} {value}\n"));
            let read = labels.iter().map(|(key, value)| format!("{key}={value}"));
            let read = read.collect::<Vec<_>>().join(" ");
            expected.push(format!("gauge {name} [{read}] {value} @0ms"));
        }
        let converted = convert(&text);
        prop_assert_eq!(points(&decoded(&converted)), expected);
        prop_assert_eq!(converted.n_skipped, 0);
    }

    #[test]
    fn any_text_gives_a_valid_request(
        bytes in proptest::collection::vec(
            prop_oneof![
                3 => Just(b"\n".to_vec()),
                3 => Just(b"# TYPE h histogram\n".to_vec()),
                2 => Just(b"# TYPE s summary\n".to_vec()),
                3 => Just(b"h_bucket{le=\"".to_vec()),
                2 => Just(b"s{quantile=\"0.5\"} ".to_vec()),
                3 => Just(b"\"} 1\n".to_vec()),
                4 => proptest::collection::vec(any::<u8>(), 0..6),
                4 => "[{}\",=# 0-9a-zN.+]{0,6}".prop_map(String::into_bytes),
            ],
            0..30,
        ),
    ) {
        exercise_prometheus(&bytes.concat());
    }
}
