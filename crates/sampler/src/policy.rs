//! One policy as it is configured: exactly the Collector's schema, `{name, type, <type>: {...}}`, and
//! types of our own in the same shape (`ours`).
//!
//! What is checked here is the shape (known type, its own section, known keys); what values mean
//! together is checked when the policies are compiled ([`crate::Config::validate`]).

mod ours;
mod read;

use serde::Deserialize;

use crate::number::Number;

pub use self::ours::{Adaptive, ProbabilisticMode, SqlCondition};

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
    /// `boolean_attribute`.
    BooleanAttribute(BooleanAttribute),
    /// `trace_state`.
    TraceState(TraceState),
    /// `trace_flags`: any span has the W3C flag `sampled`, the lowest bit.
    TraceFlags,
    /// `span_count`.
    SpanCount(SpanCount),
    /// `rate_limiting`.
    RateLimiting(RateLimiting),
    /// `bytes_limiting`.
    BytesLimiting(BytesLimiting),
    /// `ottl_condition`.
    OttlCondition(OttlCondition),
    /// `and`.
    And(And),
    /// `not`.
    Not(Not),
    /// `drop`.
    Drop(DropTraces),
    /// `composite`.
    Composite(Composite),
    /// `adaptive`; ours, the Collector has none.
    Adaptive(Adaptive),
    /// `sql_condition`; ours, the Collector has none.
    SqlCondition(SqlCondition),
}

/// Duration of the whole trace, last end minus first start, in whole milliseconds.
///
/// Sampled if `duration > threshold_ms` and, with an upper threshold, `duration <=
/// upper_threshold_ms` (v0.157, contrib PR 49595; before, `compat: v0.156` and older, a duration
/// equal to the threshold is enough where there is no upper one). The duration is that of all spans
/// received before the decision; the Collector compares the upper bound while it walks the spans
/// and so matches on a prefix (contrib issue 43948): wrong there, right here, and there again under
/// `compat: collector`.
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
/// number. Under `compat: collector` a bound of 0 is unset, bounds are whole, and every value that
/// is no integer counts as 0.
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
    /// Sampled unless something matches: a plain negation, as in the Collector since v0.144. Before
    /// (`compat: v0.143` and older) it has a precedence of its own, see [`crate::Compat`].
    #[serde(default)]
    pub invert_match: bool,
}

/// A share of the traces, chosen by the trace id.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Probabilistic {
    /// Percent; 0 or less keeps nothing, 100 or more everything.
    pub sampling_percentage: f64,
    /// Absent or empty means `default-hash-seed`. Equal salts make equal choices, also between
    /// several gateways and the Collector.
    #[serde(default)]
    pub hash_salt: String,
    /// What chooses; not a key of the Collector's `tail_sampling`, but of its `probabilistic_sampler`.
    #[serde(default)]
    pub mode: ProbabilisticMode,
    /// Hex digits of the threshold, from 1 to 14; absent is 4. Not for `mode: hash_seed`.
    #[serde(default)]
    pub sampling_precision: Option<u32>,
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
/// Only a string matches (not the digits of an integer) and the empty string never does. The
/// Collector lets a pattern see an empty or non-string *resource* attribute as "", which we do
/// under `compat: collector` alone. An invalid pattern is an error at load everywhere: the panic of
/// some versions (contrib issue 43735) is restored by no `compat`.
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
    /// As in [`NumericAttribute`].
    #[serde(default)]
    pub invert_match: bool,
}

/// A boolean with this value.
///
/// Only a boolean matches; under `compat: collector` every other value counts as `false`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BooleanAttribute {
    /// Attribute key, of a span or a resource.
    pub key: String,
    /// The value that matches.
    pub value: bool,
    /// As in [`NumericAttribute`].
    #[serde(default)]
    pub invert_match: bool,
}

/// An entry of a span's W3C `tracestate`.
///
/// A `tracestate` that is malformed anywhere is ignored as a whole, as in the Collector.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceState {
    /// Key of the entry.
    pub key: String,
    /// Values, any of which matches exactly. One that is empty, or with its key longer than the 256
    /// characters that an entry can have, never matches.
    pub values: Vec<String>,
}

/// The number of spans received before the decision, within inclusive bounds.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpanCount {
    /// Fewest spans; absent is 0.
    #[serde(default)]
    pub min_spans: u32,
    /// Most spans; absent or 0 is no limit, as in the Collector.
    #[serde(default)]
    pub max_spans: u32,
}

/// A budget of spans: a bucket that fills by `spans_per_second` up to `burst_capacity` and starts
/// full; a trace is sampled if as many are in it as it has spans, and then takes them out.
///
/// A trace of more spans than `burst_capacity` never passes. Before v0.153 (`compat: v0.152` and
/// older) the Collector counts per second of the clock instead and passes what stays *below*
/// `spans_per_second`. The bucket is emptied by this policy alone and whenever it is asked, also if
/// another policy keeps the trace anyway, as in the Collector.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateLimiting {
    /// Spans per second in the long run.
    pub spans_per_second: u64,
    /// Spans at once; absent or 0 is twice `spans_per_second`.
    #[serde(default)]
    pub burst_capacity: u64,
}

