//! Atoms: conditions on a single span, evaluated on its undecoded bytes.
//!
//! A trace holds one bit per atom, set as soon as one of its spans or resources satisfies it and
//! never cleared. So spans may come in any order, and an atom that is satisfied need not be looked
//! at again for that trace. Equal conditions of several policies are one atom.
//!
//! Most atoms are conditions on attributes, and all of those are read in one pass; the others
//! (flags, `tracestate`, `ottl`) are looked at only if a policy has them. One kind depends on the
//! order of arrival, on purpose: the running duration that `compat: collector` compares.
//!
//! Of an attribute that is repeated within one span the last one counts, as it does in what is
//! stored; under `compat: collector` the first.

mod condition;
mod doubt;

use std::ops::BitOrAssign;

use otlp::attribute::{self, Attributes};
use otlp::span::{SpanSummary, StatusCode};
use rustc_hash::FxHashMap;

use crate::adaptive::Keys;
use crate::error::{Error, Result};
use crate::ottl::{Conditions, Outcome, ResourceTruths};
use crate::policy::{ErrorMode, OttlCondition};
use crate::trace_state;

pub(crate) use self::condition::{Condition, Owner};

use self::condition::Matcher;

const SET_BITS: usize = 128;
const STATUS_CODES: usize = 3;

/// Distinct conditions on spans of all policies together: a set of 128 bits per trace, less one
/// for each status code.
pub const ATOMS_MAX: usize = SET_BITS - STATUS_CODES;

/// A set of atoms.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct AtomSet(
    /// Two halves, because the alignment of `u128` would cost each trace 16 bytes.
    [u64; 2],
);

impl AtomSet {
    pub(crate) const EMPTY: Self = Self([0; 2]);

    pub(crate) fn of_status(code: StatusCode) -> Self {
        Self::from_bits(match code {
            StatusCode::Unset => 1,
            StatusCode::Ok => 1 << 1,
            StatusCode::Error => 1 << 2,
        })
    }

    pub(crate) fn intersects(self, other: Self) -> bool {
        self.bits() & other.bits() != 0
    }

    /// Whether all of `other` is in here.
    pub(crate) fn contains(self, other: Self) -> bool {
        self.bits() & other.bits() == other.bits()
    }

    /// The atom of the condition at this position, which is below [`ATOMS_MAX`].
    fn of_position(position: usize) -> Self {
        Self::from_bits(1 << (position + STATUS_CODES))
    }

    /// What is in both.
    pub(crate) fn and(self, other: Self) -> Self {
        Self::from_bits(self.bits() & other.bits())
    }

    pub(crate) fn without(self, other: Self) -> Self {
        Self::from_bits(self.bits() & !other.bits())
    }

    fn remove(&mut self, other: Self) {
        *self = self.without(other);
    }

    fn bits(self) -> u128 {
        u128::from(self.0[0]) | (u128::from(self.0[1]) << 64)
    }

    fn from_bits(bits: u128) -> Self {
        // The low and the high half, each exactly 64 bits.
        Self([bits as u64, (bits >> 64) as u64])
    }
}

impl BitOrAssign for AtomSet {
    fn bitor_assign(&mut self, other: Self) {
        *self = Self::from_bits(self.bits() | other.bits());
    }
}

/// All atoms of a configuration.
#[derive(Debug, Default)]
pub(crate) struct Atoms {
    /// Conditions on a key.
    by_key: FxHashMap<Box<[u8]>, Vec<(AtomSet, Matcher)>>,
    /// Bit n is set if a key of length n (modulo 64) is looked for: rejects most keys unhashed.
    key_lengths: u64,
    /// Every atom that attributes can satisfy.
    of_attributes: AtomSet,
    /// Of spans whose W3C flag `sampled` is set.
    of_flags: AtomSet,
    trace_states: Vec<(AtomSet, Entry)>,
    ottl: Conditions,
    running_durations: Vec<(AtomSet, DurationRange)>,
    /// Every atom but those of status codes, attributes and running durations.
    of_others: AtomSet,
    /// Of an attribute that is repeated the first counts.
    first_counts: bool,
    /// Of `adaptive` policies: no atoms, and read from the same bytes.
    pub(crate) keys: Keys,
    /// By number of the atom.
    meanings: Vec<Meaning>,
}

