//! Which attribute keys have a column of their own.

use otlp::attribute::Value;

use super::{coerce, entries::Entry};
use crate::{
    column::{ColumnType, Origin, Spec},
    redact::{Action, KeyTable, Place, Redaction},
};

/// Columns that are filled from events; few, so that their values fit on the stack.
pub(super) const EVENT_COLUMNS_MAX: usize = 4;

/// The promoted columns of a table and the keys that fill them.
#[derive(Debug)]
pub(super) struct Promoted {
    /// In the order of the spec.
    pub(super) columns: Vec<PromotedColumn>,
    span_keys: KeyTable<Hit>,
    resource_keys: KeyTable<Hit>,
    events: Vec<EventSource>,
}

#[derive(Debug)]
pub(super) struct PromotedColumn {
    pub(super) name: &'static str,
    pub(super) data_type: ColumnType,
    /// Filled from the resource, not from the span?
    pub(super) is_resource: bool,
    /// Place in what [`Promoted::event_values`] answers.
    pub(super) event: Option<usize>,
}

#[derive(Debug)]
struct EventSource {
    event: &'static str,
    key: &'static str,
    action: Action,
}

/// A key that fills a column.
#[derive(Clone, Copy, Debug)]
struct Hit {
    column: usize,
    /// 0 for the canonical key; of several usable keys, the smallest counts.
    rank: usize,
    action: Action,
}

/// The entry that fills a column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    rank: usize,
    pub(super) entry: usize,
}

impl Promoted {
    pub(super) fn new(spec: &'static Spec, redaction: &Redaction) -> Self {
        let mut promoted = Self {
            columns: Vec::new(),
            span_keys: KeyTable::default(),
            resource_keys: KeyTable::default(),
            events: Vec::new(),
        };
        for column in spec.columns {
            let (is_resource, aliases, event) = match column.origin {
                Origin::Row => continue,
                Origin::Span { aliases, event } => (false, aliases, event),
                Origin::Resource { aliases } => (true, aliases, None),
            };
            let keys = match is_resource {
                true => &mut promoted.resource_keys,
                false => &mut promoted.span_keys,
            };
            let spellings = std::iter::once(&column.source).chain(aliases);
            for (rank, key) in spellings.enumerate() {
                let hit = Hit {
                    column: promoted.columns.len(),
                    rank,
                    action: redaction.action(Place::Plain, key),
                };
                keys.insert(key, hit);
            }
            let event = event.map(|(event, key)| {
                let action = redaction.action(redaction.place_of_event(event), key);
                promoted.events.push(EventSource { event, key, action });
                promoted.events.len() - 1
            });
            promoted.columns.push(PromotedColumn {
                name: column.name,
                data_type: column.data_type,
                is_resource,
                event,
            });
        }
        assert!(
            promoted.events.len() <= EVENT_COLUMNS_MAX,
            "too many columns from events"
        );
        promoted
    }

    /// What to do with an attribute of a span.
    #[inline]
    pub(super) fn span_action(&self, redaction: &Redaction, place: Place, key: &str) -> Action {
        match self.span_keys.find(key) {
            Some(hit) if place == Place::Plain => hit.action,
            _ => redaction.action(place, key),
        }
    }

    /// Picks the entry for each column that span attributes fill and marks those that need no
    /// place in the map.
    pub(super) fn choose_span(&self, entries: &mut [Entry<'_>], chosen: &mut Vec<Option<Choice>>) {
        self.choose(&self.span_keys, entries, chosen);
    }

    /// As [`Self::choose_span`], for the resource.
    pub(super) fn choose_resource(
        &self,
        entries: &mut [Entry<'_>],
        chosen: &mut Vec<Option<Choice>>,
    ) {
        self.choose(&self.resource_keys, entries, chosen);
    }

    fn choose(
        &self,
        keys: &KeyTable<Hit>,
        entries: &mut [Entry<'_>],
        chosen: &mut Vec<Option<Choice>>,
    ) {
        chosen.clear();
        chosen.resize(self.columns.len(), None);
        for (index, entry) in entries.iter_mut().enumerate() {
            let Some(hit) = keys.find(&entry.key) else {
                continue;
            };
            let data_type = self.columns[hit.column].data_type;
            if entry.action == Action::Drop || !coerce::is_usable(&entry.value, data_type) {
                continue;
            }
            entry.is_column_only = hit.rank == 0 && coerce::has_type(&entry.value, data_type);
            let choice = &mut chosen[hit.column];
            if choice.is_none_or(|other| hit.rank < other.rank) {
                *choice = Some(Choice {
                    rank: hit.rank,
                    entry: index,
                });
            }
        }
    }

    /// Values that events give to columns; of several such events, the last counts. Also finds out
    /// whether all events can be read.
    pub(super) fn event_values<'a>(
        &self,
        span: &'a [u8],
    ) -> otlp::Result<[Option<Value<'a>>; EVENT_COLUMNS_MAX]> {
        let mut values = [None; EVENT_COLUMNS_MAX];
        for event in otlp::span::events(span) {
            let event = event?;
            for attribute in event.attributes() {
                let (key, value) = attribute?;
                for (source, slot) in self.events.iter().zip(&mut values) {
                    let is_source = source.key == key && source.event == event.name;
                    if is_source && source.action == Action::Keep {
                        *slot = Some(value);
                    }
                }
            }
        }
        Ok(values)
    }
}
