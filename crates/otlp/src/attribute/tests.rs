//! Tests of attribute reading.

use super::{Value, elements, lookup, of_kvlist, of_span};
use crate::{
    Error, Signal,
    export::{Limits, check, spans},
    testing::{AnyValue, TimeSpan, trace},
};

/// The value of attribute `k` after a trip through the bytes, as text.
fn text_of(value: impl Into<AnyValue>) -> String {
    let body = trace(1).span("s", 1.ms()).attribute("k", value).build();
    let span = spans(&body, &Limits::default())
        .next()
        .unwrap()
        .unwrap()
        .span;
    let mut text = String::new();
    lookup(of_span(span), "k").unwrap().write_text(&mut text);
    text
}

#[test]
fn values_are_written_as_text_in_the_way_of_their_type() {
    let map = |entries: Vec<(&str, AnyValue)>| {
        AnyValue::KvList(
            entries
                .into_iter()
                .map(|(key, v)| (key.to_owned(), v))
                .collect(),
        )
    };
    let check = |value: AnyValue, want: &str| assert_eq!(text_of(value), want);
    check(AnyValue::Empty, "");
    check("a\"b".into(), "a\"b");
    check(true.into(), "true");
    check(i64::MIN.into(), "-9223372036854775808");
    check(1.0.into(), "1");
    check(0.1.into(), "0.1");
    check(1e300.into(), "1e300");
    check(1e-7.into(), "1e-7");
    check((-0.0).into(), "-0");
    check(f64::NAN.into(), "NaN");
    check(f64::NEG_INFINITY.into(), "-Infinity");
    check(AnyValue::Bytes(vec![0, 1, 0xff]), "AAH/");
    check(AnyValue::Array(vec![]), "[]");
    let list = vec![
        1.into(),
        0.5.into(),
        f64::NAN.into(),
        "a\"\n\u{1}\u{e9}".into(),
        AnyValue::Empty,
        AnyValue::Bytes(vec![0]),
        false.into(),
        map(vec![]),
    ];
    check(
        list.into(),
        "[1,0.5,\"NaN\",\"a\\\"\\n\\u0001\u{e9}\",null,\"AA==\",false,{}]",
    );
    let twice = vec![
        ("b", 1.into()),
        ("a", vec![2.into()].into()),
        ("b", 3.into()),
    ];
    check(map(twice), r#"{"a":[2],"b":3}"#);
}

#[test]
fn numbers_are_read_leniently() {
    let check = |value: Value<'_>, float: Option<f64>, int: Option<i64>| {
        assert_eq!(
            (value.as_f64_lenient(), value.as_i64_lenient()),
            (float, int),
            "{value:?}"
        );
    };
    check(Value::Int(-3), Some(-3.0), Some(-3));
    check(Value::Double(2.5), Some(2.5), None);
    check(Value::Double(2.0), Some(2.0), Some(2));
    check(Value::Double(1e19), Some(1e19), None);
    check(Value::Str(" 42 "), Some(42.0), Some(42));
    check(Value::Str("4.0"), Some(4.0), Some(4));
    check(
        Value::Str("9223372036854775807"),
        Some(9_223_372_036_854_775_807.0),
        Some(i64::MAX),
    );
    check(Value::Str("x"), None, None);
    check(Value::Bool(true), None, None);
    check(Value::Empty, None, None);
}

/// Bytes of a field with a length below 128.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    [
        &[(number << 3) | 2, u8::try_from(content.len()).unwrap()][..],
        content,
    ]
    .concat()
}

/// A request with one valid span that has this `KeyValue` as its only attribute.
fn request(key_value: &[u8]) -> Vec<u8> {
    let ids = [field(1, &[7; 16]), field(2, &[7; 8])].concat();
    let span = [ids, field(9, key_value)].concat();
    field(1, &field(2, &field(2, &span)))
}

/// The attributes of a request with the `KeyValue` of these parts, as text, if it is accepted.
fn read(parts: &[&[u8]]) -> Result<String, Error> {
    let body = request(&parts.concat());
    check(Signal::Traces, &body, &Limits::default())?;
    let span = spans(&body, &Limits::default()).next().unwrap()?.span;
    let mut out = String::new();
    for attribute in of_span(span) {
        let (key, value) = attribute?;
        out.push_str(key);
        out.push('=');
        value.write_text(&mut out);
    }
    Ok(out)
}

#[track_caller]
fn check_read(parts: &[&[u8]], want: &str) {
    assert_eq!(read(parts).as_deref(), Ok(want));
}

#[track_caller]
fn check_refused(parts: &[&[u8]], is_wanted: fn(&Error) -> bool) {
    let error = read(parts).unwrap_err();
    assert!(is_wanted(&error), "{error}");
}

#[test]
fn layouts_that_no_encoder_writes_are_read() {
    let (key, text) = (field(1, b"k"), field(2, &field(1, b"v")));
    check_read(&[&key, &text], "k=v");
    check_read(&[&text, &key], "k=v");
    check_read(&[&field(1, b"old"), &key, &text], "k=v");
    check_read(&[&text], "=v");
    check_read(&[&key], "k=");
    check_read(&[], "=");
    check_read(&[&key, &text, &field(15, b"unknown")], "k=v");
    check_read(&[&key, &text, &[0x18, 5]], "k=v");
    // Lengths of more bytes than needed.
    check_read(&[&[0x0a, 0x81, 0x00, b'k'], &text], "k=v");
    check_read(&[&key, &[0x12, 0x83, 0x00, 0x0a, 1, b'v']], "k=v");
    let overlong = field(2, &[0x0a, 0x81, 0x80, 0x00, b'v']);
    check_read(&[&key, &overlong], "k=v");
}

