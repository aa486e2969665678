//! What can be asked: every table, view and column, for `GET /v1/tables`.

use serde::Serialize;

use crate::format::type_name;
use crate::views::VIEWS;

/// Every table and view.
#[derive(Debug, Serialize)]
pub(crate) struct Reference {
    tables: Vec<Table>,
    views: Vec<Table>,
}

#[derive(Debug, Serialize)]
struct Table {
    name: String,
    doc: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    example: Option<String>,
    columns: Vec<Column>,
}

#[derive(Debug, Serialize)]
struct Column {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    r#type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nullable: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<String>,
    doc: String,
}

/// Everything that a statement can name, from the same definitions that make the tables.
pub(crate) fn tables() -> Reference {
    let tables = tables::all().into_iter().map(|spec| Table {
        name: spec.name.to_owned(),
        doc: spec.doc.to_owned(),
        example: None,
        columns: spec.columns.iter().map(table_column).collect(),
    });
    let views = VIEWS.iter().map(|view| Table {
        name: view.name.to_owned(),
        doc: view.question(),
        example: Some(view.example()),
        columns: view
            .columns()
            .into_iter()
            .map(|column| Column {
                name: column.name.to_owned(),
                r#type: None,
                nullable: None,
                unit: column.unit.map(str::to_owned),
                doc: column.doc.to_owned(),
            })
            .collect(),
    });
    Reference {
        tables: tables.collect(),
        views: views.collect(),
    }
}

fn table_column(column: &tables::Column) -> Column {
    Column {
        name: column.name.to_owned(),
        r#type: Some(type_name(&column.data_type.arrow())),
        nullable: Some(column.nullable),
        unit: Some(column.unit)
            .filter(|unit| !unit.is_empty())
            .map(str::to_owned),
        doc: column.doc.to_owned(),
    }
}
