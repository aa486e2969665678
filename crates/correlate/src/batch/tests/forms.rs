//! The forms in which engines speak of batches.

use otlp::{
    export::{self, Limits},
    span::SpanSummary,
    testing::{Export, T0, TimeSpan as _, sid, tid, trace},
};

use super::support::{MILLI, Row, settled, shares};
use crate::batch::{BatchNames, BatchReader, BatchSource, BatchTimes, SeenSpan, Sighting};

/// What the spans of a body say, trace by trace.
pub(super) fn sightings_of(reader: &mut BatchReader, body: &[u8]) -> Vec<Sighting> {
    let limits = Limits::default();
    let mut spans: Vec<_> = export::spans(body, &limits)
        .map(|at| {
            let at = at.unwrap();
            let summary = SpanSummary::read(at.span).unwrap();
            let is_request = crate::is_request_span(&summary, at.scope, at.span);
            (summary.trace_id, SeenSpan { at, is_request })
        })
        .collect();
    spans.sort_by_key(|(trace_id, _)| *trace_id);
    let mut sightings = Vec::new();
    for of_trace in spans.chunk_by(|one, other| one.0 == other.0) {
        let of_trace: Vec<SeenSpan<'_>> = of_trace.iter().map(|(_, span)| *span).collect();
        reader.read(&of_trace, &mut sightings).unwrap();
    }
    sightings
}

fn read(export: &Export) -> Vec<Sighting> {
    sightings_of(
        &mut BatchReader::new(&BatchNames::default()),
        &export.build(),
    )
}

fn request(n: u32) -> Export {
    trace(n)
        .resource_attribute("k8s.pod.name", "vllm-0")
        .scope("vllm.tracing.otel", "")
        .span("llm_request", 500.ms())
        .attribute("gen_ai.request.id", format!("chatcmpl-{n}").as_str())
}

#[test]
fn attributes_of_a_request_say_that_it_was_in_a_batch_and_not_when() {
    let export = request(1)
        .attribute("batch_id", "b7")
        .attribute("step", 9_i64);
    let sightings = read(&export);
    let [sighting] = &sightings[..] else {
        panic!("{sightings:?}");
    };
    assert_eq!(sighting.source, BatchSource::SpanAttribute);
    assert_eq!((&*sighting.batch_id, sighting.step), ("b7", Some(9)));
    assert_eq!(sighting.times, None);
    assert_eq!(sighting.around, (T0, T0 + 500 * MILLI));
    assert_eq!(sighting.worker.engine, Some("vllm"));
    let one = &sighting.participants[0];
    assert_eq!((one.trace_id, one.span_id), (Some(tid(1)), Some(sid(1))));
    assert_eq!(one.request_id_normalised.as_deref(), Some("1"));
    assert_eq!(
        shares(&settled(sightings)),
        ["7c000001 NULL NULL", "- NULL remainder"]
    );

    let timed = export
        .attribute("batch_start_time_ns", (T0 + 1) as i64)
        .attribute("batch_end_time_ns", (T0 + 101) as i64)
        .attribute("batch_size", "2");
    let sightings = read(&timed);
    assert_eq!(
        sightings[0].times,
        Some((BatchTimes::Reported, T0 + 1, T0 + 101))
    );
    assert_eq!(
        shares(&settled(sightings)),
        ["7c000001 50 equal estimated", "- 50 remainder estimated"]
    );
}

#[test]
fn a_batch_id_on_any_other_span_is_none_of_an_engine() {
    let job = trace(1)
        .span("load", 50.ms())
        .attribute("batch_id", "nightly");
    assert_eq!(read(&job), []);
    let chained = job.link(1, 7);
    assert_eq!(read(&chained), []);
}

