//! Which attributes filled the columns that attributes have: the inverse of `promoted`.

use super::{Attribute, Event, Holder, StoredValue};
use crate::column::{ColumnType, Origin};
use crate::spans::SPEC;
use crate::spans::cell::Cell;
use crate::spans::coerce;
use crate::spans::entries::{Counts, Scratch};

/// Puts readings that agree with the columns first, and adds the attributes that stand in columns
/// alone. `cell` answers for a column of the row.
pub(super) fn settle(
    attributes: &mut Vec<Attribute>,
    events: &[Event],
    mut cell: impl FnMut(&'static str, ColumnType) -> Option<Cell>,
) {
    for column in SPEC.columns {
        let (holder, aliases, event) = match column.origin {
            Origin::Row => continue,
            Origin::Span { aliases, event } => (Holder::Span, aliases, event),
            Origin::Resource { aliases } => (Holder::Resource, aliases, None),
        };
        let stored = cell(column.name, column.data_type);
        let is_usable = |value: &StoredValue| {
            value.with(|value| coerce::is_usable(value, column.data_type)) == Some(true)
        };
        let is_source = |value: &StoredValue| coerced(value, column.data_type) == stored;
        let mut is_explained = stored.is_none();
        let mut has_canonical = false;
        let spellings = std::iter::once(&column.source).chain(aliases);
        for (rank, key) in spellings.enumerate() {
            let found = attributes.iter_mut();
            let mut found = found.filter(|known| known.holder == holder && known.key == *key);
            let Some(attribute) = found.next() else {
                continue;
            };
            if rank == 0 {
                has_canonical = true;
                // Of the column's type, it would stand in the column alone.
                attribute.only(|value| {
                    value.with(|value| coerce::has_type(value, column.data_type)) == Some(false)
                });
            }
            match &stored {
                None => attribute.only(|value| !is_usable(value)),
                Some(_) if is_explained => {}
                Some(_) => {
                    is_explained = attribute.prefer(|value| is_usable(value) && is_source(value));
                    if !is_explained {
                        attribute.prefer(|value| !is_usable(value));
                    }
                }
            }
        }
        let Some(cell) = &stored else {
            continue;
        };
        if let Some((event, key)) = event
            && !is_explained
        {
            is_explained = of_event(attributes, events, (event, key))
                .is_some_and(|attribute| attribute.prefer(is_source));
        }
        if !has_canonical {
            let mut readings = vec![Some(value(cell))];
            if is_explained {
                readings.insert(0, None);
            }
            attributes.push(Attribute {
                holder,
                key: column.source.to_owned(),
                readings,
            });
        }
    }
}

/// Of several such events the last counts.
fn of_event<'a>(
    attributes: &'a mut [Attribute],
    events: &[Event],
    (name, key): (&str, &str),
) -> Option<&'a mut Attribute> {
    attributes.iter_mut().rev().find(|attribute| {
        let Holder::Event(place) = attribute.holder else {
            return false;
        };
        attribute.key == key && events.get(place).is_some_and(|event| event.name == name)
    })
}

/// What the column would hold.
fn coerced(value: &StoredValue, data_type: ColumnType) -> Option<Cell> {
    value.with(|value| {
        let (mut scratch, mut counts) = (Scratch::default(), Counts::default());
        Cell::read(
            data_type,
            Some(*value),
            usize::MAX,
            &mut scratch,
            &mut counts,
        )
    })
}

/// The value of the canonical key.
fn value(cell: &Cell) -> StoredValue {
    match cell {
        Cell::Int(Some(number)) => StoredValue::Int(*number),
        Cell::Float(Some(number)) => StoredValue::Double(*number),
        Cell::Text(Some(text)) => StoredValue::Str(text.clone()),
        Cell::TextList(Some(texts)) => {
            StoredValue::Array(texts.iter().cloned().map(StoredValue::Str).collect())
        }
        Cell::Int(None) | Cell::Float(None) | Cell::Text(None) | Cell::TextList(None) => {
            StoredValue::Empty
        }
    }
}

impl Attribute {
    /// Drops all readings but these, if there are any.
    fn only(&mut self, is_possible: impl Fn(&StoredValue) -> bool) {
        let is_possible =
            |reading: &Option<StoredValue>| reading.as_ref().is_some_and(&is_possible);
        if self.readings.iter().any(is_possible) {
            self.readings.retain(is_possible);
        }
    }

    /// Puts the first of these readings before all others; is there one?
    fn prefer(&mut self, is_preferred: impl Fn(&StoredValue) -> bool) -> bool {
        let mut readings = self.readings.iter();
        let place = readings.position(|reading| reading.as_ref().is_some_and(&is_preferred));
        if let Some(place) = place {
            self.readings[..=place].rotate_right(1);
        }
        place.is_some()
    }
}
