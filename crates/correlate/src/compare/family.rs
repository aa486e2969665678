//! Is it chance? One answer for all hypotheses together.
//!
//! If nothing changed, it is chance which blocks of time are called after. So they are called so at random, some thousand
//! times, and a statistic counts if it is larger than the largest of all statistics is in nearly all of these (the
//! step-down procedure of Westfall and Young). That holds whatever the shape of the values and however the hypotheses hang
//! together (cohorts share bad minutes, phases add up), and keeps the chance that anything at all is reported without cause
//! below `1 - confidence`. It costs less than dividing by the number of hypotheses (Holm) because they do hang together.
//!
//! A hypothesis comes as scores: by how much each block exceeds what would be expected if both sides were alike. They add
//! up to zero.

use super::chance::Rng;

/// Additions that all permutations together may take: some seconds.
const ADDITIONS_MAX: usize = 3_000_000_000;

/// Permutations in which a probability is still told.
const PERMUTATIONS_MIN: usize = 999;

/// Hypotheses and their scores.
#[derive(Debug)]
pub(super) struct Family {
    n_blocks: [usize; 2],
    /// By hypothesis, scaled to variance 1 over permutations; zeros where nothing varies.
    scores: Vec<Vec<f64>>,
}

impl Family {
    pub(super) const fn new(n_blocks: [usize; 2]) -> Self {
        Self {
            n_blocks,
            scores: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.scores.len()
    }

    /// Adds a hypothesis; gives its number.
    pub(super) fn push(&mut self, mut scores: Vec<f64>) -> usize {
        let [before, after] = self.n_blocks.map(|n| n as f64);
        let n = before + after;
        let squares: f64 = scores.iter().map(|score| score * score).sum();
        let deviation = (before * after / (n * (n - 1.0).max(1.0)) * squares).sqrt();
        let scale = if deviation > 1e-9 {
            1.0 / deviation
        } else {
            0.0
        };
        scores.iter_mut().for_each(|score| *score *= scale);
        self.scores.push(scores);
        self.scores.len() - 1
    }

    /// How often chance makes any statistic of the family as large, by hypothesis; and in how many permutations that was
    /// looked at.
    pub(super) fn probabilities(&self, permutations: usize, seed: u64) -> (Vec<f64>, usize) {
        let n_hypotheses = self.scores.len();
        let n_blocks = self.n_blocks[0] + self.n_blocks[1];
        let cost = n_hypotheses * self.n_blocks[0].min(self.n_blocks[1]).max(1);
        let permutations = permutations
            .min(ADDITIONS_MAX / cost.max(1))
            .max(PERMUTATIONS_MIN.min(permutations));
        let seen: Vec<f64> = self
            .scores
            .iter()
            .map(|scores| scores[self.n_blocks[0]..].iter().sum::<f64>().abs())
            .collect();
        let mut order: Vec<usize> = (0..n_hypotheses).collect();
        order.sort_by(|one, other| seen[*other].total_cmp(&seen[*one]));
        // Scores of one block stand together, in the order of the statistics: adding blocks is adding rows.
        let by_block: Vec<Vec<f64>> = (0..n_blocks)
            .map(|block| order.iter().map(|idx| self.scores[*idx][block]).collect())
            .collect();
        let n_chosen = self.n_blocks[0].min(self.n_blocks[1]);
        let mut exceeded = vec![0_usize; n_hypotheses];
        let mut rng = Rng::new(seed);
        let mut blocks: Vec<usize> = (0..n_blocks).collect();
        let mut sums = vec![0.0; n_hypotheses];
        for _ in 0..permutations {
            rng.choose(&mut blocks, n_chosen);
            sums.fill(0.0);
            for block in &blocks[..n_chosen] {
                for (sum, score) in sums.iter_mut().zip(&by_block[*block]) {
                    *sum += score;
                }
            }
            let mut largest = 0.0_f64;
            for place in (0..n_hypotheses).rev() {
                largest = largest.max(sums[place].abs());
                // Equal but for rounding is as large.
                let is_exceeded = largest >= seen[order[place]] * (1.0 - 1e-9);
                exceeded[place] += usize::from(is_exceeded);
            }
        }
        let mut probabilities = vec![1.0; n_hypotheses];
        let mut at_least = 0.0_f64;
        for (place, idx) in order.into_iter().enumerate() {
            let own = (1 + exceeded[place]) as f64 / (1 + permutations) as f64;
            at_least = at_least.max(own);
            probabilities[idx] = at_least;
        }
        (probabilities, permutations)
    }
}

/// The same for scores of one side that are zero on average if two things are independent of each other: signs of blocks are
/// drawn instead of sides.
pub(super) fn probabilities_by_sign(scores: &[Vec<f64>], draws: usize, seed: u64) -> Vec<f64> {
    let n_blocks = scores.first().map_or(0, Vec::len);
    let scale = |scores: &Vec<f64>| {
        let squares: f64 = scores.iter().map(|score| score * score).sum();
        if squares > 0.0 {
            squares.sqrt().recip()
        } else {
            0.0
        }
    };
    let scales: Vec<f64> = scores.iter().map(scale).collect();
    let statistic = |signs: &[f64], idx: usize| {
        let pairs = scores[idx].iter().zip(signs);
        (pairs.map(|(score, sign)| score * sign).sum::<f64>() * scales[idx]).abs()
    };
    let ones = vec![1.0; n_blocks];
    let seen: Vec<f64> = (0..scores.len()).map(|idx| statistic(&ones, idx)).collect();
    let mut exceeded = vec![0_usize; seen.len()];
    let mut rng = Rng::new(seed);
    for _ in 0..draws {
        let sign = |_| if rng.next_u64() >> 63 == 0 { 1.0 } else { -1.0 };
        let signs: Vec<f64> = (0..n_blocks).map(sign).collect();
        let largest = (0..seen.len())
            .map(|idx| statistic(&signs, idx))
            .fold(0.0, f64::max);
        for (seen, exceeded) in seen.iter().zip(&mut exceeded) {
            *exceeded += usize::from(largest >= *seen * (1.0 - 1e-9));
        }
    }
    exceeded
        .into_iter()
        .map(|n| (1 + n) as f64 / (1 + draws) as f64)
        .collect()
}
