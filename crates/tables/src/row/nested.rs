//! Builders of nested columns: lists, attribute maps, events, links.

use std::sync::Arc;

use arrow::{
    array::{
        Array, ArrayBuilder as _, ArrayRef, Int64Builder, ListArray, MapArray, StringBuilder,
        StructArray, TimestampMicrosecondBuilder,
    },
    buffer::OffsetBuffer,
    datatypes::{DataType, Fields},
};
use otlp::{SpanId, TraceId};

use crate::{
    column::{element, entries, event_fields, link_fields},
    time,
};

pub(super) fn times() -> TimestampMicrosecondBuilder {
    TimestampMicrosecondBuilder::new().with_timezone("UTC")
}

pub(super) fn finish_text(cells: &mut StringBuilder) -> ArrayRef {
    Arc::new(cells.finish())
}

pub(super) fn append_hex(cells: &mut StringBuilder, id: Option<&[u8]>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let Some(id) = id else {
        return cells.append_null();
    };
    let mut hex = [0; 32];
    for (pair, byte) in hex.chunks_exact_mut(2).zip(id) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 0x0f)];
    }
    cells.append_option(std::str::from_utf8(&hex[..2 * id.len()]).ok());
}

/// Ends of the items of each row.
#[derive(Debug)]
struct Ends(Vec<i32>);

impl Default for Ends {
    fn default() -> Self {
        Self(vec![0])
    }
}

impl Ends {
    fn push(&mut self, n_items: usize) {
        // `BATCH_BYTES_MAX` keeps counts far below: every item takes bytes.
        self.0.push(i32::try_from(n_items).unwrap_or(i32::MAX));
    }

    fn finish(&mut self) -> OffsetBuffer<i32> {
        OffsetBuffer::new(std::mem::take(self).0.into())
    }
}

/// A list column over items of one builder.
#[derive(Debug)]
pub(super) struct Lists<B> {
    pub(super) items: B,
    ends: Ends,
    validity: Vec<bool>,
}

impl<B: Default> Default for Lists<B> {
    fn default() -> Self {
        Self {
            items: B::default(),
            ends: Ends::default(),
            validity: Vec::new(),
        }
    }
}

impl<B> Lists<B> {
    pub(super) fn close(&mut self, n_items: usize, is_valid: bool) {
        self.ends.push(n_items);
        self.validity.push(is_valid);
    }

    pub(super) fn finish(
        &mut self,
        items: impl FnOnce(&mut B) -> (DataType, ArrayRef),
    ) -> ArrayRef {
        let (data_type, items) = items(&mut self.items);
        let nulls = std::mem::take(&mut self.validity).into();
        let ends = self.ends.finish();
        Arc::new(ListArray::new(element(data_type), ends, items, Some(nulls)))
    }
}

/// A column of attribute maps. Keys must not repeat within a row: the caller sees to it.
#[derive(Debug, Default)]
pub(crate) struct AttributeCells {
    keys: StringBuilder,
    values: StringBuilder,
    ends: Ends,
}

impl AttributeCells {
    /// Adds an entry to the row; says how many bytes it takes.
    pub(crate) fn push(&mut self, key: &str, value: Option<&str>) -> usize {
        self.keys.append_value(key);
        self.values.append_option(value);
        8 + key.len() + value.map_or(0, str::len)
    }

    pub(super) fn close(&mut self) {
        self.ends.push(self.keys.len());
    }

    pub(super) fn finish(&mut self) -> MapArray {
        let entries = entries();
        let DataType::Struct(fields) = entries.data_type().clone() else {
            super::mismatch("key_value")
        };
        let columns = vec![finish_text(&mut self.keys), finish_text(&mut self.values)];
        let pairs = StructArray::new(fields, columns, None);
        MapArray::new(entries, self.ends.finish(), pairs, None, false)
    }
}

/// One event without its attributes.
#[derive(Debug)]
pub(crate) struct EventCell<'a> {
    pub(crate) time_unix_nano: u64,
    pub(crate) name: &'a str,
    pub(crate) dropped_attributes_count: u32,
}

/// A column of lists of events.
#[derive(Debug)]
pub(crate) struct EventCells {
    time: TimestampMicrosecondBuilder,
    time_unix_nano: Int64Builder,
    name: StringBuilder,
    attributes: AttributeCells,
    dropped_attributes_count: Int64Builder,
    ends: Ends,
    n_events: usize,
}

