//! Tests of re-framing.

use super::Reframer;
use crate::{
    Signal,
    export::{Limits, SpanAt, check, spans, spans_at},
    json::{from_protobuf, to_protobuf},
    testing::{TimeSpan, trace},
};

fn all(body: &[u8]) -> Vec<SpanAt<'_>> {
    spans(body, &Limits::default())
        .map(Result::unwrap)
        .collect()
}

/// What a span is and what surrounds it, without where it lies.
fn parts<'a>(at: &SpanAt<'a>) -> (&'a [u8], &'a str, &'a [u8], &'a str, &'a [u8]) {
    (
        at.resource,
        at.resource_schema_url,
        at.scope,
        at.scope_schema_url,
        at.span,
    )
}

#[test]
fn an_empty_request_has_no_bytes() {
    assert!(Reframer::new().is_empty());
    assert!(Reframer::new().finish().is_empty());
}

#[test]
fn a_request_taken_apart_and_reframed_is_the_same() {
    let json = include_str!("../../testdata/every-field-traces.json");
    let schema_urls = to_protobuf(Signal::Traces, json.as_bytes(), &Limits::default()).unwrap();
    let built = trace(1)
        .span("a", 1.ms())
        .span("b", 2.ms())
        .scope("other", "2")
        .span("c", 3.ms())
        .service("second")
        .span("d", 4.ms())
        .build();
    for body in [schema_urls, built] {
        let mut reframer = Reframer::new();
        for at in all(&body) {
            reframer.push(&at);
        }
        assert_eq!(reframer.finish(), body);
    }
}

#[test]
fn spans_of_several_requests_share_what_is_equal_to_their_neighbour() {
    let one = trace(1).span("a", 1.ms()).span("b", 1.ms()).build();
    let two = trace(2)
        .span("c", 1.ms())
        .service("second")
        .span("d", 1.ms())
        .build();
    let mut reframer = Reframer::new();
    let picked: Vec<_> = [all(&one), all(&two)].concat();
    for at in &picked {
        reframer.push(at);
    }
    assert_eq!(reframer.n_spans(), 4);
    let body = reframer.finish();
    assert_eq!(
        check(Signal::Traces, &body, &Limits::default())
            .unwrap()
            .n_items,
        4
    );
    let got = all(&body);
    assert!(got.iter().map(parts).eq(picked.iter().map(parts)));
    let text = from_protobuf(Signal::Traces, &body).unwrap();
    assert_eq!(text.matches("\"resource\"").count(), 2);
    assert_eq!(text.matches("\"spans\"").count(), 2);
}

#[test]
fn spans_are_found_by_their_offsets() {
    let body = trace(1)
        .span("a", 1.ms())
        .span("b", 1.ms())
        .scope("s", "")
        .span("c", 1.ms())
        .service("second")
        .span("d", 1.ms())
        .service("third")
        .span("e", 1.ms())
        .build();
    let all = all(&body);
    let offsets: Vec<u32> = all.iter().map(|at| at.offset).collect();
    for mask in 0..32_usize {
        let picked = |i: &usize| mask & (1 << i) != 0;
        let wanted: Vec<u32> = (0..5).filter(picked).map(|i| offsets[i]).collect();
        let got: Vec<_> = spans_at(&body, &wanted).map(Result::unwrap).collect();
        let want: Vec<_> = (0..5).filter(picked).map(|i| all[i]).collect();
        assert_eq!(got, want, "{mask:b}");
    }
    let nowhere = [
        0,
        offsets[1] - 1,
        offsets[1],
        offsets[3] + 1,
        offsets[4],
        u32::MAX,
    ];
    let got: Vec<_> = spans_at(&body, &nowhere)
        .map(|at| at.unwrap().offset)
        .collect();
    assert_eq!(got, [offsets[1], offsets[4]]);
    assert_ne!(all[0].resource_offset, all[3].resource_offset);
    assert_eq!(all[0].resource_offset, all[2].resource_offset);
}
