//! The real binary, end to end, on captured traffic: wiring, statuses, stored values, restarts.
//!
//! Every test has its own folder and its own ports on loopback, waits on states and never on times,
//! and stops what it started.

mod commands;
mod harness;
mod kill;
mod oracle;
