//! A configuration file as a tree: YAML values that remember their line, with `${env:NAME}` replaced.
//!
//! The tree sits between the YAML library and the typed configuration for three reasons: every error
//! can name a full path and a line, a duplicate key is an error, and an environment value keeps both
//! of its readings, the text for string fields and the YAML value for typed ones (the Collector's
//! rule, its `docs/rfcs/env-vars.md`: `ZEROS=0123` is `0123` in a string field and 83 nowhere).
//!
//! It must not know any component.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

/// One value and where it stands in the file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    /// 1-based line; 0 where the value does not come from a file.
    pub(crate) line: u64,
    pub(crate) value: Value,
}

/// A YAML value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    /// Only where the number does not fit `i64`.
    UInt(u64),
    Float(f64),
    Text(String),
    /// A scalar that was `${env:NAME}` as a whole: the text as it is in the environment, and what
    /// that text means as YAML.
    Env {
        text: String,
        parsed: Box<Value>,
    },
    Seq(Vec<Node>),
    /// In file order.
    Map(Vec<(String, Node)>),
}

impl Node {
    /// Parses one YAML document; duplicate keys are errors.
    pub(crate) fn parse(yaml: &str) -> Result<Node, serde_saphyr::Error> {
        if yaml.lines().all(|line| {
            let line = line.trim();
            line.is_empty() || line.starts_with('#') || line == "---"
        }) {
            return Ok(Node {
                line: 0,
                value: Value::Map(Vec::new()),
            });
        }
        // `no` and `on` are strings where nothing asks for a boolean, as in the Collector.
        // An error quotes no lines of the file, among which a token may be: line and column are enough.
        let options = serde_saphyr::options! { strict_booleans: true, with_snippet: false };
        serde_saphyr::from_str_with_options(yaml, options)
    }

    /// The entry `key` of a map.
    pub(crate) fn child(&self, key: &str) -> Option<&Node> {
        let entry = self.entries().iter().find(|(known, _)| known == key);
        entry.map(|(_, node)| node)
    }

    /// The item at a place of a list.
    pub(crate) fn item(&self, idx: usize) -> Option<&Node> {
        if let Value::Seq(items) = &self.value {
            items.get(idx)
        } else {
            None
        }
    }

    /// The entries of a map; none for anything else.
    pub(crate) fn entries(&self) -> &[(String, Node)] {
        if let Value::Map(entries) = &self.value {
            entries
        } else {
            &[]
        }
    }
}

impl Value {
    /// What a person would call this value.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Value::Null => "nothing",
            Value::Bool(_) => "a boolean",
            Value::Int(_) | Value::UInt(_) => "an integer",
            Value::Float(_) => "a number",
            Value::Text(_) => "a string",
            Value::Env { parsed, .. } => parsed.kind(),
            Value::Seq(_) => "a list",
            Value::Map(_) => "a map",
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Value>::deserialize(deserializer)?;
        Ok(Node {
            line: spanned.referenced.line(),
            value: spanned.value,
        })
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Value::deserialize(deserializer)
    }

    fn visit_bool<E>(self, v: bool) -> Result<Value, E> {
        Ok(Value::Bool(v))
    }

    fn visit_i64<E>(self, v: i64) -> Result<Value, E> {
        Ok(Value::Int(v))
    }

    fn visit_u64<E>(self, v: u64) -> Result<Value, E> {
        Ok(i64::try_from(v).map_or(Value::UInt(v), Value::Int))
    }

    fn visit_f64<E>(self, v: f64) -> Result<Value, E> {
        Ok(Value::Float(v))
    }

    fn visit_str<E>(self, v: &str) -> Result<Value, E> {
        Ok(Value::Text(v.to_owned()))
    }

    fn visit_string<E>(self, v: String) -> Result<Value, E> {
        Ok(Value::Text(v))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element::<Node>()? {
            items.push(item);
        }
        Ok(Value::Seq(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some((key, node)) = map.next_entry::<String, Node>()? {
            entries.push((key, node));
        }
        Ok(Value::Map(entries))
    }
}
