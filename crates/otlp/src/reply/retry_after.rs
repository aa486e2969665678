//! The `Retry-After` header: seconds, or a date that is measured against the answer's own `Date`
//! header.
//!
//! Measuring against the server's clock instead of ours makes a wrong clock on either side
//! harmless. Format: RFC 9110, sections 5.6.7 (only the fixed form that senders must produce) and
//! 10.2.3.

use std::time::Duration;

/// The pause that the header asks for; `None` if it cannot be read.
pub fn retry_after(value: &str, date: Option<&str>) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let pause = seconds_of_date(value)?.saturating_sub(seconds_of_date(date?)?);
    Some(Duration::from_secs(u64::try_from(pause).unwrap_or(0)))
}

/// Seconds since 1970 of a date such as `Sun, 06 Nov 1994 08:49:37 GMT`.
#[expect(
    clippy::arithmetic_side_effects,
    reason = "each part is checked against its range"
)]
fn seconds_of_date(text: &str) -> Option<i64> {
    let (_weekday, rest) = text.trim().split_once(", ")?;
    let mut words = rest.split(' ');
    let day: i64 = words
        .next()?
        .parse()
        .ok()
        .filter(|day| (1..=31).contains(day))?;
    let month = month_number(words.next()?)?;
    let year: i64 = words
        .next()?
        .parse()
        .ok()
        .filter(|year| (1970..=9999).contains(year))?;
    let mut clock = words
        .next()?
        .split(':')
        .map(|part| part.parse::<i64>().ok());
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    let in_range =
        (0..24).contains(&hour) && (0..60).contains(&minute) && (0..=60).contains(&second);
    if words.next()? != "GMT" || !in_range {
        return None;
    }
    Some(((days_from_epoch(year, month, day) * 24 + hour) * 60 + minute) * 60 + second)
}

fn month_number(name: &str) -> Option<i64> {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let idx = MONTHS.iter().position(|month| *month == name)?;
    i64::try_from(idx).ok().map(|idx| idx.saturating_add(1))
}

/// Days since 1970-01-01 in the Gregorian calendar, with years that begin in March.
#[expect(clippy::arithmetic_side_effects, reason = "the year has four digits")]
fn days_from_epoch(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month <= 2 {
        (year - 1, month + 9)
    } else {
        (year, month - 3)
    };
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    365 * year + year / 4 - year / 100 + year / 400 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::{Duration, retry_after};

    #[test]
    fn seconds_and_dates_give_a_pause_and_anything_else_none() {
        let now = Some("Sun, 29 Nov 2026 16:59:30 GMT");
        for (value, date, seconds) in [
            ("0", None, Some(0)),
            (" 120 ", None, Some(120)),
            ("Sun, 29 Nov 2026 17:00:00 GMT", now, Some(30)),
            ("Mon, 01 Mar 2027 16:59:30 GMT", now, Some(92 * 86_400)),
            ("Sun, 29 Nov 2026 16:00:00 GMT", now, Some(0)),
            ("Sun, 29 Nov 2026 17:00:00 GMT", None, None),
            ("Sun, 29 Nov 2026 17:00:00 GMT", Some("yesterday"), None),
            ("-1", now, None),
            ("1.5", now, None),
            ("", now, None),
            ("Sun, 29 Nov 2026 17:00", now, None),
            ("Sun, 99 Nov 2026 17:00:00 GMT", now, None),
            ("Sun, 29 Nov 2026 25:00:00 GMT", now, None),
            ("Sun, 29 Nov 2026 17:00:00 CET", now, None),
        ] {
            assert_eq!(
                retry_after(value, date),
                seconds.map(Duration::from_secs),
                "{value}"
            );
        }
    }

    #[test]
    fn the_calendar_counts_leap_days() {
        for (date, days) in [
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
            ("Tue, 29 Feb 2000 00:00:00 GMT", 11_016),
            ("Wed, 01 Mar 2000 00:00:00 GMT", 11_017),
            ("Mon, 01 Mar 2100 00:00:00 GMT", 47_541),
        ] {
            let epoch = Some("Thu, 01 Jan 1970 00:00:00 GMT");
            assert_eq!(
                retry_after(date, epoch),
                Some(Duration::from_secs(days * 86_400)),
                "{date}"
            );
        }
    }
}
