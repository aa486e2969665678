//! The choices of the `probabilistic` policy.
//!
//! `mode: hash_seed`, bit for bit as the Collector makes it: sampled if `fnv1a64(salt ++ trace id) <= floor((2^64 - 1) * percentage / 100)`, the product
//! rounded to 64 bits as Go's `big.Float` does (contrib `internal/sampling/probabilistic.go`). The
//! other modes compare the trace's randomness with a threshold, see `threshold`.

use otlp::TraceId;

use crate::threshold::Threshold;

const DEFAULT_SALT: &str = "default-hash-seed";
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// FNV-1a of a salt, ready to go on with a trace id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Salt(u64);

impl Salt {
    pub(crate) fn new(salt: &str) -> Self {
        let salt = if salt.is_empty() { DEFAULT_SALT } else { salt };
        Self(fnv1a(FNV_OFFSET, salt.as_bytes()))
    }

    pub(crate) fn hash(self, trace_id: &TraceId) -> u64 {
        fnv1a(self.0, trace_id.as_bytes())
    }
}

fn fnv1a(start: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(start, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME)
    })
}

/// A share of all hashes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Share {
    /// 0 percent or less.
    Nothing,
    /// 100 percent or more.
    Everything,
    /// Hashes up to and including `largest`.
    UpTo { largest: u64, probability: f64 },
}

impl Share {
    /// `percentage` must be a number.
    pub(crate) fn new(percentage: f64) -> Self {
        if percentage <= 0.0 {
            return Self::Nothing;
        }
        if percentage >= 100.0 {
            return Self::Everything;
        }
        let probability = percentage / 100.0;
        Self::UpTo {
            largest: largest_hash(probability),
            probability,
        }
    }

    pub(crate) fn holds(self, hash: u64) -> bool {
        match self {
            Self::Nothing => false,
            Self::Everything => true,
            Self::UpTo { largest, .. } => hash <= largest,
        }
    }

    pub(crate) fn probability(self) -> f64 {
        match self {
            Self::Nothing => 0.0,
            Self::Everything => 1.0,
            Self::UpTo { probability, .. } => probability,
        }
    }
}

/// The choice of `mode: equalizing | proportional`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Passing {
    /// This threshold, whatever a trace has passed before.
    Equalizing(Option<Threshold>),
    /// Of what has come, with so many hex digits.
    Proportional { probability: f64, precision: u32 },
}

impl Passing {
    /// What a trace must pass that has passed `upstream`; `None` keeps nothing.
    pub(crate) fn threshold(self, upstream: Threshold) -> Option<Threshold> {
        match self {
            Self::Equalizing(threshold) => threshold,
            Self::Proportional {
                probability,
                precision,
            } => {
                let all = probability * upstream.probability();
                // Rounded to fewer digits it must not fall below what was passed before.
                Threshold::of_probability(all, precision).map(|threshold| threshold.max(upstream))
            }
        }
    }
}

/// `floor(round64((2^64 - 1) * ratio))` for `0 < ratio < 1`, where `round64` keeps 64 significant
/// bits, ties to even.
fn largest_hash(ratio: f64) -> u64 {
    const FRACTION_BITS: u32 = 52;
    let bits = ratio.to_bits();
    let exponent_field = i64::try_from(bits >> FRACTION_BITS).unwrap_or(0);
    if exponent_field == 0 {
        // Subnormal, below 2^-1022: far less than one hash.
        return 0;
    }
    // ratio = significand * 2^exponent, exactly.
    let significand = (bits & ((1 << FRACTION_BITS) - 1)) | (1 << FRACTION_BITS);
    let exponent = exponent_field - 1023 - i64::from(FRACTION_BITS);
    let product = u128::from(u64::MAX) * u128::from(significand);
    let n_dropped = (128 - product.leading_zeros()).saturating_sub(64);
    let (rounded, exponent) = (
        round_off(product, n_dropped),
        exponent + i64::from(n_dropped),
    );
    // `ratio` is below 1, so the value fits; `exponent` is never positive.
    let shift = u32::try_from(-exponent).unwrap_or(u32::MAX);
    u64::try_from(rounded.checked_shr(shift).unwrap_or(0)).unwrap_or(u64::MAX)
}

/// Without its `n_dropped` lowest bits, to nearest, ties to even.
fn round_off(value: u128, n_dropped: u32) -> u128 {
    if n_dropped == 0 {
        return value;
    }
    let kept = value >> n_dropped;
    let dropped = value & ((1 << n_dropped) - 1);
    let half = 1 << (n_dropped - 1);
    let up = dropped > half || (dropped == half && kept & 1 == 1);
    kept + u128::from(up)
}

#[cfg(test)]
mod tests {
    use otlp::TraceId;

    use super::{Salt, Share};

    /// Hashes and thresholds computed with Go's own arithmetic.
    const VECTORS: &str = include_str!("../testdata/probabilistic_vectors.txt");

    #[test]
    fn thresholds_and_choices_equal_the_vectors() {
        let mut n_thresholds = 0;
        let mut n_ids = 0;
        for line in VECTORS
            .lines()
            .take_while(|line| !line.starts_with("# consistent"))
        {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                ["threshold", percentage, threshold] => {
                    n_thresholds += 1;
                    check_threshold(percentage.parse().unwrap(), parse_hex(threshold));
                }
                [id, salt, hash, _, choices @ ..] if !id.starts_with('#') => {
                    n_ids += 1;
                    let id = TraceId::parse_hex(id).unwrap();
                    assert_eq!(Salt::new(salt).hash(&id), parse_hex(hash), "{line}");
                    for choice in choices.chunks(2) {
                        check_choice(&id, salt, choice, line);
                    }
                }
                _ => {}
            }
        }
        assert_eq!((n_thresholds, n_ids), (7, 16));
    }

    fn check_threshold(percentage: f64, want: u64) {
        match Share::new(percentage) {
            Share::UpTo { largest, .. } => assert_eq!(largest, want, "{percentage}"),
            share @ (Share::Nothing | Share::Everything) => {
                assert_eq!((share, want), (Share::Everything, u64::MAX), "{percentage}")
            }
        }
    }

    /// `choice` is as in `{0.1: 'N', 1: 'S'}`, split at the space.
    fn check_choice(id: &TraceId, salt: &str, choice: &[&str], line: &str) {
        let percentage = choice[0].trim_matches(['{', ':']).parse().unwrap();
        let want = choice[1].contains('S');
        assert_eq!(
            Share::new(percentage).holds(Salt::new(salt).hash(id)),
            want,
            "{line}"
        );
    }

    fn parse_hex(text: &str) -> u64 {
        u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap()
    }

    #[test]
    fn extreme_percentages_have_no_surprises() {
        assert_eq!(Share::new(-3.0), Share::Nothing);
        assert_eq!(Share::new(0.0), Share::Nothing);
        assert_eq!(Share::new(250.0), Share::Everything);
        for tiny in [f64::MIN_POSITIVE / 4.0, f64::MIN_POSITIVE, 1e-30] {
            assert!(!Share::new(tiny).holds(1), "{tiny}");
        }
        let nearly_all = Share::new(100.0_f64.next_down());
        assert!(nearly_all.holds(u64::MAX - (1 << 12)));
    }

    #[test]
    fn an_empty_salt_is_the_default_salt() {
        assert_eq!(Salt::new(""), Salt::new("default-hash-seed"));
    }
}
