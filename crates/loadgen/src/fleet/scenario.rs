//! What goes wrong in a run, in words: `thermal`, `thermal@60-80`, or a bit of everything.

use std::time::Duration;

use super::fault::{Cause, Fault, FaultKind};
use crate::{Error, Result};

/// Between the beginnings of two stretches: most requests are not hit, so that medians say what is usual.
const PERIOD: Duration = Duration::from_secs(60);
const STRETCH: Duration = Duration::from_secs(20);
/// An engine that stands still longer than this fills its queue for minutes.
const XID_STRETCH: Duration = Duration::from_secs(6);

/// Reads `NAME` or `NAME@FROM-TO`, in whole seconds since the beginning of a run of this duration.
///
/// A name alone means stretches of twenty seconds, a minute apart (of an XID, six seconds; of a burst one stretch, as it
/// brings more requests than the rest of the run); for what makes nothing slow by itself, all of the run; for a pod that
/// moves, its middle.
///
/// # Errors
///
/// The name is not known, or the stretch is empty or after the end.
pub fn faults(text: &str, duration: Duration) -> Result<Vec<Fault>> {
    let (name, stretch) = match text.split_once('@') {
        Some((name, stretch)) => (name, Some(stretch)),
        None => (text, None),
    };
    let all = FaultKind::all();
    let Some(kind) = all.iter().copied().find(|kind| kind.as_str() == name) else {
        let known: Vec<&str> = all.iter().map(|kind| kind.as_str()).collect();
        return Err(Error::UnknownFault {
            name: name.to_owned(),
            known: known.join(", "),
        });
    };
    let Some(stretch) = stretch else {
        return Ok(usual(kind, duration));
    };
    let seconds = |text: &str| text.parse().ok().map(Duration::from_secs);
    let read = stretch
        .split_once('-')
        .and_then(|(from, to)| Some((seconds(from)?, seconds(to)?)));
    match read.filter(|(from, to)| from < to && *from < duration) {
        Some((from, to)) => Ok(vec![Fault { kind, from, to }]),
        None => Err(Error::FaultStretch {
            text: text.to_owned(),
            duration,
        }),
    }
}

fn usual(kind: FaultKind, duration: Duration) -> Vec<Fault> {
    let whole = |from| {
        vec![Fault {
            kind,
            from,
            to: duration,
        }]
    };
    let FaultKind::Slow(cause) = kind else {
        return whole(if kind == FaultKind::PodMoved {
            duration / 2
        } else {
            Duration::ZERO
        });
    };
    let length = length(cause);
    if duration < PERIOD + length {
        let from = duration / 3;
        return vec![Fault {
            kind,
            from,
            to: from + length.min(duration / 4),
        }];
    }
    let n_max = if cause == Cause::QueueBurst {
        1
    } else {
        usize::MAX
    };
    let begins = (1..).map(|number| PERIOD * number);
    begins
        .take_while(|from| *from + length <= duration)
        .take(n_max)
        .map(|from| Fault {
            kind,
            from,
            to: from + length,
        })
        .collect()
}

/// Those that leave a long queue behind come last.
const TOUR: [Cause; Cause::ALL.len()] = [
    Cause::SlowRag,
    Cause::GatewayStall,
    Cause::SlowClient,
    Cause::ThermalThrottle,
    Cause::PowerThrottle,
    Cause::NvlinkSlow,
    Cause::Xid,
    Cause::LongPrefill,
    Cause::QueueBurst,
    Cause::KvPreemption,
];

/// Each cause once, one after the other, spread over a run of this duration.
#[must_use]
pub fn tour(duration: Duration) -> Vec<Fault> {
    let n_parts = u32::try_from(TOUR.len()).unwrap_or(u32::MAX);
    let part = duration / n_parts.saturating_add(1);
    let stretches = (1..).zip(TOUR).map(|(number, cause)| {
        let from = part * number;
        // What a longer burst leaves behind would not be over when the next one comes.
        let share = if cause == Cause::QueueBurst { 6 } else { 3 };
        let to = from + length(cause).min(part / share);
        Fault {
            kind: FaultKind::Slow(cause),
            from,
            to,
        }
    });
    stretches.collect()
}

fn length(cause: Cause) -> Duration {
    if cause == Cause::Xid {
        XID_STRETCH
    } else {
        STRETCH
    }
}

#[cfg(test)]
mod tests {
    use super::{Cause, Duration, Fault, FaultKind, faults, tour};

    const RUN: Duration = Duration::from_secs(200);

    #[test]
    fn names_and_stretches_are_read() {
        assert_eq!(
            faults("xid@5-9", RUN).unwrap(),
            [Fault::slow(Cause::Xid, 5, 9)]
        );
        let heat = [60, 120, 180].map(|from| Fault::slow(Cause::ThermalThrottle, from, from + 20));
        assert_eq!(faults("thermal", RUN).unwrap(), heat);
        assert_eq!(
            faults("queue_burst", RUN).unwrap(),
            [Fault::slow(Cause::QueueBurst, 60, 80)]
        );
        assert_eq!(
            faults("pod_moved", RUN).unwrap(),
            [Fault::other(FaultKind::PodMoved, 100, 200)]
        );
        assert_eq!(
            faults("clock_ahead", RUN).unwrap(),
            [Fault::other(FaultKind::ClockAhead, 0, 200)]
        );
        let short = faults("slow_rag", Duration::from_secs(60)).unwrap();
        assert_eq!(short, [Fault::slow(Cause::SlowRag, 20, 35)]);
        for kind in FaultKind::all() {
            assert!(!faults(kind.as_str(), RUN).unwrap().is_empty(), "{kind:?}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_an_error_that_says_what_can() {
        for (text, expected) in [
            (
                "heat",
                "`heat` is no fault; known are queue_burst, kv_preemption,",
            ),
            (
                "thermal@20-20",
                "`thermal@20-20` is not `NAME` or `NAME@FROM-TO`",
            ),
            ("thermal@200-210", "in a run of 200s"),
            ("thermal@a-b", "is not"),
            ("thermal@5", "is not"),
            ("", "`` is no fault"),
        ] {
            let error = faults(text, RUN).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn a_tour_has_each_cause_once_and_apart() {
        let tour = tour(Duration::from_secs(660));
        for cause in Cause::ALL {
            let is_this = |fault: &&Fault| fault.kind == FaultKind::Slow(cause);
            assert_eq!(tour.iter().filter(is_this).count(), 1, "{cause:?}");
        }
        assert!(
            tour.windows(2)
                .all(|two| two[0].to + Duration::from_secs(30) < two[1].from)
        );
        assert!(tour.last().unwrap().to < Duration::from_secs(660));
    }
}
