//! Conditions on spans built by hand: what they say, and what is refused.

use otlp::span::SpanSummary;

use super::{Conditions, Outcome};
use crate::atoms::{AtomSet, AtomsBuilder};
use crate::policy::{ErrorMode, OttlCondition};

fn put(out: &mut Vec<u8>, key: u8, bytes: &[u8]) {
    out.extend([key << 3 | 2, u8::try_from(bytes.len()).unwrap()]);
    out.extend_from_slice(bytes);
}

/// `KeyValue` with the bytes of an `AnyValue`.
fn pair(key: &str, any: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put(&mut out, 1, key.as_bytes());
    put(&mut out, 2, any);
    out
}

fn text(value: &str) -> Vec<u8> {
    let mut any = Vec::new();
    put(&mut any, 1, value.as_bytes());
    any
}

fn double(value: f64) -> Vec<u8> {
    [&[0x21][..], &value.to_bits().to_le_bytes()].concat()
}

/// A server span of 1.5 s that failed, with attributes of every type and two events.
fn span() -> Vec<u8> {
    let mut map = Vec::new();
    put(&mut map, 1, &pair("inner", &text("deep")));
    let mut map_any = Vec::new();
    put(&mut map_any, 6, &map);
    let mut list = Vec::new();
    put(&mut list, 1, &text("first"));
    put(&mut list, 1, &text("second"));
    let mut list_any = Vec::new();
    put(&mut list_any, 5, &list);
    let mut out = Vec::new();
    put(&mut out, 1, &[0xab; 16]);
    put(&mut out, 2, &[0xcd; 8]);
    put(&mut out, 3, b"vendor=x,ot=th:8");
    put(&mut out, 5, b"POST /v1/chat");
    out.extend([6 << 3, 2]);
    for (key, time) in [(7, 1_000_000_000_u64), (8, 2_500_000_000)] {
        out.push(key << 3 | 1);
        out.extend(time.to_le_bytes());
    }
    for (key, any) in [
        ("model", text("old")),
        ("model", text("qwen")),
        ("tokens", vec![0x18, 42]),
        ("ttft", double(3.7)),
        ("stream", vec![0x10, 1]),
        ("digits", text("17")),
        ("map", map_any),
        ("list", list_any),
    ] {
        put(&mut out, 9, &pair(key, &any));
    }
    for (name, kind) in [("first", "none"), ("exception", "ValueError")] {
        let mut event = vec![1 << 3 | 1];
        event.extend(1_500_000_000_u64.to_le_bytes());
        put(&mut event, 2, name.as_bytes());
        put(&mut event, 3, &pair("exception.type", &text(kind)));
        put(&mut out, 11, &event);
    }
    put(
        &mut out,
        15,
        &[2 << 3 | 2, 4, b'o', b'o', b'p', b's', 3 << 3, 2],
    );
    out
}

fn resource() -> Vec<u8> {
    let mut out = Vec::new();
    put(&mut out, 1, &pair("service.name", &text("vllm")));
    out
}

fn atom() -> AtomSet {
    AtomsBuilder::default().flags("p").unwrap()
}

/// `Some` truth, or `None` where evaluation failed.
fn evaluate(span_condition: &str, event_condition: &str) -> Result<Option<bool>, String> {
    let mut builder = AtomsBuilder::default();
    let matched = builder.flags("p").unwrap();
    let failed = AtomSet::of_status(otlp::span::StatusCode::Error);
    let list = |condition: &str| match condition {
        "" => Vec::new(),
        condition => vec![condition.to_owned()],
    };
    let config = OttlCondition {
        error_mode: ErrorMode::Propagate,
        span: list(span_condition),
        spanevent: list(event_condition),
    };
    let mut conditions = Conditions::default();
    conditions
        .add(
            "p",
            &config,
            Outcome {
                matched,
                failed,
                first_wins: false,
            },
        )
        .map_err(|error| error.to_string())?;
    let bytes = span();
    let truths = conditions.read_resource(&resource());
    let summary = SpanSummary::read(&bytes).unwrap();
    let found = conditions
        .read_span(truths, &bytes, &summary, AtomSet::EMPTY)
        .unwrap();
    Ok(
        match (found.intersects(matched), found.intersects(failed)) {
            (true, _) => Some(true),
            (false, false) => Some(false),
            (false, true) => None,
        },
    )
}

