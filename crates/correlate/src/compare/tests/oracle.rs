//! Numbers against slow ways to them: enumeration, definition, and coverage over many draws.

use proptest::prelude::*;

use crate::compare::chance::Rng;
use crate::compare::family::Family;
use crate::compare::quantile::{self, Item};

fn items(values: &[f64], n_blocks: usize) -> Vec<Item> {
    let mut items: Vec<Item> = values
        .iter()
        .enumerate()
        .map(|(row, value)| Item {
            value: *value,
            weight: 1.0,
            block: (row % n_blocks) as u32,
            cohort: 0,
        })
        .collect();
    items.sort_by(|one, other| one.value.total_cmp(&other.value));
    items
}

fn uniform(rng: &mut Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

proptest! {
    #[test]
    fn a_quantile_is_the_smallest_value_with_enough_below(
        values in prop::collection::vec(0_u32..50, 1..80),
        p in 0.001_f64..0.999,
    ) {
        let mut sorted: Vec<f64> = values.iter().map(|value| f64::from(*value)).collect();
        sorted.sort_by(f64::total_cmp);
        let enough = |value: &&f64| {
            let n = sorted.iter().filter(|other| other <= value).count();
            n as f64 >= p * sorted.len() as f64
        };
        let expected = sorted.iter().find(enough).copied();
        prop_assert_eq!(quantile::at(&sorted, p), expected);
        let weighted = quantile::weighted_at(&items(&sorted, 1), sorted.len() as f64, p);
        prop_assert_eq!(weighted, expected);
    }

    #[test]
    fn an_interval_holds_its_value_and_grows_with_confidence(
        values in prop::collection::vec(0.0_f64..9.0, 40..300),
        p in prop::sample::select(vec![0.5, 0.9]),
    ) {
        let items = items(&values, 10);
        let narrow = quantile::quantile(&items, p, &(0..10), 0.8);
        if let Some(narrow) = narrow {
            prop_assert!(narrow.low <= narrow.value && narrow.value <= narrow.high);
            if let Some(wide) = quantile::quantile(&items, p, &(0..10), 0.99) {
                prop_assert!(wide.low <= narrow.low && wide.high >= narrow.high);
            }
        }
    }
}

/// How often the interval holds the true quantile, with values of a block alike or not.
#[test]
fn intervals_hold_the_truth_as_often_as_they_say() {
    for (p, n, alike) in [
        (0.5, 400, 0.0),
        (0.9, 400, 0.0),
        (0.99, 1_500, 0.0),
        (0.5, 400, 0.5),
    ] {
        let (mut n_holding, n_draws) = (0, 400);
        for seed in 0..n_draws {
            let mut rng = Rng::new(seed);
            let common: Vec<f64> = (0..20).map(|_| uniform(&mut rng)).collect();
            // Each value is the block's own with probability `alike`; all are uniform by themselves.
            let values: Vec<f64> = (0..n)
                .map(|row| {
                    let own = uniform(&mut rng);
                    if uniform(&mut rng) < alike {
                        common[row % 20]
                    } else {
                        own
                    }
                })
                .collect();
            let estimate = quantile::quantile(&items(&values, 20), p, &(0..20), 0.95);
            let estimate = estimate.expect("enough values");
            n_holding += u64::from(estimate.low <= p && p <= estimate.high);
        }
        let share = n_holding as f64 / n_draws as f64;
        println!(
            "p{:.0} of {n}, alike {alike}: {:.1} %",
            p * 100.0,
            share * 100.0
        );
        assert!(share >= 0.92, "{p} {n} {alike}: {share}");
    }
}

/// All ways to call four of eight blocks after, instead of some drawn ones.
#[test]
fn drawn_permutations_tell_what_all_permutations_do() {
    let mut rng = Rng::new(11);
    for _ in 0..5 {
        let mut scores: Vec<f64> = (0..8).map(|_| uniform(&mut rng)).collect();
        let mean = scores.iter().sum::<f64>() / 8.0;
        scores.iter_mut().for_each(|score| *score -= mean);
        let seen = scores[4..].iter().sum::<f64>().abs();
        let (mut n_all, mut n_larger) = (0, 0);
        for chosen in (0_u32..256).filter(|chosen| chosen.count_ones() == 4) {
            let sum: f64 = (0..8)
                .filter(|block| chosen >> block & 1 == 1)
                .map(|block| scores[block])
                .sum();
            n_all += 1;
            n_larger += u32::from(sum.abs() >= seen - 1e-12);
        }
        let mut family = Family::new([4, 4]);
        family.push(scores);
        let (found, _) = family.probabilities(9_999, 3);
        let exact = f64::from(n_larger) / f64::from(n_all);
        assert!((found[0] - exact).abs() < 0.02, "{} {exact}", found[0]);
    }
}

/// A family's least probability is below 5 % in about 5 % of families without a change, however many hypotheses it has.
#[test]
fn a_family_is_wrong_as_rarely_as_it_says() {
    for n_hypotheses in [1, 30] {
        let n_wrong: u32 = (0..300)
            .map(|seed| {
                let mut rng = Rng::new(seed);
                let mut family = Family::new([12, 12]);
                for _ in 0..n_hypotheses {
                    let mut scores: Vec<f64> = (0..24).map(|_| uniform(&mut rng).powi(8)).collect();
                    let mean = scores.iter().sum::<f64>() / 24.0;
                    scores.iter_mut().for_each(|score| *score -= mean);
                    family.push(scores);
                }
                let (found, _) = family.probabilities(199, seed + 1);
                u32::from(found.iter().any(|probability| *probability <= 0.05))
            })
            .sum();
        assert!(
            (5..=26).contains(&n_wrong),
            "{n_hypotheses}: {n_wrong} of 300"
        );
    }
}
