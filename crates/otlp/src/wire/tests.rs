//! Tests of the field walk.

use super::{Fields, Value, is_text, text};
use crate::Error;

fn walk(bytes: &[u8]) -> Result<Vec<(u32, Value<'_>)>, Error> {
    Fields::new(bytes).collect()
}

#[test]
fn every_wire_type_is_read() {
    let bytes = [
        &[0x08, 0x96, 0x01][..],
        &[0x11, 1, 0, 0, 0, 0, 0, 0, 0],
        &[0x1a, 2, 7, 8],
        &[0x25, 2, 0, 0, 0],
        &[0xf8, 0xff, 0xff, 0xff, 0x0f, 1],
    ]
    .concat();
    let want = vec![
        (1, Value::Varint(150)),
        (2, Value::Fixed64(1)),
        (3, Value::Bytes(&[7, 8])),
        (4, Value::Fixed32(2)),
        ((1 << 29) - 1, Value::Varint(1)),
    ];
    assert_eq!(walk(&bytes), Ok(want));
    assert_eq!(walk(&[]), Ok(vec![]));
}

#[test]
fn varints_may_be_overlong_but_not_over_64_bits() {
    let check = |varint: &[u8], want: Result<u64, Error>| {
        let bytes = [&[0x08][..], varint].concat();
        let want = want.map(|number| vec![(1, Value::Varint(number))]);
        assert_eq!(walk(&bytes), want, "{varint:x?}");
    };
    check(&[0x80, 0x00], Ok(0));
    check(&[0x81, 0x80, 0x80, 0x00], Ok(1));
    check(
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
        Ok(u64::MAX),
    );
    check(
        &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00],
        Ok(0),
    );
    let overflow = Err(Error::Varint { offset: 1 });
    check(
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02],
        overflow,
    );
    check(&[0x80; 10], overflow);
    check(&[0x80; 11], overflow);
    check(&[0x80; 9], Err(Error::Truncated { offset: 10 }));
}

#[test]
fn what_is_no_field_is_an_error_with_its_place() {
    let check = |bytes: &[u8], want: Error| assert_eq!(walk(bytes), Err(want), "{bytes:x?}");
    check(&[0x00, 0x00], Error::FieldKey { offset: 1 });
    check(&[0x0e], Error::FieldKey { offset: 1 });
    check(&[0x0f], Error::FieldKey { offset: 1 });
    check(
        &[0x80, 0x80, 0x80, 0x80, 0x10, 0],
        Error::FieldKey { offset: 0 },
    );
    check(&[0x08], Error::Truncated { offset: 1 });
    check(&[0x0a, 0x05, 1, 2], Error::Truncated { offset: 4 });
    check(
        &[
            0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1,
        ],
        Error::Truncated { offset: 11 },
    );
    check(&[0x09, 1, 2, 3], Error::Truncated { offset: 4 });
    check(&[0x0d, 1, 2, 3], Error::Truncated { offset: 4 });
    check(&[0x08, 1, 0x0c], Error::Group { offset: 3 });
}

#[test]
fn groups_are_skipped_and_must_match() {
    let group = [0x0b, 0x10, 1, 0x1b, 0x22, 1, 0xff, 0x1c, 0x0c];
    assert_eq!(walk(&group), Ok(vec![(1, Value::Group)]));
    assert!(matches!(walk(&[0x0b, 0x14]), Err(Error::Group { .. })));
    assert!(matches!(walk(&[0x0b]), Err(Error::Truncated { .. })));
    let nested = |depth: usize| [vec![0x0b; depth], vec![0x0c; depth]].concat();
    assert_eq!(walk(&nested(32)), Ok(vec![(1, Value::Group)]));
    assert!(matches!(walk(&nested(33)), Err(Error::Group { .. })));
    assert!(matches!(walk(&nested(1_000_000)), Err(Error::Group { .. })));
}

#[test]
fn a_walk_ends_after_its_first_error() {
    let mut fields = Fields::new(&[0x00, 0x08, 0x01]);
    assert!(fields.next().is_some_and(|field| field.is_err()));
    assert_eq!(fields.next(), None);
}

#[test]
fn utf8_is_decided_as_the_standard_library_does_at_every_length() {
    for pad in 0..80 {
        for tail in ["", "a", "\u{e9}", "\u{20ac}", "\u{1f600}"] {
            let whole = ["x".repeat(pad), tail.to_owned()].concat().into_bytes();
            for end in 0..=whole.len() {
                let bytes = &whole[..end];
                let is_utf8 = std::str::from_utf8(bytes).is_ok();
                assert_eq!(is_text(bytes), is_utf8);
                assert_eq!(text(bytes).is_some(), is_utf8);
            }
        }
        for broken in [
            &b"\x80"[..],
            b"\xc0\x80",
            b"\xed\xa0\x80",
            b"\xf4\x90\x80\x80",
            b"\xff",
        ] {
            for after in ["", "b", "bbbbbbbbb"] {
                let bytes = ["x".repeat(pad).as_bytes(), broken, after.as_bytes()].concat();
                assert!(!is_text(&bytes) && text(&bytes).is_none());
            }
        }
    }
}
