//! `whyslow simulate`: what other policies would have done with the stored traffic.
//!
//! Every trace left a row in `traces`, kept or not, so the question has an answer for most of them
//! without their spans: duration, errors, size and trace id are there. Where policies look at
//! attributes, the spans of kept traces are read, and what is not stored is said to be unknown. See
//! [`sampler::partial`] for what is exact and what likely.

mod report;
mod tally;

use std::path::PathBuf;

use anyhow::bail;
use sampler::partial::Replay;

use crate::history::{self, History, Policies, Reader, Span, TraceRow};
use crate::moment::{Moment, now_micros};
use crate::show;
use crate::show::progress::Progress;
use crate::sql::source::{Source, SourceArgs};

pub(crate) use report::{because, time};

use self::tally::Tally;

/// Try the policies of a file on the stored traces, and show what would change.
///
/// Nothing is changed. Each trace is judged as it was when it was decided: other waits are not
/// simulated. A trace that was not kept has no stored spans; policies that look at their attributes
/// cannot decide it, and it counts as unknown, with the reason. `likely` marks what rests on an
/// assumption: the type of a value that is stored as text, what engine requests tell of a trace without
/// spans, and budgets of policies, which are replayed in the order of the decisions. The `budget` for all
/// is not replayed, what links to a kept trace is not followed, and what `adaptive` says is unknown.
///
/// The exit code is 0 also where traces are unknown, 1 if it failed, and 64 if the file is refused.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    whyslow simulate -c new.yaml --since 7d\n  \
    whyslow simulate -c new.yaml --data s3://traces/prod --since 2026-11-01 --until 2026-11-08 --format json")]
pub(crate) struct Args {
    /// Pipeline file, or a Collector's file with one `tail_sampling` section; without one the
    /// built-in default is tried.
    #[arg(short, long, value_name = "FILE", env = "WHYSLOW_CONFIG")]
    config: Option<PathBuf>,
    /// Traces that began at this time or later: `7d` (ago), `2026-11-30`, `2026-11-30T09:00:00Z`.
    /// Without it, all that are stored.
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    since: Option<Moment>,
    /// Traces that began before this time.
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    until: Option<Moment>,
    /// Tables for people, one object, or `section,item,measure,value` lines.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    #[command(flatten)]
    source: SourceArgs,
}

/// The form of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Aligned columns.
    Table,
    /// One object.
    Json,
    /// Comma-separated values, one measure a line.
    Csv,
}

fn parse_moment(text: &str) -> Result<Moment, String> {
    let wrong = || "not a time such as `7d`, `2026-11-30` or `2026-11-30T09:00:00Z`".to_owned();
    let moment = Moment::ago(text).or_else(|| Moment::at(text));
    moment.ok_or_else(wrong)
}

/// Runs the command.
pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let policies = Policies::load(args.config.as_deref())?;
    let replay = Replay::new(&policies.sampler)?;
    let now_micros = now_micros();
    let span = Span {
        since_micros: args.since.map(|moment| moment.micros(now_micros)),
        until_micros: args.until.map(|moment| moment.micros(now_micros)),
    };
    if let (Some(since), Some(until)) = (span.since_micros, span.until_micros)
        && since >= until
    {
        bail!("`--since` is not before `--until`: no trace can be between them");
    }
    let source = args.source.open().await?;
    let tally = simulate(&source, &policies, replay, span).await?;
    show::print(&match args.format {
        Format::Table => report::table(&policies.name, &tally),
        Format::Json => report::json(&policies.name, &tally)?,
        Format::Csv => report::csv(&tally),
    })?;
    Ok(())
}

async fn simulate(
    source: &Source,
    policies: &Policies,
    mut replay: Replay,
    span: Span,
) -> anyhow::Result<Tally> {
    let (mut history, extent) = History::begin(source, span).await?;
    let names = policies
        .sampler
        .policies
        .iter()
        .map(|policy| policy.name.clone());
    let mut tally = Tally::new(names.collect(), extent);
    tally.has_budget = policies.sampler.budget.is_some();
    let mut progress = Progress::new(extent.n_traces, "traces");
    let reader = Reader::new(&replay, &policies.redaction);
    loop {
        let page = history.page().await?;
        if page.is_empty() {
            break;
        }
        let needs: Vec<bool> = page
            .iter()
            .map(|row| needs_spans(&mut replay, row))
            .collect();
        for group in history::groups(&page, &needs) {
            let (rows, needs) = (&page[group.clone()], &needs[group]);
            let traces = history::evidence(source, &reader, &replay, rows, needs).await?;
            for (row, trace) in rows.iter().zip(&traces) {
                let judged = replay.judge(trace);
                tally.add(row, &judged, |policy| replay.doubts(trace, policy));
                progress.advance("");
            }
        }
    }
    progress.finish();
    Ok(tally)
}

/// Is there anything that the row does not decide? Budgets take from what policies say that are not
/// credited, so with them all is needed.
fn needs_spans(replay: &mut Replay, row: &TraceRow) -> bool {
    if !replay.reads_spans() {
        return false;
    }
    if replay.has_budget() {
        return true;
    }
    let judged = replay.judge(&row.begin(replay));
    let is_credited =
        judged.policy.is_exact() || judged.decision.value() == Some(sampler::Decision::NotSampled);
    !(judged.decision.is_exact() && is_credited)
}

#[cfg(test)]
mod tests {
    use super::{Moment, parse_moment};

    #[test]
    fn a_moment_is_a_time_ago_or_a_date() {
        for (text, expected) in [
            ("7d", Some(Moment::Ago(604_800_000_000))),
            ("1970-01-02", Some(Moment::At(86_400_000_000))),
            ("1970-01-01T00:00:01Z", Some(Moment::At(1_000_000))),
            ("1970-01-01T01:00:00+01:00", Some(Moment::At(0))),
            ("yesterday", None),
            ("", None),
            ("0d", None),
        ] {
            assert_eq!(parse_moment(text).ok(), expected, "{text}");
        }
    }
}
