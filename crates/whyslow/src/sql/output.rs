//! An answer to standard output, in the wished format.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Instant;

use anyhow::{Context as _, bail};

use super::source::{Answer, SourceArgs, Statement};
use crate::show::table::{self, Table};
use crate::show::{self, text};

/// A table has to be read whole to be aligned, and nobody reads more.
const TABLE_ROWS: u64 = 1_000;

/// The end of a JSON answer that is searched for its summary: an error message fits in.
const TAIL_BYTES: usize = 16 << 10;

/// How rows are shown.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct OutputArgs {
    /// A table for people; the others for programs.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
    /// Show values of a table in full length.
    #[arg(long)]
    pub(crate) wide: bool,
}

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Aligned columns.
    Table,
    /// One object with `columns` and `rows`.
    Json,
    /// A header line and comma-separated values.
    Csv,
    /// An Arrow IPC stream.
    Arrow,
}

impl Format {
    /// What the server is asked for.
    pub(crate) fn wire(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Csv => "csv",
            Self::Table | Self::Arrow => "arrow",
        }
    }
}

impl OutputArgs {
    /// The row limit of a statement for which none is given.
    pub(crate) fn default_limit(&self) -> Option<u64> {
        (self.format == Format::Table).then_some(TABLE_ROWS)
    }
}

/// Asks a statement and writes its answer.
pub(crate) async fn answer(
    source: &SourceArgs,
    output: &OutputArgs,
    sql: &str,
    limit: Option<u64>,
) -> anyhow::Result<()> {
    if output.format == Format::Arrow && io::stdout().is_terminal() {
        bail!("an Arrow stream is not for a terminal; write it to a file with `> FILE`");
    }
    let source = source.open().await?;
    let begin = now();
    let statement = Statement {
        sql,
        format: output.format.wire(),
        limit,
    };
    let mut answer = source.ask(&statement).await?;
    if output.format != Format::Table {
        return pass_on(&mut answer, output.format).await;
    }
    let (schema, batches) = answer.batches().await?;
    let cell_chars_max = if output.wide {
        usize::MAX
    } else {
        table::CELL_CHARS_MAX
    };
    let table = Table::of_batches(&schema, &batches, cell_chars_max)
        .context("turn the answer into a table")?;
    let n_rows = batches.iter().map(|batch| batch.num_rows()).sum::<usize>();
    let n_rows = u64::try_from(n_rows).unwrap_or(u64::MAX);
    let footer = table::footer(n_rows, answer.is_truncated(n_rows), begin.elapsed());
    show::print(&format!("{table}{footer}\n"))?;
    Ok(())
}

/// Writes the answer's bytes as they come.
async fn pass_on(answer: &mut Answer, format: Format) -> anyhow::Result<()> {
    let mut tail = Vec::new();
    while let Some(piece) = answer.next().await? {
        let mut stdout = io::stdout().lock();
        match stdout.write_all(&piece).and_then(|()| stdout.flush()) {
            // Whoever read it has seen enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            written => written.context("write to standard output")?,
        }
        if format == Format::Json {
            tail.extend_from_slice(&piece);
            tail.drain(..tail.len().saturating_sub(TAIL_BYTES));
        }
    }
    if format == Format::Json
        && let Some(message) = json_error(&tail)
    {
        bail!(
            "the answer is not complete: {}",
            text::printable(&message, 4_000)
        );
    }
    Ok(())
}

/// The error at the end of a JSON answer: it comes after rows that are already written.
fn json_error(tail: &[u8]) -> Option<String> {
    const END_OF_ROWS: &[u8] = b"],\"row_count\":";
    let end = tail
        .windows(END_OF_ROWS.len())
        .rposition(|window| window == END_OF_ROWS)?;
    let mut summary = b"{".to_vec();
    summary.extend_from_slice(tail.get(end + 2..)?);
    let summary: serde_json::Value = serde_json::from_slice(&summary).ok()?;
    summary["error"]["message"].as_str().map(str::to_owned)
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
    use super::json_error;

    #[test]
    fn an_error_after_the_rows_is_found_at_the_end() {
        for (tail, expected) in [
            (
                r#"[1]],"row_count":1,"truncated":false,"elapsed_ms":3}"#,
                None,
            ),
            (
                r#"[1]],"row_count":1,"truncated":false,"elapsed_ms":3,
                   "error":{"code":"timed_out","message":"too slow"}}"#,
                Some("too slow"),
            ),
            (
                r#"[["],\"row_count\":1}"]],"row_count":1,"error":{"code":"x","message":"y"}}"#,
                Some("y"),
            ),
            (r#"[["],"row_count":"#, None),
            ("", None),
        ] {
            assert_eq!(json_error(tail.as_bytes()).as_deref(), expected, "{tail}");
        }
    }
}
