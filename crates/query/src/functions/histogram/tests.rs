//! Histograms against the values that they counted.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array};
use correlate::buckets::{LAST, bound, bucket};
use datafusion::logical_expr::Accumulator;
use proptest::prelude::{Strategy, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};

use super::{Counting, Counts, Given};
use crate::functions::tests::{column, value};
use crate::tests::support::{config, fixture};

/// Times of all sizes, ends of buckets, and what is no time.
fn time() -> impl Strategy<Value = f64> {
    prop_oneof![
        6 => (-20.0..24.0_f64).prop_map(f64::exp2),
        2 => (-110..170_i32).prop_map(bound),
        1 => prop::sample::select(vec![0.0, -0.0, -1.0, f64::NAN, f64::INFINITY, f64::MAX]),
    ]
}

fn counts(rows: &[(f64, f64)]) -> Counts {
    let mut counts = Counts::default();
    for (time, weight) in rows {
        if let Some(idx) = bucket(*time) {
            counts.add(idx, *weight);
        }
    }
    counts
}

/// The value at a rank, by counting.
fn oracle(rows: &[(f64, f64)], q: f64) -> Option<f64> {
    let mut known: Vec<_> = rows
        .iter()
        .filter(|(time, _)| bucket(*time).is_some())
        .collect();
    known.sort_by(|a, b| a.0.total_cmp(&b.0));
    let total: f64 = known.iter().map(|(_, weight)| weight).sum();
    let mut sum = 0.0;
    let found = known.iter().find(|(_, weight)| {
        sum += weight;
        sum >= total * q * (1.0 - 1e-12)
    });
    found.map(|(time, _)| *time)
}

proptest! {
    #[test]
    fn a_quantile_is_in_the_bucket_of_the_value_that_counting_finds(
        rows in prop::collection::vec((time(), (1..9_i32).prop_map(f64::from)), 0..60),
        q in 0.0..=1.0_f64,
    ) {
        let got = counts(&rows).quantile(q);
        match oracle(&rows, q) {
            None => prop_assert_eq!(got, None),
            Some(expected) => {
                let idx = bucket(expected).unwrap();
                let got = got.unwrap();
                prop_assert!(got <= bound(idx), "{} {}", got, bound(idx));
                let low = bound(idx - 1);
                prop_assert!(got >= low * (1.0 - 1e-9) || bucket(got) == Some(idx), "{} {}", got, low);
            }
        }
    }

    #[test]
    fn a_share_is_exact_at_the_ends_of_buckets_and_grows_between(
        rows in prop::collection::vec((time(), (1..9_i32).prop_map(f64::from)), 1..60),
        idx in -110..LAST,
        part in 0.0..1.0_f64,
    ) {
        let counts = counts(&rows);
        let share = |seconds: f64| counts.share_below(seconds);
        let known = |limit: f64| -> f64 {
            let below = rows.iter().filter(|(time, _)| bucket(*time).is_some() && *time <= limit);
            below.map(|(_, weight)| weight).sum()
        };
        let (low, high) = (bound(idx), bound(idx + 1));
        let Some(at_low) = share(low) else {
            prop_assert_eq!(counts.total(), 0.0);
            return Ok(());
        };
        if (correlate::buckets::ZERO..LAST).contains(&idx) {
            prop_assert!((at_low * counts.total() - known(low)).abs() < 1e-6);
        }
        let between = share(low + (high - low) * part).unwrap();
        prop_assert!(at_low <= between + 1e-12 && between <= share(high).unwrap() + 1e-12);
        prop_assert_eq!(share(f64::INFINITY), Some(1.0));
        prop_assert_eq!(share(f64::NEG_INFINITY), Some(0.0));
        prop_assert_eq!(share(f64::NAN), None);
        // The two questions are each other's answers, as far as they are rounded.
        if (0.001..0.999).contains(&between) {
            let back = share(counts.quantile(between).unwrap()).unwrap();
            prop_assert!((back - between).abs() < 1e-6, "{} {}", back, between);
        }
    }

    #[test]
    fn parts_merge_to_the_whole(
        rows in prop::collection::vec((time(), (1..9_i32).prop_map(f64::from)), 0..60),
        n_parts in 1..5_usize,
    ) {
        let mut whole = Counting::new(Given::Histograms);
        let mut at_once = Counting::new(Given::Times);
        for part in 0..n_parts {
            let rows = rows.iter().skip(part).step_by(n_parts);
            let (times, weights): (Vec<f64>, Vec<f64>) = rows.copied().unzip();
            let arrays = [times, weights].map(|numbers| Arc::new(Float64Array::from(numbers)) as ArrayRef);
            let mut counting = Counting::new(Given::Times);
            counting.update_batch(&arrays).unwrap();
            at_once.update_batch(&arrays).unwrap();
            let state = counting.state().unwrap()[0].to_array().unwrap();
            whole.update_batch(&[state]).unwrap();
        }
        prop_assert_eq!(whole.evaluate().unwrap(), at_once.evaluate().unwrap());
        prop_assert_eq!(&whole.counts, &counts(&rows));
        prop_assert!(whole.size() > whole.counts.buckets().len() * 16);
    }
}

#[tokio::test]
async fn histograms_are_merged_over_groups_and_opened_into_rows() {
    let fixture = fixture(&config()).await;
    let rows =
        "(SELECT v % 3 AS pod, (v % 1000) / 1000.0 AS s FROM generate_series(0, 29999) AS t(v))";
    let by_pod = format!("(SELECT pod, latency_histogram(s) AS h FROM {rows} GROUP BY pod)");
    for (call, expected) in [
        ("histogram_count(histogram_merge(h))", "30000.0"),
        ("histogram_share_below(histogram_merge(h), 0.5)", "0.501"),
        (
            "abs(histogram_quantile(histogram_merge(h), 0.9) / 0.9 - 1) < 0.09",
            "true",
        ),
        ("histogram_merge(h) FILTER (WHERE pod > 5)", "NULL"),
    ] {
        let got = value(&fixture, &format!("{call} FROM {by_pod}")).await;
        assert_eq!(got.as_deref(), Ok(expected), "{call}");
    }
    let sql =
        format!("SELECT sum(b['count']) FROM (SELECT unnest(h) AS b FROM {by_pod} WHERE pod = 1)");
    assert_eq!(
        column(&fixture, &sql).await.as_deref(),
        Ok(["10000.0".to_owned()].as_slice())
    );
    // Of rows whose histogram is missing, the others count.
    let sql = format!(
        "SELECT histogram_count(histogram_merge(CASE WHEN pod = 0 THEN NULL ELSE h END)) FROM {by_pod}"
    );
    assert_eq!(
        column(&fixture, &sql).await.as_deref(),
        Ok(["20000.0".to_owned()].as_slice())
    );
}
