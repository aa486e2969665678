//! The samples of one device in order of time, ready to be asked about any stretch of time.
//!
//! A scraped value describes the time before the scrape: sample *i* describes `(time of sample i-1, time of
//! sample i]`. After a gap, and at the beginning, it describes only as much as the series usually does
//! ([`Series::interval`]): a scraper that was away for an hour does not make one value cover it.

use super::{
    counter::{Growth, Totals},
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

/// Gauges that are compared with the minutes before, and the SM clock while the device worked.
type Compared = [f64; N_COMPARED];
const N_COMPARED: usize = Gauge::N_COMPARED + 1;
const BUSY_CLOCK: usize = Gauge::N_COMPARED;

/// The other gauges, and 1 where a thermal reason was set, 0 where none was.
type Others = [f64; N_OTHERS];
const N_OTHERS: usize = Gauge::ALL.len() - Gauge::N_COMPARED + 1;
const THERMAL: usize = N_OTHERS - 1;

/// Samples of one device, sample by sample: whoever asks about a stretch of time asks for all of them.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    /// Ascending, each once, nanoseconds since 1970.
    times: Vec<i64>,
    last_time: Option<i64>,
    /// Nanoseconds that the samples before each place describe.
    described_before: Vec<i64>,
    interval: i64,
    compared: Blocks<Numbers<N_COMPARED>>,
    others: Blocks<Numbers<N_OTHERS>>,
    throttle: Blocks<Bits>,
    totals: Totals,
    xids: Vec<Xid>,
}

/// Where a stretch of time begins and ends among the samples.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch {
    start: i64,
    end: i64,
    /// The first samples at or after its start, and after it.
    from: usize,
    from_after: usize,
    /// The first samples at or after its end, and after it.
    to: usize,
    to_after: usize,
}

/// What some samples say.
#[derive(Debug)]
pub(crate) struct Known {
    compared: Numbers<N_COMPARED>,
    others: Numbers<N_OTHERS>,
    throttle: Bits,
}

/// What the samples of the minutes before say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Before(Numbers<N_COMPARED>);

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
        let xids = xids(&times, interval, &columns.xids);
        let busy_clock = busy_clock(&columns.gauges);
        let (compared, others) = columns.gauges.split_at(Gauge::N_COMPARED);
        let row = |place: usize| -> (Compared, Others) {
            let mut row = ([f64::NAN; N_COMPARED], [f64::NAN; N_OTHERS]);
            for (value, column) in row.0.iter_mut().zip(compared) {
                *value = column[place];
            }
            for (value, column) in row.1.iter_mut().zip(others) {
                *value = column[place];
            }
            row.0[BUSY_CLOCK] = busy_clock[place];
            if let Some(mask) = columns.throttle_mask[place] {
                row.1[THERMAL] = f64::from(u8::from(mask & throttle::THERMAL != 0));
            }
            row
        };
        let (compared, others) = (0..times.len()).map(row).unzip();
        let masks = columns.throttle_mask.iter().map(|mask| mask.unwrap_or(0));
        let mut series = Self {
            last_time: times.last().copied(),
            described_before: Vec::with_capacity(times.len() + 1),
            interval,
            compared: Blocks::new(compared),
            others: Blocks::new(others),
            throttle: Blocks::new(masks.collect()),
            totals: Totals::new(columns.totals),
            xids,
            times,
        };
        let mut total = 0;
        series.described_before.push(total);
        for place in 0..series.times.len() {
            total += series.described(place);
            series.described_before.push(total);
        }
        series
    }

    /// Start of the time that a sample describes.
    fn described_from(&self, place: usize) -> i64 {
        let at = self.times[place];
        let before = place.checked_sub(1).map(|before| self.times[before]);
        let is_near = |before: &i64| at - before <= self.interval.saturating_mul(GAP_INTERVALS);
        before.filter(is_near).unwrap_or(at - self.interval)
    }

    /// Nanoseconds that a sample describes.
    fn described(&self, place: usize) -> i64 {
        self.times[place] - self.described_from(place)
    }

    /// The first sample at or after a moment. Scrapers are regular, so that a place guessed from the interval is near,
    /// and a search from there reads fewer cache lines than one that halves the whole series.
    fn first_from(&self, at: i64) -> usize {
        let Some(first) = self.times.first() else {
            return 0;
        };
        let guess = at.saturating_sub(*first).max(0) / self.interval.max(1);
        let guess =
            usize::try_from(guess).map_or(self.times.len(), |guess| guess.min(self.times.len()));
        search(&self.times, guess, at)
    }

    pub(crate) fn stretch(&self, start: i64, end: i64) -> Stretch {
        let after = |place: usize, at: i64| place + usize::from(self.times.get(place) == Some(&at));
        let (from, to) = (self.first_from(start), self.first_from(end));
        Stretch {
            start,
            end,
            from,
            from_after: after(from, start),
            to,
            to_after: after(to, end),
        }
    }

    /// The usual time between two samples; 0 where there is only one.
    pub(crate) const fn interval(&self) -> i64 {
        self.interval
    }

    /// Time of the last sample.
    pub(crate) const fn last_time(&self) -> Option<i64> {
        self.last_time
    }

    /// The samples taken in the stretch, its ends among it; where there is none, the nearest one that is at most `away_max`
    /// away.
    pub(crate) fn place(&self, stretch: &Stretch, away_max: i64) -> Place {
        let (from, to) = (stretch.from, stretch.to_after);
        if from < to {
            return Place {
                from,
                to,
                away: None,
            };
        }
        let before = from
            .checked_sub(1)
            .map(|place| (stretch.start - self.times[place], place));
        let after = self.times.get(from).map(|at| (at - stretch.end, from));
        match before.into_iter().chain(after).min() {
            Some((away, place)) if away <= away_max => Place {
                from: place,
                to: place + 1,
                away: Some(away),
            },
            Some(_) | None => Place::NONE,
        }
    }

    /// The samples taken in the time `length` before the stretch.
    pub(crate) fn before(&self, stretch: &Stretch, length: i64) -> Place {
        Place {
            from: self.first_from(stretch.start.saturating_sub(length)),
            to: stretch.from,
            away: None,
        }
    }

    /// Share of the stretch that samples describe, 0 to 1.
    pub(crate) fn coverage(&self, stretch: &Stretch) -> f64 {
        let (start, end, from) = (stretch.start, stretch.end, stretch.from_after);
        let last = stretch.to.min(self.times.len().saturating_sub(1));
        if from >= self.times.len() || from > last {
            return 0.0;
        }
        if start >= end {
            return f64::from(u8::from(
                self.described_from(from) < start || self.times[from] == start,
            ));
        }
        let all = self.described_before[last + 1] - self.described_before[from];
        let before = (start - self.described_from(from)).clamp(0, self.described(from));
        let after = (self.times[last] - end).clamp(0, self.described(last));
        (all - before - after).max(0) as f64 / (end - start) as f64
    }

    /// What these samples say.
    pub(crate) fn known(&self, place: Place) -> Known {
        Known {
            compared: self.compared.fold(place.from, place.to),
            others: self.others.fold(place.from, place.to),
            throttle: self.throttle.fold(place.from, place.to),
        }
    }

    /// What these samples of the minutes before say.
    pub(crate) fn known_before(&self, place: Place) -> Before {
        Before(self.compared.fold(place.from, place.to))
    }

    /// The last sample at or before the start and the first at or after the end; `None` where either is missing or further
    /// than `away_max` away.
    pub(crate) fn around(&self, stretch: &Stretch, away_max: i64) -> Option<Around> {
        let (first, last) = (stretch.from_after.checked_sub(1)?, stretch.to);
        let (from, to) = (self.times[first], *self.times.get(last)?);
        let is_near = stretch.start - from <= away_max && to - stretch.end <= away_max;
        is_near.then_some(Around {
            first,
            last,
            length: to - from,
        })
    }

    /// What a counter grew by between two samples; `None` where either does not say it.
    pub(crate) fn growth(&self, total: Total, around: Around) -> Option<Growth> {
        self.totals
            .growth(total as usize, around.first, around.last)
    }

    /// XID errors that may have come in `start..end`: the scrapes around them leave no more than that open.
    pub(crate) fn xids(&self, start: i64, end: i64) -> impl Iterator<Item = &Xid> {
        let from = self.xids.partition_point(|xid| xid.until <= start);
        self.xids[from..]
            .iter()
            .take_while(move |xid| xid.after < end)
    }
}

