//! When to send an export request again.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::rng::Rng;

/// Bounds for sending again; a server's own wish comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// Attempts in all, the first one included.
    pub attempts_max: NonZeroU32,
    /// The pause after the first failed attempt; it doubles with every further one.
    pub delay_first: Duration,
    /// The longest pause that doubling leads to.
    pub delay_max: Duration,
    /// The longest pause that a server may ask for (`RetryInfo` or `Retry-After`); asked for more,
    /// the export fails rather than coming back earlier than it was told.
    pub server_delay_max: Duration,
}

impl Default for Retry {
    /// Eight attempts over about ten seconds; a minute if the server asks for it.
    fn default() -> Self {
        const EIGHT: NonZeroU32 = NonZeroU32::MIN.saturating_add(7);
        Self {
            attempts_max: EIGHT,
            delay_first: Duration::from_millis(100),
            delay_max: Duration::from_secs(5),
            server_delay_max: Duration::from_secs(60),
        }
    }
}

/// What to do after a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pause {
    /// Send again after this long.
    For(Duration),
    /// [`Retry::attempts_max`] is reached.
    NoAttemptLeft,
    /// The server asked for more than [`Retry::server_delay_max`].
    TooLong(Duration),
}

impl Retry {
    /// The pause after a failed attempt that followed `n_retries` others.
    ///
    /// Between half and the whole of the doubled delay, so that clients which failed together do
    /// not return together.
    pub(super) fn pause(&self, n_retries: u32, asked: Option<Duration>, rng: &mut Rng) -> Pause {
        if n_retries.saturating_add(1) >= self.attempts_max.get() {
            return Pause::NoAttemptLeft;
        }
        if let Some(asked) = asked
            && asked > self.server_delay_max
        {
            return Pause::TooLong(asked);
        }
        let doubled = self
            .delay_first
            .saturating_mul(2_u32.saturating_pow(n_retries))
            .min(self.delay_max);
        let spread = doubled.mul_f64(rng.between(0.5, 1.0));
        Pause::For(spread.max(asked.unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, NonZeroU32, Pause, Retry, Rng};

    fn check(n_retries: u32, asked: Option<u64>) -> Pause {
        let retry = Retry {
            attempts_max: NonZeroU32::new(100).unwrap(),
            delay_first: Duration::from_secs(1),
            delay_max: Duration::from_secs(8),
            server_delay_max: Duration::from_secs(60),
        };
        retry.pause(n_retries, asked.map(Duration::from_secs), &mut Rng::new(1))
    }

    #[test]
    fn pauses_double_up_to_the_limit() {
        for (n_retries, seconds_max) in [(0, 1), (1, 2), (2, 4), (3, 8), (4, 8), (98, 8)] {
            let Pause::For(delay) = check(n_retries, None) else {
                panic!("{n_retries}")
            };
            let longest = Duration::from_secs(seconds_max);
            assert!(
                delay >= longest / 2 && delay <= longest,
                "{n_retries}: {delay:?}"
            );
        }
    }

    #[test]
    fn the_last_attempt_is_not_repeated() {
        assert_eq!(check(99, None), Pause::NoAttemptLeft);
        assert_eq!(check(u32::MAX, Some(1)), Pause::NoAttemptLeft);
    }

    #[test]
    fn a_server_is_never_visited_earlier_than_it_asked() {
        assert_eq!(check(0, Some(30)), Pause::For(Duration::from_secs(30)));
        assert_eq!(check(0, Some(61)), Pause::TooLong(Duration::from_secs(61)));
        let Pause::For(delay) = check(5, Some(1)) else {
            panic!()
        };
        assert!(
            delay >= Duration::from_secs(4),
            "the own back-off stays: {delay:?}"
        );
    }
}
