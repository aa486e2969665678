//! A lake for questions: hours of a simulated fleet ([`loadgen::fleet`]), through the code that stores them in a service.
//!
//! `benches/drilldown/run` beside the crates calls it, serves the lake and asks; by hand:
//!
//! ```sh
//! cargo bench --workspace --bench drilldown -- /tmp/lake 10000000
//! ```
//!
//! It prints one line of JSON: what is in each table. All traces are kept. What a service does over hours is done slice by
//! slice of simulated time: spans, requests and traces from the bytes of exports, samples from those of scrapes,
//! evidence from the join. Slices are committed, then merged as `whyslow maintain` merges them; the last one is committed in the
//! service's interval and left so, as it is between two maintenances. The end of the last one is now.
#![expect(clippy::print_stdout, reason = "a bench prints its numbers")]

mod rows;
mod slice;

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lake::{Lake, Location, Maintenance, Mode, Report};

use rows::{Rows, TABLES};
use slice::{SLICE, Slice};

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

/// Who writes.
const WRITER: &str = "drilldown";

/// As the default of the service.
const TARGET_FILE_BYTES: u64 = 64 << 20;

const SECOND: u64 = 1_000_000_000;

#[tokio::main]
async fn main() -> Result<()> {
    // Cargo says that it is a bench.
    let args: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| arg != "--bench")
        .collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        [folder, n_spans] => make(Path::new(folder), n_spans.parse()?).await,
        _ => {
            println!("FOLDER SPANS");
            Ok(())
        }
    }
}

async fn make(folder: &Path, n_wanted: u64) -> Result<()> {
    let location = Location::parse(folder.to_str().ok_or("the folder's name is no UTF-8")?)?;
    let lake = Lake::open(&location, &tables::all(), Mode::Create).await?;
    let slice_nanos = u64::try_from(SLICE.as_nanos())?;
    let now = u64::try_from(now().duration_since(UNIX_EPOCH)?.as_nanos())?;
    let end = now - now % SECOND;
    // A trial tells how many slices it takes.
    let n_trial = slice::n_spans(&slice::simulate(0, end - slice_nanos));
    let n_slices = n_wanted.div_ceil(n_trial.max(1)).max(1);
    let mut rows = Rows::new()?;
    let mut sequence = 0;
    for number in 0..n_slices {
        let start = end - (n_slices - number) * slice_nanos;
        let run = slice::simulate(number + 1, start);
        let is_last = number + 1 == n_slices;
        let groups = Slice::new(&run, start + slice_nanos, is_last)?;
        for group in groups.groups() {
            sequence += 1;
            for (table, batches) in rows.build(group)? {
                let table = lake.table(table).ok_or("the lake lacks a table")?;
                for batch in batches {
                    table.append(WRITER, sequence, batch);
                }
            }
            for name in TABLES {
                let table = lake.table(name).ok_or("the lake lacks a table")?;
                table.commit(WRITER, sequence).await?;
            }
        }
        // The last slice is what came since.
        if number + 2 == n_slices || (number % 32 == 31 && !is_last) {
            maintain(&lake).await?;
        }
        eprint(&format!("\r{}/{n_slices} slices", number + 1));
    }
    eprint("\n");
    println!("{}", told(&lake, end));
    Ok(())
}

async fn maintain(lake: &Lake) -> Result<()> {
    let settings = Maintenance {
        target_file_bytes: TARGET_FILE_BYTES,
        retention_days: None,
        // Nobody reads yet.
        vacuum_after: Duration::ZERO,
        owner: WRITER.to_owned(),
        clock: Arc::new(now),
    };
    for table in lake.tables() {
        let report: Report = table.maintain(&settings, |_| ()).await?;
        if let Some(failure) = report.failures.into_iter().next() {
            return Err(failure.into());
        }
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "the lake ends now")]
fn now() -> SystemTime {
    SystemTime::now()
}

/// Rows, bytes and files of each table.
fn told(lake: &Lake, end_unix_nano: u64) -> String {
    let tables = lake.tables().iter().map(|table| {
        let view = table.view();
        let n_rows: u64 = view.files.iter().filter_map(|file| file.n_rows).sum();
        let n_bytes: u64 = view.files.iter().map(|file| file.size_bytes).sum();
        let name = table.spec().name;
        let paths = view.files.iter();
        let paths: Vec<String> = paths
            .map(|file| format!("\"{name}/{}\"", file.path))
            .collect();
        format!(
            "\"{name}\": {{\"rows\": {n_rows}, \"bytes\": {n_bytes}, \"files\": [{}]}}",
            paths.join(", ")
        )
    });
    let tables: Vec<String> = tables.collect();
    format!(
        "{{\"end_unix_nano\": {end_unix_nano}, \"tables\": {{{}}}}}",
        tables.join(", ")
    )
}

#[expect(clippy::print_stderr, reason = "a bench says how far it is")]
fn eprint(text: &str) {
    eprint!("{text}");
}
