//! Ids as people paste them, brought to the form in which they are stored.
//!
//! Taken, with white space around them: hexadecimal digits of either case, with or without `0x`; base64 of the bytes, of either
//! alphabet, with or without `=` at its end; the id out of a W3C `traceparent`; of a trace, also a UUID with dashes. Digits
//! are never added: sixteen of them are not a trace, whatever their sender has cut off.

use std::sync::Arc;

use arrow::array::{ArrayRef, StringBuilder};
use arrow::datatypes::DataType;
use base64::Engine as _;
use base64::alphabet::{Alphabet, STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use datafusion::common::Result;
use datafusion::common::cast::as_string_array;
use uuid::Uuid;

use super::arguments::{Arguments, Kind, Parameter};
use super::{Function, Work};

pub(super) static TRACE_HEX: Function = Function {
    name: "trace_hex",
    parameters: &[Parameter::new("text", Kind::Text)],
    n_required: 1,
    returns: || DataType::Utf8,
    doc: "A trace id as it is stored, 32 lower-case hexadecimal digits, out of what is pasted: digits of either case, a UUID, \
          base64 of the 16 bytes, a `traceparent`.",
    null: "The text is none of these, or the id is all zeros.",
    example: "SELECT trace_hex('4BF92F35-77B3-4DA6-A3CE-929D0E0E4736')",
    gives: "4bf92f3577b34da6a3ce929d0e0e4736",
    work: Work::Scalar(|arguments| each(arguments, trace)),
};

pub(super) static SPAN_HEX: Function = Function {
    name: "span_hex",
    parameters: &[Parameter::new("text", Kind::Text)],
    n_required: 1,
    returns: || DataType::Utf8,
    doc: "A span id as it is stored, 16 lower-case hexadecimal digits, out of what is pasted: digits of either case, base64 of \
          the 8 bytes, a `traceparent`.",
    null: "The text is none of these, or the id is all zeros.",
    example: "SELECT span_hex('00-4bf92f3577b34da6a3ce929d0e0e4736-00F067AA0BA902B7-01')",
    gives: "00f067aa0ba902b7",
    work: Work::Scalar(|arguments| each(arguments, span)),
};

fn each(arguments: &Arguments<'_>, id: fn(&str) -> Option<String>) -> Result<ArrayRef> {
    let texts = arguments.array(0)?;
    let mut ids = StringBuilder::new();
    for text in as_string_array(&texts)? {
        ids.append_option(text.and_then(id));
    }
    Ok(Arc::new(ids.finish()))
}

pub(super) fn trace(text: &str) -> Option<String> {
    let text = text.trim_ascii();
    let part = traceparent(text).map_or(text, |(trace, _)| trace);
    let uuid = || Uuid::try_parse(part).ok().map(Uuid::into_bytes);
    stored(bytes::<16>(part).or_else(uuid)?)
}

pub(super) fn span(text: &str) -> Option<String> {
    let text = text.trim_ascii();
    let part = traceparent(text).map_or(text, |(_, span)| span);
    stored(bytes::<8>(part)?)
}

/// An id of zeros stands for none.
fn stored<const N: usize>(id: [u8; N]) -> Option<String> {
    let is_id = id.iter().any(|byte| *byte != 0);
    is_id.then(|| ::hex::encode(id))
}

/// The two ids of a `traceparent` whose form is right.
fn traceparent(text: &str) -> Option<(&str, &str)> {
    let [version, trace, span, flags] = crate::trace::traceparent(text)?;
    let is_version = hex::<1>(version).is_some_and(|version| version != [0xff]);
    let is_right = is_version && hex::<1>(flags).is_some();
    (is_right && hex::<16>(trace).is_some() && hex::<8>(span).is_some()).then_some((trace, span))
}

fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    hex(digits.unwrap_or(text)).or_else(|| base64(text))
}

fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut id = [0; N];
    ::hex::decode_to_slice(text, &mut id).ok()?;
    Some(id)
}

const fn lenient(alphabet: &Alphabet) -> GeneralPurpose {
    let config = GeneralPurposeConfig::new();
    GeneralPurpose::new(
        alphabet,
        config.with_decode_padding_mode(DecodePaddingMode::Indifferent),
    )
}

const BASE64: [GeneralPurpose; 2] = [lenient(&STANDARD), lenient(&URL_SAFE)];

fn base64<const N: usize>(text: &str) -> Option<[u8; N]> {
    let lengths = (N * 8).div_ceil(6)..=N.div_ceil(3) * 4;
    if !lengths.contains(&text.len()) {
        return None;
    }
    BASE64
        .iter()
        .find_map(|base64| base64.decode(text).ok()?.try_into().ok())
}
