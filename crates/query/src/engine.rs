//! A statement's way from text to rows.

use std::pin::Pin;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::catalog::SchemaProvider;
use datafusion::common::{Result as DataFusionResult, TableReference};
use datafusion::datasource::ViewTable;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::session_state::SessionState;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::SQLOptions;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;
use futures::StreamExt;
use lake::Lake;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::Sleep;

use crate::answer::{Answer, Produced};
use crate::catalog::{CATALOG, SCHEMA, StatementSchema};
use crate::config::Config;
use crate::error::{Error, Limits, Phase, Result};
use crate::executor::Executor;
use crate::profile;
use crate::session::{self, Sessions};
use crate::statement;
use crate::stop::{StopOnDrop, stoppable};
use crate::views::{VIEWS, View};

/// Batches between the executing thread and the reader. One is enough to keep both busy; more would
/// be memory that no limit counts.
const BATCHES_AHEAD: usize = 1;

/// Schema that DataFusion answers from the catalog itself.
const INFORMATION_SCHEMA: &str = "information_schema";

/// Answers SQL over a lake.
#[derive(Debug)]
pub struct Engine {
    shared: Arc<Shared>,
    executor: Executor,
    places: Arc<Semaphore>,
    queue: Arc<Semaphore>,
    config: Config,
}

/// What a statement's thread needs.
#[derive(Debug)]
struct Shared {
    lake: Arc<Lake>,
    sessions: Sessions,
    statement_bytes_max: usize,
    limits: Limits,
}

/// A planned statement whose rows are being made.
pub(crate) struct Started {
    pub(crate) schema: SchemaRef,
    pub(crate) produced: mpsc::Receiver<Produced>,
    pub(crate) stop: StopOnDrop,
}

impl Engine {
    /// An engine over the tables of `lake`. Starts its threads.
    ///
    /// # Errors
    ///
    /// [`Error::Threads`] if the system gives no threads, [`Error::Internal`] if DataFusion refuses
    /// the settings. `config` must have passed [`Config::validate`].
    pub fn new(lake: Arc<Lake>, config: &Config) -> Result<Self> {
        let limits = Limits {
            memory_mib: config.memory_mib,
            spill_mib: config.spill_mib,
        };
        let sessions =
            Sessions::new(lake.object_store(), config).map_err(|source| Error::Internal {
                source: Box::new(source),
            })?;
        let statements_max = config.statements_max.get();
        let queue_max = statements_max.saturating_add(config.statements_waiting_max);
        Ok(Self {
            shared: Arc::new(Shared {
                lake,
                sessions,
                statement_bytes_max: config.statement_bytes(),
                limits,
            }),
            executor: Executor::new(config.threads())?,
            places: Arc::new(Semaphore::new(statements_max)),
            queue: Arc::new(Semaphore::new(queue_max.min(Semaphore::MAX_PERMITS))),
            config: config.clone(),
        })
    }

    /// The limits in force.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Answers one statement with at most [`Config::rows_max`] rows.
    ///
    /// # Errors
    ///
    /// As [`Engine::answer`]; an error while streaming arrives as an external error that holds an
    /// [`Error`].
    pub async fn sql(&self, sql: &str) -> Result<SendableRecordBatchStream> {
        Ok(self.answer(sql, None).await?.into_stream())
    }

    /// Answers one statement with at most `rows` rows, and never more than [`Config::rows_max`].
    /// Must be called on a tokio runtime with its timer enabled.
    ///
    /// # Errors
    ///
    /// Everything that is known before the first row: [`Error::is_users_fault`] for statements that
    /// are refused or cannot be planned, [`Error::is_limit`] for limits.
    pub async fn answer(&self, sql: &str, rows: Option<u64>) -> Result<Answer> {
        let busy = Error::Busy {
            statements_max: self.config.statements_max.get(),
        };
        let Ok(queued) = Arc::clone(&self.queue).try_acquire_owned() else {
            return Err(busy);
        };
        let mut deadline = Box::pin(tokio::time::sleep(self.config.timeout));

        let place = Arc::clone(&self.places).acquire_owned();
        let place = self.within(&mut deadline, Phase::Waiting, place).await?;
        let place = place.map_err(|_closed| Error::Ended {
            phase: Phase::Waiting,
        })?;
        let held = Held {
            _place: place,
            _queued: queued,
        };

        let started = start(Arc::clone(&self.shared), sql.to_owned(), held);
        let started = self.executor.run_blocking(started);
        let started = self.within(&mut deadline, Phase::Planning, started).await?;
        let started = started.ok_or(Error::Ended {
            phase: Phase::Planning,
        })??;

        let rows_max = rows.unwrap_or(u64::MAX).min(self.config.rows_max);
        let timeout = self.config.timeout;
        Ok(Answer::new(started, deadline, timeout, rows_max))
    }