impl EventCells {
    pub(super) fn new() -> Self {
        Self {
            time: times(),
            time_unix_nano: Int64Builder::new(),
            name: StringBuilder::new(),
            attributes: AttributeCells::default(),
            dropped_attributes_count: Int64Builder::new(),
            ends: Ends::default(),
            n_events: 0,
        }
    }

    /// Adds an event to the row; says how many bytes it takes.
    pub(crate) fn push(
        &mut self,
        event: &EventCell<'_>,
        attributes: impl FnOnce(&mut AttributeCells) -> usize,
    ) -> usize {
        self.time.append_option(time::micros(event.time_unix_nano));
        self.time_unix_nano
            .append_option(time::nanos(event.time_unix_nano));
        self.name.append_value(event.name);
        self.dropped_attributes_count
            .append_value(event.dropped_attributes_count.into());
        let n_bytes = attributes(&mut self.attributes);
        self.attributes.close();
        self.n_events += 1;
        32 + event.name.len() + n_bytes
    }

    pub(super) fn close(&mut self) {
        self.ends.push(self.n_events);
    }

    pub(super) fn finish(&mut self) -> ArrayRef {
        self.n_events = 0;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.time.finish()),
            Arc::new(self.time_unix_nano.finish()),
            finish_text(&mut self.name),
            Arc::new(self.attributes.finish()),
            Arc::new(self.dropped_attributes_count.finish()),
        ];
        list_of_structs(event_fields(), columns, &mut self.ends)
    }
}

/// One link without its attributes.
#[derive(Debug)]
pub(crate) struct LinkCell<'a> {
    pub(crate) trace_id: Option<TraceId>,
    pub(crate) span_id: Option<SpanId>,
    pub(crate) trace_state: &'a str,
    pub(crate) flags: u32,
    pub(crate) dropped_attributes_count: u32,
}

/// A column of lists of links.
#[derive(Debug, Default)]
pub(crate) struct LinkCells {
    trace_id: StringBuilder,
    span_id: StringBuilder,
    trace_state: StringBuilder,
    flags: Int64Builder,
    attributes: AttributeCells,
    dropped_attributes_count: Int64Builder,
    ends: Ends,
    n_links: usize,
}

impl LinkCells {
    /// Adds a link to the row; says how many bytes it takes.
    pub(crate) fn push(
        &mut self,
        link: &LinkCell<'_>,
        attributes: impl FnOnce(&mut AttributeCells) -> usize,
    ) -> usize {
        append_hex(
            &mut self.trace_id,
            link.trace_id.as_ref().map(|id| id.as_bytes().as_slice()),
        );
        append_hex(
            &mut self.span_id,
            link.span_id.as_ref().map(|id| id.as_bytes().as_slice()),
        );
        let trace_state = Some(link.trace_state).filter(|state| !state.is_empty());
        self.trace_state.append_option(trace_state);
        self.flags.append_value(link.flags.into());
        self.dropped_attributes_count
            .append_value(link.dropped_attributes_count.into());
        let n_bytes = attributes(&mut self.attributes);
        self.attributes.close();
        self.n_links += 1;
        76 + link.trace_state.len() + n_bytes
    }

    pub(super) fn close(&mut self) {
        self.ends.push(self.n_links);
    }

    pub(super) fn finish(&mut self) -> ArrayRef {
        self.n_links = 0;
        let columns: Vec<ArrayRef> = vec![
            finish_text(&mut self.trace_id),
            finish_text(&mut self.span_id),
            finish_text(&mut self.trace_state),
            Arc::new(self.flags.finish()),
            Arc::new(self.attributes.finish()),
            Arc::new(self.dropped_attributes_count.finish()),
        ];
        list_of_structs(link_fields(), columns, &mut self.ends)
    }
}

fn list_of_structs(fields: Fields, columns: Vec<ArrayRef>, ends: &mut Ends) -> ArrayRef {
    let items: ArrayRef = Arc::new(StructArray::new(fields, columns, None));
    let item = element(items.data_type().clone());
    Arc::new(ListArray::new(item, ends.finish(), items, None))
}
