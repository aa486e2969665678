//! What can be asked: every table, view and function, for `GET /v1/tables` and for `storage/README.md`.
//!
//! Tables and functions are told by the definitions that make them, views by the heads of their files and, for types, by
//! their plans.

mod page;

use std::collections::BTreeSet;

use arrow::datatypes::DataType;
use datafusion::execution::session_state::SessionState;
use serde::Serialize;

use crate::engine::Listed;
use crate::format::type_name;
use crate::functions::{FAMILIES, Function};
use crate::views::{VIEWS, View};

pub(crate) use page::page;

/// Every table, view and function.
#[derive(Debug, Serialize)]
pub(crate) struct Reference {
    tables: Vec<Table>,
    views: Vec<Table>,
    functions: Vec<Told>,
    other_functions: Vec<Named>,
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

/// A function of DataFusion, by the name or another name that it has there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Named {
    name: String,
    /// As of [`Told`]; `window`: a value per row of a window, `table`: rows after `FROM`.
    kind: &'static str,
}

/// The functions of a session that are not ours, in the order of their names.
pub(crate) fn other_functions(state: &SessionState) -> Vec<Named> {
    let ours: BTreeSet<&str> = FAMILIES
        .iter()
        .flat_map(|(_, functions)| functions.iter().map(|function| function.name))
        .collect();
    let kinds: [(&'static str, Vec<&String>); 5] = [
        ("scalar", state.scalar_functions().keys().collect()),
        ("scalar", state.higher_order_functions().keys().collect()),
        ("aggregate", state.aggregate_functions().keys().collect()),
        ("window", state.window_functions().keys().collect()),
        ("table", state.table_functions().keys().collect()),
    ];
    let named = kinds.into_iter().flat_map(|(kind, names)| {
        names.into_iter().map(move |name| Named {
            name: name.clone(),
            kind,
        })
    });
    let named = named.filter(|named| !ours.contains(named.name.as_str()));
    named.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Everything that a statement can name, from the same definitions that make the tables. `listed` has the types of the
/// columns of views.
pub(crate) fn tables(listed: &[Listed], other_functions: Vec<Named>) -> Reference {
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
        columns: view_columns(view, listed),
    });
    Reference {
        tables: tables.collect(),
        views: views.collect(),
        functions: functions(),
        other_functions,
    }
}

fn view_columns(view: &View, listed: &[Listed]) -> Vec<Column> {
    let columns = view.columns().into_iter().map(|column| Column {
        name: column.name.to_owned(),
        r#type: planned_type(listed, view.name, column.name).map(type_name),
        // A plan does not know which of its columns are always there.
        nullable: None,
        unit: column.unit.map(str::to_owned),
        doc: column.doc.to_owned(),
    });
    columns.collect()
}

/// The type of a view's column, as planning has found it.
fn planned_type<'a>(listed: &'a [Listed], view: &str, column: &str) -> Option<&'a DataType> {
    let planned = listed.iter().find(|listed| listed.name == view)?;
    let field = planned.schema.field_with_name(column).ok()?;
    Some(field.data_type())
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
