//! How costs grow: with shards, with processors, with undecided traces. One measurement per call, as lines of JSON.
//!
//! `benches/scale/run` calls it; by hand:
//!
//! ```sh
//! cargo bench -p measure --features intake --bench scale -- shards SHARDS whole|split ROUNDS
//! cargo bench -p measure --features intake --bench scale -- threads THREADS ROUNDS
//! cargo bench -p measure --features intake --bench scale -- undecided TRACES SPANS_PER_TRACE
//! ```
//!
//! A shard is an intake of its own: a log, a sampler, an owner. `shards` gives exports to each in turn, from one thread: whole
//! ones, as from senders that route, or each split among all shards by trace, as a door of a process would have to.
//! `threads` has a shard per thread. Logs are in the temporary folder; time is given, no trace waits longer than two seconds of it.
#![expect(clippy::print_stdout, reason = "a bench prints its numbers")]

mod shards;
mod undecided;

use std::{env, error::Error, time::Instant};

/// As in the service.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

/// Policies of every measurement.
const N_POLICIES: usize = 5;

fn main() -> Result<()> {
    // `cargo bench` adds a flag of its own.
    let arguments: Vec<String> = env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["shards", n_shards, exports, n_rounds] => {
            let is_split = match exports {
                "whole" => false,
                "split" => true,
                _ => return Err("exports are `whole` or `split`".into()),
            };
            shards::in_turn(n_shards.parse()?, is_split, n_rounds.parse()?)
        }
        ["threads", n_threads, n_rounds] => shards::beside(n_threads.parse()?, n_rounds.parse()?),
        ["undecided", n_traces, spans_per_trace] => {
            undecided::measure(n_traces.parse()?, spans_per_trace.parse()?)
        }
        _ => Err(format!(
            "no such arguments: {arguments:?}; known are `shards SHARDS whole|split ROUNDS`, `threads THREADS ROUNDS` and \
             `undecided TRACES SPANS_PER_TRACE`"
        )
        .into()),
    }
}

fn sampling() -> Result<sampler::Config> {
    Ok(serde_saphyr::from_str(&measure::tail_sampling(
        N_POLICIES,
    )?)?)
}

#[expect(clippy::disallowed_methods, reason = "a bench measures time")]
fn now() -> Instant {
    Instant::now()
}
