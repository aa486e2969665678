//! The join of requests with the samples of their GPUs: `correlate`, and the same in SQL on DataFusion.
//!
//! `benches/join/run` beside the crates calls it, adds duckdb and compares the answers; by hand:
//!
//! ```sh
//! cargo bench --workspace --bench join -- generate /tmp/join 1000000 1000
//! cargo bench --workspace --bench join -- correlate /tmp/join
//! cargo bench --workspace --bench join -- datafusion /tmp/join buckets 1000000
//! ```
//!
//! Each of the last two prints one line of JSON: seconds, sums over all rows of the answer, and the largest memory of the
//! process. Both run on one thread, and read the same Parquet files before their time begins.
#![expect(clippy::print_stdout, reason = "a bench prints its numbers")]

mod data;
mod ours;
mod sql;

use std::error::Error;
use std::path::Path;

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

fn main() -> Result<()> {
    // Cargo says that it is a bench.
    let args: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| arg != "--bench")
        .collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["generate", folder, n_requests, n_gpus] => {
            data::generate(Path::new(folder), n_requests.parse()?, n_gpus.parse()?)
        }
        ["correlate", folder] => ours::run(Path::new(folder)),
        ["datafusion", folder, form, n_requests] => {
            sql::run(Path::new(folder), form, n_requests.parse()?)
        }
        _ => {
            println!(
                "generate FOLDER REQUESTS GPUS | correlate FOLDER | datafusion FOLDER buckets|plain REQUESTS"
            );
            Ok(())
        }
    }
}

/// Sums over the rows of an answer, which are equal where the answers are.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    n_rows: u64,
    n_samples: i64,
    power_w_avg: f64,
    util_pct_avg: f64,
    sm_clock_mhz_min: f64,
    temp_c_max: f64,
}

/// What one side did.
struct Outcome {
    side: String,
    n_requests: usize,
    read_s: f64,
    /// Of the processor: other programs of the machine do not count.
    join_s: f64,
    sums: Sums,
}

impl Outcome {
    fn print(&self) {
        let sums = &self.sums;
        println!(
            "{{\"side\": \"{}\", \"requests\": {}, \"read_s\": {:.3}, \"join_s\": {:.3}, \"rows\": {}, \"samples\": {}, \
             \"power_w_avg\": {}, \"util_pct_avg\": {}, \"sm_clock_mhz_min\": {}, \"temp_c_max\": {}, \"peak_mib\": {}}}",
            self.side,
            self.n_requests,
            self.read_s,
            self.join_s,
            sums.n_rows,
            sums.n_samples,
            sums.power_w_avg,
            sums.util_pct_avg,
            sums.sm_clock_mhz_min,
            sums.temp_c_max,
            peak_mib(),
        );
    }
}

/// Time that all threads of this process had a processor, in hundredths of a second.
fn processor_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Behind the name, which may hold spaces, user and system time are the 12th and 13th field.
    let fields = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace();
    let ticks = fields
        .skip(11)
        .take(2)
        .filter_map(|ticks| ticks.parse::<f64>().ok());
    ticks.sum::<f64>() / 100.0
}

/// The largest resident memory of this process so far; 0 where the system does not say.
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}
