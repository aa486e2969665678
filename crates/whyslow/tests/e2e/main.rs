//! The real binary, end to end, on captured traffic: wiring, statuses, stored values, restarts.
//!
//! Every test has its own folder and its own ports on loopback, waits on states and never on times,
//! and stops what it started.
// `cfg(test)` holds for every integration test; it tells clippy that the helpers are test code as well.

#![expect(
    clippy::disallowed_methods,
    reason = "waiting for a process gives up after a time"
)]

#[cfg(test)]
mod backend_down;
#[cfg(test)]
mod batches;
#[cfg(test)]
mod calls;
#[cfg(test)]
mod commands;
#[cfg(test)]
mod deploy;
#[cfg(test)]
mod duplicates;
#[cfg(test)]
mod evidence;
#[cfg(test)]
mod explain;
#[cfg(test)]
mod fleet;
#[cfg(test)]
mod harness;
#[cfg(test)]
mod kill;
#[cfg(test)]
mod kill_load;
#[cfg(test)]
mod lifecycle;
#[cfg(test)]
mod maintain;
#[cfg(test)]
mod oracle;
#[cfg(test)]
mod placements;
#[cfg(test)]
mod query_paths;
#[cfg(test)]
mod reload;
#[cfg(test)]
mod security;
#[cfg(test)]
mod simulate;
#[cfg(test)]
mod slo;
