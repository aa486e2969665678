//! What is removed and shortened before anything is stored or passed on.
//!
//! For tables it happens while rows are built; requests to other backends are rewritten ([`Redaction::request`]).
//!
//! # Limits
//!
//! A stored value, key, name or message is at most [`Config::value_bytes_max`] bytes long (2,048 by
//! default), the mark `...[cut from N bytes]` included, and always valid UTF-8: it is cut at a
//! character boundary. That holds for attributes of span, resource, event and link, and for nested
//! values, which are cut in their JSON text.
//!
//! # Decided
//!
//! *Prompt, completion and document content is dropped by default*, by key, and counted in
//! `redacted_attributes_count`. The key list (OpenTelemetry, OpenInference, Traceloop, Vercel,
//! LiteLLM, Higress and generic HTTP and database keys) is in `redact/keys.rs`. Events that exist to
//! carry content keep only the attributes that say what they are about, not what was said.
//!
//! *Failures stay readable*: `exception.type`, `exception.message`, `exception.stacktrace` and
//! `status.message` are kept, shortened, although a provider may quote a prompt in them: without
//! them "why did it fail" has no answer. Add them to `keys`, under these names, where that is not
//! acceptable.
//!
//! *Whom did it hit* is one of the four questions, so `user.id`, `enduser.id`, `session.id`,
//! `gen_ai.user` and `llm.user` are kept. Add them to `keys` where they are personal data.
//!
//! *URLs are kept without query, fragment and credentials*; a shortened URL counts as redacted.
//!
//! *Request ids in headers* (`http.request.header.x-request-id`) are kept, all other headers are
//! dropped: the id is the only thread between services that lose the trace context.
//!
//! Rejected: hashing instead of dropping (short prompts are guessed from their hash), and looking
//! for content inside the values of unknown keys (never complete; a list can be read and extended).

mod cut;
mod keys;
mod pattern;
mod wire;

use std::{borrow::Cow, sync::Arc};

use serde::Deserialize;

use crate::error::{Error, Result};

pub(crate) use cut::cut;
pub(crate) use pattern::KeyTable;
use pattern::Patterns;

/// Smallest limit for values: room for the mark and some text.
pub const VALUE_BYTES_MIN: u32 = 64;

/// Longest pattern in `keys` and `keep_keys`.
pub const PATTERN_BYTES_MAX: usize = 256;

/// The `redact` processor's settings.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// What happens to keys that are known to carry content. Default `drop`.
    pub content: Content,
    /// Further keys to drop, whatever else is configured. `*` stands for any text, also empty:
    /// `metadata.*`, `*.password`. Default none.
    pub keys: Vec<String>,
    /// Content keys to keep all the same, written like `keys`. Default none.
    pub keep_keys: Vec<String>,
    /// Longest stored value in bytes, at least 64. Longer ones are cut and marked. Unset: values
    /// are stored whole. Default 2048.
    pub value_bytes_max: Option<u32>,
}

/// What happens to keys that are known to carry content.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// Dropped and counted.
    #[default]
    Drop,
    /// Stored, shortened like every value.
    Keep,
}

/// A [`Config`] made ready for use. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Redaction(Arc<Rules>);

#[derive(Debug)]
struct Rules {
    content: Content,
    drop: Patterns,
    keep: Patterns,
    built_in: Patterns,
    urls: KeyTable<()>,
    event_keep: Patterns,
    content_events: Patterns,
    value_bytes_max: usize,
}

/// What to do with one attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Keep,
    Drop,
    /// Keep a URL without query, fragment and credentials.
    StripUrl,
}

/// Where an attribute stands, as far as it decides what is content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Anywhere without rules of its own.
    Plain,
    /// On LiteLLM's span that repeats the provider request and reply key by key.
    RawRequest,
    /// On an event that exists to carry content.
    ContentEvent,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            content: Content::Drop,
            keys: Vec::new(),
            keep_keys: Vec::new(),
            value_bytes_max: Some(2_048),
        }
    }
}

impl Config {
    /// Are all patterns and limits usable?
    ///
    /// # Errors
    /// [`Error::Pattern`] and [`Error::ValueLimit`].
    pub fn validate(&self) -> Result<()> {
        Redaction::new(self).map(drop)
    }
}

