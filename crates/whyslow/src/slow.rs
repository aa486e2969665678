//! `whyslow slow`: the failed and the slowest requests, one line each.

mod lines;

use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use query::explain::quoted;

use crate::show;
use crate::show::table::{self, Table};
use crate::sql::output::{self, Format, OutputArgs};
use crate::sql::source::SourceArgs;

/// Show the requests that failed and those that took longest, and the phase that took their time.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    whyslow slow --last 15m --model meta-llama/Llama-3.1-8B-Instruct\n  \
    whyslow slow --data ./whyslow-data/lake --last 7d --format csv")]
pub(crate) struct Args {
    /// How far back requests may have begun: `90s`, `15m`, `1h`, `7d`.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_span)]
    last: Duration,
    /// Requests at most.
    #[arg(long, value_name = "ROWS", default_value_t = 20)]
    limit: u64,
    /// Only this model.
    #[arg(long)]
    model: Option<String>,
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the command.
pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let sql = statement(args.last, args.model.as_deref(), args.limit);
    if args.output.format != Format::Table {
        return output::answer(&args.source, &args.output, &sql, None).await;
    }
    let source = args.source.open().await?;
    let begin = now();
    let batches = source.rows(&sql).await?;
    let cell_chars_max = if args.output.wide {
        usize::MAX
    } else {
        lines::CELL_CHARS_MAX
    };
    let (table, n_rows) = lines::table(&batches, cell_chars_max)?;
    let footer = table::footer(n_rows, false, begin.elapsed());
    show::print(&format!("{table}{footer}\n"))?;
    Ok(())
}

/// The lines of an answer to [`statement`], and how many there are.
pub(crate) fn table(batches: &[RecordBatch]) -> anyhow::Result<(Table, u64)> {
    lines::table(batches, lines::CELL_CHARS_MAX)
}

/// Asks for requests that began within the last time: failed ones first, then by duration.
pub(crate) fn statement(last: Duration, model: Option<&str>, limit: u64) -> String {
    let model = model
        .map(|model| format!(" AND model = {}", quoted(model)))
        .unwrap_or_default();
    let columns = lines::COLUMNS.join(", ");
    format!(
        "SELECT {columns} FROM slow_requests \
         WHERE start_time >= now() - INTERVAL '{} seconds'{model} \
         ORDER BY failed DESC, e2e_s DESC NULLS LAST LIMIT {limit}",
        last.as_secs()
    )
}

/// A whole number with one of the units s, m, h, d; at most ten years.
pub(crate) fn parse_span(text: &str) -> Result<Duration, String> {
    const SECONDS_MAX: u64 = 10 * 366 * 86_400;
    let wrong = || "not a time such as `90s`, `15m`, `1h` or `7d`".to_owned();
    let (number, unit) = text
        .split_at_checked(text.len().saturating_sub(1))
        .ok_or_else(wrong)?;
    let unit_seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_invalid| wrong())?;
    match number.checked_mul(unit_seconds) {
        Some(0) => Err(wrong()),
        Some(seconds @ ..=SECONDS_MAX) => Ok(Duration::from_secs(seconds)),
        _ => Err("longer than ten years".to_owned()),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the command measures how long the answer takes"
)]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::{Duration, parse_span, statement};

    #[test]
    fn time_spans_are_read_and_senseless_ones_refused() {
        for (text, seconds) in [
            ("90s", Some(90)),
            ("15m", Some(900)),
            ("1h", Some(3_600)),
            ("7d", Some(604_800)),
            ("0s", None),
            ("-1h", None),
            ("1", None),
            ("h", None),
            ("", None),
            ("1 h", None),
            ("1\u{fc}", None),
            ("99999999999999999999d", None),
            ("9999999999999999d", None),
            ("4000d", None),
        ] {
            assert_eq!(
                parse_span(text).ok(),
                seconds.map(Duration::from_secs),
                "{text}"
            );
        }
    }

    #[test]
    fn a_model_cannot_leave_its_quotes() {
        let sql = statement(Duration::from_secs(60), Some("a' OR '1'='1"), 5);
        expect![["SELECT start_time, trace_id, request_id, model, outcome, e2e_s, engine_ttft_s, queue_s, prefill_s, decode_s, longest_phase, longest_phase_share, input_tokens, output_tokens FROM slow_requests WHERE start_time >= now() - INTERVAL '60 seconds' AND model = 'a'' OR ''1''=''1' ORDER BY failed DESC, e2e_s DESC NULLS LAST LIMIT 5"]].assert_eq(&sql);
    }
}
