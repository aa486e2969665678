//! Stored traces, read back as what the policies can be asked about.
//!
//! In reading order: `rows` (the columns of `traces` that are read), `evidence` (spans and engine
//! requests as a [`PartialTrace`]), and here how they are fetched: traces in pages, in the order in
//! which they were decided, and their spans in groups, so that memory stays bounded.
//!
//! Redaction is judged by the rules of the file that is given: which rules were in force when a row
//! was stored is not in the row.

mod evidence;
mod rows;

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use anyhow::{Context as _, bail};
use arrow::array::RecordBatch;
use otlp::TraceId;
use sampler::partial::{PartialTrace, Replay};
use tables::redact::Redaction;
use tables::spans::StoredSpans;

use self::rows::micros;
use crate::config::{self, Error};
use crate::sql::source::Source;

pub(crate) use evidence::Reader;
pub(crate) use rows::TraceRow;
pub(crate) use rows::{cells, count};

/// Traces of one page.
const PAGE_ROWS: u64 = 50_000;

/// Spans that are fetched at once: some 20 MB of rows. A larger trace is fetched alone.
const GROUP_SPANS: u64 = 20_000;

/// Traces whose spans are fetched at once; their ids stand in the statement.
const GROUP_TRACES: usize = 500;

/// Policies and rules of redaction of a file.
#[derive(Debug)]
pub(crate) struct Policies {
    /// For people.
    pub(crate) name: String,
    pub(crate) sampler: sampler::Config,
    pub(crate) redaction: Redaction,
}

impl Policies {
    /// Reads a pipeline file, or the built-in default where none is given. Of a Collector's file
    /// that names components which do not exist here, the only `tail_sampling` section is taken.
    pub(crate) fn load(path: Option<&Path>) -> anyhow::Result<Self> {
        let name = path.map_or("the built-in default".to_owned(), |path| {
            format!("`{}`", path.display())
        });
        let (sampler, redact) = match config::load(path) {
            Ok(loaded) => (loaded.config.sampler, loaded.config.redact),
            Err(error) => {
                let note = format!("note: only `tail_sampling` of {name} is read: {error}\n");
                let section = only_section(path, error)?;
                crate::show::print_error(&note);
                (section, tables::redact::Config::default())
            }
        };
        if sampler.sampling_strategy == sampler::SamplingStrategy::SpanIngest {
            bail!(
                "{name} has `sampling_strategy: span-ingest`, which judges the batches in which spans \
                 came; stored rows do not know them"
            );
        }
        Ok(Self {
            name,
            sampler,
            redaction: Redaction::new(&redact)?,
        })
    }
}

fn only_section(path: Option<&Path>, error: Error) -> Result<sampler::Config, Error> {
    let mut sections = config::review(path).unwrap_or_default();
    match (sections.pop(), sections.is_empty()) {
        (Some(section), true) => section.config.map_err(|_refused| error),
        _ => Err(error),
    }
}

/// Which traces.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Span {
    /// Begun at or after this, in microseconds since 1970.
    pub(crate) since_micros: Option<i64>,
    /// Begun before this.
    pub(crate) until_micros: Option<i64>,
}

/// What there is in a span of time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Extent {
    pub(crate) n_traces: u64,
    /// First and last start of a trace, in microseconds since 1970.
    pub(crate) first_micros: Option<i64>,
    pub(crate) last_micros: Option<i64>,
    /// The last decision.
    pub(crate) decided_micros: Option<i64>,
}

/// Reads traces in the order in which they were decided.
pub(crate) struct History<'a> {
    source: &'a Source,
    filter: String,
    after: Option<(i64, TraceId)>,
}

impl<'a> History<'a> {
    /// Finds out what there is; only that is read, whatever is stored meanwhile.
    pub(crate) async fn begin(source: &'a Source, span: Span) -> anyhow::Result<(Self, Extent)> {
        let mut filter = "decided_time IS NOT NULL".to_owned();
        if let Some(micros) = span.since_micros {
            filter += &format!(" AND start_time >= {}", timestamp(micros));
        }
        if let Some(micros) = span.until_micros {
            filter += &format!(" AND start_time < {}", timestamp(micros));
        }
        let sql = format!(
            "SELECT count(*) AS n, min(start_time) AS first, max(start_time) AS last, \
             max(decided_time) AS decided FROM traces WHERE {filter}"
        );
        let batches = source.rows(&sql).await?;
        let batch = batches.iter().find(|batch| batch.num_rows() > 0);
        let batch = batch.context("a count has no row")?;
        let time = |name| anyhow::Ok(micros(&cells(batch, name)?, 0));
        let extent = Extent {
            n_traces: count(&cells(batch, "n")?, 0).unwrap_or(0),
            first_micros: time("first")?,
            last_micros: time("last")?,
            decided_micros: time("decided")?,
        };
        if let Some(micros) = extent.decided_micros {
            filter += &format!(" AND decided_time <= {}", timestamp(micros));
        }
        let history = Self {
            source,
            filter,
            after: None,
        };
        Ok((history, extent))
    }

