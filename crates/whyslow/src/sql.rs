//! `whyslow sql`: one statement, its rows as a table, JSON, CSV or an Arrow stream.

pub(crate) mod output;
pub(crate) mod source;

use std::io::Read as _;
use std::path::PathBuf;

use anyhow::{Context as _, bail};

use output::OutputArgs;
use source::SourceArgs;

/// The longest statement that is read from a file or standard input; servers take less.
const STATEMENT_BYTES_MAX: u64 = 16 << 20;

/// Ask a running Whyslow, or stored tables, a read-only SQL statement.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    whyslow sql \"SELECT model, count(*) FROM requests GROUP BY model\"\n  \
    whyslow sql --data s3://traces/prod --format csv --file slow.sql > slow.csv\n  \
    echo \"SHOW TABLES\" | whyslow sql -")]
pub(crate) struct Args {
    /// The statement; `-` reads it from standard input.
    #[arg(
        value_name = "SQL",
        required_unless_present = "file",
        conflicts_with = "file"
    )]
    statement: Option<String>,
    /// Read the statement from a file.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    output: OutputArgs,
    /// Rows at most; the server may allow fewer.
    #[arg(long, value_name = "ROWS")]
    limit: Option<u64>,
}

/// Runs the command.
pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let statement = match (args.statement.as_deref(), &args.file) {
        (Some("-"), _) => read_statement(std::io::stdin().lock())
            .context("read the statement from standard input")?,
        (Some(statement), _) => statement.to_owned(),
        (None, Some(path)) => std::fs::File::open(path)
            .map_err(anyhow::Error::from)
            .and_then(read_statement)
            .with_context(|| format!("read the statement from `{}`", path.display()))?,
        (None, None) => bail!("there is no statement"),
    };
    let limit = args.limit.or_else(|| args.output.default_limit());
    output::answer(&args.source, &args.output, &statement, limit).await
}

fn read_statement(from: impl std::io::Read) -> anyhow::Result<String> {
    let mut statement = String::new();
    let n_bytes = from
        .take(STATEMENT_BYTES_MAX + 1)
        .read_to_string(&mut statement)?;
    if u64::try_from(n_bytes).is_ok_and(|n_bytes| n_bytes > STATEMENT_BYTES_MAX) {
        bail!("it is longer than {STATEMENT_BYTES_MAX} bytes");
    }
    Ok(statement)
}
