//! One policy as it is configured: exactly the Collector's schema, `{name, type, <type>: {...}}`.
//!
//! What is checked here is the shape (known type, its own section, known keys); what values mean
//! together is checked when the policies are compiled ([`crate::Config::validate`]).

use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::error::{Error, Result};
use crate::nearest::nearest;
use crate::number::Number;

/// One policy: a name and what it asks of a trace.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// Unique among the top-level policies; stored with every trace that the policy kept. Empty
    /// only for a sub-policy, where the Collector does not ask for one.
    pub name: String,
    /// The rule.
    pub policy_type: PolicyType,
}

/// The rule of a policy. Attribute policies look at the attributes of every span and of every
/// resource of the trace; one match anywhere is enough.
#[derive(Debug, Clone, PartialEq)]
pub enum PolicyType {
    /// `always_sample`: every trace.
    AlwaysSample,
    /// `latency`.
    Latency(Latency),
    /// `numeric_attribute`.
    NumericAttribute(NumericAttribute),
    /// `probabilistic`.
    Probabilistic(Probabilistic),
    /// `status_code`.
    StatusCode(StatusCodes),
    /// `string_attribute`.
    StringAttribute(StringAttribute),
    /// `and`.
    And(And),
}

/// Duration of the whole trace, last end minus first start, in whole milliseconds.
///
/// Sampled if `duration > threshold_ms` and, with an upper threshold, `duration <=
/// upper_threshold_ms` (v0.157, contrib PR 49595). The duration is that of all spans received
/// before the decision; the Collector compares the upper bound while it walks the spans and so
/// matches on a prefix (contrib issue 43948), which is wrong there and right here.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// Milliseconds, exclusive.
    pub threshold_ms: i64,
    /// Milliseconds, inclusive; 0 means none, as in the Collector.
    #[serde(default)]
    pub upper_threshold_ms: i64,
}

/// A number within bounds.
///
/// Bounds are inclusive and each is optional. Two deliberate differences from the Collector, which
/// here silently matches nothing: a bound of 0 is a bound (there: unset), and a double is compared
/// as a double (there: read as 0), so bounds may have fractions too. A string of digits is not a
/// number, as in the Collector.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NumericAttribute {
    /// Attribute key, of a span or a resource.
    pub key: String,
    /// Smallest value that matches.
    #[serde(default)]
    pub min_value: Option<Number>,
    /// Largest value that matches.
    #[serde(default)]
    pub max_value: Option<Number>,
    /// Sampled unless something matches (a plain negation, as in the Collector since v0.144).
    #[serde(default)]
    pub invert_match: bool,
}

/// A share of the traces, chosen by a hash of the trace id.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Probabilistic {
    /// Percent; 0 or less keeps nothing, 100 or more everything.
    pub sampling_percentage: f64,
    /// Absent or empty means `default-hash-seed`. Equal salts make equal choices, also between
    /// several gateways and the Collector.
    #[serde(default)]
    pub hash_salt: String,
}

/// Any span has one of the status codes.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatusCodes {
    /// `OK`, `ERROR`, `UNSET`, in upper case.
    pub status_codes: Vec<String>,
}

/// A string equal to one of a list, or matching one of a list of patterns.
///
/// Only a string matches (not the digits of an integer) and the empty string never does; the
/// Collector lets a pattern see an empty or non-string *resource* attribute as "", we do not.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StringAttribute {
    /// Attribute key, of a span or a resource.
    pub key: String,
    /// Values, or patterns with `enabled_regex_matching`.
    pub values: Vec<String>,
    /// Read `values` as regular expressions in Go's syntax, searched anywhere in the value.
    #[serde(default)]
    pub enabled_regex_matching: bool,
    /// Accepted for the Collector's sake; matching is never cached here, so it changes nothing.
    #[serde(default)]
    pub cache_max_size: i64,
    /// Sampled unless something matches (a plain negation, as in the Collector since v0.144).
    #[serde(default)]
    pub invert_match: bool,
}

/// Every sub-policy matches the trace, each on whichever span.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct And {
    /// At least one; no `and` among them.
    pub and_sub_policy: Vec<Policy>,
}

impl PolicyType {
    /// The Collector's name of the type.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::AlwaysSample => "always_sample",
            Self::Latency(_) => "latency",
            Self::NumericAttribute(_) => "numeric_attribute",
            Self::Probabilistic(_) => "probabilistic",
            Self::StatusCode(_) => "status_code",
            Self::StringAttribute(_) => "string_attribute",
            Self::And(_) => "and",
        }
    }
}

