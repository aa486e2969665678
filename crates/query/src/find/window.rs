//! The time that is searched, and how clients write times and time spans.

use std::time::Duration;

use arrow::compute::kernels::cast_utils::string_to_timestamp_nanos;
use datafusion::common::ScalarValue;

use super::Draft;

/// What is searched where the client names no start: a day, which holds what somebody looks for after an alert.
pub(crate) const LOOKBACK: Duration = Duration::from_hours(24);

/// The same for keys and values of attributes, which are read from maps at every key stroke of an editor.
pub(crate) const RECENT: Duration = Duration::from_hours(1);

/// Longest time between the start of a trace and a span of it that is looked for.
pub(crate) const SLACK: Duration = Duration::from_hours(1);

/// Starts of spans that are searched; both ends belong to it. Nanoseconds since 1970 (UTC).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) start_unix_nano: i64,
    pub(crate) end_unix_nano: i64,
}

/// The start of a search is after its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the start of the search is after its end")]
pub(crate) struct EmptyWindow;

impl Window {
    /// From `start` to `end`; where one is missing, up to now or a `lookback` before the end.
    pub(crate) fn new(
        start_unix_nano: Option<i64>,
        end_unix_nano: Option<i64>,
        now_unix_nano: i64,
        lookback: Duration,
    ) -> Result<Self, EmptyWindow> {
        let end_unix_nano = end_unix_nano.unwrap_or(now_unix_nano);
        let before = |end: i64| end.saturating_sub(nanos(lookback));
        let start_unix_nano = start_unix_nano.unwrap_or_else(|| before(end_unix_nano));
        if start_unix_nano > end_unix_nano {
            return Err(EmptyWindow);
        }
        Ok(Self {
            start_unix_nano,
            end_unix_nano,
        })
    }

    /// The window and so much time around it.
    pub(crate) fn widened(self, by: Duration) -> Self {
        Self {
            start_unix_nano: self.start_unix_nano.saturating_sub(nanos(by)),
            end_unix_nano: self.end_unix_nano.saturating_add(nanos(by)),
        }
    }

    /// Whether a column of times in microseconds is in it, as SQL. Files have statistics of such columns.
    pub(crate) fn sql(self, column: &str, draft: &mut Draft) -> String {
        let utc = |nanos: i64| {
            let micros = nanos.div_euclid(1_000);
            ScalarValue::TimestampMicrosecond(Some(micros), Some("UTC".into()))
        };
        let start = draft.bind(utc(self.start_unix_nano));
        let end = draft.bind(utc(self.end_unix_nano));
        format!("{column} >= {start} AND {column} <= {end}")
    }
}

pub(crate) fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// Units of time spans with their nanoseconds, of two that begin alike the longer first. Days are not Go's; the Jaeger
/// UI writes them.
const UNITS: [(&str, f64); 9] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("\u{b5}s", 1e3),
    ("\u{3bc}s", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 6e10),
    ("h", 3.6e12),
    ("d", 8.64e13),
];

/// Nanoseconds of a time span as Go writes it: `1.5s`, `100ms`, `1h30m`. `None` for anything else, also if it is
/// negative or does not fit.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    let mut rest = text.trim();
    if rest == "0" {
        return Some(0);
    }
    let mut nanos = 0.0;
    let mut n_parts = 0;
    while !rest.is_empty() {
        let is_digit = |c: char| c.is_ascii_digit() || c == '.';
        let n_digits = rest.find(|c| !is_digit(c))?;
        let (number, after) = rest.split_at_checked(n_digits)?;
        let number: f64 = number.parse().ok()?;
        let (after, unit) = UNITS
            .iter()
            .find_map(|(unit, nanos)| Some((after.strip_prefix(unit)?, nanos)))?;
        nanos += number * unit;
        n_parts += 1;
        rest = after;
    }
    // 2^63 as a double; every smaller one fits. Parts of nanoseconds do not count.
    let fits = n_parts > 0 && nanos < 9_223_372_036_854_775_808.0;
    fits.then(|| nanos.round() as i64)
}

/// Nanoseconds since 1970 of a time as RFC 3339 writes it. A `+` of the zone that came as a blank, because an address
/// was not encoded, is read as `+`.
pub(crate) fn parse_rfc3339(text: &str) -> Option<i64> {
    let text = text.trim();
    let (date, time) = text.split_once(['T', 't'])?;
    let time = time.replace(' ', "+");
    string_to_timestamp_nanos(&format!("{date}T{time}")).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{EmptyWindow, Window, parse_duration, parse_rfc3339};

    #[test]
    fn time_spans_are_read_as_go_writes_them() {
        for (text, nanos) in [
            ("1.5s", Some(1_500_000_000)),
            ("100ms", Some(100_000_000)),
            ("1h30m", Some(5_400_000_000_000)),
            ("7us", Some(7_000)),
            ("7\u{b5}s", Some(7_000)),
            ("7\u{3bc}s", Some(7_000)),
            ("3ns", Some(3)),
            ("2d", Some(172_800_000_000_000)),
            ("0", Some(0)),
            (" 1m ", Some(60_000_000_000)),
            (".5s", Some(500_000_000)),
            ("", None),
            ("1", None),
            ("s", None),
            ("1s2", None),
            ("-1s", None),
            ("1.2.3s", None),
            ("1 s", None),
            ("1e3s", None),
            ("999999999999999h", None),
            ("'; DROP TABLE spans; --", None),
            ("\u{b5}", None),
        ] {
            assert_eq!(parse_duration(text), nanos, "{text}");
        }
    }

    #[test]
    fn times_are_read_with_their_zone() {
        let noon = Some(1_767_268_800_000_000_000);
        for text in [
            "2026-01-01T12:00:00Z",
            "2026-01-01T12:00:00.000000000Z",
            "2026-01-01T14:00:00+02:00",
            "2026-01-01T14:00:00 02:00",
        ] {
            assert_eq!(parse_rfc3339(text), noon, "{text}");
        }
        for text in ["", "T", "2026-01-01", "noon", "2026-13-01T00:00:00Z"] {
            assert_eq!(parse_rfc3339(text), None, "{text}");
        }
    }

    #[test]
    fn a_window_ends_now_and_begins_before_that_unless_told_otherwise() {
        let hour = Duration::from_hours(1);
        let window = |start, end| {
            let window = Window::new(start, end, 7_200_000_000_000, hour);
            window.map(|window| (window.start_unix_nano, window.end_unix_nano))
        };
        assert_eq!(
            window(None, None),
            Ok((3_600_000_000_000, 7_200_000_000_000))
        );
        assert_eq!(window(Some(5), None), Ok((5, 7_200_000_000_000)));
        assert_eq!(window(None, Some(i64::MIN)), Ok((i64::MIN, i64::MIN)));
        assert_eq!(window(Some(6), Some(5)), Err(EmptyWindow));
        let all = Window::new(Some(i64::MIN), Some(i64::MAX), 0, hour).unwrap();
        assert_eq!(all.widened(hour), all);
    }
}
