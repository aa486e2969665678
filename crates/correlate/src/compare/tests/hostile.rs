//! Sides that are empty, alike, absurd or too many: an answer with what cannot be said, never a panic or an invention.

use crate::compare::{
    Comparison, Latency, Measure, Sample, Samples, Settings, Side, Standing, compare,
};

const SECOND: i64 = 1_000_000_000;

fn request<'a>(
    start_unix_nano: i64,
    value: Option<f64>,
    attributes: &'a [Option<&'a str>],
) -> Sample<'a> {
    Sample {
        start_unix_nano,
        outcome: Some("ok"),
        latencies: [value; Latency::ALL.len()],
        attributes,
    }
}

/// `n` requests a side, one a second, with what `value` says.
fn sides(n: i64, value: impl Fn(Side, i64) -> Option<f64>) -> Samples {
    let mut samples = Samples::new(&["model", "input_band", "output_band"]);
    for second in 0..n {
        for (side, from) in [(Side::Before, 0), (Side::After, n)] {
            let sample = request((from + second) * SECOND, value(side, second), &[Some("m")]);
            samples.push(side, &sample);
        }
    }
    samples
}

fn compared(samples: &Samples) -> Comparison {
    let settings = Settings {
        has_load: true,
        permutations: 199,
        ..Settings::default()
    };
    compare(samples, &settings)
}

fn assert_silent(found: &Comparison) {
    let reported: Vec<_> = found.reported().collect();
    assert!(reported.is_empty(), "{reported:#?}");
    assert!(
        found
            .apart
            .iter()
            .all(|apart| apart.traits.iter().all(|found| !found.sets_apart))
    );
}

#[test]
fn an_empty_side_is_said_to_be_empty() {
    let mut samples = Samples::new(&["model"]);
    assert_eq!(compared(&samples).open.len(), 2);
    samples.push(Side::After, &request(0, Some(1.0), &[]));
    let found = compared(&samples);
    assert_silent(&found);
    assert_eq!(
        found.open,
        ["there is no request before: nothing can be compared"]
    );
    assert_eq!(found.cut, None);
}

#[test]
fn one_request_a_side_says_nothing() {
    for at in [0, i64::MIN, i64::MAX] {
        let mut samples = Samples::new(&["model"]);
        samples.push(Side::Before, &request(0, Some(1.0), &[]));
        samples.push(Side::After, &request(at, Some(1e9), &[]));
        let found = compared(&samples);
        assert_silent(&found);
        assert!(
            found
                .open
                .iter()
                .any(|open| open.contains("the time is short")),
            "{:?}",
            found.open
        );
    }
}

#[test]
fn equal_values_are_no_change_and_a_step_between_them_is_one() {
    assert_silent(&compared(&sides(1_000, |_, _| Some(0.25))));
    assert_silent(&compared(&sides(1_000, |_, _| Some(0.0))));
    let found = compared(&sides(1_000, |side, _| {
        Some(if side == Side::Before { 1.0 } else { 2.0 })
    }));
    let n_quantiles = found.reported().count();
    assert_eq!(n_quantiles, 30, "{:#?}", found.open);
    for change in found.reported() {
        assert_eq!((change.difference.low, change.difference.high), (1.0, 1.0));
    }
}

#[test]
fn what_is_absent_or_impossible_is_no_value() {
    assert_silent(&compared(&sides(500, |_, _| None)));
    for absurd in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0] {
        let found = compared(&sides(500, |side, second| match (side, second % 2) {
            (Side::After, 0) => Some(absurd),
            _ => Some(0.5),
        }));
        assert_silent(&found);
        let says_so = |open: &String| open.starts_with("2500 values are negative or not finite");
        assert!(found.open.iter().any(says_so), "{:?}", found.open);
    }
    let extremes = compared(&sides(500, |side, _| {
        Some(if side == Side::Before {
            5e-324
        } else {
            f64::MAX
        })
    }));
    for change in &extremes.changes {
        assert!(!change.difference.value.is_nan());
    }
}

#[test]
fn an_outcome_that_nobody_knows_is_in_no_rate() {
    let mut samples = Samples::new(&["model"]);
    for second in 0..400 {
        for side in [Side::Before, Side::After] {
            let mut sample = request(second * SECOND, Some(1.0), &[]);
            sample.outcome = (second % 2 == 0).then_some("exploded");
            samples.push(side, &sample);
        }
    }
    let found = compared(&samples);
    assert_silent(&found);
    assert!(
        found
            .open
            .iter()
            .any(|open| open.starts_with("of 800 requests it is not known"))
    );
}