/// As [`RateLimiting`] with a bucket of bytes.
///
/// A trace's size is that of its span messages; the Collector adds resources and scopes.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BytesLimiting {
    /// Bytes per second in the long run.
    pub bytes_per_second: u64,
    /// Bytes at once; absent or 0 is twice `bytes_per_second`.
    #[serde(default)]
    pub burst_capacity: u64,
}

/// Conditions in the Collector's transformation language, any of which on any span or span event
/// samples the trace. See the module `ottl` for the part of the language that is known.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OttlCondition {
    /// What a condition does that cannot be evaluated.
    #[serde(default)]
    pub error_mode: ErrorMode,
    /// Conditions on a span.
    #[serde(default)]
    pub span: Vec<String>,
    /// Conditions on an event of a span.
    #[serde(default)]
    pub spanevent: Vec<String>,
}

/// What happens when a condition cannot be evaluated, for example the length of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ErrorMode {
    /// The condition is not met.
    Ignore,
    /// The same; the Collector differs only in what it logs.
    Silent,
    /// The policy has no verdict on the trace and is counted as failed, unless a condition is met
    /// elsewhere in the trace. Under `compat: collector` what comes first wins.
    #[default]
    Propagate,
}

/// Every sub-policy matches the trace, each on whichever span.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct And {
    /// At least one; no `and`, `composite` or `drop` among them.
    pub and_sub_policy: Vec<Policy>,
}

/// Sampled if the sub-policy is not, and the other way round.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Not {
    /// Anything but `not`, `composite` or `drop`.
    pub not_sub_policy: Box<Policy>,
}

/// Dropped if every sub-policy matches, each on whichever span; else no say.
///
/// Asked before all other policies, wherever it stands, and stronger than all of them.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DropTraces {
    /// At least one (the Collector takes an empty list for "drop everything"); no `and`,
    /// `composite` or `drop` among them.
    pub drop_sub_policy: Vec<Policy>,
}

/// Sub-policies that share a budget of spans per second of the clock.
///
/// The first sub-policy that matches decides: sampled if its own share of the budget and the whole
/// budget have room for all spans of the trace, else not, and no further sub-policy is asked (as in
/// the Collector, contrib issue 36959). Two differences, both undone by `compat: collector`:
/// sub-policies are asked in `policy_order`, which the Collector ignores (issue 36955), and
/// `max_total_spans_per_second` bounds their sum, where the Collector compares it with each alone.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Composite {
    /// Spans per second of all sub-policies together.
    pub max_total_spans_per_second: u64,
    /// Names of sub-policies; those that are not named follow in the order of their definition.
    #[serde(default)]
    pub policy_order: Vec<String>,
    /// At least one, with distinct names; no `composite` or `drop` among them.
    pub composite_sub_policy: Vec<Policy>,
    /// Shares of the budget. A sub-policy without one, or with 0 percent, has an equal share: the
    /// budget divided by the number of sub-policies (one without has none under `compat: v0.157`
    /// and older, contrib PR 49857).
    #[serde(default)]
    pub rate_allocation: Vec<RateAllocation>,
}

/// The share of one sub-policy.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateAllocation {
    /// Name of the sub-policy.
    pub policy: String,
    /// Percent of the budget.
    pub percent: u64,
}

impl PolicyType {
    /// The name of the type: the Collector's, where it has the type.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::AlwaysSample => "always_sample",
            Self::Latency(_) => "latency",
            Self::NumericAttribute(_) => "numeric_attribute",
            Self::Probabilistic(_) => "probabilistic",
            Self::StatusCode(_) => "status_code",
            Self::StringAttribute(_) => "string_attribute",
            Self::BooleanAttribute(_) => "boolean_attribute",
            Self::TraceState(_) => "trace_state",
            Self::TraceFlags => "trace_flags",
            Self::SpanCount(_) => "span_count",
            Self::RateLimiting(_) => "rate_limiting",
            Self::BytesLimiting(_) => "bytes_limiting",
            Self::OttlCondition(_) => "ottl_condition",
            Self::And(_) => "and",
            Self::Not(_) => "not",
            Self::Drop(_) => "drop",
            Self::Composite(_) => "composite",
            Self::Adaptive(_) => "adaptive",
            Self::SqlCondition(_) => "sql_condition",
        }
    }

    /// The policies directly below.
    #[must_use]
    pub fn sub_policies(&self) -> &[Policy] {
        match self {
            Self::And(And { and_sub_policy }) => and_sub_policy,
            Self::Not(Not { not_sub_policy }) => std::slice::from_ref(&**not_sub_policy),
            Self::Drop(DropTraces { drop_sub_policy }) => drop_sub_policy,
            Self::Composite(composite) => &composite.composite_sub_policy,
            Self::AlwaysSample
            | Self::Latency(_)
            | Self::NumericAttribute(_)
            | Self::Probabilistic(_)
            | Self::StatusCode(_)
            | Self::StringAttribute(_)
            | Self::BooleanAttribute(_)
            | Self::TraceState(_)
            | Self::TraceFlags
            | Self::SpanCount(_)
            | Self::RateLimiting(_)
            | Self::BytesLimiting(_)
            | Self::OttlCondition(_)
            | Self::Adaptive(_)
            | Self::SqlCondition(_) => &[],
        }
    }
}
