//! The names that a statement uses: views are planned, and what does not exist is refused.

use std::sync::Arc;

use datafusion::catalog::SchemaProvider;
use datafusion::common::{Result as DataFusionResult, TableReference};
use datafusion::datasource::ViewTable;
use datafusion::execution::session_state::SessionState;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;

use crate::catalog::{CATALOG, POSTGRES_SCHEMA, SCHEMA, StatementSchema};
use crate::error::{Error, Result};
use crate::views::{VIEWS, View};

/// Schema that DataFusion answers from the catalog itself.
const INFORMATION_SCHEMA: &str = "information_schema";

/// Plans the views that a statement names, and refuses names that do not exist.
pub(crate) async fn add_views(
    state: &SessionState,
    names: &StatementSchema,
    parsed: &Statement,
) -> Result<()> {
    let references = state
        .resolve_table_references(parsed)
        .map_err(|source| Error::Syntax {
            source: Box::new(source),
        })?;
    for reference in &references {
        if reference.schema() == Some(INFORMATION_SCHEMA) {
            add_all_views(state, names).await?;
            continue;
        }
        if !exists(state, names, reference) {
            return Err(Error::UnknownTable {
                name: reference.to_string(),
                known: names.names(),
            });
        }
        if let Some(position) = VIEWS.iter().position(|view| view.name == reference.table()) {
            add_view(state, names, position).await?;
        }
    }
    let is_query = |sql: &SqlStatement| matches!(sql, SqlStatement::Query(_));
    if matches!(parsed, Statement::Statement(sql) if !is_query(sql)) {
        // SHOW and DESCRIBE are answered from the catalog.
        add_all_views(state, names).await?;
    }
    Ok(())
}

fn exists(state: &SessionState, names: &StatementSchema, reference: &TableReference) -> bool {
    let is_here = reference.catalog().is_none_or(|catalog| catalog == CATALOG)
        && reference.schema().is_none_or(|schema| schema == SCHEMA);
    let is_of_postgres =
        reference.schema() == Some(POSTGRES_SCHEMA) && names.has_postgres_table(reference.table());
    let is_function =
        reference.schema().is_none() && state.table_functions().contains_key(reference.table());
    (is_here && names.table_exist(reference.table())) || is_of_postgres || is_function
}

pub(crate) async fn add_all_views(state: &SessionState, names: &StatementSchema) -> Result<()> {
    for position in 0..VIEWS.len() {
        add_view(state, names, position).await?;
    }
    Ok(())
}

/// Plans the view at a position of [`VIEWS`] and, before it, the views that it can use.
async fn add_view(state: &SessionState, names: &StatementSchema, position: usize) -> Result<()> {
    let (Some(wanted), Some(before)) = (VIEWS.get(position), VIEWS.get(..position)) else {
        return Ok(());
    };
    let mut needed: Vec<&View> = before
        .iter()
        .filter(|view| wanted.sql.contains(view.name))
        .collect();
    needed.push(wanted);
    for view in needed {
        if !names.has_view(view.name) {
            let provider = plan_view(state, view).await.map_err(|source| Error::View {
                name: view.name,
                source: Box::new(source),
            })?;
            names.add_view(view.name, Arc::new(provider));
        }
    }
    Ok(())
}

async fn plan_view(state: &SessionState, view: &View) -> DataFusionResult<ViewTable> {
    let plan = state.create_logical_plan(view.sql).await?;
    Ok(ViewTable::new(plan, Some(view.sql.to_owned())))
}
