//! The sampler from outside: the Collector's behaviour, time, order, memory.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod allocation;
mod any;
mod bytes;
mod cases;
mod cases_of_policies;
mod config;
mod configs;
mod conformance;
mod conformance_more;
mod counts;
mod duplicates;
mod findings;
mod lifecycle;
mod oracle;
mod partial;
mod run;
mod simulation;
