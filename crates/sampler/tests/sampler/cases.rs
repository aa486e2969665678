//! Trouble that users of tail sampling reported, as configuration, timeline and right answer.

use sampler::{Compat, Config, Decided, Decision, Observed, Sampler, Trigger};
use serde_json::{Value as Json, json};

use crate::bytes::{Attributes, Event, Span, Value};
use crate::run::{MS, Run, T0};

fn text(case: &str) -> (&'static str, &'static str) {
    macro_rules! files {
        ($($name:literal),*) => {
            match case {
                $($name => (
                    include_str!(concat!("../../testdata/cases/", $name, ".yaml")),
                    include_str!(concat!("../../testdata/cases/", $name, ".timeline.json")),
                ),)*
                other => panic!("no case {other}"),
            }
        };
    }
    files!(
        "C19", "C20", "C22", "C23", "C25", "C26", "C28", "C31", "C32"
    )
}

/// The `tail_sampling` section of each document.
pub(crate) fn documents(case: &str) -> Vec<Result<Config, String>> {
    let load = |document: &str| {
        let parsed: Json = serde_saphyr::from_str(document).unwrap();
        serde_json::from_value(parsed["processors"]["tail_sampling"].clone())
            .map_err(|error| error.to_string())
            .and_then(|config: Config| match config.validate() {
                Ok(()) => Ok(config),
                Err(error) => Err(error.to_string()),
            })
    };
    text(case).0.split("\n---\n").map(load).collect()
}

pub(crate) fn timeline(case: &str) -> Json {
    serde_json::from_str(text(case).1).unwrap()
}

pub(crate) fn hex<const N: usize>(json: &Json) -> [u8; N] {
    let text = json.as_str().unwrap();
    std::array::from_fn(|idx| {
        u8::from_str_radix(text.get(2 * idx..2 * idx + 2).unwrap(), 16).unwrap()
    })
}

fn attributes(json: &Json) -> Attributes {
    let Some(list) = json.as_array() else {
        return Vec::new();
    };
    let value = |json: &Json| {
        let (kind, value) = json.as_object().unwrap().iter().next().unwrap();
        match kind.as_str() {
            "stringValue" => Value::Str(value.as_str().unwrap().to_owned()),
            "boolValue" => Value::Bool(value.as_bool().unwrap()),
            "intValue" => Value::Int(value.as_str().unwrap().parse().unwrap()),
            "doubleValue" => Value::Double(value.as_f64().unwrap()),
            other => panic!("value {other}"),
        }
    };
    list.iter()
        .map(|pair| {
            (
                pair["key"].as_str().unwrap().to_owned(),
                value(&pair["value"]),
            )
        })
        .collect()
}

fn events(json: &Json) -> Vec<Event> {
    let event = |json: &Json| {
        let name = json["name"].as_str().unwrap().to_owned();
        (name, attributes(&json["attributes"]))
    };
    json.as_array()
        .map(|events| events.iter().map(event).collect())
        .unwrap_or_default()
}

/// The spans of one OTLP/JSON request.
fn spans(otlp: &Json) -> Vec<Span> {
    let mut spans = Vec::new();
    for resource_spans in otlp["resourceSpans"].as_array().unwrap() {
        let resource = attributes(&resource_spans["resource"]["attributes"]);
        for scope_spans in resource_spans["scopeSpans"].as_array().unwrap() {
            for span in scope_spans["spans"].as_array().unwrap() {
                let nano = |key: &str| span[key].as_str().unwrap().parse().unwrap();
                spans.push(Span {
                    trace_id: Some(hex(&span["traceId"])),
                    span_id: u64::from_be_bytes(hex(&span["spanId"])),
                    parent: match &span["parentSpanId"] {
                        Json::String(_) => u64::from_be_bytes(hex(&span["parentSpanId"])),
                        _ => 0,
                    },
                    name: span["name"].as_str().unwrap().to_owned(),
                    start_unix_nano: nano("startTimeUnixNano"),
                    end_unix_nano: nano("endTimeUnixNano"),
                    status: span["status"]["code"]
                        .as_u64()
                        .unwrap_or(0)
                        .try_into()
                        .unwrap(),
                    attributes: attributes(&span["attributes"]),
                    events: events(&span["events"]),
                    resource: resource.clone(),
                    ..Span::default()
                });
            }
        }
    }
    spans
}

