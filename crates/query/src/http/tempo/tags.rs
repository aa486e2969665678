//! Keys of attributes, and their values.

use axum::Json;
use axum::extract::Path;
use serde_json::{Value as JsonValue, json};

use super::super::peers::{Fault, Wanted};
use super::{Failed, condition, traceql, window};
use crate::find::window::RECENT;
use crate::find::{Condition, Field, names};

/// Keys of one scope, or values of one key; Grafana asks for 5,000.
const NAMES_MAX: u64 = 10_000;

/// What else than attributes a condition may name, in both spellings.
const INTRINSICS: &[&str] = &[
    "duration",
    "instrumentation:name",
    "instrumentation:version",
    "kind",
    "name",
    "rootName",
    "rootServiceName",
    "span:duration",
    "span:id",
    "span:kind",
    "span:name",
    "span:parentID",
    "span:status",
    "span:statusMessage",
    "status",
    "statusMessage",
    "trace:duration",
    "trace:id",
    "trace:rootName",
    "trace:rootService",
    "traceDuration",
];

/// Keys of all scopes in one list.
pub(super) async fn keys(wanted: Wanted) -> Result<Json<JsonValue>, Failed> {
    let mut names: Vec<String> = Vec::new();
    for (_, keys) in by_scope(&wanted).await? {
        names.extend(keys);
    }
    names.sort();
    names.dedup();
    Ok(Json(json!({"tagNames": names, "metrics": {}})))
}

/// Keys by scope.
pub(super) async fn scoped_keys(wanted: Wanted) -> Result<Json<JsonValue>, Failed> {
    let scopes = by_scope(&wanted).await?.into_iter();
    let scopes = scopes.map(|(name, tags)| json!({"name": name, "tags": tags}));
    Ok(Json(
        json!({"scopes": scopes.collect::<JsonValue>(), "metrics": {}}),
    ))
}

async fn by_scope(wanted: &Wanted) -> Result<Vec<(&'static str, Vec<String>)>, Fault> {
    let window = window(wanted, RECENT)?;
    let limit = limit(wanted)?;
    let scope = wanted.parameters.get("scope").map(|scope| scope.text);
    let is_wanted =
        |name| scope.is_none_or(|scope| scope == name || scope == "none" || scope == "all");
    let mut scopes = Vec::new();
    for (name, is_resource) in [("resource", true), ("span", false)] {
        if is_wanted(name) {
            let keys = names::keys(wanted.asked(), is_resource, window, limit).await?;
            scopes.push((name, keys));
        }
    }
    if is_wanted("intrinsic") {
        let names = INTRINSICS.iter().map(|name| (*name).to_owned());
        scopes.push(("intrinsic", names.collect()));
    }
    Ok(scopes)
}

/// Names that are wanted at most.
fn limit(wanted: &Wanted) -> Result<u64, Fault> {
    let limit = wanted.parameters.get("limit");
    let limit = limit.map(|limit| limit.count(NAMES_MAX)).transpose()?;
    Ok(limit.unwrap_or(NAMES_MAX))
}

/// Values alone.
pub(super) async fn values(
    Path(tag): Path<String>,
    wanted: Wanted,
) -> Result<Json<JsonValue>, Failed> {
    let (_, values) = values_of(&tag, &wanted).await?;
    Ok(Json(json!({"tagValues": values, "metrics": {}})))
}

/// Values with their types.
pub(super) async fn typed_values(
    Path(tag): Path<String>,
    wanted: Wanted,
) -> Result<Json<JsonValue>, Failed> {
    let (field, values) = values_of(&tag, &wanted).await?;
    let is_keyword = matches!(field, Field::Status | Field::Kind);
    let r#type = if is_keyword { "keyword" } else { "string" };
    let values = values
        .into_iter()
        .map(|value| json!({"type": r#type, "value": value}));
    Ok(Json(
        json!({"tagValues": values.collect::<JsonValue>(), "metrics": {}}),
    ))
}

async fn values_of(tag: &str, wanted: &Wanted) -> Result<(Field, Vec<String>), Fault> {
    // Grafana encodes the tag twice.
    let tag = match tag.contains('%') {
        true => percent_decoded(tag),
        false => tag.to_owned(),
    };
    let field = traceql::parse_field(&tag).map_err(|source| Fault::Condition {
        name: "tag",
        source: Box::new(source),
    })?;
    let is_ordered = matches!(field, Field::Duration | Field::TraceDuration);
    let is_id = matches!(field, Field::TraceId | Field::SpanId | Field::ParentSpanId);
    if is_ordered || is_id {
        // Nobody picks one of them from a list.
        return Ok((field, Vec::new()));
    }
    let window = window(wanted, RECENT)?;
    let limit = limit(wanted)?;
    // An editor sends what is typed so far; while that cannot be read, all values are offered.
    let condition = condition(wanted).unwrap_or(Condition::All(Vec::new()));
    let mut values = names::values(wanted.asked(), &field, &condition, window, limit).await?;
    if matches!(field, Field::Status | Field::Kind) {
        for value in &mut values {
            value.make_ascii_lowercase();
        }
    }
    Ok((field, values))
}

fn percent_decoded(text: &str) -> String {
    // A `+` is not a blank in a path.
    let text = text.replace('+', "%2B");
    let decoded = url::form_urlencoded::parse(text.as_bytes()).next();
    decoded.map_or(text.clone(), |(name, _)| name.into_owned())
}