    /// The next traces; none at the end.
    pub(crate) async fn page(&mut self) -> anyhow::Result<Vec<TraceRow>> {
        let mut filter = self.filter.clone();
        if let Some((decided_micros, trace_id)) = self.after {
            let at = timestamp(decided_micros);
            filter += &format!(
                " AND (decided_time > {at} OR (decided_time = {at} AND trace_id > '{trace_id}'))"
            );
        }
        let sql = format!(
            "SELECT {} FROM traces WHERE {filter} ORDER BY decided_time, trace_id LIMIT {PAGE_ROWS}",
            rows::COLUMNS
        );
        let mut page = Vec::new();
        for batch in self.source.rows(&sql).await? {
            rows::read(&batch, &mut page)?;
        }
        if let Some(last) = page.last() {
            self.after = Some((last.decided_micros, last.facts.trace_id));
        }
        Ok(page)
    }
}

/// The rows of one trace: one per decision on it, the first decision first.
pub(crate) async fn trace(source: &Source, trace_id: TraceId) -> anyhow::Result<Vec<TraceRow>> {
    let sql = format!(
        "SELECT {} FROM traces WHERE trace_id = '{trace_id}' ORDER BY decided_time",
        rows::COLUMNS
    );
    let mut found = Vec::new();
    for batch in source.rows(&sql).await? {
        rows::read(&batch, &mut found)?;
    }
    Ok(found)
}

/// Cuts traces into groups that are fetched together.
pub(crate) fn groups(rows: &[TraceRow], needs: &[bool]) -> Vec<Range<usize>> {
    let mut groups = Vec::new();
    let (mut start, mut n_spans, mut n_traces) = (0, 0, 0);
    for (place, (row, needs)) in rows.iter().zip(needs).enumerate() {
        if !needs {
            continue;
        }
        let is_full = n_spans + row.facts.n_spans > GROUP_SPANS || n_traces == GROUP_TRACES;
        if n_traces > 0 && is_full {
            groups.push(start..place);
            (start, n_spans, n_traces) = (place, 0, 0);
        }
        n_spans += row.facts.n_spans;
        n_traces += 1;
    }
    if start < rows.len() {
        groups.push(start..rows.len());
    }
    groups
}

/// What is known of traces: of those that `needs` marks, from their stored spans, or where they have
/// none, from what engine requests and services say.
pub(crate) async fn evidence(
    source: &Source,
    reader: &Reader,
    replay: &Replay,
    rows: &[TraceRow],
    needs: &[bool],
) -> anyhow::Result<Vec<PartialTrace>> {
    let mut traces: Vec<PartialTrace> = rows.iter().map(|row| row.begin(replay)).collect();
    let mut places: HashMap<TraceId, usize> = HashMap::new();
    for (place, (row, needs)) in rows.iter().zip(needs).enumerate() {
        if *needs {
            // Of several decisions on one trace the spans are those of the last.
            places.insert(row.facts.trace_id, place);
        }
    }
    let stored: Vec<&TraceRow> = places.values().map(|place| &rows[*place]).collect();
    for batch in spans(source, &stored).await? {
        for span in StoredSpans::over(&batch)?.iter() {
            let span = span?;
            if let Some(place) = places.get(&span.trace_id) {
                reader.add_span(replay, &mut traces[*place], &span)?;
            }
        }
    }
    places.retain(|_, place| traces[*place].n_seen() < rows[*place].facts.n_spans);
    for place in places.values() {
        reader.claim_services(replay, &mut traces[*place], &rows[*place].services)?;
    }
    let ids: Vec<TraceId> = places.keys().copied().collect();
    if let Some(columns) = reader.request_columns()
        && !ids.is_empty()
    {
        let sql = format!(
            "SELECT trace_id, {columns} FROM requests WHERE NOT late AND position = 'engine' AND trace_id IN ({})",
            listed(&ids)
        );
        for batch in source.rows(&sql).await? {
            reader.claim_requests(replay, &batch, &places, &mut traces)?;
        }
    }
    Ok(traces)
}

/// The stored spans with which these traces were decided.
pub(crate) async fn spans(source: &Source, rows: &[&TraceRow]) -> anyhow::Result<Vec<RecordBatch>> {
    let stored: Vec<&TraceRow> = rows.iter().copied().filter(|row| row.stored).collect();
    if stored.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<TraceId> = stored.iter().map(|row| row.facts.trace_id).collect();
    let sql = format!(
        "SELECT * FROM spans WHERE NOT late{} AND trace_id IN ({})",
        minutes(&stored),
        listed(&ids)
    );
    source.rows(&sql).await
}

/// Spans stand under the minute in which their trace began, which finds their files.
fn minutes(rows: &[&TraceRow]) -> String {
    const MICROS_PER_MINUTE: i64 = 60_000_000;
    let mut range: Option<(i64, i64)> = None;
    for row in rows {
        let Some(start) = row.start_micros else {
            return String::new();
        };
        let (first, last) = range.unwrap_or((start, start));
        range = Some((first.min(start), last.max(start)));
    }
    let Some((first, last)) = range else {
        return String::new();
    };
    format!(
        " AND minute >= {} AND minute <= {}",
        timestamp(first - first.rem_euclid(MICROS_PER_MINUTE)),
        timestamp(last)
    )
}

fn listed(ids: &[TraceId]) -> String {
    let ids: Vec<String> = ids.iter().map(|id| format!("'{id}'")).collect();
    ids.join(", ")
}

fn timestamp(micros: i64) -> String {
    format!("arrow_cast({micros}, 'Timestamp(Microsecond, Some(\"UTC\"))')")
}
