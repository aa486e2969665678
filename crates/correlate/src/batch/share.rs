//! The time of a batch, shared among its participants.
//!
//! By tokens where the tokens of every participant are known, else equally. Participants that nobody named get their part
//! too, as one: the remainder.

/// How the time of a batch was shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShareMethod {
    /// By the tokens that each participant had in the step.
    Tokens,
    /// Equally, because the tokens of a participant are not known.
    Equal,
}

impl ShareMethod {
    /// As stored.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::Equal => "equal",
        }
    }
}

/// Shares of a batch. With [`Self::remainder`] they add up to its duration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Of the named participants, in their order; `None`: what they have of the time is not known.
    pub listed: Option<Vec<u64>>,
    /// Of those that nobody named, together.
    pub remainder: u64,
    /// `None` where nothing was shared.
    pub method: Option<ShareMethod>,
}

/// Shares `duration_ns` among participants with these tokens and those that make up `n_participants`, whose tokens are the rest
/// of `batch_tokens`. Where the number of participants is not known, nobody's share is.
///
/// The nanoseconds that division leaves over go one each to the largest remainders, ties to the first.
#[must_use]
pub fn share(
    duration_ns: u64,
    tokens: &[Option<u64>],
    n_participants: Option<u64>,
    batch_tokens: Option<u64>,
) -> Shares {
    let n_listed = tokens.len() as u64;
    let n_unlisted = match n_participants {
        Some(n) if n.max(n_listed) > 0 => n.saturating_sub(n_listed),
        Some(_) | None => {
            return Shares {
                listed: None,
                remainder: duration_ns,
                method: None,
            };
        }
    };
    let by_tokens = token_weights(tokens, n_unlisted, batch_tokens);
    let (weights, method) = match by_tokens {
        Some(weights) => (weights, ShareMethod::Tokens),
        None => {
            let mut weights = vec![1; tokens.len()];
            weights.push(n_unlisted);
            (weights, ShareMethod::Equal)
        }
    };
    let mut shares = apportion(duration_ns, &weights);
    let remainder = shares.pop().unwrap_or(duration_ns);
    Shares {
        listed: Some(shares),
        remainder,
        method: Some(method),
    }
}

/// Tokens of each, and of those that were not named at the end; `None` where they do not tell.
fn token_weights(
    tokens: &[Option<u64>],
    n_unlisted: u64,
    batch_tokens: Option<u64>,
) -> Option<Vec<u64>> {
    let mut weights: Vec<u64> = tokens.iter().copied().collect::<Option<_>>()?;
    let listed = weights
        .iter()
        .try_fold(0_u64, |sum, tokens| sum.checked_add(*tokens))?;
    let unlisted = match (n_unlisted, batch_tokens) {
        // All are named, and what each says is more than what is said of them together.
        (0, _) => 0,
        (_, Some(all)) => all.checked_sub(listed)?,
        (_, None) => return None,
    };
    weights.push(unlisted);
    (listed.checked_add(unlisted)? > 0).then_some(weights)
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

    /// Shares of the named, the remainder, and by what.
    fn shared(
        duration_ns: u64,
        tokens: &[Option<u64>],
        n: Option<u64>,
        all: Option<u64>,
    ) -> (Option<Vec<u64>>, u64, Option<ShareMethod>) {
        let shares = share(duration_ns, tokens, n, all);
        (shares.listed, shares.remainder, shares.method)
    }

    const TOKENS: Option<ShareMethod> = Some(ShareMethod::Tokens);
    const EQUAL: Option<ShareMethod> = Some(ShareMethod::Equal);

    #[test]
    fn by_tokens_where_all_are_known_and_else_equally() {
        for (tokens, shares, method) in [
            (vec![Some(1), Some(3)], vec![250, 750], TOKENS),
            (vec![Some(1), None], vec![500, 500], EQUAL),
            (vec![Some(0), Some(0)], vec![500, 500], EQUAL),
            (vec![None, None, None], vec![334, 333, 333], EQUAL),
        ] {
            let n = Some(tokens.len() as u64);
            assert_eq!(shared(1_000, &tokens, n, None), (Some(shares), 0, method));
        }
    }

    #[test]
    fn those_who_are_not_named_keep_their_part() {
        let one = [Some(10)];
        assert_eq!(
            shared(1_000, &one, Some(4), None),
            (Some(vec![250]), 750, EQUAL)
        );
        assert_eq!(
            shared(1_000, &one, Some(4), Some(40)),
            (Some(vec![250]), 750, TOKENS)
        );
        assert_eq!(
            shared(1_000, &one, Some(4), Some(10)),
            (Some(vec![1_000]), 0, TOKENS)
        );
        // Contradictory: the batch has fewer tokens than the one that is named.
        assert_eq!(
            shared(1_000, &one, Some(4), Some(9)),
            (Some(vec![250]), 750, EQUAL)
        );
        assert_eq!(shared(1_000, &one, None, Some(10)), (None, 1_000, None));
        assert_eq!(
            shared(1_000, &[], Some(3), None),
            (Some(vec![]), 1_000, EQUAL)
        );
        assert_eq!(shared(1_000, &[], Some(0), None), (None, 1_000, None));
        assert_eq!(shared(1_000, &[], None, None), (None, 1_000, None));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn shares_add_up_to_the_batch_to_the_nanosecond(
            duration_ns in prop_oneof![0..100_u64, any::<u64>()],
            tokens in prop::collection::vec(prop::option::weighted(0.95, prop_oneof![0..5_u64, any::<u64>()]), 0..300),
            n in prop::option::of(prop_oneof![0..400_u64, any::<u64>()]),
            all in prop::option::of(prop_oneof![0..5_000_u64, any::<u64>()]),
        ) {
            let shares = share(duration_ns, &tokens, n, all);
            let listed = shares.listed.unwrap_or_default();
            let sum: u128 = listed.iter().copied().map(u128::from).sum();
            prop_assert_eq!(sum + u128::from(shares.remainder), u128::from(duration_ns));
        }

        #[test]
        fn more_tokens_are_never_less_time(
            duration_ns in any::<u64>(),
            tokens in prop::collection::vec((0..1_000_u64).prop_map(Some), 2..40),
        ) {
            let shares = share(duration_ns, &tokens, Some(tokens.len() as u64), None);
            let listed = shares.listed.unwrap_or_default();
            if shares.method == Some(ShareMethod::Tokens) {
                for (one, other) in tokens.iter().zip(&listed) {
                    for (less, share) in tokens.iter().zip(&listed) {
                        prop_assert!(less > one || share <= other || (less == one && share - other <= 1));
                    }
                }
            }
        }
    }
}