#[test]
fn conditions_on_a_span_say_what_the_language_says() {
    for condition in [
        "name == \"POST /v1/chat\"",
        "attributes[\"model\"] == \"qwen\"",
        "span.attributes[\"model\"] == \"qwen\"",
        "attributes[\"tokens\"] > 41 and attributes[\"tokens\"] <= 42.0",
        "attributes[\"ttft\"] >= 3.7",
        "attributes[\"stream\"] == true",
        "attributes[\"absent\"] == nil",
        "attributes[\"absent\"] != \"x\"",
        "attributes[\"map\"][\"inner\"] == \"deep\"",
        "attributes[\"list\"][1] == \"second\"",
        "attributes[\"absent\"][\"inner\"] == nil",
        "kind == SPAN_KIND_SERVER and kind.string == \"Server\"",
        "status.code == STATUS_CODE_ERROR and status.message == \"oops\"",
        "trace_state[\"ot\"] == \"th:8\"",
        "trace_id == TraceID(0xabababababababababababababababab)",
        "span_id.string == \"cdcdcdcdcdcdcdcd\"",
        "parent_span_id == SpanID(0x0000000000000000)",
        "parent_span_id.string == \"\"",
        "IsRootSpan()",
        "IsRootSpan() == true",
        "end_time - start_time == Duration(\"1.5s\")",
        "(end_time - start_time) > Duration(\"1s\")",
        "(end_time_unix_nano - start_time_unix_nano) / 1000000 == 1500",
        "Milliseconds(end_time - start_time) == 1500",
        "Seconds(end_time - start_time) < 1.6",
        "UnixMilli(start_time) == 1000",
        "IsMatch(name, \"^POST .*chat$\")",
        "IsMatch(attributes[\"tokens\"], \"^4\")",
        "not IsMatch(attributes[\"absent\"], \".*\")",
        "HasPrefix(name, \"POST\") and HasSuffix(name, \"chat\")",
        "Len(attributes[\"model\"]) == 4 and Len(attributes[\"list\"]) == 2",
        "Int(attributes[\"digits\"]) == 17",
        "Int(attributes[\"model\"]) == nil",
        "Int(attributes[\"ttft\"]) == 3",
        "Double(attributes[\"digits\"]) > 16.5",
        "String(attributes[\"tokens\"]) == \"42\"",
        "String(attributes[\"ttft\"]) == \"3.7\"",
        "IsString(attributes[\"model\"]) and IsInt(attributes[\"tokens\"])",
        "IsDouble(attributes[\"ttft\"]) and IsBool(attributes[\"stream\"])",
        "IsMap(attributes[\"map\"]) and IsList(attributes[\"list\"])",
        "resource.attributes[\"service.name\"] == \"vllm\" and name != \"\"",
        "IsMatch(resource.attributes[\"service.name\"], \"^v\")",
        "attributes[\"tokens\"] + 2 * 4 == 50",
        "false or not (1 > 2)",
        "attributes[\"tokens\"] == -1 or 1 == 1",
    ] {
        assert_eq!(evaluate(condition, ""), Ok(Some(true)), "{condition}");
    }
}

#[test]
fn a_condition_that_is_not_met_is_not() {
    for condition in [
        "attributes[\"model\"] == \"old\"",
        "attributes[\"model\"] > 1000",
        "attributes[\"absent\"] > 0",
        "attributes[\"absent\"] < 0",
        "name == nil",
        "kind == SPAN_KIND_CLIENT",
        "IsMatch(name, \"^chat\")",
        "resource.attributes[\"service.name\"] == \"rag\"",
        "resource.attributes[\"absent\"] == \"rag\"",
        "false",
        // Left to right, and no further than needed.
        "1 == 2 and Len(1) == 1",
    ] {
        assert_eq!(evaluate(condition, ""), Ok(Some(false)), "{condition}");
    }
}

#[test]
fn what_cannot_be_evaluated_fails() {
    for condition in [
        "Len(attributes[\"tokens\"]) == 1",
        "Len(attributes[\"absent\"]) == 1",
        "HasPrefix(attributes[\"absent\"], \"a\")",
        "attributes[\"model\"] + 1 == 1",
        "attributes[\"tokens\"] / 0 == 1",
        "attributes[\"model\"][\"inner\"] == \"x\"",
        "attributes[\"list\"][9] == \"x\"",
        "Len(resource.attributes[\"absent\"]) == 1",
        "Seconds(start_time) == 1",
    ] {
        assert_eq!(evaluate(condition, ""), Ok(None), "{condition}");
    }
}

#[test]
fn conditions_on_events_see_the_event_and_its_span() {
    for (condition, want) in [
        ("name == \"exception\"", Some(true)),
        ("name == \"POST /v1/chat\"", Some(false)),
        ("span.name == \"POST /v1/chat\"", Some(true)),
        ("spanevent.name == \"first\"", Some(true)),
        (
            "name == \"exception\" and attributes[\"exception.type\"] == \"ValueError\"",
            Some(true),
        ),
        (
            "name == \"first\" and attributes[\"exception.type\"] == \"ValueError\"",
            Some(false),
        ),
        ("time - span.start_time == Duration(\"500ms\")", Some(true)),
        (
            "resource.attributes[\"service.name\"] == \"vllm\"",
            Some(true),
        ),
        ("Len(attributes[\"absent\"]) == 1", None),
    ] {
        assert_eq!(evaluate("", condition), Ok(want), "{condition}");
    }
    assert_eq!(evaluate("false", "name == \"first\""), Ok(Some(true)));
}

