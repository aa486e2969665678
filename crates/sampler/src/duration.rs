//! Durations as the Collector's configuration writes them: Go's `time.ParseDuration`.
//!
//! A sequence of decimal numbers with a unit each: `10s`, `1m30s`, `1.5h`, `500ms`; `0` alone needs
//! no unit. Units are `ns`, `us`, `ms`, `s`, `m`, `h`. A bare number other than 0 is refused: the
//! Collector reads it as nanoseconds, which nobody who writes `decision_wait: 10` means.

use std::fmt;
use std::time::Duration;

use serde::Deserializer;
use serde::de::{self, Visitor};

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Why a text is not a duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DurationError {
    #[error("a duration needs a unit, for example `10s`")]
    UnitMissing,
    #[error("unknown unit of a duration, known are ns, us, ms, s, m, h")]
    UnitUnknown,
    #[error("not a duration, write for example `10s` or `1m30s`")]
    Malformed,
    #[error("a duration here cannot be negative")]
    Negative,
    #[error("a duration longer than 292 years")]
    TooLong,
}

/// Reads one duration.
pub(crate) fn parse(text: &str) -> Result<Duration, DurationError> {
    if text.starts_with('-') {
        return Err(DurationError::Negative);
    }
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(DurationError::Malformed);
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (whole, after_whole) = split_digits(rest);
        let (fraction, after_number) = match after_whole.strip_prefix('.') {
            Some(after_point) => split_digits(after_point),
            None => ("", after_whole),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(DurationError::Malformed);
        }
        let unit_end = after_number
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(after_number.len());
        let (unit, after_unit) = after_number.split_at(unit_end);
        let nanos = in_nanos(whole, fraction, nanos_per(unit)?)?;
        total = total.checked_add(nanos).ok_or(DurationError::TooLong)?;
        rest = after_unit;
    }
    // Go's duration is a signed 64-bit number of nanoseconds.
    if i64::try_from(total).is_err() {
        return Err(DurationError::TooLong);
    }
    Ok(Duration::from_nanos(total))
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

fn nanos_per(unit: &str) -> Result<u64, DurationError> {
    match unit {
        "ns" => Ok(1),
        // Both Unicode spellings of micro that Go accepts.
        "us" | "\u{b5}s" | "\u{3bc}s" => Ok(1_000),
        "ms" => Ok(1_000_000),
        "s" => Ok(NANOS_PER_SECOND),
        "m" => Ok(60 * NANOS_PER_SECOND),
        "h" => Ok(3_600 * NANOS_PER_SECOND),
        "" => Err(DurationError::UnitMissing),
        _ => Err(DurationError::UnitUnknown),
    }
}

fn in_nanos(whole: &str, fraction: &str, nanos_per_unit: u64) -> Result<u64, DurationError> {
    let mut nanos: u64 = 0;
    for digit in whole.bytes() {
        nanos = nanos
            .checked_mul(10)
            .and_then(|n| n.checked_add(u64::from(digit - b'0')))
            .ok_or(DurationError::TooLong)?;
    }
    nanos = nanos
        .checked_mul(nanos_per_unit)
        .ok_or(DurationError::TooLong)?;
    // What is below a nanosecond is cut off, as in Go; 18 digits are beyond every unit's precision.
    let mut value: u128 = 0;
    let mut scale: u128 = 1;
    for digit in fraction.bytes().take(18) {
        value = value * 10 + u128::from(digit - b'0');
        scale *= 10;
    }
    let part = u64::try_from(value * u128::from(nanos_per_unit) / scale)
        .map_err(|_| DurationError::TooLong)?;
    nanos.checked_add(part).ok_or(DurationError::TooLong)
}

struct DurationVisitor;

impl Visitor<'_> for DurationVisitor {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration such as `10s`, `1m30s` or `500ms`")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Duration, E> {
        parse(text).map_err(|error| E::custom(format_args!("`{text}`: {error}")))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Duration, E> {
        if number == 0 {
            return Ok(Duration::ZERO);
        }
        Err(E::custom(format_args!(
            "`{number}`: {}",
            DurationError::UnitMissing
        )))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Duration, E> {
        match u64::try_from(number) {
            Ok(number) => self.visit_u64(number),
            Err(_) => Err(E::custom(format_args!(
                "`{number}`: {}",
                DurationError::Negative
            ))),
        }
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Duration, E> {
        Err(E::custom(format_args!(
            "`{number}`: {}",
            DurationError::UnitMissing
        )))
    }
}

/// For `#[serde(deserialize_with)]`: a duration such as `10s` or `1m30s`.
///
/// # Errors
/// What is wrong with the text, with an example of a right one.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    deserializer.deserialize_any(DurationVisitor)
}

/// The same where 0 means "off", as in the Collector.
pub(crate) fn deserialize_optional<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    let duration = deserialize(deserializer)?;
    Ok((!duration.is_zero()).then_some(duration))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{DurationError, parse};

    #[test]
    fn durations_read_as_in_go() {
        for (text, want) in [
            ("10s", Ok(Duration::from_secs(10))),
            ("1m30s", Ok(Duration::from_secs(90))),
            ("500ms", Ok(Duration::from_millis(500))),
            ("1.5h", Ok(Duration::from_secs(5400))),
            ("0.25s", Ok(Duration::from_millis(250))),
            (".5s", Ok(Duration::from_millis(500))),
            ("1.s", Ok(Duration::from_secs(1))),
            ("+2us", Ok(Duration::from_micros(2))),
            ("1.9ns", Ok(Duration::from_nanos(1))),
            (
                "1h0m0.000000001s",
                Ok(Duration::from_nanos(3_600_000_000_001)),
            ),
            ("0", Ok(Duration::ZERO)),
            ("0s", Ok(Duration::ZERO)),
            ("10", Err(DurationError::UnitMissing)),
            ("", Err(DurationError::Malformed)),
            ("s", Err(DurationError::Malformed)),
            (".s", Err(DurationError::Malformed)),
            ("1d", Err(DurationError::UnitUnknown)),
            ("1 s", Err(DurationError::UnitUnknown)),
            ("-1s", Err(DurationError::Negative)),
            ("9999999999h", Err(DurationError::TooLong)),
            ("99999999999999999999s", Err(DurationError::TooLong)),
        ] {
            assert_eq!(parse(text), want, "{text}");
        }
    }
}
