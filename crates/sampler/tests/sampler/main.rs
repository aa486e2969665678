//! The sampler from outside: the Collector's behaviour, time, order, memory.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod bytes;
mod cases;
mod config;
mod conformance;
mod duplicates;
mod lifecycle;
mod oracle;
mod run;
mod simulation;
