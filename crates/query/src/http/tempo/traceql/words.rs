//! Words of TraceQL: fields, values, and which of them suit each other.

use otlp::span::SpanKind;

use super::What;
use crate::find::{Field, Operator, Scope, Value};

/// What a word names.
pub(super) enum Named {
    Field(Field),
    NestedSetParent,
}

pub(super) fn field(word: &str) -> Result<Named, What> {
    let attribute = |scope, key: &str| Field::Attribute(scope, key.to_owned());
    if let Some(key) = word.strip_prefix('.') {
        return Ok(Named::Field(attribute(Scope::Either, key)));
    }
    if let Some((scope, key)) = word.split_once('.') {
        return match scope {
            "resource" => Ok(Named::Field(attribute(Scope::Resource, key))),
            "span" => Ok(Named::Field(attribute(Scope::Span, key))),
            "event" => Err(What::EventAttribute),
            "link" => Err(What::LinkAttribute),
            "parent" => Err(What::ParentAttribute),
            "instrumentation" => Err(What::ScopeAttribute),
            _ => Err(What::OtherIntrinsic),
        };
    }
    Ok(Named::Field(match word {
        "name" | "span:name" => Field::Name,
        "status" | "span:status" => Field::Status,
        "statusMessage" | "span:statusMessage" => Field::StatusMessage,
        "kind" | "span:kind" => Field::Kind,
        "duration" | "span:duration" => Field::Duration,
        "span:id" => Field::SpanId,
        "span:parentID" => Field::ParentSpanId,
        "trace:id" => Field::TraceId,
        "traceDuration" | "trace:duration" => Field::TraceDuration,
        "rootName" | "trace:rootName" => Field::RootName,
        "rootServiceName" | "trace:rootService" => Field::RootServiceName,
        "instrumentation:name" => Field::ScopeName,
        "instrumentation:version" => Field::ScopeVersion,
        "nestedSetParent" => return Ok(Named::NestedSetParent),
        _ if word.starts_with("event:") => return Err(What::EventAttribute),
        _ if word.starts_with("link:") => return Err(What::LinkAttribute),
        _ => return Err(What::OtherIntrinsic),
    }))
}

pub(super) const VALUE: &str =
    "a value: a text in quotes, a number, a time span, true, false, nil, a status or a kind";

/// A value as it is written.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Literal {
    Value(Value),
    /// Nanoseconds.
    Duration(i64),
    Status(&'static str),
    Kind(&'static str),
}

pub(super) fn literal(word: &str) -> Option<Literal> {
    Some(match word {
        "true" => Literal::Value(Value::Bool(true)),
        "false" => Literal::Value(Value::Bool(false)),
        "nil" => Literal::Value(Value::Nothing),
        _ => {
            return status(word)
                .map(Literal::Status)
                .or_else(|| kind(word).map(Literal::Kind));
        }
    })
}

fn status(word: &str) -> Option<&'static str> {
    Some(match word {
        "ok" => "OK",
        "error" => "ERROR",
        "unset" => "UNSET",
        _ => return None,
    })
}

fn kind(word: &str) -> Option<&'static str> {
    let mut kinds = SpanKind::ALL.into_iter().map(SpanKind::as_str);
    kinds.find(|kind| kind.to_ascii_lowercase() == word)
}

/// The value if the field can be compared with it, or else what was expected.
pub(super) fn suited(
    field: &Field,
    operator: Operator,
    literal: Literal,
) -> Result<Value, &'static str> {
    let is_of_texts = matches!(operator, Operator::Matches | Operator::NotMatches);
    let is_equality = matches!(operator, Operator::Equal | Operator::NotEqual);
    if literal == Literal::Value(Value::Nothing) {
        return is_equality
            .then_some(Value::Nothing)
            .ok_or("`=` or `!=` before nil");
    }
    if is_of_texts && !matches!(literal, Literal::Value(Value::Text(_))) {
        return Err("a regular expression in quotes");
    }
    let named = |names: fn(&str) -> Option<&'static str>, found, expected| {
        let name = match literal {
            Literal::Status(name) | Literal::Kind(name) => Some(name).filter(|_| found),
            Literal::Value(Value::Text(ref text)) => names(text),
            _ => None,
        };
        match name {
            Some(name) if is_equality => Ok(Value::Text(name.to_owned())),
            _ => Err(expected),
        }
    };
    match field {
        Field::Status => named(
            status,
            matches!(literal, Literal::Status(_)),
            "`=` or `!=` and ok, error or unset",
        ),
        Field::Kind => named(
            kind,
            matches!(literal, Literal::Kind(_)),
            "`=` or `!=` and server, client, producer, consumer, internal or unspecified",
        ),
        Field::Duration | Field::TraceDuration => match literal {
            Literal::Duration(nanos) => Ok(Value::Int(nanos)),
            _ => Err("a time span such as 100ms or 1.5s"),
        },
        Field::TraceId | Field::SpanId | Field::ParentSpanId => match literal {
            Literal::Value(Value::Text(text)) => Ok(Value::Text(text.to_lowercase())),
            _ => Err("an id in quotes"),
        },
        Field::Name
        | Field::StatusMessage
        | Field::ScopeName
        | Field::ScopeVersion
        | Field::RootName
        | Field::RootServiceName => match literal {
            Literal::Value(value @ Value::Text(_)) => Ok(value),
            _ => Err("a text in quotes"),
        },
        Field::Attribute(..) => match literal {
            Literal::Value(value) => Ok(value),
            _ => Err("a text in quotes, a number, true, false or nil"),
        },
    }
}
