//! The samples of one device in order of time, ready to be asked about any stretch of time.
//!
//! A scraped value describes the time before the scrape: sample *i* describes `(time of sample i-1, time of
//! sample i]`. After a gap, and at the beginning, it describes only as much as the series usually does
//! ([`Series::interval`]): a scraper that was away for an hour does not make one value cover it.

use super::{
    counter::{self, Growth},
    measure::{Gauge, Total},
    range::{Bits, Blocks, Numbers},
};
use crate::throttle;

/// A sample after more than this many usual intervals describes one usual interval only.
const GAP_INTERVALS: i64 = 3;

/// The code of an XID error, and the scrapes between which it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Xid {
    pub(crate) code: i64,
    /// Time of the scrape that did not show it yet.
    pub(crate) after: i64,
    /// Time of the scrape that showed it first.
    pub(crate) until: i64,
}

/// What one device said, column by column; NaN stands for NULL.
#[derive(Clone, Debug, Default)]
pub(crate) struct Columns {
    pub(crate) gauges: Vec<Vec<f64>>,
    pub(crate) totals: Vec<Vec<f64>>,
    pub(crate) throttle_mask: Vec<Option<u64>>,
    /// Codes that appeared since the sample before.
    pub(crate) xids: Vec<Vec<i64>>,
}

/// Samples of one device.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    /// Ascending, each once, nanoseconds since 1970.
    times: Vec<i64>,
    /// Start of the time that each sample describes.
    described_from: Vec<i64>,
    /// Nanoseconds that the samples before each place describe.
    described_before: Vec<i64>,
    interval: i64,
    gauges: Vec<Blocks<Numbers>>,
    /// The SM clock while the device worked.
    busy_clock: Blocks<Numbers>,
    /// 1 where a thermal reason was set, 0 where none was.
    thermal: Blocks<Numbers>,
    throttle: Blocks<Bits>,
    totals: Vec<counter::Total>,
    xids: Vec<Xid>,
}

/// The samples that speak about a stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// Distance of the one sample, where none was taken within the stretch.
    pub(crate) away: Option<i64>,
}

/// The samples around a stretch of time, and the time between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Around {
    first: usize,
    last: usize,
    pub(crate) length: i64,
}

impl Place {
    pub(crate) const NONE: Self = Self {
        from: 0,
        to: 0,
        away: None,
    };

    pub(crate) const fn is_empty(&self) -> bool {
        self.from >= self.to
    }
}

/// Below this utilisation a device idles and lowers its clock on purpose.
const BUSY_PERCENT: f64 = 10.0;

impl Series {
    /// `times` ascending, each once; all columns of the same length.
    pub(crate) fn new(times: Vec<i64>, columns: Columns) -> Self {
        let interval = usual_interval(&times);
        let described_from: Vec<i64> = (0..times.len())
            .map(|place| {
                let at = times[place];
                let before = place.checked_sub(1).map(|before| times[before]);
                let is_near = |before: &i64| at - before <= interval.saturating_mul(GAP_INTERVALS);
                before.filter(is_near).unwrap_or(at - interval)
            })
            .collect();
        let mut described_before = Vec::with_capacity(times.len() + 1);
        let mut total = 0;
        described_before.push(total);
        for (at, from) in times.iter().zip(&described_from) {
            total += at - from;
            described_before.push(total);
        }
        let xids = xids(&times, &described_from, &columns.xids);
        let busy_clock = busy_clock(&columns.gauges);
        let thermal = columns.throttle_mask.iter().map(|mask| match mask {
            Some(mask) => f64::from(u8::from(mask & throttle::THERMAL != 0)),
            None => f64::NAN,
        });
        Self {
            interval,
            xids,
            described_from,
            described_before,
            busy_clock: Blocks::new(busy_clock),
            thermal: Blocks::new(thermal.collect()),
            throttle: Blocks::new(
                columns
                    .throttle_mask
                    .iter()
                    .map(|mask| mask.unwrap_or(0))
                    .collect(),
            ),
            gauges: columns.gauges.into_iter().map(Blocks::new).collect(),
            totals: columns
                .totals
                .into_iter()
                .map(counter::Total::new)
                .collect(),
            times,
        }
    }

    /// The usual time between two samples; 0 where there is only one.
    pub(crate) const fn interval(&self) -> i64 {
        self.interval
    }

    /// Time of the last sample.
    pub(crate) fn last_time(&self) -> Option<i64> {
        self.times.last().copied()
    }

    /// The samples taken in `start..=end`; where there is none, the nearest one that is at most `away_max` away.
    pub(crate) fn place(&self, start: i64, end: i64, away_max: i64) -> Place {
        let from = self.times.partition_point(|at| *at < start);
        let to = self.times.partition_point(|at| *at <= end);
        if from < to {
            return Place {
                from,
                to,
                away: None,
            };
        }
        let before = from
            .checked_sub(1)
            .map(|place| (start - self.times[place], place));
        let after = self.times.get(from).map(|at| (at - end, from));
        match before.into_iter().chain(after).min() {
            Some((away, place)) if away <= away_max => Place {
                from: place,
                to: place + 1,
                away: Some(away),
            },
            Some(_) | None => Place::NONE,
        }
    }