#[test]
fn failures_are_found_at_small_counts_and_make_no_cohort_of_themselves() {
    // One in fifty, then one in five; a failed request has no output band.
    let mut samples = Samples::new(&["model", "input_band", "output_band"]);
    for second in 0..1_000 {
        for (side, from, every) in [(Side::Before, 0, 50), (Side::After, 1_000, 5)] {
            let is_failed = second % every == 0;
            let band = (!is_failed).then_some("lt_128");
            let attributes = [Some("m"), Some("lt_512"), band];
            let mut sample = request((from + second) * SECOND, Some(1.0), &attributes);
            sample.outcome = Some(if is_failed { "error" } else { "ok" });
            samples.push(side, &sample);
        }
    }
    let found = compared(&samples);
    let rates: Vec<_> = found
        .reported()
        .filter(|change| matches!(change.measure, Measure::Rate(_)))
        .collect();
    assert_eq!(rates.len(), 1, "{rates:#?}");
    assert_eq!((rates[0].before.value, rates[0].after.value), (0.02, 0.2));
    assert!(rates[0].difference.low > 0.1 && rates[0].difference.high < 0.25);
    assert!(
        found
            .open
            .iter()
            .any(|open| open.starts_with("failures changed"))
    );
    // Two failures instead of one are nothing.
    let mut few = Samples::new(&["model"]);
    for second in 0..400 {
        for (side, n) in [(Side::Before, 1), (Side::After, 2)] {
            let mut sample = request(second * SECOND, Some(1.0), &[]);
            sample.outcome = Some(if second < n { "error" } else { "ok" });
            few.push(side, &sample);
        }
    }
    assert_silent(&compared(&few));
}

/// Long requests are ten times as slow as short ones, and become more: nothing but the mix has changed.
#[test]
fn a_changed_mix_is_not_taken_for_slowness() {
    let mut samples = Samples::new(&["model", "input_band"]);
    for second in 0..2_000 {
        for (side, from, share) in [(Side::Before, 0, 10), (Side::After, 2_000, 60)] {
            let is_long = (second * 37) % 100 < share;
            let (band, usual) = if is_long {
                ("lt_8k", 10.0)
            } else {
                ("lt_512", 1.0)
            };
            let attributes = [Some("m"), Some(band)];
            let jitter = ((second * 7_919) % 101) as f64 / 1_000.0;
            let value = Some(usual + jitter);
            samples.push(side, &request((from + second) * SECOND, value, &attributes));
        }
    }
    let found = compared(&samples);
    let mut shares = 0;
    for change in found.reported() {
        assert!(
            matches!(change.measure, Measure::Share { .. }),
            "{change:#?}"
        );
        shares += 1;
    }
    assert_eq!(shares, 2);
    assert!((found.mix_distance - 0.5).abs() < 0.01);
    let overall = found.changes.iter().find(|change| {
        change.cohort.is_empty()
            && matches!(change.measure, Measure::Quantile { p, .. } if p == 0.5)
    });
    let overall = overall.expect("the median over all");
    let (before, after) = overall.overall.expect("plain values");
    assert!(before < 1.2 && after > 9.0, "{before} {after}");
    assert!(overall.difference.value.abs() < 0.1);
    assert_eq!(overall.standing, Standing::Unclear);
}

#[test]
fn thousands_of_cohorts_are_bounded_and_the_rest_is_said() {
    let mut samples = Samples::new(&["model", "input_band", "output_band"]);
    for row in 0..60_000_i64 {
        let side = if row % 2 == 0 {
            Side::Before
        } else {
            Side::After
        };
        let model = format!("model-{}", (row / 2) % 5_000);
        let start = (row / 2 + if side == Side::After { 30_000 } else { 0 }) * SECOND / 10;
        let attributes = [Some(model.as_str()), Some("lt_512")];
        let value = Some(1.0 + ((row * 7_919) % 1_009) as f64 / 1_000.0);
        samples.push(side, &request(start, value, &attributes));
    }
    let found = compared(&samples);
    assert_silent(&found);
    assert_eq!(found.n_cohorts, [0, 5_000]);
    assert!(
        found
            .open
            .iter()
            .any(|open| open.starts_with("5000 of 5000 cohorts")),
        "{:?}",
        found.open
    );
    assert!(
        found
            .open
            .iter()
            .any(|open| open.contains("choose coarser cohorts"))
    );
}

/// A slow wave over both sides: neighbours resemble each other, and that is said.
#[test]
fn drift_is_not_taken_for_certainty() {
    let found = compared(&sides(3_000, |side, second| {
        let at = second + if side == Side::After { 3_000 } else { 0 };
        Some(2.0 + (at as f64 / 6_000.0 * 9.0).sin())
    }));
    assert!(found.cut.is_some_and(|cut| cut.resemblance.is_some()));
    assert!(
        found
            .open
            .iter()
            .any(|open| open.contains("resemble each other"))
    );
}
