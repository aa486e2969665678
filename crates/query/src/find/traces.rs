//! Traces that have a matching span.

use std::collections::HashMap;

use serde::Deserialize;

use super::window::SLACK;
use super::{Asked, Condition, Draft, Field, Window};
use crate::error::Result;

/// Ids in one statement; DataFusion prunes by lists of up to 500 values.
pub(crate) const IDS_PER_STATEMENT: usize = 200;

/// Services of all traces of one list together.
const SERVICES_MAX: u64 = 100_000;

/// A trace with matching spans.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Found {
    pub(crate) trace_id: String,
    /// Spans that match.
    pub(crate) n_matched: u64,
    /// The first and the last minute under which these spans are stored, in microseconds since 1970.
    first_minute: i64,
    last_minute: i64,
}

/// The newest traces with a span that starts in the window and meets the condition, newest first by that span.
pub(crate) async fn search(
    asked: Asked<'_>,
    condition: &Condition,
    window: Window,
    traces_max: u64,
) -> Result<Vec<Found>> {
    let mut draft = Draft::default();
    let starts = window.sql("start_time", &mut draft);
    let holds = condition.sql(window, &mut draft);
    let text = format!(
        "SELECT trace_id, count(*) AS n_matched, \
         CAST(min(minute) AS BIGINT) AS first_minute, CAST(max(minute) AS BIGINT) AS last_minute \
         FROM spans WHERE {starts} AND {holds} \
         GROUP BY trace_id ORDER BY min(start_time_unix_nano) DESC, trace_id LIMIT {traces_max}"
    );
    asked.rows(draft.with(text), traces_max).await
}

/// Which rows of `spans` are of these traces, as SQL. By their minutes files are left out.
pub(crate) fn rows_of(found: &[Found], draft: &mut Draft) -> String {
    let minutes = Window {
        start_unix_nano: nanos(found.iter().map(|found| found.first_minute).min()),
        end_unix_nano: nanos(found.iter().map(|found| found.last_minute).max()),
    };
    let stored = minutes.widened(SLACK).sql("minute", draft);
    let ids = draft.bind_all(found.iter().map(|found| found.trace_id.as_str()));
    format!("{stored} AND trace_id IN {ids}")
}

fn nanos(micros: Option<i64>) -> i64 {
    micros.unwrap_or_default().saturating_mul(1_000)
}

/// A trace in short, as its stored spans say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) trace_id: String,
    /// Of the earliest span without a parent.
    pub(crate) root: Option<Root>,
    pub(crate) start_unix_nano: Option<i64>,
    pub(crate) end_unix_nano: Option<i64>,
    /// By name.
    pub(crate) services: Vec<Service>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Root {
    pub(crate) service_name: Option<String>,
    pub(crate) name: Option<String>,
}

/// Spans of one service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Service {
    /// `None`: they do not say of which they are.
    pub(crate) name: Option<String>,
    pub(crate) n_spans: u64,
    pub(crate) n_errors: u64,
}

impl Summary {
    pub(crate) fn n_spans(&self) -> u64 {
        self.services.iter().map(|service| service.n_spans).sum()
    }

    pub(crate) fn n_errors(&self) -> u64 {
        self.services.iter().map(|service| service.n_errors).sum()
    }

    /// From the earliest start to the latest end.
    pub(crate) fn duration_ns(&self) -> Option<i64> {
        Some(self.end_unix_nano?.saturating_sub(self.start_unix_nano?)).filter(|nanos| *nanos >= 0)
    }
}

/// What the traces that were found are, in the same order.
pub(crate) async fn summaries(asked: Asked<'_>, found: &[Found]) -> Result<Vec<Summary>> {
    let mut parts: HashMap<String, Vec<Part>> = HashMap::new();
    for found in found.chunks(IDS_PER_STATEMENT) {
        let mut draft = Draft::default();
        let rows = rows_of(found, &mut draft);
        let text = format!(
            "SELECT trace_id, service_name, count(*) AS n_spans, \
             count(*) FILTER (WHERE status_code = 'ERROR') AS n_errors, \
             min(start_time_unix_nano) AS first_start, max(end_time_unix_nano) AS last_end, \
             count(*) FILTER (WHERE parent_span_id IS NULL) AS n_roots, \
             min(start_time_unix_nano) FILTER (WHERE parent_span_id IS NULL) AS root_start, \
             first_value(name ORDER BY start_time_unix_nano, span_id) FILTER (WHERE parent_span_id IS NULL) AS root_name \
             FROM spans WHERE {rows} GROUP BY trace_id, service_name ORDER BY service_name NULLS LAST"
        );
        for part in asked.rows::<Part>(draft.with(text), SERVICES_MAX).await? {
            parts.entry(part.trace_id.clone()).or_default().push(part);
        }
    }
    let summaries = found.iter().map(|found| {
        let parts = parts.remove(&found.trace_id).unwrap_or_default();
        summary(&found.trace_id, parts)
    });
    Ok(summaries.collect())
}

