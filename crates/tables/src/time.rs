//! OTLP nanoseconds to stored times, without wrapping.

const NANOS_PER_MICRO: i64 = 1_000;
const MICROS_PER_MINUTE: i64 = 60_000_000;
const MICROS_PER_DAY: i64 = 86_400_000_000;

/// 2000-01-01T00:00:00Z. Earlier times come from clocks that do not count nanoseconds from 1970:
/// monotonic ones, or seconds and milliseconds sent as nanoseconds.
const PLAUSIBLE_MIN_UNIX_NANO: u64 = 946_684_800_000_000_000;

/// Nanoseconds as stored; `None` for 0 (not sent) and for times after 2262-04-11, which 64 bits do
/// not hold.
pub(crate) fn nanos(unix_nano: u64) -> Option<i64> {
    i64::try_from(unix_nano).ok().filter(|nanos| *nanos != 0)
}

/// Can a measurement have this time? Not before 2000, and 64 bits hold it.
pub(crate) fn is_plausible(unix_nano: u64) -> bool {
    unix_nano >= PLAUSIBLE_MIN_UNIX_NANO && nanos(unix_nano).is_some()
}

/// Microseconds of [`nanos`], rounded down.
pub(crate) fn micros(unix_nano: u64) -> Option<i64> {
    nanos(unix_nano).map(|nanos| nanos / NANOS_PER_MICRO)
}

/// Day of the partition: that of the start, else of the fallback; see [`crate::PARTITION`].
pub(crate) fn partition_date(start_unix_nano: u64, fallback_unix_nano: u64) -> i32 {
    let days = placement_micros(start_unix_nano, fallback_unix_nano) / MICROS_PER_DAY;
    i32::try_from(days).unwrap_or_default()
}

/// Minute of the trace's start in microseconds, with the same fallback as the partition.
pub(crate) fn minute(start_unix_nano: u64, fallback_unix_nano: u64) -> i64 {
    let micros = placement_micros(start_unix_nano, fallback_unix_nano);
    micros - micros % MICROS_PER_MINUTE
}

fn placement_micros(start_unix_nano: u64, fallback_unix_nano: u64) -> i64 {
    let plausible = |unix_nano| micros(unix_nano).filter(|_| is_plausible(unix_nano));
    plausible(start_unix_nano)
        .or_else(|| micros(fallback_unix_nano))
        .unwrap_or_default()
}

/// End minus start; `None` if either was not sent or the end lies before the start.
pub(crate) fn duration_ns(start_unix_nano: u64, end_unix_nano: u64) -> Option<i64> {
    if start_unix_nano == 0 || end_unix_nano == 0 {
        return None;
    }
    let duration = end_unix_nano.checked_sub(start_unix_nano)?;
    i64::try_from(duration).ok()
}

#[cfg(test)]
mod tests {
    use super::{duration_ns, micros, minute, nanos, partition_date};

    const MARCH_1_2026: u64 = 1_772_366_400_000_000_000;

    #[test]
    fn times_that_do_not_fit_are_absent_and_never_wrapped() {
        for absent in [0, 10_413_792_000_000_000_000, u64::MAX] {
            assert_eq!((nanos(absent), micros(absent)), (None, None), "{absent}");
        }
        assert_eq!(micros(MARCH_1_2026 + 999), Some(1_772_366_400_000_000));
    }

    #[test]
    fn an_implausible_start_is_filed_under_the_day_of_receipt() {
        let day = 20_513;
        assert_eq!(partition_date(MARCH_1_2026, 1), day);
        for start in [
            0,
            44_511_913_730_532,
            1_772_366_400,
            1_772_366_400_000,
            u64::MAX,
        ] {
            assert_eq!(partition_date(start, MARCH_1_2026), day, "{start}");
            assert_eq!(
                minute(start, MARCH_1_2026),
                1_772_366_400_000_000,
                "{start}"
            );
        }
    }

    #[test]
    fn a_duration_needs_both_ends_in_order() {
        assert_eq!(duration_ns(5, 9), Some(4));
        assert_eq!(duration_ns(5, 5), Some(0));
        assert_eq!(duration_ns(9, 5), None);
        assert_eq!(duration_ns(0, 5), None);
        assert_eq!(duration_ns(5, 0), None);
        assert_eq!(duration_ns(1, u64::MAX), None);
    }
}
