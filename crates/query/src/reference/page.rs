//! The reference as Markdown: `storage/README.md`, which a test compares.

use arrow::datatypes::DataType;

use super::{kind, planned_type};
use crate::engine::Listed;
use crate::functions::{FAMILIES, Function};
use crate::views::{VIEWS, View};

/// The whole page. `listed` has the types of the columns of views, which planning decides.
pub(crate) fn page(listed: &[Listed]) -> String {
    let mut page = tables::reference();
    page.push_str(
        "\n# Views\n\nEach is a file in `storage/views`, whose head says what is here. A view can be used like a table.\n",
    );
    for view in VIEWS {
        write_view(view, listed, &mut page);
    }
    page.push_str(
        "\n# Functions\n\nBeside the functions of DataFusion there are these, in every statement and at every door. A wrong type of \
         argument is\nan error of the statement; an argument that is NULL gives NULL, and aggregates ignore it. HISTOGRAM is the \
         `STRUCT(le, count)[]`\nthat `latency_histogram` makes.\n",
    );
    for (family, functions) in FAMILIES {
        page.push_str(&format!("\n## {family}\n"));
        for function in functions {
            write_function(function, &mut page);
        }
    }
    page
}

fn write_view(view: &View, listed: &[Listed], page: &mut String) {
    let (name, question) = (view.name, view.question());
    page.push_str(&format!(
        "\n## `{name}`\n\n{question}\n\n| column | type | unit | meaning |\n| --- | --- | --- | --- |\n"
    ));
    for column in view.columns() {
        let planned = planned_type(listed, view.name, column.name);
        let sql_type = planned.map_or(String::new(), sql_type);
        let (name, unit, doc) = (
            column.name,
            column.unit.unwrap_or_default(),
            cell(column.doc),
        );
        page.push_str(&format!("| `{name}` | {sql_type} | {unit} | {doc} |\n"));
    }
    page.push_str(&format!("\n```sql\n{}\n```\n", view.example()));
}

fn write_function(function: &Function, page: &mut String) {
    let returns = sql_type(&function.returns());
    let (signature, kind) = (function.signature(), kind(function));
    let (doc, null) = (function.doc, function.null);
    let (example, gives) = (function.example, function.gives);
    page.push_str(&format!(
        "\n### `{}`\n\n`{signature}` gives {returns}, {kind}. {doc}\n\nNULL: {null}\n\n```sql\n{example}\n-- {gives}\n```\n",
        function.name
    ));
}

/// A text that does not end a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// A type as SQL names it, in the words of the tables.
fn sql_type(data_type: &DataType) -> String {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "VARCHAR".to_owned(),
        DataType::Int64 => "BIGINT".to_owned(),
        DataType::UInt64 => "BIGINT UNSIGNED".to_owned(),
        DataType::Int32 => "INTEGER".to_owned(),
        DataType::Float64 => "DOUBLE".to_owned(),
        DataType::Boolean => "BOOLEAN".to_owned(),
        DataType::Date32 => "DATE".to_owned(),
        DataType::Timestamp(..) => "TIMESTAMP".to_owned(),
        DataType::Interval(_) => "INTERVAL".to_owned(),
        DataType::List(item) => format!("{}[]", sql_type(item.data_type())),
        DataType::Struct(fields) => {
            let names = fields.iter().map(|field| field.name().as_str());
            format!("STRUCT({})", names.collect::<Vec<_>>().join(", "))
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) => {
                let types = fields.iter().map(|field| sql_type(field.data_type()));
                format!("MAP({})", types.collect::<Vec<_>>().join(", "))
            }
            other => format!("MAP({})", sql_type(other)),
        },
        other => other.to_string(),
    }
}
