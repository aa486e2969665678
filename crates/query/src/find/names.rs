//! Names that can stand in a condition.

use serde::Deserialize;

use super::condition::promoted;
use super::{Asked, Condition, Draft, Field, Window};
use crate::error::Result;

/// Services, and operations of one of them.
const NAMES_MAX: u64 = 10_000;

/// Traces that calls between services are counted in. A join of all spans of a week would need more memory than a
/// statement may have.
pub(crate) const CALLS_TRACES_MAX: usize = 2_000;

/// Pairs of services.
const CALLS_MAX: u64 = 10_000;

#[derive(Deserialize)]
struct Name {
    name: String,
}

/// Services with a span in the window, by name.
pub(crate) async fn services(asked: Asked<'_>, window: Window) -> Result<Vec<String>> {
    let mut draft = Draft::default();
    let starts = window.sql("start_time", &mut draft);
    let text = format!(
        "SELECT DISTINCT service_name AS name FROM spans WHERE {starts} AND service_name IS NOT NULL ORDER BY name"
    );
    let names: Vec<Name> = asked.rows(draft.with(text), NAMES_MAX).await?;
    Ok(names.into_iter().map(|name| name.name).collect())
}

/// A name of spans, with the role in which they have it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Operation {
    pub(crate) name: String,
    /// As stored, such as `SERVER`.
    pub(crate) kind: String,
}

/// Names of the spans in the window that meet a condition, by name.
pub(crate) async fn operations(
    asked: Asked<'_>,
    condition: &Condition,
    window: Window,
) -> Result<Vec<Operation>> {
    let mut draft = Draft::default();
    let starts = window.sql("start_time", &mut draft);
    let holds = condition.sql(window, &mut draft);
    let text = format!(
        "SELECT DISTINCT name, COALESCE(kind, 'UNSPECIFIED') AS kind FROM spans \
         WHERE {starts} AND {holds} AND name IS NOT NULL ORDER BY name, kind"
    );
    asked.rows(draft.with(text), NAMES_MAX).await
}

/// Keys of attributes of the resource, or of the span, that spans in the window have, the most frequent first.
pub(crate) async fn keys(
    asked: Asked<'_>,
    is_resource: bool,
    window: Window,
    keys_max: u64,
) -> Result<Vec<String>> {
    let map = match is_resource {
        true => "resource_attributes",
        false => "attributes",
    };
    let mut draft = Draft::default();
    let starts = window.sql("start_time", &mut draft);
    let text = format!(
        "SELECT name, count(*) AS n FROM (SELECT unnest(map_keys({map})) AS name FROM spans WHERE {starts}) \
         GROUP BY name ORDER BY n DESC, name"
    );
    let in_map: Vec<Name> = asked.rows(draft.with(text), keys_max).await?;
    let mut keys = keys_with_columns(asked, is_resource, window).await?;
    keys.extend(in_map.into_iter().map(|name| name.name));
    // A value of an unexpected type is in the map although its key has a column.
    let mut seen = std::collections::HashSet::new();
    keys.retain(|key| seen.insert(key.clone()));
    keys.truncate(usize::try_from(keys_max).unwrap_or(usize::MAX));
    Ok(keys)
}

/// Keys with a column that has a value in the window.
async fn keys_with_columns(
    asked: Asked<'_>,
    is_resource: bool,
    window: Window,
) -> Result<Vec<String>> {
    let columns: Vec<_> = promoted(is_resource).collect();
    let counts: Vec<String> = columns
        .iter()
        .map(|column| format!("count({})", column.name))
        .collect();
    let mut draft = Draft::default();
    let starts = window.sql("start_time", &mut draft);
    let text = format!(
        "SELECT make_array({}) AS counts FROM spans WHERE {starts}",
        counts.join(", ")
    );
    #[derive(Deserialize)]
    struct Counts {
        counts: Vec<u64>,
    }
    let rows: Vec<Counts> = asked.rows(draft.with(text), 1).await?;
    let counts = rows.into_iter().flat_map(|row| row.counts);
    let mut counted: Vec<_> = columns.iter().zip(counts).filter(|(_, n)| *n > 0).collect();
    counted.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    Ok(counted
        .into_iter()
        .map(|(column, _)| column.source.to_owned())
        .collect())
}

/// Values of a field among the spans in the window that meet a condition, the most frequent first.
pub(crate) async fn values(
    asked: Asked<'_>,
    field: &Field,
    condition: &Condition,
    window: Window,
    values_max: u64,
) -> Result<Vec<String>> {
    let mut draft = Draft::default();
    let value = field.text_sql(&mut draft);
    let starts = window.sql("start_time", &mut draft);
    let holds = condition.sql(window, &mut draft);
    let text = format!(
        "SELECT name, count(*) AS n FROM (SELECT {value} AS name FROM spans WHERE {starts} AND {holds}) \
         WHERE name IS NOT NULL GROUP BY name ORDER BY n DESC, name"
    );
    let names: Vec<Name> = asked.rows(draft.with(text), values_max).await?;
    Ok(names.into_iter().map(|name| name.name).collect())
}

/// Calls of one service by another.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Calls {
    pub(crate) parent: String,
    pub(crate) child: String,
    pub(crate) n_calls: u64,
}

/// How often a span of one service is the parent of one of another, within the newest [`CALLS_TRACES_MAX`] traces of
/// the window.
pub(crate) async fn calls(asked: Asked<'_>, window: Window) -> Result<Vec<Calls>> {
    let mut draft = Draft::default();
    let starts = window.sql("start_time", &mut draft);
    let text = format!(
        "WITH newest AS (SELECT trace_id FROM spans WHERE {starts} GROUP BY trace_id \
         ORDER BY max(start_time) DESC LIMIT {CALLS_TRACES_MAX}), \
         part AS (SELECT trace_id, span_id, parent_span_id, service_name FROM spans \
         WHERE {starts} AND service_name IS NOT NULL AND trace_id IN (SELECT trace_id FROM newest)) \
         SELECT caller.service_name AS parent, callee.service_name AS child, count(*) AS n_calls \
         FROM part AS callee JOIN part AS caller \
         ON caller.trace_id = callee.trace_id AND caller.span_id = callee.parent_span_id \
         WHERE caller.service_name <> callee.service_name GROUP BY parent, child ORDER BY n_calls DESC, parent, child"
    );
    asked.rows(draft.with(text), CALLS_MAX).await
}
