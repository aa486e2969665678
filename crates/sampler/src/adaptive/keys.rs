//! The keys of `adaptive` policies: read from spans, folded over a trace.
//!
//! A key is a hash of values, so neither names nor values are held. Of the values that an attribute has in one trace
//! the one with the smallest hash stands for all: the same in every order of arrival, and in a trace with one value
//! (one model, one tenant) that value. [`ROOT_SERVICE`] and [`ROOT_NAME`] are those of its root.

use otlp::attribute::{self, Value};
use otlp::span::SpanSummary;

/// Stands for `service.name` of the root span's resource.
pub(crate) const ROOT_SERVICE: &str = "root.service";
/// Stands for the root span's name.
pub(crate) const ROOT_NAME: &str = "root.name";

/// Distinct keys of all policies together: each takes 8 bytes per trace.
pub const ADAPTIVE_KEYS_MAX: usize = 8;

/// No value.
const ABSENT: u64 = u64::MAX;

/// The smallest hash of the values of each key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyHashes([u64; ADAPTIVE_KEYS_MAX]);

impl Default for KeyHashes {
    fn default() -> Self {
        Self([ABSENT; ADAPTIVE_KEYS_MAX])
    }
}

impl KeyHashes {
    pub(crate) fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine = (*mine).min(theirs);
        }
    }

    /// The key of a policy that looks at these places.
    pub(crate) fn combined(&self, places: &[usize]) -> u64 {
        places.iter().fold(hash(0, &[]), |all, place| {
            hash(all, &self.0[*place].to_le_bytes())
        })
    }
}

/// All keys that policies ask for, each once.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    names: Vec<Box<str>>,
}

impl Keys {
    /// The place of a key; `None` if it is one too many.
    pub(crate) fn place(&mut self, name: &str) -> Option<usize> {
        if let Some(place) = self.names.iter().position(|known| **known == *name) {
            return Some(place);
        }
        if self.names.len() == ADAPTIVE_KEYS_MAX {
            return None;
        }
        self.names.push(name.into());
        Some(self.names.len() - 1)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// What a resource gives to all of its spans; `root.service` is in it too, for the root alone.
    pub(crate) fn read_resource(&self, resource: &[u8]) -> KeyHashes {
        let mut found = KeyHashes::default();
        for (name, slot) in self.names.iter().zip(&mut found.0) {
            let name = match &**name {
                ROOT_SERVICE => "service.name",
                ROOT_NAME => continue,
                other => other,
            };
            if let Some(value) = attribute::lookup(attribute::of_resource(resource), name) {
                *slot = hash_value(&value);
            }
        }
        found
    }

    /// What a span gives, with its resource. Attributes that cannot be read give nothing.
    pub(crate) fn read_span(
        &self,
        resource: &KeyHashes,
        span: &[u8],
        summary: &SpanSummary<'_>,
    ) -> KeyHashes {
        let is_root = summary.parent_span_id.is_none();
        let mut own = KeyHashes::default();
        for (key, value) in attribute::of_span(span).flatten() {
            // Of an attribute that is repeated the last one counts.
            if let Some(place) = self.names.iter().position(|name| **name == *key) {
                own.0[place] = hash_value(&value);
            }
        }
        let mut found = *resource;
        found.merge(&own);
        for (name, slot) in self.names.iter().zip(&mut found.0) {
            match &**name {
                ROOT_NAME if is_root => *slot = hash(1, summary.name.as_bytes()),
                ROOT_NAME | ROOT_SERVICE if !is_root => *slot = ABSENT,
                _ => {}
            }
        }
        found
    }
}

fn hash_value(value: &Value<'_>) -> u64 {
    match value {
        Value::Str(text) => hash(1, text.as_bytes()),
        Value::Int(int) => hash(2, &int.to_le_bytes()),
        Value::Double(double) => hash(3, &double.to_bits().to_le_bytes()),
        Value::Bool(is_true) => hash(4, &[u8::from(*is_true)]),
        Value::Empty | Value::Bytes(_) | Value::Array(_) | Value::KvList(_) => ABSENT,
    }
}

/// The same in every process, so that equal input gives equal decisions; below [`ABSENT`].
fn hash(start: u64, bytes: &[u8]) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(PRIME);
    let hash = bytes.iter().fold(OFFSET ^ start.wrapping_mul(PRIME), step);
    hash.min(ABSENT - 1)
}
