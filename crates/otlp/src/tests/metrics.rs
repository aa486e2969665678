//! Points read from bytes are those that prost decodes.

use opentelemetry_proto::tonic::{
    collector::metrics::v1::ExportMetricsServiceRequest,
    common::v1::KeyValue,
    metrics::v1::{
        ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Histogram, HistogramDataPoint,
        Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, Summary, SummaryDataPoint,
        metric::Data, number_data_point::Value as Number, summary_data_point::ValueAtQuantile,
    },
    resource::v1::Resource,
};
use proptest::{collection::vec, option, prelude::*};
use prost::Message;

use super::{
    agreement::same_attributes,
    arbitrary::{attributes, damage, text, time},
};
use crate::{
    Signal, attribute,
    export::{Limits, check},
    json,
    metrics::{Kind, MetricAt, Point, PointValue, Temporality, metrics},
    testing::exercise_metrics,
};

proptest! {
    #[test]
    fn generated_metrics_read_as_they_decode(request in request()) {
        let body = request.encode_to_vec();
        prop_assert!(check(Signal::Metrics, &body, &Limits::default()).is_ok());
        agree(&body);
    }

    #[test]
    fn damaged_metrics_fail_or_read_as_they_decode(request in request(), damage in damage()) {
        let mut body = request.encode_to_vec();
        for damage in damage {
            damage.apply(&mut body);
            agree(&body);
        }
    }
}

#[test]
fn every_field_cut_or_changed_at_every_byte_reads_as_it_decodes() {
    let text = include_str!("../../testdata/every-field-metrics.json");
    let body = json::to_protobuf(Signal::Metrics, text.as_bytes(), &Limits::default()).unwrap();
    for i in 0..body.len() {
        agree(&body[..i]);
        for flipped in [1, 7, 0x7f, 0x80] {
            let mut body = body.clone();
            body[i] ^= flipped;
            agree(&body);
        }
    }
    agree(&body);
}

/// If the check passes and prost agrees, every point is the same. (That both pass or fail together
/// is tested where the check is.)
fn agree(body: &[u8]) {
    exercise_metrics(body);
    if check(Signal::Metrics, body, &Limits::default()).is_err() {
        return;
    }
    let Ok(decoded) = ExportMetricsServiceRequest::decode(body) else {
        return;
    };
    let mut ours = metrics(body);
    for resource_metrics in &decoded.resource_metrics {
        let resource = resource_metrics.resource.clone().unwrap_or_default();
        for metric in resource_metrics
            .scope_metrics
            .iter()
            .flat_map(|s| &s.metrics)
        {
            let at = ours.next().expect("as many metrics").expect("readable");
            same_attributes(attribute::of_resource(at.resource), &resource.attributes);
            same_metric(&at, metric);
        }
    }
    assert!(ours.next().is_none());
}

fn same_metric(at: &MetricAt<'_>, want: &Metric) {
    assert_eq!((at.name, at.unit), (want.name.as_str(), want.unit.as_str()));
    let points: Vec<Point<'_>> = at.points().map(Result::unwrap).collect();
    let (kind, temporality, is_monotonic) = match &want.data {
        None => (Kind::Unset, 0, false),
        Some(Data::Gauge(gauge)) => {
            numbers(&points, &gauge.data_points);
            (Kind::Gauge, 0, false)
        }
        Some(Data::Sum(sum)) => {
            numbers(&points, &sum.data_points);
            (Kind::Sum, sum.aggregation_temporality, sum.is_monotonic)
        }
        Some(Data::Histogram(histogram)) => {
            let want = histogram.data_points.iter();
            assert_eq!(points.len(), want.len());
            for (ours, want) in points.iter().zip(want) {
                let times = (want.start_time_unix_nano, want.time_unix_nano, want.flags);
                same_point(ours, times, &want.attributes);
                distribution(ours, want.count, want.sum);
                let counts: Vec<u64> = ours.bucket_counts().map(Result::unwrap).collect();
                assert_eq!(counts, want.bucket_counts);
                let bounds = ours.explicit_bounds().map(|bound| bound.unwrap().to_bits());
                let want = want.explicit_bounds.iter().map(|bound| bound.to_bits());
                assert!(bounds.eq(want));
            }
            (Kind::Histogram, histogram.aggregation_temporality, false)
        }
        Some(Data::ExponentialHistogram(histogram)) => {
            let want = histogram.data_points.iter();
            assert_eq!(points.len(), want.len());
            for (ours, want) in points.iter().zip(want) {
                let times = (want.start_time_unix_nano, want.time_unix_nano, want.flags);
                same_point(ours, times, &want.attributes);
                distribution(ours, want.count, want.sum);
                assert_eq!(ours.bucket_counts().count(), 0);
            }
            let temporality = histogram.aggregation_temporality;
            (Kind::ExponentialHistogram, temporality, false)
        }
        Some(Data::Summary(summary)) => {
            assert_eq!(points.len(), summary.data_points.len());
            for (ours, want) in points.iter().zip(&summary.data_points) {
                let times = (want.start_time_unix_nano, want.time_unix_nano, want.flags);
                same_point(ours, times, &want.attributes);
                distribution(ours, want.count, Some(want.sum));
            }
            (Kind::Summary, 0, false)
        }
    };
    let temporality = match temporality {
        1 => Temporality::Delta,
        2 => Temporality::Cumulative,
        _ => Temporality::Unspecified,
    };
    assert_eq!(
        (at.kind, at.temporality, at.is_monotonic),
        (kind, temporality, is_monotonic)
    );
}

