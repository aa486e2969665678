//! The cells of a row.

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, ListArray, MapArray,
    RecordBatch, StringArray, StructArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use arrow::error::ArrowError;
use otlp::span::{SpanKind, StatusCode};
use otlp::{SpanId, TraceId};
use std::ops::Range;

use super::settle::settle;
use super::{Attribute, Event, Holder, Link, ReadError, StoredSpan, StoredValue};
use crate::column::{ColumnType, Origin};
use crate::spans::SPEC;
use crate::spans::cell::Cell;

#[derive(Debug)]
pub(super) struct Columns {
    /// Columns of the message, by name.
    texts: Vec<(&'static str, StringArray)>,
    ints: Vec<(&'static str, Int64Array)>,
    late: BooleanArray,
    attributes: Maps,
    resource_attributes: Maps,
    events: Events,
    links: Links,
    /// Columns of attributes, by name.
    promoted: Vec<(&'static str, Promoted)>,
}

#[derive(Debug)]
enum Promoted {
    Text(StringArray),
    Int(Int64Array),
    Float(Float64Array),
    TextList(ListArray, StringArray),
}

/// A column of maps.
#[derive(Debug)]
struct Maps {
    maps: MapArray,
    keys: StringArray,
    values: StringArray,
}

#[derive(Debug)]
struct Events {
    lists: ListArray,
    time_unix_nano: Int64Array,
    name: StringArray,
    attributes: Maps,
    dropped: Int64Array,
}

#[derive(Debug)]
struct Links {
    lists: ListArray,
    trace_id: StringArray,
    span_id: StringArray,
    trace_state: StringArray,
    flags: Int64Array,
    attributes: Maps,
    dropped: Int64Array,
}

const TEXTS: [&str; 11] = [
    "trace_id",
    "span_id",
    "parent_span_id",
    "trace_state",
    "name",
    "kind",
    "status_code",
    "status_message",
    "scope_name",
    "scope_version",
    "resource_schema_url",
];

const INTS: [&str; 9] = [
    "flags",
    "start_time_unix_nano",
    "end_time_unix_nano",
    "dropped_attributes_count",
    "dropped_events_count",
    "dropped_links_count",
    "redacted_attributes_count",
    "truncated_attributes_count",
    "received_time",
];

type Read<T> = Result<T, ArrowError>;

impl Columns {
    pub(super) fn over(batch: &RecordBatch) -> Result<Self, ReadError> {
        let read = |column| {
            batch
                .column_by_name(column)
                .ok_or(ReadError::Column { column })
        };
        let mut promoted = Vec::new();
        for column in SPEC.columns {
            if matches!(column.origin, Origin::Row) {
                continue;
            }
            let values = Promoted::over(read(column.name)?, column.data_type);
            promoted.push((column.name, values.map_err(wrong(column.name))?));
        }
        let mut text_columns = Vec::with_capacity(TEXTS.len());
        for column in TEXTS {
            text_columns.push((column, texts(read(column)?).map_err(wrong(column))?));
        }
        let mut int_columns = Vec::with_capacity(INTS.len());
        for column in INTS {
            int_columns.push((column, ints(read(column)?).map_err(wrong(column))?));
        }
        let late = read("late")?.as_boolean_opt().cloned();
        let maps = |column| Maps::over(read(column)?).map_err(wrong(column));
        Ok(Self {
            texts: text_columns,
            ints: int_columns,
            late: late
                .ok_or_else(|| other_type("late"))
                .map_err(wrong("late"))?,
            attributes: maps("attributes")?,
            resource_attributes: maps("resource_attributes")?,
            events: Events::over(read("events")?).map_err(wrong("events"))?,
            links: Links::over(read("links")?).map_err(wrong("links"))?,
            promoted,
        })
    }

    pub(super) fn span(&self, row: usize) -> Result<StoredSpan, ReadError> {
        let text = |name| self.text(name, row).to_owned();
        let trace_id = TraceId::parse_hex(self.text("trace_id", row));
        let span_id = SpanId::parse_hex(self.text("span_id", row));
        let (Ok(trace_id), Ok(span_id)) = (trace_id, span_id) else {
            return Err(ReadError::Id { row });
        };
        let mut attributes = Vec::new();
        self.resource_attributes
            .read(row, Holder::Resource, &mut attributes);
        self.attributes.read(row, Holder::Span, &mut attributes);
        let events = self.events.read(row, &mut attributes);
        let links = self.links.read(row, &mut attributes);
        settle(&mut attributes, &events, |name, _| self.cell(name, row));
        Ok(StoredSpan {
            trace_id,
            span_id,
            parent_span_id: SpanId::parse_hex(self.text("parent_span_id", row)).ok(),
            trace_state: text("trace_state"),
            flags: self.small("flags", row),
            name: text("name"),
            kind: kind(self.text("kind", row)),
            start_time_unix_nano: self.size("start_time_unix_nano", row),
            end_time_unix_nano: self.size("end_time_unix_nano", row),
            status_code: status(self.text("status_code", row)),
            status_message: text("status_message"),
            scope: (text("scope_name"), text("scope_version")),
            attributes,
            dropped_counts: [
                self.small("dropped_attributes_count", row),
                self.small("dropped_events_count", row),
                self.small("dropped_links_count", row),
            ],
            resource_schema_url: text("resource_schema_url"),
            late: self.late.is_valid(row) && self.late.value(row),
            received_unix_micros: self.int("received_time", row).unwrap_or(0),
            events,
            links,
            is_redacted: self.size("redacted_attributes_count", row) > 0,
            is_truncated: self.size("truncated_attributes_count", row) > 0,
        })
    }

    fn text(&self, name: &str, row: usize) -> &str {
        let column = self.texts.iter().find(|(known, _)| *known == name);
        column
            .and_then(|(_, column)| text_at(column, row))
            .unwrap_or_default()
    }

    fn int(&self, name: &str, row: usize) -> Option<i64> {
        let (_, column) = self.ints.iter().find(|(known, _)| *known == name)?;
        int_at(column, row)
    }

    fn size(&self, name: &str, row: usize) -> u64 {
        unsigned(self.int(name, row))
    }

    fn small(&self, name: &str, row: usize) -> u32 {
        u32::try_from(self.size(name, row)).unwrap_or(u32::MAX)
    }

    fn cell(&self, name: &str, row: usize) -> Option<Cell> {
        let (_, column) = self.promoted.iter().find(|(known, _)| *known == name)?;
        match column {
            Promoted::Text(column) => {
                text_at(column, row).map(|text| Cell::Text(Some(text.to_owned())))
            }
            Promoted::Int(column) => int_at(column, row).map(|int| Cell::Int(Some(int))),
            Promoted::Float(column) => {
                let is_valid = column.is_valid(row);
                is_valid.then(|| Cell::Float(Some(column.value(row))))
            }
            Promoted::TextList(lists, items) => lists.is_valid(row).then(|| {
                let items = items_of(lists, row).map(|item| text_at(items, item));
                let items = items.map(|item| item.unwrap_or_default().to_owned());
                Cell::TextList(Some(items.collect()))
            }),
        }
    }
}

impl Promoted {
    fn over(column: &ArrayRef, data_type: ColumnType) -> Read<Self> {
        Ok(match data_type {
            ColumnType::Int => Self::Int(ints(column)?),
            ColumnType::Float => {
                let column = cast(column, &DataType::Float64)?;
                Self::Float(column.as_primitive::<Float64Type>().clone())
            }
            ColumnType::TextList => {
                let lists = lists(column)?;
                let items = texts(lists.values())?;
                Self::TextList(lists, items)
            }
            _ => Self::Text(texts(column)?),
        })
    }
}

impl Maps {
    fn over(column: &ArrayRef) -> Read<Self> {
        let maps = column.as_map_opt().ok_or_else(|| other_type("map"))?;
        Ok(Self {
            keys: texts(maps.keys())?,
            values: texts(maps.values())?,
            maps: maps.clone(),
        })
    }

    fn read(&self, row: usize, holder: Holder, out: &mut Vec<Attribute>) {
        if self.maps.is_null(row) {
            return;
        }
        let offsets = self.maps.value_offsets();
        for entry in range(offsets, row) {
            let readings = StoredValue::readings(text_at(&self.values, entry));
            out.push(Attribute {
                holder,
                key: text_at(&self.keys, entry).unwrap_or_default().to_owned(),
                readings: readings.into_iter().map(Some).collect(),
            });
        }
    }
}

impl Events {
    fn over(column: &ArrayRef) -> Read<Self> {
        let lists = lists(column)?;
        let fields = fields(&lists)?;
        Ok(Self {
            time_unix_nano: ints(field(fields, "time_unix_nano")?)?,
            name: texts(field(fields, "name")?)?,
            attributes: Maps::over(field(fields, "attributes")?)?,
            dropped: ints(field(fields, "dropped_attributes_count")?)?,
            lists,
        })
    }

    fn read(&self, row: usize, attributes: &mut Vec<Attribute>) -> Vec<Event> {
        let items = items_of(&self.lists, row).enumerate();
        let read = |(place, item)| {
            self.attributes.read(item, Holder::Event(place), attributes);
            Event {
                time_unix_nano: unsigned(int_at(&self.time_unix_nano, item)),
                name: text_at(&self.name, item).unwrap_or_default().to_owned(),
                dropped_attributes_count: small(int_at(&self.dropped, item)),
            }
        };
        items.map(read).collect()
    }
}

impl Links {
    fn over(column: &ArrayRef) -> Read<Self> {
        let lists = lists(column)?;
        let fields = fields(&lists)?;
        Ok(Self {
            trace_id: texts(field(fields, "trace_id")?)?,
            span_id: texts(field(fields, "span_id")?)?,
            trace_state: texts(field(fields, "trace_state")?)?,
            flags: ints(field(fields, "flags")?)?,
            attributes: Maps::over(field(fields, "attributes")?)?,
            dropped: ints(field(fields, "dropped_attributes_count")?)?,
            lists,
        })
    }

    fn read(&self, row: usize, attributes: &mut Vec<Attribute>) -> Vec<Link> {
        let items = items_of(&self.lists, row).enumerate();
        let read = |(place, item)| {
            self.attributes.read(item, Holder::Link(place), attributes);
            let id = |column| text_at(column, item).unwrap_or_default();
            Link {
                trace_id: TraceId::parse_hex(id(&self.trace_id)).ok(),
                span_id: SpanId::parse_hex(id(&self.span_id)).ok(),
                trace_state: id(&self.trace_state).to_owned(),
                flags: small(int_at(&self.flags, item)),
                dropped_attributes_count: small(int_at(&self.dropped, item)),
            }
        };
        items.map(read).collect()
    }
}

fn wrong(column: &'static str) -> impl FnOnce(ArrowError) -> ReadError {
    move |source| ReadError::Type { column, source }
}

fn other_type(what: &str) -> ArrowError {
    ArrowError::SchemaError(format!("`{what}` has another type"))
}

fn texts(column: &ArrayRef) -> Read<StringArray> {
    Ok(cast(column, &DataType::Utf8)?.as_string::<i32>().clone())
}

fn ints(column: &ArrayRef) -> Read<Int64Array> {
    let column = cast(column, &DataType::Int64)?;
    Ok(column.as_primitive::<Int64Type>().clone())
}

fn lists(column: &ArrayRef) -> Read<ListArray> {
    let lists = column.as_list_opt::<i32>();
    lists.cloned().ok_or_else(|| other_type("list"))
}

fn fields(lists: &ListArray) -> Read<&StructArray> {
    let fields = lists.values().as_struct_opt();
    fields.ok_or_else(|| other_type("element"))
}

fn field<'a>(fields: &'a StructArray, name: &str) -> Read<&'a ArrayRef> {
    fields.column_by_name(name).ok_or_else(|| other_type(name))
}

fn items_of(lists: &ListArray, row: usize) -> Range<usize> {
    if lists.is_null(row) {
        return 0..0;
    }
    range(lists.value_offsets(), row)
}

fn range(offsets: &[i32], row: usize) -> Range<usize> {
    let offset = |place: usize| usize::try_from(offsets[place]).unwrap_or(0);
    offset(row)..offset(row + 1)
}

fn text_at(column: &StringArray, row: usize) -> Option<&str> {
    column.is_valid(row).then(|| column.value(row))
}

fn int_at(column: &Int64Array, row: usize) -> Option<i64> {
    column.is_valid(row).then(|| column.value(row))
}

fn unsigned(int: Option<i64>) -> u64 {
    int.and_then(|int| u64::try_from(int).ok()).unwrap_or(0)
}

fn small(int: Option<i64>) -> u32 {
    u32::try_from(unsigned(int)).unwrap_or(u32::MAX)
}

fn kind(text: &str) -> SpanKind {
    let mut kinds = (0..6).map(SpanKind::from_number);
    kinds.find(|kind| kind.as_str() == text).unwrap_or_default()
}

fn status(text: &str) -> StatusCode {
    let mut codes = (0..3).map(StatusCode::from_number);
    codes.find(|code| code.as_str() == text).unwrap_or_default()
}
