//! What fuzzing runs on arbitrary bytes, and the properties that must hold for them.

use crate::{
    Error, Signal, attribute,
    export::{Limits, check, spans, spans_at, summaries},
    json::{from_protobuf, to_protobuf},
    metrics, prometheus,
    reframe::Reframer,
    scope,
    span::{SpanSummary, events, links},
};

/// Checks `body` as a trace request and, if it passes, reads everything in it. Asserts that a
/// checked body can be read, that walking by offset gives the same spans, and that they survive
/// re-framing and a round trip through JSON.
pub fn exercise_traces(body: &[u8]) {
    let limits = Limits::default();
    let Ok(checked) = check(Signal::Traces, body, &limits) else {
        return;
    };
    let walked: Result<Vec<_>, _> = spans(body, &limits).collect();
    assert!(walked.is_ok(), "a checked body can be walked");
    let walked = walked.unwrap_or_default();
    assert_eq!(
        u64::try_from(walked.len()),
        Ok(checked.n_items),
        "as many spans as counted"
    );
    assert_eq!(
        checked.n_rejected,
        checked
            .n_invalid_ids
            .saturating_add(checked.n_outside_window)
    );

    let one_by_one: Result<Vec<_>, Error> = walked
        .iter()
        .map(|at| Ok((*at, SpanSummary::read(at.span)?)))
        .collect();
    let in_one_pass: Result<Vec<_>, _> = summaries(body, &limits).collect();
    assert_eq!(in_one_pass, one_by_one, "summaries are those of the spans");

    let offsets: Vec<u32> = walked.iter().map(|at| at.offset).collect();
    let again: Result<Vec<_>, _> = spans_at(body, &offsets).collect();
    assert_eq!(again.as_ref(), Ok(&walked), "spans by offset are the spans");

    let mut reframer = Reframer::new();
    let mut text = String::new();
    for at in &walked {
        assert!(
            SpanSummary::read(at.span).is_ok(),
            "an accepted span has a summary"
        );
        assert!(scope::read(at.scope).is_ok(), "a checked scope is readable");
        let parts = [
            attribute::of_span(at.span),
            attribute::of_resource(at.resource),
            attribute::of_scope(at.scope),
        ];
        let of_events = events(at.span).map(|event| event.map(|event| event.attributes()));
        let of_links = links(at.span).map(|link| link.map(|link| link.attributes()));
        for attributes in parts.into_iter().map(Ok).chain(of_events).chain(of_links) {
            assert!(attributes.is_ok(), "checked events and links are readable");
            for attribute in attributes.into_iter().flatten() {
                assert!(attribute.is_ok(), "checked attributes are readable");
                if let Ok((_, value)) = attribute {
                    text.clear();
                    value.write_text(&mut text);
                }
            }
        }
        reframer.push(at);
    }

    let reframed = reframer.finish();
    let rechecked = check(Signal::Traces, &reframed, &limits);
    assert_eq!(
        rechecked.map(|checked| checked.n_items),
        Ok(checked.n_items),
        "re-framed"
    );

    let json = from_protobuf(Signal::Traces, body);
    let back = json.and_then(|json| to_protobuf(Signal::Traces, json.as_bytes(), &limits));
    let rechecked = back.and_then(|body| check(Signal::Traces, &body, &limits));
    assert_eq!(rechecked, Ok(checked), "through JSON and back");
}

/// Reads `text` as JSON of every signal. Asserts that what is made of it is well-formed protobuf.
pub fn exercise_json(text: &[u8]) {
    let limits = Limits::default();
    for signal in [Signal::Traces, Signal::Metrics, Signal::Logs] {
        let Ok(body) = to_protobuf(signal, text, &limits) else {
            continue;
        };
        let repeated = match check(signal, &body, &limits) {
            Ok(_) => false,
            // JSON may repeat a key, as protobuf may repeat a field.
            Err(error) => {
                assert!(matches!(error, Error::Repeated { .. }), "{error}");
                true
            }
        };
        let json = from_protobuf(signal, &body);
        assert!(repeated || json.is_ok(), "checked bytes have a JSON form");
        if signal == Signal::Traces && !repeated {
            exercise_traces(&body);
        }
    }
}

/// Checks `body` as a metrics request and, if it passes, reads every point in it. Asserts that a
/// checked body can be read and has the points that were counted.
pub fn exercise_metrics(body: &[u8]) {
    let Ok(checked) = check(Signal::Metrics, body, &Limits::default()) else {
        // Unchecked bytes may fail anywhere, but end.
        for metric in metrics::metrics(body).flatten() {
            metric.points().for_each(drop);
        }
        return;
    };
    let mut n_points = 0_u64;
    for metric in metrics::metrics(body) {
        assert!(metric.is_ok(), "a checked body can be walked");
        let Ok(metric) = metric else { return };
        let mut resource = attribute::of_resource(metric.resource);
        assert!(resource.all(|attribute| attribute.is_ok()));
        assert!(scope::read(metric.scope).is_ok());
        for point in metric.points() {
            assert!(point.is_ok(), "checked points are readable");
            let Ok(point) = point else { return };
            assert!(point.attributes().all(|attribute| attribute.is_ok()));
            assert!(point.bucket_counts().all(|count| count.is_ok()));
            assert!(point.explicit_bounds().all(|bound| bound.is_ok()));
            n_points = n_points.saturating_add(1);
        }
    }
    // A metric with two kinds of data has the points of the last.
    assert!(n_points <= checked.n_items, "as many points as counted");
}

/// Reads `text` as Prometheus text and as OpenMetrics. Asserts that what is made of it is a valid
/// request with as many points as are said.
pub fn exercise_prometheus(text: &[u8]) {
    let scrape = prometheus::Scrape {
        resource: &[("service.name", "job")],
        scope: "scrape",
        time_unix_nano: super::T0,
    };
    for format in [prometheus::Format::Text, prometheus::Format::OpenMetrics] {
        let limits = prometheus::Limits::default();
        let converted = prometheus::to_protobuf(text, format, &scrape, &limits);
        let checked = check(Signal::Metrics, &converted.body, &Limits::default());
        assert_eq!(
            checked.map(|checked| checked.n_items),
            Ok(converted.n_points)
        );
        exercise_metrics(&converted.body);
    }
}
