//! What can be wrong with a configuration, or with a resource.

use std::fmt;

use crate::ottl::OttlProblem;
use crate::policy::Policy;
use crate::sql::SqlProblem;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A configuration that cannot be run, or bytes that cannot be read.
///
/// `policy` is the path of names from the top, joined by `/` for a sub-policy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// `policies` is absent or empty.
    #[error("`policies` is empty: at least one policy is needed, or nothing would be kept")]
    NoPolicies,
    /// More policies than a [`crate::PolicyIndex`] can name.
    #[error("`policies` has {n_policies} entries, the limit is {limit}")]
    TooManyPolicies {
        /// Entries found.
        n_policies: usize,
        /// [`crate::POLICIES_MAX`].
        limit: usize,
    },
    /// A policy without a name.
    #[error("policy number {number} has no `name`")]
    NameEmpty {
        /// Counted from 1, in file order.
        number: usize,
    },
    /// Two policies with one name.
    #[error("policy `{policy}` is defined twice: names must be unique")]
    NameDuplicate {
        /// The name.
        policy: String,
    },
    /// A policy without `type`.
    #[error("policy `{policy}` has no `type`")]
    TypeMissing {
        /// The policy.
        policy: String,
    },
    /// A policy type that the Collector does not have either.
    #[error("policy `{policy}`: unknown type `{found}`{}", DidYouMean(.nearest))]
    TypeUnknown {
        /// The policy.
        policy: String,
        /// As written.
        found: String,
        /// The most similar known type.
        nearest: Option<&'static str>,
    },
    /// A combination such as `and` inside `and`, which the Collector refuses too.
    #[error("policy `{policy}`: type `{policy_type}` cannot be a sub-policy of `{within}`")]
    TypeNested {
        /// The sub-policy.
        policy: String,
        /// Its type.
        policy_type: &'static str,
        /// The type of the policy around it.
        within: &'static str,
    },
    /// A policy that cannot judge one batch of a trace alone.
    #[error(
        "policy `{policy}`: `sampling_strategy: span-ingest` judges each batch alone, which type `{policy_type}` with these keys cannot"
    )]
    Stateful {
        /// The policy.
        policy: String,
        /// Its type.
        policy_type: &'static str,
    },
    /// A condition that is not in the known part of the language.
    #[error("policy `{policy}`: `{key}` has the condition `{condition}`: {problem}")]
    Ottl {
        /// The policy.
        policy: String,
        /// Path of the key below the policy.
        key: &'static str,
        /// As written.
        condition: String,
        /// What is wrong.
        problem: OttlProblem,
    },
    /// A condition in SQL that cannot be asked of a trace.
    #[error("policy `{policy}`: `sql_condition.condition` {problem}")]
    Sql {
        /// The policy.
        policy: String,
        /// What is wrong.
        problem: SqlProblem,
    },
    /// The section that belongs to the type is absent.
    #[error("policy `{policy}` is of type `{policy_type}` but has no section `{policy_type}`")]
    SectionMissing {
        /// The policy.
        policy: String,
        /// Type, which is also the name of the section.
        policy_type: &'static str,
    },
    /// A section of another type than `type` says.
    #[error("policy `{policy}` is of type `{policy_type}` but has a section `{section}`")]
    SectionForeign {
        /// The policy.
        policy: String,
        /// Its type.
        policy_type: &'static str,
        /// The section that does not belong.
        section: &'static str,
    },
    /// A key that a policy does not have.
    #[error("policy `{policy}`: unknown key `{found}`{}", DidYouMean(.nearest))]
    PolicyKeyUnknown {
        /// The policy.
        policy: String,
        /// As written.
        found: String,
        /// The most similar known key.
        nearest: Option<&'static str>,
    },
    /// A value that a policy cannot have.
    #[error("policy `{policy}`: `{key}` {problem}")]
    PolicyValue {
        /// The policy.
        policy: String,
        /// Path of the key below the policy.
        key: &'static str,
        /// What is wrong.
        problem: ValueProblem,
    },
    /// A regular expression that does not compile.
    #[error("policy `{policy}`: `string_attribute.values` has the invalid pattern `{pattern}`")]
    Pattern {
        /// The policy.
        policy: String,
        /// As written.
        pattern: String,
        /// Why it does not compile.
        source: Box<regex::Error>,
    },
    /// More distinct conditions than a trace's bit set holds.
    #[error("policy `{policy}` needs more than {limit} distinct conditions on spans in all")]
    TooManyAtoms {
        /// The policy that was one too many.
        policy: String,
        /// [`crate::ATOMS_MAX`].
        limit: usize,
    },
    /// More names of policies than there are numbers for, which only many reloads can bring about.
    #[error("policies have had more than {limit} names since the start: restart to use these")]
    TooManyNames {
        /// How many there can be.
        limit: usize,
    },
    /// A top-level value outside its range.
    #[error("`{key}` {problem}")]
    KeyValue {
        /// The key.
        key: &'static str,
        /// What is wrong.
        problem: ValueProblem,
    },
    /// A resource message that is not one.
    #[error("cannot read the attributes of the resource")]
    Resource {
        /// Why not.
        source: otlp::Error,
    },
}

