//! When to send an export again: the Collector's `retry_on_failure`, with another default.

use std::{hash::BuildHasher, hash::RandomState, time::Duration};

use serde::Deserialize;

/// `retry_on_failure` of an exporter, keys as in the Collector.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RetryOnFailure {
    /// `false`: what fails once is lost, and counted. Default `true`.
    pub enabled: bool,
    /// The pause after the first failure. Default `5s`.
    #[serde(deserialize_with = "sampler::duration::deserialize")]
    pub initial_interval: Duration,
    /// How far a pause differs from its length by chance, as a part of it, so that many gateways do not return
    /// together; from 0 to 1. Default `0.5`.
    pub randomization_factor: f64,
    /// How much longer each pause is than the one before; at least 1. Default `1.5`.
    pub multiplier: f64,
    /// The longest pause. A server that asks for a longer one gets it. Default `30s`.
    #[serde(deserialize_with = "sampler::duration::deserialize")]
    pub max_interval: Duration,
    /// After this time a request is given up: its spans are lost, and counted with the reason `gave_up`. Default
    /// `0s`: never, the spans wait in the log. (The Collector gives up after 5 minutes.)
    #[serde(deserialize_with = "sampler::duration::deserialize")]
    pub max_elapsed_time: Duration,
}

impl Default for RetryOnFailure {
    fn default() -> Self {
        RetryOnFailure {
            enabled: true,
            initial_interval: Duration::from_secs(5),
            randomization_factor: 0.5,
            multiplier: 1.5,
            max_interval: Duration::from_secs(30),
            max_elapsed_time: Duration::ZERO,
        }
    }
}

impl RetryOnFailure {
    /// What is wrong with the settings: the key and what it must be.
    pub(crate) fn problem(&self) -> Option<(&'static str, &'static str)> {
        let checks = [
            (
                "initial_interval",
                !self.initial_interval.is_zero() || !self.enabled,
                "must be more than 0s",
            ),
            (
                "randomization_factor",
                (0.0..=1.0).contains(&self.randomization_factor),
                "must be from 0 to 1",
            ),
            (
                "multiplier",
                self.multiplier >= 1.0 && self.multiplier.is_finite(),
                "must be at least 1",
            ),
            (
                "max_interval",
                self.max_interval >= self.initial_interval || !self.enabled,
                "must be at least `initial_interval`",
            ),
        ];
        let wrong = checks.into_iter().find(|(_, is_right, _)| !is_right);
        wrong.map(|(key, _, problem)| (key, problem))
    }

    /// The pauses of one request.
    pub fn backoff(&self) -> Backoff {
        Backoff {
            settings: *self,
            interval: self.initial_interval,
        }
    }
}

/// The pauses of one request, longer and longer.
#[derive(Clone, Debug)]
pub struct Backoff {
    settings: RetryOnFailure,
    interval: Duration,
}

impl Backoff {
    /// The pause before the next attempt, at least what the server `asked` for; `None` if there is to be none.
    /// `elapsed` is the time since the first attempt began.
    pub fn pause(&mut self, asked: Option<Duration>, elapsed: Duration) -> Option<Duration> {
        let settings = &self.settings;
        if !settings.enabled {
            return None;
        }
        let spread = settings.randomization_factor * (2.0 * chance() - 1.0);
        let pause = self.interval.mul_f64(1.0 + spread);
        let pause = pause.max(asked.unwrap_or_default());
        self.interval = self
            .interval
            .mul_f64(settings.multiplier)
            .min(settings.max_interval);
        let limit = settings.max_elapsed_time;
        let is_over = !limit.is_zero() && elapsed.saturating_add(pause) > limit;
        (!is_over).then_some(pause)
    }
}

/// From 0 to 1; good enough to keep clients apart.
fn chance() -> f64 {
    // The standard library's hash keys come from the operating system's random source.
    let bits = RandomState::new().hash_one(0_u8) >> 32;
    bits as f64 / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(settings: RetryOnFailure, asked: Option<Duration>) -> Vec<f64> {
        let mut backoff = settings.backoff();
        let mut elapsed = Duration::ZERO;
        let pauses = std::iter::from_fn(|| {
            let pause = backoff.pause(asked, elapsed)?;
            elapsed += pause;
            Some(pause)
        });
        pauses.take(20).map(|pause| pause.as_secs_f64()).collect()
    }

    #[test]
    fn pauses_grow_to_the_longest_and_never_end_by_default() {
        let settings = RetryOnFailure {
            randomization_factor: 0.0,
            ..RetryOnFailure::default()
        };
        let all = pauses(settings, None);
        assert_eq!(all[..5], [5.0, 7.5, 11.25, 16.875, 25.3125]);
        assert_eq!(all[5..], [30.0; 15]);
    }

    #[test]
    fn chance_stays_in_its_part() {
        for pause in pauses(RetryOnFailure::default(), None).into_iter().skip(5) {
            assert!((15.0..=45.0).contains(&pause), "{pause}");
        }
    }

    #[test]
    fn a_server_is_never_visited_earlier_than_it_asked() {
        let asked = Some(Duration::from_secs(100));
        assert_eq!(pauses(RetryOnFailure::default(), asked), [100.0; 20]);
    }

    #[test]
    fn a_limit_ends_them_and_without_retry_there_are_none() {
        let limited = RetryOnFailure {
            max_elapsed_time: Duration::from_secs(50),
            randomization_factor: 0.0,
            ..RetryOnFailure::default()
        };
        assert_eq!(pauses(limited, None), [5.0, 7.5, 11.25, 16.875]);
        let off = RetryOnFailure {
            enabled: false,
            ..RetryOnFailure::default()
        };
        assert_eq!(pauses(off, None), [0.0; 0]);
    }
}
