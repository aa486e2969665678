//! OTLP/JSON to protobuf bytes and back.
//!
//! Limits: a value may nest as deeply as in protobuf (the same [`Limits::depth_max`]); unknown
//! fields may nest 256 levels; no tree of the text is built, memory grows with its size only.
//!
//! # What is accepted
//!
//! The format is proto3's JSON mapping with OTLP's exceptions (OTLP specification, "JSON Protobuf
//! Encoding"), and in addition what senders really do:
//!
//! - Ids are hex in any case. Hex of another length becomes bytes of that length, the rest becomes an absent id, so
//!   that [`crate::export::check`] rejects that span alone.
//! - Names are lowerCamelCase or `snake_case`. Unknown names are ignored, `null` is absent.
//! - Integers are numbers or strings, exact over the whole range; `1e3` and `2.0` are integers.
//! - Enums are numbers or names, with or without prefix, in any case (`SPAN_KIND_SERVER`,
//!   `server`). Numbers of a later version pass. An unknown name is an error: read as 0 it would
//!   silently turn a failed span into one without a status.
//! - Doubles are numbers, strings with a number, `"NaN"`, `"Infinity"`, `"-Infinity"`.
//! - An `AnyValue` of `{}` or of an unknown variant is an empty value.
//! - A lone surrogate escape (an emoji cut in half by a sender that counts UTF-16 units) becomes
//!   U+FFFD. The text itself must be UTF-8.
//!
//! Refused: ids in base64 (`protojson` dumps: 24 characters ending with `==` for a trace, 12 ending with `=` for a span
//! id), because OTLP/JSON has hex and all ids of such a sender are so; another type than the field's, an integer out of range, `null` in a list, text behind
//! the object.
//!
//! What is written is the canonical form: lowerCamelCase, hex in lower case, 64-bit integers as
//! strings, enums as numbers, zeros and empty lists left out.

mod from_protobuf;
mod read;
mod to_protobuf;
pub(crate) mod write;

pub use from_protobuf::from_protobuf;

use crate::{
    error::{Error, Result},
    export::{Limits, Signal},
};

/// Text from here on is refused: what is made of it must stay below 4 GiB, and grows up to four
/// times (a list of doubles `0,0,..`).
pub const JSON_BYTES_MAX: usize = 512 << 20;

/// Turns the JSON text of an export request into the protobuf bytes of the same request, which
/// are then to be checked like any other ([`crate::export::check`]).
///
/// # Errors
/// Text that is not JSON, not UTF-8, nested too deeply, or has a value that its field cannot have.
pub fn to_protobuf(signal: Signal, json: &[u8], limits: &Limits) -> Result<Vec<u8>> {
    if json.len() >= JSON_BYTES_MAX {
        return Err(Error::TooLarge {
            n_bytes: u64::try_from(json.len()).unwrap_or(u64::MAX),
        });
    }
    to_protobuf::transcode(signal, json, limits.depth())
}

#[cfg(test)]
mod tests;
