//! Budgets: how much may pass per second of the given time.
//!
//! Exact in whole numbers. A clock that steps back refills nothing and takes nothing away.

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// A budget that traces take from.
#[derive(Debug)]
pub(crate) enum Limit {
    /// A bucket that fills steadily.
    Bucket(Bucket),
    /// A count that restarts with each second of the clock.
    ClockSecond {
        /// What passes stays below this.
        below: u64,
        count: CountPerSecond,
    },
}

impl Limit {
    /// Takes `amount` if all of it is there.
    pub(crate) fn take(&mut self, amount: u64, now_unix_nano: u64) -> bool {
        match self {
            Self::Bucket(bucket) => bucket.take(amount, now_unix_nano),
            Self::ClockSecond { below, count } => {
                let used = count.at(now_unix_nano).saturating_add(amount);
                if used >= *below {
                    return false;
                }
                count.add(amount);
                true
            }
        }
    }
}

/// A bucket that starts full.
#[derive(Debug)]
pub(crate) struct Bucket {
    per_second: u64,
    capacity: u64,
    /// Content in billionths, so that each nanosecond adds a whole number of them.
    content_billionths: u128,
    /// `None` until the first time is given.
    filled_at_unix_nano: Option<u64>,
}

impl Bucket {
    /// `burst_capacity` 0 means twice the rate.
    pub(crate) fn new(per_second: u64, burst_capacity: u64) -> Self {
        let capacity = match burst_capacity {
            0 => per_second.saturating_mul(2),
            set => set,
        };
        Self {
            per_second,
            capacity,
            content_billionths: billionths(capacity),
            filled_at_unix_nano: None,
        }
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    fn take(&mut self, amount: u64, now_unix_nano: u64) -> bool {
        self.take_above(0, amount, now_unix_nano)
    }

    /// Takes `amount` if that leaves `floor`.
    pub(crate) fn take_above(&mut self, floor: u64, amount: u64, now_unix_nano: u64) -> bool {
        let before = self.filled_at_unix_nano.unwrap_or(now_unix_nano);
        let elapsed = now_unix_nano.saturating_sub(before);
        let gained = u128::from(elapsed) * u128::from(self.per_second);
        let filled = self.content_billionths.saturating_add(gained);
        self.content_billionths = filled.min(billionths(self.capacity));
        self.filled_at_unix_nano = Some(now_unix_nano.max(before));
        match self.content_billionths.checked_sub(billionths(amount)) {
            Some(rest) if rest >= billionths(floor) => {
                self.content_billionths = rest;
                true
            }
            Some(_) | None => false,
        }
    }
}

fn billionths(amount: u64) -> u128 {
    u128::from(amount) * u128::from(NANOS_PER_SECOND)
}

/// What has passed in the present second of the clock.
#[derive(Debug, Default)]
pub(crate) struct CountPerSecond {
    second: u64,
    count: u64,
}

impl CountPerSecond {
    /// The count, which restarts if the second is another than before.
    pub(crate) fn at(&mut self, now_unix_nano: u64) -> u64 {
        let second = now_unix_nano / NANOS_PER_SECOND;
        if second != self.second {
            *self = Self { second, count: 0 };
        }
        self.count
    }

    /// Counts within the second that was last asked for.
    pub(crate) fn add(&mut self, amount: u64) {
        self.count = self.count.saturating_add(amount);
    }
}

#[cfg(test)]
mod tests {
    use super::{Bucket, CountPerSecond, Limit, NANOS_PER_SECOND};

    const T0: u64 = 1_772_366_400 * NANOS_PER_SECOND;

    #[test]
    fn a_bucket_starts_full_refills_steadily_and_never_overflows() {
        let mut bucket = Bucket::new(2, 0);
        let mut take = |amount, ms: u64| bucket.take(amount, T0 + ms * 1_000_000);
        assert!(take(4, 0));
        assert!(!take(1, 0));
        assert!(!take(1, 499));
        assert!(take(1, 500));
        assert!(!take(5, 1_000_000));
        assert!(take(4, 1_000_000));
        // Set back, and forward again to where it was.
        assert!(!take(1, 0));
        assert!(!take(1, 1_000_000));
        assert!(take(1, 1_000_500));
    }

    #[test]
    fn extreme_rates_do_not_overflow() {
        let mut bucket = Bucket::new(u64::MAX, 0);
        assert!(bucket.take(u64::MAX, 0));
        assert!(bucket.take(1, u64::MAX));
        assert!(!bucket.take(u64::MAX, u64::MAX));
        assert!(Bucket::new(u64::MAX, 0).take(0, 0));
        let mut nothing = Bucket::new(0, 0);
        assert!(!nothing.take(1, u64::MAX));
    }

    #[test]
    fn a_clock_second_passes_what_stays_below_its_rate() {
        let mut limit = Limit::ClockSecond {
            below: 3,
            count: CountPerSecond::default(),
        };
        assert!(limit.take(2, T0));
        assert!(!limit.take(1, T0 + NANOS_PER_SECOND - 1));
        assert!(!limit.take(3, T0 + NANOS_PER_SECOND));
        assert!(limit.take(2, T0 + NANOS_PER_SECOND));
    }
}
