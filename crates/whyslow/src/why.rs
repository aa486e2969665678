//! `whyslow why`: what each policy says of one stored trace, and what was decided.
//!
//! The verdicts are those of the file that is given now, on what is stored of the trace; the decision,
//! its policy and its trigger are those that were stored when it was taken. The two may differ: the
//! file may be another one, or a budget was empty.

mod words;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use arrow::array::{AsArray as _, RecordBatch};
use otlp::TraceId;
use sampler::partial::{Asked, Doubt, Judged, Known, Replay, Said};
use sampler::{Decision, Trigger};
use serde_json::{Value, json};
use tables::spans::StoredSpans;

use crate::history::{self, Policies, Reader, TraceRow};
use crate::show::table::{Align, Table};
use crate::show::{self, text};
use crate::simulate::{because, time};
use crate::sql::source::{Source, SourceArgs};

use self::words::Seen;

/// Show why a trace was kept or not: the verdict of each policy, the decision and its trigger.
///
/// The verdicts are by the file that is given now, which need not be the one that decided; where the
/// two contradict each other, that is said. A trace that is not yet decided has no row. The exit
/// code is 1 if no row of the trace is found.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    whyslow why 4bf92f3577b34da6a3ce929d0e0e4736\n  \
    whyslow why -c new.yaml --data ./whyslow-data/tables 4bf92f3577b34da6a3ce929d0e0e4736 --format json")]
pub(crate) struct Args {
    /// The trace, 32 hex digits.
    #[arg(value_name = "TRACE_ID", value_parser = TraceId::parse_hex)]
    trace_id: TraceId,
    /// Pipeline file with the policies; without one the built-in default.
    #[arg(short, long, value_name = "FILE", env = "WHYSLOW_CONFIG")]
    config: Option<PathBuf>,
    /// A report for people, or one object.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    #[command(flatten)]
    source: SourceArgs,
}

/// The form of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Text and a table.
    Table,
    /// One object.
    Json,
}

/// One decision on the trace, and what the policies of the file say.
struct Explained {
    row: TraceRow,
    judged: Judged,
    /// Of each policy in file order.
    doubts: Vec<Vec<Doubt>>,
    seen: Seen,
}

/// What is stored of the trace besides its rows in `traces`.
#[derive(Debug, Clone, Copy, Default)]
struct Stored {
    n_spans: u64,
    n_late_spans: u64,
    n_late_requests: u64,
}

/// Runs the command.
pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let policies = Policies::load(args.config.as_deref())?;
    let source = args.source.open().await?;
    let rows = history::trace(&source, args.trace_id).await?;
    if rows.is_empty() {
        bail!(
            "no trace {} is stored: it is not decided yet, older than rows are kept, or unknown",
            args.trace_id
        );
    }
    let stored = stored(&source, args.trace_id).await?;
    let mut explained = Vec::with_capacity(rows.len());
    for row in rows {
        explained.push(explain(&source, &policies, row).await?);
    }
    show::print(&match args.format {
        Format::Table => report(&policies, &explained, stored),
        Format::Json => {
            let decisions: Vec<Value> =
                explained.iter().map(|one| object(&policies, one)).collect();
            let report = json!({
                "trace_id": args.trace_id.to_string(),
                "policies_of": policies.name.trim_matches('`'),
                "decisions": decisions,
                "stored_spans": stored.n_spans,
                "late_spans": stored.n_late_spans,
                "late_requests": stored.n_late_requests,
            });
            serde_json::to_string_pretty(&report).context("write the answer as JSON")? + "\n"
        }
    })?;
    Ok(())
}

async fn stored(source: &Source, trace_id: TraceId) -> anyhow::Result<Stored> {
    let of = |table: &str, engines: &str| {
        format!(
            "SELECT late, count(*) AS n FROM {table} WHERE trace_id = '{trace_id}'{engines} GROUP BY late"
        )
    };
    let mut stored = Stored::default();
    for (is_late, n) in counts(&source.rows(&of("spans", "")).await?)? {
        stored.n_spans += n;
        stored.n_late_spans += if is_late { n } else { 0 };
    }
    for (is_late, n) in counts(
        &source
            .rows(&of("requests", " AND position = 'engine'"))
            .await?,
    )? {
        stored.n_late_requests += if is_late { n } else { 0 };
    }
    Ok(stored)
}

fn counts(batches: &[RecordBatch]) -> anyhow::Result<Vec<(bool, u64)>> {
    let mut found = Vec::new();
    for batch in batches {
        let (late, n) = (history::cells(batch, "late")?, history::cells(batch, "n")?);
        let late = late
            .as_boolean_opt()
            .context("column `late` is no boolean")?;
        found.extend(
            (0..batch.num_rows())
                .map(|row| (late.value(row), history::count(&n, row).unwrap_or(0))),
        );
    }
    Ok(found)
}