#[test]
fn events_are_steps_and_each_ends_where_the_next_begins() {
    let export = request(1)
        .event("step", 100.ms())
        .event_attribute("batch_id", "1")
        .event_attribute("batch_size", 1_i64)
        .event_attribute("tokens", 40_i64)
        .event_attribute("phase", "prefill")
        .event("step", 130.ms())
        .event_attribute("batch_id", "2")
        .event_attribute("batch_size", 2_i64)
        .event_attribute("batch_duration_ns", 5_000_000_i64)
        .event("first_token", 131.ms())
        .event("step", 140.ms())
        .event_attribute("batch_id", "3");
    let rows = settled(read(&export));
    let told: Vec<_> = rows
        .iter()
        .map(|row| (row.batch_id.as_str(), row.duration, row.times.as_deref()))
        .collect();
    let millis = |n: i64| Some(n * 1_000_000);
    assert_eq!(
        told,
        [
            ("1", millis(30), Some("next_event")),
            ("2", millis(5), Some("reported")),
            ("2", millis(5), Some("reported")),
            ("3", millis(360), Some("next_event")),
            ("3", millis(360), Some("next_event")),
        ]
    );
    assert_eq!(
        shares(&rows),
        [
            // By tokens, but the end is an assumption.
            "7c000001 30000000 tokens estimated",
            "7c000001 2500000 equal estimated",
            "- 2500000 remainder estimated",
            "7c000001 NULL NULL estimated",
            "- 360000000 remainder estimated",
        ]
    );
}

#[test]
fn a_batch_span_names_its_participants_by_links() {
    let step = |export: Export| {
        export
            .resource_attribute("k8s.pod.name", "vllm-0")
            .scope("vllm.tracing.otel", "")
            .span("engine_step", 30.ms())
            .attribute("batch_id", "00000c")
            .attribute("step", 12_i64)
            .link(1, 1)
            .link_attribute("tokens", 1_i64)
            .link(2, 2)
            .link_attribute("tokens", 29_i64)
    };
    let rows = settled(read(&step(trace(9))));
    assert_eq!(
        shares(&rows),
        ["7c000001 1000000 tokens", "7c000002 29000000 tokens"]
    );
    let whole: Vec<_> = rows
        .iter()
        .map(|row| (row.count, row.listed, &*row.source))
        .collect();
    assert_eq!(whole, [(Some(2), 2, "batch_span"); 2]);
    // It says that there were more than it links to.
    let more = step(trace(9)).attribute("batch_size", 3_i64);
    assert_eq!(
        shares(&settled(read(&more))),
        [
            "7c000001 10000000 equal estimated",
            "7c000002 10000000 equal estimated",
            "- 10000000 remainder estimated"
        ]
    );
}

#[test]
fn the_batch_of_tgi_has_no_id_of_its_own() {
    let batch = trace(9)
        .scope("text_generation_router", "")
        .span("batch", 30.ms())
        .attribute("batch_size", 2_i64)
        .link(1, 1)
        .link(2, 2);
    let rows = settled(read(&batch));
    assert_eq!(rows[0].batch_id, sid(1).to_string());
    assert_eq!(
        shares(&rows),
        [
            "7c000001 15000000 equal estimated",
            "7c000002 15000000 equal estimated"
        ]
    );
    // A span of that name which says nothing of a batch.
    let other = trace(9).span("batch", 30.ms()).link(1, 1);
    assert_eq!(read(&other), []);
}

/// Wire-exact spans of SGLang: `schedule` events on `prefill_forward` and `decode_loop`.
#[test]
fn sglang_is_understood_as_it_is() {
    let json = include_bytes!("../../../testdata/sglang-0.5.23-request-tree-level3.json");
    let body = otlp::json::to_protobuf(otlp::Signal::Traces, json, &Limits::default()).unwrap();
    let mut reader = BatchReader::new(&BatchNames::default());
    let rows = settled(sightings_of(&mut reader, &body));
    let named: Vec<&Row> = rows.iter().filter(|row| row.trace_id.is_some()).collect();
    let told: Vec<_> = named
        .iter()
        .map(|row| (row.batch_id.as_str(), row.count, row.duration, row.share))
        .collect();
    let times = named.iter().map(|row| row.times.as_deref());
    assert!(
        times.clone().all(|times| times == Some("stage_span")),
        "{told:?}"
    );
    assert_eq!(
        told,
        [
            ("a1b2c3d4", Some(3), Some(31_000_000), Some(10_333_333)),
            ("0000b0b0", Some(5), Some(11_000_000), Some(2_200_000)),
            ("0000b0b1", Some(5), Some(11_000_000), Some(2_200_000)),
            ("0000b0b2", Some(5), Some(11_000_000), Some(2_200_000)),
        ]
    );
    // The participant is the request, not the stage.
    assert!(
        named
            .iter()
            .all(|row| row.span_id.as_deref() == Some("6513270e269e0d37"))
    );
    let remainders: i64 = rows
        .iter()
        .filter(|row| row.trace_id.is_none())
        .map(|row| row.share.unwrap())
        .sum();
    assert_eq!(remainders, 31_000_000 - 10_333_333 + 3 * 8_800_000);
}
