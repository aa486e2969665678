//! From the tree to typed structs: a `serde` deserializer whose errors carry path and line.
//!
//! String fields read the text of an environment value, every other field its YAML reading. An
//! absent value (`key:` with nothing behind it) is an empty map where a struct is wanted, as the
//! Collector reads `grpc:`.

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess,
    SeqAccess, VariantAccess, Visitor,
};

use super::error::{Error, Fault};
use super::tree::{Node, Value};

/// Reads `node`, which stands at `path`, as a `T`.
pub(crate) fn read<T: DeserializeOwned>(node: &Node, path: &str) -> Result<T, Error> {
    T::deserialize(De(node)).map_err(|fault| Error::At(fault.under(path, node.line)))
}

#[derive(Clone, Copy)]
struct De<'a>(&'a Node);

impl<'a> De<'a> {
    /// The value with an environment reference read as YAML.
    fn typed(self) -> &'a Value {
        match &self.0.value {
            Value::Env { parsed, .. } => parsed,
            other => other,
        }
    }

    fn wrong(self, wanted: &str) -> Fault {
        let message = format!("expected {wanted}, found {}", self.0.value.kind());
        Fault {
            path: String::new(),
            line: self.0.line,
            message,
        }
    }

    fn text(self) -> Result<&'a str, Fault> {
        match &self.0.value {
            Value::Text(text) => Ok(text),
            // A quoted value in the environment is a YAML string: its quotes are not part of it.
            Value::Env { text, parsed } => match parsed.as_ref() {
                Value::Text(inner) => Ok(inner),
                _ => Ok(text),
            },
            Value::Null
            | Value::Bool(_)
            | Value::Int(_)
            | Value::UInt(_)
            | Value::Float(_)
            | Value::Seq(_)
            | Value::Map(_) => Err(self.wrong("a string")),
        }
    }

    fn entries(self) -> Option<&'a [(String, Node)]> {
        match self.typed() {
            Value::Map(entries) => Some(entries),
            Value::Null => Some(&[]),
            Value::Bool(_)
            | Value::Int(_)
            | Value::UInt(_)
            | Value::Float(_)
            | Value::Text(_)
            | Value::Env { .. }
            | Value::Seq(_) => None,
        }
    }
}

impl<'de> Deserializer<'de> for De<'_> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let line = self.0.line;
        let result = match self.typed() {
            Value::Null => visitor.visit_unit(),
            Value::Bool(v) => visitor.visit_bool(*v),
            Value::Int(v) => match u64::try_from(*v) {
                Ok(v) => visitor.visit_u64(v),
                Err(_) => visitor.visit_i64(*v),
            },
            Value::UInt(v) => visitor.visit_u64(*v),
            Value::Float(v) => visitor.visit_f64(*v),
            Value::Text(v) => visitor.visit_str(v),
            Value::Env { text, .. } => visitor.visit_str(text),
            Value::Seq(items) => visitor.visit_seq(Items {
                items: items.iter(),
                idx: 0,
            }),
            Value::Map(entries) => visitor.visit_map(Entries::of(entries)),
        };
        result.map_err(|fault: Fault| Fault {
            line: if fault.line == 0 { line } else { fault.line },
            ..fault
        })
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_str(self.text()?)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_str(self.text()?)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.typed() {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.deserialize_map(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.entries() {
            Some(entries) => visitor.visit_map(Entries::of(entries)),
            None => Err(self.wrong("a map")),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.typed() {
            Value::Seq(items) => visitor.visit_seq(Items {
                items: items.iter(),
                idx: 0,
            }),
            _ => Err(self.wrong("a list")),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_enum(Variant(self.text()?))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char bytes byte_buf unit unit_struct identifier
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        _len: usize,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _len: usize,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.deserialize_seq(visitor)
    }
}

struct Entries<'a> {
    rest: std::slice::Iter<'a, (String, Node)>,
    value: Option<&'a (String, Node)>,
}

impl<'a> Entries<'a> {
    fn of(entries: &'a [(String, Node)]) -> Self {
        Self {
            rest: entries.iter(),
            value: None,
        }
    }
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Fault> {
        self.value = self.rest.next();
        let Some((key, node)) = self.value else {
            return Ok(None);
        };
        let key: serde::de::value::StrDeserializer<'_, Fault> = key.as_str().into_deserializer();
        match seed.deserialize(key) {
            Ok(key) => Ok(Some(key)),
            Err(fault) => Err(Fault {
                line: node.line,
                ..fault
            }),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        match self.value.take() {
            Some((key, node)) => seed
                .deserialize(De(node))
                .map_err(|fault| fault.under(key, node.line)),
            None => Err(serde::de::Error::custom("a value was read before its key")),
        }
    }
}

struct Items<'a> {
    items: std::slice::Iter<'a, Node>,
    idx: usize,
}

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Fault> {
        let Some(node) = self.items.next() else {
            return Ok(None);
        };
        let name = format!("[{}]", self.idx);
        self.idx += 1;
        seed.deserialize(De(node))
            .map(Some)
            .map_err(|fault| fault.under(&name, node.line))
    }
}

/// An enum written as a plain word.
struct Variant<'a>(&'a str);

impl<'de> EnumAccess<'de> for Variant<'_> {
    type Error = Fault;
    type Variant = UnitOnly;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, UnitOnly), Fault> {
        let name: serde::de::value::StrDeserializer<'_, Fault> = self.0.into_deserializer();
        Ok((seed.deserialize(name)?, UnitOnly))
    }
}

struct UnitOnly;

impl<'de> VariantAccess<'de> for UnitOnly {
    type Error = Fault;

    fn unit_variant(self) -> Result<(), Fault> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, _seed: T) -> Result<T::Value, Fault> {
        Err(serde::de::Error::custom("a plain word is expected here"))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _len: usize, _v: V) -> Result<V::Value, Fault> {
        Err(serde::de::Error::custom("a plain word is expected here"))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _fields: &'static [&'static str],
        _visitor: V,
    ) -> Result<V::Value, Fault> {
        Err(serde::de::Error::custom("a plain word is expected here"))
    }
}
