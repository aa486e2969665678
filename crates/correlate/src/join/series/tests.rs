//! A series against loops over every nanosecond.

use proptest::prelude::*;

use super::{Columns, Place, Series, Xid};
use crate::join::measure::{Gauge, Total};

const SECOND: i64 = 1_000_000_000;

/// A series whose utilisation is given, and nothing else.
fn series(samples: &[(i64, Option<f64>)]) -> Series {
    let n = samples.len();
    let mut gauges = vec![vec![f64::NAN; n]; Gauge::ALL.len()];
    gauges[Gauge::GpuUtil as usize] = samples
        .iter()
        .map(|(_, util)| util.unwrap_or(f64::NAN))
        .collect();
    let columns = Columns {
        gauges,
        totals: vec![vec![f64::NAN; n]; Total::ALL.len()],
        throttle_mask: vec![None; n],
        xids: vec![Vec::new(); n],
    };
    Series::new(samples.iter().map(|(at, _)| *at).collect(), columns)
}

fn at_seconds(times: &[i64]) -> Series {
    series(
        &times
            .iter()
            .map(|at| (at * SECOND, Some(1.0)))
            .collect::<Vec<_>>(),
    )
}

#[test]
fn samples_within_count_and_else_the_nearest_with_its_distance() {
    let series = at_seconds(&[0, 30, 60]);
    let place = |start, end| {
        let stretch = series.stretch(start * SECOND, end * SECOND);
        series.place(&stretch, 20 * SECOND)
    };
    assert_eq!(
        place(29, 31),
        Place {
            from: 1,
            to: 2,
            away: None
        }
    );
    assert_eq!(
        place(30, 60),
        Place {
            from: 1,
            to: 3,
            away: None
        }
    );
    assert_eq!(
        place(40, 41),
        Place {
            from: 1,
            to: 2,
            away: Some(10 * SECOND)
        }
    );
    assert_eq!(
        place(50, 51),
        Place {
            from: 2,
            to: 3,
            away: Some(9 * SECOND)
        }
    );
    assert_eq!(place(81, 82), Place::NONE);
}

#[test]
fn coverage_is_the_described_share_and_a_gap_is_not_described() {
    // Usually 10 s; silence between 30 and 100, after which the sample describes 90..100 only.
    let series = at_seconds(&[10, 20, 30, 100, 110]);
    let coverage = |start, end| series.coverage(&series.stretch(start * SECOND, end * SECOND));
    assert_eq!(coverage(12, 28), 1.0);
    assert_eq!(coverage(40, 80), 0.0);
    assert_eq!(coverage(20, 40), 0.5);
    assert_eq!(coverage(80, 120), 0.5);
    assert_eq!(coverage(200, 300), 0.0);
    assert_eq!(coverage(-100, 0), 0.0);
    assert_eq!(coverage(15, 15), 1.0);
    assert_eq!(coverage(50, 50), 0.0);
}

/// Nanosecond by nanosecond.
fn naive_coverage(series: &Series, start: i64, end: i64) -> f64 {
    let is_described = |at: i64| {
        (0..series.times.len())
            .any(|place| series.described_from(place) <= at && at < series.times[place])
    };
    (start..end).filter(|at| is_described(*at)).count() as f64 / (end - start) as f64
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn coverage_is_that_of_a_loop(
        steps in prop::collection::vec(1..60_i64, 1..20),
        start in -30..400_i64,
        length in 1..120_i64,
    ) {
        let mut at = 0;
        let samples: Vec<_> = steps.iter().map(|step| { at += step; (at, Some(1.0)) }).collect();
        let series = series(&samples);
        let end = start + length;
        prop_assert_eq!(series.coverage(&series.stretch(start, end)), naive_coverage(&series, start, end));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Wherever the search begins.
    #[test]
    fn a_search_finds_what_halving_finds(
        steps in prop::collection::vec(prop_oneof![Just(10), 1..2_000_i64], 0..60),
        guess in 0..=60_usize,
        at in -20..4_000_i64,
    ) {
        let times: Vec<i64> = steps.iter().scan(0, |at, step| { *at += step; Some(*at) }).collect();
        for at in times.iter().copied().chain([at]) {
            let expected = times.partition_point(|time| *time < at);
            prop_assert_eq!(super::search(&times, guess.min(times.len()), at), expected);
        }
    }
}

#[test]
fn an_xid_came_between_two_scrapes() {
    let appeared = [vec![48], vec![], vec![31, 79]];
    let xid = |code, after, until| Xid { code, after, until };
    let expected = [xid(48, -10, 0), xid(31, 10, 20), xid(79, 10, 20)];
    assert_eq!(super::xids(&[0, 10, 20], 10, &appeared), expected);
}
