//! OpenTelemetry's consistent probability sampling (OTEP 235): thresholds and randomness in `tracestate`.
//!
//! A trace has one 56-bit randomness: `rv` of the entry `ot`, or else the last 7 bytes of its id. A stage that keeps
//! it with a probability compares it with a rejection threshold and keeps `randomness >= threshold`; spans carry in
//! `th` the largest threshold that they have passed. So stages choose nested sets, and 2^56 / (2^56 - `th`) is the
//! number of spans that a kept one stands for. (opentelemetry-specification,
//! `trace/tracestate-probability-sampling.md` and `trace/tracestate-handling.md`.)
//!
//! Limits: 1 to 14 lower-case hex digits in `th`, missing ones are zeros at the end; exactly 14 in `rv`; 256
//! characters in the entry. A value that breaks them counts as absent. The specification has no threshold for
//! "never".
//!
//! # Decided
//!
//! - A span without `th` has passed no probability sampler that we know of: it counts as kept for certain, as in the
//!   Collector, and gets a `th` only where this stage has a threshold of its own.
//! - `rv` and sub-keys of others are never changed; the entry moves to the front, as W3C demands of a changed one.
//! - `th` is erased where the probability is unknown, where it is known but was not chosen by the randomness (the
//!   hash of a salt), and where it contradicts the randomness: all of these would tell the next stage something wrong.

use std::fmt;

use otlp::TraceId;

use crate::trace_state::{self, CHARS_MAX, ENTRIES_MAX};

const BITS: u32 = 56;
/// Thresholds are below this.
const END: u64 = 1 << BITS;
const DIGITS: u32 = BITS / 4;

/// A rejection threshold: the share of traces, in 1 / 2^56, that is not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Threshold(u64);

/// What decides whether a trace passes a threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Randomness(u64);

impl Threshold {
    /// Everything is kept.
    pub(crate) const ZERO: Self = Self(0);
    /// One trace in 2^56 is kept.
    pub(crate) const HIGHEST: Self = Self(END - 1);

    /// With its lowest 56 bits.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits & (END - 1))
    }

    /// 56 bits.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Reads a `th`; `None` unless it is 1 to 14 lower-case hex digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let n_digits = u32::try_from(text.len()).ok()?;
        let bits = hex(text).filter(|_| (1..=DIGITS).contains(&n_digits))?;
        Some(Self(bits << (4 * (DIGITS - n_digits))))
    }

    /// The threshold of a probability with this many hex digits of precision, more for small probabilities: as many
    /// as the threshold has leading `f`. `None` for a probability below 2^-56, which has no threshold.
    #[must_use]
    pub(crate) fn of_probability(probability: f64, precision: u32) -> Option<Self> {
        if probability >= 1.0 {
            return Some(Self::ZERO);
        }
        let kept = (probability * END as f64).round();
        if probability.is_nan() || kept < 1.0 {
            return None;
        }
        let rejected = END - kept as u64;
        // Of 0.1 = 0.8 * 2^-3 three, and a digit more for four of them.
        let n_leading_zeros =
            (-probability.log2().floor() - 1.0).clamp(0.0, f64::from(BITS)) as u32;
        let n_digits = (precision + n_leading_zeros / 4).min(DIGITS);
        let unit = 1_u64 << (BITS - 4 * n_digits);
        // To nearest; a threshold that rejects all is none.
        let rounded = (rejected + unit / 2) / unit * unit;
        Some(Self(rounded.min(END - unit)))
    }

    /// The highest threshold that this randomness passes.
    pub(crate) fn passed_by(randomness: Randomness) -> Self {
        Self(randomness.0)
    }

    /// How likely a trace is kept: from 2^-56 to 1.
    #[must_use]
    pub fn probability(self) -> f64 {
        (END - self.0) as f64 / END as f64
    }

    pub(crate) fn keeps(self, randomness: Randomness) -> bool {
        randomness.0 >= self.0
    }
}

impl fmt::Display for Threshold {
    /// As in `th`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = format!("{:014x}", self.0);
        let digits = digits.trim_end_matches('0');
        f.write_str(if digits.is_empty() { "0" } else { digits })
    }
}