async fn explain(source: &Source, policies: &Policies, row: TraceRow) -> anyhow::Result<Explained> {
    let mut replay = Replay::new(&policies.sampler)?;
    let reader = Reader::new(&replay, &policies.redaction);
    let rows = std::slice::from_ref(&row);
    let traces = history::evidence(source, &reader, &replay, rows, &[true]).await?;
    let trace = traces.first().context("no evidence on the trace")?;
    let mut values = BTreeMap::new();
    if row.stored && replay.reads_spans() {
        for batch in history::spans(source, &[&row]).await? {
            for span in StoredSpans::over(&batch)?.iter() {
                reader.note_values(&span?, &mut values);
            }
        }
    }
    if !values.contains_key("service.name") && reader.reads_services() {
        values.insert("service.name".to_owned(), row.services.clone());
    }
    let judged = replay.judge(trace);
    let doubts = (0..judged.verdicts.len()).map(|policy| replay.doubts(trace, policy));
    Ok(Explained {
        doubts: doubts.collect(),
        seen: Seen {
            facts: row.facts,
            is_whole: trace.n_seen() >= row.facts.n_spans,
            values,
        },
        judged,
        row,
    })
}

fn report(policies: &Policies, explained: &[Explained], stored: Stored) -> String {
    let mut out = String::new();
    for one in explained {
        out.push_str(&headline(&one.row));
        out.push_str(&decision(&one.row));
        out.push_str(&coverage(&one.row, stored));
        out.push_str(&format!(
            "\nWhat the policies of {} say of it now:\n",
            policies.name
        ));
        out.push_str(&verdicts(policies, one).to_string());
        out.push_str(&conclusion(policies, one));
        if explained.len() > 1 {
            out.push('\n');
        }
    }
    out
}

fn headline(row: &TraceRow) -> String {
    let facts = &row.facts;
    let name = |name: &Option<String>| name.as_deref().map(|name| text::printable(name, 60));
    let mut parts = vec![format!("trace {}", facts.trace_id)];
    match (name(&row.root_service), name(&row.root_name)) {
        (Some(service), Some(root)) => parts.push(format!("`{root}` of {service}")),
        (None, Some(root)) => parts.push(format!("`{root}`")),
        (Some(service), None) => parts.push(format!("of {service}")),
        (None, None) => parts.push("without a root".to_owned()),
    }
    parts.push(words::seconds(facts.duration_ns));
    parts.push(text::counted(facts.n_spans, "span"));
    parts.push(text::counted(facts.n_error_spans, "error"));
    parts.push(text::bytes(facts.n_bytes));
    parts.extend(name(&row.model).map(|model| format!("model {model}")));
    parts.extend(
        row.start_micros
            .map(|start| format!("begun {}", time(start))),
    );
    parts.join(", ") + "\n"
}

fn decision(row: &TraceRow) -> String {
    let policy = row
        .policy
        .as_deref()
        .map(|policy| text::printable(policy, 60));
    let policy = policy
        .map(|policy| format!(" by `{policy}`"))
        .unwrap_or_default();
    let weight = match row.adjusted_count {
        Some(count) if count.fract() == 0.0 => format!("; stands for {count} of its kind"),
        Some(count) => format!("; stands for {count:.2} of its kind"),
        None if row.is_kept() => "; for how many of its kind it stands is unknown".to_owned(),
        None => String::new(),
    };
    let flags = match row.loss_flags.as_slice() {
        [] => String::new(),
        flags => format!("not whole: {}\n", text::printable(&flags.join(", "), 200)),
    };
    format!(
        "decided: {}{policy} at {}, because {}{weight}\n{flags}",
        text::printable(&row.decision, 20),
        time(row.decided_micros),
        words::trigger(&row.trigger),
    )
}

fn coverage(row: &TraceRow, stored: Stored) -> String {
    let n_on_time = stored.n_spans - stored.n_late_spans;
    let mut line = match (row.is_kept(), n_on_time) {
        (false, _) => "its spans are not stored: it was not kept".to_owned(),
        (true, 0) => "its spans are not stored any more".to_owned(),
        (true, n) => format!(
            "{} of its {} stored",
            text::count(n),
            text::counted(row.facts.n_spans, "span")
        ),
    };
    if stored.n_late_spans > 0 {
        line += &format!(
            "; {} came after the decision and followed it",
            text::counted(stored.n_late_spans, "span")
        );
    }
    if stored.n_late_spans == 0 && stored.n_late_requests > 0 {
        line += &format!(
            "; {} came after the decision and followed it",
            text::counted(stored.n_late_requests, "engine request")
        );
    }
    line + "\n"
}

