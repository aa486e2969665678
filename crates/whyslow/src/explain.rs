//! `whyslow explain`: why requests were slow, with the facts and where they stand.
//!
//! The crate `query` asks for what is stored, from a server or from tables, and says it for programs, as it does for
//! `GET /v1/explain/{id}`; the crate `correlate` explains; `text` says it for people.

mod text;

use std::io::BufRead as _;

use anyhow::{Context as _, bail, ensure};
use arrow::array::RecordBatch;
use otlp::{SpanId, TraceId};
use query::explain::{Ask, AskError, Source, load, object};

use crate::show;
use crate::sql::source::{self, SourceArgs};

/// Explain why a request was slow: the phase that exceeds the usual, and what the evidence says about its cause.
///
/// Of several traces, those of which nothing is stored are named, and the exit code is 1.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    whyslow explain 4bf92f3577b34da6a3ce929d0e0e4736\n  \
    whyslow explain 4bf92f3577b34da6a3ce929d0e0e4736 --format json\n  \
    whyslow explain 4bf92f3577b34da6a3ce929d0e0e4736 --data ./whyslow-data/tables\n  \
    whyslow explain --format jsonl - <trace-ids.txt\n\n\
    The same over HTTP, every request of the trace:\n  \
    curl -s http://127.0.0.1:7070/v1/explain/4bf92f3577b34da6a3ce929d0e0e4736\n\
    The trace itself, as OTLP, arrow, parquet, or for ui.perfetto.dev:\n  \
    curl -s 'http://127.0.0.1:7070/v1/traces/4bf92f3577b34da6a3ce929d0e0e4736?format=perfetto' -o trace.json")]
pub(crate) struct Args {
    /// Traces, 32 hex digits each; `whyslow slow` lists them. `-` reads them from standard input, one a line.
    #[arg(value_name = "TRACE_ID", value_parser = parse_wanted, required = true)]
    wanted: Vec<Wanted>,
    /// Engine span, where the trace has several requests; without it, the longest.
    #[arg(long, value_name = "SPAN_ID", value_parser = SpanId::parse_hex)]
    span: Option<SpanId>,
    /// Text for people; JSON for programs, each trace on one line with `jsonl`.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    #[command(flatten)]
    source: SourceArgs,
}

/// What to explain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Trace(TraceId),
    /// Those that standard input names.
    Named,
}

fn parse_wanted(text: &str) -> Result<Wanted, otlp::IdError> {
    match text {
        "-" => Ok(Wanted::Named),
        text => TraceId::parse_hex(text).map(Wanted::Trace),
    }
}

/// The form of the explanation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Text,
    Json,
    Jsonl,
}

/// Runs the command.
pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let trace_ids = args.trace_ids()?;
    ensure!(
        args.span.is_none() || trace_ids.len() == 1,
        "`--span` is one of one trace; {} are given",
        trace_ids.len()
    );
    let source = Source::new(args.source.open().await?);
    if let [trace_id] = trace_ids.as_slice() {
        let said = explained(&source, *trace_id, &args).await?;
        return Ok(show::print(&said)?);
    }
    let mut n_failed = 0;
    for (idx, trace_id) in trace_ids.iter().enumerate() {
        let said = match explained(&source, *trace_id, &args).await {
            Ok(said) => said,
            Err(error) => {
                n_failed += 1;
                show::print_error(&format!("whyslow: {error:#}\n"));
                continue;
            }
        };
        if args.format == Format::Text && idx > 0 {
            show::print("\n")?;
        }
        show::print(&said)?;
    }
    if n_failed > 0 {
        bail!(
            "{n_failed} of {} traces could not be explained",
            trace_ids.len()
        );
    }
    Ok(())
}

impl Ask for source::Source {
    async fn rows(&self, sql: &str) -> Result<Vec<RecordBatch>, AskError> {
        Ok(Self::rows(self, sql).await?)
    }
}

async fn explained(
    source: &Source<source::Source>,
    trace_id: TraceId,
    args: &Args,
) -> anyhow::Result<String> {
    let subjects = load(source, trace_id, args.span, 1).await?;
    let subject = subjects.first().context("a trace without a subject")?;
    let explanation = correlate::explain(&subject.facts);
    let written = match args.format {
        Format::Text => return Ok(text::render(subject, &explanation)),
        Format::Json => serde_json::to_string_pretty(&object(subject, &explanation)),
        Format::Jsonl => serde_json::to_string(&object(subject, &explanation)),
    };
    Ok(written.context("write the explanation as JSON")? + "\n")
}

impl Args {
    fn trace_ids(&self) -> anyhow::Result<Vec<TraceId>> {
        let mut trace_ids = Vec::with_capacity(self.wanted.len());
        for wanted in &self.wanted {
            match wanted {
                Wanted::Trace(trace_id) => trace_ids.push(*trace_id),
                Wanted::Named => trace_ids.extend(named()?),
            }
        }
        ensure!(!trace_ids.is_empty(), "standard input names no trace");
        Ok(trace_ids)
    }
}

/// Trace ids on standard input, one a line.
fn named() -> anyhow::Result<Vec<TraceId>> {
    let mut trace_ids = Vec::new();
    for (line, number) in std::io::stdin().lock().lines().zip(1..) {
        let line = line.context("read standard input")?;
        let id = line.trim();
        if !id.is_empty() {
            let trace_id = TraceId::parse_hex(id);
            trace_ids
                .push(trace_id.with_context(|| format!("read line {number} of standard input"))?);
        }
    }
    Ok(trace_ids)
}