/// Plays a timeline with a tick every 100 ms, as a running gateway does. Gives the run and what
/// each late span followed.
pub(crate) fn play(config: &Config, timeline: &Json) -> (Run, Vec<Observed>) {
    let mut run = Run::new(Sampler::new(config).unwrap());
    let mut late = Vec::new();
    let mut now_ms = 0;
    let end_ms = timeline["check_at_ms"].as_u64().unwrap();
    for step in timeline["steps"].as_array().unwrap() {
        let at_ms = step["at_ms"].as_u64().unwrap();
        while now_ms <= at_ms {
            run.tick(now_ms);
            now_ms += 100;
        }
        for span in spans(&step["otlp"]) {
            let observed = run.send(at_ms, &span);
            if let Observed::Late(..) = observed {
                late.push(observed);
            }
        }
    }
    while now_ms <= end_ms {
        run.tick(now_ms);
        now_ms += 100;
    }
    (run, late)
}

pub(crate) fn decision(run: &Run, timeline: &Json, trace: &str) -> Decision {
    let trace_id = hex(&timeline["expect"]["traces"][trace]);
    run.decision_on(&Span {
        trace_id: Some(trace_id),
        ..Span::default()
    })
    .decision
}

/// In the first documents every trace is sampled that `expect` lists so, and no other.
fn check_documents(case: &str, n_documents: usize) {
    check_documents_of(case, n_documents, Compat::None);
}

pub(crate) fn check_documents_of(case: &str, n_documents: usize, compat: Compat) {
    let timeline = timeline(case);
    for (config, number) in documents(case).into_iter().zip(1..=n_documents) {
        let config = Config {
            compat,
            ..config.unwrap()
        };
        let (run, _) = play(&config, &timeline);
        let expected = &timeline["expect"][format!("doc{number}")];
        let sampled = expected["sampled"].as_array().unwrap();
        for trace in timeline["expect"]["traces"].as_object().unwrap().keys() {
            let want = sampled.iter().any(|name| name == trace);
            let is_sampled = decision(&run, &timeline, trace) == Decision::Sampled;
            assert_eq!(is_sampled, want, "{case} doc{number} {trace}");
        }
    }
}

#[test]
fn c19_numeric_bounds_are_optional_and_zero_and_doubles_count() {
    check_documents("C19", 3);
}

#[test]
fn c20_strings_match_exactly_or_by_unanchored_patterns() {
    check_documents("C20", 3);
    let error = documents("C20")[3].as_ref().unwrap_err().clone();
    assert_eq!(
        error,
        "policy `broken`: `string_attribute.values` has the invalid pattern `/v1/(chat`"
    );
}

fn n_sampled_in_time(run: &Run, timeline: &Json, trace: &str) -> usize {
    let trace_id: [u8; 16] = hex(&timeline["expect"]["traces"][trace]);
    let is_sampled = |decided: &&Decided| {
        decided.decision == Decision::Sampled && decided.trace_id.as_bytes() == &trace_id
    };
    run.decided
        .iter()
        .filter(is_sampled)
        .map(|decided| decided.spans.len())
        .sum()
}

#[test]
fn c25_the_decision_cache_remembers_and_without_it_old_traces_are_new_again() {
    let timeline = timeline("C25");
    let documents = documents("C25");
    let (run, late) = play(documents[0].as_ref().unwrap(), &timeline);
    // S is stored with both spans, N with none.
    assert_eq!(n_sampled_in_time(&run, &timeline, "S"), 1);
    assert_eq!(n_sampled_in_time(&run, &timeline, "N"), 0);
    assert!(matches!(
        late[..],
        [
            Observed::Late(Decision::Sampled, Some(_)),
            Observed::Late(Decision::NotSampled, None)
        ]
    ));
    let (run, late) = play(documents[1].as_ref().unwrap(), &timeline);
    // Forgotten: the late spans are traces of their own, and that of N is an error.
    assert_eq!(n_sampled_in_time(&run, &timeline, "S"), 1);
    assert_eq!(n_sampled_in_time(&run, &timeline, "N"), 1);
    assert!(late.is_empty());
}

