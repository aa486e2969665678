//! Single values as text: safe for a terminal, cut to a length, with units.

use std::time::Duration;

/// Says that a value was cut.
const CUT_MARK: &str = "...";

/// The text on one line, control and direction characters escaped, cut to `chars_max` with a mark.
///
/// Direction overrides could make a line show other than what it holds.
pub(crate) fn printable(text: &str, chars_max: usize) -> String {
    let mut shown = String::with_capacity(text.len().min(chars_max));
    let mut n_shown = 0;
    for character in text.chars() {
        let width_before = n_shown;
        if character.is_control() || is_direction(character) {
            let escaped = character.escape_default();
            n_shown += escaped.len();
            shown.extend(escaped);
        } else {
            n_shown += 1;
            shown.push(character);
        }
        if n_shown > chars_max {
            let n_kept = width_before.min(chars_max.saturating_sub(CUT_MARK.len()));
            let mut cut: String = shown.chars().take(n_kept).collect();
            cut.push_str(CUT_MARK);
            return cut;
        }
    }
    shown
}

fn is_direction(character: char) -> bool {
    matches!(
        character,
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

/// Seconds with a unit that keeps three or four digits: `870 us`, `12.3 ms`, `2.61 s`, `4 min 05
/// s`, `3 h 02 min`.
pub(crate) fn seconds(seconds: f64) -> String {
    let size = seconds.abs();
    if !size.is_finite() {
        return seconds.to_string();
    }
    if size < 0.000_999_5 {
        format!("{:.0} us", seconds * 1e6)
    } else if size < 0.099_95 {
        format!("{:.1} ms", seconds * 1e3)
    } else if size < 0.999_5 {
        format!("{:.0} ms", seconds * 1e3)
    } else if size < 9.995 {
        format!("{seconds:.2} s")
    } else if size < 59.95 {
        format!("{seconds:.1} s")
    } else if size < 3_599.5 {
        let whole = seconds.round();
        format!(
            "{:.0} min {:02.0} s",
            (whole / 60.0).trunc(),
            (whole % 60.0).abs()
        )
    } else {
        let minutes = (seconds / 60.0).round();
        format!(
            "{:.0} h {:02.0} min",
            (minutes / 60.0).trunc(),
            (minutes % 60.0).abs()
        )
    }
}

/// [`seconds`] of a `Duration`.
pub(crate) fn duration(duration: Duration) -> String {
    seconds(duration.as_secs_f64())
}

/// A count with its thousands apart: `17,680`.
pub(crate) fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3 + 1);
    for (digit_idx, digit) in digits.chars().enumerate() {
        if digit_idx > 0 && (digits.len() - digit_idx).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A size in bytes: `512 B`, `6.6 MiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    // A tenth of a unit: exact in 64 bits, no floating point needed.
    let mut unit_idx = 0;
    let mut unit = 1024_u128;
    let bytes = u128::from(bytes);
    while bytes * 10 / unit >= 10_235 && unit_idx + 1 < UNITS.len() {
        unit *= 1024;
        unit_idx += 1;
    }
    let tenths = (bytes * 10 + unit / 2) / unit;
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit_idx])
}

/// An error with its causes on one line.
pub(crate) fn error_chain(error: &dyn std::error::Error) -> String {
    let mut chain = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        chain.push_str(": ");
        chain.push_str(&error.to_string());
        cause = error.source();
    }
    chain
}

/// `1 row`, `2 rows`.
pub(crate) fn counted(n: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(n), if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::{bytes, count, counted, printable, seconds};

    #[test]
    fn seconds_keep_their_digits_and_find_their_unit() {
        for (value, expected) in [
            (0.0, "0 us"),
            (0.000_87, "870 us"),
            (0.000_999_6, "1.0 ms"),
            (0.012_34, "12.3 ms"),
            (0.1, "100 ms"),
            (0.999_6, "1.00 s"),
            (2.611, "2.61 s"),
            (9.996, "10.0 s"),
            (59.96, "1 min 00 s"),
            (245.0, "4 min 05 s"),
            (10_920.0, "3 h 02 min"),
            (-2.5, "-2.50 s"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(seconds(value), expected, "{value}");
        }
    }

    #[test]
    fn counts_and_sizes_are_readable() {
        for (value, expected) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(count(value), expected);
        }
        for (value, expected) in [
            (0, "0 B"),
            (1_023, "1023 B"),
            (1_024, "1.0 KiB"),
            (6_963_433, "6.6 MiB"),
            (1_048_570, "1.0 MiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(bytes(value), expected, "{value}");
        }
        assert_eq!(counted(1, "row"), "1 row");
        assert_eq!(counted(2_000, "row"), "2,000 rows");
    }

    #[test]
    fn a_value_cannot_steer_the_terminal_and_is_cut_with_a_mark() {
        for (value, chars_max, expected) in [
            ("plain", 5, "plain"),
            ("a\u{1b}[31m\nb", 40, "a\\u{1b}[31m\\nb"),
            ("a\u{202e}b", 40, "a\\u{202e}b"),
            ("sixsix", 5, "si..."),
            ("\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}", 5, "\u{e4}\u{e4}..."),
            ("\n\n\n\n", 5, "\\n..."),
            ("abc", 0, "..."),
        ] {
            assert_eq!(printable(value, chars_max), expected, "{value:?}");
        }
    }
}