impl Error {
    /// Place among the top-level policies of the one that is wrong, or that has the wrong one below
    /// it; of two with one name the second.
    #[must_use]
    pub fn position_in(&self, policies: &[Policy]) -> Option<usize> {
        let path = match self {
            Self::NameEmpty { number } => return number.checked_sub(1),
            Self::NameDuplicate { policy }
            | Self::TypeMissing { policy }
            | Self::TypeUnknown { policy, .. }
            | Self::TypeNested { policy, .. }
            | Self::Stateful { policy, .. }
            | Self::Ottl { policy, .. }
            | Self::Sql { policy, .. }
            | Self::SectionMissing { policy, .. }
            | Self::SectionForeign { policy, .. }
            | Self::PolicyKeyUnknown { policy, .. }
            | Self::PolicyValue { policy, .. }
            | Self::Pattern { policy, .. }
            | Self::TooManyAtoms { policy, .. } => policy,
            Self::NoPolicies
            | Self::TooManyPolicies { .. }
            | Self::TooManyNames { .. }
            | Self::KeyValue { .. }
            | Self::Resource { .. } => return None,
        };
        policies.iter().rposition(|policy| {
            let below = path.strip_prefix(policy.name.as_str());
            below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
        })
    }
}

/// What is wrong with one value of the configuration.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ValueProblem {
    /// An empty string or list where something must be named.
    Empty,
    /// Neither bound of a range is given.
    NoBound,
    /// A range that nothing can lie in.
    EmptyRange {
        /// Lower bound.
        min: String,
        /// Upper bound.
        max: String,
    },
    /// NaN or an infinity.
    NotFinite,
    /// A fraction where the Collector that is followed takes whole numbers.
    NotWhole,
    /// A negative number where none can be.
    Negative,
    /// A number outside its range that may have a fraction.
    NotWithin {
        /// As written.
        found: f64,
        /// The range in words.
        range: &'static str,
    },
    /// A key that goes with another value of another key.
    OnlyWith {
        /// That key and value.
        other: &'static str,
    },
    /// Two keys of which exactly one is needed.
    NotOneOf {
        /// Both.
        keys: &'static str,
    },
    /// Too many distinct attribute keys.
    TooManyKeys {
        /// The limit.
        limit: usize,
    },
    /// The name of a sub-policy that is not there.
    UnknownSubPolicy {
        /// As written.
        found: String,
    },
    /// A name outside a closed set.
    UnknownName {
        /// As written.
        found: String,
        /// The set.
        known: &'static str,
    },
    /// A number outside its range.
    OutOfRange {
        /// As written.
        found: u64,
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
    /// A time that must be more than 0.
    Zero,
    /// A key that cannot stand beside another.
    Excluded {
        /// The other.
        other: &'static str,
    },
    /// The name of a policy that is not there.
    UnknownPolicy {
        /// As written.
        found: String,
        /// The most similar name.
        nearest: Option<String>,
    },
    /// A rule for the traces of a policy that may stop to match when more spans come, or has a budget.
    NotLasting,
    /// A rule without a time.
    NoTime,
}

impl fmt::Display for ValueProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("is empty"),
            Self::NoBound => f.write_str("has neither a lower nor an upper bound"),
            Self::EmptyRange { min, max } => {
                write!(
                    f,
                    "has a lower bound of {min} and an upper bound of {max}: nothing matches"
                )
            }
            Self::NotFinite => f.write_str("is not a finite number"),
            Self::NotWhole => f.write_str("is not a whole number, which `compat` demands"),
            Self::Negative => f.write_str("is negative"),
            Self::NotWithin { found, range } => write!(f, "is {found}, must be {range}"),
            Self::OnlyWith { other } => write!(f, "has a meaning only with {other}"),
            Self::NotOneOf { keys } => write!(f, "needs exactly one of {keys}"),
            Self::TooManyKeys { limit } => {
                write!(f, "has more than {limit} distinct keys in all policies")
            }
            Self::UnknownSubPolicy { found } => {
                write!(f, "names `{found}`, which is no sub-policy here")
            }
            Self::UnknownName { found, known } => write!(f, "names `{found}`, known are {known}"),
            Self::OutOfRange { found, min, max } => {
                write!(f, "is {found}, must be from {min} to {max}")
            }
            Self::Zero => f.write_str("must be more than `0s`"),
            Self::Excluded { other } => {
                write!(f, "cannot be together with `{other}`: remove one of the two")
            }
            Self::UnknownPolicy { found, nearest } => {
                write!(f, "names the policy `{found}`, which is not there")?;
                match nearest {
                    Some(nearest) => write!(f, ", did you mean `{nearest}`?"),
                    None => Ok(()),
                }
            }
            Self::NotLasting => f.write_str(
                "names it, but whether it matches may change with the next span, or uses up a budget: \
                 name a policy on a status, an attribute, a latency or span count without upper bound, or a condition",
            ),
            Self::NoTime => f.write_str("needs `match_grace`, `idle` or `max_wait`"),
        }
    }
}

struct DidYouMean<'a>(&'a Option<&'static str>);

impl fmt::Display for DidYouMean<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(nearest) => write!(f, ", did you mean `{nearest}`?"),
            None => Ok(()),
        }
    }
}