impl Redaction {
    /// Compiles the settings.
    ///
    /// # Errors
    /// [`Error::Pattern`] and [`Error::ValueLimit`].
    pub fn new(config: &Config) -> Result<Self> {
        let configured = |field, patterns: &[String]| {
            let bad = patterns
                .iter()
                .find(|p| p.is_empty() || p.len() > PATTERN_BYTES_MAX);
            match bad {
                Some(pattern) => Err(Error::Pattern {
                    field,
                    pattern: cut(pattern, PATTERN_BYTES_MAX, &mut String::new())
                        .0
                        .to_owned(),
                    bytes_max: PATTERN_BYTES_MAX,
                }),
                None => Ok(Patterns::new(patterns.iter().map(String::as_str))),
            }
        };
        let value_bytes_max = match config.value_bytes_max {
            None => usize::MAX,
            Some(value_bytes_max) if value_bytes_max < VALUE_BYTES_MIN => {
                return Err(Error::ValueLimit {
                    value_bytes_max,
                    value_bytes_min: VALUE_BYTES_MIN,
                });
            }
            Some(value_bytes_max) => usize::try_from(value_bytes_max).unwrap_or(usize::MAX),
        };
        let keep = configured("keep_keys", &config.keep_keys)?;
        Ok(Self(Arc::new(Rules {
            content: config.content,
            drop: configured("keys", &config.keys)?,
            keep: keep.and(keys::KEEP.iter().copied()),
            built_in: Patterns::new(keys::CONTENT.iter().copied()),
            urls: keys::URLS.iter().map(|key| (*key, ())).collect(),
            event_keep: Patterns::new(keys::CONTENT_EVENT_KEEP.iter().copied()),
            content_events: Patterns::new(keys::CONTENT_EVENTS.iter().copied()),
            value_bytes_max,
        })))
    }

    /// Longest stored text; `usize::MAX` without a limit.
    pub(crate) fn value_bytes_max(&self) -> usize {
        self.0.value_bytes_max
    }

    /// Rules for the attributes of a span of this name.
    pub(crate) fn place_of_span(&self, name: &str) -> Place {
        if name == keys::RAW_REQUEST_SPAN {
            Place::RawRequest
        } else {
            Place::Plain
        }
    }

    /// Rules for the attributes of an event of this name.
    pub(crate) fn place_of_event(&self, name: &str) -> Place {
        if self.0.content_events.matches(name) {
            Place::ContentEvent
        } else {
            Place::Plain
        }
    }

    /// What to do with an attribute.
    pub(crate) fn action(&self, place: Place, key: &str) -> Action {
        let rules = &*self.0;
        if rules.drop.matches(key) {
            return Action::Drop;
        }
        if rules.content == Content::Keep || rules.keep.matches(key) {
            return Action::Keep;
        }
        let is_content = match place {
            Place::Plain => false,
            Place::RawRequest => keys::is_raw_parameter(key),
            Place::ContentEvent => !rules.event_keep.matches(key),
        };
        if is_content || rules.built_in.matches(key) {
            Action::Drop
        } else if rules.urls.find(key).is_some() {
            Action::StripUrl
        } else {
            Action::Keep
        }
    }
}

/// The URL without query, fragment and credentials; borrowed if it has none.
pub(crate) fn strip_url(url: &str) -> Cow<'_, str> {
    let path_end = url.find(['?', '#']).unwrap_or(url.len());
    let (kept, stripped) = url.split_at(path_end);
    let authority = kept.find("://").map_or(0, |scheme_end| scheme_end + 3);
    let (scheme, rest) = kept.split_at(authority);
    let host_end = rest.find('/').unwrap_or(rest.len());
    let (host, path) = rest.split_at(host_end);
    match host.rsplit_once('@') {
        Some((_, host)) if !scheme.is_empty() => Cow::Owned(format!("{scheme}{host}{path}")),
        _ if stripped.is_empty() => Cow::Borrowed(url),
        _ => Cow::Owned(kept.to_owned()),
    }
}

#[cfg(test)]
mod tests;
