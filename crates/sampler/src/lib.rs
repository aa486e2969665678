//! Tail sampling: groups span summaries by trace and decides, per trace, what to keep.
//!
//! Configuration and decisions are those of the Collector's `tail_sampling` processor
//! (opentelemetry-collector-contrib, v0.144 to v0.161); every deliberate difference is written
//! down where it is implemented (see [`Config`] and [`Policy`]).
//!
//! How it works: policies are compiled once into **atoms** (conditions on one span, for example
//! "attribute `http.route` equals `/v1/chat`") and a small tree over them. Each arriving span is
//! read once, undecoded; the atoms it satisfies are OR-ed into a bit set of its trace. A decision
//! then reads that bit set, the trace's first start and last end, its size and its id, so it costs
//! O(policies) however many spans there are, and is the same for every order of arrival. (Policies
//! with a budget depend on the order in which *traces* become due, and on nothing else.)
//!
//! Reading order: [`Config`] and [`Policy`] are what is written; `compile` turns policies into the
//! tests of `verdict` over `atoms` (`ottl` is a language of its own); [`Sampler`] folds spans into
//! `pending` traces and decides them by `timers`; `decided` remembers for late spans. `trigger` has the
//! rules for long traces, `linked` those for traces that link to others. [`Compat`] and
//! [`Config::findings`] are about users who come from the Collector; [`partial`] asks the same tests about
//! traces that are stored in part.
//!
//! Of our own are `budget` (how much of what policies ask for is kept), `adaptive` (a rate per kind
//! of traffic), `sql` (conditions on the trace's row) and `threshold` (what samplers before this one
//! and behind it are told); `chance` says for how many traces a kept one stands.
//!
//! Limits: [`ATOMS_MAX`] distinct conditions on spans, [`POLICIES_MAX`] policies, [`ADAPTIVE_KEYS_MAX`] keys,
//! [`SERVICES_MAX`] service names, [`SERVICES_PER_TRACE_MAX`] of them listed per trace. At
//! `num_traces` undecided traces those next due are decided early, with the trigger recorded:
//! nothing is evicted undecided.
//!
//! This crate does not know where span bytes are kept (a [`SpanHandle`] is opaque), reads no clock
//! (every call is given the time; metrics may be given a stopwatch), opens no file and starts no task.

#![warn(clippy::wildcard_enum_match_arm)]

mod compat;
mod config;
mod findings;
mod policy;

mod arrival;
mod counts;
mod decided;
mod decision;
mod extras;
mod linked;
mod pending;
mod recent;
mod sampler;
mod services;
mod spans;
mod timers;
mod trigger;

mod adaptive;
mod atoms;
mod budget;
mod chance;
mod compile;
mod go_regex;
mod limits;
mod ottl;
pub mod partial;
mod probability;
mod sql;
mod threshold;
mod trace_state;
mod verdict;

pub mod duration;
mod error;
mod keyed_hash;
mod nearest;
mod number;

pub use crate::adaptive::ADAPTIVE_KEYS_MAX;
pub use crate::atoms::ATOMS_MAX;
pub use crate::budget::Budget;
pub use crate::compat::Compat;
pub use crate::compile::POLICIES_MAX;
pub use crate::config::{
    CACHE_SIZE_MAX, Config, DecisionCache, NUM_SHARDS_MAX, NUM_TRACES_MAX, SamplingStrategy,
};
pub use crate::counts::PolicyCounts;
pub use crate::decision::{
    Decided, Decision, Observed, PolicyIndex, RecordedDecision, SpanHandle, TraceSummary, Trigger,
    Version,
};
pub use crate::error::{Error, Result, ValueProblem};
pub use crate::findings::{Finding, Severity, Step};
pub use crate::linked::{LINKS_PER_TRACE_MAX, LinkCounts, LinkedTraces};
pub use crate::number::Number;
pub use crate::ottl::OttlProblem;
pub use crate::pending::SERVICES_PER_TRACE_MAX;
pub use crate::policy::{
    Adaptive, And, BooleanAttribute, BytesLimiting, Composite, DropTraces, ErrorMode, Latency, Not,
    NumericAttribute, OttlCondition, Policy, PolicyType, Probabilistic, ProbabilisticMode,
    RateAllocation, RateLimiting, SpanCount, SqlCondition, StatusCodes, StringAttribute,
    TraceState,
};
pub use crate::sampler::{ResourceFacts, Sampler, Stats, Undecided};
pub use crate::services::{SERVICES_MAX, ServiceId};
pub use crate::spans::{PendingSpan, Reports};
pub use crate::sql::{SQL_COLUMNS, SqlProblem};
pub use crate::threshold::{Threshold, ThresholdChange};
pub use crate::trigger::{PolicyTrigger, ROOT_GRACE, TriggerRules};