fn numbers(ours: &[Point<'_>], want: &[NumberDataPoint]) {
    assert_eq!(ours.len(), want.len());
    for (ours, want) in ours.iter().zip(want) {
        let times = (want.start_time_unix_nano, want.time_unix_nano, want.flags);
        same_point(ours, times, &want.attributes);
        match (ours.value, want.value) {
            (PointValue::None, None) => {}
            (PointValue::Int(ours), Some(Number::AsInt(want))) => assert_eq!(ours, want),
            (PointValue::Double(ours), Some(Number::AsDouble(want))) => {
                assert_eq!(ours.to_bits(), want.to_bits());
            }
            (ours, want) => unreachable!("{ours:?} is not {want:?}"),
        }
    }
}

fn same_point(ours: &Point<'_>, times: (u64, u64, u32), attributes: &[KeyValue]) {
    let read = (ours.start_time_unix_nano, ours.time_unix_nano, ours.flags);
    assert_eq!(read, times);
    assert_eq!(ours.is_no_recorded_value(), ours.flags % 2 == 1);
    same_attributes(ours.attributes(), attributes);
}

fn distribution(ours: &Point<'_>, count: u64, sum: Option<f64>) {
    let PointValue::Distribution { count: n, sum: s } = ours.value else {
        unreachable!("{:?}", ours.value);
    };
    assert_eq!((n, s.map(f64::to_bits)), (count, sum.map(f64::to_bits)));
}

fn request() -> impl Strategy<Value = ExportMetricsServiceRequest> {
    let scope = vec(metric(), 0..4).prop_map(|metrics| ScopeMetrics {
        metrics,
        ..ScopeMetrics::default()
    });
    let resource = option::of(attributes().prop_map(|attributes| Resource {
        attributes,
        ..Resource::default()
    }));
    let one = (resource, vec(scope, 0..3)).prop_map(|(resource, scope_metrics)| ResourceMetrics {
        resource,
        scope_metrics,
        ..ResourceMetrics::default()
    });
    vec(one, 0..3).prop_map(|resource_metrics| ExportMetricsServiceRequest { resource_metrics })
}

fn metric() -> impl Strategy<Value = Metric> {
    (text(), text(), text(), option::of(data())).prop_map(|(name, unit, description, data)| {
        Metric {
            name,
            unit,
            description,
            data,
            ..Metric::default()
        }
    })
}

fn data() -> impl Strategy<Value = Data> {
    let temporality = -1..4_i32;
    prop_oneof![
        vec(number(), 0..3).prop_map(|data_points| Data::Gauge(Gauge { data_points })),
        (vec(number(), 0..3), temporality.clone(), any::<bool>()).prop_map(
            |(data_points, aggregation_temporality, is_monotonic)| Data::Sum(Sum {
                data_points,
                aggregation_temporality,
                is_monotonic
            })
        ),
        (vec(histogram(), 0..3), temporality.clone()).prop_map(
            |(data_points, aggregation_temporality)| Data::Histogram(Histogram {
                data_points,
                aggregation_temporality
            })
        ),
        (vec(exponential(), 0..3), temporality).prop_map(
            |(data_points, aggregation_temporality)| Data::ExponentialHistogram(
                ExponentialHistogram {
                    data_points,
                    aggregation_temporality
                }
            )
        ),
        vec(summary(), 0..3).prop_map(|data_points| Data::Summary(Summary { data_points })),
    ]
}

fn number() -> impl Strategy<Value = NumberDataPoint> {
    let value = prop_oneof![
        any::<u64>().prop_map(|bits| Number::AsDouble(f64::from_bits(bits))),
        any::<i64>().prop_map(Number::AsInt),
    ];
    (attributes(), time(), time(), 0..4_u32, option::of(value)).prop_map(
        |(attributes, start_time_unix_nano, time_unix_nano, flags, value)| NumberDataPoint {
            attributes,
            start_time_unix_nano,
            time_unix_nano,
            flags,
            value,
            ..NumberDataPoint::default()
        },
    )
}

fn histogram() -> impl Strategy<Value = HistogramDataPoint> {
    let buckets = (vec(any::<u64>(), 0..4), vec(any::<f64>(), 0..4));
    (
        attributes(),
        time(),
        0..4_u32,
        any::<u64>(),
        option::of(any::<f64>()),
        buckets,
    )
        .prop_map(|(attributes, time_unix_nano, flags, count, sum, buckets)| {
            HistogramDataPoint {
                attributes,
                time_unix_nano,
                flags,
                count,
                sum,
                bucket_counts: buckets.0,
                explicit_bounds: buckets.1,
                ..HistogramDataPoint::default()
            }
        })
}

fn exponential() -> impl Strategy<Value = ExponentialHistogramDataPoint> {
    (
        attributes(),
        time(),
        0..4_u32,
        any::<u64>(),
        option::of(any::<f64>()),
    )
        .prop_map(|(attributes, time_unix_nano, flags, count, sum)| {
            ExponentialHistogramDataPoint {
                attributes,
                time_unix_nano,
                flags,
                count,
                sum,
                scale: -3,
                ..ExponentialHistogramDataPoint::default()
            }
        })
}

fn summary() -> impl Strategy<Value = SummaryDataPoint> {
    let quantile = any::<(f64, f64)>();
    let quantile = quantile.prop_map(|(quantile, value)| ValueAtQuantile { quantile, value });
    (
        attributes(),
        time(),
        0..4_u32,
        any::<u64>(),
        any::<f64>(),
        vec(quantile, 0..3),
    )
        .prop_map(
            |(attributes, time_unix_nano, flags, count, sum, quantile_values)| SummaryDataPoint {
                attributes,
                time_unix_nano,
                flags,
                count,
                sum,
                quantile_values,
                ..SummaryDataPoint::default()
            },
        )
}