#[test]
fn numbers_are_read_at_every_length() {
    let key = field(1, b"k");
    let check = |any: &[u8], want: &str| check_read(&[&key, &field(2, any)], want);
    check(&[0x18, 0x7f], "k=127");
    check(&[0x18, 0x80, 0x01], "k=128");
    check(&[0x18, 0x80, 0x80, 0x01], "k=16384");
    let minus_one = [&[0x18][..], &[0xff; 9], &[1]].concat();
    check(&minus_one, "k=-1");
    check(&[0x10, 0x80, 0x01], "k=true");
    check(&[0x40, 3], "k=");
}

#[test]
fn attributes_that_cannot_be_read_are_refused() {
    let (key, text) = (field(1, b"k"), field(2, &field(1, b"v")));
    let is_cut = |error: &Error| matches!(error, Error::Truncated { .. });
    check_refused(&[&key, &text, &text], |error| {
        matches!(error, Error::Repeated { field: 2, .. })
    });
    let two = [field(1, b"v"), vec![0x18, 1]].concat();
    check_refused(&[&key, &field(2, &two)], |error| {
        matches!(error, Error::Repeated { field: 3, .. })
    });
    check_refused(&[&field(1, b"\xff"), &text], Error::is_utf8);
    check_refused(&[&field(1, b"\xff"), &key, &text], Error::is_utf8);
    check_refused(&[&key, &field(2, &field(1, b"\xc3"))], Error::is_utf8);
    check_refused(&[&key, &[0x12, 0x05, 0x0a, 1, b'v']], is_cut);
    check_refused(&[&key, &field(2, &[0x18, 0x80])], is_cut);
    check_refused(&[&key, &field(2, &[0x0d, 0, 0, 0, 0])], |error| {
        matches!(error, Error::WireType { .. })
    });
    check_refused(&[&[0x08, 1], &text], |error| {
        matches!(error, Error::WireType { field: 1, .. })
    });
}

#[test]
fn elements_and_entries_of_nested_values_are_iterated() {
    let list: AnyValue = vec!["a".into(), AnyValue::Array(vec![1.into()])].into();
    let body = trace(1).span("s", 1.ms()).attribute("list", list).build();
    let span = spans(&body, &Limits::default())
        .next()
        .unwrap()
        .unwrap()
        .span;
    let Some(Value::Array(array)) = lookup(of_span(span), "list") else {
        unreachable!("it is a list");
    };
    let values: Vec<_> = elements(array).map(Result::unwrap).collect();
    assert_eq!(values[0], Value::Str("a"));
    assert!(matches!(values[1], Value::Array(_)));
    assert_eq!(of_kvlist(&[]).count(), 0);
    assert!(of_kvlist(&[0x0a]).next().unwrap().is_err());
}

/// Against the plain walk, which decodes every attribute: whatever keys are looked for, and in any layout.
#[test]
fn what_is_found_is_what_a_walk_over_all_would_find() {
    let short = |length: usize| u8::try_from(length).unwrap();
    let key = |key: &str| [&[0x0a, short(key.len())], key.as_bytes()].concat();
    let int = |int: u8| vec![0x12, 2, 0x18, int];
    let attributes = [
        [key("a"), int(1)].concat(),
        // Value before key, a key that repeats, no value, no key, a field of a later version, a long length.
        [int(2), key("a")].concat(),
        [key("b"), int(3), key("a")].concat(),
        key("a"),
        int(4),
        [key("a"), int(5), vec![0x22, 1, 7]].concat(),
        [key("a"), vec![0x12, 0x82, 0x00, 0x18, 6]].concat(),
        [key(&"k".repeat(100)), int(7)].concat(),
        [key("b"), int(8)].concat(),
    ];
    let mut span = Vec::new();
    for attribute in &attributes {
        // A field that is no attribute, so that runs begin again.
        span.extend([0x30, 2, 0x4a, short(attribute.len())]);
        span.extend(attribute);
        span.extend([0x4a, short(attribute.len())]);
        span.extend(attribute);
    }
    for wanted in ["a", "b", "", "none", &"k".repeat(100)] {
        let all = of_span(&span).map(Result::unwrap);
        let want: Vec<_> = all.filter(|(key, _)| *key == wanted).collect();
        let mut attributes = of_span(&span);
        let mut found = Vec::new();
        let is_wanted = |key| (key == wanted.as_bytes()).then_some(wanted);
        while let Some(next) = attributes.find_next(is_wanted) {
            found.push(next.unwrap());
        }
        assert_eq!(found, want, "{wanted}");
    }
}

#[test]
fn a_search_ends_at_broken_bytes() {
    for broken in [
        &[0x4a, 9, 0x0a][..],
        &[0x4a, 3, 0x0a, 9, b'a'],
        &[0x49, 1],
        &[0x4a, 0x80],
    ] {
        let mut attributes = of_span(broken);
        let first = attributes.find_next(|_| Some(()));
        assert!(first.is_some_and(|first| first.is_err()), "{broken:?}");
        assert!(attributes.find_next(|_| Some(())).is_none());
    }
}
