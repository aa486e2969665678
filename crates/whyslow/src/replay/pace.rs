//! When each request of a capture is due.
//!
//! A capture does not hold arrival times. The latest end of the spans in a request stands for it: a
//! request is sent soon after its last span ended.

use std::str::FromStr;
use std::time::Duration;

/// No pause between two requests is longer, however far apart their times are: one broken clock
/// must not stall a replay.
const GAP_MAX: Duration = Duration::from_secs(60);

/// How fast to replay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Speed {
    /// Without pauses.
    Max,
    /// This many times as fast as it was captured; finite and positive.
    Times(f64),
}

impl FromStr for Speed {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let factor = match text {
            "max" => return Ok(Self::Max),
            "original" => 1.0,
            _ => text
                .strip_suffix('x')
                .unwrap_or(text)
                .trim_end()
                .parse()
                .unwrap_or(0.0),
        };
        let is_usable = (0.001..=1e6).contains(&factor);
        is_usable
            .then_some(Self::Times(factor))
            .ok_or("not `max`, `original` or a multiple such as `4x`")
    }
}

/// Turns span times into times since the replay began.
#[derive(Debug)]
pub(super) struct Pace {
    speed: Speed,
    latest_unix_nano: Option<u64>,
    due: Duration,
}

impl Pace {
    pub(super) fn new(speed: Speed) -> Self {
        Self {
            speed,
            latest_unix_nano: None,
            due: Duration::ZERO,
        }
    }

    /// When the next request is due; requests without times follow at once.
    pub(super) fn due(&mut self, latest_unix_nano: Option<u64>) -> Duration {
        let (Speed::Times(factor), Some(latest)) = (self.speed, latest_unix_nano) else {
            return self.due;
        };
        let before = self.latest_unix_nano.replace(latest).unwrap_or(latest);
        if latest < before {
            self.latest_unix_nano = Some(before);
        }
        let gap = Duration::from_nanos(latest.saturating_sub(before));
        self.due += gap.div_f64(factor).min(GAP_MAX);
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, Pace, Speed};

    #[test]
    fn speeds_are_read_and_senseless_ones_refused() {
        for (text, expected) in [
            ("max", Some(Speed::Max)),
            ("original", Some(Speed::Times(1.0))),
            ("4x", Some(Speed::Times(4.0))),
            ("0.5 x", Some(Speed::Times(0.5))),
            ("10", Some(Speed::Times(10.0))),
            ("0", None),
            ("-1x", None),
            ("NaNx", None),
            ("infx", None),
            ("fast", None),
            ("", None),
        ] {
            assert_eq!(text.parse().ok(), expected, "{text}");
        }
    }

    /// Span times in seconds, due times in milliseconds.
    fn check(speed: &str, times: &[Option<u64>], expected: &[u128]) {
        let mut pace = Pace::new(speed.parse().unwrap());
        let due = times
            .iter()
            .map(|time| pace.due(time.map(|time| time * 1_000_000_000)));
        assert_eq!(due.map(|due| due.as_millis()).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn requests_keep_their_distances() {
        let times = [Some(100), Some(101), None, Some(100), Some(103)];
        check("original", &times, &[0, 1_000, 1_000, 1_000, 3_000]);
        check("4x", &times, &[0, 250, 250, 250, 750]);
        check("max", &times, &[0, 0, 0, 0, 0]);
    }

    #[test]
    fn a_broken_clock_does_not_stall_the_replay() {
        check(
            "original",
            &[Some(1), Some(9_000_000_000), Some(5)],
            &[0, 60_000, 60_000],
        );
        check("0.001", &[Some(0), Some(18_000_000_000)], &[0, 60_000]);
        let mut pace = Pace::new(Speed::Times(0.001));
        pace.due(Some(0));
        assert_eq!(pace.due(Some(u64::MAX)), Duration::from_secs(60));
    }
}