    /// The samples taken in the time `length` before `start`.
    pub(crate) fn before(&self, start: i64, length: i64) -> Place {
        let from = self
            .times
            .partition_point(|at| *at < start.saturating_sub(length));
        let to = self.times.partition_point(|at| *at < start);
        Place {
            from,
            to,
            away: None,
        }
    }

    /// Share of `start..end` that samples describe, 0 to 1.
    pub(crate) fn coverage(&self, start: i64, end: i64) -> f64 {
        let from = self.times.partition_point(|at| *at <= start);
        let last = self
            .times
            .partition_point(|at| *at < end)
            .min(self.times.len().saturating_sub(1));
        let described = |place: usize| self.times[place] - self.described_from[place];
        if from >= self.times.len() || from > last {
            return 0.0;
        }
        if start >= end {
            return f64::from(u8::from(
                self.described_from[from] < start || self.times[from] == start,
            ));
        }
        let all = self.described_before[last + 1] - self.described_before[from];
        let before = (start - self.described_from[from]).clamp(0, described(from));
        let after = (self.times[last] - end).clamp(0, described(last));
        (all - before - after).max(0) as f64 / (end - start) as f64
    }

    pub(crate) fn gauge(&self, gauge: Gauge, place: Place) -> Numbers {
        self.gauges[gauge as usize].fold(place.from, place.to)
    }

    /// The SM clock while the device worked.
    pub(crate) fn busy_clock(&self, place: Place) -> Numbers {
        self.busy_clock.fold(place.from, place.to)
    }

    /// Share of the samples with a thermal reason.
    pub(crate) fn thermal(&self, place: Place) -> Option<f64> {
        self.thermal.fold(place.from, place.to).mean()
    }

    /// Clock event reasons that any of the samples had; `None` where none of them says.
    pub(crate) fn throttle(&self, place: Place) -> Option<u64> {
        let is_known = self.thermal.fold(place.from, place.to).n() > 0;
        is_known.then(|| self.throttle.fold(place.from, place.to).0)
    }

    /// The last sample at or before `start` and the first at or after `end`; `None` where either is missing or further
    /// than `away_max` away.
    pub(crate) fn around(&self, start: i64, end: i64, away_max: i64) -> Option<Around> {
        let first = self
            .times
            .partition_point(|at| *at <= start)
            .checked_sub(1)?;
        let last = self.times.partition_point(|at| *at < end);
        let (from, to) = (self.times[first], *self.times.get(last)?);
        let is_near = start - from <= away_max && to - end <= away_max;
        is_near.then_some(Around {
            first,
            last,
            length: to - from,
        })
    }

    /// What a counter grew by between two samples; `None` where either does not say it.
    pub(crate) fn growth(&self, total: Total, around: Around) -> Option<Growth> {
        self.totals[total as usize].growth(around.first, around.last)
    }

    /// XID errors that may have come in `start..end`: the scrapes around them leave no more than that open.
    pub(crate) fn xids(&self, start: i64, end: i64) -> impl Iterator<Item = &Xid> {
        let from = self.xids.partition_point(|xid| xid.until <= start);
        self.xids[from..]
            .iter()
            .take_while(move |xid| xid.after < end)
    }
}

/// Median of the times between samples.
fn usual_interval(times: &[i64]) -> i64 {
    let mut between: Vec<i64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    if between.is_empty() {
        return 0;
    }
    let middle = between.len() / 2;
    *between.select_nth_unstable(middle).1
}

fn busy_clock(gauges: &[Vec<f64>]) -> Vec<f64> {
    let column = |gauge: Gauge| gauges[gauge as usize].as_slice();
    let each = column(Gauge::SmClock)
        .iter()
        .zip(column(Gauge::GpuUtil))
        .zip(column(Gauge::GrEngineActive));
    each.map(|((clock, util), active)| {
        let busy = if active.is_nan() {
            *util
        } else {
            active * 100.0
        };
        // Where nobody measures utilisation, every sample counts.
        if busy < BUSY_PERCENT {
            f64::NAN
        } else {
            *clock
        }
    })
    .collect()
}

/// A code came between the scrape before and the one that showed it first.
fn xids(times: &[i64], described_from: &[i64], appeared: &[Vec<i64>]) -> Vec<Xid> {
    let each = times.iter().zip(described_from).zip(appeared).enumerate();
    each.flat_map(|(place, ((until, from), codes))| {
        // After a gap it may have come at any time in it.
        let after = place.checked_sub(1).map_or(*from, |before| times[before]);
        codes.iter().map(move |code| Xid {
            code: *code,
            after,
            until: *until,
        })
    })
    .collect()
}

#[cfg(test)]
mod tests;
