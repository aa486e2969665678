//! What there is to ask, and what this server can.

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema};
use arrow_flight::error::FlightError;
use arrow_flight::sql::metadata::{
    SqlInfoData, SqlInfoDataBuilder, XdbcTypeInfo, XdbcTypeInfoData, XdbcTypeInfoDataBuilder,
};
use arrow_flight::sql::{
    CommandGetTables, Nullable, Searchable, SqlInfo, SqlSupportedCaseSensitivity,
    SqlSupportedTransaction, XdbcDataType, XdbcDatetimeSubcode,
};

use crate::catalog::{CATALOG, SCHEMA};
use crate::engine::Listed;

/// Kinds of tables.
pub(crate) const TABLE: &str = "TABLE";
pub(crate) const VIEW: &str = "VIEW";

/// Most facts that are asked for at once; there are some hundred.
pub(crate) const INFOS_MAX: usize = 1_000;

/// The tables that a client asks for.
pub(crate) fn tables(
    query: CommandGetTables,
    tables: &[Listed],
) -> Result<RecordBatch, FlightError> {
    let mut builder = query.into_builder();
    for table in tables {
        let kind = if table.is_view { VIEW } else { TABLE };
        builder.append(CATALOG, SCHEMA, &table.name, kind, &table.schema)?;
    }
    builder.build()
}

/// What this server is and can.
pub(crate) fn sql_info() -> Result<SqlInfoData, FlightError> {
    let mut infos = SqlInfoDataBuilder::new();
    infos.append(SqlInfo::FlightSqlServerName, "Whyslow");
    infos.append(SqlInfo::FlightSqlServerVersion, env!("CARGO_PKG_VERSION"));
    // Of the format, not of a library.
    infos.append(SqlInfo::FlightSqlServerArrowVersion, "1.5");
    infos.append(SqlInfo::FlightSqlServerReadOnly, true);
    infos.append(SqlInfo::FlightSqlServerSql, true);
    infos.append(SqlInfo::FlightSqlServerSubstrait, false);
    let no_transactions = SqlSupportedTransaction::None as i32;
    infos.append(SqlInfo::FlightSqlServerTransaction, no_transactions);
    infos.append(SqlInfo::FlightSqlServerCancel, false);
    infos.append(SqlInfo::FlightSqlServerBulkIngestion, false);
    infos.append(SqlInfo::SqlDdlCatalog, false);
    infos.append(SqlInfo::SqlDdlSchema, false);
    infos.append(SqlInfo::SqlDdlTable, false);
    let lower = SqlSupportedCaseSensitivity::SqlCaseSensitivityLowercase as i32;
    infos.append(SqlInfo::SqlIdentifierCase, lower);
    infos.append(SqlInfo::SqlIdentifierQuoteChar, "\"");
    infos.build()
}

/// The types of columns here.
pub(crate) fn types() -> Result<XdbcTypeInfoData, FlightError> {
    let mut types = XdbcTypeInfoDataBuilder::new();
    for (name, data_type, size) in [
        ("BOOLEAN", XdbcDataType::XdbcBit, Some(1)),
        ("BIGINT", XdbcDataType::XdbcBigint, Some(19)),
        ("INTEGER", XdbcDataType::XdbcInteger, Some(10)),
        ("DOUBLE", XdbcDataType::XdbcDouble, Some(15)),
        ("VARCHAR", XdbcDataType::XdbcVarchar, None),
        ("DATE", XdbcDataType::XdbcDate, Some(10)),
        ("TIMESTAMP", XdbcDataType::XdbcTimestamp, Some(32)),
    ] {
        let quote = match data_type {
            XdbcDataType::XdbcVarchar | XdbcDataType::XdbcDate | XdbcDataType::XdbcTimestamp => {
                Some("'".to_owned())
            }
            _ => None,
        };
        let is_number = matches!(
            data_type,
            XdbcDataType::XdbcBigint | XdbcDataType::XdbcInteger | XdbcDataType::XdbcDouble
        );
        types.append(XdbcTypeInfo {
            type_name: name.to_owned(),
            data_type,
            column_size: size,
            literal_prefix: quote.clone(),
            literal_suffix: quote,
            create_params: None,
            nullable: Nullable::NullabilityNullable,
            case_sensitive: data_type == XdbcDataType::XdbcVarchar,
            searchable: Searchable::Full,
            unsigned_attribute: is_number.then_some(false),
            fixed_prec_scale: false,
            auto_increment: is_number.then_some(false),
            local_type_name: None,
            minimum_scale: None,
            maximum_scale: None,
            sql_data_type: data_type,
            datetime_subcode: None::<XdbcDatetimeSubcode>,
            num_prec_radix: is_number.then_some(10),
            interval_precision: None,
        });
    }
    types.build()
}

/// Columns of a list of primary keys, of which there are none.
pub(crate) fn primary_keys() -> Schema {
    Schema::new(vec![
        Field::new("catalog_name", DataType::Utf8, true),
        Field::new("db_schema_name", DataType::Utf8, true),
        Field::new("table_name", DataType::Utf8, false),
        Field::new("column_name", DataType::Utf8, false),
        Field::new("key_name", DataType::Utf8, true),
        Field::new("key_sequence", DataType::Int32, false),
    ])
}

/// Columns of a list of foreign keys, of which there are none.
pub(crate) fn foreign_keys() -> Schema {
    Schema::new(vec![
        Field::new("pk_catalog_name", DataType::Utf8, true),
        Field::new("pk_db_schema_name", DataType::Utf8, true),
        Field::new("pk_table_name", DataType::Utf8, false),
        Field::new("pk_column_name", DataType::Utf8, false),
        Field::new("fk_catalog_name", DataType::Utf8, true),
        Field::new("fk_db_schema_name", DataType::Utf8, true),
        Field::new("fk_table_name", DataType::Utf8, false),
        Field::new("fk_column_name", DataType::Utf8, false),
        Field::new("key_sequence", DataType::Int32, false),
        Field::new("fk_key_name", DataType::Utf8, true),
        Field::new("pk_key_name", DataType::Utf8, true),
        Field::new("update_rule", DataType::UInt8, false),
        Field::new("delete_rule", DataType::UInt8, false),
    ])
}
