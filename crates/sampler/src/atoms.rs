//! Atoms: conditions on a single span, evaluated on its undecoded bytes.
//!
//! A trace holds one bit per atom, set as soon as one of its spans or resources satisfies it and
//! never cleared. So spans may come in any order, and an atom that is satisfied need not be looked
//! at again for that trace. Equal conditions of several policies are one atom.
//!
//! Of an attribute that is repeated within one span the last one counts, as it does in what is
//! stored.

use std::ops::BitOrAssign;

use otlp::attribute::{Attributes, Value};
use otlp::span::StatusCode;
use regex::Regex;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::error::{Error, Result};
use crate::go_regex;
use crate::number::Number;

const SET_BITS: usize = 128;
const STATUS_CODES: usize = 3;

/// Distinct attribute conditions of all policies together: a set of 128 bits per trace, less one
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

    fn remove(&mut self, other: Self) {
        *self = Self::from_bits(self.bits() & !other.bits());
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

/// A condition on the value of one attribute.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Condition {
    /// A string that is one of these.
    OneOf(Vec<String>),
    /// A non-empty string in which one of these patterns is found.
    Patterns(Vec<String>),
    /// A number within inclusive bounds.
    Within {
        min: Option<Number>,
        max: Option<Number>,
    },
}

#[derive(Debug)]
enum Matcher {
    OneOf(FxHashSet<Box<str>>),
    Patterns(Vec<Regex>),
    Within {
        min: Option<Number>,
        max: Option<Number>,
    },
}

/// All atoms of a configuration.
#[derive(Debug)]
pub(crate) struct Atoms {
    /// Positions of the conditions on a key.
    by_key: FxHashMap<Box<str>, Vec<usize>>,
    /// Bit n is set if a key of length n (modulo 64) is looked for: rejects most keys unhashed.
    key_lengths: u64,
    matchers: Vec<Matcher>,
    /// Every atom that attributes can satisfy.
    of_attributes: AtomSet,
}

/// Collects conditions while policies are compiled.
#[derive(Debug, Default)]
pub(crate) struct AtomsBuilder {
    conditions: Vec<(String, Condition)>,
    matchers: Vec<Matcher>,
}

impl AtomsBuilder {
    /// The atom for this condition. `policy` is for the error.
    pub(crate) fn add(&mut self, policy: &str, key: &str, condition: Condition) -> Result<AtomSet> {
        let is_same =
            |(other_key, other): &(String, Condition)| other_key == key && *other == condition;
        if let Some(position) = self.conditions.iter().position(is_same) {
            return Ok(AtomSet::of_position(position));
        }
        if self.conditions.len() == ATOMS_MAX {
            return Err(Error::TooManyAtoms {
                policy: policy.to_owned(),
                limit: ATOMS_MAX,
            });
        }
        self.matchers.push(Matcher::compile(policy, &condition)?);
        self.conditions.push((key.to_owned(), condition));
        Ok(AtomSet::of_position(self.conditions.len() - 1))
    }

    pub(crate) fn build(self) -> Atoms {
        let mut atoms = Atoms {
            by_key: FxHashMap::default(),
            key_lengths: 0,
            matchers: self.matchers,
            of_attributes: AtomSet::EMPTY,
        };
        for (position, (key, _)) in self.conditions.into_iter().enumerate() {
            atoms.key_lengths |= length_bit(&key);
            atoms.by_key.entry(key.into()).or_default().push(position);
            atoms.of_attributes |= AtomSet::of_position(position);
        }
        atoms
    }
}

impl Atoms {
    /// Whether attributes can add anything to what a trace has.
    pub(crate) fn are_satisfied(&self, satisfied: AtomSet) -> bool {
        satisfied.contains(self.of_attributes)
    }

    /// The atoms that these attributes satisfy, except those already `satisfied`; one pass for all.
    pub(crate) fn read(
        &self,
        attributes: Attributes<'_>,
        satisfied: AtomSet,
    ) -> Result<AtomSet, otlp::Error> {
        let mut found = AtomSet::EMPTY;
        for attribute in attributes {
            let (key, value) = attribute?;
            if self.key_lengths & length_bit(key) == 0 {
                continue;
            }
            let Some(positions) = self.by_key.get(key) else {
                continue;
            };
            for position in positions {
                let atom = AtomSet::of_position(*position);
                if satisfied.contains(atom) {
                    continue;
                }
                if self.matchers[*position].matches(&value) {
                    found |= atom;
                } else {
                    found.remove(atom);
                }
            }
        }
        Ok(found)
    }
}

fn length_bit(key: &str) -> u64 {
    1 << (key.len() % 64)
}

impl Matcher {
    fn compile(policy: &str, condition: &Condition) -> Result<Self> {
        Ok(match condition {
            Condition::OneOf(values) => {
                // The empty string never matches.
                let values = values.iter().filter(|value| !value.is_empty());
                Self::OneOf(values.map(|value| value.as_str().into()).collect())
            }
            Condition::Patterns(patterns) => {
                let compile = |pattern: &String| {
                    go_regex::compile(pattern).map_err(|source| Error::Pattern {
                        policy: policy.to_owned(),
                        pattern: pattern.clone(),
                        source,
                    })
                };
                Self::Patterns(patterns.iter().map(compile).collect::<Result<_>>()?)
            }
            Condition::Within { min, max } => Self::Within {
                min: *min,
                max: *max,
            },
        })
    }

    fn matches(&self, value: &Value<'_>) -> bool {
        match self {
            Self::OneOf(values) => as_text(value).is_some_and(|text| values.contains(text)),
            Self::Patterns(regexes) => as_text(value)
                .filter(|text| !text.is_empty())
                .is_some_and(|text| regexes.iter().any(|regex| regex.is_match(text))),
            Self::Within { min, max } => {
                let Some(number) = as_number(value) else {
                    return false;
                };
                let at_least = |min: Number| number.compare(min).is_some_and(|order| order.is_ge());
                let at_most = |max: Number| number.compare(max).is_some_and(|order| order.is_le());
                min.is_none_or(at_least) && max.is_none_or(at_most)
            }
        }
    }
}

/// A string; the digits of a number are none.
fn as_text<'a>(value: &Value<'a>) -> Option<&'a str> {
    if let Value::Str(text) = value {
        Some(*text)
    } else {
        None
    }
}

/// A number; a string of digits is none.
fn as_number(value: &Value<'_>) -> Option<Number> {
    match value {
        Value::Int(int) => Some(Number::Int(*int)),
        Value::Double(double) => Some(Number::Double(*double)),
        Value::Empty
        | Value::Str(_)
        | Value::Bool(_)
        | Value::Bytes(_)
        | Value::Array(_)
        | Value::KvList(_) => None,
    }
}
