//! Tags of a search as conditions.

use std::collections::BTreeMap;

use otlp::span::SpanKind;
use serde_json::Value as Json;

use super::super::peers::{Fault, Parameter};
use crate::find::condition::TESTS_MAX;
use crate::find::{Condition, Field, Operator, Scope, Value};

/// Tags in one search; the service, the operation and the time spans are compared too.
pub(super) const TAGS_MAX: usize = TESTS_MAX - 8;

/// Conditions of a JSON object from key to value.
pub(super) fn of_json(parameter: Parameter<'_>) -> Result<Vec<Condition>, Fault> {
    let expected = "a JSON object such as {\"http.status_code\":\"500\"}, with at most 56 tags";
    let tags: Result<BTreeMap<String, Json>, _> = serde_json::from_str(parameter.text);
    let tags = tags.ok().filter(|tags| tags.len() <= TAGS_MAX);
    let conditions = tags.and_then(|tags| {
        let conditions = tags.into_iter().map(|(key, value)| {
            let text = match value {
                Json::String(text) => text,
                Json::Bool(_) | Json::Number(_) => value.to_string(),
                Json::Null | Json::Array(_) | Json::Object(_) => return None,
            };
            Some(condition(&key, text))
        });
        conditions.collect()
    });
    conditions.ok_or_else(|| parameter.wrong(expected))
}

/// The condition of `key:value`.
pub(super) fn of_pair(parameter: Parameter<'_>) -> Result<Condition, Fault> {
    let pair = parameter.text.split_once(':');
    let (key, value) = pair.ok_or_else(|| parameter.wrong("`key:value`"))?;
    Ok(condition(key, value.to_owned()))
}

/// Tags that the model makes of fields are read back as such.
fn condition(key: &str, text: String) -> Condition {
    let field = match key {
        "error" => {
            let operator = match text.as_str() {
                "false" => Operator::NotEqual,
                _ => Operator::Equal,
            };
            return Condition::test(Field::Status, operator, Value::Text("ERROR".to_owned()));
        }
        "span.kind" => {
            return Condition::test(
                Field::Kind,
                Operator::Equal,
                Value::Text(text.to_uppercase()),
            );
        }
        "otel.status_code" => {
            return Condition::test(
                Field::Status,
                Operator::Equal,
                Value::Text(text.to_uppercase()),
            );
        }
        "otel.status_description" => Field::StatusMessage,
        "otel.scope.name" | "otel.library.name" => Field::ScopeName,
        "otel.scope.version" | "otel.library.version" => Field::ScopeVersion,
        key => Field::Attribute(Scope::Either, key.to_owned()),
    };
    Condition::test(field, Operator::Equal, Value::Text(text))
}

/// The condition that the span is of this service; Jaeger's name for none is understood.
pub(super) fn service(name: &str) -> Condition {
    let field = Field::Attribute(Scope::Resource, "service.name".to_owned());
    let value = match name {
        super::model::NO_SERVICE => Value::Nothing,
        name => Value::Text(name.to_owned()),
    };
    Condition::test(field, Operator::Equal, value)
}

/// The condition that the span has this name.
pub(super) fn operation(name: &str) -> Condition {
    Condition::test(Field::Name, Operator::Equal, Value::Text(name.to_owned()))
}

/// Conditions on the duration of the span.
pub(super) fn durations(
    min: Option<Parameter<'_>>,
    max: Option<Parameter<'_>>,
) -> Result<Vec<Condition>, Fault> {
    let bounds = [
        (min, Operator::GreaterOrEqual),
        (max, Operator::LessOrEqual),
    ];
    let bounds = bounds
        .into_iter()
        .filter_map(|(bound, operator)| Some((bound?, operator)));
    let conditions = bounds.map(|(bound, operator)| {
        Ok(Condition::test(
            Field::Duration,
            operator,
            Value::Int(bound.duration()?),
        ))
    });
    conditions.collect()
}

/// The condition that the span has this role, as clients write it.
pub(super) fn kind(parameter: Parameter<'_>) -> Result<Condition, Fault> {
    let text = parameter.text.to_uppercase();
    let mut kinds = SpanKind::ALL.into_iter().map(SpanKind::as_str);
    let kind = kinds.find(|known| *known == text);
    let kind = kind.ok_or_else(|| {
        parameter.wrong("server, client, producer, consumer, internal or unspecified")
    })?;
    Ok(Condition::test(
        Field::Kind,
        Operator::Equal,
        Value::Text(kind.to_owned()),
    ))
}
