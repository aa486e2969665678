//! Quantiles against counting, in parts and by groups.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Accumulator;
use proptest::prelude::{Strategy, any, prop, prop_assert_eq, prop_oneof, proptest};

use super::super::quantile::Values;
use super::{column, value};
use crate::tests::support::{config, fixture};

type Row = (Option<f64>, Option<f64>);

fn arrays(rows: &[Row]) -> Vec<ArrayRef> {
    let values: ArrayRef = Arc::new(Float64Array::from_iter(rows.iter().map(|row| row.0)));
    let weights: ArrayRef = Arc::new(Float64Array::from_iter(rows.iter().map(|row| row.1)));
    vec![values, weights]
}

/// Hands the state of one to another, as from part to part.
fn hand_on(from: &mut dyn Accumulator, to: &mut dyn Accumulator) {
    let state = from.state().unwrap();
    let state: Vec<ArrayRef> = state
        .iter()
        .map(|value| value.to_array().unwrap())
        .collect();
    to.merge_batch(&state).unwrap();
}

/// Repeats each value as often as its weight says, and counts.
fn oracle(rows: &[Row], q: f64) -> Option<f64> {
    let mut all = Vec::new();
    for (value, weight) in rows {
        let (Some(value), Some(weight)) = (value, weight) else {
            continue;
        };
        if value.is_finite() && *weight > 0.0 && weight.is_finite() {
            all.extend(std::iter::repeat_n(*value, *weight as usize));
        }
    }
    all.sort_by(f64::total_cmp);
    // The share in thousandths, so that the rank is exact.
    let wanted = ((q * 1000.0).round() as usize * all.len()).div_ceil(1000);
    all.get(wanted.max(1) - 1).copied()
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let value = prop_oneof![
        8 => (-50..50_i32).prop_map(|value| Some(f64::from(value) / 4.0)),
        1 => prop::sample::select(vec![Some(f64::NAN), Some(f64::INFINITY), Some(f64::NEG_INFINITY), None]),
    ];
    let weight = prop_oneof![
        8 => (0..20_i32).prop_map(|weight| Some(f64::from(weight))),
        1 => prop::sample::select(vec![Some(f64::NAN), Some(f64::INFINITY), Some(-3.0), None]),
    ];
    prop::collection::vec((value, weight), 0..80)
}

proptest! {
    #[test]
    fn the_quantile_is_the_one_of_all_that_rows_stand_for(
        rows in rows(),
        thousandths in 0..=1000_u32,
        n_parts in 1..6_usize,
        is_nested in any::<bool>(),
    ) {
        let q = f64::from(thousandths) / 1000.0;
        let mut parts: Vec<Values> = (0..n_parts).map(|_| Values::new(q)).collect();
        for (idx, row) in rows.iter().enumerate() {
            parts[idx % n_parts].update_batch(&arrays(&[*row])).unwrap();
        }
        let mut whole = Values::new(q);
        for part in &mut parts {
            if is_nested {
                let mut between = Values::new(q);
                hand_on(part, &mut between);
                hand_on(&mut between, &mut whole);
            } else {
                hand_on(part, &mut whole);
            }
        }
        let expected = ScalarValue::Float64(oracle(&rows, q));
        prop_assert_eq!(whole.evaluate().unwrap(), expected.clone());
        // Asked again, and after that told more, as in a window.
        prop_assert_eq!(whole.evaluate().unwrap(), expected);
        whole.update_batch(&arrays(&rows)).unwrap();
        let twice = [rows.clone(), rows].concat();
        prop_assert_eq!(whole.evaluate().unwrap(), ScalarValue::Float64(oracle(&twice, q)));
        assert!(whole.size() >= twice.len().min(1));
    }
}

/// Partial aggregation, many batches, groups; and filters, which are DataFusion's.
#[tokio::test]
async fn groups_are_quantiles_of_their_own_rows() {
    let fixture = fixture(&config()).await;
    // Of each k, the values 0..10_000 by steps of 10; the weight is 9 for those below 5_000.
    let rows = "(SELECT v % 10 AS k, v, CASE WHEN v < 50000 THEN 9 ELSE 1 END AS w FROM generate_series(0, 99999) AS t(v))";
    let sql = format!("SELECT weighted_quantile(v, w, 0.9) - k FROM {rows} GROUP BY k ORDER BY k");
    let expected = vec!["49990.0".to_owned(); 10];
    assert_eq!(column(&fixture, &sql).await, Ok(expected));
    for (call, expected) in [
        ("weighted_quantile(v, w, 0.95)", "74999.0"),
        ("weighted_quantile(v, w, 0.95) FILTER (WHERE v < 10)", "9.0"),
        ("weighted_quantile(v, w, 0.5) FILTER (WHERE v < 0)", "NULL"),
        ("weighted_quantile(v, 1, 0.9 + 0.05)", "94999.0"),
    ] {
        let got = value(&fixture, &format!("{call} FROM {rows}")).await;
        assert_eq!(got.as_deref(), Ok(expected), "{call}");
    }
    let sql =
        "SELECT weighted_quantile(v, 1, 1) OVER (ORDER BY v) FROM generate_series(1, 3) AS t(v)";
    let expected = ["1.0", "2.0", "3.0"].map(str::to_owned);
    assert_eq!(
        column(&fixture, sql).await.as_deref(),
        Ok(expected.as_slice())
    );
}