#[test]
fn c26_a_root_ends_the_wait_and_decision_wait_ends_it_without_one() {
    let timeline = timeline("C26");
    let config = documents("C26").remove(0).unwrap();
    let (run, late) = play(&config, &timeline);
    let decided = |trace: &str| {
        let trace_id = hex(&timeline["expect"]["traces"][trace]);
        run.decision_on(&Span {
            trace_id: Some(trace_id),
            ..Span::default()
        })
    };
    let summary_of = |trace: &str| {
        let decided = decided(trace);
        let summary = &decided.summary;
        (
            decided.decision,
            decided.trigger,
            summary.n_spans,
            summary.n_roots,
            summary.n_orphans,
        )
    };
    assert_eq!(
        summary_of("LONG"),
        (Decision::NotSampled, Trigger::Waited, 1, 0, 1)
    );
    assert_eq!(
        summary_of("SHORT"),
        (Decision::Sampled, Trigger::RootEnded, 2, 1, 0)
    );
    assert_eq!(
        summary_of("REMOTE"),
        (Decision::Sampled, Trigger::Waited, 1, 0, 1)
    );
    assert_eq!(late, [Observed::Late(Decision::NotSampled, None); 2]);

    let longer = Config {
        decision_wait: std::time::Duration::from_secs(120),
        ..config
    };
    let mut later = timeline.clone();
    later["check_at_ms"] = json!(125_000);
    let (run, late) = play(&longer, &later);
    let trace_id = hex(&timeline["expect"]["traces"]["LONG"]);
    let long = run.decision_on(&Span {
        trace_id: Some(trace_id),
        ..Span::default()
    });
    assert_eq!((long.decision, long.spans.len()), (Decision::Sampled, 3));
    assert!(late.is_empty());
}

/// The Collector loses T0 here, although it is an error; ours decides it early.
#[test]
fn c31_a_full_buffer_decides_the_oldest_traces_early_and_loses_none() {
    let config = documents("C31").remove(0).unwrap();
    let mut run = Run::new(Sampler::new(&config).unwrap());
    for step in timeline("C31")["doc1_steps"].as_array().unwrap() {
        let at_ms = step["at_ms"].as_u64().unwrap();
        let trace = at_ms / 10;
        let status = step["status_of_one"].as_u64().unwrap().try_into().unwrap();
        let observed = run.send(at_ms, &generated(trace, 1, status, 0));
        assert_eq!(observed == Observed::Overflow, trace >= 3, "T{trace}");
        run.tick(at_ms);
        assert!(run.sampler.stats().n_traces <= 3);
    }
    let early: Vec<(u64, Decision, Trigger)> = run
        .decided
        .iter()
        .map(|decided| {
            (
                decided.trace_id.as_bytes()[15].into(),
                decided.decision,
                decided.trigger,
            )
        })
        .collect();
    assert_eq!(early[0], (0, Decision::Sampled, Trigger::Memory));
    let rest: Vec<_> = (1..7)
        .map(|n| (n, Decision::NotSampled, Trigger::Memory))
        .collect();
    assert_eq!(early[1..], rest);
    run.tick(6_000);
    assert_eq!(run.decided.len(), 10);
}

fn generated(trace: u64, span_id: u64, status: u8, attribute_bytes: usize) -> Span {
    let attributes = match attribute_bytes {
        0 => Vec::new(),
        n => vec![("padding".to_owned(), Value::Str("x".repeat(n)))],
    };
    Span {
        trace,
        span_id,
        start_unix_nano: T0,
        end_unix_nano: T0 + MS,
        status,
        attributes,
        ..Span::default()
    }
}

#[test]
fn c31_a_trace_that_grows_too_large_is_not_sampled_at_once_and_disturbs_no_other() {
    const GIANT: u64 = 1_000;
    let config = documents("C31").remove(1).unwrap();
    let mut run = Run::new(Sampler::new(&config).unwrap());
    let timeline = timeline("C31");
    let mut steps = timeline["doc2_steps"].as_array().unwrap().clone();
    steps.sort_by_key(|step| step["at_ms"].as_u64());
    let mut n_late = 0;
    for step in &steps {
        let at_ms = step["at_ms"].as_u64().unwrap();
        let name = step["trace"].as_str().unwrap();
        let trace = name
            .strip_prefix('S')
            .map_or(GIANT, |number| number.parse().unwrap());
        let attribute_bytes = step["attribute_bytes"]
            .as_u64()
            .unwrap_or(0)
            .try_into()
            .unwrap();
        for _ in 0..step["spans"].as_u64().unwrap() {
            let span_id = run.n_sent + 1;
            if let Observed::Late(decision, _) =
                run.send(at_ms, &generated(trace, span_id, 0, attribute_bytes))
            {
                assert_eq!(decision, Decision::NotSampled);
                n_late += 1;
            }
        }
        run.tick(at_ms);
        assert!(run.sampler.stats().n_bytes < 80_000);
    }
    run.tick(10_000);
    let giant = run.decision_on(&generated(GIANT, 1, 0, 0));
    assert_eq!(
        (giant.decision, giant.trigger, giant.policy),
        (Decision::NotSampled, Trigger::TooLarge, None)
    );
    assert_eq!(giant.spans.len() + n_late, 60 * 20);
    let n_sampled = run
        .decided
        .iter()
        .filter(|decided| decided.decision == Decision::Sampled)
        .count();
    assert_eq!(n_sampled, 60);
}