/// An entry of a `tracestate`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    /// Any of these.
    pub(crate) values: Vec<String>,
}

/// Whole milliseconds, above the one and up to the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DurationRange {
    pub(crate) above_ms: i64,
    pub(crate) up_to_ms: i64,
}

impl DurationRange {
    pub(crate) fn contains(self, duration_ns: u64) -> bool {
        let ms = whole_ms(duration_ns);
        ms > self.above_ms && ms <= self.up_to_ms
    }
}

/// As Go's `Duration.Milliseconds`; u64 nanoseconds fit.
pub(crate) fn whole_ms(duration_ns: u64) -> i64 {
    i64::try_from(duration_ns / 1_000_000).unwrap_or(i64::MAX)
}

/// What an atom stands for.
#[derive(Debug, Clone, PartialEq)]
enum Meaning {
    Attribute(String, Condition),
    Flags,
    TraceState(Entry),
    RunningDuration(DurationRange),
    /// One of the outcomes of a policy's conditions; never shared.
    Ottl,
}

/// Collects conditions while policies are compiled.
#[derive(Debug, Default)]
pub(crate) struct AtomsBuilder {
    atoms: Atoms,
}

/// In every method `policy` is for the error.
impl AtomsBuilder {
    /// The atom for a condition on an attribute.
    pub(crate) fn attribute(
        &mut self,
        policy: &str,
        key: &str,
        condition: Condition,
    ) -> Result<AtomSet> {
        let meaning = Meaning::Attribute(key.to_owned(), condition.clone());
        if let Some(known) = self.find(&meaning) {
            return Ok(known);
        }
        let matcher = Matcher::compile(policy, &condition)?;
        let atom = self.number(policy, meaning)?;
        self.atoms.key_lengths |= length_bit(key.as_bytes());
        self.atoms.of_attributes |= atom;
        let conditions = self.atoms.by_key.entry(key.as_bytes().into()).or_default();
        conditions.push((atom, matcher));
        Ok(atom)
    }

    /// The atom for the W3C flag `sampled`.
    pub(crate) fn flags(&mut self, policy: &str) -> Result<AtomSet> {
        if let Some(known) = self.find(&Meaning::Flags) {
            return Ok(known);
        }
        let atom = self.number(policy, Meaning::Flags)?;
        self.atoms.of_flags = atom;
        self.atoms.of_others |= atom;
        Ok(atom)
    }

    /// The atom for an entry of `tracestate`.
    pub(crate) fn trace_state(&mut self, policy: &str, entry: Entry) -> Result<AtomSet> {
        let meaning = Meaning::TraceState(entry.clone());
        if let Some(known) = self.find(&meaning) {
            return Ok(known);
        }
        let atom = self.number(policy, meaning)?;
        self.atoms.trace_states.push((atom, entry));
        self.atoms.of_others |= atom;
        Ok(atom)
    }

    /// The atom for a duration that the trace had at some time.
    pub(crate) fn running_duration(
        &mut self,
        policy: &str,
        range: DurationRange,
    ) -> Result<AtomSet> {
        let meaning = Meaning::RunningDuration(range);
        if let Some(known) = self.find(&meaning) {
            return Ok(known);
        }
        let atom = self.number(policy, meaning)?;
        self.atoms.running_durations.push((atom, range));
        Ok(atom)
    }

    /// The atoms for the conditions of one policy.
    pub(crate) fn ottl(
        &mut self,
        policy: &str,
        config: &OttlCondition,
        first_wins: bool,
    ) -> Result<Outcome> {
        let matched = self.number(policy, Meaning::Ottl)?;
        let failed = match config.error_mode {
            ErrorMode::Ignore | ErrorMode::Silent => AtomSet::EMPTY,
            ErrorMode::Propagate => self.number(policy, Meaning::Ottl)?,
        };
        let first_wins = first_wins && config.error_mode == ErrorMode::Propagate;
        let outcome = Outcome {
            matched,
            failed,
            first_wins,
        };
        self.atoms.ottl.add(policy, config, outcome)?;
        self.atoms.of_others |= matched;
        Ok(outcome)
    }

    /// The places of the keys of an `adaptive` policy.
    pub(crate) fn keys(&mut self) -> &mut Keys {
        &mut self.atoms.keys
    }