/// The spans of one service in one trace.
#[derive(Debug, Deserialize)]
struct Part {
    trace_id: String,
    #[serde(default)]
    service_name: Option<String>,
    n_spans: u64,
    n_errors: u64,
    #[serde(default)]
    first_start: Option<i64>,
    #[serde(default)]
    last_end: Option<i64>,
    n_roots: u64,
    #[serde(default)]
    root_start: Option<i64>,
    #[serde(default)]
    root_name: Option<String>,
}

fn summary(trace_id: &str, parts: Vec<Part>) -> Summary {
    let with_root = parts.iter().filter(|part| part.n_roots > 0);
    let first = with_root.min_by_key(|part| part.root_start.unwrap_or(i64::MAX));
    Summary {
        trace_id: trace_id.to_owned(),
        root: first.map(|part| Root {
            service_name: part.service_name.clone(),
            name: part.root_name.clone(),
        }),
        start_unix_nano: parts.iter().filter_map(|part| part.first_start).min(),
        end_unix_nano: parts.iter().filter_map(|part| part.last_end).max(),
        services: parts
            .into_iter()
            .map(|part| Service {
                name: part.service_name,
                n_spans: part.n_spans,
                n_errors: part.n_errors,
            })
            .collect(),
    }
}

/// How many spans of each trace have a parent that is not among its stored spans; traces without one are not there.
pub(crate) async fn orphans(asked: Asked<'_>, found: &[Found]) -> Result<HashMap<String, u64>> {
    #[derive(Deserialize)]
    struct Row {
        trace_id: String,
        n_orphans: u64,
    }
    let mut orphans = HashMap::new();
    for found in found.chunks(IDS_PER_STATEMENT) {
        let mut draft = Draft::default();
        let rows = rows_of(found, &mut draft);
        let text = format!(
            "WITH part AS (SELECT trace_id, span_id, parent_span_id FROM spans WHERE {rows}) \
             SELECT trace_id, count(*) AS n_orphans FROM part AS child WHERE parent_span_id IS NOT NULL \
             AND NOT EXISTS (SELECT 1 FROM part AS parent \
             WHERE parent.trace_id = child.trace_id AND parent.span_id = child.parent_span_id) GROUP BY trace_id"
        );
        let rows_max = found.len().try_into().unwrap_or(u64::MAX);
        let rows = asked.rows::<Row>(draft.with(text), rows_max).await?;
        orphans.extend(rows.into_iter().map(|row| (row.trace_id, row.n_orphans)));
    }
    Ok(orphans)
}

/// A span that matches.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct MatchingSpan {
    trace_id: String,
    pub(crate) span_id: String,
    #[serde(default)]
    pub(crate) name: Option<String>,
    #[serde(default)]
    pub(crate) start_time_unix_nano: Option<i64>,
    #[serde(default)]
    pub(crate) duration_ns: Option<i64>,
    /// Texts of the fields that were asked for, in their order.
    #[serde(default)]
    pub(crate) fields: Vec<Option<String>>,
}

/// The earliest matching spans of each trace, at most so many, with the texts of some fields.
pub(crate) async fn matching_spans(
    asked: Asked<'_>,
    found: &[Found],
    condition: &Condition,
    window: Window,
    spans_max: u64,
    fields: &[&Field],
) -> Result<HashMap<String, Vec<MatchingSpan>>> {
    let mut spans: HashMap<String, Vec<MatchingSpan>> = HashMap::new();
    for found in found.chunks(IDS_PER_STATEMENT) {
        let mut draft = Draft::default();
        let rows = rows_of(found, &mut draft);
        let starts = window.sql("start_time", &mut draft);
        let holds = condition.sql(window, &mut draft);
        let texts = fields.iter().map(|field| {
            let text = field.text_sql(&mut draft);
            format!("CAST({text} AS VARCHAR)")
        });
        let texts = texts.collect::<Vec<_>>().join(", ");
        let text = format!(
            "SELECT trace_id, span_id, name, start_time_unix_nano, duration_ns, fields FROM \
             (SELECT trace_id, span_id, name, start_time_unix_nano, duration_ns, make_array({texts}) AS fields, \
             row_number() OVER (PARTITION BY trace_id ORDER BY start_time_unix_nano, span_id) AS place \
             FROM spans WHERE {rows} AND {starts} AND {holds}) \
             WHERE place <= {spans_max} ORDER BY trace_id, place"
        );
        let rows_max = spans_max.saturating_mul(found.len().try_into().unwrap_or(u64::MAX));
        for span in asked
            .rows::<MatchingSpan>(draft.with(text), rows_max)
            .await?
        {
            spans.entry(span.trace_id.clone()).or_default().push(span);
        }
    }
    Ok(spans)
}
