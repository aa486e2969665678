//! `compat`: deciding as a given version of the Collector does, also where that is wrong.
//!
//! Absent, every policy does what its documentation promises. With `compat: collector` the newest
//! version that we know is followed to the letter, and with `compat: v0.152` that version, for whoever
//! moves a running configuration here and wants equal decisions first.
//!
//! | what | restored by |
//! |---|---|
//! | `latency`: an upper threshold is compared with the running duration, so a prefix may match (issue 43948) | `collector` and every version |
//! | `numeric_attribute`: a bound of 0 is unset, a value that is no integer is 0, bounds are whole | the same |
//! | `boolean_attribute`: a value that is no boolean is `false` | the same |
//! | `string_attribute`: a pattern sees an empty or non-string resource attribute as "" | the same |
//! | `ottl_condition` with `error_mode: propagate`: the first of match and failure wins, in order of arrival | the same |
//! | `composite`: `policy_order` is ignored, the total bounds each sub-policy alone (issues 36955, 36959) | the same |
//! | `span-ingest`: with a `drop` policy nothing is ever sampled | the same |
//! | a kept trace does not keep the traces that link to it (contrib issue 33568) | the same |
//! | of an attribute that is repeated within a span the first value counts, not the last | the same |
//! | `composite`: a sub-policy without an allocation gets none (PR 49857) | up to v0.157 |
//! | `latency`: a duration equal to `threshold_ms` is enough without an upper threshold (PR 49595) | up to v0.156 |
//! | `rate_limiting`: seconds of the clock, strictly below the rate | up to v0.152 |
//! | `invert_match`: decisions of their own precedence | up to v0.143 |
//!
//! That last one is: dropped, then *not* matching an inverted policy ("not sampled"), then sampled,
//! then matching an inverted policy if no other policy said "not sampled", then not sampled.
//!
//! Not restored by anything: traces that are evicted undecided, whole-second timers, the panic on an
//! invalid pattern, of a key that is repeated inside a map the first value, and a `th` in `tracestate`
//! that is left as it was although it is no longer true (see `threshold`). Nor:
//!
//! - the bytes of resources and scopes in a trace's size: there each batch that a trace came in counts them
//!   again, so a size depends on how senders and processors before it have cut the batches;
//! - a budget that fills up between the traces of one tick: there it fills for as long as deciding the
//!   traces before it took, which is no input that could be repeated.
//!
//! What the Collector does not have (`budget`, `adaptive`, `sql_condition`, `mode` of `probabilistic`)
//! works under any `compat`, and [`crate::Config::findings`] warns of it.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};

/// The newest minor version that is known.
const NEWEST: u16 = 161;
/// The oldest: before it some policy types are missing.
const OLDEST: u16 = 140;

/// Whose behaviour is followed where the Collector's is wrong or has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compat {
    /// What the policies promise.
    #[default]
    None,
    /// What the Collector v0.`minor` does.
    Collector {
        /// From 140 to 161.
        minor: u16,
    },
}

impl Compat {
    /// The newest version of the Collector.
    pub const COLLECTOR: Self = Self::Collector { minor: NEWEST };

    /// Any version of the Collector.
    pub(crate) fn is_collector(self) -> bool {
        self.is_at_most(NEWEST)
    }

    /// A version of the Collector up to and including v0.`minor`.
    fn is_at_most(self, minor: u16) -> bool {
        match self {
            Self::None => false,
            Self::Collector { minor: followed } => followed <= minor,
        }
    }

    pub(crate) fn omitted_allocation_is_zero(self) -> bool {
        self.is_at_most(157)
    }

    pub(crate) fn latency_is_inclusive(self) -> bool {
        self.is_at_most(156)
    }

    pub(crate) fn rate_is_per_clock_second(self) -> bool {
        self.is_at_most(152)
    }

    pub(crate) fn inverts_decisions(self) -> bool {
        self.is_at_most(143)
    }
}

impl fmt::Display for Compat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Collector { minor } => write!(f, "v0.{minor}"),
        }
    }
}

struct CompatVisitor;

impl Visitor<'_> for CompatVisitor {
    type Value = Compat;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`none`, `collector`, or a version of it from `v0.{OLDEST}` to `v0.{NEWEST}`"
        )
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Compat, E> {
        match text {
            "none" => return Ok(Compat::None),
            "collector" => return Ok(Compat::COLLECTOR),
            _ => {}
        }
        // A patch version changes no behaviour here: `v0.152.1` is `v0.152`.
        let version = text.strip_prefix('v').unwrap_or(text);
        let mut numbers = version.split('.');
        let minor = match (numbers.next(), numbers.next().map(str::parse::<u16>)) {
            (Some("0"), Some(Ok(minor))) => minor,
            _ => return Err(E::invalid_value(de::Unexpected::Str(text), &self)),
        };
        if (OLDEST..=NEWEST).contains(&minor) {
            Ok(Compat::Collector { minor })
        } else {
            Err(E::invalid_value(de::Unexpected::Str(text), &self))
        }
    }
}

impl<'de> Deserialize<'de> for Compat {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(CompatVisitor)
    }
}
