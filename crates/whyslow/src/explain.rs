//! `whyslow explain`: why one request was slow, with the facts and where they stand.
//!
//! `facts` asks for what is stored about the request and its surroundings, by SQL, from a server or from tables; the crate
//! `correlate` explains; `text` and `json` say it. What is not stored is not known, and is said to be so.

mod batches;
mod facts;
mod json;
mod rows;
mod text;

use crate::{show, sql::source::SourceArgs};

/// Explain why a request was slow: the phase that exceeds the usual, and what the evidence says about its cause.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    whyslow explain 4bf92f3577b34da6a3ce929d0e0e4736\n  \
    whyslow explain 4bf92f3577b34da6a3ce929d0e0e4736 --format json\n  \
    whyslow explain 4bf92f3577b34da6a3ce929d0e0e4736 --data ./whyslow-data/tables")]
pub(crate) struct Args {
    /// Trace, 32 hex digits; `whyslow slow` lists them.
    #[arg(value_name = "TRACE_ID", value_parser = otlp::TraceId::parse_hex)]
    trace_id: otlp::TraceId,
    /// Engine span, where the trace has several requests; without it, the longest.
    #[arg(long, value_name = "SPAN_ID", value_parser = otlp::SpanId::parse_hex)]
    span: Option<otlp::SpanId>,
    /// Text for people, JSON for programs.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    #[command(flatten)]
    source: SourceArgs,
}

/// The form of the explanation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Text,
    Json,
}

/// Runs the command.
pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let source = args.source.open().await?;
    let subject = facts::load(&source, args.trace_id, args.span).await?;
    let explanation = correlate::explain(&subject.facts);
    let said = match args.format {
        Format::Text => text::render(&subject, &explanation),
        Format::Json => json::render(&subject, &explanation)?,
    };
    show::print(&said)?;
    Ok(())
}
