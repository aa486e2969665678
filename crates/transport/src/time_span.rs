//! Time spans as the Collector writes them: whole numbers with `ms`, `s`, `m` or `h`, largest first.

use std::time::Duration;

use serde::{Deserialize, Deserializer, de};

/// Reads a text such as `500ms`, `30s`, `1m30s`; for `#[serde(deserialize_with)]`.
///
/// # Errors
///
/// The text is not a time span.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse(&text).ok_or_else(|| {
        de::Error::custom(format_args!(
            "`{text}` is not a time span such as `500ms`, `30s` or `1m30s`"
        ))
    })
}

/// The same for a key that has no default; an empty text is unset.
///
/// # Errors
///
/// The text is not a time span.
pub fn optional<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.is_empty() {
        return Ok(None);
    }
    deserialize(de::value::StringDeserializer::new(text)).map(Some)
}

/// A time span; `None` if the text is not one.
pub fn parse(text: &str) -> Option<Duration> {
    let mut total = Duration::ZERO;
    let mut rest = text;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = rest.split_at_checked(digits)?;
        let letters = after.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, after) = after.split_at_checked(letters)?;
        let number: u64 = number.parse().ok()?;
        let part = match unit {
            "ms" => Duration::from_millis(number),
            "s" => Duration::from_secs(number),
            "m" => Duration::from_secs(number.checked_mul(60)?),
            "h" => Duration::from_secs(number.checked_mul(3600)?),
            _ => return None,
        };
        total = total.checked_add(part)?;
        rest = after;
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::parse;

    #[test]
    fn time_spans_are_those_of_the_collector() {
        for (text, expected) in [
            ("500ms", Some(Duration::from_millis(500))),
            ("30s", Some(Duration::from_secs(30))),
            ("1m30s", Some(Duration::from_secs(90))),
            ("2h", Some(Duration::from_secs(7200))),
            ("", None),
            ("30", None),
            ("s", None),
            ("-1s", None),
            ("99999999999999999999s", None),
            ("18446744073709551615h", None),
        ] {
            assert_eq!(parse(text), expected, "{text}");
        }
    }
}
