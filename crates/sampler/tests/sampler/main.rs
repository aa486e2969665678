//! The sampler from outside: the Collector's behaviour, time, order, memory.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod adaptive;
mod allocation;
mod any;
mod budget;
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
mod links;
mod oracle;
mod partial;
mod recorded;
mod reload;
mod rounds;
mod run;
mod simulation;
mod sql;
mod streams;
mod triggers;
mod weights;