impl Randomness {
    pub(crate) fn of_trace(trace_id: &TraceId) -> Self {
        let [.., a, b, c, d, e, f, g] = *trace_id.as_bytes();
        Self(u64::from_be_bytes([0, a, b, c, d, e, f, g]))
    }

    fn parse(text: &str) -> Option<Self> {
        hex(text)
            .filter(|_| text.len() == DIGITS as usize)
            .map(Self)
    }
}

/// At most 14 lower-case hex digits.
fn hex(text: &str) -> Option<u64> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if text.len() > DIGITS as usize || !text.bytes().all(is_digit) {
        return None;
    }
    u64::from_str_radix(text, 16).ok()
}

/// What the entry `ot` of a span says of sampling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct OtEntry {
    pub(crate) threshold: Option<Threshold>,
    pub(crate) randomness: Option<Randomness>,
}

impl OtEntry {
    /// Allocates nothing.
    pub(crate) fn read(trace_state: &str) -> Self {
        if !trace_state.contains("ot=") {
            return Self::default();
        }
        let entry = trace_state::lookup(trace_state, "ot").unwrap_or_default();
        let value = |key| unique(entry, key);
        Self {
            threshold: value("th").and_then(Threshold::parse),
            randomness: value("rv").and_then(Randomness::parse),
        }
    }
}

/// The value of a sub-key that stands there once.
fn unique<'a>(entry: &'a str, key: &str) -> Option<&'a str> {
    let mut found = entry
        .split(';')
        .filter_map(|member| member.split_once(':'))
        .filter(|(name, _)| *name == key);
    let (_, value) = found.next()?;
    found.next().is_none().then_some(value)
}

/// What becomes of `th` in the spans of a sampled trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ThresholdChange {
    /// Nothing: this stage kept the trace for certain, or it is not sampled.
    #[default]
    Unchanged,
    /// At least this: the trace was chosen with this threshold.
    RaisedTo(Threshold),
    /// It is erased: how likely the trace was kept is unknown, or was not chosen by its randomness.
    Erased,
}

impl ThresholdChange {
    /// The new `tracestate` of a span; `None` where it stays as it is, also because it is malformed or full.
    #[must_use]
    pub fn apply(self, trace_id: &TraceId, trace_state: &str) -> Option<String> {
        let entry = OtEntry::read(trace_state);
        let randomness = entry
            .randomness
            .unwrap_or_else(|| Randomness::of_trace(trace_id));
        let erased = || {
            trace_state
                .contains("th:")
                .then(|| set(trace_state, None))?
        };
        match self {
            Self::Unchanged => None,
            Self::Erased => erased(),
            Self::RaisedTo(threshold) => {
                let before = entry.threshold.unwrap_or_default();
                let after = before.max(threshold);
                if !after.keeps(randomness) {
                    return erased();
                }
                if entry.threshold == Some(after) {
                    return None;
                }
                set(trace_state, Some(after))
            }
        }
    }
}

/// With this `th` and no other; without any where there is no room.
fn set(trace_state: &str, threshold: Option<Threshold>) -> Option<String> {
    let known = trace_state::search(trace_state, "ot")?;
    let members = known.value.unwrap_or_default().split(';');
    let mut entry: Vec<&str> = members
        .filter(|member| !member.is_empty() && !member.starts_with("th:"))
        .collect();
    let threshold = threshold.map(|threshold| format!("th:{threshold}"));
    if let Some(threshold) = &threshold {
        let n_chars: usize = entry.iter().map(|member| member.len() + 1).sum();
        let has_room = n_chars + threshold.len() <= CHARS_MAX;
        if has_room && (known.value.is_some() || known.n_entries < ENTRIES_MAX) {
            entry.push(threshold);
        }
    }
    let mut after = match entry.as_slice() {
        [] => String::new(),
        members => format!("ot={}", members.join(";")),
    };
    for other in trace_state
        .split(',')
        .map(|other| other.trim_matches([' ', '\t']))
    {
        if other.is_empty() || other.starts_with("ot=") {
            continue;
        }
        if !after.is_empty() {
            after.push(',');
        }
        after.push_str(other);
    }
    Some(after).filter(|after| after != trace_state)
}

#[cfg(test)]
mod tests;
