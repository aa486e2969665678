//! Buckets of times, the same wherever times are counted: on `/metrics` and in SQL.
//!
//! They grow by a factor of 2^(1/8), as Prometheus's native buckets of schema 3 do (a quantile is off by 4.5 % at most).
//! Bucket `i` holds what is at most 2^(i/8) seconds and more than the bound before it; [`ZERO`], the one before [`FIRST`],
//! holds everything down to 0.
//!
//! # Limits
//!
//! From 122 us (what is shorter is in the zero bucket) to 12 days (what is longer is in the last bucket): 265 buckets.
//!
//! It must not know what is counted, or where counts are kept.

/// Prometheus's number of the resolution.
pub const SCHEMA: i32 = 3;

/// What is not longer is in the zero bucket.
pub const ZERO_THRESHOLD: f64 = 1.0 / 8_192.0;

/// Buckets per doubling.
pub const PER_DOUBLING: i32 = 1 << SCHEMA;

/// The first bucket above the zero bucket.
pub const FIRST: i32 = -13 * PER_DOUBLING + 1;

/// The last bucket.
pub const LAST: i32 = 20 * PER_DOUBLING;

/// The zero bucket; its bound is [`ZERO_THRESHOLD`].
pub const ZERO: i32 = FIRST - 1;

/// The bucket of a time in seconds; `None` for what is no time: negative, not finite.
pub fn bucket(seconds: f64) -> Option<i32> {
    if !(seconds >= 0.0 && seconds.is_finite()) {
        return None;
    }
    if seconds <= ZERO_THRESHOLD {
        return Some(ZERO);
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a logarithm of a finite positive number is small"
    )]
    let mut idx = (seconds.log2() * f64::from(PER_DOUBLING)).ceil() as i32;
    // The logarithm may be rounded across a bound.
    while seconds <= bound(idx - 1) {
        idx -= 1;
    }
    while seconds > bound(idx) {
        idx += 1;
    }
    Some(idx.clamp(FIRST, LAST))
}

/// The upper bound of a bucket in seconds.
pub fn bound(idx: i32) -> f64 {
    let part = f64::from(idx.rem_euclid(PER_DOUBLING)) / f64::from(PER_DOUBLING);
    part.exp2() * 2_f64.powi(idx.div_euclid(PER_DOUBLING))
}

/// The bucket that ends exactly there; `None` if none does.
pub fn ending_at(seconds: f64) -> Option<i32> {
    bucket(seconds).filter(|idx| bound(*idx).to_bits() == seconds.to_bits())
}

#[cfg(test)]
mod tests {
    use super::{FIRST, LAST, ZERO, ZERO_THRESHOLD, bound, bucket, ending_at};
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    #[test]
    fn every_bound_ends_its_own_bucket() {
        for idx in ZERO..=LAST {
            let end = bound(idx);
            assert_eq!(bucket(end), Some(idx), "{end}");
            assert_eq!(ending_at(end), Some(idx), "{end}");
            let next = (idx + 1).min(LAST);
            assert_eq!(bucket(end.next_up()), Some(next), "{end}");
            assert_eq!(ending_at(end.next_up()), None, "{end}");
        }
        assert_eq!(bound(ZERO).to_bits(), ZERO_THRESHOLD.to_bits());
    }

    #[test]
    fn what_is_no_time_is_in_no_bucket() {
        for (seconds, expected) in [
            (f64::NAN, None),
            (f64::INFINITY, None),
            (f64::NEG_INFINITY, None),
            (-1.0, None),
            (-f64::MIN_POSITIVE, None),
            (-0.0, Some(ZERO)),
            (0.0, Some(ZERO)),
            (f64::MIN_POSITIVE, Some(ZERO)),
            (1.0, Some(0)),
            (f64::MAX, Some(LAST)),
        ] {
            assert_eq!(bucket(seconds), expected, "{seconds}");
        }
    }

    proptest! {
        #[test]
        fn a_time_is_between_the_bounds_of_its_bucket(bits in any::<u64>()) {
            let seconds = f64::from_bits(bits);
            match bucket(seconds) {
                None => prop_assert!(!(seconds >= 0.0 && seconds.is_finite())),
                Some(idx) => {
                    prop_assert!((ZERO..=LAST).contains(&idx));
                    prop_assert!(seconds <= bound(idx) || idx == LAST);
                    prop_assert!(idx < FIRST || seconds > bound(idx - 1));
                    prop_assert_eq!(bucket(seconds), Some(idx));
                }
            }
        }
    }
}