fn verdicts(policies: &Policies, one: &Explained) -> Table {
    let mut table = Table::new([
        ("policy", Align::Left),
        ("verdict", Align::Left),
        ("evidence", Align::Left),
        ("rule", Align::Left),
    ]);
    for (number, asked) in one.judged.verdicts.iter().enumerate() {
        let Some(policy) = policies.sampler.policies.get(number) else {
            continue;
        };
        let rule = crate::check::policy::describe(&policy.policy_type);
        table.push(vec![
            text::printable(&policy.name, 40),
            verdict(*asked),
            text::printable(&evidence(policy, one, number), 100),
            text::printable(&rule, 100),
        ]);
    }
    table
}

fn evidence(policy: &sampler::Policy, one: &Explained, number: usize) -> String {
    let mut parts = words::evidence(&policy.policy_type, &one.seen);
    let is_open = one
        .judged
        .verdicts
        .get(number)
        .is_some_and(|asked| !asked.said.is_exact());
    if is_open {
        let doubts = one.doubts.get(number).into_iter().flatten();
        parts.extend(doubts.map(|doubt| format!("{}: {}", doubt.what, because(doubt.why))));
    }
    parts.join("; ")
}

fn verdict(asked: Asked) -> String {
    let said = match asked.said {
        Known::Exact(said) => said_in_words(said).to_owned(),
        Known::Likely(said) => format!("likely {}", said_in_words(said)),
        Known::Unknown => "unknown".to_owned(),
    };
    if asked.is_asked {
        said
    } else {
        format!("{said} (not asked)")
    }
}

fn said_in_words(said: Said) -> &'static str {
    match said {
        Said::Sampled => "sampled",
        Said::NotSampled => "not sampled",
        Said::Dropped => "dropped",
        Said::InvertSampled => "sampled (inverted)",
        Said::InvertNotSampled => "not sampled (inverted)",
        Said::Failed => "failed",
    }
}

fn conclusion(policies: &Policies, one: &Explained) -> String {
    let judged = &one.judged;
    if judged.is_too_large {
        return format!(
            "now: not sampled, it is over `maximum_trace_size_bytes`{}\n",
            difference(one, Some(Decision::NotSampled))
        );
    }
    let decision = judged.decision.value();
    let Some(known) = decision else {
        return "now: unknown, see the evidence\n".to_owned();
    };
    let likely = if judged.decision.is_exact() {
        ""
    } else {
        "likely "
    };
    let policy = judged
        .policy
        .value()
        .and_then(|policy| policies.sampler.policies.get(policy));
    let policy = policy.map(|policy| format!(" by `{}`", text::printable(&policy.name, 40)));
    format!(
        "now: {likely}{}{}{}\n",
        known.as_str(),
        policy.unwrap_or_default(),
        difference(one, decision)
    )
}

/// What to make of it where the verdicts are not what was decided.
fn difference(one: &Explained, decision: Option<Decision>) -> &'static str {
    let is_same = decision.map(Decision::as_str) == Some(one.row.decision.as_str());
    let is_by = |trigger: Trigger| one.row.trigger == trigger.as_str();
    match (is_same, one.judged.decision.is_exact()) {
        (true, _) => ", as it was decided",
        _ if is_by(Trigger::Linked) => ", and it was kept for a trace that it links to",
        _ if is_by(Trigger::Budget) => ", and it had not fitted the `budget`",
        (false, true) => {
            ", which contradicts the decision: these are not the policies that decided, or they saw \
             less of the trace"
        }
        (false, false) => {
            ", which is not what was decided: an assumption does not hold, or the policies were others"
        }
    }
}

fn object(policies: &Policies, one: &Explained) -> Value {
    let row = &one.row;
    let verdicts = one.judged.verdicts.iter().enumerate().filter_map(|(number, asked)| {
        let policy = policies.sampler.policies.get(number)?;
        let doubts = one.doubts.get(number).into_iter().flatten();
        let doubts = doubts.filter(|_| !asked.said.is_exact());
        Some(json!({
            "policy": policy.name,
            "type": policy.policy_type.name(),
            "verdict": asked.said.value().map(said_in_words),
            "exact": asked.said.is_exact(),
            "asked": asked.is_asked,
            "evidence": words::evidence(&policy.policy_type, &one.seen),
            "doubts": doubts.map(|doubt| json!({"needs": doubt.what, "but": because(doubt.why)})).collect::<Vec<_>>(),
        }))
    });
    let verdicts: Vec<Value> = verdicts.collect();
    let now = one.judged.decision;
    json!({
        "decision": row.decision,
        "policy": row.policy,
        "trigger": row.trigger,
        "decided_time": time(row.decided_micros),
        "adjusted_count": row.adjusted_count,
        "loss_flags": row.loss_flags,
        "duration_ns": row.facts.duration_ns,
        "span_count": row.facts.n_spans,
        "verdicts": verdicts,
        "now": {
            "decision": now.value().map(Decision::as_str),
            "exact": now.is_exact(),
            "policy": one.judged.policy.value()
                .and_then(|policy| policies.sampler.policies.get(policy))
                .map(|policy| policy.name.as_str()),
        },
    })
}
