//! `whyslow compare`: did the fix work, whom did the deployment hit, and is it more than chance.
//!
//! `sides` are what the command line compares; `load` reads the requests of both, of all traffic, from a server or from tables;
//! the crate `correlate` compares; `text`, `json` and `lines` say it. What cannot be said is said to be so.

mod json;
mod lines;
mod load;
mod sides;
mod text;

use std::io::{self, IsTerminal as _};

use anyhow::bail;
use correlate::compare::{Comparison, Latency, Measure, Settings, compare};

use self::sides::{Sides, SidesArgs};
use crate::{moment::now_micros, show, sql::source::SourceArgs};

/// Compare requests before and after: what changed for sure, by how much, for whom, and what the slow ones have in common.
///
/// Every engine request counts, kept or not. For all requests and by cohort, quantiles of each latency and rates of errors,
/// cancelled and empty answers are compared, and the mix of traffic. What is reported is more than chance at the stated confidence
/// over everything that was looked at; blocks of time, not requests, count as independent. Over all requests, a change is that
/// within cohorts: what only the mix changed is told apart.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    whyslow compare --since-deploy 2026-11-30T10:30 --window 1h\n  \
    whyslow compare --before 2026-11-30T10:00..10:30 --after 2026-11-30T11:00..11:30 --by model,k8s_pod_name\n  \
    whyslow compare --last 2h --before-where \"service_name = 'stable'\" --after-where \"service_name = 'canary'\"\n  \
    whyslow compare --since-deploy 45m --data ./whyslow-data/tables --format json")]
pub(crate) struct Args {
    #[command(flatten)]
    sides: SidesArgs,
    /// Columns of `requests` that make cohorts.
    #[arg(
        long,
        value_name = "COLUMNS",
        value_delimiter = ',',
        default_value = "model,input_band,output_band"
    )]
    by: Vec<String>,
    /// Confidence of intervals, and that nothing is reported where nothing changed.
    #[arg(long, value_name = "SHARE", default_value_t = 0.95, value_parser = parse_confidence)]
    confidence: f64,
    /// Least change that is reported, relative to before; of shares of traffic, a fifth of it in absolute terms.
    #[arg(long, value_name = "SHARE", default_value_t = 0.05, value_parser = parse_share)]
    at_least: f64,
    /// Requests above this quantile of before are the slow ones.
    #[arg(long, value_name = "QUANTILE", default_value_t = 0.95, value_parser = parse_confidence)]
    slower_than: f64,
    /// The latency that they are slow by, such as `engine_ttft_s`; without it, the one that grew most.
    #[arg(long, value_name = "COLUMN", value_parser = parse_latency)]
    slow_by: Option<Latency>,
    /// Requests that are read at most; of more, an even sample is.
    #[arg(long, value_name = "ROWS", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(100..))]
    rows: u64,
    /// Text for people, the others for programs.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    #[command(flatten)]
    source: SourceArgs,
}

/// The form of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// The verdict, what changed, and what cannot be concluded.
    Text,
    /// One object with everything.
    Json,
    /// A header line, and a line for each measure.
    Csv,
    /// The same as an Arrow IPC stream.
    Arrow,
}

/// What was compared and what came out.
struct Compared {
    sides: Sides,
    by: Vec<String>,
    /// Requests of each side in the table.
    n_stored: [u64; 2],
    /// Which share of them was read.
    share: f64,
    /// The quantile of before that slow ones are above.
    slower_than: f64,
    /// Was it asked for what slow ones are slow by?
    is_slow_asked: bool,
    comparison: Comparison,
}

/// Runs the command.
pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    if args.format == Format::Arrow && io::stdout().is_terminal() {
        bail!("an Arrow stream is not for a terminal; write it to a file with `> FILE`");
    }
    let compared = compared(&args, now_micros()).await?;
    match args.format {
        Format::Text => show::print(&text::render(&compared))?,
        Format::Json => show::print(&json::render(&compared)?)?,
        Format::Csv => lines::write(&lines::csv(&compared)?)?,
        Format::Arrow => lines::write(&lines::arrow(&compared)?)?,
    }
    Ok(())
}

async fn compared(args: &Args, now: i64) -> anyhow::Result<Compared> {
    let sides = args.sides.sides(now)?;
    let source = args.source.open().await?;
    let loaded = load::load(&source, &sides, &args.by, args.rows).await?;
    let settings = Settings {
        by: args.by.clone(),
        confidence: args.confidence,
        change_least: args.at_least,
        share_least: args.at_least / 5.0,
        slow_from: args.slower_than,
        slow_by: args.slow_by,
        has_load: sides.has_load(),
        ..Settings::default()
    };
    let mut comparison = compare(&loaded.samples, &settings);
    comparison.open.extend(loaded.notes);
    comparison
        .open
        .extend(still_running(&comparison, &sides, now));
    if loaded.share < 1.0 {
        comparison.open.push(format!(
            "an even sample of {:.3} % of the requests was read (`--rows`): intervals are wider than they need to be",
            loaded.share * 100.0
        ));
    }
    Ok(Compared {
        sides,
        by: args.by.clone(),
        n_stored: loaded.n_stored,
        share: loaded.share,
        slower_than: args.slower_than,
        is_slow_asked: args.slow_by.is_some(),
        comparison,
    })
}

/// Requests that began lately and still run, or whose trace is not decided, are not stored: the slowest are missing.
fn still_running(comparison: &Comparison, sides: &Sides, now: i64) -> Option<String> {
    /// Until a trace is decided and stored.
    const STORED_AFTER_SECONDS: f64 = 60.0;
    let longest = comparison
        .changes
        .iter()
        .filter_map(|change| match change.measure {
            Measure::Quantile {
                latency: Latency::E2e,
                ..
            } => Some(change.after.high),
            _ => None,
        });
    let needed = STORED_AFTER_SECONDS + longest.fold(0.0, f64::max);
    let since_end = now.saturating_sub(sides.after.span.to) as f64 / 1e6;
    (since_end < needed).then(|| {
        format!(
            "requests of the last {:.0} s may still run or not be stored yet, and of these the slowest are missing; compare again \
             later, or end earlier",
            needed - since_end.max(0.0)
        )
    })
}

fn parse_confidence(text: &str) -> Result<f64, String> {
    let share: Option<f64> = text.parse().ok();
    share
        .filter(|share| (0.5..=0.999).contains(share))
        .ok_or_else(|| "not a share from 0.5 to 0.999, such as 0.95".to_owned())
}

fn parse_share(text: &str) -> Result<f64, String> {
    let share: Option<f64> = text.parse().ok();
    share
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| "not a share from 0 to 1, such as 0.05 for 5 %".to_owned())
}

fn parse_latency(text: &str) -> Result<Latency, String> {
    let mut all = Latency::ALL.into_iter();
    all.find(|latency| latency.column() == text).ok_or_else(|| {
        format!(
            "not one of {}",
            Latency::ALL.map(Latency::column).join(", ")
        )
    })
}

#[cfg(test)]
mod tests;
