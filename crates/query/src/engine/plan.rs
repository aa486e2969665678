//! From the text of a statement to its plan, in a session of its own.
//!
//! It must not know places, threads or time limits: its caller bounds what it takes.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::catalog::SchemaProvider;
use datafusion::common::ParamValues;
use datafusion::common::metadata::ScalarAndMetadata;
use datafusion::execution::TaskContext;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{LogicalPlan, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SQLOptions;
use datafusion::sql::parser::Statement;
use lake::Lake;
use tokio::sync::OnceCell;

use super::Listed;
use crate::catalog::StatementSchema;
use crate::error::{Error, Limits, Result};
use crate::naming::{add_all_views, add_views};
use crate::pg_catalog::PostgresCatalog;
use crate::plans::{Plan, Plans};
use crate::profile::{self, Profile};
use crate::question::{Described, Dialect, PARAMETERS_MAX, Question};
use crate::scan::InMemory;
use crate::session::{self, Sessions};
use crate::statement::{self, Shape};

/// What a statement's thread needs.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) lake: Arc<Lake>,
    pub(super) kept: Arc<InMemory>,
    pub(super) sessions: Sessions,
    pub(super) plans: Plans,
    pub(super) postgres: OnceCell<PostgresCatalog>,
    pub(super) statement_bytes_max: usize,
    pub(super) limits: Limits,
}

/// A statement before it is planned.
struct Opened {
    parsed: Statement,
    is_postgres: bool,
    names: Arc<StatementSchema>,
    state: SessionState,
}

/// A statement's plan before files are looked at.
struct Planned {
    logical: LogicalPlan,
    is_optimized: bool,
    profile: Profile,
}

impl Shared {
    pub(super) async fn plan(
        &self,
        question: &Question,
    ) -> Result<(Arc<dyn ExecutionPlan>, Arc<TaskContext>)> {
        let fault = |source| Error::from_datafusion(source, self.limits);
        let opened = self.open(question).await?;
        let planned = match self.known(&opened, question).await {
            Some(planned) => planned,
            None => self.unknown(&opened, question).await?,
        };
        let mut state = opened.state;
        session::set_profile(&mut state, planned.profile);
        let logical = &planned.logical;
        let plan = if planned.is_optimized {
            state
                .query_planner()
                .create_physical_plan(logical, &state)
                .await
        } else {
            state.create_physical_plan(logical).await
        };
        let context = self.sessions.context(&state).map_err(fault)?;
        Ok((plan.map_err(fault)?, context))
    }

    pub(super) async fn describe(&self, question: &Question) -> Result<Described> {
        let opened = self.open(question).await?;
        let logical = self.logical(&opened, opened.parsed.clone()).await?;
        let open = logical
            .get_parameter_types()
            .map_err(|source| Error::from_datafusion(source, self.limits))?;
        Ok(Described {
            schema: Arc::clone(logical.schema().inner()),
            parameters: numbered(open),
        })
    }

    /// The plan of a statement whose shape was asked before, or is known from now on.
    async fn known(&self, opened: &Opened, question: &Question) -> Option<Planned> {
        if opened.is_postgres || !question.parameters.is_empty() {
            return None;
        }
        let shape = Shape::of(&opened.parsed)?;
        let plan = match self.plans.get(&shape.text) {
            Some(plan) => plan?,
            None => {
                // Where it fails, the statement as it was asked fails too, and says so in its own words.
                let logical = self.logical(opened, shape.statement).await.ok()?;
                let plan = Plan::of(logical, &opened.state).ok()?.map(Arc::new);
                self.plans.keep(shape.text, plan.clone());
                plan?
            }
        };
        Some(Planned {
            logical: plan.bound(&opened.names, &shape.ids).ok()?,
            is_optimized: plan.is_optimized,
            profile: plan.profile,
        })
    }

    /// The plan of a statement as it was asked.
    async fn unknown(&self, opened: &Opened, question: &Question) -> Result<Planned> {
        let fault = |source| Error::from_datafusion(source, self.limits);
        let logical = self.logical(opened, opened.parsed.clone()).await?;
        let logical = match &question.parameters {
            parameters if parameters.is_empty() => logical,
            parameters => {
                let values = parameters.clone().into_iter().map(ScalarAndMetadata::from);
                let values = ParamValues::List(values.collect());
                logical.with_param_values(values).map_err(fault)?
            }
        };
        Ok(Planned {
            profile: profile::of(&logical).map_err(fault)?,
            logical,
            is_optimized: false,
        })
    }

    /// A statement that is known to be a query, and a session of its own.
    async fn open(&self, question: &Question) -> Result<Opened> {
        let (sql, bytes_max) = (question.sql.as_str(), self.statement_bytes_max);
        let names = StatementSchema::new(&self.lake, &self.kept);
        let said = question.said.as_deref();
        let (parsed, is_postgres) = match question.dialect {
            Dialect::Own => (statement::parse(sql, bytes_max, said)?, false),
            Dialect::Postgres => statement::parse_postgres(sql, bytes_max, said)?,
        };
        let mut state = if is_postgres {
            let postgres = self.postgres(&names).await?;
            let catalogs = names.catalogs_with(postgres.tables());
            Sessions::open(postgres.base(), catalogs)
        } else {
            let catalogs = names.catalogs();
            Sessions::open(self.sessions.base(), catalogs)
        };
        // `now()` is this instant in every part of the statement; without it DataFusion cannot plan it.
        state.mark_start_execution();
        Ok(Opened {
            parsed,
            is_postgres,
            names,
            state,
        })
    }

    async fn logical(&self, opened: &Opened, parsed: Statement) -> Result<LogicalPlan> {
        let fault = |source| Error::from_datafusion(source, self.limits);
        add_views(&opened.state, &opened.names, &parsed).await?;
        let logical = opened.state.statement_to_plan(parsed).await;
        let logical = logical.map_err(fault)?;
        read_only().verify_plan(&logical).map_err(fault)?;
        Ok(logical)
    }

    pub(super) async fn tables(&self) -> Result<Vec<Listed>> {
        let fault = |source| Error::from_datafusion(source, self.limits);
        let names = StatementSchema::new(&self.lake, &self.kept);
        let state = Sessions::open(self.sessions.base(), names.catalogs());
        add_all_views(&state, &names).await?;
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
            let state = Sessions::open(self.sessions.base(), names.catalogs());
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
