//! The resource as it is stored, kept while neighbouring spans share it.

use otlp::attribute;

use super::{
    cell::Cell,
    entries::{self, Counts, Scratch},
    promoted::Promoted,
};
use crate::redact::{Action, Place, Redaction};

/// What a resource gives to each of its spans' rows.
#[derive(Debug, Default)]
pub(super) struct ResourceCells {
    /// The resource message; `None` before the first.
    bytes: Option<Vec<u8>>,
    /// Entries of the map.
    pub(super) attributes: Vec<(String, Option<String>)>,
    /// One per promoted column.
    pub(super) columns: Vec<Cell>,
    pub(super) counts: Counts,
}

impl ResourceCells {
    /// Was it read from these bytes?
    pub(super) fn is_of(&self, resource: &[u8]) -> bool {
        self.bytes.as_deref() == Some(resource)
    }

    pub(super) fn read(
        resource: &[u8],
        promoted: &Promoted,
        redaction: &Redaction,
        scratch: &mut Scratch,
    ) -> otlp::Result<Self> {
        let mut read = Vec::new();
        entries::read(
            attribute::of_resource(resource),
            redaction,
            |key| redaction.action(Place::Plain, key),
            &mut read,
        )?;
        let mut chosen = Vec::new();
        promoted.choose_resource(&mut read, &mut chosen);
        let bytes_max = redaction.value_bytes_max();
        let mut cells = Self {
            bytes: Some(resource.to_vec()),
            ..Self::default()
        };
        for entry in &read {
            if entry.action == Action::Drop {
                cells.counts.redacted = cells.counts.redacted.saturating_add(1);
            } else if !entry.is_column_only {
                let value = entries::render(entry, bytes_max, scratch, &mut cells.counts);
                let value = value.map(str::to_owned);
                cells
                    .attributes
                    .push((entry.key.clone().into_owned(), value));
            }
        }
        for (column, choice) in promoted.columns.iter().zip(&chosen) {
            let entry = choice.map(|choice| &read[choice.entry]);
            let value = entry.map(|entry| entry.value);
            let mut cuts = Counts::default();
            cells.columns.push(Cell::read(
                column.data_type,
                value,
                bytes_max,
                scratch,
                &mut cuts,
            ));
            if entry.is_some_and(|entry| entry.is_column_only) {
                cells.counts.add(cuts);
            }
        }
        Ok(cells)
    }
}