impl Known {
    /// Mean of a gauge; `None` where no sample has a value.
    pub(crate) fn mean(&self, gauge: Gauge) -> Option<f64> {
        match (gauge as usize).checked_sub(Gauge::N_COMPARED) {
            None => self.compared.mean(gauge as usize),
            Some(column) => self.others.mean(column),
        }
    }

    pub(crate) fn min(&self, gauge: Gauge) -> Option<f64> {
        match (gauge as usize).checked_sub(Gauge::N_COMPARED) {
            None => self.compared.min(gauge as usize),
            Some(column) => self.others.min(column),
        }
    }

    pub(crate) fn max(&self, gauge: Gauge) -> Option<f64> {
        match (gauge as usize).checked_sub(Gauge::N_COMPARED) {
            None => self.compared.max(gauge as usize),
            Some(column) => self.others.max(column),
        }
    }

    /// Share of the samples with a thermal reason.
    pub(crate) fn thermal(&self) -> Option<f64> {
        self.others.mean(THERMAL)
    }

    /// Clock event reasons that any of the samples had; `None` where none of them says.
    pub(crate) fn throttle(&self) -> Option<u64> {
        (self.others.n(THERMAL) > 0).then_some(self.throttle.0)
    }
}

impl Before {
    /// Mean of a gauge that is compared.
    pub(crate) fn mean(&self, gauge: Gauge) -> Option<f64> {
        self.0.mean(gauge as usize)
    }

    /// Mean of the SM clock while the device worked.
    pub(crate) fn busy_clock(&self) -> Option<f64> {
        self.0.mean(BUSY_CLOCK)
    }
}

/// The first of the ascending `times` that is at or after `at`, looked for from `guess` on in steps that double.
fn search(times: &[i64], guess: usize, at: i64) -> usize {
    let (mut low, mut high, mut step) = (guess, guess, 1);
    if guess == 0 || times[guess - 1] < at {
        while high < times.len() && times[high] < at {
            low = high + 1;
            high += step;
            step *= 2;
        }
        high = high.min(times.len());
    } else {
        high = guess - 1;
        low = 0;
        while let Some(before) = high.checked_sub(step) {
            if times[before] < at {
                low = before + 1;
                break;
            }
            high = before;
            step *= 2;
        }
    }
    low + times[low..high].partition_point(|time| *time < at)
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
fn xids(times: &[i64], interval: i64, appeared: &[Vec<i64>]) -> Vec<Xid> {
    let each = times.iter().zip(appeared).enumerate();
    each.flat_map(|(place, (until, codes))| {
        // After a gap it may have come at any time in it.
        let after = match place.checked_sub(1) {
            Some(before) => times[before],
            None => until - interval,
        };
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
