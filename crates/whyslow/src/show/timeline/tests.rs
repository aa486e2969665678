//! Timelines as golden text.

use std::time::Duration;

use expect_test::{Expect, expect};

use super::{Phases, Span, render};

/// Times in milliseconds.
fn span(span_id: &str, parent: &str, service: &str, name: &str, start: i64, length: u64) -> Span {
    Span {
        span_id: span_id.to_owned(),
        parent_span_id: (!parent.is_empty()).then(|| parent.to_owned()),
        service: service.to_owned(),
        name: name.to_owned(),
        start_unix_nano: 1_795_963_746_000_000_000 + start * 1_000_000,
        duration: Duration::from_millis(length),
        error: None,
        phases: None,
    }
}

fn check(spans: &[Span], expected: Expect) {
    expected.assert_eq(&render(spans, 110));
}

#[test]
fn a_request_shows_where_its_time_went() {
    let mut engine = span("05", "04", "vllm", "llm_request", 60, 2_500);
    engine.phases = Some(Phases {
        queue: Some(Duration::from_millis(1_500)),
        prefill: Some(Duration::from_millis(300)),
        decode: Some(Duration::from_millis(690)),
    });
    let mut spans = vec![
        engine,
        span("01", "", "chat-web", "POST", 0, 2_600),
        span(
            "02",
            "01",
            "llm-gateway",
            "POST /v1/chat/completions",
            10,
            2_580,
        ),
        span("03", "02", "rag-api", "retrieve", 12, 40),
        span("04", "02", "rag-api", "ChatOpenAI", 55, 2_520),
    ];
    for chunk in 0..214 {
        let id = format!("c{chunk}");
        spans.push(span(
            &id,
            "02",
            "rag-api",
            "http send",
            1_870 + chunk * 3,
            1,
        ));
    }
    check(
        &spans,
        expect![[r#"
        219 spans, 4 services, 2.60 s
        chat-web     POST                             2.60 s  [======================================================]
        llm-gateway    POST /v1/chat/completions      2.58 s  [===================================================== ]
        rag-api          retrieve                    40.0 ms  [=                                                     ]
        rag-api          ChatOpenAI                   2.52 s  [ ==================================================== ]
        vllm               llm_request                2.50 s  [ qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqppppppdddddddddddddd= ]
                             queue 1.50 s, prefill 300 ms, decode 690 ms
        rag-api          http send x 214              640 ms  [                                      ::::::::::::::  ]
        engine phases: q queue, p prefill, d decode
    "#]],
    );
}

#[test]
fn missing_parents_and_loops_are_shown_as_what_they_are() {
    let spans = [
        span("01", "00f067aa0ba902b7", "gateway", "POST", 0, 10),
        span("02", "00f067aa0ba902b7", "gateway", "GET", 5, 10),
        span("03", "04", "a", "three", 20, 5),
        span("04", "03", "a", "four", 21, 3),
        span("05", "05", "a", "own parent", 30, 0),
        span("06", "", "a", "root", 40, 1),
        span("06", "", "a", "same id", 41, 1),
        span("07", "06", "a", "child", 41, 1),
    ];
    check(
        &spans,
        expect![[r#"
        8 spans, 2 services, 42.0 ms
        a        root                                         1.0 ms  [                                           =  ]
        a          child                                      1.0 ms  [                                            ==]
        a        same id                                      1.0 ms  [                                            ==]
                 (missing parent 00f067aa0ba902b7)
        gateway    POST                                      10.0 ms  [==========                                    ]
        gateway    GET                                       10.0 ms  [     ===========                              ]
                 (spans that are each other's ancestors)
        a          three                                      5.0 ms  [                     ======                   ]
        a            four                                     3.0 ms  [                       ===                    ]
                 (spans that are each other's ancestors)
        a          own parent                                   0 us  [                                =             ]
    "#]],
    );
}

#[test]
fn errors_are_told_with_their_message_also_in_folds() {
    let mut root = span("01", "", "web", "POST", 0, 100);
    root.error = Some("too\nlong\u{1b}[31m".to_owned());
    let mut spans = vec![root];
    for child in 0..5 {
        let mut child = span(&format!("c{child}"), "01", "web", "try", child * 20, 10);
        child.error = Some(String::new());
        spans.push(child);
    }
    check(
        &spans,
        expect![[r#"
        6 spans, 1 service, 100 ms, 6 errors
        web  POST           100 ms  [================================================================================]
               ERROR: too\nlong\u{1b}[31m
        web    try x 5     90.0 ms  [::::::::::::::::::::::::::::::::::::::::::::::::::::::::::::::::::::::::        ]
                 ERROR in 5 spans
    "#]],
    );
}

#[test]
fn unknown_phases_and_no_spans_are_said() {
    let mut engine = span("01", "", "vllm", "llm_request", 0, 0);
    engine.phases = Some(Phases {
        queue: Some(Duration::from_secs(7_260)),
        ..Phases::default()
    });
    check(
        &[engine],
        expect![[r#"
        1 span, 1 service, 0 us
        vllm  llm_request        0 us  [q                                                                            ]
                queue 2 h 01 min, prefill not known, decode not known
        engine phases: q queue, p prefill, d decode
    "#]],
    );
    check(
        &[],
        expect![[r#"
        no spans
    "#]],
    );
}

#[test]
fn a_trace_of_any_depth_is_drawn_and_what_does_not_fit_is_counted() {
    let spans: Vec<_> = (0..100_000)
        .map(|n: u64| {
            let parent = if n == 0 {
                String::new()
            } else {
                (n - 1).to_string()
            };
            span(&n.to_string(), &parent, "deep", "call", 0, 200_000 - n)
        })
        .collect();
    let drawn = render(&spans, 110);
    assert_eq!(drawn.lines().count(), 1 + super::LINES_MAX + 1);
    assert_eq!(
        drawn.lines().last(),
        Some("... 99,800 more spans not shown")
    );
}

#[test]
fn spans_of_all_times_are_drawn() {
    let mut spans = vec![
        span("01", "", "a", "early", 0, 1),
        span("02", "01", "b", "late", 0, 1),
    ];
    spans[0].start_unix_nano = i64::MIN;
    spans[1].start_unix_nano = i64::MAX;
    spans[1].duration = Duration::from_nanos(u64::MAX);
    for width in [0, 1, 80, 1_000] {
        assert_eq!(render(&spans, width).lines().count(), 3);
    }
}