#[test]
fn what_is_not_known_is_refused_by_name() {
    for (condition, parts) in [
        (
            "IsMatchh(name, \"a\")",
            "the function `IsMatchh` is not supported, did you mean `IsMatch`?",
        ),
        (
            "SHA256(name) == \"a\"",
            "the function `SHA256` is not supported",
        ),
        (
            "IsMatch(name)",
            "the function `IsMatch` takes two arguments",
        ),
        ("IsMatch(name, name)", "a quoted text"),
        ("IsMatch(name, \"(\")", "the pattern `(` is invalid"),
        ("Duration(\"5 apples\") == nil", "a quoted duration"),
        ("TraceID(0x01) == trace_id", "32 hex digits"),
        (
            "nmae == \"a\"",
            "the field `nmae` is not supported, did you mean `name`?",
        ),
        (
            "scope.name == \"a\"",
            "the field `scope.name` is not supported",
        ),
        ("events == nil", "the field `events` is not supported"),
        (
            "attributes == nil",
            "the field `attributes` cannot be used like this",
        ),
        (
            "name[\"a\"] == nil",
            "the field `name` cannot be used like this",
        ),
        (
            "kind == SPAN_KIND_SERVR",
            "did you mean `SPAN_KIND_SERVER`?",
        ),
        ("name", "a condition is made of"),
        ("1 + 2", "a condition is made of"),
        ("(name == \"a\") == true", "a condition is made of"),
        (
            "name == \"a\" && kind == 1",
            "expected a word, a literal or an operator at byte 12",
        ),
        (
            "resource.attributes[\"a\"] == attributes[\"a\"]",
            "cannot take both resource and span fields",
        ),
    ] {
        let error = evaluate(condition, "").unwrap_err();
        assert!(
            error.contains(parts),
            "{condition}\n  gives: {error}\n  without: {parts}"
        );
        assert!(error.starts_with("policy `p`: `ottl_condition.span` has the condition `"));
    }
    assert!(evaluate("time == nil", "").unwrap_err().contains("`time`"));
}

#[test]
fn more_keys_than_there_are_slots_are_refused() {
    let condition = |n: usize| {
        let parts: Vec<String> = (0..n)
            .map(|n| format!("attributes[\"k{n}\"] == 1"))
            .collect();
        parts.join(" or ")
    };
    assert_eq!(evaluate(&condition(32), ""), Ok(Some(false)));
    assert!(
        evaluate(&condition(33), "")
            .unwrap_err()
            .contains("32 distinct attribute keys")
    );
    let resource = condition(65).replace("attributes", "resource.attributes");
    assert!(
        evaluate(&resource, "")
            .unwrap_err()
            .contains("64 conditions on resources")
    );
}

#[test]
fn a_match_wins_over_a_failure_wherever_it_stands() {
    let config = OttlCondition {
        error_mode: ErrorMode::Propagate,
        span: vec!["Len(1) == 1".to_owned(), "name != \"\"".to_owned()],
        spanevent: Vec::new(),
    };
    let failed = AtomSet::of_status(otlp::span::StatusCode::Error);
    let matched = atom();
    for (first_wins, want_match) in [(false, true), (true, false)] {
        let mut conditions = Conditions::default();
        let outcome = Outcome {
            matched,
            failed,
            first_wins,
        };
        conditions.add("p", &config, outcome).unwrap();
        let bytes = span();
        let summary = SpanSummary::read(&bytes).unwrap();
        let truths = conditions.read_resource(&[]);
        let found = conditions
            .read_span(truths, &bytes, &summary, AtomSet::EMPTY)
            .unwrap();
        assert_eq!(found.intersects(matched), want_match);
        assert!(found.intersects(failed));
    }
}

/// Words of the language in any order: refused or evaluated, never a panic.
#[test]
fn no_text_makes_a_condition_panic() {
    let words = [
        "name",
        "attributes",
        "[",
        "]",
        "\"a\"",
        "(",
        ")",
        "==",
        "<",
        "and",
        "or",
        "not",
        "-",
        "+",
        "/",
        "1",
        "0.5",
        "nil",
        "true",
        "Len",
        "IsMatch",
        ",",
        ".",
        "resource",
        "0x01",
        "SPAN_KIND_SERVER",
    ];
    let mut state = 1_u64;
    for _ in 0..20_000 {
        let mut condition = String::new();
        for _ in 0..8 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let word = usize::try_from(state >> 33).unwrap() % words.len();
            condition.push_str(words[word]);
            condition.push(' ');
        }
        drop(evaluate(&condition, &condition));
    }
}
