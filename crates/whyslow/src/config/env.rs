//! `${env:NAME}` in configuration values, with the Collector's rules.
//!
//! - `${env:NAME}`, `${NAME}` and `${env:NAME:-default}` are replaced; the default is used only when
//!   the variable is not set, a variable that is set and empty stays empty.
//! - A scalar that is one reference as a whole keeps two readings, see [`Value::Env`].
//! - A reference inside a longer string is replaced by its text.
//! - `$$` is one `$`; a lone `$` and `$HOME` stay as they are.
//! - A value is never expanded a second time: a `$` inside a secret is just a character.
//! - A variable that is not set is an empty string, and a warning names it.
//!
//! Source: `docs/rfcs/env-vars.md` and the `envprovider` README of the OpenTelemetry Collector.

use super::error::Warning;
use super::tree::{Node, Value};

/// Looks a variable up. Given from outside, so that tests need no process-wide state.
pub(crate) type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Replaces every reference below `node`.
pub(crate) fn expand(node: &mut Node, path: &str, lookup: Lookup<'_>, warnings: &mut Vec<Warning>) {
    let line = node.line;
    match &mut node.value {
        Value::Map(entries) => {
            for (key, child) in entries {
                let path = if path.is_empty() {
                    key.clone()
                } else {
                    format!("{path}::{key}")
                };
                expand(child, &path, lookup, warnings);
            }
        }
        Value::Seq(items) => {
            for (idx, child) in items.iter_mut().enumerate() {
                expand(child, &format!("{path}[{idx}]"), lookup, warnings);
            }
        }
        Value::Text(text) if text.contains('$') => {
            let mut warn = |message: String| warnings.push(Warning::new(path, line, message));
            node.value = expand_text(text, lookup, &mut warn);
        }
        Value::Null
        | Value::Bool(_)
        | Value::Int(_)
        | Value::UInt(_)
        | Value::Float(_)
        | Value::Text(_)
        | Value::Env { .. } => {}
    }
}

/// One piece of a string.
enum Piece<'a> {
    Literal(&'a str),
    Reference {
        name: &'a str,
        default: Option<&'a str>,
    },
    /// `${...}` whose inside is no name.
    Invalid(&'a str),
}

fn expand_text(text: &str, lookup: Lookup<'_>, warn: &mut dyn FnMut(String)) -> Value {
    let pieces = split(text);
    if let [Piece::Reference { name, default }] = pieces.as_slice() {
        return resolve_whole(name, *default, lookup, warn);
    }
    let mut out = String::with_capacity(text.len());
    for piece in pieces {
        match piece {
            Piece::Literal(literal) => out.push_str(literal),
            Piece::Reference { name, default } => {
                out.push_str(&resolve(name, default, lookup, warn));
            }
            Piece::Invalid(raw) => {
                warn(format!(
                    "`{raw}` does not name an environment variable and is kept as it is"
                ));
                out.push_str(raw);
            }
        }
    }
    Value::Text(out)
}

fn resolve_whole(
    name: &str,
    default: Option<&str>,
    lookup: Lookup<'_>,
    warn: &mut dyn FnMut(String),
) -> Value {
    let text = resolve(name, default, lookup, warn);
    // What does not parse as YAML is text, as in the Collector's `confmap`.
    let parsed = match Node::parse(&text) {
        Ok(node) if !text.trim().is_empty() => node.value,
        Ok(_) | Err(_) => Value::Text(text.clone()),
    };
    Value::Env {
        text,
        parsed: Box::new(parsed),
    }
}

fn resolve(
    name: &str,
    default: Option<&str>,
    lookup: Lookup<'_>,
    warn: &mut dyn FnMut(String),
) -> String {
    match (lookup(name), default) {
        (Some(value), _) => value,
        (None, Some(default)) => default.to_owned(),
        (None, None) => {
            warn(format!(
                "the environment variable `{name}` is not set; an empty string is used"
            ));
            String::new()
        }
    }
}

fn split(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let (before, from) = rest.split_at(at);
        let (piece, used) = reference(from);
        if !before.is_empty() {
            pieces.push(Piece::Literal(before));
        }
        pieces.push(piece);
        rest = from.split_at(used).1;
    }
    if !rest.is_empty() {
        pieces.push(Piece::Literal(rest));
    }
    pieces
}

/// Reads what starts at a `$` and says how many bytes it took.
fn reference(from: &str) -> (Piece<'_>, usize) {
    if from.starts_with("$$") {
        return (Piece::Literal("$"), 2);
    }
    let inner = from
        .strip_prefix("${")
        .and_then(|tail| tail.split_once('}'));
    let Some((inner, _)) = inner else {
        return (Piece::Literal("$"), 1);
    };
    let used = inner.len() + "${}".len();
    let body = inner.strip_prefix("env:").unwrap_or(inner);
    let (name, default) = match body.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (body, None),
    };
    if is_name(name) {
        (Piece::Reference { name, default }, used)
    } else {
        (Piece::Invalid(from.split_at(used).0), used)
    }
}

fn is_name(name: &str) -> bool {
    let mut chars = name.chars();
    chars
        .next()
        .is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}
