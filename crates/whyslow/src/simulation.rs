//! Intake loop, sampler, store and commit in one seeded simulation: a given clock, a disk that forgets
//! and fails, an object store that fails, delays and reorders, and a model that knows what must hold.
//!
//! - `kill_points`: one run, ended inside each of its disk calls and store calls in turn;
//! - `seeds`: runs whose schedule, faults, kills and power failures follow from a seed;
//! - `late`: GPU samples that come late, and what they complete, through kills.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `WHYSLOW_KILL_POINTS` | `all`, or every how many of a run's calls it is ended | 30 |
//! | `WHYSLOW_SEEDS` | how many seeds | 12 |
//! | `SEED` | this seed alone, with its steps printed | |

mod kill_points;
mod late;
mod model;
mod process;
mod schedule;
mod seeds;
mod tables;

/// Numbers of a run of many cases, printed at its end (`--nocapture`).
fn report(text: &str) {
    println!("{text}");
}
