//! Engine batches: which requests ran a scheduling step together, and how its time is shared among them.
//!
//! An engine with continuous batching runs many requests in one step, and the GPU works for all of them at once. A
//! participant's share is a model, not a measurement: by tokens where the engine told the tokens of every participant,
//! else equally, and then marked as estimated. What is measured is the batch's duration, so the shares of a batch
//! add up to it exactly, to the nanosecond, and never to more.

/// How the time of a batch was shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShareMethod {
    /// By the tokens that each participant had in the step.
    Tokens,
    /// Equally, because the tokens of a participant are not known.
    Estimated,
}

impl ShareMethod {
    /// As stored.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::Estimated => "estimated",
        }
    }
}

/// Shares of `duration_ns` among participants with these tokens, in their order; they add up to `duration_ns`. No
/// participant, no shares: time that nobody is known to have used is nobody's.
///
/// The nanoseconds that division leaves over go one each to the largest remainders, ties to the first.
#[must_use]
pub fn share(duration_ns: u64, tokens: &[Option<u64>]) -> (Vec<u64>, ShareMethod) {
    let known: Option<Vec<u64>> = tokens.iter().copied().collect();
    let by_tokens = known.filter(|tokens| tokens.iter().any(|tokens| *tokens > 0));
    let (weights, method) = match by_tokens {
        Some(weights) => (weights, ShareMethod::Tokens),
        None => (vec![1; tokens.len()], ShareMethod::Estimated),
    };
    (apportion(duration_ns, &weights), method)
}

fn apportion(duration_ns: u64, weights: &[u64]) -> Vec<u64> {
    let total: u128 = weights.iter().copied().map(u128::from).sum();
    if total == 0 {
        return vec![0; weights.len()];
    }
    let mut shares = Vec::with_capacity(weights.len());
    let mut remainders: Vec<(u128, usize)> = Vec::with_capacity(weights.len());
    for (place, weight) in weights.iter().enumerate() {
        let part = u128::from(duration_ns) * u128::from(*weight);
        // Not more than the duration, as a weight is not more than the total.
        shares.push(u64::try_from(part / total).unwrap_or(duration_ns));
        remainders.push((part % total, place));
    }
    let left = duration_ns - shares.iter().sum::<u64>();
    remainders
        .sort_unstable_by(|(one, at), (other, other_at)| other.cmp(one).then(at.cmp(other_at)));
    let n_left = usize::try_from(left).unwrap_or(usize::MAX);
    for (_, place) in remainders.iter().take(n_left) {
        shares[*place] += 1;
    }
    shares
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{ShareMethod, share};

    #[test]
    fn by_tokens_where_all_are_known_and_else_equally() {
        assert_eq!(
            share(1_000, &[Some(1), Some(3)]),
            (vec![250, 750], ShareMethod::Tokens)
        );
        assert_eq!(
            share(1_000, &[Some(1), None]),
            (vec![500, 500], ShareMethod::Estimated)
        );
        assert_eq!(
            share(1_000, &[Some(0), Some(0)]),
            (vec![500, 500], ShareMethod::Estimated)
        );
        assert_eq!(share(1_000, &[]), (vec![], ShareMethod::Estimated));
        assert_eq!(share(100, &[None, None, None]).0, [34, 33, 33]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn shares_add_up_to_the_batch_to_the_nanosecond(
            duration_ns in prop_oneof![0..100_u64, any::<u64>()],
            tokens in prop::collection::vec(prop::option::weighted(0.95, prop_oneof![0..5_u64, any::<u64>()]), 1..300),
        ) {
            let (shares, _) = share(duration_ns, &tokens);
            prop_assert_eq!(shares.iter().copied().map(u128::from).sum::<u128>(), u128::from(duration_ns));
            prop_assert!(shares.iter().all(|share| *share <= duration_ns));
        }

        #[test]
        fn more_tokens_are_never_less_time(
            duration_ns in any::<u64>(),
            tokens in prop::collection::vec((0..1_000_u64).prop_map(Some), 2..40),
        ) {
            let (shares, method) = share(duration_ns, &tokens);
            if method == ShareMethod::Tokens {
                for (one, other) in tokens.iter().zip(&shares) {
                    for (less, share) in tokens.iter().zip(&shares) {
                        prop_assert!(less > one || share <= other || (less == one && share - other <= 1));
                    }
                }
            }
        }
    }
}
