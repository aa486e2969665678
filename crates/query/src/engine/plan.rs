//! From the text of a statement to its plan, in a session of its own.
//!
//! It must not know places, threads or time limits: its caller bounds what it takes.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::catalog::SchemaProvider;
use datafusion::common::ParamValues;
use datafusion::common::metadata::ScalarAndMetadata;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{LogicalPlan, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SQLOptions;
use lake::Lake;
use tokio::sync::OnceCell;

use super::Listed;
use crate::catalog::StatementSchema;
use crate::error::{Error, Limits, Result};
use crate::naming::{add_all_views, add_views};
use crate::pg_catalog::PostgresCatalog;
use crate::profile;
use crate::question::{Described, Dialect, PARAMETERS_MAX, Question};
use crate::scan::InMemory;
use crate::session::{self, Sessions};
use crate::statement;

/// What a statement's thread needs.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) lake: Arc<Lake>,
    pub(super) kept: Arc<InMemory>,
    pub(super) sessions: Sessions,
    pub(super) postgres: OnceCell<PostgresCatalog>,
    pub(super) statement_bytes_max: usize,
    pub(super) limits: Limits,
}

impl Shared {
    pub(super) async fn plan(
        &self,
        question: &Question,
    ) -> Result<(Arc<dyn ExecutionPlan>, SessionState)> {
        let fault = |source| Error::from_datafusion(source, self.limits);
        let (logical, mut state) = self.logical(question).await?;
        let logical = match &question.parameters {
            parameters if parameters.is_empty() => logical,
            parameters => {
                let values = parameters.clone().into_iter().map(ScalarAndMetadata::from);
                let values = ParamValues::List(values.collect());
                logical.with_param_values(values).map_err(fault)?
            }
        };
        session::set_profile(&mut state, profile::of(&logical).map_err(fault)?);
        let plan = state.create_physical_plan(&logical).await.map_err(fault)?;
        Ok((plan, state))
    }

    pub(super) async fn describe(&self, question: &Question) -> Result<Described> {
        let (logical, _state) = self.logical(question).await?;
        let open = logical
            .get_parameter_types()
            .map_err(|source| Error::from_datafusion(source, self.limits))?;
        Ok(Described {
            schema: Arc::clone(logical.schema().inner()),
            parameters: numbered(open),
        })
    }

    /// The plan of a statement that is known to be a query, in a session of its own.
    async fn logical(&self, question: &Question) -> Result<(LogicalPlan, SessionState)> {
        let (sql, bytes_max) = (question.sql.as_str(), self.statement_bytes_max);
        let fault = |source| Error::from_datafusion(source, self.limits);
        let names = StatementSchema::new(&self.lake, &self.kept);
        let said = question.said.as_deref();
        let (parsed, is_postgres) = match question.dialect {
            Dialect::Own => (statement::parse(sql, bytes_max, said)?, false),
            Dialect::Postgres => statement::parse_postgres(sql, bytes_max, said)?,
        };
        let mut state = if is_postgres {
            let postgres = self.postgres(&names).await?;
            let catalogs = names.catalogs_with(postgres.tables());
            let opened = self.sessions.open(postgres.base(), catalogs);
            opened.map_err(fault)?
        } else {
            let catalogs = names.catalogs();
            let opened = self.sessions.open(self.sessions.base(), catalogs);
            opened.map_err(fault)?
        };
        // `now()` is this instant in every part of the statement; without it DataFusion cannot plan it.
        state.mark_start_execution();
        add_views(&state, &names, &parsed).await?;

        let logical = state.statement_to_plan(parsed).await.map_err(fault)?;
        read_only().verify_plan(&logical).map_err(fault)?;
        Ok((logical, state))
    }

    pub(super) async fn tables(&self) -> Result<Vec<Listed>> {
        let fault = |source| Error::from_datafusion(source, self.limits);
        let names = StatementSchema::new(&self.lake, &self.kept);
        let state = self.sessions.open(self.sessions.base(), names.catalogs());
        add_all_views(&state.map_err(fault)?, &names).await?;
        let mut listed = Vec::new();
        for name in names.names() {
            let table_type = names.table_type(&name).await.map_err(fault)?;
            if let Some(table) = names.table(&name).await.map_err(fault)? {
                listed.push(Listed {
                    is_view: table_type == Some(TableType::View),
                    schema: table.schema(),
                    name,
                });
            }
        }
        Ok(listed)
    }

    /// What statements about the Postgres catalog need beside the tables; made by the first of them.
    async fn postgres(&self, names: &Arc<StatementSchema>) -> Result<&PostgresCatalog> {
        let fault = |source| Error::from_datafusion(source, self.limits);
        let made = self.postgres.get_or_try_init(|| async {
            let state = self
                .sessions
                .open(self.sessions.base(), names.catalogs())
                .map_err(fault)?;
            add_all_views(&state, names).await?;
            PostgresCatalog::new(self.sessions.base(), names)
                .await
                .map_err(fault)
        });
        made.await
    }
}

/// Types by number: `$1` is the first. A statement that skips a number leaves its type open.
fn numbered(open: HashMap<String, Option<DataType>>) -> Vec<Option<DataType>> {
    let mut types: Vec<Option<DataType>> = Vec::new();
    for (name, data_type) in open {
        let number = name
            .strip_prefix('$')
            .and_then(|digits| digits.parse().ok());
        let Some(number @ 1..=PARAMETERS_MAX) = number else {
            continue;
        };
        if types.len() < number {
            types.resize(number, None);
        }
        if let Some(place) = types.get_mut(number - 1) {
            *place = data_type;
        }
    }
    types
}

fn read_only() -> SQLOptions {
    SQLOptions::new()
        .with_allow_ddl(false)
        .with_allow_dml(false)
        .with_allow_statements(false)
}
