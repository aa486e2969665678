//! The words of the stored contract: column, type, origin, table.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};

/// One table of the stored contract.
#[derive(Debug)]
pub struct Spec {
    /// Its name in SQL and on disk.
    pub name: &'static str,
    /// What one row is.
    pub doc: &'static str,
    /// Its columns in order.
    pub columns: &'static [Column],
    /// Order of the rows in a file.
    pub sort: &'static [SortKey],
    /// Columns with a bloom filter.
    pub bloom: &'static [&'static str],
    /// Columns with minimum and maximum per file. Few: each costs space in every commit.
    pub stats: &'static [&'static str],
    /// Days that rows are kept unless configured otherwise.
    pub retention_days: u32,
}

/// One column of a table.
#[derive(Debug)]
pub struct Column {
    /// Its name: OTLP's or the attribute key with `_` for `.`; the unit last.
    pub name: &'static str,
    /// What its values are.
    pub data_type: ColumnType,
    /// May a row have no value? Only keys may not.
    pub nullable: bool,
    /// One sentence for people.
    pub doc: &'static str,
    /// Unit of its numbers, empty if they have none.
    pub unit: &'static str,
    /// OTLP field, attribute key or rule that it comes from.
    pub source: &'static str,
    /// How the value is found in a span; `Origin::Row` where code computes it.
    pub origin: Origin,
    /// Does hardly any value come twice in a file? A dictionary of such values is larger than they are.
    pub distinct: bool,
}

/// The types that a stored column may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// `Date32`.
    Date,
    /// `Timestamp(us, UTC)`.
    Time,
    /// `Int64`.
    Int,
    /// `Float64`.
    Float,
    /// `Boolean`.
    Bool,
    /// `Utf8`.
    Text,
    /// `List<element: Utf8>`.
    TextList,
    /// `Map<key_value: key Utf8, value Utf8>`.
    Attributes,
    /// List of span events.
    Events,
    /// List of span links.
    Links,
}

/// Where the value of a column is looked up.
#[derive(Clone, Copy, Debug)]
pub enum Origin {
    /// Computed, or a field of the message.
    Row,
    /// Span attribute [`field@Column::source`].
    Span {
        /// Other spellings, best first; used where the canonical key has no usable value.
        aliases: &'static [&'static str],
        /// Event name and attribute key that fill the column if no span attribute does.
        event: Option<(&'static str, &'static str)>,
    },
    /// Resource attribute [`field@Column::source`].
    Resource {
        /// Other spellings, best first.
        aliases: &'static [&'static str],
    },
}

/// One column of a sort order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortKey {
    /// Column to sort by.
    pub column: &'static str,
    /// Largest first?
    pub descending: bool,
}

impl SortKey {
    /// Smallest first.
    pub const fn ascending(column: &'static str) -> Self {
        Self {
            column,
            descending: false,
        }
    }

    /// Largest first.
    pub const fn descending(column: &'static str) -> Self {
        Self {
            column,
            descending: true,
        }
    }
}

impl Spec {
    /// The Arrow schema of its batches.
    pub fn schema(&self) -> SchemaRef {
        let fields = self
            .columns
            .iter()
            .map(|column| Field::new(column.name, column.data_type.arrow(), column.nullable));
        Arc::new(Schema::new(fields.collect::<Fields>()))
    }

    /// Names of columns where hardly any value comes twice.
    pub fn distinct(&self) -> impl Iterator<Item = &'static str> {
        let columns = self.columns.iter().filter(|column| column.distinct);
        columns.map(|column| column.name)
    }

    /// The column with this name.
    pub fn column(&self, name: &str) -> Option<&'static Column> {
        self.columns.iter().find(|column| column.name == name)
    }
}

impl Column {
    /// A nullable column that code fills.
    pub(crate) const fn new(name: &'static str, data_type: ColumnType, doc: &'static str) -> Self {
        Self {
            name,
            data_type,
            nullable: true,
            doc,
            unit: "",
            source: "",
            origin: Origin::Row,
            distinct: false,
        }
    }

    /// It identifies or places the row: never NULL.
    pub(crate) const fn key(mut self) -> Self {
        self.nullable = false;
        self
    }

    pub(crate) const fn unit(mut self, unit: &'static str) -> Self {
        self.unit = unit;
        self
    }

    /// Exact times, lengths and identifiers of rows.
    pub(crate) const fn distinct(mut self) -> Self {
        self.distinct = true;
        self
    }

    /// OTLP field or rule behind it.
    pub(crate) const fn source(mut self, source: &'static str) -> Self {
        self.source = source;
        self
    }

    /// Promoted from the span attribute `key`.
    pub(crate) const fn span(
        mut self,
        key: &'static str,
        aliases: &'static [&'static str],
    ) -> Self {
        self.source = key;
        self.origin = Origin::Span {
            aliases,
            event: None,
        };
        self
    }

    /// Promoted from the span attribute `key`, else from an event's attribute.
    pub(crate) const fn span_or_event(
        mut self,
        key: &'static str,
        aliases: &'static [&'static str],
        event: (&'static str, &'static str),
    ) -> Self {
        self.source = key;
        self.origin = Origin::Span {
            aliases,
            event: Some(event),
        };
        self
    }

    /// Promoted from the resource attribute `key`.
    pub(crate) const fn resource(
        mut self,
        key: &'static str,
        aliases: &'static [&'static str],
    ) -> Self {
        self.source = key;
        self.origin = Origin::Resource { aliases };
        self
    }
}

impl ColumnType {
    /// The Arrow type.
    pub fn arrow(self) -> DataType {
        match self {
            Self::Date => DataType::Date32,
            Self::Time => time(),
            Self::Int => DataType::Int64,
            Self::Float => DataType::Float64,
            Self::Bool => DataType::Boolean,
            Self::Text => DataType::Utf8,
            Self::TextList => DataType::List(element(DataType::Utf8)),
            Self::Attributes => attributes(),
            Self::Events => DataType::List(element(DataType::Struct(event_fields()))),
            Self::Links => DataType::List(element(DataType::Struct(link_fields()))),
        }
    }
}

/// Item of a list, named as Delta names it.
pub(crate) fn element(data_type: DataType) -> FieldRef {
    Arc::new(Field::new("element", data_type, true))
}

/// Entry struct of a map, named as Delta and Parquet name it.
pub(crate) fn entries() -> FieldRef {
    let fields = Fields::from(vec![
        Field::new("key", DataType::Utf8, false),
        Field::new("value", DataType::Utf8, true),
    ]);
    Arc::new(Field::new("key_value", DataType::Struct(fields), false))
}

/// Fields of one event.
pub(crate) fn event_fields() -> Fields {
    Fields::from(vec![
        Field::new("time", time(), true),
        Field::new("time_unix_nano", DataType::Int64, true),
        Field::new("name", DataType::Utf8, true),
        Field::new("attributes", attributes(), true),
        Field::new("dropped_attributes_count", DataType::Int64, true),
    ])
}

/// Fields of one link.
pub(crate) fn link_fields() -> Fields {
    Fields::from(vec![
        Field::new("trace_id", DataType::Utf8, true),
        Field::new("span_id", DataType::Utf8, true),
        Field::new("trace_state", DataType::Utf8, true),
        Field::new("flags", DataType::Int64, true),
        Field::new("attributes", attributes(), true),
        Field::new("dropped_attributes_count", DataType::Int64, true),
    ])
}

fn attributes() -> DataType {
    DataType::Map(entries(), false)
}

fn time() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}