    /// Of an attribute that is repeated the first counts, not the last.
    pub(crate) fn count_first(&mut self) {
        self.atoms.first_counts = true;
        self.atoms.ottl.count_first();
    }

    fn find(&self, meaning: &Meaning) -> Option<AtomSet> {
        let meanings = &self.atoms.meanings;
        let position = meanings.iter().position(|known| known == meaning)?;
        Some(AtomSet::of_position(position))
    }

    fn number(&mut self, policy: &str, meaning: Meaning) -> Result<AtomSet> {
        let meanings = &mut self.atoms.meanings;
        if meanings.len() == ATOMS_MAX {
            return Err(Error::TooManyAtoms {
                policy: policy.to_owned(),
                limit: ATOMS_MAX,
            });
        }
        meanings.push(meaning);
        Ok(AtomSet::of_position(meanings.len() - 1))
    }

    pub(crate) fn build(self) -> Atoms {
        self.atoms
    }
}

impl Atoms {
    /// What a resource satisfies, and what conditions on its spans need to know of it.
    pub(crate) fn read_resource(
        &self,
        resource: &[u8],
    ) -> Result<(AtomSet, ResourceTruths), otlp::Error> {
        let attributes = attribute::of_resource(resource);
        let found = self.read(attributes, AtomSet::EMPTY, Owner::Resource)?;
        Ok((found, self.ottl.read_resource(resource)))
    }

    /// The atoms that a span satisfies besides its status, except those already `satisfied`.
    pub(crate) fn read_span(
        &self,
        truths: ResourceTruths,
        span: &[u8],
        summary: &SpanSummary<'_>,
        satisfied: AtomSet,
    ) -> Result<AtomSet, otlp::Error> {
        let mut found = AtomSet::EMPTY;
        if !satisfied.contains(self.of_others) {
            found |= self.read_others(truths, span, summary, satisfied)?;
        }
        if !satisfied.contains(self.of_attributes) {
            found |= self.read(attribute::of_span(span), satisfied, Owner::Span)?;
        }
        Ok(found)
    }

    /// The atoms whose range the duration of a trace is in, now that it has changed.
    pub(crate) fn read_duration(&self, duration_ns: u64) -> AtomSet {
        let mut found = AtomSet::EMPTY;
        for (atom, range) in &self.running_durations {
            if range.contains(duration_ns) {
                found |= *atom;
            }
        }
        found
    }

    fn read_others(
        &self,
        truths: ResourceTruths,
        span: &[u8],
        summary: &SpanSummary<'_>,
        satisfied: AtomSet,
    ) -> Result<AtomSet, otlp::Error> {
        const SAMPLED_FLAG: u32 = 1;
        let mut found = AtomSet::EMPTY;
        if summary.flags & SAMPLED_FLAG != 0 {
            found |= self.of_flags;
        }
        if !summary.trace_state.is_empty() {
            for (atom, entry) in &self.trace_states {
                let value = trace_state::lookup(summary.trace_state, &entry.key);
                if value.is_some_and(|value| entry.values.iter().any(|known| known == value)) {
                    found |= *atom;
                }
            }
        }
        found |= self.ottl.read_span(truths, span, summary, satisfied)?;
        Ok(found)
    }

    /// One pass over attributes for all conditions on them.
    fn read(
        &self,
        mut attributes: Attributes<'_>,
        satisfied: AtomSet,
        owner: Owner,
    ) -> Result<AtomSet, otlp::Error> {
        let mut found = AtomSet::EMPTY;
        let mut seen = AtomSet::EMPTY;
        let conditions_on = |key: &[u8]| {
            let may_be_known = self.key_lengths & length_bit(key) != 0;
            may_be_known.then(|| self.by_key.get(key)).flatten()
        };
        while let Some(attribute) = attributes.find_next(conditions_on) {
            let (conditions, value) = attribute?;
            for (atom, matcher) in conditions {
                if satisfied.contains(*atom) || (self.first_counts && seen.contains(*atom)) {
                    continue;
                }
                seen |= *atom;
                if matcher.matches(&value, owner) {
                    found |= *atom;
                } else {
                    found.remove(*atom);
                }
            }
        }
        Ok(found)
    }
}

fn length_bit(key: &[u8]) -> u64 {
    1 << (key.len() % 64)
}
