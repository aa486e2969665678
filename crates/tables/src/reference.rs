//! The stored contract as Markdown.

use crate::{
    column::{Column, ColumnType, Origin, Spec},
    traces::LossFlag,
};

/// What holds for every table.
const HEAD: &str = "\
# The stored contract

Generated from the code (crates `tables` and `query`, and the heads of `storage/views/*.sql`);
`UPDATE_EXPECT=1 cargo test --workspace --lib the_page_in_storage` writes it anew.

Delta tables, one folder each below the path of the `lake` exporter. NULL means not measured, never 0.
Times are UTC in microseconds, with a `*_unix_nano` column where nanoseconds matter; ids are lower-case
hex; units come last in a name. Behind the tables are the views over them, and the functions that SQL has
here beside those of DataFusion.

";

/// Markdown of all tables, one section each: the first part of `storage/README.md`.
pub fn reference() -> String {
    let mut page = String::from(HEAD);
    for spec in crate::all() {
        write_table(spec, &mut page);
    }
    let flags = LossFlag::ALL.map(LossFlag::as_str);
    page.push_str(&format!("`traces.loss_flags`: {}.\n", quoted(&flags)));
    page
}

fn write_table(spec: &Spec, page: &mut String) {
    let sort = spec.sort.iter().map(|key| {
        let order = if key.descending { " descending" } else { "" };
        format!("`{}`{order}", key.column)
    });
    let sort = sort.collect::<Vec<_>>().join(", ");
    let bloom = match spec.bloom {
        [] => "no bloom filters".to_owned(),
        columns => format!("bloom filters on {}", quoted(columns)),
    };
    page.push_str(&format!(
        "## `{}`\n\n{}\n\nPartitioned by `{}`, sorted by {sort}, {bloom}, file statistics on \
         {}, kept {} days.\n\n",
        spec.name,
        spec.doc,
        crate::PARTITION,
        quoted(spec.stats),
        spec.retention_days,
    ));
    page.push_str("| column | type | unit | meaning | source |\n| --- | --- | --- | --- | --- |\n");
    for column in spec.columns {
        let null = if column.nullable { "" } else { " NOT NULL" };
        page.push_str(&format!(
            "| `{}` | {}{null} | {} | {} | {} |\n",
            column.name,
            sql_type(column.data_type),
            column.unit,
            column.doc,
            source(column),
        ));
    }
    page.push('\n');
}

fn source(column: &Column) -> String {
    match column.origin {
        Origin::Row => column.source.to_owned(),
        Origin::Resource { aliases } => {
            format!("resource attribute {}", spellings(column.source, aliases))
        }
        Origin::Span { aliases, event } => {
            let event = event.map(|(event, key)| format!("; event `{event}`: `{key}`"));
            let spellings = spellings(column.source, aliases);
            format!("span attribute {spellings}{}", event.unwrap_or_default())
        }
    }
}

fn spellings(canonical: &str, aliases: &[&str]) -> String {
    let mut keys = vec![canonical];
    keys.extend(aliases);
    quoted(&keys)
}

fn quoted(names: &[&str]) -> String {
    let names = names.iter().map(|name| format!("`{name}`"));
    names.collect::<Vec<_>>().join(", ")
}

const fn sql_type(data_type: ColumnType) -> &'static str {
    match data_type {
        ColumnType::Date => "DATE",
        ColumnType::Time => "TIMESTAMP",
        ColumnType::Int => "BIGINT",
        ColumnType::Float => "DOUBLE",
        ColumnType::Bool => "BOOLEAN",
        ColumnType::Text => "VARCHAR",
        ColumnType::TextList => "VARCHAR[]",
        ColumnType::Attributes => "MAP(VARCHAR, VARCHAR)",
        ColumnType::Events => {
            "STRUCT(time, time_unix_nano, name, attributes, dropped_attributes_count)[]"
        }
        ColumnType::Links => {
            "STRUCT(trace_id, span_id, trace_state, flags, attributes, dropped_attributes_count)[]"
        }
    }
}
