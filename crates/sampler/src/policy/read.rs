//! Reading one policy: known type, its own section, known keys.
//!
//! Written by hand because the name of the section depends on the type, and so that an error names
//! the policy, which the parser cannot know.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::error::{Error, Result};
use crate::nearest::nearest;
use crate::policy::{Policy, PolicyType};

/// Types without a section of their own. The Collector ignores one that is there, so an empty one
/// is accepted.
const BARE: [&str; 2] = ["always_sample", "trace_flags"];
/// Types with a section of the same name.
const WITH_SECTION: [&str; 17] = [
    "latency",
    "numeric_attribute",
    "probabilistic",
    "status_code",
    "string_attribute",
    "boolean_attribute",
    "trace_state",
    "span_count",
    "rate_limiting",
    "bytes_limiting",
    "ottl_condition",
    "and",
    "not",
    "drop",
    "composite",
    "adaptive",
    "sql_condition",
];

fn known_types() -> impl Iterator<Item = &'static str> {
    BARE.into_iter().chain(WITH_SECTION)
}

fn known_keys() -> impl Iterator<Item = &'static str> {
    ["name", "type"].into_iter().chain(known_types())
}

/// A section that says nothing.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// The keys of one policy as they were read, in any order.
#[derive(Default)]
struct Parts {
    name: Option<String>,
    policy_type: Option<String>,
    section: Option<PolicyType>,
    /// Key of each section found.
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
        let section = match policy_type {
            "always_sample" => PolicyType::AlwaysSample,
            "trace_flags" => PolicyType::TraceFlags,
            _ => match self.section {
                Some(section) => section,
                None => {
                    return Err(Error::SectionMissing {
                        policy,
                        policy_type,
                    });
                }
            },
        };
        Ok(Policy {
            name: policy,
            policy_type: section,
        })
    }

    /// Reads the section `key`; `Ok(None)` where it is empty (`latency:` and nothing below).
    fn read_section<'de, A: MapAccess<'de>>(
        key: &'static str,
        map: &mut A,
    ) -> Result<Option<PolicyType>, A::Error> {
        /// What is behind the key, if there is anything.
        fn value<'de, A: MapAccess<'de>, T: Deserialize<'de>>(
            map: &mut A,
            section: fn(T) -> PolicyType,
        ) -> Result<Option<PolicyType>, A::Error> {
            Ok(map.next_value::<Option<T>>()?.map(section))
        }
        match key {
            "always_sample" => value(map, |Nothing {}| PolicyType::AlwaysSample),
            "trace_flags" => value(map, |Nothing {}| PolicyType::TraceFlags),
            "latency" => value(map, PolicyType::Latency),
            "numeric_attribute" => value(map, PolicyType::NumericAttribute),
            "probabilistic" => value(map, PolicyType::Probabilistic),
            "status_code" => value(map, PolicyType::StatusCode),
            "string_attribute" => value(map, PolicyType::StringAttribute),
            "boolean_attribute" => value(map, PolicyType::BooleanAttribute),
            "trace_state" => value(map, PolicyType::TraceState),
            "span_count" => value(map, PolicyType::SpanCount),
            "rate_limiting" => value(map, PolicyType::RateLimiting),
            "bytes_limiting" => value(map, PolicyType::BytesLimiting),
            "ottl_condition" => value(map, PolicyType::OttlCondition),
            "and" => value(map, PolicyType::And),
            "not" => value(map, PolicyType::Not),
            "drop" => value(map, PolicyType::Drop),
            "composite" => value(map, PolicyType::Composite),
            "adaptive" => value(map, PolicyType::Adaptive),
            "sql_condition" => value(map, PolicyType::SqlCondition),
            _ => map.next_value::<IgnoredAny>().map(|_| None),
        }
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
