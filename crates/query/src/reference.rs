//! What can be asked: every table, view and function, for `GET /v1/tables` and for `storage/README.md`.
//!
//! Tables and functions are told by the definitions that make them, views by the heads of their files.

mod page;

use serde::Serialize;

use crate::format::type_name;
use crate::functions::{FAMILIES, Function};
use crate::views::VIEWS;

pub(crate) use page::page;

/// Every table, view and function.
#[derive(Debug, Serialize)]
pub(crate) struct Reference {
    tables: Vec<Table>,
    views: Vec<Table>,
    functions: Vec<Told>,
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

/// A function of ours; those of DataFusion are documented there.
#[derive(Debug, Serialize)]
struct Told {
    name: &'static str,
    /// `scalar`: a value per row, `aggregate`: a value per group.
    kind: &'static str,
    family: &'static str,
    signature: String,
    r#type: String,
    doc: &'static str,
    /// When it gives NULL.
    null: &'static str,
    example: &'static str,
    gives: &'static str,
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
        functions: functions(),
    }
}

fn functions() -> Vec<Told> {
    let told = |family: &'static str, function: &Function| Told {
        name: function.name,
        kind: kind(function),
        family,
        signature: function.signature(),
        r#type: type_name(&function.returns()),
        doc: function.doc,
        null: function.null,
        example: function.example,
        gives: function.gives,
    };
    let families = FAMILIES.iter().flat_map(|(family, functions)| {
        functions.iter().map(move |function| told(family, function))
    });
    families.collect()
}

fn kind(function: &Function) -> &'static str {
    if function.is_aggregate() {
        "aggregate"
    } else {
        "scalar"
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
