//! Ids in every form that people paste.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use proptest::prelude::{any, prop_assert_eq, proptest};

use super::super::ids::{span, trace};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

#[test]
fn traces_are_brought_to_the_stored_form() {
    for text in [
        TRACE,
        "4BF92F3577B34DA6A3CE929D0E0E4736",
        "  4bf92f3577b34da6a3ce929d0e0e4736\r\n",
        "0x4bf92f3577b34da6a3ce929d0e0e4736",
        "4bf92f35-77b3-4da6-a3ce-929d0e0e4736",
        "{4BF92F35-77B3-4DA6-A3CE-929D0E0E4736}",
        "urn:uuid:4bf92f35-77b3-4da6-a3ce-929d0e0e4736",
        "S/kvNXezTaajzpKdDg5HNg==",
        "S_kvNXezTaajzpKdDg5HNg",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "01-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01-what-later-versions-add",
    ] {
        assert_eq!(trace(text).as_deref(), Some(TRACE), "{text}");
    }
    let zeros = "000000000000000000000000000000ab";
    assert_eq!(trace(zeros).as_deref(), Some(zeros));
}

#[test]
fn spans_are_brought_to_the_stored_form() {
    for text in [
        SPAN,
        "00F067AA0BA902B7",
        " 0X00f067aa0ba902b7 ",
        "APBnqgupArc=",
        "APBnqgupArc",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00F067AA0BA902B7-00",
    ] {
        assert_eq!(span(text).as_deref(), Some(SPAN), "{text}");
    }
}

#[test]
fn garbage_is_no_id() {
    for text in [
        "",
        " ",
        "NULL",
        "00000000000000000000000000000000",
        "0000000000000000",
        "00000000-0000-0000-0000-000000000000",
        "AAAAAAAAAAAAAAAAAAAAAA==",
        "AAAAAAAAAAA=",
        // Neither cut nor too long.
        "4bf92f3577b34da6a3ce929d0e0e473",
        "4bf92f3577b34da6a3ce929d0e0e47366",
        "bf92f3577b34da6a3ce929d0e0e4736 ",
        "4bf92f3577b34da6-a3ce929d0e0e4736",
        "4bf92f35_77b3_4da6_a3ce_929d0e0e4736",
        "4bf92f3577b34da6a3ce929d0e0e473g",
        "4bf92f3577b34da6a3ce929d0e0e47\u{0663}6",
        "\u{ff14}bf92f3577b34da6a3ce929d0e0e4736",
        "0x0x4bf92f3577b34da6a3ce929d0e0e4736",
        "S/kvNXezTaajzpKdDg5HNh==",
        "S/kvNXezTaajzpKdDg5H Ng=",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-zz",
        "00-00000000000000000000000000000000-0000000000000000-00",
        "' OR 1 = 1 --",
    ] {
        assert_eq!(trace(text), None, "{text}");
        assert_eq!(span(text), None, "{text}");
    }
    // A trace is no span, and half of one is no trace.
    assert_eq!(span(TRACE), None);
    assert_eq!(trace(SPAN), None);
}

proptest! {
    #[test]
    fn every_form_of_every_id_is_the_same_id(id in any::<[u8; 16]>(), half in any::<[u8; 8]>()) {
        let digits: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let expected = (id != [0; 16]).then(|| digits.clone());
        let uuid = uuid::Uuid::from_bytes(id);
        for text in [
            digits.clone(),
            digits.to_uppercase(),
            format!("0x{digits}"),
            uuid.hyphenated().to_string(),
            uuid.braced().to_string().to_uppercase(),
            STANDARD.encode(id),
            STANDARD_NO_PAD.encode(id),
            URL_SAFE.encode(id),
            URL_SAFE_NO_PAD.encode(id),
        ] {
            prop_assert_eq!(trace(&text), expected.clone(), "{}", text);
        }
        let digits: String = half.iter().map(|byte| format!("{byte:02x}")).collect();
        let expected = (half != [0; 8]).then(|| digits.clone());
        for text in [digits.to_uppercase(), digits, STANDARD.encode(half), URL_SAFE_NO_PAD.encode(half)] {
            prop_assert_eq!(span(&text), expected.clone(), "{}", text);
        }
    }

    #[test]
    fn a_text_is_an_id_or_none(text in "\\PC{0,60}|[0-9a-fA-FxX=/+_-]{8,60}") {
        for (id, n_digits) in [(trace(&text), 32), (span(&text), 16)] {
            if let Some(id) = id {
                prop_assert_eq!(id.len(), n_digits);
                prop_assert_eq!(id.to_lowercase(), id.clone());
                prop_assert_eq!(if n_digits == 32 { trace(&id) } else { span(&id) }, Some(id));
            }
        }
    }
}
