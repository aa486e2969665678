//! The specification of a table, checked once against what Delta and Parquet can hold.
//!
//! Rules (`delta_kernel`'s Arrow conversion, Delta protocol "Schema Serialization Format"): no
//! unsigned, dictionary, fixed-size, duration or nanosecond types; the list item is called
//! `element`, map entries `key_value` with `key` and `value`. A type that Delta would hand back as
//! another one is refused here, so that the Parquet file and the table always agree.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use delta_kernel::engine::arrow_conversion::{TryFromArrow as _, TryIntoArrow as _};
use delta_kernel::schema::{StructField, StructType};
use parquet::errors::ParquetError;
use tables::PARTITION;

use crate::error::{ColumnProblem, Error, Result};

/// One key of the sort order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SortBy {
    /// Name of the column.
    pub(crate) column: &'static str,
    /// Largest first.
    pub(crate) descending: bool,
}

/// A checked table specification.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) name: &'static str,
    /// All columns, with the partition column.
    pub(crate) schema: SchemaRef,
    /// The columns of a Parquet file: all but the partition column.
    pub(crate) file_schema: SchemaRef,
    /// The same as `schema`, in the kernel's types.
    pub(crate) delta_schema: Arc<StructType>,
    /// Where the partition column is in `schema`.
    pub(crate) partition_idx: usize,
    /// Order of the rows in a file, without the partition column.
    pub(crate) sort: Vec<SortBy>,
    pub(crate) bloom: Vec<&'static str>,
    /// Columns without a dictionary.
    pub(crate) distinct: Vec<&'static str>,
    /// Columns with file level statistics in the log, without the partition column.
    pub(crate) stats: Vec<&'static str>,
}

impl Layout {
    pub(crate) fn of(spec: &'static tables::Spec) -> Result<Self> {
        let sort = spec
            .sort
            .iter()
            .map(|key| SortBy {
                column: key.column,
                descending: key.descending,
            })
            .collect();
        Self::new(
            spec.name,
            spec.schema(),
            sort,
            spec.bloom.to_vec(),
            spec.distinct().collect(),
            spec.stats.to_vec(),
        )
    }

    /// A file of the table that cannot be read.
    pub(crate) fn unreadable(&self, path: &str, source: ParquetError) -> Error {
        Error::ReadFile {
            table: self.name,
            path: path.to_owned(),
            source,
        }
    }

    pub(crate) fn new(
        name: &'static str,
        schema: SchemaRef,
        mut sort: Vec<SortBy>,
        bloom: Vec<&'static str>,
        distinct: Vec<&'static str>,
        mut stats: Vec<&'static str>,
    ) -> Result<Self> {
        sort.retain(|key| key.column != PARTITION);
        stats.retain(|column| *column != PARTITION);
        let refuse = |column: &str, problem| Error::UnsupportedColumn {
            table: name,
            column: column.to_owned(),
            problem,
        };
        let lists = [
            ("sort", sort.iter().map(|key| key.column).collect()),
            ("bloom", bloom.clone()),
            ("distinct", distinct.clone()),
            ("statistics", stats.clone()),
            ("partition", vec![PARTITION]),
        ];
        for (list, columns) in &lists {
            for column in columns {
                if schema.field_with_name(column).is_err() {
                    return Err(refuse(column, ColumnProblem::NotInSchema(list)));
                }
            }
        }
        let partition_idx = schema.index_of(PARTITION).unwrap_or_default();
        let partition_type = schema.field(partition_idx).data_type();
        if *partition_type != DataType::Date32 {
            let problem = ColumnProblem::PartitionType(partition_type.to_string());
            return Err(refuse(PARTITION, problem));
        }
        let delta_schema = delta_schema_of(&schema, refuse)?;
        let file_fields: Vec<_> = schema
            .fields()
            .iter()
            .filter(|field| field.name() != PARTITION)
            .cloned()
            .collect();
        Ok(Self {
            name,
            file_schema: Arc::new(Schema::new(file_fields)),
            schema,
            delta_schema: Arc::new(delta_schema),
            partition_idx,
            sort,
            bloom,
            distinct,
            stats,
        })
    }

    /// Compares the stored table with the specification: every column must be there with its type, but for
    /// [`Self::missing`] ones. Columns that the table has besides are left alone when they may be NULL: a newer
    /// version added them.
    pub(crate) fn check_stored(&self, stored: &StructType) -> Result<()> {
        for field in self.delta_schema.fields() {
            let found = stored.field(field.name());
            let fits = match found {
                Some(found) => {
                    found.data_type() == field.data_type()
                        && found.is_nullable() == field.is_nullable()
                }
                None => field.is_nullable(),
            };
            if !fits {
                return Err(Error::SchemaMismatch {
                    table: self.name,
                    column: field.name().clone(),
                    expected: described(field),
                    found: found.map_or_else(|| "missing".to_owned(), described),
                });
            }
        }
        let unknown = stored
            .fields()
            .find(|field| self.delta_schema.field(field.name()).is_none() && !field.is_nullable());
        match unknown {
            Some(field) => Err(Error::SchemaMismatch {
                table: self.name,
                column: field.name().clone(),
                expected: "no such column".to_owned(),
                found: described(field),
            }),
            None => Ok(()),
        }
    }

    /// Columns that an older version did not have; its rows have NULL in them.
    pub(crate) fn missing(&self, stored: &StructType) -> Vec<StructField> {
        let fields = self.delta_schema.fields();
        let missing =
            fields.filter(|field| field.is_nullable() && stored.field(field.name()).is_none());
        missing.cloned().collect()
    }
}

fn described(field: &StructField) -> String {
    let not_null = if field.is_nullable() { "" } else { " not null" };
    format!("{}{not_null}", field.data_type())
}

/// Converts to Delta's types and back; both ways must agree.
fn delta_schema_of(
    schema: &Schema,
    refuse: impl Fn(&str, ColumnProblem) -> Error,
) -> Result<StructType> {
    for field in schema.fields() {
        let alone = Schema::new(vec![Arc::clone(field)]);
        let no_type = |_| {
            refuse(
                field.name(),
                ColumnProblem::NoType(field.data_type().to_string()),
            )
        };
        let delta = StructType::try_from_arrow(&alone).map_err(no_type)?;
        let back: Schema = (&delta).try_into_arrow().map_err(no_type)?;
        let stored: &Field = back.field(0);
        if stored.data_type() != field.data_type() {
            let problem = ColumnProblem::TypeChanges(
                field.data_type().to_string(),
                stored.data_type().to_string(),
            );
            return Err(refuse(field.name(), problem));
        }
    }
    StructType::try_from_arrow(schema)
        .map_err(|error| refuse(PARTITION, ColumnProblem::NoType(error.to_string())))
}
