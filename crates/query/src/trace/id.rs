//! Trace ids in the forms in which people paste them.

use ::otlp::{SpanId, TraceId};

/// Digits of a whole id.
const DIGITS: usize = 2 * TraceId::LEN;

/// Longest text that is looked at; a `traceparent` has 55 characters.
const TEXT_BYTES_MAX: usize = 128;

/// Why a text is not the id of a trace. The text itself is not repeated: it can be anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "this is not the id of a trace: 32 hex digits in any case, with or without dashes, up to 31 where leading zeros were \
     left out, or a whole `traceparent`; all zero is none"
)]
pub(crate) struct IdError;

/// Reads an id: 32 hex digits in any case, with dashes anywhere between them (a UUID), fewer digits where a program
/// leaves out leading zeros (Jaeger's 64-bit ids), or the `traceparent` header that carries it. Blanks and quotes
/// around it do not count.
///
/// # Errors
///
/// Anything else.
pub(crate) fn parse_id(text: &str) -> Result<TraceId, IdError> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(IdError);
    }
    let is_around = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`');
    let text = text.trim_matches(is_around);
    let digits: String = match traceparent(text) {
        Some([_, trace_id, ..]) => trace_id.to_owned(),
        None => text.chars().filter(|c| *c != '-').collect(),
    };
    let n_left_out = DIGITS.checked_sub(digits.len()).ok_or(IdError)?;
    if n_left_out == DIGITS {
        return Err(IdError);
    }
    let whole = "0".repeat(n_left_out) + &digits;
    TraceId::parse_hex(&whole).map_err(|_other| IdError)
}

/// The parts of `version-trace_id-parent_id-flags`, to which later versions may add (W3C Trace Context, section 3.2). They have
/// the right lengths; whether they are digits is not looked at.
pub(crate) fn traceparent(text: &str) -> Option<[&str; 4]> {
    let mut parts = text.split('-');
    let lengths = [2, DIGITS, 2 * SpanId::LEN, 2];
    let found = lengths.map(|length| parts.next().filter(|part| part.len() == length));
    let [Some(version), Some(trace_id), Some(parent_id), Some(flags)] = found else {
        return None;
    };
    let is_last = parts.next().is_none();
    (is_last || version != "00").then_some([version, trace_id, parent_id, flags])
}

#[cfg(test)]
mod tests {
    use super::parse_id;

    const ID: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    #[test]
    fn an_id_is_known_in_every_form_that_is_pasted() {
        for (text, id) in [
            (ID, ID),
            ("4BF92F3577B34DA6A3CE929D0E0E4736", ID),
            ("4bf92f35-77b3-4da6-a3ce-929d0e0e4736", ID),
            (" \"4bf92f3577b34da6a3ce929d0e0e4736\"\n", ID),
            (
                "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                ID,
            ),
            (
                "00-4BF92F3577B34DA6A3CE929D0E0E4736-00F067AA0BA902B7-01",
                ID,
            ),
            (
                "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what",
                ID,
            ),
            ("00f067aa0ba902b7", "000000000000000000f067aa0ba902b7"),
            ("7", "00000000000000000000000000000007"),
        ] {
            assert_eq!(
                parse_id(text).map(|id| id.to_string()).as_deref(),
                Ok(id),
                "{text}"
            );
        }
    }

    #[test]
    fn anything_else_is_none() {
        let long = "a".repeat(1 << 20);
        for text in [
            "",
            "-",
            "0",
            "00000000000000000000000000000000",
            "4bf92f3577b34da6a3ce929d0e0e47361",
            "4bf92f3577b34da6a3ce929d0e0e473g",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "' OR '1'='1",
            "4bf92f3577b34da6'; DROP TABLE spans; --",
            "\u{ff14}bf92f3577b34da6a3ce929d0e0e4736",
            "4bf92f3577b34da6\0a3ce929d0e0e4736",
            long.as_str(),
        ] {
            assert!(parse_id(text).is_err(), "{text}");
        }
    }
}
