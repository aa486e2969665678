//! The steps that a request was in, as `batches` has them.

use correlate::{BatchFact, BatchFacts, Companion};

use super::rows::{Row, Rows, Source};
use super::{Ask, Result, quoted};

const SECOND: i64 = 1_000_000_000;

/// Clocks of an engine's request spans and of its steps are those of one host, or near.
const MARGIN_NANOS: i64 = 10 * SECOND;

/// Others that are named.
const COMPANIONS_MAX: usize = 5;

/// What is stored of the steps of the request `row`; of the whole trace where it has no other request. Also the statement
/// that gives the steps.
pub(super) async fn load<A: Ask>(
    source: &Source<A>,
    row: &Row<'_>,
    is_only: bool,
) -> Result<(BatchFacts, String)> {
    let start = row.int("start_time_unix_nano").unwrap_or(0);
    let end = start + row.int("duration_ns").unwrap_or(0);
    let (from, to) = (start - MARGIN_NANOS, end + MARGIN_NANOS);
    let trace_id = quoted(&row.text("trace_id").unwrap_or_default());
    let mut own = format!("trace_id = {trace_id}");
    if !is_only {
        own.push_str(&format!(" AND span_id = '{}'", row.span_id("span_id")?));
    }
    // Reports may name nothing but the request id.
    if let Some(id) = row.text("request_id_normalised") {
        let id = quoted(&id);
        own = format!("({own} OR trace_id IS NULL AND request_id_normalised = {id})");
    }
    let within = format!("start_time_unix_nano BETWEEN {from} AND {to}");
    // Steps of one engine with one id at one time are one step.
    let shared = format!(
        "FROM (SELECT * FROM batches WHERE {own} AND {within}) AS mine \
         LEFT JOIN (SELECT * FROM batches WHERE {within} AND (share_method IS DISTINCT FROM 'remainder') \
         AND NOT coalesce({own}, false)) AS others \
         ON others.batch_id = mine.batch_id AND others.start_time_unix_nano = mine.start_time_unix_nano \
         AND (others.step IS NOT DISTINCT FROM mine.step) AND (others.k8s_pod_uid IS NOT DISTINCT FROM mine.k8s_pod_uid) \
         AND (others.k8s_pod_name IS NOT DISTINCT FROM mine.k8s_pod_name) \
         AND (others.service_instance_id IS NOT DISTINCT FROM mine.service_instance_id) \
         AND (others.dp_rank IS NOT DISTINCT FROM mine.dp_rank)"
    );
    let name = "coalesce(others.request_id_normalised, others.trace_id)";
    let steps = format!(
        "SELECT mine.start_time_unix_nano AS start_time_unix_nano, mine.batch_id AS batch_id, \
         max(mine.duration_ns) AS duration_ns, max(mine.share_ns) AS share_ns, bool_or(mine.estimated) AS estimated, \
         max(mine.participant_count) AS participant_count, max(others.tokens) AS other_tokens_max, \
         first_value({name} ORDER BY others.tokens DESC NULLS LAST, {name}) AS other \
         {shared} GROUP BY mine.start_time_unix_nano, mine.batch_id ORDER BY mine.start_time_unix_nano"
    );
    let rows = Rows::ask(source, &steps).await?;
    let batches: Vec<BatchFact> = rows.iter().map(|row| batch(&row)).collect();
    if batches.is_empty() {
        return Ok((BatchFacts::default(), steps));
    }
    let companions = format!(
        "SELECT {name} AS name, count(DISTINCT mine.start_time_unix_nano) AS n, sum(others.tokens) AS tokens \
         {shared} WHERE {name} IS NOT NULL GROUP BY {name} \
         ORDER BY tokens DESC NULLS LAST, n DESC, name LIMIT {COMPANIONS_MAX}"
    );
    let rows = Rows::ask(source, &companions).await?;
    let companions = rows.iter().map(|row| Companion {
        name: row.text("name").unwrap_or_default(),
        n_batches: row.int("n").unwrap_or(0),
        tokens: row.int("tokens"),
    });
    let facts = BatchFacts {
        batches,
        companions: companions.collect(),
    };
    Ok((facts, steps))
}

fn batch(row: &Row<'_>) -> BatchFact {
    BatchFact {
        start_unix_nano: row.int("start_time_unix_nano"),
        duration_ns: row.int("duration_ns"),
        share_ns: row.int("share_ns"),
        estimated: row.bool("estimated").unwrap_or(false),
        participant_count: row.int("participant_count"),
        other_tokens_max: row.int("other_tokens_max"),
        other: row.text("other"),
    }
}
