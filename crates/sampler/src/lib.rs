//! Tail sampling: groups span summaries by trace and decides, per trace, what to keep.
//!
//! Configuration and decisions are those of the Collector's `tail_sampling` processor
//! (opentelemetry-collector-contrib, v0.144 to v0.161); every deliberate difference is written
//! down where it is implemented (see [`Config`] and [`Policy`]).
//!
//! How it works: policies are compiled once into **atoms** (conditions on one span, for example
//! "attribute `http.route` equals `/v1/chat`") and a small tree over them. Each arriving span is
//! read once, undecoded; the atoms it satisfies are OR-ed into a bit set of its trace. A decision
//! then reads that bit set, the trace's first start and last end, and its id, so it costs
//! O(policies) however many spans there are, and is the same for every order of arrival.
//!
//! Limits: [`ATOMS_MAX`] distinct attribute conditions, [`POLICIES_MAX`] policies,
//! [`SERVICES_MAX`] service names, [`SERVICES_PER_TRACE_MAX`] of them listed per trace. At
//! `num_traces` undecided traces those next due are decided early, with the trigger recorded:
//! nothing is evicted undecided.
//!
//! This crate does not know where span bytes are kept (a [`SpanHandle`] is opaque), reads no clock
//! (every call is given the time), opens no file and starts no task.

#![warn(clippy::wildcard_enum_match_arm)]

mod atoms;
mod config;
mod decided;
mod decision;
pub mod duration;
mod error;
mod go_regex;
mod keyed_hash;
mod nearest;
mod number;
mod pending;
mod policy;
mod probability;
mod recent;
mod sampler;
mod services;
mod spans;
mod timers;
mod verdict;

pub use crate::atoms::ATOMS_MAX;
pub use crate::config::{CACHE_SIZE_MAX, Config, DecisionCache, NUM_TRACES_MAX, SamplingStrategy};
pub use crate::decision::{
    Decided, Decision, Observed, PolicyIndex, RecordedDecision, SpanHandle, TraceSummary, Trigger,
    Version,
};
pub use crate::error::{Error, Result, ValueProblem};
pub use crate::number::Number;
pub use crate::pending::SERVICES_PER_TRACE_MAX;
pub use crate::policy::{
    And, Latency, NumericAttribute, Policy, PolicyType, Probabilistic, StatusCodes, StringAttribute,
};
pub use crate::sampler::{ResourceFacts, Sampler, Stats};
pub use crate::services::{SERVICES_MAX, ServiceId};
pub use crate::spans::PendingSpan;
pub use crate::verdict::POLICIES_MAX;
