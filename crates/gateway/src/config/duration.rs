//! Durations as the Collector's configuration writes them (Go's `time.ParseDuration`): `10s`, `1m30s`,
//! `500ms`, `1.5h`, `0`. A number without a unit is refused.

use std::time::Duration;

use serde::{Deserialize, Deserializer, de::Error};

pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse(&text).ok_or_else(|| {
        D::Error::custom(format!(
            "`{text}` is not a duration; write for example `10s` or `1m30s`"
        ))
    })
}

fn parse(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    if rest == "0" {
        return Some(Duration::ZERO);
    }
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after_number) = rest.split_at(number_end);
        let unit_end = after_number
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(after_number.len());
        let (unit, after_unit) = after_number.split_at(unit_end);
        let seconds_per_unit = match unit {
            "ns" => 1e-9,
            "us" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        let seconds = number.parse::<f64>().ok()? * seconds_per_unit;
        total = total.checked_add(Duration::try_from_secs_f64(seconds).ok()?)?;
        rest = after_unit;
    }
    (!text.trim().is_empty()).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_the_collector_does() {
        let right = [
            ("0", 0),
            ("0s", 0),
            ("10s", 10_000),
            ("1m30s", 90_000),
            ("500ms", 500),
            ("1.5h", 5_400_000),
        ];
        for (text, millis) in right {
            assert_eq!(parse(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in [
            "", " ", "10", "s", "-1s", "1d", "1.2.3s", "1e3s", "9e99h", "10s5",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