const ALWAYS_SAMPLE: &str = "always_sample";
/// Types that are built and have a section of their own.
const BUILT: [&str; 6] = [
    "latency",
    "numeric_attribute",
    "probabilistic",
    "status_code",
    "string_attribute",
    "and",
];
/// The Collector's other types, known by name so that the error can say what is going on.
const NOT_BUILT: [&str; 10] = [
    "boolean_attribute",
    "trace_state",
    "trace_flags",
    "rate_limiting",
    "bytes_limiting",
    "span_count",
    "ottl_condition",
    "not",
    "drop",
    "composite",
];

fn known_types() -> impl Iterator<Item = &'static str> {
    [ALWAYS_SAMPLE].into_iter().chain(BUILT).chain(NOT_BUILT)
}

fn known_keys() -> impl Iterator<Item = &'static str> {
    ["name", "type"].into_iter().chain(BUILT).chain(NOT_BUILT)
}

/// The keys of one policy as they were read, in any order.
#[derive(Default)]
struct Parts {
    name: Option<String>,
    policy_type: Option<String>,
    section: Option<PolicyType>,
    /// Key of each section found, built or not.
    sections: Vec<&'static str>,
    unknown: Option<String>,
}

impl Parts {
    fn into_policy(self) -> Result<Policy> {
        let policy = self.name.unwrap_or_default();
        let Some(found) = self.policy_type else {
            return Err(Error::TypeMissing { policy });
        };
        let Some(policy_type) = known_types().find(|known| *known == found) else {
            let nearest = nearest(&found, known_types());
            return Err(Error::TypeUnknown {
                policy,
                found,
                nearest,
            });
        };
        if NOT_BUILT.contains(&policy_type) {
            return Err(Error::TypeNotBuilt {
                policy,
                policy_type,
            });
        }
        if let Some(found) = self.unknown {
            let nearest = nearest(&found, known_keys());
            return Err(Error::PolicyKeyUnknown {
                policy,
                found,
                nearest,
            });
        }
        if let Some(section) = self
            .sections
            .into_iter()
            .find(|section| *section != policy_type)
        {
            return Err(Error::SectionForeign {
                policy,
                policy_type,
                section,
            });
        }
        if policy_type == ALWAYS_SAMPLE {
            return Ok(Policy {
                name: policy,
                policy_type: PolicyType::AlwaysSample,
            });
        }
        match self.section {
            Some(policy_type) => Ok(Policy {
                name: policy,
                policy_type,
            }),
            None => Err(Error::SectionMissing {
                policy,
                policy_type,
            }),
        }
    }

    /// Reads the section `key`; `Ok(None)` where it is empty (`latency:` and nothing below).
    fn read_section<'de, A: MapAccess<'de>>(
        key: &'static str,
        map: &mut A,
    ) -> Result<Option<PolicyType>, A::Error> {
        Ok(match key {
            "latency" => map
                .next_value::<Option<Latency>>()?
                .map(PolicyType::Latency),
            "numeric_attribute" => map
                .next_value::<Option<NumericAttribute>>()?
                .map(PolicyType::NumericAttribute),
            "probabilistic" => map
                .next_value::<Option<Probabilistic>>()?
                .map(PolicyType::Probabilistic),
            "status_code" => map
                .next_value::<Option<StatusCodes>>()?
                .map(PolicyType::StatusCode),
            "string_attribute" => map
                .next_value::<Option<StringAttribute>>()?
                .map(PolicyType::StringAttribute),
            "and" => map.next_value::<Option<And>>()?.map(PolicyType::And),
            _ => {
                map.next_value::<IgnoredAny>()?;
                None
            }
        })
    }
}

struct PolicyVisitor;

impl<'de> Visitor<'de> for PolicyVisitor {
    type Value = Policy;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a policy: `{name: .., type: .., <type>: {..}}`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Policy, A::Error> {
        let mut parts = Parts::default();
        while let Some(key) = map.next_key::<String>()? {
            if key == "name" {
                parts.name = Some(map.next_value()?);
            } else if key == "type" {
                parts.policy_type = Some(map.next_value()?);
            } else if let Some(section) = known_keys().find(|known| *known == key) {
                parts.sections.push(section);
                // The parser knows line and key, only we know which policy it is.
                let read = Parts::read_section(section, &mut map);
                let read = read.map_err(|error| match &parts.name {
                    Some(name) => <A::Error as de::Error>::custom(format_args!(
                        "policy `{name}`: `{section}` cannot be read: {error}"
                    )),
                    None => error,
                })?;
                parts.section = parts.section.or(read);
            } else {
                map.next_value::<IgnoredAny>()?;
                parts.unknown = parts.unknown.or(Some(key));
            }
        }
        parts.into_policy().map_err(de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Policy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PolicyVisitor)
    }
}