    async fn within<T>(
        &self,
        deadline: &mut Pin<Box<Sleep>>,
        phase: Phase,
        work: impl Future<Output = T>,
    ) -> Result<T> {
        tokio::select! {
            done = work => Ok(done),
            () = deadline => Err(Error::TimedOut { limit: self.config.timeout, phase }),
        }
    }
}

/// Places that a statement holds until its plan is freed, even if nobody waits for it any more.
struct Held {
    _place: OwnedSemaphorePermit,
    _queued: OwnedSemaphorePermit,
}

/// Plans, and begins to produce rows. Runs on the executor, so that deep trees are made, run and
/// freed on its stacks.
async fn start(shared: Arc<Shared>, sql: String, held: Held) -> Result<Started> {
    let (plan, state) = shared.plan(&sql).await?;
    let schema = plan.schema();
    let stop = StopOnDrop::default();
    let plan = stoppable(plan, &stop.flag())
        .map_err(|source| Error::from_datafusion(source, shared.limits))?;
    let (sender, produced) = mpsc::channel(BATCHES_AHEAD);
    let _detached = Handle::current().spawn(async move {
        produce(&shared, plan, &state, &sender).await;
        drop(state);
        drop(held);
    });
    Ok(Started {
        schema,
        produced,
        stop,
    })
}

/// Sends batches until the end, an error, or until the reader is gone.
async fn produce(
    shared: &Shared,
    plan: Arc<dyn ExecutionPlan>,
    state: &SessionState,
    sender: &mpsc::Sender<Produced>,
) {
    let failed = |source| Produced::Failed(Error::from_datafusion(source, shared.limits));
    let mut batches = match execute_stream(plan, state.task_ctx()) {
        Ok(batches) => batches,
        Err(source) => {
            // The reader may be gone; then nobody needs the error.
            sender.send(failed(source)).await.ok();
            return;
        }
    };
    loop {
        let next = tokio::select! {
            () = sender.closed() => return,
            next = batches.next() => next,
        };
        let (produced, is_last) = match next {
            Some(Ok(batch)) if batch.num_rows() == 0 => continue,
            Some(Ok(batch)) => (Produced::Batch(batch), false),
            Some(Err(source)) => (failed(source), true),
            None => (Produced::End, true),
        };
        if sender.send(produced).await.is_err() || is_last {
            return;
        }
    }
}

impl Shared {
    async fn plan(&self, sql: &str) -> Result<(Arc<dyn ExecutionPlan>, SessionState)> {
        let parsed = statement::parse(sql, self.statement_bytes_max)?;
        let fault = |source| Error::from_datafusion(source, self.limits);
        let names = StatementSchema::new(&self.lake);
        let mut state = self.sessions.open(names.catalogs()).map_err(fault)?;
        // `now()` is this instant in every part of the statement; without it DataFusion cannot plan it.
        state.mark_start_execution();
        add_views(&state, &names, &parsed).await?;

        let logical = state.statement_to_plan(parsed).await.map_err(fault)?;
        read_only().verify_plan(&logical).map_err(fault)?;
        session::set_profile(&mut state, profile::of(&logical).map_err(fault)?);
        let plan = state.create_physical_plan(&logical).await.map_err(fault)?;
        Ok((plan, state))
    }
}

fn read_only() -> SQLOptions {
    SQLOptions::new()
        .with_allow_ddl(false)
        .with_allow_dml(false)
        .with_allow_statements(false)
}

/// Plans the views that a statement names, and refuses names that do not exist.
async fn add_views(
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
    let is_function =
        reference.schema().is_none() && state.table_functions().contains_key(reference.table());
    (is_here && names.table_exist(reference.table())) || is_function
}

async fn add_all_views(state: &SessionState, names: &StatementSchema) -> Result<()> {
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
